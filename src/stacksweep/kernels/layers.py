"""
Work of the kinds of layer on one device: cycles, DRAM streams and footprints, before a memory is known.

The split over devices follows the multi-chip model published with PLENA (AICrossSim/PLENA_Simulator, pull request
122). In the code `heads`, `kv_heads`, `ffn`, `width` and `vocabulary` are the shares of one device, `s` its query
length, `b` its sequences, `t` the rows of activations that they make.
"""

import numpy as np

from stacksweep.kernels import cycles
from stacksweep.kernels._compile import kernel
from stacksweep.kernels.cycles import up

ISSUE_FACTOR = 2.0
"""Cycles of a decode step count this often: instructions issue at half the rate of prefill."""


@kernel
def sequences(plan, load):
    """Sequences that one device works on at a time."""
    return up(up(load.batch_size, plan.pp), plan.dp)


@kernel
def kv_heads_of_device(model, plan):
    """KV heads on one device: split over tp, or one, replicated."""
    return max(model.kv_heads / plan.tp, 1.0)


@kernel
def attention_steps(model, chip, plan, load, sliding):
    """
    Cycles of attention in a decode step, without the issue factor.

    Returns what does not depend on the attended tokens, then `per_blen`, `per_vlen`, `per_vlen_and_sink` and `per_mlen`
    of `rows.WORK`.
    """
    b = sequences(plan, load)
    heads = model.heads / plan.tp
    if not sliding:
        kv_heads = kv_heads_of_device(model, plan)
        per_mlen = cycles.flash_decode_tile(chip, heads, kv_heads, model.head_dim) * kv_heads * b
        return 0.0, 0.0, 0.0, 0.0, per_mlen
    depth = up(model.head_dim, chip.blen)
    base = b * heads * (4.0 + chip.h_prefetch_m) * (1.0 + depth)
    return base, b * heads * chip.m_mv, b * heads, b * cycles.softmax(chip), b * heads * depth * chip.m_mv


@kernel
def layer_work(model, chip, plan, load, sliding, moe, prefill_experts, decode_experts, out):
    """Fill the row `out` of `rows.WORK` for one kind of layer."""
    h, d = model.hidden_size, model.head_dim
    b = sequences(plan, load)
    s = up(load.input_seq_len, plan.cp)
    t = s * b
    heads = model.heads / plan.tp
    kv_heads = kv_heads_of_device(model, plan)
    ffn = up(model.intermediate_size, plan.tp)
    width = up(model.expert_width, plan.moe_tp)

    # all is worked out before anything is stored: for all that the compiler knows a store changes what is read, and
    # divisions are repeated; activations spill once in each norm, projection and residual of the prefill
    second_residual = model.moe_composition
    spill = cycles.spill(chip, h * t)
    attention_spill = spill * (2.0 + 1.0 / plan.tp)
    shared = cycles.rms(chip, h, t) + cycles.residual(chip, h, t)
    projection = cycles.projection(chip, h, model.heads, model.kv_heads, d, t) / plan.tp
    mlp = cycles.rms(chip, h, t) + spill + second_residual * (cycles.residual(chip, h, t) + spill)
    if sliding:
        attention = cycles.sliding_prefill(chip, heads, d, s, model.window, b)
    else:
        attention = cycles.flash_prefill(chip, heads, kv_heads, d, s, load.input_seq_len, b)
    prefill_cycles = shared + attention_spill + projection + attention + mlp

    base, per_blen, per_vlen, per_vlen_and_sink, per_mlen = attention_steps(model, chip, plan, load, sliding)
    base += 2.0 * cycles.rms(chip, h, b) + (1.0 + second_residual) * cycles.residual(chip, h, b)
    base += cycles.projection(chip, h, model.heads, model.kv_heads, d, b) / plan.tp

    # weights: what a pass reads, and what the device holds
    attention_weights = 2.0 * h * heads * d + 2.0 * h * kv_heads * d
    if moe:
        expert = 3.0 * h * width
        router = h * model.experts
        prefill_cycles += cycles.moe_prefill(
            chip,
            h,
            width,
            model.experts,
            model.top_k,
            prefill_experts.tokens,
            prefill_experts.pairs,
            prefill_experts.blocks,
        )
        base += cycles.moe_decode(
            chip, h, width, model.experts, model.top_k, decode_experts.tokens, decode_experts.pairs
        )
        prefill_mlp = router + prefill_experts.active * expert
        decode_mlp = router + decode_experts.active * expert
        held_mlp = router + model.experts / plan.moe_ep * expert
    else:
        prefill_cycles += cycles.feed_forward(chip, h, ffn, t)
        base += cycles.feed_forward(chip, h, ffn, b)
        prefill_mlp = decode_mlp = held_mlp = 3.0 * h * ffn

    kv_cap = model.window if sliding else np.inf
    kv_elements = 2.0 * b * kv_heads * d
    rereads = up(s, chip.mlen)
    held = min(up(load.input_seq_len + load.output_seq_len, plan.cp), kv_cap)
    sites = 4.0 + second_residual
    prefill_spill = sites * max(0.0, h * t - chip.sram) * load.activation_bytes

    out.prefill_cycles = prefill_cycles
    out.decode_base = base * ISSUE_FACTOR
    out.per_blen = per_blen * ISSUE_FACTOR
    out.per_vlen = per_vlen * ISSUE_FACTOR
    out.per_vlen_and_sink = per_vlen_and_sink * ISSUE_FACTOR
    out.per_mlen = per_mlen * ISSUE_FACTOR
    out.blen, out.vlen, out.mlen = chip.blen, chip.vlen, chip.mlen
    out.prefill_weights = (attention_weights + prefill_mlp) * load.weight_bytes
    out.decode_weights = (attention_weights + decode_mlp) * load.weight_bytes
    out.held_weights = (attention_weights + held_mlp) * load.weight_bytes
    out.kv_cap = kv_cap
    out.kv_elements = kv_elements
    out.kv_width = load.kv_read_bytes
    out.prefill_kv_read = rereads * kv_elements * min(load.input_seq_len, kv_cap) * load.kv_read_bytes
    out.prefill_kv_write = kv_elements * s * load.kv_write_bytes
    out.decode_kv_write = kv_elements * (1.0 / plan.cp) * load.kv_write_bytes
    out.held_kv = kv_elements * held * load.kv_write_bytes
    out.prefill_spill = prefill_spill


@kernel
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
