"""Details of the slowest pipeline stage, for the results that ask for them."""

from stacksweep.kernels import outputs
from stacksweep.kernels._compile import kernel
from stacksweep.kernels.point import decode_bound, dram_energy, item_times
from stacksweep.kernels.rows import KINDS


@kernel
def pass_details(items, counts, machine, values, output):
    """
    Report one pass through a stage.

    Fills `values[output:]` in the order of `outputs.DETAILS`: compute, memory and memory-bound seconds, bytes read and
    written, pJ. `counts[item]` are the items of the stage.
    """
    compute_time = memory_time = bound_time = read = write = 0.0
    for item in range(counts.size):
        if counts[item] > 0.0:
            compute, memory, elapsed = item_times(items[item], machine)
            compute_time += counts[item] * compute
            memory_time += counts[item] * memory
            if memory > compute:
                bound_time += counts[item] * elapsed
            read += counts[item] * items[item].read
            write += counts[item] * items[item].write
    store(values, output, compute_time, memory_time, bound_time, read, write, machine)


@kernel
def decode_details(works, steps, items, counts, load, machine, values):
    """Report all decode steps of a stage, as `pass_details` does for one."""
    compute_time = memory_time = bound_time = read = write = 0.0
    tokens = load.output_seq_len
    for item in range(counts.size):
        if counts[item] == 0.0:
            continue
        if item < KINDS:
            step = steps[item]
            item_cycles = step.cycles
            item_read = (step.fixed - items[item].write) * tokens + step.kv_read
            bound, bound_cycles, bound_kv = decode_bound(works[item], step, load, machine)
            bound_bytes = step.fixed * bound + bound_kv
        else:
            compute, memory, _ = item_times(items[item], machine)
            item_cycles = items[item].cycles * tokens
            item_read = items[item].read * tokens
            bound_cycles = item_cycles if memory > compute else 0.0
            bound_bytes = item_read if memory > compute else 0.0
        item_write = items[item].write * tokens
        compute_time += counts[item] * item_cycles * machine.seconds_per_cycle
        memory_time += counts[item] * (item_read + item_write) * machine.seconds_per_byte
        bound_time += counts[item] * bound_bytes * machine.seconds_per_byte
        if machine.serial:
            bound_time += counts[item] * bound_cycles * machine.seconds_per_cycle
        read += counts[item] * item_read
        write += counts[item] * item_write
    store(values, outputs.DECODE, compute_time, memory_time, bound_time, read, write, machine)


@kernel
def store(values, output, compute_time, memory_time, bound_time, read, write, machine):
    """Fill `values[output:]` in the order of `outputs.DETAILS`."""
    values[output] = compute_time
    values[output + 1] = memory_time
    values[output + 2] = bound_time
    values[output + 3] = read
    values[output + 4] = write
    values[output + 5] = dram_energy(machine, read, write)
