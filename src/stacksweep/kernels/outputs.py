"""Numbering of the real-valued results that the point kernel writes."""

from stacksweep.kernels.rows import COLLECTIVES, OPERATIONS

DETAILS = (
    "compute_time",
    "memory_time",
    "memory_bound_time",
    "comm_time",
    "read_bytes",
    "write_bytes",
    "dram_energy",
    *(f"{collective}_time" for collective in COLLECTIVES),
    "overhead_time",
    *(f"{operation}_operation_time" for operation in OPERATIONS),
    *(f"{operation}_operation_memory_bound_time" for operation in OPERATIONS),
)
"""What is reported of a stage, in the order of its results."""

COMM_TIME = DETAILS.index("comm_time")
COLLECTIVE_TIMES = COMM_TIME + 4
OVERHEAD_TIME = DETAILS.index("overhead_time")
OPERATION_TIMES = OVERHEAD_TIME + 1
OPERATION_BOUND_TIMES = OPERATION_TIMES + len(OPERATIONS)

PASS = ("latency", "period", "transfer", "bottleneck", *DETAILS)
"""What is reported of one pass through the pipeline."""

OUTPUTS = (
    "noc_energy_per_token",
    "dram_energy_per_token",
    "energy_per_token",
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
    *(f"prefill_{name}" for name in PASS),
    *(f"first_decode_{name}" for name in PASS),
    *(f"decode_{name}" for name in ("time", *DETAILS)),
    *(f"{phase}_{name}" for phase in ("prefill", "decode") for name in ("imbalance", "pairs", "active_experts")),
)
"""Names of the results; the position is the number that the kernels use."""

(
    NOC_ENERGY_PER_TOKEN,
    DRAM_ENERGY_PER_TOKEN,
    ENERGY_PER_TOKEN,
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
) = range(13)
PREFILL = OUTPUTS.index("prefill_latency")
FIRST_DECODE = OUTPUTS.index("first_decode_latency")
LATENCY, PERIOD, TRANSFER_TIME, BOTTLENECK, PASS_DETAILS = range(5)
"""Places of the results of a pass, counted from `PREFILL` or `FIRST_DECODE`."""

DECODE_TIME = OUTPUTS.index("decode_time")
DECODE = OUTPUTS.index("decode_compute_time")
EXPERT_LOADS = OUTPUTS.index("prefill_imbalance")
