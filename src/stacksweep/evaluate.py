"""The flow of one call, from arguments to a Dataset."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import prod
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any

import numpy as np
import xarray as xr

from stacksweep import moe, space, tables
from stacksweep.blocks import Layout, Problem, Ranges, Raw, Worker
from stacksweep.columns import Array, constant
from stacksweep.kernels import rows
from stacksweep.kernels.outputs import OUTPUTS
from stacksweep.kernels.validity import BUFFERING_LIMITED, DOES_NOT_FIT, VALID
from stacksweep.parameters import BY_NAME, ParameterError
from stacksweep.profiles import load_chip, load_memory, load_model
from stacksweep.results import Result, select
from stacksweep.space import Space

LOADERS: Mapping[str, Callable[[Any], Any]] = {"model": load_model, "chip": load_chip, "memory": load_memory}

STAGES = (
    "footprint",
    "prefill",
    "prefill details",
    "first_decode",
    "first_decode details",
    "decode",
    "decode details",
    "experts",
)
"""Parts of the model in the order of the kernel's `needs`."""

Progress = Callable[[int, int], None]


class ResultTooLargeError(MemoryError):
    """The result of a call would not fit in memory."""


def sweep(
    *,
    points: Any = None,
    outputs: str | Sequence[str] = "main",
    dtype: str = "float64",
    progress: Progress | None = None,
    **parameters: Any,
) -> xr.Dataset:
    """Evaluate a grid, a list of points, or a mixture of both."""
    if dtype not in ("float64", "float32"):
        raise ParameterError(f"dtype: got {dtype!r}, needs float64 or float32")
    results = select(outputs)
    grid = space.build(parameters, points, LOADERS)
    for name in ("model", "memory"):
        if name not in grid.columns:
            raise ParameterError(f"{name}: is missing, needs {BY_NAME[name].allowed}")
    check_size(grid.sizes, results, dtype)
    problem = prepare(grid)
    raw = price(problem, results, np.dtype(dtype), progress)
    return dataset(grid, results, raw, call_attributes(grid, outputs, dtype))


def check_size(sizes: Mapping[str, int], results: Sequence[Result], dtype: str) -> None:
    """
    Refuse a result that memory cannot hold.

    Raises
    ------
    ResultTooLargeError
        With the size and the ways out.
    """
    points = prod(sizes.values())
    reals = sum(result.dtype == "real" for result in results)
    nbytes = points * (reals * np.dtype(dtype).itemsize + len(results) - reals)
    free = available_memory()
    if nbytes > free:
        raise ResultTooLargeError(
            f"the result of {points:,} points and {len(results)} variables needs {nbytes / 2**30:.1f} GiB, and "
            f'{free / 2**30:.1f} GiB are free; ask for fewer outputs=, for dtype="float32", or for a part of the grid'
        )


def available_memory() -> int:
    """Bytes that can be allocated without swapping."""
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def prepare(grid: Space) -> Problem:
    """Turn the parameters of a sweep into the fields of load and machine rows."""
    columns = grid.columns
    model, chip, memory = columns["model"], columns["chip"], columns["memory"]
    models, chips, memories = model.choices, chip.choices, memory.choices

    plan = {name: constant(1.0) for name in rows.PLAN_FIELDS}
    group, keys, counted = moe.counted_loads({**columns, **plan}, models, chips)
    stages = np.concatenate([tables.stage_rows(spec) for spec in models])
    load = {
        "model": model,
        "chip": chip,
        "routing_group": group,
        "stages_start": model,
        "stages_stop": model.map(lambda row: row + 1),
        "reason": constant(VALID),
        "include_lm_head": columns["include_lm_head"].lookup(np.array(columns["include_lm_head"].choices)),
        **{name: columns[name] for name in ("batch_size", "input_seq_len", "output_seq_len")},
        **{
            name: columns.get(name) or chip.lookup(np.array([getattr(profile, name) for profile in chips]))
            for name in rows.STORAGE_FIELDS
        },
        **plan,
    }
    given = {name: column for name, column in columns.items() if name in rows.MEMORY_FIELDS}
    overlap = columns["overlap"]
    machine = {
        **tables.memory_columns(memories, memory, given),
        "frequency_hz": columns["frequency_hz"],
        "serial": overlap.lookup(np.array([word == "serial" for word in overlap.choices])),
    }
    fixed = (tables.model_rows(models), tables.chip_rows(chips), stages, keys, counted)
    return Problem(grid.sizes, fixed, load, machine)


def price(problem: Problem, results: Sequence[Result], dtype: np.dtype[Any], progress: Progress | None = None) -> Raw:
    """
    Price every point of a problem, block by block on all cores.

    Parameters
    ----------
    problem : Problem
    results : sequence of Result
        What is asked for.
    dtype : dtype
        Of the real results.
    progress : callable, optional
        Called with the points done and their total after each block.

    Returns
    -------
    Raw
        In the C order of the result's dimensions.
    """
    points = prod(problem.sizes.values())
    real = [result for result in results if result.dtype == "real"]
    wanted = np.array([OUTPUTS.index(result.name) for result in real], np.int64)
    needed = {stage for result in results for stage in result.needs}
    needs = tuple(stage in needed for stage in STAGES)
    raw = Raw(np.empty((len(real), points), dtype), np.empty(points, np.uint8), np.empty(points, np.uint8))
    layout = Layout.of(problem)
    blocks = list(layout.blocks())
    queue: SimpleQueue[Ranges] = SimpleQueue()
    for block in blocks:
        queue.put(block)
    done = Done(points, progress)

    def work() -> None:
        worker = Worker(problem, layout, wanted, needs, raw)
        try:
            while True:
                done.add(worker.price(queue.get_nowait()))
        except Empty:
            pass

    threads = min(cores(), len(blocks))
    if threads == 1:
        work()
        return raw
    with ThreadPoolExecutor(threads) as pool:
        try:
            for future in [pool.submit(work) for _ in range(threads)]:
                future.result()
        except BaseException:
            # interrupted: the other workers end with the block that they are at
            while not queue.empty():
                queue.get()
            raise
    return raw


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Done:
    """Counts points that are done, on behalf of a progress report."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total = total
        self._progress = progress
        self._points = 0
        self._lock = Lock()

    def add(self, points: int) -> None:
        """Count more points and report them."""
        with self._lock:
            self._points += points
            if self._progress:
                self._progress(self._points, self._total)


def dataset(grid: Space, results: Sequence[Result], raw: Raw, attributes: Mapping[str, Any]) -> xr.Dataset:
    """Give raw results their names, shapes, units and flags."""
    shape = tuple(grid.sizes.values())
    valid = raw.reasons == VALID
    reals = iter(raw.real)
    made: dict[str, Callable[[], Array]] = {
        "valid": lambda: valid,
        "reason": lambda: raw.reasons.view(np.int8),
        "warnings": lambda: raw.warnings,
        "fits": lambda: valid & ((raw.warnings & DOES_NOT_FIT) == 0),
        "buffering_limited": lambda: (raw.warnings & BUFFERING_LIMITED) != 0,
    }
    variables = {
        result.name: (
            tuple(grid.sizes),
            (next(reals) if result.dtype == "real" else made[result.name]()).reshape(shape),
            result.attributes,
        )
        for result in results
    }
    return xr.Dataset(variables, grid.coordinates, dict(attributes))


def call_attributes(grid: Space, outputs: str | Sequence[str], dtype: str) -> dict[str, str]:
    """Attributes of a Dataset that say where it comes from: version, the whole call, profiles with their hashes."""
    from stacksweep import __version__

    call: dict[str, Any] = {"outputs": outputs if isinstance(outputs, str) else list(outputs), "dtype": dtype}
    profiles: dict[str, list[dict[str, Any]]] = {}
    for name, column in grid.columns.items():
        coordinate = BY_NAME[name].coordinate
        values = grid.coordinates[coordinate][1]
        if column.dims != () and values.size > LISTED_VALUES:
            call[name] = {"coordinate": coordinate, "dims": list(column.dims)}
        elif column.dims in ((), (coordinate,)):
            call[name] = values.tolist()
        else:
            call[name] = {"values": values.tolist(), "dims": list(column.dims)}
        if BY_NAME[name].kind == "profile":
            profiles[name] = [
                {
                    "name": choice.name,
                    "path": choice.provenance.path,
                    "sha256": choice.provenance.sha256,
                    "provenance": dict(choice.provenance.notes),
                }
                for choice in column.choices
            ]
    return {
        "Conventions": "CF-1.11",
        "title": "LLM inference on accelerators with stacked DRAM, predicted by stacksweep",
        "source": f"stacksweep {__version__}",
        "stacksweep_version": __version__,
        "call": json.dumps(call),
        "profiles": json.dumps(profiles),
    }


LISTED_VALUES = 1000
"""Arguments with more values are named in the call by their coordinate, which holds them."""
