"""
Which points of a table no other point dominates.

A row is a point and a column an objective, of which less is better; there are no NaN. One point dominates another
when it is nowhere worse and somewhere better. Among different points in lexicographic order only an earlier one can
dominate, and does where it is no worse in all columns but the first.
"""

import numpy as np

from stacksweep.columns import Array
from stacksweep.kernels._compile import kernel


def _undominated(keys, rows, pivots):
    """Which of the chosen rows none of a few points dominates: a cheap pass that leaves less to sort."""
    kept = np.ones(rows.size, np.bool_)
    for place in range(rows.size):
        row = rows[place]
        for pivot in range(pivots.shape[0]):
            better = False
            for column in range(keys.shape[1]):
                if pivots[pivot, column] > keys[row, column]:
                    better = False
                    break
                if pivots[pivot, column] < keys[row, column]:
                    better = True
            if better:
                kept[place] = False
                break
    return kept


def _distinct(keys, bits, rows):
    """
    Give equal rows of the chosen ones one number, in the order of their first appearance.

    An open hash table of the numbers; `bits` are those of the keys.
    """
    size = 2
    while size < 2 * rows.size:
        size *= 2
    table = np.full(size, -1)
    firsts = np.empty(rows.size, np.int64)
    numbers = np.empty(rows.size, np.int64)
    found = 0
    for place in range(rows.size):
        row = rows[place]
        code = np.uint64(0)
        for column in range(keys.shape[1]):
            # the two zeros are equal, but not their bits
            if keys[row, column] != 0:
                code ^= bits[row, column]
            # a product carries differences up, a shift brings them down again
            code *= np.uint64(0x9E3779B97F4A7C15)
            code ^= code >> np.uint64(29)
        slot = np.int64(code & np.uint64(size - 1))
        same = False
        while table[slot] >= 0 and not same:
            same = True
            for column in range(keys.shape[1]):
                same = same and keys[firsts[table[slot]], column] == keys[row, column]
            if not same:
                slot = (slot + 1) & (size - 1)
        if not same:
            table[slot] = found
            firsts[found] = row
            found += 1
        numbers[place] = table[slot]
    return firsts[:found], numbers


def _front_of_two(keys):
    """Which of different points in lexicographic order are on the front: those with less than any before."""
    kept = np.zeros(keys.shape[0], np.bool_)
    # no comparison with NaN holds, so that it stands for a least value that there is not yet
    least = np.nan
    for point in range(keys.shape[0]):
        if not least <= keys[point, 1]:
            kept[point] = True
            least = keys[point, 1]
    return kept


def _front_of_three(keys, ranks):
    """
    Which of different points in lexicographic order are on the front, given the ranks of the second column from 1.

    A Fenwick tree over the ranks holds the least third column so far: a point is dominated if one before it, of no
    higher rank, has no more there.
    """
    size = keys.shape[0]
    kept = np.zeros(size, np.bool_)
    tree = np.full(size + 1, np.nan)
    for point in range(size):
        node = ranks[point]
        while node > 0 and not tree[node] <= keys[point, 2]:
            node &= node - 1
        if node == 0:
            kept[point] = True
            node = ranks[point]
            while node <= size and not tree[node] <= keys[point, 2]:
                tree[node] = keys[point, 2]
                node += node & -node
    return kept


def _front_of_many(keys):
    """Which of different points in lexicographic order are on the front, for any number of columns."""
    kept = np.zeros(keys.shape[0], np.bool_)
    front = np.empty(keys.shape[0], np.int64)
    size = 0
    for point in range(keys.shape[0]):
        dominated = False
        for place in range(size):
            dominated = True
            for column in range(1, keys.shape[1]):
                if keys[front[place], column] > keys[point, column]:
                    dominated = False
                    break
            if dominated:
                # what dominates one point often dominates the next
                front[place], front[place // 2] = front[place // 2], front[place]
                break
        if not dominated:
            kept[point] = True
            front[size] = point
            size += 1
    return kept


undominated = kernel(_undominated)
distinct = kernel(_distinct)
front_of_two = kernel(_front_of_two)
front_of_three = kernel(_front_of_three)
front_of_many = kernel(_front_of_many)

SAMPLE = 2**13
"""Points that are drawn to find a few that dominate many."""

PIVOTS = 64
"""How many of them every point is compared with."""


def front(keys: Array) -> Array:
    """
    Find the points that no other dominates.

    Parameters
    ----------
    keys : numpy.ndarray of float64, shape (points, objectives)
        Less is better; no NaN.

    Returns
    -------
    numpy.ndarray of int64
        Rows on the front in lexicographic order, equal ones in the order of the table. Equal points are all on it.

    Notes
    -----
    Of n different points, two or three objectives need O(n log n) steps; more need O(n f) for a front of f points.
    What a sample of the points dominates is removed first, which mostly leaves little.
    """
    rows = _not_obviously_dominated(keys)
    order = rows[np.argsort(keys[rows, 0])]
    if _tied(keys[order, 0]).size == 0:
        return order[_on_front(keys[order])]
    firsts, numbers = distinct(keys, keys.view(np.uint64), rows)
    order = _lexicographic(keys[firsts])
    order = order[_on_front(keys[firsts[order]])]
    place_of_number = np.full(firsts.size, -1)
    place_of_number[order] = np.arange(order.size)
    places = place_of_number[numbers]
    kept = np.flatnonzero(places >= 0)
    return rows[kept[np.argsort(places[kept], kind="stable")]]


def _not_obviously_dominated(keys: Array) -> Array:
    """Remove what the best of a sample dominate, again and again while that halves the table."""
    rows = np.arange(keys.shape[0])
    draw = np.random.default_rng(0)
    while rows.size > 4 * SAMPLE:
        sample = keys[draw.choice(rows, SAMPLE)]
        best = front(sample)
        if best.size > SAMPLE / 4:
            break
        # low in all columns, compared by rank since units differ: dominates many
        places = [np.searchsorted(np.sort(column), column[best]) for column in sample.T]
        pivots = sample[best[np.argsort(np.sum(places, axis=0), kind="stable")[:PIVOTS]]]
        before = rows.size
        rows = rows[undominated(keys, rows, pivots)]
        if rows.size > before / 2:
            break
    return rows


def _lexicographic(keys: Array) -> Array:
    """Order of different rows: by the first column, and by the others only where that is equal."""
    order = np.argsort(keys[:, 0])
    tied = _tied(keys[order, 0])
    rows = order[tied]
    order[tied] = rows[np.lexsort(keys[rows].T[::-1])]
    return order


def _tied(ordered: Array) -> Array:
    """Places in an ordered array whose value a neighbour shares."""
    same = ordered[1:] == ordered[:-1]
    return np.flatnonzero(np.append(same, False) | np.append(False, same))


def _on_front(ordered: Array) -> Array:
    """Which of different points in lexicographic order are on the front."""
    kept: Array
    if ordered.shape[1] == 2:
        kept = front_of_two(ordered)
    elif ordered.shape[1] == 3:
        kept = front_of_three(ordered, np.unique(ordered[:, 1], return_inverse=True)[1] + 1)
    else:
        kept = front_of_many(ordered)
    return kept
