"""
The rows that kernels read and write: numpy record types, and the numbering of the results.

A design point is a *load row* (what there is to do: a plan, the load, storage widths, rates of the network) joined
with a *machine row* (what a device does it with: memory, clock, overlap policies). A load row names its plan by row
number, a plan its model and chip.
"""

import numpy as np

MODEL_FIELDS = (
    "hidden_size",
    "heads",
    "least_kv_heads",
    "head_dim",
    "layers",
    "vocab_size",
    "experts",
    "top_k",
    "expert_hidden",
    "tied",
    "moe_composition",
)
"""
One model: sizes as whole numbers in float64; `experts` and `top_k` are 0 where there are none.

`heads` and `head_dim` are those of the first attention with KV heads, `least_kv_heads` the fewest of any, infinite
without; `expert_hidden` is the width of the rows that routed experts take.
"""

KIND_FIELDS = (
    "heads",
    "kv_heads",
    "key_size",
    "value_size",
    "cached_value_size",
    "gate",
    "window",
    "chunk",
    "attended",
    "replicated_cache",
    "state",
    "replicated_weights",
    "sharded_weights",
    "out_width",
    "replicated_rows",
    "sharded_rows",
    "prefill_pair",
    "decode_pair",
    "scan",
    "index_pair",
    "index_cache",
    "index_rows",
    "ffn_width",
    "ffn_matrices",
    "expert_width",
    "expert_matrices",
    "router_weights",
)
"""
One kind of layer of a model: sizes before sharding, see `kinds.kind_row`.

`window` is the tokens that the cache keeps at most, `attended` those that a token attends to at most, both 0 without
attention and infinite without a limit; `chunk` is 0 where the reach is no chunk. Weights of the projections, cache and
rows of activations have a part that every tensor-parallel rank has whole and a sharded one; those of KV heads, which
may be replicated, follow from their sizes. `…_pair` is FLOP of a query and a token, of all heads; `scan` FLOP of a
token; `state` bytes of a sequence.
"""

INSTRUCTIONS = (
    "m_mm",
    "m_mv",
    "m_btmv",
    "v_basic",
    "v_add_vv",
    "v_mul_vv",
    "v_exp_v",
    "v_red_max",
    "v_topk",
    "s_basic",
    "s_exp_fp",
    "s_reci_fp",
    "h_prefetch_m",
    "h_prefetch_v",
    "h_store_v",
)
"""Pipelined cycles of an instruction, in the spelling of a chip row."""

STORAGE_FIELDS = ("weight_bytes", "kv_read_bytes", "kv_write_bytes", "activation_bytes")
"""Bytes per stored element."""

LOAD_FIELDS = ("batch_size", "input_seq_len", "output_seq_len", "include_lm_head", *STORAGE_FIELDS)

SIZE_FIELDS = ("tp", "dp", "pp", "cp", "moe_tp", "moe_ep", "moe_dp")
"""Sizes of a plan: of the dense scheme (its dp is dp * ep), and tp, ep, dp of the MoE scheme."""

NETWORK_FIELDS = (
    "tp_all_reduce",
    "cp_all_reduce",
    "cp_all_gather",
    "ep_all_to_all",
    "moe_tp_all_reduce",
    "transfer",
)
"""Rows of the network's tables that a plan uses."""

RATE_FIELDS = tuple(
    f"l{level}_{rate}" for rate in ("latency", "bandwidth", "center_capacity", "pj_per_bit") for level in (1, 2, 3)
)
"""Rates of a network in the order of `deepstack_noc.cost.RATES`: s, byte/s, byte/s, pJ/bit."""

ROOFLINE_FIELDS = (
    "weight_peak",
    "cache_peak",
    "row_peak",
    "compute_efficiency",
    "memory_efficiency",
    "operation_overhead",
    "layer_overhead",
    "pass_overhead",
    "activation_cache",
)
"""
Of a roofline chip: FLOP/s of operations on weights, on the KV cache and on activations alone, shares, seconds, bytes;
NaN of others.
"""

QUERY_TILE = 128
"""Rows of queries for which a roofline chip reads the KV cache once in prefill."""

STATE_TILE = 64
"""Tokens for which a state is read and written once in prefill."""

MEMORY_FIELDS = (
    "layers",
    "connected_layers",
    "channels_per_connected_layer",
    "capacity_per_layer_bytes",
    "transaction_bytes",
    "bytes_per_channel_transfer",
    "transfers_per_memory_clock",
    "memory_frequency_hz",
    "direct_peak_bandwidth_per_connected_layer_bytes_per_s",
    "fully_connected_efficiency",
    "row_bytes",
    "sector_bytes",
    "sector_cycles",
    "recharge_cycles",
    "round_trip_latency_cycles",
    "latency_clock_hz",
    "requesters",
    "buffer_bytes_per_requester",
    "buffering_factor",
    "buffer_round_trip_latency_cycles",
    "buffer_round_trip_latency_clock_hz",
    "resistance_base_c_per_w",
    "resistance_per_layer_c_per_w",
    "baseline_layers",
    "design_power_w",
    "static_power_w",
    "dynamic_power_exponent",
    "read_pj_per_bit",
    "write_pj_per_bit",
    "bandwidth_bytes_per_s",
    "capacity_bytes",
)
"""Numbers of a memory profile, NaN where the profile does not have them."""


def _floats(*names: str) -> list[tuple[str, str]]:
    return [(name, "f8") for name in names]


MODEL = np.dtype([*_floats(*MODEL_FIELDS), ("first_kind", "i8")])
NO_MIXER, ATTENTION_WITH_HEADS, OTHER_MIXER = range(3)
"""What mixes tokens in a kind of layer: nothing, attention with KV heads, or what only roofline chips price."""

KIND = np.dtype([*_floats(*KIND_FIELDS), ("mixer", "i8"), ("ffn", "?"), ("moe", "?")])
CHIP = np.dtype([*_floats("mlen", "blen", "vlen", "hlen", "sram", "prefetch", *INSTRUCTIONS), ("roofline", "?")])
PLAN = np.dtype(
    [
        *(
            (name, "i8")
            for name in ("model", "chip", "reason", "stages_start", "stages_stop", "routing_group", "dispatch_group")
        ),
        ("routed", "?"),
        *((name, "i8") for name in NETWORK_FIELDS),
        *_floats(*SIZE_FIELDS, "recorded_prefill", "recorded_decode"),
    ]
)
"""
A model on a chip under a plan. Of the pipeline's stages the whole comes first; `recorded_…` is the tokens of a routing
trace, infinite without one.
"""

LOAD = np.dtype([("plan", "i8"), *_floats(*LOAD_FIELDS, *RATE_FIELDS, *ROOFLINE_FIELDS)])
MACHINE_INPUT = np.dtype(
    [
        ("stacked", "?"),
        ("wave_quantization", "?"),
        ("serial", "?"),
        ("by_operation", "?"),
        ("comm_hidden", "?"),
        *_floats("frequency_hz", *MEMORY_FIELDS),
    ]
)
MACHINE = np.dtype(
    [
        ("reason", "i8"),
        ("buffering_limited", "?"),
        ("serial", "?"),
        ("by_operation", "?"),
        ("comm_hidden", "?"),
        *_floats(
            "peak_bandwidth",
            "connectivity_efficiency",
            "usable_bandwidth",
            "clock_scale",
            "capacity",
            "wave",
            "seconds_per_cycle",
            "seconds_per_byte",
            "read_pj_per_bit",
            "write_pj_per_bit",
        ),
    ]
)

EMBEDDING, HEAD, FIRST_KIND = range(3)
"""What a pipeline stage is made of: the embedding, the LM head, then from here on each kind of layer of its model."""

WORK = np.dtype(
    _floats(
        "prefill_cycles",
        "prefill_weights",
        "prefill_kv_read",
        "prefill_kv_write",
        "prefill_spill",
        "decode_base",
        "per_blen",
        "per_vlen",
        "per_vlen_and_sink",
        "per_mlen",
        "blen",
        "vlen",
        "mlen",
        "decode_weights",
        "decode_kv_write",
        "kv_elements",
        "kv_width",
        "kv_cap",
        "chunk",
        "per_index",
        "index_elements",
        "index_policy",
        "held_weights",
        "held_kv",
    )
)
"""
Work of one layer of a kind on one device: cycles, and bytes before rounding to waves; see `layers.layer_work`.

A decode step that attends to x tokens takes `decode_base` cycles, and `per_blen` for every BLEN tokens begun,
`per_vlen` for every VLEN tokens begun, `per_vlen_and_sink` for every VLEN of x + 1 begun, `per_mlen` for every MLEN.
Of x tokens at most `kv_cap` count; with a `chunk`, those of the last chunk begun. An indexer looks at all x tokens,
each for `per_index` cycles and `index_elements` read; `index_policy` says what these join (`NO_INDEX` …).
"""

NO_INDEX, INDEX_JOINED, INDEX_APART = range(3)
"""No indexer; its time joins that of the layer; or it hides its own memory time and comes on top."""

EXTRAS = np.dtype(_floats("embedding_cycles", "embedding_bytes", "head_cycles", "head_bytes"))
"""Work of the embedding and the LM head on one device; the bytes of the head are those of the embedding table."""

EXPERTS = np.dtype(_floats("tokens", "pairs", "active", "blocks", "imbalance"))
"""Load of the busiest expert-parallel rank in one phase; see `experts.expert_load`."""

ITEM = np.dtype(_floats("cycles", "read", "write", "comm"))
"""Cycles, bytes after rounding, and seconds of collectives of an item in one pass."""

STEPS = np.dtype(_floats("fixed", "cycles", "kv_read", "slope", "low", "high"))
"""
All decode steps of a kind of layer: bytes of a step that do not depend on the attended tokens x, cycles and KV bytes of
all steps, and the lines `low + slope * x` and `high + slope * x` that enclose the cycles of a step.
"""

OPERATIONS = ("embedding", "qkv", "index", "attention", "scan", "out", "ffn", "router", "experts", "lm_head")
"""Operations of a roofline chip, in the order of their results."""

EMBED, QKV, INDEX, ATTENTION, SCAN, OUT, FFN, ROUTER, EXPERT, LM_HEAD = range(len(OPERATIONS))

OPERATION = np.dtype(
    _floats("seconds", "weights", "cache_read", "cache_write", "rows_read", "rows_write", "read", "write")
)
"""
One operation of an item in one pass on a roofline chip: seconds of compute at full clock, bytes of its streams
(weights, KV cache, rows of activations), and all bytes read and written after rounding to waves.
"""

COLLECTIVES = (
    "tp_all_reduce",
    "cp_attention_combine",
    "cp_kv_all_gather",
    "ep_dispatch",
    "ep_combine",
    "moe_tp_all_reduce",
)
"""Collectives of a layer, in the order of their results."""

TP_ALL_REDUCE, CP_COMBINE, CP_GATHER, EP_DISPATCH, EP_COMBINE, MOE_TP_ALL_REDUCE = range(6)
TRANSFER = 6
"""The transfer between pipeline stages, numbered after the collectives."""

COMM_SLOTS = 7
"""What is priced of the network for a load in a phase."""

STAGE_INDEX = -1
"""Column of a stage row, after those of its items, that holds its place in the pipeline."""
