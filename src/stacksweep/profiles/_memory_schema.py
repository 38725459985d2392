"""Schemas of the two kinds of memory profile."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, model_validator

from stacksweep.profiles._validation import (
    Flag,
    Fraction,
    NaturalInteger,
    NaturalNumber,
    PositiveInteger,
    PositiveNumber,
    Strict,
    broken_rule,
    validated,
)
from stacksweep.profiles.source import Document

_COMPOSED_PEAK = ("bytes_per_channel_transfer", "transfers_per_memory_clock", "memory_frequency_hz")
_DIRECT_PEAK = "direct_peak_bandwidth_per_connected_layer_bytes_per_s"


class _Energy(Strict):
    read_pj_per_bit: NaturalNumber
    write_pj_per_bit: NaturalNumber


class _BankTiming(Strict):
    row_bytes: PositiveInteger
    sector_bytes: PositiveInteger
    sector_cycles: PositiveNumber
    recharge_cycles: NaturalNumber
    round_trip_latency_cycles: NaturalNumber
    latency_clock_hz: PositiveNumber

    @model_validator(mode="after")
    def _whole_sectors(self) -> Self:
        if self.row_bytes % self.sector_bytes:
            raise broken_rule("row_bytes", self.row_bytes, f"a multiple of sector_bytes ({self.sector_bytes})")
        return self


class _Dram(Strict):
    total_layers: PositiveInteger
    connected_layers: PositiveInteger
    channels_per_connected_layer: PositiveInteger
    capacity_per_layer_bytes: PositiveInteger
    transaction_bytes: PositiveInteger
    apply_wave_quantization: Flag
    bytes_per_channel_transfer: PositiveNumber | None = None
    transfers_per_memory_clock: PositiveNumber | None = None
    memory_frequency_hz: PositiveNumber | None = None
    direct_peak_bandwidth_per_connected_layer_bytes_per_s: PositiveNumber | None = None
    fully_connected_efficiency: Fraction | None = None
    bank_timing: _BankTiming | None = None

    @model_validator(mode="after")
    def _no_more_connected_than_there_are(self) -> Self:
        if self.connected_layers > self.total_layers:
            needs = f"an integer of at most total_layers ({self.total_layers})"
            raise broken_rule("connected_layers", self.connected_layers, needs)
        return self

    @model_validator(mode="after")
    def _one_form_of_peak(self) -> Self:
        absent = [name for name in _COMPOSED_PEAK if getattr(self, name) is None]
        direct = self.direct_peak_bandwidth_per_connected_layer_bytes_per_s
        if direct is not None and len(absent) < len(_COMPOSED_PEAK):
            raise broken_rule(_DIRECT_PEAK, direct, f"to be left out beside {_listed(absent, but=_COMPOSED_PEAK)}")
        if direct is None and absent:
            needs = f"a finite number above 0 (all of {', '.join(_COMPOSED_PEAK)}, or {_DIRECT_PEAK} alone)"
            raise broken_rule(absent[0], None, needs)
        return self

    @model_validator(mode="after")
    def _one_form_of_efficiency(self) -> Self:
        given = self.fully_connected_efficiency
        if given is not None and self.bank_timing is not None:
            raise broken_rule("fully_connected_efficiency", given, "to be left out beside bank_timing")
        if given is None and self.bank_timing is None:
            needs = "a number above 0 and at most 1 (or bank_timing in its place)"
            raise broken_rule("fully_connected_efficiency", None, needs)
        return self


class _Buffering(Strict):
    requesters: PositiveInteger
    buffer_bytes_per_requester: PositiveInteger
    buffering_factor: PositiveNumber
    round_trip_latency_cycles: NaturalNumber | None = None
    round_trip_latency_clock_hz: PositiveNumber | None = None

    @model_validator(mode="after")
    def _latency_with_its_clock(self) -> Self:
        cycles, clock = self.round_trip_latency_cycles, self.round_trip_latency_clock_hz
        if (cycles is None) != (clock is None):
            absent, present = "round_trip_latency_cycles", "round_trip_latency_clock_hz"
            if clock is None:
                absent, present = present, absent
            raise broken_rule(absent, None, f"a finite number, as {present} is given")
        return self


class _Thermal(Strict):
    resistance_base_c_per_w: PositiveNumber
    resistance_per_layer_c_per_w: NaturalNumber
    baseline_layers: NaturalInteger
    design_power_w: PositiveNumber
    static_power_w: NaturalNumber
    dynamic_power_exponent: PositiveNumber

    @model_validator(mode="after")
    def _power_left_to_scale(self) -> Self:
        if self.static_power_w >= self.design_power_w:
            needs = f"a number of at least 0 and below design_power_w ({self.design_power_w:g})"
            raise broken_rule("static_power_w", self.static_power_w, needs)
        return self


class _StackedDram(Strict):
    schema_version: int = Field(strict=True, ge=1, le=1, description="1")
    kind: str
    dram: _Dram
    buffering: _Buffering | None = None
    thermal: _Thermal | None = None
    energy: _Energy | None = None

    @model_validator(mode="after")
    def _latency_known(self) -> Self:
        buffering = self.buffering
        if buffering and buffering.round_trip_latency_cycles is None and self.dram.bank_timing is None:
            needs = "a finite number of at least 0, with round_trip_latency_clock_hz (or dram.bank_timing)"
            raise broken_rule("buffering.round_trip_latency_cycles", None, needs)
        return self


class _FixedBandwidth(Strict):
    schema_version: int = Field(strict=True, ge=1, le=1, description="1")
    kind: str
    bandwidth_bytes_per_s: PositiveNumber
    capacity_bytes: PositiveInteger | None = Field(description="an integer above 0, or null")
    transaction_bytes: PositiveInteger | None = None
    energy: _Energy | None = None


def _listed(absent: list[str], but: tuple[str, ...]) -> str:
    return ", ".join(name for name in but if name not in absent)


def checked_memory(document: Document, kind: str) -> dict[str, Any]:
    """Check a memory profile of a known kind; return its content with None for what is not given.

    Raises
    ------
    ProfileError
        One line on the first entry that breaks a rule.
    """
    schema = _StackedDram if kind == "stacked_dram" else _FixedBandwidth
    return validated(schema, document, document.data).model_dump()
