"""Tables: rows for every plan, counts that are built once and kept safely, and use from compiled code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import deepstack_noc as dn
from deepstack_noc import cost, patterns, tables
from deepstack_noc.collectives import Family, tree_levels
from deepstack_noc.patterns import Key

CLUSTER = dn.load_noc("gpu_cluster_32").topology
TORUS = dn.load_noc("torus_mesh_switch_64").topology


@pytest.fixture
def forgotten(monkeypatch):
    """Nothing kept in memory, no directory named; a list of the families that are counted from then on."""
    monkeypatch.delenv(patterns.CACHE_VARIABLE, raising=False)
    monkeypatch.setattr(patterns, "_kept", {})
    monkeypatch.setattr(patterns, "_directory", [])
    tables._tabulate_one.cache_clear()
    counted = []
    count = patterns.count_family
    monkeypatch.setattr(patterns, "count_family", lambda key: counted.append(key.family) or count(key))
    yield counted
    tables._tabulate_one.cache_clear()


def every_request(devices):
    """Requests for all dimensions of all plans."""
    return [
        (collective, *groups)
        for groups in dn.all_groups(devices)
        for collective in dn.COLLECTIVES
        if collective != "pipeline_transfer" or groups.stride * groups.size == devices
    ]


def test_groups_of_all_plans():
    assert len(dn.all_groups(4096)) == 91
    assert set(dn.all_groups(6)) == {(1, 1), (1, 2), (1, 3), (1, 6), (2, 1), (2, 3), (3, 1), (3, 2), (6, 1)}
    sizes = {"tp": 2, "cp": 4, "pp": 3}
    assert dn.groups_of(24, sizes, "tp") == (1, 2)
    assert dn.groups_of(24, sizes, "ep") == (2, 1)
    assert dn.groups_of(24, sizes, "cp") == (2, 4)
    assert dn.groups_of(24, sizes, "pp") == (8, 3)


def test_a_double_tree():
    assert tree_levels(2) == [[(0, 1), (1, 0)]]
    assert tree_levels(8) == [
        [(0, 1), (2, 1), (4, 5), (6, 5), (1, 2), (3, 2), (5, 6), (7, 6)],
        [(1, 3), (5, 3), (2, 4), (6, 4)],
        [(3, 7), (4, 0)],
    ]


def test_rows_are_in_the_order_of_requests():
    requests = every_request(64)
    table = dn.tabulate(TORUS, requests)
    assert len(table.rows) == len(requests)
    rates = [2e-7, 1e-6, 2e-6, 1e-11, 2e-11, 4e-11, 0, 0, 0, 1, 2, 3]
    for row in (0, 17, 18, 55, len(requests) - 1):
        alone = dn.tabulate(TORUS, [requests[row]])
        for part, expected in zip(cost.price(table, row, 5000, rates), cost.price(alone, 0, 5000, rates), strict=True):
            assert part == expected


def test_patterns_are_counted_once(forgotten):
    requests = every_request(32)
    dn.tabulate(CLUSTER, requests)
    assert len(forgotten) == len(set(forgotten))
    # rank i with rank i xor 2^k: one pattern per distance, whatever the group
    assert {family.stride for family in forgotten if family.name == "exchange"} == {1, 2, 4, 8, 16}
    before = len(forgotten)
    dn.tabulate(CLUSTER, requests)
    dn.all_reduce("gpu_cluster_32", {"tp": 32}, "tp", 100)
    assert len(forgotten) == before
    dn.tabulate(CLUSTER, [("all_gather", 1, 8)], "physical")
    assert len(forgotten) > before


def test_threads_count_a_pattern_once(forgotten):
    barrier, found = threading.Barrier(4), []

    def ask():
        barrier.wait()
        found.append(patterns.patterns_of(Key(TORUS, "deepstack", Family("direct", 1, 64))))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(forgotten) == 1
    assert all(counts is found[0] for counts in found)


def test_an_error_while_counting_is_not_kept(forgotten, monkeypatch):
    key = Key(TORUS, "deepstack", Family("ring", 1, 4))
    with monkeypatch.context() as broken:
        broken.setattr(patterns, "count_family", lambda key: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            patterns.patterns_of(key)
    assert len(patterns.patterns_of(key)) == 1


def test_a_forked_child_does_not_wait_for_its_parent(forgotten):
    key = Key(TORUS, "deepstack", Family("ring", 1, 4))
    patterns._kept[key] = patterns.Future()  # as if another thread were at it
    patterns._forget_builds()
    assert len(patterns.patterns_of(key)) == 1


def same(one, other):
    return all((a == b).all() for left, right in zip(one, other, strict=True) for a, b in zip(left, right, strict=True))


FAMILIES = [Family("exchange", 4, 2), Family("tree", 1, 8), Family("direct", 8, 8), Family("pipeline", 16, 4)]


def test_counts_are_kept_on_disk(forgotten, tmp_path):
    dn.set_cache_directory(tmp_path / "new" / "cache")
    keys = [Key(TORUS, "deepstack", family) for family in FAMILIES]
    first = [patterns.patterns_of(key) for key in keys]
    assert forgotten == FAMILIES
    assert len(list((tmp_path / "new" / "cache").iterdir())) == len(FAMILIES)
    patterns._kept.clear()
    again = [patterns.patterns_of(key) for key in keys]
    assert forgotten == FAMILIES  # nothing counted anew
    assert all(same(one, other) for one, other in zip(first, again, strict=True))
    patterns._kept.clear()
    patterns.patterns_of(keys[0]._replace(link_model="physical"))
    patterns.patterns_of(Key(CLUSTER, "deepstack", FAMILIES[0]))
    assert len(forgotten) == len(FAMILIES) + 2  # other links, other counts
    dn.set_cache_directory(None)
    patterns._kept.clear()
    patterns.patterns_of(keys[0])
    assert len(forgotten) == len(FAMILIES) + 3


def test_the_environment_names_the_directory(forgotten, tmp_path, monkeypatch):
    monkeypatch.setenv("DEEPSTACK_NOC_CACHE", str(tmp_path))
    patterns.patterns_of(Key(TORUS, "deepstack", FAMILIES[0]))
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: content.replace(b'"busy": [', b'"busy": [9', 1),
        lambda content: content.replace(b'["torus2d"', b'["mesh2d"', 1),
        lambda content: b"\xff" + content,
        lambda content: content + b"\nmore",
    ],
)
def test_a_damaged_file_is_replaced(forgotten, tmp_path, damage):
    dn.set_cache_directory(tmp_path)
    key = Key(TORUS, "deepstack", FAMILIES[1])
    expected = patterns.patterns_of(key)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert file.read_bytes() != whole
    patterns._kept.clear()
    assert same(patterns.patterns_of(key), expected)
    assert len(forgotten) == 2
    assert file.read_bytes() == whole


def test_files_of_other_code_are_not_read(forgotten, tmp_path, monkeypatch):
    dn.set_cache_directory(tmp_path)
    key = Key(TORUS, "deepstack", FAMILIES[0])
    patterns.patterns_of(key)
    patterns._kept.clear()
    monkeypatch.setattr(patterns, "CODE_VERSION", "another")
    patterns.patterns_of(key)
    assert len(forgotten) == 2


def test_a_directory_that_cannot_be_written_is_no_error(forgotten, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    dn.set_cache_directory(blocked / "cache")
    assert len(patterns.patterns_of(Key(TORUS, "deepstack", FAMILIES[0]))) == 1


BUILD = """
import json, sys
import deepstack_noc as dn
table = dn.tabulate(dn.load_noc("torus_mesh_switch_64"), [tuple(r) for r in json.loads(sys.argv[1])])
print(json.dumps([part.tolist() for part in table]))
"""


def test_processes_share_a_directory(tmp_path):
    requests = [("all_reduce", 1, 64), ("all_gather", 4, 8), ("pipeline_transfer", 8, 8)]
    environment = {**os.environ, "DEEPSTACK_NOC_CACHE": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(dn.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", BUILD, json.dumps(requests)]
    runs = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    texts = [run.communicate()[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert texts[0] == texts[1] == texts[2]
    assert json.loads(texts[0]) == [part.tolist() for part in dn.tabulate(TORUS, requests)]
    assert not list(tmp_path.glob("*.part"))


def test_uniform_counts_are_a_uniform_all_to_all():
    uniform = dn.tabulate(TORUS, [("all_to_all", 4, 8)])
    for counts in (np.ones((8, 8), int), np.ones((8, 8, 8), np.uint8)):
        counted = dn.tabulate_pairs(TORUS, 4, 8, counts)
        assert all((one == other).all() for one, other in zip(counted, uniform, strict=True))


def test_counts_scale_the_bytes():
    rng = np.random.default_rng(5)
    counts = rng.integers(0, 4, (8, 8, 8))
    table = dn.tabulate_pairs(TORUS, 4, 8, counts)
    rates = [2e-7, 1e-6, 2e-6, 1e-11, 2e-11, 4e-11, 0, 0, 0, 1, 2, 3]
    units = np.array([1, 100, 4608])
    prices = cost.price(table, 0, units, rates)
    for unit, hop, link, energy in zip(units, prices.hop, prices.link, prices.energy, strict=True):
        direct = cost.price(dn.tabulate_pairs(TORUS, 4, 8, counts * unit), 0, 1, rates)
        np.testing.assert_allclose([hop, link, energy], [direct.hop, direct.link, direct.energy], rtol=1e-12)


def test_joined_tables_keep_their_rows():
    requests = [("all_reduce", 1, 8), ("all_to_all", 1, 1), ("pipeline_transfer", 8, 8), ("all_gather", 2, 4)]
    whole = dn.tabulate(TORUS, requests)
    parts = [dn.tabulate(TORUS, [request]) for request in requests]
    joined = dn.join([dn.join(parts[:2]), *parts[2:]])
    assert all((one == other).all() for one, other in zip(whole, joined, strict=True))
    with pytest.raises(dn.NocError, match="no tables to join; allowed is one or more"):
        dn.join([])


def test_one_point_from_compiled_code():
    """The kernels price single points, as other compiled code uses them."""
    table = dn.tabulate(CLUSTER, [("all_gather", 1, 8), ("all_reduce", 1, 8)])
    rates = np.array([1e-6, 2e-6, 0, 1 / 4e11, 1 / 5e10, 1, 0, 0, 0, 1, 2, 3.0]).reshape(12, 1)
    prices, work = np.empty((table.rows[1, 3] - table.rows[1, 2], 3, 1)), np.empty((6, 3, 1))
    costs, codes, nbytes = np.empty((3, 1)), np.empty(1, np.int64), np.array([10**6])
    cost.price_patterns(table.rows, table.patterns, table.vectors, table.hops, 1, rates, prices, 0)
    cost.price_row(table.rows, table.algorithms, table.stages, 1, 1, nbytes, prices, work, costs, codes)
    given = {"l1_latency": 1e-6, "l2_latency": 2e-6, "l1_bandwidth": 4e11, "l2_bandwidth": 5e10}
    expected = dn.all_reduce("gpu_cluster_32", {"tp": 8, "dp": 4}, "tp", 10**6, **given)
    assert costs[:, 0].tolist() == [expected.hop_time, expected.link_time, expected.energy]
    assert dn.ALGORITHMS[codes[0]] == expected.algorithm


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (("broadcast", 1, 8), "collective is 'broadcast'; allowed are all_reduce, all_gather"),
        (("all_reduce", 0, 8), "stride of a group is 0; allowed are integers from 1"),
        (("all_reduce", 1, 2.0), "size of a group is 2.0; allowed are integers from 1"),
        (("all_reduce", 2, 3), "groups of 3 ranks at stride 2 do not divide 32 devices"),
        (
            ("pipeline_transfer", 4, 4),
            "pipeline_transfer on 4 stages of 4 devices; allowed are stages that make up all 32",
        ),
    ],
)
def test_wrong_requests(request_, message):
    with pytest.raises(dn.NocError, match=message):
        dn.tabulate(CLUSTER, [request_])


def test_import_is_light():
    """What only some calls need is imported by them: beyond numba there is little more than this package."""
    code = "import sys, numba; before = set(sys.modules); import deepstack_noc; print(*set(sys.modules) - before)"
    environment = {**os.environ, "PYTHONPATH": str(Path(dn.__file__).parents[1])}
    loaded = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    others = {name.partition(".")[0] for name in loaded.stdout.split()} - {"deepstack_noc"}
    assert not {"pydantic", "matplotlib", "scipy", "xarray", "pandas", "stacksweep"} & others


def test_no_place_for_machine_code_is_no_error(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    code = "from deepstack_noc.routes import spread; print(spread(3, 5, 1, 2))"
    environment = {**os.environ, "PYTHONPATH": str(Path(dn.__file__).parents[1])}
    environment["NUMBA_CACHE_DIR"] = str(blocked / "cache")
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert int(run.stdout) == (3 * 1315423911) ^ (5 * 2654435761) ^ 97 ^ 2
