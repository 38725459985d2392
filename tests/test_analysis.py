"""The best point and the front, against loops that compare every point with every other."""

import doctest
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import stacksweep as ss
from stacksweep.analysis import best, front, optimum, pareto, pareto_mask
from stacksweep.kernels import pareto as kernels
from stacksweep.results import RESULTS

NAN, INF = float("nan"), float("inf")


@pytest.fixture(scope="module")
def ds() -> xr.Dataset:
    """Two stacks, plans of which some cannot be, and loads of which some do not fit."""
    return ss.sweep(
        model="llama-3.1-8b",
        memory="fictional_stacked_dram",
        noc="gpu_node_8",
        layers=[4, 8],
        tp=[1, 2, 4, 8],
        pp=[1, 2],
        dp="fill",
        batch_size=[1, 8, 64],
        outputs=["main", "prefill_bottleneck", "prefill_collective_time"],
    )


def same(got: Any, wanted: Any) -> bool:
    """Equal, and NaN where NaN is wanted."""
    return bool(got == wanted) or (got != got and wanted != wanted)


def looped(values: np.ndarray, allowed: np.ndarray, higher: bool) -> tuple[int, ...] | None:
    """Place of the first best of the allowed values that are numbers."""
    found = None
    for place in np.ndindex(values.shape):
        value = values[place].item()
        if value != value or not allowed[place]:
            continue
        if found is None or (value > values[found].item() if higher else value < values[found].item()):
            found = place
    return found


def check_best(ds: xr.Dataset, objective: str, over: list[str], where: xr.DataArray | None, higher: bool) -> int:
    """Compare every number of a result with that of the point a loop finds; return how many are not feasible."""
    got = best(ds, objective, over=over, where=where, maximize=higher)
    dims = ds[objective].dims
    rest = [dim for dim in dims if dim not in over]
    assert got[objective].dims == got.feasible.dims == tuple(rest)
    assert set(got.data_vars) == {*ds.data_vars, "feasible"}
    assert set(got.coords) == set(ds.coords)
    allowed = xr.full_like(ds[objective], True, bool) if where is None else where.broadcast_like(ds[objective])
    allowed = (allowed & ds.valid).transpose(*dims)
    infeasible = 0
    for at in np.ndindex(*(ds.sizes[dim] for dim in rest)):
        here = dict(zip(rest, at, strict=True))
        group, one = ds.isel(here), got.isel(here)
        order = [dim for dim in dims if dim in over]
        place = looped(group[objective].values, allowed.isel(here).values, higher)
        assert one.feasible.item() == (place is not None)
        if place is None:
            infeasible += 1
            continue
        wanted = group.isel(dict(zip(order, place, strict=True)))
        for name in wanted.variables:
            assert one[name].dtype == ds[name].dtype, name
            assert all(map(same, one[name].values.ravel(), wanted[name].values.ravel())), name
    for name in ds.variables:
        assert got[name].attrs == ds[name].attrs
    assert got.attrs == ds.attrs
    return infeasible


@pytest.mark.parametrize("over", [["tp"], ["batch_size", "layers"], ["layers", "tp", "pp", "batch_size"]])
@pytest.mark.parametrize(
    ("objective", "higher"), [("tps", True), ("ttft", False), ("capacity", True), ("prefill_bottleneck", False)]
)
def test_best_of_a_sweep_is_what_a_loop_finds(ds: xr.Dataset, over: list[str], objective: str, higher: bool):
    check_best(ds, objective, over, ds.fits & (ds.ttft < 0.1), higher)
    check_best(ds[["valid", objective]], objective, over, None, higher)


def test_some_groups_of_the_sweep_have_no_optimum(ds: xr.Dataset):
    assert check_best(ds, "tps", ["tp"], ds.fits & (ds.ttft < 0.1), True) == 8
    assert check_best(ds, "tps", ["batch_size"], None, True) == 2


VALUES = {
    "f8": st.sampled_from([NAN, INF, -INF, 0.0, -0.0, 1.0, 2.0]),
    "f4": st.sampled_from([NAN, INF, -INF, 0.0, 1.5]),
    "i1": st.sampled_from([-128, -1, 0, 127]),
    "i8": st.sampled_from([2**63 - 1, 2**63 - 2, -(2**63), 2**53, 2**53 + 1]),
    "u1": st.sampled_from([0, 1, 255]),
    "?": st.booleans(),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[xr.Dataset, list[str], xr.DataArray]:
    dims = ["a", "b", "c"][: draw(st.integers(1, 3))]
    shape = tuple(draw(st.integers(1, 4)) for _ in dims)
    dtype = draw(st.sampled_from(sorted(VALUES)))
    values = draw(hnp.arrays(dtype, shape, elements=VALUES[dtype]))
    some = draw(st.lists(st.sampled_from(dims), unique=True, max_size=len(dims)))
    where = draw(hnp.arrays(bool, tuple(shape[dims.index(dim)] for dim in some)))
    over = draw(st.lists(st.sampled_from(dims), unique=True, min_size=1))
    place = np.arange(values.size).reshape(shape)
    table = xr.Dataset({"y": (dims, values), "place": (dims, place)})
    table["valid"] = (dims, draw(hnp.arrays(bool, shape)))
    return table, over, xr.DataArray(where, dims=some)


@given(tables(), st.booleans())
@settings(max_examples=120)
def test_best_finds_the_first_of_the_best(case: tuple[xr.Dataset, list[str], xr.DataArray], higher: bool):
    table, over, where = case
    got = best(table, "y", over=over, where=where, maximize=higher)
    allowed = (where.broadcast_like(table.y) & table.valid).transpose(*table.y.dims)
    rest = [dim for dim in table.y.dims if dim not in over]
    for at in np.ndindex(*(table.sizes[dim] for dim in rest)):
        here = dict(zip(rest, at, strict=True))
        group, one = table.isel(here), got.isel(here)
        place = looped(group.y.values, allowed.isel(here).values, higher)
        assert one.feasible.item() == (place is not None)
        assert one.place.item() == (-1 if place is None else group.place.values[place].item())
        for dim in over:
            positions = -1 if place is None else place[[one for one in table.y.dims if one in over].index(dim)]
            assert one[dim].item() == positions
    assert got.y.dtype == table.y.dtype


@given(tables(), st.booleans(), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=25)
def test_best_of_chunks_is_best_of_the_whole(case: tuple[xr.Dataset, list[str], xr.DataArray], higher, first, second):
    table, over, where = case
    table["reason"] = table.place.astype("i2").assign_attrs(flag_values=np.arange(64, dtype="i2"))
    whole = best(table, "y", over=over, where=where, maximize=higher)
    chunked = table.assign(y=table.y.chunk(first), valid=table.valid.chunk(second))
    xr.testing.assert_identical(best(chunked, "y", over=over, where=where, maximize=higher).compute(), whole)


def test_without_an_optimum_every_kind_says_so():
    rows = xr.Dataset(
        {
            "y": (("x", "z"), [[1.0, 2.0], [NAN, 3.0], [NAN, NAN]]),
            "valid": (("x", "z"), [[True, True], [False, True], [False, False]]),
            "reason": (("x", "z"), np.array([[0, 0], [5, 0], [7, 8]], "i1"), {"flag_values": np.arange(9, dtype="i1")}),
            "warnings": (("x", "z"), np.array([[1, 2], [0, 4], [0, 0]], "u1"), {"flag_masks": [1, 2, 4]}),
            "count": (("x", "z"), np.array([[1, 2], [-7, 4], [-7, -7]], "i2")),
            "size": (("x", "z"), np.array([[1, 2], [0, 4], [0, 0]], "u2")),
            "cost": ("x", [10.0, 20.0, 30.0]),
            "constant": 4.0,
            "of_k": ("k", [1.0, 2.0]),
        },
        {
            "x": [1, 2, 3],
            "z": [4, 8],
            "word": ("z", ["one", "two"]),
            "text": ("z", np.array(["one", "two"], object)),
            "label": ("x", ["p", "q", "r"]),
            "fill": (("x", "z"), [[1, 2], [3, 4], [5, 6]]),
        },
    )
    got = best(rows, "y", over="z", where=rows.y < 1.5, maximize=True)
    assert got.feasible.values.tolist() == [True, False, False]
    assert got.feasible.attrs == {"units": "1", "long_name": "whether any point meets the conditions"}
    np.testing.assert_array_equal(got.y, [1.0, NAN, NAN])
    np.testing.assert_array_equal(got.cost, [10.0, NAN, NAN])
    assert got.valid.values.tolist() == [True, False, False]
    # the first point with an objective, or else the first point
    assert got.reason.values.tolist() == [0, 0, 7]
    assert got.warnings.values.tolist() == [1, 4, 0]
    assert got["count"].values.tolist() == [1, -1, -1]
    assert got["size"].values.tolist() == [1, 0, 0]
    assert got.z.values.tolist() == [4, -1, -1]
    assert got.fill.values.tolist() == [1, -1, -1]
    assert got.word.values.tolist() == ["one", "", ""]
    assert got.text.values.tolist() == ["one", "", ""]
    assert got.label.values.tolist() == ["p", "q", "r"]
    assert got.constant.item() == 4.0
    assert got.of_k.values.tolist() == [1.0, 2.0]
    assert {name: got[name].dtype for name in rows.variables} == {name: rows[name].dtype for name in rows.variables}
    assert list(got.indexes) == ["x"]


def test_several_limits_become_a_dimension(ds: xr.Dataset):
    limits = xr.DataArray([0.1, 0.2, 9.0], dims="limit", coords={"limit": [0.1, 0.2, 9.0]}, attrs={"units": "s"})
    got = best(ds, "tps", over=["tp", "pp", "batch_size"], where=ds.ttft < limits)
    assert got.tps.dims == got.tp.dims == ("layers", "limit")
    assert got.prefill_collective_time.dims == ("collective", "layers", "limit")
    np.testing.assert_array_equal(got.limit, limits)
    for limit in limits.values:
        one = best(ds, "tps", over=["tp", "pp", "batch_size"], where=ds.ttft < limit)
        xr.testing.assert_identical(got.sel(limit=limit, drop=True), one)


def test_a_condition_on_some_dimensions_is_broadcast(ds: xr.Dataset):
    tall = ds.layers > 4
    xr.testing.assert_identical(
        best(ds, "tps", over=["layers", "tp"], where=tall),
        best(ds, "tps", over=["layers", "tp"], where=tall.broadcast_like(ds.tps).transpose()),
    )


def test_a_coordinate_can_be_the_objective(ds: xr.Dataset):
    got = best(ds, "tp", over=["tp", "pp"], where=ds.fits & (ds.ttft < 1), maximize=False)
    fit = (ds.fits & (ds.ttft < 1)).any("pp")
    for layers, batch_size in product(ds.layers.values, ds.batch_size.values):
        sizes = ds.tp.values[fit.sel(layers=layers, batch_size=batch_size).values]
        assert got.tp.sel(layers=layers, batch_size=batch_size).item() == (sizes.min() if sizes.size else -1)


def test_integers_of_invalid_points_are_never_the_best(ds: xr.Dataset):
    invalid = ds.prefill_bottleneck.where(~ds.valid, drop=True)
    assert invalid.min() == -1
    got = best(ds, "prefill_bottleneck", maximize=False)
    assert got.prefill_bottleneck.item() == 0
    assert not pareto_mask(ds, minimize="prefill_bottleneck").where(~ds.valid, False).any()


def test_points_keep_their_positions():
    table = pd.DataFrame({"layers": [4, 12, 8], "batch_size": [1, 2, 4]})
    points = ss.sweep(model="llama-3.1-8b", memory="fictional_stacked_dram", points=table, input_seq_len=[512, 4096])
    fastest = best(points, "ttft", over="point")
    assert fastest.point.values.tolist() == [1, 0]
    assert fastest.point.attrs == {"units": "1", "long_name": "position along point"}
    assert fastest.layers.values.tolist() == [12, 4]
    assert best(points, "ttft").input_seq_len.item() == 512
    front = pareto(points, minimize="layers", maximize="tps")
    assert front.point.values.tolist() == [0, 2]
    assert front.layers.values.tolist() == [4, 8]
    assert front.input_seq_len.values.tolist() == [512, 512]


def test_stacked_dimensions_give_plain_coordinates(ds: xr.Dataset):
    stacked = ds.stack(plan=("tp", "pp"))
    got = best(stacked, "tps", over="plan")
    wanted = best(ds, "tps", over=["tp", "pp"])
    assert "plan" not in got.variables
    for name in ("tps", "tp", "pp", "dp", "reason"):
        np.testing.assert_array_equal(got[name], wanted[name])
    kept = best(stacked, "tps", over="batch_size").unstack("plan")
    np.testing.assert_array_equal(
        kept.batch_size, best(ds, "tps", over="batch_size").batch_size.transpose("layers", ...)
    )
    front = pareto(stacked, minimize="ttft", maximize="tps")
    np.testing.assert_array_equal(front.tp, pareto(ds, minimize="ttft", maximize="tps").tp)


def test_direction_comes_from_the_table(ds: xr.Dataset):
    assert best(ds, "ttft").ttft.item() == ds.ttft.min().item()
    assert best(ds, "tps").tps.item() == ds.tps.max().item()
    assert best(ds, "ttft", maximize=True).ttft.item() == ds.ttft.max().item()
    better = {
        higher: {result.name for result in RESULTS if result.higher_is_better is higher} for higher in (True, None)
    }
    assert better[True] == {
        "tps",
        "tps_per_sequence",
        "capacity",
        "usable_bandwidth",
        "peak_bandwidth",
        "clock_scale",
        "connectivity_efficiency",
    }
    # flags, positions and shares of which neither more nor less is better
    assert better[None] == {
        *("valid", "reason", "warnings", "fits", "buffering_limited"),
        *("prefill_bottleneck", "first_decode_bottleneck"),
        *("prefill_pairs", "decode_pairs", "prefill_active_experts", "decode_active_experts"),
    }


def test_lazy_datasets_are_picked_from_lazily(ds: xr.Dataset):
    lazy = ds.chunk(tp=3, layers=1, batch_size=2)
    where = ds.fits & (ds.ttft < 0.2)
    got = best(lazy, "tps", over=["tp", "pp"], where=lazy.fits & (lazy.ttft < 0.2))
    assert got.ttft.chunks is not None
    assert got.feasible.chunks is None
    xr.testing.assert_identical(got.compute(), best(ds, "tps", over=["tp", "pp"], where=where))
    front = pareto(lazy, minimize=["ttft", "layers"], maximize="tps", where=where)
    assert front.kv_bytes.chunks is not None
    xr.testing.assert_identical(front.compute(), pareto(ds, minimize=["ttft", "layers"], maximize="tps", where=where))
    xr.testing.assert_identical(
        pareto_mask(lazy, minimize="ttft", maximize="tps").drop_vars("dp"),
        pareto_mask(ds, minimize="ttft", maximize="tps").drop_vars("dp"),
    )


@pytest.mark.parametrize("name", ["file.nc", "file.zarr"])
def test_results_of_files_can_be_written(ds: xr.Dataset, tmp_path, name: str):
    ss.save(ds, tmp_path / name)
    with xr.open_dataset(tmp_path / name) as opened:
        for at, make in enumerate(
            (
                lambda data: best(data, "tps", over=["tp", "pp"], where=data.ttft < 0.1),
                lambda data: best(data, "tps"),
                lambda data: pareto(data, minimize="ttft", maximize="tps"),
            )
        ):
            target = tmp_path / f"{at}{name}"
            ss.save(make(opened).load(), target)
            with xr.open_dataset(target) as got:
                wanted = make(ds)
                xr.testing.assert_equal(got.load(), wanted)
                assert {one: got[one].dtype for one in wanted.data_vars} == {
                    one: wanted[one].dtype for one in wanted.data_vars
                }


KEYS = st.sampled_from([-INF, -1.0, -0.0, 0.0, 1.0, 2.0, float(np.finfo(float).max), INF])


def brute_front(keys: np.ndarray) -> list[int]:
    """Rows of the front, ordered."""
    kept = [
        row
        for row, point in enumerate(keys)
        if not any((other <= point).all() and (other < point).any() for other in keys)
    ]
    return sorted(kept, key=lambda row: (*(keys[row] + 0.0), row))


@given(st.data(), st.integers(1, 5), st.sampled_from([4, 2**13]))
@settings(max_examples=300)
def test_front_is_what_comparing_all_pairs_gives(data: st.DataObject, columns: int, sample: int):
    rows = data.draw(st.integers(0, 40))
    few = hnp.arrays(float, (rows, columns), elements=KEYS)
    many = hnp.arrays(float, (rows, columns), elements=st.floats(-1, 1, width=32))
    keys = data.draw(st.one_of(few, many))
    with pytest.MonkeyPatch.context() as patch:
        # a sample of 4 is drawn from tables of more than 16 points
        patch.setattr(kernels, "SAMPLE", sample)
        assert kernels.front(keys).tolist() == brute_front(keys)


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["uniform", "simplex", "few values"])
def test_front_of_many_points(columns: int, kind: str):
    keys = np.random.default_rng(columns).random((40_000 if kind == "uniform" else 1_000, columns))
    if kind == "simplex":
        keys /= keys.sum(axis=1, keepdims=True)
    if kind == "few values":
        keys = np.floor(keys * 5)
    rows = kernels.front(keys)
    points = np.unique(keys[rows], axis=0)
    dominated, on_front = np.zeros(len(keys), bool), np.zeros(len(keys), bool)
    for point in points:
        dominated |= (keys >= point).all(axis=1) & (keys > point).any(axis=1)
        on_front |= (keys == point).all(axis=1)
    # none on the front is dominated, and all others are
    assert (on_front != dominated).all()
    assert sorted(rows.tolist()) == np.flatnonzero(on_front).tolist()
    assert (np.lexsort((rows, *keys[rows].T[::-1])) == np.arange(rows.size)).all()


@given(st.data(), st.integers(1, 3))
@settings(max_examples=60)
def test_table_and_mask_agree_with_all_pairs(data: st.DataObject, count: int):
    shape = (data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5)))
    kinds = [data.draw(st.sampled_from(["f8", "f4", "i1", "u1", "?"])) for _ in range(count)]
    names = [f"y{number}" for number in range(count)]
    table = xr.Dataset(
        {
            name: (("a", "b"), data.draw(hnp.arrays(kind, shape, elements=VALUES[kind])))
            for name, kind in zip(names, kinds, strict=True)
        }
    )
    where = xr.DataArray(data.draw(hnp.arrays(bool, shape[1])), dims="b")
    up = data.draw(st.integers(0, count))
    lower, higher = names[up:], names[:up]
    got = pareto(table, minimize=lower, maximize=higher, where=where)
    # whether a point counts, and its objectives, less being better
    keys = np.stack([table[name].values.ravel().astype(float) for name in [*lower, *higher]], axis=1)
    keys[:, len(lower) :] *= -1
    counted = where.broadcast_like(table.y0).transpose("a", "b").values.ravel() & ~np.isnan(keys).any(axis=1)
    places = np.flatnonzero(counted)
    wanted = places[brute_front(keys[counted])]
    assert (got.a * shape[1] + got.b).values.tolist() == wanted.tolist()
    for name in names:
        np.testing.assert_array_equal(got[name].values, table[name].values.ravel()[wanted])
        assert got[name].dtype == table[name].dtype
    mask = pareto_mask(table, minimize=lower, maximize=higher, where=where)
    assert mask.dims == ("a", "b")
    assert np.flatnonzero(mask.values.ravel()).tolist() == sorted(wanted.tolist())
    chunks = {"a": data.draw(st.integers(1, 3)), "b": data.draw(st.integers(1, 3))}
    if data.draw(st.integers(0, 4)) == 0:
        chunked = pareto(table.chunk(chunks), minimize=lower, maximize=higher, where=where)
        xr.testing.assert_identical(chunked.compute(), got)


def test_front_of_a_sweep(ds: xr.Dataset):
    got = pareto(ds, minimize=["ttft"], maximize=["tps"], where=ds.fits)
    everything = ds.stack(point=("layers", "tp", "pp", "batch_size"))
    usable = everything.where(everything.fits, drop=True)
    points = list(zip(usable.ttft.values.tolist(), usable.tps.values.tolist(), strict=True))
    wanted = [
        at
        for at, (ttft, tps) in enumerate(points)
        if not any(sooner <= ttft and more >= tps and (sooner < ttft or more > tps) for sooner, more in points)
    ]
    front = usable.isel(point=wanted).sortby("ttft")
    assert got.sizes["point"] == len(wanted) == 8
    for name in ("ttft", "tps", "layers", "tp", "pp", "dp", "batch_size", "capacity"):
        np.testing.assert_array_equal(got[name].values, front[name].values)
    assert (np.diff(got.ttft) > 0).all()
    assert got.input_seq_len.dims == ()
    assert got.prefill_collective_time.dims == ("collective", "point")
    assert got.attrs == ds.attrs
    assert {name: got[name].attrs for name in ds.variables} == {name: ds[name].attrs for name in ds.variables}
    mask = pareto_mask(ds, minimize="ttft", maximize="tps", where=ds.fits)
    assert mask.dims == ds.tps.dims
    assert set(mask.coords) == set(ds.tps.coords)
    np.testing.assert_array_equal(np.sort(ds.ttft.values[mask.values]), got.ttft.values)


def test_order_is_by_the_objectives_in_turn():
    table = xr.Dataset({"y": ("x", [3.0, 1.0, 1.0, 2.0, 1.0]), "z": ("x", [9.0, 5.0, 5.0, 7.0, 4.0])})
    front = pareto(table, maximize="z", minimize="y")
    assert front.x.values.tolist() == [1, 2, 3, 0]
    assert pareto(table, minimize="y").x.values.tolist() == [1, 2, 4]
    assert pareto(table, maximize=["z", "y"]).x.values.tolist() == [0]


def test_one_point_and_no_point():
    one = ss.sweep(model="llama-3.1-8b", memory="fictional_stacked_dram")
    front = pareto(one, minimize="ttft", maximize="tps")
    assert front.tps.dims == ("point",)
    assert front.tps.values.tolist() == [one.tps.item()]
    assert front.batch_size.dims == ()
    assert pareto_mask(one, minimize="ttft").item() is True
    assert best(one, "tps").feasible.item() is True
    assert best(one, "tps", where=xr.DataArray(False)).tps.isnull().item()
    none = pareto(one, minimize="ttft", where=xr.DataArray(False))
    assert none.sizes["point"] == 0
    empty = pareto(ss.sweep(model="llama-3.1-8b", memory="fictional_stacked_dram", layers=[4, 8]), "ttft").isel(
        point=[]
    )
    assert pareto(empty, minimize="ttft").sizes["point"] == 0


def test_nothing_given_is_changed(ds: xr.Dataset):
    before = ds.copy(deep=True)
    where = ds.fits
    best(ds, "tps", over="tp", where=where)
    pareto(ds, minimize="ttft", where=where)
    xr.testing.assert_identical(ds, before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ds": 3}, "ds: got int, needs an xarray.Dataset"),
        ({"objective": "tpss"}, "objective: ds has no variable 'tpss'; did you mean tps or tp?"),
        ({"objective": 1.5}, "objective: got 1.5, needs the name of a variable of ds"),
        ({"objective": xr.DataArray([1, 2])}, "objective: got a DataArray, needs the name of a variable of ds"),
        ({"objective": "model"}, "objective: 'model' holds object, needs numbers"),
        ({"objective": "fits"}, "maximize: must be true or false, since more of 'fits' may be good or bad"),
        ({"maximize": "up"}, "maximize: got 'up', needs true, false or None"),
        ({"over": 1.5}, "over: got 1.5, needs dimensions of ds, or None for all"),
        ({"over": [1]}, "over: got 1, needs the name of a dimension of ds"),
        ({"over": []}, "over: got no dimension, needs at least one of ds, or None for all"),
        ({"over": "tpp"}, "over: ds has no dimension 'tpp'; did you mean tp or pp?"),
        ({"over": ["tp", "tp"]}, "over: got 'tp' twice"),
        (
            {"over": "collective"},
            "over: no point differs from another along 'collective', needs some of layers, tp, pp, batch_size",
        ),
        ({"where": "fits"}, "where: got str, needs an xarray.DataArray of booleans"),
        ({"where": xr.DataArray([1, 0], dims="pp")}, "where: got values of int64, needs booleans"),
        ({"where": xr.DataArray([True], dims="pp")}, "where: got 1 points along 'pp', needs the 2 of ds"),
        (
            {"where": xr.DataArray([True, True], {"pp": [1, 4]}, dims="pp")},
            "where: its labels of 'pp' are not those of ds",
        ),
        (
            {"where": xr.DataArray([True], dims="chip")},
            "where: 'chip' is a dimension of it, and a variable without dimension in ds",
        ),
    ],
)
def test_errors_of_best(ds: xr.Dataset, change: dict[str, Any], message: str):
    with pytest.raises(ss.ParameterError) as caught:
        best(**({"ds": ds, "objective": "tps"} | change))
    assert str(caught.value) == message


def test_error_of_an_empty_dimension(ds: xr.Dataset):
    with pytest.raises(ss.ParameterError, match=r"^over: 'tp' has no points in ds, needs at least one$"):
        best(ds.isel(tp=[]), "tps")
    assert best(ds.isel(tp=[]), "tps", over="pp").sizes["tp"] == 0


@pytest.mark.parametrize("function", [pareto, pareto_mask])
@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({}, "minimize, maximize: got no objective, need the name of a variable of ds"),
        ({"minimize": "ttft", "maximize": ["ttft"]}, "minimize, maximize: got 'ttft' twice"),
        ({"minimize": 1.5}, "minimize: got 1.5, needs names of variables of ds"),
        ({"maximize": ["tps", 2]}, "maximize: got 2, needs the name of a variable of ds"),
        ({"maximize": "ttf"}, "maximize: ds has no variable 'ttf'; did you mean ttft?"),
        ({"minimize": "memory"}, "minimize: 'memory' holds object, needs numbers"),
        (
            {"minimize": "ttft", "where": xr.DataArray([True], dims="limit")},
            "where: got the dimension 'limit', which ds does not have",
        ),
        ({"minimize": "ttft", "where": xr.DataArray(1.0)}, "where: got values of float64, needs booleans"),
    ],
)
def test_errors_of_pareto(ds: xr.Dataset, function: Any, given_: dict[str, Any], message: str):
    with pytest.raises(ss.ParameterError) as caught:
        function(ds, **given_)
    assert str(caught.value) == message


def test_error_of_another_point(ds: xr.Dataset):
    with pytest.raises(ss.ParameterError, match=r"^ds: has a 'point' that is no dimension of its points; rename it$"):
        pareto(ds.assign_coords(point=3), minimize="ttft")


def test_examples_of_the_docstrings():
    tried = [doctest.testmod(module) for module in (optimum, front)]
    assert [one.failed for one in tried] == [0, 0]
    assert sum(one.attempted for one in tried) >= 11
