"""Lazy sweeps equal those in memory bit for bit, and compute no more than they are asked for."""

import pickle

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import stacksweep as ss
from stacksweep import evaluate, lazy
from stacksweep.boxes import block_shape, boxes, chunk_shape, cut_as_asked, pieces
from stacksweep.results import BY_NAME
from strategies import MIXED_GRID, bitwise_equal

pytest.importorskip("dask")
import dask
import dask.array as da

SMALL = {
    "model": "llama-3.2-1b",
    "memory": "fictional_stacked_dram",
    "layers": [2, 3, 4, 5, 6],
    "batch_size": [1, 2, 3],
}


@pytest.fixture(scope="module")
def eager() -> xr.Dataset:
    ds = ss.sweep(**MIXED_GRID, outputs="all")
    assert 0 < ds.valid.mean() < 1
    return ds


@pytest.fixture
def priced(monkeypatch):
    """What is priced: the results and sizes of every chunk."""
    seen = []

    def price(problem, results, dtype, **more):
        seen.append(({result.name for result in results}, dict(problem.sizes)))
        return evaluate.price(problem, results, dtype, **more)

    monkeypatch.setattr(lazy, "price", price)
    return seen


@pytest.mark.parametrize(
    "chunks",
    [
        {},
        "auto",
        {"layers": 1},
        {"model": 1, "routing": 1, "batch_size": 2, "connected_layers": 1, "tp": 100},
        {"batch_size": (1, 3, 1), "layers": 2},
    ],
)
def test_lazy_equals_eager(eager, chunks):
    ds = ss.sweep(**MIXED_GRID, outputs="all", chunks=chunks)
    assert all(variable.chunks for variable in ds.data_vars.values())
    xr.testing.assert_identical(ds, eager)
    assert bitwise_equal(ds.compute(), eager)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_every_variable_alone(eager, dtype):
    ds = ss.sweep(**MIXED_GRID, outputs="all", dtype=dtype, chunks={"batch_size": 3})
    expected = eager if dtype == "float64" else ss.sweep(**MIXED_GRID, outputs="all", dtype=dtype)
    for name in ds:
        assert ds[name].dtype == expected[name].dtype
        np.testing.assert_array_equal(ds[name].values, expected[name].values)


def test_points_and_grid():
    table = pd.DataFrame({"layers": range(2, 25), "connected_layers": 2, "batch_size": range(23, 0, -1)})
    given = {"model": "llama-3.2-1b", "memory": "fictional_stacked_dram", "points": table, "input_seq_len": [64, 100]}
    ds = ss.sweep(**given, chunks={"point": 7})
    assert ds.tps.chunksizes == {"point": (7, 7, 7, 2), "input_seq_len": (2,)}
    xr.testing.assert_identical(ds, ss.sweep(**given))


def test_one_point():
    given = {"model": "llama-3.2-1b", "memory": "fictional_stacked_dram"}
    xr.testing.assert_identical(ss.sweep(**given, chunks={}), ss.sweep(**given))


def test_nothing_is_priced_before_it_is_asked_for(priced):
    ds = ss.sweep(**SMALL, chunks={"layers": 2})
    repr(ds)
    (ds.tps / ds.ttft).max("layers")
    assert priced == []


def test_all_variables_of_a_chunk_are_priced_once(priced):
    ss.sweep(**SMALL, chunks={"layers": 2}).load(scheduler="sync")
    main = {name for name, result in BY_NAME.items() if result.main}
    assert [names for names, _ in priced] == [main] * 3
    assert sorted(sizes["layers"] for _, sizes in priced) == [1, 2, 2]


def test_one_variable_is_priced_alone_and_only_where_it_is_wanted(priced):
    ds = ss.sweep(**SMALL, chunks={"layers": 2})
    ds.capacity.isel(layers=[2, 3]).load(scheduler="sync")
    assert priced == [({"capacity"}, {"layers": 2, "batch_size": 3})]
    priced.clear()
    dask.compute(ds.tps.isel(layers=0), ds.fits.isel(layers=1), ds.valid.isel(layers=4), scheduler="sync")
    assert sorted(priced, key=lambda one: len(one[0])) == [
        ({"valid"}, {"layers": 1, "batch_size": 3}),
        ({"tps", "fits"}, {"layers": 2, "batch_size": 3}),
    ]


def test_tasks_hold_their_own_slice_only():
    ds = ss.sweep(
        model="llama-3.2-1b",
        memory="fictional_stacked_dram",
        outputs="tps",
        chunks={"point": 10},
        points=pd.DataFrame({"batch_size": np.arange(1, 1001), "layers": 2 + np.arange(1000) % 5}),
    )
    (culled,) = dask.optimize(ds.tps[25:35].data)
    graph = dict(culled.__dask_graph__())
    *tasks, tables = sorted(len(pickle.dumps(task)) for task in graph.values())
    assert len(tasks) < 10
    assert max(tasks) < 5000 < tables


def test_a_graph_as_a_whole():
    ds = ss.sweep(**SMALL, outputs=["tps", "prefill_collective_time"], chunks={"layers": 2, "batch_size": 2})
    layer = next(one for one in ds.tps.data.dask.layers.values() if isinstance(one, lazy.Chunks))
    assert not layer.is_materialized()
    everything = dict(layer)
    assert layer.is_materialized()
    assert len(layer) == len(everything) == 1 + 6 * 5
    assert layer.get_output_keys() <= set(everything)
    assert set(dask.core.flatten(ds.tps.data.__dask_keys__())) < layer.get_output_keys()


def test_dask_arrays_as_arguments_give_their_chunks():
    batches = xr.DataArray(da.arange(1, 9, chunks=3), dims="batch_size")
    given = {**SMALL, "batch_size": batches, "input_seq_len": da.from_array(np.array([7, 9, 11]), chunks=2)}
    plain = {**SMALL, "batch_size": np.arange(1, 9), "input_seq_len": [7, 9, 11]}
    ds = ss.sweep(**given)
    assert ds.tps.chunksizes == {"layers": (5,), "batch_size": (3, 3, 2), "input_seq_len": (2, 1)}
    xr.testing.assert_identical(ds, ss.sweep(**plain))
    assert ss.sweep(**given, chunks={"layers": 2}).tps.chunksizes["batch_size"] == (8,)
    weight = xr.DataArray(da.from_array(np.array([0.5, 1, 2]), chunks=1), dims="weight_bytes")
    assert ss.sweep(**SMALL, weight_bytes=weight).tps.chunksizes["weight_bytes_per_element"] == (1, 1, 1)


def test_a_table_of_dask_arrays():
    table = pd.DataFrame({"layers": range(2, 12), "batch_size": range(10, 0, -1)})
    points = xr.Dataset.from_dataframe(table).rename(index="point").drop_vars("point")
    given = {"model": "llama-3.2-1b", "memory": "fictional_stacked_dram"}
    ds = ss.sweep(**given, points=points.chunk(point=4))
    assert ds.tps.chunks == ((4, 4, 2),)
    xr.testing.assert_identical(ds, ss.sweep(**given, points=points))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"chunks": 3}, """chunks: got 3, needs "auto" or lengths by dimension, as in {"batch_size": 32}"""),
        ({"chunks": "Auto"}, """chunks: got 'Auto', needs "auto" or lengths by dimension"""),
        ({"chunks": {"batch": 3}}, "chunks: no dimension is called 'batch'; did you mean batch_size?"),
        ({"chunks": {"input_seq_len": 3}}, "chunks: no dimension is called 'input_seq_len'"),
        ({"chunks": {"layers": 0}}, "chunks: layers: got 0, needs a whole number of at least 1"),
        ({"chunks": {"layers": -1}}, "chunks: layers: got -1, needs a whole number of at least 1"),
        ({"chunks": {"layers": 2.5}}, "chunks: layers: got 2.5, needs"),
        ({"chunks": {"layers": "auto"}}, "chunks: layers: got 'auto', needs"),
        ({"chunks": {"layers": True}}, "chunks: layers: got True, needs"),
        ({"chunks": {"layers": (2, 2)}}, "chunks: layers: got (2, 2), needs a whole number of at least 1, or lengths"),
        ({"chunks": {"layers": None}}, "chunks: layers: got None, needs"),
        ({"resume": True}, "resume: is of use only together with to="),
        ({"max_memory": 10**9, "chunks": {}}, "max_memory: is of use only together with to="),
        ({"compression": "zstd"}, "compression: is of use only together with to="),
        ({"progress": "yes"}, "progress: got 'yes', needs true, false, or what is called with points and total"),
        ({"tp": da.ones((2, 2), dtype=int)}, "tp: got a Array of dask; name its dimensions with an xarray.DataArray"),
        (
            {
                "layers": xr.DataArray(da.arange(2, 6, chunks=2), dims="x"),
                "batch_size": xr.DataArray(da.arange(2, 6, chunks=3), dims="x"),
            },
            "batch_size: its chunks along 'x' differ from those of another argument",
        ),
    ],
)
def test_refused(more, message):
    with pytest.raises(ss.ParameterError) as caught:
        ss.sweep(**{**SMALL, **more})
    assert str(caught.value).startswith(message)


def test_a_result_beyond_memory(monkeypatch):
    monkeypatch.setattr(evaluate, "available_memory", lambda: 1000)
    with pytest.raises(
        ss.ResultTooLargeError, match=r'write it block by block with to="sweep\.nc", or .* chunks="auto"'
    ):
        ss.sweep(**SMALL)
    assert ss.sweep(**SMALL, chunks="auto").tps.shape == (5, 3)


def test_a_space_beyond_every_memory():
    ds = ss.sweep(
        model="llama-3.2-1b",
        memory="fictional_stacked_dram",
        layers=range(2, 102),
        batch_size=range(1, 10001),
        input_seq_len=range(1, 10001),
        chunks="auto",
    )
    assert ds.tps.size == 10**10
    assert max(map(len, ds.tps.chunks)) > 1
    one = ds.tps.sel(layers=3, batch_size=77, input_seq_len=99)
    assert (
        float(one)
        == ss.sweep(
            model="llama-3.2-1b", memory="fictional_stacked_dram", layers=3, batch_size=77, input_seq_len=99
        ).tps.item()
    )


# --- boxes -----------------------------------------------------------------------------------------------------------


def test_chunks_cut_the_design_before_the_load():
    sizes = {"batch_size": 256, "layers": 10, "tp": 4, "input_seq_len": 1000}
    assert chunk_shape(sizes, 2**18) == {"batch_size": 256, "layers": 1, "tp": 1, "input_seq_len": 1000}
    assert chunk_shape(sizes, 10**6) == {"batch_size": 256, "layers": 1, "tp": 2, "input_seq_len": 1000}
    assert chunk_shape(sizes, 10**4) == {"batch_size": 10, "layers": 1, "tp": 1, "input_seq_len": 1000}
    assert chunk_shape(sizes, 10**8) == sizes
    assert chunk_shape({"point": 10**6}, 3 * 10**5) == {"point": 250_000}
    assert chunk_shape({}, 100) == {}


@pytest.mark.parametrize("points", [1, 7, 100, 5000, 10**6])
@pytest.mark.parametrize(
    "sizes", [{"a": 3, "layers": 50, "batch_size": 17}, {"input_seq_len": 1000, "tp": 2}, {"point": 999}]
)
def test_blocks_are_whole_chunks_and_cover_every_point_once(sizes, points):
    chunk = chunk_shape(sizes, points)
    block = block_shape(sizes, chunk, 8 * points)
    assert np.prod(list(chunk.values())) <= points
    assert np.prod(list(block.values())) <= 8 * points
    assert all(block[dim] % chunk[dim] == 0 or block[dim] == size for dim, size in sizes.items())
    covered = np.zeros(tuple(sizes.values()), int)
    for box in boxes(pieces(sizes, block)):
        covered[tuple(box.values())] += 1
    assert (covered == 1).all()


def test_chunks_by_the_name_of_a_parameter():
    sizes = {"weight_bytes_per_element": 5}
    assert cut_as_asked({"weight_bytes": 2}, sizes) == {"weight_bytes_per_element": (2, 2, 1)}
