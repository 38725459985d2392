"""How arguments become dimensions and coordinates."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import stacksweep as ss
from stacksweep.parameters import PARAMETERS

BASE: dict[str, Any] = {
    "model": "llama-3.2-1b",
    "memory": "fictional_stacked_dram",
    "input_seq_len": 10,
    "output_seq_len": 2,
}
SMALL = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "intermediate_size": 96,
    "vocab_size": 100,
}
CHIP = ss.load_chip("plena").to_dict()


def sweep(**arguments: Any) -> xr.Dataset:
    return ss.sweep(**BASE | arguments)


def one(**arguments: Any) -> float:
    return float(sweep(**arguments).tps)


@cache
def tps(batch: int) -> float:
    """Throughput at a batch size, by a call of its own."""
    return one(batch_size=batch)


# --- one value -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        4,
        4.0,
        np.int8(4),
        np.uint64(4),
        np.float32(4),
        np.array(4),
        np.array(4.0),
        xr.DataArray(4),
        xr.DataArray(4, coords={"batch_size": 4, "layers": 7}),
    ],
    ids=str,
)
def test_one_value_is_a_scalar_coordinate(value: Any):
    ds = sweep(batch_size=value)
    assert ds.tps.dims == ()
    assert ds.batch_size.item() == 4
    assert ds.batch_size.dtype == np.int64
    assert "layers" not in ds.coords
    assert ds.tps == tps(4)


def test_defaults_are_scalar_coordinates():
    ds = sweep()
    assert ds.batch_size == 16
    assert ds.frequency_hz == 1e9
    assert ds.chip == "plena"
    assert ds.overlap == "stage-roofline"
    assert ds.routing == "balanced"
    assert ds.include_lm_head.item() is False
    assert {name: ds[name].item() for name in ("tp", "ep", "dp", "pp", "cp")} == dict.fromkeys(
        ("tp", "ep", "dp", "pp", "cp"), 1
    )
    # what comes from profiles has no coordinate
    assert "layers" not in ds.coords
    assert "weight_bytes_per_element" not in ds.coords


def test_none_is_not_given():
    xr.testing.assert_identical(sweep(layers=None, batch_size=None, points=None), sweep())


def test_coordinates_say_what_they_are():
    ds = sweep(batch_size=[1, 2], layers=4, kv_read_bytes=0.5)
    for name, coordinate in ds.coords.items():
        (known,) = [known for known in PARAMETERS if known.coordinate == name]
        assert coordinate.attrs == {"units": known.units, "long_name": known.words}
    assert ds.frequency_hz.units == "s-1"
    assert ds.kv_read_bytes.units == "byte"


# --- an axis of its own ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, 4],
        (1, 2, 4),
        np.array([1, 2, 4]),
        np.array([1.0, 2.0, 4.0]),
        np.array([1, 2, 4], np.uint8),
        np.array([1, 2, 4], np.float16),
        np.array([1, 2, 4], object),
        [np.int16(1), 2, np.float64(4)],
        pd.Series([1, 2, 4], index=["a", "b", "c"]),
        pd.Series([1, 2, 4], dtype="Int64"),
        pd.Series([1, 2, 4], dtype=object),
        pd.Index([1, 2, 4]),
        pd.array([1, 2, 4], dtype="Int32"),
        xr.DataArray([1, 2, 4], dims="batch_size"),
        xr.DataArray([1, 2, 4], dims="batch_size", coords={"batch_size": [1, 2, 4]}),
    ],
    ids=lambda values: type(values).__name__ + str(getattr(values, "dtype", "")),
)
def test_values_are_a_dimension(values: Any):
    ds = sweep(batch_size=values)
    assert ds.tps.dims == ("batch_size",)
    assert ds.batch_size.dims == ("batch_size",)
    assert ds.batch_size.dtype == np.int64
    assert ds.batch_size.values.tolist() == [1, 2, 4]
    assert ds.tps.values.tolist() == [tps(1), tps(2), tps(4)]
    assert ds.tps.sel(batch_size=2) == tps(2)


def test_a_range_is_a_dimension():
    ds = sweep(batch_size=range(1, 5, 1))
    assert ds.batch_size.values.tolist() == [1, 2, 3, 4]
    assert ds.tps.sel(batch_size=4) == tps(4)


def test_one_value_in_a_list_is_a_dimension():
    assert dict(sweep(batch_size=[4], layers=(3,)).sizes) == {"batch_size": 1, "layers": 1}


def test_values_may_stand_twice_and_in_any_order():
    ds = sweep(batch_size=[4, 1, 4])
    assert ds.tps.values.tolist() == [tps(4), tps(1), tps(4)]


def test_dimensions_stand_in_the_order_of_the_call():
    ds = sweep(layers=[3, 4], batch_size=[1, 2, 4], overlap=["serial", "stage-roofline"])
    assert ds.tps.dims == ("layers", "batch_size", "overlap")
    assert list(ds.sizes.values()) == [2, 3, 2]


def test_an_axis_named_like_a_result_has_another_name():
    ds = sweep(weight_bytes=[1.0, 2.0])
    assert ds.tps.dims == ("weight_bytes_per_element",)
    assert ds.weight_bytes_per_element.values.tolist() == [1.0, 2.0]
    assert ds.weight_bytes.values[1] == 2 * ds.weight_bytes.values[0]
    for dim in ("weight_bytes", "weight_bytes_per_element"):
        named = sweep(weight_bytes=xr.DataArray([1.0, 2.0], dims=dim, coords={dim: [1.0, 2.0]}))
        xr.testing.assert_equal(named, ds)


# --- arrays that name their dimensions -------------------------------------------------------------------------------


def test_arrays_that_share_a_dimension_vary_together():
    ds = sweep(
        batch_size=xr.DataArray([1, 2, 4], dims="design"),
        layers=xr.DataArray([3, 4, 5], dims="design"),
        connected_layers=[1, 2],
    )
    assert ds.tps.dims == ("design", "connected_layers")
    assert ds.batch_size.dims == ds.layers.dims == ("design",)
    assert "design" not in ds.coords
    for position, (batch, layers) in enumerate([(1, 3), (2, 4), (4, 5)]):
        assert ds.tps.isel(design=position, connected_layers=1) == one(
            batch_size=batch, layers=layers, connected_layers=2
        )


def test_labels_of_a_dimension_are_kept():
    labels = ["small", "middle", "large"]
    design = xr.DataArray([1, 2, 4], dims="design", coords={"design": labels, "price": ("design", [1.5, 2.5, 9.0])})
    design.price.attrs["units"] = "EUR"
    ds = sweep(batch_size=design, layers=xr.DataArray([3, 4, 5], dims="design", coords={"design": labels}))
    assert ds.design.values.tolist() == labels
    assert ds.price.values.tolist() == [1.5, 2.5, 9.0]
    assert ds.price.units == "EUR"
    assert ds.tps.sel(design="large") == one(batch_size=4, layers=5)


def test_labels_may_be_missing_numbers():
    design = xr.DataArray([1, 2], dims="design", coords={"price": ("design", [1.5, np.nan])})
    ds = sweep(batch_size=design, layers=design + 3)
    assert np.array_equal(ds.price.values, [1.5, np.nan], equal_nan=True)


def test_arrays_of_two_dimensions():
    batch = xr.DataArray([[1, 2, 4], [4, 1, 1]], dims=("x", "y"), coords={"x": [10, 20]})
    ds = sweep(batch_size=batch, layers=xr.DataArray([3, 4, 5], dims="y"))
    assert ds.tps.dims == ("x", "y")
    assert ds.batch_size.dims == ("x", "y")
    assert ds.x.values.tolist() == [10, 20]
    assert ds.tps.sel(x=20).values[0] == one(batch_size=4, layers=3)
    assert ds.tps.sel(x=10).values[2] == one(batch_size=4, layers=5)


def test_dimensions_in_another_order_join():
    one_way = xr.DataArray([[1, 2, 4], [4, 1, 1]], dims=("x", "y"))
    ds = sweep(batch_size=one_way, layers=xr.DataArray([[3, 4], [5, 6], [7, 8]], dims=("y", "x")))
    assert ds.tps.dims == ("x", "y")
    assert ds.tps.values[1, 0] == one(batch_size=4, layers=4)
    assert ds.tps.values[0, 2] == one(batch_size=4, layers=7)


def test_an_array_along_the_axis_of_another_parameter():
    # connected_layers is half the layers
    layers = xr.DataArray([2, 4, 8], dims="layers", coords={"layers": [2, 4, 8]})
    ds = sweep(layers=[2, 4, 8], connected_layers=layers // 2)
    assert ds.tps.dims == ("layers",)
    assert ds.connected_layers.values.tolist() == [1, 2, 4]
    assert ds.tps.sel(layers=8) == one(layers=8, connected_layers=4)
    assert (ds.connected_layers.dims, ds.layers.dims) == (("layers",), ("layers",))


def test_the_axis_of_another_parameter_without_labels():
    ds = sweep(layers=[2, 4, 8], connected_layers=xr.DataArray([1, 2, 4], dims="layers"))
    assert ds.layers.values.tolist() == [2, 4, 8]
    assert ds.tps.sel(layers=8) == one(layers=8, connected_layers=4)


def test_slices_of_a_result_can_be_arguments():
    ds = sweep(batch_size=[1, 2, 4])
    best = ds.batch_size.isel(batch_size=[2, 0])
    again = sweep(batch_size=best)
    assert again.tps.values.tolist() == [tps(4), tps(1)]


# --- words and profiles ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["serial", "stage-roofline"],
        ("serial", "stage-roofline"),
        np.array(["serial", "stage-roofline"]),
        np.array(["serial", "stage-roofline"], object),
        pd.Series(["serial", "stage-roofline"]),
        pd.Series(["serial", "stage-roofline"], dtype="string"),
        pd.Series(["serial", "stage-roofline"], dtype="category"),
        pd.Index(["serial", "stage-roofline"]),
        xr.DataArray(["serial", "stage-roofline"], dims="overlap"),
    ],
    ids=lambda words: type(words).__name__ + str(getattr(words, "dtype", "")),
)
def test_words_are_a_dimension(words: Any):
    ds = sweep(overlap=words)
    assert ds.tps.dims == ("overlap",)
    assert ds.overlap.values.tolist() == ["serial", "stage-roofline"]
    assert all(type(word) is str for word in ds.overlap.values)
    assert ds.tps.sel(overlap="serial") == one(overlap="serial") < ds.tps.sel(overlap="stage-roofline")


@pytest.mark.parametrize(
    "switches",
    [
        [False, True],
        np.array([False, True]),
        [np.False_, np.True_],
        pd.Series([False, True], dtype="boolean"),
        xr.DataArray([False, True], dims="include_lm_head"),
    ],
    ids=lambda values: type(values).__name__ + str(getattr(values, "dtype", "")),
)
def test_switches_are_a_dimension(switches: Any):
    ds = sweep(include_lm_head=switches)
    assert ds.include_lm_head.values.tolist() == [False, True]
    assert ds.include_lm_head.dtype == bool
    assert ds.ttft.values[0] < ds.ttft.values[1] == sweep(include_lm_head=True).ttft


@pytest.mark.parametrize(
    "names",
    [
        ["llama-3.2-1b", "gpt-oss-20b"],
        np.array(["llama-3.2-1b", "gpt-oss-20b"]),
        xr.DataArray(["llama-3.2-1b", "gpt-oss-20b"], dims="model"),
        ["llama-3.2-1b", ss.load_model("gpt-oss-20b")],
        [ss.load_model("llama-3.2-1b").to_dict(), "gpt-oss-20b"],
        (ss.load_model("llama-3.2-1b"), ss.load_model("gpt-oss-20b").to_dict()),
    ],
    ids=["names", "array", "DataArray", "object", "mapping", "both"],
)
def test_profiles_are_a_dimension(names: Any):
    ds = sweep(model=names)
    assert ds.tps.dims == ("model",)
    assert ds.model.values.tolist() == ["llama-3.2-1b", "gpt-oss-20b"]
    assert ds.tps.sel(model="gpt-oss-20b") == one(model="gpt-oss-20b")


def test_profiles_along_a_dimension_of_their_own():
    names = ["fictional_stacked_dram", "h100_sxm", "fictional_stacked_dram"]
    ds = sweep(memory=xr.DataArray(names, dims="rack", coords={"rack": ["a", "b", "c"]}), batch_size=[1, 2])
    assert ds.tps.dims == ("rack", "batch_size")
    assert ds.memory.dims == ("rack",)
    assert ds.memory.values.tolist() == names
    assert ds.tps.sel(rack="b", batch_size=2) == one(memory="h100_sxm", batch_size=2)
    assert ds.tps.sel(rack="a").equals(ds.tps.sel(rack="c").assign_coords(rack="a"))


def test_one_profile_in_every_form(tmp_path: Path):
    path = tmp_path / "small.json"
    path.write_text(json.dumps(SMALL))
    expected = one(model=SMALL)
    for form in (path, str(path), ss.load_model(SMALL), ss.load_model(path), SMALL | {"name": "mine"}):
        assert one(model=form) == expected
    assert sweep(model=path).model == "small"
    assert sweep(model=SMALL).model == "custom"
    assert sweep(model=SMALL | {"name": "mine"}).model == "mine"


def test_chip_by_flat_names():
    flat = {name: value for name, value in CHIP.items() if name.isupper() or name == "HBM_V_Prefetch_Amount"}
    assert one(chip=flat) == one()
    assert one(chip=ss.load_chip("plena")) == one()
    ds = sweep(chip=[CHIP | {"name": f"MLEN {mlen}", "MLEN": mlen} for mlen in (128, 2048)])
    assert ds.chip.values.tolist() == ["MLEN 128", "MLEN 2048"]
    assert ds.tps.values[1] == one()


@pytest.mark.parametrize("kind", ["model", "chip", "memory"])
def test_the_same_profile_twice_is_one(kind: str):
    name = {"model": "llama-3.2-1b", "chip": "plena", "memory": "fictional_stacked_dram"}[kind]
    profile = {"model": ss.load_model, "chip": ss.load_chip, "memory": ss.load_memory}[kind](name).to_dict()
    table = pd.DataFrame({kind: [profile, dict(profile)], "batch_size": [1, 2]})
    ds = ss.sweep(**{other: value for other, value in BASE.items() if other != kind}, points=table)
    assert ds[kind].values.tolist() == [name, name]
    assert ds.tps.values.tolist() == [tps(1), tps(2)]


# --- points ----------------------------------------------------------------------------------------------------------


def test_a_table_of_points():
    table = pd.DataFrame(
        {"batch_size": [1, 2, 4], "layers": [3, 4, 5], "overlap": ["serial", "serial", "stage-roofline"]}
    )
    ds = sweep(points=table)
    assert ds.tps.dims == ("point",)
    assert "point" not in ds.coords
    assert ds.batch_size.dims == ds.layers.dims == ds.overlap.dims == ("point",)
    assert ds.overlap.values.tolist() == table.overlap.tolist()
    assert ds.batch_size.attrs["long_name"] == "sequences served together by the whole system"
    for position, row in enumerate(table.to_dict("records")):
        assert ds.tps.values[position] == one(**row)


def test_points_with_an_axis():
    ds = sweep(points=pd.DataFrame({"batch_size": [1, 2]}), layers=[3, 4, 5])
    assert ds.tps.dims == ("point", "layers")
    assert ds.tps.values[1, 2] == one(batch_size=2, layers=5)


def test_an_array_along_the_points():
    ds = sweep(points=pd.DataFrame({"batch_size": [1, 2]}), layers=xr.DataArray([3, 5], dims="point"))
    assert ds.tps.dims == ("point",)
    assert ds.tps.values[1] == one(batch_size=2, layers=5)


@pytest.mark.parametrize(
    "index",
    [["a", "b"], [7, 3], [0.5, 1.5], pd.Index([1, 0]), pd.to_datetime(["2024-01-01", "2024-06-01"])],
    ids=["texts", "integers", "numbers", "order", "dates"],
)
def test_labels_of_points_are_kept(index: Any):
    ds = sweep(points=pd.DataFrame({"batch_size": [1, 2]}, index=index))
    assert ds.indexes["point"].equals(pd.Index(index, name="point"))
    assert ds.tps.sel(point=index[1]) == tps(2)


def test_labels_of_several_levels_are_refused():
    # a file could not hold them
    index = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])
    with pytest.raises(ss.ParameterError, match=r"^points: its index has several levels, needs one"):
        sweep(points=pd.DataFrame({"batch_size": [1, 2]}, index=index))


@pytest.mark.parametrize("convert", [lambda table: table.convert_dtypes(), lambda table: table.astype(object)])
def test_columns_of_other_types(convert: Any):
    table = pd.DataFrame(
        {"batch_size": [1, 2], "overlap": ["serial", "stage-roofline"], "include_lm_head": [True, False]}
    )
    xr.testing.assert_identical(sweep(points=convert(table)), sweep(points=table))


def test_a_dataset_of_points():
    points = xr.Dataset(
        {"batch_size": ("design", [1, 2]), "layers": ("design", [3, 4]), "connected_layers": 2},
        coords={"design": ["a", "b"], "price": ("design", [1.0, 2.0]), "overlap": "serial"},
    )
    ds = sweep(points=points)
    assert ds.tps.dims == ("point",)
    assert ds.point.values.tolist() == ["a", "b"]
    assert ds.price.values.tolist() == [1.0, 2.0]
    assert ds.connected_layers.dims == ()
    # a coordinate that is a parameter is a column too
    assert ds.overlap == "serial"
    assert ds.tps.values[1] == one(batch_size=2, layers=4, connected_layers=2, overlap="serial")


def test_a_dataset_whose_dimension_is_a_parameter():
    points = xr.Dataset({"layers": ("batch_size", [3, 4])}, coords={"batch_size": [1, 2]})
    ds = sweep(points=points)
    assert ds.tps.dims == ("point",)
    assert ds.batch_size.values.tolist() == [1, 2]
    assert ds.tps.values[1] == one(batch_size=2, layers=4)


def test_a_table_whose_index_is_a_parameter_is_refused():
    table = pd.DataFrame({"batch_size": [1, 2], "layers": [3, 4]}).set_index("batch_size")
    with pytest.raises(ss.ParameterError, match=r"^points: its index is called 'batch_size'"):
        sweep(points=table)
    assert sweep(points=table.reset_index()).tps.values[1] == one(batch_size=2, layers=4)


def test_points_may_hold_profiles():
    table = pd.DataFrame({"model": ["llama-3.2-1b", "gpt-oss-20b", "llama-3.2-1b"], "batch_size": [1, 2, 4]})
    ds = ss.sweep(**{name: value for name, value in BASE.items() if name != "model"}, points=table)
    assert ds.model.values.tolist() == table.model.tolist()
    assert ds.tps.values[1] == one(model="gpt-oss-20b", batch_size=2)
    assert ds.tps.values[2] == tps(4)


def test_a_call_does_not_change_its_arguments():
    table = pd.DataFrame({"batch_size": [1, 2]}, index=["a", "b"])
    array = xr.DataArray([3, 4], dims="layers")
    model = SMALL | {"name": "mine"}
    before = table.copy(), array.copy(deep=True), dict(model)
    sweep(points=table, layers=array, model=model)
    pd.testing.assert_frame_equal(table, before[0])
    xr.testing.assert_identical(array, before[1])
    assert model == before[2]


def test_a_result_shares_no_memory_with_its_arguments():
    clock = xr.DataArray([1e9, 2e9], dims="x", coords={"price": ("x", [1.5, 2.5])})
    axis = np.array([0.5, 1.0])
    table = pd.DataFrame({"recharge_cycles": [1.0, 2.0]}, index=[0.5, 1.5])
    ds = sweep(frequency_hz=clock, kv_read_bytes=axis, points=table)
    for name in ("frequency_hz", "price", "kv_read_bytes", "recharge_cycles"):
        if name not in ds.indexes:
            ds[name].values[:] = 7
    assert clock.values.tolist() == [1e9, 2e9]
    assert clock.price.values.tolist() == [1.5, 2.5]
    axis[0] = 4.0
    assert ds.kv_read_bytes.values.tolist() == [0.5, 1.0]
    assert table.recharge_cycles.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "values",
    [
        np.array([4, 2, 1], ">i4")[::-1],
        np.arange(1, 5)[[0, 1, 3]],
        np.array([[1, 0], [2, 0], [4, 0]])[:, 0],
        np.array([1, 2, 4], np.longdouble),
        xr.DataArray([1, 2, 4], dims="batch_size").chunk(),
    ],
    ids=["big endian", "copy", "strided", "long double", "dask"],
)
def test_arrays_of_any_layout(values: Any):
    assert sweep(batch_size=values).tps.values.tolist() == [tps(1), tps(2), tps(4)]


def test_strange_names_of_dimensions_do_not_mix_with_joined_ones():
    # random routing looks loads up by all combinations of batch and prompt
    model = SMALL | {"num_experts": 8, "num_experts_per_tok": 2}
    batches, prompts = [[1, 2], [3, 4]], [5, 6, 7, 9]
    ds = ss.sweep(
        **BASE
        | {
            "model": model,
            "routing": "random",
            "batch_size": xr.DataArray(batches, dims=("a", "b")),
            "input_seq_len": xr.DataArray(prompts, dims="a b"),
            "outputs": ["prefill_active_experts", "prefill_pairs", "ttft"],
        }
    )
    for (a, b), c in [((0, 0), 0), ((0, 1), 3), ((1, 1), 1), ((1, 0), 2)]:
        alone = ss.sweep(
            **BASE | {"model": model, "routing": "random", "batch_size": batches[a][b], "input_seq_len": prompts[c]}
        )
        assert ds.ttft.isel({"a": a, "b": b, "a b": c}) == alone.ttft


# --- what is refused: dimensions -------------------------------------------------------------------------------------


def refused(message: str, **arguments: Any) -> None:
    """The call is refused in exactly these words."""
    with pytest.raises(ss.ParameterError) as caught:
        sweep(**arguments)
    assert str(caught.value) == message


def along(dim: Any, values: Any, **coordinates: Any) -> xr.DataArray:
    return xr.DataArray(values, dims=dim, coords={name: (dim, value) for name, value in coordinates.items()})


def test_lengths_that_differ():
    refused(
        "layers: has 3 values along 'x', where other parameters have 2",
        batch_size=along("x", [1, 2]),
        layers=along("x", [3, 4, 5]),
    )
    refused(
        "layers: has 3 values along 'point', where other parameters have 2",
        points=pd.DataFrame({"batch_size": [1, 2]}),
        layers=along("point", [3, 4, 5]),
    )
    refused(
        "connected_layers: has 3 values along 'layers', where other parameters have 2",
        layers=[3, 4],
        connected_layers=along("layers", [1, 2, 3]),
    )


def test_coordinates_that_differ():
    refused(
        "layers: its coordinate 'x' differs from that of another parameter",
        batch_size=along("x", [1, 2], x=["a", "b"]),
        layers=along("x", [3, 4], x=["b", "a"]),
    )
    refused(
        "layers: its coordinate 'price' differs from that of another parameter",
        batch_size=along("x", [1, 2], price=[1, 2]),
        layers=along("x", [3, 4], price=[1, 3]),
    )
    refused(
        "layers: its coordinate 'point' differs from that of another parameter",
        points=pd.DataFrame({"batch_size": [1, 2]}, index=["a", "b"]),
        layers=along("point", [3, 4], point=["b", "a"]),
    )
    # the labels say 3, 4 where the heights are 4, 8
    with pytest.raises(ss.ParameterError, match="its coordinate 'layers' differs from that of another parameter"):
        sweep(layers=[4, 8], connected_layers=along("layers", [1, 2], layers=[3, 4]))


def test_coordinates_of_parameters_that_are_not_given():
    with pytest.raises(ss.ParameterError, match=r"'layers'.* is named after a parameter that this call does not give"):
        sweep(batch_size=along("x", [1, 2], layers=[3, 4]))
    with pytest.raises(ss.ParameterError, match="'frequency_hz': is named after a parameter that this call does not"):
        sweep(batch_size=along("x", [1, 2], frequency_hz=[1e9, 2e9]))


@pytest.mark.parametrize("name", ["tps", "valid", "reason", "prefill_latency"])
def test_dimensions_and_coordinates_named_like_a_result(name: str):
    refused(f"dimension {name!r}: is a name that results use; rename the dimension", batch_size=along(name, [1, 2]))
    with pytest.raises(ss.ParameterError, match=f"'{name}', a name that results use"):
        sweep(batch_size=along("x", [1, 2], **{name: [1, 2]}))
    with pytest.raises(ss.ParameterError, match=f"'{name}', a name that results use"):
        sweep(
            points=xr.Dataset({"batch_size": ("point", [1, 2])}, coords={name: ("point", [1, 2])}),
        )


def test_a_dimension_named_like_collectives():
    # results per collective have that dimension
    with pytest.raises(ss.ParameterError, match="collective"):
        sweep(batch_size=along("collective", [1, 2]), outputs="all")
    with pytest.raises(ss.ParameterError, match="collective"):
        sweep(batch_size=along("x", [1, 2], collective=[1, 2]), outputs="all")


def test_dimensions_named_like_another_parameter():
    refused(
        "dimension 'layers': is named after a parameter that does not vary along it; rename the dimension",
        batch_size=along("layers", [1, 2]),
    )
    refused(
        "dimension 'overlap': is named after a parameter that does not vary along it; rename the dimension",
        batch_size=along("overlap", [1, 2]),
        overlap="serial",
    )
    refused(
        "dimension 'layers': is named after a parameter that also varies along ('x',); rename the dimension",
        layers=xr.DataArray([[1, 2], [3, 4]], dims=("layers", "x")),
    )


# --- what is refused: points -----------------------------------------------------------------------------------------


def test_points_of_another_type():
    needs = "needs a pandas.DataFrame or an xarray.Dataset"
    for points, name in (({"batch_size": [1]}, "dict"), ([1], "list"), (pd.Series([1]), "Series"), (5, "int")):
        refused(f"points: got {name}, {needs}", points=points)
    refused(f"points: got DataArray, {needs}", points=xr.DataArray([1], dims="point", name="batch_size"))


def test_points_and_arguments():
    refused(
        "batch_size: given both in points and as an argument; give it once",
        points=pd.DataFrame({"batch_size": [1, 2]}),
        batch_size=3,
    )


def test_columns_that_are_no_parameters():
    refused("tps: no such parameter; did you mean tp?", points=pd.DataFrame({"batch_size": [1], "tps": [2]}))
    with pytest.raises(ss.ParameterError, match=r"^0: no such parameter"):
        sweep(points=pd.DataFrame({0: [1]}))
    with pytest.raises(ss.ParameterError, match=r"^price: no such parameter"):
        sweep(points=xr.Dataset({"batch_size": ("x", [1]), "price": ("x", [1])}))


def test_columns_that_stand_twice():
    table = pd.DataFrame([[1, 2]], columns=["batch_size", "batch_size"])
    refused("points: a column stands more than once", points=table)


def test_points_of_several_dimensions():
    points = xr.Dataset({"batch_size": ("x", [1]), "layers": ("y", [1])})
    refused("points: got dimensions ('x', 'y'), needs exactly one", points=points)
    refused("points: got dimensions (), needs exactly one", points=xr.Dataset({"batch_size": 3}))


def test_labels_that_no_file_can_hold():
    labels = np.array(["a", 1], object)
    with pytest.raises(ss.ParameterError, match="coordinate 'x'"):
        sweep(batch_size=along("x", [1, 2], x=labels))
    with pytest.raises(ss.ParameterError, match="coordinate 'point'"):
        sweep(points=pd.DataFrame({"batch_size": [1, 2]}, index=labels))
