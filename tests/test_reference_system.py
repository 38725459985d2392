"""The plain scalar reference with its plain network agrees with the golden values of many chips."""

from typing import Any

import pytest

from reference import evaluate
from reference.golden import (
    agrees,
    arguments,
    cases,
    differences,
    expected_comm,
    expected_multi_chip,
    expected_reason,
)
from reference.moe import dispatch_bytes
from reference.network import CollectiveCost, Noc, groups, route
from reference.system import RESULTS


def test_multi_chip():
    wrong = {}
    for number, case in enumerate(cases("multi_chip")):
        got = evaluate(**arguments(case), network=Noc(case["noc"]))
        wrong[number] = differences(got, expected_multi_chip(case))
        for prefix in ("prefill", "first_decode"):
            comm = expected_comm(case, prefix)
            assert got[f"{prefix}_comm"].keys() == comm.keys()
            wrong[number] |= differences(got[f"{prefix}_comm"], comm)
    assert len(wrong) == 400
    assert not {number: found for number, found in wrong.items() if found}


def test_invalid_plans():
    for case in cases("invalid"):
        got = evaluate(**arguments(case), network=Noc(case["noc"]))
        assert got == dict.fromkeys(RESULTS) | {"reason": expected_reason(case)}


@pytest.mark.parametrize(
    ("model", "plan", "changes", "reason"),
    [
        ("mixed-moe", {"tp": 5}, {"devices": 4}, "world_size"),
        ("mixed-moe", {"tp": 5}, {}, "tp_heads"),
        ("mixed-moe", {"tp": 4, "pp": 16}, {}, "tp_kv_heads"),
        ("mixed-moe", {"pp": 16, "cp": 64}, {}, "pp_layers"),
        ("mixed-moe", {"cp": 64}, {}, "cp_prompt"),
        ("mixed-moe", {"tp": 6, "ep": 3, "cp": 2}, {}, "cp_model"),
        ("mixed-moe", {"tp": 6, "ep": 3}, {}, "moe_ranks"),
        ("mixed-moe", {"tp": 6, "ep": 3, "moe_tp_mode": "keep"}, {"stack": (3, 4)}, "connected_layers"),
        ("mixed-moe", {"ep": 8}, {}, "ep_experts"),
        ("llama-3.1-8b", {"ep": 2}, {"stack": (3, 4)}, "ep_dense"),
        ("llama-3.1-8b", {"dp": 2}, {"stack": (3, 4), "static_power_w": 72.9}, "connected_layers"),
        ("llama-3.1-8b", {"dp": 2}, {"stack": (8, 4), "static_power_w": 72.9}, "thermal"),
        ("llama-3.1-8b", {"dp": 2}, {"stack": (8, 4)}, None),
    ],
)
def test_reasons_in_order(model: str, plan: dict, changes: dict, reason: str | None):
    layers, connected = changes.get("stack", (8, 4))
    memory = {
        "kind": "stacked_dram",
        "dram": {
            "total_layers": layers,
            "connected_layers": connected,
            "channels_per_connected_layer": 7,
            "capacity_per_layer_bytes": 1234567890,
            "transaction_bytes": 96,
            "apply_wave_quantization": False,
            "direct_peak_bandwidth_per_connected_layer_bytes_per_s": 5e11,
            "fully_connected_efficiency": 0.9,
        },
        "thermal": {
            "resistance_base_c_per_w": 0.42,
            "resistance_per_layer_c_per_w": 0.007,
            "baseline_layers": 3,
            "design_power_w": 73,
            "static_power_w": changes.get("static_power_w", 8),
            "dynamic_power_exponent": 2.5,
        },
    }
    devices = 1
    for name in ("tp", "ep", "dp", "pp", "cp"):
        devices *= plan.get(name, 1)
    level = {"kind": "switch", "shape": [1, 1], "hop_latency_ns": 1.0, "link_bandwidth_gbytes_per_s": 1.0}
    network = Noc({"layers": {"L3": level, "L2": level, "L1": level | {"shape": [1, changes.get("devices", devices)]}}})
    case = cases("multi_chip")[0]
    load = {"batch_size": 2, "input_seq_len": 32, "output_seq_len": 2}
    point = arguments(case) | {"model": cases("models")[model], "plan": plan, "memory": memory} | load
    assert evaluate(**point, network=network)["reason"] == reason


@pytest.mark.parametrize("link_model", ["deepstack", "physical"])
def test_routes(link_model: str):
    for case in cases("network_sample")[link_model]:
        topology = Noc(case["noc"], link_model).topology
        for expected in case["routes"]:
            states = [list(state) for state in route(topology, expected["src"], expected["dst"])]
            assert states == expected["states_L3_L2_L1"]


def priced(network: Noc, case: dict[str, Any], collective: str, expect: dict[str, Any]) -> CollectiveCost:
    sizes, nbytes = case["sizes"], case["bytes"]
    if collective == "all_reduce":
        return network.all_reduce_cost(sizes, case["dim"], nbytes)
    if collective == "all_gather":
        return network.all_gather_cost(sizes, case["dim"], nbytes)
    if collective == "pipeline_transfer":
        return network.pipeline_transfer_cost(sizes, nbytes)
    slots = dispatch_bytes(
        expect["routing"],
        "decode",
        expect["num_experts"],
        expect["top_k"],
        sizes["ep"],
        sizes["dp"],
        expect["micro_batch_tokens"],
        expect["bytes_per_token"],
        expect["imbalance"],
    )
    return network.all_to_all_cost(sizes, "ep", slots)


@pytest.mark.parametrize("link_model", ["deepstack", "physical"])
def test_collectives(link_model: str):
    wrong = {}
    for number, case in enumerate(cases("network_sample")[link_model]):
        network = Noc(case["noc"], link_model)
        for collective, expect in case["expect"].items():
            cost = priced(network, case, collective, expect)
            got = {"hop_seconds": cost.hop, "link_seconds": cost.link, "energy_pj": cost.energy}
            expected = {name: expect[name] for name in got}
            if "algorithm" in expect:
                got["algorithm"], expected["algorithm"] = cost.algorithm, expect["algorithm"]
            wrong[number, collective] = differences(got, expected)
    assert len(wrong) > 50
    assert not {key: found for key, found in wrong.items() if found}


def test_reduce_scatter_by_hand():
    level = {"kind": "switch", "shape": [1, 1], "hop_latency_ns": 0.0, "link_bandwidth_gbytes_per_s": 1.0}
    for ranks, link in ((4, 50e-9 + 25e-9), (3, 2 * 33e-9)):  # halves, then quarters; or two thirds of a ring
        layers = {"L3": level, "L2": level, "L1": level | {"shape": [1, ranks]}}
        cost = Noc({"layers": layers}).reduce_scatter_cost({"tp": ranks}, "tp", 100)
        assert agrees(cost.link, link)


def test_group_order():
    sizes = {"tp": 2, "ep": 3, "pp": 2}
    assert groups(sizes, "tp") == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]
    assert groups(sizes, "ep") == [[0, 2, 4], [6, 8, 10], [1, 3, 5], [7, 9, 11]]
    assert groups(sizes, "pp") == [[0, 6], [1, 7], [2, 8], [3, 9], [4, 10], [5, 11]]


def test_nearest_port():
    def level(kind: str, rows: int, columns: int) -> dict:
        return {
            "kind": kind,
            "shape": [rows, columns],
            "hop_latency_ns": 1.0,
            "link_bandwidth_gbytes_per_s": 1.0,
        }

    layers = {"L3": level("switch", 1, 1), "L2": level("mesh2d", 2, 1), "L1": level("mesh2d", 4, 4)}
    network = Noc({"layers": layers, "port_spread": "nearest"}, "physical")
    # up leaves row 3 of L1 through columns 0 and 1 (nodes 12, 13) and arrives in row 0 at columns 0 and 1
    assert route(network.topology, 13, 17) == ((0, 0, 13), (0, 1, 1))
    assert route(network.topology, 15, 17) == ((0, 0, 15), (0, 0, 14), (0, 0, 13), (0, 1, 1))
    assert route(network.topology, 12, 17) == ((0, 0, 12), (0, 1, 0), (0, 1, 1))
    assert route(network.topology, 0, 16) == (*((0, 0, node) for node in (0, 4, 8, 12)), (0, 1, 0))
