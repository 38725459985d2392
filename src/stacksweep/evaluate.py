"""The flow of one call, from arguments to a Dataset."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np
import xarray as xr

from stacksweep import moe, space, tables
from stacksweep.columns import Array, Column, constant
from stacksweep.kernels import rows
from stacksweep.kernels.outputs import OUTPUTS
from stacksweep.kernels.validity import BUFFERING_LIMITED, DOES_NOT_FIT, VALID
from stacksweep.parameters import BY_NAME, ParameterError
from stacksweep.profiles import load_chip, load_memory, load_model
from stacksweep.results import Result, select
from stacksweep.space import Space

BLOCK_POINTS = 2**16
"""Points priced at a time by one thread: large enough for its overhead, small enough for the cache."""

BLOCK_MACHINES = 2**12
"""Machine rows of a block at the most."""

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


class ResultTooLarge(MemoryError):
    """The result of a call would not fit in memory."""


@dataclass(frozen=True)
class Problem:
    """
    A sweep, ready to be priced: what is fixed, and a column for every field of its load and machine rows.

    Parameters
    ----------
    sizes : dict
        Lengths of the result's dimensions, in its order.
    fixed : tuple
        Model rows, chip rows, stage rows, keys and values of counted expert loads.
    load, machine : dict
        Columns by field of `rows.LOAD` and `rows.MACHINE_INPUT`.
    """

    sizes: dict[str, int]
    fixed: tuple[Array, Array, Array, Array, Array]
    load: dict[str, Column]
    machine: dict[str, Column]


@dataclass(frozen=True)
class Raw:
    """Results as the kernel writes them, flat: reals by row, reasons and warning bits."""

    real: Array
    reasons: Array
    warnings: Array


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
    ResultTooLarge
        With the size and the ways out.
    """
    points = prod(sizes.values())
    reals = sum(result.dtype == "real" for result in results)
    nbytes = points * (reals * np.dtype(dtype).itemsize + len(results) - reals)
    free = available_memory()
    if nbytes > free:
        raise ResultTooLarge(
            f"the result of {points:,} points and {len(results)} variables needs {nbytes / 2**30:.1f} GiB, and "
            f'{free / 2**30:.1f} GiB are free; ask for fewer outputs=, for dtype="float32", or for a part of the grid'
        )


def available_memory() -> int:
    """Bytes that can be allocated without swapping."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
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
    run = partial(_price_block, problem, wanted, needs, raw)
    done = 0
    blocks = list(_blocks(problem))
    if len(blocks) == 1:
        done = run(blocks[0])
        if progress:
            progress(done, points)
        return raw
    with ThreadPoolExecutor(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()) as pool:
        futures = [pool.submit(run, block) for block in blocks]
        try:
            for future in as_completed(futures):
                done += future.result()
                if progress:
                    progress(done, points)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return raw


Ranges = tuple[range, range, range]


def _dimensions(problem: Problem) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Dimensions that load and machine rows share, and those of load rows and of machine rows alone."""
    of_load = {dim for column in problem.load.values() for dim in column.dims}
    of_machine = {dim for column in problem.machine.values() for dim in column.dims}
    # machine rows of the same wave next to one another, since traffic is rounded anew whenever the wave changes
    waves = {
        dim
        for name in ("stacked", "wave_quantization", "transaction_bytes", "channels_per_connected_layer")
        for dim in problem.machine[name].dims
    }
    shared = tuple(dim for dim in problem.sizes if dim in of_load & of_machine)
    load = tuple(dim for dim in problem.sizes if dim not in of_machine)
    machine = tuple(sorted((dim for dim in problem.sizes if dim in of_machine - of_load), key=lambda d: d not in waves))
    return shared, load, machine


def _blocks(problem: Problem) -> Iterator[Ranges]:
    """Cut the shared, load and machine rows into blocks."""
    counts = [prod(problem.sizes[dim] for dim in dims) for dims in _dimensions(problem)]
    machine = min(counts[2], BLOCK_MACHINES)
    load = min(counts[1], max(1, BLOCK_POINTS // machine))
    shared = min(counts[0], max(1, BLOCK_POINTS // (machine * load)))
    steps = (shared, load, machine)
    pieces = [
        [range(start, min(start + step, count)) for start in range(0, count, step)]
        for count, step in zip(counts, steps, strict=True)
    ]
    yield from product(*pieces)  # type: ignore[misc]


def _price_block(problem: Problem, wanted: Array, needs: tuple[bool, ...], raw: Raw, block: Ranges) -> int:
    from stacksweep.kernels.block import price_block

    names = list(problem.sizes)
    strides = {dim: prod(problem.sizes[later] for later in names[i + 1 :]) for i, dim in enumerate(names)}
    index: dict[str, Array] = {}
    offsets: list[Array] = []
    for axis, (dims, positions) in enumerate(zip(_dimensions(problem), block, strict=True)):
        along = np.unravel_index(np.arange(positions.start, positions.stop), [problem.sizes[dim] for dim in dims] or [1])
        offsets.append(sum((strides[dim] * where for dim, where in zip(dims, along)), np.zeros(len(positions), np.int64)))
        index.update({dim: where[:, None] if axis == 0 else where for dim, where in zip(dims, along)})
    shared, load, machine = map(len, block)
    scratch = (
        np.empty(machine, rows.MACHINE),
        np.empty(2, rows.EXPERTS),
        np.empty(rows.KINDS, rows.WORK),
        np.empty(1, rows.EXTRAS),
        np.empty((2, rows.ITEMS), rows.ITEM),
        np.empty(rows.KINDS, rows.STEPS),
    )
    price_block(
        problem.fixed,
        tables.fill(rows.LOAD, problem.load, index, (shared, load)),
        tables.fill(rows.MACHINE_INPUT, problem.machine, index, (shared, machine)),
        scratch,
        *offsets,
        wanted,
        needs,
        raw.real,
        raw.reasons,
        raw.warnings,
    )
    return shared * load * machine


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
