"""Bytes and prices of the collectives of a layer, and of the transfers between pipeline stages."""

import numpy as np

from deepstack_noc.cost import price_patterns, price_point
from stacksweep.kernels._compile import inner
from stacksweep.kernels.cycles import up
from stacksweep.kernels.experts import DISPATCHED_TOKENS, find_key, place_of
from stacksweep.kernels.layers import kv_heads_of_device, sequences
from stacksweep.kernels.rows import (
    COMM_SLOTS,
    CP_COMBINE,
    CP_GATHER,
    EP_COMBINE,
    EP_DISPATCH,
    MOE_TP_ALL_REDUCE,
    NO_MIXER,
    TP_ALL_REDUCE,
    TRANSFER,
)
from stacksweep.kernels.validity import VALID

NOTHING = -1
"""Row of a collective that does not happen."""

COUNTED = -2
"""Row of a dispatch that is counted token by token and must be looked up."""


@inner
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


@inner
def replace(rates, place, value):
    """Store a rate; returns whether another stood there (NaN stays NaN)."""
    changed = rates[place, 0] != value and not (np.isnan(rates[place, 0]) and np.isnan(value))
    rates[place, 0] = value
    return changed


@inner
def dispatch_bytes(model, plan, load, tokens, imbalance):
    """Bytes that every rank sends to every other when tokens are dispatched uniformly."""
    token_bytes = np.floor(model.expert_hidden * load.activation_bytes)
    ranks = plan.moe_dp * plan.moe_ep
    return np.floor(np.ceil(tokens / ranks) * model.top_k / plan.moe_ep * token_bytes * imbalance)


@inner
def request(model, kind, plan, load, experts, phase, slot, b, activations):
    """
    Row of the network's tables, and whole bytes, of a collective of a layer in a phase (0 prefill, 1 decode).

    `b` is the sequences of a device, `activations` their bytes between layers; `kind` is any kind of layer of a model
    whose attention layers are all alike, as context parallelism needs them.
    """
    row, nbytes = NOTHING, 0.0
    if slot == TP_ALL_REDUCE and plan.tp > 1.0:
        row, nbytes = plan.tp_all_reduce, activations
    elif slot == CP_GATHER and plan.cp > 1.0 and phase == 0:
        cached = kv_heads_of_device(kind, plan) * (kind.key_size + kind.cached_value_size)
        gathered = b * load.input_seq_len * cached
        row, nbytes = plan.cp_all_gather, gathered * load.kv_write_bytes
    elif slot == CP_COMBINE and plan.cp > 1.0 and phase == 1:
        combined = b * (kind.heads / plan.tp) * kind.value_size
        row, nbytes = plan.cp_all_reduce, combined * load.activation_bytes
    elif slot == TRANSFER and plan.pp > 1.0:
        row, nbytes = plan.transfer, activations
    elif slot == MOE_TP_ALL_REDUCE and plan.moe_tp > 1.0:
        row, nbytes = plan.moe_tp_all_reduce, experts.pairs * model.expert_hidden * load.activation_bytes
    elif slot == EP_DISPATCH and plan.moe_ep > 1.0:
        tokens = up(load.batch_size, plan.pp) * (load.input_seq_len if phase == 0 else 1.0)
        if tokens >= DISPATCHED_TOKENS:
            row, nbytes = plan.ep_all_to_all, dispatch_bytes(model, plan, load, tokens, experts.imbalance)
        else:
            row, nbytes = COUNTED, model.expert_hidden * load.activation_bytes
    return row, int(nbytes)


@inner
def price_network(
    models, kinds, plans, loads, reasons, experts, tables, dispatch_keys, dispatch_rows, rates, prices, comm
):
    """
    Price what the layers of each load communicate.

    Parameters
    ----------
    models, kinds, plans, loads : record arrays
        Rows of `rows.MODEL`, `rows.KIND`, `rows.PLAN` and, flat, `rows.LOAD`.
    reasons : int array, (loads,)
        Why a load cannot be; it communicates nothing then.
    experts : record array, (loads, 2)
        Rows of `rows.EXPERTS` by phase.
    tables : deepstack_noc.Tables
    dispatch_keys, dispatch_rows : int arrays
        Sorted keys of counted dispatches and their rows of `tables`.
    rates : float array, (12, 1)
        Working memory.
    prices : float array, (collectives, most patterns of a row of `tables`, 3, 1), flat but for the last two
        Working memory.
    comm : float array, (loads, 2, `rows.COMM_SLOTS`, 2)
        Filled with seconds and pJ of each collective by phase.
    """
    rows, algorithms, stages, patterns, vectors, hops = tables
    # the row whose patterns stand priced at each collective's place
    priced = np.full(TRANSFER + 1, NOTHING)
    room = prices.shape[0] // priced.size
    for r in range(loads.size):
        load = loads[r]
        plan = plans[load.plan]
        model = models[plan.model]
        for phase in range(2):
            for slot in range(COMM_SLOTS):
                comm[r, phase, slot, 0] = comm[r, phase, slot, 1] = 0.0
        if reasons[r] != VALID or plan.tp * plan.pp * plan.cp * plan.moe_tp * plan.moe_ep == 1.0:
            continue
        if read_rates(load, rates):
            for slot in range(priced.size):
                priced[slot] = NOTHING
        b = sequences(plan, load)
        for phase in range(2):
            query = up(load.input_seq_len, plan.cp) if phase == 0 else 1.0
            activations = b * query * model.hidden_size * load.activation_bytes
            for slot in range(TRANSFER + 1):
                row, nbytes = request(
                    model, kinds[model.first_kind], plan, load, experts[r, phase], phase, slot, b, activations
                )
                if row == COUNTED:
                    micro_batch = int(up(load.batch_size, plan.pp))
                    key = find_key(plan.dispatch_group, phase, micro_batch, int(query))
                    row = dispatch_rows[place_of(dispatch_keys, key)]
                if row == NOTHING:
                    continue
                start = slot * room
                if priced[slot] != row:
                    price_patterns(rows, patterns, vectors, hops, row, rates, prices, start)
                    priced[slot] = row
                seconds, energy = price_point(rows, algorithms, stages, row, nbytes, prices, start)
                comm[r, phase, slot, 0] = seconds
                comm[r, phase, slot, 1] = energy
            for what in range(2):
                comm[r, phase, EP_COMBINE, what] = comm[r, phase, EP_DISPATCH, what]


@inner
def runs_of(collective, kind):
    """How often a collective runs in a layer of a kind."""
    mixers = 0.0 if kind.mixer == NO_MIXER else 1.0
    if collective == TP_ALL_REDUCE:
        return mixers + (1.0 if kind.ffn else 0.0)
    if collective in (EP_DISPATCH, EP_COMBINE, MOE_TP_ALL_REDUCE):
        return 1.0 if kind.moe else 0.0
    return mixers


@inner
def layer_total(comm, load, phase, kind, what):
    """Seconds (`what` is 0) or pJ (1) of all collectives of a layer, those of a load in a phase in `comm`."""
    total = 0.0
    if kind.mixer != NO_MIXER:
        total = (
            comm[load, phase, TP_ALL_REDUCE, what]
            + comm[load, phase, CP_COMBINE, what]
            + comm[load, phase, CP_GATHER, what]
        )
    if kind.ffn:
        total += comm[load, phase, TP_ALL_REDUCE, what]
    if kind.moe:
        total += 2.0 * comm[load, phase, EP_DISPATCH, what]
        total += comm[load, phase, MOE_TP_ALL_REDUCE, what]
    return total
