"""What can be traded: the points that no other dominates."""

from collections.abc import Hashable, Iterable, Sequence
from math import prod
from typing import Any

import numpy as np
import xarray as xr

from stacksweep.analysis.points import (
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
from stacksweep.kernels.pareto import front
from stacksweep.parameters import ParameterError


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
    >>> ds = ss.sweep(model="llama-3.1-8b", memory="fictional_stacked_dram", layers=[8, 12], batch_size=[1, 2, 4, 8])
    >>> trade = ss.pareto(ds, minimize="ttft", maximize="tps", where=ds.ttft < 0.5)
    >>> trade.layers.values.tolist(), trade.batch_size.values.tolist()
    ([12, 12, 12], [1, 2, 4])
    """
    sizes, rows = _front(ds, minimize, maximize, where)
    if "point" not in sizes and ("point" in ds.variables or "point" in ds.sizes):
        raise ParameterError("ds: has a 'point' that is no dimension of its points; rename it")
    whole = labelled(ds, sizes).drop_encoding()
    if not sizes:
        return whole.expand_dims("point").isel(point=rows)
    at = zip(sizes, unravel(rows, list(sizes.values())), strict=False)
    return whole.isel({dim: xr.Variable("point", positions) for dim, positions in at})


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
    >>> ds = ss.sweep(model="llama-3.1-8b", memory="fictional_stacked_dram", layers=[8, 12], batch_size=[1, 2, 4, 8])
    >>> ss.pareto_mask(ds, minimize="ttft", maximize="tps").values.tolist()
    [[False, False, False, False], [True, True, True, True]]
    """
    sizes, rows = _front(ds, minimize, maximize, where)
    mask = np.zeros(prod(sizes.values()), np.bool_)
    mask[rows] = True
    attributes = {"units": "1", "long_name": "whether no other point dominates the point"}
    variable = xr.Variable(tuple(sizes), mask.reshape(tuple(sizes.values())), attributes)
    return ds.coords.to_dataset().assign(pareto=variable)["pareto"]


def _front(
    ds: xr.Dataset, minimize: str | Sequence[str], maximize: str | Sequence[str], where: xr.DataArray | None
) -> tuple[dict[Hashable, int], Array]:
    """Sizes of the points, and flat places of those on the front, ordered."""
    check_dataset(ds)
    lower, higher = _names(ds, "minimize", minimize), _names(ds, "maximize", maximize)
    names = [*lower, *higher]
    if not names:
        raise ParameterError("minimize, maximize: got no objective, need the name of a variable of ds")
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"minimize, maximize: got {name!r} twice")
    points = points_of(ds, names, where)
    for dim in points.sizes:
        if dim not in ds.sizes:
            raise ParameterError(f"where: got the dimension {dim!r}, which ds does not have")
    signs = np.array([1.0] * len(lower) + [-1.0] * len(higher))

    def work(*arrays: Array) -> tuple[Array, Array]:
        return _front_of_block(*arrays, signs=signs)

    found = by_blocks([*points.objectives, points.valid, points.wanted], work)
    shape = list(points.sizes.values())
    rows = np.concatenate([in_whole(rows, part, shape) for part, (rows, _) in found])
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


def _names(ds: xr.Dataset, argument: str, given: Any) -> list[str]:
    if not isinstance(given, Iterable):
        raise ParameterError(f"{argument}: got {shown(given)}, needs names of variables of ds")
    names = [given] if isinstance(given, str) else list(given)
    for name in names:
        check_variable(ds, argument, name)
    return names
