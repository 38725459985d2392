"""Costs against the reference values."""

from __future__ import annotations

import pytest
from noc_cases import dispatch_bytes, golden, relative_error

import deepstack_noc as dn

TOLERANCE = 1e-12
LINK_MODELS = {"network": "deepstack", "network_physical": "physical"}
SHORT = {"rd": "recursive_doubling", "rab": "rabenseifner", "tree": "double_tree", "a2a": "all_to_all"}


def errors(cost, expected):
    return (
        relative_error(cost.hop_time, expected["hop_seconds"]),
        relative_error(cost.link_time, expected["link_seconds"]),
        relative_error(cost.energy, expected["energy_pj"]),
    )


@pytest.mark.parametrize("file", LINK_MODELS)
@pytest.mark.parametrize("collective", ["all_reduce", "all_gather"])
def test_collectives(file, collective):
    for number, case in enumerate(golden(file)):
        price = getattr(dn, collective)
        cost = price(case["noc"], case["sizes"], case["dim"], case["bytes"], LINK_MODELS[file])
        expected = case["expect"][collective]
        assert max(errors(cost, expected)) <= TOLERANCE, f"case {number}: {cost} instead of {expected}"
        if "algorithm" in expected:
            assert cost.algorithm == SHORT.get(expected["algorithm"], expected["algorithm"]), f"case {number}"


def test_pipeline_transfers():
    cases = [case for case in golden("network") if "pipeline_transfer" in case["expect"]]
    assert len(cases) == 114
    for number, case in enumerate(cases):
        cost = dn.pipeline_transfer(case["noc"], case["sizes"], case["bytes"])
        expected = case["expect"]["pipeline_transfer"]
        assert max(errors(cost, expected)) <= TOLERANCE, f"case {number}: {cost} instead of {expected}"


def test_expert_dispatch():
    cases = [case for case in golden("network") if "ep_all_to_all" in case["expect"]]
    assert len(cases) == 97
    for number, case in enumerate(cases):
        expected = case["expect"]["ep_all_to_all"]
        sent = dispatch_bytes(case["sizes"], expected)
        cost = dn.all_to_all(case["noc"], case["sizes"], "ep", pair_bytes=sent)
        assert max(errors(cost, expected)) <= TOLERANCE, f"case {number}: {cost} instead of {expected}"
        if (sent == sent[0, 0, 1]).all():
            uniform = dn.all_to_all(case["noc"], case["sizes"], "ep", int(sent[0, 0, 1]))
            assert max(errors(uniform, expected)) <= TOLERANCE


@pytest.mark.parametrize("file", LINK_MODELS)
def test_routes(file):
    for number, case in enumerate(golden(file)):
        noc = dn.load_noc(case["noc"])
        for expected in case["routes"]:
            states = dn.route(noc, expected["src"], expected["dst"], LINK_MODELS[file])
            assert [list(state) for state in states] == expected["states_L3_L2_L1"], f"case {number}"


def test_both_models_agree_on_switches():
    """Every link of an all-switch hierarchy is charged by both; CENTERs are not charged by deepstack."""
    cases = [case for case in golden("network") if all(x["kind"] == "switch" for x in case["noc"]["layers"].values())]
    assert len(cases) == 80
    for case in cases:
        layers = {
            name: {key: value for key, value in layer.items() if "center" not in key}
            for name, layer in case["noc"]["layers"].items()
        }
        args = {**case["noc"], "layers": layers}, case["sizes"], case["dim"], case["bytes"]
        deepstack, physical = dn.all_reduce(*args), dn.all_reduce(*args, "physical")
        assert repr(physical) == repr(deepstack)  # NaN included
