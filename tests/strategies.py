"""Random design points as arguments of `reference.evaluate`, and the comparison of a sweep with it."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr
from hypothesis import strategies as st

from reference.golden import agrees
from stacksweep.kernels.validity import REASONS, WARNINGS

Case = dict[str, Any]
"""Keyword arguments of `reference.evaluate`, all but the plan."""

WIDTHS = (0.3, 0.1, 0.53125, 1.0, 1.125, 2.0, 4.0, 0.7)
"""Bytes per element; 0.1, 0.3 and 0.7 are no multiples of any power of two."""

# No two of these have a simple ratio, so that memory and compute time never tie but by chance.
ODD_HERTZ = st.integers(1, 2000).map(lambda n: n * 1234567.8912345)
ODD_PEAKS = st.floats(8, 15).map(lambda power: 1.2345678 * 10**power)
ODD_BANDWIDTHS = st.integers(1, 4000).map(lambda n: n * 987654321.123457 * math.pi / 10)


@st.composite
def models(draw: st.DrawFn, layers: int = 5) -> dict[str, Any]:
    """Small models of odd shapes: dense or with experts, full or sliding attention, mixed layer by layer."""
    kv_heads = draw(st.integers(1, 6))
    heads = kv_heads * draw(st.integers(1, 7))
    head_dim = draw(st.sampled_from([1, 3, 16, 40, 64, 128]))
    count = draw(st.integers(1, layers))
    hidden = draw(st.one_of(st.just(heads * head_dim), st.integers(1, 3000)))
    config: dict[str, Any] = {
        "name": draw(st.sampled_from(["one", "two", "three"])),
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "num_hidden_layers": count,
        "intermediate_size": draw(st.integers(1, 5000)),
        "vocab_size": draw(st.integers(1, 40000)),
        "tie_word_embeddings": draw(st.booleans()),
    }
    if draw(st.booleans()):
        experts = draw(st.integers(2, 20))
        config |= {
            "num_experts": experts,
            "num_experts_per_tok": draw(st.integers(1, experts)),
            "moe_intermediate_size": draw(st.integers(1, 900)),
        }
        if draw(st.booleans()):
            config["mlp_types"] = draw(st.lists(st.sampled_from(["ffn", "moe"]), min_size=count, max_size=count))
    if draw(st.booleans()):
        kinds = ["full_attention", "sliding_attention"]
        config["sliding_window"] = draw(st.one_of(st.integers(1, 40), st.integers(1, 3000)))
        config["layer_types"] = draw(st.lists(st.sampled_from(kinds), min_size=count, max_size=count))
    return config


@st.composite
def chips(draw: st.DrawFn) -> dict[str, Any]:
    """Chips from one element to thousands wide."""
    blen = draw(st.sampled_from([1, 2, 3, 8, 17, 64, 128]))
    mlen = blen * draw(st.integers(1, 16))
    cycles = ("VECTOR_BASIC", "VECTOR_ADD", "VECTOR_MUL", "VECTOR_EXP", "VECTOR_MAX")
    scalar_cycles = ("SCALAR_FP_BASIC", "SCALAR_FP_EXP", "SCALAR_FP_RECI")
    return {
        "name": draw(st.sampled_from(["narrow", "wide", "odd"])),
        "MLEN": mlen,
        "BLEN": blen,
        "VLEN": blen + draw(st.sampled_from([0, 1, 5, 100, 2000])),
        "HLEN": draw(st.integers(1, mlen)),
        "VECTOR_SRAM_SIZE": draw(st.sampled_from([1, 16, 1000, 65536])),
        "HBM_V_Prefetch_Amount": draw(st.integers(1, 20)),
        **{f"{name}_CYCLES": draw(st.integers(1, 9)) for name in cycles + scalar_cycles},
    }


@st.composite
def roofline_chips(draw: st.DrawFn) -> dict[str, Any]:
    """Chips given by their peaks, fast and slow against any memory."""
    peaks = {str(bits): draw(ODD_PEAKS) for bits in (4, 8, 16) if draw(st.booleans())}
    return {
        "name": draw(st.sampled_from(["flat", "steep", "ridge"])),
        "kind": "roofline",
        "peak_flops": peaks | {"32": draw(ODD_PEAKS)},
        "compute_efficiency": draw(st.sampled_from([1, 0.71])),
        "memory_efficiency": draw(st.sampled_from([1, 0.83])),
        "operation_overhead": draw(st.sampled_from([0, 2.3e-6])),
        "layer_overhead": draw(st.sampled_from([0, 3.7e-6, 1e-3])),
        "pass_overhead": draw(st.sampled_from([0, 1.3e-5])),
        "activation_cache": draw(st.sampled_from([0, 10**4, 10**6])),
    }


@st.composite
def memories(draw: st.DrawFn) -> dict[str, Any]:
    """Stacks in all their forms, some that cannot be cooled, and memories of fixed bandwidth."""
    energy = {"energy": {"read_pj_per_bit": draw(st.sampled_from([0, 2.47, 0.3])), "write_pj_per_bit": 2.71}}
    common = {"schema_version": 1, "name": draw(st.sampled_from(["here", "there", "elsewhere"]))}
    common |= energy if draw(st.booleans()) else {}
    transaction = draw(st.sampled_from([1, 7, 32, 96, 256]))
    if draw(st.booleans()):
        fixed = {
            "kind": "fixed_bandwidth",
            "bandwidth_bytes_per_s": draw(ODD_BANDWIDTHS),
            "capacity_bytes": draw(st.sampled_from([None, 10**6, 10**9, 10**12])),
        }
        return common | fixed | ({"transaction_bytes": transaction} if draw(st.booleans()) else {})
    layers = draw(st.integers(1, 16))
    dram: dict[str, Any] = {
        "total_layers": layers,
        "connected_layers": draw(st.integers(1, layers)),
        "channels_per_connected_layer": draw(st.integers(1, 40)),
        "capacity_per_layer_bytes": draw(st.sampled_from([10**5, 123456789, 10**10])),
        "transaction_bytes": transaction,
        "apply_wave_quantization": draw(st.booleans()),
    }
    if draw(st.booleans()):
        dram["direct_peak_bandwidth_per_connected_layer_bytes_per_s"] = draw(ODD_BANDWIDTHS)
    else:
        dram["bytes_per_channel_transfer"] = draw(st.sampled_from([0.37, 5.5, 32]))
        dram["transfers_per_memory_clock"] = draw(st.sampled_from([1.25, 2]))
        dram["memory_frequency_hz"] = draw(ODD_HERTZ)
    bank = draw(st.booleans())
    if bank:
        dram["bank_timing"] = {
            "row_bytes": 74 * draw(st.integers(1, 60)),
            "sector_bytes": 74,
            "sector_cycles": draw(st.sampled_from([0.5, 3])),
            "recharge_cycles": draw(st.sampled_from([0, 41])),
            "round_trip_latency_cycles": 137.5,
            "latency_clock_hz": 654321987,
        }
    else:
        dram["fully_connected_efficiency"] = draw(st.sampled_from([0.1, 0.83, 1]))
    stack = {"kind": "stacked_dram", "dram": dram}
    if draw(st.booleans()):
        own = not bank or draw(st.booleans())
        latency = {"round_trip_latency_cycles": 71.5, "round_trip_latency_clock_hz": 456789123}
        stack["buffering"] = {
            "requesters": draw(st.integers(1, 9)),
            "buffer_bytes_per_requester": draw(st.sampled_from([100, 54321, 10**8])),
            "buffering_factor": 1.75,
            **(latency if own else {}),
        }
    if draw(st.booleans()):
        stack["thermal"] = {
            "resistance_base_c_per_w": 0.42,
            "resistance_per_layer_c_per_w": draw(st.sampled_from([0, 0.007, 0.3])),
            "baseline_layers": draw(st.integers(0, 16)),
            "design_power_w": 73,
            "static_power_w": draw(st.sampled_from([0, 8, 65.5])),
            "dynamic_power_exponent": draw(st.sampled_from([1, 2.5])),
        }
    return common | stack


@st.composite
def cases(
    draw: st.DrawFn,
    output: int = 40,
    prompt: int = 5000,
    chip: st.SearchStrategy[dict[str, Any]] | None = None,
    overlaps: tuple[str, ...] = ("stage-roofline", "serial"),
) -> Case:
    """Whole design points of one device."""
    widths = ("weight_bytes", "kv_read_bytes", "kv_write_bytes", "activation_bytes")
    return {
        "model": draw(models()),
        "chip": draw(chips() if chip is None else chip),
        "precision": {name: draw(st.sampled_from(WIDTHS)) for name in widths},
        "memory": draw(memories()),
        "batch_size": draw(st.integers(1, 40)),
        "input_seq_len": draw(st.one_of(st.integers(1, 60), st.integers(1, prompt))),
        "output_seq_len": draw(st.integers(1, output)),
        "frequency_hz": draw(ODD_HERTZ),
        "overlap": draw(st.sampled_from(overlaps)),
        "routing": draw(st.sampled_from(["balanced", "random", "expected"])),
        "include_lm_head": draw(st.booleans()),
    }


def keywords(case: Case) -> dict[str, Any]:
    """A case as arguments of `sweep` and `estimate`."""
    given = {name: value for name, value in case.items() if name != "precision"} | case["precision"]
    if isinstance(case["chip"], dict) and case["chip"].get("kind") == "roofline":
        given["chip"] = case["precision"] | case["chip"]
        given.pop("frequency_hz", None)
    return given


def point_values(dataset: xr.Dataset, **where: int) -> dict[str, Any]:
    """Results of one point of a sweep as plain values, in the terms of the reference."""
    values: dict[str, Any] = {}
    for name, variable in dataset.data_vars.items():
        here = variable.variable.isel({dim: at for dim, at in where.items() if dim in variable.dims}).values
        values[str(name)] = here.item() if here.ndim == 0 else here.tolist()
    bits = values.pop("warnings", 0)
    values["warnings"] = {name for bit, name in enumerate(WARNINGS) if bits & (1 << bit)}
    values["reason"] = list(REASONS)[values["reason"]]
    return values


def wrong(got: dict[str, Any], expected: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Name -> (got, expected) of every result of a sweep that is not what the reference says."""
    return dict(_wrong(got, expected))


def _wrong(got: dict[str, Any], expected: dict[str, Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    reason = expected["reason"] or "valid"
    if got["reason"] != reason or got["valid"] != (reason == "valid"):
        yield "reason", (got["reason"], reason)
        return
    for name, value in got.items():
        if name in ("reason", "valid"):
            continue
        if reason != "valid":
            if not _masked(value):
                yield name, (value, "masked")
        elif name == "warnings":
            if value != expected[name]:
                yield name, (value, expected[name])
        elif name in expected and not _agrees(name, value, expected[name]):
            yield name, (value, expected[name])


def _masked(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_masked, value))
    return value in (False, -1, set()) or (isinstance(value, float) and math.isnan(value))


def _agrees(name: str, got: Any, expected: Any) -> bool:
    if expected is None and isinstance(got, list):
        return all(map(math.isnan, got))
    if expected is None:
        # unknown capacity: everything fits; peak and efficiency of a fixed bandwidth are the bandwidth and 1
        return name in ("fits", "peak_bandwidth", "connectivity_efficiency") or math.isnan(got)
    if isinstance(expected, list):
        return len(got) == len(expected) and all(map(agrees, got, expected))
    if isinstance(expected, float | int) and not isinstance(expected, bool):
        return agrees(float(got), float(expected))
    return bool(got == expected)


def bitwise_equal(one: xr.Dataset, other: xr.Dataset) -> bool:
    """Whether two sweeps have the same variables, bit for bit."""
    return set(one.data_vars) == set(other.data_vars) and all(
        one[name].dims == other[name].dims
        and one[name].dtype == other[name].dtype
        and np.array_equal(one[name].values, other[name].values, equal_nan=one[name].dtype.kind == "f")
        for name in one.data_vars
    )


MIXED_GRID = {
    "model": ["llama-3.2-1b", "gpt-oss-20b"],
    "memory": "fictional_stacked_dram",
    "noc": "gpu_cluster_32",
    "layers": [2, 3, 8],
    "connected_layers": [2, 4],
    "tp": [1, 2, 4],
    "dp": "fill",
    "batch_size": [1, 5, 16, 64, 65],
    "routing": ["balanced", "random"],
    "input_seq_len": [64, 500],
    "output_seq_len": 40,
}
"""Models, plans, stacks and loads together; some of the points cannot be."""
