"""The published models' own numbers for many chips, through the public interface."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from system_cases import PARALLEL, arguments_of, comm_differences, golden_system, same, table_of, values_of

import stacksweep as ss
from reference.golden import cases, expected_comm, expected_multi_chip, expected_reason
from stacksweep.kernels.validity import WARNINGS
from strategies import point_values, wrong

MULTI_CHIP = cases("multi_chip")
INVALID = cases("invalid")


def has_empty_stages(case: dict[str, Any]) -> bool:
    return "empty_stages" in expected_multi_chip(case)["warnings"]


REPORTED = [case for number, case in enumerate(MULTI_CHIP) if number % 5 == 0 or has_empty_stages(case)]


def expected_of(case: dict[str, Any]) -> dict[str, Any]:
    expected = expected_multi_chip(case) | {"reason": None}
    del expected["micro_batch"], expected["sequences_per_device"]
    return expected


def differences_of(got: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    expected = expected_of(case)
    assert set(expected) - set(got) == set()
    found = wrong(got, expected)
    for prefix in ("prefill", "first_decode"):
        found |= comm_differences(got, expected_comm(case, prefix), prefix)
    return found


def test_there_are_cases_of_every_sort():
    assert len(MULTI_CHIP) == 400
    assert len(INVALID) == 60
    warned = Counter(name for case in MULTI_CHIP for name in expected_multi_chip(case)["warnings"])
    assert set(warned) == set(WARNINGS)
    assert {case["comm_overlap"] for case in MULTI_CHIP} == {"none", "full"}
    assert sum(case["plan"]["cp"] > 1 for case in MULTI_CHIP) == 100


# --- sweeps ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fold", range(8))
def test_each_case_in_a_call_of_its_own(fold: int):
    different = {}
    for number in range(fold, len(MULTI_CHIP), 8):
        case = MULTI_CHIP[number]
        ds = ss.sweep(**arguments_of(golden_system(case)), outputs="all")
        different[number] = differences_of(point_values(ds), case)
    assert len(different) == 50
    assert not {number: found for number, found in different.items() if found}


def check_points(some: Sequence[dict[str, Any]], **shared: Any) -> None:
    """Compare cases with one call of which they are the points, but for what they share."""
    ds = ss.sweep(points=table_of([golden_system(case) for case in some], shared), **shared, outputs="all")
    assert dict(ds.tps.sizes) == {"point": len(some)}
    different = {number: differences_of(point_values(ds, point=number), case) for number, case in enumerate(some)}
    assert not {number: found for number, found in different.items() if found}


def test_all_cases_in_one_call():
    check_points(MULTI_CHIP)


@pytest.mark.parametrize("model", sorted({case["model"] for case in MULTI_CHIP}))
def test_all_cases_of_a_model_in_one_call(model: str):
    some = [case for case in MULTI_CHIP if case["model"] == model]
    check_points(some[::-1], model=golden_system(some[0])["model"])


@pytest.mark.parametrize("comm_overlap", ["none", "full"])
@pytest.mark.parametrize("name", ["illustrative_gpu_node_8", "illustrative_gpu_cluster_32"])
def test_all_cases_of_a_network_in_one_call(name: str, comm_overlap: str):
    some = [case for case in MULTI_CHIP if case["noc"]["name"] == name and case["comm_overlap"] == comm_overlap]
    assert len(some) > 10
    check_points(some, noc=some[0]["noc"], comm_overlap=comm_overlap)


def test_single_precision_rounds_the_same_numbers():
    some = MULTI_CHIP[::40]
    table = table_of([golden_system(case) for case in some])
    double = ss.sweep(points=table, outputs="all")
    single = ss.sweep(points=table, outputs="all", dtype="float32")
    for name, variable in double.items():
        if variable.dtype.kind == "f":
            assert single[name].dtype == np.float32
            np.testing.assert_array_equal(single[name].values, variable.values.astype(np.float32))
        else:
            np.testing.assert_array_equal(single[name].values, variable.values)


# --- one point in full -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(REPORTED)))
def test_reports(number: int):
    case = REPORTED[number]
    report = ss.estimate(**arguments_of(golden_system(case)))
    assert differences_of(values_of(report), case) == {}

    assert {name: report.parameters[name] for name in PARALLEL} == {name: case["plan"][name] for name in PARALLEL}
    assert [stage.index for stage in report.stages] == list(range(case["plan"]["pp"]))
    hops = case["plan"]["pp"] - 1
    for prefix, original in (("prefill", "prefill"), ("first_decode", "first_token_decode")):
        phase = getattr(report, prefix)
        seconds = [getattr(stage, f"{prefix}_seconds") for stage in report.stages]
        np.testing.assert_allclose(sum(seconds) + hops * phase.transfer, phase.seconds, rtol=1e-12)
        np.testing.assert_allclose(max(seconds) + phase.transfer, phase.period, rtol=1e-12)
        expected = case["expect"][original]["bottleneck"]
        slowest = report.stages[expected["stage"]]
        assert slowest.layers == expected["layers"]
        np.testing.assert_allclose(seconds[slowest.index], expected["seconds"], rtol=1e-12)
        assert same(getattr(slowest, prefix), phase.stage)


def test_reports_are_of_every_sort():
    assert {case["model"] for case in REPORTED} == {case["model"] for case in MULTI_CHIP}
    assert {case["plan"]["pp"] for case in REPORTED} >= {1, 2, 4, 8}
    assert any(map(has_empty_stages, REPORTED))


# --- points that cannot be -------------------------------------------------------------------------------------------


def check_masked(got: dict[str, Any], case: dict[str, Any]) -> None:
    reason = expected_reason(case)
    assert not got["valid"]
    assert got["reason"] == reason
    assert got["warnings"] == set()
    assert wrong(got, {"reason": reason}) == {}


@pytest.mark.parametrize("number", range(len(INVALID)))
def test_invalid_cases(number: int):
    case = INVALID[number]
    given = arguments_of(golden_system(case))
    ds = ss.sweep(**given, outputs="all")
    check_masked(point_values(ds), case)
    for variable in ds.values():
        if variable.dtype.kind == "f":
            assert variable.isnull().all()
    with pytest.raises(ss.InvalidPointError, match=rf"^{re.escape(expected_reason(case))}: "):
        ss.estimate(**given)


def test_invalid_cases_do_not_stop_a_call():
    mixed = [case for pair in zip(INVALID, MULTI_CHIP, strict=False) for case in pair]
    ds = ss.sweep(points=table_of([golden_system(case) for case in mixed]), outputs="all")
    assert ds.valid.values.tolist() == [False, True] * 60
    for number, case in enumerate(mixed):
        got = point_values(ds, point=number)
        if "error" in case:
            check_masked(got, case)
        else:
            assert differences_of(got, case) == {}
