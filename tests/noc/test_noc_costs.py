"""Costs: tables against direct pricing of every flow, and what must hold for any network."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from noc_cases import device_count, plans, profiles, relative_error
from noc_direct import Network

import deepstack_noc as dn

TOLERANCE = 1e-12
RANDOM = settings(max_examples=150, deadline=None, derandomize=True, database=None)
BYTES = st.sampled_from([0, 1, 2, 7, 100, 12345, 1000001, 67108864])
LINK_MODELS = pytest.mark.parametrize("link_model", ["deepstack", "physical"])


def assert_close(cost, expected, has_energy=True):
    hop, link, energy = expected[:3]
    assert relative_error(cost.hop_time, hop) <= TOLERANCE
    assert relative_error(cost.link_time, link) <= TOLERANCE
    assert relative_error(cost.energy, energy if has_energy else None) <= TOLERANCE


@LINK_MODELS
@RANDOM
@given(data=st.data())
def test_tables_equal_direct_pricing_of_every_flow(link_model, data):
    profile = data.draw(profiles(link_model))
    devices = device_count(profile)
    sizes, nbytes = data.draw(plans(devices)), data.draw(BYTES)
    dim = data.draw(st.sampled_from(list(sizes)))
    noc, plain = dn.load_noc(profile), Network(profile, link_model)
    has_energy = noc.energy_pj_per_bit is not None
    for collective in ("all_reduce", "all_gather", "reduce_scatter"):
        cost = getattr(dn, collective)(noc, sizes, dim, nbytes, link_model)
        *expected, algorithm = getattr(plain, collective)(sizes, dim, nbytes)
        assert_close(cost, expected, has_energy)
        assert cost.algorithm == algorithm
    assert_close(
        dn.pipeline_transfer(noc, sizes, nbytes, link_model), plain.pipeline_transfer(sizes, nbytes), has_energy
    )
    size = sizes[dim]
    uniform = [[[nbytes] * size] * size] * (devices // size)
    cost = dn.all_to_all(noc, sizes, dim, nbytes, link_model)
    assert_close(cost, plain.all_to_all(sizes, dim, uniform), has_energy)
    sent = data.draw(st.lists(st.sampled_from([0, 0, 1, 5, 4096]), min_size=devices * size, max_size=devices * size))
    sent = np.array(sent).reshape(devices // size, size, size)
    cost = dn.all_to_all(noc, sizes, dim, pair_bytes=sent, link_model=link_model)
    assert_close(cost, plain.all_to_all(sizes, dim, sent.tolist()), has_energy)


@LINK_MODELS
@RANDOM
@given(data=st.data())
def test_costs_are_monotone(link_model, data):
    """More bytes, more latency or less bandwidth are never faster."""
    noc = dn.load_noc(data.draw(profiles(link_model)))
    sizes = data.draw(plans(noc.devices))
    dim = data.draw(st.sampled_from(list(sizes)))
    collective = data.draw(st.sampled_from(["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]))

    def time(nbytes, **rates):
        return getattr(dn, collective)(noc, sizes, dim, nbytes, link_model, **rates).time

    slack = 1 + 1e-11  # algorithms that cost the same within 1e-12 may change places
    sizes_in_bytes = np.sort(data.draw(st.lists(st.integers(0, 10**9), min_size=2, max_size=8)))
    by_bytes = time(sizes_in_bytes)
    assert (by_bytes[:-1] <= by_bytes[1:] * slack).all()
    level = data.draw(st.sampled_from(["l1", "l2", "l3"]))
    by_latency = time(1000, **{f"{level}_latency": np.array([0, 1e-7, 1e-6, 1e-3])})
    assert (by_latency[:-1] <= by_latency[1:] * slack).all()
    by_bandwidth = time(10**6, **{f"{level}_bandwidth": np.array([1e12, 1e10, 1e9, 1.0])})
    assert (by_bandwidth[:-1] <= by_bandwidth[1:] * slack).all()


@LINK_MODELS
@pytest.mark.parametrize("noc", ["gpu_cluster_32", "torus_mesh_switch_64"])
def test_arrays_equal_loops_of_scalars(noc, link_model):
    sizes = {"tp": 8, "dp": dn.load_noc(noc).devices // 16, "pp": 2}
    rng = np.random.default_rng(1)
    nbytes = rng.integers(0, 10**7, (5, 1, 1))
    rates = {
        "l1_bandwidth": rng.uniform(1e9, 1e12, (4, 1)),
        "l2_bandwidth": rng.uniform(1e9, 1e12, (5, 4, 3)),
        "l3_latency": rng.uniform(0, 1e-5, 3),
        "l2_pj_per_bit": rng.uniform(0, 5, (4, 3)),
        "l1_latency": 3e-7,
    }
    calls = {
        "all_reduce": lambda x, r: dn.all_reduce(noc, sizes, "tp", x, link_model, **r),
        "all_gather": lambda x, r: dn.all_gather(noc, sizes, "dp", x, link_model, **r),
        "reduce_scatter": lambda x, r: dn.reduce_scatter(noc, sizes, "tp", x, link_model, **r),
        "all_to_all": lambda x, r: dn.all_to_all(noc, sizes, "tp", x, link_model, **r),
        "pipeline_transfer": lambda x, r: dn.pipeline_transfer(noc, sizes, x, link_model, **r),
    }
    for name, call in calls.items():
        costs = call(nbytes, rates)
        assert costs.hop_time.shape == costs.algorithm.shape == costs.time.shape == (5, 4, 3)
        for place in np.ndindex(5, 4, 3):
            one = {key: float(np.broadcast_to(value, (5, 4, 3))[place]) for key, value in rates.items()}
            cost = call(int(nbytes[place[0], 0, 0]), one)
            assert isinstance(cost.time, float)
            assert (cost.hop_time, cost.link_time, cost.energy, cost.algorithm) == (
                costs.hop_time[place],
                costs.link_time[place],
                costs.energy[place],
                costs.algorithm[place],
            ), name


def test_many_points_equal_few():
    """Blocks and threads do not show."""
    rng = np.random.default_rng(2)
    nbytes, bandwidth = rng.integers(0, 10**8, 100_003), rng.uniform(1e9, 1e12, 100_003)
    sizes = {"tp": 8, "dp": 4}
    whole = dn.all_reduce("gpu_cluster_32", sizes, "tp", nbytes, l1_bandwidth=bandwidth)
    for part in (slice(0, 130), slice(49_900, 50_100), slice(100_000, None)):
        some = dn.all_reduce("gpu_cluster_32", sizes, "tp", nbytes[part], l1_bandwidth=bandwidth[part])
        for name in ("hop_time", "link_time", "energy", "algorithm_code"):
            assert (getattr(whole, name)[part] == getattr(some, name)).all()
    assert set(np.unique(whole.algorithm)) <= set(dn.ALGORITHMS)


def test_arrays_of_no_points():
    cost = dn.all_reduce("gpu_node_8", {"tp": 8}, "tp", np.empty((0, 3), int), l1_bandwidth=[[1e9]])
    assert cost.time.shape == (0, 3)


def test_inputs_that_must_not_be_written():
    nbytes = np.arange(4)
    nbytes.flags.writeable = False
    assert dn.all_reduce("gpu_node_8", {"tp": 8}, "tp", nbytes).time[0] == 0


def test_figures_by_hand():
    """Eight devices around a switch: 1250 ns and 370 GB/s per link, two links per flow."""
    sizes, nbytes = {"tp": 8}, 8 * 10**6
    hop = 2 * 1250e-9
    scatter = dn.reduce_scatter("gpu_node_8", sizes, "tp", nbytes)
    assert scatter.hop_time == pytest.approx(3 * hop, rel=TOLERANCE)
    assert scatter.link_time == pytest.approx((4e6 + 2e6 + 1e6) / 370e9, rel=TOLERANCE)
    assert scatter.energy == pytest.approx(8 * 2 * 8 * (4e6 + 2e6 + 1e6) * 1.0, rel=TOLERANCE)
    direct = dn.all_to_all("gpu_node_8", sizes, "tp", 1000, l1_bandwidth=1e9, l1_latency=1e-6)
    assert direct.hop_time == pytest.approx(2e-6, rel=TOLERANCE)
    assert direct.link_time == pytest.approx(7e-6, rel=TOLERANCE)
    gather = dn.all_gather("gpu_node_8", sizes, "tp", 8000, l1_pj_per_bit=0.5)
    assert gather.algorithm == "direct"
    assert gather.energy == pytest.approx(8 * 56 * 1000 * 2 * 0.5, rel=TOLERANCE)


def test_algorithm_changes_with_size():
    cost = dn.all_reduce("gpu_node_8", {"tp": 8}, "tp", [1000, 10**9])
    assert cost.algorithm.tolist() == ["all_to_all", "rabenseifner"]


def test_the_ring_where_the_size_is_no_power_of_two():
    noc = dn.load_noc("gpu_node_8").to_dict()
    noc["layers"]["L1"]["shape"] = [1, 6]
    assert dn.all_reduce(noc, {"tp": 6}, "tp", 600).algorithm == "ring"
    assert dn.reduce_scatter(noc, {"tp": 6}, "tp", 600).algorithm == "ring"
    assert dn.all_gather(noc, {"tp": 6}, "tp", 600).algorithm == "direct"


def test_the_first_of_equals_is_taken():
    """Two ranks: recursive doubling, direct and both trees move the same bytes over the same links."""
    noc = dn.load_noc("gpu_node_8").to_dict()
    noc["layers"]["L1"]["shape"] = [1, 2]
    nbytes = np.arange(0, 10**6, 997)
    cost = dn.all_reduce(noc, {"tp": 2}, "tp", nbytes, l1_latency=np.linspace(0, 1e-6, 7)[:, None])
    # without latency, a single byte is free for those who halve it
    assert set(cost.algorithm[1:].flat) == {"recursive_doubling"}
    assert dn.all_gather(noc, {"tp": 2}, "tp", nbytes).algorithm.tolist() == ["ring"] * len(nbytes)


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
def test_a_group_of_one_is_free(collective):
    cost = getattr(dn, collective)("gpu_cluster_32", {"tp": 8, "dp": 4}, "cp", [5, 10**9])
    assert cost.time.tolist() == cost.energy.tolist() == [0, 0]
    assert cost.algorithm.tolist() == ["none", "none"]
    assert dn.pipeline_transfer("gpu_cluster_32", {"tp": 32}, 10).time == 0


def test_no_bytes_cost_nothing():
    cost = dn.all_reduce("gpu_cluster_32", {"tp": 32}, "tp", 0)
    assert (cost.time, cost.energy) == (0, 0)
    ring = dn.all_gather("gpu_cluster_32", {"tp": 32}, "tp", 31)  # less than a byte for each
    assert (ring.time, ring.energy, ring.algorithm) == (0, 0, "ring")
    sent = np.zeros((8, 8), int)
    assert dn.all_to_all("gpu_node_8", {"tp": 8}, "tp", pair_bytes=sent).time == 0


def test_the_diagonal_is_not_sent():
    sent = np.diag([10**9] * 8)
    sent[2, 5] = 3700
    cost = dn.all_to_all("gpu_node_8", {"ep": 8}, "ep", pair_bytes=sent)
    assert cost.link_time == pytest.approx(1e-8, rel=TOLERANCE)
    assert cost.energy == pytest.approx(8 * 3700 * 2, rel=TOLERANCE)


def test_no_energy_without_coefficients():
    noc = dn.load_noc("gpu_node_8").to_dict()
    del noc["energy_pj_per_bit"]
    sizes = {"tp": 8}
    assert math.isnan(dn.all_reduce(noc, sizes, "tp", 1000).energy)
    assert math.isnan(dn.all_reduce(noc, sizes, "tp", 0).energy)
    assert math.isnan(dn.all_reduce(noc, {"dp": 8}, "tp", 1000).energy)
    assert np.isnan(dn.all_reduce(noc, sizes, "tp", 1000, l1_pj_per_bit=[1.0, 2.0]).energy).all()
    every = {f"l{k}_pj_per_bit": 1.0 for k in (1, 2, 3)}
    assert (
        dn.all_reduce(noc, sizes, "tp", 1000, **every).energy == dn.all_reduce("gpu_node_8", sizes, "tp", 1000).energy
    )


def test_huge_sizes_stay_exact():
    """2**53 bytes: products of bytes and repeats do not overflow."""
    cost = dn.all_reduce("gpu_node_8", {"tp": 8}, "tp", 2**53)
    assert cost.algorithm == "rabenseifner"
    assert cost.link_time == pytest.approx(2 * (2**53 - 2**50) / 370e9, rel=TOLERANCE)


def test_limited_centers_slow_a_collective_down():
    noc = dn.load_noc("gpu_node_8").to_dict()
    noc["layers"]["L1"].update(switch_center_in_gbytes_per_s=100, switch_center_out_gbytes_per_s=60)
    sizes = {"tp": 8}
    # all 56 flows of 1000 bytes pass the CENTER, in and out
    physical = dn.all_to_all(noc, sizes, "tp", 1000, "physical")
    assert physical.link_time == pytest.approx(2 * 56 * 1000 / 160e9, rel=TOLERANCE)
    assert dn.all_to_all(noc, sizes, "tp", 1000).link_time == pytest.approx(7000 / 370e9, rel=TOLERANCE)


TP8 = {"tp": 8}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dn.all_reduce("gpu_node_8", {"tp": 4}, "tp", 1), r"sizes multiply to 4 \(tp 4\); allowed is .* 8"),
        (lambda: dn.all_reduce("gpu_node_8", {"xp": 8}, "tp", 1), "sizes has the key 'xp'; allowed are tp, ep, sp, cp"),
        (
            lambda: dn.all_reduce("gpu_node_8", {"tp": 8.0}, "tp", 1),
            r"sizes\['tp'\] is 8.0; allowed are integers from 1",
        ),
        (lambda: dn.all_reduce("gpu_node_8", {"tp": True}, "tp", 1), r"sizes\['tp'\] is True; allowed are integers"),
        (lambda: dn.all_reduce("gpu_node_8", {"tp": 8, "dp": 0}, "tp", 1), r"sizes\['dp'\] is 0; allowed are integers"),
        (lambda: dn.all_reduce("gpu_node_8", [8], "tp", 1), r"sizes is \[8\]; allowed is a mapping of tp, ep"),
        (lambda: dn.all_reduce("gpu_node_8", TP8, "mp", 1), "dim is 'mp'; allowed are tp, ep, sp, cp, dp, pp"),
        (
            lambda: dn.all_reduce("gpu_node_8", TP8, "tp", -1),
            r"nbytes is -1; allowed are whole numbers from 0 to 2\*\*53",
        ),
        (lambda: dn.all_reduce("gpu_node_8", TP8, "tp", [1, 2.5]), "nbytes is 2.5; allowed are whole numbers"),
        (lambda: dn.all_reduce("gpu_node_8", TP8, "tp", math.nan), "nbytes is nan; allowed are whole numbers"),
        (
            lambda: dn.all_reduce("gpu_node_8", TP8, "tp", 2**54),
            "nbytes is 18014398509481984; allowed are whole numbers",
        ),
        (lambda: dn.all_reduce("gpu_node_8", TP8, "tp", True), "nbytes is True; allowed are whole numbers"),
        (lambda: dn.all_reduce("gpu_node_8", TP8, "tp", "1"), "nbytes is '1'; allowed are whole numbers"),
        (
            lambda: dn.all_reduce("gpu_node_8", TP8, "tp", 1, l1_bandwidth=0),
            "l1_bandwidth is 0; allowed are finite numbers above 0",
        ),
        (
            lambda: dn.all_reduce("gpu_node_8", TP8, "tp", 1, l2_latency=[0, -1e-9]),
            "l2_latency is -1e-09; allowed are finite numbers from 0",
        ),
        (
            lambda: dn.all_reduce("gpu_node_8", TP8, "tp", 1, l3_pj_per_bit=math.nan),
            "l3_pj_per_bit is nan; allowed are finite numbers from 0",
        ),
        (
            lambda: dn.all_reduce("gpu_node_8", TP8, "tp", 1, l1_latency=math.inf),
            "l1_latency is inf; allowed are finite numbers from 0",
        ),
        (
            lambda: dn.all_reduce("gpu_node_8", TP8, "tp", 1, l1_latency=True),
            "l1_latency is True; allowed are finite numbers from 0",
        ),
        (
            lambda: dn.all_reduce("gpu_node_8", TP8, "tp", 1, l4_latency=0),
            "'l4_latency' is no rate of a network; allowed are l1_latency",
        ),
        (
            lambda: dn.all_reduce("gpu_node_8", TP8, "tp", [1, 2], l1_latency=[0, 0, 0]),
            r"shapes are nbytes \(2,\), l1_latency \(3,\); allowed are shapes that broadcast together",
        ),
        (lambda: dn.all_to_all("gpu_node_8", TP8, "tp"), "takes one of nbytes and pair_bytes"),
        (lambda: dn.all_to_all("gpu_node_8", TP8, "tp", 1, pair_bytes=[[0]]), "takes one of nbytes and pair_bytes"),
        (
            lambda: dn.all_to_all("gpu_node_8", {"tp": 4, "dp": 2}, "tp", pair_bytes=np.zeros((3, 4, 4), int)),
            r"array of int64 with shape \(3, 4, 4\); allowed are integers with shape \(4, 4\) or \(2, 4, 4\)",
        ),
        (lambda: dn.all_to_all("gpu_node_8", TP8, "tp", pair_bytes=np.ones((8, 8))), "array of float64"),
        (
            lambda: dn.all_to_all("gpu_node_8", TP8, "tp", pair_bytes=np.full((8, 8), -1)),
            "counts go from -1 and sum up to -64",
        ),
        (
            lambda: dn.all_to_all("gpu_node_8", TP8, "tp", pair_bytes=np.full((8, 8), 2**50)),
            r"allowed are counts from 0 that sum up to 1\.1259e\+15",
        ),
        (
            lambda: dn.all_reduce("gpu_node_8", TP8, "tp", 1, "exact"),
            "link_model is 'exact'; allowed are 'deepstack' and",
        ),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(dn.NocError, match=message):
        call()
