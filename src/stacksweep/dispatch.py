"""All-to-alls of routed experts, counted token by token once per unique shape."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from threading import Lock

import numpy as np

import deepstack_noc as dn
from deepstack_noc.tables import available_cores
from stacksweep.columns import Array, Column
from stacksweep.kernels import experts as kernels
from stacksweep.kernels.validity import VALID
from stacksweep.moe import shape_keys
from stacksweep.plan import Plans
from stacksweep.profiles import ModelSpec
from stacksweep.routing import Routing, first_rows


@dataclass(frozen=True)
class Dispatch:
    """
    Counted dispatches of a sweep.

    Parameters
    ----------
    keys : int array
        Sorted keys (`kernels.experts.load_key`) of the counted dispatches.
    rows : int array
        Which row of all `tables` belongs to each key, -1 where a trace is too short.
    tables : list of deepstack_noc.Tables
        Rows to be priced with the bytes of a token.
    """

    keys: Array
    rows: Array
    tables: list[dn.Tables]


@dataclass(frozen=True)
class Shape:
    """What the dispatches of a group of plans depend on, beside the tokens."""

    topology: dn.Topology
    link_model: str
    routing: Routing
    experts: int
    top_k: int
    moe_tp: int
    moe_ep: int
    dp: int


def count_dispatches(
    columns: Mapping[str, Column],
    plans: Plans,
    table: Array,
    models: Sequence[ModelSpec],
    routings: Sequence[Routing],
    nocs: Sequence[dn.Noc],
) -> Dispatch:
    """
    Count the dispatches that a sweep needs, and note in the plans what they depend on.

    Parameters
    ----------
    columns : mapping
        Columns of the sweep's parameters.
    plans : Plans
    table : record array, (plans,)
        Rows of `rows.PLAN`; `dispatch_group` is filled, with -1 where nothing is dispatched.
    models, routings, nocs : sequence
        What row numbers stand for.

    Returns
    -------
    Dispatch
    """
    words = columns["link_model"].choices
    groups: dict[Shape, int] = {}
    named = zip(table, plans.noc.tolist(), plans.link_model.tolist(), plans.routing.tolist(), strict=True)
    for row, noc, link_model, routing in named:
        row["dispatch_group"] = -1
        if row["reason"] == VALID and row["moe_ep"] > 1:
            spec = models[row["model"]]
            sizes = (int(row[name]) for name in ("moe_tp", "moe_ep", "moe_dp"))
            shape = Shape(
                nocs[noc].topology,
                words[link_model],
                routings[routing],
                spec.num_experts,
                spec.experts_per_token,
                *sizes,
            )
            row["dispatch_group"] = groups.setdefault(shape, len(groups))
    if not groups:
        return Dispatch(np.empty(0, np.int64), np.empty(0, np.int64), [])
    keys = shape_keys(columns, plans.number, table, "dispatch_group", kernels.DISPATCHED_TOKENS)
    shapes = list(groups)
    known = [_known(shape) for shape in shapes]
    of_group, phases, micro_batches, queries = kernels.split_keys(keys)
    row_of = np.full(keys.size, -1)
    first = 0
    tables = []
    with ThreadPoolExecutor(available_cores()) as pool:
        for group, (shape, one) in enumerate(zip(shapes, known, strict=True)):
            mine = np.flatnonzero(of_group == group)
            phase = phases[mine]
            recorded = np.where(phase == 0, shape.routing.recorded(0), shape.routing.recorded(1))
            mine = mine[micro_batches[mine] * queries[mine] <= recorded]
            if mine.size:
                # rows of a routing that is no trace do not depend on the phase
                phase = phases[mine] if shape.routing.trace is not None else 0
                loads = kernels.load_key(0, phase, micro_batches[mine], queries[mine])
                rows_of, counted = one.count(loads, pool)
                row_of[mine] = first + rows_of
                tables.append(counted)
                first += len(counted.rows)
    return Dispatch(keys, row_of, tables)


class Known:
    """What has been counted for a shape, kept for the sweeps to come."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._lock = Lock()
        self._loads = np.empty(0, np.int64)
        self._rows = np.empty(0, np.int64)
        self._tables: dn.Tables | None = None

    def count(self, loads: Array, pool: ThreadPoolExecutor) -> tuple[Array, dn.Tables]:
        """Count the loads that have not been counted yet; returns the rows of all, and the tables that have them."""
        with self._lock:
            missing = np.setdiff1d(loads, self._loads)
            if missing.size:
                _, *parts = kernels.split_keys(missing)
                made = pool.map(partial(_count, self._shape), *(part.tolist() for part in parts))
                self._tables = dn.join([*([self._tables] if self._tables else []), *made])
                self._rows = np.concatenate([self._rows, self._loads.size + np.arange(missing.size)])
                self._loads = np.concatenate([self._loads, missing])
                order = np.argsort(self._loads)
                self._loads, self._rows = self._loads[order], self._rows[order]
            assert self._tables is not None
            return self._rows[np.searchsorted(self._loads, loads)], self._tables


@lru_cache(maxsize=1024)
def _known(shape: Shape) -> Known:
    return Known(shape)


def _count(shape: Shape, phase: int, micro_batch: int, query: int) -> dn.Tables:
    """Count tokens from rank to rank and tabulate the all-to-all that carries them."""
    ids = first_rows(shape.routing, phase, shape.experts, shape.top_k)
    counts = np.zeros((shape.dp, shape.moe_ep, shape.moe_ep), np.int64)
    kernels.count_dispatch(ids, micro_batch * query, shape.dp, shape.moe_ep, shape.experts, counts)
    groups = shape.topology.devices // shape.moe_ep
    # group number g handles the data of slot g modulo dp
    per_group = counts[np.arange(groups) % shape.dp] if shape.dp > 1 else counts[0]
    return dn.tabulate_pairs(shape.topology, shape.moe_tp, shape.moe_ep, per_group, shape.link_model)
