"""All-to-alls of routed experts, counted token by token once per unique shape."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

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
        Which of `tables` belongs to each key, -1 where a trace is too short.
    tables : list of deepstack_noc.Tables
        One row each, to be priced with the bytes of a token.
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
    known = [_counted(shape) for shape in shapes]
    place: dict[tuple[int, int, int, int], int] = {}
    missing: list[tuple[int, int, int, int]] = []
    row_of = np.empty(keys.size, np.int64)
    for i, (group, phase, micro_batch, query) in enumerate(
        zip(*(part.tolist() for part in kernels.split_keys(keys)), strict=True)
    ):
        routing = shapes[group].routing
        if micro_batch * query > routing.recorded(phase):
            row_of[i] = -1
            continue
        counted = (group, phase if routing.trace is not None else 0, micro_batch, query)
        row_of[i] = place.setdefault(counted, len(place))
        if counted[1:] not in known[group]:
            missing.append(counted)

    def count(one: tuple[int, int, int, int]) -> None:
        known[one[0]][one[1:]] = _count(shapes[one[0]], *one[1:])

    with ThreadPoolExecutor(available_cores()) as pool:
        for _ in pool.map(count, dict.fromkeys(missing)):
            pass
    return Dispatch(keys, row_of, [known[one[0]][one[1:]] for one in place])


@lru_cache(maxsize=1024)
def _counted(shape: Shape) -> dict[tuple[int, int, int], dn.Tables]:
    """Keep what has been counted for a shape, by phase, micro-batch and query length."""
    return {}


def _count(shape: Shape, phase: int, micro_batch: int, query: int) -> dn.Tables:
    """Count tokens from rank to rank and tabulate the all-to-all that carries them."""
    ids = first_rows(shape.routing, phase, shape.experts, shape.top_k)
    counts = np.zeros((shape.dp, shape.moe_ep, shape.moe_ep), np.int64)
    kernels.count_dispatch(ids, micro_batch * query, shape.dp, shape.moe_ep, shape.experts, counts)
    groups = shape.topology.devices // shape.moe_ep
    # group number g handles the data of slot g modulo dp
    per_group = counts[np.arange(groups) % shape.dp] if shape.dp > 1 else counts[0]
    return dn.tabulate_pairs(shape.topology, shape.moe_tp, shape.moe_ep, per_group, shape.link_model)
