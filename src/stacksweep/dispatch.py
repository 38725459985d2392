"""All-to-alls of routed experts, counted token by token once per unique shape."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

import deepstack_noc as dn
from deepstack_noc.tables import available_cores
from stacksweep.columns import Array, Column, constant, number
from stacksweep.kernels import experts as kernels
from stacksweep.kernels.validity import VALID
from stacksweep.moe import shape_keys
from stacksweep.profiles import ModelSpec
from stacksweep.routing import Routing, first_rows


@dataclass(frozen=True)
class Dispatch:
    """
    Counted dispatches of a sweep.

    Parameters
    ----------
    group : Column
        What the counts of a point depend on beside its tokens; -1 where nothing is dispatched.
    keys : int array
        Sorted keys (`kernels.experts.load_key`) of the counted dispatches.
    rows : int array
        Which of `tables` belongs to each key, -1 where a trace does not fit.
    tables : list of deepstack_noc.Tables
        One row each, to be priced with the bytes of a token.
    """

    group: Column
    keys: Array
    rows: Array
    tables: list[dn.Tables]

    @classmethod
    def none(cls) -> "Dispatch":
        """Nothing is dispatched."""
        return cls(constant(-1), np.empty(0, np.int64), np.empty(0, np.int64), [])


@dataclass(frozen=True)
class Shape:
    """What a counted dispatch depends on; `phase` is 0 where a routing's rows do not depend on it."""

    topology: dn.Topology
    link_model: str
    routing: Routing
    phase: int
    experts: int
    top_k: int
    moe_tp: int
    moe_ep: int
    dp: int
    micro_batch: int
    query: int


def dispatch_tables(
    columns: Mapping[str, Column],
    plan: Mapping[str, Column],
    reason: Column,
    models: Sequence[ModelSpec],
    routings: Sequence[Routing],
    nocs: Sequence[dn.Noc],
) -> Dispatch:
    """
    Count the dispatches that a sweep needs.

    Parameters
    ----------
    columns, plan : mapping
        Columns of the parameters and of `rows.PLAN_FIELDS`.
    reason : Column
        Why a plan cannot be.
    models, routings, nocs : sequence
        What the numbers in their columns stand for.

    Returns
    -------
    Dispatch
    """
    if plan["moe_ep"].values.max() <= 1:
        return Dispatch.none()
    valid = reason.map(lambda code: np.asarray(code == VALID))
    traits = [columns[name] for name in ("noc", "link_model", "routing", "model")]
    group, different = number(valid, *traits, plan["moe_tp"], plan["moe_ep"], plan["moe_dp"])
    used = np.array([bool(one[0]) and one[6] > 1 for one in different])
    group = group.lookup(np.where(used, np.arange(used.size), -1))
    keys = shape_keys(group, columns, plan, kernels.DISPATCHED_TOKENS)
    words = columns["link_model"].choices
    shapes: list[Shape | None] = []
    for of_group, phase, micro_batch, query in zip(*map(np.ndarray.tolist, kernels.split_keys(keys)), strict=True):
        _, noc, link_model, routing, model, moe_tp, moe_ep, dp = map(int, different[of_group])
        rows, experts, top_k = routings[routing], models[model].num_experts, models[model].experts_per_token
        if rows.fits(experts, top_k) and micro_batch * query <= rows.recorded(phase):
            phase_of_rows = phase if rows.trace is not None else 0
            topology = nocs[noc].topology
            shapes.append(
                Shape(
                    topology,
                    words[link_model],
                    rows,
                    phase_of_rows,
                    experts,
                    top_k,
                    moe_tp,
                    moe_ep,
                    dp,
                    micro_batch,
                    query,
                )
            )
        else:
            shapes.append(None)
    place = {shape: row for row, shape in enumerate(dict.fromkeys(shape for shape in shapes if shape is not None))}
    with ThreadPoolExecutor(available_cores()) as pool:
        tables = list(pool.map(_count, place))
    return Dispatch(
        group, keys, np.array([-1 if shape is None else place[shape] for shape in shapes], np.int64), tables
    )


@lru_cache(maxsize=65536)
def _count(shape: Shape) -> dn.Tables:
    """Count tokens from rank to rank and tabulate the all-to-all that carries them."""
    tokens = shape.micro_batch * shape.query
    ids = first_rows(shape.routing, shape.phase, shape.experts, shape.top_k)
    counts = np.zeros((shape.dp, shape.moe_ep, shape.moe_ep), np.int64)
    kernels.count_dispatch(ids, tokens, shape.dp, shape.moe_ep, shape.experts, counts)
    groups = shape.topology.devices // shape.moe_ep
    # group number g handles the data of slot g modulo dp
    per_group = counts[np.arange(groups) % shape.dp] if shape.dp > 1 else counts[0]
    return dn.tabulate_pairs(shape.topology, shape.moe_tp, shape.moe_ep, per_group, shape.link_model)
