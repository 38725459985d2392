"""Commands that decide on the results of a sweep: `stacksweep best` and `stacksweep pareto`."""

import importlib.util
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import xarray as xr

import stacksweep as ss
from stacksweep.analysis.conditions import condition
from stacksweep.parameters import did_you_mean

EAGER = 2**30
"""Bytes of a file up to which what is needed of it is read at once; of larger ones it is read chunk by chunk."""


class FileError(ValueError):
    """A file that cannot be used, or an option that does not fit it; one line that says why."""


FilePath = Annotated[
    Path, typer.Argument(metavar="FILE", readable=False, help="Results of a sweep: NetCDF, or a Zarr store.")
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help='Which points count, as in "ttft < 1 and fits", "not buffering_limited" or "model == qwen3-8b", in the '
        "units of the file. May be given several times; all must hold.",
    ),
]
Show = Annotated[
    str | None, typer.Option("--show", metavar="NAMES", help="Show these variables too, with commas between them.")
]
Rows = Annotated[int, typer.Option("--rows", min=1, help="Rows of the table at most.")]
Json = Annotated[bool, typer.Option("--json", help="Print all points as JSON instead of a table.")]

Point = dict[str, Any]


def add(app: typer.Typer) -> None:
    """Give a command line the commands of this module."""
    app.command()(best)
    app.command()(pareto)


def best(
    file: FilePath,
    objective: Annotated[str, typer.Argument(metavar="OBJECTIVE", help="Variable to optimise, such as tps.")],
    over: Annotated[
        str | None,
        typer.Option("--over", metavar="DIMS", help="Dimensions to choose from, with commas; all of them by default."),
    ] = None,
    where: Where = None,
    maximize: Annotated[
        bool | None,
        typer.Option("--maximize/--minimize", help="Whether more is better; known for most results of a sweep."),
    ] = None,
    show: Show = None,
    rows: Rows = 40,
    as_json: Json = False,
) -> None:
    """Find the best point of a file.

    Over some dimensions, for each point of the others, under conditions.
    """
    shown = _names(show)
    with opened(file) as whole:
        ds, allowed = _needed(whole, {"objective": [objective], "show": shown}, where)
        dims = _dims(ds, [objective], allowed)
        columns = _columns(ds, dims, [objective], shown)
        found = ss.best(ds, objective, None if over is None else _names(over), allowed, maximize).compute()
    kept = [str(dim) for dim in found["feasible"].dims]
    columns = [*kept, *(name for name in columns if name not in kept)]
    points = _points(found, found["feasible"].sizes, [*columns, "feasible"])
    for point in points:
        if not point["feasible"]:
            point |= {name: None for name in columns if name not in kept}
    if as_json:
        call = {"objective": objective, "over": [dim for dim in dims if dim not in kept]}
        _print_json(file, where, call, points)
        return
    missed = sum(not point["feasible"] for point in points)
    note = f"no point meets the conditions in {missed:,} of {len(points):,} cases" if missed else ""
    _print_table(ds, columns, points, rows, note)


def pareto(
    file: FilePath,
    minimize: Annotated[
        str | None, typer.Option("--minimize", metavar="NAMES", help="Variables of which less is better, with commas.")
    ] = None,
    maximize: Annotated[
        str | None, typer.Option("--maximize", metavar="NAMES", help="Variables of which more is better, with commas.")
    ] = None,
    where: Where = None,
    show: Show = None,
    rows: Rows = 40,
    as_json: Json = False,
) -> None:
    """List the points of a file that no other dominates.

    The best in the first objective come first: those of --minimize, then those of --maximize.
    """
    lower, higher, shown = _names(minimize), _names(maximize), _names(show)
    with opened(file) as whole:
        ds, allowed = _needed(whole, {"minimize": lower, "maximize": higher, "show": shown}, where)
        dims = _dims(ds, [*lower, *higher], allowed)
        columns = _columns(ds, dims, [*lower, *higher], shown)
        front = ss.pareto(ds, lower, higher, allowed).compute()
    points = _points(front, {"point": front.sizes["point"]}, columns)
    if as_json:
        _print_json(file, where, {"minimize": lower, "maximize": higher}, points)
        return
    total = math.prod(ds.sizes[dim] for dim in dims)
    _print_table(ds, columns, points, rows, f"{len(points):,} of {total:,} points are on the front")


def _names(text: str | None) -> list[str]:
    """Split a list with commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


@contextmanager
def opened(path: Path) -> Iterator[xr.Dataset]:
    """Open a file; its variables stay on disk until they are needed."""
    folder = path.is_dir()
    if folder and not any((path / name).exists() for name in ("zarr.json", ".zgroup")):
        raise FileError(f"{path}: is a folder and no Zarr store")
    if folder and importlib.util.find_spec("zarr") is None:
        raise FileError(f"{path}: Zarr needs the package zarr; install stacksweep[distributed]")
    try:
        ds = xr.open_dataset(path, engine="zarr" if folder else "netcdf4")
    except OSError:
        raise
    except Exception as error:
        # each reader has errors of its own for damaged files
        raise FileError(f"{path}: cannot be read: {error}") from error
    with ds:
        if ds.nbytes > EAGER and importlib.util.find_spec("dask") is not None:
            numbers = {name: one.chunk("auto") for name, one in ds.data_vars.items() if one.dtype.kind in "biuf"}
            yield ds.assign(numbers)
        else:
            yield ds


def conditions(ds: xr.Dataset, where: Sequence[str] | None) -> xr.DataArray | None:
    """Read the conditions of a command; None where there are none."""
    allowed: xr.DataArray | None = None
    for text in where or ():
        one = condition(ds, text)
        allowed = one if allowed is None else allowed & one
    return allowed


def _needed(
    whole: xr.Dataset, names: Mapping[str, Sequence[str]], where: Sequence[str] | None
) -> tuple[xr.Dataset, xr.DataArray | None]:
    """Take the variables that are asked for out of a file, and read the conditions."""
    for option, wanted in names.items():
        for name in wanted:
            if name not in whole.variables:
                known = map(str, whole.variables)
                raise FileError(f"{option}: the file has no variable {name!r}{did_you_mean(name, known)}")
    allowed = conditions(whole, where)
    kept = {"valid", "fits"}.union(*names.values())
    ds = whole[[name for name in whole.data_vars if name in kept]]
    return (ds if ds.chunks else ds.load()), allowed


def _dims(ds: xr.Dataset, objectives: Sequence[str], allowed: xr.DataArray | None) -> list[str]:
    """Dimensions of the points."""
    depends = [ds[name] for name in ("valid", *objectives) if name in ds.variables]
    depends += [] if allowed is None else [allowed]
    return list(dict.fromkeys(str(dim) for one in depends for dim in one.dims))


def _columns(ds: xr.Dataset, dims: Sequence[str], objectives: Sequence[str], shown: Sequence[str]) -> list[str]:
    """List what is shown of each point: where it is, its objectives, and what else was asked for."""
    for name in shown:
        for dim in ds[name].dims:
            if dim not in dims:
                raise FileError(f"show: {name!r} varies along {str(dim)!r}, which is no dimension of the points")
    coordinates = [str(name) for name, one in ds.coords.items() if one.ndim and set(one.dims) <= set(dims)]
    fits = [name for name in ("fits",) if name in ds.data_vars]
    return list(dict.fromkeys([*dims, *coordinates, *objectives, *shown, *fits]))


def _points(ds: xr.Dataset, sizes: Mapping[Any, int], columns: Sequence[str]) -> list[Point]:
    """Values of each point in plain Python; of flags the words, and positions where there are no labels."""
    values = []
    for name in columns:
        variable: Any = ds[name].variable
        column = variable.to_base_variable().set_dims(sizes).transpose(*sizes).values.ravel()
        words = _words(variable)
        values.append([words.get(one, one) for one in column.tolist()] if words else column.tolist())
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def _words(variable: xr.Variable) -> dict[Any, str]:
    """Meanings of the values of a CF flag."""
    if "flag_values" not in variable.attrs or "flag_meanings" not in variable.attrs:
        return {}
    codes = np.atleast_1d(variable.attrs["flag_values"]).tolist()
    return dict(zip(codes, str(variable.attrs["flag_meanings"]).split(), strict=True))


def _print_json(file: Path, where: Sequence[str] | None, call: Mapping[str, Any], points: Sequence[Point]) -> None:
    from stacksweep.cli import print_json

    print_json({"file": str(file), **call, "where": list(where or ()), "points": points})


def _print_table(ds: xr.Dataset, columns: Sequence[str], points: Sequence[Point], rows: int, note: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in columns:
        text = ds[name].dtype.kind in "OUSTb" if name in ds.variables else False
        units = ds[name].attrs.get("units", "1") if name in ds.variables else "1"
        table.add_column(name if units == "1" else f"{name} ({units})", justify="left" if text else "right")
    for point in points[:rows]:
        table.add_row(*(_cell(point[name]) for name in columns))
    # where nobody looks at it, a line must not be broken
    console = Console(width=None if sys.stdout.isatty() else 10_000, color_system=None, highlight=False, markup=False)
    with console.capture() as capture:
        console.print(table)
    lines = [line.rstrip() for line in capture.get().splitlines()]
    if len(points) > rows:
        lines.append(f"… {len(points) - rows:,} more rows; see --rows and --json")
    typer.echo("\n".join([*lines, *([f"\n{note}"] if note else [])]))


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
