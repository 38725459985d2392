"""
Which points of a table no other point dominates.

A row is a point and a column an objective, of which less is better; there are no NaN. One point dominates another
when it is nowhere worse and somewhere better. In lexicographic order of the rows only earlier points can dominate,
and points that are equal in all columns stand together.
"""

import numpy as np

from stacksweep.kernels._compile import kernel


def _undominated(keys, pivots):
    """Whether none of a few points dominates a point: a cheap pass that leaves less to sort."""
    kept = np.ones(keys.shape[0], np.bool_)
    for point in range(keys.shape[0]):
        for pivot in range(pivots.shape[0]):
            better = False
            for column in range(keys.shape[1]):
                if pivots[pivot, column] > keys[point, column]:
                    better = False
                    break
                if pivots[pivot, column] < keys[point, column]:
                    better = True
            if better:
                kept[point] = False
                break
    return kept


def _front_of_two(keys):
    """Which points in lexicographic order are on the front: those with less in the second column than any before."""
    kept = np.zeros(keys.shape[0], np.bool_)
    # no comparison with NaN holds, so that it stands for a least value that there is not yet
    least = np.nan
    for point in range(keys.shape[0]):
        if point > 0 and keys[point, 0] == keys[point - 1, 0] and keys[point, 1] == keys[point - 1, 1]:
            kept[point] = kept[point - 1]
        elif not least <= keys[point, 1]:
            kept[point] = True
            least = keys[point, 1]
    return kept


def _front_of_three(keys, ranks):
    """
    Which points in lexicographic order are on the front, given the ranks of the second column, from 1.

    A Fenwick tree over the ranks holds the least third column so far: a point is dominated if an earlier one, of no
    higher rank in the second column, has no more in the third. Equal values may have different ranks only if the ranks
    follow the order of the points.
    """
    size = keys.shape[0]
    kept = np.zeros(size, np.bool_)
    tree = np.full(size + 1, np.nan)
    for point in range(size):
        if (
            point > 0
            and keys[point, 0] == keys[point - 1, 0]
            and keys[point, 1] == keys[point - 1, 1]
            and keys[point, 2] == keys[point - 1, 2]
        ):
            kept[point] = kept[point - 1]
            continue
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
    """Which points in lexicographic order are on the front, for any number of columns: compare with all on it."""
    kept = np.zeros(keys.shape[0], np.bool_)
    front = np.empty(keys.shape[0], np.int64)
    size = 0
    for point in range(keys.shape[0]):
        equal = point > 0
        for column in range(keys.shape[1]):
            equal = equal and keys[point, column] == keys[point - 1, column]
        if equal:
            kept[point] = kept[point - 1]
            continue
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
front_of_two = kernel(_front_of_two)
front_of_three = kernel(_front_of_three)
front_of_many = kernel(_front_of_many)


SAMPLE = 2**13
PIVOTS = 64
"""Points that are drawn to find the few that dominate many, and how many of those are used."""


def front(keys):
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
    Of n points, two or three objectives need O(n log n) steps; more need O(n f) for a front of f points. What a sample
    of the points dominates is removed first, which mostly leaves little.
    """
    rows = _not_obviously_dominated(keys)
    rows = rows[_lexicographic(keys[rows])]
    ordered = keys[rows]
    if keys.shape[1] == 2:
        return rows[front_of_two(ordered)]
    if keys.shape[1] == 3:
        ranks = np.unique(ordered[:, 1], return_inverse=True)[1] + 1
        return rows[front_of_three(ordered, ranks)]
    return rows[front_of_many(ordered)]


def _not_obviously_dominated(keys):
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
        rows = rows[undominated(keys[rows], pivots)]
        if rows.size > before / 2:
            break
    return rows


def _lexicographic(keys):
    """Order of the rows, equal ones as they stand; mostly by the first column, since few are equal in it."""
    order = np.argsort(keys[:, 0])
    same = np.flatnonzero(np.diff(keys[order, 0]) == 0)
    tied = np.union1d(same, same + 1)
    rows = np.sort(order[tied])
    order[tied] = rows[np.lexsort(keys[rows].T[::-1])]
    return order
