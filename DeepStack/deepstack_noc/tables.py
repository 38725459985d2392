"""Tables of collectives: flat arrays that compiled code prices for any bytes, bandwidths, latencies and energies.

A table has rows, a row is one collective on one group shape. A row has algorithms to choose from, an algorithm has
stages, a stage names a pattern of its row, and a pattern has hop-count vectors.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

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

    rows: IntArray
    """(row, 5) First algorithm, end of algorithms, first pattern, end of patterns, and 1 if the slowest algorithm
    counts, as for the boundaries of a pipeline, or 0 if the cheapest does. A group of one has the algorithm `none`,
    which has no stages."""
    algorithms: IntArray
    """(algorithm, 3) Position in `ALGORITHMS`, first stage, end of stages."""
    stages: IntArray
    """(stage, 4) Pattern, counted from the first one of the row; the bytes of a transfer, which are those of the
    collective shifted down by so many bits and divided by an odd number, cut down to an integer; repeats."""
    patterns: FloatArray
    """(pattern, 10) Flows on the busiest charged link of each level, flows in and out of the busiest charged CENTER
    of each, charged link crossings of each, and CENTER crossings that cost energy."""
    vectors: IntArray
    """(pattern, 2) First hop-count vector, end of vectors."""
    hops: FloatArray
    """(vector, level) Links of a route that can be the slowest."""


class Request(NamedTuple):
    """One row to tabulate: a collective on groups of `size` ranks that are `stride` devices apart."""

    collective: str
    stride: int
    size: int


def tabulate(noc: Noc | Topology, requests: Iterable[tuple[str, int, int]], link_model: str = "deepstack") -> Tables:
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
    ((name, stages),) = algorithms_of("all_to_all", Groups(stride, size)).items()
    return _row([(name, [(counted, stage) for stage in stages])], slowest=False)


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
        if name == "transfer":  # a boundary takes the place of an algorithm
            algorithms += [(name, [(boundary, stage)]) for boundaries, stage in counted for boundary in boundaries]
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
    flat = [
        (pattern, (divisor & -divisor).bit_length() - 1, divisor // (divisor & -divisor), repeat)
        for repeats in laid
        for (pattern, divisor), repeat in repeats.items()
    ]
    ends = np.cumsum([len(repeats) for repeats in laid])
    counted = list(patterns.values())
    vector_ends = np.cumsum([len(counts.hops) for counts in counted])
    return Tables(
        rows=np.array([[0, len(laid), 0, len(counted), slowest]], np.int64),
        algorithms=_table(
            [
                (ALGORITHMS.index(name), end - len(repeats), end)
                for (name, _), repeats, end in zip(algorithms, laid, ends, strict=True)
            ],
            (3, np.int64),
        ),
        stages=_table(flat, (4, np.int64)),
        patterns=_table([(*c.busy, *c.center, *c.total[:4]) for c in counted], (10, np.float64)),
        vectors=_table([(end - len(c.hops), end) for c, end in zip(counted, vector_ends, strict=True)], (2, np.int64)),
        hops=_table([tuple(vector) for c in counted for vector in c.hops], (3, np.float64)),
    )


def _table(rows: Sequence[tuple[Any, ...]], columns: tuple[int, type]) -> NDArray[Any]:
    """Make an array of rows, of which there may be none."""
    width, dtype = columns
    return np.array(rows, dtype).reshape(-1, width)


def join(tables: Sequence[Tables]) -> Tables:
    """Put the rows of several tables one after the other.

    Raises
    ------
    NocError
        If there is no table.
    """
    if not tables:
        raise NocError("no tables to join; allowed is one or more")
    parts: list[Tables] = []
    algorithm = stage = pattern = vector = 0
    for table in tables:
        parts.append(
            table._replace(
                rows=table.rows + np.array([algorithm, algorithm, pattern, pattern, 0]),
                algorithms=table.algorithms + np.array([0, stage, stage]),
                vectors=table.vectors + vector,
            )
        )
        algorithm, stage = algorithm + len(table.algorithms), stage + len(table.stages)
        pattern, vector = pattern + len(table.patterns), vector + len(table.hops)
    return Tables(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
