"""Routes: every step is a link of the network, and the compiled routes are those of the plain program."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from noc_cases import device_count, profiles
from noc_direct import CENTER, Network

import deepstack_noc as dn
from deepstack_noc.links import link_ends
from deepstack_noc.network import network_of
from deepstack_noc.routes import route_links

RANDOM = settings(max_examples=150, deadline=None, derandomize=True, database=None)


@pytest.mark.parametrize("link_model", ["deepstack", "physical"])
@RANDOM
@given(data=st.data())
def test_routes_are_those_of_the_plain_program(link_model, data):
    profile = data.draw(profiles(link_model, most=48))
    noc, plain = dn.load_noc(profile), Network(profile, link_model)
    devices = st.integers(0, noc.devices - 1)
    for source, target in data.draw(st.lists(st.tuples(devices, devices), min_size=1, max_size=12)):
        if source != target:
            assert dn.route(noc, source, target, link_model) == plain.route(source, target)


@RANDOM
@given(data=st.data())
def test_physical_routes_take_adjacent_steps_and_arrive(data):
    profile = data.draw(profiles("physical", most=48))
    noc, plain = dn.load_noc(profile), Network(profile, "physical")
    source, target = (data.draw(st.integers(0, noc.devices - 1)) for _ in range(2))
    states = dn.route(noc, source, target, "physical")
    assert states[0] == tuple(plain.place(source))
    assert states[-1] == tuple(plain.place(target))
    assert len(set(states)) == len(states) or profile.get("port_spread") == "even"
    for before, after in pairwise(states):
        assert are_linked(plain, before, after), f"{before} -> {after}"


def are_linked(plain, before, after):
    """Whether a step is one hop of one level, between ports of the levels inside it."""
    level = plain.link_level(before, after)
    u, v, hierarchy = before[level], after[level], plain.levels
    if not is_hop(hierarchy[level], u, v):
        return False
    x = "up" if hierarchy[level].is_switch else hierarchy[level].direction(u, v)
    entry = {"up": "down", "down": "up", "left": "right", "right": "left"}[x]
    entry = "up" if hierarchy[level].is_switch else entry
    for state, side, way in ((before, x, "out"), (after, entry, "in")):
        gone = state[level] == CENTER
        for inner in range(level + 1, 3):
            if gone != (state[inner] is None):
                return False
            if not gone and state[inner] not in hierarchy[inner].ports(side, way):
                return False
            gone = gone or state[inner] == CENTER
    return True


def is_hop(level, u, v):
    if level.is_switch:
        return (u == CENTER) != (v == CENTER)
    if level.kind == "all_to_all":
        return u != v
    rows = abs(u // level.columns - v // level.columns)
    columns = abs(u % level.columns - v % level.columns)
    wraps = level.kind in ("torus2d", "mring_nchain"), level.kind in ("ring", "torus2d", "mchain_nring")
    near_rows = rows == 1 or (wraps[0] and rows == level.rows - 1)
    near_columns = columns == 1 or (wraps[1] and columns == level.columns - 1)
    return (near_rows and columns == 0) or (near_columns and rows == 0)


@pytest.mark.parametrize("link_model", ["deepstack", "physical"])
@RANDOM
@given(data=st.data())
def test_every_link_has_one_number(link_model, data):
    """Links of equal number have equal ends, and the other way round: what is counted together is one link."""
    profile = data.draw(profiles(link_model, most=16))
    network, plain = network_of(dn.load_noc(profile).topology, link_model), Network(profile, link_model)
    runs = np.empty((network.runs, 2), np.int64)
    names = {}
    for source in range(device_count(profile)):
        for target in range(device_count(profile)):
            if source == target:
                continue
            count = route_links(network.layout, source, target, runs)
            assert count <= network.runs
            links = [link for first, length in runs[:count] for link in range(first, first + length)]
            states = plain.route(source, target)
            assert len(links) == len(states) - 1
            for link, before, after in zip(links, states[:-1], states[1:], strict=True):
                assert link_ends(network, link) == (before, after)
                name = plain.link_name(before, after)
                assert names.setdefault(link, name) == name
    assert len(set(names.values())) == len(names)
    assert not names or (min(names) >= 0 and max(names) < network.links)


def test_route_of_a_bundled_network():
    assert dn.route("gpu_cluster_32", 3, 12) == [
        (0, 0, 3),
        (0, 0, "C"),
        (0, "C", "C"),
        (0, 1, "C"),
        (0, 1, 4),
    ]
    assert dn.route("gpu_cluster_32", 3, 12, link_model="physical")[2] == (0, "C", None)
    assert dn.route("ring_switch_32", 5, 5) == [(0, 0, 5)]


def test_the_nearest_port_is_taken():
    ring = {"kind": "ring", "shape": [1, 8], "hop_latency_ns": 1, "link_bandwidth_gbytes_per_s": 1}
    column = {**ring, "kind": "mring_nchain", "shape": [2, 1]}
    one = {**ring, "kind": "switch", "shape": [1, 1]}
    profile = {
        "schema_version": 1,
        "kind": "noc_hierarchy",
        "name": "rings",
        "layers": {"L3": one, "L2": column, "L1": ring},
        "port_spread": "nearest",
    }
    # down leaves through nodes 4 to 7 of the ring and arrives at the second half, too
    assert dn.route(profile, 6, 8 + 6, "physical") == [(0, 0, 6), (0, 1, 6)]
    assert dn.route(profile, 3, 8 + 6, "physical") == [(0, 0, 3), (0, 0, 4), (0, 1, 4), (0, 1, 5), (0, 1, 6)]
    # from node 1, ports 4 and 6 are 3 steps away each: node 4 has the lower number, but node 7 is nearer
    assert dn.route(profile, 1, 8 + 6, "physical") == [(0, 0, 1), (0, 0, 0), (0, 0, 7), (0, 1, 7), (0, 1, 6)]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (32, 0, "source is 32; allowed are the device numbers 0 to 31"),
        (0, -1, "target is -1; allowed are the device numbers 0 to 31"),
        (0.5, 1, "source is 0.5; allowed are the device numbers 0 to 31"),
        (True, 1, "source is True; allowed are the device numbers 0 to 31"),
    ],
)
def test_devices_that_are_not_there(source, target, message):
    with pytest.raises(dn.NocError, match=message):
        dn.route("gpu_cluster_32", source, target)


def level(kind, rows, columns):
    return {"kind": kind, "shape": [rows, columns], "hop_latency_ns": 1, "link_bandwidth_gbytes_per_s": 1}


def hierarchy(outermost, middle, innermost, **more):
    layers = {"L3": level(*outermost), "L2": level(*middle), "L1": level(*innermost)}
    return {"schema_version": 1, "kind": "noc_hierarchy", "name": "made", "layers": layers, **more}


@pytest.mark.parametrize(
    "levels",
    [
        [("switch", 1, 2), ("ring", 1, 4), ("switch", 1, 2)],
        [("ring", 1, 4), ("switch", 1, 2), ("switch", 1, 2)],
        [("ring", 1, 4), ("switch", 1, 1), ("switch", 1, 2)],
        [("mesh2d", 2, 2), ("mesh2d", 2, 2), ("ring", 1, 2)],
        [("switch", 1, 1), ("all_to_all", 1, 4), ("switch", 1, 2)],
        [("all_to_all", 1, 4), ("mesh2d", 1, 1), ("switch", 1, 2)],
    ],
)
def test_deepstack_refuses_what_it_has_no_routes_for(levels):
    profile = hierarchy(*levels)
    kinds = ", ".join(f"L{3 - k} {kind}" for k, (kind, _, _) in enumerate(levels))
    with pytest.raises(dn.NocError, match=f'no routes for {kinds}.*use link_model="physical"'):
        dn.route(profile, 0, 1)
    assert dn.route(profile, 0, 1, "physical")


@pytest.mark.parametrize(
    "levels",
    [
        [("switch", 1, 2), ("switch", 1, 3), ("switch", 1, 2)],
        [("torus2d", 2, 2), ("mesh2d", 2, 2), ("switch", 1, 2)],
        [("switch", 1, 1), ("ring", 1, 4), ("switch", 1, 2)],
        [("ring", 1, 4), ("mesh2d", 1, 1), ("switch", 1, 2)],
        [("ring", 1, 4), ("ring", 1, 2), ("mesh2d", 1, 1)],
        [("switch", 1, 1), ("switch", 1, 1), ("all_to_all", 2, 3)],
        [("switch", 1, 1), ("all_to_all", 2, 3), ("switch", 1, 1)],
        [("mesh2d", 4, 2), ("switch", 1, 1), ("switch", 1, 1)],
    ],
)
def test_deepstack_has_routes(levels):
    profile = hierarchy(*levels)
    last = device_count(profile) - 1
    assert dn.route(profile, 0, last)[-1] == dn.route(profile, 0, last, "physical")[-1]


def test_deepstack_does_not_know_nearest_ports():
    profile = hierarchy(("switch", 1, 1), ("switch", 1, 2), ("switch", 1, 2), port_spread="nearest")
    with pytest.raises(dn.NocError, match=r"port_spread is 'nearest'.*use link_model=.physical"):
        dn.route(profile, 0, 1)
    assert dn.route(profile, 0, 1, "physical")


def test_unknown_link_model():
    with pytest.raises(dn.NocError, match="link_model is 'real'; allowed are 'deepstack' and 'physical'"):
        dn.route("gpu_node_8", 0, 1, "real")
