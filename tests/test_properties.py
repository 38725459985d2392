"""What must hold for any design point, whatever its numbers."""

from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import stacksweep as ss
from stacksweep import blocks, evaluate
from stacksweep.results import RESULTS
from strategies import Case, bitwise_equal, cases, keywords, point_values

BASE: dict[str, Any] = {
    "model": "llama-3.2-1b",
    "memory": "fictional_stacked_dram",
    "input_seq_len": 300,
    "output_seq_len": 20,
}
AXES: dict[str, list[Any]] = {
    "layers": [4, 8, 12],
    "connected_layers": [2, 6],
    "batch_size": [1, 3, 16],
    "overlap": ["serial", "stage-roofline"],
    "kv_read_bytes": [0.3, 1.125],
}
TIMES = ("ttft", "prefill_latency", "first_decode_latency", "decode_time")


@given(cases(output=60), st.floats(1.0, 8.0))
@settings(max_examples=30)
def test_more_bandwidth_is_never_slower(case: Case, factor: float):
    assume(case["memory"]["kind"] == "fixed_bandwidth")
    bandwidth = case["memory"]["bandwidth_bytes_per_s"]
    given_ = keywords(case) | {"bandwidth_bytes_per_s": [bandwidth, bandwidth * factor, bandwidth * 64]}
    ds = ss.sweep(**given_, outputs=["main", *TIMES, "decode_memory_time"])
    for name in (*TIMES, "decode_memory_time"):
        times = ds[name].values
        assert (np.diff(times) <= 1e-13 * times[:-1]).all(), name
    assert (np.diff(ds.tps.values) >= -1e-13 * ds.tps.values[1:]).all()


@given(cases(output=60), st.floats(1.0, 8.0))
@settings(max_examples=30)
def test_a_faster_clock_is_never_slower(case: Case, factor: float):
    given_ = keywords(case)
    given_["frequency_hz"] = [given_["frequency_hz"], given_["frequency_hz"] * factor]
    ds = ss.sweep(**given_, outputs=list(TIMES))
    assume(ds.valid.all())
    for name in TIMES:
        slow, fast = ds[name].values
        assert fast <= slow * (1 + 1e-13), name


@pytest.mark.parametrize("overlap", ["serial", "stage-roofline"])
def test_more_layers_never_hold_less(overlap: str):
    ds = ss.sweep(**BASE, layers=range(1, 40), overlap=overlap, outputs="all")
    assert (ds.capacity.diff("layers") > 0).all()
    # a stack that holds a model still does when it grows
    assert (ds.fits.astype(int).diff("layers") >= 0).all()
    # all layers are connected, since only the height is given
    assert (ds.peak_bandwidth.diff("layers") > 0).all()


@given(cases(output=60))
@settings(max_examples=30)
def test_throughput_is_bounded_by_bandwidth_and_by_compute(case: Case):
    ds = ss.sweep(**keywords(case), outputs="all")
    assume(ds.valid)
    tokens = case["batch_size"] * case["output_seq_len"]
    moved = ds.decode_read_bytes + ds.decode_write_bytes
    slack = 1 + 1e-12
    assert ds.tps <= tokens * ds.usable_bandwidth / moved * slack
    assert ds.tps * ds.decode_compute_time <= tokens * slack
    assert ds.decode_memory_bound_time <= ds.decode_time * slack
    assert ds.tps_per_sequence.item() == pytest.approx(ds.tps.item() / case["batch_size"], rel=1e-13)
    together = ds.decode_compute_time + ds.decode_memory_time
    assert ds.decode_time <= together * slack
    if case["overlap"] == "serial":
        assert ds.decode_time.item() == pytest.approx(together.item(), rel=1e-12)
    np.testing.assert_allclose(ds.ttft, ds.prefill_latency + ds.first_decode_latency, rtol=1e-15)


@given(cases(output=2000, prompt=300), st.data())
@settings(max_examples=30)
def test_decode_sums_are_additive(case: Case, data: st.DataObject):
    """A decode is a decode of its first tokens and one of the others, which starts with a longer prompt."""
    assume(case["output_seq_len"] >= 2)
    cut = data.draw(st.integers(1, case["output_seq_len"] - 1))
    prompt, answer = case["input_seq_len"], case["output_seq_len"]
    lengths = {
        "input_seq_len": ("point", [prompt, prompt, prompt + cut]),
        "output_seq_len": ("point", [answer, cut, answer - cut]),
    }
    given_ = {name: value for name, value in keywords(case).items() if name not in lengths}
    ds = ss.sweep(**given_, points=xr.Dataset(lengths), outputs="all")
    assume(ds.valid.all())
    for name in (
        "time",
        "compute_time",
        "memory_time",
        "memory_bound_time",
        "read_bytes",
        "write_bytes",
        "dram_energy",
    ):
        whole, first, rest = ds[f"decode_{name}"].values
        np.testing.assert_allclose(first + rest, whole, rtol=1e-12, err_msg=name)


@given(cases(output=30))
@settings(max_examples=30)
def test_one_step_is_the_first_step(case: Case):
    ds = ss.sweep(**keywords(case) | {"output_seq_len": 1}, outputs="all")
    np.testing.assert_allclose(ds.decode_time, ds.first_decode_latency, rtol=1e-14)
    for name in ("compute_time", "memory_time", "memory_bound_time", "read_bytes", "write_bytes", "dram_energy"):
        np.testing.assert_allclose(ds[f"decode_{name}"], ds[f"first_decode_{name}"], rtol=1e-14, err_msg=name)


@given(cases(output=300), st.integers(2, 9))
@settings(max_examples=30)
def test_fixed_costs_per_layer_scale_with_layers(case: Case, times: int):
    """A dense model of equal layers takes times as long with times as many, but for embedding and LM head."""
    assume("num_experts" not in case["model"] and "sliding_window" not in case["model"])
    many = case["model"] | {"num_hidden_layers": case["model"]["num_hidden_layers"] * times, "name": "many"}
    given_ = keywords(case) | {"model": [case["model"], many], "include_lm_head": False}
    ds = ss.sweep(**given_, outputs=["decode_time", "kv_bytes", "decode_memory_bound_time"])
    assume(ds.valid.all())
    for name in ("decode_time", "kv_bytes", "decode_memory_bound_time"):
        few, more = ds[name].values
        np.testing.assert_allclose(more, few * times, rtol=1e-13, err_msg=name)


# --- the shape of a call changes nothing -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grid() -> xr.Dataset:
    return ss.sweep(**BASE, **AXES, outputs="all")


def test_grid_is_its_points(grid: xr.Dataset):
    index = pd.MultiIndex.from_product(AXES.values(), names=AXES)
    points = ss.sweep(**BASE, points=index.to_frame(index=False), outputs="all")
    for name in points.data_vars:
        flat = grid[name].stack(point=list(AXES)).transpose(*points[name].dims)
        assert np.array_equal(flat.values, points[name].values, equal_nan=flat.dtype.kind == "f"), name
        assert flat.dtype == points[name].dtype


@pytest.mark.parametrize("order", list(permutations(AXES))[::7])
def test_order_of_axes_changes_nothing(grid: xr.Dataset, order: tuple[str, ...]):
    other = ss.sweep(**{name: AXES[name] for name in order}, **BASE, outputs="all")
    assert other.tps.dims == order
    dims = ("collective", *AXES)
    assert bitwise_equal(other.transpose(*dims), grid.transpose(*dims))
    xr.testing.assert_equal(other.transpose(*dims), grid.transpose(*dims))


@pytest.mark.parametrize("name", AXES)
def test_a_value_of_an_axis_alone_gives_the_same(grid: xr.Dataset, name: str):
    for position, value in enumerate(AXES[name]):
        alone = ss.sweep(**BASE, **AXES | {name: value}, outputs="all")
        assert bitwise_equal(alone, grid.isel({name: position}))


@given(cases(output=50), st.lists(st.integers(1, 64), min_size=1, max_size=5), st.randoms())
@settings(max_examples=20)
def test_a_point_of_a_batch_is_its_estimate(case: Case, batches: list[int], random: Any):
    ds = ss.sweep(**keywords(case) | {"batch_size": batches}, outputs="all")
    position = random.randrange(len(batches))
    alone = ss.sweep(**keywords(case) | {"batch_size": batches[position]}, outputs="all")
    assert bitwise_equal(alone, ds.isel(batch_size=position))
    if not alone.valid:
        with pytest.raises(ss.InvalidPointError):
            ss.estimate(**keywords(case) | {"batch_size": batches[position]})
        return
    report = ss.estimate(**keywords(case) | {"batch_size": batches[position]})
    values = point_values(alone)
    for name in report.__dataclass_fields__:
        if name in values and name != "warnings":
            np.testing.assert_array_equal(getattr(report, name), values[name], err_msg=name)
    for prefix in ("prefill", "first_decode", "decode"):
        stage = getattr(report, prefix).stage
        for name in stage.__dataclass_fields__:
            if name not in ("collectives", "operations", "memory_bound_operations"):
                np.testing.assert_array_equal(getattr(stage, name), values[f"{prefix}_{name}"])
    assert len(report.warnings) == len(values["warnings"])


def test_float32_is_float64_rounded(grid: xr.Dataset):
    small = ss.sweep(**BASE, **AXES, outputs="all", dtype="float32")
    for name, variable in grid.data_vars.items():
        if variable.dtype == np.float64:
            assert small[name].dtype == np.float32
            np.testing.assert_array_equal(small[name], variable.astype(np.float32))
        else:
            assert small[name].dtype == variable.dtype
            np.testing.assert_array_equal(small[name], variable)
    # coordinates keep their precision
    assert small.kv_read_bytes.dtype == np.float64


SOME_INVALID: dict[str, Any] = {
    **BASE,
    "model": ["llama-3.2-1b", "gpt-oss-20b"],
    "layers": [2, 9],
    "connected_layers": [1, 3],
    "routing": ["balanced", "random"],
    "include_lm_head": [False, True],
    "batch_size": [1, 7],
}


@pytest.fixture(scope="module")
def whole() -> xr.Dataset:
    return ss.sweep(**SOME_INVALID, outputs=[result.name for result in RESULTS])


@pytest.mark.parametrize("name", [result.name for result in RESULTS])
def test_a_result_alone_is_the_same_as_among_all(whole: xr.Dataset, name: str):
    alone = ss.sweep(**SOME_INVALID, outputs=name)
    assert set(alone.data_vars) == {name, "valid", "reason"}
    assert bitwise_equal(alone, whole[list(alone.data_vars)])
    assert alone[name].attrs.keys() == whole[name].attrs.keys()


@given(names=st.sets(st.sampled_from([result.name for result in RESULTS]), min_size=2, max_size=5))
@settings(max_examples=30)
def test_some_results_are_the_same_as_among_all(whole: xr.Dataset, names: set[str]):
    some = ss.sweep(**SOME_INVALID, outputs=sorted(names))
    assert set(some.data_vars) == names | {"valid", "reason"}
    assert bitwise_equal(some, whole[list(some.data_vars)])


SHARED: dict[str, Any] = {
    **BASE,
    # x is shared by load and memory, y is the load's, z the memory's
    "batch_size": xr.DataArray([[1, 2, 3], [5, 8, 13]], dims=("x", "y")),
    "layers": xr.DataArray([[4, 8], [12, 3]], dims=("z", "x")),
    "connected_layers": 3,
    "channels_per_connected_layer": [1, 7],
    "output_seq_len": [1, 9],
}


@pytest.mark.parametrize("points", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("limit", [1, 2, 5, 1000])
def test_cutting_into_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch, points: int, limit: int):
    for arguments in ({**BASE, **AXES}, SHARED, {**BASE, "batch_size": range(1, 40), "layers": range(1, 20)}):
        whole = ss.sweep(**arguments, outputs="main")
        with monkeypatch.context() as patch:
            patch.setattr(blocks, "BLOCK_POINTS", points)
            patch.setattr(blocks, "BLOCK_ROWS", limit)
            cut = ss.sweep(**arguments, outputs="main")
        assert bitwise_equal(whole, cut)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_number_of_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch, grid: xr.Dataset, threads: int):
    monkeypatch.setattr(blocks, "BLOCK_POINTS", 10)
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 4)
    monkeypatch.setattr(evaluate, "available_cores", lambda: threads)
    assert bitwise_equal(ss.sweep(**BASE, **AXES, outputs="all"), grid)


def test_progress_counts_every_point_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(blocks, "BLOCK_POINTS", 10)
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 4)
    seen: list[tuple[int, int]] = []
    ss.sweep(**BASE, **AXES, outputs="ttft", progress=lambda done, total: seen.append((done, total)))
    done = [points for points, _ in seen]
    assert len(done) > 5
    assert done == sorted(set(done))
    assert seen[-1] == (72, 72)
    assert {total for _, total in seen} == {72}


def test_an_error_in_a_block_ends_the_call(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(blocks, "BLOCK_POINTS", 1)
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 1)
    calls: list[int] = []

    def stop(done: int, total: int) -> None:
        calls.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ss.sweep(**BASE, **AXES, outputs="ttft", progress=stop)
    assert len(calls) <= evaluate.available_cores()
