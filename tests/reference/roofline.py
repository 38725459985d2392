"""A chip given by its peaks: work of every operation, and its time."""

from dataclasses import dataclass, field
from typing import Any

from reference.chip import ceil_div
from reference.memory import access_energy, rounded

QUERY_TILE = 128
OPERATIONS = ("embedding", "qkv", "index", "attention", "scan", "out", "ffn", "router", "experts", "lm_head")


@dataclass(frozen=True)
class Roofline:
    """Numbers of the chip."""

    peak_flops: dict[int, float]
    compute_efficiency: float = 1.0
    memory_efficiency: float = 1.0
    operation_overhead: float = 0.0
    layer_overhead: float = 0.0
    pass_overhead: float = 0.0
    activation_cache: float = 0.0

    def peak(self, *bytes_per_element: float) -> float:
        bits = int(8 * max(bytes_per_element))
        return next(peak for width, peak in sorted(self.peak_flops.items()) if width >= bits)


def roofline_of(profile: dict[str, Any]) -> Roofline:
    numbers = {name: profile[name] for name in Roofline.__dataclass_fields__ if name in profile}
    return Roofline(**numbers | {"peak_flops": {int(bits): peak for bits, peak in profile["peak_flops"].items()}})


@dataclass(frozen=True)
class Operation:
    name: str
    flop: float = 0.0
    peak: float = 1.0
    reads: dict[str, float] = field(default_factory=dict)
    writes: dict[str, float] = field(default_factory=dict)


def layer(x: Any, phase: str, attention: str, mlp: str, kv: int) -> list[Operation]:
    """Operations of one layer on one device; `x` is a `system.Point`."""
    m, b, h = x.model, x.sequences, x.model.hidden
    t = b * x.query_len(phase)
    queries, keys = x.heads * m.head_dim, x.kv_heads * m.head_dim
    operations = [matmul(x, phase, "qkv", t, h, queries + 2 * keys), matmul(x, phase, "out", t, queries, h)]
    attended = min(kv, m.window) if attention == "sliding_attention" else kv
    if phase == "prefill":
        pairs = b * sum(min(row, attended) for row in range(1, x.input_seq_len + 1)) / x.plan.cp
        rereads, written = ceil_div(x.query_len(phase), QUERY_TILE), x.query_len(phase)
    else:
        pairs, rereads, written = b * attended, 1, 1 / x.plan.cp
    reads = {"kv_cache": rereads * 2 * b * keys * attended * x.precision["kv_read_bytes"]}
    writes = {"kv_cache": 2 * b * keys * written * x.precision["kv_write_bytes"]}
    reads_rows, writes_rows = activations(x, phase, t * (queries + 2 * keys), t * queries)
    peak = x.chip.peak(x.precision["kv_read_bytes"], x.precision["activation_bytes"])
    operations.append(Operation("attention", 4 * pairs * queries, peak, reads | reads_rows, writes | writes_rows))
    if mlp == "ffn":
        up = matmul(x, phase, "ffn", t, h, 3 * x.ffn_width, outputs=t * h)
        return [*operations, up]
    load = x.loads[phase]
    expert = matmul(x, phase, "experts", load.pairs, h, 3 * x.expert_width, outputs=load.pairs * h, copies=load.active)
    return [*operations, matmul(x, phase, "router", load.tokens, h, m.experts), expert]


def matmul(
    x: Any,
    phase: str,
    name: str,
    rows: float,
    width: int,
    columns: int,
    outputs: float | None = None,
    copies: float = 1,
) -> Operation:
    """Rows times a matrix; of `copies` matrices each row meets one."""
    reads_rows, writes_rows = activations(x, phase, rows * width, rows * columns if outputs is None else outputs)
    reads = {"weights": copies * width * columns * x.precision["weight_bytes"]} | reads_rows
    peak = x.chip.peak(x.precision["weight_bytes"], x.precision["activation_bytes"])
    return Operation(name, 2 * rows * width * columns, peak, reads, writes_rows)


def activations(x: Any, phase: str, inputs: float, outputs: float) -> tuple[dict[str, float], dict[str, float]]:
    each = x.precision["activation_bytes"]
    if phase != "prefill" or (inputs + outputs) * each <= x.chip.activation_cache:
        return {}, {}
    return {"activations": inputs * each}, {"activations": outputs * each}


def lm_head(x: Any, phase: str) -> Operation:
    return matmul(x, phase, "lm_head", x.sequences, x.model.hidden, x.vocabulary)


def embedding(nbytes: float) -> Operation:
    return Operation("embedding", reads={"embedding_rows": nbytes})


def price(x: Any, operations: list[Operation]) -> dict[str, Any]:
    """Fields of a `system.Price`: operations under an overlap policy."""
    compute = memory = by_operation = bound_operations = read = write = 0.0
    times, bound_times = dict.fromkeys(OPERATIONS, 0.0), dict.fromkeys(OPERATIONS, 0.0)
    for one in operations:
        own_read = sum(rounded(nbytes, x.memory) for nbytes in one.reads.values())
        own_write = sum(rounded(nbytes, x.memory) for nbytes in one.writes.values())
        own_compute = one.flop / (one.peak * x.chip.compute_efficiency * x.memory["clock_scale"])
        own_memory = (own_read + own_write) / (x.memory["usable_bandwidth"] * x.chip.memory_efficiency)
        own = own_compute + own_memory if x.overlap == "serial" else max(own_compute, own_memory)
        times[one.name] += own
        if own_memory > own_compute:
            bound_times[one.name] += own
            bound_operations += own
        by_operation += own
        compute, memory, read, write = compute + own_compute, memory + own_memory, read + own_read, write + own_write
    seconds = {"op-roofline": by_operation, "stage-roofline": max(compute, memory), "serial": compute + memory}
    bound = seconds[x.overlap] if memory > compute else 0.0
    return {
        "seconds": seconds[x.overlap],
        "compute": compute,
        "memory": memory,
        "memory_bound": bound_operations if x.overlap == "op-roofline" else bound,
        "read_bytes": read,
        "write_bytes": write,
        "energy": access_energy(read, write, x.memory),
        "overhead": x.chip.operation_overhead * len(operations),
        "operations": times,
        "bound_operations": bound_times,
    }
