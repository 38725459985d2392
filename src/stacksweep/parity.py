"""Predictions over measurements, drawn."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from stacksweep.calibrate import Calibration


def parity(found: "Calibration", path: Any = None) -> "Figure":
    """
    Draw predictions over measurements: in sample, and held out where there are groups.

    Parameters
    ----------
    found : Calibration
    path : path, optional
        File to write.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.figure import Figure

    kinds = [("predicted", f"in sample, mean error {found.mean_error:.1%}")]
    if found.group:
        kinds.append(("held_out", f"{found.group} not seen by the fit, mean error {found.held_out_error:.1%}"))
    figure = Figure(figsize=(4.6 * len(kinds), 5.0 * len(found.targets)), layout="constrained")
    axes = figure.subplots(len(found.targets), len(kinds), squeeze=False)
    for target, line in zip(found.targets, axes, strict=True):
        for (kind, title), axis in zip(kinds, line, strict=True):
            scatter(axis, found.rows, target, kind, found.group)
            axis.set_title(title, fontsize="medium")
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def scatter(axis: Any, rows: Any, target: str, kind: str, group: str | None) -> None:
    """Draw one target's predictions over its measurements, with a band of 20 % around equality."""
    from stacksweep.plot.palette import COLOURS, MARKERS

    labels = rows[group] if group else None
    names = list(dict.fromkeys(labels)) if labels is not None else [None]
    for place, name in enumerate(names):
        mine = rows if name is None else rows[labels == name]
        axis.scatter(
            mine[target],
            mine[f"{kind}_{target}"],
            s=26,
            marker=MARKERS[place % len(MARKERS)],
            color=COLOURS[place % len(COLOURS)],
            edgecolor="white",
            linewidth=0.5,
            label=None if name is None else str(name),
            zorder=3,
        )
    both = np.concatenate([rows[target], rows[f"{kind}_{target}"]])
    ends = np.array([both.min() / 1.5, both.max() * 1.5])
    axis.plot(ends, ends, color="0.3", linewidth=1)
    axis.fill_between(ends, ends / 1.2, ends * 1.2, color="0.9", zorder=0, label="within 20 %")
    axis.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
    axis.set_xlabel(f"measured {target}")
    axis.set_ylabel(f"predicted {target}")
    axis.legend(fontsize="small", frameon=False, loc="upper left")
