"""A topology as arrays for compiled code: sizes, ports, and a number for every directed link.

Levels are counted 0 for L3, 1 for L2, 2 for L1. Nodes of a level are numbered `row * columns + column`; the CENTER of
a switch has the number after its last node; `NOWHERE` stands for a level without a place, as inside a CENTER.
Directions are counted 0 up, 1 down, 2 left, 3 right, so that `x ^ 1` is the opposite of `x`.

Every directed link has a number of its own. Inside one instance of a level, a hop has a slot:

* switch: `u` for the hop from node u to the CENTER, `size + v` for the hop from the CENTER to node v;
* all_to_all: `u * size + v`;
* the others: `x * size + line * length + along`, where x is the direction, and `along` counts in that direction, so
  that the links of a straight walk are numbered in a row.

An instance of L1 belongs to a node of L3 and L2, one of L2 to a node of L3. What else tells links of one hop apart is
the port that each level inside it leaves and arrives through: port number j of L1 for a hop of L2, port numbers of L2
and L1 for a hop of L3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel
from .errors import NocError
from .noc import WRAPPING_COLUMNS, WRAPPING_ROWS, Topology

LINK_MODELS = ("deepstack", "physical")


def _constant(value: int) -> int:
    """Return an integer that compiled functions take as any other: for plain ones numba compiles them anew."""
    return cast("int", np.int64(value))


L3, L2, L1 = _constant(0), _constant(1), _constant(2)
UP, DOWN, LEFT, RIGHT = _constant(0), _constant(1), _constant(2), _constant(3)
NOWHERE, ZERO, ONE = _constant(-1), _constant(0), _constant(1)
SWITCH, ALL_TO_ALL, GRID = 0, 1, 2

IntArray = NDArray[np.int64]

# Compiled code takes a network as one array of integers. These say where what stands in it: three flags, then for
# each field the values of L3, L2, L1, then for each level and direction where its ports are listed, and how many, at
# last the lists. Rows, columns and places are looked up, because a division can raise, and numba makes every call
# around it slower by that.
PHYSICAL, NEAREST, ALL_SWITCH = 0, 1, 2
KIND, ROWS, COLUMNS, RINGED_ROWS, RINGED_COLUMNS, SIZE, STRAIGHT, SLOTS, PORTS, OFFSET, CELLS_AT = range(3, 36, 3)
OUTS_AT, OUTS, INS_AT, INS = range(36, 84, 12)
PLACES_AT = 84
"""Where the nodes of L3, L2, L1 of each device are listed; the other lists follow.

STRAIGHT tells whether a walk of the level crosses links that are numbered in a row, because nothing inside it moves
on the way; SLOTS is the number of hops of one instance of the level, PORTS the most ports that it has on one side,
OFFSET the number of its first link, CELLS_AT where row and column of each of its nodes are listed.
"""


@dataclass(frozen=True, eq=False)
class Network:
    """A topology under one link model.

    Attributes
    ----------
    topology : Topology
        Kinds and shapes.
    link_model : str
        ``deepstack`` or ``physical``.
    layout : ndarray of int64
        The network for compiled code.
    charged : ndarray of bool
        Whether a link of L3 is charged, by its number within L3.
    links : int
        Number after the last link. One number stays free between levels.
    runs : int
        Most runs of consecutive links that a route consists of.
    """

    topology: Topology
    link_model: str
    layout: IntArray
    charged: NDArray[np.bool_]
    links: int
    runs: int


def check_link_model(topology: Topology, link_model: str) -> None:
    """Refuse link models that are unknown, or that have no routes for a topology.

    Raises
    ------
    NocError
        Naming ``link_model="physical"`` where that is the way out.
    """
    if link_model not in LINK_MODELS:
        raise NocError(f"link_model is {link_model!r}; allowed are 'deepstack' and 'physical'")
    if link_model == "physical":
        return
    if topology.port_spread != "even":
        raise NocError(
            f"port_spread is {topology.port_spread!r}, which link_model='deepstack' does not know; "
            "allowed is 'even', or use link_model=\"physical\""
        )
    kinds, sizes = topology.kinds, topology.sizes
    if topology.all_switch or sum(size > 1 for size in sizes) <= 1:
        return
    still = [size == 1 for size in sizes]
    grids = [kind not in ("switch", "all_to_all") for kind in kinds]
    has_routes = (kinds[2] == "switch" or still[2]) and grids[1] and (grids[0] or still[0])
    if not has_routes:
        levels = ", ".join(f"{n} {k}" for n, k in zip(("L3", "L2", "L1"), kinds, strict=True))
        raise NocError(
            f"link_model is 'deepstack', which has no routes for {levels}; allowed are switches at every level, "
            "or a switch at L1 inside rings, chains, meshes or tori, or a single level larger than 1; "
            'use link_model="physical"'
        )


@lru_cache(maxsize=256)
def network_of(topology: Topology, link_model: str) -> Network:
    """Lay out the links of a topology under a link model.

    Raises
    ------
    NocError
        If the link model has no routes for the topology.
    """
    check_link_model(topology, link_model)
    physical = link_model == "physical"
    names, sizes = topology.kinds, topology.sizes
    kinds = [{"switch": SWITCH, "all_to_all": ALL_TO_ALL}.get(name, GRID) for name in names]
    sides = [[_side_ports(topology, level, x) for x in range(4)] for level in range(3)]
    ports = [max(len(nodes) for side in level for nodes in side) for level in sides]
    one_port = [kind == SWITCH or size == 1 for kind, size in zip(kinds, sizes, strict=True)]
    if physical:
        still_inside = [kinds[1] == SWITCH or (one_port[1] and one_port[2]), one_port[2], True]
    else:  # L1 stands at its CENTER all the way
        still_inside = [one_port[1], True, True]
    straight = [still and kind == GRID for still, kind in zip(still_inside, kinds, strict=True)]
    slots = [(2 * size, size * size, 4 * size)[kind] for kind, size in zip(kinds, sizes, strict=True)]
    outermost_links = slots[0] * ports[1] * ports[2]
    middle_links, innermost_links = sizes[0] * slots[1] * ports[2], sizes[0] * sizes[1] * slots[2]
    offset = [innermost_links + 1 + middle_links + 1, innermost_links + 1, 0]

    lists = [place for device in np.ndindex(*sizes) for place in device]
    cells_at = []
    for rows, columns in topology.shapes:
        cells_at.append(PLACES_AT + len(lists))
        lists += [part for cell in np.ndindex(rows, columns) for part in cell]
    starts: dict[int, list[int]] = {0: [], 1: []}
    counts: dict[int, list[int]] = {0: [], 1: []}
    for level in sides:
        for side in level:
            for way, nodes in enumerate(side):
                starts[way].append(PLACES_AT + len(lists))
                counts[way].append(len(nodes))
                lists += nodes
    layout = np.array(
        [
            *(physical, topology.port_spread == "nearest", topology.all_switch),
            *kinds,
            *(rows for rows, _ in topology.shapes),
            *(columns for _, columns in topology.shapes),
            *(name in WRAPPING_ROWS for name in names),
            *(name in WRAPPING_COLUMNS for name in names),
            *sizes,
            *straight,
            *slots,
            *ports,
            *offset,
            *cells_at,
            *starts[0],
            *counts[0],
            *starts[1],
            *counts[1],
            *lists,
        ],
        np.int64,
    )
    charged = np.ones(outermost_links, np.bool_)
    if not physical and kinds[0] == GRID:
        mark_charged(layout, charged)
    runs = _most_runs(kinds, topology.shapes, straight)
    return Network(topology, link_model, layout, charged, offset[0] + outermost_links, runs)


def _side_ports(topology: Topology, level: int, x: int) -> tuple[list[int], list[int]]:
    """Nodes of a level that direction x leaves through, and that are arrived at through side x."""
    kind, (rows, columns) = topology.kinds[level], topology.shapes[level]
    if kind == "switch":
        return [columns], [columns]
    if kind == "all_to_all":
        first = {LEFT: 0, RIGHT: 1, UP: 2, DOWN: 3}[x]
        nodes = list(range(first, rows * columns, 4))
        return nodes, nodes
    low, high = ([0], [0]) if (length := columns if x in (UP, DOWN) else rows) == 1 else _halves(length)
    if x in (UP, DOWN):
        row = rows - 1 if x == UP else 0
        low, high = [row * columns + c for c in low], [row * columns + c for c in high]
    else:
        column = 0 if x == LEFT else columns - 1
        low, high = [r * columns + column for r in low], [r * columns + column for r in high]
    return (low, high) if x in (UP, LEFT) else (high, low)


def _halves(length: int) -> tuple[list[int], list[int]]:
    return list(range(length // 2)), list(range(length // 2, length))


def _most_runs(kinds: list[int], shapes: Sequence[tuple[int, int]], straight: list[bool]) -> int:
    """Bound the number of runs in a route, from L1 outwards."""
    inside = 0
    for level in (2, 1, 0):
        runs = {SWITCH: 2, ALL_TO_ALL: 1, GRID: 4}[kinds[level]]  # two straight lines, each may wrap once
        if kinds[level] == GRID and not straight[level]:
            runs = sum(shapes[level])
        # every hop may move all that is inside to a port, and once more after the hop
        moves = 1 if straight[level] else runs
        inside = runs + (2 * moves + 1) * inside
    return inside + 2  # a walk may write two more than it has


@kernel
def row_of(net: IntArray, level: int, node: int) -> int:
    """Row of a node of a level."""
    row: int = net[net[CELLS_AT + level] + 2 * node]
    return row


@kernel
def column_of(net: IntArray, level: int, node: int) -> int:
    """Column of a node of a level."""
    column: int = net[net[CELLS_AT + level] + 2 * node + 1]
    return column


@kernel
def out_port(net: IntArray, level: int, x: int, j: int) -> int:
    """Node of port number j of a level in direction x."""
    node: int = net[net[OUTS_AT + 4 * level + x] + j]
    return node


@kernel
def in_port(net: IntArray, level: int, side: int, j: int) -> int:
    """Node of port number j of a level at the side that is entered."""
    node: int = net[net[INS_AT + 4 * level + side] + j]
    return node


@kernel
def port_pairs(net: IntArray, level: int, x: int, side: int) -> int:
    """Count the pairs of ports of a level that a hop in direction x, entering through a side, can use."""
    pairs: int = min(net[OUTS + 4 * level + x], net[INS + 4 * level + side])
    return pairs


@kernel
def mark_charged(net: IntArray, charged: NDArray[np.bool_]) -> None:
    """Mark the L3 links that DeepStack gives a bandwidth: pairs of L2 ports that one of its own edges joins.

    Its edges count rows downwards and its routes upwards, which leaves vertical links without a bandwidth.
    """
    hop = np.zeros(3, np.int64)
    for slot in range(net[SLOTS]):
        hop_of(net, L3, slot, hop)
        x = hop[2]
        for j in range(port_pairs(net, L2, x, x ^ 1)):
            joined = False
            for way in range(4):
                if deepstack_neighbour(net, hop[0], way) == hop[1]:
                    for k in range(port_pairs(net, L2, way, way ^ 1)):
                        same_out = out_port(net, L2, way, k) == out_port(net, L2, x, j)
                        joined |= same_out and in_port(net, L2, way ^ 1, k) == in_port(net, L2, x ^ 1, j)
            charged[j * net[PORTS + 2] * net[SLOTS] + slot] = joined


@kernel
def deepstack_neighbour(net: IntArray, u: int, way: int) -> int:
    """Return where DeepStack's edge of a direction from L3 node u leads, rows counted downwards; -1 for nowhere."""
    rows, columns = net[ROWS], net[COLUMNS]
    row, column = u // columns, u % columns
    step = 1 if way in (DOWN, RIGHT) else -1
    if way in (UP, DOWN):
        row += step
        if net[RINGED_ROWS]:
            row %= rows
    else:
        column += step
        if net[RINGED_COLUMNS]:
            column %= columns
    return row * columns + column if 0 <= row < rows and 0 <= column < columns else -1


@kernel
def hop_of(net: IntArray, level: int, slot: int, hop: IntArray) -> None:
    """Write the nodes u, v and the direction of a slot into `hop`."""
    size, rows, columns = net[SIZE + level], net[ROWS + level], net[COLUMNS + level]
    if net[KIND + level] == SWITCH:
        hop[0], hop[1], hop[2] = slot, size, UP
        if slot >= size:
            hop[0], hop[1] = size, slot - size
        return
    if net[KIND + level] == ALL_TO_ALL:
        hop[0], hop[1] = slot // size, slot % size
        hop[2] = direction_in_full(net, level, hop[0], hop[1])
        return
    x, place = slot // size, slot % size
    if x in (UP, DOWN):
        column, along = place // rows, place % rows
        row = along if x == UP else rows - 1 - along
        row_after = (row + 1) % rows if x == UP else (row - 1) % rows
        hop[0], hop[1] = row * columns + column, row_after * columns + column
    else:
        row, along = place // columns, place % columns
        column = along if x == RIGHT else columns - 1 - along
        column_after = (column + 1) % columns if x == RIGHT else (column - 1) % columns
        hop[0], hop[1] = row * columns + column, row * columns + column_after
    hop[2] = x


@kernel
def direction_in_full(net: IntArray, level: int, u: int, v: int) -> int:
    """Direction of a hop of an all_to_all level, named as in a mesh."""
    rise = row_of(net, level, v) - row_of(net, level, u)
    if rise != 0:
        return UP if rise > 0 else DOWN
    return RIGHT if v > u else LEFT
