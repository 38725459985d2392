"""The command line: the commands `estimate`, `memory`, `noc`, `sweep`, `models`, `profiles`, and what is added."""

import importlib.util
import inspect
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from typer.core import TyperGroup

import stacksweep as ss
from stacksweep import cli_analysis, cli_calibrate, cli_pictures
from stacksweep.documentation import default_of
from stacksweep.kernels.validity import REASONS
from stacksweep.parameters import BY_NAME, PARAMETERS, Parameter
from stacksweep.progress import bar
from stacksweep.spec import read_spec, value_of
from stacksweep.summary import summarize, summary_text
from stacksweep.understood import kind_rows, understood

WRONG_INPUT = 2
INTERRUPTED = 130
BROKEN_PIPE = 141
"""Exit statuses; the last two are 128 and the number of the signal, as of shells."""

MEMORY_RESULTS = (
    ("peak_bandwidth", "peak GB/s", 1e9),
    ("usable_bandwidth", "usable GB/s", 1e9),
    ("connectivity_efficiency", "efficiency", 1.0),
    ("capacity", "capacity GB", 1e9),
    ("clock_scale", "clock scale", 1.0),
)
"""What `stacksweep memory` shows: results, headings, and what they are divided by."""


class CommandError(ValueError):
    """An option of a command that cannot be used; one line that names it and what can be."""


class Commands(TyperGroup):
    """Says every foreseen error in one line, without traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command and flush its output; turn errors into a line on stderr and an exit status."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except KeyboardInterrupt as error:
            raise _leave("interrupted; " + (_notes(error) or "nothing was written"), INTERRUPTED) from None
        except BrokenPipeError:
            # nobody reads any more
            _drop_output()
            raise typer.Exit(BROKEN_PIPE) from None
        except OSError as error:
            try:
                sys.stdout.flush()
            except OSError:
                _drop_output()
            words = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
            raise _leave("; ".join(filter(None, (f"error: {words}", _notes(error)))), WRONG_INPUT) from None
        except MemoryError as error:
            words = f"error: {str(error) or 'out of memory'}"
            raise _leave("; ".join(filter(None, (words, _notes(error)))), WRONG_INPUT) from None
        except ValueError as error:
            # others than our own are bugs, and deserve their traceback
            if type(error).__module__.partition(".")[0] not in ("stacksweep", "deepstack_noc"):
                raise
            raise _leave(f"error: {error}", WRONG_INPUT) from None


def _drop_output() -> None:
    """Let go of what is still buffered for stdout: it must not be tried again at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _notes(error: BaseException) -> str:
    return "; ".join(getattr(error, "__notes__", ()))


def _leave(words: str, status: int) -> typer.Exit:
    typer.echo(" ".join(words.split()), err=True)
    return typer.Exit(status)


app = typer.Typer(
    cls=Commands,
    help="Predict LLM inference on accelerators with stacked DRAM: speed, size and energy of design points.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON in SI units instead of a table.")]

SpecPath = Annotated[
    Path,
    typer.Argument(metavar="SPEC", readable=False, help="TOML file with parameters, points, outputs and dtype."),
]
OutputPath = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", readable=False, help="Where to write: FILE.nc or FILE.zarr."),
]
MaxMemory = Annotated[
    str | None,
    typer.Option("--max-memory", metavar="BYTES", help="Hold so much of the result, as in 2GB; half of what is free."),
]
Compression = Annotated[
    str, typer.Option("--compression", help="zlib, zstd (faster, but not every reader of NetCDF knows it), or none.")
]


def main() -> None:
    """Run the command line."""
    app(prog_name="stacksweep")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"stacksweep {ss.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Take the options that stand before a command; the version is shown by its callback."""


def takes(known: Iterable[Parameter], *, several: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """
    Give a command an option for each of some parameters; it gets those that are used as keywords.

    Parameters
    ----------
    known : iterable of Parameter
    several : bool
        Whether an option takes several values, with commas between them.
    """

    def give(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command).parameters.values()
        kept = [one for one in own if one.kind is not inspect.Parameter.VAR_KEYWORD]
        command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [*kept, *(_option(one, several=several) for one in known)]
        )
        return command

    return give


def _option(known: Parameter, *, several: bool) -> inspect.Parameter:
    flag = "--" + known.name.replace("_", "-")
    units = "" if known.units == "1" else f" ({known.units})"
    allowed = "a bundled name or a path" if known.kind == "profile" else known.allowed
    default = default_of(known) + (" by default" if known.default is not None else "")
    kind: Any = str | None
    if known.kind == "switch":
        kind = bool | None
        option = typer.Option(f"{flag}/--no-{flag[2:]}", help=f"{known.words}; {default}")
    else:
        words = "; ".join((known.words + units, allowed + ", or several with commas" * several, default))
        option = typer.Option(flag, help=words, metavar=known.kind.upper())
    return inspect.Parameter(
        known.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option]
    )


@app.command()
@takes(PARAMETERS)
def estimate(as_json: Json = False, **given: Any) -> None:
    """Predict one design point.

    Time to first token, tokens per second, use of the memory, and what each phase does.
    """
    point = {
        name: value_of(BY_NAME[name], value) if isinstance(value, str) else value
        for name, value in given.items()
        if value is not None
    }
    report = ss.estimate(**point)
    _warn_of_free_links({str(report.parameters.get("noc")): report.uncharged_share})
    print_json(report.to_dict()) if as_json else typer.echo(report.table())


def _warn_of_free_links(shares: Mapping[str, float | None]) -> None:
    """Warn on stderr where DeepStack's link model leaves links uncharged."""
    for name, share in shares.items():
        if share:
            typer.echo(
                f'warning: link_model "deepstack" leaves {share:.1%} of the route links of {name!r} uncharged; '
                '"physical" charges all',
                err=True,
            )


@app.command()
@takes((known for known in PARAMETERS if known.group == "memory" and known.name != "memory"), several=True)
def memory(
    source: Annotated[str, typer.Argument(metavar="NAME|FILE", help="Memory profile: a bundled name or a path.")],
    as_json: Json = False,
    **given: Any,
) -> None:
    """Show what a memory can do over a grid.

    Bandwidth, efficiency, capacity and clock, for every combination of the parameters given.
    """
    profile = ss.load_memory(source)
    axes: dict[str, Any] = {
        name: [value_of(BY_NAME[name], text) for text in texts.split(",")]
        for name, texts in given.items()
        if texts is not None
    }
    names = [name for name, _, _ in MEMORY_RESULTS]
    # these results need a machine alone; the model only has to be there
    machine = ss.sweep(model="llama-3.1-8b", memory=profile, outputs=[*names, "buffering_limited"], **axes)
    points = [
        {
            **{str(axis): machine[axis].values[position].item() for axis, position in zip(axes, index, strict=True)},
            **{name: machine[name].values[index].item() for name in names},
            "buffering_limited": machine["buffering_limited"].values[index].item(),
            "reason": list(REASONS)[machine["reason"].values[index]],
        }
        for index in np.ndindex(machine["valid"].shape)
    ]
    if as_json:
        print_json({"memory": {"name": profile.name, "kind": profile.kind, **_origin(profile)}, "points": points})
        return
    rows = [[*axes, *(heading for _, heading, _ in MEMORY_RESULTS), "buffering limits", "reason"]]
    for point in points:
        valid = point["reason"] == "valid"
        rows.append(
            [
                *(f"{point[axis]:.10g}" for axis in axes),
                *(_number(point[name] / scale) for name, _, scale in MEMORY_RESULTS),
                ("yes" if point["buffering_limited"] else "no") if valid else "-",
                "" if valid else f"{point['reason']}: {REASONS[point['reason']]}",
            ]
        )
    typer.echo(f"{profile.name} ({profile.kind})\n\n{_table(rows, left=(len(rows[0]) - 1,))}")


@app.command()
def sweep(
    spec: SpecPath,
    output: OutputPath = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted sweep into .zarr.")] = False,
    max_memory: MaxMemory = None,
    compression: Compression = "auto",
    no_progress: Annotated[bool, typer.Option("--no-progress", help="Show no progress bar on a terminal.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Evaluate a spec and write the result, block by block.

    A spec names parameters with their values, lists or ranges. A summary with the best point is printed at the end.
    """
    if output is None:
        raise CommandError("output: is missing, needs a file that ends in .nc or .zarr, as in -o sweep.nc")
    check_output(output, overwrite=overwrite or resume)
    call = read_spec(spec)
    times: list[tuple[float, int]] = []
    with bar(shown=sys.stderr.isatty() and not no_progress) as show:

        def progress(done: int, total: int) -> None:
            # the first report comes when all is prepared and compiled
            times.append((time.perf_counter(), done))
            show(done, total)

        dataset = ss.sweep(
            points=call.points,
            outputs=call.outputs,
            dtype=call.dtype,
            to=output,
            resume=resume,
            max_memory=max_memory,
            compression=compression,
            progress=progress,
            **call.parameters,
        )
        seconds = time.perf_counter() - times[0][0]
    try:
        with dataset:
            networks = json.loads(dataset.attrs["profiles"]).get("noc", [])
            _warn_of_free_links({entry["name"]: entry.get("uncharged_share") for entry in networks})
            summary = summarize(dataset)
    except KeyboardInterrupt as error:
        error.add_note(f"{output} is whole")
        raise
    files = [file for file in output.rglob("*") if file.is_file()] if output.is_dir() else [output]
    summary |= {"output": str(output), "bytes": sum(file.stat().st_size for file in files), "seconds": seconds}
    if times[0][1]:
        summary["resumed"] = times[0][1]
    print_json(summary) if as_json else typer.echo(summary_text(summary))


def check_output(path: Path, *, overwrite: bool) -> None:
    """
    Refuse an output that could not be written, before anything is evaluated.

    Raises
    ------
    CommandError
        If the name has another ending, there is no such folder, it cannot be written to, or the file exists.
    """
    zarr = path.suffix == ".zarr"
    if not zarr and path.suffix != ".nc":
        raise CommandError(f"output: got {str(path)!r}, needs a file that ends in .nc or .zarr")
    if zarr and importlib.util.find_spec("zarr") is None:
        raise CommandError("output: .zarr needs the package zarr; install stacksweep[distributed], or write .nc")
    if not path.parent.is_dir():
        raise CommandError(f"output: got {str(path)!r}, and there is no folder {str(path.parent)!r}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise CommandError(f"output: got {str(path)!r}, and the folder {str(path.parent)!r} cannot be written to")
    if path.is_dir() and not (zarr and any((path / name).exists() for name in ("zarr.json", ".zgroup"))):
        raise CommandError(f"output: got {str(path)!r}, which is a folder" + " and no Zarr store" * zarr)
    if zarr and path.is_file():
        raise CommandError(f"output: got {str(path)!r}, which is a file, and a Zarr store is a folder")
    if os.path.lexists(path) and not overwrite:
        raise CommandError(f"output: {str(path)!r} exists; choose another name, or replace it with --overwrite")


app.command()(takes(PARAMETERS)(cli_calibrate.calibrate))


@app.command()
def noc(
    source: Annotated[str, typer.Argument(metavar="NAME|FILE", help="Network profile: a bundled name or a path.")],
    as_json: Json = False,
) -> None:
    """Describe a network.

    Its levels and devices, the bisection bandwidth, and what DeepStack's link model leaves uncharged.
    """
    import deepstack_noc as dn

    network = ss.load_noc(source)
    description = dn.describe(network)
    if not as_json:
        typer.echo(str(description))
        return
    print_json(
        {
            "name": description.name,
            "devices": description.devices,
            "levels": {name: level.to_dict() for name, level in zip(dn.LEVEL_NAMES, description.levels, strict=True)},
            "bisection_bandwidth": description.bisection_bandwidth,
            "uncharged_share": description.uncharged_share,
            "uncharged_share_l3": description.uncharged_share_l3,
            **_origin(network),
        }
    )


@app.command()
def models(
    source: Annotated[
        str | None, typer.Argument(metavar="NAME|FILE", help="Show one model: a bundled name or a config.json.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the bundled models, or show what is understood of one.

    Its layers by kind, parameters in all and of a token, bytes of KV cache and of state.
    """
    if source is not None:
        spec = ss.load_model(source)
        details = {**understood(spec), **_origin(spec)}
        print_json(details) if as_json else typer.echo(_model_text(spec, details))
        return
    entries: list[dict[str, Any]] = [
        {
            "name": spec.name,
            "num_hidden_layers": spec.num_hidden_layers,
            "hidden_size": spec.hidden_size,
            "num_experts": spec.num_experts,
            "num_experts_per_tok": spec.experts_per_token,
            "weight_elements": spec.weight_elements(),
            "active_elements": spec.active_elements(),
        }
        for spec in map(ss.load_model, ss.bundled_names("models"))
    ]
    if as_json:
        print_json(entries)
        return
    rows = [["model", "layers", "hidden size", "experts", "per token", "parameters (1e9)", "active (1e9)"]]
    for entry in entries:
        *sizes, weights, active = entry.values()
        rows.append([*map(str, sizes), f"{weights / 1e9:.3f}", f"{active / 1e9:.3f}"])
    typer.echo(_table(rows, left=(0,)))


def _model_text(spec: Any, details: Mapping[str, Any]) -> str:
    """Lay out a model: sizes one below the other, and a table of its kinds of layer."""
    tied = ", tied embeddings" if spec.tie_word_embeddings else ""
    rows = [
        ("parameters", f"{details['weight_elements'] / 1e9:,.3f}e9, of which a token takes"),
        ("cache", f"{details['cache_bytes_per_token']:,} bytes per token in 16 bits"),
        ("state", f"{details['state_bytes']:,} bytes per sequence in 32 bits"),
    ]
    rows[0] = (rows[0][0], f"{rows[0][1]} {details['active_elements'] / 1e9:,.3f}e9")
    if details["window_cache_bytes"]:
        beyond, window = details["cache_bytes_per_token_beyond_windows"], details["window_cache_bytes"]
        rows[1] = ("cache", f"{rows[1][1]}; beyond all windows {beyond:,}, and {window:,} per sequence for the windows")
    rows += [("source", details["source"]), ("path", details["path"]), ("sha256", details["sha256"])]
    head = f"{spec.name} ({spec.model_type or 'no model_type'}): {spec.num_hidden_layers} layers, "
    head += f"hidden size {spec.hidden_size:,}, vocabulary {spec.vocab_size:,}{tied}"
    lines = "\n".join(f"{name:<10}  {words}" for name, words in rows if words is not None)
    return f"{head}\n\n{_table(kind_rows(spec), left=(1, 2))}\n\n{lines}"


@app.command()
def profiles(as_json: Json = False) -> None:
    """List the bundled profiles and their sources.

    Chips, memories, models and networks, and where their numbers come from.
    """
    from deepstack_noc import bundled_nocs

    kinds: tuple[tuple[str, list[str], Callable[[str], Any]], ...] = (
        ("chip", ss.bundled_names("chips"), ss.load_chip),
        ("memory", ss.bundled_names("memory"), ss.load_memory),
        ("model", ss.bundled_names("models"), ss.load_model),
        ("noc", bundled_nocs(), ss.load_noc),
    )
    entries = [{"kind": kind, "name": name, **_origin(load(name))} for kind, names, load in kinds for name in names]
    if as_json:
        print_json(entries)
        return
    rows = [["kind", "name", "source"], *([entry["kind"], entry["name"], entry["source"]] for entry in entries)]
    typer.echo(_table(rows, left=(0, 1, 2)))


cli_analysis.add(app)
cli_pictures.add(app)


def _origin(profile: Any) -> dict[str, Any]:
    """Say where the numbers of a profile come from."""
    provenance = profile.provenance
    if isinstance(provenance, Mapping):
        return {key: provenance.get(key) for key in ("source", "path", "sha256")}
    return {"source": provenance.notes.get("source"), "path": provenance.path, "sha256": provenance.sha256}


def print_json(value: Any) -> None:
    """Print JSON, with null where a number is none."""
    typer.echo(json.dumps(_plain(value), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    """Put null where JSON has no number, and lists where it has no tuples."""
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.6g}"


def _table(rows: Sequence[Sequence[Any]], left: Sequence[int]) -> str:
    """Lay out rows under the first, with columns aligned to the right but for those named."""
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            f"{cell!s:<{width}}" if column in left else f"{cell!s:>{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
