"""Datasets on disk: whole or not at all."""

import os
import shutil
import tempfile
from pathlib import Path

import xarray as xr


def save(dataset: xr.Dataset, path: str | os.PathLike[str]) -> None:
    """
    Write a Dataset to NetCDF, or to Zarr where the name ends in `.zarr`.

    It is written under a temporary name in the same folder and renamed when it is complete, so that an interruption
    or a full disk leaves what stood there before.

    Parameters
    ----------
    dataset : xarray.Dataset
        A lazy one is evaluated chunk by chunk while it is written.
    path : path
        Replaced if it exists.

    Raises
    ------
    OSError
        If the folder is missing, cannot be written to, or has no room; or if the path is a folder that is no Zarr
        store.
    """
    target = Path(path)
    check_target(target)
    # workers of a cluster may still be writing when one of them has failed: that must not hide why
    with tempfile.TemporaryDirectory(
        prefix=f".{target.name}.", dir=target.parent, ignore_cleanup_errors=True
    ) as folder:
        whole = Path(folder) / target.name
        if target.suffix == ".zarr":
            # format 2 has consolidated metadata and text as standard, so that it opens without a warning
            dataset.to_zarr(whole, zarr_format=2, consolidated=True)
            put_store(whole, target, Path(f"{folder}.replaced"))
            return
        try:
            dataset.to_netcdf(whole, engine="netcdf4")
        except RuntimeError as error:
            raise not_written(target, error) from None
        put_file(whole, target)


def check_target(target: Path) -> None:
    """
    Refuse a path that cannot be written to, before anything else is done.

    Raises
    ------
    OSError
        If its folder is missing or cannot be written to, or something else has its name.
    """
    zarr = target.suffix == ".zarr"
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target}: there is no folder {str(target.parent)!r}")
    if target.is_dir() and not (zarr and any((target / name).exists() for name in ("zarr.json", ".zgroup"))):
        raise IsADirectoryError(f"{target}: is a folder" + " and no Zarr store" * zarr)
    if zarr and target.is_file():
        raise NotADirectoryError(f"{target}: is a file, and a Zarr store is a folder")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise PermissionError(f"{target}: the folder {str(target.parent)!r} cannot be written to")


def not_written(target: Path, error: RuntimeError) -> OSError:
    """Say what netCDF4 makes of a full disk."""
    return OSError(f"{target}: could not be written, maybe for want of room: {error}")


def put_file(whole: Path, target: Path) -> None:
    """Give a complete file its name."""
    with whole.open("rb") as file:
        os.fsync(file.fileno())
    whole.replace(target)


def put_store(whole: Path, target: Path, replaced: Path) -> None:
    """Give a complete store its name; what had it before stands under `replaced` for a moment."""
    if target.is_dir():
        target.rename(replaced)
    try:
        whole.rename(target)
    except BaseException:
        if replaced.is_dir():
            replaced.rename(target)
        raise
    shutil.rmtree(replaced, ignore_errors=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """
    Write a text file in UTF-8, whole or not at all.

    Parameters
    ----------
    path : path
        Replaced if it exists.
    text : str

    Raises
    ------
    OSError
        If the folder is missing, cannot be written to, or has no room; or if the path is a folder.
    """
    target = Path(path)
    check_target(target)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        whole = Path(folder) / target.name
        whole.write_text(text, encoding="utf-8", newline="")
        put_file(whole, target)
