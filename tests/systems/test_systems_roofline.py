"""Roofline chips against the plain reference, and the limits that no chip can exceed."""

import json
import math
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from system_cases import System, arguments_of, fixed_memory, plain_system, reference_of, system_differences, systems

import stacksweep as ss
from stacksweep.explorer.call import call_of
from stacksweep.kernels.rows import OPERATIONS
from strategies import cases, keywords, models, point_values, roofline_chips, wrong

OVERLAPS = ("op-roofline", "stage-roofline", "serial")
CHIP = {
    "kind": "roofline",
    "name": "test",
    "peak_flops": {"16": 1.2345e12},
    "compute_efficiency": 0.7,
    "memory_efficiency": 0.9,
    "operation_overhead": 3e-7,
    "layer_overhead": 1e-6,
    "pass_overhead": 3e-6,
}


def check(system: System) -> dict[str, Any]:
    """Compare all results of a point; returns what they must be."""
    expected = reference_of(system)
    got = point_values(ss.sweep(**arguments_of(system), outputs="all"))
    assert system_differences(got, expected) == {}
    return expected


@given(cases(chip=roofline_chips(), overlaps=OVERLAPS))
@settings(max_examples=60)
def test_random_points_of_one_device(case: dict[str, Any]):
    expected = reference_of(case | {"plan": {}})
    got = point_values(ss.sweep(**keywords(case), outputs="all"))
    assert wrong(got, expected) == {}
    if got["valid"]:
        per_token = got["decode_dram_energy"] / (case["batch_size"] * case["output_seq_len"])
        np.testing.assert_allclose(got["dram_energy_per_token"], per_token, rtol=1e-12)


@given(systems(chip=roofline_chips(), overlaps=OVERLAPS))
@settings(max_examples=60)
def test_random_systems(system: System):
    check(system)


@given(systems(output=2500, prompt=400, most=8, chip=roofline_chips(), overlaps=OVERLAPS))
@settings(max_examples=12)
def test_random_systems_with_long_answers(system: System):
    check(system)


DENSE = {
    "hidden_size": 64,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "num_hidden_layers": 5,
    "intermediate_size": 30,
    "vocab_size": 4000,
}
SLIDING = DENSE | {"sliding_window": 700, "layer_types": ["sliding_attention"] * 3 + ["full_attention"] * 2}


@pytest.mark.parametrize("comm_overlap", ["none", "full"])
@pytest.mark.parametrize("overlap", OVERLAPS)
@pytest.mark.parametrize("transaction", [None, 96, 30_000], ids=["bytes", "waves", "long waves"])
@pytest.mark.parametrize(
    ("model", "plan"), [(DENSE, {"cp": 3, "pp": 2}), (SLIDING, {"tp": 2, "pp": 2})], ids=["cp", "sliding"]
)
def test_attention_that_crosses_the_ridge(
    model: dict[str, Any], plan: dict[str, int], transaction: int | None, overlap: str, comm_overlap: str
):
    """A peak at which compute grows faster than memory with the attended tokens, and overtakes it on the way."""
    written = 200.0 * plan.get("cp", 1)
    system = plain_system(
        model,
        plan,
        chip=CHIP,
        precision={"weight_bytes": 2.0, "kv_read_bytes": 1.0, "kv_write_bytes": written, "activation_bytes": 2.0},
        memory=fixed_memory(1.0000123e11, transaction),
        batch_size=6,
        input_seq_len=100,
        output_seq_len=2500,
        include_lm_head=True,
        overlap=overlap,
        comm_overlap=comm_overlap,
    )
    # 4 FLOP of each head for a byte of each KV head and its value; no simple ratio, so that the two never tie
    group = model["num_attention_heads"] / model["num_key_value_heads"]
    peak = 1.0000123e11 * 0.9 * (2 * group) / 0.7 / 1.4837219
    system["chip"] = CHIP | {"peak_flops": {"16": peak}}
    expected = check(system)
    attention = list(OPERATIONS).index("attention")
    bound, whole = (expected[f"decode_operation_{name}"][attention] for name in ("memory_bound_time", "time"))
    assert 0 < bound < 0.95 * whole


def test_pairs_of_a_prompt():
    """A sliding layer of window w has w(w+1)/2 + (s-w)w pairs, of 4 FLOP for each head and element."""
    model = DENSE | {"sliding_window": 3, "layer_types": ["sliding_attention"] * 5}
    chip = CHIP | {"compute_efficiency": 1.0}
    ds = ss.sweep(
        model=model,
        chip=chip | dict.fromkeys(("weight_bytes", "kv_read_bytes", "kv_write_bytes", "activation_bytes"), 2.0),
        memory=fixed_memory(1e30),
        batch_size=2,
        input_seq_len=10,
        output_seq_len=1,
        outputs=["prefill_operation_time"],
    )
    pairs = 2 * (1 + 2 + 3 * 8)
    seconds = 5 * 4 * pairs * 8 * 64 / 1.2345e12
    np.testing.assert_allclose(ds.prefill_operation_time.sel(operation="attention"), seconds, rtol=1e-12)


# --- limits ----------------------------------------------------------------------------------------------------------


@given(models(), st.integers(1, 64), st.integers(1, 500), st.floats(10, 15), st.floats(10, 13))
@settings(max_examples=30)
def test_no_more_tokens_than_the_peaks_allow(
    model: dict[str, Any], batch: int, prompt: int, flops: float, bandwidth: float
):
    """With efficiencies of 1 and no overheads: at most bandwidth over bytes, and peak over FLOP, of a token."""
    widths = dict.fromkeys(("weight_bytes", "kv_read_bytes", "kv_write_bytes", "activation_bytes"), 2.0)
    chip = {"kind": "roofline", "peak_flops": {"16": 10.0**flops}, **widths}
    ds = ss.sweep(
        model=model,
        chip=chip,
        memory=fixed_memory(10.0**bandwidth),
        batch_size=batch,
        input_seq_len=prompt,
        output_seq_len=50,
        include_lm_head=True,
        overlap=list(OVERLAPS),
        outputs=["tps", "decode_read_bytes", "decode_write_bytes", "decode_compute_time"],
    )
    tokens = 50 * batch
    moved = (ds.decode_read_bytes + ds.decode_write_bytes) / tokens
    assert (ds.tps <= 10.0**bandwidth / moved * (1 + 1e-12)).all()
    assert (ds.tps <= tokens / ds.decode_compute_time * (1 + 1e-12)).all()
    # an operation cannot hide behind another's time
    by_overlap = dict(zip(OVERLAPS, ds.tps.values, strict=True))
    assert by_overlap["serial"] <= by_overlap["op-roofline"] * (1 + 1e-12)
    assert by_overlap["op-roofline"] <= by_overlap["stage-roofline"] * (1 + 1e-12)


# --- peaks, and what does not apply ----------------------------------------------------------------------------------


def compute_time(**given: Any) -> float:
    peaks = {"4": 8e12, "8": 4e12, "16": 1e12}
    widths = dict.fromkeys(("weight_bytes", "kv_read_bytes", "kv_write_bytes", "activation_bytes"), 2.0)
    call = {"chip": {"kind": "roofline", "name": "three", "peak_flops": peaks, **widths}} | given
    ds = ss.sweep(
        model=DENSE,
        memory=fixed_memory(1e30),
        input_seq_len=1,
        output_seq_len=1,
        **call,
        outputs=["decode_compute_time"],
    )
    return float(ds.decode_compute_time)


def test_the_wider_operand_chooses_the_peak():
    sixteen = compute_time()
    assert compute_time(weight_bytes=0.5) == sixteen
    narrow = {"kv_read_bytes": 1.0, "activation_bytes": 1.0}
    assert compute_time(weight_bytes=0.5, **narrow) == pytest.approx(sixteen / 4)
    # the scale of a block of 32 is no part of the operand, and there is no peak for 6 bits
    assert compute_time(weight_bytes=1.03125, **narrow) == pytest.approx(sixteen / 4)
    assert compute_time(weight_bytes=0.75, kv_read_bytes=0.75, activation_bytes=0.75) == pytest.approx(sixteen / 4)
    assert compute_time(weight_bytes=0.5, kv_read_bytes=0.5, activation_bytes=0.53125) == pytest.approx(sixteen / 8)
    assert compute_time(peak_flops_16=2e12) == pytest.approx(sixteen / 2)
    assert compute_time(weight_bytes=4.0, peak_flops_32=5e11, kv_read_bytes=4.0) == pytest.approx(sixteen * 2)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"frequency_hz": 1e9}, "frequency_hz: does not apply to chip 'three', which is no PLENA chip"),
        ({"chip": "plena", "layer_overhead": 1e-6}, "layer_overhead: does not apply to chip 'plena', which is no roof"),
        ({"chip": "plena", "overlap": "op-roofline"}, "overlap: got 'op-roofline', and chip 'plena' is no roofline"),
        ({"chip": ["plena", "b200"], "pass_overhead": 1.0}, "pass_overhead: does not apply to chip 'plena'"),
        ({"weight_bytes": 4.0}, "chip: 'three' has peaks for operands of 4, 8, 16 bits, and an element of 32 bits is"),
        ({"compute_efficiency": 0.0}, "compute_efficiency: got 0.0, needs a number of at least 1e-12 and at most 1"),
        ({"memory_efficiency": 1.5}, "memory_efficiency: got 1.5, needs a number of at least 1e-12 and at most 1"),
        ({"layer_overhead": -1.0}, "layer_overhead: got -1.0, needs a number of at least 0"),
    ],
)
def test_what_cannot_be(given: dict[str, Any], words: str):
    with pytest.raises(ss.ParameterError) as caught:
        compute_time(**given)
    assert str(caught.value).startswith(words)


def test_chips_of_both_kinds_in_one_call():
    call: dict[str, Any] = {
        "model": "llama-3.1-8b",
        "memory": ["h100_sxm", "fictional_stacked_dram"],
        "batch_size": [1, 64],
        "outputs": "all",
    }
    chips = ["plena", "h100_sxm", "b200"]
    both = ss.sweep(chip=chips, **call)
    assert both.overlap.values.tolist() == ["stage-roofline", "op-roofline", "op-roofline"]
    for name in chips:
        alone = ss.sweep(chip=name, **call)
        for variable in alone.data_vars:
            np.testing.assert_array_equal(both[variable].sel(chip=name), alone[variable])
    assert json.loads(both.attrs["call"])["overlap"] == {
        "values": ["stage-roofline", "op-roofline", "op-roofline"],
        "dims": ["chip"],
    }
    # a chip whose profile says "serial" beside them
    three = ss.sweep(chip=[*chips, "mi325x-vllm"], **call)
    assert three.overlap.values.tolist()[-1] == "serial"
    for variable in both.data_vars:
        np.testing.assert_array_equal(three[variable].sel(chip=chips), both[variable])
    serial = ss.sweep(chip="mi325x-vllm", overlap="serial", **call)
    np.testing.assert_array_equal(three.tps.sel(chip="mi325x-vllm"), serial.tps)
    # one whose profile says what PLENA chips do
    stage = ss.load_chip("b200").to_dict() | {"name": "stage", "overlap": "stage-roofline"}
    mixed, alone = ss.sweep(chip=[*chips, stage], **call), ss.sweep(chip=stage, **call)
    np.testing.assert_array_equal(mixed.ttft.sel(chip="stage"), alone.ttft)
    assert (alone.ttft.values < both.ttft.sel(chip="b200").values).any()
    plena = both.sel(chip="plena")
    assert plena.prefill_operation_time.isnull().all()
    assert (plena.decode_overhead_time == 0).all()


def test_the_call_of_chips_of_both_kinds_can_be_made_again():
    given: dict[str, Any] = {"model": "llama-3.1-8b", "memory": "h100_sxm", "chip": ["plena", "b200"]}
    both = ss.sweep(**given)
    call = json.loads(both.attrs["call"])
    assert "frequency_hz" not in call
    overlap = xr.DataArray(call.pop("overlap")["values"], dims="chip")
    again = ss.sweep(**{name: value for name, value in call.items() if value is not None}, overlap=overlap)
    assert again.identical(both)
    # and of some of its points
    assert "frequency_hz" not in (call_of(both.sel(chip="b200")) or {})["fixed"]
    with pytest.raises(ss.ParameterError) as caught:
        ss.sweep(**given, overlap=["op-roofline", "serial"])
    assert str(caught.value).startswith("overlap: got 'op-roofline', and chip 'plena' is no roofline chip")


def test_every_number_as_an_axis():
    """Each field of a profile that is swept, against a profile that says the same."""
    axes = {
        "peak_flops_16": [1e11, 3e12],
        "compute_efficiency": [0.3, 1.0],
        "memory_efficiency": [0.2, 0.9],
        "operation_overhead": [0.0, 3e-5],
        "layer_overhead": [0.0, 1e-4],
        "pass_overhead": [0.0, 1e-3],
        "activation_cache": [0.0, 1e6],
    }
    widths = dict.fromkeys(("weight_bytes", "kv_read_bytes", "kv_write_bytes", "activation_bytes"), 2.0)
    call: dict[str, Any] = {"model": DENSE, "memory": fixed_memory(1e10), "input_seq_len": 300, "output_seq_len": 9}
    grid = ss.sweep(**call, chip=CHIP | widths, **axes, outputs=["tps", "ttft"])
    random = np.random.default_rng(0)
    for _ in range(6):
        where = {name: int(random.integers(2)) for name in axes}
        values = {name: axes[name][at] for name, at in where.items()}
        peak = values.pop("peak_flops_16")
        alone = ss.sweep(**call, chip=CHIP | widths | values | {"peak_flops": {"16": peak}}, outputs=["tps", "ttft"])
        for name in ("tps", "ttft"):
            np.testing.assert_allclose(grid[name].isel(where), alone[name], rtol=1e-13)


# --- expected routing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", ["plena", "h100_sxm"])
def test_expected_experts(chip: str):
    ds = ss.sweep(
        model="qwen3-30b-a3b",
        chip=chip,
        memory="h100_sxm",
        batch_size=[1, 16, 1000],
        routing=["expected", "balanced"],
        outputs=["decode_active_experts", "decode_pairs", "decode_imbalance"],
    )
    expected = [128 * (1 - (1 - 8 / 128) ** batch) for batch in (1, 16, 1000)]
    np.testing.assert_allclose(ds.decode_active_experts.sel(routing="expected"), expected, rtol=1e-12)
    assert (ds.decode_pairs.sel(routing="expected") == ds.decode_pairs.sel(routing="balanced")).all()
    assert (ds.decode_imbalance.sel(routing="expected") == 1).all()


def test_estimate_reports_operations():
    report = ss.estimate(
        model="llama-3.1-8b", chip="h100_sxm", memory="h100_sxm", layer_overhead=1e-6, include_lm_head=True
    )
    operations = report.first_decode.stage.operations
    assert list(operations) == list(OPERATIONS)
    assert operations["ffn"] == pytest.approx(32 * 3 * 4096 * 14336 * 2 / 3.35e12)
    assert report.first_decode.stage.overhead_time == pytest.approx(32e-6)
    text = report.table()
    assert "ffn" in text
    assert "overhead_time" in text
    assert not any(map(math.isnan, operations.values()))
    assert "ffn" not in ss.estimate(model="llama-3.1-8b", memory="h100_sxm").table()
