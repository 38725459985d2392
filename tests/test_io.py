"""Files are whole or not there, whatever happens while they are written."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import stacksweep as ss

OLD = xr.Dataset({"a": ("x", [1.0, 2.0])}, {"x": [10, 20]}, {"title": "old"})
NEW = xr.Dataset({"b": ("y", [3.0, 4.0, 5.0])}, {"y": [1, 2, 3]}, {"title": "new"})
SUFFIXES = (".nc", ".zarr")


def read(path: Path) -> xr.Dataset:
    if path.suffix == ".zarr":
        return xr.open_zarr(path, consolidated=False).load()
    return xr.load_dataset(path)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=SUFFIXES)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / f"sweep{request.param}"


@pytest.fixture
def old(target: Path) -> Path:
    ss.save(OLD, target)
    return target


def assert_untouched(path: Path) -> None:
    """The old file is there, whole, and nothing beside it."""
    assert names(path.parent) == [path.name]
    xr.testing.assert_identical(read(path), OLD)


# --- what goes well --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [Path, str])
def test_save(target: Path, form: Callable[[Path], Any]):
    assert ss.save(NEW, form(target)) is None
    xr.testing.assert_identical(read(target), NEW)
    assert names(target.parent) == [target.name]


def test_save_replaces(old: Path):
    ss.save(NEW, old)
    xr.testing.assert_identical(read(old), NEW)
    assert names(old.parent) == [old.name]


def test_save_many_times(target: Path):
    for dataset in (OLD, NEW, OLD, NEW):
        ss.save(dataset, target)
        xr.testing.assert_identical(read(target), dataset)
    assert names(target.parent) == [target.name]


def test_a_name_in_the_working_directory(target: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(target.parent)
    ss.save(NEW, target.name)
    xr.testing.assert_identical(read(target), NEW)


def test_a_name_without_suffix_is_netcdf(tmp_path: Path):
    ss.save(NEW, tmp_path / "sweep")
    xr.testing.assert_identical(xr.load_dataset(tmp_path / "sweep", engine="netcdf4"), NEW)


def test_save_does_not_change_the_dataset(target: Path):
    ds = ss.sweep(model="llama-3.2-1b", memory="fictional_stacked_dram", layers=[3, 4], output_seq_len=2)
    before = ds.copy(deep=True)
    ss.save(ds, target)
    xr.testing.assert_identical(ds, before)


def test_the_file_has_the_rights_of_a_new_file(target: Path):
    mask = os.umask(0o027)
    try:
        ss.save(NEW, target)
        plain = target.parent / "plain"
        plain.mkdir() if target.suffix == ".zarr" else plain.touch()
    finally:
        os.umask(mask)
    assert target.stat().st_mode == plain.stat().st_mode


def test_readers_of_the_old_file_keep_it(old: Path):
    if old.suffix == ".zarr":
        pytest.skip("chunks of a store are opened one by one")
    with xr.open_dataset(old) as opened:
        ss.save(NEW, old)
        xr.testing.assert_identical(opened.load(), OLD)
    xr.testing.assert_identical(read(old), NEW)


# --- what does not ---------------------------------------------------------------------------------------------------

FAILURES = [
    OSError(errno.ENOSPC, "No space left on device"),
    KeyboardInterrupt(),
    MemoryError(),
    ValueError("something that a file cannot hold"),
]


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_error_while_writing_leaves_the_old_file(
    old: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, when: str
):
    method = "to_zarr" if old.suffix == ".zarr" else "to_netcdf"
    real = getattr(xr.Dataset, method)

    def fail(self: xr.Dataset, path: Any, **options: Any) -> None:
        if when == "after":
            real(self, path, **options)
        else:
            Path(path).with_suffix(".part").write_bytes(b"half")
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(xr.Dataset, method, fail)
        with pytest.raises(type(error)) as caught:
            ss.save(NEW, old)
    assert caught.value is error
    assert_untouched(old)


@pytest.mark.parametrize("error", FAILURES[:2], ids=lambda error: type(error).__name__)
def test_an_error_while_writing_leaves_nothing_new(target: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException):
    def fail(self: xr.Dataset, path: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr(xr.Dataset, "to_zarr" if target.suffix == ".zarr" else "to_netcdf", fail)
    with pytest.raises(type(error)):
        ss.save(NEW, target)
    assert names(target.parent) == []


@pytest.mark.parametrize("name", ["replace", "rename"])
@pytest.mark.parametrize("error", FAILURES[:2], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("nth", [1, 2])
def test_an_error_while_renaming_leaves_the_old_file(
    old: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, name: str, nth: int
):
    """The nth renaming that has to do with the file itself fails."""
    real = getattr(Path, name)
    seen = []

    def fail(self: Path, to: Any) -> Any:
        if old in (self, Path(to)):
            seen.append(self)
            if len(seen) == nth:
                raise error
        return real(self, to)

    with monkeypatch.context() as patch:
        patch.setattr(Path, name, fail)
        try:
            ss.save(NEW, old)
        except type(error):
            assert_untouched(old)
        else:
            assert len(seen) < nth
            xr.testing.assert_identical(read(old), NEW)


def test_a_dataset_that_no_file_can_hold(old: Path):
    bad = NEW.assign_attrs(nothing={"a": {1, 2}})
    with pytest.raises(TypeError):
        ss.save(bad, old)
    assert_untouched(old)


def test_a_folder_that_is_missing(target: Path):
    path = target.parent / "missing" / target.name
    with pytest.raises(FileNotFoundError) as caught:
        ss.save(NEW, path)
    assert str(caught.value) == f"{path}: there is no folder {str(path.parent)!r}"
    assert names(target.parent) == []


def test_a_folder_that_is_a_file(target: Path):
    target.parent.joinpath("file").touch()
    with pytest.raises(OSError, match="there is no folder"):
        ss.save(NEW, target.parent / "file" / target.name)


def test_a_path_that_is_a_folder(target: Path):
    target.mkdir()
    (target / "precious").write_text("keep me")
    with pytest.raises(IsADirectoryError) as caught:
        ss.save(NEW, target)
    assert str(caught.value) == f"{target}: is a folder" + " and no Zarr store" * (target.suffix == ".zarr")
    assert (target / "precious").read_text() == "keep me"
    assert names(target.parent) == [target.name]


def test_a_store_is_not_replaced_by_a_file(tmp_path: Path):
    # the name says what is written; a store of another name is a folder like any other
    ss.save(OLD, tmp_path / "a.zarr")
    (tmp_path / "a.zarr").rename(tmp_path / "a.nc")
    with pytest.raises(IsADirectoryError):
        ss.save(NEW, tmp_path / "a.nc")


def test_a_file_in_the_place_of_a_store(tmp_path: Path):
    path = tmp_path / "a.zarr"
    path.write_text("not a store")
    with pytest.raises(OSError, match=r"a\.zarr"):
        ss.save(NEW, path)
    assert path.read_text() == "not a store"
    assert names(tmp_path) == ["a.zarr"]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs a folder that nobody can write to")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_folder_that_cannot_be_written_to(suffix: str):
    with pytest.raises(OSError, match=r"/proc"):
        ss.save(NEW, f"/proc/sweep{suffix}")


def test_a_disk_that_is_full(old: Path, monkeypatch: pytest.MonkeyPatch):
    if old.suffix == ".zarr":
        pytest.skip("the end of a file is synced for NetCDF only")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        ss.save(NEW, old)
    monkeypatch.undo()
    assert_untouched(old)


def test_long_names(tmp_path: Path):
    # 255 bytes are the most that file systems take
    path = tmp_path / ("s" * 200 + ".nc")
    ss.save(NEW, path)
    xr.testing.assert_identical(read(path), NEW)


def test_values_survive_to_the_last_bit(target: Path):
    values = np.array([np.nan, np.inf, -0.0, 5e-324, 1 / 3, np.finfo("f8").max])
    single = np.array([np.nan, -np.inf, -0.0, 1e-45, 1 / 3, np.finfo("f4").max], "f4")
    ds = xr.Dataset({"double": ("x", values), "single": ("x", single), "flag": ("x", values > 0)})
    ss.save(ds, target)
    again = read(target)
    for name in ds:
        assert again[name].dtype == ds[name].dtype
        assert again[name].values.tobytes() == ds[name].values.tobytes()
