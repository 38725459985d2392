"""A NetCDF file that is written block by block."""

import errno
import os
import shutil
import socket
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any
from uuid import uuid4

import netCDF4
import numpy as np
import xarray as xr

from stacksweep.boxes import Box, boxes, pieces
from stacksweep.columns import Array
from stacksweep.io import not_written, put_file

FILTERS: Mapping[str, dict[str, Any]] = {
    # what every reader of NetCDF understands
    "auto": {"compression": "zlib", "complevel": 1, "shuffle": True},
    "zlib": {"compression": "zlib", "complevel": 1, "shuffle": True},
    "zstd": {"compression": "zstd", "complevel": 1},
    "none": {},
}


class NetcdfWriter:
    """
    Writes blocks under a temporary name in the same folder.

    Parameters
    ----------
    path : Path
        What the file will be called.
    template : xarray.Dataset
        Like the result; of its variables only shape, type and attributes count.
    chunk, block : dict
        Lengths along the dimensions: of chunks in the file, and of blocks.
    compression : str
        A name in `FILTERS`.

    Raises
    ------
    OSError
        If the file cannot be made.
    """

    def __init__(
        self, path: Path, template: xr.Dataset, chunk: dict[str, int], block: dict[str, int], compression: str
    ) -> None:
        self._path = path
        self._sizes = {dim: template.sizes[dim] for dim in chunk}
        self._block = block
        remove_left_over(path)
        if compression == "none":
            _check_room(path, template)
        self._part = path.with_name(f"{_prefix(path)}{os.getpid()}-{uuid4().hex[:6]}")
        try:
            self._file = _create(self._part, template, chunk, FILTERS[compression])
        except BaseException as error:
            self._part.unlink(missing_ok=True)
            if isinstance(error, RuntimeError):
                raise not_written(path, error) from None
            raise

    def todo(self) -> Sequence[Box]:
        """All blocks: an interrupted file cannot be continued."""
        return list(boxes(pieces(self._sizes, self._block)))

    def write(self, box: Box, arrays: Mapping[str, Array]) -> None:
        """Write a block."""
        try:
            for name, array in arrays.items():
                where = (slice(None),) * (array.ndim - len(box)) + tuple(box.values())
                self._file[name][where or ...] = array.view(np.int8) if array.dtype == bool else array
        except RuntimeError as error:
            raise not_written(self._path, error) from None

    def finish(self) -> None:
        """Close the file, and give it its name when it is on the disk."""
        try:
            self._file.close()
        except RuntimeError as error:
            raise not_written(self._path, error) from None
        put_file(self._part, self._path)

    def abandon(self, error: BaseException) -> None:
        """Remove the file."""
        self._part.unlink(missing_ok=True)
        if self._file.isopen():
            # what is left in its buffers may not be writable either, and need not be written
            with suppress(RuntimeError):
                self._file.close()


def _create(part: Path, template: xr.Dataset, chunk: dict[str, int], filters: dict[str, Any]) -> Any:
    """Make a file with all coordinates, and variables that are not filled, as xarray would write them."""
    attributes = _attributes(template)
    template.drop_vars(list(template.data_vars)).to_netcdf(part, engine="netcdf4", format="NETCDF4")
    file = netCDF4.Dataset(part, "a")
    file.set_fill_off()
    if "coordinates" in file.ncattrs():
        # of coordinates that no variable names; all variables name theirs
        file.delncattr("coordinates")
    for dim, size in template.sizes.items():
        if dim not in file.dimensions:
            file.createDimension(str(dim), size)
    for name, variable in template.data_vars.items():
        of_variable = dict(attributes[str(name)])
        kind = np.dtype(np.int8) if variable.dtype == bool else variable.dtype
        fill = of_variable.pop("_FillValue", None)
        shape = [chunk.get(str(dim), size) for dim, size in variable.sizes.items()]
        layout = {"chunksizes": shape, **filters} if shape else {}
        made = file.createVariable(str(name), kind, tuple(map(str, variable.dims)), fill_value=fill, **layout)
        made.setncatts(of_variable)
        made.set_auto_maskandscale(False)
        if shape:
            # blocks are whole chunks: a cache would only hold them back
            made.set_var_chunk_cache(prod(shape) * kind.itemsize, 11, 1.0)
    return file


def _attributes(template: xr.Dataset) -> dict[str, dict[str, Any]]:
    """Attributes that xarray gives variables in a file, read from a file of one point."""
    first = template.isel({dim: slice(0, 1) for dim in template.sizes})
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "first.nc"
        first.to_netcdf(small, engine="netcdf4", format="NETCDF4")
        with netCDF4.Dataset(small) as file:
            return {
                name: {attribute: variable.getncattr(attribute) for attribute in variable.ncattrs()}
                for name, variable in file.variables.items()
            }


def _check_room(path: Path, template: xr.Dataset) -> None:
    needed, free = template.nbytes, shutil.disk_usage(path.parent).free
    if needed > free:
        words = f"needs {needed / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free in its folder"
        raise OSError(errno.ENOSPC, words, str(path))


def _prefix(path: Path) -> str:
    return f".{path.name}.part-{socket.gethostname()}-"


def remove_left_over(path: Path) -> None:
    """Remove what processes of this machine that are gone have left of a file."""
    prefix = _prefix(path)
    for other in path.parent.iterdir():
        if other.name.startswith(prefix):
            pid = other.name.removeprefix(prefix).partition("-")[0]
            if pid.isdigit() and not _runs(int(pid)):
                other.unlink(missing_ok=True)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
