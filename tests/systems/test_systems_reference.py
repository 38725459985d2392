"""Random systems of many devices, prompts around the thresholds and long decodes, against the plain reference."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from system_cases import (
    PARALLEL,
    System,
    arguments_of,
    fixed_memory,
    plain_system,
    reference_of,
    routed_models,
    system_differences,
    systems,
)

import stacksweep as ss
from reference.moe import CLOSED_FORM_DISPATCH, CLOSED_FORM_LOAD
from reference.system import RESULTS
from strategies import point_values

NOT_RESULTS = {"micro_batch", "sequences_per_device", "prefill_comm", "first_decode_comm", "decode_comm"}
"""Entries of the reference that no variable has; the last three are compared with the times of the collectives."""


def check(system: System) -> dict[str, Any]:
    """Compare all results of a point; returns what they must be."""
    expected = reference_of(system)
    got = point_values(ss.sweep(**arguments_of(system), outputs="all"))
    of_operations = {name for name in RESULTS if "_operation_" in name}
    assert set(RESULTS) - set(got) == NOT_RESULTS | of_operations
    assert system_differences(got, expected) == {}
    return expected


def sorts(system: System, expected: dict[str, Any]) -> list[str]:
    """What a system is an example of."""
    found = [name for name in PARALLEL if system["plan"][name] > 1]
    found += [f"{name} {system[name]}" for name in ("link_model", "comm_overlap", "overlap", "routing")]
    found += [str(expected["reason"]), *(expected["warnings"] or ())]
    if expected["prefill_pairs"] is not None and system["plan"]["ep"] > 1:
        found.append(f"ep {system['plan']['moe_tp_mode']}")
    kinds = [level["kind"] for level in system["noc"]["layers"].values() if level["shape"] != [1, 1]]
    return found + [f"kind {kind}" for kind in kinds]


def test_random_systems():
    seen: Counter[str] = Counter()

    @given(systems())
    @settings(max_examples=250)
    def run(system: System):
        seen.update(sorts(system, check(system)))

    run()
    # what is drawn changes with the modules that a session has loaded: rare sorts are added by hand
    for pp in (4, 9, 12):
        added = plain_system(DENSE | {"num_hidden_layers": pp + 1}, dict.fromkeys(PARALLEL, 1) | {"pp": pp})
        seen.update(check(added)["warnings"])
    wanted = {
        *(*PARALLEL, "None", "thermal", "ep replace", "ep keep"),
        *("link_model deepstack", "link_model physical", "comm_overlap none", "comm_overlap full"),
        *("overlap stage-roofline", "overlap serial", "routing balanced", "routing random"),
        *("idle_ranks", "batch_not_multiple_of_pp", "empty_stages", "kv_heads_replicated", "does_not_fit"),
        *(f"kind {kind}" for kind in ("switch", "ring", "chain", "mesh2d", "torus2d", "all_to_all")),
    }
    assert {name for name in wanted if seen[name] < 3} == set()


@given(systems(output=3000, prompt=400, most=8))
@settings(max_examples=25)
def test_random_systems_with_long_answers(system: System):
    check(system)


@pytest.mark.parametrize("routing", ["balanced", "random"])
@pytest.mark.parametrize("threshold", [CLOSED_FORM_LOAD, CLOSED_FORM_DISPATCH])
@given(
    systems(output=3, model=routed_models(), most=16, several="ep"),
    st.sampled_from([-1, 0, 1]),
    st.sampled_from([1, 2, 4, 64]),
)
@settings(max_examples=12)
def test_prompts_around_the_thresholds(threshold: int, routing: str, system: System, more: int, micro_batch: int):
    load = {"batch_size": micro_batch * system["plan"]["pp"], "input_seq_len": threshold // micro_batch + more}
    check(system | load | {"routing": routing})


@given(
    systems(output=2, prompt=3, model=routed_models(), most=12, several="ep"), st.sampled_from([4095, 4096, 8191, 8192])
)
@settings(max_examples=12)
def test_batches_around_the_thresholds(system: System, micro_batch: int):
    """The same thresholds hold for decode, whose query is one token."""
    check(system | {"batch_size": micro_batch * system["plan"]["pp"]})


# --- decodes in which the slowest stage changes ----------------------------------------------------------------------

DENSE = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "num_hidden_layers": 5,
    "intermediate_size": 30,
    "vocab_size": 300,
}
SLIDING, FULL = "sliding_attention", "full_attention"
FLAT_THEN_GROWING = DENSE | {"sliding_window": 300, "layer_types": [SLIDING] * 3 + [FULL] * 2}
THREE_STAGES = DENSE | {
    "num_hidden_layers": 8,
    "sliding_window": 700,
    "layer_types": [SLIDING] * 3 + [SLIDING, FULL, SLIDING] + [FULL] * 2,
}
EXPERTS_AND_WINDOWS = FLAT_THEN_GROWING | {
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 20,
    "mlp_types": ["moe", "ffn", "moe", "ffn", "moe"],
}


def long_decode(model: dict[str, Any], plan: dict[str, int], **changes: Any) -> System:
    return plain_system(model, plan, **{"batch_size": 6, "input_seq_len": 100, "output_seq_len": 2500} | changes)


def bottlenecks(system: System) -> set[int]:
    """Slowest stages of some decode steps, the first and the last among them."""
    steps = np.linspace(0, system["output_seq_len"] - 1, 12).astype(int)
    found = set()
    for step in steps:
        one = reference_of(system | {"input_seq_len": system["input_seq_len"] + int(step), "output_seq_len": 1})
        found.add(one["first_decode_bottleneck"])
    return found


@pytest.mark.parametrize("comm_overlap", ["none", "full"])
@pytest.mark.parametrize("overlap", ["stage-roofline", "serial"])
@pytest.mark.parametrize("memory", [None, 96, 100_000], ids=["bytes", "waves", "long waves"])
@pytest.mark.parametrize(
    ("model", "plan"),
    [
        (FLAT_THEN_GROWING, {"pp": 2}),
        (FLAT_THEN_GROWING, {"tp": 2, "pp": 2}),
        (THREE_STAGES, {"pp": 3, "dp": 2}),
        (EXPERTS_AND_WINDOWS, {"tp": 2, "ep": 3, "pp": 2}),
    ],
    ids=["two stages", "sharded", "three stages", "experts"],
)
def test_sliding_and_full_stages(model: Any, plan: dict[str, int], memory: int | None, overlap: str, comm_overlap: str):
    system = long_decode(
        model, plan, memory=fixed_memory(1.0000123e9, memory), overlap=overlap, comm_overlap=comm_overlap
    )
    check(system)
    assert len(bottlenecks(system)) > 1


@pytest.mark.parametrize("comm_overlap", ["none", "full"])
@pytest.mark.parametrize("memory", [None, 96], ids=["bytes", "waves"])
@pytest.mark.parametrize("prompt", [100, 101, 107])
@pytest.mark.parametrize("cp", [1, 2, 3, 7])
def test_lm_head_against_one_more_layer(cp: int, prompt: int, memory: int | None, comm_overlap: str):
    """The last stage has a layer less and the LM head: slower at first, then overtaken as attention grows."""
    system = long_decode(
        DENSE | {"vocab_size": 4000},
        {"cp": cp, "pp": 2},
        memory=fixed_memory(1.0000123e9, memory),
        input_seq_len=prompt,
        output_seq_len=2500 + 3 * cp,
        include_lm_head=True,
        comm_overlap=comm_overlap,
    )
    check(system)
    assert bottlenecks(system) == {0, 1}


@st.composite
def uneven_models(draw: st.DrawFn) -> dict[str, Any]:
    """Models in which attention counts, with layers of several kinds."""
    layers = draw(st.integers(3, 9))
    kinds = draw(st.lists(st.sampled_from([SLIDING, SLIDING, FULL]), min_size=layers, max_size=layers))
    config = DENSE | {
        "hidden_size": draw(st.sampled_from([8, 33])),
        "num_hidden_layers": layers,
        "sliding_window": draw(st.sampled_from([15, 64, 300])),
        "layer_types": sorted(kinds, reverse=True) if draw(st.integers(0, 2)) else kinds,
    }
    if draw(st.booleans()):
        kinds = draw(st.lists(st.sampled_from(["ffn", "moe"]), min_size=layers, max_size=layers))
        config |= {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 25, "mlp_types": kinds}
    return config


def test_slowest_stages_of_random_decodes():
    seen: Counter[int] = Counter()

    @given(systems(prompt=60, most=6, model=uneven_models(), several="pp"), st.integers(1, 60), st.integers(200, 1200))
    @settings(max_examples=40)
    def run(system: System, prompt: int, answer: int):
        system = system | {"input_seq_len": prompt, "output_seq_len": answer}
        if check(system)["reason"] is None:
            seen[len(bottlenecks(system))] += 1

    run()
    assert seen[2] + seen[3] > 5
