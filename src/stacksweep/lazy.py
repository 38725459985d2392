"""
Lazy sweeps: dask arrays whose chunks are priced when they are asked for.

All variables of a sweep share one layer of a dask graph. Only when dask tells it which chunks of which variables are
wanted does it make tasks: one for each chunk, which prices what is wanted of it in one go, and one for each
variable, which picks it out. Whoever asks for one variable pays for no other, whoever asks for all pays once.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from math import prod
from typing import Any
from uuid import uuid4

import numpy as np
import xarray as xr

from stacksweep.blocks import Problem
from stacksweep.boxes import cut_as_asked, part, stretches
from stacksweep.columns import Array
from stacksweep.evaluate import assemble, price, values_of
from stacksweep.parameters import ParameterError
from stacksweep.results import ALONG, BY_NAME, Result
from stacksweep.space import Space

try:
    import dask.array as da
    from dask._task_spec import DataNode, GraphNode, Task, TaskRef
    from dask.highlevelgraph import HighLevelGraph, Layer, MaterializedLayer
except ImportError:
    raise ParameterError("chunks: needs the package dask; install stacksweep[distributed]") from None

Key = tuple[str | int, ...]


def lazy_dataset(
    grid: Space,
    problem: Problem,
    results: Sequence[Result],
    dtype: str,
    attributes: Mapping[str, Any],
    chunks: Any,
) -> xr.Dataset:
    """
    Make a Dataset of dask arrays that equals the one in memory, bit for bit.

    Parameters
    ----------
    grid : Space
    problem : Problem
    results : sequence of Result
    dtype : str
        Of real results.
    attributes : mapping
    chunks : mapping or "auto"
        See `boxes.cut_as_asked`.

    Returns
    -------
    xarray.Dataset
    """
    lengths = cut_as_asked(chunks, grid.sizes)
    token = uuid4().hex
    names = {f"{result.name}-{token}": result for result in results}
    layer = Chunks(token, problem, names, np.dtype(dtype), lengths)
    # a name of its own for each variable, by which dask finds what depends on it; its keys are in the shared layer
    layers: dict[str, Layer] = {f"sweep-{token}": layer, **{name: MaterializedLayer({}) for name in names}}
    dependencies = {f"sweep-{token}": set(), **{name: {f"sweep-{token}"} for name in names}}
    graph = HighLevelGraph(layers, dependencies)
    arrays = {}
    for name, result in names.items():
        along = ((len(ALONG[result.along][1]),),) if result.along else ()
        kind = np.dtype(dtype) if result.dtype == "real" else np.dtype(result.dtype)
        shape = (*along, *lengths.values())
        arrays[result.name] = da.Array(graph, name, shape, dtype=kind)  # type: ignore[no-untyped-call]
    return assemble(grid, results, arrays, attributes)


def price_part(tables: Problem, own: Problem, names: Sequence[str], dtype: np.dtype[Any]) -> dict[str, Array]:
    """
    Price one chunk, in one thread.

    Parameters
    ----------
    tables : Problem
        What all chunks share: tables, and columns that do not vary.
    own : Problem
        Sizes and columns of the chunk.
    names : sequence of str
        Results that are wanted.
    dtype : dtype
        Of real results.
    """
    problem = Problem(own.sizes, tables.fixed, {**tables.load, **own.load}, {**tables.machine, **own.machine})
    results = [BY_NAME[name] for name in names]
    return values_of(results, price(problem, results, dtype, threads=1), tuple(own.sizes.values()))


def pick(priced: Mapping[str, Array], name: str) -> Array:
    """Take one result of a chunk."""
    return priced[name]


class Chunks(Layer):
    """
    All chunks of all variables of a sweep; tasks are made only of those that are wanted.

    Parameters
    ----------
    token : str
        Part of all keys.
    problem : Problem
    names : mapping
        Results by the names of their arrays.
    dtype : dtype
        Of real results.
    lengths : mapping
        Of the chunks, by dimension.
    """

    has_legacy_tasks = False

    def __init__(
        self,
        token: str,
        problem: Problem,
        names: Mapping[str, Result],
        dtype: np.dtype[Any],
        lengths: Mapping[str, tuple[int, ...]],
    ) -> None:
        super().__init__()
        self._token, self._names, self._dtype, self._lengths = token, names, dtype, lengths
        self._counts = tuple(map(len, lengths.values()))
        self._order = {result.name: place for place, result in enumerate(names.values())}

        def split(columns: Mapping[str, Any], varying: bool) -> dict[str, Any]:
            return {name: column for name, column in columns.items() if bool(column.dims) is varying}

        self._shared = Problem({}, problem.fixed, split(problem.load, False), split(problem.machine, False))
        self._own = Problem(problem.sizes, (), split(problem.load, True), split(problem.machine, True))
        self._stretches = stretches(lengths)
        self._all: dict[Key | str, GraphNode] | None = None

    def tasks(self, wanted: Mapping[tuple[int, ...], Collection[str]]) -> dict[Key | str, GraphNode]:
        """Tasks for array names that are wanted of chunks, by position."""
        tables = f"tables-{self._token}"
        graph: dict[Key | str, GraphNode] = {tables: DataNode(tables, self._shared)}
        for index, arrays in wanted.items():
            names = sorted((self._names[array].name for array in arrays), key=self._order.__getitem__)
            # tasks of different variables are different tasks, wherever they meet
            marks = np.packbits([name in names for name in self._order]).tobytes().hex()
            key: Key = (f"priced-{marks}-{self._token}", *index)
            box = (of_dim[place] for of_dim, place in zip(self._stretches, index, strict=True))
            own = part(self._own, dict(zip(self._lengths, box, strict=True)))
            graph[key] = Task(key, price_part, TaskRef(tables), own, tuple(names), self._dtype)
            for array in arrays:
                result = self._names[array]
                of_array: Key = (array, *((0,) if result.along else ()), *index)
                graph[of_array] = Task(of_array, pick, TaskRef(key), result.name)
        return graph

    def cull(self, keys: Set[Any], all_hlg_keys: Collection[Any]) -> tuple[Layer, Mapping[Any, set[Any]]]:
        """Make tasks for what is wanted; they depend on nothing outside."""
        wanted: dict[tuple[int, ...], list[str]] = {}
        mine = [key for key in keys if isinstance(key, tuple) and key and key[0] in self._names]
        for array, *index in mine:
            wanted.setdefault(tuple(index[1:] if self._names[array].along else index), []).append(array)
        if not wanted:
            return MaterializedLayer({}), {}
        return MaterializedLayer(self.tasks(wanted)), {key: set() for key in mine}

    def get_output_keys(self) -> Set[Any]:
        """Keys of all chunks of all variables."""
        return {
            (name, *((0,) if result.along else ()), *index)
            for name, result in self._names.items()
            for index in np.ndindex(self._counts)
        }

    def is_materialized(self) -> bool:
        """Whether the tasks of all chunks have been made."""
        return self._all is not None

    def _everything(self) -> dict[Key | str, GraphNode]:
        if self._all is None:
            self._all = self.tasks({index: list(self._names) for index in np.ndindex(self._counts)})
        return self._all

    def __getitem__(self, key: Any) -> GraphNode:
        """Look a task up."""
        return self._everything()[key]

    def __iter__(self) -> Iterator[Any]:
        """Go through all keys."""
        return iter(self._everything())

    def __len__(self) -> int:
        """Count all tasks."""
        return (len(self._names) + 1) * prod(self._counts) + 1
