"""Signatures, docstrings and the reference page, made from the tables of parameters and results."""

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from stacksweep.parameters import PARAMETERS, Parameter
from stacksweep.results import ALWAYS, RESULTS


def default_of(known: Parameter) -> str:
    """Say what a parameter is when it is not given."""
    if known.default is not None:
        return f"{known.default:g}" if isinstance(known.default, float) else str(known.default)
    if known.name in ("model", "memory"):
        return "must be given"
    if known.name == "overlap":
        return "stage-roofline, of roofline chips as the profile says"
    if known.name == "noc":
        return "none: one device"
    if known.group == "network":
        return "from the network"
    return "from the profile"


def _parameter_lines(known: Parameter) -> str:
    units = "" if known.units == "1" else f" ({known.units})"
    default = default_of(known)
    end = default if known.name in ("model", "memory") else f"{default} by default"
    text = f"{known.words}{units}; {known.allowed}; {end}."
    return f"{known.name} : {known.kind}\n" + textwrap.fill(text, 92, initial_indent="    ", subsequent_indent="    ")


def document(sweep: Callable[..., Any], estimate: Callable[..., Any]) -> None:
    """
    Give `sweep` and `estimate` the signature and the docstring that the tables make.

    Parameters
    ----------
    sweep, estimate : function
        Functions that take the parameters as keywords.
    """
    parameters = "\n".join(_parameter_lines(known) for known in PARAMETERS)
    for function, head, tail in ((sweep, _SWEEP, _SWEEP_END), (estimate, _ESTIMATE, _ESTIMATE_END)):
        function.__doc__ = f"{head}\n{parameters}\n{tail}"
        own = inspect.signature(function).parameters.values()
        keywords = [
            inspect.Parameter(known.name, inspect.Parameter.KEYWORD_ONLY, default=known.default) for known in PARAMETERS
        ]
        kept = [one for one in own if one.kind is not inspect.Parameter.VAR_KEYWORD]
        function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            keywords + kept, return_annotation=inspect.signature(function).return_annotation
        )


_SWEEP = """Predict speed, size and energy of LLM inference on arrays of design points.

Each parameter takes one value, which becomes a scalar coordinate; a list, tuple, range or 1-D array, which becomes a
dimension of its own name; or an `xarray.DataArray`, whose dimensions are used as they are, so that arrays that share
a dimension vary together. Profiles and words may be lists too.

Parameters
----------
points : pandas.DataFrame or xarray.Dataset, optional
    Columns that are parameters: unordered points along one dimension `point`.
outputs : str or list of str
    Results by name, "main" (default), "all", or "bottleneck", which is what `bottleneck` reads; `valid` and `reason`
    are always there. "all" has the results of operations only if a chip of the call is a roofline chip: on others
    they are NaN, and there by name alone.
dtype : {"float64", "float32"}
    Of the real results.
chunks : dict or "auto", optional
    Lengths of chunks by dimension, or about a million points in each: the result is lazy, made of dask arrays that
    are evaluated when they are used, chunk by chunk, and equal those in memory bit for bit. Arguments that are dask
    arrays give their own chunks; they are computed at once, being small beside the result. With `to`, the chunks of
    the file.
to : path, optional
    File to write, which ends in `.nc` or `.zarr`: evaluated and written block by block, and then opened without
    being read. It has its name when it is whole, and replaces what had it before.
resume : bool
    With `to="….zarr"`: go on with what an interrupted sweep of the same call has left.
max_memory : int or str, optional
    With `to`: bytes of the result that may be held at a time, as a number or as in "2 GB"; half of what is free by
    default.
compression : {"auto", "zlib", "zstd", "none"}
    With `to`: zlib in NetCDF and zstd in Zarr by default. In NetCDF zstd is several times faster, but not every reader
    knows it.
progress : bool or callable, optional
    Whether to show a progress bar, if stderr is a terminal: by default with `to` only. Or what is called with the
    points done and their total, from any thread, one call at a time."""

_SWEEP_END = """
Returns
-------
xarray.Dataset
    One variable per result over all dimensions, with units, long names and flags. Points that cannot be are masked:
    NaN, `valid` false, and the first reason in `reason`. With `chunks` or `to` its arrays are those of dask (with `to`
    and without dask they are read when they are used).

Raises
------
ParameterError
    If a parameter is unknown, missing, outside its limits, or does not fit the others.
ProfileError
    If a profile cannot be loaded.
ResultTooLargeError
    If the result would not fit in memory, unless `chunks` or `to` is given.
OSError
    If a file cannot be written; nothing then stands under its name that did not before.

See Also
--------
estimate : one point, with a full report and errors instead of masks.

Examples
--------
>>> import stacksweep as ss
>>> ds = ss.sweep(model="llama-3.1-8b", memory="fictional_stacked_dram", layers=[8, 12], batch_size=[1, 16])
>>> dict(ds.sizes)
{'layers': 2, 'batch_size': 2}
"""

_ESTIMATE = """Predict one design point, with a full report.

Parameters
----------"""

_ESTIMATE_END = """
Returns
-------
Estimate

Raises
------
InvalidPointError
    If the point cannot be; the message is the first reason, in full words.
ParameterError
    If a parameter is unknown, missing, outside its limits, or has several values.
ProfileError
    If a profile cannot be loaded.

See Also
--------
sweep : arrays of points.
"""


def reference() -> str:
    """
    Write the reference of parameters and results.

    Returns
    -------
    str
        Markdown.
    """
    lines = [
        "# Parameters and results",
        "",
        "This page is made from the package's own tables.",
        "",
        "## Parameters",
        "",
    ]
    for group in dict.fromkeys(known.group for known in PARAMETERS):
        lines += [f"### {group[0].upper()}{group[1:]}", "", "| name | what it is | unit | values | default |"]
        lines += ["|---|---|---|---|---|"]
        lines += [
            f"| `{known.name}` | {known.words} | {known.units} | {known.allowed} | {default_of(known)} |"
            for known in PARAMETERS
            if known.group == group
        ]
        lines.append("")
    renamed = [known for known in PARAMETERS if known.coordinate != known.name]
    lines += [
        f"The coordinate and dimension of `{known.name}` is called `{known.coordinate}`, since a result has its name."
        for known in renamed
    ]
    lines += ["", "## Results", "", "| name | what it is | unit | when |", "|---|---|---|---|"]
    for result in RESULTS:
        when = "always" if result.name in ALWAYS else '`"main"`' if result.main else "by name"
        lines.append(f"| `{result.name}` | {result.words} | {result.units} | {when} |")
    return "\n".join(lines) + "\n"
