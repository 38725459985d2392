"""Commands that make pictures of the results of a sweep: `stacksweep plot` and `stacksweep explore`."""

import os
import tempfile
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import xarray as xr

import stacksweep as ss
from stacksweep.cli_analysis import FileError, FilePath, Where, conditions, opened
from stacksweep.explorer import MOST
from stacksweep.parameters import did_you_mean
from stacksweep.results import BY_NAME


class Kind(Enum):
    """What `stacksweep plot` draws."""

    lines = "lines"
    heatmap = "heatmap"
    pareto = "pareto"
    time_split = "time-split"


FORMATS = (".png", ".pdf", ".svg")

NEEDED = {
    Kind.lines: ("x", "y"),
    Kind.heatmap: ("x", "y", "value"),
    Kind.pareto: ("x", "y"),
    Kind.time_split: ("x",),
}
"""Options that each kind must have."""

TAKEN = {
    Kind.lines: ("hue", "objective", "maximize", "where"),
    Kind.heatmap: ("objective", "maximize", "where"),
    Kind.pareto: ("hue", "maximize", "where"),
    Kind.time_split: ("phase", "share"),
}
"""Options that each kind may have besides."""

Sel = Annotated[
    list[str] | None,
    typer.Option("--sel", metavar="DIM=LABEL", help="Label of a dimension, or several with commas. May be repeated."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")]


def add(app: typer.Typer) -> None:
    """Give a command line the commands of this module."""
    app.command()(plot)
    app.command()(explore)


def plot(
    file: FilePath,
    kind: Annotated[Kind, typer.Option("--kind", help="What to draw.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", readable=False, help="Picture: .png, .pdf or .svg.")
    ],
    x: Annotated[str | None, typer.Option("--x", metavar="NAME", help="Axis; of pareto an objective.")] = None,
    y: Annotated[
        str | None,
        typer.Option("--y", metavar="NAME", help="Result of lines, axis of heatmap, objective of pareto."),
    ] = None,
    value: Annotated[str | None, typer.Option("--value", metavar="NAME", help="Result of heatmap.")] = None,
    hue: Annotated[str | None, typer.Option("--hue", metavar="NAME", help="Axis with a colour for each label.")] = None,
    sel: Sel = None,
    where: Where = None,
    objective: Annotated[
        str | None,
        typer.Option(
            "--objective", metavar="NAME", help="What to optimise over the other dimensions, if not what is drawn."
        ),
    ] = None,
    maximize: Annotated[
        bool | None,
        typer.Option("--maximize/--minimize", help="Whether more is better; known for most results of a sweep."),
    ] = None,
    phase: Annotated[
        str | None, typer.Option("--phase", help="Of time-split: prefill, first_decode or decode (default).")
    ] = None,
    share: Annotated[bool | None, typer.Option("--share", help="Of time-split: shares instead of seconds.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Draw a picture of a file.

    Dimensions that are neither drawn nor selected are optimised over, as the title says.
    """
    given = {
        "x": x,
        "y": y,
        "value": value,
        "hue": hue,
        "where": where,
        "objective": objective,
        "maximize": maximize,
        "phase": phase,
        "share": share,
    }
    for name in NEEDED[kind]:
        if given[name] is None:
            raise FileError(f"{name}: is missing, {kind.value} needs {', '.join(f'--{one}' for one in NEEDED[kind])}")
    for name, one in given.items():
        if one is not None and name not in (*NEEDED[kind], *TAKEN[kind]):
            taken = ", ".join((*NEEDED[kind], *TAKEN[kind], "sel"))
            raise FileError(f"{name}: {kind.value} does not take it, but {taken}")
    check_new(output, FORMATS, overwrite=overwrite)
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        from stacksweep import plot as pictures
    except ModuleNotFoundError as error:
        raise FileError("plot: needs matplotlib; install stacksweep[plot]") from error
    options: dict[str, Any] = {name: one for name, one in given.items() if one is not None and name != "where"}
    with opened(file) as ds:
        if where:
            options["where"] = conditions(ds, where)
        options["sel"] = labels_of(ds, sel or ())
        figure = mpl.figure.Figure(figsize=(6.4, 4.2), layout="constrained")
        options["ax"] = figure.subplots()
        if kind is Kind.pareto and "maximize" in options:
            # of the objectives of which it is not known
            open_ones = [one for one in (x, y) if one not in BY_NAME or BY_NAME[one].higher_is_better is None]
            options["maximize" if options.pop("maximize") else "minimize"] = open_ones
        if kind is Kind.time_split:
            options["over"] = options.pop("x")
        getattr(pictures, kind.name)(ds, **options)
    with tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent) as folder:
        whole = Path(folder) / output.name
        figure.savefig(whole, dpi=200)
        whole.replace(output)
    typer.echo(f"{output}: {kind.value} of {file}")


def explore(
    file: FilePath,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", readable=False, help="Page: .html.")],
    title: Annotated[str | None, typer.Option("--title", help="Heading of the page.")] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Points on the page at the most.")] = MOST,
    overwrite: Overwrite = False,
) -> None:
    """Write a page to explore a file.

    One HTML file that needs no network: choose axes, colour and panels, move through the dimensions, set constraints,
    look at points and fronts, and take the points selected with you as CSV or as a Python call.
    """
    check_new(output, (".html",), overwrite=overwrite)
    with opened(file) as ds:
        try:
            ss.explore(ds, output, title=title, most=most)
        except ModuleNotFoundError as error:
            raise FileError(str(error)) from error
    typer.echo(f"{output}: {output.stat().st_size / 1e6:,.1f} MB; open it in a browser")


def check_new(path: Path, endings: Sequence[str], *, overwrite: bool, option: str = "output") -> None:
    """
    Refuse an output that could not be written.

    Raises
    ------
    FileError
        If the name has another ending, there is no such folder, it cannot be written to, or the file exists.
    """
    if path.suffix not in endings:
        raise FileError(f"{option}: got {str(path)!r}, needs a file that ends in {', '.join(endings)}")
    if not path.parent.is_dir():
        raise FileError(f"{option}: got {str(path)!r}, and there is no folder {str(path.parent)!r}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise FileError(f"{option}: got {str(path)!r}, and the folder {str(path.parent)!r} cannot be written to")
    if path.is_dir():
        raise FileError(f"{option}: got {str(path)!r}, which is a folder")
    if os.path.lexists(path) and not overwrite:
        raise FileError(f"{option}: {str(path)!r} exists; choose another name, or replace it with --overwrite")


def labels_of(ds: xr.Dataset, texts: Sequence[str]) -> dict[str, Any]:
    """
    Read labels of dimensions.

    Raises
    ------
    FileError
        If a text is no DIM=LABEL, or a label is no number where the dimension has numbers.
    """
    found: dict[str, Any] = {}
    for text in texts:
        dim, sign, words = text.partition("=")
        dim = dim.strip()
        if not sign:
            raise FileError(f"sel: got {text!r}, needs DIM=LABEL")
        if dim not in ds.dims:
            raise FileError(f"sel: the file has no dimension {dim!r}{did_you_mean(dim, map(str, ds.dims))}")
        labels = [_label(ds, dim, word.strip()) for word in words.split(",")]
        found[dim] = labels[0] if len(labels) == 1 else labels
    return found


def _label(ds: xr.Dataset, dim: str, word: str) -> Any:
    if dim in ds.coords and ds[dim].dtype == np.bool_ and word.lower() in ("true", "false"):
        return word.lower() == "true"
    if dim in ds.coords and ds[dim].dtype.kind not in "iuf":
        return word
    try:
        number = float(word)
    except ValueError:
        raise FileError(f"sel: {dim} has numbers, got {word!r}") from None
    return int(number) if number.is_integer() else number
