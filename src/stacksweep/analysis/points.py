"""Points of a Dataset: what analyses check, broadcast and label."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import xarray as xr

from stacksweep.columns import Array
from stacksweep.parameters import ParameterError, did_you_mean

T = TypeVar("T")


class Points(NamedTuple):
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


def points_of(ds: xr.Dataset, objectives: Sequence[str], where: xr.DataArray | None) -> Points:
    """Broadcast some variables against each other, the condition, and `valid` where it is a boolean variable."""
    everywhere = xr.Variable((), np.True_)
    has_valid = "valid" in ds.data_vars and ds["valid"].dtype == np.bool_
    valid = ds["valid"].variable if has_valid else everywhere
    wanted = everywhere if where is None else checked_condition(ds, where).variable
    values = [ds[name].variable.to_base_variable() for name in objectives]
    # the order of a Dataset's own dimensions is not that of its arrays once variables have been taken out
    sizes = {dim: size for variable in (valid, *values, wanted) for dim, size in variable.sizes.items()}
    return Points(
        sizes, [_broadcast(one, sizes) for one in values], _broadcast(valid, sizes), _broadcast(wanted, sizes)
    )


def _broadcast(variable: Any, sizes: Mapping[Hashable, int]) -> xr.Variable:
    broadcast: xr.Variable = variable.set_dims(sizes)
    return broadcast


def by_blocks(variables: Sequence[xr.Variable], work: Callable[..., T]) -> list[tuple[tuple[slice, ...], T]]:
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


def unravel(rows: Array, shape: Sequence[int]) -> tuple[Array, ...]:
    """Positions along each dimension, and along one more of length 1, since numpy refuses none."""
    return np.unravel_index(rows, (*shape, 1))


def in_whole(rows: Array, part: Sequence[slice], shape: Sequence[int]) -> Array:
    """Flat places in a whole array, from those in a part of it."""
    sizes = [one.stop - one.start for one in part]
    if sizes == list(shape):
        return rows
    at = unravel(rows, sizes)
    moved = [positions + one.start for positions, one in zip(at, (*part, slice(0, 1)), strict=True)]
    places: Array = np.ravel_multi_index(tuple(moved), (*shape, 1))
    return places


def labelled(ds: xr.Dataset, dims: Iterable[Hashable]) -> xr.Dataset:
    """Give dimensions without labels their positions, and those with several indexed labels plain ones."""
    positions = {
        dim: xr.Variable(dim, np.arange(ds.sizes[dim]), {"units": "1", "long_name": f"position along {dim}"})
        for dim in dims
        if dim not in ds.coords
    }
    several = [dim for dim in dims if dim in ds.indexes and ds.indexes[dim].nlevels > 1]
    return ds.assign_coords(positions).reset_index(several)


def check_dataset(ds: Any) -> None:
    """Refuse what is no Dataset."""
    if not isinstance(ds, xr.Dataset):
        raise ParameterError(f"ds: got {type(ds).__name__}, needs an xarray.Dataset")


def check_variable(ds: xr.Dataset, argument: str, name: Any) -> None:
    """Refuse what is not the name of a variable or coordinate of numbers."""
    numeric = [str(known) for known, variable in ds.variables.items() if variable.dtype.kind in "biuf"]
    if not isinstance(name, str):
        raise ParameterError(f"{argument}: got {shown(name)}, needs the name of a variable of ds")
    if name not in ds.variables:
        raise ParameterError(f"{argument}: ds has no variable {name!r}{did_you_mean(name, numeric)}")
    if name not in numeric:
        raise ParameterError(f"{argument}: {name!r} holds {ds[name].dtype}, needs numbers")


def shown(value: Any) -> str:
    """Show a wrong value in one line."""
    text = repr(value)
    return text if len(text) <= 60 and "\n" not in text else f"a {type(value).__name__}"


def checked_condition(ds: xr.Dataset, where: Any) -> xr.DataArray:
    """Refuse a condition that is not one of booleans, or not one of the points of a Dataset."""
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
