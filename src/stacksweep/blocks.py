"""A sweep cut into blocks: which rows meet in a block, and where its points stand in the result."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from stacksweep.columns import Array, Column
from stacksweep.kernels import rows
from stacksweep.tables import RowBuffer

BLOCK_POINTS = 2**15
"""Points priced at a time by one thread: many against the cost of a block, few against the cache."""

BLOCK_ROWS = 2**12
"""Load rows or machine rows of a block at the most."""

Ranges = tuple[range, range, range]
"""Positions of a block along the shared, the load and the machine rows."""


@dataclass(frozen=True)
class Problem:
    """
    A sweep, ready to be priced: what is fixed, and a column for every field of its load and machine rows.

    Parameters
    ----------
    sizes : dict
        Lengths of the result's dimensions, in its order.
    fixed : tuple
        What the kernels look up: see `tables` of `kernels.block.price_block`.
    load, machine : mapping
        Columns by field of `rows.LOAD` and `rows.MACHINE_INPUT`.
    """

    sizes: dict[str, int]
    fixed: tuple[Any, ...]
    load: Mapping[str, Column]
    machine: Mapping[str, Column]


@dataclass(frozen=True)
class Raw:
    """Results as the kernel writes them, flat: (rows, points) for each with real ones, reasons and warning bits."""

    real: tuple[Array, ...]
    reasons: Array
    warnings: Array


@dataclass(frozen=True)
class Layout:
    """
    Dimensions that load and machine rows share, those of load rows alone, and those of machine rows alone.

    A point is one position along each of the three; its place in the result is the sum of the three's offsets.
    """

    sizes: dict[str, int]
    dims: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]

    @classmethod
    def of(cls, problem: Problem) -> "Layout":
        """Sort the dimensions of a problem."""
        of_load = {dim for column in problem.load.values() for dim in column.dims}
        of_machine = {dim for column in problem.machine.values() for dim in column.dims}
        # machine rows of one wave next to one another: traffic is rounded anew whenever the wave changes
        waves = {
            dim
            for name in ("stacked", "wave_quantization", "transaction_bytes", "channels_per_connected_layer")
            for dim in problem.machine[name].dims
        }
        shared = [dim for dim in problem.sizes if dim in of_load & of_machine]
        load = [dim for dim in problem.sizes if dim not in of_machine]
        machine = [dim for dim in problem.sizes if dim in of_machine - of_load]
        return cls(
            problem.sizes, (tuple(shared), tuple(load), tuple(sorted(machine, key=lambda dim: dim not in waves)))
        )

    def blocks(self) -> Iterator[Ranges]:
        """Cut the shared, load and machine rows into blocks."""
        shared, load, machine = (prod(self.sizes[dim] for dim in dims) for dims in self.dims)
        machine_step = min(machine, BLOCK_ROWS)
        load_step = max(1, min(load, BLOCK_ROWS, BLOCK_POINTS // machine_step))
        shared_step = max(1, min(shared, BLOCK_ROWS // max(load_step, machine_step)))
        pieces = (
            [range(start, min(start + step, count)) for start in range(0, count, step)]
            for count, step in ((shared, shared_step), (load, load_step), (machine, machine_step))
        )
        yield from product(*pieces)

    def positions(self, axis: int, along: range) -> tuple[dict[str, Array], Array]:
        """Positions along the dimensions of an axis, by dimension, and offsets in the result."""
        dims = self.dims[axis]
        names = list(self.sizes)
        flat = np.arange(along.start, along.stop)
        offsets = np.zeros(len(along), np.int64)
        index = {dims[0]: flat} if len(dims) == 1 else {}
        if len(dims) > 1:
            index = dict(zip(dims, np.unravel_index(flat, [self.sizes[dim] for dim in dims]), strict=True))
        for dim, where in index.items():
            offsets += where * prod(self.sizes[later] for later in names[names.index(dim) + 1 :])
        return index, offsets


class Worker:
    """
    Prices blocks one after the other, with room that it keeps between them.

    Parameters
    ----------
    problem : Problem
    layout : Layout
    wanted : int array
        Numbers of the outputs in `raw.real`.
    needs : tuple of bool
        See `kernels.block.price_block`.
    raw : Raw
        Where results go.
    """

    def __init__(self, problem: Problem, layout: Layout, wanted: Array, needs: tuple[bool, ...], raw: Raw) -> None:
        self._fixed, self._layout, self._wanted, self._needs, self._raw = problem.fixed, layout, wanted, needs, raw
        shared, load, machine = map(len, next(layout.blocks()))
        network, items = problem.fixed[6], problem.fixed[3].shape[1] - 1
        most_patterns = max(network.rows[:, 3] - network.rows[:, 2], default=0)
        points = shared * load * machine
        self._loads = RowBuffer(rows.LOAD, problem.load, shared * load)
        self._machines = RowBuffer(rows.MACHINE_INPUT, problem.machine, shared * machine)
        self._scratch = (
            np.empty(machine, rows.MACHINE),
            np.empty(shared * load, np.int64),
            np.empty((shared * load, 2), rows.EXPERTS),
            np.empty(items, rows.WORK),
            np.empty(1, rows.EXTRAS),
            np.empty((2, items), rows.ITEM),
            np.empty(items, rows.STEPS),
            np.empty((shared * load, 2, rows.COMM_SLOTS, 2)),
            np.full((len(rows.RATE_FIELDS), 1), np.nan),
            np.empty(((rows.TRANSFER + 1) * most_patterns, 3, 1)),
            np.empty((2, items, len(rows.OPERATIONS)), rows.OPERATION),
            np.empty(1, rows.MACHINE),
        )
        self._real = np.empty(wanted.size * points)
        self._reasons = np.empty(points, np.uint8)
        self._warnings = np.empty(points, np.uint8)

    def price(self, block: Ranges) -> int:
        """Price a block; returns its points."""
        from stacksweep.kernels.block import SCATTER, price_block

        index: dict[str, Array] = {}
        offsets = []
        for axis, along in enumerate(block):
            positions, offset = self._layout.positions(axis, along)
            offsets.append(offset)
            index.update({dim: where[:, None] if axis == 0 else where for dim, where in positions.items()})
        shape = shared, load, machine = len(block[0]), len(block[1]), len(block[2])
        points = shared * load * machine
        real = self._real[: self._wanted.size * points].reshape(-1, *shape)
        reasons, warnings = self._reasons[:points].reshape(shape), self._warnings[:points].reshape(shape)
        price_block(
            self._fixed,
            self._loads.fill(index, (shared, load)),
            self._machines.fill(index, (shared, machine)),
            self._scratch,
            self._wanted,
            self._needs,
            real,
            reasons,
            warnings,
        )
        whole = self._layout.dims[1:] == ((), ())
        load_first = machine == 1 or (load > 1 and offsets[1][1] - offsets[1][0] < offsets[2][1] - offsets[2][0])
        rows_of_results = (row for result in self._raw.real for row in result)
        parts: list[tuple[Array, Array]] = list(zip(real, rows_of_results, strict=True))
        for source, destination in (*parts, (reasons, self._raw.reasons), (warnings, self._raw.warnings)):
            if whole:
                # every dimension is shared: the block is a stretch of the result
                destination[block[0].start : block[0].stop] = source.ravel()
            else:
                SCATTER[destination.dtype](source, tuple(offsets), bool(load_first), destination)
        return points
