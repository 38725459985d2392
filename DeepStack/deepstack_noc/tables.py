"""Tables of collectives: flat arrays that compiled code prices for any bytes, bandwidths, latencies and energies.

A table has rows, a row is one collective on one group shape. A row has algorithms to choose from, an algorithm has
stages, a stage names a pattern of its row, and a pattern has hop-count vectors. Each of these owns a slice of the next
array, from ``start[k]`` to ``start[k + 1]``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .collectives import ALGORITHMS, Stage, algorithms_of
from .count import Counter, Counts
from .errors import NocError
from .groups import Groups
from .network import IntArray, network_of
from .noc import Noc, Topology
from .patterns import Key, build, patterns_of, signature

FloatArray = NDArray[np.float64]

MOST_COUNTS = 2**50
"""Most units in one all-to-all, so that their sums over the links of routes stay exact."""


class Tables(NamedTuple):
    """Rows of collectives for compiled code; levels are in the order L1, L2, L3."""

    slowest: NDArray[np.bool_]
    """(row) Whether the slowest algorithm counts, as for the boundaries of a pipeline, and not the cheapest."""
    algorithm_start: IntArray
    """(row + 1) First algorithm of a row; a group of one has none, and costs nothing."""
    pattern_start: IntArray
    """(row + 1) First pattern of a row."""
    algorithm: IntArray
    """(algorithm) Position in `ALGORITHMS`."""
    stage_start: IntArray
    """(algorithm + 1) First stage of an algorithm."""
    stage_pattern: IntArray
    """(stage) Pattern, counted from the first one of the row."""
    stage_shift: IntArray
    """(stage) Bytes of a transfer: the bytes of the collective, shifted down by so many bits,"""
    stage_divisor: IntArray
    """(stage) then divided by an odd number and cut down to an integer."""
    stage_repeat: FloatArray
    """(stage) How many times in a row the stage runs."""
    vector_start: IntArray
    """(pattern + 1) First hop-count vector of a pattern."""
    hops: FloatArray
    """(vector, level) Links of a route that can be the slowest."""
    busy: FloatArray
    """(pattern, level) Flows on the busiest charged link."""
    center: FloatArray
    """(pattern, level) Flows in and out of the busiest charged CENTER."""
    total: FloatArray
    """(pattern, 4) Charged link crossings of L1, L2, L3, and CENTER crossings that cost energy."""


class Request(NamedTuple):
    """One row to tabulate: a collective on groups of `size` ranks that are `stride` devices apart."""

    collective: str
    stride: int
    size: int


def tabulate(
    noc: Noc | Topology, requests: Iterable[tuple[str, int, int]], link_model: str = "deepstack"
) -> Tables:
    """Tabulate collectives, each flow pattern once per process.

    Parameters
    ----------
    noc : Noc or Topology
        The network; bandwidths, latencies and energies do not matter.
    requests : iterable of (str, int, int)
        Collective, stride and size of each row; see :func:`deepstack_noc.groups_of`. Collectives are
        ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``all_to_all`` and ``pipeline_transfer``.
    link_model : {"deepstack", "physical"}
        Which routes and links.

    Returns
    -------
    Tables
        With one row per request, in their order.

    Raises
    ------
    NocError
        If the link model has no routes for the network, or a request does not fit it.
    """
    topology = noc.topology if isinstance(noc, Noc) else noc
    network_of(topology, link_model)
    rows = [Request(*request) for request in requests]
    for row in rows:
        _check_request(row, topology.devices)
    different = dict.fromkeys(rows)
    keys = {
        Key(topology, link_model, stage.family)
        for row in different
        for stages in algorithms_of(row.collective, Groups(row.stride, row.size)).values()
        for stage in stages
    }
    build(list(keys), available_cores())
    tables = {row: _tabulate_one(topology, link_model, row) for row in different}
    return join([tables[row] for row in rows])


def tabulate_pairs(
    noc: Noc | Topology, stride: int, size: int, counts: IntArray, link_model: str = "deepstack"
) -> Tables:
    """Tabulate one all-to-all in which every pair of ranks has its own share of bytes.

    Parameters
    ----------
    noc : Noc or Topology
        The network.
    stride, size : int
        Groups; see :func:`deepstack_noc.groups_of`.
    counts : array of int, (size, size) or (groups, size, size)
        What rank a sends to rank b, in units of the bytes that the row is priced with; for all groups alike, or for
        each in the order of :class:`deepstack_noc.Groups`. The diagonal stays on its device and is not read; a pair
        with count 0 sends nothing.
    link_model : {"deepstack", "physical"}
        Which routes and links.

    Returns
    -------
    Tables
        With one row.

    Raises
    ------
    NocError
        If the counts do not fit the groups, or the link model has no routes for the network.
    """
    topology = noc.topology if isinstance(noc, Noc) else noc
    network = network_of(topology, link_model)
    _check_request(Request("all_to_all", stride, size), topology.devices)
    given = np.asarray(counts)
    groups = topology.devices // size
    if given.dtype.kind not in "iu" or given.shape not in ((size, size), (groups, size, size)):
        raise NocError(
            f"counts is an array of {given.dtype} with shape {given.shape}; allowed are integers "
            f"with shape {(size, size)} or {(groups, size, size)}"
        )
    if given.min() < 0 or given.sum(dtype=np.float64) > MOST_COUNTS:
        raise NocError(
            f"counts go from {given.min()} and sum up to {given.sum(dtype=np.float64):.6g}; "
            f"allowed are counts from 0 that sum up to {MOST_COUNTS:.6g} at most"
        )
    counted = Counter(network).matrix(stride, size, given.reshape(-1, size, size))
    (stage,) = algorithms_of("all_to_all", Groups(stride, size)).get("direct", [None])
    return _row([("direct", [(counted, stage)])] if stage else [], slowest=False)


def _check_request(row: Request, devices: int) -> None:
    for name, value in (("stride", row.stride), ("size", row.size)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise NocError(f"{name} of a group is {value!r}; allowed are integers from 1")
    if devices % (row.stride * row.size):
        raise NocError(f"groups of {row.size} ranks at stride {row.stride} do not divide {devices} devices")
    if row.collective == "pipeline_transfer" and row.stride * row.size != devices:
        raise NocError(
            f"pipeline_transfer on {row.size} stages of {row.stride} devices; allowed are stages that make up "
            f"all {devices} devices"
        )


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=4096)
def _tabulate_one(topology: Topology, link_model: str, row: Request) -> Tables:
    """Tabulate one row from counted patterns."""
    algorithms: list[tuple[str, list[tuple[Counts, Stage]]]] = []
    for name, stages in algorithms_of(row.collective, Groups(row.stride, row.size)).items():
        counted = [(patterns_of(Key(topology, link_model, stage.family)), stage) for stage in stages]
        if row.collective == "pipeline_transfer":  # a boundary takes the place of an algorithm
            ((boundaries, stage),) = counted
            algorithms += [(name, [(boundary, stage)]) for boundary in boundaries]
        else:
            algorithms.append((name, [(patterns[stage.pattern], stage) for patterns, stage in counted]))
    return _row(algorithms, slowest=row.collective == "pipeline_transfer")


def _row(algorithms: Sequence[tuple[str, list[tuple[Counts, Stage]]]], slowest: bool) -> Tables:
    """Lay out one row: patterns of equal cost once, stages of one pattern and divisor together."""
    patterns: dict[tuple[bytes, ...], Counts] = {}
    laid: list[dict[tuple[int, int], int]] = []
    for _, stages in algorithms:
        repeats: dict[tuple[int, int], int] = {}
        for counts, stage in stages:
            mark = (*signature(counts), counts.total[:4].tobytes())
            patterns.setdefault(mark, counts)
            place = list(patterns).index(mark), stage.divisor
            repeats[place] = repeats.get(place, 0) + stage.repeat
        laid.append(repeats)
    flat = [(pattern, divisor, n) for stages in laid for (pattern, divisor), n in stages.items()]
    shifts = [(divisor & -divisor).bit_length() - 1 for _, divisor, _ in flat]
    counted = list(patterns.values())
    return Tables(
        slowest=np.array([slowest]),
        algorithm_start=_starts([len(algorithms)]),
        pattern_start=_starts([len(counted)]),
        algorithm=np.array([ALGORITHMS.index(name) for name, _ in algorithms], np.int64),
        stage_start=_starts([len(stages) for stages in laid]),
        stage_pattern=np.array([pattern for pattern, _, _ in flat], np.int64),
        stage_shift=np.array(shifts, np.int64),
        stage_divisor=np.array([d >> shift for (_, d, _), shift in zip(flat, shifts, strict=True)], np.int64),
        stage_repeat=np.array([n for _, _, n in flat], np.float64),
        vector_start=_starts([len(counts.hops) for counts in counted]),
        hops=_stacked([vector for counts in counted for vector in counts.hops], 3),
        busy=_stacked([counts.busy for counts in counted], 3),
        center=_stacked([counts.center for counts in counted], 3),
        total=_stacked([counts.total[:4] for counts in counted], 4),
    )


def _starts(lengths: Sequence[int]) -> IntArray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


def _stacked(rows: Sequence[IntArray], width: int) -> FloatArray:
    return np.array(rows, np.float64).reshape(-1, width)


def join(tables: Sequence[Tables]) -> Tables:
    """Put the rows of several tables one after the other.

    Raises
    ------
    NocError
        If there is no table.
    """
    if not tables:
        raise NocError("no tables to join; allowed is one or more")
    starts = {"algorithm_start", "pattern_start", "stage_start", "vector_start"}
    columns = {}
    for name in Tables._fields:
        parts = [getattr(table, name) for table in tables]
        if name in starts:
            columns[name] = _starts(np.concatenate([np.diff(part) for part in parts]))
        else:
            columns[name] = np.concatenate(parts)
    return Tables(**columns)
