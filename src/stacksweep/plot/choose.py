"""What is drawn of a Dataset: the points that are selected, and the best over what remains."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from stacksweep.analysis import best
from stacksweep.analysis.points import checked_condition
from stacksweep.parameters import ParameterError, did_you_mean
from stacksweep.plot.quantities import labels
from stacksweep.results import ALONG, BY_NAME

LISTED = 40
"""Names that an error lists."""


def there_are(name: Any, known: Iterable[Hashable]) -> str:
    """Name what there is in place of a wrong name, the nearest first."""
    names = [str(one) for one in known]
    near = did_you_mean(str(name), names) if len(names) > 30 else ""
    if near:
        return near
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"; there are {', '.join(names[:LISTED])}{more}" if names else "; there are none"


def check_number(ds: xr.Dataset, argument: str, name: Any) -> None:
    """Refuse what is not the name of a variable or coordinate of numbers."""
    numeric = [known for known, variable in ds.variables.items() if variable.dtype.kind in "biuf"]
    varying = [known for known in numeric if ds[known].ndim] or numeric
    if not isinstance(name, str) or name not in ds.variables:
        raise ParameterError(f"{argument}: ds has no variable {name!r}{there_are(name, varying)}")
    if name not in numeric:
        raise ParameterError(f"{argument}: {name!r} holds {ds[name].dtype}, needs numbers")


def axis_of(ds: xr.Dataset, argument: str, name: Any) -> tuple[Hashable, xr.DataArray]:
    """
    Dimension and values of an axis.

    Parameters
    ----------
    ds : xarray.Dataset
    argument : str
        Named by errors.
    name : str
        A dimension, or a coordinate along one.

    Returns
    -------
    hashable, xarray.DataArray

    Raises
    ------
    ParameterError
        If it is neither.
    """
    if isinstance(name, str) and name in ds.dims:
        values = ds[name] if name in ds.coords else xr.DataArray(np.arange(ds.sizes[name]), dims=name, name=name)
    elif isinstance(name, str) and name in ds.coords and ds[name].ndim == 1:
        values = ds[name]
    else:
        known = dict.fromkeys([*ds.dims, *(one for one in ds.coords if ds[one].ndim == 1)])
        raise ParameterError(f"{argument}: ds has no axis {name!r}{there_are(name, known)}")
    if values.size == 0:
        raise ParameterError(f"{argument}: {name!r} has no points")
    return values.dims[0], values


def select(ds: xr.Dataset, sel: Mapping[str, Any] | None) -> tuple[xr.Dataset, list[str]]:
    """
    Select labels; also say in words which.

    Raises
    ------
    ParameterError
        If a dimension or a label is not there.
    """
    if sel is None:
        return ds, []
    if not isinstance(sel, Mapping):
        raise ParameterError(f"sel: got {type(sel).__name__}, needs a mapping of dimensions to labels")
    notes = []
    for dim, label in sel.items():
        if dim not in ds.dims:
            fixed = " any more" if dim in ds.coords else ""
            raise ParameterError(f"sel: ds has no dimension {dim!r}{fixed}{there_are(dim, ds.dims)}")
        try:
            ds = ds.sel({dim: label}) if dim in ds.indexes else ds.isel({dim: label})
        except (KeyError, IndexError, TypeError, ValueError):
            known = labels(ds[dim]) if dim in ds.coords else [f"0 to {ds.sizes[dim] - 1}"]
            raise ParameterError(f"sel: {dim} has no label {label!r}{there_are(label, known)}") from None
        if dim not in ds.dims:
            text = labels(ds[dim].expand_dims("one"))[0] if dim in ds.coords else str(label)
            notes.append(f"{str(dim).replace('_', ' ')} {text}")
    return ds, notes


def condition_of(ds: xr.Dataset, where: Any, sel: Mapping[str, Any] | None) -> xr.DataArray | None:
    """Check a condition, and select the same part of it as of the Dataset."""
    if where is None:
        return None
    where = checked_condition(ds, where)
    foreign = [dim for dim in where.dims if dim not in ds.dims]
    if foreign:
        raise ParameterError(f"where: ds has no dimension {foreign[0]!r}{there_are(foreign[0], ds.dims)}")
    indexers = {dim: label for dim, label in (sel or {}).items() if dim in where.dims}
    return select(where.to_dataset(name="where"), indexers)[0]["where"]


def reduced(
    ds: xr.Dataset,
    name: str,
    keep: Sequence[Hashable],
    sel: Mapping[str, Any] | None,
    where: xr.DataArray | None,
    objective: str | None,
    maximize: bool | None,
) -> tuple[xr.Dataset, list[str]]:
    """
    Reduce a variable to some dimensions: select, and take the best over what remains.

    Parameters
    ----------
    ds : xarray.Dataset
        Of which `sel` is already selected.
    name : str
        What is drawn.
    keep : sequence
        Dimensions to keep.
    sel, where
        As of the functions that draw.
    objective : str, optional
        By which points are chosen; what is drawn unless given.
    maximize : bool, optional
        As of `best`.

    Returns
    -------
    xarray.Dataset
        The variable, NaN where there is no point, and `fits` where it is known.
    list of str
        What was done, in words.
    """
    chosen_by = name if objective is None else objective
    check_number(ds, "objective", chosen_by)
    for dim in keep:
        if dim not in ds[name].dims and dim not in ds[chosen_by].dims:
            raise ParameterError(f"{name!r} does not vary along {dim!r}{there_are(dim, ds[name].dims)}")
    parts = [ds[name], ds[chosen_by], *([ds["valid"]] if "valid" in ds else [])]
    dims = dict.fromkeys(dim for part in parts for dim in part.dims)
    rest = [dim for dim in dims if dim not in keep]
    along = [dim for dim in rest if dim in ALONG]
    if along:
        raise ParameterError(
            f"sel: {name!r} has a value for each {along[0]}; choose one{there_are('', ds[along[0]].values.tolist())}"
        )
    wanted = dict.fromkeys([name, chosen_by, *(one for one in ("valid", "fits") if one in ds.data_vars)])
    small = ds[[one for one in wanted if one in ds.data_vars]]
    notes = []
    if rest:
        found = best(small, chosen_by, over=[str(dim) for dim in rest], where=where, maximize=maximize)
        allowed = found["feasible"]
        notes.append(f"best {chosen_by.replace('_', ' ')} over {', '.join(str(d).replace('_', ' ') for d in rest)}")
    else:
        found = small
        allowed = ds["valid"] if "valid" in ds.data_vars else xr.ones_like(ds[name], bool)
        if where is not None:
            allowed = allowed & where
    drawn: dict[str, Any] = {name: found[name].where(allowed)}
    if "fits" in found.data_vars:
        drawn["fits"] = found["fits"] & allowed
    sizes = {dim: ds.sizes[dim] for dim in keep}
    # bare variables: what is drawn may be a coordinate
    variables = {one: part.variable.set_dims(sizes).transpose(*keep) for one, part in drawn.items()}
    return xr.Dataset(variables).compute(), notes


def higher_is_better(argument: str, name: str, minimize: Sequence[str], maximize: Sequence[str]) -> bool:
    """
    Direction of an objective.

    Raises
    ------
    ParameterError
        If nothing says which it is.
    """
    if name in maximize or name in minimize:
        return name in maximize
    known = BY_NAME[name].higher_is_better if name in BY_NAME else None
    if known is None:
        raise ParameterError(f"{argument}: more of {name!r} may be good or bad; name it in minimize or in maximize")
    return known


def names_of(argument: str, given: Any, known: Sequence[str]) -> list[str]:
    """Check names that must be among a few."""
    names = [given] if isinstance(given, str) else list(given)
    for name in names:
        if name not in known:
            raise ParameterError(f"{argument}: got {name!r}, needs some of {', '.join(known)}")
    return names
