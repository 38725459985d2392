"""Quantities on axes: words and units from attributes, engineering prefixes, scales."""

import textwrap
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import (
    EngFormatter,
    FixedLocator,
    Formatter,
    FuncFormatter,
    LogLocator,
    NullFormatter,
    NullLocator,
)

from stacksweep.columns import Array
from stacksweep.labels import symbol, words

PREFIXES = {-15: "f", -12: "p", -9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}

WIDTH = 46
"""Characters of a line of a label."""

LABELLED = 12
"""Values of an axis that are all named by their own ticks."""


def span(values: Array) -> tuple[float, float] | None:
    """Least and largest finite value by magnitude, zeros left out; None where there is none."""
    sizes = np.abs(np.asarray(values, np.float64).ravel())
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    return (float(sizes.min()), float(sizes.max())) if sizes.size else None


def is_wide(values: Array) -> bool:
    """Whether positive values span so much that a logarithmic scale suits them."""
    finite = np.asarray(values, np.float64)
    finite = finite[np.isfinite(finite)]
    return bool(finite.size and finite.min() > 0 and finite.max() / finite.min() > 30)


def label_and_formatter(variable: xr.DataArray, values: Array) -> tuple[str, Formatter]:
    """
    Label of a quantity, and the formatter of its ticks.

    One prefix stands in the label for all ticks. Values that span more than four decades have it at each tick.

    Parameters
    ----------
    variable : xarray.DataArray
        Whose attributes count.
    values : ndarray
        What is drawn of it.
    """
    shown, factor, prefixed = symbol(variable)
    extent = span(values)
    if extent is not None and extent[1] / extent[0] > 1e4 and is_wide(values) and shown:
        unit = shown if prefixed else ""
        compact = _Scaled(factor, unit)
        return _wrapped(words(variable), "" if prefixed else shown), compact
    scale, prefix = 1.0, ""
    if prefixed and extent is not None:
        power = int(np.clip(3 * np.floor(np.log10(extent[1] * factor * (1 + 1e-9)) / 3), -15, 18))
        if shown == "s":
            power = min(power, 0)
        scale, prefix = 10.0**-power, PREFIXES[power]
    return _wrapped(words(variable), prefix + shown), FuncFormatter(
        lambda value, _position=None: plain(value * factor * scale)
    )


class _Scaled(EngFormatter):
    """Engineering prefixes at each tick, of numbers in another unit."""

    def __init__(self, factor: float, unit: str) -> None:
        super().__init__(unit=unit, sep=" " if unit else "")
        self._factor = factor

    def __call__(self, x: float, pos: int | None = None) -> str:
        return super().__call__(x * self._factor, pos)


def plain(value: float) -> str:
    """Write a number as short as it can be, with commas between thousands, and a prefix where it is long."""
    if abs(value) >= 1e5 and np.isfinite(value):
        return str(EngFormatter(sep="")(value))
    text = f"{value:.6g}"
    whole, point, rest = text.partition(".")
    if "e" in text or not whole.lstrip("-").isdigit():
        return text
    return f"{int(whole):,}{point}{rest}" if whole != "-0" else text


def _wrapped(text: str, unit: str) -> str:
    return textwrap.fill(f"{text} ({unit})" if unit else text, WIDTH)


def put(axis: Axis, variable: xr.DataArray, values: Array) -> None:
    """Label an axis and format its ticks; give it a logarithmic scale where the values suit one."""
    label, formatter = label_and_formatter(variable, values)
    axis.set_label_text(label)
    axis.set_major_formatter(formatter)
    if axis.get_scale() == "log":
        low, high = span(values) or (1.0, 1.0)
        decades = np.log10(high / low)
        axis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if decades < 2.5 else (1.0,), numticks=12))
        axis.set_minor_formatter(NullFormatter())


def put_positions(axis: Axis, variable: xr.DataArray) -> None:
    """Name the values of an axis on which they stand at 0, 1, 2, …; of many only some."""
    names = labels(variable)
    step = -(-len(names) // (LABELLED if max(map(len, names)) < 8 else 24))
    axis.set_label_text(label_and_formatter(variable, np.array([]))[0])
    axis.set_major_locator(FixedLocator(list(range(0, len(names), step))))
    axis.set_major_formatter(FuncFormatter(lambda at, _position=None: _named(names, at)))
    axis.set_minor_locator(NullLocator())


def _named(names: list[str], at: float) -> str:
    return names[round(at)] if 0 <= round(at) < len(names) else ""


def put_values(axis: Axis, variable: xr.DataArray, values: Array) -> None:
    """Lay out an axis of design values: those that grow by factors on a logarithmic scale, few of them all named."""
    geometric = is_geometric(values)
    if geometric:
        scale: Any = axis.axes.set_xscale if axis is axis.axes.xaxis else axis.axes.set_yscale
        scale("log", base=2)
    label, formatter = label_and_formatter(variable, values)
    axis.set_label_text(label)
    axis.set_major_formatter(formatter)
    if len(values) <= LABELLED and (geometric or _is_even(values)):
        axis.set_major_locator(FixedLocator([float(value) for value in values]))
    axis.set_minor_locator(NullLocator())


def is_geometric(values: Array) -> bool:
    """Whether values grow by about the same factor from one to the next."""
    numbers = np.unique(np.asarray(values, np.float64))
    if len(numbers) < 3 or not (numbers[0] > 0 and np.isfinite(numbers[-1])):
        return False
    factors = numbers[1:] / numbers[:-1]
    return bool(factors.min() > 1.4 and factors.max() <= factors.min() ** 2 * (1 + 1e-9))


def _is_even(values: Array) -> bool:
    steps = np.diff(np.unique(np.asarray(values, np.float64)))
    return bool(steps.size == 0 or np.allclose(steps, steps[0]))


def labels(variable: xr.DataArray) -> list[str]:
    """Values of a coordinate as words, numbers with the unit's prefix."""
    values = variable.values
    if values.dtype.kind not in "iuf":
        return [str(value) for value in values]
    shown, factor, prefixed = symbol(variable)
    if prefixed:
        return [str(_Scaled(factor, shown)(value)) for value in values.tolist()]
    return [plain(value) for value in values.tolist()]


def name_of(variable: xr.DataArray) -> str:
    """Return the name of a variable for titles and legends."""
    return str(variable.name).replace("_", " ")


def title(ax: Axes, notes: list[str]) -> None:
    """Say above a picture what was selected and optimised for it."""
    text = "; ".join(note for note in notes if note)
    if text:
        ax.set_title(textwrap.fill(text, 75), loc="left", fontsize="small")
