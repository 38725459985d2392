"""
From arguments to columns: every parameter over its own dimensions only.

The sizes of all dimensions together are the grid of the result; nothing is broadcast to it here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
import xarray as xr

from stacksweep.columns import Array, Column
from stacksweep.parameters import BY_NAME, PARAMETERS, Parameter, ParameterError, parameter
from stacksweep.results import ALONG
from stacksweep.results import BY_NAME as RESULTS_BY_NAME
from stacksweep.threads import each

POINT = "point"
"""Dimension of unordered points."""

Loader = Callable[[Any], Any]
Coordinate = tuple[tuple[str, ...], Array, dict[str, Any]]


@dataclass(frozen=True)
class Space:
    """
    The axes of a sweep.

    Parameters
    ----------
    sizes : dict
        Lengths of the dimensions, in the order of the result.
    columns : dict
        A column for each parameter that was given or has a default.
    coordinates : dict
        Coordinates of the result, `(dims, values, attributes)` by name.
    fill : str, optional
        Parallel size that is to fill the devices of the network.
    """

    sizes: dict[str, int]
    columns: dict[str, Column]
    coordinates: dict[str, Coordinate]
    fill: str | None = None


def build(arguments: Mapping[str, Any], points: Any = None, loaders: Mapping[str, Loader] | None = None) -> Space:
    """
    Turn the arguments of a call into columns and coordinates.

    Parameters
    ----------
    arguments : mapping
        Values by parameter name: one value, a list (or tuple, range, 1-D array), or an `xarray.DataArray`.
    points : pandas.DataFrame or xarray.Dataset, optional
        Columns that are parameters, along one dimension `point`.
    loaders : mapping
        For each parameter of kind "profile" the function that loads one.

    Returns
    -------
    Space

    Raises
    ------
    ParameterError
        For an unknown parameter, a value outside the limits, or lengths or coordinates that do not agree.
    """
    loaders = loaders or {}
    given: dict[str, Any] = {}
    carried: dict[str, Coordinate] = {}
    if points is not None:
        given, carried = _columns_of_points(points)
    for name, value in arguments.items():
        known = parameter(name)
        if value is None:
            continue
        if name in given:
            raise ParameterError(f"{name}: given both in points and as an argument; give it once")
        given[known.name] = value
    fills = [name for name, value in given.items() if BY_NAME[name].kind == "parallel" and _is_fill(value)]
    if len(fills) > 1:
        raise ParameterError(f'{fills[1]}: got "fill", and {fills[0]} fills the devices already; only one size can')

    sizes: dict[str, int] = {}
    columns: dict[str, Column] = {}
    coordinates = dict(carried)
    for dims, values, _ in carried.values():
        sizes.update(zip(dims, np.shape(values), strict=True))
    read = {name: _dims_and_values(BY_NAME[name], value) for name, value in given.items() if name not in fills}
    largest = max((np.size(values) for _, values, _ in read.values() if isinstance(values, np.ndarray)), default=1)
    checked = each(lambda name: _column(BY_NAME[name], *read[name][:2], loaders), list(read), largest)
    for (name, (_, _, extra)), column in zip(read.items(), checked, strict=True):
        _merge_sizes(name, column, sizes)
        for label, coordinate in extra.items():
            _check_label(name, label, coordinate[1])
            _merge_coordinate(name, label, coordinate, coordinates)
        columns[name] = column
    for known in PARAMETERS:
        if known.name not in columns and known.name not in fills and known.default is not None and not known.chips:
            columns[known.name] = _column(known, (), known.default, loaders)
    _check_dimension_names(sizes, columns)
    labels = each(lambda name: _labels(BY_NAME[name], columns[name]), list(columns), largest)
    for (name, column), values in zip(columns.items(), labels, strict=True):
        known = BY_NAME[name]
        own = (column.dims, values, {"units": known.units, "long_name": known.words})
        _merge_coordinate(name, known.coordinate, own, coordinates)
        coordinates[known.coordinate] = own
    for label in coordinates.keys() & {known.coordinate for known in PARAMETERS}:
        if not any(label == BY_NAME[name].coordinate for name in columns):
            raise ParameterError(
                f"coordinate {label!r}: is named after a parameter that this call does not give; give it or drop the "
                "coordinate"
            )
    return Space(sizes, columns, coordinates, fills[0] if fills else None)


def _is_fill(value: Any) -> bool:
    return isinstance(value, str) and value == "fill"


@dataclass(frozen=True)
class _AlongPoints:
    """Values of a column of points."""

    values: Any


def _columns_of_points(points: Any) -> tuple[dict[str, Any], dict[str, Coordinate]]:
    """Split a table of points into parameters and its own labels."""
    given: dict[str, Any]
    labels: dict[str, Coordinate] = {}
    if isinstance(points, pd.DataFrame):
        if not points.columns.is_unique:
            raise ParameterError("points: a column stands more than once")
        given = {
            cast(str, name): _AlongPoints(
                series.array if isinstance(series.dtype, pd.CategoricalDtype) else series.to_numpy()
            )
            for name, series in points.items()
        }
        if points.index.nlevels > 1:
            raise ParameterError(
                "points: its index has several levels, needs one; see DataFrame.reset_index(drop=True)"
            )
        if points.index.name in BY_NAME:
            raise ParameterError(f"points: its index is called {points.index.name!r}; see DataFrame.reset_index()")
        index = points.index.to_numpy()
        if not np.array_equal(index, np.arange(len(index))):
            labels[POINT] = ((POINT,), _own(index), {})
    elif isinstance(points, xr.Dataset):
        if len(points.dims) != 1:
            raise ParameterError(f"points: got dimensions {tuple(points.dims)}, needs exactly one")
        (dim,) = points.dims
        given = {}
        for name, value in points.variables.items():
            if name in BY_NAME or name in points.data_vars:
                given[str(name)] = _AlongPoints(value.to_numpy()) if value.ndim else value.to_numpy().item()
            elif value.dims == (dim,):
                labels[POINT if name == dim else str(name)] = ((POINT,), _own(value.to_numpy()), dict(value.attrs))
    else:
        raise ParameterError(f"points: got {type(points).__name__}, needs a pandas.DataFrame or an xarray.Dataset")
    for name in given:
        parameter(str(name))
    for name, (_, values, _) in labels.items():
        _check_label("points", name, values)
    if not given:
        raise ParameterError("points: got no column, needs at least one parameter")
    return given, labels


def _own(labels: Array) -> Array:
    """Copy labels; text as objects, since fixed-length text has no stable form in Zarr."""
    return labels.astype(object if labels.dtype.kind == "U" else labels.dtype)


def _dims_and_values(known: Parameter, value: Any) -> tuple[tuple[str, ...], Any, dict[str, Coordinate]]:
    """Name the dimensions of an argument, and keep the coordinates that an array brings along."""
    if isinstance(value, _AlongPoints):
        return (POINT,), value.values, {}
    if isinstance(value, xr.DataArray):
        if value.ndim == 0:
            return (), value.item(), {}
        own = (known.name, known.coordinate)
        dims = tuple(known.coordinate if dim in own else str(dim) for dim in value.dims)
        extra = {
            str(name): (tuple(map(str, array.dims)), _own(array.to_numpy()), dict(array.attrs))
            for name, array in value.coords.items()
            if name not in own and array.ndim > 0
        }
        return dims, value.to_numpy(), extra
    if isinstance(value, np.ndarray | pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        if np.ma.isMaskedArray(value):
            raise ParameterError(f"{known.name}: got a masked array, needs plain values")
        array = np.asarray(value)
        if array.ndim > 1:
            raise ParameterError(
                f"{known.name}: got an array of {array.ndim} dimensions; name them with an xarray.DataArray"
            )
        return ((known.coordinate,) if array.ndim else ()), (array if array.ndim else array.item()), {}
    if isinstance(value, list | tuple | range):
        return (known.coordinate,), list(value), {}
    return (), value, {}


def _column(known: Parameter, dims: tuple[str, ...], values: Any, loaders: Mapping[str, Loader]) -> Column:
    if dims and (values.size if isinstance(values, np.ndarray) else len(values)) == 0:
        raise ParameterError(f"{known.name}: got no values, needs at least one")
    if known.kind in ("integer", "parallel", "number"):
        return Column(dims, _numbers(known, dims, values))
    return _categories(known, dims, values, loaders)


def _numbers(known: Parameter, dims: tuple[str, ...], values: Any) -> Array:
    """Check numbers against the kind and the limits of their parameter."""

    def refuse(value: Any) -> ParameterError:
        shown = repr(value.item() if isinstance(value, np.generic) else value)
        return ParameterError(f"{known.name}: got {shown}, needs {known.allowed}")

    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        return _numbers(known, dims, values.ravel().tolist()).reshape(values.shape)
    if isinstance(values, list):
        for value in values:
            if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
                raise refuse(value)
    elif not isinstance(values, np.ndarray) and (
        isinstance(values, bool | np.bool_) or not isinstance(values, int | float | np.number)
    ):
        raise refuse(values)
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        # numbers beyond 64 bits make an array of objects, words one of text
        raise refuse(max(values, key=abs) if isinstance(values, list) else array.ravel()[0])
    low, high = float(array.min()), float(array.max())
    inside = low >= known.low and high <= known.high
    whole = known.kind == "number" or array.dtype.kind in "iu" or np.array_equal(array, np.floor(array))
    if not (inside and whole):
        with np.errstate(invalid="ignore"):
            wrong = ~((array >= known.low) & (array <= known.high))
            if known.kind != "number":
                wrong |= array != np.floor(array)
        raise refuse(array[wrong][0] if array.ndim else array[()])
    return array.astype(np.float64)


def _categories(known: Parameter, dims: tuple[str, ...], values: Any, loaders: Mapping[str, Loader]) -> Column:
    """Give a number to each of the different profiles, words or switches of an argument."""
    shape = np.shape(values) if dims else (1,)
    different: Sequence[Any]
    if isinstance(values, pd.Categorical):
        if values.isna().any():
            raise ParameterError(f"{known.name}: got nan, needs {known.allowed}")
        used = values.remove_unused_categories()
        codes, different = used.codes, list(used.categories)
    elif isinstance(values, np.ndarray) and values.dtype.kind == "b":
        codes, different = values.ravel().astype(np.int64), [False, True]
    else:
        entries = values if isinstance(values, np.ndarray) else _objects(values if dims else [values])
        codes, different = _sort_out(entries.ravel(), known)
    choices: list[Any] = []
    place = []
    for entry in different:
        choice = _category(known, entry, loaders)
        if choice not in choices:
            choices.append(choice)
        place.append(choices.index(choice))
    codes = np.array(place)[np.asarray(codes, np.int64)].reshape(shape)
    if known.kind in ("profile", "routing"):
        _check_names(known, choices)
    return Column(dims, codes if dims else codes[0], tuple(choices))


def _objects(values: Sequence[Any]) -> Array:
    """Hold objects in an array, one by one, whatever they are."""
    array = np.empty(len(values), object)
    for position, value in enumerate(values):
        array[position] = value
    return array


def _sort_out(entries: Array, known: Parameter) -> tuple[Array, Sequence[Any]]:
    """Give entries numbers, equal ones the same."""
    if known.kind == "switch":
        # 1 equals True, and is no switch
        for entry in entries:
            _category(known, entry, {})
    if entries.dtype.kind == "U":
        few = _few_words(entries)
        if few is not None:
            return few
        entries = entries.astype(object)
    if any(entry is None for entry in entries):
        raise ParameterError(f"{known.name}: got None, needs {known.allowed}")
    try:
        codes, different = pd.factorize(entries, use_na_sentinel=False)
    except TypeError:
        # mappings cannot be looked up; equal ones are found once they are loaded
        return np.arange(entries.size), list(entries)
    return codes, list(different)


FEW_WORDS = 16
"""Up to so many different words are found faster by comparison than by hashing."""


def _few_words(entries: Array) -> tuple[Array, Sequence[Any]] | None:
    """Give words numbers, equal ones the same; None if there are many different ones."""
    codes = np.full(entries.size, -1)
    words: list[str] = []
    while True:
        first = int(np.argmin(codes))
        if codes[first] >= 0:
            return codes, words
        if len(words) == FEW_WORDS:
            return None
        codes[entries == entries[first]] = len(words)
        words.append(str(entries[first]))


def _category(known: Parameter, entry: Any, loaders: Mapping[str, Loader]) -> Any:
    if known.kind in ("profile", "routing"):
        return loaders[known.name](entry)
    if known.kind == "switch":
        if not isinstance(entry, bool | np.bool_):
            raise ParameterError(f"{known.name}: got {entry!r}, needs {known.allowed}")
        return bool(entry)
    if not isinstance(entry, str) or entry not in known.choices:
        raise ParameterError(f"{known.name}: got {entry!r}, needs {known.allowed}")
    return str(entry)


def _check_names(known: Parameter, choices: Sequence[Any]) -> None:
    names = [choice.name for choice in choices]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"{known.name}: two different ones are called {name!r}; give each its own name")


def _labels(known: Parameter, column: Column) -> Array:
    if known.kind in ("integer", "parallel"):
        return column.values.astype(np.int64)
    if known.kind == "number":
        return column.values
    if known.kind == "switch":
        return np.array(column.choices)[column.values]
    # text as objects: fixed-length text has no stable form in Zarr, and many points share few words
    names = np.array([choice if known.kind == "choice" else choice.name for choice in column.choices], object)
    return np.asarray(names[column.values], object)


def _merge_sizes(name: str, column: Column, sizes: dict[str, int]) -> None:
    for dim, size in zip(column.dims, column.values.shape, strict=True):
        if sizes.setdefault(dim, size) != size:
            raise ParameterError(f"{name}: has {size} values along {dim!r}, where other parameters have {sizes[dim]}")


def _merge_coordinate(name: str, label: str, coordinate: Coordinate, coordinates: dict[str, Coordinate]) -> None:
    known = coordinates.setdefault(label, coordinate)
    if known is coordinate:
        return
    same = known[0] == coordinate[0] and np.array_equal(
        known[1], coordinate[1], equal_nan=known[1].dtype.kind == "f" and coordinate[1].dtype.kind == "f"
    )
    if not same:
        raise ParameterError(f"{name}: its coordinate {label!r} differs from that of another parameter")


def _check_label(name: str, label: str, values: Array) -> None:
    """Refuse coordinates that would be mistaken for a result, or that no file can hold."""
    if label in RESULTS_BY_NAME or label in ALONG:
        raise ParameterError(f"{name}: brings a coordinate {label!r}, a name that results use; rename or drop it")
    if values.dtype.kind == "O" and not all(isinstance(value, str) for value in values.ravel()):
        raise ParameterError(f"{name}: its coordinate {label!r} holds values of several kinds; needs numbers or text")


def _check_dimension_names(sizes: Mapping[str, int], columns: Mapping[str, Column]) -> None:
    """Refuse dimensions that would be mistaken for a parameter or a result."""
    by_coordinate = {known.coordinate: known for known in PARAMETERS}
    for dim in sizes:
        if dim in by_coordinate:
            column = columns.get(by_coordinate[dim].name)
            if column is None or dim not in column.dims:
                raise ParameterError(
                    f"dimension {dim!r}: is named after a parameter that does not vary along it; rename the dimension"
                )
            if column.dims != (dim,):
                raise ParameterError(
                    f"dimension {dim!r}: is named after a parameter that also varies along "
                    f"{tuple(d for d in column.dims if d != dim)}; rename the dimension"
                )
        elif dim in RESULTS_BY_NAME or dim in BY_NAME or dim in ALONG:
            raise ParameterError(f"dimension {dim!r}: is a name that results use; rename the dimension")
