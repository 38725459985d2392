"""Elasticities against sweeps of moved parameters, and the table made of them."""

import doctest
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import stacksweep as ss
from stacksweep.analysis import elasticity

STACK: dict[str, Any] = {"model": "llama-3.1-8b", "memory": "fictional_stacked_dram"}
ROOFLINE: dict[str, Any] = {"model": "llama-3.2-1b", "chip": "h100_sxm", "memory": "h100_sxm"}
STEP = 0.01


def moved(name: str, value: Any, result: str, **parameters: Any) -> Any:
    """Elasticity by two sweeps with explicit values."""
    up, down = (
        ss.sweep(**parameters | {name: value * math.exp(sign * STEP)}, outputs=result)[result].values
        for sign in (1, -1)
    )
    return np.log(up / down) / (2 * STEP)


def test_powers_are_exact():
    found = ss.sensitivity(
        of=["tps", "ttft", "energy_per_token", "decode_memory_time"],
        by=["memory_frequency_hz", "frequency_hz", "read_pj_per_bit"],
        step=0.3,
        connected_layers=4,
        **STACK,
    )
    # decode waits for DRAM alone, and reads nearly all that it moves
    assert found.tps.values == pytest.approx([1, 0, 0], abs=1e-12)
    assert found.decode_memory_time.values == pytest.approx([-1, 0, 0], abs=1e-12)
    assert found.energy_per_token.values == pytest.approx([0, 0, 1], abs=1e-3)
    # the first decode step waits for DRAM, and the prefill for compute
    assert found.ttft.values[0] + found.ttft.values[1] == pytest.approx(-1, abs=1e-3)


@pytest.mark.parametrize("name", ["memory_frequency_hz", "frequency_hz", "weight_bytes"])
def test_parameters_of_profiles_are_moved_from_there(name: str):
    numbers = ss.load_memory("fictional_stacked_dram").numbers
    value = {"frequency_hz": 1e9, "weight_bytes": ss.load_chip("plena").weight_bytes, **numbers}[name]
    for result in ("ttft", "tps"):
        found = ss.sensitivity(of=result, by=name, batch_size=[1, 8], **STACK)
        wanted = moved(name, value, result, batch_size=[1, 8], **STACK)
        np.testing.assert_allclose(found[result].sel(parameter=name), wanted, rtol=1e-9, atol=1e-12)


def test_each_profile_has_its_own_numbers():
    both = {**STACK, "memory": ["h100_sxm", "h200"], "batch_size": [1, 2]}
    found = ss.sensitivity(of="ttft", by=["bandwidth_bytes_per_s", "weight_bytes"], **both)
    assert found.ttft.dims == ("parameter", "memory", "batch_size")
    for memory in both["memory"]:
        bandwidth = ss.load_memory(memory).numbers["bandwidth_bytes_per_s"]
        wanted = moved("bandwidth_bytes_per_s", bandwidth, "ttft", **both | {"memory": memory})
        np.testing.assert_allclose(found.ttft.sel(memory=memory)[0], wanted, rtol=1e-9, atol=1e-12)


def test_axes_and_arrays_are_moved_at_every_value():
    hertz = [2e8, 4e8]
    found = ss.sensitivity(of="ttft", by="memory_frequency_hz", memory_frequency_hz=hertz, layers=[8, 12], **STACK)
    assert found.ttft.dims == ("parameter", "memory_frequency_hz", "layers")
    assert found.memory_frequency_hz.values.tolist() == hertz
    shared = xr.DataArray(hertz, dims="layers")
    together = ss.sensitivity(of="ttft", by="memory_frequency_hz", memory_frequency_hz=shared, layers=[8, 12], **STACK)
    for at in range(2):
        np.testing.assert_allclose(together.ttft[0, at], found.ttft[0, at, at], rtol=1e-9)
    wanted = moved("memory_frequency_hz", shared, "ttft", layers=[8, 12], **STACK)
    np.testing.assert_allclose(together.ttft[0], wanted, rtol=1e-9)
    widths = ss.sensitivity(of="tps", by="weight_bytes", weight_bytes=[1, 2], **STACK)
    assert widths.weight_bytes_per_element.values.tolist() == [1, 2]
    np.testing.assert_allclose(widths.tps[0, 1], moved("weight_bytes", 2.0, "tps", **STACK), rtol=1e-9)


@pytest.mark.parametrize("kind", ["frame", "dataset"])
def test_points_without_order(kind: str):
    frame = pd.DataFrame({"memory_frequency_hz": [3e8, 4e8, 5e8], "layers": [8, 12, 16]}, index=[5, 6, 7])
    points: Any = frame if kind == "frame" else xr.Dataset.from_dataframe(frame.rename_axis("point"))
    by = ["memory_frequency_hz", "frequency_hz"]
    found = ss.sensitivity(of="ttft", by=by, points=points, batch_size=[1, 4], **STACK)
    assert found.ttft.dims == ("parameter", "point", "batch_size")
    assert found.point.values.tolist() == [5, 6, 7]
    for at, (hertz, layers) in enumerate(frame.itertuples(index=False)):
        case = {"layers": layers, "batch_size": [1, 4], **STACK}
        np.testing.assert_allclose(found.ttft[0, at], moved("memory_frequency_hz", hertz, "ttft", **case), rtol=1e-9)
        case["memory_frequency_hz"] = hertz
        np.testing.assert_allclose(found.ttft[1, at], moved("frequency_hz", 1e9, "ttft", **case), rtol=1e-9)


def test_moves_end_at_limits():
    found = ss.sensitivity(of="tps", by="memory_efficiency", memory_efficiency=1, **ROOFLINE)
    up, down = (ss.sweep(memory_efficiency=share, **ROOFLINE).tps.item() for share in (1, math.exp(-STEP)))
    assert found.tps.item() == pytest.approx(math.log(up / down) / STEP, rel=1e-9)


def test_nothing_follows_a_zero():
    found = ss.sensitivity(of="ttft", by="pass_overhead", pass_overhead=[0, 1e-3], **ROOFLINE)
    assert found.ttft[0, 0] == 0
    assert found.ttft[0, 1] == pytest.approx(moved("pass_overhead", 1e-3, "ttft", **ROOFLINE).item(), rel=1e-9)


def test_what_is_not_known_is_nan():
    found = ss.sensitivity(
        of=["tps", "capacity", "prefill_collective_time"],
        by="static_power_w",
        # 12 layers are cooled to 63.9 W
        static_power_w=[1, 40, 45, 50, 70],
        layers=12,
        batch_size=64,
        **STACK,
    )
    assert found.valid.values.tolist() == [True, True, True, True, False]
    assert found.tps.isnull().values.tolist() == found.capacity.isnull().values.tolist() == [[False] * 4 + [True]]
    assert (found.capacity[0, :4] == 0).all()
    # one device has no collectives, and zeros no logarithm
    assert found.prefill_collective_time.dims == ("parameter", "collective", "static_power_w")
    assert found.prefill_collective_time.isnull().all()


def test_a_side_that_cannot_be_is_nan():
    # 16 layers are cooled to 60.5 W, all of which is static at the upper side of the second point
    found = ss.sensitivity(of="ttft", by="static_power_w", static_power_w=[30, 60], layers=16, **STACK)
    assert found.valid.values.tolist() == [True, True]
    assert found.ttft.isnull().values.tolist() == [[False, True]]


def test_by_default_all_that_the_profiles_have():
    found = ss.sensitivity(chip="h100_sxm", noc="gpu_node_8", tp=8, model="llama-3.1-8b", memory="h200")
    names = found.parameter.values.tolist()
    assert set(names) == {
        *("peak_flops_8", "peak_flops_16", "compute_efficiency", "memory_efficiency"),
        *("operation_overhead", "layer_overhead", "pass_overhead", "activation_cache"),
        *("weight_bytes", "kv_read_bytes", "kv_write_bytes", "activation_bytes", "bandwidth_bytes_per_s"),
        *(f"l{level}_{rate}" for level in (1, 2, 3) for rate in ("bandwidth", "latency", "pj_per_bit")),
    }
    assert [name for name in elasticity.REAL if name in names] == names
    # chips of both kinds have only this in common
    mixed = ss.sensitivity(chip=["h100_sxm", "plena"], model="llama-3.1-8b", memory="h200").parameter.values.tolist()
    assert mixed == ["weight_bytes", "kv_read_bytes", "kv_write_bytes", "activation_bytes", "bandwidth_bytes_per_s"]


def test_of_a_system(tmp_path):
    case: dict[str, Any] = {"model": "llama-3.1-70b", "memory": "h200", "noc": "gpu_node_8", "tp": [4, 8], "dp": "fill"}
    found = ss.sensitivity(by=["l1_bandwidth", "l1_latency", "bandwidth_bytes_per_s"], **case)
    bandwidth = ss.sweep(**case).attrs  # the call says nothing of the profile's rates
    assert "l1_bandwidth" not in bandwidth["call"]
    rate = ss.load_noc("gpu_node_8").levels[-1].bandwidth
    np.testing.assert_allclose(found.tps[0], moved("l1_bandwidth", rate, "tps", **case), rtol=1e-9)
    assert found.tps.attrs == {
        "units": "1",
        "long_name": "elasticity: generated tokens per second of the whole system",
    }
    assert found.dp.values.tolist() == [2, 1]
    assert found.attrs["step"] == 0.01
    for name in ("found.nc", "found.zarr"):
        ss.save(found, tmp_path / name)
        with xr.open_dataset(tmp_path / name) as opened:
            xr.testing.assert_equal(opened.load(), found)


def test_table_is_sorted_by_magnitude():
    values = [[0.1, -0.2], [np.nan, np.nan], [0.5, 0.3], [-0.9, np.nan], [0.5, 0.5]]
    found = xr.Dataset(
        {"tps": (("parameter", "layers"), values), "valid": ("layers", [True, True])},
        {"parameter": ["a", "b", "c", "d", "e"]},
    )
    table = ss.tornado(found, "tps")
    assert table.index.tolist() == ["d", "c", "e", "a", "b"]
    assert table.index.name == "parameter"
    assert table.columns.tolist() == ["median", "lowest", "highest"]
    np.testing.assert_allclose(
        table, [[-0.9] * 3, [0.4, 0.3, 0.5], [0.5] * 3, [-0.05, -0.2, 0.1], [np.nan] * 3], rtol=1e-12
    )
    assert ss.tornado(found.isel(layers=0), "tps").index.tolist() == ["d", "c", "e", "a", "b"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"by": "batch_size"},
            "by: 'batch_size' takes a whole number of at least 1 and at most 1e+09, and only real numbers can be moved "
            "a bit",
        ),
        (
            {"by": ["overlap"]},
            "by: 'overlap' takes one of stage-roofline, op-roofline, serial, and only real numbers can be moved a bit",
        ),
        ({"by": "memory_freq"}, "by: no parameter is called 'memory_freq'; did you mean memory_frequency_hz?"),
        ({"by": [1.5]}, "by: no parameter is called 1.5"),
        ({"by": []}, "by: got no parameter, needs at least one, or None for all"),
        ({"by": 3}, "by: got 3, needs names of parameters, or None for all"),
        ({"by": ["frequency_hz"] * 2}, "by: got 'frequency_hz' twice"),
        (
            {"by": "l1_latency"},
            "by: not every profile of this call has 'l1_latency'; they have frequency_hz, weight_byt",
        ),
        ({"of": "tpss"}, "of: no result is called 'tpss'; did you mean tps?"),
        ({"of": "fits"}, "of: 'fits' is no real number, and only those have elasticities"),
        ({"of": ["tps", "tps"]}, "of: got 'tps' twice"),
        ({"of": [["tps"]]}, "of: no result is called ['tps']; did you mean tps?"),
        ({"of": []}, "of: got no result, needs at least one"),
        ({"of": None}, "of: got None, needs names of results"),
        ({"step": 0}, "step: got 0, needs a number above 0 and at most 1"),
        ({"step": True}, "step: got True, needs a number above 0 and at most 1"),
        ({"step": float("nan")}, "step: got nan, needs a number above 0 and at most 1"),
        ({"step": "0.1"}, "step: got '0.1', needs a number above 0 and at most 1"),
        ({"outputs": "all"}, "outputs: no such parameter; did you mean output_seq_len?"),
        ({"batch_size": [1, 0]}, "batch_size: got 0, needs a whole number of at least 1 and at most 1e+09"),
    ],
)
def test_errors(change: dict[str, Any], message: str):
    with pytest.raises(ss.ParameterError) as caught:
        ss.sensitivity(**STACK | change)
    assert str(caught.value).startswith(message)


def test_errors_of_the_table():
    ds = ss.sweep(**STACK)
    found = xr.Dataset({"tps": ("parameter", [1.0])}, {"parameter": ["a"]})
    for given, message in (
        ((3, "tps"), "ds: got int, needs an xarray.Dataset"),
        ((ds, "tps"), "elasticities: has no dimension 'parameter', needs what sensitivity makes"),
        ((found, "tp"), "of: elasticities has no result 'tp'; did you mean tps?"),
        ((found, None), "of: elasticities has no result None; there are tps"),
    ):
        with pytest.raises(ss.ParameterError) as caught:
            ss.tornado(*given)
        assert str(caught.value) == message


def test_examples_of_the_docstrings():
    tried = doctest.testmod(elasticity)
    assert (tried.failed, tried.attempted) == (0, 6)
