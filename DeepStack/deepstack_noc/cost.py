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

from ._jit import inlined, kernel
from .network import IntArray
from .tables import FloatArray, Tables, available_cores

RATES = 12
"""Rates of a network, each of L1, L2, L3: latencies in s, times per byte of a link and of a CENTER in s/byte (0 where
there is no limit), energies in pJ/bit (NaN where they are not known)."""

LATENCY, LINK, CENTER, PJ_PER_BIT = range(0, RATES, 3)

TIE = 1e-12
"""Relative difference within which two algorithms cost the same: rounding must not choose between them."""

BLOCK = 128
"""Points that compiled code prices together, so that one instruction serves several of them."""

THREAD = 16384
"""Least number of points that a thread is started for."""


@inlined
def price_patterns(
    rows: IntArray,
    patterns: FloatArray,
    vectors: IntArray,
    hops: FloatArray,
    row: int,
    rates: FloatArray,
    prices: FloatArray,
    start: int,
) -> None:
    """Price the patterns of a row at n sets of rates.

    It becomes part of the function that calls it: passing arrays on would cost as much as the prices of one point.

    Parameters
    ----------
    rows, patterns, vectors, hops
        Of :class:`deepstack_noc.Tables`.
    row : int
        Which row.
    rates : ndarray (12, n)
        See `RATES`.
    prices : ndarray (start + patterns of the row or more, 3, n)
        Written from `start` on: hop time in s, link time in s/byte, energy in pJ/byte.
    start : int
        Where the first pattern of the row is written.
    """
    first, end = rows[row, 2], rows[row, 3]
    n = rates.shape[1]
    for pattern in range(first, end):
        k = start + pattern - first
        for i in range(n):
            prices[k, 0, i] = 0.0
        for vector in range(vectors[pattern, 0], vectors[pattern, 1]):
            h1, h2, h3 = hops[vector, 0], hops[vector, 1], hops[vector, 2]
            for i in range(n):
                time = h1 * rates[LATENCY, i] + h2 * rates[LATENCY + 1, i] + h3 * rates[LATENCY + 2, i]
                prices[k, 0, i] = time if time > prices[k, 0, i] else prices[k, 0, i]
        for i in range(n):
            prices[k, 1, i] = 0.0
        for level in range(3):
            busy, through = patterns[pattern, level], patterns[pattern, 3 + level]
            for i in range(n):
                link, center = busy * rates[LINK + level, i], through * rates[CENTER + level, i]
                time = link if link > center else center
                prices[k, 1, i] = time if time > prices[k, 1, i] else prices[k, 1, i]
        bits1 = 8.0 * (patterns[pattern, 6] + patterns[pattern, 9])
        bits2, bits3 = 8.0 * patterns[pattern, 7], 8.0 * patterns[pattern, 8]
        for i in range(n):
            prices[k, 2, i] = (
                bits1 * rates[PJ_PER_BIT, i] + bits2 * rates[PJ_PER_BIT + 1, i] + bits3 * rates[PJ_PER_BIT + 2, i]
            )


@kernel
def price_row(
    rows: IntArray,
    algorithms: IntArray,
    stages: IntArray,
    row: int,
    n: int,
    nbytes: IntArray,
    prices: FloatArray,
    work: FloatArray,
    costs: FloatArray,
    codes: IntArray,
) -> None:
    """Price n points of a row, algorithm choice included.

    Parameters
    ----------
    rows, algorithms, stages
        Of :class:`deepstack_noc.Tables`.
    row : int
        Which row.
    n : int
        Number of points.
    nbytes : ndarray of int64 (n or more,)
        Bytes of the collective.
    prices : ndarray (patterns of the row or more, 3, n or more)
        From :func:`price_patterns`, for each point.
    work : ndarray (algorithms of the row + 1 or more, 3, n or more)
        Working memory.
    costs : ndarray (3, n or more)
        Written: hop time in s, link time in s, energy in pJ.
    codes : ndarray of int64 (n or more,)
        Written: the algorithm taken, as a position in `ALGORITHMS`.

    Notes
    -----
    Every loop over points has one line and writes one row, which is what compilers turn into vector instructions.
    """
    first, count = rows[row, 0], rows[row, 1] - rows[row, 0]
    sign = 1.0 - 2.0 * rows[row, 4]
    for k in range(count):
        for part in range(3):
            for i in range(n):
                work[k, part, i] = 0.0
        for stage in range(algorithms[first + k, 1], algorithms[first + k, 2]):
            pattern, shift, divisor, repeat = stages[stage, 0], stages[stage, 1], stages[stage, 2], stages[stage, 3]
            times = float(repeat)
            if divisor == 1:
                for i in range(n):
                    work[count, 0, i] = float(nbytes[i] >> shift)
            else:
                for i in range(n):
                    work[count, 0, i] = float(np.floor_divide(nbytes[i] >> shift, divisor))
            for i in range(n):
                work[k, 0, i] += times * prices[pattern, 0, i] if work[count, 0, i] > 0.0 else 0.0
            for part in range(1, 3):
                for i in range(n):
                    work[k, part, i] += times * work[count, 0, i] * prices[pattern, part, i]
    for i in range(n):
        work[count, 0, i] = np.inf
    for k in range(count):
        for i in range(n):
            total = sign * (work[k, 0, i] + work[k, 1, i])
            work[count, 0, i] = total if total < work[count, 0, i] else work[count, 0, i]
    for i in range(n):
        work[count, 0, i] += TIE * abs(work[count, 0, i])
    for k in range(count - 1, -1, -1):
        for i in range(n):
            total = sign * (work[k, 0, i] + work[k, 1, i])
            codes[i] = k if total <= work[count, 0, i] else codes[i]
    for i in range(n):
        k = codes[i]
        costs[0, i], costs[1, i], costs[2, i] = work[k, 0, i], work[k, 1, i], work[k, 2, i]
        codes[i] = algorithms[first + k, 0]


@inlined
def price_point(
    rows: IntArray, algorithms: IntArray, stages: IntArray, row: int, nbytes: int, prices: FloatArray, start: int
) -> tuple[float, float]:
    """Price one point of a row, as :func:`price_row` does for many.

    It becomes part of the function that calls it, as :func:`price_patterns` does.

    Parameters
    ----------
    rows, algorithms, stages
        Of :class:`deepstack_noc.Tables`.
    row : int
        Which row.
    nbytes : int
        Bytes of the collective.
    prices : ndarray (start + patterns of the row or more, 3, 1)
        From :func:`price_patterns`.
    start : int
        Where the first pattern of the row stands.

    Returns
    -------
    seconds, energy : float
        Hop and link time together, s; energy, pJ.
    """
    sign = 1.0 - 2.0 * rows[row, 4]
    least, best, spent = np.inf, 0.0, 0.0
    for algorithm in range(rows[row, 0], rows[row, 1]):
        seconds = energy = 0.0
        for stage in range(algorithms[algorithm, 1], algorithms[algorithm, 2]):
            sent = nbytes >> stages[stage, 1]
            if stages[stage, 2] != 1:
                sent = np.floor_divide(sent, stages[stage, 2])
            if sent > 0:
                pattern, repeat = start + stages[stage, 0], stages[stage, 3]
                seconds += repeat * (prices[pattern, 0, 0] + sent * prices[pattern, 1, 0])
                energy += repeat * sent * prices[pattern, 2, 0]
        # the first of those that differ by rounding alone
        if least == np.inf or sign * seconds < least - TIE * abs(least):
            least, best, spent = sign * seconds, seconds, energy
    return best, spent


@kernel
def price_points(
    rows: IntArray,
    algorithms: IntArray,
    stages: IntArray,
    patterns: FloatArray,
    vectors: IntArray,
    hops: FloatArray,
    row: int,
    start: int,
    stop: int,
    nbytes: IntArray,
    rates: FloatArray,
    varying: IntArray,
    values: FloatArray,
    hop: FloatArray,
    link: FloatArray,
    energy: FloatArray,
    algorithm: NDArray[np.int8],
) -> None:
    """Price points `start` to `stop` of one row: rate `varying[k]` of point i is `values[k, i]`, the others stay."""
    now = np.empty((RATES, BLOCK))
    prices = np.empty((rows[row, 3] - rows[row, 2], 3, BLOCK))
    work = np.empty((rows[row, 1] - rows[row, 0] + 1, 3, BLOCK))
    sent, codes, costs = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), np.empty((3, BLOCK))
    for rate in range(RATES):
        for i in range(BLOCK):
            now[rate, i] = rates[rate]
    for at in range(start, stop, BLOCK):
        n = min(BLOCK, stop - at)
        for k in range(varying.size):
            rate = varying[k]
            for i in range(n):
                now[rate, i] = values[k, at + i]
        if varying.size > 0 or at == start:
            price_patterns(rows, patterns, vectors, hops, row, now, prices, 0)
        for i in range(n):
            sent[i] = nbytes[at + i]
        price_row(rows, algorithms, stages, row, n, sent, prices, work, costs, codes)
        for i in range(n):
            hop[at + i], link[at + i], energy[at + i] = costs[0, i], costs[1, i], costs[2, i]
            algorithm[at + i] = codes[i]


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
    sent, *arrays = np.asarray(nbytes, np.int64), *(np.asarray(rate, np.float64) for rate in rates)
    shape = np.broadcast_shapes(sent.shape, *(array.shape for array in arrays))
    varying = [k for k, array in enumerate(arrays) if array.size != 1]
    values = np.empty((len(varying), *shape))
    for k, rate in enumerate(varying):
        values[k] = arrays[rate]
    fixed = np.array([1.0 if k in varying else array.item() for k, array in enumerate(arrays)])
    sent = sent if sent.shape == shape else np.broadcast_to(sent, shape)
    flat = np.require(sent, requirements=["C", "W"]).reshape(-1)  # read-only arrays would be compiled for once more
    size = flat.size
    points = flat, fixed, np.array(varying, np.int64), values.reshape(len(varying), size)
    out = Prices(np.empty(size), np.empty(size), np.empty(size), np.empty(size, np.int8))
    workers = min(available_cores(), max(1, size // THREAD))
    edges = np.linspace(0, size, workers + 1).astype(int).tolist()

    def run(part: int) -> None:
        price_points(*tables, row, edges[part], edges[part + 1], *points, *out)

    if workers == 1:
        run(0)
    else:
        with ThreadPoolExecutor(workers) as pool:
            for _ in pool.map(run, range(workers)):
                pass
    hop, link, energy, algorithm = out
    return Prices(hop.reshape(shape), link.reshape(shape), energy.reshape(shape), algorithm.reshape(shape))
