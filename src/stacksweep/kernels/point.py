"""
What a load asks of a device, as *items* that a machine prices.

A pipeline stage is a number of items of each sort: layers of each kind, the embedding, the LM head. An
item has cycles and bytes in prefill and in a decode step. Functions take records and numbers, not arrays: passing an
array costs as much as the arithmetic here.
"""

from stacksweep.kernels import decode, validity
from stacksweep.kernels._compile import inner
from stacksweep.kernels.cycles import up
from stacksweep.kernels.decode import round_up
from stacksweep.kernels.experts import COUNTED_TOKENS, DISPATCHED_TOKENS


@inner
def load_reason(plan, load):
    """Why a load cannot be: the first of its plan's reason, a prompt too short to be split, and a trace too short."""
    if plan.cp > load.input_seq_len and (plan.reason == validity.VALID or plan.reason > validity.CP_PROMPT):
        return validity.CP_PROMPT
    if plan.reason == validity.VALID and plan.routed:
        # rows of experts are read for few tokens only; of a dispatch up to more of them
        read = DISPATCHED_TOKENS if plan.moe_ep > 1.0 else COUNTED_TOKENS
        steps = up(load.batch_size, plan.pp)
        prefill = steps * load.input_seq_len
        if (prefill < read and prefill > plan.recorded_prefill) or (steps < read and steps > plan.recorded_decode):
            return validity.ROUTING_TRACE
    return plan.reason


@inner
def load_warnings(model, plan, load):
    """Warning bits that follow from the load alone."""
    bits = 0
    micro_batch = up(load.batch_size, plan.pp)
    if micro_batch < plan.dp:
        bits |= validity.IDLE_RANKS
    if micro_batch * plan.pp != load.batch_size:
        bits |= validity.BATCH_NOT_MULTIPLE_OF_PP
    if plan.pp > 1.0 and up(model.layers, plan.pp) * (plan.pp - 1.0) >= model.layers:
        bits |= validity.EMPTY_STAGES
    if plan.tp > model.least_kv_heads:
        bits |= validity.KV_HEADS_REPLICATED
    if model.heads * model.head_dim != model.hidden_size:
        bits |= validity.HEAD_DIM_MISMATCH
    return bits


@inner
def attended_range(plan, load):
    """Tokens that the first and the last decode step attend to on one device."""
    return up(load.input_seq_len, plan.cp), up(load.input_seq_len + load.output_seq_len - 1.0, plan.cp)


@inner
def layer_items(work, plan, load, wave, needs_decode, prefill, step, steps):
    """
    Round the streams of a layer to waves.

    Fills `prefill` and `step` (`rows.ITEM`, the latter for the first decode step) and, where needed, `steps`
    (`rows.STEPS`) for all decode steps together.
    """
    spill = round_up(work.prefill_spill, wave)
    prefill.cycles = work.prefill_cycles
    prefill.read = round_up(work.prefill_weights, wave) + round_up(work.prefill_kv_read, wave) + spill
    prefill.write = round_up(work.prefill_kv_write, wave) + spill
    first, last = attended_range(plan, load)
    weights = round_up(work.decode_weights, wave)
    step.cycles = decode.step_cycles(work, first)
    step.read = weights + decode.step_kv_read(work, wave, first)
    step.write = round_up(work.decode_kv_write, wave)
    if needs_decode:
        decode.enclose(work, steps)
        steps.fixed = weights + step.write
        steps.cycles, steps.kv_read = decode.all_sums(work, wave, first, last)


@inner
def extra_item(cycles, nbytes, wave, happens, item):
    """Fill the row `item` of `rows.ITEM` for the embedding or the LM head, zero where it does not happen."""
    item.cycles = cycles if happens else 0.0
    item.read = round_up(nbytes, wave) if happens else 0.0
    item.write = 0.0
    item.comm = 0.0


@inner
def item_times(item, machine):
    """Compute, memory and stage seconds of an item in one pass, without communication."""
    compute = item.cycles * machine.seconds_per_cycle
    memory = (item.read + item.write) * machine.seconds_per_byte
    return compute, memory, compute + memory if machine.serial else max(compute, memory)


@inner
def with_comm(seconds, comm, machine):
    """Seconds of an item with its collectives, hidden behind it or after it."""
    return max(seconds, comm) if machine.comm_hidden else seconds + comm


@inner
def item_seconds(item, machine):
    """Seconds of an item in one pass, with its collectives."""
    _, _, seconds = item_times(item, machine)
    return with_comm(seconds, item.comm, machine)


@inner
def dram_energy(machine, read, write):
    """Energy in pJ of DRAM accesses; NaN without coefficients."""
    return 8.0 * (read * machine.read_pj_per_bit + write * machine.write_pj_per_bit)
