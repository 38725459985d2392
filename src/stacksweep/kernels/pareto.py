"""
Which points of a table no other point dominates.

A row is a point and a column an objective, of which less is better; there are no NaN. One point dominates another
when it is nowhere worse and somewhere better. Among different points in lexicographic order only an earlier one can
dominate, and does where it is no worse in all columns but the first.
"""

import numpy as np

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


def _distinct(bits, chosen):
    """Number the different rows of a table, those of `chosen`, in the order of their first appearance, by hashing."""
    size = 2
    while size < 2 * chosen.size:
        size *= 2
    numbers = np.full(size, -1)
    firsts = np.empty(chosen.size, np.int64)
    number_of = np.empty(chosen.size, np.int64)
    found = 0
    for place in range(chosen.size):
        row = chosen[place]
        code = np.uint64(0)
        for column in range(bits.shape[1]):
            # a multiplication carries a difference upwards only, a shift brings it down again
            code = (code ^ bits[row, column]) * np.uint64(0x9E3779B97F4A7C15)
            code ^= code >> np.uint64(29)
        slot = np.int64(code & np.uint64(size - 1))
        while True:
            number = numbers[slot]
            if number < 0:
                number = found
                numbers[slot] = number
                firsts[number] = row
                found += 1
                break
            same = True
            for column in range(bits.shape[1]):
                same = same and bits[firsts[number], column] == bits[row, column]
            if same:
                break
            slot = (slot + 1) & (size - 1)
        number_of[place] = number
    return firsts[:found], number_of


def _front_of_two(keys):
    """Which of different points in lexicographic order are on the front: those below all before in the second column."""
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
    Of n different points, two or three objectives need O(n log n) steps; more need O(n f) for a front of f points.
    What a sample of the points dominates is removed first, which mostly leaves little.
    """
    rows = _not_obviously_dominated(keys)
    order = np.argsort(keys[rows, 0])
    tied = _tied(keys[rows[order], 0])
    if tied.size == 0:
        rows = rows[order]
        return rows[_on_front(keys[rows])]
    firsts, number_of = distinct(keys.view(np.uint64), rows)
    order = np.argsort(keys[firsts, 0])
    tied = _tied(keys[firsts[order], 0])
    order[tied] = order[tied][np.lexsort(keys[firsts[order[tied]]].T[::-1])]
    order = order[_on_front(keys[firsts[order]])]
    place_of_number = np.full(firsts.size, -1)
    place_of_number[order] = np.arange(order.size)
    place = place_of_number[number_of]
    on_front = np.flatnonzero(place >= 0)
    return rows[on_front[np.argsort(place[on_front], kind="stable")]]


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
        rows = rows[undominated(keys, rows, pivots)]
        if rows.size > before / 2:
            break
    return rows


def _tied(ordered):
    """Places in an ordered array whose value a neighbour shares."""
    same = ordered[1:] == ordered[:-1]
    return np.flatnonzero(np.append(same, False) | np.append(False, same))


def _on_front(ordered):
    """Which of different points in lexicographic order are on the front."""
    if ordered.shape[1] == 2:
        return front_of_two(ordered)
    if ordered.shape[1] == 3:
        return front_of_three(ordered, np.unique(ordered[:, 1], return_inverse=True)[1] + 1)
    return front_of_many(ordered)
