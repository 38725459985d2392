"""Prices of tabulated collectives: the formulas, once, for compiled code, and their use over arrays.

A transfer of x bytes over a pattern takes ``max over routes(links . latencies)`` for its hops plus
``x * max over levels(flows / bandwidth)`` for its busiest link or CENTER, and costs
``8 * x * sum over levels(crossings * pJ per bit)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._jit import kernel
from .tables import FloatArray, IntArray, Tables, available_cores

RATES = 12
"""Rates of a network: latencies of L1, L2, L3 in s, bandwidths of L1, L2, L3 in byte/s, capacities of their CENTERs in
byte/s (infinite where there is no limit), energies of L1, L2, L3 in pJ/bit (NaN where they are not known)."""

LATENCY, BANDWIDTH, CENTER_CAPACITY, PJ_PER_BIT = range(0, RATES, 3)

TIE = 1e-12
"""Relative difference within which two algorithms cost the same: rounding must not choose between them."""

BLOCK = 16384
"""Least number of points that a thread is started for."""


@kernel
def pattern_prices(tables: Tables, row: int, rates: FloatArray, prices: FloatArray) -> None:
    """Price the patterns of a row at given rates.

    Parameters
    ----------
    tables : Tables
    row : int
    rates : ndarray (12,)
        See `RATES`.
    prices : ndarray (patterns of the row, 3)
        Written: hop time in s, link time in s/byte, energy in pJ/byte.
    """
    first = tables.pattern_start[row]
    for pattern in range(first, tables.pattern_start[row + 1]):
        hop = 0.0
        for vector in range(tables.vector_start[pattern], tables.vector_start[pattern + 1]):
            time = 0.0
            for level in range(3):
                time += tables.hops[vector, level] * rates[LATENCY + level]
            hop = max(hop, time)
        link = 0.0
        energy = tables.total[pattern, 3] * rates[PJ_PER_BIT]
        for level in range(3):
            link = max(link, tables.busy[pattern, level] / rates[BANDWIDTH + level])
            link = max(link, tables.center[pattern, level] / rates[CENTER_CAPACITY + level])
            energy += tables.total[pattern, level] * rates[PJ_PER_BIT + level]
        prices[pattern - first, 0], prices[pattern - first, 1], prices[pattern - first, 2] = hop, link, 8.0 * energy


@kernel
def row_price(
    tables: Tables, row: int, nbytes: int, prices: FloatArray, times: FloatArray
) -> tuple[float, float, float, int]:
    """Price a row for a number of bytes, algorithm choice included.

    Parameters
    ----------
    tables : Tables
    row : int
    nbytes : int
        Bytes of the collective.
    prices : ndarray (patterns of the row, 3)
        From :func:`pattern_prices`.
    times : ndarray (algorithms of the row, 2)
        Working memory.

    Returns
    -------
    hop, link : float
        Hop and link time, s.
    energy : float
        pJ.
    algorithm : int
        Position in `ALGORITHMS`.
    """
    first, last = tables.algorithm_start[row], tables.algorithm_start[row + 1]
    if first == last:
        return 0.0, 0.0, 0.0, 0
    sign = -1.0 if tables.slowest[row] else 1.0
    best = np.inf
    for algorithm in range(first, last):
        hop, link = 0.0, 0.0
        for stage in range(tables.stage_start[algorithm], tables.stage_start[algorithm + 1]):
            sent = transfer_bytes(tables, stage, nbytes)
            if sent > 0:
                pattern, repeat = tables.stage_pattern[stage], tables.stage_repeat[stage]
                hop += repeat * prices[pattern, 0]
                link += repeat * sent * prices[pattern, 1]
        times[algorithm - first, 0], times[algorithm - first, 1] = hop, link
        best = min(best, sign * (hop + link))
    chosen = first
    worst = best + TIE * abs(best)
    while sign * (times[chosen - first, 0] + times[chosen - first, 1]) > worst:
        chosen += 1
    energy = 0.0
    for stage in range(tables.stage_start[chosen], tables.stage_start[chosen + 1]):
        per_byte = prices[tables.stage_pattern[stage], 2]
        energy += tables.stage_repeat[stage] * transfer_bytes(tables, stage, nbytes) * per_byte
    return times[chosen - first, 0], times[chosen - first, 1], energy, tables.algorithm[chosen]


@kernel
def transfer_bytes(tables: Tables, stage: int, nbytes: int) -> int:
    """Whole bytes of one transfer of a stage."""
    shifted = nbytes >> tables.stage_shift[stage]
    divisor = tables.stage_divisor[stage]
    return shifted if divisor == 1 else shifted // divisor


@kernel
def price_points(
    tables: Tables,
    row: int,
    start: int,
    stop: int,
    nbytes: IntArray,
    bytes_step: int,
    rates: FloatArray,
    varying: IntArray,
    values: FloatArray,
    hop: FloatArray,
    link: FloatArray,
    energy: FloatArray,
    algorithm: NDArray[np.int8],
) -> None:
    """Price points `start` to `stop` of one row: rate `varying[k]` of point i is `values[k, i]`, the others stay.

    Patterns are priced anew only where a rate differs from the point before.
    """
    now = rates.copy()
    prices = np.empty((tables.pattern_start[row + 1] - tables.pattern_start[row], 3))
    times = np.empty((tables.algorithm_start[row + 1] - tables.algorithm_start[row], 2))
    changed = True
    for i in range(start, stop):
        for k in range(varying.size):
            value = values[k, i]
            if value != now[varying[k]]:
                now[varying[k]] = value
                changed = True
        if changed:
            pattern_prices(tables, row, now, prices)
            changed = False
        hop[i], link[i], energy[i], algorithm[i] = row_price(tables, row, nbytes[i * bytes_step], prices, times)


class Prices(NamedTuple):
    """Prices of points, in the shape that their bytes and rates broadcast to."""

    hop: FloatArray
    link: FloatArray
    energy: FloatArray
    algorithm: NDArray[np.int8]


def price(tables: Tables, row: int, nbytes: IntArray, rates: Sequence[ArrayLike]) -> Prices:
    """Price one row for arrays of bytes and rates that broadcast together.

    Parameters
    ----------
    tables : Tables
    row : int
    nbytes : array of int
        Bytes of the collective.
    rates : sequence of 12 array-likes
        See `RATES`.

    Returns
    -------
    Prices
    """
    arrays = [np.asarray(nbytes, np.int64), *(np.asarray(rate, np.float64) for rate in rates)]
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    varying = [k for k, array in enumerate(arrays[1:]) if array.size != 1]
    sent, *spread = (
        np.broadcast_to(arrays[k], shape).reshape(-1) if arrays[k].size != 1 else arrays[k].reshape(-1)
        for k in (0, *(k + 1 for k in varying))
    )
    size = int(np.prod(shape))
    fixed = np.array([np.nan if k in varying else array.item() for k, array in enumerate(arrays[1:])])
    values = np.stack(spread) if spread else np.empty((0, 0))
    out = Prices(np.empty(size), np.empty(size), np.empty(size), np.empty(size, np.int8))
    workers = min(available_cores(), max(1, size // BLOCK))
    edges = np.linspace(0, size, workers + 1).astype(int).tolist()

    def run(block: int) -> None:
        ends = edges[block], edges[block + 1]
        indices = np.array(varying, np.int64)
        price_points(tables, row, *ends, sent, int(sent.size != 1), fixed, indices, values, *out)

    if workers == 1:
        run(0)
    else:
        with ThreadPoolExecutor(workers) as pool:
            for _ in pool.map(run, range(workers)):
                pass
    return Prices(*(array.reshape(shape) for array in out))
