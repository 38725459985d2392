"""
Specs of sweeps: TOML files that hold the arguments of a call.

    points = "points.csv"                  # optional: unordered points, columns are parameters
    outputs = ["tps", "fits"]              # optional: "main" (default), "all", "bottleneck", or names of results
    dtype = "float32"                      # optional: "float64" (default) or "float32"

    [parameters]
    model = "llama-3.1-8b"                 # a bundled name, a path ("models/config.json"), or a table
    layers = [4, 8, 12]                    # a value, a list,
    batch_size = { start = 1, stop = 65 }  # or a range like Python's, `stop` not included, `step` 1 unless given

Paths are relative to the folder of the spec. A text is a path if it has a slash or ends in .json, .toml or .npz.
"""

import csv
import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from stacksweep.columns import Array
from stacksweep.parameters import BY_NAME, Parameter, ParameterError, did_you_mean, parameter
from stacksweep.space import POINT

KEYS = ("parameters", "points", "outputs", "dtype")
"""What a spec may hold at its top."""

LONGEST_RANGE = 10_000_000
"""Values that a range may have: more are a slip, and would fill the memory before anything could be checked."""

LINES_AT_A_TIME = 2**10
"""Lines of a table of points that are text at the same time: few, so that garbage collection stays cheap."""

_NUMBERS = ("integer", "parallel", "number")
_PROFILES = ("profile", "routing")


class SpecError(ValueError):
    """A spec or a table of points that cannot be used; one line that names the file, what is wrong and what can be."""


@dataclass(frozen=True)
class Spec:
    """
    Arguments of a sweep.

    Parameters
    ----------
    parameters : dict
        Values by parameter name.
    points : xarray.Dataset, optional
        Unordered points.
    outputs : str or list of str
    dtype : str
    """

    parameters: dict[str, Any]
    points: xr.Dataset | None = None
    outputs: str | list[str] = "main"
    dtype: str = "float64"


def read_spec(path: Path) -> Spec:
    """
    Read a spec.

    Parameters
    ----------
    path : Path
        Of a TOML file in the layout above.

    Returns
    -------
    Spec

    Raises
    ------
    SpecError
        If it is no TOML, has an unknown key, or its table of points is damaged.
    ParameterError
        If a parameter is unknown, or its range has no values or too many.
    OSError
        If a file cannot be read.
    """
    try:
        content = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise SpecError(f"{path}: not valid TOML: it is not UTF-8 text") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SpecError(f"{path}: not valid TOML: {error}") from None
    for key in content:
        if key not in KEYS:
            hint = "; parameters stand below [parameters]" if key in BY_NAME else did_you_mean(key, KEYS)
            raise SpecError(f"{path}: {key}: no such key of a spec{hint}")
    folder = path.parent
    parameters = _entry(path, content, "parameters", dict, {}, "a table [parameters]")
    points = _entry(path, content, "points", str, None, "the path of a CSV file")
    outputs = _entry(path, content, "outputs", str | list, "main", "text or a list of texts")
    dtype = _entry(path, content, "dtype", str, "float64", "float64 or float32")
    return Spec(
        {name: _argument(parameter(name), value, folder) for name, value in parameters.items()},
        None if points is None else read_points(folder / points, folder),
        outputs,
        dtype,
    )


def _entry(path: Path, content: dict[str, Any], key: str, kind: Any, default: Any, needs: str) -> Any:
    value = content.get(key, default)
    if value is not default and not isinstance(value, kind):
        raise SpecError(f"{path}: {key}: got {value!r}, needs {needs}")
    return value


def _argument(known: Parameter, value: Any, folder: Path) -> Any:
    if known.kind in _NUMBERS and isinstance(value, dict):
        return _range(known, value)
    if known.kind in _PROFILES:
        return [located(entry, folder) for entry in value] if isinstance(value, list) else located(value, folder)
    return value


def located(value: Any, folder: Path) -> Any:
    """Take a path as relative to a folder; names and everything else stay."""
    if isinstance(value, str) and ("/" in value or Path(value).suffix.lower() in (".json", ".toml", ".npz")):
        return str(folder / value)
    return value


def _range(known: Parameter, table: dict[str, Any]) -> range | list[float]:
    """Write out a range, exactly as its decimal numbers say."""
    for key in table:
        if key not in ("start", "stop", "step"):
            raise ParameterError(f"{known.name}: a range has start, stop and step, got {key!r}")
    for key in ("start", "stop"):
        if key not in table:
            raise ParameterError(f"{known.name}: a range needs start and stop, {key} is missing")
    for key, value in table.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ParameterError(f"{known.name}: {key} of the range: got {value!r}, needs a finite number")
    start, stop, step = table["start"], table["stop"], table.get("step", 1)
    if step == 0:
        raise ParameterError(f"{known.name}: step of the range: got {step!r}, needs a number other than 0")
    # as fractions of the shortest decimals: 0.1 + 2 * 0.1 is what 0.3 is, and a stop of 0.3 ends before it
    first, last, by = (Fraction(repr(number)) for number in (start, stop, step))
    count = math.ceil((last - first) / by)
    if not 1 <= count <= LONGEST_RANGE:
        needs = "at least one" if count < 1 else f"at most {LONGEST_RANGE:,}"
        words = f"start = {start}, stop = {stop}, step = {step}"
        raise ParameterError(f"{known.name}: the range {words} has {max(count, 0):,} values, needs {needs}")
    if all(isinstance(number, int) for number in (start, stop, step)):
        return range(start, stop, step)
    whole = math.lcm(first.denominator, by.denominator)
    low, stride = int(first * whole), int(by * whole)
    return [(low + position * stride) / whole for position in range(count)]


def value_of(known: Parameter, text: str) -> Any:
    """
    Turn text into a value of a parameter.

    Parameters
    ----------
    known : Parameter
    text : str

    Returns
    -------
    int, float, bool or str
        Text that cannot be a value stays text, for the checks of the sweep to refuse.
    """
    text = text.strip()
    if known.kind in _NUMBERS:
        for number in (int, float):
            try:
                return number(text)
            except ValueError:
                pass
    if known.kind == "switch":
        return {"true": True, "false": False}.get(text.lower(), text)
    return text


def read_points(path: Path, folder: Path) -> xr.Dataset:
    """
    Read a table of unordered points.

    Parameters
    ----------
    path : Path
        Of a CSV file: a line with names of parameters, then a line for each point.
    folder : Path
        What paths of profiles in the table are relative to.

    Returns
    -------
    xarray.Dataset
        A variable for each column, along `point`.

    Raises
    ------
    SpecError
        If a column is no parameter or stands twice, a line is too short or too long, or a number is none.
    OSError
        If the file cannot be read.
    """
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, skipinitialspace=True, strict=True)
        try:
            columns = _header(path, next(reader, []))
            pieces: list[list[Array]] = [[] for _ in columns]
            first = reader.line_num + 1
            while rows := list(islice(reader, LINES_AT_A_TIME)):
                lines = [(number, row) for number, row in enumerate(rows, first) if row]
                first = reader.line_num + 1
                if lines:
                    for converted, column in zip(_converted(path, columns, lines, folder), pieces, strict=True):
                        column.append(converted)
        except UnicodeDecodeError:
            raise SpecError(f"{path}: not valid CSV: it is not UTF-8 text") from None
        except csv.Error as error:
            raise SpecError(f"{path}: line {reader.line_num}: not valid CSV: {error}") from None
    if not pieces[0]:
        raise SpecError(f"{path}: has no points, needs a line for each below the names of the parameters")
    return xr.Dataset(
        {known.name: (POINT, np.concatenate(column)) for known, column in zip(columns, pieces, strict=True)}
    )


def _header(path: Path, cells: list[str]) -> list[Parameter]:
    names = [cell.strip() for cell in cells]
    if not names:
        raise SpecError(f"{path}: line 1: is empty, needs the names of the parameters")
    for name in names:
        if name not in BY_NAME:
            raise SpecError(f"{path}: line 1: {name}: no such parameter{did_you_mean(name, BY_NAME)}")
        if names.count(name) > 1:
            raise SpecError(f"{path}: line 1: {name}: stands more than once")
    return [BY_NAME[name] for name in names]


def _converted(
    path: Path, columns: list[Parameter], lines: list[tuple[int, list[str]]], folder: Path
) -> Iterator[Array]:
    """Turn some lines of text into a piece of each column."""
    for number, row in lines:
        if len(row) != len(columns):
            raise SpecError(f"{path}: line {number}: has {len(row)} values, needs {len(columns)}")
    for known, cells in zip(columns, zip(*(row for _, row in lines), strict=True), strict=True):
        if known.kind in _NUMBERS:
            yield _floats(path, known, cells, [number for number, _ in lines])
        else:
            values = {cell: value_of(known, cell) for cell in set(cells)}
            if known.kind in _PROFILES:
                values = {cell: located(value, folder) for cell, value in values.items()}
            yield np.array([values[cell] for cell in cells], object)


def _floats(path: Path, known: Parameter, cells: tuple[str, ...], numbers: list[int]) -> Array:
    try:
        return np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        row = next(row for row, cell in enumerate(cells) if isinstance(value_of(known, cell), str))
        raise SpecError(
            f"{path}: line {numbers[row]}: {known.name}: got {cells[row]!r}, needs {known.allowed}"
        ) from None
