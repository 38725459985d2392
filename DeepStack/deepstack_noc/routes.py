"""Routes between devices as runs of link numbers, in both link models.

A route is a list of runs of links with consecutive numbers: `runs[k, 0]` is the first number, `runs[k, 1]` how many
there are. Each function appends at position `n` and returns the position after what it wrote. How links
are numbered is told in `network`.
"""

from __future__ import annotations

import numpy as np

from ._jit import kernel
from .network import (
    ALL_TO_ALL,
    COLUMNS,
    DOWN,
    KIND,
    L1,
    L2,
    L3,
    LEFT,
    NEAREST,
    NOWHERE,
    OFFSET,
    OUTS,
    PHYSICAL,
    PLACES_AT,
    PORTS,
    RIGHT,
    RINGED_COLUMNS,
    RINGED_ROWS,
    ROWS,
    SIZE,
    SLOTS,
    STRAIGHT,
    SWITCH,
    UP,
    ZERO,
    IntArray,
    column_of,
    direction_in_full,
    in_port,
    out_port,
    port_pairs,
    row_of,
)


@kernel
def spread(s: int, d: int, level: int, i: int) -> int:
    """DeepStack's hash of source, target, level and hop, which spreads traffic over ports."""
    return abs((s * 1315423911) ^ (d * 2654435761) ^ (level * 97) ^ i)


@kernel
def way_along(a: int, b: int, length: int, ringed: bool) -> int:
    """Signed number of steps from a to b: straight, or the shorter way round, the increasing one when equal."""
    if not ringed:
        return b - a
    forward = b - a if b >= a else b - a + length
    return forward if 2 * forward <= length else forward - length


@kernel
def next_along(place: int, steps: int, length: int) -> int:
    """Return the place one step on in a dimension, wrapping at its ends."""
    if steps > 0:
        return place + 1 if place + 1 < length else ZERO
    return place - 1 if place > 0 else length - 1


@kernel
def side_of_rows(net: IntArray, level: int, steps: int) -> int:
    """Direction of a move along rows; with two ringed rows both ways are the same hop, down."""
    ringed, rows = net[RINGED_ROWS + level], net[ROWS + level]
    both = ringed and rows == 2
    return UP if steps > 0 and not both else DOWN


@kernel
def side_of_columns(net: IntArray, level: int, steps: int) -> int:
    """Direction of a move along columns; with two ringed columns both ways are the same hop, left."""
    ringed, columns = net[RINGED_COLUMNS + level], net[COLUMNS + level]
    both = ringed and columns == 2
    return RIGHT if steps > 0 and not both else LEFT


@kernel
def line(first: int, x: int, along: int, steps: int, length: int, runs: IntArray, n: int) -> int:
    """Append `steps` links, or none, of one line from position `along`, which counts in the direction of the walk."""
    if x in (DOWN, LEFT):
        along = length - 1 - along
    before_wrap = min(steps, length - along)
    runs[n, 0], runs[n, 1] = first + along, before_wrap
    runs[n + 1, 0], runs[n + 1, 1] = first, steps - before_wrap
    return n + (steps > 0) + (steps > before_wrap)


@kernel
def walk(net: IntArray, level: int, first: int, a: int, b: int, runs: IntArray, n: int) -> int:
    """Append the walk from place a to node b of one instance of a level whose links start at number `first`.

    Nothing inside the level moves on the way. From nowhere there is no walk.
    """
    kind, size, rows, columns = net[KIND + level], net[SIZE + level], net[ROWS + level], net[COLUMNS + level]
    runs[n, 1], runs[n + 1, 1] = 1, 1
    if a in (b, NOWHERE):
        return n
    if kind == SWITCH:
        down = first + size + b
        runs[n, 0], runs[n + 1, 0] = first + a if a != size else down, down
        return n + 2 if a != size and b != size else n + 1
    if kind == ALL_TO_ALL:
        runs[n, 0] = first + a * size + b
        return n + 1
    row, column, row_b = row_of(net, level, a), column_of(net, level, a), row_of(net, level, b)
    steps = way_along(row, row_b, rows, net[RINGED_ROWS + level])
    x = side_of_rows(net, level, steps)
    n = line(first + x * size + column * rows, x, row, abs(steps), rows, runs, n)
    steps = way_along(column, column_of(net, level, b), columns, net[RINGED_COLUMNS + level])
    x = side_of_columns(net, level, steps)
    return line(first + x * size + row_b * columns, x, column, abs(steps), columns, runs, n)


@kernel
def step(net: IntArray, level: int, u: int, b: int) -> tuple[int, int, int]:
    """Return node, direction and slot of the next hop of a walk from u to b, u and b different."""
    size, rows, columns = net[SIZE + level], net[ROWS + level], net[COLUMNS + level]
    if net[KIND + level] == SWITCH:
        return (size, UP, u) if u != size else (b, UP, size + b)
    if net[KIND + level] == ALL_TO_ALL:
        return b, direction_in_full(net, level, u, b), u * size + b
    row, column = row_of(net, level, u), column_of(net, level, u)
    steps = way_along(row, row_of(net, level, b), rows, net[RINGED_ROWS + level])
    if steps != 0:
        x = side_of_rows(net, level, steps)
        v = next_along(row, steps, rows) * columns + column
        along = row if x == UP else rows - 1 - row
        return v, x, x * size + column * rows + along
    steps = way_along(column, column_of(net, level, b), columns, net[RINGED_COLUMNS + level])
    x = side_of_columns(net, level, steps)
    v = row * columns + next_along(column, steps, columns)
    along = column if x == RIGHT else columns - 1 - column
    return v, x, x * size + row * columns + along


@kernel
def entry_side(net: IntArray, level: int, x: int) -> int:
    """Side that the inner levels are entered through after a hop in direction x."""
    return UP if net[KIND + level] == SWITCH else x ^ 1


@kernel
def distance(net: IntArray, level: int, a: int, b: int) -> int:
    """Hops of the walk from a to b of a level with several ports."""
    if net[KIND + level] == ALL_TO_ALL:
        return int(a != b)
    vertical = way_along(row_of(net, level, a), row_of(net, level, b), net[ROWS + level], net[RINGED_ROWS + level])
    horizontal = way_along(
        column_of(net, level, a), column_of(net, level, b), net[COLUMNS + level], net[RINGED_COLUMNS + level]
    )
    return abs(vertical) + abs(horizontal)


@kernel
def port_number(net: IntArray, level: int, place: int, x: int, entry: int, hashed: int) -> int:
    """Which port of an inner level a hop in direction x uses, given where the inner level stands."""
    count = port_pairs(net, level, x, entry)
    if count == 1:
        return ZERO
    if not net[NEAREST]:
        j: int = np.remainder(hashed, count)
        return j
    best = ZERO
    if place != NOWHERE:
        for other in range(1, count):
            shortest = distance(net, level, place, out_port(net, level, x, best))
            if distance(net, level, place, out_port(net, level, x, other)) < shortest:
                best = other
    return best


@kernel
def first_of_innermost(net: IntArray, p3: int, p2: int) -> int:
    """Return the number of the first link of the L1 instance inside a node of L3 and L2."""
    first: int = net[OFFSET + 2] + (p3 * net[SIZE + 1] + p2) * net[SLOTS + 2]
    return first


@kernel
def first_of_middle(net: IntArray, p3: int, j1: int) -> int:
    """Return the number of the first link of the L2 instance inside a node of L3, at port number j1 of L1."""
    first: int = net[OFFSET + 1] + (p3 * net[PORTS + 2] + j1) * net[SLOTS + 1]
    return first


@kernel
def first_of_outermost(net: IntArray, j2: int, j1: int) -> int:
    """Return the number of the first link of L3 at port numbers j2 of L2 and j1 of L1."""
    first: int = net[OFFSET] + (j2 * net[PORTS + 2] + j1) * net[SLOTS]
    return first


@kernel
def walk_middle(
    net: IntArray, s: int, d: int, p3: int, a: int, b: int, p1: int, runs: IntArray, n: int
) -> tuple[int, int]:
    """Physical walk of L2 from a to b, L1 standing at p1; return the position in the route and where L1 ends."""
    if a != b and net[STRAIGHT + 1]:
        port = out_port(net, L1, UP, ZERO)
        n = walk(net, L1, first_of_innermost(net, p3, a), p1, port, runs, n)
        return walk(net, L2, first_of_middle(net, p3, ZERO), a, b, runs, n), port
    u, i = a, ZERO
    while u != b:
        v, x, slot = step(net, L2, u, b)
        entry = entry_side(net, L2, x)
        j1 = port_number(net, L1, p1, x, entry, spread(s, d, L2, i))
        n = walk(net, L1, first_of_innermost(net, p3, u), p1, out_port(net, L1, x, j1), runs, n)
        runs[n, 0], runs[n, 1] = first_of_middle(net, p3, j1) + slot, 1
        n += 1
        at_center = net[KIND + 1] == SWITCH and v == net[SIZE + 1]
        p1 = NOWHERE if at_center else in_port(net, L1, entry, j1)
        u, i = v, i + 1
    return n, p1


@kernel
def walk_outermost(
    net: IntArray, s: int, d: int, a: int, b: int, p2: int, p1: int, runs: IntArray, n: int
) -> tuple[int, int, int]:
    """Physical walk of L3 from a to b, L2 and L1 standing at p2 and p1; also return where these end."""
    middle_center = net[SIZE + 1] if net[KIND + 1] == SWITCH else NOWHERE
    if net[STRAIGHT]:
        port = out_port(net, L2, UP, ZERO)
        n, p1 = walk_middle(net, s, d, a, p2, port, p1, runs, n)
        if port != middle_center:
            n = walk(net, L1, first_of_innermost(net, a, port), p1, out_port(net, L1, UP, ZERO), runs, n)
            p1 = out_port(net, L1, UP, ZERO)
        return walk(net, L3, first_of_outermost(net, ZERO, ZERO), a, b, runs, n), port, p1
    u, i = a, ZERO
    while u != b:
        v, x, slot = step(net, L3, u, b)
        entry = entry_side(net, L3, x)
        hashed = spread(s, d, L3, i)
        j2 = port_number(net, L2, p2, x, entry, hashed)
        if p2 != NOWHERE:
            n, p1 = walk_middle(net, s, d, u, p2, out_port(net, L2, x, j2), p1, runs, n)
            p2 = out_port(net, L2, x, j2)
        j1 = ZERO
        if middle_center == NOWHERE:
            j1 = port_number(net, L1, p1, x, entry, hashed)
            if p1 != NOWHERE:
                port = out_port(net, L1, x, j1)
                n = walk(net, L1, first_of_innermost(net, u, p2), p1, port, runs, n)
        runs[n, 0], runs[n, 1] = first_of_outermost(net, j2, j1) + slot, 1
        n += 1
        at_center = net[KIND] == SWITCH and v == net[SIZE]
        p2 = NOWHERE if at_center else in_port(net, L2, entry, j2)
        p1 = NOWHERE if at_center or p2 == middle_center else in_port(net, L1, entry, j1)
        u, i = v, i + 1
    return n, p2, p1


@kernel
def route_physical(net: IntArray, s: int, d: int, runs: IntArray) -> int:
    """Route in which every level moves to a port of its own before a level outside it hops."""
    at, to = PLACES_AT + 3 * s, PLACES_AT + 3 * d
    p3, p2, p1, d3, d2, d1 = net[at], net[at + 1], net[at + 2], net[to], net[to + 1], net[to + 2]
    n = ZERO
    if p3 != d3:
        n, p2, p1 = walk_outermost(net, s, d, p3, d3, p2, p1, runs, n)
    n, p1 = walk_middle(net, s, d, d3, p2, d2, p1, runs, n)
    return walk(net, L1, first_of_innermost(net, d3, d2), p1, d1, runs, n)


@kernel
def route_deepstack(net: IntArray, s: int, d: int, runs: IntArray) -> int:
    """Route as DeepStack takes it: L1 goes to its CENTER first and stands there until the end."""
    at, to = PLACES_AT + 3 * s, PLACES_AT + 3 * d
    p3, p2, p1, d3, d2, d1 = net[at], net[at + 1], net[at + 2], net[to], net[to + 1], net[to + 2]
    n = ZERO
    rest = net[SIZE + 2] if net[KIND + 2] == SWITCH else p1
    n = walk(net, L1, first_of_innermost(net, p3, p2), p1, rest, runs, n)
    if p3 != d3 and net[STRAIGHT]:
        n = walk(net, L2, first_of_middle(net, p3, ZERO), p2, out_port(net, L2, UP, ZERO), runs, n)
        p2 = out_port(net, L2, UP, ZERO)
        n = walk(net, L3, first_of_outermost(net, ZERO, ZERO), p3, d3, runs, n)
        p3 = d3
    i = ZERO
    while p3 != d3:
        v, x, slot = step(net, L3, p3, d3)
        entry = entry_side(net, L3, x)
        hashed = spread(s, d, L3, i)
        if i > 0:  # between two hops L2 goes to a port of the next one, which need not be the one it leaves through
            ahead = out_port(net, L2, x, np.remainder(hashed, net[OUTS + 4 + x]))
            n = walk(net, L2, first_of_middle(net, p3, ZERO), p2, ahead, runs, n)
            p2 = ahead
        count = min(net[OUTS + x], port_pairs(net, L2, x, entry))
        j2 = np.remainder(hashed, count)
        n = walk(net, L2, first_of_middle(net, p3, ZERO), p2, out_port(net, L2, x, j2), runs, n)
        runs[n, 0], runs[n, 1] = first_of_outermost(net, j2, ZERO) + slot, 1
        n += 1
        p3, p2, i = v, in_port(net, L2, entry, j2), i + 1
    n = walk(net, L2, first_of_middle(net, d3, ZERO), p2, d2, runs, n)
    return walk(net, L1, first_of_innermost(net, d3, d2), rest, d1, runs, n)


@kernel
def route_links(net: IntArray, s: int, d: int, runs: IntArray) -> int:
    """Write the route from device s to another device d and return its number of runs."""
    if net[PHYSICAL]:
        return route_physical(net, s, d, runs)
    return route_deepstack(net, s, d, runs)
