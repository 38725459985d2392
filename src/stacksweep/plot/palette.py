"""Colours, markers and dashes that the colour blind and a grey printer tell apart."""

from typing import Any

import matplotlib as mpl
import numpy as np

from stacksweep.columns import Array

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours of Okabe and Ito (https://jfly.uni-koeln.de/color/), but for yellow, which paper swallows."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (8, 3)), (0, (3, 1, 1, 1)))

CONTINUOUS = "viridis"
CELLS = "cividis"


def style(number: int, count: int, *, ordered: bool) -> dict[str, Any]:
    """
    Look of one line of several.

    Parameters
    ----------
    number, count : int
        Which of how many.
    ordered : bool
        Whether they follow a quantity, which many of them show by a sequence of colours.

    Returns
    -------
    dict
        Keywords of `Axes.plot`.
    """
    colour: Any = COLOURS[number % len(COLOURS)]
    if ordered and count > len(COLOURS):
        colour = sequence(np.array([number / (count - 1)]))[0]
    # once the colours start anew, so do the dashes, but from another one
    dash = DASHES[(number + 4 * (number // len(COLOURS))) % len(DASHES)]
    return {"color": colour, "marker": MARKERS[number % len(MARKERS)], "linestyle": dash}


def sequence(shares: Array) -> Array:
    """Colours for shares of 0 to 1, without the bright end that paper swallows."""
    colours: Array = mpl.colormaps[CONTINUOUS](0.85 * shares)
    return colours
