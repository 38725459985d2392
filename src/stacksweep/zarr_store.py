"""A Zarr store that is written block by block, and can be continued."""

import fcntl
import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from stacksweep.boxes import Box, boxes, pieces
from stacksweep.columns import Array
from stacksweep.io import put_store
from stacksweep.parameters import ParameterError

try:
    import dask.array as da
    import zarr
    from numcodecs import Blosc
except ImportError:
    raise ParameterError(
        "to: .zarr needs the packages zarr and dask; install stacksweep[distributed], or write .nc"
    ) from None

COMPRESSORS: Mapping[str, Any] = {
    "auto": Blosc("zstd", 1, Blosc.SHUFFLE),
    "zlib": Blosc("zlib", 1, Blosc.SHUFFLE),
    "zstd": Blosc("zstd", 1, Blosc.SHUFFLE),
    "none": None,
}

NOTES = "notes.jsonl"
"""File beside the store: what is written, then a line for each block that is done."""


class ZarrWriter:
    """
    Writes blocks into a store under a temporary name in the same folder.

    What an interrupted process has written stays there; a process that is to resume it goes on with the blocks that are
    not done. Blocks count as done once they are handed to the operating system.

    Parameters
    ----------
    path : Path
        What the store will be called.
    template : xarray.Dataset
        Like the result; of its variables only shape, type and attributes count.
    chunk, block : dict
        Lengths along the dimensions: of chunks in the store, and of blocks.
    compression : str
        A name in `COMPRESSORS`.
    resume : bool
        Whether to go on with what is there; it keeps its chunks, blocks and compression.

    Raises
    ------
    ParameterError
        If what is there is of another call.
    OSError
        If the store cannot be made, or another process writes it.
    """

    def __init__(
        self,
        path: Path,
        template: xr.Dataset,
        chunk: dict[str, int],
        block: dict[str, int],
        compression: str,
        *,
        resume: bool,
    ) -> None:
        self._path, self._part = path, path.with_name(f".{path.name}.part")
        self._store = self._part / "store"
        self._sizes = {dim: template.sizes[dim] for dim in chunk}
        self._block = block
        self._whole = False
        self._done: set[tuple[int, ...]] = set()
        identity = _identity(template)
        begun = self._lock()
        try:
            if begun and resume:
                _check_same(path, begun[0]["identity"], identity)
                self._block = begun[0]["block"]
                self._done = {tuple(starts) for starts in begun[1:]}
            elif resume and path.is_dir():
                with xr.open_zarr(path, chunks=None) as there:
                    _check_same(path, _identity(there), identity)
                self._whole = True
                self._discard()
                return
            else:
                self._create(template, chunk, compression)
                self._note({"identity": identity, "block": block})
            group: Any = zarr.open_group(self._store, mode="r+", zarr_format=2, use_consolidated=False)
            self._arrays = {str(name): group[str(name)] for name in template.data_vars}
        except BaseException:
            if begun and resume:
                self._notes.close()
            else:
                self._discard()
            raise

    def _lock(self) -> list[Any]:
        """Take hold of the temporary store; returns what has been noted in it."""
        self._part.mkdir(exist_ok=True)
        self._notes = (self._part / NOTES).open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._notes, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._notes.close()
            raise BlockingIOError(f"{self._path}: another process is writing it") from None
        self._notes.seek(0)
        found = []
        for line in self._notes:
            try:
                found.append(json.loads(line))
            except ValueError:
                # the process ended in the middle of it, or the line is empty
                continue
        return found

    def _create(self, template: xr.Dataset, chunk: dict[str, int], compression: str) -> None:
        """Make a store with all coordinates and attributes, and no results."""
        self._notes.truncate(0)
        shutil.rmtree(self._store, ignore_errors=True)
        empty = {
            name: (variable.dims, da.empty(variable.shape, chunks=-1, dtype=variable.dtype), variable.attrs)
            for name, variable in template.data_vars.items()
        }
        encoding = {
            name: {
                "chunks": tuple(chunk.get(str(dim), size) for dim, size in variable.sizes.items()),
                "compressors": COMPRESSORS[compression],
            }
            for name, variable in template.data_vars.items()
        }
        template.assign(empty).to_zarr(self._store, compute=False, zarr_format=2, consolidated=True, encoding=encoding)

    def _note(self, what: Any) -> None:
        # on a line of its own, even after one that was not finished
        self._notes.write("\n" + json.dumps(what) + "\n")
        self._notes.flush()

    def todo(self) -> Sequence[Box]:
        """Blocks that are not done."""
        if self._whole:
            return []
        return [box for box in boxes(pieces(self._sizes, self._block)) if _starts(box) not in self._done]

    def write(self, box: Box, arrays: Mapping[str, Array]) -> None:
        """Write a block, and note that it is done."""
        for name, array in arrays.items():
            where = (slice(None),) * (array.ndim - len(box)) + tuple(box.values())
            self._arrays[name][where or ...] = array.view(np.int8) if array.dtype == bool else array
        self._done.add(_starts(box))
        self._note(_starts(box))

    def finish(self) -> None:
        """Give the store its name."""
        if self._whole:
            return
        put_store(self._store, self._path, self._part / "replaced")
        self._discard()

    def abandon(self, error: BaseException) -> None:
        """Keep the store, if there is anything in it, for a process that resumes it."""
        if self._done and self._store.is_dir():
            blocks = len(list(boxes(pieces(self._sizes, self._block))))
            error.add_note(f"{len(self._done)} of {blocks} blocks are kept; resume goes on with the others")
            self._notes.close()
        else:
            self._discard()

    def _discard(self) -> None:
        shutil.rmtree(self._part, ignore_errors=True)
        self._notes.close()


def _starts(box: Box) -> tuple[int, ...]:
    return tuple(along.start for along in box.values())


def _identity(dataset: xr.Dataset) -> dict[str, str]:
    """Say what tells calls apart: arguments, profiles and version, and the values of all coordinates."""
    digest = hashlib.sha256()
    for name in sorted(map(str, dataset.coords)):
        values = dataset[name].values
        digest.update(f"{name} {values.shape}".encode())
        digest.update(values.tobytes() if values.dtype.kind in "biuf" else json.dumps(values.tolist()).encode())
    attributes = {name: dataset.attrs.get(name, "") for name in ("stacksweep_version", "call", "profiles")}
    return {**attributes, "coordinates": digest.hexdigest()}


def _check_same(path: Path, there: Mapping[str, str], now: Mapping[str, str]) -> None:
    if there == now:
        return
    if there["stacksweep_version"] != now["stacksweep_version"]:
        words = f"by stacksweep {there['stacksweep_version']}, and this is {now['stacksweep_version']}"
    elif there["call"] != now["call"]:
        old, new = (json.loads(one["call"]) for one in (there, now))
        differ = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        words = f"with other values of {', '.join(differ)}"
    else:
        words = "with other " + ("profiles" if there["profiles"] != now["profiles"] else "coordinates")
    raise ParameterError(f"resume: {path} was begun {words}; make the same call, or begin anew without resume")
