"""The flow of one call, from arguments to a Dataset."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import prod
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, Literal, get_args

import numpy as np
import xarray as xr

from deepstack_noc import Noc, uncharged_shares
from deepstack_noc.tables import available_cores
from stacksweep import chips, moe, network, space, tables
from stacksweep import plan as plans
from stacksweep.backed import settle
from stacksweep.blocks import Layout, Problem, Ranges, Raw, Worker
from stacksweep.columns import Array, Column, constant
from stacksweep.kernels import rows
from stacksweep.kernels.outputs import OUTPUTS
from stacksweep.kernels.validity import BUFFERING_LIMITED, DOES_NOT_FIT, VALID
from stacksweep.kinds import kind_rows
from stacksweep.parameters import BY_NAME, ParameterError
from stacksweep.pricing import check_priced
from stacksweep.profiles import load_chip, load_memory, load_model, load_noc
from stacksweep.progress import Progress, reporting
from stacksweep.results import ALONG, Result, Stage, select
from stacksweep.routing import load_routing
from stacksweep.space import Space

LOADERS: Mapping[str, Callable[[Any], Any]] = {
    "model": load_model,
    "chip": load_chip,
    "memory": load_memory,
    "noc": load_noc,
    "routing": load_routing,
}

STAGES = get_args(Stage)[1:]
"""Parts of the model in the order of the kernel's `needs`."""


class ResultTooLargeError(MemoryError):
    """The result of a call would not fit in memory."""


def sweep(
    *,
    points: Any = None,
    outputs: str | Sequence[str] = "main",
    dtype: str = "float64",
    chunks: Mapping[str, Any] | Literal["auto"] | None = None,
    to: str | os.PathLike[str] | None = None,
    resume: bool = False,
    max_memory: int | str | None = None,
    compression: str = "auto",
    progress: Progress | bool | None = None,
    **parameters: Any,
) -> xr.Dataset:
    """Evaluate a grid, a list of points, or a mixture of both."""
    dtype = real_dtype(dtype)
    if not isinstance(outputs, str):
        outputs = list(outputs) if isinstance(outputs, Iterable) else [outputs]
    select(outputs)  # a wrong name is told before any file is read
    parameters, points, backed = settle(parameters, points)
    chunks = backed if chunks is None else chunks
    if to is None:
        check_unused(resume=resume is not False, max_memory=max_memory is not None, compression=compression != "auto")
        target = None
    else:
        from stacksweep import stream

        target = stream.Target.of(to, resume=resume, max_memory=max_memory, compression=compression)
    grid = grid_of(parameters, points)
    results = select(outputs, operations=any(chip.kind == "roofline" for chip in grid.columns["chip"].choices))
    if chunks is None and to is None:
        check_size(grid.sizes, results, dtype)
    grid, problem = problem_of(grid)
    attributes = call_attributes(grid, outputs, dtype)
    if target is not None:
        return stream.write(target, grid, problem, results, dtype, attributes, chunks, progress)
    if chunks is not None:
        if progress not in (None, False):
            raise ParameterError(
                f"progress: got {progress!r}, and a result with chunks is evaluated later; see dask.diagnostics"
            )
        from stacksweep.lazy import lazy_dataset

        return lazy_dataset(grid, problem, results, dtype, attributes, chunks)
    with reporting(progress, by_default=False) as report:
        raw = price(problem, results, np.dtype(dtype), report)
    return dataset(grid, results, raw, attributes)


def check_unused(**given: bool) -> None:
    """Refuse arguments that only a sweep into a file can use."""
    for name, used in given.items():
        if used:
            raise ParameterError(f"{name}: is of use only together with to=, which names a file")


def real_dtype(dtype: Any) -> str:
    """Name of the dtype of real results."""
    try:
        name: str = np.dtype(dtype).name
    except TypeError:
        name = ""
    if dtype is None or name not in ("float64", "float32"):
        raise ParameterError(f"dtype: got {dtype!r}, needs float64 or float32")
    return name


def grid_of(parameters: Mapping[str, Any], points: Any) -> Space:
    """Check the arguments of a call."""
    grid = space.build(parameters, points, LOADERS)
    for name in ("model", "memory"):
        if name not in grid.columns:
            raise ParameterError(f"{name}: is missing, needs {BY_NAME[name].allowed}")
    check_priced(grid.columns["model"].choices, grid.columns["chip"].choices)
    return grid


def problem_of(grid: Space) -> tuple[Space, Problem]:
    """Complete a grid by what its profiles and plans say, and prepare it."""
    grid, devices = plans.complete(chips.complete(grid))
    return grid, prepare(grid, devices)


def check_size(sizes: Mapping[str, int], results: Sequence[Result], dtype: str) -> None:
    """
    Refuse a result that memory cannot hold.

    Raises
    ------
    ResultTooLargeError
        With the size and the ways out.
    """
    points = prod(sizes.values())
    nbytes = points * point_bytes(results, dtype)
    free = available_memory()
    if nbytes > free:
        raise ResultTooLargeError(
            f"the result of {points:,} points and {len(results)} variables needs {nbytes / 2**30:.1f} GiB, and "
            f'{free / 2**30:.1f} GiB are free; ask for fewer outputs= or for dtype="float32", write it block by block '
            'with to="sweep.nc", or evaluate it lazily with chunks="auto"'
        )


def point_bytes(results: Sequence[Result], dtype: str) -> int:
    """Bytes of all results of a point."""
    reals, others = (sum(part) for part in zip(*(result.nbytes for result in results), strict=True))
    return int(reals * np.dtype(dtype).itemsize + others)


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


def prepare(grid: Space, devices: Column) -> Problem:
    """
    Turn the parameters of a sweep into the fields of load and machine rows.

    Parameters
    ----------
    grid : Space
        With all parallel sizes.
    devices : Column
        Devices of the network at each point.

    Returns
    -------
    Problem
    """
    columns = grid.columns
    model, chip, memory, routing = (columns[name] for name in ("model", "chip", "memory", "routing"))
    models, memories, routings = model.choices, memory.choices, routing.choices

    different = plans.different_plans(columns, devices)
    table = plans.plan_rows(different, models, routings, plans.reasons(different, models, routings, chip.choices))
    stages = plans.lay_stages(table, models)
    chip_table = tables.chip_rows(chip.choices)
    keys, counted = moe.counted_loads(columns, different, table, models, chip_table["blen"], routings)
    net = network.join(columns, different, table, models, routings)
    lm_head = columns["include_lm_head"]
    storage = {
        name: columns.get(name) or chip.lookup(np.array([getattr(profile, name) for profile in chip.choices]))
        for name in rows.STORAGE_FIELDS
    }
    load = {
        "plan": different.number,
        "include_lm_head": lm_head.lookup(np.array(lm_head.choices)),
        **{name: columns[name] for name in ("batch_size", "input_seq_len", "output_seq_len")},
        **storage,
        **chips.roofline_columns(columns, storage),
        **network.rate_columns(columns),
    }
    given = {name: column for name, column in columns.items() if name in rows.MEMORY_FIELDS}
    machine = {
        **tables.memory_columns(memories, memory, given),
        "frequency_hz": columns.get("frequency_hz", constant(1.0)),
        "serial": chips.is_word(columns["overlap"], "serial"),
        "by_operation": chips.is_word(columns["overlap"], "op-roofline"),
        "comm_hidden": chips.is_word(columns["comm_overlap"], "full"),
    }
    kinds, first_kinds = kind_rows(models)
    fixed = (
        tables.model_rows(models, first_kinds),
        chip_table,
        table,
        stages,
        keys,
        counted,
        net.tables,
        net.dispatch_keys,
        net.dispatch_rows,
        kinds,
    )
    return Problem(grid.sizes, fixed, load, machine)


def price(
    problem: Problem,
    results: Sequence[Result],
    dtype: np.dtype[Any],
    progress: Progress | None = None,
    *,
    room: Raw | None = None,
    threads: int | None = None,
) -> Raw:
    """
    Price every point of a problem, block by block.

    Parameters
    ----------
    problem : Problem
    results : sequence of Result
        What is asked for.
    dtype : dtype
        Of the real results.
    progress : callable, optional
        Called with the points done and their total after each block.
    room : Raw, optional
        Arrays to write into, as long as the result: memory that has been used before is faster.
    threads : int, optional
        At most so many; as many as there are cores unless given.

    Returns
    -------
    Raw
        In the C order of the result's dimensions.
    """
    points = prod(problem.sizes.values())
    wanted = np.array([OUTPUTS.index(row) for result in results for row in result.rows], np.int64)
    needed = {stage for result in results for stage in result.needs}
    needs = tuple(stage in needed for stage in STAGES)
    raw = room or raw_results(points, results, dtype)
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

    threads = min(threads or available_cores(), len(blocks))
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


def raw_results(points: int, results: Sequence[Result], dtype: np.dtype[Any]) -> Raw:
    """Room for results, not filled."""
    real = tuple(np.empty((len(result.rows), points), dtype) for result in results if result.rows)
    return Raw(real, np.empty(points, np.uint8), np.empty(points, np.uint8))


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
    return assemble(grid, results, values_of(results, raw, tuple(grid.sizes.values())), attributes)


def values_of(results: Sequence[Result], raw: Raw, shape: tuple[int, ...]) -> dict[str, Array]:
    """Arrays of results by name, in the order of `results`; they may share memory with `raw`."""
    valid = raw.reasons == VALID
    flags: dict[str, Callable[[], Array]] = {
        "valid": lambda: valid,
        "reason": lambda: raw.reasons.view(np.int8),
        "warnings": lambda: raw.warnings,
        "fits": lambda: valid & ((raw.warnings & DOES_NOT_FIT) == 0),
        "buffering_limited": lambda: (raw.warnings & BUFFERING_LIMITED) != 0,
    }
    arrays: dict[str, Array] = {}
    reals = iter(raw.real)
    for result in results:
        rows_of = next(reals) if result.rows else np.empty((0, 0))
        if result.along:
            arrays[result.name] = np.reshape(rows_of, (-1, *shape))
            continue
        if result.dtype == "real":
            values = rows_of[0]
        elif len(rows_of) == 1:
            values = np.where(valid, rows_of[0], -1).astype(result.dtype)
        else:
            values = flags[result.name]()
        arrays[result.name] = values.reshape(shape)
    return arrays


def assemble(
    grid: Space, results: Sequence[Result], arrays: Mapping[str, Any], attributes: Mapping[str, Any]
) -> xr.Dataset:
    """Make the Dataset of arrays of results, in memory or not."""
    coordinates = dict(grid.coordinates)
    variables = {}
    for result in results:
        dims = tuple(grid.sizes)
        if result.along:
            words, labels = ALONG[result.along]
            attached = {"units": "1", "long_name": words}
            coordinates[result.along] = ((result.along,), np.array(labels, object), attached)
            dims = (result.along, *dims)
        variables[result.name] = (dims, arrays[result.name], result.attributes)
    # fast path: xarray would look for dates among many words
    named = {name: xr.Variable(*coordinate, fastpath=True) for name, coordinate in coordinates.items()}
    return xr.Dataset(variables, named, dict(attributes))


def call_attributes(grid: Space, outputs: str | Sequence[str], dtype: str) -> dict[str, str]:
    """Attributes of a Dataset that say where it comes from: version, the whole call, profiles with their hashes."""
    from stacksweep import __version__

    call: dict[str, Any] = {"outputs": outputs if isinstance(outputs, str) else list(outputs), "dtype": dtype}
    profiles: dict[str, list[dict[str, Any]]] = {}
    kinds = {profile.kind for profile in grid.columns["chip"].choices}
    for name, column in grid.columns.items():
        if BY_NAME[name].chips and kinds != {BY_NAME[name].chips}:
            # a default that only some of the chips use: it cannot be given to all of them
            continue
        coordinate = BY_NAME[name].coordinate
        values = grid.coordinates[coordinate][1]
        if column.dims != () and values.size > LISTED_VALUES:
            call[name] = {"coordinate": coordinate, "dims": list(column.dims)}
        elif column.dims in ((), (coordinate,)):
            call[name] = values.tolist()
        else:
            call[name] = {"values": values.tolist(), "dims": list(column.dims)}
        if name == grid.fill:
            call[name] = "fill"
        if BY_NAME[name].kind == "profile":
            profiles[name] = [_provenance(choice) for choice in column.choices]
        elif BY_NAME[name].kind == "routing" and any(choice.digest for choice in column.choices):
            # a name alone does not tell traces apart
            profiles[name] = [
                {"name": choice.name, "path": choice.path, "sha256": choice.digest}
                for choice in column.choices
                if choice.digest
            ]
    if "noc" in grid.columns and "deepstack" in grid.columns["link_model"].choices:
        for entry, noc in zip(profiles["noc"], grid.columns["noc"].choices, strict=True):
            entry["uncharged_share"] = uncharged_shares(noc)[0]
    return {
        "Conventions": "CF-1.11",
        "title": "LLM inference on accelerators with stacked DRAM, predicted by stacksweep",
        "source": f"stacksweep {__version__}",
        "stacksweep_version": __version__,
        "call": json.dumps(call),
        "profiles": json.dumps(profiles),
    }


def _provenance(profile: Any) -> dict[str, Any]:
    if isinstance(profile, Noc):
        notes = dict(profile.provenance)
        path, sha256 = notes.pop("path", None), notes.pop("sha256", None)
    else:
        path, sha256, notes = profile.provenance.path, profile.provenance.sha256, dict(profile.provenance.notes)
    source = {"path": path, "sha256": sha256} if path else {"content": profile.to_dict()}
    return {"name": profile.name, **source, "provenance": notes}


LISTED_VALUES = 1000
"""Arguments with more values are named in the call by their coordinate, which holds them."""
