"""Plans, networks and their rates as axes: listed, filled, refused, and mixed with everything else."""

import json
import math
import os
import re
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from system_cases import (
    PARALLEL,
    arguments_of,
    nocs,
    plain_system,
    reason_of,
    reference_of,
    switch_profile,
    system_differences,
)

import stacksweep as ss
from reference.network import Noc, links
from stacksweep import blocks
from strategies import bitwise_equal, models, point_values

DENSE = {
    "name": "dense",
    "hidden_size": 96,
    "num_attention_heads": 12,
    "num_key_value_heads": 12,
    "num_hidden_layers": 5,
    "intermediate_size": 200,
    "vocab_size": 1000,
}
ROUTED = DENSE | {
    "name": "routed",
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 50,
    "mlp_types": ["ffn", "moe", "moe", "moe", "ffn"],
}
MIXED = ROUTED | {
    "name": "mixed",
    "num_experts": 6,
    "sliding_window": 300,
    "layer_types": ["full_attention", "sliding_attention", "full_attention", "full_attention", "sliding_attention"],
}
STACK = "fictional_stacked_dram"


def sizes_of(dims: dict[str, xr.DataArray]) -> list[dict[str, int]]:
    return [
        dict(zip(dims, sizes, strict=True))
        for sizes in zip(*(dims[name].values.tolist() for name in dims), strict=True)
    ]


def factorisations(devices: int) -> list[dict[str, int]]:
    """All plans that use so many devices."""
    factors = [n for n in range(1, devices + 1) if devices % n == 0]
    return [
        dict(zip(PARALLEL, sizes, strict=True)) for sizes in product(factors, repeat=5) if math.prod(sizes) == devices
    ]


def reasons(ds: xr.Dataset) -> xr.DataArray:
    """The words of `reason`."""
    names = np.array(ds.reason.attrs["flag_meanings"].split())
    return ds.reason.copy(data=names[ds.reason.values])


# --- plans that can be -----------------------------------------------------------------------------------------------


@given(models(layers=6), st.sampled_from([1, 2, 6, 8, 12, 16]), st.sampled_from(["replace", "keep"]), st.booleans())
@settings(max_examples=40)
def test_plans_are_exactly_those_that_can_be(model: dict[str, Any], devices: int, mode: str, short: bool):
    prompt = {"input_seq_len": 3} if short else {}
    expected = [
        plan for plan in factorisations(devices) if reason_of(model, plan | {"moe_tp_mode": mode}, **prompt) is None
    ]
    if not expected:
        with pytest.raises(ss.ParameterError, match=r"^noc: no plan of the"):
            ss.plans(model, switch_profile(devices), moe_tp_mode=mode, **prompt)
        return
    found = ss.plans(model, switch_profile(devices), moe_tp_mode=mode, **prompt)
    key = [tuple(plan.values()) for plan in sizes_of(found)]
    assert set(found) == set(PARALLEL)
    assert sorted(key) == sorted(tuple(plan[name] for name in found) for plan in expected)
    for name, sizes in found.items():
        assert sizes.dims == ("plan",)
        assert sizes.dtype == np.int64
        assert sizes.name in (None, name)
    labels = [
        " ".join(f"{name}={plan[name]}" for name in PARALLEL if plan[name] > 1) or "one device"
        for plan in sizes_of(found)
    ]
    assert found["tp"]["plan"].values.tolist() == labels


@pytest.mark.parametrize("model", [DENSE, ROUTED, MIXED], ids=["dense", "routed", "mixed"])
@pytest.mark.parametrize("mode", ["replace", "keep"])
def test_plans_are_ready_to_be_passed_on(model: dict[str, Any], mode: str):
    system = plain_system(model, {}, noc=switch_profile(12))
    found = ss.plans(model, system["noc"], moe_tp_mode=mode)
    given = arguments_of(system) | {"moe_tp_mode": mode}
    ds = ss.sweep(**given, **found, outputs="all")
    assert ds.tps.dims == ("plan",)
    assert ds.valid.all()
    assert ds["plan"].values.tolist() == found["tp"]["plan"].values.tolist()
    for number, plan in enumerate(sizes_of(found)):
        assert {name: ds[name].values[number] for name in PARALLEL} == plan
        expected = reference_of(system | {"plan": plan | {"moe_tp_mode": mode}})
        assert system_differences(point_values(ds, plan=number), expected) == {}
    assert ds.sel(plan=ds["plan"].values[3]).tp.item() == sizes_of(found)[3]["tp"]


def test_plans_of_bundled_profiles():
    found = ss.plans("llama-3.1-8b", "gpu_node_8")
    assert len(sizes_of(found)) == len([plan for plan in factorisations(8) if plan["ep"] == 1])
    with pytest.raises(ss.ProfileError):
        ss.plans("llama-3.1-8b", "no_such_network")
    with pytest.raises(ss.ParameterError, match=r"^moe_tp_mode: got 'both', needs one of replace, keep"):
        ss.plans("llama-3.1-8b", "gpu_node_8", moe_tp_mode="both")
    with pytest.raises(ss.ParameterError, match=r"^input_seq_len: got 0, needs a whole number of at least 1"):
        ss.plans("llama-3.1-8b", "gpu_node_8", input_seq_len=0)


# --- reasons in their order ------------------------------------------------------------------------------------------

STACKS = [(8, 4), (4, 8), (16, 4)]
"""(layers, connected layers) of a stack that can be, of one with too many connected, of one that cannot be cooled."""


def hot_stack() -> dict[str, Any]:
    stack = ss.load_memory(STACK).to_dict()
    stack["thermal"] = {
        "resistance_base_c_per_w": 0.4,
        "resistance_per_layer_c_per_w": 0.1,
        "baseline_layers": 8,
        "design_power_w": 100,
        "static_power_w": 70,
        "dynamic_power_exponent": 2.5,
    }
    return stack


@st.composite
def size_axes(draw: st.DrawFn) -> dict[str, list[int]]:
    """Values of each size; the first ones make a plan of a few devices."""
    axes = {
        name: [1, *draw(st.lists(st.sampled_from([2, 3, 4, 5, 6, 8, 12, 24]), max_size=2, unique=True))]
        for name in PARALLEL
    }
    for name in draw(st.lists(st.sampled_from(PARALLEL), max_size=2, unique=True)):
        axes[name] = axes[name][::-1]
    return axes


def test_reasons_of_random_grids():
    seen: set[str | None] = set()
    grouped = st.sampled_from(
        [config | {"num_key_value_heads": heads} for config in (DENSE, ROUTED) for heads in (2, 4)]
    )

    @given(st.one_of(models(layers=5), grouped), size_axes(), st.sampled_from([*PARALLEL, None, None]))
    @settings(max_examples=80)
    def run(model: dict[str, Any], sizes: dict[str, list[int]], fill: str | None):
        devices = math.prod(values[0] for values in sizes.values())
        system = plain_system(model, {}, noc=switch_profile(devices), memory=hot_stack(), output_seq_len=1)
        axes: dict[str, Any] = {
            "stack": range(len(STACKS)),
            "moe_tp_mode": ["replace", "keep"],
            "input_seq_len": [2, 30],
            **{name: values for name, values in sizes.items() if name != fill},
        }
        stack = {
            name: xr.DataArray(list(values), dims="stack")
            for name, values in zip(("layers", "connected_layers"), zip(*STACKS, strict=True), strict=True)
        }
        filled = {fill: "fill"} if fill else {}
        given = {name: values for name, values in axes.items() if name != "stack"}
        ds = ss.sweep(**arguments_of(system) | given | stack | filled, outputs=["valid", "warnings"])
        found = reasons(ds).transpose(*axes).values
        assert ds.valid.equals(ds.reason == 0)
        assert not ds.warnings.where(~ds.valid, 0).any()
        for at, values in zip(np.ndindex(found.shape), product(*axes.values()), strict=True):
            point = dict(zip(axes, values, strict=True))
            expected = reason_of_point(model, devices, point, fill)
            assert found[at] == (expected or "valid"), point
            seen.add(expected)

    run()
    assert seen >= {"fill", "world_size", None}


def reason_of_point(model: dict[str, Any], devices: int, point: dict[str, Any], fill: str | None) -> str | None:
    plan = {name: point[name] for name in PARALLEL if name != fill} | {"moe_tp_mode": point["moe_tp_mode"]}
    if fill:
        others = math.prod(point[name] for name in PARALLEL if name != fill)
        if devices % others:
            return "fill"
        plan[fill] = devices // others
    memory = (None, "connected_layers", "thermal")[point["stack"]]
    return reason_of(model, plan, devices, memory_reason=memory, input_seq_len=point["input_seq_len"])


def test_two_reasons_of_a_stack_and_of_a_plan():
    """The plan's reasons come before those of the stack, and more layers connected than there are before the heat."""
    given = arguments_of(plain_system(DENSE, {}, noc=switch_profile(8), memory=hot_stack()))
    ds = ss.sweep(**given | {"tp": [8, 4], "dp": "fill", "layers": 16, "connected_layers": [4, 17]})
    assert reasons(ds).transpose("tp", "connected_layers").values.tolist() == [
        ["tp_heads", "tp_heads"],
        ["thermal", "connected_layers"],
    ]
    for tp, words in ((8, "tp_heads: "), (4, "connected_layers: ")):
        with pytest.raises(ss.InvalidPointError, match=f"^{words}"):
            ss.estimate(**given | {"tp": tp, "dp": "fill", "layers": 16, "connected_layers": 17})


# --- sizes that fill the devices -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fill", PARALLEL)
def test_fill_as_one_axis_less(fill: str):
    axes = {name: [1, 2, 3] for name in PARALLEL if name != fill}
    given = arguments_of(plain_system(DENSE if fill == "cp" else ROUTED, {}, noc=switch_profile(24)))
    ds = ss.sweep(**given | axes | {fill: "fill"}, outputs="all")
    assert set(ds.sizes) - {"collective"} == set(axes)
    assert ds[fill].dims == tuple(dim for dim in ds.tps.dims if dim in axes)
    others = xr.DataArray(1)
    for name in axes:
        others = others * ds[name]
    divides = 24 % others == 0
    np.testing.assert_array_equal(ds[fill].where(divides), (24 / others).where(divides).transpose(*ds[fill].dims))
    assert (ds[fill].where(~divides, 0) == 0).all()
    assert ((reasons(ds) == "fill") == ~divides).all()
    # the same plans with every size given
    table = ds[list(PARALLEL)].reset_coords().to_dataframe().reset_index()[list(PARALLEL)]
    table = table[table[fill] > 0].reset_index(drop=True)
    points = ss.sweep(**given, points=table, outputs="all")
    filled = ds.stack(point=list(axes)).transpose(..., "point").where(lambda d: d[fill] > 0, drop=True)
    for name in ("tps", "ttft", "prefill_transfer", "noc_energy_per_token"):
        np.testing.assert_array_equal(filled[name].values, points[name].values)
    assert points.valid.sum() > 3


def test_fill_of_one_point():
    given = arguments_of(plain_system(DENSE, {}, noc=switch_profile(24)))
    ds = ss.sweep(**given | {"tp": 4, "pp": 2, "dp": "fill"}, outputs="all")
    assert ds.dp.dims == ()
    assert ds.dp.item() == 3
    assert bitwise_equal(ds, ss.sweep(**given | {"tp": 4, "pp": 2, "dp": 3}, outputs="all"))
    one = ss.estimate(**given | {"tp": 4, "pp": 2, "dp": "fill"})
    assert one.parameters["dp"] == 3
    with pytest.raises(ss.InvalidPointError, match=r"^fill: .*\(tp=5, .*devices=24\)$"):
        ss.estimate(**given | {"tp": 5, "dp": "fill"})


def test_fill_of_points():
    table = pd.DataFrame({"tp": [1, 2, 4, 5], "pp": [1, 3, 5, 1]})
    given = arguments_of(plain_system(DENSE, {}, noc=switch_profile(24)))
    ds = ss.sweep(**given | {"dp": "fill"}, points=table)
    assert ds.dp.dims == ("point",)
    assert ds.dp.values.tolist() == [24, 4, 0, 0]
    assert reasons(ds).values.tolist() == ["valid", "valid", "fill", "fill"]


def test_fill_of_several_networks():
    networks = [switch_profile(devices) for devices in (8, 12)]
    given = arguments_of(plain_system(DENSE, {}))
    ds = ss.sweep(**given | {"noc": networks, "tp": [1, 3, 4], "dp": "fill"}, outputs="all")
    assert ds["noc"].values.tolist() == ["switch of 8", "switch of 12"]
    assert ds.dp.transpose("noc", "tp").values.tolist() == [[8, 0, 2], [12, 4, 3]]
    assert reasons(ds).transpose("noc", "tp").values.tolist() == [["valid", "fill", "valid"], ["valid"] * 3]
    for noc, tp in ((0, 2), (1, 1), (1, 2)):
        plan = {"tp": [1, 3, 4][tp], "dp": [[8, 0, 2], [12, 4, 3]][noc][tp]}
        expected = reference_of(plain_system(DENSE, plan, noc=networks[noc]))
        assert system_differences(point_values(ds, noc=noc, tp=tp), expected) == {}


def test_fill_without_a_network():
    ds = ss.sweep(**arguments_of(plain_system(DENSE, {})) | {"noc": None, "dp": "fill"})
    assert ds.dp.item() == 1
    assert ds.valid.item()


def test_only_one_size_fills():
    given = arguments_of(plain_system(DENSE, {}, noc=switch_profile(8)))
    with pytest.raises(ss.ParameterError, match=r'^(tp|dp): got "fill", and (dp|tp) fills the devices already'):
        ss.sweep(**given | {"tp": "fill", "dp": "fill"})
    for value in (["fill"], [1, "fill"], np.array(["fill"]), "Fill", "all"):
        with pytest.raises(ss.ParameterError, match=r'^dp: got .*, needs a whole number of at least 1.*, or "fill"$'):
            ss.sweep(**given | {"dp": value})
    with pytest.raises(ss.ParameterError, match=r"^batch_size: got 'fill', needs a whole number"):
        ss.sweep(**given | {"batch_size": "fill"})


# --- rates of the network --------------------------------------------------------------------------------------------

RATES = {
    **{f"l{level}_bandwidth": [1.5e7, 3.3e10, 1e12] for level in (1, 2, 3)},
    **{f"l{level}_latency": [0.0, 1e-6, 0.01] for level in (1, 2, 3)},
    **{f"l{level}_pj_per_bit": [0.0, 0.7] for level in (1, 2, 3)},
}


def edited(profile: dict[str, Any], rates: dict[str, float]) -> dict[str, Any]:
    """A profile with other rates, in its own layout."""
    layers = {name: dict(level) for name, level in profile["layers"].items()}
    energy = dict(profile.get("energy_pj_per_bit") or {})
    for name, value in rates.items():
        level, rate = name.split("_", 1)
        if rate == "bandwidth":
            layers[level.upper()]["link_bandwidth_gbytes_per_s"] = value / 1e9
        elif rate == "latency":
            layers[level.upper()]["hop_latency_ns"] = value * 1e9
        else:
            energy[level] = value
    return profile | {"layers": layers} | ({"energy_pj_per_bit": energy} if energy else {})


@given(
    st.sampled_from(["deepstack", "physical"]).flatmap(lambda model: st.tuples(st.just(model), nocs(8, model))),
    st.lists(st.sampled_from(list(RATES)), min_size=1, max_size=5, unique=True),
    st.sampled_from([{"tp": 4, "pp": 2}, {"cp": 2, "dp": 4}, {"tp": 2, "cp": 2, "pp": 2}, {"ep": 4, "dp": 2}]),
    st.randoms(use_true_random=False),
)
@settings(max_examples=40)
def test_rates_as_axes(network: tuple[str, dict[str, Any]], names: list[str], plan: dict[str, int], random: Any):
    link_model, noc = network
    if "energy_pj_per_bit" not in noc and any(name.endswith("pj_per_bit") for name in names):
        names = sorted({*names, *(f"l{level}_pj_per_bit" for level in (1, 2, 3))})
    model = ROUTED if plan.get("ep") else DENSE
    system = plain_system(model, plan, noc=noc, link_model=link_model)
    axes = {name: RATES[name] for name in names}
    ds = ss.sweep(**arguments_of(system), **axes, outputs="all")
    assert dict(ds.tps.sizes) == {name: len(values) for name, values in axes.items()}
    for _ in range(4):
        where = {name: random.randrange(len(axes[name])) for name in names}
        rates = {name: axes[name][at] for name, at in where.items()}
        expected = reference_of(system | {"noc": edited(noc, rates)})
        assert system_differences(point_values(ds, **where), expected) == {}


def test_rates_of_points_and_of_several_networks():
    networks = [switch_profile(8), switch_profile(4, latency_ns=2, bandwidth=11)]
    system = plain_system(DENSE, {"tp": 4})
    table = pd.DataFrame({"l1_bandwidth": [1e9, 5e9, 1e9, 7.7e10], "batch_size": [4, 4, 9, 9]})
    ds = ss.sweep(
        **arguments_of(system) | {"batch_size": None} | {"noc": networks, "dp": "fill"}, points=table, outputs="all"
    )
    for noc, point in product(range(2), range(4)):
        rates = {"l1_bandwidth": table.l1_bandwidth[point]}
        expected = reference_of(
            system
            | {"noc": edited(networks[noc], rates), "batch_size": int(table.batch_size[point])}
            | {"plan": {"tp": 4, "dp": 2 - noc}}
        )
        assert system_differences(point_values(ds, noc=noc, point=point), expected) == {}


def test_rates_need_a_network():
    given = arguments_of(plain_system(DENSE, {})) | {"noc": None}
    for name in RATES:
        with pytest.raises(ss.ParameterError, match=f"^{name}: .*noc"):
            ss.sweep(**given | {name: RATES[name]})
    given["noc"] = switch_profile(1)
    for name in RATES:
        for value in (-1.0, math.nan, math.inf):
            with pytest.raises(ss.ParameterError, match=rf"^{name}: got {value}, needs a number"):
                ss.sweep(**given | {name: [1.0, value]})
        if name.endswith("bandwidth"):
            with pytest.raises(ss.ParameterError, match=rf"^{name}: got 0.0, needs a number of at least 1e-12"):
                ss.sweep(**given | {name: 0.0})


def test_energies_are_given_together():
    noc = {name: value for name, value in switch_profile(8).items() if name != "energy_pj_per_bit"}
    system = plain_system(DENSE, {"tp": 4, "dp": 2}, noc=noc)
    assert np.isnan(ss.sweep(**arguments_of(system), outputs="noc_energy_per_token").noc_energy_per_token)
    with pytest.raises(ss.ParameterError, match=r"^l1_pj_per_bit: .*l2_pj_per_bit"):
        ss.sweep(**arguments_of(system), l1_pj_per_bit=[1.0, 2.0])
    rates = {"l1_pj_per_bit": 0.5, "l2_pj_per_bit": 1.0, "l3_pj_per_bit": 2.0}
    got = point_values(ss.sweep(**arguments_of(system), **rates, outputs="all"))
    assert system_differences(got, reference_of(system | {"noc": edited(noc, rates)})) == {}


# --- link models and networks ----------------------------------------------------------------------------------------


def torus_of_meshes() -> dict[str, Any]:
    """Four by two meshes of two switches of two devices; DeepStack charges a part of the outermost links only."""
    level = {"hop_latency_ns": 100, "link_bandwidth_gbytes_per_s": 50}
    return switch_profile(1) | {
        "name": "torus of meshes",
        "layers": {
            "L3": level | {"kind": "torus2d", "shape": [4, 2]},
            "L2": level | {"kind": "mesh2d", "shape": [2, 1]},
            "L1": level | {"kind": "switch", "shape": [1, 2]},
        },
    }


def test_link_models_as_an_axis():
    system = plain_system(DENSE, {"tp": 4, "dp": 4, "pp": 2}, noc=torus_of_meshes())
    ds = ss.sweep(**arguments_of(system) | {"link_model": ["physical", "deepstack"]}, outputs="all")
    assert ds.link_model.values.tolist() == ["physical", "deepstack"]
    for number, link_model in enumerate(["physical", "deepstack"]):
        expected = reference_of(system | {"link_model": link_model})
        assert system_differences(point_values(ds, link_model=number), expected) == {}
    assert ds.prefill_transfer[0] != ds.prefill_transfer[1]


def test_links_that_go_free_are_told():
    noc = torus_of_meshes()
    topology = Noc(noc).topology
    pairs = [(a, b) for a in range(topology.devices) for b in range(topology.devices) if a != b]
    charged = [link.charged for a, b in pairs for link in links(topology, a, b)]
    share = 1 - sum(charged) / len(charged)
    assert share > 0.1
    given = arguments_of(plain_system(DENSE, {"tp": 4, "dp": 4, "pp": 2}, noc=noc))
    for link_model in ("deepstack", ["physical", "deepstack"]):
        ds = ss.sweep(**given | {"link_model": link_model, "noc": [noc, switch_profile(32)]})
        told = [entry["uncharged_share"] for entry in json.loads(ds.attrs["profiles"])["noc"]]
        np.testing.assert_allclose(told, [share, 0.0], rtol=1e-12)
    ds = ss.sweep(**given | {"link_model": "physical"})
    assert "uncharged_share" not in json.loads(ds.attrs["profiles"])["noc"][0]
    np.testing.assert_allclose(ss.estimate(**given).uncharged_share, share, rtol=1e-12)
    assert ss.estimate(**given | {"link_model": "physical"}).uncharged_share == 0.0


def unroutable() -> dict[str, Any]:
    """A ring of rings: DeepStack's routes need a switch inside."""
    level = {"hop_latency_ns": 100, "link_bandwidth_gbytes_per_s": 50, "kind": "ring", "shape": [1, 2]}
    return switch_profile(1) | {
        "name": "rings",
        "layers": {"L3": level | {"kind": "switch", "shape": [1, 1]}, "L2": level, "L1": level},
    }


def test_a_link_model_without_routes():
    system = plain_system(DENSE, {"tp": 4}, noc=unroutable())
    for call in (ss.sweep, ss.estimate):
        with pytest.raises(ss.ParameterError, match=r'^link_model: .*link_model="physical"'):
            call(**arguments_of(system))
    with pytest.raises(ss.ParameterError, match=r'^link_model: .*link_model="physical"'):
        ss.sweep(**arguments_of(system) | {"link_model": ["physical", "deepstack"]})
    got = point_values(ss.sweep(**arguments_of(system) | {"link_model": "physical"}, outputs="all"))
    assert system_differences(got, reference_of(system | {"link_model": "physical"})) == {}
    with pytest.raises(ss.ParameterError, match=r"^link_model: got 'magic', needs one of deepstack, physical"):
        ss.sweep(**arguments_of(system) | {"link_model": "magic"})


@pytest.mark.parametrize("name", PARALLEL)
def test_several_devices_need_a_network(name: str):
    given = arguments_of(plain_system(ROUTED, {})) | {"noc": None}
    for value in (2, [1, 2], xr.DataArray([1, 2], dims="point")):
        with pytest.raises(ss.ParameterError, match=f"^noc: is missing, and {name}=2 needs a network"):
            ss.sweep(**given | {name: value})
    with pytest.raises(ss.ParameterError, match=f"^noc: is missing, and {name}=2 needs a network"):
        ss.estimate(**given | {name: 2})
    for value in (0, -1, 1.5, math.nan, "two", True):
        with pytest.raises(ss.ParameterError, match=rf"^{name}: got {re.escape(repr(value))}, needs a whole number"):
            ss.sweep(**given | {name: value})


# --- one device ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt-oss-20b", "qwen3-30b-a3b"])
def test_a_network_of_one_device_changes_nothing(model: str):
    given = {
        "model": model,
        "memory": STACK,
        "layers": [4, 8],
        "connected_layers": [2, 8],
        "batch_size": [1, 16],
        "input_seq_len": [100, 5000],
        "output_seq_len": 300,
        "routing": ["balanced", "random"],
        "overlap": ["stage-roofline", "serial"],
        "comm_overlap": ["none", "full"],
        "include_lm_head": [True, False],
    }
    alone = ss.sweep(**given, outputs="all")
    assert bitwise_equal(alone, ss.sweep(**given, noc=switch_profile(1), outputs="all"))
    filled = ss.sweep(**given, noc=switch_profile(1), dp="fill", link_model="physical", outputs="all")
    assert bitwise_equal(alone, filled)
    assert (alone.noc_energy_per_token.where(alone.valid, 0) == 0).all()


# --- everything at once ----------------------------------------------------------------------------------------------

MODELS = ("llama-3.1-8b", "qwen3-30b-a3b", "gpt-oss-20b")
NETWORKS = ("gpu_node_8", "ring_switch_32")
LOADS = {"batch_size": [1, 16, 64], "input_seq_len": [77, 2048, 6000], "output_seq_len": [40, 100, 1]}
PLANS = pd.DataFrame(
    [
        *((8, 1, 1, 1, 1), (1, 8, 1, 1, 1), (2, 1, 1, 4, 1), (1, 1, 1, 1, 8), (4, 2, 1, 1, 1), (2, 2, 2, 1, 1)),
        *((8, 4, 1, 1, 1), (2, 1, 2, 8, 1), (4, 1, 2, 2, 2), (1, 16, 2, 1, 1)),
    ],
    columns=list(PARALLEL),
)


def mixed_call(**changes: Any) -> dict[str, Any]:
    return {
        "model": list(MODELS),
        "noc": list(NETWORKS),
        "memory": STACK,
        "layers": [4, 8],
        "connected_layers": xr.DataArray([2, 4], dims="layers"),
        **{name: xr.DataArray(values, dims="load") for name, values in LOADS.items()},
        **{name: xr.DataArray(PLANS[name].to_numpy(), dims="plan") for name in PARALLEL},
        "routing": "random",
        "comm_overlap": ["none", "full"],
        **changes,
    }


@pytest.fixture(scope="module")
def mixed() -> xr.Dataset:
    return ss.sweep(**mixed_call(), outputs="all")


def test_a_mixed_call_equals_its_points(mixed: xr.Dataset):
    assert dict(mixed.tps.sizes) == {"model": 3, "noc": 2, "layers": 2, "load": 3, "plan": 10, "comm_overlap": 2}
    assert 0.2 < mixed.valid.mean() < 0.8
    random = np.random.default_rng(5)
    order = random.permutation(mixed.tps.size)
    chosen = [np.unravel_index(number, mixed.tps.shape) for number in order[:150]]
    names = [str(name) for name in mixed.coords if name not in ("collective", "weight_bytes_per_element")]
    parameters = [name for name in names if name in mixed_call()]
    for at in chosen:
        point = mixed.isel(dict(zip(mixed.tps.dims, map(int, at), strict=True)))
        one = ss.sweep(**{name: point[name].item() for name in parameters}, outputs="all")
        assert bitwise_equal(one, point), at


def test_a_mixed_call_as_points(mixed: xr.Dataset):
    stacked = mixed.drop_vars("collective").stack(point=mixed.tps.dims).transpose(..., "point")
    random = np.random.default_rng(6).permutation(stacked.sizes["point"])[:300]
    some = stacked.isel(point=random)
    names = [name for name in mixed_call() if name != "memory"]
    table = pd.DataFrame({name: np.broadcast_to(some[name].values, 300) for name in names})
    points = ss.sweep(points=table, memory=STACK, outputs="all")
    for name in points.data_vars:
        np.testing.assert_array_equal(points[name].values, some[name].values, err_msg=str(name))


def test_the_order_of_arguments_is_the_order_of_dimensions_and_nothing_else(mixed: xr.Dataset):
    given = mixed_call()
    for order in (list(given)[::-1], sorted(given)):
        other = ss.sweep(**{name: given[name] for name in order}, outputs="all")
        assert set(other.tps.dims) == set(mixed.tps.dims)
        assert bitwise_equal(other.transpose("collective", *mixed.tps.dims), mixed)


@pytest.mark.parametrize("cores", [1, 2, 5])
@pytest.mark.parametrize(("block_rows", "block_points"), [(1, 1), (2, 3), (7, 64), (97, 500)])
def test_blocks_and_threads_do_not_matter(
    mixed: xr.Dataset, monkeypatch: pytest.MonkeyPatch, block_rows: int, block_points: int, cores: int
):
    monkeypatch.setattr(blocks, "BLOCK_ROWS", block_rows)
    monkeypatch.setattr(blocks, "BLOCK_POINTS", block_points)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    assert bitwise_equal(ss.sweep(**mixed_call(), outputs="all"), mixed)


def test_networks_that_alternate_in_a_block():
    """Rates change from row to row, and every row is priced with its own."""
    networks = [switch_profile(8, latency_ns=n, bandwidth=10 * n) | {"name": f"network {n}"} for n in (1, 2, 3)]
    table = pd.DataFrame({"noc": [f"network {n}" for n in (1, 2, 1, 3, 2, 2, 1)], "batch_size": [1, 1, 5, 5, 1, 9, 1]})
    by_name = {network["name"]: network for network in networks}
    table["noc"] = [by_name[name] for name in table.noc]
    system = plain_system(DENSE, {"tp": 4, "pp": 2})
    given = {name: value for name, value in arguments_of(system).items() if name not in table}
    ds = ss.sweep(**given, points=table, outputs="all")
    for point in range(len(table)):
        expected = reference_of(system | {"noc": table.noc[point], "batch_size": int(table.batch_size[point])})
        assert system_differences(point_values(ds, point=point), expected) == {}
