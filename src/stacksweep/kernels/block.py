"""The entry points of the kernels: price a block of design points, and put it where it belongs in the result."""

import numpy as np

from stacksweep.kernels import outputs, point, report, validity
from stacksweep.kernels._compile import kernel
from stacksweep.kernels.cycles import up
from stacksweep.kernels.experts import expert_load
from stacksweep.kernels.layers import extras_work, layer_work
from stacksweep.kernels.memory import machine_row
from stacksweep.kernels.rows import EMBEDDING, HEAD, ITEMS, KINDS

PREFILL = 0
DECODE = 1


@kernel
def scatter(block, offsets, load_first, destination):
    """
    Copy a block to where its points stand in the result.

    `block` is (shared, load, machine); a point stands in `destination` at the sum of its three `offsets`. With
    `load_first` neighbours along load rows are written one after the other, else neighbours along machine rows:
    whichever stand closer together.
    """
    shared_offsets, load_offsets, machine_offsets = offsets
    for s in range(block.shape[0]):
        if load_first:
            for i in range(block.shape[2]):
                start = shared_offsets[s] + machine_offsets[i]
                for r in range(block.shape[1]):
                    destination[start + load_offsets[r]] = block[s, r, i]
        else:
            for r in range(block.shape[1]):
                start = shared_offsets[s] + load_offsets[r]
                for i in range(block.shape[2]):
                    destination[start + machine_offsets[i]] = block[s, r, i]


@kernel
def price_block(
    tables,
    loads,
    machine_inputs,
    scratch,
    wanted,
    needs,
    results,
    reasons,
    warnings,
):
    """
    Price a block of points: every load row with every machine row of the same shared row.

    Parameters
    ----------
    tables : tuple
        Rows of `rows.MODEL` and `rows.CHIP`, items of all pipeline stages (stages, `rows.ITEMS`), keys and values of
        the counted expert loads.
    loads, machine_inputs : record arrays, (shared, load) and (shared, machine)
        Rows of `rows.LOAD` and `rows.MACHINE_INPUT`.
    scratch : tuple of record arrays
        Room for rows of `rows.MACHINE` (machine), `rows.EXPERTS` (2), `rows.WORK` (`rows.KINDS`), `rows.EXTRAS`
        (1), `rows.ITEM` (2, `rows.ITEMS`), `rows.STEPS` (`rows.KINDS`). They come from outside, since a record does
        not keep the array alive that it is a part of.
    wanted : int array, (rows,)
        Number of the output (`outputs.OUTPUTS`) that each row of `results` takes.
    needs : tuple of bool
        Whether anything asked for needs the footprint, the prefill, its details, the first decode step, its details,
        the sum of all decode steps, its details, expert loads.
    results : float array, (rows, shared, load, machine)
    reasons, warnings : uint8 arrays, (shared, load, machine)
    """
    models, chips, stages, keys, counted = tables
    machines, experts, works, extras, items, steps = scratch
    values = np.zeros(len(outputs.OUTPUTS))
    active = np.empty(ITEMS, np.int64)
    footprint, prefill, prefill_details, first, first_details, decode, decode_details, loads_of_experts = needs
    passes = prefill or first or decode
    need_load = passes or footprint or loads_of_experts
    prefill_experts, step_experts = experts[PREFILL], experts[DECODE]
    weights = kv = 0.0
    for s in range(loads.shape[0]):
        for i in range(machine_inputs.shape[1]):
            machine_row(machine_inputs[s, i], machines[i])
        for r in range(loads.shape[1]):
            load = loads[s, r]
            model = models[load.model]
            chip = chips[load.chip]
            bits = point.load_warnings(model, load)
            n_active = 0
            if need_load and load.reason == validity.VALID:
                for item in range(ITEMS):
                    for stage in range(load.stages_start, load.stages_stop):
                        if stages[stage, item] > 0.0:
                            active[n_active] = item
                            n_active += 1
                            break
                if model.experts > 0.0:
                    query = up(load.input_seq_len, load.cp)
                    expert_load(model, load, chip.blen, query, keys, counted, prefill_experts)
                    expert_load(model, load, chip.blen, 1.0, keys, counted, step_experts)
                    for phase in range(2):
                        values[outputs.EXPERT_LOADS + 3 * phase] = experts[phase].imbalance
                        values[outputs.EXPERT_LOADS + 3 * phase + 1] = experts[phase].pairs
                        values[outputs.EXPERT_LOADS + 3 * phase + 2] = experts[phase].active
                else:
                    values[outputs.EXPERT_LOADS : outputs.EXPERT_LOADS + 6] = np.nan
                for j in range(n_active):
                    item = active[j]
                    if item < KINDS:
                        layer_work(
                            model, chip, load, item >= 2, item % 2 == 1, prefill_experts, step_experts, works[item]
                        )
                extras_work(model, chip, load, extras[0])
            if footprint and n_active > 0:
                # the stage that holds most, the first of equals
                weights = kv = 0.0
                for stage in range(load.stages_start, load.stages_stop):
                    tables_held = stages[stage, EMBEDDING] + stages[stage, HEAD]
                    if model.tied > 0.0:
                        tables_held = min(tables_held, 1.0)
                    stage_weights = tables_held * extras[0].head_bytes
                    stage_kv = 0.0
                    for kind in range(KINDS):
                        if stages[stage, kind] > 0.0:
                            stage_weights += stages[stage, kind] * works[kind].held_weights
                            stage_kv += stages[stage, kind] * works[kind].held_kv
                    if stage_weights + stage_kv > weights + kv:
                        weights = stage_weights
                        kv = stage_kv
                values[outputs.WEIGHT_BYTES] = weights
                values[outputs.KV_BYTES] = kv
            wave = -1.0
            for i in range(machine_inputs.shape[1]):
                machine = machines[i]
                reason = load.reason
                if reason == validity.VALID or (machine.reason != validity.VALID and machine.reason < reason):
                    reason = machine.reason
                reasons[s, r, i] = reason
                if reason != validity.VALID:
                    warnings[s, r, i] = 0
                    for row in range(wanted.size):
                        results[row, s, r, i] = np.nan
                    continue
                flags = bits
                if machine.buffering_limited:
                    flags |= validity.BUFFERING_LIMITED
                if machine.clock_scale != 1.0:
                    flags |= validity.CLOCK_SCALED
                if footprint and weights + kv > machine.capacity:
                    flags |= validity.DOES_NOT_FIT
                warnings[s, r, i] = flags
                values[outputs.CAPACITY] = machine.capacity
                values[outputs.USABLE_BANDWIDTH] = machine.usable_bandwidth
                values[outputs.CLOCK_SCALE] = machine.clock_scale
                values[outputs.PEAK_BANDWIDTH] = machine.peak_bandwidth
                values[outputs.CONNECTIVITY_EFFICIENCY] = machine.connectivity_efficiency
                if passes and machine.wave != wave:
                    wave = machine.wave
                    for j in range(n_active):
                        item = active[j]
                        before, step = items[PREFILL, item], items[DECODE, item]
                        if item < KINDS:
                            point.layer_items(works[item], load, wave, decode, before, step, steps[item])
                        elif item == EMBEDDING:
                            cycles, nbytes = extras[0].embedding_cycles, extras[0].embedding_bytes
                            point.extra_item(cycles, nbytes, wave, True, before)
                            point.extra_item(cycles, nbytes, wave, False, step)
                        else:
                            asked = load.include_lm_head > 0.0
                            cycles, nbytes = extras[0].head_cycles, extras[0].head_bytes
                            point.extra_item(cycles, nbytes, wave, asked or model.moe_composition > 0.0, before)
                            point.extra_item(cycles, nbytes, wave, asked, step)
                for phase in range(2):
                    if (phase == PREFILL and not prefill) or (phase == DECODE and not first):
                        continue
                    latency = slowest = 0.0
                    bottleneck = load.stages_start
                    for stage in range(load.stages_start, load.stages_stop):
                        seconds = 0.0
                        for j in range(n_active):
                            item = active[j]
                            _, _, elapsed = point.item_times(items[phase, item], machine)
                            seconds += stages[stage, item] * elapsed
                        latency += seconds
                        if seconds > slowest:
                            slowest = seconds
                            bottleneck = stage
                    if phase == PREFILL:
                        values[outputs.PREFILL_LATENCY] = latency
                        values[outputs.PREFILL_PERIOD] = slowest
                        if prefill_details:
                            report.pass_details(items[phase], stages[bottleneck], machine, values, outputs.PREFILL)
                    else:
                        values[outputs.FIRST_DECODE_LATENCY] = latency
                        values[outputs.FIRST_DECODE_PERIOD] = slowest
                        if first_details:
                            report.pass_details(items[phase], stages[bottleneck], machine, values, outputs.FIRST_DECODE)
                values[outputs.TTFT] = values[outputs.PREFILL_LATENCY] + values[outputs.FIRST_DECODE_LATENCY]
                if decode:
                    seconds = 0.0
                    stage = load.stages_start
                    for j in range(n_active):
                        item = active[j]
                        if item < KINDS:
                            elapsed = point.decode_seconds(works[item], steps[item], load, machine)
                        else:
                            _, _, elapsed = point.item_times(items[DECODE, item], machine)
                            elapsed *= load.output_seq_len
                        seconds += stages[stage, item] * elapsed
                    values[outputs.DECODE_TIME] = seconds
                    tokens = up(load.batch_size, load.pp) * load.output_seq_len
                    values[outputs.TPS] = tokens / seconds
                    values[outputs.TPS_PER_SEQUENCE] = load.output_seq_len / (load.pp * seconds)
                    if decode_details:
                        report.decode_details(works, steps, items[DECODE], stages[stage], load, machine, values)
                for row in range(wanted.size):
                    results[row, s, r, i] = values[wanted[row]]
