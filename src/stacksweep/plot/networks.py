"""Diagram of a network with the bytes that a collective sends over its links."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.ticker import FuncFormatter

import deepstack_noc as dn
from stacksweep.columns import Array
from stacksweep.parameters import ParameterError
from stacksweep.plot.loads import Link, State, link_loads, links_of
from stacksweep.plot.quantities import PREFIXES

MOST_DEVICES = 128
"""Devices of the largest network whose diagram can be read."""

GAP = 1.0
"""Space between nodes of a level that have several devices, in device distances."""

CENTER_GAP = 1.0
"""Space between the two rows of a switch, where its CENTER stands."""


def topology(
    noc: Any,
    collective: str | None = "all_reduce",
    sizes: Mapping[str, int] | None = None,
    dim: str | None = None,
    nbytes: int = 2**20,
    *,
    link_model: str = "deepstack",
    ax: Axes | None = None,
) -> Axes:
    """
    Draw a network, its links coloured by the bytes that a collective sends over them.

    Parameters
    ----------
    noc : str, path, mapping or Noc
        As `load_noc` takes it; up to 128 devices.
    collective : str, optional
        One of `deepstack_noc.COLLECTIVES`; None draws the links alone.
    sizes : mapping, optional
        Parallel sizes of tp, ep, sp, cp, dp and pp, which multiply to the number of devices; by default one group of
        all devices.
    dim : str, optional
        Dimension that the collective runs in; may be left out where only one size is above 1.
    nbytes : int
        Bytes, as of the functions of `deepstack_noc`.
    link_model : {"deepstack", "physical"}
        Which routes.
    ax : matplotlib.axes.Axes, optional
        Where to draw; the current Axes by default.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ParameterError
        If the network is too large, or an argument is not allowed.
    deepstack_noc.NocError
        If the sizes do not fit the network, or the link model has no routes for it.

    Notes
    -----
    The load of a link is the sum over all stages of the algorithm and all groups. Circles are devices, squares the
    CENTERs of switches. Links are drawn on the right of their direction.

    Examples
    --------
    >>> from stacksweep import plot
    >>> plot.topology("gpu_node_8", "all_gather").get_title(loc="left")
    'gpu_node_8: all gather of 1.05 MB over tp 8, direct'
    """
    network = dn.load_noc(noc)
    if network.devices > MOST_DEVICES:
        raise ParameterError(
            f"noc: {network.name!r} has {network.devices} devices; a diagram of more than {MOST_DEVICES} cannot be read"
        )
    if collective is not None and collective not in dn.COLLECTIVES:
        raise ParameterError(f"collective: got {collective!r}, needs None or one of {', '.join(dn.COLLECTIVES)}")
    if isinstance(nbytes, bool) or not isinstance(nbytes, int | np.integer) or nbytes < 0:
        raise ParameterError(f"nbytes: got {nbytes!r}, needs a whole number of at least 0")
    title = f"{network.name}: {network.devices} devices"
    loads: dict[Link, int] = {}
    if collective is not None:
        taken, along = _groups(network, collective, sizes, dim)
        loads, algorithm = link_loads(network, taken, along, int(nbytes), collective, link_model)
        plan = " ".join(f"{name} {size}" for name, size in taken.items() if size > 1)
        over = f"{along} {taken.get(along, 1)}" + (f" ({plan})" if plan != f"{along} {taken.get(along, 1)}" else "")
        how = "" if algorithm in ("none", "transfer") else f", {algorithm.replace('_', ' ')}"
        title = f"{network.name}: {collective.replace('_', ' ')} of {_bytes(int(nbytes))} over {over}{how}"
    ax = plt.gca() if ax is None else ax
    links = links_of(network, link_model)
    _links(ax, network, links, loads)
    _nodes(ax, network, links)
    ax.set_aspect("equal")
    ax.margins(0.04)
    ax.set_axis_off()
    ax.set_title(textwrap.fill(title, 70), loc="left", fontsize="small")
    return ax


def _groups(
    network: dn.Noc, collective: str, sizes: Mapping[str, int] | None, dim: str | None
) -> tuple[Mapping[str, int], str]:
    """Sizes and dimension of the groups, where they follow from what is given."""
    usual = "pp" if collective == "pipeline_transfer" else "tp"
    if sizes is None:
        return {dim or usual: network.devices}, dim or usual
    if dim is None:
        several = [name for name, size in sizes.items() if size != 1]
        if collective == "pipeline_transfer":
            dim = "pp"
        elif len(several) == 1:
            dim = several[0]
        else:
            raise ParameterError(f"dim: is missing, needs one of {', '.join(sizes)}")
    if collective == "pipeline_transfer" and dim != "pp":
        raise ParameterError(f"dim: got {dim!r}, a pipeline transfer runs in pp")
    return sizes, dim


def _bytes(value: float) -> str:
    power = 3 * int(np.log10(value) // 3) if value >= 1 else 0
    return f"{value / 10**power:.3g} {PREFIXES[power]}B"


def _cells(level: dn.Level) -> list[tuple[int, int]]:
    """Column and row of each node of a level; a switch and a ring have two rows, since theirs mean nothing."""
    rows, columns = level.shape
    if level.kind == "switch" or (level.kind == "ring" and rows == 1):
        width = -(-level.size // 2)
        around = [(n, 0) if n < width else (2 * width - 1 - n, 1) for n in range(level.size)]
        return around if level.kind == "ring" else [(n % width, n // width) for n in range(level.size)]
    return [(n % columns, n // columns) for n in range(level.size)]


def _pitches(network: dn.Noc) -> list[tuple[float, float]]:
    """Distances of columns and rows of the nodes of L3, L2 and L1."""
    width = height = 1.0
    pitches: list[tuple[float, float]] = []
    for level in network.levels[::-1]:
        cells = _cells(level)
        room = GAP if width > 1 or height > 1 else 0.0
        across, down = width + room, height + room
        if level.kind == "switch":
            down += CENTER_GAP
        pitches.insert(0, (across, down))
        width = width + max(column for column, _ in cells) * across
        height = height + max(row for _, row in cells) * down
    return pitches


def position(network: dn.Noc, state: State) -> Array:
    """Where a state is drawn: a device, or the middle of the level that a CENTER or no place stands for."""
    at = np.zeros(2)
    for level, place, pitch in zip(network.levels, state, _pitches(network), strict=True):
        if not isinstance(place, int):
            break
        cells = np.array(_cells(level), np.float64)
        offset = (cells[place] - cells.max(axis=0) / 2) * pitch
        at += offset * (1, -1)
    return at


def _links(ax: Axes, network: dn.Noc, links: Sequence[Link], loads: Mapping[Link, int]) -> None:
    """Draw idle links thin and grey, the others wide and coloured by their load."""
    # states that differ in places that are not drawn may be one link in the picture
    drawn: dict[tuple[tuple[float, ...], tuple[float, ...]], int] = {}
    for link in [*links, *loads]:
        ends = tuple(tuple(position(network, state).round(6).tolist()) for state in link)
        if ends[0] != ends[1]:
            drawn[ends] = max(drawn.get(ends, 0), loads.get(link, 0))  # type: ignore[index, arg-type]
    idle = [_curve(*ends) for ends, load in drawn.items() if not load]
    busy = [_curve(*ends) for ends, load in drawn.items() if load]
    ax.add_collection(LineCollection(idle, colors="0.8", linewidths=0.7, zorder=1, label="idle"))
    if not busy:
        return
    sent = np.array([load for load in drawn.values() if load], np.float64)
    most = float(sent.max())
    norm = Normalize(0, most)
    colours = LineCollection(
        busy,
        array=sent,
        cmap=ListedColormap(mpl.colormaps["viridis_r"](np.linspace(0.12, 1, 256))),
        norm=norm,
        zorder=2,
        label="loads",
        linewidths=(0.8 + 2.4 * sent / most).tolist(),
    )
    ax.add_collection(colours)
    bar = ax.figure.colorbar(colours, ax=ax, shrink=0.7, pad=0.02)
    power = 3 * int(np.log10(most) // 3)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _position: f"{value / 10**power:g}"))
    bar.set_label(f"bytes over a link ({PREFIXES[power]}B)")


def _curve(start: tuple[float, ...], stop: tuple[float, ...]) -> Array:
    """Bow a link to the right of its direction, long ones more, so that they pass the nodes between their ends."""
    begin, end = np.array(start), np.array(stop)
    way = end - begin
    length = float(np.hypot(*way))
    right = np.array([way[1], -way[0]]) / length
    bow = 0.05 if length < 3 else 0.05 * length
    middle = (begin + end) / 2 + right * bow * 2
    t = np.linspace(0, 1, 17)[:, None]
    curve: Array = (1 - t) ** 2 * begin + 2 * t * (1 - t) * middle + t**2 * end
    return curve


def _nodes(ax: Axes, network: dn.Noc, links: Sequence[Link]) -> None:
    _, middle, inner = network.topology.sizes
    states = [(n // (middle * inner), n // inner % middle, n % inner) for n in range(network.devices)]
    xs, ys = np.transpose([position(network, state) for state in states])
    size, font = (150, 6.5) if network.devices <= 64 else (60, 4.5)
    ax.scatter(xs, ys, s=size, color="white", edgecolors="0.2", zorder=3, label="devices")
    for number, (x, y) in enumerate(zip(xs, ys, strict=True)):
        ax.text(x, y, str(number), ha="center", va="center", fontsize=font, zorder=4)
    centers = {tuple(position(network, state).round(6)) for link in links for state in link if "C" in state}
    if centers:
        xs, ys = np.transpose(sorted(centers))
        ax.scatter(xs, ys, s=70, marker="s", color="0.25", zorder=3, label="switches")
