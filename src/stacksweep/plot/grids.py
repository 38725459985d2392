"""Lines and heatmaps over axes of a grid."""

from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import LogNorm, Normalize
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from stacksweep.analysis.points import check_dataset
from stacksweep.columns import Array
from stacksweep.parameters import ParameterError
from stacksweep.plot import choose, palette, quantities

MOST_LINES = 28
"""Lines of one picture that can be told apart."""

WRITTEN_CELLS = 120
"""Cells of a heatmap up to which their values are written into them."""


def lines(
    ds: xr.Dataset,
    y: str,
    x: str,
    hue: str | None = None,
    *,
    sel: Mapping[str, Any] | None = None,
    where: xr.DataArray | None = None,
    objective: str | None = None,
    maximize: bool | None = None,
    ax: Axes | None = None,
) -> Axes:
    """
    Draw a result over one axis, a line for each value of another.

    Parameters
    ----------
    ds : xarray.Dataset
        As `sweep` makes it, or any other.
    y : str
        Numeric variable or coordinate.
    x, hue : str
        Dimensions, or coordinates along one.
    sel : mapping, optional
        Labels of other dimensions, as of `Dataset.sel`.
    where : xarray.DataArray of bool, optional
        Points that count.
    objective : str, optional
        What is optimised over the dimensions that are neither drawn nor selected; `y` by default.
    maximize : bool, optional
        Whether more of the objective is better, as of `best`.
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
    Masked points are gaps. Points that do not fit in the memory are hollow, where `ds` has `fits`. The title names what
    was selected and optimised. Values of x that grow by factors stand on a logarithmic scale.

    Examples
    --------
    >>> import stacksweep as ss
    >>> from stacksweep import plot
    >>> ds = ss.sweep(model="llama-3.1-8b", memory="fictional_stacked_dram", layers=[8, 12, 16], batch_size=[1, 8, 64])
    >>> ax = plot.lines(ds, "ttft", x="layers", where=ds.fits)
    >>> ax.get_ylabel(), ax.get_title(loc="left")
    ('time to first token (ms)', 'best ttft over batch size')
    """
    check_dataset(ds)
    choose.check_number(ds, "y", y)
    allowed = choose.condition_of(ds, where, sel)
    ds, notes = choose.select(ds, sel)
    x_dim, x_values = choose.axis_of(ds, "x", x)
    keep = [x_dim]
    hue_values = None
    if hue is not None:
        hue_dim, hue_values = choose.axis_of(ds, "hue", hue)
        if hue_dim == x_dim:
            raise ParameterError(f"hue: {hue!r} lies along {x_dim!r}, as x does; needs another dimension")
        if hue_values.size > MOST_LINES:
            raise ParameterError(f"hue: {hue!r} has {hue_values.size} values; choose at most {MOST_LINES} with sel")
        keep.insert(0, hue_dim)
    drawn, more = choose.reduced(ds, y, keep, sel, allowed, objective, maximize)
    ax = plt.gca() if ax is None else ax
    numeric = x_values.dtype.kind in "iuf"
    places = x_values.values if numeric else np.arange(x_values.size)
    order = np.argsort(places, kind="stable")
    if numeric:
        quantities.put_values(ax.xaxis, x_values, places)
    else:
        quantities.put_positions(ax.xaxis, x_values)
    names = [""] if hue_values is None else quantities.labels(hue_values)
    ordered = hue_values is not None and hue_values.dtype.kind in "iuf"
    for number, name in enumerate(names):
        one = drawn if hue_values is None else drawn.isel({hue_values.dims[0]: number})
        look = palette.style(number, len(names), ordered=ordered)
        fits = one["fits"].values[order] if "fits" in one else None
        _line(ax, places[order], one[y].values[order], fits, name, look)
    values = drawn[y].values
    if quantities.is_wide(values):
        ax.set_yscale("log")
    quantities.put(ax.yaxis, ds[y], values)
    ax.grid(alpha=0.25)
    _legend(ax, hue_values, values, drawn)
    quantities.title(ax, [", ".join(notes), *more])
    return ax


def _line(ax: Axes, x: Array, y: Array, fits: Array | None, name: str, look: dict[str, Any]) -> None:
    """Draw one line, with markers that are hollow where a point does not fit."""
    gap = ~np.isfinite(y.astype(np.float64))
    hollow = np.zeros(y.shape, bool) if fits is None else ~fits & ~gap
    marker = look.pop("marker")
    shown = np.arange(len(x)) % max(1, len(x) // 25) == 0
    # a point with gaps on both sides has no line that shows it
    shown |= np.r_[True, gap[:-1]] & np.r_[gap[1:], True]
    filled = np.flatnonzero(shown & ~hollow).tolist()
    ax.plot(x, y, linewidth=1.6, label=name, marker=marker, markersize=5, markevery=filled, **look)
    at = shown & hollow
    if at.any():
        face = {"markerfacecolor": "white", "color": look["color"]}
        ax.plot(x[at], y[at], linestyle="none", marker=marker, markersize=5, label="_hollow", **face)


def _legend(ax: Axes, hue: xr.DataArray | None, values: Array, drawn: xr.Dataset) -> None:
    handles = [line for line in ax.lines if hue is not None and not str(line.get_label()).startswith("_")]
    hollow = [line for line in ax.lines if line.get_label() == "_hollow"]
    if hollow:
        face = {"color": "0.3", "markerfacecolor": "white", "linestyle": "none", "markersize": 5}
        handles.append(Line2D([], [], marker="o", label="does not fit", **face))  # type: ignore[arg-type]
    if handles:
        name = None if hue is None else quantities.name_of(hue)
        outside = len(handles) > 8
        where: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1)} if outside else {"loc": "best"}
        ax.legend(handles=handles, title=name, fontsize="small", title_fontsize="small", handlelength=3, **where)


def heatmap(
    ds: xr.Dataset,
    value: str,
    x: str,
    y: str,
    *,
    sel: Mapping[str, Any] | None = None,
    where: xr.DataArray | None = None,
    objective: str | None = None,
    maximize: bool | None = None,
    ax: Axes | None = None,
) -> Axes:
    """
    Draw a result as the colour of cells over two axes.

    Parameters
    ----------
    ds : xarray.Dataset
        As `sweep` makes it, or any other.
    value : str
        Numeric variable or coordinate; of a coordinate that is optimised over, its value at the optimum.
    x, y : str
        Dimensions, or coordinates along one.
    sel, where, objective, maximize, ax
        As of `lines`.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ParameterError
        If `ds` does not have what is named, or a direction is not known.

    Notes
    -----
    Cells are equally large whatever the values of the axes are. Masked points are grey gaps; points that do not fit in
    the memory are hatched, where `ds` has `fits`. Values that span more than a factor of 30 have a logarithmic scale.

    Examples
    --------
    >>> import stacksweep as ss
    >>> from stacksweep import plot
    >>> ds = ss.sweep(model="llama-3.1-8b", memory="fictional_stacked_dram", layers=[8, 16], batch_size=[1, 8, 64])
    >>> plot.heatmap(ds, "tps", x="batch_size", y="layers").get_ylabel()
    'DRAM layers of the stack'
    """
    check_dataset(ds)
    choose.check_number(ds, "value", value)
    allowed = choose.condition_of(ds, where, sel)
    ds, notes = choose.select(ds, sel)
    x_dim, x_values = choose.axis_of(ds, "x", x)
    y_dim, y_values = choose.axis_of(ds, "y", y)
    if x_dim == y_dim:
        raise ParameterError(f"y: {y!r} lies along {x_dim!r}, as x does; needs another dimension")
    drawn, more = choose.reduced(ds, value, [y_dim, x_dim], sel, allowed, objective, maximize)
    cells = drawn[value].transpose(y_dim, x_dim).values.astype(np.float64)
    ax = plt.gca() if ax is None else ax
    finite = cells[np.isfinite(cells)]
    norm: Normalize = Normalize(0, 1)
    if finite.size:
        kind = LogNorm if quantities.is_wide(cells) else Normalize
        low, high = float(finite.min()), float(finite.max())
        norm = kind(low, high if high > low else low + (abs(low) or 1.0) * 1e-3)
    edges = {"edgecolors": "white", "linewidth": 1.0} if cells.size <= 500 else {"rasterized": True}
    ax.set_facecolor("0.88")
    image = ax.pcolormesh(
        np.arange(cells.shape[1] + 1) - 0.5,
        np.arange(cells.shape[0] + 1) - 0.5,
        np.ma.masked_invalid(cells),
        norm=norm,
        cmap=palette.CELLS,
        **edges,
    )
    quantities.put_positions(ax.xaxis, x_values)
    quantities.put_positions(ax.yaxis, y_values)
    ax.tick_params(length=0)
    bar = ax.figure.colorbar(image, ax=ax, pad=0.02)
    quantities.put(bar.ax.yaxis, ds[value], cells)
    if cells.size <= WRITTEN_CELLS and cells.shape[1] <= 14:
        _write(ax, cells, norm, bar.ax.yaxis.get_major_formatter())
    _marks(ax, cells, drawn["fits"].transpose(y_dim, x_dim).values if "fits" in drawn else None)
    quantities.title(ax, [", ".join(notes), *more])
    return ax


def _write(ax: Axes, cells: Array, norm: Normalize, formatter: Any) -> None:
    """Write the values into the cells, to three digits."""
    for row, column in np.ndindex(cells.shape):
        value = cells[row, column]
        if np.isfinite(value):
            red, green, blue, _ = mpl.colormaps[palette.CELLS](norm(value))
            dark = 0.3 * red + 0.59 * green + 0.11 * blue < 0.5
            ax.text(
                column,
                row,
                formatter(float(f"{value:.3g}")),
                ha="center",
                va="center",
                fontsize=7,
                color="white" if dark else "black",
                # keeps hatches off the digits
                bbox={"facecolor": (red, green, blue), "edgecolor": "none", "pad": 1.0},
            )


def _marks(ax: Axes, cells: Array, fits: Array | None) -> None:
    """Hatch the cells that do not fit, and explain these and the gaps below the picture."""
    handles = []
    gaps = ~np.isfinite(cells)
    outside = np.zeros(cells.shape, bool) if fits is None else ~fits & ~gaps
    if outside.any():
        squares = [Rectangle((column - 0.5, row - 0.5), 1, 1) for row, column in np.argwhere(outside)]
        hatched = PatchCollection(squares, facecolor="none", edgecolor="white", hatch="//", linewidth=0)
        hatched.set_label("does not fit")
        ax.add_collection(hatched, autolim=False)
        handles.append(Patch(facecolor="0.45", edgecolor="white", hatch="////", label="does not fit"))
    if gaps.any():
        handles.append(Patch(facecolor="0.88", edgecolor="0.6", label="no point"))
    if handles:
        ax.legend(
            handles=handles, loc="lower right", bbox_to_anchor=(1, 1.0), ncols=2, fontsize="x-small", frameon=False
        )
