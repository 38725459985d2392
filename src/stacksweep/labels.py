"""Words and units of variables for people: what a result is called, and in which symbol it is shown."""

import re

import xarray as xr

SYMBOLS = {"byte": ("B", 1.0), "pJ": ("J", 1e-12), "Hz": ("Hz", 1.0), "s": ("s", 1.0), "J": ("J", 1.0), "W": ("W", 1.0)}
"""Symbols that take prefixes, by the first word of a unit, and what one of it is of them."""


def words(variable: xr.DataArray) -> str:
    """
    Say what a variable is.

    Returns
    -------
    str
        Its long name without the remarks that it may end with, or its name.
    """
    text = str(variable.attrs.get("long_name") or variable.name or "")
    return re.split(r"; |, from |, taken alone", text)[0]


def symbol(variable: xr.DataArray) -> tuple[str, float, bool]:
    """
    Turn a unit into one to show.

    Returns
    -------
    str
        Its symbol, empty for numbers without a unit.
    float
        What one of the variable's own units is of it.
    bool
        Whether it takes prefixes.
    """
    units = str(variable.attrs.get("units", "1")).split()
    if units in ([], ["1"]):
        return "", 1.0, False
    if units == ["s-1"]:
        return ("tokens/s" if "tokens per second" in words(variable) else "1/s"), 1.0, False
    first, *rest = units
    shown, factor = SYMBOLS.get(first, (first, 1.0))
    shown += "".join(f"/{part[:-2]}" if part.endswith("-1") else f" {part}" for part in rest)
    return shown, factor, first in SYMBOLS
