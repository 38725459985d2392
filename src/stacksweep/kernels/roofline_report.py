"""Details of one pipeline stage of roofline chips, operation by operation."""

import numpy as np

from stacksweep.kernels import decode, indexer, outputs
from stacksweep.kernels._compile import inner
from stacksweep.kernels.point import attended_range, dram_energy
from stacksweep.kernels.report import cache_read, comm_details, layer_totals, store
from stacksweep.kernels.roofline import operation_times, overhead_of, step_rows
from stacksweep.kernels.rows import ATTENTION, FIRST_KIND, INDEX, INDEX_APART, NO_INDEX, OPERATIONS
from stacksweep.kernels.steps import nth_item


@inner
def no_operations(values, output):
    """Say that a chip of another kind has no overhead, and no operations that are told apart."""
    values[output + outputs.OVERHEAD_TIME] = 0.0
    for number in range(2 * len(OPERATIONS)):
        values[output + outputs.OPERATION_TIMES + number] = np.nan


@inner
def clear_operations(values, output):
    """Start the sums of all operations."""
    for number in range(2 * len(OPERATIONS)):
        values[output + outputs.OPERATION_TIMES + number] = 0.0


@inner
def add_operation(values, output, number, seconds, bound_seconds):
    """Add seconds of an operation, and those in which it is memory-bound."""
    values[output + outputs.OPERATION_TIMES + number] += seconds
    values[output + outputs.OPERATION_BOUND_TIMES + number] += bound_seconds


@inner
def pass_details(operations, counts, kinds, first_kind, load, device, comm, values, output):
    """Report one pass through a stage, as `report.pass_details` does."""
    clear_operations(values, output)
    compute_time = memory_time = bound_time = read = write = 0.0
    overhead = load.pass_overhead
    for place in range(counts.size - 1):
        item = nth_item(place, counts.size - 1)
        if counts[item] == 0.0:
            continue
        overhead += counts[item] * overhead_of(operations[item], 1.0 if item >= FIRST_KIND else 0.0, load)
        item_compute = item_memory = item_bound = 0.0
        for number in range(len(OPERATIONS)):
            one = operations[item, number]
            compute, memory, seconds = operation_times(one, device)
            bound = seconds if memory > compute else 0.0
            add_operation(values, output, number, counts[item] * seconds, counts[item] * bound)
            item_compute += compute
            item_memory += memory
            item_bound += bound
            read += counts[item] * one.read
            write += counts[item] * one.write
        compute_time += counts[item] * item_compute
        memory_time += counts[item] * item_memory
        if device.by_operation:
            bound_time += counts[item] * item_bound
        elif item_memory > item_compute:
            bound_time += counts[item] * (item_memory + (item_compute if device.serial else 0.0))
    store(values, output, compute_time, memory_time, bound_time, read, write, device)
    values[output + outputs.OVERHEAD_TIME] = overhead
    comm_details(counts, kinds, first_kind, comm, 1.0, values, output)


@inner
def item_bytes(operations, work, steps, item, plan, load, device):
    """Bytes that an item reads and writes in all decode steps."""
    read = write = 0.0
    for number in range(len(OPERATIONS)):
        one = operations[number]
        if number != ATTENTION and number != INDEX:
            read += one.read
        write += one.write
    read *= load.output_seq_len
    if item >= FIRST_KIND:
        read += cache_read(work, steps, plan, load, device.wave)
        if work.index_policy == INDEX_APART:
            first, last = attended_range(plan, load)
            read += decode.kv_read_sum(work.index_elements, work.kv_width, device.wave, first, last)
    return read, write * load.output_seq_len


@inner
def bound_seconds(fixed, bound, bound_cycles, bound_kv, device):
    """Seconds of so many memory-bound steps."""
    seconds = (fixed * bound + bound_kv) * device.seconds_per_byte
    return seconds + bound_cycles * device.seconds_per_cycle if device.serial else seconds


@inner
def attention_totals(one, work, steps, plan, load, device):
    """
    Seconds of compute, of memory, in all and memory-bound of the attention of a layer in all decode steps.

    Takes the rows over: they are those of the attention alone afterwards.
    """
    first, last = attended_range(plan, load)
    work.decode_base = steps.low = steps.high = 0.0
    work.index_policy = NO_INDEX
    steps.fixed = one.write
    steps.cycles, steps.kv_read = decode.all_sums(work, device.wave, first, last)
    cycles, kv_read, bound, bound_cycles, bound_kv = layer_totals(work, steps, plan, load, device)
    compute = cycles * device.seconds_per_cycle
    memory = (one.write * load.output_seq_len + kv_read) * device.seconds_per_byte
    bound_time = bound_seconds(one.write, bound, bound_cycles, bound_kv, device)
    if device.serial:
        return compute, memory, compute + memory, bound_time
    return compute, memory, compute - bound_cycles * device.seconds_per_cycle + bound_time, bound_time


@inner
def index_totals(work, plan, load, device):
    """Seconds as those of `attention_totals` of the indexer of a layer; nothing without one."""
    first, last = attended_range(plan, load)
    if work.index_elements == 0.0:
        return 0.0, 0.0, 0.0, 0.0
    return indexer.own_sum(work, device, first, last)


@inner
def decode_details(operations, works, steps, counts, kinds, first_kind, plan, load, device, comm, values):
    """Report all decode steps of a stage, as `pass_details` does for one; takes the rows of all kinds over."""
    output = outputs.DECODE
    clear_operations(values, output)
    tokens = load.output_seq_len
    compute_time = memory_time = bound_time = read = write = 0.0
    overhead = load.pass_overhead
    for place in range(counts.size - 1):
        item = nth_item(place, counts.size - 1)
        if counts[item] == 0.0:
            continue
        overhead += counts[item] * overhead_of(operations[item], 1.0 if item >= FIRST_KIND else 0.0, load)
        item_read, item_write = item_bytes(operations[item], works[item], steps[item], item, plan, load, device)
        read += counts[item] * item_read
        write += counts[item] * item_write
        layer_bound = item_compute = item_memory = item_bound = 0.0
        if item >= FIRST_KIND and not device.by_operation:
            step_rows(operations[item], plan, load, device, 0.0, works[item], steps[item])
            _, _, bound, bound_cycles, bound_kv = layer_totals(works[item], steps[item], plan, load, device)
            layer_bound = bound_seconds(steps[item].fixed, bound, bound_cycles, bound_kv, device)
        for number in range(len(OPERATIONS)):
            one = operations[item, number]
            if item >= FIRST_KIND and number == ATTENTION:
                compute, memory, seconds, bound_part = attention_totals(
                    one, works[item], steps[item], plan, load, device
                )
            elif item >= FIRST_KIND and number == INDEX:
                compute, memory, seconds, bound_part = index_totals(works[item], plan, load, device)
            else:
                compute, memory, seconds = operation_times(one, device)
                bound_part = seconds * tokens if memory > compute else 0.0
                compute, memory, seconds = compute * tokens, memory * tokens, seconds * tokens
            add_operation(values, output, number, counts[item] * seconds, counts[item] * bound_part)
            item_compute += compute
            item_memory += memory
            item_bound += bound_part
        compute_time += counts[item] * item_compute
        memory_time += counts[item] * item_memory
        # the embedding and the LM head are one operation each
        bound_time += counts[item] * (item_bound if device.by_operation or item < FIRST_KIND else layer_bound)
    store(values, output, compute_time, memory_time, bound_time, read, write, device)
    values[output + outputs.OVERHEAD_TIME] = overhead * tokens
    comm_details(counts, kinds, first_kind, comm, tokens, values, output)


@inner
def decode_dram_energy(operations, works, steps, counts, plan, load, device):
    """Energy in pJ of the DRAM accesses of all decode steps of a device that holds `counts` items."""
    read = write = 0.0
    for place in range(counts.size - 1):
        item = nth_item(place, counts.size - 1)
        if counts[item] > 0.0:
            item_read, item_write = item_bytes(operations[item], works[item], steps[item], item, plan, load, device)
            read += counts[item] * item_read
            write += counts[item] * item_write
    return dram_energy(device, read, write)
