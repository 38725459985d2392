"""A chip given by its peaks: work of every operation, and its time."""

from dataclasses import dataclass, field
from typing import Any

from reference import shard
from reference.chip import ceil_div
from reference.memory import access_energy, rounded
from reference.model import Layer, Mixer

QUERY_TILE = 128
STATE_TILE = 64
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


def layer(x: Any, phase: str, kind: Layer, kv: int) -> list[Operation]:
    """Operations of one layer on one device; `x` is a `system.Point`."""
    m, h = x.model, x.model.hidden
    t = x.sequences * x.query_len(phase)
    operations = mixer(x, phase, kind.mixer, kv, t) if kind.mixer else []
    if kind.ffn:
        operations.append(matmul(x, phase, "ffn", t, shard.ffn_weights(x, kind), t * h, t * h))
    if kind.moe:
        load, width = x.loads[phase], m.expert_hidden
        inputs, outputs = (h, m.experts) if width == h else (h + width, m.experts + width + h)
        n, rows = load.tokens, load.pairs * width
        operations.append(matmul(x, phase, "router", n, shard.router_weights(x), n * inputs, n * outputs))
        expert = shard.expert_weights(x)
        operations.append(matmul(x, phase, "experts", load.pairs, expert, rows, rows, copies=load.active))
    return operations


def mixer(x: Any, phase: str, one: Mixer, kv: int, t: int) -> list[Operation]:
    """Projections, and what mixes the tokens between them."""
    h, b, tp = x.model.hidden, x.sequences, x.plan.tp
    heads = shard.heads(x, one)
    into, out = shard.mixer_weights(x, one)
    index_rows = 0
    if one.kind == "latent":
        projected = heads * (one.nope + one.rope) + heads * (one.nope + one.value) + one.rope
        mixed, index_rows = heads * one.value, one.index_size * (one.index_heads + 1) if one.index_top_k else 0
        if phase == "prefill":
            per_pair = heads * ((one.nope + one.rope) + one.value)
        else:
            per_pair = heads * ((one.latent + one.rope) + one.latent)
    elif one.kind == "linear":
        key_width, mixed = one.key_heads * one.key / tp, one.heads * one.value / tp
        projected = 2 * key_width + 2 * mixed + 2 * one.heads / tp
    elif one.kind == "mamba2":
        mixed = one.heads * one.value / tp
        projected = 2 * mixed + 2 * one.groups * one.state_size / tp + one.heads / tp
    else:
        mixed = heads * one.value
        projected = heads * one.key + (mixed if one.gate else 0) + shard.cache(x, one)[0]
        per_pair = heads * (one.key + one.value)
    operations = [
        matmul(x, phase, "qkv", t, into, t * h, t * (projected + index_rows)),
        matmul(x, phase, "out", t, out, t * mixed, t * h),
    ]
    reads, writes = activations(x, phase, t * projected, t * mixed)
    if one.kind in ("linear", "mamba2"):
        elements = one.heads * one.value * (one.key if one.kind == "linear" else one.state_size)
        flop = t * elements * (8 if one.kind == "linear" else 6) / tp
        times = ceil_div(x.input_seq_len, STATE_TILE) if phase == "prefill" else 1
        moved = {"state": times * b * shard.state(x, one) * 4}
        peak = x.chip.peak(x.precision["activation_bytes"])
        return [*operations, Operation("scan", flop, peak, reads | moved, writes | moved)]

    attended = shard.attended(one, kv)
    if phase == "prefill":
        pairs = b * sum(shard.attended(one, row) for row in range(1, x.input_seq_len + 1)) / x.plan.cp
        rereads, written = ceil_div(x.query_len(phase), QUERY_TILE), x.query_len(phase)
        # of a prompt in chunks a tile reads a whole one
        attended = min(kv, one.window) if one.kind == "chunked" else attended
    else:
        pairs, rereads, written = b * attended, 1, 1 / x.plan.cp
    kept, index = shard.cache(x, one)
    reads |= {"kv_cache": rereads * b * kept * attended * x.precision["kv_read_bytes"]}
    writes |= {"kv_cache": b * (kept + index) * written * x.precision["kv_write_bytes"]}
    peak = x.chip.peak(x.precision["kv_read_bytes"], x.precision["activation_bytes"])
    operations.append(Operation("attention", 2 * pairs * per_pair, peak, reads, writes))
    if index:
        pairs = b * (x.input_seq_len * (x.input_seq_len + 1) // 2 if phase == "prefill" else kv)
        reads, writes = activations(x, phase, t * index_rows, 0)
        reads |= {"index_keys": rereads * b * index * kv * x.precision["kv_read_bytes"]}
        operations.append(Operation("index", 2 * pairs * one.index_heads * index, peak, reads, writes))
    return operations


def matmul(
    x: Any, phase: str, name: str, rows: float, elements: float, inputs: float, outputs: float, copies: float = 1
) -> Operation:
    """Rows times a matrix; of `copies` matrices each row meets one."""
    reads_rows, writes_rows = activations(x, phase, inputs, outputs)
    reads = {"weights": copies * elements * x.precision["weight_bytes"]} | reads_rows
    peak = x.chip.peak(x.precision["weight_bytes"], x.precision["activation_bytes"])
    return Operation(name, 2 * rows * elements, peak, reads, writes_rows)


def activations(x: Any, phase: str, inputs: float, outputs: float) -> tuple[dict[str, float], dict[str, float]]:
    each = x.precision["activation_bytes"]
    if phase != "prefill" or (inputs + outputs) * each <= x.chip.activation_cache:
        return {}, {}
    return {"activations": inputs * each}, {"activations": outputs * each}


def lm_head(x: Any, phase: str) -> Operation:
    b, h = x.sequences, x.model.hidden
    return matmul(x, phase, "lm_head", b, h * x.vocabulary, b * h, b * x.vocabulary)


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
