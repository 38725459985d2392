"""Counting of flows that run at once: what a stage costs, apart from bytes, bandwidths, latencies and energies.

Flows are added one by one to a difference array over link numbers, so that a run of links costs two additions however
long it is. A sum over the array then gives the flows of every link.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel
from .network import ALL_SWITCH, KIND, OFFSET, ONE, PHYSICAL, PORTS, SIZE, SLOTS, SWITCH, ZERO, IntArray, Network
from .routes import route_links

Tally = tuple[IntArray, IntArray, IntArray, IntArray, IntArray]


class Counts(NamedTuple):
    """Counts of one stage in which every flow carries the same bytes. Arrays over levels are in the order L1, L2, L3.

    Flows may also be weighted; then all but `hops` are sums of weights.
    """

    hops: IntArray
    """Links per level of the routes that can be the slowest, (route, level): none has as many as another in each."""
    busy: IntArray
    """Flows on the busiest charged link of each level."""
    center: IntArray
    """Flows in and out of the busiest charged CENTER of each level."""
    total: IntArray
    """Charged link crossings of each level, then CENTER crossings that cost energy, then uncharged crossings of L3."""
    busiest: IntArray
    """Number of the busiest charged link of each level, then of a link of its busiest CENTER; -1 for none."""


class Counter:
    """Counts stages on one network, one after the other.

    Parameters
    ----------
    network : Network
        The links to count on.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._flows = np.zeros(network.links + 1, np.int64)
        self._runs = np.empty((network.runs, 2), np.int64)

    def pairs(self, stride: int, size: int, sources: IntArray, targets: IntArray) -> Counts:
        """Count a stage in which, in every group, rank ``sources[k]`` sends to rank ``targets[k]`` for all k."""
        network = self._network
        return _counts(
            count_pairs(network.layout, network.charged, self._flows, self._runs, stride, size, sources, targets)
        )

    def matrix(self, stride: int, size: int, weights: IntArray) -> Counts:
        """Count a stage in which rank a of group g sends ``weights[g, a, b]`` to every other rank b.

        An axis of length 1 stands for all groups or ranks alike.
        """
        network = self._network
        steps = np.array([step if n > 1 else 0 for n, step in zip(weights.shape, _steps(weights.shape), strict=True)])
        flat = np.require(weights, np.int64, ["C", "W"]).reshape(-1)  # read-only arrays would be compiled for once more
        return _counts(
            count_matrix(network.layout, network.charged, self._flows, self._runs, stride, size, flat, steps)
        )


def _steps(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Distance of neighbours along each axis of a contiguous array of three axes."""
    return shape[1] * shape[2], shape[2], 1


def _counts(tally: Tally) -> Counts:
    hops, busy, center, total, busiest = tally
    order = np.lexsort(hops.T)  # the order of flows must not show
    return Counts(hops[order], busy, center, total, busiest)


@kernel
def count_pairs(
    net: IntArray,
    charged: NDArray[np.bool_],
    flows: IntArray,
    runs: IntArray,
    stride: int,
    size: int,
    sources: IntArray,
    targets: IntArray,
) -> Tally:
    """Count flows between given ranks of every group."""
    blocks = net[SIZE] * net[SIZE + 1] * net[SIZE + 2] // (stride * size)
    span, front, kept = no_span(flows), np.zeros((16, 3), np.int64), ZERO
    for group in range(stride * blocks):
        first = group // blocks + group % blocks * stride * size
        for k in range(sources.size):
            s, d = first + sources[k] * stride, first + targets[k] * stride
            h1, h2, h3 = add_flow(net, flows, runs, s, d, ONE, span)
            kept = keep_slowest(front, kept, h1, h2, h3)
            if kept == front.shape[0]:
                front = doubled(front)
    return tally(net, charged, flows, span, front[: max(kept, 1)])


@kernel
def count_matrix(
    net: IntArray,
    charged: NDArray[np.bool_],
    flows: IntArray,
    runs: IntArray,
    stride: int,
    size: int,
    weights: IntArray,
    steps: IntArray,
) -> Tally:
    """Count weighted flows between all ranks of every group; a weight of 0 is no flow."""
    blocks = net[SIZE] * net[SIZE + 1] * net[SIZE + 2] // (stride * size)
    span, front, kept = no_span(flows), np.zeros((16, 3), np.int64), ZERO
    for group in range(stride * blocks):
        first = group // blocks + group % blocks * stride * size
        for a in range(size):
            for b in range(size):
                weight = weights[group * steps[0] + a * steps[1] + b * steps[2]]
                if a == b or weight == 0:
                    continue
                h1, h2, h3 = add_flow(net, flows, runs, first + a * stride, first + b * stride, weight, span)
                kept = keep_slowest(front, kept, h1, h2, h3)
                if kept == front.shape[0]:
                    front = doubled(front)
    return tally(net, charged, flows, span, front[: max(kept, 1)])


@kernel
def no_span(flows: IntArray) -> IntArray:
    """Return first and last link number touched on L1, L2, L3 when no link is: the wrong way round."""
    span = np.zeros((3, 2), np.int64)
    span[:, 0] = flows.size
    return span


@kernel
def add_flow(
    net: IntArray, flows: IntArray, runs: IntArray, s: int, d: int, weight: int, span: IntArray
) -> tuple[int, int, int]:
    """Add one flow to all links of its route and widen the span of links; return its links on L1, L2, L3."""
    first_of_l2, first_of_l3 = net[OFFSET + 1], net[OFFSET]
    count = route_links(net, s, d, runs)
    h1, h2, h3 = ZERO, ZERO, ZERO
    for k in range(count):
        first, length = runs[k, 0], runs[k, 1]
        last = first + length
        row = (first >= first_of_l2) + (first >= first_of_l3)
        h1 += length if row == 0 else 0
        h2 += length if row == 1 else 0
        h3 += length if row == 2 else 0
        flows[first] += weight
        flows[last] -= weight
        span[row, 0] = min(span[row, 0], first)
        span[row, 1] = max(span[row, 1], last)
    return h1, h2, h3


@kernel
def keep_slowest(front: IntArray, kept: int, h1: int, h2: int, h3: int) -> int:
    """Keep a vector of links on L1, L2, L3 unless another has as many on each; return how many are kept.

    A vector that beats the new one moves to the top, where the next ones meet it first.
    """
    for k in range(kept):
        if front[k, 0] >= h1 and front[k, 1] >= h2 and front[k, 2] >= h3:
            for row in range(3):
                front[0, row], front[k, row] = front[k, row], front[0, row]
            return kept
    left = ZERO
    for k in range(kept):
        if front[k, 0] > h1 or front[k, 1] > h2 or front[k, 2] > h3:
            for row in range(3):
                front[left, row] = front[k, row]
            left += 1
    front[left, 0], front[left, 1], front[left, 2] = h1, h2, h3
    return left + 1


@kernel
def doubled(front: IntArray) -> IntArray:
    """Return a copy with room for twice as many vectors."""
    larger = np.zeros((2 * front.shape[0], 3), np.int64)
    for k in range(front.shape[0]):
        for row in range(3):
            larger[k, row] = front[k, row]
    return larger


@kernel
def tally(net: IntArray, charged: NDArray[np.bool_], flows: IntArray, span: IntArray, hops: IntArray) -> Tally:
    """Sum the difference array up to the counts of a stage, and leave it zero."""
    busy, center = np.zeros(3, np.int64), np.zeros(3, np.int64)
    total, busiest = np.zeros(5, np.int64), np.full(6, -1, np.int64)
    for row in range(3):
        level = 2 - row
        # the links of one instance of a level are numbered in a row, one block for each port inside
        instance = net[SLOTS + level] * (net[PORTS + 2] if row > 0 else 1) * (net[PORTS + 1] if row > 1 else 1)
        has_center = net[KIND + level] == SWITCH and (net[PHYSICAL] or (row == 0 and not net[ALL_SWITCH]))
        offset, running, through, end = net[OFFSET + level], 0, 0, 0
        for link in range(span[row, 0], span[row, 1]):
            if link >= end:
                end, through = link + instance - (link - offset) % instance, 0
            running += flows[link]
            flows[link] = 0
            if running == 0:
                continue
            if row == 2 and not charged[link - offset]:
                total[4] += running
                continue
            total[row] += running
            through += running
            if running > busy[row]:
                busy[row], busiest[row] = running, link
            if has_center and through > center[row]:
                center[row], busiest[3 + row] = through, link
        if span[row, 0] < span[row, 1]:
            flows[span[row, 1]] = 0
        if has_center and not net[PHYSICAL]:
            total[3] = total[row]
    return hops, busy, center, total, busiest
