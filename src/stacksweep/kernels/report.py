"""Details of one pipeline stage, for the results that ask for them."""

from stacksweep.kernels import decode, outputs
from stacksweep.kernels._compile import inner
from stacksweep.kernels.comm import runs_of
from stacksweep.kernels.point import attended_range, dram_energy, item_times
from stacksweep.kernels.rows import COLLECTIVES, FIRST_KIND
from stacksweep.kernels.steps import all_bound_steps, missing_steps, nth_item, step_times


@inner
def comm_details(counts, kinds, first_kind, comm, passes, values, output):
    """
    Report what a stage communicates in `passes` passes: all seconds, then those of each collective.

    `kinds` from `first_kind` on are the kinds of layer that `counts` counts.
    """
    all_seconds = 0.0
    for collective in range(len(COLLECTIVES)):
        seconds = 0.0
        for item in range(FIRST_KIND, counts.size - 1):
            if counts[item] > 0.0:
                runs = runs_of(collective, kinds[first_kind + item - FIRST_KIND])
                seconds += counts[item] * runs * comm[collective, 0] * passes
        values[output + outputs.COLLECTIVE_TIMES + collective] = seconds
        all_seconds += seconds
    values[output + outputs.COMM_TIME] = all_seconds


@inner
def store(values, output, compute_time, memory_time, bound_time, read, write, machine):
    """Fill `values[output:]` in the order of `outputs.DETAILS`, but for communication."""
    values[output] = compute_time
    values[output + 1] = memory_time
    values[output + 2] = bound_time
    values[output + 4] = read
    values[output + 5] = write
    values[output + 6] = dram_energy(machine, read, write)


@inner
def pass_details(items, counts, kinds, first_kind, machine, comm, values, output):
    """
    Report one pass through a stage.

    Fills `values[output:]` in the order of `outputs.DETAILS`. `counts[item]` are the items of the stage.
    """
    compute_time = memory_time = bound_time = read = write = 0.0
    for place in range(counts.size - 1):
        item = nth_item(place, counts.size - 1)
        if counts[item] > 0.0:
            compute, memory, seconds = item_times(items[item], machine)
            compute_time += counts[item] * compute
            memory_time += counts[item] * memory
            if memory > compute:
                bound_time += counts[item] * seconds
            read += counts[item] * items[item].read
            write += counts[item] * items[item].write
    store(values, output, compute_time, memory_time, bound_time, read, write, machine)
    comm_details(counts, kinds, first_kind, comm, 1.0, values, output)


@inner
def layer_totals(work, steps, plan, load, machine):
    """
    Add up all decode steps of a layer.

    Returns cycles and bytes read, and steps, cycles and KV bytes of those in which memory takes longer than compute.
    """
    first, last = attended_range(plan, load)
    cycles, kv_read = steps.cycles, steps.kv_read
    bound, bound_cycles, bound_kv = all_bound_steps(work, steps, machine, first, last)
    if plan.cp > 1.0:
        cycles, kv_read = plan.cp * cycles, plan.cp * kv_read
        bound, bound_cycles, bound_kv = plan.cp * bound, plan.cp * bound_cycles, plan.cp * bound_kv
        at_first, at_last = missing_steps(plan, load)
        for end in range(2):
            x = first if end == 0 else last
            missing = at_first if end == 0 else at_last
            step_cycles = decode.step_cycles(work, x)
            step_read = decode.step_kv_read(work, machine.wave, x)
            cycles -= missing * step_cycles
            kv_read -= missing * step_read
            compute, memory = step_times(work, steps, machine, x)
            if memory > compute:
                bound -= missing
                bound_cycles -= missing * step_cycles
                bound_kv -= missing * step_read
    return cycles, kv_read, bound, bound_cycles, bound_kv


@inner
def decode_details(works, steps, items, counts, kinds, first_kind, plan, load, machine, comm, values):
    """Report all decode steps of a stage, as `pass_details` does for one."""
    compute_time = memory_time = bound_time = read = write = 0.0
    tokens = load.output_seq_len
    for place in range(counts.size - 1):
        item = nth_item(place, counts.size - 1)
        if counts[item] == 0.0:
            continue
        item_write = items[item].write * tokens
        if item >= FIRST_KIND:
            fixed = steps[item].fixed
            item_cycles, kv_read, bound, bound_cycles, bound_kv = layer_totals(
                works[item], steps[item], plan, load, machine
            )
            item_read = (fixed - items[item].write) * tokens + kv_read
            bound_bytes = fixed * bound + bound_kv
        else:
            compute, memory, _ = item_times(items[item], machine)
            item_cycles = items[item].cycles * tokens
            item_read = items[item].read * tokens
            bound_cycles = item_cycles if memory > compute else 0.0
            bound_bytes = item_read if memory > compute else 0.0
        compute_time += counts[item] * item_cycles * machine.seconds_per_cycle
        memory_time += counts[item] * (item_read + item_write) * machine.seconds_per_byte
        bound_time += counts[item] * bound_bytes * machine.seconds_per_byte
        if machine.serial:
            bound_time += counts[item] * bound_cycles * machine.seconds_per_cycle
        read += counts[item] * item_read
        write += counts[item] * item_write
    store(values, outputs.DECODE, compute_time, memory_time, bound_time, read, write, machine)
    comm_details(counts, kinds, first_kind, comm, tokens, values, outputs.DECODE)


@inner
def cache_read(work, steps, plan, load, wave):
    """Bytes of KV cache that a layer reads in all decode steps."""
    if plan.cp == 1.0:
        return steps.kv_read
    first, last = attended_range(plan, load)
    at_first, at_last = missing_steps(plan, load)
    missing = at_first * decode.step_kv_read(work, wave, first) + at_last * decode.step_kv_read(work, wave, last)
    return plan.cp * steps.kv_read - missing


@inner
def decode_dram_energy(works, steps, items, counts, plan, load, machine):
    """Energy in pJ of the DRAM accesses of all decode steps of a device that holds `counts` items."""
    read = write = 0.0
    tokens = load.output_seq_len
    for place in range(counts.size - 1):
        item = nth_item(place, counts.size - 1)
        if counts[item] > 0.0:
            write += counts[item] * items[item].write * tokens
            if item >= FIRST_KIND:
                kv_read = cache_read(works[item], steps[item], plan, load, machine.wave)
                read += counts[item] * ((steps[item].fixed - items[item].write) * tokens + kv_read)
            else:
                read += counts[item] * items[item].read * tokens
    return dram_energy(machine, read, write)
