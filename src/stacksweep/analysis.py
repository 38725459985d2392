"""From a Dataset to a decision: the best point, and what can be traded for what."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple, TypeVar

import numpy as np
import xarray as xr

from stacksweep.columns import Array
from stacksweep.kernels.pareto import front
from stacksweep.parameters import ParameterError, did_you_mean
from stacksweep.results import RESULTS

_OF_UNIT = {"s-1": True, "byte s-1": True, "s": False, "byte": False, "pJ": False, "J": False}

HIGHER_IS_BETTER = {
    **{result.name: _OF_UNIT[result.units] for result in RESULTS if result.units in _OF_UNIT},
    "capacity": True,
    "clock_scale": True,
    "connectivity_efficiency": True,
    "prefill_imbalance": False,
    "decode_imbalance": False,
}
"""Whether more of a result is better, by its unit unless it stands here by name; no entry where that is not clear."""

T = TypeVar("T")


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
        Whether more is better; by default what `HIGHER_IS_BETTER` says of the objective.

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
    >>> from stacksweep.analysis import best
    >>> ds = ss.sweep(model="llama-3.1-8b", memory="fictional_stacked_dram", layers=[4, 8, 12], batch_size=[1, 8, 64])
    >>> fastest = best(ds, "tps", over="batch_size", where=ds.fits & (ds.ttft < 0.5))
    >>> fastest.feasible.values.tolist()
    [False, True, True]
    >>> fastest.batch_size.values.tolist()
    [-1, 1, 1]
    """
    _check_dataset(ds)
    _check_objective(ds, "objective", objective)
    higher = _direction(objective, maximize)
    points = _points(ds, [objective], where)
    chosen = _dimensions(ds, over, points)
    place, feasible = _optimum(points, chosen, higher)

    labelled = _labelled(ds, chosen)
    shape = [points.sizes[dim] for dim in chosen]
    at = zip(chosen, _unravel(place.values, shape), strict=False)
    picked = labelled.isel({dim: xr.Variable(place.dims, positions) for dim, positions in at}).drop_encoding()

    def masked(name: Hashable) -> xr.Variable:
        variable: xr.Variable = _mask(picked[name].variable, feasible)
        kept = [dim for dim in labelled[name].dims if dim in variable.dims]
        return variable.transpose(*kept, ...)

    varying = [name for name in ds.data_vars if name == objective or not points.sizes.keys().isdisjoint(ds[name].dims)]
    moved = [name for name in labelled.coords if not set(chosen).isdisjoint(labelled[name].dims)]
    result = picked.assign({name: masked(name) for name in varying}).assign_coords(
        {name: masked(name) for name in moved}
    )
    if where is not None:
        result = result.assign_coords(_own_coordinates(where, result))
    return result.assign(feasible=feasible)


def pareto(
    ds: xr.Dataset,
    minimize: str | Sequence[str] = (),
    maximize: str | Sequence[str] = (),
    where: xr.DataArray | None = None,
) -> xr.Dataset:
    """
    List the points that no other point dominates: none is at least as good in all objectives and better in one.

    Parameters
    ----------
    ds : xarray.Dataset
        As `sweep` makes it, or any other; its arrays may be dask's.
    minimize, maximize : str or sequence of str
        Numeric variables or coordinates of `ds` of which less, or more, is better. They are compared as float64.
    where : xarray.DataArray of bool, optional
        Which points count. It is broadcast.

    Returns
    -------
    xarray.Dataset
        All variables and coordinates of the points on the front along the dimension `point`, the best in the first
        objective first, then in the second, in the order minimize, maximize; equal points in the order of `ds`.
        Dimensions that have no labels in `ds` become coordinates that hold positions. What does not vary from point to
        point is as in `ds`.

    Raises
    ------
    ParameterError
        If an argument names what `ds` does not have, or does not fit it.

    See Also
    --------
    pareto_mask : the same points as a mask.
    best : one optimum, for each point of some dimensions.

    Notes
    -----
    A point of which an objective is NaN, or whose `valid` is false, counts for nothing. Points that are equal in all
    objectives are all on the front, or none is.

    The objectives of dask arrays are computed at once and chunk by chunk, so that only the front of each chunk is
    kept; the other variables remain to be computed.

    Examples
    --------
    >>> import stacksweep as ss
    >>> from stacksweep.analysis import pareto
    >>> ds = ss.sweep(model="llama-3.1-8b", memory="fictional_stacked_dram", layers=[8, 12], batch_size=[1, 2, 4, 8])
    >>> trade = pareto(ds, minimize="ttft", maximize="tps", where=ds.ttft < 0.5)
    >>> trade.layers.values.tolist(), trade.batch_size.values.tolist()
    ([12, 12, 12], [1, 2, 4])
    """
    sizes, rows = _front(ds, minimize, maximize, where)
    if "point" not in sizes and ("point" in ds.variables or "point" in ds.sizes):
        raise ParameterError("ds: has a 'point' that is no dimension of its points; rename it")
    labelled = _labelled(ds, sizes).drop_encoding()
    if not sizes:
        return labelled.expand_dims("point").isel(point=rows)
    at = zip(sizes, _unravel(rows, list(sizes.values())), strict=False)
    return labelled.isel({dim: xr.Variable("point", positions) for dim, positions in at})


def pareto_mask(
    ds: xr.Dataset,
    minimize: str | Sequence[str] = (),
    maximize: str | Sequence[str] = (),
    where: xr.DataArray | None = None,
) -> xr.DataArray:
    """
    Mark the points that no other point dominates.

    Parameters
    ----------
    ds, minimize, maximize, where
        As those of `pareto`.

    Returns
    -------
    xarray.DataArray of bool
        Over the dimensions of the points: those of the objectives, of `where` and, if there is one, of the boolean
        variable `valid`.

    Raises
    ------
    ParameterError
        If an argument names what `ds` does not have, or does not fit it.

    See Also
    --------
    pareto : the same points as an ordered table.

    Examples
    --------
    >>> import stacksweep as ss
    >>> from stacksweep.analysis import pareto_mask
    >>> ds = ss.sweep(model="llama-3.1-8b", memory="fictional_stacked_dram", layers=[8, 12], batch_size=[1, 2, 4, 8])
    >>> pareto_mask(ds, minimize="ttft", maximize="tps").values.tolist()
    [[False, False, False, False], [True, True, True, True]]
    """
    sizes, rows = _front(ds, minimize, maximize, where)
    mask = np.zeros(prod(sizes.values()), np.bool_)
    mask[rows] = True
    attributes = {"units": "1", "long_name": "whether no other point dominates the point"}
    variable = xr.Variable(tuple(sizes), mask.reshape(tuple(sizes.values())), attributes)
    return ds.coords.to_dataset().assign(pareto=variable)["pareto"]


class _Points(NamedTuple):
    """
    What an optimum depends on, broadcast.

    Parameters
    ----------
    sizes : dict
        Dimensions of the points, in C order.
    objectives : list of xarray.Variable
    valid, wanted : xarray.Variable of bool
    """

    sizes: dict[Hashable, int]
    objectives: list[xr.Variable]
    valid: xr.Variable
    wanted: xr.Variable


def _points(ds: xr.Dataset, objectives: Sequence[str], where: xr.DataArray | None) -> _Points:
    everywhere = xr.Variable((), np.True_)
    has_valid = "valid" in ds.data_vars and ds["valid"].dtype == np.bool_
    valid = ds["valid"].variable if has_valid else everywhere
    wanted = everywhere if where is None else _checked_condition(ds, where).variable
    values = [ds[name].variable.to_base_variable() for name in objectives]
    # the order of a Dataset's own dimensions is not that of its arrays once variables have been taken out
    sizes = {dim: size for variable in (valid, *values, wanted) for dim, size in variable.sizes.items()}
    return _Points(
        sizes, [_broadcast(one, sizes) for one in values], _broadcast(valid, sizes), _broadcast(wanted, sizes)
    )


def _broadcast(variable: Any, sizes: Mapping[Hashable, int]) -> xr.Variable:
    broadcast: xr.Variable = variable.set_dims(sizes)
    return broadcast


def _by_blocks(variables: Sequence[xr.Variable], work: Callable[..., T]) -> list[tuple[tuple[slice, ...], T]]:
    """Call a function of equally shaped arrays on the whole of them, or on each chunk where some are dask's."""
    if all(variable.chunks is None for variable in variables):
        whole = tuple(slice(0, size) for size in variables[0].shape)
        return [(whole, work(*(variable.values for variable in variables)))]
    from dask.delayed import delayed

    chunked = xr.Dataset({str(number): variable for number, variable in enumerate(variables)}).chunk().unify_chunks()
    arrays = [chunked[str(number)].data for number in range(len(variables))]
    # not optimised one by one, so that what they share is computed once
    blocks = [array.to_delayed(optimize_graph=False) for array in arrays]
    sizes_of = arrays[0].chunks
    ends = [np.cumsum(sizes) for sizes in sizes_of]
    places = list(np.ndindex(arrays[0].numblocks))
    parts = [
        tuple(
            slice(int(end[at] - sizes[at]), int(end[at])) for at, end, sizes in zip(place, ends, sizes_of, strict=True)
        )
        for place in places
    ]
    done = delayed(list)([delayed(work)(*(block[place] for block in blocks)) for place in places]).compute()
    return list(zip(parts, done, strict=True))


def _unravel(rows: Array, shape: Sequence[int]) -> tuple[Array, ...]:
    """Positions along each dimension, and along one more of length 1, since numpy refuses none."""
    return np.unravel_index(rows, (*shape, 1))


def _in_whole(rows: Array, part: Sequence[slice], shape: Sequence[int]) -> Array:
    """Flat places in a whole array, from those in a part of it."""
    sizes = [one.stop - one.start for one in part]
    if sizes == list(shape):
        return rows
    at = _unravel(rows, sizes)
    moved = [positions + one.start for positions, one in zip(at, (*part, slice(0, 1)), strict=True)]
    places: Array = np.ravel_multi_index(tuple(moved), (*shape, 1))
    return places


def _optimum(points: _Points, chosen: Sequence[Hashable], higher: bool) -> tuple[xr.Variable, xr.Variable]:
    """Flat place of the optimum over some dimensions, and whether there is one."""
    rest = [dim for dim in points.sizes if dim not in chosen]
    shape = [points.sizes[dim] for dim in chosen]
    variables = [variable.transpose(*rest, *chosen) for variable in (points.objectives[0], points.valid, points.wanted)]

    def work(*arrays: Array) -> _Optimum:
        return _optimum_of_block(*arrays, rest=len(rest), higher=higher)

    empty = variables[0].shape[: len(rest)]
    place, rank = np.zeros(empty, np.int64), np.full(empty, -1)
    value = np.zeros(empty, variables[0].dtype)
    for part, found in _by_blocks(variables, work):
        here = part[: len(rest)]
        found_at = _in_whole(found.place, part[len(rest) :], shape)
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


def _front(
    ds: xr.Dataset, minimize: str | Sequence[str], maximize: str | Sequence[str], where: xr.DataArray | None
) -> tuple[dict[Hashable, int], Array]:
    """Sizes of the points, and flat places of those on the front, ordered."""
    _check_dataset(ds)
    lower, higher = _names(ds, "minimize", minimize), _names(ds, "maximize", maximize)
    names = [*lower, *higher]
    if not names:
        raise ParameterError("minimize, maximize: got no objective, need the name of a variable of ds")
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"minimize, maximize: got {name!r} twice")
    points = _points(ds, names, where)
    for dim in points.sizes:
        if dim not in ds.sizes:
            raise ParameterError(f"where: got the dimension {dim!r}, which ds does not have")
    signs = np.array([1.0] * len(lower) + [-1.0] * len(higher))

    def work(*arrays: Array) -> tuple[Array, Array]:
        return _front_of_block(*arrays, signs=signs)

    found = _by_blocks([*points.objectives, points.valid, points.wanted], work)
    shape = list(points.sizes.values())
    rows = np.concatenate([_in_whole(rows, part, shape) for part, (rows, _) in found])
    if len(found) > 1:
        keys = np.concatenate([keys for _, (_, keys) in found])
        order = np.argsort(rows)
        rows = rows[order][front(keys[order])]
    return points.sizes, rows


def _front_of_block(*arrays: Array, signs: Array) -> tuple[Array, Array]:
    """Flat places of the front of a block in their order, and the objectives there, as less is better."""
    *objectives, valid, wanted = arrays
    counted = valid & wanted
    for values in objectives:
        counted &= values == values
    keys = np.empty((np.count_nonzero(counted), len(objectives)))
    for column, values in enumerate(objectives):
        keys[:, column] = values[counted]
    keys *= signs
    on_front = front(keys)
    return np.flatnonzero(counted)[on_front], keys[on_front]


def _labelled(ds: xr.Dataset, dims: Iterable[Hashable]) -> xr.Dataset:
    """Give dimensions without labels their positions, and those with several indexed labels plain ones."""
    positions = {
        dim: xr.Variable(dim, np.arange(ds.sizes[dim]), {"units": "1", "long_name": f"position along {dim}"})
        for dim in dims
        if dim not in ds.coords
    }
    several = [dim for dim in dims if dim in ds.indexes and ds.indexes[dim].nlevels > 1]
    return ds.assign_coords(positions).reset_index(several)


def _own_coordinates(where: xr.DataArray, result: xr.Dataset) -> Mapping[Hashable, xr.Variable]:
    """Coordinates of the dimensions that only the condition has."""
    return {
        name: coordinate.variable
        for name, coordinate in where.coords.items()
        if name not in result.variables and coordinate.dims and result.sizes.keys() >= set(coordinate.dims)
    }


def _check_dataset(ds: Any) -> None:
    if not isinstance(ds, xr.Dataset):
        raise ParameterError(f"ds: got {type(ds).__name__}, needs an xarray.Dataset")


def _check_objective(ds: xr.Dataset, argument: str, name: Any) -> None:
    numeric = [str(known) for known, variable in ds.variables.items() if variable.dtype.kind in "biuf"]
    if not isinstance(name, str):
        raise ParameterError(f"{argument}: got {_shown(name)}, needs the name of a variable of ds")
    if name not in ds.variables:
        raise ParameterError(f"{argument}: ds has no variable {name!r}{did_you_mean(name, numeric)}")
    if name not in numeric:
        raise ParameterError(f"{argument}: {name!r} holds {ds[name].dtype}, needs numbers")


def _names(ds: xr.Dataset, argument: str, given: Any) -> list[str]:
    if not isinstance(given, Iterable):
        raise ParameterError(f"{argument}: got {_shown(given)}, needs names of variables of ds")
    names = [given] if isinstance(given, str) else list(given)
    for name in names:
        _check_objective(ds, argument, name)
    return names


def _direction(objective: str, maximize: Any) -> bool:
    if maximize is None:
        if objective not in HIGHER_IS_BETTER:
            raise ParameterError(f"maximize: must be true or false, since more of {objective!r} may be good or bad")
        return HIGHER_IS_BETTER[objective]
    if not isinstance(maximize, bool | np.bool_):
        raise ParameterError(f"maximize: got {_shown(maximize)}, needs true, false or None")
    return bool(maximize)


def _dimensions(ds: xr.Dataset, over: Any, points: _Points) -> list[Hashable]:
    """Dimensions to choose from, in the order of the points."""
    own = [dim for dim in points.sizes if dim in ds.sizes]
    if over is None:
        chosen = own
    elif isinstance(over, Iterable):
        chosen = [over] if isinstance(over, str) else list(over)
    else:
        raise ParameterError(f"over: got {_shown(over)}, needs dimensions of ds, or None for all")
    if over is not None and not chosen:
        raise ParameterError("over: got no dimension, needs at least one of ds, or None for all")
    for dim in chosen:
        if not isinstance(dim, str):
            raise ParameterError(f"over: got {_shown(dim)}, needs the name of a dimension of ds")
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


def _shown(value: Any) -> str:
    """Show a wrong value in one line."""
    text = repr(value)
    return text if len(text) <= 60 and "\n" not in text else f"a {type(value).__name__}"


def _checked_condition(ds: xr.Dataset, where: Any) -> xr.DataArray:
    if not isinstance(where, xr.DataArray):
        raise ParameterError(f"where: got {type(where).__name__}, needs an xarray.DataArray of booleans")
    if where.dtype != np.bool_:
        raise ParameterError(f"where: got values of {where.dtype}, needs booleans")
    for dim, size in where.sizes.items():
        if dim not in ds.sizes:
            if dim in ds.variables:
                raise ParameterError(f"where: {dim!r} is a dimension of it, and a variable without dimension in ds")
        elif size != ds.sizes[dim]:
            raise ParameterError(f"where: got {size} points along {dim!r}, needs the {ds.sizes[dim]} of ds")
        elif dim in ds.indexes and dim in where.indexes and not ds.indexes[dim].equals(where.indexes[dim]):
            raise ParameterError(f"where: its labels of {dim!r} are not those of ds")
    return where
