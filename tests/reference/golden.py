"""The reference values that the tests compare with, under the names of the results."""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "data" / "golden"
TOLERANCE = 1e-12

PHASES = (("prefill", "prefill"), ("first_decode", "first_token_decode"))
PHASE_NAMES = {
    "compute_time": "compute_seconds",
    "memory_time": "memory_seconds",
    "memory_bound_time": "memory_bound_seconds",
    "read_bytes": "read_bytes",
    "write_bytes": "write_bytes",
    "dram_energy": "dram_energy_pj",
}
WARNINGS = {
    "idle_ranks": "data-parallel ranks idle",
    "batch_not_multiple_of_pp": "is not a multiple of pp",
    "empty_stages": "leave pipeline stages empty",
    "kv_heads_replicated": "KV heads are replicated",
    "does_not_fit": "a device of the fullest stage holds",
    "buffering_limited": "buffering limits usable bandwidth",
    "clock_scaled": "thermal policy scales the compute clock",
    "head_dim_mismatch": "differs from hidden_size",
}
REASONS = {
    "world_size": "the plan uses",
    "tp_heads": "attention heads",
    "pp_layers": "pp=",
    "cp_prompt": "-token prompt",
    "cp_model": "context parallelism is modelled for",
    "ep_experts": "experts do not split evenly",
    "ep_dense": "ep > 1 needs a model with MoE layers",
}


@cache
def cases(name: str) -> Any:
    """Content of one file: a list of cases, or the mapping of model names to configs."""
    with gzip.open(FOLDER / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        return json.load(file)


def agrees(got: Any, expected: Any) -> bool:
    """Floats to 1e-12 relative; integers, flags, words and None exactly."""
    if isinstance(expected, float) and isinstance(got, int | float) and not isinstance(got, bool):
        return bool(abs(got - expected) <= TOLERANCE * abs(expected))
    return bool(got == expected) and isinstance(got, bool) == isinstance(expected, bool)


def differences(got: dict[str, Any], expected: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Name -> (got, expected) of every expected entry that does not agree."""
    return {name: (got[name], value) for name, value in expected.items() if not agrees(got[name], value)}


def arguments(case: dict[str, Any]) -> dict[str, Any]:
    """A case's design point as keyword arguments of ``evaluate``, all but the network."""
    same = ("chip", "precision", "memory", "batch_size", "input_seq_len", "output_seq_len", "frequency_hz")
    return {
        "model": cases("models")[case["model"]],
        "plan": case.get("plan", {}),
        "overlap": case["overlap_policy"],
        "comm_overlap": case.get("comm_overlap", "none"),
        "routing": case.get("routing", "balanced"),
        "include_lm_head": case["include_lm_head"],
        **{name: case[name] for name in same},
    }


def is_one_device(case: dict[str, Any]) -> bool:
    return all(case["plan"][name] == 1 for name in ("tp", "ep", "dp", "pp", "cp"))


def expected_single_chip(case: dict[str, Any]) -> dict[str, Any]:
    """Results of a case of ``single_chip``; its warnings are only counted."""
    e = case["expect"]
    expected = {
        "ttft": e["ttft_seconds"],
        "tps": e["tps"],
        "weight_bytes": e["weight_footprint_bytes"],
        "kv_bytes": e["kv_cache_footprint_bytes"],
        "capacity": e["memory_capacity_bytes"],
        "fits": e["fits_in_memory"],
        "prefill_latency": e["prefill"]["seconds"],
        "first_decode_latency": e["first_token_decode"]["seconds"],
        "decode_time": e["decode"]["seconds"],
        "clock_scale": e["compute_frequency_hz"] / case["frequency_hz"],
    }
    for prefix, phase in (*PHASES, ("decode", "decode")):
        expected |= {f"{prefix}_{name}": e[phase][original] for name, original in PHASE_NAMES.items()}
    return expected


def expected_multi_chip(case: dict[str, Any]) -> dict[str, Any]:
    """Results of a case of ``multi_chip``."""
    e = case["expect"]
    expected = {
        "ttft": e["ttft_seconds"],
        "tps": e["tps"],
        "tps_per_sequence": e["tps_per_sequence"],
        "decode_time": e["decode_seconds"],
        "weight_bytes": e["weight_bytes_per_device"],
        "kv_bytes": e["kv_cache_bytes_per_device"],
        "capacity": e["memory_capacity_bytes"],
        "fits": e["fits_in_memory"],
        "noc_energy_per_token": e["noc_energy_pj_per_decode_token"],
        "micro_batch": e["micro_batch"],
        "sequences_per_device": e["sequences_per_device"],
        "clock_scale": e["compute_frequency_hz"] / case["frequency_hz"],
        "warnings": {name for name, words in WARNINGS.items() if any(words in text for text in e["warnings"])},
    }
    assert len(expected["warnings"]) == len(e["warnings"]), "a warning in words that are not known"
    for prefix, phase in PHASES:
        bottleneck = e[phase]["bottleneck"]
        expected |= {f"{prefix}_{name}": bottleneck[original] for name, original in PHASE_NAMES.items()}
        expected[f"{prefix}_comm_time"] = float(sum(bottleneck["comm_seconds"].values()))
        expected[f"{prefix}_transfer"] = e[phase]["transfer_seconds"]
        expected[f"{prefix}_period"] = e[phase]["period_seconds"]
        expected[f"{prefix}_latency"] = e[phase]["latency_seconds"]
        expected[f"{prefix}_bottleneck"] = e[phase]["bottleneck_stage"]
    for phase in ("prefill", "decode"):
        load = e["moe"] and e["moe"][phase]
        expected[f"{phase}_imbalance"] = load and load["imbalance"]
        expected[f"{phase}_pairs"] = load and load["token_expert_pairs_on_busiest_rank"]
        expected[f"{phase}_active_experts"] = load and load["active_experts_on_busiest_rank"]
    return expected


def expected_comm(case: dict[str, Any], prefix: str) -> dict[str, float]:
    """Seconds of each collective of a pass's bottleneck stage; prefix ``prefill`` or ``first_decode``."""
    seconds: dict[str, float] = case["expect"][dict(PHASES)[prefix]]["bottleneck"]["comm_seconds"]
    return seconds


def expected_reason(case: dict[str, Any]) -> str:
    """Reason of a case of ``invalid``."""
    (reason,) = [name for name, words in REASONS.items() if words in case["error"]]
    return reason
