"""The published models' own numbers, through the public interface."""

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import stacksweep as ss
from reference.golden import (
    PHASE_NAMES,
    agrees,
    arguments,
    cases,
    expected_multi_chip,
    expected_single_chip,
    is_one_device,
)
from stacksweep import moe, space
from stacksweep import plan as plans
from stacksweep.columns import Column, constant
from stacksweep.evaluate import LOADERS
from stacksweep.kernels import experts as kernels
from stacksweep.kernels import rows
from stacksweep.kernels.memory import machine_row
from stacksweep.kernels.validity import VALID, WARNINGS
from stacksweep.tables import chip_rows, memory_columns, model_rows
from strategies import keywords, point_values, wrong

SINGLE_CHIP = cases("single_chip")
ONE_DEVICE = [case for case in cases("multi_chip") if is_one_device(case)]


def sweep_arguments(case: dict[str, Any]) -> dict[str, Any]:
    given = keywords({name: value for name, value in arguments(case).items() if name != "plan"})
    return given | {"model": given["model"] | {"name": case["model"]}}


def expected_of(case: dict[str, Any]) -> dict[str, Any]:
    """Expected results of a case of ``single_chip``, which counts its warnings only."""
    expected = expected_single_chip(case) | {"reason": None}
    expected["tps_per_sequence"] = expected["tps"] / case["batch_size"]
    return expected


def differences_but_warnings(got: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    return wrong(got, {"warnings": got["warnings"], **expected})


# --- one chip --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(SINGLE_CHIP)))
def test_single_chip(number: int):
    case = SINGLE_CHIP[number]
    ds = ss.sweep(**sweep_arguments(case), outputs="all")
    got = point_values(ds)
    assert set(expected_of(case)) - set(got) == set()
    assert differences_but_warnings(got, expected_of(case)) == {}
    assert len(got["warnings"]) == case["warnings"]


@pytest.mark.parametrize("number", range(0, len(SINGLE_CHIP), 3))
def test_single_chip_as_a_report(number: int):
    case = SINGLE_CHIP[number]
    report = ss.estimate(**sweep_arguments(case))
    expected = expected_of(case)
    flat: dict[str, Any] = {name: getattr(report, name) for name in expected if hasattr(report, name)}
    for prefix in ("prefill", "first_decode", "decode"):
        phase = getattr(report, prefix)
        flat[f"{prefix}_time" if prefix == "decode" else f"{prefix}_latency"] = phase.seconds
        flat |= {f"{prefix}_{name}": getattr(phase.stage, name) for name in PHASE_NAMES}
    flat |= {"valid": True, "reason": "valid", "warnings": set()}
    assert set(expected) - set(flat) == set()
    assert differences_but_warnings(flat, expected) == {}
    assert len(report.warnings) == case["warnings"]


@pytest.mark.parametrize("model", sorted({case["model"] for case in SINGLE_CHIP}))
def test_all_cases_of_a_model_in_one_call(model: str):
    some = [case for case in SINGLE_CHIP if case["model"] == model]
    table = []
    for number, case in enumerate(some):
        given = sweep_arguments(case)
        del given["model"]
        for kind in ("chip", "memory"):
            given[kind] = given[kind] | {"name": f"{kind} {number}"}
        table.append(given)
    ds = ss.sweep(model=cases("models")[model] | {"name": model}, points=pd.DataFrame(table), outputs="all")
    for number, case in enumerate(some):
        got = point_values(ds, point=number)
        assert differences_but_warnings(got, expected_of(case)) == {}
        assert len(got["warnings"]) == case["warnings"]


@pytest.mark.parametrize("number", range(len(ONE_DEVICE)))
def test_one_device_of_the_multi_chip_model(number: int):
    case = ONE_DEVICE[number]
    expected = expected_multi_chip(case) | {"reason": None}
    got = point_values(ss.sweep(**sweep_arguments(case), noc=case["noc"], outputs="all"))
    del expected["micro_batch"], expected["sequences_per_device"]
    assert set(expected) - set(got) == set()
    assert wrong(got, expected) == {}


def test_there_are_cases_of_every_sort():
    assert len(SINGLE_CHIP) == 80
    assert len(ONE_DEVICE) == 24
    assert {case["routing"] for case in ONE_DEVICE} == {"balanced", "random"}
    assert {case["overlap_policy"] for case in SINGLE_CHIP} == {"stage-roofline", "serial"}


# --- memory ----------------------------------------------------------------------------------------------------------

TINY = {
    "name": "tiny",
    "hidden_size": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "num_hidden_layers": 1,
    "intermediate_size": 1,
    "vocab_size": 1,
}
MEMORY_NAMES = {
    "peak_bandwidth": "peak_bandwidth_bytes_per_s",
    "connectivity_efficiency": "connectivity_efficiency",
    "usable_bandwidth": "usable_bandwidth_bytes_per_s",
    "capacity": "capacity_bytes",
    "clock_scale": "compute_frequency_scale",
}


def test_memory():
    some = cases("memory")
    # a decode step of this model writes 0.002 bytes, so it writes one wave where transfers are rounded
    ds = ss.sweep(
        model=TINY,
        kv_write_bytes=0.001,
        batch_size=1,
        memory=[case["profile"] | {"name": f"memory {number}"} for number, case in enumerate(some)],
        outputs=[*MEMORY_NAMES, "buffering_limited", "warnings", "first_decode_write_bytes", "prefill_dram_energy"],
    )
    refused = []
    for number, case in enumerate(some):
        got = point_values(ds, memory=number)
        if "error" in case:
            refused.append(got["reason"])
            assert math.isnan(got["usable_bandwidth"])
            assert not got["buffering_limited"]
            continue
        expect = case["expect"]
        assert got["reason"] == "valid"
        limited = (expect.get("littles_law") or {"limited": False})["limited"]
        assert got["buffering_limited"] == limited == ("buffering_limited" in got["warnings"])
        assert ("clock_scaled" in got["warnings"]) == (expect["compute_frequency_scale"] != 1)
        assert math.isnan(got["prefill_dram_energy"]) == (expect["energy"] is None)
        for name, original in MEMORY_NAMES.items():
            value = expect.get(original)
            if value is not None:
                assert agrees(got[name], float(value)), (number, name)
        if expect["kind"] == "fixed_bandwidth":
            rounding = expect["transaction_bytes"]
            assert math.isnan(got["capacity"]) == (expect["capacity_bytes"] is None)
            assert got["peak_bandwidth"] == got["usable_bandwidth"]
            assert got["connectivity_efficiency"] == 1.0
        else:
            rounding = expect["wave_bytes"] if expect["apply_wave_quantization"] else None
        assert got["first_decode_write_bytes"] == (0.002 if rounding is None else rounding)
    assert refused == ["thermal"]


def test_memory_that_cannot_be_is_an_error_of_a_report():
    (case,) = [case for case in cases("memory") if "error" in case]
    with pytest.raises(ss.InvalidPointError, match=r"^thermal: static power alone exceeds what the stack can cool"):
        ss.estimate(model=TINY, memory=case["profile"])


def test_machine_rows():
    some = [case for case in cases("memory") if "expect" in case]
    profiles = [ss.load_memory(case["profile"]) for case in some]
    table = np.zeros(1, rows.MACHINE_INPUT)
    out = np.zeros(1, rows.MACHINE)
    for number, case in enumerate(some):
        columns = memory_columns(profiles[number : number + 1], constant(0), {})
        for name, column in columns.items():
            table[name] = column.values
        table["frequency_hz"] = 1e9
        machine_row(table[0], out[0])
        expect = case["expect"]
        assert out["reason"][0] == VALID
        if expect["kind"] == "stacked_dram":
            assert out["wave"][0] == (expect["wave_bytes"] if expect["apply_wave_quantization"] else 0)
        else:
            assert out["wave"][0] == (expect["transaction_bytes"] or 0)
        assert agrees(float(out["usable_bandwidth"][0]), float(expect["usable_bandwidth_bytes_per_s"]))
        assert agrees(1e-9 / float(out["seconds_per_cycle"][0]), float(expect["compute_frequency_scale"]))


# --- routed experts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [case for case in cases("moe") if case["ep"] == case["dp"] == case["tp"] == 1])
def test_expert_load_of_one_device(case: dict[str, Any]):
    ds = ss.sweep(
        model=TINY | {"num_experts": case["num_experts"], "num_experts_per_tok": case["top_k"]},
        memory="fictional_stacked_dram",
        batch_size=case["micro_batch"],
        input_seq_len=case["query_len"],
        routing=case["routing"],
        outputs=["prefill_pairs", "prefill_active_experts", "prefill_imbalance"],
    )
    assert ds.prefill_pairs.item() == case["expect"]["pairs"]
    assert ds.prefill_active_experts.item() == case["expect"]["active"]
    assert agrees(ds.prefill_imbalance.item(), float(case["expect"]["imbalance"]))


def test_there_are_expert_loads_of_one_device():
    assert sum(case["ep"] == case["dp"] == case["tp"] == 1 for case in cases("moe")) == 4


def expert_table() -> tuple[pd.DataFrame, dict[str, dict[str, Any]]]:
    """All cases as points, and their models by name; tp, ep and dp are kept as they are for the experts."""
    some = cases("moe")
    names = [f"{case['num_experts']} choose {case['top_k']}" for case in some]
    models = {
        name: TINY
        | {"name": name, "num_attention_heads": 64, "head_dim": 1, "num_key_value_heads": 64}
        | {"num_experts": case["num_experts"], "num_experts_per_tok": case["top_k"]}
        for name, case in zip(names, some, strict=True)
    }
    table = pd.DataFrame(
        {
            "model": names,
            **{name: [case[name] for case in some] for name in ("tp", "ep", "dp", "routing")},
            "batch_size": [case["micro_batch"] for case in some],
            "input_seq_len": [case["query_len"] for case in some],
        }
    )
    return table, models


def switch(devices: int) -> dict[str, Any]:
    """A network of one level."""
    sizes = {"L1": devices, "L2": 1, "L3": 1}
    return {
        "schema_version": 1,
        "kind": "noc_hierarchy",
        "name": f"switch of {devices}",
        "layers": {
            level: {"kind": "switch", "shape": [1, size], "hop_latency_ns": 1, "link_bandwidth_gbytes_per_s": 1}
            for level, size in sizes.items()
        },
    }


def test_expert_loads_of_many_devices():
    table, models = expert_table()
    devices = table["tp"] * table["ep"] * table["dp"]
    ds = ss.sweep(
        points=table.assign(model=[models[name] for name in table["model"]], noc=[switch(n) for n in devices]),
        moe_tp_mode="keep",
        memory="fictional_stacked_dram",
        output_seq_len=1,
        outputs=["prefill_pairs", "prefill_active_experts", "prefill_imbalance"],
    )
    assert ds.valid.all()
    expect = pd.DataFrame([case["expect"] for case in cases("moe")])
    assert ds.prefill_pairs.values.tolist() == expect["pairs"].tolist()
    assert ds.prefill_active_experts.values.tolist() == expect["active"].tolist()
    np.testing.assert_allclose(ds.prefill_imbalance, expect["imbalance"], rtol=1e-12, atol=0)


@pytest.mark.parametrize("blen", [1, 3, 128])
def test_expert_loads(blen: int):
    """All loads at once, counted together, with the blocks of BLEN tokens that the cycles follow from."""
    some = cases("moe")
    table, models = expert_table()
    chip = ss.load_chip("plena").to_dict() | {"BLEN": blen, "MLEN": 128 * blen}
    by_name = {name: ss.load_model(model) for name, model in models.items()}
    columns = space.build(
        {"moe_tp_mode": "keep", "chip": chip}, table, LOADERS | {"model": lambda name: by_name[name]}
    ).columns
    specs, chips, routings = (columns[name].choices for name in ("model", "chip", "routing"))
    devices = Column(("point",), np.array([case["tp"] * case["ep"] * case["dp"] for case in some], float))
    different = plans.different_plans(columns, devices)
    plan_table = plans.plan_rows(different, specs, routings, plans.reasons(different, specs, routings))
    assert (plan_table["reason"] == VALID).all()
    keys, counted = moe.counted_loads(columns, different, plan_table, specs, np.array([blen]), routings)
    assert (np.diff(keys) > 0).all()

    loads = np.zeros(len(some), rows.LOAD)
    loads["plan"] = different.number.values
    loads["batch_size"], loads["input_seq_len"] = table["batch_size"], table["input_seq_len"]
    reasons = np.zeros(len(some), np.int64)
    out = np.zeros((len(some), 2), rows.EXPERTS)
    kernels.price_experts(
        model_rows(specs, np.zeros(len(specs), int)), chip_rows(chips), plan_table, loads, reasons, keys, counted, out
    )
    assert (reasons == VALID).all()
    for case, plan, got in zip(some, plan_table[different.number.values], out[:, 0], strict=True):
        expect = case["expect"]
        assert (plan["moe_tp"], plan["moe_ep"], plan["moe_dp"]) == (case["tp"], case["ep"], case["dp"])
        assert (got["tokens"], got["pairs"], got["active"]) == (expect["tokens"], expect["pairs"], expect["active"])
        assert agrees(float(got["imbalance"]), float(expect["imbalance"])), case
        assert got["blocks"] == sum(-(-count // blen) for count in expect["counts_sorted"]), case


def test_warnings_are_distinct_bits():
    ds = ss.sweep(model=TINY, memory="fictional_stacked_dram")
    masks = ds.warnings.attrs["flag_masks"]
    assert masks.tolist() == [1 << bit for bit in range(len(WARNINGS))]
    assert json.loads(ds.attrs["call"])["model"] == "tiny"
