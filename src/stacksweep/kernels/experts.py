"""
Load of the busiest expert-parallel rank under balanced, random, expected or recorded routing.

The statistics are DeepStack's (tile-ai/DeepStack; Mo et al., arXiv:2604.04750). Loads of fewer than 4096 tokens are
counted from rows of expert ids (`stacksweep.moe` builds that table); larger ones follow in closed form.
"""

from typing import Any

import numpy as np

from deepstack_noc._jit import inlined
from stacksweep.kernels._compile import kernel
from stacksweep.kernels.cycles import down, up
from stacksweep.kernels.validity import VALID

COUNTED_TOKENS = 4096
"""From this many micro-batch tokens on the load follows from the closed form instead of counted rows."""

DISPATCHED_TOKENS = 8192
"""From this many micro-batch tokens on the dispatch is uniform instead of counted."""

BALANCED = -1
EXPECTED = -2
"""Groups of balanced and of expected routing; others number what counted loads depend on."""


def load_key(group: Any, phase: Any, micro_batch: Any, query: Any) -> Any:
    """Key of a counted load or dispatch, unique since both numbers are below `DISPATCHED_TOKENS`."""
    return ((group * 2 + phase) * DISPATCHED_TOKENS + micro_batch) * DISPATCHED_TOKENS + query


def split_keys(keys: Any) -> tuple[Any, Any, Any, Any]:
    """Group, phase, micro-batch and query length of keys."""
    rest, query = np.divmod(keys, DISPATCHED_TOKENS)
    rest, micro_batch = np.divmod(rest, DISPATCHED_TOKENS)
    group, phase = np.divmod(rest, 2)
    return group, phase, micro_batch, query


find_key = kernel(load_key)


@inlined
def place_of(keys: Any, key: Any) -> Any:
    """Place of a key among sorted keys that contain it; no branch depends on them, since none could be foreseen."""
    place = 0
    left = keys.size
    while left > 1:
        half = left // 2
        place += half if keys[place + half] <= key else 0
        left -= half
    return place


@kernel
def closed_form_imbalance(experts, top_k, ep, tokens, replicas):
    """Estimate the pairs of the busiest rank over the mean, for `tokens` of a group and `replicas` groups of ranks."""
    mean = tokens * top_k / ep
    if ep == 1.0 or mean == 0.0:
        return 1.0
    sigma = 0.0
    if experts > 1.0 and experts != top_k:
        sigma = np.sqrt(tokens * top_k * (1.0 / ep) * (1.0 - 1.0 / ep) * (experts - top_k) / (experts - 1.0))
    ranks = (ep - 1.0) * replicas
    quantile = 0.0
    if ranks > 1.0:
        log = np.log(ranks)
        quantile = np.sqrt(2.0 * log) - (np.log(log) + np.log(4.0 * np.pi)) / (2.0 * np.sqrt(2.0 * log))
    return 1.0 + sigma * quantile / mean


@kernel
def expert_load(model, plan, load, blen, query, out):
    """
    Fill the row `out` of `rows.EXPERTS` for a phase with query length `query`.

    Returns whether the load must be counted: then pairs, active experts and blocks are left open.
    """
    experts, top_k, ep = model.experts, model.top_k, plan.moe_ep
    micro_batch = up(load.batch_size, plan.pp)
    group_tokens = up(micro_batch, plan.moe_dp) * query
    local = experts / ep
    out.tokens = up(group_tokens, ep)
    balanced_pairs = up(group_tokens * top_k, ep)
    if plan.routing_group == BALANCED or plan.routing_group == EXPECTED:
        out.pairs = balanced_pairs
        out.active = local
        if plan.routing_group == EXPECTED:
            # each token misses an expert with probability 1 - top_k / experts
            out.active *= -np.expm1(group_tokens * np.log1p(-top_k / experts))
        out.blocks = local * up(up(group_tokens * top_k, experts), blen)
        out.imbalance = 1.0
    elif micro_batch * query >= COUNTED_TOKENS:
        imbalance = closed_form_imbalance(experts, top_k, ep, group_tokens, plan.moe_tp * plan.moe_dp)
        out.pairs = np.rint(out.tokens * top_k * imbalance)
        least = down(out.pairs, local)
        fuller = out.pairs - least * local
        out.active = min(out.pairs, local)
        out.blocks = fuller * up(least + 1.0, blen) + (local - fuller) * up(least, blen)
        out.imbalance = out.pairs / balanced_pairs
    else:
        return True
    return False


@kernel
def price_experts(models, chips, plans, loads, reasons, keys, counted, out):
    """
    Work out the load of the busiest rank for each load of a model with routed layers.

    Parameters
    ----------
    models, chips, plans, loads : record arrays
        Rows of `rows.MODEL`, `rows.CHIP`, `rows.PLAN` and, flat, `rows.LOAD`.
    reasons : int array, (loads,)
        Why a load cannot be; it has no experts then.
    keys : int array
        Sorted keys of the counted loads.
    counted : float array, (keys, 3)
        Their pairs, active experts and BLEN blocks.
    out : record array, (loads, 2)
        Rows of `rows.EXPERTS` by phase; NaN where there are no experts.
    """
    for r in range(loads.size):
        load = loads[r]
        plan = plans[load.plan]
        model = models[plan.model]
        for phase in range(2):
            row = out[r, phase]
            if reasons[r] != VALID or not plan.routed:
                row.tokens = row.pairs = row.active = row.blocks = row.imbalance = np.nan
                continue
            query = up(load.input_seq_len, plan.cp) if phase == 0 else 1.0
            if expert_load(model, plan, load, chips[plan.chip].blen, query, row):
                micro_batch = up(load.batch_size, plan.pp)
                key = find_key(plan.routing_group, phase, int(micro_batch), int(query))
                place = place_of(keys, key)
                row.pairs = counted[place, 0]
                row.active = counted[place, 1]
                row.blocks = counted[place, 2]
                mean = up(micro_batch, plan.moe_dp) * query * model.top_k / plan.moe_ep
                row.imbalance = row.pairs / mean


@kernel
def count_loads(ids, micro_batches, queries, dp, ep, experts, blen, out):
    """
    Count the load of the busiest rank for several loads of one routing.

    Parameters
    ----------
    ids : int array, (tokens, choices)
        Experts of each token.
    micro_batches, queries : int arrays, (loads,)
    dp, ep, experts, blen : int
        Of the MoE scheme, the model and the chip; ep divides the experts.
    out : float array, (loads, 3)
        Filled with pairs, active experts and the sum of ceil(tokens of an expert / BLEN).
    """
    counts = np.empty(experts, np.int64)
    local = experts // ep
    for i in range(micro_batches.size):
        tokens = micro_batches[i] * queries[i]
        group = (micro_batches[i] + dp - 1) // dp * queries[i]
        out[i] = -1.0
        for start in range(0, tokens, group):
            counts[:] = 0
            for token in range(start, min(start + group, tokens)):
                for choice in range(ids.shape[1]):
                    counts[ids[token, choice]] += 1
            for rank in range(ep):
                own = counts[rank * local : (rank + 1) * local]
                if own.sum() > out[i, 0]:
                    out[i, 0] = own.sum()
                    out[i, 1] = (own > 0).sum()
                    out[i, 2] = ((own + blen - 1) // blen).sum()


@kernel
def count_dispatch(ids, tokens, dp, ep, experts, counts):
    """
    Count the tokens that ranks of an expert-parallel group send one another.

    Parameters
    ----------
    ids : int array, (at least tokens, choices)
        Experts of each token.
    tokens, dp, ep, experts : int
        Tokens of the micro-batch, sizes of the MoE scheme, experts of the model.
    counts : int array, (dp, ep, ep)
        For each data slot, filled with the tokens of source rank a that rank b serves; 0 where a = b.
    """
    per_slot = (tokens + dp - 1) // dp
    hit = np.zeros(ep, np.int64)
    mark = 0
    for slot in range(dp):
        start = slot * per_slot
        local = max(0, min(per_slot, tokens - start))
        token = start
        for source in range(ep):
            for _ in range(local // ep + (1 if source < local % ep else 0)):
                mark += 1
                for choice in range(ids.shape[1]):
                    rank = ids[token, choice] * ep // experts
                    if hit[rank] != mark:
                        hit[rank] = mark
                        if rank != source:
                            counts[slot, source, rank] += 1
                token += 1
