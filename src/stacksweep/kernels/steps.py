"""
Seconds of all decode steps: of a kind of layer, and of a pipeline whose slowest stage may change on the way.

With context parallelism cp steps in a row attend to the same number of tokens on a device, the first and the last
fewer: a sum over steps is cp times the sum over the numbers of tokens, less what is missing at the two ends.
"""

import numpy as np

from stacksweep.kernels import decode, indexer
from stacksweep.kernels._compile import inner
from stacksweep.kernels.point import attended_range, item_seconds, with_comm
from stacksweep.kernels.rows import FIRST_KIND, INDEX_APART, INDEX_JOINED, NO_INDEX

STACK = 128
"""Ranges that wait to be summed: more than a range can be halved, twice over."""

SHORT = 4.0
"""Ranges of up to so many steps are priced one by one."""


@inner
def nth_item(place, items):
    """Item at a place in the order in which they are added up: kinds of layer, the embedding, the LM head."""
    item = place + FIRST_KIND
    return item if item < items else item - items


@inner
def missing_steps(plan, load):
    """Count the steps that the first and the last number of attended tokens lack to cp."""
    first, last = attended_range(plan, load)
    if first == last:
        return plan.cp - load.output_seq_len, 0.0
    at_first = first * plan.cp - load.input_seq_len + 1.0
    at_last = load.output_seq_len - at_first - (last - first - 1.0) * plan.cp
    return plan.cp - at_first, plan.cp - at_last


@inner
def step_times(work, steps, machine, x):
    """Compute and memory seconds of a layer in a decode step that attends to `x` tokens."""
    compute = decode.step_cycles(work, x) * machine.seconds_per_cycle
    memory = (steps.fixed + decode.step_kv_read(work, machine.wave, x)) * machine.seconds_per_byte
    if work.index_policy == INDEX_APART:
        # added to both, and so to the larger
        own_compute, own_memory = indexer.step_times(work, machine, x)
        compute += max(own_compute, own_memory)
        memory += max(own_compute, own_memory)
    return compute, memory


@inner
def step_seconds(work, steps, comm, machine, x):
    """Seconds of a layer in a decode step that attends to `x` tokens."""
    compute, memory = step_times(work, steps, machine, x)
    return with_comm(compute + memory if machine.serial else max(compute, memory), comm, machine)


@inner
def bound_steps(work, steps, machine, first, last, whole):
    """
    Count the steps of first … last in which memory takes longer than compute; their cycles and KV bytes.

    All steps are in the first chunk; an indexer apart does not count.
    """
    bytes_per_cycle = machine.seconds_per_cycle / machine.seconds_per_byte
    if work.index_policy == INDEX_JOINED:
        return indexer.memory_bound(work, steps, machine.wave, first, last, bytes_per_cycle)
    return decode.memory_bound(work, steps, machine.wave, first, last, bytes_per_cycle, whole)


@inner
def chunked_bound_steps(work, steps, machine, first, last):
    """Count the memory-bound steps of a layer with chunks among first … last; their cycles and KV bytes."""
    count = cycles = nbytes = 0.0
    for number in range(3):
        times, low, high = decode.piece(work.chunk, first, last, number)
        if times > 0.0:
            own_count, own_cycles, own_bytes = bound_steps(work, steps, machine, low, high, False)
            count += times * own_count
            cycles += times * own_cycles
            nbytes += times * own_bytes
    return count, cycles, nbytes


@inner
def all_bound_steps(work, steps, machine, first, last):
    """Count all memory-bound steps, first … last, in any chunks; their cycles and KV bytes."""
    if work.chunk > 0.0:
        return chunked_bound_steps(work, steps, machine, first, last)
    return bound_steps(work, steps, machine, first, last, True)


@inner
def indexed_stage_sum(work, steps, machine, first, last):
    """Seconds of a layer with an indexer over x = first … last without communication."""
    compute = decode.cycles_sum(work, first, last) * machine.seconds_per_cycle
    if machine.serial:
        read = decode.read_sum(work, machine.wave, first, last)
        return compute + (steps.fixed * (last - first + 1.0) + read) * machine.seconds_per_byte
    count, bound_cycles, kv_read = bound_steps(work, steps, machine, first, last, False)
    memory = (steps.fixed * count + kv_read) * machine.seconds_per_byte
    total = compute - bound_cycles * machine.seconds_per_cycle + memory
    if work.index_policy == INDEX_APART:
        total += indexer.own_sum(work, machine, first, last)[2]
    return total


@inner
def stage_sum(work, steps, machine, first, last, whole):
    """Seconds of a layer over x = first … last without communication; `whole` if those are all steps."""
    if work.index_policy != NO_INDEX:
        return indexed_stage_sum(work, steps, machine, first, last)
    cycles = steps.cycles if whole else decode.cycles_sum(work, first, last)
    compute = cycles * machine.seconds_per_cycle
    if machine.serial:
        read = steps.kv_read if whole else decode.read_sum(work, machine.wave, first, last)
        return compute + (steps.fixed * (last - first + 1.0) + read) * machine.seconds_per_byte
    bytes_per_cycle = machine.seconds_per_cycle / machine.seconds_per_byte
    count, bound_cycles, kv_read = decode.memory_bound(work, steps, machine.wave, first, last, bytes_per_cycle, whole)
    memory = (steps.fixed * count + kv_read) * machine.seconds_per_byte
    return compute - bound_cycles * machine.seconds_per_cycle + memory


@inner
def first_above(work, steps, machine, comm, first, last):
    """First step of first … last in which a layer takes longer than its collectives, or last + 1."""
    low, high = first, last + 1.0
    while low < high:
        middle = np.floor((low + high) / 2.0)
        compute, memory = step_times(work, steps, machine, middle)
        if (compute + memory if machine.serial else max(compute, memory)) > comm:
            high = middle
        else:
            low = middle + 1.0
    return low


@inner
def rising_sum(work, steps, comm, machine, first, last, whole):
    """Seconds of a layer over x = first … last, all in the first chunk, with its collectives."""
    if not machine.comm_hidden or comm == 0.0:
        return stage_sum(work, steps, machine, first, last, whole) + comm * (last - first + 1.0)
    # a layer takes longer from step to step: collectives hide from some step on
    above = first_above(work, steps, machine, comm, first, last)
    total = comm * (above - first)
    if above <= last:
        total += stage_sum(work, steps, machine, above, last, whole and above == first)
    return total


@inner
def chunked_sum(work, steps, comm, machine, first, last):
    """Seconds of a layer with chunks over x = first … last with its collectives."""
    total = 0.0
    for number in range(3):
        times, low, high = decode.piece(work.chunk, first, last, number)
        if times > 0.0:
            total += times * rising_sum(work, steps, comm, machine, low, high, False)
    return total


@inner
def layer_sum(work, steps, comm, machine, first, last, whole):
    """Seconds of a layer over x = first … last with its collectives; `whole` if those are all steps."""
    if work.chunk > 0.0:
        return chunked_sum(work, steps, comm, machine, first, last)
    return rising_sum(work, steps, comm, machine, first, last, whole)


@inner
def layer_steps(work, steps, comm, machine, plan, load):
    """Seconds of a layer over all decode steps."""
    first, last = attended_range(plan, load)
    total = layer_sum(work, steps, comm, machine, first, last, True)
    if plan.cp == 1.0:
        return total
    at_first, at_last = missing_steps(plan, load)
    return (
        plan.cp * total
        - at_first * step_seconds(work, steps, comm, machine, first)
        - at_last * step_seconds(work, steps, comm, machine, last)
    )


@inner
def item_step_times(stages, whole, works, steps, items, machine, x, times):
    """Seconds of each item of a pipeline, row `whole` of `stages`, in a decode step that attends to `x` tokens."""
    for item in range(times.size):
        if stages[whole, item] > 0.0:
            if item >= FIRST_KIND:
                times[item] = step_seconds(works[item], steps[item], items[item].comm, machine, x)
            else:
                times[item] = item_seconds(items[item], machine)


@inner
def slowest_stage(stages, whole, stop, times):
    """Seconds and row of the slowest stage of a pipeline, the first of equals."""
    slowest = -1.0
    row = whole + 1
    for stage in range(whole + 1, stop):
        seconds = 0.0
        for place in range(times.size):
            item = nth_item(place, times.size)
            if stages[stage, item] > 0.0:
                seconds += stages[stage, item] * times[item]
        if seconds > slowest:
            slowest = seconds
            row = stage
    return slowest, row


@inner
def dominates(stages, one, other, before, after):
    """Whether stage `one` is no faster than `other` in every step, given the items' times before and after them."""
    gap = 0.0
    for place in range(before.size):
        item = nth_item(place, before.size)
        more = stages[one, item] - stages[other, item]
        if more > 0.0:
            gap += more * before[item]
        elif more < 0.0:
            gap += more * after[item]
    return gap >= 0.0


@inner
def pipeline_sum(stages, whole, stop, works, steps, items, machine, first, last, all_steps, stack, before, after):
    """
    Seconds of the slowest stage over x = first … last, in one chunk; `all_steps` if those are all.

    All times rise with x, so that a stage slower than another by what is certain at both ends of a range is slower all
    through it; ranges are halved until one stage is slower than all others.
    """
    stack[0, 0], stack[0, 1] = first, last
    depth = 1
    total = 0.0
    while depth > 0:
        depth -= 1
        low, high = stack[depth, 0], stack[depth, 1]
        item_step_times(stages, whole, works, steps, items, machine, low, before)
        item_step_times(stages, whole, works, steps, items, machine, high, after)
        _, slowest = slowest_stage(stages, whole, stop, after)
        certain = True
        for other in range(whole + 1, stop):
            if other != slowest and not dominates(stages, slowest, other, before, after):
                certain = False
                break
        if certain:
            for place in range(before.size):
                item = nth_item(place, before.size)
                count = stages[slowest, item]
                if count > 0.0:
                    if item >= FIRST_KIND:
                        total += count * layer_sum(
                            works[item],
                            steps[item],
                            items[item].comm,
                            machine,
                            low,
                            high,
                            all_steps and low == first and high == last,
                        )
                    else:
                        total += count * after[item] * (high - low + 1.0)
        elif high - low < SHORT:
            x = low
            while x <= high:
                item_step_times(stages, whole, works, steps, items, machine, x, before)
                seconds, _ = slowest_stage(stages, whole, stop, before)
                total += seconds
                x += 1.0
        else:
            middle = np.floor((low + high) / 2.0)
            stack[depth, 0], stack[depth, 1] = low, middle
            stack[depth + 1, 0], stack[depth + 1, 1] = middle + 1.0, high
            depth += 2
    return total


@inner
def pipeline_steps(stages, whole, stop, works, steps, items, machine, plan, load, stack, before, after):
    """
    Seconds of the slowest stage over all decode steps.

    The pipeline is row `whole` of `stages`, its stages follow up to row `stop`; the last three arguments are working
    memory of `pipeline_sum`.
    """
    first, last = attended_range(plan, load)
    total = 0.0
    low = first
    while low <= last:
        # times of a layer fall where its chunk begins
        high = last
        for item in range(FIRST_KIND, before.size):
            if stages[whole, item] > 0.0 and works[item].chunk > 0.0:
                high = min(high, np.ceil(low / works[item].chunk) * works[item].chunk)
        every = low == first and high == last
        total += pipeline_sum(stages, whole, stop, works, steps, items, machine, low, high, every, stack, before, after)
        low = high + 1.0
    if plan.cp == 1.0:
        return total
    at_first, at_last = missing_steps(plan, load)
    item_step_times(stages, whole, works, steps, items, machine, first, before)
    seconds_first, _ = slowest_stage(stages, whole, stop, before)
    item_step_times(stages, whole, works, steps, items, machine, last, after)
    seconds_last, _ = slowest_stage(stages, whole, stop, after)
    return plan.cp * total - at_first * seconds_first - at_last * seconds_last
