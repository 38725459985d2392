"""One design point: a sweep of one point with a report around it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from deepstack_noc import uncharged_shares
from stacksweep.blocks import Problem
from stacksweep.evaluate import dataset, grid_of, price, problem_of
from stacksweep.kernels.rows import FIRST_KIND, STAGE_INDEX
from stacksweep.kernels.validity import REASONS, WARNINGS
from stacksweep.network import FREE
from stacksweep.parameters import PARALLEL, PARAMETERS, ParameterError, parameter
from stacksweep.plan import all_stages
from stacksweep.results import ALONG, Result, select
from stacksweep.space import Space


class InvalidPointError(ValueError):
    """A design point that cannot be; the message says why."""


@dataclass(frozen=True)
class Stage:
    """
    What a device of a pipeline stage does in a phase.

    Times are seconds, `collectives` those of each collective, in all layers of the stage; `dram_energy` is pJ and NaN
    where the memory profile has no coefficients. `operations` are the seconds of each operation of a roofline chip, and
    `memory_bound_operations` those in which DRAM takes longer than compute; other chips have none.
    """

    compute_time: float
    memory_time: float
    memory_bound_time: float
    comm_time: float
    read_bytes: float
    write_bytes: float
    dram_energy: float
    overhead_time: float
    collectives: Mapping[str, float]
    operations: Mapping[str, float]
    memory_bound_operations: Mapping[str, float]


@dataclass(frozen=True)
class StageReport:
    """One stage of the pipeline: its place, its layers, and what it does in prefill and in the first decode step."""

    index: int
    layers: int
    prefill_seconds: float
    first_decode_seconds: float
    prefill: Stage
    first_decode: Stage


@dataclass(frozen=True)
class Experts:
    """Load of the busiest expert-parallel rank in a phase."""

    imbalance: float
    pairs: float
    active_experts: float


@dataclass(frozen=True)
class Phase:
    """
    One phase: `seconds` in all, its slowest stage, and the expert load of a model with routed experts.

    `period` is what the slowest stage takes with its transfer, `transfer` that transfer, `bottleneck` the stage's
    index; of all decode steps they are those of the first.
    """

    seconds: float
    period: float
    transfer: float
    bottleneck: int
    stage: Stage
    experts: Experts | None


@dataclass(frozen=True)
class Estimate:
    """
    Prediction for one design point.

    Attributes carry the names and units of the results of `sweep`; `parameters` are the point itself, `warnings` the
    words of its warnings, `uncharged_share` the share of the network's route links that the link model leaves free.
    """

    parameters: Mapping[str, Any]
    ttft: float
    tps: float
    tps_per_sequence: float
    fits: bool
    weight_bytes: float
    kv_bytes: float
    capacity: float
    usable_bandwidth: float
    peak_bandwidth: float
    connectivity_efficiency: float
    clock_scale: float
    noc_energy_per_token: float
    dram_energy_per_token: float
    energy_per_token: float
    uncharged_share: float
    prefill: Phase
    first_decode: Phase
    decode: Phase
    stages: tuple[StageReport, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """
        Return the report as plain values.

        Returns
        -------
        dict
            Nested, JSON-able but for NaN.
        """
        return asdict(self)

    def table(self) -> str:
        """
        Lay the report out as text.

        Returns
        -------
        str
            Lines of at most 100 characters.
        """
        width = max(map(len, self.parameters))
        lines = [f"{name:<{width}} {value}" for name, value in self.parameters.items()]
        lines += ["", f"{'ttft':<26} {self.ttft:.6g} s", f"{'tps':<26} {self.tps:.6g} tokens/s"]
        lines += [f"{'tps_per_sequence':<26} {self.tps_per_sequence:.6g} tokens/s"]
        lines += [
            f"{name:<26} {value / 1e9:.6g} {unit}"
            for name, value, unit in (
                ("weight_bytes", self.weight_bytes, "GB"),
                ("kv_bytes", self.kv_bytes, "GB"),
                ("capacity", self.capacity, "GB"),
                ("peak_bandwidth", self.peak_bandwidth, "GB/s"),
                ("usable_bandwidth", self.usable_bandwidth, "GB/s"),
            )
        ]
        lines += [
            f"{'fits':<26} {'yes' if self.fits else 'no'}",
            f"{'connectivity_efficiency':<26} {self.connectivity_efficiency:.6g}",
            f"{'clock_scale':<26} {self.clock_scale:.6g}",
            f"{'energy_per_token':<26} {_known(self.energy_per_token, ' J')}",
            "",
            f"{'':<26} {'prefill':>14} {'first decode':>14} {'decode':>14}",
        ]
        phases = (self.prefill, self.first_decode, self.decode)
        rows = {"seconds": [phase.seconds for phase in phases]}
        for name in Stage.__dataclass_fields__:
            if name not in _NAMED and (name != "overhead_time" or self.prefill.stage.overhead_time):
                rows[name] = [getattr(phase.stage, name) for phase in phases]
        for name in self.prefill.stage.collectives:
            seconds = [phase.stage.collectives[name] for phase in phases]
            if any(seconds):
                rows[name] = seconds
        rows |= self._operations()
        if self.prefill.experts is not None:
            for name in Experts.__dataclass_fields__:
                rows[name] = [getattr(phase.experts, name) for phase in phases]
        lines += [
            f"{name:<26} " + " ".join(f"{_known(value):>14}" for value in values) for name, values in rows.items()
        ]
        if len(self.stages) > 1:
            lines += ["", f"{'stage':>5} {'layers':>6} {'prefill s':>14} {'first decode s':>14}"]
            for stage in self.stages:
                marks = " bottleneck of prefill" * (stage.index == self.prefill.bottleneck)
                marks += " bottleneck of decode" * (stage.index == self.first_decode.bottleneck)
                lines.append(
                    f"{stage.index:>5} {stage.layers:>6} {stage.prefill_seconds:>14.6g} "
                    f"{stage.first_decode_seconds:>14.6g}{marks}"
                )
        lines += [f"warning: {words}" for words in self.warnings]
        return "\n".join(lines)

    def _operations(self) -> dict[str, list[Any]]:
        """Seconds of each operation that takes any, marked where DRAM bounds it; none of chips that have none."""
        stages = [phase.stage for phase in (self.prefill, self.first_decode, self.decode)]
        rows = {}
        for name in self.prefill.stage.operations:
            seconds = [stage.operations[name] for stage in stages]
            if any(second > 0 for second in seconds):
                bound = [stage.memory_bound_operations[name] for stage in stages]
                rows[name] = [
                    f"{second:.6g} {_bound_by(second, memory)}" for second, memory in zip(seconds, bound, strict=True)
                ]
        return rows

    def __str__(self) -> str:
        """Lay the report out as text."""
        return self.table()


_NAMED = {"collectives": "collective_time", "operations": "operation_time"}
_NAMED |= {"memory_bound_operations": "operation_memory_bound_time"}
"""Fields of a `Stage` that have several values, and the results that give them."""


def _bound_by(seconds: float, memory_bound: float) -> str:
    """Say what bounds an operation: C(ompute), M(emory), both of them in turn, or - where it does not happen."""
    if seconds == 0.0:
        return "-"
    if memory_bound == 0.0:
        return "C"
    return "M" if memory_bound > 0.999999 * seconds else "CM"


def _known(value: float | str, unit: str = "") -> str:
    """Write a number; those that need coefficients a profile does not have are unknown."""
    if isinstance(value, str):
        return value
    return "unknown" if math.isnan(value) else f"{value:.6g}{unit}"


def estimate(**parameters: Any) -> Estimate:
    """Predict one design point, with a full report; what `sweep` masks is an error here."""
    for name, value in parameters.items():
        parameter(name)
        if isinstance(value, list | tuple | range) or getattr(value, "ndim", 0) > 0:
            raise ParameterError(f"{name}: got several values, and an estimate takes one; use sweep for arrays")
    results = select("all")
    grid, problem = problem_of(grid_of(parameters, None))
    point = dataset(grid, results, price(problem, results, np.dtype("float64")), {})
    reason = list(REASONS)[int(point.reason)]
    if reason != "valid":
        raise InvalidPointError(explain(reason, point, grid))
    values = {str(name): point[name].item() for name in point.data_vars if not ALONG.keys() & set(point[name].dims)}
    seconds = {"prefill": "prefill_latency", "first_decode": "first_decode_latency", "decode": "decode_time"}

    def phase(prefix: str) -> Phase:
        passing = "prefill" if prefix == "prefill" else "first_decode"
        experts = "prefill" if prefix == "prefill" else "decode"
        load = Experts(**{name: values[f"{experts}_{name}"] for name in Experts.__dataclass_fields__})
        return Phase(
            values[seconds[prefix]],
            values[f"{passing}_period"],
            values[f"{passing}_transfer"],
            values[f"{passing}_bottleneck"],
            _stage(point, prefix),
            load if load.pairs == load.pairs else None,
        )

    bits = int(point.warnings)
    return Estimate(
        parameters={
            known.name: point[known.coordinate].item() for known in PARAMETERS if known.coordinate in point.coords
        },
        **{name: values[name] for name in Estimate.__dataclass_fields__ if name in values and name != "warnings"},
        uncharged_share=_uncharged_share(grid),
        prefill=phase("prefill"),
        first_decode=phase("first_decode"),
        decode=phase("decode"),
        stages=tuple(_stage_reports(grid, problem, results)),
        warnings=tuple(words for bit, words in enumerate(WARNINGS.values()) if bits & (1 << bit)),
    )


def _uncharged_share(grid: Space) -> float:
    if "noc" not in grid.columns or grid.columns["link_model"].choices[0] != "deepstack":
        return 0.0
    return uncharged_shares(grid.columns["noc"].choices[0])[0] or 0.0


def _stage(point: xr.Dataset, prefix: str) -> Stage:
    fields: dict[str, Any] = {}
    for name in Stage.__dataclass_fields__:
        values = point[f"{prefix}_{_NAMED.get(name, name)}"]
        if name in _NAMED:
            labels, seconds = values[values.dims[0]].values.tolist(), values.values.tolist()
            fields[name] = dict(zip(labels, seconds, strict=True)) if not math.isnan(seconds[0]) else {}
        else:
            fields[name] = values.item()
    return Stage(**fields)


def _stage_reports(grid: Space, problem: Problem, results: Sequence[Result]) -> Iterator[StageReport]:
    """Price each stage of the pipeline as if it were the only one."""
    spec = grid.columns["model"].choices[0]
    plan = problem.fixed[2].copy()
    # without its transfer, from which its seconds could not be told when it is slow
    plan["stages_start"], plan["stages_stop"], plan["transfer"] = 0, 2, FREE
    for stage in all_stages(spec, int(plan["pp"][0])):
        single = replace(problem, fixed=(*problem.fixed[:2], plan, np.stack([stage, stage]), *problem.fixed[4:]))
        point = dataset(grid, results, price(single, results, np.dtype("float64")), {})
        yield StageReport(
            int(stage[STAGE_INDEX]),
            int(stage[FIRST_KIND:STAGE_INDEX].sum()),
            point.prefill_period.item(),
            point.first_decode_period.item(),
            _stage(point, "prefill"),
            _stage(point, "first_decode"),
        )


def explain(reason: str, point: xr.Dataset, grid: Space) -> str:
    """Say why a point cannot be, with its numbers."""
    spec = grid.columns["model"].choices[0]
    numbers = {str(name): point[name].item() for name in point.coords if name not in ALONG}
    numbers |= {
        "heads": " and ".join(map(str, spec.head_counts)),
        "kv_heads": " and ".join(map(str, spec.kv_head_counts)),
        "model_layers": spec.num_hidden_layers,
        "experts": spec.num_experts,
        "devices": grid.columns["noc"].choices[0].devices if "noc" in grid.columns else 1,
    }
    wanted = {
        "fill": (*(name for name in PARALLEL if name != grid.fill), "devices"),
        "world_size": (*PARALLEL, "devices"),
        "tp_heads": ("tp", "heads"),
        "tp_kv_heads": ("tp", "kv_heads"),
        "pp_layers": ("pp", "model_layers"),
        "cp_prompt": ("cp", "input_seq_len"),
        "cp_model": ("cp", "model"),
        "moe_ranks": ("tp", "ep", "experts"),
        "ep_experts": ("ep", "experts"),
        "ep_dense": ("ep", "model"),
        "connected_layers": ("connected_layers", "layers"),
        "thermal": ("memory", "layers", "design_power_w", "static_power_w"),
    }.get(reason, ())
    if reason == "routing_trace":
        micro_batch = -(-numbers["batch_size"] // numbers["pp"])
        return (
            f"{reason}: the trace {numbers['routing']!r} has {grid.columns['routing'].choices[0].words()}; "
            f"{spec.name} has {spec.num_experts} experts and takes {spec.experts_per_token}, and the load may read "
            f"{micro_batch * numbers['input_seq_len']} rows in prefill and {micro_batch} in decode; "
            "give a trace of this model that is long enough, or balanced or random routing"
        )
    given = ", ".join(f"{name}={numbers[name]}" for name in wanted if name in numbers)
    return f"{reason}: {REASONS[reason]} ({given})"
