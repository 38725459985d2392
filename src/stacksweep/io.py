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
    path : path
        Replaced if it exists.

    Raises
    ------
    OSError
        If the folder is missing, cannot be written to, or has no room; or if the path is a folder that is no Zarr
        store.
    """
    target = Path(path)
    zarr = target.suffix == ".zarr"
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target}: there is no folder {str(target.parent)!r}")
    if target.is_dir() and not (zarr and any((target / name).exists() for name in ("zarr.json", ".zgroup"))):
        raise IsADirectoryError(f"{target}: is a folder")
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        whole = Path(folder) / target.name
        if not zarr:
            try:
                dataset.to_netcdf(whole, engine="netcdf4")
            except RuntimeError as error:
                # what netCDF4 makes of a full disk
                raise OSError(f"{target}: could not be written, maybe for want of room: {error}") from None
            with whole.open("rb") as file:
                os.fsync(file.fileno())
            whole.replace(target)
            return
        # format 2 has consolidated metadata and text as standard, so that it opens without a warning
        dataset.to_zarr(whole, zarr_format=2, consolidated=True)
        replaced = Path(f"{folder}.replaced")
        if target.is_dir():
            target.rename(replaced)
        try:
            whole.rename(target)
        except BaseException:
            if replaced.is_dir():
                replaced.rename(target)
            raise
        shutil.rmtree(replaced, ignore_errors=True)
