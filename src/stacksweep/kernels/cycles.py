"""
Cycles of the parts of a decoder layer on one PLENA chip.

The formulas are those of PLENA's published performance model (AICrossSim/PLENA_Simulator,
`analytic_models/performance`), whose simplifications are kept: the output projection has no cycles, K and V
projections reduce over `kv_heads * head_dim`, and norms and residuals of less than one vector are free.

Sizes are whole numbers in float64, in which quotients of whole numbers below 2^53 round up and down exactly.
Functions take a chip row `c` first; `t` is rows of activations (sequences times query length), `b` sequences.
"""

import numpy as np

from stacksweep.kernels._compile import kernel


@kernel
def up(a, b):
    """Quotient rounded up."""
    return np.ceil(a / b)


@kernel
def down(a, b):
    """Quotient rounded down."""
    return np.floor(a / b)


@kernel
def spill(c, elements):
    """Cycles to move activations that the vector memory cannot hold out of it and back."""
    if elements <= c.sram:
        return 0.0
    return down(elements - c.sram, c.vlen * c.prefetch) * c.h_prefetch_v * 2.0


@kernel
def rms(c, h, t):
    """Cycles of an RMS norm of `t` rows, without spill."""
    return 10.0 * c.s_basic + down(h, c.vlen) * 8.0 * t * c.v_basic


@kernel
def residual(c, h, t):
    """Cycles to add a residual stream of `t` rows, without spill."""
    return (c.v_add_vv + 3.0) * t * down(h, c.vlen)


@kernel
def cached_projection(c, width, rows, t):
    """Cycles of the projection of `t` rows to keys or to values of all KV heads, and of storing them."""
    product = rows * up(width, c.mlen) * up(width, c.blen) * c.m_mm
    return product + down(t * width, c.vlen * c.prefetch) * c.h_store_v


@kernel
def projection(c, h, heads, kv_heads, keys, values, gate, t):
    """
    Cycles of the Q, K and V projections of `t` rows with all heads, without spill.

    `keys` and `values` are elements that all KV heads cache of a token. An output gate (`gate` is 1) is projected like
    the queries.
    """
    rows = up(t, c.blen)
    vectors = up(t, c.vlen) * c.v_basic
    queries = rows * up(h, c.mlen) * up(h, c.blen) * c.m_mm + heads * vectors
    cached = cached_projection(c, keys, rows, t)
    # divisions are dear: keys and values are nearly always alike
    cached += cached if values == keys else cached_projection(c, values, rows, t)
    return queries + gate * queries + kv_heads * vectors + cached


@kernel
def flash_prefill(c, heads, kv_heads, d, s, kv, b):
    """Cycles of full attention of `s` query rows over `kv` tokens in each of `b` sequences, with values of size `d`."""
    group = down(heads, kv_heads)
    packs = up(group, down(c.mlen, c.hlen))
    columns = min(c.mlen, kv)
    scores = up(min(s, c.mlen), c.blen) * up(columns, c.blen) * c.blen
    tile = (
        (4.0 + scores + c.h_prefetch_m) * packs
        + columns * (4.0 * c.v_basic + 2.0 * c.s_basic + c.s_exp_fp) * group
        + 4.0
        + up(d, c.blen) * up(columns, c.blen) * c.m_mm * group
        + columns * (c.v_basic + 4.0 + c.s_reci_fp) * group
    )
    return up(s, c.mlen) * up(kv, c.mlen) * kv_heads * b * tile


@kernel
def chunked_prefill(c, heads, kv_heads, d, s, chunk, b):
    """Cycles of attention of `s` query rows in chunks, each with full attention of its own."""
    whole = down(s, chunk)
    rest = s - whole * chunk
    total = 0.0
    if whole > 0.0:
        total += whole * flash_prefill(c, heads, kv_heads, d, chunk, chunk, b)
    if rest > 0.0:
        total += flash_prefill(c, heads, kv_heads, d, rest, rest, b)
    return total


@kernel
def flash_decode_tile(c, heads, kv_heads, d):
    """Cycles of full attention of one query row over one tile of MLEN tokens, for one KV head of one sequence."""
    group = down(heads, kv_heads)
    packs = up(group, down(c.mlen, c.hlen))
    return (
        (c.m_btmv + c.h_prefetch_m) * packs
        + (4.0 * c.v_basic + 2.0 * c.s_basic + c.s_exp_fp) * group
        + up(d, c.blen) * c.m_mv * group
        + (2.0 * c.v_basic + 1.0) * group
    )


@kernel
def softmax(c):
    """Cycles of one vector of a softmax: exponential, running maximum, scale."""
    return c.v_exp_v + c.v_red_max + c.v_basic


@kernel
def sliding_prefill(c, heads, d, s, window, b):
    """Cycles of attention of `s` query rows over a sliding window with one sink token."""
    e = min(s, window)
    return b * (
        (4.0 + c.m_mm * up(s, c.blen) * up(e, c.blen) + c.h_prefetch_m) * heads
        + heads * s * up(e, c.vlen)
        + s * up(e + 1.0, c.vlen) * softmax(c)
        + (4.0 + c.m_mm * up(e, c.mlen) + c.h_prefetch_m) * up(s, c.blen) * up(d, c.blen) * heads
    )


@kernel
def feed_forward(c, h, width, matrices, t):
    """Cycles of a feed-forward network of `t` rows; with two matrices it has no gate."""
    rows = up(t, c.blen)
    return (
        (matrices - 1.0) * rows * up(h, c.mlen) * up(width, c.blen) * c.m_mm
        + up(width, c.vlen) * 6.0 * c.v_basic * t
        + rows * up(width, c.mlen) * up(h, c.blen) * c.m_mm
    )


@kernel
def moe_common(c, h, width, experts, top_k, tokens, pairs):
    """Cycles of routed experts that prefill and decode share: norms, choice, activation, weighted sum."""
    return (
        tokens * up(h, c.vlen) * c.v_basic * 4.0
        + tokens * (4.0 + up(experts, c.vlen) * c.v_topk)
        + tokens * up(top_k, c.vlen) * softmax(c)
        + pairs * up(width, c.vlen) * 6.0 * c.v_basic
        + tokens * top_k * up(h, c.vlen) * (c.v_mul_vv + c.v_add_vv)
    )


@kernel
def moe_prefill(c, h, width, matrices, experts, top_k, tokens, pairs, blocks):
    """Cycles of routed experts in prefill; `blocks` is the sum of ceil(tokens of an expert / BLEN)."""
    gate = 4.0 + up(h, c.mlen) * c.m_mm + c.h_prefetch_m
    out = 4.0 + up(width, c.mlen) * c.m_mm + c.h_prefetch_m
    return (
        moe_common(c, h, width, experts, top_k, tokens, pairs)
        + gate * up(tokens, c.blen) * up(experts, c.blen)
        + blocks * (gate * up((matrices - 1.0) * width, c.blen) + out * up(h, c.blen))
    )


@kernel
def moe_decode(c, h, width, matrices, experts, top_k, tokens, pairs):
    """Cycles of routed experts in a decode step, one token-expert pair after the other."""
    gate = 4.0 + up(h, c.mlen) * c.m_mv + c.h_prefetch_m
    out = 4.0 + up(width, c.mlen) * c.m_mv + c.h_prefetch_m
    return (
        moe_common(c, h, width, experts, top_k, tokens, pairs)
        + tokens * gate * up(experts, c.blen)
        + pairs * (gate * up((matrices - 1.0) * width, c.blen) + out * up(h, c.blen))
    )


@kernel
def embedding(c, h, t):
    """Cycles to look up the embeddings of `t` tokens."""
    return 3.0 * c.s_basic + t * up(h, c.vlen) * c.h_prefetch_v


@kernel
def lm_head(c, h, vocabulary, b):
    """Cycles of the output layer for the last token of each of `b` sequences."""
    return 3.0 * c.s_basic + up(b, c.blen) * up(h, c.mlen) * up(vocabulary, c.blen) * c.m_mm
