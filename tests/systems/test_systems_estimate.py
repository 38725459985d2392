"""One system in full: its stages against the plain reference, its energies by their definition, its errors in words."""

import json
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from system_cases import (
    PARALLEL,
    System,
    arguments_of,
    plain_system,
    prepared,
    reference_of,
    same,
    switch_profile,
    system_differences,
    systems,
    values_of,
)

import stacksweep as ss
from reference.golden import differences
from reference.system import PHASE_FIELDS, Pipeline, Price, stage_layers
from stacksweep.estimate import Stage
from stacksweep.kernels.rows import COLLECTIVES
from strategies import point_values

DENSE = {
    "name": "dense",
    "hidden_size": 96,
    "num_attention_heads": 12,
    "num_key_value_heads": 6,
    "num_hidden_layers": 7,
    "intermediate_size": 200,
    "vocab_size": 1000,
}
SLIDING, FULL = "sliding_attention", "full_attention"
MIXED = DENSE | {
    "name": "mixed",
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 50,
    "mlp_types": ["ffn", "moe", "moe", "moe", "ffn", "ffn", "moe"],
    "sliding_window": 30,
    "layer_types": [FULL, SLIDING, FULL, FULL, SLIDING, FULL, SLIDING],
}
STACK = "fictional_stacked_dram"


def stage_differences(got: Stage, price: Price, *, energy_known: bool) -> dict[str, Any]:
    """What a stage's report says otherwise than the reference."""
    values = (price.compute, price.memory, price.memory_bound, math.fsum(price.comm.values()), price.read_bytes)
    expected = dict(zip(PHASE_FIELDS[:7], (*values, price.write_bytes, price.energy), strict=True))
    if not energy_known:
        assert math.isnan(got.dram_energy)
        del expected["dram_energy"]
    assert tuple(got.collectives) == COLLECTIVES
    found = differences(vars(got), {name: float(value) for name, value in expected.items()})
    return found | differences(dict(got.collectives), dict.fromkeys(COLLECTIVES, 0.0) | price.comm)


def check_stages(system: System, report: ss.Estimate) -> None:
    """Compare every stage with the reference's, and the phases with their stages."""
    x = prepared(system)
    assert [stage.index for stage in report.stages] == list(range(x.plan.pp))
    assert [stage.layers for stage in report.stages] == [len(stage_layers(x, stage)) for stage in range(x.plan.pp)]
    for prefix, name in (("prefill", "prefill"), ("first_decode", "decode")):
        prices = Pipeline(x, name).stages(x.kv_len(name))
        phase = getattr(report, prefix)
        for stage, price in zip(report.stages, prices, strict=True):
            energy_known = "energy" in system["memory"]
            assert stage_differences(getattr(stage, prefix), price, energy_known=energy_known) == {}
        seconds = [getattr(stage, f"{prefix}_seconds") for stage in report.stages]
        np.testing.assert_allclose(seconds, [price.seconds for price in prices], rtol=1e-12)
        np.testing.assert_allclose(sum(seconds) + (x.plan.pp - 1) * phase.transfer, phase.seconds, rtol=1e-12)
        np.testing.assert_allclose(seconds[phase.bottleneck] + phase.transfer, phase.period, rtol=1e-12)
        assert same(getattr(report.stages[phase.bottleneck], prefix), phase.stage)


# --- reports ---------------------------------------------------------------------------------------------------------


def test_reports_of_random_systems():
    most_stages = 0

    @given(systems(output=20, several="pp"))
    @settings(max_examples=50)
    def run(system: System):
        nonlocal most_stages
        expected = reference_of(system)
        given = arguments_of(system)
        if expected["reason"] is not None:
            with pytest.raises(ss.InvalidPointError, match=rf"^{expected['reason']}: "):
                ss.estimate(**given)
            return
        report = ss.estimate(**given)
        got = values_of(report)
        assert system_differences(got, expected) == {}
        point = point_values(ss.sweep(**given, outputs="all"))
        for name in ("ttft", "tps", "dram_energy_per_token", "energy_per_token", "noc_energy_per_token"):
            assert got[name] == point[name] or (math.isnan(got[name]) and math.isnan(point[name]))
        check_stages(system, report)
        most_stages = max(most_stages, len(report.stages))

    run()
    assert most_stages > 4


@pytest.mark.parametrize(
    "plan", [{"pp": 7}, {"pp": 5, "tp": 2}, {"pp": 4, "ep": 4}, {"pp": 2, "tp": 2, "ep": 8}], ids=str
)
def test_stages_of_unequal_composition(plan: dict[str, int]):
    """Five stages of seven layers: two in each of the first three, then one, then none."""
    system = plain_system(MIXED, plan, batch_size=40, input_seq_len=100, include_lm_head=True)
    report = ss.estimate(**arguments_of(system))
    assert system_differences(values_of(report), reference_of(system)) == {}
    check_stages(system, report)
    if plan["pp"] == 5:
        assert [stage.layers for stage in report.stages] == [2, 2, 2, 1, 0]
        assert report.stages[4].first_decode.comm_time == 0.0
        assert report.stages[4].first_decode_seconds > 0.0  # the LM head
        assert report.stages[4].prefill.write_bytes == 0.0


@pytest.mark.parametrize("latency_ns", [1e3, 1e6, 1e9, 1e12])
def test_seconds_of_a_stage_beside_a_slow_transfer(latency_ns: float):
    """The transfer is not in a stage's seconds, and leaves no rounding error there."""
    system = plain_system(DENSE, {"pp": 5}, noc=switch_profile(5, latency_ns=latency_ns))
    report = ss.estimate(**arguments_of(system))
    check_stages(system, report)


def test_what_a_report_says_of_its_point():
    given = {"model": "gpt-oss-20b", "memory": STACK, "noc": "gpu_cluster_32", "tp": 4, "pp": 2, "dp": "fill"}
    report = ss.estimate(**given, batch_size=3, layers=4)
    assert {name: report.parameters[name] for name in PARALLEL} == {"tp": 4, "ep": 1, "dp": 4, "pp": 2, "cp": 1}
    assert report.parameters["noc"] == "gpu_cluster_32"
    assert report.parameters["link_model"] == "deepstack"
    assert report.parameters["layers"] == 4
    point = ss.sweep(**given, batch_size=3, layers=4)
    assert set(report.parameters) == set(map(str, point.coords))
    assert any("data-parallel ranks" in words for words in report.warnings)
    assert report.prefill.experts is not None
    document = json.loads(json.dumps(report.to_dict()))
    assert document["stages"][1]["first_decode"]["collectives"]["tp_all_reduce"] > 0
    assert document["ttft"] == report.ttft


def test_the_table_of_a_report():
    system = plain_system(MIXED, {"pp": 5, "tp": 2}, batch_size=3, include_lm_head=True)
    report = ss.estimate(**arguments_of(system))
    lines = str(report).splitlines()
    assert report.table() == str(report)
    assert max(map(len, lines)) <= 100

    def line(*words: str) -> list[str]:
        (found,) = [text for text in lines if text.split()[: len(words)] == list(words)]
        return found.split()[len(words) :]

    assert line("ttft") == [f"{report.ttft:.6g}", "s"]
    phases = (report.prefill, report.first_decode, report.decode)
    assert line("seconds") == [f"{phase.seconds:.6g}" for phase in phases]
    assert line("read_bytes") == [f"{phase.stage.read_bytes:.6g}" for phase in phases]
    assert line("tp_all_reduce") == [f"{phase.stage.collectives['tp_all_reduce']:.6g}" for phase in phases]
    assert line("pairs") == [f"{phase.experts.pairs:.6g}" for phase in phases if phase.experts]
    assert not [text for text in lines if text.startswith("cp_kv_all_gather")]
    for stage in report.stages:
        found = line(str(stage.index), str(stage.layers))
        assert found[:2] == [f"{stage.prefill_seconds:.6g}", f"{stage.first_decode_seconds:.6g}"]
        assert (" bottleneck of prefill" in " " + " ".join(found)) == (stage.index == report.prefill.bottleneck)
        assert (" bottleneck of decode" in " " + " ".join(found)) == (stage.index == report.first_decode.bottleneck)
    assert [text for text in lines if text.startswith("warning: ")] == [
        f"warning: {words}" for words in report.warnings
    ]
    assert len(report.warnings) == 2


# --- energy ----------------------------------------------------------------------------------------------------------


def dram_energy_per_token(system: System) -> float:
    """DRAM energy of all devices in all decode steps of a micro-batch, in pJ per generated token; NaN if unknown."""
    x = prepared(system)
    pipeline = Pipeline(x, "decode")
    spent = [price.energy for step in range(x.output_seq_len) for price in pipeline.stages(x.kv_len("decode", step))]
    known = [energy for energy in spent if energy is not None]
    if len(known) < len(spent):
        return math.nan
    devices_of_a_stage = x.plan.tp * x.plan.cp * x.plan.dp * x.plan.ep
    return devices_of_a_stage * math.fsum(known) / (x.micro_batch * x.output_seq_len)


def check_energies(system: System, expected: dict[str, Any]) -> None:
    names = ["noc_energy_per_token", "dram_energy_per_token", "energy_per_token"]
    got = point_values(ss.sweep(**arguments_of(system), outputs=names))
    dram = dram_energy_per_token(system)
    noc = math.nan if expected["noc_energy_per_token"] is None else expected["noc_energy_per_token"]
    found = [got[name] for name in names]
    np.testing.assert_allclose(found, [noc, dram, (noc + dram) * 1e-12], rtol=1e-12)


def test_energies_of_random_systems():
    known = 0

    @given(systems(output=60))
    @settings(max_examples=80)
    def run(system: System):
        nonlocal known
        expected = reference_of(system)
        if expected["reason"] is None:
            check_energies(system, expected)
            known += not math.isnan(dram_energy_per_token(system))

    run()
    assert known > 20


@pytest.mark.parametrize(
    ("model", "plan"),
    [
        (DENSE, {"tp": 2, "cp": 3, "pp": 3}),
        (DENSE, {"cp": 7, "pp": 5, "dp": 2}),
        (MIXED, {"tp": 2, "ep": 8, "pp": 5}),
        (MIXED, {"tp": 2, "ep": 4, "dp": 2, "pp": 3, "moe_tp_mode": "keep"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("output_seq_len", [1, 2, 7, 500])
def test_energies_of_long_decodes(model: dict[str, Any], plan: dict[str, int], output_seq_len: int):
    memory = ss.load_memory(STACK).to_dict()
    memory["dram"]["apply_wave_quantization"] = True
    for include_lm_head in (False, True):
        system = plain_system(
            model,
            plan,
            memory=memory,
            batch_size=11,
            input_seq_len=23,
            output_seq_len=output_seq_len,
            include_lm_head=include_lm_head,
        )
        check_energies(system, reference_of(system))


def test_energy_of_one_device_is_that_of_its_decode():
    ds = ss.sweep(**arguments_of(plain_system(DENSE, {}, output_seq_len=[1, 9, 300])), outputs="all")
    per_token = ds.decode_dram_energy / (4 * ds.output_seq_len)
    np.testing.assert_allclose(ds.dram_energy_per_token, per_token, rtol=1e-12)
    np.testing.assert_allclose(ds.energy_per_token, per_token * 1e-12, rtol=1e-12)
    assert ds.energy_per_token.attrs["units"] == "J"
    assert ds.dram_energy_per_token.attrs["units"] == ds.noc_energy_per_token.attrs["units"] == "pJ"


# --- errors in words -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tp": 5, "dp": "fill"}, "fill: .*tp=5, .*devices=8"),
        ({"tp": 4}, "world_size: .*tp=4, .*devices=8"),
        ({"tp": 8}, "tp_heads: .*tp=8, heads=12"),
        ({"tp": 4, "dp": 2}, "tp_kv_heads: .*tp=4, kv_heads=6"),
        ({"pp": 8}, "pp_layers: .*pp=8, model_layers=7"),
        ({"cp": 8, "input_seq_len": 3}, "cp_prompt: .*cp=8, input_seq_len=3"),
        ({"model": MIXED, "cp": 8}, "cp_model: .*cp=8, model=mixed"),
        ({"model": MIXED, "tp": 2, "ep": 6, "noc": switch_profile(12)}, "moe_ranks: .*tp=2, ep=6, experts=8"),
        ({"model": MIXED, "ep": 3, "noc": switch_profile(3)}, "ep_experts: .*ep=3, experts=8"),
        ({"ep": 8}, "ep_dense: .*ep=8, model=dense"),
        ({"dp": 8, "layers": 4, "connected_layers": 8}, "connected_layers: .*connected_layers=8, layers=4"),
    ],
    ids=lambda value: value.split(":")[0] if isinstance(value, str) else "",
)
def test_errors_in_full_words(changes: dict[str, Any], words: str):
    given = arguments_of(plain_system(DENSE, {}, noc=switch_profile(8))) | {"memory": STACK} | changes
    with pytest.raises(ss.InvalidPointError, match=f"^{words}") as caught:
        ss.estimate(**given)
    assert isinstance(caught.value, ValueError)
    reason = words.split(":")[0]
    ds = ss.sweep(**given)
    position = ds.reason.attrs["flag_meanings"].split().index(reason)
    assert ds.reason.item() == ds.reason.attrs["flag_values"][position]
    assert len(re.split(r"[ :(]+", str(caught.value))) > 6


def test_an_estimate_takes_one_point():
    given = arguments_of(plain_system(DENSE, {}, noc=switch_profile(8)))
    for name, value in (
        ("tp", [2, 4]),
        ("dp", np.array([8])),
        ("noc", [switch_profile(8)]),
        ("batch_size", range(1, 3)),
    ):
        with pytest.raises(ss.ParameterError, match=rf"^{name}: got several values, and an estimate takes one"):
            ss.estimate(**given | {name: value})
