"""The entry points of the kernels: price a block of design points, and put it where it belongs in the result."""

from types import FunctionType

import numpy as np

from stacksweep.kernels import outputs, point, report, roofline, roofline_report, validity
from stacksweep.kernels._compile import kernel
from stacksweep.kernels.comm import layer_total, price_network
from stacksweep.kernels.cycles import up
from stacksweep.kernels.experts import price_experts
from stacksweep.kernels.layers import extras_work, layer_work
from stacksweep.kernels.memory import machine_row
from stacksweep.kernels.rows import EMBEDDING, FIRST_KIND, HEAD, STAGE_INDEX, TRANSFER
from stacksweep.kernels.steps import STACK, layer_steps, nth_item, pipeline_steps

PREFILL = 0
DECODE = 1


def _scatter(block, offsets, load_first, destination):
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


SCATTER = {
    np.dtype(name): kernel(FunctionType(_scatter.__code__, globals()), f"scatter_{name}")
    for name in ("float64", "float32", "uint8")
}
"""Kernels that copy a block, by dtype of the result."""


@kernel
def price_block(tables, loads, machine_inputs, scratch, wanted, needs, results, reasons, warnings):
    """
    Price a block of points: every load row with every machine row of the same shared row.

    Parameters
    ----------
    tables : tuple
        Rows of `rows.MODEL`, `rows.CHIP` and `rows.PLAN`; items of pipelines and their stages (`plan.lay_stages`);
        keys and values of the counted expert loads; `deepstack_noc` tables, keys and rows of the counted dispatches;
        rows of `rows.KIND`.
    loads, machine_inputs : record arrays, (shared, load) and (shared, machine)
        Rows of `rows.LOAD` and `rows.MACHINE_INPUT`.
    scratch : tuple of arrays
        Room for rows of `rows.MACHINE` (machine), reasons (loads), rows of `rows.EXPERTS` (loads, 2), `rows.WORK`
        (items), `rows.EXTRAS` (1), `rows.ITEM` (2, items), `rows.STEPS` (items), prices of the network (loads, 2,
        `rows.COMM_SLOTS`, 2), its rates and patterns (`comm.price_network`), rows of `rows.OPERATION` (2, items,
        `rows.OPERATIONS`) and `rows.MACHINE` (1). They come from outside, since a record does not keep the array alive
        that it is a part of.
    wanted : int array, (rows,)
        Number of the output (`outputs.OUTPUTS`) that each row of `results` takes.
    needs : tuple of bool
        Whether anything asked for needs the footprint, the prefill, its details, the first decode step, its details,
        the sum of all decode steps, its details, expert loads, energies per token.
    results : float64 array, (rows, shared, load, machine)
    reasons, warnings : uint8 arrays, (shared, load, machine)
    """
    models, chips, plans, stages, keys, counted, network, dispatch_keys, dispatch_rows, kinds = tables
    machines, load_reasons, experts, works, extras, items, steps, comm, rates, prices, operations, devices = scratch
    footprint, prefill, prefill_details, first, first_details, decode, decode_details, loads_of_experts, energy = needs
    first = first or decode
    passes = prefill or first or energy
    sums = decode or energy
    need_load = passes or footprint or loads_of_experts
    values = np.zeros(len(outputs.OUTPUTS))
    n_items = stages.shape[1] - 1
    active = np.empty(n_items, np.int64)
    seconds_of = np.zeros(n_items)
    stack, before, after = np.empty((STACK, 2)), np.zeros(n_items), np.zeros(n_items)
    weights = kv = noc_energy = 0.0
    flat_loads = loads.reshape(loads.size)
    for row in range(loads.size):
        load_reasons[row] = point.load_reason(plans[flat_loads[row].plan], flat_loads[row])
    if need_load:
        price_experts(models, chips, plans, flat_loads, load_reasons, keys, counted, experts)
    if passes:
        price_network(
            models,
            kinds,
            plans,
            flat_loads,
            load_reasons,
            experts,
            network,
            dispatch_keys,
            dispatch_rows,
            rates,
            prices,
            comm,
        )
    for s in range(loads.shape[0]):
        for i in range(machine_inputs.shape[1]):
            machine_row(machine_inputs[s, i], machines[i])
        for r in range(loads.shape[1]):
            at = s * loads.shape[1] + r
            load = loads[s, r]
            plan = plans[load.plan]
            model = models[plan.model]
            chip = chips[plan.chip]
            by_peaks = chip.roofline
            overhead = load.pass_overhead if by_peaks else 0.0
            bits = 0
            n_active = 0
            whole, start, stop = plan.stages_start, plan.stages_start + 1, plan.stages_stop
            micro_batch = up(load.batch_size, max(plan.pp, 1.0))
            if load_reasons[at] == validity.VALID:
                bits = point.load_warnings(model, plan, load)
            if need_load and load_reasons[at] == validity.VALID:
                for phase in range(2):
                    values[outputs.EXPERT_LOADS + 3 * phase] = experts[at, phase].imbalance
                    values[outputs.EXPERT_LOADS + 3 * phase + 1] = experts[at, phase].pairs
                    values[outputs.EXPERT_LOADS + 3 * phase + 2] = experts[at, phase].active
                noc_energy = comm[at, DECODE, TRANSFER, 1] * plan.pp
                for place in range(n_items):
                    item = nth_item(place, n_items)
                    if stages[whole, item] > 0.0:
                        active[n_active] = item
                        n_active += 1
                        items[PREFILL, item].comm = items[DECODE, item].comm = 0.0
                        if item >= FIRST_KIND:
                            kind = kinds[model.first_kind + item - FIRST_KIND]
                            prefill_load, decode_load = experts[at, PREFILL], experts[at, DECODE]
                            layer_work(model, kind, chip, plan, load, prefill_load, decode_load, works[item])
                            if plan.tp * plan.cp * plan.moe_tp * plan.moe_ep > 1.0:
                                items[PREFILL, item].comm = layer_total(comm, at, PREFILL, kind, 0)
                                items[DECODE, item].comm = layer_total(comm, at, DECODE, kind, 0)
                                noc_energy += stages[whole, item] * layer_total(comm, at, DECODE, kind, 1)
                            if by_peaks:
                                for phase in range(2):
                                    roofline.layer_operations(
                                        model,
                                        kind,
                                        plan,
                                        load,
                                        experts[at, phase],
                                        phase == PREFILL,
                                        works[item],
                                        operations[phase, item],
                                    )
                noc_energy /= plan.pp * micro_batch
                if np.isnan(load.l1_pj_per_bit):
                    noc_energy = np.nan
                values[outputs.NOC_ENERGY_PER_TOKEN] = noc_energy
                extras_work(model, chip, plan, load, extras[0])
                if by_peaks:
                    roofline.embedding_operation(extras[0], True, operations[PREFILL, EMBEDDING])
                    roofline.embedding_operation(extras[0], False, operations[DECODE, EMBEDDING])
                    asked = load.include_lm_head > 0.0
                    always_first = asked or model.moe_composition > 0.0
                    roofline.head_operation(model, plan, load, always_first, True, operations[PREFILL, HEAD])
                    roofline.head_operation(model, plan, load, asked, False, operations[DECODE, HEAD])
                else:
                    for output in (
                        outputs.PREFILL + outputs.PASS_DETAILS,
                        outputs.FIRST_DECODE + outputs.PASS_DETAILS,
                        outputs.DECODE,
                    ):
                        roofline_report.no_operations(values, output)
            if footprint and n_active > 0:
                # the stage that holds most, the first of equals
                weights = kv = 0.0
                for stage in range(start, stop):
                    held_tables = stages[stage, EMBEDDING] + stages[stage, HEAD]
                    if model.tied > 0.0:
                        held_tables = min(held_tables, 1.0)
                    stage_weights = held_tables * extras[0].head_bytes
                    stage_kv = 0.0
                    for item in range(FIRST_KIND, n_items):
                        if stages[stage, item] > 0.0:
                            stage_weights += stages[stage, item] * works[item].held_weights
                            stage_kv += stages[stage, item] * works[item].held_kv
                    if stage_weights + stage_kv > weights + kv:
                        weights = stage_weights
                        kv = stage_kv
                values[outputs.WEIGHT_BYTES] = weights
                values[outputs.KV_BYTES] = kv
            wave = -1.0
            for i in range(machine_inputs.shape[1]):
                machine = machines[i]
                reason = load_reasons[at]
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
                if passes and by_peaks:
                    if machine.wave != wave:
                        wave = machine.wave
                        for j in range(n_active):
                            roofline.round_operations(operations[PREFILL, active[j]], wave)
                            roofline.round_operations(operations[DECODE, active[j]], wave)
                    roofline.device_row(machine, load, devices[0])
                    machine = devices[0]
                    for j in range(n_active):
                        item = active[j]
                        is_layer = 1.0 if item >= FIRST_KIND else 0.0
                        for phase in range(2):
                            seconds = roofline.overhead_of(operations[phase, item], is_layer, load)
                            collectives = 0.0
                            if item >= FIRST_KIND:
                                kind = kinds[model.first_kind + item - FIRST_KIND]
                                collectives = layer_total(comm, at, phase, kind, 0)
                            roofline.item_row(
                                operations[phase, item], machine, seconds, collectives, items[phase, item]
                            )
                        if item >= FIRST_KIND and sums:
                            # `seconds` are those of the decode step, which came last
                            roofline.step_rows(
                                operations[DECODE, item], plan, load, machine, seconds, works[item], steps[item]
                            )
                elif passes and machine.wave != wave:
                    wave = machine.wave
                    for j in range(n_active):
                        item = active[j]
                        whole_pass, step = items[PREFILL, item], items[DECODE, item]
                        if item >= FIRST_KIND:
                            point.layer_items(works[item], plan, load, wave, sums, whole_pass, step, steps[item])
                        elif item == EMBEDDING:
                            cycles, nbytes = extras[0].embedding_cycles, extras[0].embedding_bytes
                            point.extra_item(cycles, nbytes, wave, True, whole_pass)
                            point.extra_item(cycles, nbytes, wave, False, step)
                        else:
                            asked = load.include_lm_head > 0.0
                            cycles, nbytes = extras[0].head_cycles, extras[0].head_bytes
                            point.extra_item(cycles, nbytes, wave, asked or model.moe_composition > 0.0, whole_pass)
                            point.extra_item(cycles, nbytes, wave, asked, step)
                bottleneck = start
                for phase in range(2):
                    if (phase == PREFILL and not prefill) or (phase == DECODE and not first):
                        continue
                    output = outputs.PREFILL if phase == PREFILL else outputs.FIRST_DECODE
                    for j in range(n_active):
                        seconds_of[active[j]] = point.item_seconds(items[phase, active[j]], machine)
                    latency = 0.0
                    for j in range(n_active):
                        latency += stages[whole, active[j]] * seconds_of[active[j]]
                    slowest = 0.0
                    bottleneck = start
                    for stage in range(start, stop):
                        seconds = 0.0
                        for j in range(n_active):
                            seconds += stages[stage, active[j]] * seconds_of[active[j]]
                        if seconds > slowest:
                            slowest = seconds
                            bottleneck = stage
                    transfer = comm[at, phase, TRANSFER, 0]
                    values[output + outputs.LATENCY] = latency + (plan.pp - 1.0) * transfer + plan.pp * overhead
                    values[output + outputs.PERIOD] = slowest + transfer + overhead
                    values[output + outputs.TRANSFER_TIME] = transfer
                    values[output + outputs.BOTTLENECK] = stages[bottleneck, STAGE_INDEX]
                    if (phase == PREFILL and prefill_details) or (phase == DECODE and first_details):
                        if by_peaks:
                            roofline_report.pass_details(
                                operations[phase],
                                stages[bottleneck],
                                kinds,
                                model.first_kind,
                                load,
                                machine,
                                comm[at, phase],
                                values,
                                output + outputs.PASS_DETAILS,
                            )
                            continue
                        report.pass_details(
                            items[phase],
                            stages[bottleneck],
                            kinds,
                            model.first_kind,
                            machine,
                            comm[at, phase],
                            values,
                            output + outputs.PASS_DETAILS,
                        )
                values[outputs.TTFT] = (
                    values[outputs.PREFILL + outputs.LATENCY] + values[outputs.FIRST_DECODE + outputs.LATENCY]
                )
                if decode:
                    # the slowest stage of the first step stays the slowest if it has as many of all items that count
                    always = True
                    for stage in range(start, stop):
                        for j in range(n_active):
                            item = active[j]
                            if stages[stage, item] > stages[bottleneck, item] and items[DECODE, item].read > 0.0:
                                always = False
                    if always:
                        seconds = 0.0
                        for j in range(n_active):
                            item = active[j]
                            if item >= FIRST_KIND:
                                elapsed = layer_steps(
                                    works[item], steps[item], items[DECODE, item].comm, machine, plan, load
                                )
                            else:
                                elapsed = point.item_seconds(items[DECODE, item], machine) * load.output_seq_len
                            seconds += stages[bottleneck, item] * elapsed
                    else:
                        seconds = pipeline_steps(
                            stages, whole, stop, works, steps, items[DECODE], machine, plan, load, stack, before, after
                        )
                    seconds += (comm[at, DECODE, TRANSFER, 0] + overhead) * load.output_seq_len
                    values[outputs.DECODE_TIME] = seconds
                    values[outputs.TPS] = micro_batch * load.output_seq_len / seconds
                    values[outputs.TPS_PER_SEQUENCE] = load.output_seq_len / (plan.pp * seconds)
                if energy:
                    devices_of_stage = plan.tp * plan.cp * plan.dp
                    if by_peaks:
                        spent = roofline_report.decode_dram_energy(
                            operations[DECODE], works, steps, stages[whole], plan, load, machine
                        )
                    else:
                        spent = report.decode_dram_energy(
                            works, steps, items[DECODE], stages[whole], plan, load, machine
                        )
                    per_token = devices_of_stage * spent / (micro_batch * load.output_seq_len)
                    values[outputs.DRAM_ENERGY_PER_TOKEN] = per_token
                    values[outputs.ENERGY_PER_TOKEN] = (per_token + noc_energy) * 1e-12
                if decode_details and by_peaks:
                    roofline_report.decode_details(
                        operations[DECODE],
                        works,
                        steps,
                        stages[bottleneck],
                        kinds,
                        model.first_kind,
                        plan,
                        load,
                        machine,
                        comm[at, DECODE],
                        values,
                    )
                elif decode_details:
                    # of the stage that is the bottleneck of the first step
                    report.decode_details(
                        works,
                        steps,
                        items[DECODE],
                        stages[bottleneck],
                        kinds,
                        model.first_kind,
                        plan,
                        load,
                        machine,
                        comm[at, DECODE],
                        values,
                    )
                for row in range(wanted.size):
                    results[row, s, r, i] = values[wanted[row]]
