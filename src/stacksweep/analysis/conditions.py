"""Conditions in words, such as `ttft < 1 and fits`, for the command line."""

import math
import operator
import re
from typing import Any

import numpy as np
import xarray as xr

from stacksweep.parameters import ParameterError, did_you_mean

COMPARISONS = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}

_TERM = re.compile(r"(?:(?P<negated>not)\s+)?(?P<name>[^\W\d]\w*)\s*(?:(?P<sign>[<>=!]+)\s*(?P<value>.*))?", re.DOTALL)
_EXPECTED = "needs NAME, not NAME, or NAME with one of <, <=, >, >=, ==, != and a number or word; several with and"


def condition(ds: xr.Dataset, text: str) -> xr.DataArray:
    """
    Read a condition on the points of a Dataset.

    Parameters
    ----------
    ds : xarray.Dataset
    text : str
        Comparisons of variables or coordinates with numbers (in the units of the Dataset) or words, such as `ttft < 1`,
        `model == llama-3.1-8b` or `decode_bound != capacity` (of CF flags the meanings), and names of booleans, such as
        `fits` or `not buffering_limited`; several with `and` between them.

    Returns
    -------
    xarray.DataArray of bool

    Raises
    ------
    ParameterError
        If it is no such text, names what `ds` does not have, or compares what cannot be compared.
    """
    found = [_term(ds, term.strip()) for term in re.split(r"\sand\s", text)]
    whole = found[0]
    for one in found[1:]:
        whole = whole & one
    return whole


def _term(ds: xr.Dataset, text: str) -> xr.DataArray:
    parts = _TERM.fullmatch(text)
    if parts is None:
        raise ParameterError(f"where: got {text!r}, {_EXPECTED}")
    name, sign = parts["name"], parts["sign"]
    if name not in ds.variables:
        raise ParameterError(
            f"where: {text!r}: there is no variable {name!r}{did_you_mean(name, map(str, ds.variables))}"
        )
    variable = ds[name]
    if sign is None:
        if variable.dtype != np.bool_:
            raise ParameterError(f"where: {text!r}: {name!r} is not true or false; compare it with a value")
        return ~variable if parts["negated"] else variable
    if sign not in COMPARISONS or parts["negated"]:
        raise ParameterError(f"where: got {text!r}, {_EXPECTED}")
    value = _value(variable, parts["value"].strip(), text)
    ordered = variable.dtype.kind in "iuf" and not isinstance(value, _Code)
    if sign not in ("==", "!=") and not ordered:
        raise ParameterError(f"where: {text!r}: {name!r} has no order; compare it with == or !=")
    found: xr.DataArray = COMPARISONS[sign](variable, value)
    return found


class _Code(int):
    """Number that stands for a word."""


def _value(variable: xr.DataArray, word: str, text: str) -> Any:
    """Turn a word into what a variable can be compared with."""
    word = word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"" else word
    name = str(variable.name)
    if variable.dtype.kind in "OUST":
        if word not in (known := list(map(str, np.unique(variable.values)))):
            raise ParameterError(f"where: {text!r}: {name!r} is never {word!r}{did_you_mean(word, known)}")
        return word
    if variable.dtype == np.bool_:
        if word.lower() not in ("true", "false"):
            raise ParameterError(f"where: {text!r}: {name!r} needs true or false")
        return word.lower() == "true"
    meanings = str(variable.attrs.get("flag_meanings", "")).split() if "flag_values" in variable.attrs else []
    if word in meanings:
        return _Code(np.atleast_1d(variable.attrs["flag_values"])[meanings.index(word)])
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if math.isnan(number) or variable.dtype.kind not in "iuf":
        needs = "a meaning of it" + did_you_mean(word, meanings) if meanings else "a number"
        raise ParameterError(f"where: {text!r}: {name!r} cannot be compared with {word!r}, needs {needs}")
    return number
