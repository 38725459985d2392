"""Points of a Dataset as columns for a page: which of them, and compactly."""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from stacksweep.analysis import pareto_mask
from stacksweep.columns import Array
from stacksweep.labels import symbol, words
from stacksweep.parameters import ParameterError
from stacksweep.results import ALONG, BY_NAME

FIRST = (("ttft", "tps"), ("tps_per_sequence", "tps"), ("energy_per_token", "tps"))
"""Pairs of results to show first, the first pair that there is."""

SLIDERS = 5000
"""Labels up to which a dimension has a slider."""


@dataclass(frozen=True)
class Table:
    """
    Points of a page.

    Parameters
    ----------
    meta : dict
        JSON-able: counts, columns with what they are, the values that all points share, what is shown first.
    arrays : list of ndarray
        Of each array that the columns name by number, the values of the points: numbers, or codes of labels.
    """

    meta: dict[str, Any]
    arrays: list[Array]


class Points(NamedTuple):
    """Chosen points: places along each dimension, and how many there were."""

    at: dict[Hashable, Array]
    chosen: int
    valid: int
    total: int


def table_of(ds: xr.Dataset, most: int) -> Table:
    """
    Choose points and lay out their columns.

    Parameters
    ----------
    ds : xarray.Dataset
    most : int
        Points to choose at the most.

    Raises
    ------
    ParameterError
        If there is nothing to show.
    """
    results = {name: part for known in ds.data_vars for name, part in _numbers(ds, known)}
    results = {name: part for name, part in results.items() if name not in ("valid", "reason")}
    if not results:
        raise ParameterError("ds: has no variable of numbers, needs at least one to explore")
    parts = [*results.values(), *([ds["valid"]] if "valid" in ds.data_vars else [])]
    sizes = {dim: ds.sizes[dim] for part in parts for dim in part.dims}
    total = prod(sizes.values())
    valid = _valid(ds, sizes)
    if not valid.size:
        raise ParameterError("ds: has no valid point, needs at least one to explore")
    first = _shown_first(ds, results)
    chosen = valid if valid.size <= most else _sample(ds, results, first, valid, sizes, most)
    at = dict(zip(sizes, np.unravel_index(chosen, tuple(sizes.values())), strict=True)) if sizes else {}
    columns, arrays = _columns(ds, results, Points(at, chosen.size, valid.size, total))
    axes = [column["name"] for column in columns if column["kind"] == "axis" and len(column["labels"]) > 1]
    x, y = first or ((axes or list(results))[0], next(iter(results)))
    meta = {
        "points": chosen.size,
        "valid": valid.size,
        "total": total,
        "masked": _reasons(ds, sizes, total - valid.size),
        "columns": columns,
        "types": [array.dtype.str[1:] for array in arrays],
        "shared": _shared(ds),
        "first": {"x": x, "y": y, "colour": axes[0] if axes else None},
    }
    return Table(meta, arrays)


def _numbers(ds: xr.Dataset, known: Hashable) -> Iterator[tuple[str, xr.DataArray]]:
    """Variables of numbers; one for each collective or operation that takes any time."""
    variable = ds[known]
    if variable.dtype.kind not in "biuf":
        return
    along = [dim for dim in variable.dims if dim in ALONG and dim in ds.coords]
    if not along:
        yield str(known), variable
        return
    for label in ds[along[0]].values.tolist():
        part = variable.sel({along[0]: label}, drop=True)
        if bool((part > 0).any()):
            yield f"{known}[{label}]", part


def _flat(part: xr.DataArray, sizes: Mapping[Hashable, int]) -> Array:
    """Values at all points, in C order."""
    variable: Any = part.variable
    return np.asarray(variable.set_dims(sizes).transpose(*sizes).values).ravel()


def _valid(ds: xr.Dataset, sizes: Mapping[Hashable, int]) -> Array:
    """Flat places of the valid points."""
    if "valid" in ds.data_vars and ds["valid"].dtype == np.bool_:
        return np.flatnonzero(_flat(ds["valid"], sizes))
    return np.arange(prod(sizes.values()))


def _reasons(ds: xr.Dataset, sizes: Mapping[Hashable, int], masked: int) -> dict[str, int]:
    """Count the points that are left out for each reason."""
    if not masked:
        return {}
    if "reason" not in ds.data_vars or "flag_meanings" not in ds["reason"].attrs:
        return {"not valid": masked}
    counts = np.bincount(_flat(ds["reason"], sizes).astype(np.int64).clip(0))
    meanings = ds["reason"].attrs["flag_meanings"].split()
    return {meanings[code]: int(count) for code, count in enumerate(counts) if code and count}


def _shown_first(ds: xr.Dataset, results: Mapping[str, xr.DataArray]) -> tuple[str, str] | None:
    for x, y in FIRST:
        if x in results and y in results:
            return x, y
    real = [name for name, part in results.items() if part.dtype.kind == "f"]
    return (real[0], real[1]) if len(real) > 1 else None


def _sample(
    ds: xr.Dataset,
    results: Mapping[str, xr.DataArray],
    first: tuple[str, str] | None,
    valid: Array,
    sizes: Mapping[Hashable, int],
    most: int,
) -> Array:
    """Draw points at random; extremes and fronts come first."""
    kept: list[Array] = []
    directions = {name: _higher(name) for name in first or ()}
    if directions and None not in directions.values() and directions.keys() <= ds.data_vars.keys():
        down = [name for name, more in directions.items() if not more]
        up = [name for name, more in directions.items() if more]
        conditions = [None, *([ds["fits"]] if "fits" in ds.data_vars else [])]
        kept += [np.flatnonzero(_flat(pareto_mask(ds, down, up, where), sizes)) for where in conditions]
    for part in results.values():
        if part.dtype.kind == "f":
            values = _flat(part, sizes)[valid]
            if np.isfinite(values).any():
                kept.append(valid[[np.nanargmin(values), np.nanargmax(values)]])
    always = np.unique(np.concatenate(kept))[:most] if kept else np.array([], np.int64)
    rest = np.setdiff1d(valid, always, assume_unique=True)
    drawn = np.random.default_rng(0).choice(rest, most - always.size, replace=False)
    return np.sort(np.concatenate([always, drawn]))


def _columns(
    ds: xr.Dataset, results: Mapping[str, xr.DataArray], points: Points
) -> tuple[list[dict[str, Any]], list[Array]]:
    """Describe the columns; those along one dimension share the array of its codes."""
    columns: list[dict[str, Any]] = []
    arrays: list[Array] = []
    codes: dict[Hashable, int] = {}
    kept: dict[Hashable, Array] = {}
    for dim, places in points.at.items():
        # all labels for a slider, else those of the chosen points
        kept[dim], of_points = np.arange(ds.sizes[dim]), places
        if ds.sizes[dim] > SLIDERS:
            kept[dim], of_points = np.unique(places, return_inverse=True)
        codes[dim] = len(arrays)
        arrays.append(of_points.astype(np.min_scalar_type(max(kept[dim].size - 1, 0))))
    for dim in points.at:
        own = ds[dim] if dim in ds.coords else xr.DataArray(np.arange(ds.sizes[dim]), dims=[dim], name=dim)
        others = [ds[name] for name in ds.coords if name != dim and ds[name].dims == (dim,)]
        for coordinate in (own, *others):
            if coordinate.dtype.kind not in "biufOUST":
                continue
            slider = coordinate is own and 1 < own.size <= SLIDERS
            column = {**_described(coordinate, str(coordinate.name)), "kind": "axis", "array": codes[dim]}
            shown = [_plain(value) for value in coordinate.values[kept[dim]].tolist()]
            columns.append({**column, "labels": shown, "slider": slider})
    several = {str(name): ds[name] for name in ds.coords if ds[name].ndim > 1 and set(ds[name].dims) <= set(points.at)}
    for name, part in {**several, **results}.items():
        if part.dtype.kind in "OUST":
            labels, places = np.unique(part.values.astype(str), return_inverse=True)
            own_codes = places.reshape(part.shape)[tuple(points.at[dim] for dim in part.dims)]
            column = {**_described(part, name), "kind": "axis", "array": len(arrays)}
            columns.append({**column, "labels": labels.tolist(), "slider": 1 < labels.size <= SLIDERS})
            arrays.append(own_codes.astype(np.min_scalar_type(labels.size - 1)))
            continue
        if part.dtype.kind not in "biuf":
            continue
        values = np.asarray(part.values)[tuple(points.at[dim] for dim in part.dims)]
        values = np.broadcast_to(values, points.chosen) if points.at else np.atleast_1d(values)
        kind = "boolean" if values.dtype == np.bool_ else "number"
        column = {**_described(part, name), "kind": kind, "array": len(arrays)}
        if "flag_masks" in part.attrs:
            column |= {"kind": "flags", "flags": str(part.attrs.get("flag_meanings", "")).split()}
        columns.append(column)
        # parameters are given again as they are
        exact = name in several and values.dtype.kind == "f"
        arrays.append(values.astype(np.float64) if exact else _compact(values))
    return columns, arrays


def _compact(values: Array) -> Array:
    if values.dtype == np.bool_:
        return values.astype(np.uint8)
    small = values.dtype.kind in "iu" and values.dtype.itemsize <= 2
    whole = values.dtype.kind in "iu" and values.size and max(-int(values.min()), int(values.max())) < 2**31
    if small:
        return values
    return values.astype(np.int32 if whole else np.float32)


def _higher(name: str) -> bool | None:
    """Whether more of a result is better; None where that is not known."""
    result = BY_NAME.get(name.partition("[")[0])
    return None if result is None else result.higher_is_better


def _described(part: xr.DataArray, name: str) -> dict[str, Any]:
    shown, factor, prefixed = symbol(part)
    return {
        "name": name,
        "words": words(part),
        "unit": shown,
        "factor": factor,
        "prefixed": prefixed,
        "higher": _higher(name),
    }


def _plain(value: Any) -> Any:
    """Keep numbers that JSON does not know out of it."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _shared(ds: xr.Dataset) -> dict[str, Any]:
    """Values of the coordinates that all points share."""
    scalars = [name for name in ds.coords if ds[name].ndim == 0 and ds[name].dtype.kind in "biufOUST"]
    return {str(name): _plain(ds[name].item()) for name in scalars}
