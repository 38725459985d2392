"""The memory of one chip: bandwidth, derating, capacity, rounding and energy."""

import math
from typing import Any


def memory_of(profile: dict[str, Any]) -> dict[str, Any]:
    """Everything that follows from a memory profile alone.

    ``reason`` is ``connected_layers`` or ``thermal`` when the stack cannot be, and then the only entry that counts.
    Entries that a kind of memory does not have are None. ``rounding_bytes`` is what a transfer is rounded up to.
    """
    facts = _fixed(profile) if profile["kind"] == "fixed_bandwidth" else _stacked(profile)
    energy = profile.get("energy") or {}
    facts["read_pj_per_bit"] = energy.get("read_pj_per_bit")
    facts["write_pj_per_bit"] = energy.get("write_pj_per_bit")
    return facts


def rounded(nbytes: float, memory: dict[str, Any]) -> float:
    unit = memory["rounding_bytes"]
    return nbytes if unit is None else math.ceil(nbytes / unit) * unit


def access_energy(read_bytes: float, write_bytes: float, memory: dict[str, Any]) -> float | None:
    if memory["read_pj_per_bit"] is None:
        return None
    return 8.0 * float(read_bytes * memory["read_pj_per_bit"] + write_bytes * memory["write_pj_per_bit"])


def _fixed(profile: dict[str, Any]) -> dict[str, Any]:
    return {
        "reason": None,
        "peak_bandwidth": None,
        "connectivity_efficiency": None,
        "effective_bandwidth": None,
        "usable_bandwidth": profile["bandwidth_bytes_per_s"],
        "buffering_limited": False,
        "round_trip_latency": None,
        "buffer_needed": None,
        "capacity": profile["capacity_bytes"],
        "wave_bytes": None,
        "rounding_bytes": profile.get("transaction_bytes"),
        "clock_scale": 1.0,
    }


def _stacked(profile: dict[str, Any]) -> dict[str, Any]:
    dram = profile["dram"]
    layers, connected = dram["total_layers"], dram["connected_layers"]
    wave = dram["transaction_bytes"] * dram["channels_per_connected_layer"]
    clock_scale = _clock_scale(layers, profile.get("thermal"))
    reason = None
    if connected > layers:
        reason = "connected_layers"
    elif clock_scale is None:
        reason = "thermal"

    peak = _peak_bandwidth(dram)
    eta = _connectivity_efficiency(layers, connected, _full_efficiency(dram))
    effective = peak * eta

    usable, limited, latency, needed = effective, False, None, None
    buffering = profile.get("buffering")
    if buffering is not None:
        latency = _round_trip_latency(buffering, dram)
        needed = effective / buffering["requesters"] * latency * buffering["buffering_factor"]
        limited = buffering["buffer_bytes_per_requester"] < needed
        if limited:
            usable = effective * buffering["buffer_bytes_per_requester"] / needed

    return {
        "reason": reason,
        "peak_bandwidth": peak,
        "connectivity_efficiency": eta,
        "effective_bandwidth": effective,
        "usable_bandwidth": usable,
        "buffering_limited": limited,
        "round_trip_latency": latency,
        "buffer_needed": needed,
        "capacity": layers * dram["capacity_per_layer_bytes"],
        "wave_bytes": wave,
        "rounding_bytes": wave if dram["apply_wave_quantization"] else None,
        "clock_scale": clock_scale,
    }


def _peak_bandwidth(dram: dict[str, Any]) -> float:
    connected = dram["connected_layers"]
    direct = dram.get("direct_peak_bandwidth_per_connected_layer_bytes_per_s")
    if direct is not None:
        return float(connected * direct)
    channels = connected * dram["channels_per_connected_layer"]
    per_clock = dram["bytes_per_channel_transfer"] * dram["transfers_per_memory_clock"]
    return float(channels * per_clock * dram["memory_frequency_hz"])


def _full_efficiency(dram: dict[str, Any]) -> float:
    """Efficiency of a stack with every layer connected."""
    if dram.get("fully_connected_efficiency") is not None:
        return float(dram["fully_connected_efficiency"])
    bank = dram["bank_timing"]
    row_read = bank["row_bytes"] / bank["sector_bytes"] * bank["sector_cycles"]
    return float(row_read / (row_read + bank["recharge_cycles"]))


def _connectivity_efficiency(layers: int, connected: int, full: float) -> float:
    half = layers / 2
    if connected <= half:
        return 1.0
    if connected >= layers:
        return full
    return 1.0 + (connected - half) / (layers - half) * (full - 1.0)


def _round_trip_latency(buffering: dict[str, Any], dram: dict[str, Any]) -> float:
    if buffering.get("round_trip_latency_cycles") is not None:
        return float(buffering["round_trip_latency_cycles"] / buffering["round_trip_latency_clock_hz"])
    bank = dram["bank_timing"]
    return float(bank["round_trip_latency_cycles"] / bank["latency_clock_hz"])


def _clock_scale(layers: int, thermal: dict[str, Any] | None) -> float | None:
    """Factor on the compute clock, None when the power budget leaves no clock at all."""
    if thermal is None:
        return 1.0
    base, per_layer = thermal["resistance_base_c_per_w"], thermal["resistance_per_layer_c_per_w"]
    design, static = thermal["design_power_w"], thermal["static_power_w"]
    allowed = design * (base + per_layer * thermal["baseline_layers"]) / (base + per_layer * layers)
    if allowed <= static:
        return None
    return float(((allowed - static) / (design - static)) ** (1.0 / thermal["dynamic_power_exponent"]))
