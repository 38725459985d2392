"""Collectives as lists of stages, and the flow patterns that stages share.

A pattern says who sends to whom; a stage is a pattern, a divisor of the bytes and a number of repeats. Patterns come
in families that are counted and kept together, keyed by what their flows depend on:

* ``exchange`` (distance, 2): every device with the one `distance` away inside blocks of twice that distance, which is
  rank i with rank i xor 2^k of any group whose stride times 2^k is the distance;
* ``ring`` (stride, size): rank i to rank i + 1 modulo size;
* ``direct`` (stride, size): every rank to every other;
* ``tree`` (stride, size): the stages of a double tree, upwards and then downwards;
* ``pipeline`` (stride, size): every rank of a stage to its counterpart of the next one, a pattern per boundary.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .errors import NocError
from .groups import Groups
from .network import IntArray

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "pipeline_transfer")
ALGORITHMS = (
    "none",
    "recursive_doubling",
    "ring",
    "rabenseifner",
    "double_tree",
    "all_to_all",
    "direct",
    "transfer",
)
"""Names of algorithms; a code in a table or result is a position in this list. A group of one takes ``none``."""


class Family(NamedTuple):
    """Key of patterns that are counted together."""

    name: str
    stride: int
    size: int


class Stage(NamedTuple):
    """Pattern number `pattern` of a family, run `repeat` times with the bytes divided by `divisor` and cut down."""

    family: Family
    pattern: int
    divisor: int
    repeat: int


def algorithms_of(collective: str, groups: Groups) -> dict[str, list[Stage]]:
    """Return the stages of each algorithm that a collective can take, in the order of preference.

    Raises
    ------
    NocError
        If there is no such collective.
    """
    stride, size = groups
    if collective not in COLLECTIVES:
        raise NocError(f"collective is {collective!r}; allowed are {', '.join(COLLECTIVES)}")
    if size == 1:
        return {"none": []}
    ring, direct = Family("ring", stride, size), Family("direct", stride, size)
    power_of_two = size & (size - 1) == 0
    steps = range(size.bit_length() - 1) if power_of_two else range(0)
    exchanges = [Family("exchange", stride << k, 2) for k in steps]
    halving = [Stage(exchange, 0, 2 << k, 1) for k, exchange in enumerate(exchanges)]
    if collective == "all_reduce":
        rings = {"ring": [Stage(ring, 0, size, 2 * (size - 1))]}
        if not power_of_two:
            return rings
        tree = Family("tree", stride, size)
        return {
            "recursive_doubling": [Stage(exchange, 0, 1, 1) for exchange in exchanges],
            **rings,
            "rabenseifner": [stage._replace(repeat=2) for stage in halving],
            "double_tree": [Stage(tree, n, 2, 1) for n in range(2 * len(steps))],
            "all_to_all": [Stage(direct, 0, 1, 1)],
        }
    if collective == "all_gather":
        gathers = {"ring": [Stage(ring, 0, size, size - 1)]}
        if power_of_two:
            gathers["recursive_doubling"] = [Stage(x, 0, size >> k, 1) for k, x in enumerate(exchanges)]
        return {**gathers, "direct": [Stage(direct, 0, size, 1)]}
    if collective == "reduce_scatter":
        return {"rabenseifner": halving} if power_of_two else {"ring": [Stage(ring, 0, size, size - 1)]}
    if collective == "all_to_all":
        return {"direct": [Stage(direct, 0, 1, 1)]}
    return {"transfer": [Stage(Family("pipeline", stride, size), 0, 1, 1)]}


def rank_pairs(family: Family) -> list[tuple[IntArray, IntArray]]:
    """Return source and target ranks of every pattern of a family other than ``direct``."""
    ranks = np.arange(family.size)
    if family.name in ("exchange", "ring"):
        return [(ranks, (ranks + 1) % family.size)]
    if family.name == "tree":
        up = [np.array(level, np.int64).T.copy() for level in tree_levels(family.size)]
        return [(sources, targets) for sources, targets in up] + [(targets, sources) for sources, targets in up[::-1]]
    return [(ranks[q : q + 1], ranks[q + 1 : q + 2]) for q in range(family.size - 1)]


def tree_levels(size: int) -> list[list[tuple[int, int]]]:
    """Return child and parent of every transfer of a double tree, level by level, both trees at once.

    Tree A starts from the even ranks and ends at the last rank, tree B starts from the odd ones and ends at rank 0.
    """
    levels: list[list[tuple[int, int]]] = [[] for _ in range(size.bit_length() - 1)]
    for first, root in ((0, size - 1), (1, 0)):
        nodes = list(range(first, size, 2))
        for level in levels[:-1]:
            parents = [(left + right) // 2 for left, right in zip(nodes[::2], nodes[1::2], strict=True)]
            level += [(node, parents[k // 2]) for k, node in enumerate(nodes)]
            nodes = parents
        levels[-1].append((nodes[0], root))
    return levels
