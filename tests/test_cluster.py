"""Lazy sweeps on a cluster of two processes."""

import os
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import stacksweep as ss
from strategies import MIXED_GRID

pytest.importorskip("distributed")
pytest.importorskip("zarr")
from distributed import Client, LocalCluster


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        yield client


def process_of(values: np.ndarray) -> np.ndarray:
    return np.full_like(values, os.getpid())


def test_processes_write_a_store_together(client: Client, tmp_path: Path):
    lazy = ss.sweep(**MIXED_GRID, chunks={"batch_size": 2, "layers": 1})
    ss.save(lazy, tmp_path / "a.zarr")
    expected = ss.sweep(**MIXED_GRID)
    with xr.open_zarr(tmp_path / "a.zarr") as written:
        assert written.tps.encoding["chunks"] == (2, 1, 2, 3, 2, 2, 2)
        xr.testing.assert_identical(written.load(), expected)
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]


def test_both_processes_price(client: Client):
    lazy = ss.sweep(**MIXED_GRID, outputs="tps", chunks={"batch_size": 1, "layers": 1, "input_seq_len": 1})
    processes = np.unique(lazy.tps.data.map_blocks(process_of).compute())
    assert len(processes) == 2
    assert os.getpid() not in processes


def test_what_is_kept_on_the_cluster(client: Client):
    lazy = ss.sweep(**MIXED_GRID, chunks={"batch_size": 2})
    kept = lazy.persist()
    expected = ss.sweep(**MIXED_GRID)
    # other variables of the same chunks, while those are kept: tasks of different content have different names
    assert float(lazy.tps.max()) == float(expected.tps.max())
    xr.testing.assert_identical(lazy[["tps", "fits"]].compute(), expected[["tps", "fits"]])
    xr.testing.assert_identical(kept.compute(), expected)


def test_tables_are_one_piece_of_the_graph(client: Client):
    lazy = ss.sweep(**MIXED_GRID, chunks={"batch_size": 1, "layers": 1})
    graph = dict(lazy.ttft.data.__dask_graph__())
    assert sum(isinstance(key, str) and key.startswith("tables-") for key in graph) == 1


def test_an_error_of_a_worker_reaches_the_caller(client: Client, tmp_path: Path):
    lazy = ss.sweep(**MIXED_GRID, chunks={"batch_size": 1})
    broken = lazy.assign(tps=lazy.tps.copy(data=lazy.tps.data.map_blocks(_refuse, dtype=float)))
    with pytest.raises(ZeroDivisionError):
        ss.save(broken, tmp_path / "a.zarr")
    assert not (tmp_path / "a.zarr").exists()


def _refuse(block: np.ndarray) -> np.ndarray:
    raise ZeroDivisionError
