"""One design point: a sweep of one point with a report around it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import xarray as xr

from stacksweep.evaluate import sweep
from stacksweep.kernels.validity import REASONS, WARNINGS
from stacksweep.parameters import ParameterError, parameter


class InvalidPointError(ValueError):
    """A design point that cannot be; the message says why."""


@dataclass(frozen=True)
class Stage:
    """
    What the slowest pipeline stage does in a phase, on one device.

    Times are seconds, `dram_energy` is pJ and NaN where the memory profile has no coefficients.
    """

    compute_time: float
    memory_time: float
    memory_bound_time: float
    read_bytes: float
    write_bytes: float
    dram_energy: float


@dataclass(frozen=True)
class Experts:
    """Load of the busiest expert-parallel rank in a phase."""

    imbalance: float
    pairs: float
    active_experts: float


@dataclass(frozen=True)
class Phase:
    """One phase: `seconds` in all, the slowest stage, and the expert load of a model with routed experts."""

    seconds: float
    stage: Stage
    experts: Experts | None


@dataclass(frozen=True)
class Estimate:
    """
    Prediction for one design point.

    Attributes carry the names and units of the results of `sweep`; `parameters` are the point itself, `warnings` the
    words of its warnings.
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
    prefill: Phase
    first_decode: Phase
    decode: Phase
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
        lines = [f"{name:<26} {value}" for name, value in self.parameters.items()]
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
            "",
            f"{'':<26} {'prefill':>14} {'first decode':>14} {'decode':>14}",
        ]
        phases = (self.prefill, self.first_decode, self.decode)
        rows = {"seconds": [phase.seconds for phase in phases]}
        for name in Stage.__dataclass_fields__:
            rows[name] = [getattr(phase.stage, name) for phase in phases]
        if self.prefill.experts is not None:
            for name in Experts.__dataclass_fields__:
                rows[name] = [getattr(phase.experts, name) for phase in phases]
        lines += [f"{name:<26} " + " ".join(f"{value:>14.6g}" for value in values) for name, values in rows.items()]
        lines += [f"warning: {words}" for words in self.warnings]
        return "\n".join(lines)

    def __str__(self) -> str:
        """Lay the report out as text."""
        return self.table()


def estimate(**parameters: Any) -> Estimate:
    """Predict one design point, with a full report; what `sweep` masks is an error here."""
    for name, value in parameters.items():
        parameter(name)
        if isinstance(value, list | tuple | range) or getattr(value, "ndim", 0) > 0:
            raise ParameterError(f"{name}: got several values, and an estimate takes one; use sweep for arrays")
    point = sweep(outputs="all", **parameters)
    reason = list(REASONS)[int(point.reason)]
    if reason != "valid":
        raise InvalidPointError(explain(reason, point))
    bits = int(point.warnings)
    values = {name: point[name].item() for name in point.data_vars}

    def phase(prefix: str, seconds: str, experts: str) -> Phase:
        stage = Stage(**{name: values[f"{prefix}_{name}"] for name in Stage.__dataclass_fields__})
        load = Experts(**{name: values[f"{experts}_{name}"] for name in Experts.__dataclass_fields__})
        return Phase(values[seconds], stage, load if load.pairs == load.pairs else None)

    return Estimate(
        parameters={str(name): point[name].item() for name in point.coords},
        **{name: values[name] for name in Estimate.__dataclass_fields__ if name in values and name != "warnings"},
        prefill=phase("prefill", "prefill_latency", "prefill"),
        first_decode=phase("first_decode", "first_decode_latency", "decode"),
        decode=phase("decode", "decode_time", "decode"),
        warnings=tuple(words for bit, words in enumerate(WARNINGS.values()) if bits & (1 << bit)),
    )


def explain(reason: str, point: xr.Dataset) -> str:
    """Say why a point cannot be, with its numbers."""
    names = {
        "connected_layers": ("connected_layers", "layers"),
        "thermal": ("layers", "design_power_w", "static_power_w"),
    }.get(reason, ())
    given = ", ".join(f"{name}={point[name].item():g}" for name in names if name in point.coords)
    return f"{reason}: {REASONS[reason]}" + (f" ({given})" if given else "")
