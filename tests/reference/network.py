"""The network between chips, flow by flow: routes, link loads, collectives.

Levels are numbered from the outside: 0 is L3, 1 is L2, 2 is L1. A place is a node id, ``CENTER`` or None.
"""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import prod
from typing import Any

from reference.system import Cost, Sizes

LEVELS = ("L3", "L2", "L1")
DIMENSIONS = ("tp", "ep", "sp", "cp", "dp", "pp")
"""Innermost first."""
CENTER = "C"
OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}
RINGED_ROWS = ("torus2d", "mring_nchain")
RINGED_COLUMNS = ("ring", "torus2d", "mchain_nring")

Place = int | str | None
State = tuple[Place, ...]
Transfer = tuple[int, int, int]
"""Source, destination, bytes."""


# --- one level -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Level:
    kind: str
    rows: int
    columns: int

    @property
    def size(self) -> int:
        return self.rows * self.columns

    def walk(self, a: Place, b: Place) -> list[Place]:
        """Places after a on the way to b."""
        if a == b:
            return []
        if self.kind == "switch":
            return [b] if CENTER in (a, b) else [CENTER, b]
        if self.kind == "all_to_all":
            return [b]
        assert isinstance(a, int)
        assert isinstance(b, int)
        (row, column), (to_row, to_column) = divmod(a, self.columns), divmod(b, self.columns)
        rows_passed = _steps(row, to_row, self.rows, self.kind in RINGED_ROWS)
        columns_passed = _steps(column, to_column, self.columns, self.kind in RINGED_COLUMNS)
        return [*(r * self.columns + column for r in rows_passed), *(to_row * self.columns + c for c in columns_passed)]

    def direction(self, u: Place, v: Place) -> str:
        if self.kind == "switch":
            return "up"  # all its ports are its CENTER
        assert isinstance(u, int)
        assert isinstance(v, int)
        (row, column), (to_row, to_column) = divmod(u, self.columns), divmod(v, self.columns)
        if row != to_row:
            if self.kind in RINGED_ROWS:
                return "down" if to_row == (row - 1) % self.rows else "up"
            return "up" if to_row > row else "down"
        if self.kind in RINGED_COLUMNS:
            return "left" if to_column == (column - 1) % self.columns else "right"
        return "right" if to_column > column else "left"

    def ports(self, side: str) -> list[Place]:
        """Ports of a side such as ``left_in``."""
        if self.kind == "switch":
            return [CENTER]
        direction = side.split("_")[0]
        if self.kind == "all_to_all":
            return list(range(("left", "right", "up", "down").index(direction), self.size, 4))
        low_columns, high_columns = _halves(self.columns)
        if self.kind in ("ring", "chain"):
            if direction in ("left", "right"):
                return [0 if direction == "left" else self.columns - 1]
            return list(low_columns if side in ("up_out", "down_in") else high_columns)
        low_rows, high_rows = _halves(self.rows)
        rows, columns = {
            "left_in": (high_rows, [0]),
            "left_out": (low_rows, [0]),
            "right_in": (low_rows, [self.columns - 1]),
            "right_out": (high_rows, [self.columns - 1]),
            "up_in": ([self.rows - 1], high_columns),
            "up_out": ([self.rows - 1], low_columns),
            "down_in": ([0], low_columns),
            "down_out": ([0], high_columns),
        }[side]
        return [row * self.columns + column for row in rows for column in columns]

    def deepstack_edges(self, u: Place, v: Place) -> list[str]:
        """Directions that DeepStack gives to its edges from u to v."""
        if self.kind in ("switch", "all_to_all"):
            return [self.direction(u, v)]
        assert isinstance(u, int)
        assert isinstance(v, int)
        (row, column), (to_row, to_column) = divmod(u, self.columns), divmod(v, self.columns)
        edges = []
        for name, step in (("down", 1), ("up", -1)):
            if column == to_column and _neighbour(row, step, self.rows, self.kind in RINGED_ROWS) == to_row:
                edges.append(name)
        for name, step in (("right", 1), ("left", -1)):
            if row == to_row and _neighbour(column, step, self.columns, self.kind in RINGED_COLUMNS) == to_column:
                edges.append(name)
        return edges


def _steps(a: int, b: int, size: int, ringed: bool) -> list[int]:
    """Indices after a on the way to b along one dimension."""
    ahead = (b - a) % size
    increasing = ahead <= size - ahead if ringed else b > a
    step = 1 if increasing else -1
    indices = []
    while a != b:
        a = (a + step) % size
        indices.append(a)
    return indices


def _neighbour(index: int, step: int, size: int, ringed: bool) -> int | None:
    if ringed:
        return (index + step) % size
    return index + step if 0 <= index + step < size else None


def _halves(size: int) -> tuple[range, range]:
    return (range(1), range(1)) if size == 1 else (range(size // 2), range(size // 2, size))


def spread(s: int, d: int, level: int, hop: int) -> int:
    """The hash that spreads flows over ports."""
    return abs((s * 1315423911) ^ (d * 2654435761) ^ (level * 97) ^ hop)


# --- routes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Link:
    """A pair of neighbouring states, the CENTERs that it loads, and whether it costs anything."""

    key: tuple[State, State]
    level: int
    charged: bool
    centers: tuple[tuple[int, State], ...]
    """(level, places down to that level) of each."""


@dataclass(frozen=True)
class Topology:
    levels: tuple[Level, ...]
    link_model: str = "deepstack"
    port_spread: str = "even"

    @property
    def devices(self) -> int:
        return prod(level.size for level in self.levels)

    @property
    def all_switches(self) -> bool:
        return all(level.kind == "switch" for level in self.levels)

    def places(self, device: int) -> State:
        _, l2, l1 = self.levels
        return (device // (l1.size * l2.size), device // l1.size % l2.size, device % l1.size)


@cache
def route(topology: Topology, s: int, d: int) -> tuple[State, ...]:
    """States from device s to device d, both included."""
    return (_deepstack_route if topology.link_model == "deepstack" else _physical_route)(topology, s, d)


class _Path:
    """The states passed so far; two equal neighbours are one."""

    def __init__(self, start: State) -> None:
        self.now: list[Place] = list(start)
        self.states = [start]

    def arrive(self, *changes: tuple[int, Place]) -> None:
        for level, place in changes:
            self.now[level] = place
        if tuple(self.now) != self.states[-1]:
            self.states.append(tuple(self.now))


def _deepstack_route(topology: Topology, s: int, d: int) -> tuple[State, ...]:
    levels, target = topology.levels, topology.places(d)
    path = _Path(topology.places(s))
    if s == d:
        return tuple(path.states)
    if levels[0].size == levels[1].size == 1:
        for place in levels[2].walk(path.now[2], target[2]):
            path.arrive((2, place))
        return tuple(path.states)
    first = next(level for level in range(3) if path.now[level] != target[level])
    path.arrive((2, CENTER))
    for level in range(first, 2):
        _deepstack_walk(topology, path, level, s, d, target)
    path.arrive((2, target[2]))
    return tuple(path.states)


def _deepstack_walk(topology: Topology, path: _Path, level: int, s: int, d: int, target: State) -> None:
    """Level by level outside L1; inside, L2 goes to its ports and L1 stays at its CENTER."""
    outer, inner = topology.levels[level], topology.levels[level + 1]
    hops = outer.walk(path.now[level], target[level])
    for i, v in enumerate(hops):
        direction = outer.direction(path.now[level], v)
        outs, ins = inner.ports(f"{direction}_out"), inner.ports(f"{OPPOSITE[direction]}_in")
        j = spread(s, d, level, i) % min(len(outer.ports(f"{direction}_out")), len(ins), len(outs))
        if level + 1 == 2:
            path.arrive((level, v))
            continue
        for place in inner.walk(path.now[level + 1], outs[j]):
            path.arrive((level + 1, place))
        path.arrive((level, v), (level + 1, ins[j]))
        if i + 1 == len(hops):
            goal = target[level + 1]
        else:
            outs = inner.ports(f"{outer.direction(v, hops[i + 1])}_out")
            goal = outs[spread(s, d, level, i + 1) % len(outs)]
        for place in inner.walk(path.now[level + 1], goal):
            path.arrive((level + 1, place))


def _physical_route(topology: Topology, s: int, d: int) -> tuple[State, ...]:
    target = topology.places(d)
    path = _Path(topology.places(s))
    first = next((level for level in range(3) if path.now[level] != target[level]), 3)
    for level in range(first, 3):
        _physical_walk(topology, path, level, target[level], s, d)
    return tuple(path.states)


def _physical_walk(topology: Topology, path: _Path, level: int, goal: Place, s: int, d: int) -> None:
    """Walk one level; before each hop every level inside it walks to its port by the same rule."""
    levels = topology.levels
    for i, v in enumerate(levels[level].walk(path.now[level], goal)):
        if levels[level].kind == "switch":
            leave, enter = "up_out", "up_in"
        else:
            direction = levels[level].direction(path.now[level], v)
            leave, enter = f"{direction}_out", f"{OPPOSITE[direction]}_in"
        entries: list[tuple[int, Place]] = []
        has_place = v != CENTER
        for inner in range(level + 1, 3):
            outs, ins = levels[inner].ports(leave), levels[inner].ports(enter)
            choices = min(len(outs), len(ins))
            here = path.now[inner]
            if topology.port_spread == "nearest":
                steps = [0 if here is None else len(levels[inner].walk(here, out)) for out in outs[:choices]]
                j = steps.index(min(steps))
            else:
                j = spread(s, d, level, i) % choices
            if here is not None:
                _physical_walk(topology, path, inner, outs[j], s, d)
            entries.append((inner, ins[j] if has_place else None))
            has_place = has_place and ins[j] != CENTER
        path.arrive((level, v), *entries)


@cache
def links(topology: Topology, s: int, d: int) -> tuple[Link, ...]:
    """Links of a route."""
    states = route(topology, s, d)
    return tuple(_link(topology, u, v) for u, v in pairwise(states))


def _link(topology: Topology, u: State, v: State) -> Link:
    level = next(level for level in range(3) if u[level] != v[level])
    if topology.link_model == "physical":
        # a link between levels passes the CENTER of an inner switch as a port only, which costs nothing there
        centers = [(level, state[: level + 1]) for state in (u, v) if state[level] == CENTER]
        return Link((u, v), level, True, tuple(centers))
    if topology.all_switches:
        return Link((u[: level + 1], v[: level + 1]), level, True, ())
    centers = [(2, state) for state in (u, v) if level == 2 and state[2] == CENTER]
    charged = level != 0 or _deepstack_charges(topology, u, v)
    return Link((u, v), level, charged, tuple(centers))


def _deepstack_charges(topology: Topology, u: State, v: State) -> bool:
    """Whether DeepStack has an edge at L3 between the two L2 ports."""
    inner = topology.levels[1]
    for direction in topology.levels[0].deepstack_edges(u[0], v[0]):
        outs, ins = inner.ports(f"{direction}_out"), inner.ports(f"{OPPOSITE[direction]}_in")
        if (u[1], v[1]) in zip(outs, ins, strict=False):
            return True
    return False


# --- collectives as stages of transfers between the ranks of a group --------------------------------------------------

Stages = list[tuple[int, list[Transfer]]]
"""(times, transfers) of each stage."""


def _is_power_of_two(g: int) -> bool:
    return g & (g - 1) == 0


def _doublings(g: int) -> range:
    return range(g.bit_length() - 1)


def _exchange(g: int, k: int, nbytes: int) -> list[Transfer]:
    return [(i, i ^ (1 << k), nbytes) for i in range(g)]


def _around(g: int, nbytes: int) -> list[Transfer]:
    return [(i, (i + 1) % g, nbytes) for i in range(g)]


def _everybody(g: int, nbytes: int) -> list[Transfer]:
    return [(a, b, nbytes) for a in range(g) for b in range(g) if a != b]


def _tree(g: int, first: int, last: int) -> list[list[tuple[int, int]]]:
    """Levels of (child, parent)."""
    nodes = list(range(first, g, 2))
    levels = []
    while len(nodes) > 1:
        pairs = list(zip(nodes[::2], nodes[1::2], strict=True))
        levels.append([(child, (left + right) // 2) for left, right in pairs for child in (left, right)])
        nodes = [(left + right) // 2 for left, right in pairs]
    levels.append([(nodes[0], last)])
    return levels


def _double_tree(g: int, nbytes: int) -> Stages:
    levels = [a + b for a, b in zip(_tree(g, 0, g - 1), _tree(g, 1, 0), strict=True)]
    up: Stages = [(1, [(child, parent, nbytes // 2) for child, parent in level]) for level in levels]
    down: Stages = [(1, [(parent, child, x) for child, parent, x in stage]) for _, stage in reversed(up)]
    return up + down


def _halving(g: int, nbytes: int, times: int) -> Stages:
    return [(times, _exchange(g, k, nbytes // 2 ** (k + 1))) for k in _doublings(g)]


def all_reduce_algorithms(g: int, nbytes: int) -> dict[str, Stages]:
    ring: Stages = [(2 * (g - 1), _around(g, nbytes // g))]
    if not _is_power_of_two(g):
        return {"ring": ring}
    return {
        "rd": [(1, _exchange(g, k, nbytes)) for k in _doublings(g)],
        "ring": ring,
        "rab": _halving(g, nbytes, 2),
        "dt": _double_tree(g, nbytes),
        "a2a": [(1, _everybody(g, nbytes))],
    }


def all_gather_algorithms(g: int, nbytes: int) -> dict[str, Stages]:
    algorithms: dict[str, Stages] = {"ring": [(g - 1, _around(g, nbytes // g))]}
    if _is_power_of_two(g):
        algorithms["rd"] = [(1, _exchange(g, k, nbytes * 2**k // g)) for k in _doublings(g)]
    algorithms["direct"] = [(1, _everybody(g, nbytes // g))]
    return algorithms


def reduce_scatter_algorithms(g: int, nbytes: int) -> dict[str, Stages]:
    if _is_power_of_two(g):
        return {"rab": _halving(g, nbytes, 1)}
    return {"ring": [(g - 1, _around(g, nbytes // g))]}


def groups(sizes: Sizes, dim: str) -> list[list[int]]:
    """Ranks of every group of a dimension, in group order."""
    ordered = [sizes.get(name, 1) for name in DIMENSIONS]
    position = DIMENSIONS.index(dim)
    stride, g = prod(ordered[:position]), ordered[position]
    blocks = prod(ordered[position + 1 :])
    return [
        [block * stride * g + i * stride + offset for i in range(g)]
        for offset in range(stride)
        for block in range(blocks)
    ]


# --- cost ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CollectiveCost:
    hop: float
    link: float
    energy: float | None
    algorithm: str = ""

    @property
    def seconds(self) -> float:
        return self.hop + self.link


class Noc:
    """A network priced flow by flow."""

    def __init__(self, profile: dict[str, Any], link_model: str = "deepstack") -> None:
        layers = [profile["layers"][name] for name in LEVELS]
        self.topology = Topology(
            tuple(Level(layer["kind"], *layer["shape"]) for layer in layers),
            link_model,
            profile.get("port_spread", "even"),
        )
        self.devices = self.topology.devices
        self.latencies = [layer["hop_latency_ns"] * 1e-9 for layer in layers]
        self.bandwidths = [layer["link_bandwidth_gbytes_per_s"] * 1e9 for layer in layers]
        self.center_bandwidths = [
            (layer["switch_center_in_gbytes_per_s"] + layer["switch_center_out_gbytes_per_s"]) * 1e9
            if layer.get("switch_center_in_gbytes_per_s") is not None
            else None
            for layer in layers
        ]
        energy = profile.get("energy_pj_per_bit")
        self.pj_per_bit = [energy[name.lower()] for name in LEVELS] if energy else None
        self.has_energy = energy is not None
        self._known: dict[Any, CollectiveCost] = {}

    def flows_cost(self, flows: list[Transfer]) -> CollectiveCost:
        """All flows at once."""
        hop = 0.0
        loads: dict[Link, int] = {}
        for source, target, nbytes in flows:
            if nbytes == 0:
                continue
            way = links(self.topology, source, target)
            hop = max(hop, sum(self.latencies[link.level] for link in way))
            for link in way:
                loads[link] = loads.get(link, 0) + nbytes
        center_loads: dict[tuple[int, State], int] = {}
        seconds, energy = 0.0, 0.0
        center_energy = self.topology.link_model == "deepstack" and self.pj_per_bit is not None
        for link, nbytes in loads.items():
            if link.charged:
                seconds = max(seconds, nbytes / self.bandwidths[link.level])
                if self.pj_per_bit is not None:
                    energy += 8 * nbytes * self.pj_per_bit[link.level]
            for center in link.centers:
                center_loads[center] = center_loads.get(center, 0) + nbytes
                if center_energy and self.pj_per_bit is not None:
                    energy += 8 * nbytes * self.pj_per_bit[2]
        for (level, _), nbytes in center_loads.items():
            capacity = self.center_bandwidths[level]
            if capacity is not None:
                seconds = max(seconds, nbytes / capacity)
        return CollectiveCost(hop, seconds, energy if self.has_energy else None)

    def stages_cost(self, stages: Stages, ranks: list[list[int]], algorithm: str) -> CollectiveCost:
        """Stage after stage, each in all groups at once."""
        hop, link, energy = 0.0, 0.0, 0.0
        for times, transfers in stages:
            cost = self.flows_cost([(group[a], group[b], x) for group in ranks for a, b, x in transfers])
            hop += times * cost.hop
            link += times * cost.link
            energy += times * (cost.energy or 0.0)
        return CollectiveCost(hop, link, energy if self.has_energy else None, algorithm)

    def cheapest(self, algorithms: dict[str, Stages], ranks: list[list[int]]) -> CollectiveCost:
        """The first whose time is within 1e-12 of the cheapest."""
        costs = [self.stages_cost(stages, ranks, name) for name, stages in algorithms.items()]
        limit = min(cost.seconds for cost in costs) * (1 + 1e-12)
        return next(cost for cost in costs if cost.seconds <= limit)

    def all_reduce_cost(self, sizes: Sizes, dim: str, nbytes: int) -> CollectiveCost:
        key = ("all_reduce", tuple(sizes.items()), dim, nbytes)
        if key not in self._known:
            self._known[key] = self.cheapest(all_reduce_algorithms(sizes[dim], nbytes), groups(sizes, dim))
        return self._known[key]

    def all_gather_cost(self, sizes: Sizes, dim: str, nbytes: int) -> CollectiveCost:
        key = ("all_gather", tuple(sizes.items()), dim, nbytes)
        if key not in self._known:
            self._known[key] = self.cheapest(all_gather_algorithms(sizes[dim], nbytes), groups(sizes, dim))
        return self._known[key]

    def reduce_scatter_cost(self, sizes: Sizes, dim: str, nbytes: int) -> CollectiveCost:
        return self.cheapest(reduce_scatter_algorithms(sizes[dim], nbytes), groups(sizes, dim))

    def pipeline_transfer_cost(self, sizes: Sizes, nbytes: int) -> CollectiveCost:
        """Slowest boundary in time, all boundaries in energy."""
        ranks = groups(sizes, "pp")
        boundaries = [
            self.flows_cost([(group[q], group[q + 1], nbytes) for group in ranks]) for q in range(sizes["pp"] - 1)
        ]
        slowest = max(boundaries, key=lambda cost: cost.seconds)
        energy = sum(cost.energy or 0.0 for cost in boundaries)
        return CollectiveCost(slowest.hop, slowest.link, energy if self.has_energy else None)

    def all_to_all_cost(self, sizes: Sizes, dim: str, slots: tuple[tuple[tuple[int, ...], ...], ...]) -> CollectiveCost:
        """Group number n sends ``slots[n % len(slots)][a][b]`` bytes from its rank a to its rank b."""
        key = ("all_to_all", tuple(sizes.items()), dim, slots)
        if key not in self._known:
            flows = []
            for number, group in enumerate(groups(sizes, dim)):
                for a, row in enumerate(slots[number % len(slots)]):
                    flows += [(group[a], group[b], nbytes) for b, nbytes in enumerate(row) if a != b]
            self._known[key] = self.flows_cost(flows)
        return self._known[key]

    def all_reduce(self, sizes: Sizes, dim: str, nbytes: int) -> Cost:
        cost = self.all_reduce_cost(sizes, dim, nbytes)
        return cost.seconds, cost.energy

    def all_gather(self, sizes: Sizes, dim: str, nbytes: int) -> Cost:
        cost = self.all_gather_cost(sizes, dim, nbytes)
        return cost.seconds, cost.energy

    def pipeline_transfer(self, sizes: Sizes, nbytes: int) -> Cost:
        cost = self.pipeline_transfer_cost(sizes, nbytes)
        return cost.seconds, cost.energy

    def all_to_all(self, sizes: Sizes, dim: str, slots: tuple[tuple[tuple[int, ...], ...], ...]) -> Cost:
        cost = self.all_to_all_cost(sizes, dim, slots)
        return cost.seconds, cost.energy
