"""The plain scalar reference agrees with the golden values of one chip and of routed experts."""

from typing import Any

import numpy as np
import pytest

from reference import evaluate, memory_of
from reference.golden import (
    agrees,
    arguments,
    cases,
    differences,
    expected_multi_chip,
    expected_single_chip,
    is_one_device,
)
from reference.model import model_of
from reference.moe import Trace, busiest_rank, dispatch_counts
from reference.system import RESULTS

MEMORY_NAMES = {
    "peak_bandwidth": "peak_bandwidth_bytes_per_s",
    "connectivity_efficiency": "connectivity_efficiency",
    "effective_bandwidth": "effective_bandwidth_bytes_per_s",
    "usable_bandwidth": "usable_bandwidth_bytes_per_s",
    "capacity": "capacity_bytes",
    "wave_bytes": "wave_bytes",
    "clock_scale": "compute_frequency_scale",
}
LITTLES_LAW_NAMES = {
    "buffering_limited": "limited",
    "round_trip_latency": "round_trip_latency_seconds",
    "buffer_needed": "required_buffer_bytes_per_requester",
}


def expected_memory(expect: dict[str, Any]) -> dict[str, Any]:
    expected = {name: expect.get(original) for name, original in MEMORY_NAMES.items()}
    law = expect.get("littles_law") or {"limited": False}
    expected |= {name: law.get(original) for name, original in LITTLES_LAW_NAMES.items()}
    energy = expect["energy"] or {}
    expected |= {name: energy.get(name) for name in ("read_pj_per_bit", "write_pj_per_bit")}
    if expect["kind"] == "fixed_bandwidth":
        expected["rounding_bytes"] = expect["transaction_bytes"]
    else:
        expected["rounding_bytes"] = expect["wave_bytes"] if expect["apply_wave_quantization"] else None
    return expected | {"reason": None}


def test_memory_profiles():
    wrong = {}
    for number, case in enumerate(cases("memory")):
        expected = {"reason": "thermal"} if "error" in case else expected_memory(case["expect"])
        wrong[number] = differences(memory_of(case["profile"]), expected)
    assert len(wrong) == 200
    assert not {number: found for number, found in wrong.items() if found}


def test_single_chip():
    wrong = {}
    for number, case in enumerate(cases("single_chip")):
        got = evaluate(**arguments(case))
        wrong[number] = differences(got, expected_single_chip(case))
        if len(got["warnings"]) != case["warnings"]:
            wrong[number]["warnings"] = (got["warnings"], case["warnings"])
    assert len(wrong) == 80
    assert not {number: found for number, found in wrong.items() if found}


def test_one_device_systems_need_no_network():
    wrong = {}
    for number, case in enumerate(cases("multi_chip")):
        if is_one_device(case):
            expected = expected_multi_chip(case)
            if case["noc"].get("energy_pj_per_bit") is None:
                expected["noc_energy_per_token"] = 0.0  # nothing is sent, so no coefficient is missed
            wrong[number] = differences(evaluate(**arguments(case)), expected)
    assert len(wrong) == 24
    assert not {number: found for number, found in wrong.items() if found}


def test_expert_loads():
    wrong = {}
    for number, case in enumerate(cases("moe")):
        load = busiest_rank(
            case["routing"],
            "prefill",
            case["num_experts"],
            case["top_k"],
            case["ep"],
            case["dp"],
            case["tp"],
            case["micro_batch"],
            case["query_len"],
        )
        got = {
            "tokens": load.tokens,
            "pairs": load.pairs,
            "active": load.active,
            "imbalance": load.imbalance,
            "counts_sorted": sorted(load.counts),
        }
        wrong[number] = differences(got, case["expect"])
    assert len(wrong) == 150
    assert not {number: found for number, found in wrong.items() if found}


def random_rows(tokens: int, experts: int, k: int) -> np.ndarray:
    return np.argsort(np.random.default_rng(0).random((tokens, experts)), axis=1)[:, :k]


def point(**changes: Any) -> dict[str, Any]:
    """A small design point of a model with experts."""
    case = cases("single_chip")[0]
    load = {"batch_size": 3, "input_seq_len": 50, "output_seq_len": 4}
    return {**arguments(case), "model": cases("models")["mixed-moe"], **load, **changes}


def test_trace_of_random_rows_equals_random_routing():
    # other axes are flattened in C order, and choices and tokens beyond those asked for are cut off
    trace = Trace.of({"prefill": random_rows(160, 12, 12).reshape(4, 40, 12), "decode": random_rows(200, 12, 5)})
    assert evaluate(**point(routing=trace)) == evaluate(**point(routing="random"))


@pytest.mark.parametrize(
    ("prefill", "decode"),
    [
        ((149, 12, 3), (3, 12, 3)),  # one prompt token too few
        ((150, 12, 3), (2, 12, 3)),  # one decode token too few
        ((150, 12, 2), (3, 12, 3)),  # fewer choices than the model makes
        ((150, 13, 3), (3, 12, 3)),  # of another model
    ],
)
def test_trace_that_does_not_fit(prefill: tuple[int, int, int], decode: tuple[int, int, int]):
    trace = Trace.of({"prefill": random_rows(*prefill), "decode": random_rows(*decode)})
    assert evaluate(**point(routing=trace)) == dict.fromkeys(RESULTS) | {"reason": "routing_trace"}


def test_dispatch_counts_by_hand():
    # E = 4, k = 2, balanced: token t asks for experts t and t + 2, so with two ranks every token hits both
    assert dispatch_counts("balanced", "prefill", 4, 2, 2, 1, 5) == (((0, 3), (2, 0)),)
    # two slots of 3 and 2 tokens; with four ranks token t hits ranks t and t + 2, and each source holds at most one
    first = ((0, 0, 1, 0), (0, 0, 0, 1), (1, 0, 0, 0), (0, 0, 0, 0))
    second = ((0, 1, 0, 1), (1, 0, 1, 0), (0, 0, 0, 0), (0, 0, 0, 0))
    assert dispatch_counts("balanced", "prefill", 4, 2, 4, 2, 5) == (first, second)


BASE = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 4,
    "intermediate_size": 96,
    "vocab_size": 100,
}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2}


@pytest.mark.parametrize(
    ("config", "attention", "mlp"),
    [
        ({}, "ffff", "dddd"),
        ({"sliding_window": 8}, "ffff", "dddd"),
        ({"sliding_window": 8, "model_type": "mistral"}, "ssss", "dddd"),
        ({"sliding_window": None, "model_type": "mixtral", **EXPERTS}, "ffff", "mmmm"),
        ({"sliding_window": 8, "model_type": "qwen3", "use_sliding_window": False}, "ffff", "dddd"),
        (
            {"sliding_window": 8, "model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 3},
            "fffs",
            "dddd",
        ),
        ({**EXPERTS, "first_k_dense_replace": 1}, "ffff", "dmmm"),
        ({**EXPERTS, "mlp_only_layers": [2]}, "ffff", "mmdm"),
        ({**EXPERTS, "decoder_sparse_step": 2}, "ffff", "dmdm"),
        ({**EXPERTS, "interleave_moe_layer_step": 2}, "ffff", "dmdm"),
        ({**EXPERTS, "moe_layer_freq": 2}, "ffff", "mdmd"),
        ({**EXPERTS, "moe_layer_freq": [0, 1, 1, 0]}, "ffff", "dmmd"),
        ({"num_local_experts": 1}, "ffff", "dddd"),
    ],
)
def test_layer_kinds(config: dict[str, Any], attention: str, mlp: str):
    kinds = model_of(BASE | config).kinds
    assert "".join(kind.mixer.kind[0] for kind in kinds if kind.mixer) == attention
    assert "".join("m" if kind.moe else "d" for kind in kinds) == mlp


def test_text_model_of_a_multimodal_config():
    assert model_of({"model_type": "qwen3_vl", "text_config": BASE}) == model_of(BASE)


def test_agreement_is_strict():
    assert agrees(1.0 + 1e-13, 1.0)
    assert not agrees(1.0 + 1e-11, 1.0)
    assert not agrees(None, 1.0)
    assert not agrees(1, True)
    assert not agrees(8 + 1, 8)
