"""Columns: values of one quantity over the dimensions that it varies along, and nothing else."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Column:
    """
    Values of one quantity over the dimensions that it varies along.

    Parameters
    ----------
    dims : tuple of str
        Names of the dimensions of `values`.
    values : array
        One value for each position; row numbers into `choices` where there are any.
    choices : tuple
        What the row numbers of a profile or of a categorical parameter stand for.
    """

    dims: tuple[str, ...]
    values: Array
    choices: tuple[Any, ...] = ()

    def map(self, function: Callable[[Array], Array]) -> "Column":
        """Apply a function to the values, elementwise."""
        return Column(self.dims, function(self.values))

    def lookup(self, table: Array) -> "Column":
        """Replace row numbers by what stands in a table at them."""
        return Column(self.dims, table[self.values])


def constant(value: float | int | bool) -> Column:
    """Column that varies along nothing."""
    return Column((), np.asarray(value))


def aligned(column: Column, dims: Sequence[str]) -> Array:
    """Values of a column with an axis for each of `dims`, of length 1 where the column does not vary along it."""
    order = sorted(range(len(column.dims)), key=lambda axis: dims.index(column.dims[axis]))
    sizes = dict(zip(column.dims, column.values.shape, strict=True))
    return column.values.transpose(order).reshape([sizes.get(dim, 1) for dim in dims])


def all_dims(*columns: Column) -> tuple[str, ...]:
    """Dimensions of several columns together, in the order in which they appear."""
    return tuple(dict.fromkeys(dim for column in columns for dim in column.dims))


def combine(function: Callable[..., Array], *columns: Column) -> Column:
    """Apply an elementwise function to several columns; the result varies along all their dimensions."""
    dims = all_dims(*columns)
    return Column(dims, function(*(aligned(column, dims) for column in columns)))


def distinct(column: Column, *others: Column) -> Column:
    """Keep each value of a column once, where no other column shares its dimensions."""
    if not column.dims or set(column.dims) & set(all_dims(*others)):
        return column
    return Column(("\0".join(("", *column.dims)),), np.unique(column.values))


def _codes(values: Array) -> tuple[Array, int]:
    """Whole numbers that stand for values, and how many there can be; small whole numbers stand for themselves."""
    largest = values.max()
    if largest < SMALL and values.min() >= -1:
        whole = values.astype(np.int64)
        if np.array_equal(whole, values):
            return whole + 1, int(largest) + 2
    codes, different = pd.factorize(values.ravel())
    return codes.reshape(values.shape), len(different)


SMALL = 2**10
"""Whole numbers up to this are not worth sorting out."""


def number(*columns: Column) -> tuple[Column, list[Array]]:
    """
    Give a number to each combination of the values of several columns.

    Parameters
    ----------
    *columns : Column

    Returns
    -------
    numbers : Column
        Over the dimensions of all columns together, but for those that have only one choice.
    different : list of array
        For each column its values in the combinations, by number.
    """
    varying = [column for column in columns if column.dims and len(column.choices) != 1]
    dims = all_dims(*varying)
    code: Any = np.zeros((), np.int64)
    room = 1
    for column in varying:
        codes, count = _codes(column.values)
        if room * count >= 2**62:
            code = pd.factorize(np.ravel(code))[0].reshape(np.shape(code))
            room = int(code.max()) + 1
        room *= count
        code = code * count + aligned(Column(column.dims, codes), dims)
    codes, kept = pd.factorize(np.ravel(code))
    first = np.empty(len(kept), np.int64)
    first[codes[::-1]] = np.arange(codes.size)[::-1]
    spread = [
        np.broadcast_to(aligned(column, dims), np.shape(code)).ravel()[first]
        if any(column is one for one in varying)
        else np.full(len(kept), column.values.flat[0])
        for column in columns
    ]
    return Column(dims, codes.reshape(np.shape(code))), spread
