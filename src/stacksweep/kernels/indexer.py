"""
Decode steps of layers with an indexer, which looks at all tokens in the cache before attention takes the best of them.

Attention stops growing at its cap, the indexer never does: there are two streams of bytes, each rounded on its own.
"""

import numpy as np

from stacksweep.kernels._compile import inner
from stacksweep.kernels.decode import cycles_sum, kv_read_sum, read_sum, round_up, step_cycles, step_kv_read


@inner
def step_times(work, machine, x):
    """Compute and memory seconds of the indexer in a decode step with `x` tokens in the cache."""
    nbytes = round_up(work.index_elements * x * work.kv_width, machine.wave)
    return work.per_index * x * machine.seconds_per_cycle, nbytes * machine.seconds_per_byte


@inner
def own_sum(work, machine, first, last):
    """Seconds of an indexer alone over x = first … last: of compute, of memory, in all, and memory-bound."""
    tokens = (last - first + 1.0) * (first + last) / 2.0
    compute = work.per_index * tokens * machine.seconds_per_cycle
    per_token = work.per_index * machine.seconds_per_cycle
    slope = work.index_elements * work.kv_width * machine.seconds_per_byte
    memory = kv_read_sum(work.index_elements, work.kv_width, machine.wave, first, last) * machine.seconds_per_byte
    bound_compute, bound_memory = compute, memory
    if slope <= per_token:
        # rounded up, few tokens can still take longer to read
        limit = last
        if slope < per_token:
            limit = min(last, np.floor(machine.wave * machine.seconds_per_byte / (per_token - slope)) + 1.0)
        bound_compute = bound_memory = 0.0
        x = first
        while machine.wave > 0.0 and x <= limit:
            own_compute, own_memory = step_times(work, machine, x)
            if own_memory > own_compute:
                bound_compute += own_compute
                bound_memory += own_memory
            x += 1.0
    if machine.serial:
        return compute, memory, compute + memory, bound_compute + bound_memory
    return compute, memory, compute - bound_compute + bound_memory, bound_memory


@inner
def slack(work, steps, bytes_per_cycle, x):
    """Bytes that compute would leave time for beyond those read in a step, before any are rounded."""
    read = (work.kv_elements * min(x, work.kv_cap) + work.index_elements * x) * work.kv_width
    return step_cycles(work, x) * bytes_per_cycle - steps.fixed - read


@inner
def memory_bound(work, steps, wave, first, last, bytes_per_cycle):
    """
    Count the steps with x = first … last in which memory takes longer than compute, and their cycles and KV bytes.

    Like `decode.memory_bound`, for layers that an indexer has joined: below the cap and above it all is a straight line
    but for the rounding of two streams, and only where that decides every step is looked at.
    """
    count = cycles = nbytes = 0.0
    for part in range(2):
        low = first if part == 0 else max(first, np.floor(work.kv_cap) + 1.0)
        high = min(last, work.kv_cap) if part == 0 else last
        if low > high:
            continue
        at_low, at_high = slack(work, steps, bytes_per_cycle, low), slack(work, steps, bytes_per_cycle, high)
        start, stop = low, high
        if min(at_low, at_high) >= 2.0 * wave or max(at_low, at_high) < 0.0:
            start, stop = high + 1.0, high
        elif at_low != at_high:
            per_step = (at_high - at_low) / (high - low)
            one, other = low - at_low / per_step, low + (2.0 * wave - at_low) / per_step
            start = min(max(np.floor(min(one, other)) - 1.0, low), high)
            stop = max(min(np.ceil(max(one, other)) + 1.0, high), start)
        if start > low and at_low < 0.0:
            count += start - low
            cycles += cycles_sum(work, low, start - 1.0)
            nbytes += read_sum(work, wave, low, start - 1.0)
        if stop < high and at_high < 0.0:
            count += high - stop
            cycles += cycles_sum(work, stop + 1.0, high)
            nbytes += read_sum(work, wave, stop + 1.0, high)
        x = start
        while x <= stop:
            own_cycles, own_bytes = step_cycles(work, x), step_kv_read(work, wave, x)
            if steps.fixed + own_bytes > own_cycles * bytes_per_cycle:
                count += 1.0
                cycles += own_cycles
                nbytes += own_bytes
            x += 1.0
    return count, cycles, nbytes
