"""Sweeps into files: equal to those in memory, whole or not there, and continued where they were interrupted."""

import errno
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import stacksweep as ss
from stacksweep import netcdf, stream
from stacksweep.explorer.call import call_of
from strategies import bitwise_equal

pytest.importorskip("zarr")

GRID: dict[str, Any] = {
    "model": ["llama-3.2-1b", "gpt-oss-20b"],
    "memory": "fictional_stacked_dram",
    "noc": "gpu_cluster_32",
    "layers": [2, 3, 8],
    "connected_layers": [2, 4],
    "tp": [1, 2, 4],
    "dp": "fill",
    "batch_size": [1, 5, 16, 64, 65],
    "input_seq_len": [64, 500],
    "output_seq_len": 40,
}
SMALL: dict[str, Any] = {
    "model": "llama-3.2-1b",
    "memory": "fictional_stacked_dram",
    "layers": [2, 3, 4, 5, 6],
    "batch_size": [1, 2, 3],
}
FOUR_POINTS = 4 * 3 * 68
"""Memory for three blocks of four points of the main results."""


@pytest.fixture(params=[".nc", ".zarr"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / f"sweep{request.param}"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def read(path: Path) -> xr.Dataset:
    opened = xr.open_zarr(path) if path.suffix == ".zarr" else xr.open_dataset(path)
    with opened:
        return opened.load()


# --- what is written -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        {"outputs": "all"},
        {"max_memory": "30 kB"},
        {"chunks": {"batch_size": 2}, "dtype": "float32", "outputs": ["tps", "fits", "prefill_collective_time"]},
    ],
)
def test_a_file_equals_the_sweep_and_what_save_writes(target: Path, tmp_path: Path, more: dict[str, Any]):
    expected = ss.sweep(**GRID, **{name: value for name, value in more.items() if name in ("outputs", "dtype")})
    with ss.sweep(**GRID, to=target, **more) as ds:
        assert all(variable.chunks for variable in ds.data_vars.values())
        xr.testing.assert_identical(ds, expected)
        assert bitwise_equal(ds.load(), expected)
    saved = tmp_path / f"saved{target.suffix}"
    ss.save(expected, saved)
    one, other = read(target), read(saved)
    xr.testing.assert_identical(one, other)
    assert list(one.variables) == list(other.variables)
    layout = {"source", "chunks", "preferred_chunks", "chunksizes", "contiguous", "zlib", "shuffle", "complevel"}
    for name in one.variables:
        of_one, of_other = (
            {key: repr(value) for key, value in ds[name].encoding.items() if key not in {*layout, "compressors"}}
            for ds in (one, other)
        )
        assert of_one == of_other
    assert names(tmp_path) == sorted((saved.name, target.name))


def test_one_point_and_points(target: Path):
    point = {"model": "llama-3.2-1b", "memory": "fictional_stacked_dram"}
    xr.testing.assert_identical(ss.sweep(**point, to=target).load(), ss.sweep(**point))
    points = xr.Dataset({"layers": ("point", np.arange(2, 30)), "batch_size": ("point", np.arange(28, 0, -1))})
    ds = ss.sweep(**point, points=points, to=target, max_memory=FOUR_POINTS, outputs=["main"])
    xr.testing.assert_identical(ds.load(), ss.sweep(**point, points=points, outputs=["main"]))


def test_without_dask(tmp_path: Path):
    code = (
        "import sys; sys.modules['dask'] = sys.modules['dask.array'] = None\n"
        "import stacksweep as ss\n"
        f"ds = ss.sweep(**{SMALL!r}, to='a.nc')\n"
        "print(ds.tps.chunks, ds.tps.shape)\n"
        "for more in ({'chunks': 'auto'}, {'to': 'a.zarr'}):\n"
        "    try:\n"
        f"        ss.sweep(**{SMALL!r}, **more)\n"
        "    except ss.ParameterError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "None (5, 3)",
        "chunks: needs the package dask; install stacksweep[distributed]",
        "to: .zarr needs the packages zarr and dask; install stacksweep[distributed], or write .nc",
    ]
    assert done.stderr == ""
    assert names(tmp_path) == ["a.nc"]


@pytest.mark.parametrize(
    ("compression", "filters"),
    [("auto", ["zlib", "shuffle"]), ("zlib", ["zlib", "shuffle"]), ("zstd", ["zstd"]), ("none", [])],
)
def test_compression_of_netcdf(tmp_path: Path, compression: str, filters: list[str]):
    ds = ss.sweep(**SMALL, to=tmp_path / "a.nc", compression=compression)
    import netCDF4

    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert [name for name, used in (file["tps"].filters() or {}).items() if used is True] == filters
    xr.testing.assert_identical(ds.load(), ss.sweep(**SMALL))


def test_compression_of_zarr(tmp_path: Path):
    for compression, name in (("auto", "zstd"), ("zlib", "zlib"), ("none", None)):
        with ss.sweep(**SMALL, to=tmp_path / "a.zarr", compression=compression) as ds:
            compressors = ds.tps.encoding["compressors"]
            assert (compressors[0].cname if compressors else None) == name
            xr.testing.assert_identical(ds.load(), ss.sweep(**SMALL))


def test_chunks_hold_few_stacks_and_all_their_loads(target: Path):
    key = "chunksizes" if target.suffix == ".nc" else "chunks"
    given = {**SMALL, "layers": range(2, 42), "input_seq_len": range(1, 2001), "outputs": "capacity"}
    with ss.sweep(**given, to=target) as ds:
        assert ds.capacity.sizes == {"layers": 40, "batch_size": 3, "input_seq_len": 2000}
        assert ds.capacity.encoding[key] == (40, 3, 2000)
    with ss.sweep(**{**given, "batch_size": range(1, 101)}, to=target) as ds:
        assert ds.capacity.encoding[key] == (1, 100, 2000)
    with ss.sweep(**given, to=target, chunks={"layers": 7, "input_seq_len": 500}) as ds:
        assert ds.capacity.encoding[key] == (7, 3, 500)


def test_progress(target: Path, capsys: pytest.CaptureFixture[str]):
    seen: list[tuple[int, int]] = []
    ss.sweep(**SMALL, to=target, max_memory=FOUR_POINTS, progress=lambda *done: seen.append(done)).close()
    assert seen == [(done, 15) for done in range(0, 16, 3)]
    for shown in (None, True, False):
        ss.sweep(**SMALL, to=target, progress=shown).close()
    # no terminal
    assert capsys.readouterr() == ("", "")


def test_a_file_is_replaced_when_the_new_one_is_whole(target: Path):
    ss.save(xr.Dataset({"a": ("x", [1.0])}), target)
    xr.testing.assert_identical(ss.sweep(**SMALL, to=target).load(), ss.sweep(**SMALL))
    assert names(target.parent) == [target.name]


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"to": "a.csv"}, "to: got 'a.csv', needs the path of a file that ends in .nc or .zarr"),
        ({"to": 3}, "to: got 3, needs the path of a file that ends in .nc or .zarr"),
        ({"resume": True}, "resume: got to='a.nc', and only a sweep into .zarr can be resumed"),
        ({"resume": "yes"}, "resume: got 'yes', needs true or false"),
        ({"compression": "gzip"}, "compression: got 'gzip', needs one of auto, zlib, zstd, none"),
        ({"compression": None}, "compression: got None, needs one of auto, zlib, zstd, none"),
        (
            {"max_memory": "much"},
            """max_memory: got 'much', needs a number of bytes, or text as in "2 GB" or "512 MiB\"""",
        ),
        ({"max_memory": -1}, "max_memory: got -1, needs a number of bytes"),
        ({"max_memory": float("nan")}, "max_memory: got nan, needs a number of bytes"),
        ({"max_memory": True}, "max_memory: got True, needs a number of bytes"),
        ({"max_memory": 100}, "max_memory: got 100 bytes, needs at least 204 for 3 chunks"),
        (
            {"max_memory": 1000, "chunks": {"layers": 3}},
            "max_memory: got 1,000 bytes, needs at least 1,836 for 3 chunks",
        ),
        ({"chunks": {"layers": 0}}, "chunks: layers: got 0, needs a whole number of at least 1"),
        ({"progress": 3}, "progress: got 3, needs true, false, or what is called with points and total"),
        ({"layers": 0}, "layers: got 0, needs"),
    ],
)
def test_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], message: str):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ss.ParameterError) as caught:
        ss.sweep(**{**SMALL, "to": "a.nc", **more})
    assert str(caught.value).startswith(message)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("1000", 1000), ("2GB", 2 * 10**9), (" 1.5 GiB ", 3 * 2**29), ("512 mib", 2**29), ("3kb", 3000), (1e6, 10**6)],
)
def test_max_memory(text: Any, nbytes: int):
    assert stream.memory_of(text) == nbytes


def test_paths_that_cannot_be_written(target: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        ss.sweep(**SMALL, to=target.parent / "no" / target.name)
    target.mkdir()
    (target / "precious").touch()
    with pytest.raises(IsADirectoryError, match="is a folder"):
        ss.sweep(**SMALL, to=target)
    assert names(target) == ["precious"]
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError, match="cannot be written to"):
        ss.sweep(**SMALL, to=target.with_name(f"other{target.suffix}"))
    assert names(target.parent) == [target.name]


# --- what goes wrong -------------------------------------------------------------------------------------------------


def test_a_disk_that_has_too_little_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(netcdf.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10}))
    with pytest.raises(OSError, match=r"needs 0\.0 GiB, and 0\.0 GiB are free in its folder") as caught:
        ss.sweep(**SMALL, to=tmp_path / "a.nc", compression="none")
    assert caught.value.errno == errno.ENOSPC
    assert names(tmp_path) == []


def test_a_disk_that_is_full_in_the_middle(target: Path):
    old = xr.Dataset({"a": ("x", [1.0])})
    ss.save(old, target)
    given = {**SMALL, "layers": range(2, 100), "batch_size": range(1, 200), "compression": "none"}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"could not be written, maybe for want of room|File too large"):
            ss.sweep(**given, to=target, max_memory="10 MB")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    xr.testing.assert_identical(read(target), old)
    assert names(target.parent) == [target.name]


@pytest.mark.parametrize(
    "error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt(), MemoryError()], ids=repr
)
def test_an_error_in_the_middle(target: Path, error: BaseException):
    def interrupt(done: int, total: int) -> None:
        if done == 6:
            raise error

    ss.save(xr.Dataset({"a": ("x", [1.0])}), target)
    with pytest.raises(type(error)) as caught:
        ss.sweep(**SMALL, to=target, max_memory=FOUR_POINTS, progress=interrupt)
    assert caught.value is error
    assert list(read(target)) == ["a"]
    if target.suffix == ".zarr":
        notes = error.__notes__.pop()
        assert notes.endswith(" of 5 blocks are kept; resume goes on with the others")
        assert 2 <= int(notes.split()[0]) <= 4
        # a new sweep begins anew
        ss.sweep(**SMALL, to=target, max_memory=FOUR_POINTS).close()
    assert names(target.parent) == [target.name]


HELD = """
import json, os, signal, sys, threading
import stacksweep as ss

interrupted = threading.Event()

def interrupt(*_):
    interrupted.set()
    raise KeyboardInterrupt

def hold(done, total):
    if done == 6:
        print("in the middle", flush=True)
        interrupted.wait()

signal.signal(signal.SIGINT, interrupt)
to, given, memory = json.loads(sys.argv[1])
ss.sweep(**given, to=to, max_memory=memory, progress=hold)
"""


def end_in_the_middle(target: Path, number: signal.Signals) -> str:
    """Start a sweep in a process of its own and end it after two of its five blocks; returns what it says."""
    arguments = json.dumps([str(target), SMALL, FOUR_POINTS])
    with subprocess.Popen(
        [sys.executable, "-c", HELD, arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "in the middle\n"
            process.send_signal(number)
            _, err = process.communicate(timeout=300)
        finally:
            process.kill()
    assert process.returncode != 0
    return err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_end_in_the_middle_leaves_nothing_after_the_next_run(tmp_path: Path, number: signal.Signals):
    target = tmp_path / "a.nc"
    text = end_in_the_middle(target, number)
    if number == signal.SIGINT:
        assert "KeyboardInterrupt" in text
        assert names(tmp_path) == []
    left = names(tmp_path)
    assert [name.startswith(".a.nc.part-") for name in left] == [True] * (number == signal.SIGKILL)
    xr.testing.assert_identical(ss.sweep(**SMALL, to=target).load(), ss.sweep(**SMALL))
    assert names(tmp_path) == ["a.nc"]


def test_files_of_other_targets_and_of_live_processes_stay(tmp_path: Path):
    prefix = netcdf._prefix(tmp_path / "a.nc")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    kept = [
        f"{prefix}{os.getppid()}-abc",
        ".a.nc.part-elsewhere-1-abc",
        f"{netcdf._prefix(Path('b.nc'))}{gone.pid}-abc",
    ]
    for name in (*kept, f"{prefix}{gone.pid}-abc"):
        (tmp_path / name).touch()
    ss.sweep(**SMALL, to=tmp_path / "a.nc").close()
    assert names(tmp_path) == sorted(["a.nc", *kept])


# --- resuming --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_resume(tmp_path: Path, number: signal.Signals):
    target = tmp_path / "a.zarr"
    end_in_the_middle(target, number)
    assert names(tmp_path) == [".a.zarr.part"]
    seen: list[int] = []
    # other memory and chunks do not matter: the store goes on as it was begun
    ds = ss.sweep(**SMALL, to=target, resume=True, chunks={"layers": 2}, progress=lambda done, _: seen.append(done))
    assert seen == list(range(seen[0], 16, 3))
    assert 6 <= seen[0] < 15
    xr.testing.assert_identical(ds.load(), ss.sweep(**SMALL))
    assert names(tmp_path) == ["a.zarr"]


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    target = tmp_path / "a.zarr"

    def interrupt(done: int, total: int) -> None:
        if done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ss.sweep(**SMALL, to=target, max_memory=FOUR_POINTS, progress=interrupt)
    return target


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"layers": [2, 3, 4, 5, 7]}, "with other values of layers"),
        (
            {"batch_size": [1, 2, 3], "output_seq_len": 7, "outputs": "all"},
            "with other values of outputs, output_seq_len",
        ),
        ({"dtype": "float32"}, "with other values of dtype"),
        (
            {
                "memory": {
                    **ss.load_memory("fictional_stacked_dram").to_dict(),
                    "energy": {"read_pj_per_bit": 1, "write_pj_per_bit": 2},
                }
            },
            "with other profiles",
        ),
    ],
)
def test_another_call_is_not_resumed(interrupted: Path, other: dict[str, Any], words: str):
    with pytest.raises(ss.ParameterError) as caught:
        ss.sweep(**{**SMALL, **other}, to=interrupted, resume=True)
    assert str(caught.value) == (
        f"resume: {interrupted} was begun {words}; make the same call, or begin anew without resume"
    )
    # what is there can still be resumed
    assert ss.sweep(**SMALL, to=interrupted, resume=True).load().identical(ss.sweep(**SMALL))


def test_a_trace_of_the_same_name_is_another_call(tmp_path: Path):
    given: dict[str, Any] = {"model": "gpt-oss-20b", "memory": "h100_sxm", "batch_size": [1, 2, 3, 4]}
    for number, folder in enumerate(("a", "b")):
        (tmp_path / folder).mkdir()
        ids = (np.arange(64)[:, None] * (7 + number) + np.arange(4)) % 32
        ids[-1] = 31
        np.savez(tmp_path / folder / "t.npz", prefill=np.tile(ids, (200, 1)), decode=ids)
    given |= {"input_seq_len": 64, "output_seq_len": 2}
    first = ss.sweep(**given, routing=tmp_path / "a" / "t.npz", to=tmp_path / "s.zarr")
    (trace,) = json.loads(first.attrs["profiles"])["routing"]
    assert (trace["name"], trace["path"]) == ("t", str(tmp_path / "a" / "t.npz"))
    assert trace["sha256"] == hashlib.sha256((tmp_path / "a" / "t.npz").read_bytes()).hexdigest()
    assert call_of(first)["sources"]["routing"] == {"t": json.dumps(trace["path"])}  # type: ignore[index]
    with pytest.raises(ss.ParameterError, match="with other profiles"):
        ss.sweep(**given, routing=tmp_path / "b" / "t.npz", to=tmp_path / "s.zarr", resume=True)


def test_many_values_are_compared_too(tmp_path: Path):
    given = {**SMALL, "input_seq_len": np.arange(1, 1202)}
    ss.sweep(**given, to=tmp_path / "a.zarr").close()
    with pytest.raises(ss.ParameterError, match="with other coordinates"):
        ss.sweep(**{**given, "input_seq_len": np.arange(2, 1203)}, to=tmp_path / "a.zarr", resume=True)


def test_a_whole_store_is_resumed_by_opening_it(tmp_path: Path):
    target = tmp_path / "a.zarr"
    seen: list[int] = []
    first = ss.sweep(**SMALL, to=target, resume=True).load()
    before = (target / ".zmetadata").stat().st_mtime_ns
    again = ss.sweep(**SMALL, to=target, resume=True, progress=lambda done, _: seen.append(done))
    xr.testing.assert_identical(again.load(), first)
    assert seen == [15]
    assert (target / ".zmetadata").stat().st_mtime_ns == before
    with pytest.raises(ss.ParameterError, match="with other values of layers"):
        ss.sweep(**{**SMALL, "layers": 3}, to=target, resume=True)
    assert names(tmp_path) == ["a.zarr"]


def test_a_version_that_is_gone_is_not_resumed(interrupted: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ss, "__version__", "9.9")
    with pytest.raises(ss.ParameterError, match=r"was begun by stacksweep \S+, and this is 9\.9; make the same call"):
        ss.sweep(**SMALL, to=interrupted, resume=True)


def test_a_torn_note_is_not_believed(interrupted: Path):
    notes = interrupted.with_name(".a.zarr.part") / "notes.jsonl"
    notes.write_text(notes.read_text().rstrip()[:-1])

    def interrupt(done: int, total: int) -> None:
        if done >= 9:
            raise KeyboardInterrupt

    # what is done after it is kept
    with pytest.raises(KeyboardInterrupt):
        ss.sweep(**SMALL, to=interrupted, resume=True, progress=interrupt)
    seen: list[int] = []
    ss.sweep(**SMALL, to=interrupted, resume=True, progress=lambda done, _: seen.append(done)).close()
    assert seen[0] >= 9
    assert ss.sweep(**SMALL, to=interrupted, resume=True).load().identical(ss.sweep(**SMALL))


def test_a_store_that_another_process_writes(interrupted: Path):
    import fcntl

    part = interrupted.with_name(".a.zarr.part")
    with (part / "notes.jsonl").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for resume in (False, True):
            with pytest.raises(BlockingIOError, match="another process is writing it"):
                ss.sweep(**SMALL, to=interrupted, resume=resume)
    assert ss.sweep(**SMALL, to=interrupted, resume=True).load().identical(ss.sweep(**SMALL))
