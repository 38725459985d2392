"""Memory profiles: a stack of DRAM layers, or a memory of fixed bandwidth."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stacksweep.profiles.base import Provenance
from stacksweep.profiles.source import Document, read_document

KINDS = ("stacked_dram", "fixed_bandwidth")

_ENERGY = ("read_pj_per_bit", "write_pj_per_bit")

_STACK_TABLES: dict[tuple[str, ...], tuple[str, ...]] = {
    ("dram",): (
        "total_layers",
        "connected_layers",
        "channels_per_connected_layer",
        "capacity_per_layer_bytes",
        "transaction_bytes",
        "bytes_per_channel_transfer",
        "transfers_per_memory_clock",
        "memory_frequency_hz",
        "direct_peak_bandwidth_per_connected_layer_bytes_per_s",
        "fully_connected_efficiency",
    ),
    ("dram", "bank_timing"): (
        "row_bytes",
        "sector_bytes",
        "sector_cycles",
        "recharge_cycles",
        "round_trip_latency_cycles",
        "latency_clock_hz",
    ),
    ("buffering",): (
        "requesters",
        "buffer_bytes_per_requester",
        "buffering_factor",
        "round_trip_latency_cycles",
        "round_trip_latency_clock_hz",
    ),
    ("thermal",): (
        "resistance_base_c_per_w",
        "resistance_per_layer_c_per_w",
        "baseline_layers",
        "design_power_w",
        "static_power_w",
        "dynamic_power_exponent",
    ),
    ("energy",): _ENERGY,
}
_FIXED_TABLES: dict[tuple[str, ...], tuple[str, ...]] = {
    (): ("bandwidth_bytes_per_s", "capacity_bytes", "transaction_bytes"),
    ("energy",): _ENERGY,
}

# Numbers whose sweep parameter has another name than their entry in the file.
_RENAMED: dict[tuple[str, ...], str] = {
    ("dram", "total_layers"): "layers",
    ("buffering", "round_trip_latency_cycles"): "buffer_round_trip_latency_cycles",
    ("buffering", "round_trip_latency_clock_hz"): "buffer_round_trip_latency_clock_hz",
}


def _places(tables: dict[tuple[str, ...], tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Place in the file -> name of the number, which is also the name of the sweep parameter that overrides it."""
    return {(*table, key): _RENAMED.get((*table, key), key) for table, keys in tables.items() for key in keys}


_NUMBERS = {"stacked_dram": _places(_STACK_TABLES), "fixed_bandwidth": _places(_FIXED_TABLES)}


@dataclass(frozen=True)
class MemoryProfile:
    """The memory of one chip.

    Attributes
    ----------
    name : str
        Name of the profile.
    kind : {"stacked_dram", "fixed_bandwidth"}
        Which formulas apply.
    numbers : Mapping
        The numbers that the profile gives, by the name of the sweep parameter that overrides them; SI units, as the
        names say. `layers` is `total_layers` of the file. The latency given under `buffering` has names of its own,
        `buffer_round_trip_latency_cycles` and `buffer_round_trip_latency_clock_hz`.
    wave_quantization : bool
        Whether every transfer is rounded up to whole waves.
    provenance : Provenance
        File, hash and notes; not part of equality.
    """

    name: str
    kind: str
    numbers: Mapping[str, float | int] = field(hash=False)
    wave_quantization: bool
    provenance: Provenance = field(compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the profile in the layout of its file; loading it gives an equal profile."""
        document: dict[str, Any] = {"schema_version": 1, "kind": self.kind, "name": self.name}
        if self.kind == "fixed_bandwidth":
            document["capacity_bytes"] = None
        for place, name in _NUMBERS[self.kind].items():
            if name in self.numbers:
                _put(document, place, self.numbers[name])
        if self.kind == "stacked_dram":
            document["dram"]["apply_wave_quantization"] = self.wave_quantization
        if self.provenance.notes:
            document["provenance"] = dict(self.provenance.notes)
        return document


def load_memory(source: str | os.PathLike[str] | Mapping[str, Any] | MemoryProfile) -> MemoryProfile:
    """Load a memory profile.

    Parameters
    ----------
    source : str, path, Mapping or MemoryProfile
        A bundled name, the path of a JSON file, content in its layout, or a profile (returned as it is).

    Returns
    -------
    MemoryProfile
        The checked profile.

    Raises
    ------
    ProfileError
        If the profile cannot be read or breaks a rule.
    """
    if isinstance(source, MemoryProfile):
        return source
    document = read_document(source, "memory profile", "memory")
    kind = document.data.get("kind")
    if kind is None:
        document.missing("kind", f"one of {', '.join(KINDS)}")
    if kind not in KINDS:
        document.fail("kind", kind, f"one of {', '.join(KINDS)}")
    return _profile(document, kind)


def _profile(document: Document, kind: str) -> MemoryProfile:
    from stacksweep.profiles._memory_schema import checked_memory

    data = checked_memory(document, kind)
    found = {name: _get(data, place) for place, name in _NUMBERS[kind].items()}
    return MemoryProfile(
        name=document.name,
        kind=kind,
        numbers={name: number for name, number in found.items() if number is not None},
        wave_quantization=data["dram"]["apply_wave_quantization"] if kind == "stacked_dram" else False,
        provenance=document.provenance,
    )


def _get(table: Any, place: tuple[str, ...]) -> Any:
    for key in place:
        table = table.get(key) if table is not None else None
    return table


def _put(table: dict[str, Any], place: tuple[str, ...], value: float | int) -> None:
    for key in place[:-1]:
        table = table.setdefault(key, {})
    table[place[-1]] = value
