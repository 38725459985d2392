"""
Work of the kinds of layer on one device: cycles, DRAM streams and footprints, before a memory is known.

The split over devices follows the multi-chip model published with PLENA (AICrossSim/PLENA_Simulator, pull request
122). In the code `heads`, `kv_heads`, `ffn`, `width` and `vocabulary` are the shares of one device, `s` its query
length, `b` its sequences, `t` the rows of activations that they make.
"""

import numpy as np

from stacksweep.kernels import cycles
from stacksweep.kernels._compile import inner
from stacksweep.kernels.cycles import up
from stacksweep.kernels.rows import ATTENTION_WITH_HEADS, NO_INDEX

ISSUE_FACTOR = 2.0
"""Cycles of a decode step count this often: instructions issue at half the rate of prefill."""


@inner
def sequences(plan, load):
    """Sequences that one device works on at a time."""
    return up(up(load.batch_size, plan.pp), plan.dp)


@inner
def kv_heads_of_device(kind, plan):
    """KV heads on one device: split over tp, or one, replicated; none where the kind has none."""
    return max(kind.kv_heads / plan.tp, min(kind.kv_heads, 1.0))


@inner
def mixer_weights(model, kind, plan, kv_heads):
    """Elements of a device of the projections into a mixer and out of it; `kv_heads` are those of the device."""
    kv = kv_heads * (kind.key_size + kind.cached_value_size)
    return kind.replicated_weights + kind.sharded_weights / plan.tp + model.hidden_size * kv


@inner
def ffn_weights(model, kind, width):
    """Elements of an FFN or a shared expert of which a device has so much of the width."""
    return kind.ffn_matrices * model.hidden_size * width


@inner
def expert_weights(model, kind, width):
    """Elements of a routed expert of which a device has so much of the width."""
    return kind.expert_matrices * model.expert_hidden * width


@inner
def attention_steps(kind, chip, b, heads, kv_heads):
    """
    Cycles of attention in a decode step, without the issue factor, for the heads of a device.

    Returns what does not depend on the attended tokens, then `per_blen`, `per_vlen`, `per_vlen_and_sink` and `per_mlen`
    of `rows.WORK`.
    """
    if kind.window == np.inf or kind.chunk > 0.0:
        per_mlen = cycles.flash_decode_tile(chip, heads, kv_heads, kind.value_size) * kv_heads * b
        return 0.0, 0.0, 0.0, 0.0, per_mlen
    depth = up(kind.value_size, chip.blen)
    base = b * heads * (4.0 + chip.h_prefetch_m) * (1.0 + depth)
    return base, b * heads * chip.m_mv, b * heads, b * cycles.softmax(chip), b * heads * depth * chip.m_mv


@inner
def attention_prefill(kind, chip, b, s, tokens, heads, kv_heads):
    """Cycles of attention of `s` query rows over the `tokens` of a prompt, for the heads of a device."""
    if kind.chunk > 0.0:
        return cycles.chunked_prefill(chip, heads, kv_heads, kind.value_size, s, kind.chunk, b)
    if kind.window < np.inf:
        return cycles.sliding_prefill(chip, heads, kind.value_size, s, kind.window, b)
    return cycles.flash_prefill(chip, heads, kv_heads, kind.value_size, s, tokens, b)


@inner
def layer_work(model, kind, chip, plan, load, prefill_experts, decode_experts, out):
    """Fill the row `out` of `rows.WORK` for one kind of layer; the cycles only if the chip has some for its mixer."""
    h = model.hidden_size
    b = sequences(plan, load)
    s = up(load.input_seq_len, plan.cp)
    t = s * b
    heads = kind.heads / plan.tp
    kv_heads = kv_heads_of_device(kind, plan)
    second_residual = model.moe_composition

    # all is worked out before anything is stored: for all that the compiler knows a store changes what is read, and
    # divisions are repeated; activations spill once in each norm, projection and residual of the prefill
    spill = cycles.spill(chip, h * t)
    prefill_cycles = base = per_blen = per_vlen = per_vlen_and_sink = per_mlen = projection = 0.0
    others = sites = 0.0
    if kind.mixer == ATTENTION_WITH_HEADS:
        keys, values = kind.kv_heads * kind.key_size, kind.kv_heads * kind.cached_value_size
        prefill_cycles = cycles.rms(chip, h, t) + cycles.residual(chip, h, t) + spill * (2.0 + 1.0 / plan.tp)
        prefill_cycles += cycles.projection(chip, h, kind.heads, kind.kv_heads, keys, values, kind.gate, t) / plan.tp
        prefill_cycles += attention_prefill(kind, chip, b, s, load.input_seq_len, heads, kv_heads)
        base, per_blen, per_vlen, per_vlen_and_sink, per_mlen = attention_steps(kind, chip, b, heads, kv_heads)
        others = cycles.rms(chip, h, b) + cycles.residual(chip, h, b)
        projection = cycles.projection(chip, h, kind.heads, kind.kv_heads, keys, values, kind.gate, b) / plan.tp
        sites = 3.0
    if kind.ffn or kind.moe:
        prefill_cycles += cycles.rms(chip, h, t) + spill + second_residual * (cycles.residual(chip, h, t) + spill)
        others += cycles.rms(chip, h, b) + second_residual * cycles.residual(chip, h, b)
        sites += 1.0 + second_residual
    base += others
    base += projection

    # weights: what a pass reads, and what the device holds
    weights = mixer_weights(model, kind, plan, kv_heads)
    prefill_active = decode_active = held_experts = 0.0
    if kind.ffn:
        ffn = up(kind.ffn_width, plan.tp)
        prefill_cycles += cycles.feed_forward(chip, h, ffn, kind.ffn_matrices, t)
        base += cycles.feed_forward(chip, h, ffn, kind.ffn_matrices, b)
        weights += ffn_weights(model, kind, ffn)
    if kind.moe:
        width = up(kind.expert_width, plan.moe_tp)
        prefill_cycles += cycles.moe_prefill(
            chip,
            h,
            width,
            kind.expert_matrices,
            model.experts,
            model.top_k,
            prefill_experts.tokens,
            prefill_experts.pairs,
            prefill_experts.blocks,
        )
        base += cycles.moe_decode(
            chip,
            h,
            width,
            kind.expert_matrices,
            model.experts,
            model.top_k,
            decode_experts.tokens,
            decode_experts.pairs,
        )
        expert = expert_weights(model, kind, width)
        weights += kind.router_weights
        prefill_active = prefill_experts.active * expert
        decode_active = decode_experts.active * expert
        held_experts = model.experts / plan.moe_ep * expert

    kv_elements = kv_heads * (kind.key_size + kind.cached_value_size) + kind.replicated_cache
    kept = b * (kv_elements + kind.index_cache)
    kv_elements *= b
    rereads = up(s, chip.mlen)
    held = min(up(load.input_seq_len + load.output_seq_len, plan.cp), kind.window)
    prefill_spill = sites * max(0.0, h * t - chip.sram) * load.activation_bytes

    out.prefill_cycles = prefill_cycles
    out.decode_base = base * ISSUE_FACTOR
    out.per_blen = per_blen * ISSUE_FACTOR
    out.per_vlen = per_vlen * ISSUE_FACTOR
    out.per_vlen_and_sink = per_vlen_and_sink * ISSUE_FACTOR
    out.per_mlen = per_mlen * ISSUE_FACTOR
    out.blen, out.vlen, out.mlen = chip.blen, chip.vlen, chip.mlen
    out.prefill_weights = (weights + prefill_active) * load.weight_bytes
    out.decode_weights = (weights + decode_active) * load.weight_bytes
    out.held_weights = (weights + held_experts) * load.weight_bytes
    out.kv_cap = kind.attended
    out.chunk = kind.chunk
    out.kv_elements = kv_elements
    out.kv_width = load.kv_read_bytes
    out.prefill_kv_read = rereads * kv_elements * min(load.input_seq_len, kind.attended) * load.kv_read_bytes
    out.prefill_kv_write = kept * s * load.kv_write_bytes
    out.decode_kv_write = kept * (1.0 / plan.cp) * load.kv_write_bytes
    out.held_kv = kept * held * load.kv_write_bytes
    if kind.state > 0.0:
        out.held_kv += b * kind.state / plan.tp
    out.prefill_spill = prefill_spill
    out.per_index, out.index_elements, out.index_policy = 0.0, b * kind.index_cache, NO_INDEX


@inner
def extras_work(model, chip, plan, load, out):
    """Fill the row `out` of `rows.EXTRAS`: embedding in prefill, LM head per pass."""
    h = model.hidden_size
    b = sequences(plan, load)
    t = up(load.input_seq_len, plan.cp) * b
    vocabulary = up(model.vocab_size, plan.tp)
    out.embedding_cycles = cycles.embedding(chip, h, t)
    out.embedding_bytes = t * h * load.activation_bytes
    out.head_cycles = cycles.lm_head(chip, h, vocabulary, b)
    out.head_bytes = vocabulary * h * load.weight_bytes
