"""
Expert loads of few tokens, counted once per unique shape and looked up by the kernels.

From 4096 micro-batch tokens on, and for balanced routing, a load follows in closed form (`kernels.experts`).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from stacksweep.columns import Array, Column, aligned, all_dims, combine, constant, distinct, number
from stacksweep.kernels import experts as kernels
from stacksweep.profiles import ChipProfile, ModelSpec
from stacksweep.routing import Routing, first_rows


def counted_loads(
    columns: Mapping[str, Column],
    plan: Mapping[str, Column],
    models: Sequence[ModelSpec],
    chips: Sequence[ChipProfile],
    routings: Sequence[Routing],
) -> tuple[Column, Array, Array]:
    """
    Count the expert loads that a sweep needs.

    Parameters
    ----------
    columns, plan : mapping
        Columns of the parameters and of `rows.PLAN_FIELDS`.
    models, chips, routings : sequences
        What the numbers in their columns stand for.

    Returns
    -------
    group : Column
        What the load of a point depends on beside its tokens, -1 where it follows in closed form.
    keys : int array, (loads,)
        Sorted keys (`kernels.experts.load_key`) of the counted loads.
    counted : float array, (loads, 3)
        Pairs, active experts and BLEN blocks of the busiest rank; NaN where a trace does not fit.
    """
    if all(routing.balanced for routing in routings) or not any(any(model.moe) for model in models):
        return constant(kernels.BALANCED), np.empty(0, np.int64), np.empty((0, 3))
    group, different = number(columns["routing"], columns["model"], columns["chip"], plan["moe_ep"], plan["moe_dp"])
    by_count = np.array(
        [
            not routings[int(routing)].balanced
            and any(models[int(model)].moe)
            and ep >= 1
            and models[int(model)].num_experts % ep == 0
            and dp >= 1
            for routing, model, _, ep, dp in different
        ]
    )
    group = group.lookup(np.where(by_count, np.arange(by_count.size), kernels.BALANCED))
    keys = shape_keys(group, columns, plan, kernels.COUNTED_TOKENS)
    counted = np.full((keys.size, 3), np.nan)
    of_group, phases, micro_batches, queries = kernels.split_keys(keys)
    for g in np.unique(of_group):
        routing, model, chip, ep, dp = map(int, different[g])
        experts, top_k = models[model].num_experts, models[model].experts_per_token
        if not routings[routing].fits(experts, top_k):
            continue
        for phase in np.unique(phases[of_group == g]):
            chosen = np.flatnonzero((of_group == g) & (phases == phase))
            tokens = micro_batches[chosen] * queries[chosen]
            chosen = chosen[tokens <= routings[routing].recorded(phase)]
            if chosen.size == 0:
                continue
            ids = first_rows(routings[routing], int(phase), experts, top_k)
            part = np.empty((chosen.size, 3))
            kernels.count_loads(ids, micro_batches[chosen], queries[chosen], dp, ep, experts, chips[chip].blen, part)
            counted[chosen] = part
    return group, keys, counted


def shape_keys(group: Column, columns: Mapping[str, Column], plan: Mapping[str, Column], limit: float) -> Array:
    """
    Keys of all loads of fewer than `limit` tokens, of both phases, sorted and each once.

    Parameters
    ----------
    group : Column
        -1 where no load is counted.
    columns, plan : mapping
        Columns of the parameters and of `rows.PLAN_FIELDS`.
    limit : float
        Tokens of a micro-batch from which on none is counted.

    Returns
    -------
    int array
    """
    micro_batch = combine(_ceil_div, columns["batch_size"], plan["pp"])
    query = combine(_ceil_div, columns["input_seq_len"], plan["cp"])
    found = [_keys(group, phase, micro_batch, tokens, limit) for phase, tokens in enumerate((query, constant(1.0)))]
    return np.unique(np.concatenate(found))


def _ceil_div(a: Array, b: Array) -> Array:
    return np.ceil(a / np.maximum(b, 1.0))


def _keys(group: Column, phase: int, micro_batch: Column, query: Column, limit: float) -> Array:
    columns = (group, distinct(micro_batch, group, query), distinct(query, group, micro_batch))
    dims = all_dims(*columns)
    g, m, q = np.broadcast_arrays(*(aligned(column, dims) for column in columns))
    wanted = (g >= 0) & (m * q < limit)
    g, m, q = (values[wanted].astype(np.int64) for values in (g, m, q))
    return np.unique(kernels.load_key(g, phase, m, q))
