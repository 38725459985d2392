"""One self-contained HTML page to explore a sweep."""

import base64
import gzip
import json
import os
from html import escape
from importlib import resources
from typing import Any

import xarray as xr

from stacksweep.analysis.points import check_dataset
from stacksweep.columns import Array
from stacksweep.explorer.call import call_of
from stacksweep.explorer.table import Table, table_of
from stacksweep.io import write_text
from stacksweep.parameters import ParameterError

MOST = 200_000
"""Points that a page holds unless told otherwise: about what a browser filters and draws at once."""


def explore(ds: xr.Dataset, path: str | os.PathLike[str], *, title: str | None = None, most: int = MOST) -> None:
    """
    Write a page to explore a sweep: one HTML file that needs no network.

    Parameters
    ----------
    ds : xarray.Dataset
        As `sweep` makes it, or any other with at least one variable of numbers; its arrays may be dask's.
    path : path
        Replaced if it exists; written whole or not at all.
    title : str, optional
        Heading of the page; the models and memories of `ds` by default.
    most : int
        Points that the page holds at the most.

    Raises
    ------
    ParameterError
        If `ds` holds nothing to explore, or an argument is not allowed.
    ModuleNotFoundError
        If plotly is not installed; the extra `explore` has it.
    OSError
        If the file cannot be written.

    Notes
    -----
    The page shows valid points, results as float32. Of more than `most` a random sample stands for all, to which
    the extremes of every result and the front of the two results shown first belong; the page says so. Fronts and
    selections of the page are those of the points that it holds.

    Examples
    --------
    >>> import stacksweep as ss
    >>> ds = ss.sweep(model="llama-3.1-8b", memory="fictional_stacked_dram", layers=[8, 16], batch_size=[1, 8, 64])
    >>> ss.explore(ds, "sweep.html")  # doctest: +SKIP
    """
    check_dataset(ds)
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ParameterError(f"most: got {most!r}, needs a whole number of at least 1")
    library = _plotly()
    table = table_of(ds, most)
    write_text(path, page(table, call_of(ds), library, title if title is not None else _title(ds)))


def page(table: Table, call: dict[str, Any] | None, library: str, title: str) -> str:
    """
    Put the page together.

    Parameters
    ----------
    table : Table
        What it shows.
    call : dict, optional
        What the Python call is made of, as of `call_of`.
    library : str
        Source of plotly.js.
    title : str

    Returns
    -------
    str
        HTML.
    """
    files = resources.files("stacksweep.explorer")
    parts = {
        name: (files / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "data.js", "page.js")
    }
    meta = {"title": title, "call": call, **table.meta}
    arrays = "\n".join(
        f'<script type="text/plain" id="column-{number}">{packed(column)}</script>'
        for number, column in enumerate(table.arrays)
    )
    marks = {
        "TITLE": escape(title),
        "STYLE": parts["page.css"],
        "META": in_script(json.dumps(meta, allow_nan=False)),
        "ARRAYS": arrays,
        "LIBRARY": library,
        "CODE": parts["data.js"] + parts["page.js"],
    }
    # cut at the marks once, so that nothing put in is looked at again
    pieces = parts["page.html"].split("%%")
    return "".join(marks[piece] if number % 2 else piece for number, piece in enumerate(pieces))


def packed(column: Array) -> str:
    """Pack an array: little-endian, gzip, base64."""
    data = column.astype(column.dtype.newbyteorder("<"), copy=False).tobytes()
    return base64.b64encode(gzip.compress(data, 6, mtime=0)).decode("ascii")


def in_script(text: str) -> str:
    """Keep JSON from ending the script element that it stands in."""
    return text.replace("<", "\\u003c")


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("explore needs plotly; install stacksweep[explore]", name=error.name) from None
    return str(get_plotlyjs())


def _title(ds: xr.Dataset) -> str:
    """Name a page after what is the same, or varies, in a sweep."""
    names = [
        ", ".join(dict.fromkeys(map(str, ds[name].values.ravel()[:1000].tolist())))
        for name in ("model", "chip", "memory", "noc")
        if name in ds.coords
    ]
    text = " · ".join(names)
    return text if 0 < len(text) <= 120 else "Design points"
