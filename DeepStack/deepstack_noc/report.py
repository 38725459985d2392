"""What people ask about a network: what it is made of, and which of its links holds a collective up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .api import NocLike, price_collective, rates_of, whole_bytes
from .collectives import Family, Stage, algorithms_of
from .cost import CENTER, LINK
from .count import Counts
from .errors import NocError
from .groups import Groups, groups_of
from .links import State, link_ends
from .network import (
    DOWN,
    GRID,
    KIND,
    LEFT,
    NEAREST,
    RIGHT,
    RINGED_COLUMNS,
    RINGED_ROWS,
    SWITCH,
    UP,
    network_of,
    port_pairs,
)
from .noc import LEVEL_NAMES, Level, Noc, load_noc
from .patterns import Key, patterns_of


@dataclass(frozen=True)
class Description:
    """A network in a few numbers; ``str()`` gives them as text.

    Attributes
    ----------
    name : str
        Name of the profile.
    devices : int
        Number of devices.
    levels : tuple of Level
        L3, L2, L1.
    bisection_bandwidth : float
        One-way bandwidth between two halves of the outermost level with more than one node, cut where it is narrowest,
        byte/s: links that cross, times the ports that each hop has (``link_model="physical"``), at a switch at most
        half of what its CENTER takes in and gives out. 0 for a single device.
    uncharged_share : float or None
        Share of the links on the routes between all pairs of devices that ``link_model="deepstack"`` does not charge;
        None where it has no routes.
    uncharged_share_l3 : float or None
        The same among links of L3.
    """

    name: str
    devices: int
    levels: tuple[Level, Level, Level]
    bisection_bandwidth: float
    uncharged_share: float | None
    uncharged_share_l3: float | None

    def __str__(self) -> str:
        """Return a few lines of text."""
        lines = [f"{self.name}: {self.devices} devices, bisection {self.bisection_bandwidth / 1e9:g} GB/s"]
        for name, level in zip(LEVEL_NAMES, self.levels, strict=True):
            center = level.center_capacity
            lines.append(
                f"  {name} {level.kind} {level.shape[0]}x{level.shape[1]}, {level.hop_latency_ns:g} ns, "
                f"{level.link_bandwidth_gbytes_per_s:g} GB/s per link"
                + ("" if math.isinf(center) else f", CENTER {center / 1e9:g} GB/s in and out")
            )
        if self.uncharged_share is None or self.uncharged_share_l3 is None:
            lines.append('  link_model "deepstack" has no routes here; use "physical"')
        else:
            lines.append(
                f'  link_model "deepstack" leaves {self.uncharged_share:.1%} of route links uncharged '
                f"({self.uncharged_share_l3:.1%} of those at L3)"
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class Bottleneck:
    """The link, or CENTER of a switch, that takes longest in a collective.

    Attributes
    ----------
    level : str
        ``L3``, ``L2`` or ``L1``.
    source, target : State
        States before and after the link; the same one twice for a CENTER.
    load : int
        Bytes that cross it in the stage that holds it up longest.
    time : float
        Time that they take, s.
    algorithm : str
        Algorithm that the collective takes.
    """

    level: str
    source: State
    target: State
    load: int
    time: float
    algorithm: str


def describe(noc: NocLike) -> Description:
    """Describe a network: levels, devices, bisection bandwidth, and what DeepStack's model leaves uncharged.

    Parameters
    ----------
    noc : str, path, mapping or Noc
        The network; see :func:`load_noc`.

    Returns
    -------
    Description

    Examples
    --------
    >>> import deepstack_noc as dn
    >>> print(dn.describe("gpu_cluster_32"))
    gpu_cluster_32: 32 devices, bisection 100 GB/s
      L3 switch 1x1, 0 ns, 500 GB/s per link
      L2 switch 1x4, 5000 ns, 50 GB/s per link, CENTER 400 GB/s in and out
      L1 switch 1x8, 1250 ns, 370 GB/s per link, CENTER 5920 GB/s in and out
      link_model "deepstack" leaves 0.0% of route links uncharged (0.0% of those at L3)
    """
    network = load_noc(noc)
    shares = uncharged_shares(network)
    return Description(network.name, network.devices, network.levels, bisection_bandwidth(network), *shares)


def uncharged_shares(noc: NocLike) -> tuple[float, float] | tuple[None, None]:
    """Say how much goes uncharged with ``link_model="deepstack"``.

    Parameters
    ----------
    noc : str, path, mapping or Noc
        The network; see :func:`load_noc`.

    Returns
    -------
    share, share_l3 : float or None
        Share of the links, and of those of L3, on the routes between all pairs of devices; None where it has no
        routes.
    """
    noc = load_noc(noc)
    try:
        network_of(noc.topology, "deepstack")
    except NocError:
        return None, None
    if noc.topology.all_switch:
        return 0.0, 0.0
    (counts,) = patterns_of(Key(noc.topology, "deepstack", Family("direct", 1, noc.devices)))
    charged, uncharged = counts.total[:3], int(counts.total[4])
    return (
        uncharged / max(1, uncharged + int(charged.sum())),
        uncharged / max(1, uncharged + int(charged[2])),
    )


def bisection_bandwidth(noc: Noc) -> float:
    """One-way bandwidth between two halves of the outermost level with more than one node, byte/s."""
    net = network_of(noc.topology, "physical").layout
    level = next((k for k, size in enumerate(noc.topology.sizes) if size > 1), None)
    if level is None:
        return 0.0
    kind, (rows, columns) = net[KIND + level], noc.levels[level].shape
    half, rest = (rows * columns) // 2, -(-rows * columns // 2)
    if kind == SWITCH:
        links = half * _parallel_links(net, level, UP)
        return min(links * noc.levels[level].bandwidth, noc.levels[level].center_capacity / 2)
    if kind == GRID:
        cuts = []
        if columns > 1:
            ways = (RIGHT, LEFT) if net[RINGED_COLUMNS + level] and columns > 2 else (RIGHT,)
            cuts.append(rows * sum(_parallel_links(net, level, x) for x in ways))
        if rows > 1:
            ways = (UP, DOWN) if net[RINGED_ROWS + level] and rows > 2 else (UP,)
            cuts.append(columns * sum(_parallel_links(net, level, x) for x in ways))
        return min(cuts) * noc.levels[level].bandwidth
    u, v = np.meshgrid(np.arange(half), half + np.arange(rest))
    level_pairs = int((u // columns == v // columns).sum())
    return noc.levels[level].bandwidth * (
        level_pairs * _parallel_links(net, level, RIGHT) + (half * rest - level_pairs) * _parallel_links(net, level, UP)
    )


def _parallel_links(net: np.ndarray, level: int, x: int) -> int:
    """Count the links that a hop can take, each between ports of its own."""
    entry = UP if net[KIND + level] == SWITCH else x ^ 1
    links = 1
    for inner in range(level + 1, 3):
        pairs = int(port_pairs(net, inner, x, entry))
        # one hash picks the ports of all levels; the nearest port is each level's own
        links = links * pairs if net[NEAREST] else math.lcm(links, pairs)
        if net[KIND + inner] == SWITCH:  # what is inside a CENTER has no ports
            break
    return links


def bottleneck(
    noc: NocLike,
    sizes: Mapping[str, int],
    dim: str,
    nbytes: int,
    collective: str = "all_reduce",
    link_model: str = "deepstack",
    **rates: ArrayLike,
) -> Bottleneck:
    """Say which link holds a collective up: the one with the longest time in a single stage.

    Parameters
    ----------
    noc, sizes, dim, nbytes, link_model, **rates
        As of :func:`all_reduce`, single values.
    collective : str
        ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``all_to_all`` or ``pipeline_transfer`` (with dim ``pp``).

    Returns
    -------
    Bottleneck
        The first of equal stages, of equal levels (L1, L2, L3, links before CENTERs) and of equal links.

    Raises
    ------
    NocError
        If an argument is not allowed, or no byte is sent.
    """
    profile = load_noc(noc)
    groups = groups_of(profile.devices, sizes, dim)
    sent, full = whole_bytes(nbytes), rates_of(profile, rates)
    if sent.ndim or any(rate.ndim for rate in full):
        raise NocError("nbytes or a rate is an array; allowed are single values, the bottleneck is that of one point")
    cost = price_collective(collective, profile, groups, sent, link_model, rates)
    network = network_of(profile.topology, link_model)
    per_byte = np.array(full, np.float64)
    candidates = []
    for stage, counts in _taken_stages(profile, collective, groups, link_model, str(cost.algorithm)):
        size = int(sent) // stage.divisor
        flows = np.concatenate([counts.busy, counts.center])
        times = size * flows * np.concatenate([per_byte[LINK : LINK + 3], per_byte[CENTER : CENTER + 3]])
        place = int(times.argmax())
        # of a pipeline's boundaries the slowest counts, hops included
        hop = float((counts.hops @ per_byte[:3]).max()) if collective == "pipeline_transfer" else 0.0
        if flows[place] * size > 0:
            candidates.append((float(times[place]) + hop, float(times[place]), int(flows[place]) * size, place, counts))
    if not candidates:
        raise NocError(f"{collective} of {int(sent)} bytes in groups of {groups.size} sends nothing; nothing is slow")
    _, time, load, place, counts = max(candidates, key=lambda candidate: candidate[0])
    before, after = link_ends(network, int(counts.busiest[place]))
    if place >= 3:
        before = after = before if before[2 - place % 3] == "C" else after
    return Bottleneck(f"L{place % 3 + 1}", before, after, load, time, str(cost.algorithm))


def _taken_stages(
    noc: Noc, collective: str, groups: Groups, link_model: str, algorithm: str
) -> list[tuple[Stage, Counts]]:
    """List stages and counts of an algorithm; those of all boundaries for a pipeline."""
    taken = []
    for stage in algorithms_of(collective, groups)[algorithm]:
        patterns = patterns_of(Key(noc.topology, link_model, stage.family))
        chosen = patterns if collective == "pipeline_transfer" else [patterns[stage.pattern]]
        taken += [(stage, counts) for counts in chosen]
    return taken
