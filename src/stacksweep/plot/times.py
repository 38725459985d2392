"""Where the time goes: rooflines of a point's stages, and stacked bars over a dimension."""

from collections.abc import Mapping
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from stacksweep.analysis.points import check_dataset
from stacksweep.columns import Array
from stacksweep.estimate import Estimate
from stacksweep.parameters import ParameterError
from stacksweep.plot import choose, palette, quantities
from stacksweep.results import COLLECTIVE

Phase = Literal["prefill", "first_decode", "decode"]

PHASES: Mapping[str, tuple[str, str]] = {
    "prefill": ("prefill_period", "the prefill in the slowest stage"),
    "first_decode": ("first_decode_period", "the first decode step in the slowest stage"),
    "decode": ("decode_time", "all decode steps"),
}
"""Of each phase the result that is split, and what it is the time of."""

HATCHES = ("", "///", "...", "\\\\\\", "xxx", "+++", "ooo")


def roofline(report: Estimate, *, ax: Axes | None = None) -> Axes:
    r"""
    Draw what each pipeline stage of a point attains, against its roofline.

    Parameters
    ----------
    report : Estimate
        As `estimate` makes it.
    ax : matplotlib.axes.Axes, optional
        Where to draw; the current Axes by default.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ParameterError
        If `report` is no Estimate.

    Notes
    -----
    Both axes are relative, so that they mean the same for chips given by cycles and by peaks. The arithmetic intensity
    is that of the stage over the intensity at which compute and DRAM take equally long, which is :math:`t_{compute} /
    t_{DRAM}`. What is attained is :math:`t_{compute} / t`, the share of the time `t` of the stage, without its
    transfer, in which the compute units work as fast as they can. The roof is :math:`\min(1, t_{compute} / t_{DRAM})`.
    A stage lies below it by what its collectives and overheads take, and where compute and DRAM do not overlap: in
    different layers or operations, or nowhere (`serial`). Hidden collectives cost nothing.

    Examples
    --------
    >>> import stacksweep as ss
    >>> from stacksweep import plot
    >>> ax = plot.roofline(ss.estimate(model="llama-3.1-8b", memory="fictional_stacked_dram", layers=16))
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['prefill', 'first decode step', 'roof']
    """
    if not isinstance(report, Estimate):
        raise ParameterError(f"report: got {type(report).__name__}, needs what ss.estimate returns")
    ax = plt.gca() if ax is None else ax
    edge, attained = [1.0], list[float]()
    for number, (phase, words) in enumerate((("prefill", "prefill"), ("first_decode", "first decode step"))):
        points: dict[tuple[float, float], list[int]] = {}
        places: list[tuple[float, float]] = []
        for stage in report.stages:
            done, seconds = getattr(stage, phase), getattr(stage, f"{phase}_seconds")
            if done.compute_time > 0 and done.memory_time > 0:
                at = (done.compute_time / done.memory_time, done.compute_time / seconds)
                # stages that do about the same share their words
                near = next((one for one in points if np.allclose(one, at, rtol=0.05)), at)
                points.setdefault(near, []).append(stage.index)
                places.append(at)
        xs, ys = ([place[k] for place in places] for k in range(2))
        look = palette.style(number, 2, ordered=False)
        ax.plot(xs, ys, linestyle="none", marker=look["marker"], color=look["color"], markersize=7, label=words)
        for (x, y), stages in points.items():
            if len(report.stages) > 1:
                ax.annotate(_stages(stages), (x, y), (7, -4), textcoords="offset points", fontsize="small", va="top")
        edge += xs
        attained += ys
    low, high = min(edge) / 3, max(edge) * 3
    roof = np.array([low, 1.0, high])
    ax.plot(roof, np.minimum(1.0, roof), color="black", linewidth=1.4, label="roof", zorder=1)
    ax.axvline(1.0, color="0.7", linewidth=0.8, linestyle=":", zorder=0)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(low, high)
    ax.set_ylim(min(attained, default=low) / 1.6, 2.2)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _position: f"{value:g}"))
    for x, words, side in ((0.97, "bound by DRAM", "right"), (1.03, "bound by compute", "left")):
        ax.annotate(words, (x, 1.7), fontsize="small", color="0.35", ha=side, va="center")
    ax.set_xlabel("arithmetic intensity over that of the ridge\n(compute time over DRAM time)")
    ax.set_ylabel("share of the compute peak attained")
    ax.grid(alpha=0.25)
    ax.legend(loc="lower right", fontsize="small")
    point = report.parameters
    quantities.title(ax, [f"{point['model']} on {point['chip']}, {point['memory']}"])
    return ax


def _stages(indexes: list[int]) -> str:
    """Name stages in a few characters, runs of them by their ends."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    text = ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)
    return f"stage {text}" if len(indexes) == 1 else f"stages {text}"


def time_split(
    ds: xr.Dataset,
    over: str,
    phase: Phase = "decode",
    *,
    sel: Mapping[str, Any] | None = None,
    share: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """
    Draw where the time of a phase goes as stacked bars over a dimension.

    Parameters
    ----------
    ds : xarray.Dataset
        Of `sweep` with `outputs="all"`, or with the times of the phase, of its collectives and its transfer.
    over : str
        Dimension, or coordinate along one.
    phase : {"prefill", "first_decode", "decode"}
        What is split: `prefill_period`, `first_decode_period`, or `decode_time`.
    sel : mapping, optional
        A label of each other dimension.
    share : bool
        Draw shares of the whole instead of seconds.
    ax : matplotlib.axes.Axes, optional
        Where to draw; the current Axes by default.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ParameterError
        If `ds` does not have what is needed, a dimension remains, or collectives hide behind compute
        (`comm_overlap="full"`): what is exposed of them is not known.

    Notes
    -----
    The parts add up to the whole. `DRAM` is the time of the layers (op-roofline: operations) that DRAM takes longer
    for, `compute` what is left beside the other parts: the time of those that compute takes longer for. Where nothing
    overlaps (`serial`), they are the whole DRAM and compute time. With several pipeline stages, decode is split as its
    first slowest stage is; should another become the slowest on the way, `compute` has the difference.

    Examples
    --------
    >>> import stacksweep as ss
    >>> from stacksweep import plot
    >>> ds = ss.sweep(
    ...     model="llama-3.1-8b", memory="fictional_stacked_dram", layers=16, batch_size=[1, 16], outputs="all"
    ... )
    >>> plot.time_split(ds, over="batch_size").get_ylabel()
    'time of all decode steps (s)'
    """
    check_dataset(ds)
    if phase not in PHASES:
        raise ParameterError(f"phase: got {phase!r}, needs one of {', '.join(PHASES)}")
    total_name, words = PHASES[phase]
    step = "first_decode" if phase == "decode" else phase
    details = ("compute_time", "memory_time", "memory_bound_time", "overhead_time", "collective_time")
    names = [total_name, f"{step}_transfer", *(f"{phase}_{name}" for name in details)]
    lacking = [name for name in names if name not in ds.data_vars]
    if lacking:
        raise ParameterError(f'ds: lacks {", ".join(lacking)}; a sweep with outputs="all" has them')
    ds, notes = choose.select(ds, sel)
    dim, values = choose.axis_of(ds, "over", over)
    rest = [other for other in ds[total_name].dims if other != dim]
    if rest:
        raise ParameterError(f"sel: choose a label of {', '.join(map(str, rest))}; bars stand over one dimension")
    parts = _parts(ds, phase, total_name, step)
    bars = {name: part.broadcast_like(values).values for name, part in parts.items()}
    whole = ds[total_name].broadcast_like(values).values
    ax = plt.gca() if ax is None else ax
    _bars(ax, bars, whole, share)
    quantities.put_positions(ax.xaxis, values)
    ax.set_xlim(-0.6, values.size - 0.4)
    if share:
        ax.set_ylabel(f"share of the time of {words}")
        ax.set_ylim(0, 1)
    else:
        named = xr.DataArray(whole, attrs={"units": "s", "long_name": f"time of {words}"})
        quantities.put(ax.yaxis, named, whole)
        ax.set_ylim(0, 1.05 * np.nanmax(whole, initial=0.0) or 1.0)
    quantities.title(ax, [", ".join(notes)])
    return ax


def _parts(ds: xr.Dataset, phase: str, total_name: str, step: str) -> dict[str, xr.DataArray]:
    """Seconds of each part; they add up to the whole."""
    collectives = ds[f"{phase}_collective_time"]
    if "comm_overlap" in ds.coords:
        hidden = (ds["comm_overlap"] == "full") & (collectives.sum(COLLECTIVE) > 0)
        if hidden.any():
            raise ParameterError("ds: comm_overlap is 'full' in it; what collectives take beside compute is not known")
    steps = ds["output_seq_len"] if phase == "decode" else 1
    parts = {"DRAM": ds[f"{phase}_memory_bound_time"]}
    if "overlap" in ds.coords:
        parts["DRAM"] = parts["DRAM"].where(ds["overlap"] != "serial", ds[f"{phase}_memory_time"])
    for name in ds[COLLECTIVE].values.tolist():
        parts[name.replace("_", " ")] = collectives.sel({COLLECTIVE: name}, drop=True)
    parts["transfer"] = ds[f"{step}_transfer"] * steps
    parts["overhead"] = ds[f"{phase}_overhead_time"]
    rest = ds[total_name]
    for part in parts.values():
        rest = rest - part
    # the difference of equal numbers may be a little below zero
    return {"compute": rest.clip(min=0.0), **parts}


def _bars(ax: Axes, bars: Mapping[str, Array], whole: Array, share: bool) -> None:
    """Stack the parts that take any time."""
    bottom = np.zeros(len(whole))
    scale = whole if share else np.ones(len(whole))
    number = 0
    for name, part in bars.items():
        heights = np.nan_to_num(part / scale)
        if not (heights > 0).any():
            continue
        ax.bar(
            np.arange(len(whole)),
            heights,
            0.8,
            bottom,
            label=name,
            color=palette.COLOURS[number % len(palette.COLOURS)],
            hatch=HATCHES[number % len(HATCHES)],
            edgecolor="white",
            linewidth=0.5,
        )
        bottom += heights
        number += 1
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1), fontsize="small", reverse=True)
