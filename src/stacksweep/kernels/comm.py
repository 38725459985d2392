"""Bytes and prices of the collectives of a layer, and of the transfers between pipeline stages."""

import numpy as np

from deepstack_noc.cost import TIE, price_patterns
from stacksweep.kernels._compile import kernel
from stacksweep.kernels.cycles import up
from stacksweep.kernels.experts import DISPATCHED_TOKENS, find_key
from stacksweep.kernels.layers import kv_heads_of_device, sequences
from stacksweep.kernels.rows import (
    CP_COMBINE,
    CP_GATHER,
    EP_COMBINE,
    EP_DISPATCH,
    MOE_TP_ALL_REDUCE,
    TP_ALL_REDUCE,
    TRANSFER,
)


@kernel
def read_rates(load, rates):
    """Copy the rates of a load row in the order of `deepstack_noc.cost.RATES`; returns whether any has changed."""
    changed = False
    changed |= replace(rates, 0, load.l1_latency)
    changed |= replace(rates, 1, load.l2_latency)
    changed |= replace(rates, 2, load.l3_latency)
    changed |= replace(rates, 3, 1.0 / load.l1_bandwidth)
    changed |= replace(rates, 4, 1.0 / load.l2_bandwidth)
    changed |= replace(rates, 5, 1.0 / load.l3_bandwidth)
    changed |= replace(rates, 6, 1.0 / load.l1_center_capacity)
    changed |= replace(rates, 7, 1.0 / load.l2_center_capacity)
    changed |= replace(rates, 8, 1.0 / load.l3_center_capacity)
    changed |= replace(rates, 9, load.l1_pj_per_bit)
    changed |= replace(rates, 10, load.l2_pj_per_bit)
    changed |= replace(rates, 11, load.l3_pj_per_bit)
    return changed


@kernel
def replace(rates, place, value):
    """Store a rate; returns whether another stood there (NaN stays NaN)."""
    changed = rates[place, 0] != value and not (np.isnan(rates[place, 0]) and np.isnan(value))
    rates[place, 0] = value
    return changed


@kernel
def price(tables, row, nbytes, rates, edition, priced, prices, times, out):
    """
    Price a row of the tables into `out` (`rows.COMM`).

    `prices` keeps those of all patterns, and `priced` for which edition of the rates; `times` is working memory.
    """
    rows, algorithms, stages, patterns, vectors, hops = tables
    own = prices[rows[row, 2] :]
    if priced[row] != edition:
        price_patterns(rows, patterns, vectors, hops, row, rates, own)
        priced[row] = edition
    row_price(rows, algorithms, stages, row, int(nbytes), own, times, out)


@kernel
def row_price(rows, algorithms, stages, row, nbytes, prices, times, out):
    """Price a row for a number of bytes, given the prices of its patterns."""
    first, end = rows[row, 0], rows[row, 1]
    sign = 1.0 - 2.0 * rows[row, 4]
    best = np.inf
    for algorithm in range(first, end):
        seconds = energy = 0.0
        for stage in range(algorithms[algorithm, 1], algorithms[algorithm, 2]):
            sent = nbytes >> stages[stage, 1]
            if stages[stage, 2] != 1:
                sent = sent // stages[stage, 2]
            if sent > 0:
                pattern, repeat = stages[stage, 0], stages[stage, 3]
                seconds += repeat * (prices[pattern, 0, 0] + sent * prices[pattern, 1, 0])
                energy += repeat * sent * prices[pattern, 2, 0]
        times[algorithm - first, 0], times[algorithm - first, 1] = seconds, energy
        best = min(best, sign * seconds)
    for k in range(end - first):
        if sign * times[k, 0] <= best + TIE * abs(best):
            out.seconds, out.energy = times[k, 0], times[k, 1]
            break


@kernel
def dispatch_bytes(model, plan, load, tokens, imbalance):
    """Bytes that every rank sends to every other when tokens are dispatched uniformly."""
    token_bytes = np.floor(model.hidden_size * load.activation_bytes)
    ranks = plan.moe_dp * plan.moe_ep
    return np.floor(np.ceil(tokens / ranks) * model.top_k / plan.moe_ep * token_bytes * imbalance)


@kernel
def price_collectives(
    model,
    plan,
    load,
    phase,
    moe,
    experts,
    tables,
    dispatch_keys,
    dispatch_rows,
    rates,
    edition,
    priced,
    prices,
    times,
    comm,
):
    """
    Price what a layer communicates in a phase (0 prefill, 1 decode) into `comm` (`rows.COMM` by collective).

    Returns whether the dispatch of the experts could be counted.
    """
    h = model.hidden_size
    b = sequences(plan, load)
    s = up(load.input_seq_len, plan.cp) if phase == 0 else 1.0
    activations = b * s * h * load.activation_bytes
    for collective in range(TRANSFER + 1):
        comm[collective].seconds = 0.0
        comm[collective].energy = 0.0
    if plan.tp > 1.0:
        price(tables, plan.tp_all_reduce, activations, rates, edition, priced, prices, times, comm[TP_ALL_REDUCE])
    if plan.cp > 1.0:
        if phase == 0:
            gathered = 2.0 * b * load.input_seq_len * kv_heads_of_device(model, plan) * model.head_dim
            nbytes = gathered * load.kv_write_bytes
            price(tables, plan.cp_all_gather, nbytes, rates, edition, priced, prices, times, comm[CP_GATHER])
        else:
            nbytes = b * (model.heads / plan.tp) * model.head_dim * load.activation_bytes
            price(tables, plan.cp_all_reduce, nbytes, rates, edition, priced, prices, times, comm[CP_COMBINE])
    if plan.pp > 1.0:
        price(tables, plan.transfer, activations, rates, edition, priced, prices, times, comm[TRANSFER])
    if not moe:
        return True
    if plan.moe_tp > 1.0:
        nbytes = experts.pairs * h * load.activation_bytes
        price(tables, plan.moe_tp_all_reduce, nbytes, rates, edition, priced, prices, times, comm[MOE_TP_ALL_REDUCE])
    if plan.moe_ep > 1.0:
        micro_batch = up(load.batch_size, plan.pp)
        tokens = micro_batch * s
        if tokens >= DISPATCHED_TOKENS:
            row = plan.ep_all_to_all
            nbytes = dispatch_bytes(model, plan, load, tokens, experts.imbalance)
        else:
            key = find_key(plan.dispatch_group, phase, int(micro_batch), int(s))
            row = dispatch_rows[np.searchsorted(dispatch_keys, key)]
            nbytes = np.floor(h * load.activation_bytes)
            if row < 0:
                return False
        price(tables, row, nbytes, rates, edition, priced, prices, times, comm[EP_DISPATCH])
        comm[EP_COMBINE].seconds = comm[EP_DISPATCH].seconds
        comm[EP_COMBINE].energy = comm[EP_DISPATCH].energy
    return True
