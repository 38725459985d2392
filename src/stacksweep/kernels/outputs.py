"""Numbering of the real-valued results that the point kernel writes."""

DETAILS = ("compute_time", "memory_time", "memory_bound_time", "read_bytes", "write_bytes", "dram_energy")
"""What is reported of a stage, in the order of its results."""

OUTPUTS = (
    "ttft",
    "tps",
    "tps_per_sequence",
    "weight_bytes",
    "kv_bytes",
    "capacity",
    "usable_bandwidth",
    "clock_scale",
    "peak_bandwidth",
    "connectivity_efficiency",
    *(f"prefill_{name}" for name in ("latency", "period", *DETAILS)),
    *(f"first_decode_{name}" for name in ("latency", "period", *DETAILS)),
    *(f"decode_{name}" for name in ("time", *DETAILS)),
    *(f"{phase}_{name}" for phase in ("prefill", "decode") for name in ("imbalance", "pairs", "active_experts")),
)
"""Names of the results; the position is the number that the kernels use."""

(
    TTFT,
    TPS,
    TPS_PER_SEQUENCE,
    WEIGHT_BYTES,
    KV_BYTES,
    CAPACITY,
    USABLE_BANDWIDTH,
    CLOCK_SCALE,
    PEAK_BANDWIDTH,
    CONNECTIVITY_EFFICIENCY,
) = range(10)
PREFILL_LATENCY = OUTPUTS.index("prefill_latency")
PREFILL_PERIOD = OUTPUTS.index("prefill_period")
PREFILL = OUTPUTS.index("prefill_compute_time")
FIRST_DECODE_LATENCY = OUTPUTS.index("first_decode_latency")
FIRST_DECODE_PERIOD = OUTPUTS.index("first_decode_period")
FIRST_DECODE = OUTPUTS.index("first_decode_compute_time")
DECODE_TIME = OUTPUTS.index("decode_time")
DECODE = OUTPUTS.index("decode_compute_time")
EXPERT_LOADS = OUTPUTS.index("prefill_imbalance")
