"""TTFT and TPS of a system: plan, shards, work of a layer, price of a stage, pipeline, decode step by step."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from reference import chip as cycles_of
from reference import roofline, shard
from reference.chip import Chip, ceil_div, chip_of
from reference.memory import access_energy, memory_of, rounded
from reference.model import Layer, Model, model_of
from reference.moe import Load, Routing, Trace, busiest_rank, dispatch_bytes, trace_fits
from reference.roofline import Roofline, roofline_of

Cost = tuple[float, float | None]
"""Seconds and picojoules; None without energy coefficients."""
Sizes = dict[str, int]


class Network(Protocol):
    """What a network has to answer. It is never asked about a group of one."""

    devices: int
    has_energy: bool

    def all_reduce(self, sizes: Sizes, dim: str, nbytes: int) -> Cost: ...
    def all_gather(self, sizes: Sizes, dim: str, nbytes: int) -> Cost: ...
    def pipeline_transfer(self, sizes: Sizes, nbytes: int) -> Cost: ...
    def all_to_all(self, sizes: Sizes, dim: str, slots: tuple[tuple[tuple[int, ...], ...], ...]) -> Cost:
        """Every group at once; group number n sends ``slots[n % len(slots)][a][b]`` bytes from rank a to b."""
        ...


PHASE_FIELDS = (
    "compute_time",
    "memory_time",
    "memory_bound_time",
    "comm_time",
    "read_bytes",
    "write_bytes",
    "dram_energy",
    "overhead_time",
    "operation_time",
    "operation_memory_bound_time",
)
RESULTS = (
    *("ttft", "tps", "tps_per_sequence", "fits", "weight_bytes", "kv_bytes", "capacity"),
    *("usable_bandwidth", "clock_scale", "peak_bandwidth", "connectivity_efficiency", "buffering_limited"),
    *(
        f"{phase}_{name}"
        for phase in ("prefill", "first_decode")
        for name in ("latency", "period", "transfer", "bottleneck", *PHASE_FIELDS)
    ),
    *("decode_time", *(f"decode_{name}" for name in PHASE_FIELDS)),
    *("prefill_comm", "first_decode_comm", "decode_comm"),
    "noc_energy_per_token",
    *(f"{phase}_{name}" for phase in ("prefill", "decode") for name in ("imbalance", "pairs", "active_experts")),
    *("micro_batch", "sequences_per_device", "warnings", "reason"),
)


@dataclass(frozen=True)
class Plan:
    tp: int = 1
    ep: int = 1
    dp: int = 1
    pp: int = 1
    cp: int = 1
    moe_tp_mode: str = "replace"

    @property
    def devices(self) -> int:
        return self.tp * self.ep * self.dp * self.pp * self.cp

    def dense_scheme(self) -> Sizes:
        return {"tp": self.tp, "ep": 1, "sp": 1, "cp": self.cp, "dp": self.dp * self.ep, "pp": self.pp}

    def moe_scheme(self, experts: int) -> Sizes:
        tp, ep = self.tp, self.ep
        if self.moe_tp_mode == "replace":
            ranks = tp * ep
            tp, ep = (ranks // experts, experts) if ranks > experts else (1, ranks)
        return {"tp": tp, "ep": ep, "sp": 1, "cp": self.cp, "dp": self.dp, "pp": self.pp}


@dataclass(frozen=True)
class Price:
    """A priced stage, or a sum of them."""

    seconds: float = 0.0
    compute: float = 0.0
    memory: float = 0.0
    memory_bound: float = 0.0
    read_bytes: float = 0.0
    write_bytes: float = 0.0
    energy: float | None = 0.0
    comm: dict[str, float] = field(default_factory=dict)
    overhead: float = 0.0
    operations: dict[str, float] | None = None
    bound_operations: dict[str, float] | None = None


def add_named(one: dict[str, float] | None, times: int, other: dict[str, float] | None) -> dict[str, float] | None:
    """Sum of values by name, None where nothing is named."""
    if other is None:
        return one
    return {name: (one or {}).get(name, 0.0) + times * value for name, value in other.items()}


def add_up(prices: Iterable[tuple[int, Price]]) -> Price:
    """Sum of prices, each taken a number of times."""
    seconds = compute = memory = memory_bound = read_bytes = write_bytes = overhead = 0.0
    energy: float | None = 0.0
    comm: dict[str, float] = {}
    operations: dict[str, float] | None = None
    bound_operations: dict[str, float] | None = None
    for times, price in prices:
        seconds += times * price.seconds
        compute += times * price.compute
        memory += times * price.memory
        memory_bound += times * price.memory_bound
        read_bytes += times * price.read_bytes
        write_bytes += times * price.write_bytes
        energy = None if energy is None or price.energy is None else energy + times * price.energy
        for name, each in price.comm.items():
            comm[name] = comm.get(name, 0.0) + times * each
        overhead += times * price.overhead
        operations = add_named(operations, times, price.operations)
        bound_operations = add_named(bound_operations, times, price.bound_operations)
    return Price(
        seconds, compute, memory, memory_bound, read_bytes, write_bytes, energy, comm, overhead, operations,
        bound_operations,
    )  # fmt: skip


@dataclass(frozen=True)
class Point:
    """One design point with everything about it that does not change from step to step."""

    model: Model
    chip: Chip | Roofline
    precision: dict[str, float]
    memory: dict[str, Any]
    plan: Plan
    input_seq_len: int
    output_seq_len: int
    frequency: float
    overlap: str
    comm_overlap: str
    routing: Routing
    lm_head_in_decode: bool
    lm_head_in_prefill: bool
    network: Network | None
    micro_batch: int
    """Sequences of a micro-batch, over all of its devices."""
    sequences: int
    """Sequences of a device."""
    vocabulary: int
    dense_scheme: Sizes
    moe_scheme: Sizes
    loads: dict[str, Load]

    def query_len(self, phase: str) -> int:
        return ceil_div(self.input_seq_len, self.plan.cp) if phase == "prefill" else 1

    def kv_len(self, phase: str, step: int = 0) -> int:
        return self.input_seq_len if phase == "prefill" else ceil_div(self.input_seq_len + step, self.plan.cp)


def evaluate(
    model: dict[str, Any],
    chip: dict[str, Any],
    precision: dict[str, float],
    memory: dict[str, Any],
    plan: dict[str, Any],
    batch_size: int,
    input_seq_len: int,
    output_seq_len: int,
    frequency_hz: float = 1e9,
    overlap: str = "stage-roofline",
    comm_overlap: str = "none",
    routing: Routing = "balanced",
    include_lm_head: bool = False,
    network: Network | None = None,
) -> dict[str, Any]:
    """All results of one design point; of an invalid one only ``reason`` is not None.

    ``X_comm`` are the seconds per collective whose sum is ``X_comm_time``.
    """
    m, mem, p = model_of(model), memory_of(memory), Plan(**plan)
    reason = invalid_reason(m, mem, p, batch_size, input_seq_len, routing, network)
    if reason is not None:
        return dict.fromkeys(RESULTS) | {"reason": reason}
    if chip.get("kind") != "roofline" and (m.expert_hidden != m.hidden or not all(x.has_kv_heads for x in m.mixers)):
        return dict.fromkeys(RESULTS) | {"reason": "chip_layers"}
    c = roofline_of(chip) if chip.get("kind") == "roofline" else chip_of(chip)
    x = prepare(
        m, c, precision, mem, p, batch_size, input_seq_len, output_seq_len, frequency_hz, overlap,
        comm_overlap, routing, include_lm_head, network,
    )  # fmt: skip

    prefill = one_pass(x, "prefill", x.kv_len("prefill"))
    first = one_pass(x, "decode", x.kv_len("decode"))
    decode = whole_decode(x, first["bottleneck"])
    weights, kv = footprint(x)
    results: dict[str, Any] = {
        "ttft": prefill["latency"] + first["latency"],
        "tps": x.micro_batch * output_seq_len / decode["time"],
        "tps_per_sequence": output_seq_len / (p.pp * decode["time"]),
        "fits": None if mem["capacity"] is None else weights + kv <= mem["capacity"],
        "weight_bytes": weights,
        "kv_bytes": kv,
        "noc_energy_per_token": noc_energy(x),
        "micro_batch": x.micro_batch,
        "sequences_per_device": x.sequences,
        "warnings": warnings_of(x, batch_size, weights + kv),
        "reason": None,
    }
    for name in (
        "capacity",
        "usable_bandwidth",
        "clock_scale",
        "peak_bandwidth",
        "connectivity_efficiency",
        "buffering_limited",
    ):
        results[name] = mem[name]
    for prefix, report in (("prefill", prefill), ("first_decode", first), ("decode", decode)):
        results |= {f"{prefix}_{name}": value for name, value in report.items()}
    for phase in ("prefill", "decode"):
        load = x.loads.get(phase)
        results[f"{phase}_imbalance"] = load.imbalance if load else None
        results[f"{phase}_pairs"] = load.pairs if load else None
        results[f"{phase}_active_experts"] = load.active if load else None
    return {name: results[name] for name in RESULTS}


def invalid_reason(
    m: Model,
    mem: dict[str, Any],
    plan: Plan,
    batch_size: int,
    input_seq_len: int,
    routing: Routing,
    network: Network | None,
) -> str | None:
    """The first reason, in the stated order, why a point cannot be."""
    devices = 1 if network is None else network.devices
    if plan.devices != devices:
        return "world_size"
    if any(mixer.heads % plan.tp != 0 for mixer in m.mixers):
        return "tp_heads"
    for mixer in m.mixers:
        few, many = sorted((plan.tp, mixer.kv_heads))
        if mixer.has_kv_heads and many % few != 0:
            return "tp_kv_heads"
    if plan.pp > m.layers:
        return "pp_layers"
    if plan.cp > input_seq_len:
        return "cp_prompt"
    alike = len(m.mixers) == 1 and all(layer.mixer and layer.mixer.kind == "full" for layer in m.kinds)
    if plan.cp > 1 and (m.has_experts or not alike):
        return "cp_model"
    if m.has_experts:
        ranks = plan.tp * plan.ep
        if plan.moe_tp_mode == "replace" and ranks > m.experts and ranks % m.experts != 0:
            return "moe_ranks"
        if m.experts % plan.moe_scheme(m.experts)["ep"] != 0:
            return "ep_experts"
    elif plan.ep > 1:
        return "ep_dense"
    if mem["reason"] is not None:
        return str(mem["reason"])
    if m.has_experts and isinstance(routing, Trace):
        micro_batch = ceil_div(batch_size, plan.pp)
        ep = plan.moe_scheme(m.experts)["ep"]
        for phase, query_len in (("prefill", input_seq_len), ("decode", 1)):
            if not trace_fits(routing, phase, micro_batch * query_len, m.experts, m.experts_per_token, ep=ep):
                return "routing_trace"
    return None


def prepare(
    m: Model,
    chip: Chip | Roofline,
    precision: dict[str, float],
    mem: dict[str, Any],
    plan: Plan,
    batch_size: int,
    input_seq_len: int,
    output_seq_len: int,
    frequency_hz: float,
    overlap: str,
    comm_overlap: str,
    routing: Routing,
    include_lm_head: bool,
    network: Network | None,
) -> Point:
    """Shards of one device."""
    micro_batch = ceil_div(batch_size, plan.pp)
    dense = plan.dense_scheme()
    moe = plan.moe_scheme(m.experts) if m.has_experts else dense
    loads = {}
    if m.has_experts:
        for phase, query_len in (("prefill", input_seq_len), ("decode", 1)):
            loads[phase] = busiest_rank(
                routing, phase, m.experts, m.experts_per_token, moe["ep"], moe["dp"], moe["tp"], micro_batch, query_len
            )
    return Point(
        model=m,
        chip=chip,
        precision=precision,
        memory=mem,
        plan=plan,
        input_seq_len=input_seq_len,
        output_seq_len=output_seq_len,
        frequency=frequency_hz * mem["clock_scale"],
        overlap=overlap,
        comm_overlap=comm_overlap,
        routing=routing,
        lm_head_in_decode=include_lm_head,
        lm_head_in_prefill=include_lm_head or m.moe_composition,
        network=network,
        micro_batch=micro_batch,
        sequences=ceil_div(micro_batch, dense["dp"]),
        vocabulary=ceil_div(m.vocabulary, plan.tp),
        dense_scheme=dense,
        moe_scheme=moe,
        loads=loads,
    )


# --- work of a layer -------------------------------------------------------------------------------------------------


def layer_cycles(x: Point, phase: str, layer: Layer, kv: int) -> float:
    """Cycles of one layer on one device; every instruction is issued twice in decode."""
    m, c = x.model, x.chip
    h, s, b, mixer = m.hidden, x.query_len(phase), x.sequences, layer.mixer
    total = 0.0
    if mixer:
        total += cycles_of.rms(c, phase, h, s, b)
        values = 0 if mixer.same_kv else mixer.value
        total += (
            cycles_of.projection(c, phase, h, mixer.heads, mixer.kv_heads, mixer.key, values, mixer.gate, s, b)
            / x.plan.tp
        )
        heads, kv_heads, d = shard.heads(x, mixer), shard.kv_heads(x, mixer), mixer.value
        if mixer.kind == "sliding":
            total += cycles_of.sliding_window_attention(c, phase, heads, d, s, kv, b, mixer.window)
        elif mixer.kind == "chunked":
            total += cycles_of.chunked_attention(c, phase, heads, kv_heads, d, s, kv, b, mixer.window)
        else:
            total += cycles_of.flash_attention(c, phase, heads, kv_heads, d, s, kv, b)
        total += cycles_of.residual(c, phase, h, s, b)
    if layer.ffn or layer.moe:
        total += cycles_of.rms(c, phase, h, s, b)
        if m.moe_composition:
            total += cycles_of.residual(c, phase, h, s, b)
    if layer.ffn:
        width, matrices = layer.ffn
        total += cycles_of.feed_forward(c, phase, h, ceil_div(width, x.plan.tp), s, b, matrices)
    if layer.moe:
        load, width = x.loads[phase], ceil_div(m.expert_width, x.moe_scheme["tp"])
        total += cycles_of.moe(
            c, phase, h, width, m.experts, m.experts_per_token, load.tokens, load.pairs, load.counts, m.expert_matrices
        )
    return total * 2 if phase == "decode" else total


def layer_streams(x: Point, phase: str, layer: Layer, kv: int) -> tuple[dict[str, float], dict[str, float]]:
    """Named read and write streams of one layer on one device, in bytes before rounding."""
    m, bytes_of = x.model, x.precision
    s, b = x.query_len(phase), x.sequences
    active = x.loads[phase].active if layer.moe else 0
    attended = shard.attended(layer.mixer, kv)
    if phase == "prefill":
        attended = shard.held(layer.mixer, kv)
    rereads = ceil_div(s, x.chip.mlen) if phase == "prefill" else 1
    per_position = b * sum(shard.cache(x, layer.mixer))
    written = s if phase == "prefill" else 1 / x.plan.cp
    reads = {
        "weights": shard.weights(x, layer, active) * bytes_of["weight_bytes"],
        "kv_cache": rereads * per_position * attended * bytes_of["kv_read_bytes"],
    }
    writes = {"kv_cache": per_position * written * bytes_of["kv_write_bytes"]}
    if phase == "prefill":
        sites = 3 if layer.mixer else 0
        if layer.ffn or layer.moe:
            sites += 1 + (1 if m.moe_composition else 0)
        spilled = sites * max(0, m.hidden * b * s - x.chip.sram) * bytes_of["activation_bytes"]
        reads["activation_spill"] = spilled
        writes["activation_spill"] = spilled
    return reads, writes


def price(x: Point, cycles: float, reads: dict[str, float], writes: dict[str, float]) -> Price:
    """Roofline or sum of one stage."""
    read = sum(rounded(nbytes, x.memory) for nbytes in reads.values())
    write = sum(rounded(nbytes, x.memory) for nbytes in writes.values())
    compute = cycles / x.frequency
    memory = (read + write) / x.memory["usable_bandwidth"]
    seconds = max(compute, memory) if x.overlap == "stage-roofline" else compute + memory
    return Price(
        seconds=seconds,
        compute=compute,
        memory=memory,
        memory_bound=seconds if memory > compute else 0.0,
        read_bytes=read,
        write_bytes=write,
        energy=access_energy(read, write, x.memory),
    )


def price_layer(x: Point, phase: str, layer: Layer, kv: int, comm: dict[str, Cost]) -> Price:
    """One layer with its collectives."""
    if isinstance(x.chip, Roofline):
        stage = Price(**roofline.price(x, roofline.layer(x, phase, layer, kv)))
    else:
        stage = price(x, layer_cycles(x, phase, layer, kv), *layer_streams(x, phase, layer, kv))
    communication = sum(seconds for seconds, _ in comm.values())
    total = max(stage.seconds, communication) if x.comm_overlap == "full" else stage.seconds + communication
    overhead = stage.overhead + (x.chip.layer_overhead if isinstance(x.chip, Roofline) else 0.0)
    by_name = {name: seconds for name, (seconds, _) in comm.items()}
    return replace(stage, seconds=total + overhead, overhead=overhead, comm=by_name)


def overhead_added(stage: Price) -> Price:
    return replace(stage, seconds=stage.seconds + stage.overhead)


def price_extras(x: Point, phase: str, stage: int) -> list[Price]:
    """Embedding and LM head, each a stage of its own, where they stand."""
    m, bytes_of = x.model, x.precision
    s, b = x.query_len(phase), x.sequences
    extras = []
    if phase == "prefill" and stage == 0:
        embedding_rows = b * s * m.hidden * bytes_of["activation_bytes"]
        if isinstance(x.chip, Roofline):
            extras.append(overhead_added(Price(**roofline.price(x, [roofline.embedding(embedding_rows)]))))
        else:
            extras.append(price(x, cycles_of.embedding(x.chip, m.hidden, s, b), {"embedding_rows": embedding_rows}, {}))
    has_lm_head = x.lm_head_in_prefill if phase == "prefill" else x.lm_head_in_decode
    if has_lm_head and stage == x.plan.pp - 1:
        if isinstance(x.chip, Roofline):
            return [*extras, overhead_added(Price(**roofline.price(x, [roofline.lm_head(x, phase)])))]
        lm_head_weights = x.vocabulary * m.hidden * bytes_of["weight_bytes"]
        cycles = cycles_of.lm_head(x.chip, m.hidden, x.vocabulary, b)
        extras.append(price(x, cycles, {"lm_head_weights": lm_head_weights}, {}))
    return extras


# --- communication ---------------------------------------------------------------------------------------------------


def activation_message(x: Point, phase: str) -> int:
    return int(x.sequences * x.query_len(phase) * x.model.hidden * x.precision["activation_bytes"])


def layer_collectives(x: Point, phase: str, layer: Layer) -> dict[str, Cost]:
    """Cost of each collective of one layer; a group of one is free and not listed."""
    m, net, bytes_of = x.model, x.network, x.precision
    costs: dict[str, Cost] = {}
    if net is None:
        return costs
    runs = (layer.mixer is not None) + (layer.ffn is not None)
    if x.plan.tp > 1 and runs:
        once = net.all_reduce(x.dense_scheme, "tp", activation_message(x, phase))
        costs["tp_all_reduce"] = (runs * once[0], None if once[1] is None else runs * once[1])
    if x.plan.cp > 1 and phase == "decode":
        assert layer.mixer
        combined = shard.heads(x, layer.mixer) * layer.mixer.value
        nbytes = int(x.sequences * combined * bytes_of["activation_bytes"])
        costs["cp_attention_combine"] = net.all_reduce(x.dense_scheme, "cp", nbytes)
    if x.plan.cp > 1 and phase == "prefill":
        kept, _ = shard.cache(x, layer.mixer)
        nbytes = int(x.sequences * x.input_seq_len * kept * bytes_of["kv_write_bytes"])
        costs["cp_kv_all_gather"] = net.all_gather(x.dense_scheme, "cp", nbytes)
    if layer.moe:
        load = x.loads[phase]
        if x.moe_scheme["ep"] > 1:
            tokens = x.micro_batch * (x.input_seq_len if phase == "prefill" else 1)
            slots = dispatch_bytes(
                x.routing,
                phase,
                m.experts,
                m.experts_per_token,
                x.moe_scheme["ep"],
                x.moe_scheme["dp"],
                tokens,
                int(m.expert_hidden * bytes_of["activation_bytes"]),
                load.imbalance,
            )
            costs["ep_dispatch"] = costs["ep_combine"] = net.all_to_all(x.moe_scheme, "ep", slots)
        if x.moe_scheme["tp"] > 1:
            nbytes = int(load.pairs * m.expert_hidden * bytes_of["activation_bytes"])
            costs["moe_tp_all_reduce"] = net.all_reduce(x.moe_scheme, "tp", nbytes)
    return costs


def transfer(x: Point, phase: str) -> Cost:
    """The activations' step from a pipeline stage to the next."""
    if x.network is None or x.plan.pp == 1:
        return 0.0, 0.0
    return x.network.pipeline_transfer(x.dense_scheme, activation_message(x, phase))


def noc_energy(x: Point) -> float | None:
    """Picojoules in the network per emitted token."""
    if x.network is not None and not x.network.has_energy:
        return None
    layers = 0.0
    for layer in dict.fromkeys(x.model.kinds):
        costs = layer_collectives(x, "decode", layer).values()
        layers += x.model.kinds.count(layer) * sum(energy or 0.0 for _, energy in costs)
    return (layers / x.plan.pp + (transfer(x, "decode")[1] or 0.0)) / x.micro_batch


# --- pipeline --------------------------------------------------------------------------------------------------------


def stage_layers(x: Point, stage: int) -> tuple[Layer, ...]:
    """Kinds of the layers that a pipeline stage holds."""
    per_stage = ceil_div(x.model.layers, x.plan.pp)
    return x.model.kinds[stage * per_stage : (stage + 1) * per_stage]


class Pipeline:
    """Prices all stages of one phase at any KV length, doing once what does not depend on it."""

    def __init__(self, x: Point, phase: str) -> None:
        self.x, self.phase = x, phase
        self.transfer = transfer(x, phase)[0]
        self.comm = {layer: layer_collectives(x, phase, layer) for layer in dict.fromkeys(x.model.kinds)}
        self.extras = [price_extras(x, phase, stage) for stage in range(x.plan.pp)]
        self.compositions: list[dict[Layer, int]] = []
        for stage in range(x.plan.pp):
            layers = stage_layers(x, stage)
            self.compositions.append({kind: layers.count(kind) for kind in dict.fromkeys(layers)})
        holdings = list(zip(self.compositions, self.extras, strict=True))
        self.twins = [holdings.index(holding) for holding in holdings]
        """For each stage the first one that holds the same."""
        self.layer_prices: dict[tuple[Layer, int], Price] = {}

    def layer(self, kind: Layer, kv: int) -> Price:
        same = kv
        if self.phase == "decode" and not (kind.mixer and kind.mixer.index_top_k):
            # an indexer alone looks at tokens that are not attended to
            same = shard.attended(kind.mixer, kv)
        key = (kind, same)
        if key not in self.layer_prices:
            self.layer_prices[key] = price_layer(self.x, self.phase, kind, kv, self.comm[kind])
        return self.layer_prices[key]

    def stage(self, stage: int, kv: int) -> Price:
        layers = [(count, self.layer(kind, kv)) for kind, count in self.compositions[stage].items()]
        overhead = self.x.chip.pass_overhead if isinstance(self.x.chip, Roofline) else 0.0
        once = Price(seconds=overhead, overhead=overhead)
        return add_up([(1, once)] + [(1, extra) for extra in self.extras[stage]] + layers)

    def stages(self, kv: int) -> list[Price]:
        prices: list[Price] = []
        for stage, twin in enumerate(self.twins):
            prices.append(prices[twin] if twin < stage else self.stage(stage, kv))
        return prices


def slowest(stages: list[Price]) -> int:
    """The first of the slowest stages."""
    seconds = [stage.seconds for stage in stages]
    return seconds.index(max(seconds))


def phase_fields(p: Price) -> dict[str, Any]:
    operations, bound = (None if one is None else list(one.values()) for one in (p.operations, p.bound_operations))
    values = (
        p.compute, p.memory, p.memory_bound, sum(p.comm.values()), p.read_bytes, p.write_bytes, p.energy, p.overhead,
        operations, bound,
    )  # fmt: skip
    return dict(zip(PHASE_FIELDS, values, strict=True)) | {"comm": p.comm}


def one_pass(x: Point, phase: str, kv: int) -> dict[str, Any]:
    """A micro-batch's way through the pipeline."""
    pipeline = Pipeline(x, phase)
    stages = pipeline.stages(kv)
    bottleneck = slowest(stages)
    return {
        "latency": sum(stage.seconds for stage in stages) + (x.plan.pp - 1) * pipeline.transfer,
        "period": stages[bottleneck].seconds + pipeline.transfer,
        "transfer": pipeline.transfer,
        "bottleneck": bottleneck,
        **phase_fields(stages[bottleneck]),
    }


def sum_named(steps: list[dict[str, float] | None]) -> dict[str, float] | None:
    """Sum of values by name over all steps."""
    if steps[0] is None:
        return None
    return {name: math.fsum(step[name] for step in steps if step) for name in steps[0]}


def whole_decode(x: Point, reported_stage: int) -> dict[str, Any]:
    """All output tokens, one step after the other; details of one given stage."""
    pipeline = Pipeline(x, "decode")
    periods: list[float] = []
    reported: list[Price] = []
    for step in range(x.output_seq_len):
        stages = pipeline.stages(x.kv_len("decode", step))
        periods.append(stages[slowest(stages)].seconds + pipeline.transfer)
        reported.append(stages[reported_stage])
    total = Price(
        compute=math.fsum(p.compute for p in reported),
        memory=math.fsum(p.memory for p in reported),
        memory_bound=math.fsum(p.memory_bound for p in reported),
        read_bytes=math.fsum(p.read_bytes for p in reported),
        write_bytes=math.fsum(p.write_bytes for p in reported),
        energy=None if reported[0].energy is None else math.fsum(p.energy or 0.0 for p in reported),
        comm={name: math.fsum(p.comm[name] for p in reported) for name in reported[0].comm},
        overhead=math.fsum(p.overhead for p in reported),
        operations=sum_named([p.operations for p in reported]),
        bound_operations=sum_named([p.bound_operations for p in reported]),
    )
    return {"time": math.fsum(periods), **phase_fields(total)}


# --- footprint and warnings ------------------------------------------------------------------------------------------


def footprint(x: Point) -> tuple[float, float]:
    """Weight and KV bytes on a device of the fullest stage, the first of equals."""
    m, last = x.model, x.plan.pp - 1
    best: tuple[float, float] | None = None
    held_experts = m.experts // x.moe_scheme["ep"] if m.has_experts else 0
    tokens = ceil_div(x.input_seq_len + x.output_seq_len, x.plan.cp)
    for stage in range(x.plan.pp):
        elements = sum(shard.weights(x, layer, held_experts) for layer in stage_layers(x, stage))
        vocabularies = (stage == 0) + (stage == last)
        if last == 0 and m.tied:
            vocabularies = 1
        elements += vocabularies * x.vocabulary * m.hidden
        weights, kv = elements * x.precision["weight_bytes"], 0.0
        for layer in stage_layers(x, stage):
            kept = sum(shard.cache(x, layer.mixer)) * shard.held(layer.mixer, tokens)
            kv += x.sequences * (kept * x.precision["kv_write_bytes"] + 4 * shard.state(x, layer.mixer))
        if best is None or weights + kv > sum(best):
            best = (weights, kv)
    assert best is not None
    return best


def warnings_of(x: Point, batch_size: int, footprint_bytes: float) -> set[str]:
    m, plan, mem = x.model, x.plan, x.memory
    with_kv_heads = [mixer for mixer in m.mixers if mixer.has_kv_heads]
    conditions = {
        "idle_ranks": x.micro_batch < plan.dp * plan.ep,
        "batch_not_multiple_of_pp": batch_size % plan.pp != 0,
        "empty_stages": any(not stage_layers(x, stage) for stage in range(plan.pp)),
        "kv_heads_replicated": any(plan.tp > mixer.kv_heads for mixer in with_kv_heads),
        "does_not_fit": mem["capacity"] is not None and footprint_bytes > mem["capacity"],
        "buffering_limited": mem["buffering_limited"],
        "clock_scaled": mem["clock_scale"] != 1,
        "head_dim_mismatch": bool(with_kv_heads) and with_kv_heads[0].heads * with_kv_heads[0].key != m.hidden,
    }
    return {name for name, holds in conditions.items() if holds}
