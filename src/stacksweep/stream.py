"""
Sweeps into files: block by block, with bounded memory.

The caller's thread prices blocks on all cores, a second one writes them; at most one block waits between the two. A
file appears under its name only when it is whole.
"""

import os
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import xarray as xr

from stacksweep.blocks import Layout, Problem, Raw
from stacksweep.boxes import Box, block_shape, chunk_shape, cut_as_asked, part
from stacksweep.columns import Array
from stacksweep.evaluate import Done, assemble, available_memory, point_bytes, price, raw_results, values_of
from stacksweep.io import check_target
from stacksweep.parameters import ParameterError
from stacksweep.progress import Progress, reporting
from stacksweep.results import Result
from stacksweep.space import Space

CHUNK_POINTS = 2**18
"""Points of a chunk in a file: 2 MiB of a real result."""

BLOCK_POINTS = 2**21
"""Points of a block at the most: many against the cost of a block; more gain nothing."""

LEAST_BLOCKS = 8
"""Blocks of a sweep, if they have the points of a chunk: while one is written, the next is priced."""

HELD = 3
"""Blocks at a time: one is priced, one waits, one is written."""

COMPRESSIONS = ("auto", "zlib", "zstd", "none")


@dataclass(frozen=True)
class Target:
    """
    Where and how a sweep is written.

    Parameters
    ----------
    path : Path
        Ends in `.nc` or `.zarr`.
    resume : bool
        Whether to go on with what an interrupted sweep has left.
    max_memory : int
        Bytes of results that may be held at a time.
    compression : str
        One of `COMPRESSIONS`.
    """

    path: Path
    resume: bool
    max_memory: int
    compression: str

    @classmethod
    def of(cls, to: Any, *, resume: Any, max_memory: Any, compression: Any) -> "Target":
        """
        Check the arguments that say where a sweep goes.

        Raises
        ------
        ParameterError
            If one of them is not allowed, or a package is missing.
        OSError
            If the folder is missing or cannot be written to, or the path is something else.
        """
        if not isinstance(to, str | os.PathLike) or Path(to).suffix not in (".nc", ".zarr"):
            raise ParameterError(f"to: got {to!r}, needs the path of a file that ends in .nc or .zarr")
        path = Path(to)
        if not isinstance(resume, bool):
            raise ParameterError(f"resume: got {resume!r}, needs true or false")
        if resume and path.suffix != ".zarr":
            raise ParameterError(f"resume: got to={str(to)!r}, and only a sweep into .zarr can be resumed")
        if compression not in COMPRESSIONS:
            raise ParameterError(f"compression: got {compression!r}, needs one of {', '.join(COMPRESSIONS)}")
        check_target(path)
        return cls(path, resume, memory_of(max_memory), compression)


UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def memory_of(given: Any) -> int:
    """
    Read a number of bytes; half of what is free unless given.

    Raises
    ------
    ParameterError
        If it is no number of bytes above 0.
    """
    if given is None:
        return available_memory() // 2
    found: Any = None
    if isinstance(given, str):
        parts = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]i?b|)\s*", given.lower())
        found = float(parts[1]) * UNITS[parts[2]] if parts else None
    elif isinstance(given, int | float | np.number) and not isinstance(given, bool):
        found = given
    if found is None or not 1 <= found < 2**63:
        raise ParameterError(f'max_memory: got {given!r}, needs a number of bytes, or text as in "2 GB" or "512 MiB"')
    return int(found)


class Writer(Protocol):
    """A file that is being written."""

    def todo(self) -> Sequence[Box]:
        """Blocks that are not there yet."""

    def write(self, box: Box, arrays: Mapping[str, Array]) -> None:
        """Write a block; called by one thread at a time."""

    def finish(self) -> None:
        """Give the file its name."""

    def abandon(self, error: BaseException) -> None:
        """Let go of the file: remove what is of no use any more, and note in the error what is kept."""


def write(
    target: Target,
    grid: Space,
    problem: Problem,
    results: Sequence[Result],
    dtype: str,
    attributes: Mapping[str, Any],
    chunks: Any,
    progress: Progress | bool | None,
) -> xr.Dataset:
    """
    Price a problem block by block and write it.

    Parameters
    ----------
    target : Target
    grid : Space
    problem : Problem
    results : sequence of Result
    dtype : str
        Of real results.
    attributes : mapping
    chunks : mapping, "auto" or None
        Of the file; chosen unless given.
    progress : callable, bool or None
        See `progress.reporting`.

    Returns
    -------
    xarray.Dataset
        The file, opened: dask arrays where dask is installed, else arrays that are read when they are used.

    Raises
    ------
    ParameterError
        If a chunk does not fit into `max_memory`, or what is to be resumed is of another call.
    OSError
        If the file cannot be written.
    """
    of_point = point_bytes(results, dtype)
    most = target.max_memory // (HELD * of_point)
    chunk = _file_chunks(chunks, grid.sizes, most, target.max_memory, of_point)
    # the work of a load is done once for all machines of a block
    machines = Layout.of(problem).dims[2]
    room = min(most, BLOCK_POINTS, prod(grid.sizes.values()) // LEAST_BLOCKS)
    block = block_shape(grid.sizes, chunk, room, machines)
    # compiles what has to be compiled: points per second are of what comes then
    first = part(problem, {dim: slice(0, 1) for dim in problem.sizes})
    kind = np.dtype(dtype)
    arrays = values_of(results, price(first, results, kind), tuple(first.sizes.values()))
    with _writer(target, _template(grid, results, arrays, attributes), chunk, block) as writer:
        with reporting(progress, by_default=True) as report:
            _stream(problem, results, kind, writer, report)
        writer.finish()
    return open_lazily(target.path)


def _template(
    grid: Space, results: Sequence[Result], first: Mapping[str, Array], attributes: Mapping[str, Any]
) -> xr.Dataset:
    """Make a Dataset like the result, whose arrays repeat the first point and take no memory."""
    shape = tuple(grid.sizes.values())
    arrays = {
        name: np.broadcast_to(array, (*array.shape[: array.ndim - len(shape)], *shape)) for name, array in first.items()
    }
    return assemble(grid, results, arrays, attributes)


@contextmanager
def _writer(target: Target, template: xr.Dataset, chunk: dict[str, int], block: dict[str, int]) -> Iterator[Writer]:
    writer: Writer
    if target.path.suffix == ".nc":
        from stacksweep.netcdf import NetcdfWriter

        writer = NetcdfWriter(target.path, template, chunk, block, target.compression)
    else:
        from stacksweep.zarr_store import ZarrWriter

        writer = ZarrWriter(target.path, template, chunk, block, target.compression, resume=target.resume)
    try:
        yield writer
    except BaseException as error:
        writer.abandon(error)
        raise


def _file_chunks(chunks: Any, sizes: Mapping[str, int], most: int, max_memory: int, of_point: int) -> dict[str, int]:
    chunk = chunk_shape(sizes, min(max(most, 1), CHUNK_POINTS))
    if chunks is not None and not (isinstance(chunks, str) and chunks == "auto"):
        chunk = {dim: max(lengths) for dim, lengths in cut_as_asked(chunks, sizes).items()}
    if prod(chunk.values()) > most:
        needed = HELD * of_point * prod(chunk.values())
        raise ParameterError(f"max_memory: got {max_memory:,} bytes, needs at least {needed:,} for {HELD} chunks")
    return chunk


def open_lazily(path: Path) -> xr.Dataset:
    """Open a file without reading its results."""
    chunks: dict[str, int] | None = {}
    opened: xr.Dataset
    try:
        import dask.array  # noqa: F401
    except ImportError:
        chunks = None
    if path.suffix == ".zarr":
        opened = xr.open_zarr(path, chunks=chunks)
    else:
        opened = xr.open_dataset(path, engine="netcdf4", chunks=chunks)
    return opened


def _stream(
    problem: Problem, results: Sequence[Result], dtype: np.dtype[Any], writer: Writer, report: Progress | None
) -> None:
    """Price blocks here, and write them in a thread."""
    todo = writer.todo()
    total = prod(problem.sizes.values())
    done = Done(total, report)
    done.add(total - sum(map(_points, todo)))
    largest = max(map(_points, todo), default=0)
    rooms = [raw_results(largest, results, dtype) for _ in range(min(HELD, len(todo)))]
    waiting: deque[tuple[Future[None], Raw]] = deque()

    def write_block(box: Box, arrays: Mapping[str, Array]) -> None:
        writer.write(box, arrays)
        done.add(_points(box))

    def written() -> Raw:
        future, room = waiting.popleft()
        future.result()
        return room

    with ThreadPoolExecutor(1) as thread:
        try:
            for box in todo:
                points, shape = _points(box), tuple(along.stop - along.start for along in box.values())
                room = rooms.pop() if rooms else written()
                real = tuple(rows[:, :points] for rows in room.real)
                stretch = Raw(real, room.reasons[:points], room.warnings[:points])
                raw = price(part(problem, box), results, dtype, room=stretch)
                waiting.append((thread.submit(write_block, box, values_of(results, raw, shape)), room))
            while waiting:
                written()
        except BaseException:
            for future, _ in waiting:
                future.cancel()
            raise


def _points(box: Box) -> int:
    return prod(along.stop - along.start for along in box.values())
