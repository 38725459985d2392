"""A plain reading of the network model: every route walked, every flow priced, no tables and no arrays.

It shares no code with the package and is slow on purpose. A network is the dict of a profile file. A place is a
node number, ``"C"`` for the CENTER of a switch, or None where a level has no place. A state is a tuple of three
places, outer to inner.
"""

from __future__ import annotations

import math
from itertools import pairwise

LEVELS = ("L3", "L2", "L1")
DIMS = ("tp", "ep", "sp", "cp", "dp", "pp")
CENTER = "C"
OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}
RINGED_ROWS = ("torus2d", "mring_nchain")
RINGED_COLUMNS = ("ring", "torus2d", "mchain_nring")
TIE = 1 + 1e-12


class Level:
    """One level: its walks, directions and ports."""

    def __init__(self, layer):
        self.kind = layer["kind"]
        self.rows, self.columns = layer["shape"]
        self.size = self.rows * self.columns
        self.latency = layer["hop_latency_ns"] * 1e-9
        self.bandwidth = layer["link_bandwidth_gbytes_per_s"] * 1e9
        center_in = layer.get("switch_center_in_gbytes_per_s")
        self.center = None
        if center_in is not None:
            self.center = (center_in + layer["switch_center_out_gbytes_per_s"]) * 1e9
        self.is_switch = self.kind == "switch"

    def hops(self, a, b):
        """Pairs (u, v) of the walk from a to b."""
        if a == b:
            return []
        if self.is_switch:
            if CENTER in (a, b):
                return [(a, b)]
            return [(a, CENTER), (CENTER, b)]
        if self.kind == "all_to_all":
            return [(a, b)]
        (row, column), (row_b, column_b) = divmod(a, self.columns), divmod(b, self.columns)
        places = [a]
        for step in self._steps(row, row_b, self.rows, self.kind in RINGED_ROWS):
            row = (row + step) % self.rows
            places.append(row * self.columns + column)
        for step in self._steps(column, column_b, self.columns, self.kind in RINGED_COLUMNS):
            column = (column + step) % self.columns
            places.append(row * self.columns + column)
        return list(pairwise(places))

    @staticmethod
    def _steps(a, b, size, ringed):
        if not ringed:
            return [1 if b > a else -1] * abs(b - a)
        forward, backward = (b - a) % size, (a - b) % size
        return [1] * forward if forward <= backward else [-1] * backward

    def direction(self, u, v):
        (row_u, column_u), (row_v, column_v) = divmod(u, self.columns), divmod(v, self.columns)
        if row_u != row_v:
            if self.kind in RINGED_ROWS:
                return "down" if row_v == (row_u - 1) % self.rows else "up"
            return "up" if row_v > row_u else "down"
        if self.kind in RINGED_COLUMNS:
            return "left" if column_v == (column_u - 1) % self.columns else "right"
        return "right" if column_v > column_u else "left"

    def ports(self, direction, way):
        if self.is_switch:
            return [CENTER]
        if self.kind == "all_to_all":
            first = ("left", "right", "up", "down").index(direction)
            return list(range(first, self.size, 4))
        rows, columns = self.rows, self.columns
        low_rows, high_rows = _halves(rows)
        low_columns, high_columns = _halves(columns)
        cells = {
            "left_in": [(r, 0) for r in high_rows],
            "left_out": [(r, 0) for r in low_rows],
            "right_in": [(r, columns - 1) for r in low_rows],
            "right_out": [(r, columns - 1) for r in high_rows],
            "up_in": [(rows - 1, c) for c in high_columns],
            "up_out": [(rows - 1, c) for c in low_columns],
            "down_in": [(0, c) for c in low_columns],
            "down_out": [(0, c) for c in high_columns],
        }
        return [r * columns + c for r, c in cells[f"{direction}_{way}"]]


def _halves(size):
    if size == 1:
        return [0], [0]
    return list(range(size // 2)), list(range(size // 2, size))


class Network:
    """Routes and costs of one profile in one link model."""

    def __init__(self, profile, link_model):
        self.levels = [Level(profile["layers"][name]) for name in LEVELS]
        self.physical = link_model == "physical"
        self.nearest = profile.get("port_spread") == "nearest"
        self.all_switch = all(level.is_switch for level in self.levels)
        energy = profile.get("energy_pj_per_bit")
        self.pj = [energy[name.lower()] for name in LEVELS] if energy else None
        self.devices = math.prod(level.size for level in self.levels)
        self.known = {}

    def place(self, device):
        outer, inner = divmod(device, self.levels[2].size)
        outermost, middle = divmod(outer, self.levels[1].size)
        return [outermost, middle, inner]

    # Routes

    def route(self, s, d):
        if (s, d) not in self.known:
            self.known[s, d] = self._physical(s, d) if self.physical else self._deepstack(s, d)
        return self.known[s, d]

    def _deepstack(self, s, d):
        levels, goal, at = self.levels, self.place(d), self.place(s)
        states = [tuple(at)]

        def move(level, to):
            at[level] = to
            if states[-1] != tuple(at):
                states.append(tuple(at))

        def walk(level, to):
            for _, v in levels[level].hops(at[level], to):
                move(level, v)

        if levels[0].size == levels[1].size == 1:
            walk(2, goal[2])
            return states
        if levels[2].is_switch:
            move(2, CENTER)
        different = [level for level in range(3) if at[level] != goal[level]]
        for level in range(different[0], 2):
            hops = levels[level].hops(at[level], goal[level])
            for i, (u, v) in enumerate(hops):
                if level == 1:
                    move(1, v)
                    continue
                x = self._side(0, u, v)
                outs, ins = levels[1].ports(x, "out"), levels[1].ports(OPPOSITE[x], "in")
                count = min(len(levels[0].ports(x, "out")), len(outs), len(ins))
                j = _hash(s, d, 0, i) % count
                walk(1, outs[j])
                at[1] = ins[j]
                move(0, v)
                if i == len(hops) - 1:
                    walk(1, goal[1])
                else:
                    ahead = levels[1].ports(self._side(0, *hops[i + 1]), "out")
                    walk(1, ahead[_hash(s, d, 0, i + 1) % len(ahead)])
        at[2] = goal[2] if levels[2].is_switch else at[2]
        move(2, goal[2])
        return states

    def _side(self, level, u, v):
        return "up" if self.levels[level].is_switch else self.levels[level].direction(u, v)

    def _physical(self, s, d):
        levels, goal, at = self.levels, self.place(d), self.place(s)
        states = [tuple(at)]

        def walk(level, to):
            for i, (u, v) in enumerate(levels[level].hops(at[level], to)):
                x = self._side(level, u, v)
                entry = "up" if levels[level].is_switch else OPPOSITE[x]
                entered = []
                for inner in range(level + 1, 3):
                    outs, ins = levels[inner].ports(x, "out"), levels[inner].ports(entry, "in")
                    count = min(len(outs), len(ins))
                    j = _hash(s, d, level, i) % count
                    if self.nearest:
                        j = 0
                        if at[inner] is not None:
                            j = min(range(count), key=lambda k: (len(levels[inner].hops(at[inner], outs[k])), k))
                    if at[inner] is not None:
                        walk(inner, outs[j])
                    entered.append(ins[j])
                at[level] = v
                gone = v == CENTER
                for inner, port in zip(range(level + 1, 3), entered, strict=True):
                    at[inner] = None if gone else port
                    gone = gone or port == CENTER
                states.append(tuple(at))

        different = [level for level in range(3) if at[level] != goal[level]]
        for level in range(different[0], 3):
            walk(level, goal[level])
        return states

    # Links

    def link_level(self, a, b):
        return next(level for level in range(3) if a[level] != b[level])

    def link_name(self, a, b):
        """What two equal links share: in a hierarchy of switches, the levels inside do not count for deepstack."""
        if self.all_switch and not self.physical:
            level = self.link_level(a, b)
            return a[: level + 1], b[: level + 1]
        return a, b

    def is_charged(self, a, b):
        if self.physical or self.link_level(a, b) != 0 or self.levels[0].kind in ("switch", "all_to_all"):
            return True
        outer, inner = self.levels[0], self.levels[1]
        for way in ("up", "down", "left", "right"):
            for joined in self._edges(outer, a[0], way):
                if joined == b[0]:
                    pairs = zip(inner.ports(way, "out"), inner.ports(OPPOSITE[way], "in"), strict=False)
                    if (a[1], b[1]) in pairs:
                        return True
        return False

    @staticmethod
    def _edges(level, u, way):
        """Where DeepStack's edge of that direction from u leads: rows count downwards."""
        row, column = divmod(u, level.columns)
        step = 1 if way in ("down", "right") else -1
        if way in ("up", "down"):
            target, size, ringed = row + step, level.rows, level.kind in RINGED_ROWS
        else:
            target, size, ringed = column + step, level.columns, level.kind in RINGED_COLUMNS
        if ringed:
            target %= size
        if not 0 <= target < size:
            return []
        return [target * level.columns + column if way in ("up", "down") else row * level.columns + target]

    def centers(self, a, b):
        """CENTERs that a link loads, as (level, name): those of its own level."""
        level = self.link_level(a, b)
        if self.physical:
            return [(level, state[: level + 1]) for state in (a, b) if state[level] == CENTER]
        if self.all_switch or level != 2 or not self.levels[2].is_switch:
            return []
        return [(2, (a[0], a[1], CENTER))]

    # Costs

    def stage(self, flows):
        """(hop seconds, link seconds, pJ) of flows (source, target, bytes) that run at once."""
        hop, energy, loads, center_loads = 0.0, 0.0, {}, {}
        for s, d, size in flows:
            if size < 1:
                continue
            states = self.route(s, d)
            latency = 0.0
            for a, b in pairwise(states):
                level = self.link_level(a, b)
                latency += self.levels[level].latency
                if self.is_charged(a, b):
                    name = self.link_name(a, b)
                    loads[level, name] = loads.get((level, name), 0) + size
                    energy += 8 * size * self.pj[level] if self.pj else 0.0
                for center in self.centers(a, b):
                    center_loads[center] = center_loads.get(center, 0) + size
                    if self.pj and not self.physical:
                        energy += 8 * size * self.pj[2]
            hop = max(hop, latency)
        link = 0.0
        for (level, _), load in loads.items():
            link = max(link, load / self.levels[level].bandwidth)
        for (level, _), load in center_loads.items():
            if self.levels[level].center:
                link = max(link, load / self.levels[level].center)
        return hop, link, energy

    def stages(self, groups, stages):
        """Sum over stages, each a list of (source rank, target rank, bytes), run in all groups at once."""
        hop = link = energy = 0.0
        for transfers in stages:
            flows = [(group[a], group[b], size) for group in groups for a, b, size in transfers]
            more = self.stage(flows)
            hop, link, energy = hop + more[0], link + more[1], energy + more[2]
        return hop, link, energy

    def all_reduce(self, sizes, dim, nbytes):
        groups = groups_of(self.devices, sizes, dim)
        return self.choose(groups, all_reduce_stages(len(groups[0]), nbytes))

    def all_gather(self, sizes, dim, nbytes):
        groups = groups_of(self.devices, sizes, dim)
        return self.choose(groups, all_gather_stages(len(groups[0]), nbytes))

    def reduce_scatter(self, sizes, dim, nbytes):
        groups = groups_of(self.devices, sizes, dim)
        return self.choose(groups, reduce_scatter_stages(len(groups[0]), nbytes))

    def choose(self, groups, candidates):
        """(hop, link, energy, algorithm) of the first candidate within 1e-12 of the cheapest."""
        if len(groups[0]) == 1:
            return 0.0, 0.0, 0.0, "none"
        costs = {name: self.stages(groups, stages) for name, stages in candidates.items()}
        best = min(hop + link for hop, link, _ in costs.values())
        name = next(name for name, (hop, link, _) in costs.items() if hop + link <= best * TIE)
        return (*costs[name], name)

    def all_to_all(self, sizes, dim, pair_bytes):
        """`pair_bytes[group][a][b]` bytes from rank a to rank b of a group."""
        groups = groups_of(self.devices, sizes, dim)
        ranks = range(len(groups[0]))
        return self.stage(
            [
                (group[a], group[b], sent[a][b])
                for group, sent in zip(groups, pair_bytes, strict=True)
                for a in ranks
                for b in ranks
                if a != b
            ]
        )

    def pipeline_transfer(self, sizes, nbytes):
        groups = groups_of(self.devices, sizes, "pp")
        hop = link = energy = 0.0
        for q in range(len(groups[0]) - 1):
            more = self.stage([(group[q], group[q + 1], nbytes) for group in groups])
            energy += more[2]
            if more[0] + more[1] > (hop + link) * TIE:
                hop, link = more[:2]
        return hop, link, energy


def _hash(s, d, level, i):
    return abs((s * 1315423911) ^ (d * 2654435761) ^ (level * 97) ^ i)


def groups_of(devices, sizes, dim):
    """Device numbers of every group of a dimension, in the order of the groups."""
    stride = math.prod(sizes.get(name, 1) for name in DIMS[: DIMS.index(dim)])
    size = sizes.get(dim, 1)
    return [
        [block * stride * size + offset + rank * stride for rank in range(size)]
        for offset in range(stride)
        for block in range(devices // (stride * size))
    ]


def _exchange(size, k, nbytes):
    return [(i, i ^ (1 << k), nbytes) for i in range(size)]


def _ring(size, nbytes):
    return [(i, (i + 1) % size, nbytes) for i in range(size)]


def _direct(size, nbytes):
    return [(a, b, nbytes) for a in range(size) for b in range(size) if a != b]


def _tree_levels(size):
    levels = [[] for _ in range(size.bit_length() - 1)]
    for first, last in ((0, size - 1), (1, 0)):
        nodes = list(range(first, size, 2))
        for level in levels:
            if len(nodes) == 1:
                level.append((nodes[0], last))
                break
            parents = []
            for left, right in zip(nodes[::2], nodes[1::2], strict=True):
                parents.append((left + right) // 2)
                level += [(left, parents[-1]), (right, parents[-1])]
            nodes = parents
    return levels


def all_reduce_stages(size, nbytes):
    ring = {"ring": [_ring(size, nbytes // size)] * (2 * (size - 1))}
    if size & (size - 1):
        return ring
    steps = range(size.bit_length() - 1)
    halving = [_exchange(size, k, nbytes // 2 ** (k + 1)) for k in steps]
    up = [[(a, b, nbytes // 2) for a, b in level] for level in _tree_levels(size)]
    down = [[(b, a, sent) for a, b, sent in level] for level in reversed(up)]
    return {
        "recursive_doubling": [_exchange(size, k, nbytes) for k in steps],
        **ring,
        "rabenseifner": halving * 2,
        "double_tree": up + down,
        "all_to_all": [_direct(size, nbytes)],
    }


def all_gather_stages(size, nbytes):
    stages = {"ring": [_ring(size, nbytes // size)] * (size - 1)}
    if not size & (size - 1):
        steps = range(size.bit_length() - 1)
        stages["recursive_doubling"] = [_exchange(size, k, nbytes * 2**k // size) for k in steps]
    stages["direct"] = [_direct(size, nbytes // size)]
    return stages


def reduce_scatter_stages(size, nbytes):
    if size & (size - 1):
        return {"ring": [_ring(size, nbytes // size)] * (size - 1)}
    steps = range(size.bit_length() - 1)
    return {"rabenseifner": [_exchange(size, k, nbytes // 2 ** (k + 1)) for k in steps]}
