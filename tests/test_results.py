"""What a Dataset says about itself, and that files give it back as it was."""

import hashlib
import json
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import stacksweep as ss
from stacksweep.kernels.rows import COLLECTIVES
from stacksweep.kernels.validity import REASONS, WARNINGS
from stacksweep.results import ALWAYS, RESULTS, select

BASE: dict[str, Any] = {
    "model": "llama-3.2-1b",
    "memory": "fictional_stacked_dram",
    "input_seq_len": 10,
    "output_seq_len": 2,
}
MAIN = {
    "valid",
    "reason",
    "warnings",
    "ttft",
    "tps",
    "tps_per_sequence",
    "fits",
    "weight_bytes",
    "kv_bytes",
    "capacity",
    "usable_bandwidth",
    "clock_scale",
}


def sweep(**arguments: Any) -> xr.Dataset:
    return ss.sweep(**BASE | arguments)


# --- the table -------------------------------------------------------------------------------------------------------


def test_main_results():
    assert {result.name for result in RESULTS if result.main} == MAIN
    assert set(sweep().data_vars) == MAIN
    xr.testing.assert_identical(sweep(outputs="main").drop_attrs(deep=False), sweep().drop_attrs(deep=False))


def test_all_results_stand_in_the_order_of_the_table():
    ds = sweep(outputs="all")
    assert list(ds.data_vars) == [result.name for result in RESULTS if result.name not in OPERATION_RESULTS]
    assert list(sweep(outputs=["tps", "ttft", "valid"]).data_vars) == ["valid", "reason", "ttft", "tps"]


OPERATION_RESULTS = {
    f"{phase}_operation_{part}time" for phase in ("prefill", "first_decode", "decode") for part in ("", "memory_bound_")
}


def test_all_results_have_those_of_operations_where_a_roofline_chip_is_among_the_chips():
    def names(**arguments: Any) -> set[str]:
        return {str(name) for name in sweep(**arguments).data_vars}

    everything = {result.name for result in RESULTS}
    assert everything > OPERATION_RESULTS
    assert names(outputs="all", chip="plena") == everything - OPERATION_RESULTS
    assert names(outputs="all", chip="h100_sxm") == names(outputs="all", chip=["plena", "h100_sxm"]) == everything
    one = "decode_operation_time"
    assert names(outputs=["all", one], chip="plena") == everything - OPERATION_RESULTS | {one}
    by_name = sweep(outputs=one, chip="plena")
    assert by_name.decode_operation_time.dims == ("operation",)
    assert by_name.decode_operation_time.isnull().all()


def test_results_of_the_phases():
    names = {result.name for result in RESULTS}
    parts = {
        "compute_time",
        "memory_time",
        "memory_bound_time",
        "comm_time",
        "read_bytes",
        "write_bytes",
        "dram_energy",
    }
    for phase in ("prefill", "first_decode"):
        assert {f"{phase}_{part}" for part in parts | {"latency", "period", "transfer", "bottleneck"}} <= names
    assert {f"decode_{part}" for part in parts | {"time"}} <= names
    assert {"peak_bandwidth", "connectivity_efficiency", "buffering_limited", "noc_energy_per_token"} <= names
    for phase in ("prefill", "decode"):
        assert {f"{phase}_{part}" for part in ("imbalance", "pairs", "active_experts")} <= names


@pytest.mark.parametrize(
    "outputs", ["ttft", ["ttft"], ("ttft",), {"ttft"}, np.array(["ttft"]), iter(["ttft"]), pd.Index(["ttft"])], ids=type
)
def test_ways_to_name_results(outputs: Any):
    ds = sweep(outputs=outputs)
    assert set(ds.data_vars) == {"valid", "reason", "ttft"}
    assert json.loads(ds.attrs["call"])["outputs"] in ("ttft", ["ttft"])


def test_main_among_names():
    assert set(sweep(outputs=["main", "peak_bandwidth"]).data_vars) == MAIN | {"peak_bandwidth"}
    assert select(["main", "all"]) == RESULTS


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: result.name)
def test_attributes(result: Any):
    variable = sweep(outputs=result.name)[result.name]
    assert variable.attrs["units"] in {"s", "s-1", "byte", "byte s-1", "pJ", "J", "1"}
    assert variable.attrs["long_name"]
    suffixes = {
        "_time": "s",
        "_latency": "s",
        "_period": "s",
        "_transfer": "s",
        "_read_bytes": "byte",
        "_bandwidth": "byte s-1",
        "_dram_energy": "pJ",
    }
    for suffix, units in suffixes.items():
        if result.name.endswith(suffix):
            assert variable.attrs["units"] == units
    kinds = {"valid": "bool", "fits": "bool", "buffering_limited": "bool", "reason": "int8", "warnings": "uint8"}
    expected = kinds.get(result.name, "int16" if result.name.endswith("_bottleneck") else "float64")
    assert variable.dtype == expected
    # nothing that a file cannot hold
    assert not any(value is None or isinstance(value, bool | dict) for value in variable.attrs.values())


def test_units_of_main_results():
    ds = sweep()
    assert {name: ds[name].units for name in MAIN - {"warnings", "valid", "reason", "fits"}} == {
        "ttft": "s",
        "tps": "s-1",
        "tps_per_sequence": "s-1",
        "weight_bytes": "byte",
        "kv_bytes": "byte",
        "capacity": "byte",
        "usable_bandwidth": "byte s-1",
        "clock_scale": "1",
    }


def test_flags_of_reasons():
    reason = sweep().reason
    assert reason.flag_values.dtype == reason.dtype == np.int8
    assert reason.flag_values.tolist() == list(range(len(REASONS)))
    assert reason.flag_meanings.split() == list(REASONS)
    assert reason.flag_meanings.split() == [
        "valid",
        "fill",
        "world_size",
        "tp_heads",
        "tp_kv_heads",
        "pp_layers",
        "cp_prompt",
        "cp_model",
        "moe_ranks",
        "ep_experts",
        "ep_dense",
        "connected_layers",
        "thermal",
        "routing_trace",
        "chip_layers",
    ]


def test_flags_of_warnings():
    warnings = sweep().warnings
    assert warnings.flag_masks.dtype == warnings.dtype == np.uint8
    assert warnings.flag_masks.tolist() == [1, 2, 4, 8, 16, 32, 64, 128]
    assert warnings.flag_meanings.split() == list(WARNINGS)


# --- points that cannot be -------------------------------------------------------------------------------------------

INVALID = {"layers": [1, 3, 300], "connected_layers": [1, 2], "static_power_w": [8, 70]}


@pytest.fixture(scope="module")
def invalid() -> xr.Dataset:
    return ss.sweep(**BASE | {"model": ["llama-3.2-1b", "gpt-oss-20b"]}, **INVALID, outputs="all")


def reason_of(ds: xr.Dataset, **where: Any) -> str:
    return ds.reason.flag_meanings.split()[int(ds.reason.sel(model="gpt-oss-20b", **where))]


def test_the_first_reason_counts(invalid: xr.Dataset):
    assert reason_of(invalid, layers=1, connected_layers=2, static_power_w=8) == "connected_layers"
    assert reason_of(invalid, layers=1, connected_layers=2, static_power_w=70) == "connected_layers"
    # 73 W may be spent at the baseline of three layers
    assert reason_of(invalid, layers=3, connected_layers=2, static_power_w=70) == "valid"
    assert reason_of(invalid, layers=300, connected_layers=2, static_power_w=70) == "thermal"
    assert reason_of(invalid, layers=300, connected_layers=2, static_power_w=8) == "valid"


def test_valid_says_that_there_is_no_reason(invalid: xr.Dataset):
    assert invalid.valid.equals(invalid.reason == 0)
    assert 0 < invalid.valid.sum() < invalid.valid.size


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_invalid_points_hold_no_numbers(invalid: xr.Dataset, dtype: str):
    ds = invalid
    if dtype == "float32":
        ds = ss.sweep(**BASE | {"model": ["llama-3.2-1b", "gpt-oss-20b"]}, **INVALID, outputs="all", dtype=dtype)
    no_experts = {
        f"{phase}_{name}" for phase in ("prefill", "decode") for name in ("imbalance", "pairs", "active_experts")
    }
    for name, variable in ds.data_vars.items():
        inside = variable.values[..., ds.valid.values]
        outside = variable.values[..., ~ds.valid.values]
        if variable.dtype.kind == "f":
            assert np.isnan(outside).all(), name
            if name in no_experts:
                assert np.isnan(variable.sel(model="llama-3.2-1b")).all()
                inside = variable.sel(model="gpt-oss-20b").values[ds.valid.sel(model="gpt-oss-20b").values]
            assert not np.isnan(inside).any(), name
        elif str(name).endswith("_bottleneck"):
            assert (outside == -1).all()
            assert (inside == 0).all()
        elif name in ("valid", "fits", "buffering_limited"):
            assert not outside.any()
        elif name == "warnings":
            assert (outside == 0).all()


def test_invalid_points_do_not_disturb_their_neighbours(invalid: xr.Dataset):
    alone = sweep(layers=3, connected_layers=2, static_power_w=8, outputs="all")
    there = invalid.sel(model="llama-3.2-1b", layers=3, connected_layers=2, static_power_w=8)
    for name in alone.data_vars:
        np.testing.assert_array_equal(alone[name], there[name])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"layers": 2, "connected_layers": 3},
            "connected_layers: more layers are connected than the stack has (connected_layers=3, layers=2)",
        ),
        (
            {"layers": 300, "static_power_w": 70.0},
            "thermal: static power alone exceeds what the stack can cool: no clock is left "
            "(memory=fictional_stacked_dram, layers=300, static_power_w=70.0)",
        ),
    ],
)
def test_an_estimate_says_why_a_point_cannot_be(arguments: dict[str, Any], message: str):
    with pytest.raises(ss.InvalidPointError) as caught:
        ss.estimate(**BASE, **arguments)
    assert str(caught.value).startswith(message.split(" (")[0])
    for number in message.split(" (")[1].rstrip(")").split(", "):
        assert number in str(caught.value)


# --- warnings --------------------------------------------------------------------------------------------------------


def warnings_of(**arguments: Any) -> set[str]:
    ds = sweep(**arguments)
    return {
        name
        for name, mask in zip(ds.warnings.flag_meanings.split(), ds.warnings.flag_masks, strict=True)
        if int(ds.warnings) & mask
    }


def test_warnings():
    calm = {"layers": 3, "connected_layers": 1, "model": "llama-3.1-8b", "capacity_per_layer_bytes": 10**11}
    assert warnings_of(**calm) == set()
    assert warnings_of(**calm | {"layers": 4}) == {"clock_scaled"}
    assert warnings_of(**calm | {"layers": 2}) == {"clock_scaled"}
    assert warnings_of(**calm | {"capacity_per_layer_bytes": 10**5}) == {"does_not_fit"}
    assert warnings_of(**calm | {"requesters": 1, "buffer_bytes_per_requester": 100}) == {"buffering_limited"}
    assert warnings_of(**calm | {"model": "qwen3-32b"}) == {"head_dim_mismatch"}


def test_what_just_fits_fits():
    needed = sweep(outputs="all", layers=1)
    held = int((needed.weight_bytes + needed.kv_bytes).item())
    assert held == needed.weight_bytes + needed.kv_bytes
    ds = sweep(layers=1, capacity_per_layer_bytes=[held - 1, held, held + 1])
    assert ds.fits.values.tolist() == [False, True, True]
    assert (((ds.warnings & 16) != 0) == ~ds.fits).all()


def test_warnings_without_fits_know_whether_it_fits():
    given = {"layers": 1, "capacity_per_layer_bytes": [10**5, 10**11]}
    both = sweep(**given, outputs=["warnings", "fits"])
    assert sweep(**given, outputs="warnings").warnings.equals(both.warnings)
    assert sweep(**given, outputs="fits").fits.equals(both.fits)
    assert both.fits.values.tolist() == [False, True]


# --- where it comes from ---------------------------------------------------------------------------------------------


def rebuilt(ds: xr.Dataset) -> dict[str, Any]:
    """Arguments of the call that made a Dataset, from its attributes and coordinates alone."""
    call = json.loads(ds.attrs["call"])
    profiles = json.loads(ds.attrs["profiles"])

    def loaded(parameter: str, name: Any) -> Any:
        if isinstance(name, list):
            return [loaded(parameter, one) for one in name]
        (entry,) = [entry for entry in profiles[parameter] if entry["name"] == name]
        return entry.get("path") or entry["content"]

    def argument(name: str, told: Any) -> Any:
        dims = told["dims"] if isinstance(told, dict) else None
        values = told
        if dims is not None:
            values = told["values"] if "values" in told else ds[told["coordinate"]].values.tolist()
        if name in profiles:
            values = loaded(name, values)
        if dims is None:
            return values
        array = np.empty([ds.sizes[dim] for dim in dims], object)
        array[...] = values
        labels = {dim: ds[dim] for dim in dims if dim in ds.coords and dim not in call}
        return xr.DataArray(array, dims=dims, coords=labels)

    return {name: argument(name, told) for name, told in call.items()}


CALLS: dict[str, dict[str, Any]] = {
    "one point": {},
    "grid": {"layers": [3, 4], "batch_size": [1, 2, 3], "overlap": ["serial", "stage-roofline"]},
    "switches": {"include_lm_head": [False, True], "routing": ["random", "balanced"]},
    "renamed": {"weight_bytes": [0.5, 2.0], "kv_read_bytes": 0.3},
    "points": {"points": pd.DataFrame({"layers": [3, 4], "batch_size": [1, 2]}, index=["a", "b"]), "dtype": "float32"},
    "arrays": {
        "layers": xr.DataArray([[3, 4], [5, 6]], dims=("x", "y"), coords={"x": ["a", "b"]}),
        "connected_layers": xr.DataArray([1, 2], dims="y"),
        "outputs": ["ttft", "warnings"],
    },
    "models": {"model": ["llama-3.2-1b", "gpt-oss-20b"], "outputs": "all"},
    "memories": {"memory": xr.DataArray(["h100_sxm", "h200"], dims="gpu"), "outputs": "all"},
    "mapping": {
        "model": ss.load_model("llama-3.2-1b").to_dict() | {"name": "mine", "num_hidden_layers": 3},
        "chip": ss.load_chip("plena").to_dict() | {"name": "narrow", "MLEN": 256},
        "memory": ss.load_memory("h200").to_dict() | {"name": "slow", "bandwidth_bytes_per_s": 1e9},
    },
    "many": {"points": pd.DataFrame({"batch_size": range(1, 1502)})},
    "long axis": {"batch_size": range(1, 1502), "layers": [3, 4]},
    "invalid": {"layers": [1, 3], "connected_layers": [1, 2], "outputs": "all"},
}


@pytest.mark.parametrize("name", CALLS)
def test_the_call_can_be_made_again(name: str):
    ds = sweep(**CALLS[name])
    again = ss.sweep(**rebuilt(ds))
    assert set(again.variables) == set(ds.variables)
    for variable in ds.variables:
        # dimensions may come in another order
        xr.testing.assert_equal(again[variable].transpose(*ds[variable].dims), ds[variable])
        assert again[variable].dtype == ds[variable].dtype


def test_global_attributes():
    ds = sweep(dtype="float32", outputs=["ttft", "tps"])
    assert ds.attrs["Conventions"] == "CF-1.11"
    assert ds.attrs["stacksweep_version"] == ss.__version__
    assert ds.attrs["source"] == f"stacksweep {ss.__version__}"
    assert ds.attrs["title"]
    assert all(isinstance(value, str) for value in ds.attrs.values())
    call = json.loads(ds.attrs["call"])
    assert (call["outputs"], call["dtype"]) == (["ttft", "tps"], "float32")
    assert (call["model"], call["input_seq_len"], call["batch_size"]) == ("llama-3.2-1b", 10, 16)
    assert call["include_lm_head"] is False


def test_provenance_of_profiles(tmp_path: Path):
    path = tmp_path / "mine.json"
    memory = ss.load_memory("h200").to_dict()
    path.write_text(json.dumps(memory | {"name": "copy of H200", "provenance": {"source": "a datasheet"}}))
    ds = sweep(memory=["fictional_stacked_dram", path])
    stack, copy = json.loads(ds.attrs["profiles"])["memory"]
    assert stack["name"] == "fictional_stacked_dram"
    assert stack["provenance"] == {"source": "Invented for examples and tests; describes no product."}
    assert hashlib.sha256(Path(stack["path"]).read_bytes()).hexdigest() == stack["sha256"]
    assert copy == {
        "name": "copy of H200",
        "path": str(path),
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "provenance": {"source": "a datasheet"},
    }
    assert set(json.loads(ds.attrs["profiles"])) >= {"model", "chip", "memory"}


# --- files -----------------------------------------------------------------------------------------------------------


def assert_same(read: xr.Dataset, ds: xr.Dataset, *, attributes: bool = True) -> None:
    """Identical, dtypes and the types of attributes included (in Zarr, all whole numbers among those are alike)."""
    xr.testing.assert_identical(read, ds)
    assert dict(read.sizes) == dict(ds.sizes)
    for name, variable in ds.variables.items():
        assert read[name].dtype == variable.dtype or {read[name].dtype.kind, variable.dtype.kind} <= set("OUT"), name
        for key, value in variable.attrs.items() if attributes else ():
            assert np.asarray(read[name].attrs[key]).dtype == np.asarray(value).dtype, (name, key)


@pytest.mark.parametrize("name", CALLS)
def test_netcdf_round_trip(tmp_path: Path, name: str):
    ds = sweep(**CALLS[name])
    ds.to_netcdf(tmp_path / "a.nc")
    ss.save(ds, tmp_path / "b.nc")
    for file in ("a.nc", "b.nc"):
        with xr.open_dataset(tmp_path / file) as read:
            assert_same(read.load(), ds)
    # and once more through what was read
    with xr.open_dataset(tmp_path / "a.nc") as read:
        read.load().to_netcdf(tmp_path / "c.nc")
    with xr.open_dataset(tmp_path / "c.nc") as read:
        assert_same(read.load(), ds)


@pytest.mark.parametrize("name", CALLS)
def test_zarr_round_trip(tmp_path: Path, name: str):
    ds = sweep(**CALLS[name])
    ds.to_zarr(tmp_path / "a.zarr", consolidated=False)
    ss.save(ds, tmp_path / "b.zarr")
    for store in ("a.zarr", "b.zarr"):
        with xr.open_zarr(tmp_path / store, consolidated=False) as read:
            assert_same(read.load(), ds, attributes=False)


def test_netcdf_by_the_engine_of_scipy(tmp_path: Path):
    # NetCDF 3 has no text and no bytes without sign; xarray stores them in its own way
    ds = sweep(layers=[3, 4], outputs=["main"])
    ds.drop_vars("warnings").to_netcdf(tmp_path / "a.nc", engine="scipy")
    with xr.open_dataset(tmp_path / "a.nc", engine="scipy") as read:
        xr.testing.assert_equal(read.load(), ds.drop_vars("warnings"))


def test_a_file_can_be_read_without_xarray(tmp_path: Path):
    ds = sweep(layers=[1, 3], connected_layers=[1, 2])
    ss.save(ds, tmp_path / "a.nc")
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file.Conventions == "CF-1.11"
        assert file["ttft"].units == "s"
        assert file["reason"].flag_meanings.split()[0] == "valid"
        assert file["reason"].flag_values.dtype == np.int8
        assert file["warnings"].dtype == np.uint8
        assert np.ma.count_masked(file["ttft"][:]) == 1
        assert file["layers"][:].tolist() == [1, 3]


def test_results_are_plain_arrays():
    ds = sweep(layers=[3, 4], batch_size=[1, 2, 3], outputs="all")
    for variable in ds.data_vars.values():
        assert isinstance(variable.data, np.ndarray)
        assert variable.values.flags.writeable
    assert ds.prefill_collective_time.dims == ("collective", "layers", "batch_size")
    assert ds.collective.values.tolist() == list(COLLECTIVES)
    assert set(ALWAYS) == {"valid", "reason"}


def test_xarray_s_own_ways():
    ds = sweep(layers=[3, 4, 8], batch_size=np.arange(1, 9))
    assert ds.tps.sel(layers=8).max("batch_size").item() == ds.tps.sel(layers=8).values.max()
    assert ds.to_dataframe().shape[0] == 24
    assert ds.where(ds.fits).tps.dims == ("layers", "batch_size")
    assert "ttft" in repr(ds)
    assert ds._repr_html_()
