"""Cycles of one chip: instructions, and the parts of a transformer layer.

Argument names: h hidden size, heads and kv_heads, d head dim, s query length, kv KV length, b sequences,
i FFN width, w sliding window, t = s*b tokens.
"""

from dataclasses import dataclass


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(frozen=True)
class Chip:
    """Sizes of the chip and its pipelined instruction cycles."""

    mlen: int
    blen: int
    vlen: int
    hlen: int
    sram: int
    prefetch: int
    m_mm: int
    m_mv: int
    m_btmv: int
    v_basic: int
    v_add_vv: int
    v_mul_vv: int
    v_exp_v: int
    v_red_max: int
    v_topk: int
    s_basic: int
    s_exp_fp: int
    s_reci_fp: int
    h_prefetch_m: int = 1
    h_prefetch_v: int = 1
    h_store_v: int = 1


def chip_of(flat: dict[str, int]) -> Chip:
    """A chip from the flat names of its profile."""
    blen = flat["BLEN"]
    return Chip(
        mlen=flat["MLEN"],
        blen=blen,
        vlen=flat["VLEN"],
        hlen=flat["HLEN"],
        sram=flat["VECTOR_SRAM_SIZE"] * flat["VLEN"],
        prefetch=flat["HBM_V_Prefetch_Amount"],
        m_mm=blen,
        m_mv=1 + blen,
        m_btmv=1 + blen,
        v_basic=flat["VECTOR_BASIC_CYCLES"],
        v_add_vv=flat["VECTOR_ADD_CYCLES"],
        v_mul_vv=flat["VECTOR_MUL_CYCLES"],
        v_exp_v=1 + flat["VECTOR_EXP_CYCLES"],
        v_red_max=1 + flat["VECTOR_MAX_CYCLES"],
        v_topk=1 + flat["VECTOR_MAX_CYCLES"],
        s_basic=flat["SCALAR_FP_BASIC_CYCLES"],
        s_exp_fp=flat["SCALAR_FP_EXP_CYCLES"],
        s_reci_fp=flat["SCALAR_FP_RECI_CYCLES"],
    )


def spill(c: Chip, h: int, s: int, b: int) -> int:
    excess = h * s * b - c.sram
    return excess // (c.vlen * c.prefetch) * c.h_prefetch_v * 2 if excess > 0 else 0


def rms(c: Chip, phase: str, h: int, s: int, b: int) -> int:
    vectors = h // c.vlen
    if phase == "prefill":
        return 10 * c.s_basic + vectors * 8 * s * b * c.v_basic + spill(c, h, s, b)
    return 10 * c.s_basic + vectors * 8 * b * c.v_basic


def projection(
    c: Chip, phase: str, h: int, heads: int, kv_heads: int, d: int, dv: int, gate: bool, s: int, b: int
) -> int:
    """Cycles of Q, K and V with their rotary embedding, and of a gate; s is 1 in decode, dv 0 if values are keys."""
    t = s * b if phase == "prefill" else b
    rows = ceil_div(t, c.blen)
    cycles = 0
    for _ in range(2 if gate else 1):
        cycles += rows * ceil_div(h, c.mlen) * ceil_div(h, c.blen) * c.m_mm
        cycles += heads * ceil_div(t, c.vlen) * c.v_basic
    for width in (kv_heads * d, kv_heads * dv):
        cycles += rows * ceil_div(width, c.mlen) * ceil_div(width, c.blen) * c.m_mm
        cycles += (b * s * width // (c.vlen * c.prefetch)) * c.h_store_v
    cycles += kv_heads * ceil_div(t, c.vlen) * c.v_basic
    if phase == "prefill":
        cycles += spill(c, h, s, b)
    return cycles


def flash_attention(c: Chip, phase: str, heads: int, kv_heads: int, d: int, s: int, kv: int, b: int) -> int:
    group = heads // kv_heads
    per_tile = ceil_div(group, c.mlen // c.hlen)
    tiles = ceil_div(s, c.mlen) * ceil_div(kv, c.mlen) * kv_heads * b
    if phase == "prefill":
        m = min(c.mlen, kv)
        btmm = ceil_div(min(s, c.mlen), c.blen) * ceil_div(m, c.blen) * c.blen
        scores = (4 + btmm + c.h_prefetch_m) * per_tile
        softmax = m * (4 * c.v_basic + 2 * c.s_basic + c.s_exp_fp) * group
        values = 4 + ceil_div(d, c.blen) * ceil_div(m, c.blen) * c.m_mm * group
        output = m * (c.v_basic + 4 + c.s_reci_fp) * group
    else:
        scores = (c.m_btmv + c.h_prefetch_m) * per_tile
        softmax = (4 * c.v_basic + 2 * c.s_basic + c.s_exp_fp) * group
        values = ceil_div(d, c.blen) * c.m_mv * group
        output = (2 * c.v_basic + 1) * group
    return tiles * (scores + softmax + values + output)


def chunked_attention(
    c: Chip, phase: str, heads: int, kv_heads: int, d: int, s: int, kv: int, b: int, chunk: int
) -> int:
    """Full attention inside each chunk."""
    if phase == "decode":
        return flash_attention(c, phase, heads, kv_heads, d, s, (kv - 1) % chunk + 1, b)
    chunks = [min(chunk, s - start) for start in range(0, s, chunk)]
    return sum(flash_attention(c, phase, heads, kv_heads, d, own, own, b) for own in chunks)


def sliding_window_attention(c: Chip, phase: str, heads: int, d: int, s: int, kv: int, b: int, w: int) -> int:
    softmax_step = c.v_exp_v + c.v_red_max + c.v_basic
    if phase == "prefill":
        e = min(s, w)
        scores = (4 + c.m_mm * ceil_div(s, c.blen) * ceil_div(e, c.blen) + c.h_prefetch_m) * heads
        scale = heads * s * ceil_div(e, c.vlen)
        softmax = s * ceil_div(e + 1, c.vlen) * softmax_step
        values = (4 + c.m_mm * ceil_div(e, c.mlen) + c.h_prefetch_m) * ceil_div(s, c.blen) * ceil_div(d, c.blen) * heads
    else:
        e = min(kv, w)
        scores = (4 + c.m_mv * ceil_div(e, c.blen) + c.h_prefetch_m) * heads
        scale = heads * ceil_div(e, c.vlen)
        softmax = ceil_div(e + 1, c.vlen) * softmax_step
        values = (4 + c.m_mv * ceil_div(e, c.mlen) + c.h_prefetch_m) * ceil_div(d, c.blen) * heads
    return b * (scores + scale + softmax + values)


def residual(c: Chip, phase: str, h: int, s: int, b: int) -> int:
    per_token = (c.v_add_vv + 3) * (h // c.vlen)
    if phase == "prefill":
        return per_token * s * b + spill(c, h, s, b)
    return per_token * b


def feed_forward(c: Chip, phase: str, h: int, i: int, s: int, b: int, matrices: int = 3) -> int:
    t = s * b if phase == "prefill" else b
    rows = ceil_div(t, c.blen)
    up_and_gate = (matrices - 1) * rows * ceil_div(h, c.mlen) * ceil_div(i, c.blen) * c.m_mm
    activation = ceil_div(i, c.vlen) * 6 * c.v_basic * t
    down = rows * ceil_div(i, c.mlen) * ceil_div(h, c.blen) * c.m_mm
    return up_and_gate + activation + down


def embedding(c: Chip, h: int, s: int, b: int) -> int:
    return 3 * c.s_basic + s * b * ceil_div(h, c.vlen) * c.h_prefetch_v


def lm_head(c: Chip, h: int, vocabulary: int, b: int) -> int:
    return 3 * c.s_basic + ceil_div(b, c.blen) * ceil_div(h, c.mlen) * ceil_div(vocabulary, c.blen) * c.m_mm


def moe(
    c: Chip, phase: str, h: int, i: int, experts: int, k: int, tokens: int, pairs: int, counts: tuple[int, ...],
    matrices: int = 3,
) -> int:  # fmt: skip
    """Cycles of router and experts; ``counts`` are the tokens of each expert of the rank."""
    n = tokens
    cycles = n * ceil_div(h, c.vlen) * c.v_basic * 4
    cycles += n * (4 + ceil_div(experts, c.vlen) * c.v_topk)
    cycles += n * ceil_div(k, c.vlen) * (c.v_exp_v + c.v_red_max + c.v_basic)
    cycles += pairs * ceil_div(i, c.vlen) * 6 * c.v_basic
    cycles += n * k * ceil_div(h, c.vlen) * (c.v_mul_vv + c.v_add_vv)

    product = c.m_mm if phase == "prefill" else c.m_mv
    from_hidden = 4 + ceil_div(h, c.mlen) * product + c.h_prefetch_m
    from_expert = 4 + ceil_div(i, c.mlen) * product + c.h_prefetch_m
    if phase == "prefill":
        cycles += from_hidden * ceil_div(n, c.blen) * ceil_div(experts, c.blen)
        for count in counts:
            if count > 0:
                cycles += from_hidden * ceil_div(count, c.blen) * ceil_div((matrices - 1) * i, c.blen)
                cycles += from_expert * ceil_div(count, c.blen) * ceil_div(h, c.blen)
    else:
        cycles += n * from_hidden * ceil_div(experts, c.blen)
        cycles += pairs * from_hidden * ceil_div((matrices - 1) * i, c.blen)
        cycles += pairs * from_expert * ceil_div(h, c.blen)
    return cycles
