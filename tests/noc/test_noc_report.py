"""Descriptions and bottlenecks, against the plain program."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from noc_cases import device_count, plans, profiles
from noc_direct import Network, all_gather_stages, all_reduce_stages, groups_of, reduce_scatter_stages

import deepstack_noc as dn

RANDOM = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def torus_of_meshes(rows):
    layout = dn.load_noc("torus_mesh_switch_64").to_dict()
    layout["layers"]["L3"]["shape"] = [rows, rows]
    return layout


def test_half_of_the_links_of_a_large_torus_are_free_for_deepstack():
    large, small = dn.describe(torus_of_meshes(4)), dn.describe(torus_of_meshes(2))
    assert large.uncharged_share_l3 == 0.5
    assert round(large.uncharged_share, 4) == 0.1417
    assert (small.uncharged_share, small.uncharged_share_l3) == (0, 0)
    assert "leaves 14.2% of route links uncharged (50.0% of those at L3)" in str(large)


def test_a_network_that_deepstack_has_no_routes_for():
    layout = torus_of_meshes(2)
    layout["layers"]["L3"].update(kind="switch", shape=[1, 4])
    description = dn.describe(layout)
    assert description.uncharged_share is None
    assert description.uncharged_share_l3 is None
    assert 'link_model "deepstack" has no routes here; use "physical"' in str(description)


def test_description_as_text():
    text = str(dn.describe("gpu_cluster_32"))
    assert text.splitlines()[0] == "gpu_cluster_32: 32 devices, bisection 100 GB/s"
    assert "  L2 switch 1x4, 5000 ns, 50 GB/s per link, CENTER 400 GB/s in and out" in text


@RANDOM
@given(data=st.data())
def test_uncharged_share_is_that_of_all_routes(data):
    profile = data.draw(profiles("deepstack", most=16))
    plain, devices = Network(profile, "deepstack"), device_count(profile)
    crossed = np.zeros((2, 3))
    for s in range(devices):
        for d in range(devices):
            states = plain.route(s, d) if s != d else []
            for a, b in pairwise(states):
                crossed[int(plain.is_charged(a, b)), plain.link_level(a, b)] += 1
    description = dn.describe(profile)
    assert description.devices == devices
    assert description.uncharged_share == crossed[0].sum() / max(1, crossed.sum())
    assert description.uncharged_share_l3 == crossed[0, 0] / max(1, crossed[:, 0].sum())


@RANDOM
@given(data=st.data())
def test_bisection_is_that_of_the_links_that_routes_cross(data):
    """Of all cuts through the middle, the one with the fewest different links from one half to the other."""
    profile = data.draw(profiles("physical", most=48).filter(lambda p: p["port_spread"] == "even"))
    plain = Network(profile, "physical")
    level = next((k for k, each in enumerate(plain.levels) if each.size > 1), None)
    bisection = dn.describe(profile).bisection_bandwidth
    if level is None:
        assert bisection == 0
        return
    outer = plain.levels[level]
    nodes = range(outer.size)
    if outer.is_switch or outer.kind == "all_to_all":
        halves = [{node for node in nodes if node < outer.size // 2}]
    else:
        halves = []
        if outer.columns > 1:
            halves.append({node for node in nodes if node % outer.columns < outer.columns // 2})
        if outer.rows > 1:
            halves.append({node for node in nodes if node // outer.columns < outer.rows // 2})
    counts = []
    for half in halves:
        links = set()
        for s in range(plain.devices):
            for d in range(plain.devices):
                states = plain.route(s, d) if s != d else []
                for a, b in pairwise(states):
                    if plain.link_level(a, b) == level and a[level] in half and b[level] not in half:
                        links.add((a, b))
        counts.append(len(links))
    expected = min(counts) * outer.bandwidth
    if outer.center:
        expected = min(expected, outer.center / 2)
    assert bisection >= expected * (1 - 1e-12)  # a port that no route takes is counted all the same
    inner = plain.levels[level + 1 :]
    if all(each.is_switch or each.size == 1 for each in inner):
        assert bisection == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("kind", "shape", "links"),
    [
        ("ring", [1, 6], 2),
        ("ring", [1, 2], 1),
        ("chain", [1, 6], 1),
        ("mesh2d", [4, 6], 4),
        ("torus2d", [4, 6], 8),
        ("torus2d", [2, 6], 4),
        ("mchain_nring", [4, 6], 6),
        ("mring_nchain", [6, 4], 6),
        ("all_to_all", [1, 5], 6),
        ("switch", [1, 6], 3),
    ],
)
def test_bisection_of_one_level(kind, shape, links):
    one = {"kind": "switch", "shape": [1, 1], "hop_latency_ns": 0, "link_bandwidth_gbytes_per_s": 1}
    level = {"kind": kind, "shape": shape, "hop_latency_ns": 0, "link_bandwidth_gbytes_per_s": 10}
    layers = {"L3": one, "L2": one, "L1": level}
    profile = {"schema_version": 1, "kind": "noc_hierarchy", "name": "one", "layers": layers}
    assert dn.describe(profile).bisection_bandwidth == links * 10e9


def test_bisection_counts_the_ports_of_a_hop():
    """A hop between rings of eight leaves through any of four nodes."""
    layout = torus_of_meshes(2)
    layout["layers"] = {
        "L3": {**layout["layers"]["L3"], "kind": "mring_nchain", "shape": [2, 1]},
        "L2": {**layout["layers"]["L2"], "kind": "ring", "shape": [1, 8]},
        "L1": layout["layers"]["L1"],
    }
    assert dn.describe(layout).bisection_bandwidth == 4 * 25e9


@pytest.mark.parametrize("link_model", ["deepstack", "physical"])
@RANDOM
@given(data=st.data())
def test_bottleneck_is_the_slowest_link_of_any_stage(link_model, data):
    profile = data.draw(profiles(link_model, most=16))
    sizes = data.draw(plans(device_count(profile)))
    dim = data.draw(st.sampled_from([name for name in sizes if sizes[name] > 1] or ["tp"]))
    collective = data.draw(st.sampled_from(["all_reduce", "all_gather", "reduce_scatter"]))
    nbytes = data.draw(st.sampled_from([64, 12345, 10**7]))
    if sizes[dim] == 1:
        with pytest.raises(dn.NocError, match="in groups of 1 sends nothing"):
            dn.bottleneck(profile, sizes, dim, nbytes, collective, link_model)
        return
    found = dn.bottleneck(profile, sizes, dim, nbytes, collective, link_model)
    cost = getattr(dn, collective)(profile, sizes, dim, nbytes, link_model)
    assert found.algorithm == cost.algorithm
    plain = Network(profile, link_model)
    groups = groups_of(plain.devices, sizes, dim)
    stages = {"all_reduce": all_reduce_stages, "all_gather": all_gather_stages, "reduce_scatter": reduce_scatter_stages}
    slowest = 0.0
    loads = set()
    for transfers in stages[collective](sizes[dim], nbytes)[cost.algorithm]:
        links, centers = {}, {}
        for group in groups:
            for a, b, sent in transfers:
                states = plain.route(group[a], group[b])
                for before, after in pairwise(states):
                    if plain.is_charged(before, after):
                        name = plain.link_level(before, after), before, after
                        links[name] = links.get(name, 0) + sent
                    for center in plain.centers(before, after):
                        centers[center] = centers.get(center, 0) + sent
        for (level, before, after), load in links.items():
            slowest = max(slowest, load / plain.levels[level].bandwidth)
            loads.add((f"L{3 - level}", before, after, load))
        for (level, name), load in centers.items():
            if plain.levels[level].center:
                slowest = max(slowest, load / plain.levels[level].center)
            loads.add((f"L{3 - level}", name, name, load))
    assert found.time == pytest.approx(slowest, rel=1e-12)
    level = plain.levels[3 - int(found.level[1])]
    if found.source == found.target:
        place = found.source[: 4 - int(found.level[1])]
        assert (found.level, place, place, found.load) in loads
        assert found.time == pytest.approx(found.load / level.center, rel=1e-12)
    else:
        assert (found.level, found.source, found.target, found.load) in loads
        assert found.time == pytest.approx(found.load / level.bandwidth, rel=1e-12)


def test_bottlenecks_of_bundled_networks():
    between_nodes = dn.bottleneck("gpu_cluster_32", {"tp": 8, "dp": 4}, "dp", 2**20)
    assert between_nodes == dn.Bottleneck(
        level="L2",
        source=(0, 0, "C"),
        target=(0, "C", "C"),
        load=8 * 2**19,
        time=8 * 2**19 / 50e9,
        algorithm="rabenseifner",
    )
    inside = dn.bottleneck("gpu_cluster_32", {"tp": 8, "dp": 4}, "dp", 2**20, l2_bandwidth=1e13)
    assert inside.level == "L1"
    transfer = dn.bottleneck("torus_mesh_switch_64", {"tp": 8, "pp": 8}, "pp", 2**20, "pipeline_transfer")
    assert transfer.level == "L3"
    assert transfer.time == dn.pipeline_transfer("torus_mesh_switch_64", {"tp": 8, "pp": 8}, 2**20).link_time


def test_a_center_as_bottleneck():
    layout = dn.load_noc("gpu_node_8").to_dict()
    layout["layers"]["L1"].update(switch_center_in_gbytes_per_s=10, switch_center_out_gbytes_per_s=10)
    found = dn.bottleneck(layout, {"tp": 8}, "tp", 1000, "all_to_all", "physical")
    assert found.source == found.target == (0, 0, "C")
    assert (found.level, found.load) == ("L1", 2 * 56 * 1000)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nbytes": [1, 2]}, "nbytes or a rate is an array; allowed are single values"),
        ({"l1_latency": [0.0, 1.0]}, "nbytes or a rate is an array; allowed are single values"),
        ({"nbytes": 0}, "all_reduce of 0 bytes in groups of 8 sends nothing"),
        ({"dim": "pp"}, "all_reduce of 1000 bytes in groups of 1 sends nothing"),
        ({"collective": "gossip"}, "collective is 'gossip'; allowed are all_reduce"),
    ],
)
def test_bottlenecks_that_are_not(change, message):
    arguments = {"noc": "gpu_node_8", "sizes": {"tp": 8}, "dim": "tp", "nbytes": 1000, **change}
    with pytest.raises(dn.NocError, match=message):
        dn.bottleneck(**arguments)
