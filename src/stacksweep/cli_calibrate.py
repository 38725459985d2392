"""The command `stacksweep calibrate`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import stacksweep as ss
from stacksweep.calibrate import FIT
from stacksweep.cli_pictures import check_new
from stacksweep.io import write_text
from stacksweep.parameters import BY_NAME
from stacksweep.profiles import RooflineChip
from stacksweep.spec import SpecError, value_of

DataPath = Annotated[
    Path,
    typer.Argument(metavar="DATA", readable=False, help="CSV: a measurement a row; columns are parameters, targets."),
]
OutputPath = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE.toml", readable=False, help="Where to write the fitted chip."),
]
PlotPath = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE.png", readable=False, help="Where to draw predictions over measurements."),
]


def calibrate(
    data: DataPath,
    output: OutputPath = None,
    plot: PlotPath = None,
    fit: Annotated[str, typer.Option(help="Parameters to fit, with commas.")] = ",".join(FIT),
    target: Annotated[str, typer.Option(help="Measured results, with commas.")] = "tps",
    group: Annotated[str, typer.Option(help='Column by which rows are held out; "none" for no such fits.')] = "model",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in SI units instead of a table.")] = False,
    **given: Any,
) -> None:
    """Fit a chip and its network to measurements.

    Fitted parameters and their standard errors, errors in sample and for groups that the fit has not seen. A fitted
    network is written beside the chip, as FILE.noc.json.
    """
    from stacksweep.cli import CommandError, print_json

    values: Mapping[str, Any] = {
        name: value_of(BY_NAME[name], text) if isinstance(text, str) else text
        for name, text in given.items()
        if text is not None
    }
    if "chip" not in values:
        raise CommandError("chip: is missing, needs a roofline chip to start from")
    network = output.with_suffix(".noc.json") if output else None
    for option, path, ending in (("output", output, ".toml"), ("output", network, ".json"), ("plot", plot, ".png")):
        if path is not None:
            check_new(path, (ending,), option=option, overwrite=overwrite)
    chip = ss.load_chip(values["chip"])
    if output is not None and not isinstance(chip, RooflineChip):
        raise CommandError(f"output: chip {chip.name!r} is no roofline chip, and has nothing fitted to write")
    found = ss.calibrate(
        read_table(data),
        fit=fit.split(","),
        target=target.split(","),
        group=None if group == "none" else group,
        **values,
    )
    if plot is not None:
        found.plot(plot)
    written = {} if output is None else write(found, output)
    if as_json:
        print_json({**found.to_dict(), "written": [str(path) for path in written]})
        return
    typer.echo(found.table())
    for path, what in written.items():
        typer.echo(f"\n{what} written to {path}", nl=False)
    if written:
        typer.echo()


def read_table(path: Path) -> Any:
    """
    Read a table of measurements.

    Raises
    ------
    SpecError
        If it is no CSV with a line of names and at least one row.
    OSError
        If it cannot be read.
    """
    import pandas as pd

    try:
        return pd.read_csv(path, skipinitialspace=True)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: not a table with commas: {error}") from None


def write(found: ss.Calibration, output: Path) -> dict[Path, str]:
    """Write the fitted profiles, the chip under the name of its file; returns what stands where."""
    import json
    from dataclasses import replace

    written = {output: "chip"}
    write_text(output, replace(found.chip, name=output.stem).to_toml())
    if found.noc is not None and "fitted" in found.noc.provenance:
        network = output.with_suffix(".noc.json")
        document = found.noc.to_dict() | {"name": output.stem}
        write_text(network, json.dumps(document, indent=2) + "\n")
        written[network] = "network"
    return written
