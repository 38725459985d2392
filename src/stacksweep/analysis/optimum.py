"""The best point over some dimensions."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from stacksweep.analysis.points import (
    Points,
    by_blocks,
    check_dataset,
    check_variable,
    in_whole,
    labelled,
    points_of,
    shown,
    unravel,
)
from stacksweep.columns import Array
from stacksweep.parameters import ParameterError, did_you_mean
from stacksweep.results import BY_NAME


def best(
    ds: xr.Dataset,
    objective: str,
    over: str | Sequence[str] | None = None,
    where: xr.DataArray | None = None,
    maximize: bool | None = None,
) -> xr.Dataset:
    """
    Find the best point over some dimensions, for each point of the others.

    Parameters
    ----------
    ds : xarray.Dataset
        As `sweep` makes it, or any other; its arrays may be dask's.
    objective : str
        Numeric variable or coordinate of `ds` to optimise.
    over : str or sequence of str, optional
        Dimensions to choose a point from; by default all dimensions of the points, which are those of the objective, of
        `where` and, if there is one, of the boolean variable `valid`.
    where : xarray.DataArray of bool, optional
        Which points may be chosen. It is broadcast: its dimensions that `ds` does not have, such as several limits to
        compare, become dimensions of the result.
    maximize : bool, optional
        Whether more is better; by default what is so of the result of that name, if it is clear.

    Returns
    -------
    xarray.Dataset
        Over the remaining dimensions, all variables of `ds` and all coordinates at the optimum, with their attributes;
        the dimensions in `over` are coordinates, which hold positions where `ds` has no labels. `feasible` tells
        whether any point could be chosen. Where none could, real numbers are NaN, booleans (`valid`, `fits`) false,
        integers -1 (unsigned ones 0) and texts empty; CF flags (`reason`, `warnings`) are those of the first point that
        is valid and has an objective, or else of the first point. Variables that do not vary from point to point stay
        as they are, and so do coordinates that have no dimension in `over`.

    Raises
    ------
    ParameterError
        If an argument names what `ds` does not have, does not fit it, or leaves the direction open.

    See Also
    --------
    pareto : what can be traded when there are several objectives.

    Notes
    -----
    A point whose objective is NaN, or whose `valid` is false, is never chosen. Of equal points the first is, in C order
    of the dimensions.

    Where the objective, `valid` or `where` are dask arrays, they are reduced at once and chunk by chunk; the chosen
    points of the other dask arrays remain to be computed.

    Examples
    --------
    >>> import stacksweep as ss
    >>> ds = ss.sweep(model="llama-3.1-8b", memory="fictional_stacked_dram", layers=[4, 8, 12], batch_size=[1, 8, 64])
    >>> fastest = ss.best(ds, "tps", over="batch_size", where=ds.fits & (ds.ttft < 0.5))
    >>> fastest.feasible.values.tolist()
    [False, True, True]
    >>> fastest.batch_size.values.tolist()
    [-1, 1, 1]
    """
    check_dataset(ds)
    check_variable(ds, "objective", objective)
    higher = _direction(objective, maximize)
    points = points_of(ds, [objective], where)
    chosen = _dimensions(ds, over, points)
    place, feasible = _optimum(points, chosen, higher)

    whole = labelled(ds, chosen)
    shape = [points.sizes[dim] for dim in chosen]
    at = zip(chosen, unravel(place.values, shape), strict=False)
    picked = whole.isel({dim: xr.Variable(place.dims, positions) for dim, positions in at}).drop_encoding()

    def masked(name: Hashable) -> xr.Variable:
        variable: xr.Variable = _mask(picked[name].variable, feasible)
        kept = [dim for dim in whole[name].dims if dim in variable.dims]
        return variable.transpose(*kept, ...)

    varying = [name for name in ds.data_vars if name == objective or not points.sizes.keys().isdisjoint(ds[name].dims)]
    moved = [name for name in whole.coords if not set(chosen).isdisjoint(whole[name].dims)]
    result = picked.assign({name: masked(name) for name in varying}).assign_coords(
        {name: masked(name) for name in moved}
    )
    if where is not None:
        result = result.assign_coords(_own_coordinates(where, result))
    return result.assign(feasible=feasible)


def _optimum(points: Points, chosen: Sequence[Hashable], higher: bool) -> tuple[xr.Variable, xr.Variable]:
    """Flat place of the optimum over some dimensions, and whether there is one."""
    rest = [dim for dim in points.sizes if dim not in chosen]
    shape = [points.sizes[dim] for dim in chosen]
    variables = [variable.transpose(*rest, *chosen) for variable in (points.objectives[0], points.valid, points.wanted)]

    def work(*arrays: Array) -> _Optimum:
        return _optimum_of_block(*arrays, rest=len(rest), higher=higher)

    empty = variables[0].shape[: len(rest)]
    place, rank = np.zeros(empty, np.int64), np.full(empty, -1)
    value = np.zeros(empty, variables[0].dtype)
    for part, found in by_blocks(variables, work):
        here = part[: len(rest)]
        found_at = in_whole(found.place, part[len(rest) :], shape)
        ahead = found.value > value[here] if higher else found.value < value[here]
        first = (found.value == value[here]) & (found_at < place[here])
        better = (found.rank > rank[here]) | (found.rank == rank[here]) & (ahead | first)
        for whole, new in ((place, found_at), (rank, found.rank), (value, found.value)):
            whole[here] = np.where(better, new, whole[here])
    attributes = {"units": "1", "long_name": "whether any point meets the conditions"}
    return xr.Variable(rest, place), xr.Variable(rest, rank == FEASIBLE, attributes)


FEASIBLE = 2
"""Rank of a point that can be chosen: above that of a valid point with an objective, and of any other."""


class _Optimum(NamedTuple):
    """Flat place of the optimum in a block, its rank, and its value; 0 unless it is feasible."""

    place: Array
    rank: Array
    value: Array


def _optimum_of_block(values: Array, valid: Array, wanted: Array, *, rest: int, higher: bool) -> _Optimum:
    shape = (*values.shape[:rest], prod(values.shape[rest:]))
    values = values.reshape(shape)
    known = valid.reshape(shape) & (values == values)
    feasible = known & wanted.reshape(shape)
    filled = np.where(feasible, values, _last(values.dtype, higher))
    index = filled.argmax(-1) if higher else filled.argmin(-1)
    # all feasible points are as bad as the filling
    index = np.where(_at(feasible, index), index, feasible.argmax(-1))
    rank = np.where(feasible.any(-1), FEASIBLE, known.any(-1))
    index = np.where(rank == FEASIBLE, index, known.argmax(-1))
    return _Optimum(index, rank, np.where(rank == FEASIBLE, _at(values, index), values.dtype.type(0)))


def _at(values: Array, index: Array) -> Array:
    return np.take_along_axis(values, index[..., np.newaxis], -1)[..., 0]


def _last(dtype: np.dtype[Any], higher: bool) -> Any:
    """No value of a dtype is worse than this."""
    if dtype.kind == "f":
        return dtype.type(-np.inf if higher else np.inf)
    if dtype.kind == "b":
        return np.bool_(not higher)
    return dtype.type(np.iinfo(dtype).min if higher else np.iinfo(dtype).max)


def _mask(variable: Any, feasible: xr.Variable) -> Any:
    """Take the value away where no point could be chosen, and keep the dtype."""
    if "flag_values" in variable.attrs or "flag_masks" in variable.attrs:
        return variable
    kind = variable.dtype.kind
    fill: Any = {"b": False, "i": -1, "u": 0, "U": "", "T": "", "O": "", "S": b""}.get(kind)
    if fill is None:
        return variable.where(feasible)
    return variable.where(feasible, fill if kind in "UTOS" else variable.dtype.type(fill))


def _own_coordinates(where: xr.DataArray, result: xr.Dataset) -> Mapping[Hashable, xr.Variable]:
    """Coordinates of the dimensions that only the condition has."""
    return {
        name: coordinate.variable
        for name, coordinate in where.coords.items()
        if name not in result.variables and coordinate.dims and result.sizes.keys() >= set(coordinate.dims)
    }


def _direction(objective: str, maximize: Any) -> bool:
    if maximize is None:
        higher = BY_NAME[objective].higher_is_better if objective in BY_NAME else None
        if higher is None:
            raise ParameterError(f"maximize: must be true or false, since more of {objective!r} may be good or bad")
        return higher
    if not isinstance(maximize, bool | np.bool_):
        raise ParameterError(f"maximize: got {shown(maximize)}, needs true, false or None")
    return bool(maximize)


def _dimensions(ds: xr.Dataset, over: Any, points: Points) -> list[Hashable]:
    """Dimensions to choose from, in the order of the points."""
    own = [dim for dim in points.sizes if dim in ds.sizes]
    if over is None:
        chosen = own
    elif isinstance(over, Iterable):
        chosen = [over] if isinstance(over, str) else list(over)
    else:
        raise ParameterError(f"over: got {shown(over)}, needs dimensions of ds, or None for all")
    if over is not None and not chosen:
        raise ParameterError("over: got no dimension, needs at least one of ds, or None for all")
    for dim in chosen:
        if not isinstance(dim, str):
            raise ParameterError(f"over: got {shown(dim)}, needs the name of a dimension of ds")
        if dim not in ds.sizes:
            raise ParameterError(f"over: ds has no dimension {dim!r}{did_you_mean(dim, map(str, ds.sizes))}")
        if dim not in own:
            dims = ", ".join(map(str, own))
            raise ParameterError(f"over: no point differs from another along {dim!r}, needs some of {dims}")
        if chosen.count(dim) > 1:
            raise ParameterError(f"over: got {dim!r} twice")
        if ds.sizes[dim] == 0:
            raise ParameterError(f"over: {dim!r} has no points in ds, needs at least one")
    return [dim for dim in own if dim in chosen]
