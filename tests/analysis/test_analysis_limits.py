"""What bounds a point: rules on points made by hand, and sweeps against a loop over their candidates."""

import doctest
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import stacksweep as ss
from stacksweep.analysis import limits
from stacksweep.analysis.limits import BOUNDS
from stacksweep.kernels.rows import COLLECTIVES
from stacksweep.results import BOTTLENECK

FREE = {f"{phase}_{name}": 0.0 for phase in ("prefill", "decode") for name in COLLECTIVES}


def point(**change: Any) -> xr.Dataset:
    """One device with nothing that throttles: 2 s of compute and 1 s of DRAM in each phase, unless changed."""
    values = {
        "valid": True,
        "fits": True,
        "weight_bytes": 30.0,
        "kv_bytes": 20.0,
        "capacity": 100.0,
        "clock_scale": 1.0,
        "connectivity_efficiency": 1.0,
        "buffering_limited": False,
        "prefill_latency": 2.0,
        "prefill_period": 2.0,
        "prefill_transfer": 0.0,
        "first_decode_transfer": 0.0,
        **{f"{phase}_compute_time": 2.0 for phase in ("prefill", "decode")},
        **{f"{phase}_memory_time": 1.0 for phase in ("prefill", "decode")},
        **{f"{phase}_overhead_time": 0.0 for phase in ("prefill", "decode")},
        "pp": 1,
        "output_seq_len": 10,
        **FREE,
        **change,
    }
    times = {
        f"{phase}_collective_time": ("collective", [values.pop(f"{phase}_{name}") for name in COLLECTIVES])
        for phase in ("prefill", "decode")
    }
    coords = {"collective": list(COLLECTIVES), "pp": values.pop("pp"), "output_seq_len": values.pop("output_seq_len")}
    return xr.Dataset({**values, **times}, coords)


def words(found: xr.Dataset, phase: str) -> tuple[str, str, float]:
    bound, following = (BOUNDS[int(found[f"{phase}_{name}"])] for name in ("bound", "next_bound"))
    return bound, following, float(found[f"{phase}_margin"])


SLOW_DRAM = {"prefill_memory_time": 8.0, "decode_memory_time": 8.0}
HOT = {"clock_scale": 0.9}
RECHARGING = {"connectivity_efficiency": 0.99}
BUFFERED = {"buffering_limited": True}
FULL = {"fits": False, "capacity": 40.0}


@pytest.mark.parametrize(
    ("change", "prefill", "decode"),
    [
        ({}, ("compute", "dram_bandwidth", 2.0), ("compute", "dram_bandwidth", 2.0)),
        (HOT, ("thermal_clock", "dram_bandwidth", 2.0), ("thermal_clock", "dram_bandwidth", 2.0)),
        # a clock above the nominal one throttles nothing
        ({"clock_scale": 1.1}, ("compute", "dram_bandwidth", 2.0), ("compute", "dram_bandwidth", 2.0)),
        (SLOW_DRAM, ("dram_bandwidth", "compute", 4.0), ("dram_bandwidth", "compute", 4.0)),
        (SLOW_DRAM | HOT, ("dram_bandwidth", "thermal_clock", 4.0), ("dram_bandwidth", "thermal_clock", 4.0)),
        (SLOW_DRAM | RECHARGING, ("connectivity", "compute", 4.0), ("connectivity", "compute", 4.0)),
        (SLOW_DRAM | BUFFERED, ("buffering", "compute", 4.0), ("buffering", "compute", 4.0)),
        # while buffers limit, recharges do not matter
        (SLOW_DRAM | BUFFERED | RECHARGING, ("buffering", "compute", 4.0), ("buffering", "compute", 4.0)),
        (RECHARGING, ("compute", "connectivity", 2.0), ("compute", "connectivity", 2.0)),
        # of equal times the first: compute, DRAM, collectives, overhead, transfer, bubble
        ({"prefill_memory_time": 2.0}, ("compute", "dram_bandwidth", 1.0), ("compute", "dram_bandwidth", 2.0)),
        (
            {"prefill_ep_combine": 1.0, "decode_ep_combine": 3.0},
            ("compute", "dram_bandwidth", 2.0),
            ("ep_combine", "compute", 1.5),
        ),
        (
            {"prefill_tp_all_reduce": 5.0, "prefill_cp_kv_all_gather": 4.0, "decode_overhead_time": 1.5},
            ("tp_all_reduce", "cp_kv_all_gather", 1.25),
            ("compute", "overhead", 4 / 3),
        ),
        # two more stages of 1 s each in prefill, and 2 transfers of half a second; ten of them in decode
        (
            {"pp": 3, "prefill_transfer": 0.5, "prefill_period": 2.5, "prefill_latency": 5.0}
            | {"first_decode_transfer": 0.3},
            ("compute", "pipeline_bubble", 1.0),
            ("pipeline_transfer", "compute", 1.5),
        ),
        (
            {"pp": 4, "prefill_transfer": 1.0, "prefill_period": 3.0, "prefill_latency": 9.5},
            ("pipeline_bubble", "pipeline_transfer", 1.5),
            ("compute", "dram_bandwidth", 2.0),
        ),
        (FULL, ("capacity", "compute", 1.25), ("capacity", "compute", 1.25)),
        (FULL | SLOW_DRAM, ("capacity", "dram_bandwidth", 1.25), ("capacity", "dram_bandwidth", 1.25)),
        # a memory whose profile gives no capacity
        ({"capacity": np.nan}, ("compute", "dram_bandwidth", 2.0), ("compute", "dram_bandwidth", 2.0)),
    ],
)
def test_rules(change: dict[str, Any], prefill: tuple[str, str, float], decode: tuple[str, str, float]):
    found = ss.bottleneck(point(**change))
    assert words(found, "prefill") == prefill
    assert words(found, "decode") == decode


def test_points_that_cannot_be():
    one = point(valid=False, fits=False)
    masked = {name: one[name] * np.nan for name in one.data_vars if one[name].dtype.kind == "f"}
    found = ss.bottleneck(one.assign(masked))
    for phase in ("prefill", "decode"):
        bound, following, margin = words(found, phase)
        assert (bound, following) == ("invalid", "invalid")
        assert np.isnan(margin)


@pytest.fixture(scope="module")
def ds() -> xr.Dataset:
    """Plans, stacks and loads, of which some cannot be and some do not fit."""
    return ss.sweep(
        model=["llama-3.1-8b", "qwen3-30b-a3b"],
        memory="fictional_stacked_dram",
        noc="gpu_node_8",
        layers=[4, 8, 24],
        connected_layers=[2, 8],
        tp=[1, 2, 4, 8],
        pp=[1, 2],
        dp="fill",
        batch_size=[1, 64],
        outputs=["main", "bottleneck"],
    )


def check(ds: xr.Dataset, found: xr.Dataset) -> set[str]:
    """Compare every point with its longest candidates; return the bounds that there are."""
    seen = set()
    for at in np.ndindex(ds.valid.shape):
        where = dict(zip(ds.valid.dims, at, strict=True))
        one = ds.isel(where)
        for phase in ("prefill", "decode"):
            bound, following, margin = words(found.isel(where), phase)
            seen.add(bound)
            if not one.valid:
                assert (bound, following) == ("invalid", "invalid")
                continue
            pp, tokens = int(one.pp), int(one.output_seq_len)
            transfer = one.prefill_transfer * (pp - 1) if phase == "prefill" else one.first_decode_transfer * tokens
            others = one.prefill_latency - one.prefill_period + one.prefill_transfer - (pp - 1) * one.prefill_transfer
            dram = "connectivity" if one.connectivity_efficiency < 1 else "dram_bandwidth"
            times = {
                "thermal_clock" if one.clock_scale < 1 else "compute": one[f"{phase}_compute_time"],
                "buffering" if one.buffering_limited else dram: one[f"{phase}_memory_time"],
                **dict(zip(COLLECTIVES, one[f"{phase}_collective_time"], strict=True)),
                "pipeline_transfer": transfer,
                "pipeline_bubble": others if phase == "prefill" and pp > 1 else 0.0,
            }
            first, second = sorted(times, key=lambda name: -float(times[name]))[:2]
            if one.fits:
                assert (bound, following) == (first, second)
                assert margin == pytest.approx(float(times[first] / times[second]), rel=1e-12)
                assert margin >= 1
            else:
                assert (bound, following) == ("capacity", first)
                assert margin == pytest.approx(float((one.weight_bytes + one.kv_bytes) / one.capacity), rel=1e-12)
                assert margin > 1
    return seen


def test_a_sweep(ds: xr.Dataset):
    found = ss.bottleneck(ds)
    assert found.prefill_bound.dims == found.decode_margin.dims == ds.tps.dims
    assert check(ds, found) >= {"invalid", "thermal_clock", "dram_bandwidth", "connectivity", "capacity"}
    assert {name: found[name].dtype for name in found.data_vars} == {
        f"{phase}_{name}": np.dtype(kind)
        for phase in ("prefill", "decode")
        for name, kind in {"bound": "i1", "next_bound": "i1", "margin": "f8"}.items()
    }
    assert found.prefill_bound.attrs["flag_meanings"] == " ".join(BOUNDS)
    assert found.prefill_bound.attrs["flag_values"].tolist() == list(range(len(BOUNDS)))
    assert found.attrs == ds.attrs


def test_the_same_eager_lazy_and_from_files(ds: xr.Dataset, tmp_path):
    found = ss.bottleneck(ds)
    lazy = ss.bottleneck(ds.chunk(tp=3, layers=1, collective=2))
    assert lazy.prefill_bound.chunks is not None
    xr.testing.assert_identical(lazy.compute(), found)
    for name in ("limits.nc", "limits.zarr"):
        ss.save(found, tmp_path / name)
        with xr.open_dataset(tmp_path / name) as opened:
            xr.testing.assert_identical(opened.load(), found)


def test_chosen_points_keep_their_bounds(ds: xr.Dataset):
    over = ["tp", "pp", "batch_size"]
    chosen = ss.best(ds, "tps", over=over, where=ds.fits)
    both = ss.best(ds.assign(ss.bottleneck(ds)), "tps", over=over, where=ds.fits)
    found = ss.bottleneck(chosen)
    feasible = chosen.feasible.values
    assert 0 < feasible.sum() < feasible.size
    np.testing.assert_array_equal(found.decode_bound.values[feasible], both.decode_bound.values[feasible])
    assert set(found.decode_bound.values[~feasible]) == {0}


@given(st.data())
@settings(max_examples=60)
def test_the_longest_wins(data: st.DataObject):
    seconds = st.sampled_from([0.0, 0.5, 1.0, 1.5, 7.0])
    names = ["compute", "dram_bandwidth", *COLLECTIVES, "overhead"]
    times = [data.draw(st.sampled_from([0.5, 1.0, 7.0])), *(data.draw(seconds) for _ in names[1:])]
    keys = ["decode_compute_time", "decode_memory_time", *(f"decode_{name}" for name in COLLECTIVES)]
    found = ss.bottleneck(point(**dict(zip([*keys, "decode_overhead_time"], times, strict=True))))
    order = sorted(range(len(names)), key=lambda at: (-times[at], at))
    bound, following, margin = words(found, "decode")
    assert (bound, following) == (names[order[0]], names[order[1]])
    assert margin == (times[order[0]] / times[order[1]] if times[order[1]] else np.inf)


def test_single_precision_says_the_same(ds: xr.Dataset):
    single = ds.map(lambda variable: variable.astype("f4") if variable.dtype == "f8" else variable, keep_attrs=True)
    found, wanted = ss.bottleneck(single), ss.bottleneck(ds)
    np.testing.assert_allclose(found.decode_margin, wanted.decode_margin, rtol=1e-6)
    assert found.decode_margin.dtype == "f8"


def test_what_it_reads_can_be_asked_for_by_one_name():
    alone = ss.sweep(model="llama-3.1-8b", memory="h200", outputs="bottleneck")
    assert set(alone.data_vars) == {*BOTTLENECK, "reason"}
    assert words(ss.bottleneck(alone), "decode")[0] == "compute"


def test_overhead_of_a_roofline_chip():
    ds = ss.sweep(
        model="llama-3.2-1b",
        chip="h100_sxm",
        memory="h100_sxm",
        pass_overhead=[0, 1],
        outputs="bottleneck",
        batch_size=1,
    )
    found = ss.bottleneck(ds)
    assert [BOUNDS[code] for code in found.decode_bound.values] == ["dram_bandwidth", "overhead"]
    assert found.decode_margin.values[1] == pytest.approx(
        float((ds.decode_overhead_time / ds.decode_memory_time)[1]), rel=1e-12
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda ds: 3, "ds: got int, needs an xarray.Dataset"),
        (
            lambda ds: ds.drop_vars(["decode_memory_time", "pp"]),
            'ds: lacks decode_memory_time, pp; a sweep with outputs="bottleneck" has them',
        ),
        (
            lambda ds: ds.isel(collective=[0, 1]),
            'ds: lacks prefill_collective_time, decode_collective_time; a sweep with outputs="bottleneck" has them',
        ),
        (
            lambda ds: ds.isel(collective=0),
            'ds: lacks prefill_collective_time, decode_collective_time; a sweep with outputs="bottleneck" has them',
        ),
    ],
)
def test_errors(change: Any, message: str):
    with pytest.raises(ss.ParameterError) as caught:
        ss.bottleneck(change(point()))
    assert str(caught.value) == message


def test_error_names_all_that_the_main_results_lack():
    main = ss.sweep(model="llama-3.1-8b", memory="h200")
    with pytest.raises(ss.ParameterError, match=r"^ds: lacks connectivity_efficiency, buffering_limited, prefill_lat"):
        ss.bottleneck(main)


def test_examples_of_the_docstring():
    tried = doctest.testmod(limits)
    assert (tried.failed, tried.attempted) == (0, 6)
