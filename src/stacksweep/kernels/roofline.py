"""
Work and time of roofline chips: FLOP and bytes of each operation against the peaks of the chip and its memory.

A layer, the embedding or the LM head is an item like those of other chips (`point`), and so are its rows: what is
filled here are seconds of compute at full clock instead of cycles, and bytes. Of all operations only attention and its
indexer depend on the tokens in the cache in a decode step; they are the part of a row that varies, all others its base.
"""

import numpy as np

from stacksweep.kernels import decode
from stacksweep.kernels._compile import inner
from stacksweep.kernels.cycles import up
from stacksweep.kernels.decode import round_up
from stacksweep.kernels.layers import expert_weights, ffn_weights, kv_heads_of_device, mixer_weights, sequences
from stacksweep.kernels.point import attended_range
from stacksweep.kernels.rows import (
    ATTENTION,
    EMBED,
    EXPERT,
    FFN,
    INDEX,
    INDEX_APART,
    INDEX_JOINED,
    LM_HEAD,
    NO_MIXER,
    OPERATIONS,
    OUT,
    QKV,
    QUERY_TILE,
    ROUTER,
    SCAN,
    STATE_TILE,
)


@inner
def clear(operations):
    """Take all operations of an item away."""
    for number in range(len(OPERATIONS)):
        one = operations[number]
        one.seconds = one.weights = one.cache_read = one.cache_write = one.rows_read = one.rows_write = 0.0


@inner
def move_rows(inputs, outputs, load, prefill, one):
    """Note the activations that an operation of the prefill reads and writes, unless the chip can keep them."""
    nbytes = (inputs + outputs) * load.activation_bytes
    moved = prefill and nbytes > load.activation_cache
    one.rows_read = inputs * load.activation_bytes if moved else 0.0
    one.rows_write = outputs * load.activation_bytes if moved else 0.0


@inner
def product(rows, weights, inputs, outputs, load, prefill, one):
    """Fill an operation that multiplies each of `rows` rows with `weights` elements of a matrix."""
    one.seconds = 2.0 * rows * weights / (load.weight_peak * load.compute_efficiency)
    one.weights = weights * load.weight_bytes
    move_rows(inputs, outputs, load, prefill, one)


@inner
def causal_pairs(tokens, most, chunk):
    """Pairs of a token and one that it attends to in a prompt: itself and those before it, `most` or of its chunk."""
    if chunk > 0.0:
        rest = tokens % chunk
        return (tokens - rest) * (chunk + 1.0) / 2.0 + rest * (rest + 1.0) / 2.0
    full = min(tokens, most)
    return full * (full + 1.0) / 2.0 + (tokens - full) * full


@inner
def layer_operations(model, kind, plan, load, experts, prefill, work, operations):
    """
    Fill the operations of one kind of layer in one phase; `work` is its row of `layers.layer_work`.

    With `prefill` false they are those of the first decode step, and the row takes up how they vary.
    """
    clear(operations)
    h = model.hidden_size
    b = sequences(plan, load)
    t = b * up(load.input_seq_len, plan.cp) if prefill else b
    if kind.mixer != NO_MIXER:
        mixer_operations(model, kind, plan, load, b, t, prefill, operations)
        if kind.scan > 0.0:
            scan_operation(kind, plan, load, b, t, prefill, operations[SCAN])
    attention_operations(kind, plan, load, b, prefill, work, operations)
    if kind.ffn:
        product(t, ffn_weights(model, kind, up(kind.ffn_width, plan.tp)), t * h, t * h, load, prefill, operations[FFN])
    if kind.moe:
        n, pairs, width = experts.tokens, experts.pairs, model.expert_hidden
        inputs, outputs = h, model.experts
        if width != h:
            # rows are projected into the width of the experts, and back
            inputs, outputs = h + width, model.experts + width + h
        product(n, kind.router_weights, n * inputs, n * outputs, load, prefill, operations[ROUTER])
        expert = expert_weights(model, kind, up(kind.expert_width, plan.moe_tp))
        product(pairs, expert, pairs * width, pairs * width, load, prefill, operations[EXPERT])
        operations[EXPERT].weights *= experts.active


@inner
def projected_rows(kind, plan):
    """Elements of a token that a mixer takes on a device, without those of an indexer."""
    kv = kv_heads_of_device(kind, plan) * (kind.key_size + kind.cached_value_size)
    return kind.sharded_rows / plan.tp + kind.replicated_rows + kv


@inner
def mixer_operations(model, kind, plan, load, b, t, prefill, operations):
    """Fill the projections into a mixer and out of it, and the rows that it takes and gives."""
    h = model.hidden_size
    projected, mixed = projected_rows(kind, plan), kind.out_width / plan.tp
    out_of = mixed * h
    product(
        t,
        mixer_weights(model, kind, plan, kv_heads_of_device(kind, plan)) - out_of,
        t * h,
        t * (projected + kind.index_rows),
        load,
        prefill,
        operations[QKV],
    )
    product(t, out_of, t * mixed, t * h, load, prefill, operations[OUT])
    core = operations[SCAN] if kind.scan > 0.0 else operations[ATTENTION]
    move_rows(t * projected, t * mixed, load, prefill, core)
    if kind.index_pair > 0.0:
        move_rows(t * kind.index_rows, 0.0, load, prefill, operations[INDEX])


@inner
def scan_operation(kind, plan, load, b, t, prefill, scan):
    """Fill the scan of a recurrent mixer, whose state is read and written once for some tokens."""
    scan.seconds = t * kind.scan / plan.tp / (load.row_peak * load.compute_efficiency)
    times = up(load.input_seq_len, STATE_TILE) if prefill else 1.0
    scan.cache_read = scan.cache_write = times * b * kind.state / plan.tp


@inner
def attention_operations(kind, plan, load, b, prefill, work, operations):
    """Fill attention and its indexer: pairs of tokens, and the cache; nothing where no token is attended to."""
    attention, index = operations[ATTENTION], operations[INDEX]
    peak = load.cache_peak * load.compute_efficiency
    if prefill:
        pairs = causal_pairs(load.input_seq_len, kind.attended, kind.chunk)
        attention.seconds = kind.prefill_pair / plan.tp / peak * b * pairs / plan.cp
        attention.cache_read, attention.cache_write = work.prefill_kv_read, work.prefill_kv_write
        if kind.index_pair > 0.0:
            index.seconds = kind.index_pair / peak * b * causal_pairs(load.input_seq_len, np.inf, 0.0)
            index.cache_read = up(load.input_seq_len, QUERY_TILE) * work.index_elements * load.input_seq_len
            index.cache_read *= load.kv_read_bytes
        return
    first, _ = attended_range(plan, load)
    work.per_mlen, work.mlen = kind.decode_pair / plan.tp / peak * b, 1.0
    work.per_blen = work.per_vlen = work.per_vlen_and_sink = 0.0
    work.per_index = kind.index_pair / peak * b
    tokens = decode.attended(work, first)
    attention.seconds = work.per_mlen * tokens
    attention.cache_read = work.kv_elements * tokens * work.kv_width
    attention.cache_write = work.decode_kv_write
    index.seconds = work.per_index * first
    index.cache_read = work.index_elements * first * work.kv_width


@inner
def embedding_operation(extras, happens, operations):
    """Fill the lookup of the embedding, `extras` a row of `layers.extras_work`."""
    clear(operations)
    if happens:
        operations[EMBED].rows_read = extras.embedding_bytes


@inner
def head_operation(model, plan, load, happens, prefill, operations):
    """Fill the LM head of one row of each sequence."""
    clear(operations)
    if happens:
        b = sequences(plan, load)
        vocabulary = up(model.vocab_size, plan.tp)
        weights = model.hidden_size * vocabulary
        product(b, weights, b * model.hidden_size, b * vocabulary, load, prefill, operations[LM_HEAD])


@inner
def round_operations(operations, wave):
    """Round each stream of each operation to waves of its own."""
    for number in range(len(OPERATIONS)):
        one = operations[number]
        one.read = round_up(one.weights, wave) + round_up(one.cache_read, wave) + round_up(one.rows_read, wave)
        one.write = round_up(one.cache_write, wave) + round_up(one.rows_write, wave)


@inner
def device_row(machine, load, out):
    """Fill a row of `rows.MACHINE`: a machine as operations find it, seconds of compute in place of cycles."""
    out.reason, out.buffering_limited = machine.reason, machine.buffering_limited
    out.serial, out.by_operation, out.comm_hidden = machine.serial, machine.by_operation, machine.comm_hidden
    out.peak_bandwidth, out.connectivity_efficiency = machine.peak_bandwidth, machine.connectivity_efficiency
    out.usable_bandwidth, out.clock_scale = machine.usable_bandwidth, machine.clock_scale
    out.capacity, out.wave = machine.capacity, machine.wave
    out.read_pj_per_bit, out.write_pj_per_bit = machine.read_pj_per_bit, machine.write_pj_per_bit
    out.seconds_per_cycle = 1.0 / machine.clock_scale
    out.seconds_per_byte = machine.seconds_per_byte / load.memory_efficiency


@inner
def overhead_of(operations, layer, load):
    """Seconds that an item takes besides its operations in one pass; `layer` is 1 for a layer."""
    count = 0.0
    for number in range(len(OPERATIONS)):
        if operations[number].seconds + operations[number].read + operations[number].write > 0.0:
            count += 1.0
    return count * load.operation_overhead + layer * load.layer_overhead


@inner
def operation_times(one, device):
    """Compute, memory and own seconds of an operation in one pass."""
    compute = one.seconds * device.seconds_per_cycle
    memory = (one.read + one.write) * device.seconds_per_byte
    return compute, memory, compute + memory if device.serial else max(compute, memory)


@inner
def base(operations, device, overhead, constant):
    """
    Compute work and bytes of the operations of an item together; `constant` leaves attention and its indexer out.

    Under "op-roofline" both stand for the same seconds: those of the operations, each the larger of its two. An
    overhead is added to both, so that it is added to the larger; or to one where their sum counts.
    """
    work = nbytes = seconds = 0.0
    for number in range(len(OPERATIONS)):
        if not constant or (number != ATTENTION and number != INDEX):
            one = operations[number]
            work += one.seconds
            nbytes += one.read + one.write
            seconds += max(one.seconds * device.seconds_per_cycle, (one.read + one.write) * device.seconds_per_byte)
    if device.by_operation:
        work, nbytes = seconds / device.seconds_per_cycle, seconds / device.seconds_per_byte
    work += overhead / device.seconds_per_cycle
    if not device.serial:
        nbytes += overhead / device.seconds_per_byte
    return work, nbytes


@inner
def item_row(operations, device, overhead, comm, item):
    """Fill a row of `rows.ITEM` that takes as long as the operations, an overhead and collectives."""
    item.cycles, item.read = base(operations, device, overhead, False)
    item.write = 0.0
    # the overhead comes after what hides behind collectives
    item.comm = comm + overhead if device.comm_hidden else comm


@inner
def step_rows(operations, plan, load, device, overhead, work, steps):
    """Fill the rows of `rows.WORK` and `rows.STEPS` that take as long as a layer in each decode step."""
    first, last = attended_range(plan, load)
    work.decode_base, others = base(operations, device, overhead, True)
    steps.fixed = others + operations[ATTENTION].write
    steps.slope, steps.low, steps.high = work.per_mlen, work.decode_base, work.decode_base
    if work.index_elements > 0.0:
        work.index_policy = INDEX_APART if device.by_operation else INDEX_JOINED
    steps.cycles, steps.kv_read = decode.all_sums(work, device.wave, first, last)
