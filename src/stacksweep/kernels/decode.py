"""
Exact sums over decode steps at a cost that does not grow step by step.

In a step that attends to x tokens a layer takes `base + a sum of coefficient * ceil(x / period)` cycles and moves
`fixed + round_up(slope * x)` bytes, x at most a cap. Both rise with x. Cycles and bytes sum in closed form (bytes by
a floor sum over integers); what is left is to find the steps in which memory takes longer than compute. Straight
lines that enclose the stairs settle most steps at once; only between the two lines is every tread looked at.
"""

import numpy as np

from stacksweep.kernels._compile import kernel
from stacksweep.kernels.rows import INDEX_JOINED

BYTE_SCALE = 1024.0
"""Storage widths are multiples of 2^-10 byte, so that bytes times this are whole numbers."""

LARGEST = 2.0**62
"""Whole numbers stay below this in a floor sum."""


@kernel
def round_up(nbytes, wave):
    """Bytes of a transfer, rounded up to whole waves where there are any."""
    if wave == 0.0:
        return nbytes
    return np.ceil(nbytes / wave) * wave


@kernel
def floor_sum(n, m, a, b):
    """Sum of floor((a*j + b) / m) over j = 0 … n-1, in as many rounds as Euclid's algorithm needs for a and m."""
    total = 0
    while True:
        total += (n - 1) * n // 2 * (a // m) + n * (b // m)
        a %= m
        b %= m
        top = a * n + b
        if top < m:
            return total
        # count the lattice points under the line by columns instead of rows
        n = top // m
        b = top % m
        m, a = a, m


@kernel
def ceil_sum(first, last, period):
    """Sum of ceil(x / period) over the whole numbers x = first … last."""
    n = last - first + 1.0
    lowest = np.ceil(first / period)
    # position of the first x on its tread, counted from 0
    start = first - (lowest - 1.0) * period - 1.0
    treads = np.floor((start + n) / period)
    rest = start + n - treads * period
    return n * lowest + period * treads * (treads - 1.0) / 2.0 + rest * treads


@kernel
def kv_read_sum(elements, width, wave, first, last):
    """Bytes read for x = first … last attended tokens of `elements` elements each, every read rounded on its own."""
    n = last - first + 1.0
    slope = elements * width
    if wave == 0.0:
        return slope * n * (first + last) / 2.0
    scaled = width * BYTE_SCALE
    modulus = wave * BYTE_SCALE
    if scaled != np.floor(scaled) or elements * scaled >= LARGEST or modulus * (last + 2.0) >= LARGEST:
        total = 0.0
        for i in range(int(n)):
            total += round_up(elements * (first + i) * width, wave)
        return total
    m = int(modulus)
    a = int(elements) * int(scaled)
    whole = float(a // m)
    a %= m
    steps = int(n)
    waves = whole * n * (first + last) / 2.0 + float(floor_sum(steps, m, a, a * int(first) + m - 1))
    return waves * wave


@kernel
def attended(work, x):
    """How many of `x` tokens a step attends to: those of the chunk that holds the last, up to the cap."""
    if work.chunk > 0.0:
        x -= np.floor((x - 1.0) / work.chunk) * work.chunk
    return min(x, work.kv_cap)


@kernel
def core_cycles(work, tokens):
    """Cycles of one layer in a decode step that attends to `tokens`, without an indexer."""
    total = work.decode_base + work.per_mlen * np.ceil(tokens / work.mlen)
    if work.per_blen > 0.0:
        total += work.per_blen * np.ceil(tokens / work.blen)
        total += work.per_vlen * np.ceil(tokens / work.vlen)
        total += work.per_vlen_and_sink * np.ceil((tokens + 1.0) / work.vlen)
    return total


@kernel
def core_read(work, wave, tokens):
    """Bytes of KV cache that one layer reads in a decode step that attends to `tokens`, without an indexer."""
    return round_up(work.kv_elements * tokens * work.kv_width, wave)


@kernel
def step_cycles(work, x):
    """Cycles of one layer in a decode step with `x` tokens in the cache."""
    total = core_cycles(work, attended(work, x))
    return total + work.per_index * x if work.index_policy == INDEX_JOINED else total


@kernel
def step_kv_read(work, wave, x):
    """Bytes of KV cache that one layer reads in a decode step with `x` tokens in the cache."""
    nbytes = core_read(work, wave, attended(work, x))
    if work.index_policy == INDEX_JOINED:
        nbytes += round_up(work.index_elements * x * work.kv_width, wave)
    return nbytes


@kernel
def cycles_sum(work, first, last):
    """Cycles of one layer over the steps with x = first … last, all in the first chunk."""
    capped = min(last, work.kv_cap)
    total = 0.0
    if first <= capped:
        total += work.decode_base * (capped - first + 1.0) + work.per_mlen * ceil_sum(first, capped, work.mlen)
        if work.per_blen > 0.0:
            total += work.per_blen * ceil_sum(first, capped, work.blen)
            total += work.per_vlen * ceil_sum(first, capped, work.vlen)
            total += work.per_vlen_and_sink * ceil_sum(first + 1.0, capped + 1.0, work.vlen)
    beyond = last - max(capped, first - 1.0)
    if beyond > 0.0:
        total += core_cycles(work, work.kv_cap) * beyond
    if work.index_policy == INDEX_JOINED:
        total += work.per_index * (last - first + 1.0) * (first + last) / 2.0
    return total


@kernel
def read_sum(work, wave, first, last):
    """Bytes of KV cache that one layer reads over the steps with x = first … last, all in the first chunk."""
    capped = min(last, work.kv_cap)
    total = 0.0
    if first <= capped:
        total += kv_read_sum(work.kv_elements, work.kv_width, wave, first, capped)
    beyond = last - max(capped, first - 1.0)
    if beyond > 0.0:
        total += core_read(work, wave, work.kv_cap) * beyond
    if work.index_policy == INDEX_JOINED:
        total += kv_read_sum(work.index_elements, work.kv_width, wave, first, last)
    return total


@kernel
def piece(chunk, first, last, number):
    """
    Cut x = first … last where chunks begin.

    Returns how often steps are run through and their first and last place in a chunk, counted from 1: for `number` 0
    the steps up to the end of the first chunk, for 1 those of a whole chunk, for 2 those in the last chunk.
    """
    start, stop = np.floor((first - 1.0) / chunk), np.floor((last - 1.0) / chunk)
    low, high = first - start * chunk, last - stop * chunk
    if start == stop:
        return 1.0 if number == 0 else 0.0, low, high
    if number == 0:
        return 1.0, low, chunk
    if number == 1:
        return stop - start - 1.0, 1.0, chunk
    return 1.0, 1.0, high


@kernel
def chunked_sums(work, wave, first, last):
    """Cycles and bytes of KV cache of one layer with chunks over the steps with x = first … last."""
    cycles = nbytes = 0.0
    for number in range(3):
        times, low, high = piece(work.chunk, first, last, number)
        if times > 0.0:
            cycles += times * cycles_sum(work, low, high)
            nbytes += times * read_sum(work, wave, low, high)
    return cycles, nbytes


@kernel
def all_sums(work, wave, first, last):
    """Cycles and bytes of KV cache of one layer over the steps with x = first … last, in any chunks."""
    if work.chunk > 0.0:
        return chunked_sums(work, wave, first, last)
    return cycles_sum(work, first, last), read_sum(work, wave, first, last)


@kernel
def tread_end(work, x, last):
    """Last step up to `last` that takes as many cycles as step `x`."""
    end = min(last, np.ceil(x / work.mlen) * work.mlen)
    if work.per_blen > 0.0:
        end = min(end, np.ceil(x / work.blen) * work.blen)
        end = min(end, np.ceil(x / work.vlen) * work.vlen)
        end = min(end, np.ceil((x + 1.0) / work.vlen) * work.vlen - 1.0)
    return end


@kernel
def first_memory_bound(work, wave, budget, first, last):
    """First step of first … last whose KV read exceeds `budget` bytes, or last + 1."""
    if core_read(work, wave, min(last, work.kv_cap)) <= budget:
        return last + 1.0
    if core_read(work, wave, min(first, work.kv_cap)) > budget:
        return first
    whole = budget if wave == 0.0 else np.floor(budget / wave) * wave
    x = min(max(np.floor(whole / (work.kv_elements * work.kv_width)) + 1.0, first), last)
    # the quotient can be off by one where it is rounded
    while x > first and core_read(work, wave, min(x - 1.0, work.kv_cap)) > budget:
        x -= 1.0
    while core_read(work, wave, min(x, work.kv_cap)) <= budget:
        x += 1.0
    return x


@kernel
def enclose(work, steps):
    """Fill `slope`, `low` and `high` of a row of `rows.STEPS`: lines below and above the cycles of a step."""
    sink = work.per_vlen_and_sink / work.vlen
    steps.slope = work.per_blen / work.blen + work.per_vlen / work.vlen + sink + work.per_mlen / work.mlen
    steps.low = work.decode_base + sink
    steps.high = steps.low + work.per_blen + work.per_vlen + work.per_vlen_and_sink + work.per_mlen


@kernel
def memory_bound(work, steps, wave, first, last, bytes_per_cycle, whole):
    """
    Count the steps with x = first … last in which memory takes longer than compute, and their cycles and KV bytes.

    All steps are in the first chunk, and no indexer has joined them (`indexer.memory_bound`). `steps` is the row of
    `rows.STEPS` of the kind, `bytes_per_cycle` what the memory moves in one cycle; `whole` says that first … last are
    all the steps that `steps` has the sums of.
    """
    count = cycles = nbytes = 0.0
    fixed = steps.fixed
    capped = min(last, work.kv_cap)
    beyond = last - max(capped, first - 1.0)
    if beyond > 0.0:
        at_cap = core_cycles(work, min(last, work.kv_cap))
        read = core_read(work, wave, min(last, work.kv_cap))
        if fixed + read > at_cap * bytes_per_cycle:
            count += beyond
            cycles += beyond * at_cap
            nbytes += beyond * read
        if first > capped:
            return count, cycles, nbytes

    # compute - memory in bytes lies between two lines of the same slope
    slope = steps.slope * bytes_per_cycle - work.kv_elements * work.kv_width
    low = steps.low * bytes_per_cycle - fixed - wave
    high = steps.high * bytes_per_cycle - fixed
    if low + slope * first >= 0.0 and low + slope * capped >= 0.0:
        return count, cycles, nbytes
    if high + slope * first < 0.0 and high + slope * capped < 0.0:
        if whole and capped == last:
            return last - first + 1.0, steps.cycles, steps.kv_read
        return (
            count + capped - first + 1.0,
            cycles + cycles_sum(work, first, capped),
            nbytes + read_sum(work, wave, first, capped),
        )
    # memory-bound for certain before `start` (slope > 0) or after `stop` (slope < 0); in between every tread is
    # looked at, a run of memory-bound steps beginning at `opened`
    start, stop, opened = first, capped, 0.0
    if slope > 0.0:
        start = min(max(np.floor(-high / slope) - 1.0, first), capped)
        stop = min(max(np.ceil(-low / slope) + 1.0, start), capped)
        if start > first:
            opened = first
    elif slope < 0.0:
        stop = max(min(np.ceil(high / -slope) + 1.0, capped), first)
        start = min(max(np.floor(low / -slope) - 1.0, first), stop)
    x = start
    while x <= stop:
        end = tread_end(work, x, stop)
        budget = core_cycles(work, min(x, work.kv_cap)) * bytes_per_cycle - fixed
        bound = first_memory_bound(work, wave, budget, x, end)
        if bound > x and opened > 0.0:
            count += x - opened
            cycles += cycles_sum(work, opened, x - 1.0)
            nbytes += read_sum(work, wave, opened, x - 1.0)
            opened = 0.0
        if bound <= end and opened == 0.0:
            opened = bound
        x = end + 1.0
    if opened > 0.0:
        end = capped if slope < 0.0 else stop
        count += end - opened + 1.0
        cycles += cycles_sum(work, opened, end)
        nbytes += read_sum(work, wave, opened, end)
    return count, cycles, nbytes
