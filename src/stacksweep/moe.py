"""
Expert loads of few tokens, counted once per unique shape and looked up by the kernels.

From 4096 micro-batch tokens on, and for balanced routing, a load follows in closed form (`kernels.experts`).
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from stacksweep.columns import Array, Column, aligned, all_dims, distinct
from stacksweep.kernels import experts as kernels
from stacksweep.kernels.validity import VALID
from stacksweep.plan import Plans
from stacksweep.profiles import ModelSpec
from stacksweep.routing import Routing, first_rows


def counted_loads(
    columns: Mapping[str, Column],
    plans: Plans,
    table: Array,
    models: Sequence[ModelSpec],
    blens: Array,
    routings: Sequence[Routing],
) -> tuple[Array, Array]:
    """
    Count the expert loads that a sweep needs, and note in the plans what they depend on.

    Parameters
    ----------
    columns : mapping
        Columns of the sweep's parameters.
    plans : Plans
    table : record array, (plans,)
        Rows of `rows.PLAN`; `routing_group` is filled, with -1 where loads follow in closed form.
    models, routings : sequences
        What row numbers stand for.
    blens : array, (chips,)
        BLEN of each chip.

    Returns
    -------
    keys : int array, (loads,)
        Sorted keys (`kernels.experts.load_key`) of the counted loads.
    counted : float array, (loads, 3)
        Pairs, active experts and BLEN blocks of the busiest rank; NaN where a trace is too short.
    """
    groups: dict[tuple[int, int, int, int, int], int] = {}
    for row, routing in zip(table, plans.routing.tolist(), strict=True):
        row["routing_group"] = kernels.EXPECTED if routings[routing].expected else kernels.BALANCED
        if row["reason"] == VALID and any(models[row["model"]].moe) and not routings[routing].in_closed_form:
            key = (routing, int(row["model"]), int(row["chip"]), int(row["moe_ep"]), int(row["moe_dp"]))
            row["routing_group"] = groups.setdefault(key, len(groups))
    if not groups:
        return np.empty(0, np.int64), np.empty((0, 3))
    keys = shape_keys(columns, plans.number, table, "routing_group", kernels.COUNTED_TOKENS)
    counted = np.full((keys.size, 3), np.nan)
    of_group, phases, micro_batches, queries = kernels.split_keys(keys)
    for (routing, model, chip, ep, dp), group in groups.items():
        experts, top_k = models[model].num_experts, models[model].experts_per_token
        for phase in range(2):
            chosen = np.flatnonzero((of_group == group) & (phases == phase))
            tokens = micro_batches[chosen] * queries[chosen]
            chosen = chosen[tokens <= routings[routing].recorded(phase)]
            if chosen.size:
                ids = first_rows(routings[routing], phase, experts, top_k)
                part = np.empty((chosen.size, 3))
                loads = micro_batches[chosen], queries[chosen]
                kernels.count_loads(ids, *loads, dp, ep, experts, int(blens[chip]), part)
                counted[chosen] = part
    return keys, counted


def shape_keys(columns: Mapping[str, Column], number: Column, table: Array, group: str, limit: float) -> Array:
    """
    Keys of all loads of fewer than `limit` tokens, of both phases, sorted and each once.

    Parameters
    ----------
    columns : mapping
        Columns of the sweep's parameters.
    number : Column
        Which plan each point has.
    table : record array, (plans,)
        Rows of `rows.PLAN`.
    group : str
        The field of `table` that numbers what loads depend on, negative where none is counted.
    limit : float
        Tokens of a micro-batch from which on none is counted.

    Returns
    -------
    int array
    """
    # plans of one group and pipeline-parallel size need the same loads
    of_plan = np.unique(np.stack([table[group], table["pp"].astype(np.int64)]), axis=1, return_inverse=True)
    (groups, pipelines), place = of_plan
    used = number.map(lambda plan: place.ravel()[plan])
    found = [np.empty(0, np.int64)]
    if not set(used.dims) & set(all_dims(columns["batch_size"], columns["input_seq_len"])):
        # plans and loads are axes of their own: every plan meets every load
        seen = np.unique(used.values)
        batch, prompt = (
            distinct(columns[name], columns[other])
            for name, other in (("batch_size", "input_seq_len"), ("input_seq_len", "batch_size"))
        )
        dims = all_dims(batch, prompt)
        batches, prompts = (a.ravel() for a in np.broadcast_arrays(aligned(batch, dims), aligned(prompt, dims)))
        for one in seen[groups[seen] >= 0]:
            found += _keys(groups[one], np.ceil(batches / pipelines[one]), prompts, limit)
    else:
        dims = all_dims(used, columns["batch_size"], columns["input_seq_len"])
        which, batches, prompts = np.broadcast_arrays(
            *(aligned(column, dims) for column in (used, columns["batch_size"], columns["input_seq_len"]))
        )
        wanted = groups[which] >= 0
        which, batches, prompts = which[wanted], batches[wanted], prompts[wanted]
        found += _keys(groups[which], np.ceil(batches / pipelines[which]), prompts, limit)
    return np.unique(np.concatenate(found))


def _keys(group: Array, micro_batch: Array, prompt: Array, limit: float) -> list[Array]:
    """Keys of the prefills of fewer than `limit` tokens, and of the decode steps."""
    group = np.broadcast_to(group, micro_batch.shape)
    found = []
    for phase, query in enumerate((prompt, np.ones_like(prompt))):
        few = micro_batch * query < limit
        sizes = micro_batch[few].astype(np.int64), query[few].astype(np.int64)
        found.append(pd.unique(kernels.load_key(group[few], phase, *sizes)))
    return found
