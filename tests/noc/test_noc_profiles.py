"""Profiles: the bundled figures, strict loading, provenance, and the message of every error."""

from __future__ import annotations

import hashlib
import json
import math
from copy import deepcopy

import pytest

import deepstack_noc as dn

FIGURES = {
    "gpu_cluster_32": [
        ("switch", (1, 1), 0, 500),
        ("switch", (1, 4), 5000, 50, 200),
        ("switch", (1, 8), 1250, 370, 2960),
    ],
    "gpu_node_8": [("switch", (1, 1), 0, 370), ("switch", (1, 1), 0, 370), ("switch", (1, 8), 1250, 370, 2960)],
    "infinity_fabric_node_4": [
        ("switch", (1, 1), 0, 64),
        ("switch", (1, 1), 0, 64),
        ("all_to_all", (1, 4), 500, 64),
    ],
    "nvlink5_node_8": [("switch", (1, 1), 0, 900), ("switch", (1, 1), 0, 900), ("switch", (1, 8), 500, 900)],
    "ring_switch_32": [("switch", (1, 1), 0, 50), ("ring", (1, 4), 1000, 50), ("switch", (1, 8), 200, 100, 800)],
    "torus_mesh_switch_64": [
        ("torus2d", (2, 2), 2000, 25),
        ("mesh2d", (2, 2), 1000, 50),
        ("switch", (1, 4), 200, 100, 400),
    ],
}


@pytest.mark.parametrize("name", FIGURES)
def test_bundled_figures(name):
    noc = dn.load_noc(name)
    product = "fabric" in name or "nvlink" in name
    expected = [
        dn.Level(kind, shape, latency, bandwidth, *center, *center)
        for kind, shape, latency, bandwidth, *center in FIGURES[name]
    ]
    assert list(noc.levels) == expected
    assert noc.name == name
    assert noc.devices == int(name.rpartition("_")[2])
    assert noc.energy_pj_per_bit == (None if product else (1, 2, 3))
    assert noc.port_spread == "even"
    if product:
        assert "data sheet" in noc.provenance["source"]
        assert "assumption" in noc.provenance["latency"]
    else:
        assert "illustrative" in noc.provenance["note"]
    assert noc.provenance["source"]


def test_every_bundled_profile_is_listed():
    assert dn.bundled_nocs() == sorted(FIGURES)


def test_units():
    innermost = dn.load_noc("gpu_cluster_32").levels[2]
    assert innermost.latency == pytest.approx(1.25e-6, rel=1e-15)
    assert innermost.bandwidth == 370e9
    assert innermost.center_capacity == 5920e9
    assert math.isinf(dn.load_noc("gpu_cluster_32").levels[0].center_capacity)


@pytest.fixture
def layout():
    """Content of a profile that has every key."""
    return dn.load_noc("torus_mesh_switch_64").to_dict()


def test_a_file_is_stamped(layout, tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(layout))
    for source in (path, str(path)):
        noc = dn.load_noc(source)
        assert noc.provenance["path"] == str(path)
        assert noc.provenance["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        assert noc.provenance["source"] == layout["provenance"]["source"]
        assert noc == dn.load_noc(layout)


def test_what_is_loaded_goes_back_and_forth(layout):
    noc = dn.load_noc(layout)
    assert dn.load_noc(noc) is noc
    again = dn.load_noc(json.loads(json.dumps(noc.to_dict())))
    assert again == noc
    assert again.provenance == noc.provenance
    assert hash(again) == hash(noc)
    assert noc.to_dict() == layout


def test_optional_keys_may_be_missing(layout):
    for key in ("energy_pj_per_bit", "port_spread", "provenance"):
        del layout[key]
    noc = dn.load_noc(layout)
    assert noc.energy_pj_per_bit is None
    assert noc.port_spread == "even"
    assert noc.provenance == {}
    assert noc.to_dict() == {**layout, "port_spread": "even"}


REMOVE = object()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("schema_version", 2, "schema_version is 2; allowed is 1"),
        ("kind", "memory", "kind is 'memory'; allowed is 'noc_hierarchy'"),
        ("name", "", "name is ''; allowed is .* at least 1 character"),
        ("name", REMOVE, "name is missing"),
        ("colour", "red", "colour is not a known key; remove it"),
        ("layers.L4", {}, "layers.L4 is not a known key; remove it"),
        ("layers.L2", REMOVE, "layers.L2 is missing"),
        ("layers.L2", None, "layers.L2 is None; allowed is a valid dictionary"),
        ("layers.L2.kind", "star", "layers.L2.kind is 'star'; allowed is 'switch', 'ring', 'chain', 'mesh2d'"),
        ("layers.L2.depth", 1, "layers.L2.depth is not a known key; remove it"),
        ("layers.L2.shape", [2], r"layers.L2.shape is \[2\]; allowed is .* at least 2 items"),
        ("layers.L2.shape", [2, 2, 2], r"layers.L2.shape is \[2, 2, 2\]; allowed is .* at most 2 items"),
        ("layers.L2.shape", [2, 0], "layers.L2.shape.1 is 0; allowed is greater than or equal to 1"),
        ("layers.L2.shape", [2, 2.0], "layers.L2.shape.1 is 2.0; allowed is a valid integer"),
        ("layers.L2.shape", [True, 2], "layers.L2.shape.0 is True; allowed is a valid integer"),
        ("layers.L2.shape", "2x2", "layers.L2.shape is '2x2'; allowed is a valid list"),
        ("layers.L1.hop_latency_ns", -1, "layers.L1.hop_latency_ns is -1; allowed is greater than or equal to 0"),
        ("layers.L1.hop_latency_ns", True, "layers.L1.hop_latency_ns is True; allowed is a valid number"),
        ("layers.L1.hop_latency_ns", "5", "layers.L1.hop_latency_ns is '5'; allowed is a valid number"),
        ("layers.L1.hop_latency_ns", math.nan, "layers.L1.hop_latency_ns is nan; allowed is a finite number"),
        ("layers.L1.link_bandwidth_gbytes_per_s", 0, "link_bandwidth_gbytes_per_s is 0; allowed is greater than 0"),
        ("layers.L1.link_bandwidth_gbytes_per_s", math.inf, "gbytes_per_s is inf; allowed is a finite number"),
        ("layers.L1.link_bandwidth_gbytes_per_s", REMOVE, "layers.L1.link_bandwidth_gbytes_per_s is missing"),
        ("layers.L1.switch_center_in_gbytes_per_s", 0, "switch_center_in_gbytes_per_s is 0; allowed is greater than 0"),
        (
            "layers.L1.switch_center_in_gbytes_per_s",
            REMOVE,
            "layers.L1.switch_center_in_gbytes_per_s is missing; it goes together with switch_center_out",
        ),
        (
            "layers.L2.switch_center_out_gbytes_per_s",
            5,
            "layers.L2.switch_center_out_gbytes_per_s is given for kind 'mesh2d'; only a switch has a CENTER",
        ),
        ("port_spread", "odd", "port_spread is 'odd'; allowed is 'even' or 'nearest'"),
        ("energy_pj_per_bit.l2", REMOVE, "energy_pj_per_bit.l2 is missing"),
        ("energy_pj_per_bit.l4", 1, "energy_pj_per_bit.l4 is not a known key"),
        ("energy_pj_per_bit.l1", -0.5, "energy_pj_per_bit.l1 is -0.5; allowed is greater than or equal to 0"),
        ("energy_pj_per_bit.l1", False, "energy_pj_per_bit.l1 is False; allowed is a valid number"),
        ("provenance", "me", "provenance is 'me'; allowed is a valid dictionary"),
    ],
)
def test_a_field_that_is_wrong(layout, path, value, message):
    *parents, key = path.split(".")
    entry = layout
    for parent in parents:
        entry = entry[parent]
    if value is REMOVE:
        del entry[key]
    else:
        entry[key] = value
    with pytest.raises(dn.ProfileError, match=f"^NoC profile: .*{message}"):
        dn.load_noc(layout)


@pytest.mark.parametrize(
    ("kind", "shape", "message"),
    [
        ("switch", [2, 2], r"shape of kind 'switch' is \[2, 2\]; allowed is one row: \[1, N\]"),
        ("ring", [2, 2], r"shape of kind 'ring' is \[2, 2\]; allowed is one row"),
        ("ring", [1, 5], r"shape of kind 'ring' is \[1, 5\]; allowed is an even N"),
        ("chain", [1, 1], r"shape of kind 'chain' is \[1, 1\]; allowed is an even N"),
        ("mesh2d", [3, 2], r"shape of kind 'mesh2d' is \[3, 2\]; allowed are dimensions that are 1 or even"),
        ("torus2d", [2, 5], r"shape of kind 'torus2d' is \[2, 5\]; allowed are dimensions that are 1 or even"),
        ("torus2d", [1, 4], r"'torus2d' is \[1, 4\]; a dimension that wraps .* use kind 'ring' of shape \[1, 4\]"),
        ("torus2d", [4, 1], r"'torus2d' is \[4, 1\]; a dimension that wraps .* use kind 'ring' of shape \[1, 4\]"),
        ("torus2d", [1, 1], r"'torus2d' is \[1, 1\]; a dimension that wraps .* use kind 'switch' of shape \[1, 1\]"),
        ("mchain_nring", [4, 1], r"'mchain_nring' is \[4, 1\]; .* use kind 'chain' of shape \[1, 4\]"),
        ("mring_nchain", [1, 4], r"'mring_nchain' is \[1, 4\]; .* use kind 'chain' of shape \[1, 4\]"),
        ("all_to_all", [1, 3], r"shape of kind 'all_to_all' is \[1, 3\]; allowed are 4 nodes or more"),
    ],
)
def test_a_shape_that_is_wrong(layout, kind, shape, message):
    layout["layers"]["L2"].update(kind=kind, shape=shape)
    with pytest.raises(dn.ProfileError, match=f"layers.L2.*{message}"):
        dn.load_noc(layout)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("mchain_nring", [1, 4]),
        ("mring_nchain", [4, 1]),
        ("mesh2d", [1, 1]),
        ("mesh2d", [6, 1]),
        ("all_to_all", [1, 5]),
        ("switch", [1, 7]),
    ],
)
def test_a_shape_that_is_right(layout, kind, shape):
    layout["layers"]["L2"].update(kind=kind, shape=shape)
    assert dn.load_noc(layout).levels[1].shape == tuple(shape)


def test_loading_does_not_change_what_it_reads(layout):
    before = deepcopy(layout)
    dn.load_noc(layout)
    assert layout == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not JSON: "),
        (b"\xff\xfe", "is not JSON: it is not UTF-8 text"),
        (b"[1, 2]", r"is \[1, 2\]; allowed is a JSON object"),
        (b'{"name": "a", "name": "b"}', "is not JSON: key 'name' stands twice in one object"),
        (b'{"schema_version": NaN}', "schema_version is nan"),
    ],
)
def test_a_file_that_is_wrong(tmp_path, content, message):
    path = tmp_path / "wrong.json"
    path.write_bytes(content)
    with pytest.raises(dn.ProfileError, match=f"wrong.json' ?:? ?{message}"):
        dn.load_noc(path)


@pytest.mark.parametrize("source", ["no_such_noc", "no/such/file.json", "."])
def test_a_profile_that_is_not_there(source):
    with pytest.raises(
        dn.ProfileError, match=f"noc '{source}' is neither a file that can be read .* nor a bundled .*gpu_node_8"
    ):
        dn.load_noc(source)


@pytest.mark.parametrize("source", [None, 5, ["gpu_node_8"]])
def test_what_is_no_profile(source):
    with pytest.raises(dn.ProfileError, match="allowed are a bundled name, a path, a mapping or a Noc"):
        dn.load_noc(source)


def test_errors_are_value_errors():
    assert issubclass(dn.ProfileError, dn.NocError)
    assert issubclass(dn.NocError, ValueError)
