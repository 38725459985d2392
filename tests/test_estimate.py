"""The report on one point."""

import dataclasses
import inspect
import json
import math
from typing import Any

import pytest

import stacksweep as ss
from stacksweep.kernels.validity import REASONS, WARNINGS

POINT: dict[str, Any] = {
    "model": "gpt-oss-20b",
    "memory": "fictional_stacked_dram",
    "layers": 4,
    "input_seq_len": 100,
    "output_seq_len": 10,
}


@pytest.fixture(scope="module")
def report() -> ss.Estimate:
    return ss.estimate(**POINT)


def test_a_report_is_the_sweep_of_its_point(report: ss.Estimate):
    ds = ss.sweep(**POINT, outputs="all")
    names = {field.name for field in dataclasses.fields(report)} & set(ds.data_vars) - {"warnings"}
    assert len(names) >= 14
    for name in names:
        assert getattr(report, name) == ds[name].item(), name
    for phase, experts in (("prefill", "prefill"), ("first_decode", "decode"), ("decode", "decode")):
        part = getattr(report, phase)
        for field in dataclasses.fields(part.stage):
            if getattr(part.stage, field.name) != {} and field.name != "collectives":
                assert getattr(part.stage, field.name) == ds[f"{phase}_{field.name}"].item(), (phase, field.name)
        for field in dataclasses.fields(part.experts):
            assert getattr(part.experts, field.name) == ds[f"{experts}_{field.name}"].item()
    assert report.prefill.seconds == ds.prefill_latency
    assert report.first_decode.seconds == ds.first_decode_latency
    assert report.decode.seconds == ds.decode_time
    assert report.ttft == report.prefill.seconds + report.first_decode.seconds


def test_warnings_are_words(report: ss.Estimate):
    # the last bit is the last word
    assert report.warnings == (
        "weights and KV cache exceed the memory of a device of the fullest stage",
        "the thermal policy scales the compute clock",
        "heads times head size differ from the hidden size",
    )
    assert set(report.warnings) <= set(WARNINGS.values())
    assert ss.estimate(model="llama-3.1-8b", memory="h200").warnings == ()


def test_types(report: ss.Estimate):
    assert type(report.fits) is bool
    assert type(report.ttft) is float
    assert type(report.prefill.bottleneck) is int
    assert type(report.warnings) is tuple
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.ttft = 0.0  # type: ignore[misc]


def test_parameters_are_the_point(report: ss.Estimate):
    for name, value in POINT.items():
        assert report.parameters[name] == value
    assert report.parameters["batch_size"] == 16
    assert report.parameters["chip"] == "plena"
    assert all(isinstance(value, str | int | float | bool) for value in report.parameters.values())


@pytest.mark.parametrize("changes", [{}, {"kv_read_bytes": 0.3}, {"weight_bytes": 2.0}, {"include_lm_head": True}])
def test_parameters_make_the_same_report(changes: dict[str, Any]):
    one = ss.estimate(**POINT | changes)
    assert ss.estimate(**one.parameters) == one


def test_to_dict_is_plain(report: ss.Estimate):
    told = report.to_dict()
    assert json.loads(json.dumps(told)) == json.loads(json.dumps(told, allow_nan=False))
    assert told["ttft"] == report.ttft
    assert told["prefill"]["stage"]["read_bytes"] == report.prefill.stage.read_bytes
    assert told["decode"]["experts"]["pairs"] == 64
    assert told["warnings"] == report.warnings
    assert set(told) == {field.name for field in dataclasses.fields(report)}


def test_to_dict_is_a_copy(report: ss.Estimate):
    report.to_dict()["parameters"]["model"] = "another"
    assert report.parameters["model"] == "gpt-oss-20b"


def test_what_a_model_or_a_memory_does_not_have():
    report = ss.estimate(model="llama-3.2-1b", memory="h200", output_seq_len=1)
    assert report.prefill.experts is report.first_decode.experts is report.decode.experts is None
    assert math.isnan(report.prefill.stage.dram_energy)
    assert math.isnan(report.energy_per_token)
    unknown = {"schema_version": 1, "kind": "fixed_bandwidth", "bandwidth_bytes_per_s": 1e12, "capacity_bytes": None}
    report = ss.estimate(model="llama-3.2-1b", memory=unknown, output_seq_len=1)
    assert math.isnan(report.capacity)
    assert report.fits
    assert not any("exceed" in words for words in report.warnings)


def test_table(report: ss.Estimate):
    text = report.table()
    assert text == str(report)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0].split() == ["model", "gpt-oss-20b"]
    assert f"{'ttft':<26} {report.ttft:.6g} s" in lines
    assert f"{'capacity':<26} 4.93827 GB" in lines
    assert f"{'fits':<26} no" in lines
    (memory_time,) = [line for line in lines if line.startswith("memory_time")]
    assert [float(word) for word in memory_time.split()[1:]] == pytest.approx(
        [report.prefill.stage.memory_time, report.first_decode.stage.memory_time, report.decode.stage.memory_time],
        rel=1e-5,
    )
    assert lines[-1] == "warning: heads times head size differ from the hidden size"
    assert [line for line in lines if line.startswith("active_experts")]


def test_table_of_a_dense_model():
    text = ss.estimate(model="llama-3.2-1b", memory="h200", output_seq_len=1).table()
    assert "active_experts" not in text
    assert "warning" not in text
    assert f"{'fits':<26} yes" in text.splitlines()


def test_columns_stay_aligned_below_long_names():
    stack = ss.load_memory("fictional_stacked_dram").to_dict()
    name = "direct_peak_bandwidth_per_connected_layer_bytes_per_s"
    for composed in ("bytes_per_channel_transfer", "transfers_per_memory_clock", "memory_frequency_hz"):
        del stack["dram"][composed]
    stack["dram"][name] = 1e9
    text = ss.estimate(model="llama-3.2-1b", memory=stack, output_seq_len=1, **{name: 2e9}).table()
    head = text.split("\n\n")[0].splitlines()
    assert max(map(len, text.splitlines())) <= 100
    (line,) = [line for line in head if line.startswith(name)]
    assert line.split() == [name, "2000000000.0"]
    # values begin in one column
    assert len({len(line) - len(line.split(None, 1)[1]) for line in head}) == 1


INVALID = {
    "connected_layers": ({"layers": 2, "connected_layers": 3}, ("connected_layers=3", "layers=2")),
    "thermal": ({"layers": 4000, "static_power_w": 70}, ("layers=4000", "static_power_w=70")),
    "world_size": ({"noc": "gpu_node_8", "tp": 2}, ("tp=2", "devices=8")),
    "fill": ({"noc": "gpu_node_8", "tp": 3, "dp": "fill"}, ("tp=3", "devices=8")),
    "tp_heads": ({"noc": "ring_switch_32", "model": "llama-3.2-3b", "tp": 32}, ("tp=32", "heads=24")),
    "pp_layers": ({"noc": "gpu_cluster_32", "model": "llama-3.2-1b", "pp": 32}, ("pp=32", "16")),
    "cp_prompt": (
        {"noc": "gpu_node_8", "model": "llama-3.2-1b", "cp": 8, "input_seq_len": 7},
        ("cp=8", "input_seq_len=7"),
    ),
    "cp_model": ({"noc": "gpu_node_8", "cp": 8}, ("cp=8", "gpt-oss-20b")),
    "ep_dense": ({"noc": "gpu_node_8", "model": "llama-3.2-1b", "ep": 8}, ("ep=8", "llama-3.2-1b")),
}


@pytest.mark.parametrize("reason", INVALID)
def test_a_point_that_cannot_be_is_an_error(reason: str):
    changes, numbers = INVALID[reason]
    with pytest.raises(ss.InvalidPointError) as caught:
        ss.estimate(**POINT | changes)
    message = str(caught.value)
    assert message.startswith(f"{reason}: {REASONS[reason]} (")
    assert message.endswith(")")
    assert "\n" not in message
    for number in numbers:
        assert number in message
    # the same reason as in a sweep
    ds = ss.sweep(**POINT | changes)
    assert list(REASONS)[int(ds.reason)] == reason


def test_wrong_input_is_an_error_before_anything_is_computed():
    with pytest.raises(ss.ParameterError, match=r"^batch_size: got 0"):
        ss.estimate(**POINT, batch_size=0)
    with pytest.raises(ss.ParameterError, match=r"^memory: is missing"):
        ss.estimate(model="llama-3.2-1b")
    with pytest.raises(ss.ProfileError, match="nonsense"):
        ss.estimate(**POINT | {"model": "nonsense"})


def test_signature_and_documentation():
    for function in (ss.estimate, ss.sweep):
        names = set(inspect.signature(function).parameters)
        assert {"model", "memory", "layers", "batch_size", "overlap"} <= names
        for name in ("kv_read_bytes", "connected_layers", "include_lm_head"):
            assert f"\n{name} : " in (function.__doc__ or "")
    assert "points" not in inspect.signature(ss.estimate).parameters
    assert inspect.signature(ss.estimate).parameters["batch_size"].default == 16
