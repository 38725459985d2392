"""Scatter of points with their Pareto front."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from stacksweep.analysis import pareto as front_of
from stacksweep.analysis.points import check_dataset
from stacksweep.columns import Array
from stacksweep.parameters import ParameterError
from stacksweep.plot import choose, palette, quantities
from stacksweep.results import ALONG

CELLS = (400, 300)
"""Cells that many points are thinned to, one point for each: about what a figure can show."""

MANY = 20_000
"""Points that are drawn without being thinned."""


def pareto(
    ds: xr.Dataset,
    x: str,
    y: str,
    hue: str | None = None,
    *,
    minimize: str | Sequence[str] = (),
    maximize: str | Sequence[str] = (),
    sel: Mapping[str, Any] | None = None,
    where: xr.DataArray | None = None,
    ax: Axes | None = None,
) -> Axes:
    """
    Scatter the points over two objectives, with the front that no point dominates.

    Parameters
    ----------
    ds : xarray.Dataset
        As `sweep` makes it, or any other.
    x, y : str
        Numeric variables or coordinates.
    hue : str, optional
        Dimension, or coordinate along one, that colours the points.
    minimize, maximize : str or sequence of str
        Of x and y those of which less, or more, is better; for most results of a sweep it is known.
    sel : mapping, optional
        Labels of dimensions, as of `Dataset.sel`.
    where : xarray.DataArray of bool, optional
        Points that count.
    ax : matplotlib.axes.Axes, optional
        Where to draw; the current Axes by default.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ParameterError
        If `ds` does not have what is named, or a direction is not known.

    Notes
    -----
    The front is that of all points. Of more than 20,000 points one is drawn in each of 400 × 300 cells of the picture,
    which changes nothing that can be seen; the legend says so. Points are drawn as pixels in vector files, the front is
    not. Points that do not fit in the memory are pale, where `ds` has `fits`, and those of the front are hollow.

    Examples
    --------
    >>> import stacksweep as ss
    >>> from stacksweep import plot
    >>> ds = ss.sweep(model="llama-3.1-8b", memory="fictional_stacked_dram", layers=[8, 16], batch_size=[1, 8, 64])
    >>> plot.pareto(ds, x="ttft", y="tps", where=ds.fits).get_xlabel()
    'time to first token (ms)'
    """
    check_dataset(ds)
    allowed = choose.condition_of(ds, where, sel)
    ds, notes = choose.select(ds, sel)
    for argument, name in (("x", x), ("y", y)):
        choose.check_number(ds, argument, name)
        for along in ALONG:
            if along in ds[name].dims:
                known = choose.there_are("", ds[along].values.tolist())
                raise ParameterError(f"sel: {name!r} has a value for each {along}; choose one{known}")
    if x == y:
        raise ParameterError(f"y: got {y!r}, which is x too; needs another")
    least = choose.names_of("minimize", minimize, (x, y))
    most = choose.names_of("maximize", maximize, (x, y))
    higher = [choose.higher_is_better(argument, name, least, most) for argument, name in (("x", x), ("y", y))]
    down = [name for name, up in zip((x, y), higher, strict=True) if not up]
    up = [name for name, more in zip((x, y), higher, strict=True) if more]
    # of a file or a lazy Dataset, read or price only these, and once
    ds = ds[[name for name in dict.fromkeys((x, y, "valid", "fits")) if name in ds.data_vars]].compute()
    front = front_of(ds, minimize=down, maximize=up, where=allowed)

    hue_values = None if hue is None else choose.axis_of(ds, "hue", hue)[1]
    table = _flat(ds, x, y, allowed, hue_values)
    ax = plt.gca() if ax is None else ax
    for axis, name, set_scale in ((ax.xaxis, x, ax.set_xscale), (ax.yaxis, y, ax.set_yscale)):
        if quantities.is_wide(table[name]):
            set_scale("log")
        quantities.put(axis, ds[name], table[name])
    drawn = _thinned(ax, table, x, y)
    _cloud(ax, drawn, x, y, hue_values)
    _front(ax, front, x, y, higher)
    ax.grid(alpha=0.25)
    _legend(ax, len(table[x]), len(drawn[x]), front.sizes["point"], hue_values, bool((~table["fits"]).any()))
    quantities.title(ax, [", ".join(notes)])
    return ax


def _flat(ds: xr.Dataset, x: str, y: str, where: xr.DataArray | None, hue: xr.DataArray | None) -> dict[str, Array]:
    """Columns of the points that count."""
    parts: list[Any] = [ds[x].variable, ds[y].variable]
    for name in ("valid", "fits"):
        everywhere = xr.Variable((), np.True_)
        parts.append(ds[name].variable if name in ds.data_vars else everywhere)
    parts.append(xr.Variable((), np.True_) if where is None else where.variable)
    codes = None if hue is None else xr.Variable(hue.dims, np.arange(hue.size))
    parts.append(xr.Variable((), np.int64(0)) if codes is None else codes)
    sizes = {dim: size for part in parts for dim, size in part.sizes.items()}
    xs, ys, valid, fits, wanted, code = (part.set_dims(sizes).values.ravel() for part in parts)
    kept = valid & wanted & np.isfinite(xs.astype(np.float64)) & np.isfinite(ys.astype(np.float64))
    return {x: xs[kept], y: ys[kept], "fits": fits[kept], "code": code[kept]}


def _thinned(ax: Axes, table: Mapping[str, Array], x: str, y: str) -> dict[str, Array]:
    """Keep one point of each cell of the picture and colour, where there are many."""
    if len(table[x]) <= MANY:
        return dict(table)
    cells = [
        _cell(table[name], axis.get_scale() == "log", count)
        for name, axis, count in ((x, ax.xaxis, CELLS[0]), (y, ax.yaxis, CELLS[1]))
    ]
    places = (cells[0] * CELLS[1] + cells[1]) * 2 + table["fits"]
    # np.unique keeps the first of each, so that the picture is always the same
    _, first = np.unique(places * (int(table["code"].max()) + 1) + table["code"], return_index=True)
    first.sort()
    return {name: column[first] for name, column in table.items()}


def _cell(values: Array, logarithmic: bool, count: int) -> Array:
    numbers = np.log(values) if logarithmic else np.asarray(values, np.float64)
    low, high = numbers.min(), numbers.max()
    cells: Array = np.minimum((numbers - low) / (high - low or 1.0) * count, count - 1).astype(np.int64)
    return cells


def _cloud(ax: Axes, table: Mapping[str, Array], x: str, y: str, hue: xr.DataArray | None) -> None:
    size = 14 if len(table[x]) < 3000 else 5
    names = [""] if hue is None else quantities.labels(hue)
    continuous = hue is not None and hue.dtype.kind in "iuf" and len(names) > len(palette.COLOURS)
    if continuous:
        assert hue is not None
        shares = np.linspace(0, 1, len(names))
        colours: Any = palette.sequence(shares)
    for fits, alpha in ((False, 0.25), (True, 0.8)):
        chosen = table["fits"] == fits
        for code, name in enumerate(names):
            at = chosen & (table["code"] == code)
            if not at.any():
                continue
            look = palette.style(code, len(names), ordered=False)
            colour = "0.55" if hue is None else colours[code] if continuous else look["color"]
            marker = "o" if continuous or hue is None else look["marker"]
            ax.scatter(
                table[x][at],
                table[y][at],
                s=size,
                color=colour,
                marker=marker,
                alpha=alpha,
                linewidths=0,
                rasterized=True,
                label=name if fits and name else "_points",
            )


def _front(ax: Axes, front: xr.Dataset, x: str, y: str, higher: Sequence[bool]) -> None:
    """Draw the front as the border of what it dominates, and its points."""
    order = np.lexsort((front[y].values, front[x].values))
    xs, ys = front[x].values[order], front[y].values[order]
    # the step turns at the worse corner of two neighbours: no point lies beyond it
    ax.plot(
        xs,
        ys,
        color="black",
        linewidth=1.3,
        drawstyle="steps-pre" if higher[0] else "steps-post",
        label="_front",
        zorder=3,
    )
    fits = front["fits"].values[order] if "fits" in front.data_vars else np.ones(len(xs), bool)
    for inside, face in ((True, "black"), (False, "white")):
        at = fits == inside
        # many points are the line
        if at.any() and len(xs) <= 100:
            ax.plot(xs[at], ys[at], "o", color="black", markerfacecolor=face, markersize=4, label="_at", zorder=4)


def _legend(ax: Axes, points: int, drawn: int, front: int, hue: xr.DataArray | None, outside: bool) -> None:
    face: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 5}
    handles: list[Any] = [Line2D([], [], color="black", marker="o", markersize=4, label=f"front: {front:,} points")]
    if hue is None:
        handles.append(Line2D([], [], color="0.55", label=f"{points:,} points", **face))
    else:
        handles += _hue_handles(ax, hue)
    if drawn < points:
        handles.append(Line2D([], [], linestyle="none", label=f"{drawn:,} of {points:,} drawn, one per pixel"))
    if outside:
        handles.append(Line2D([], [], color="0.8", label="pale, hollow: does not fit", **face))
    name = None if hue is None else quantities.name_of(hue)
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1)} if hue is not None else {"loc": "best"}
    if points > 2000 and hue is None:
        # looking for the best place among many points is slow
        place = {"loc": "lower right"}
    ax.legend(handles=handles, title=name, fontsize="small", title_fontsize="small", **place)


def _hue_handles(ax: Axes, hue: xr.DataArray) -> list[Any]:
    """Explain the colours, of many only some."""
    names = quantities.labels(hue)
    many = hue.dtype.kind in "iuf" and len(names) > len(palette.COLOURS)
    step = max(1, -(-len(names) // 8))
    handles = []
    for code in range(0, len(names), step):
        look = palette.style(code, len(names), ordered=False)
        colour = palette.sequence(np.array([code / (len(names) - 1)]))[0] if many else look["color"]
        marker = "o" if many else look["marker"]
        handles.append(Line2D([], [], color=colour, marker=marker, linestyle="none", markersize=5, label=names[code]))
    return handles
