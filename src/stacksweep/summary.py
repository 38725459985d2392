"""What a sweep has found, in a few lines: how many points are valid and fit, and which is best."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import xarray as xr

from stacksweep.boxes import block_shape, boxes, chunk_shape, pieces
from stacksweep.kernels.validity import REASONS

PIECE = 2**21
"""Points that are read at a time."""


def summarize(dataset: xr.Dataset) -> dict[str, Any]:
    """
    Sum up a sweep, piece by piece, so that it may be larger than memory.

    Parameters
    ----------
    dataset : xarray.Dataset
        In memory or in a file.

    Returns
    -------
    dict
        Dimensions, points, how many are valid, fit, or cannot be for each reason, and the best point: the valid one
        with the highest tps, among those that fit if any is known to.
    """
    sizes = {str(dim): size for dim, size in dataset["valid"].sizes.items()}
    counts = np.zeros(len(REASONS), np.int64)
    names = [name for name in ("valid", "fits", "tps") if name in dataset]
    best = {name: _Best() for name in ("valid", "fits")}
    fits = 0
    for box in boxes(pieces(sizes, block_shape(sizes, chunk_shape(sizes, PIECE // 8), PIECE))):
        piece = dataset[["reason", *names]].isel(box).load()
        counts += np.bincount(piece["reason"].values.ravel(), minlength=len(REASONS))
        fits += int(piece["fits"].sum()) if "fits" in piece else 0
        if "tps" in piece:
            for among in names[:-1]:
                best[among].look(piece["tps"].values, piece[among].values, sizes, [at.start for at in box.values()])
    valid = counts[0]
    return {
        "dimensions": sizes,
        "points": int(counts.sum()),
        "valid": int(valid),
        "fits": fits if "fits" in dataset else None,
        "reasons": {name: int(count) for name, count in zip(REASONS, counts, strict=True) if count and name != "valid"},
        "best": best["fits" if fits else "valid"].point(dataset, "fits" if fits else "valid", sizes),
    }


class _Best:
    """The highest value so far, the first place that has it, and how many have it."""

    def __init__(self) -> None:
        self._highest, self._first, self._equals = -np.inf, -1, 0

    def look(self, values: Any, candidates: Any, sizes: Mapping[str, int], starts: list[int]) -> None:
        """Go through a piece of the result."""
        highest = np.max(values, where=candidates, initial=-np.inf)
        if highest < self._highest or highest == -np.inf:
            return
        equals = candidates & (values == highest)
        place = [
            start + at for start, at in zip(starts, np.unravel_index(np.argmax(equals), equals.shape), strict=True)
        ]
        first = int(np.ravel_multi_index(place, tuple(sizes.values()))) if place else 0
        count = int(np.count_nonzero(equals))
        if highest > self._highest:
            self._highest, self._first, self._equals = highest, first, count
        else:
            self._first, self._equals = min(self._first, first), self._equals + count

    def point(self, dataset: xr.Dataset, among: str, sizes: Mapping[str, int]) -> dict[str, Any] | None:
        """Describe the first of the highest; None if there is none."""
        if self._first < 0:
            return None
        index = dict(zip(sizes, np.unravel_index(self._first, tuple(sizes.values())), strict=True)) if sizes else {}
        point = dataset[["tps", *(name for name in ("ttft",) if name in dataset)]].isel(index).load()
        return {
            "among": among,
            **{str(name): point[name].item() for name in point.data_vars},
            "equals": self._equals,
            "coordinates": {str(name): point[name].item() for name in point.coords if dataset[name].ndim},
        }


def summary_text(summary: Mapping[str, Any]) -> str:
    """Lay a summary out, with what whoever wrote it has added: `seconds`, `output`, `bytes`, `resumed`."""
    points, best = summary["points"], summary["best"]
    before = summary.get("resumed", 0)
    among = f", {points - before:,} of them" if before else ""
    rate = f"{(points - before) / summary['seconds']:,.0f} points/s"
    dimensions = " x ".join(f"{dim} {size:,}" for dim, size in summary["dimensions"].items()) or "none: one point"
    rows = [
        ("dimensions", dimensions),
        ("points", f"{points:,}{among} in {summary['seconds']:.3g} s ({rate})"),
        ("valid", f"{summary['valid']:,} ({summary['valid'] / points:.1%})"),
        *((f"  {name}", f"{count:,}: {REASONS[name]}") for name, count in summary["reasons"].items()),
    ]
    if summary["fits"] is not None:
        rows.append(("fits", f"{summary['fits']:,} ({summary['fits'] / points:.1%})"))
    rows += zip(("best", "  at"), _best_text(summary, best), strict=False)
    rows.append(("written", f"{summary['output']} ({summary['bytes'] / 1e6:,.1f} MB)"))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {words}" for name, words in rows)


def _best_text(summary: Mapping[str, Any], best: Mapping[str, Any] | None) -> Iterator[str]:
    if best is None:
        yield "no point is valid" if not summary["valid"] else "not known: tps is not among the outputs"
        return
    among = "among points that fit"
    if best["among"] == "valid":
        among = "among all valid points: " + ("no point fits" if summary["fits"] == 0 else "fits is not an output")
    ttft = f", ttft {best['ttft']:.6g} s" if "ttft" in best else ""
    equals = f" (the first of {best['equals']:,} with this tps)" if best["equals"] > 1 else ""
    yield f"tps {best['tps']:.6g} tokens/s{ttft}, {among}{equals}"
    if best["coordinates"]:
        yield ", ".join(f"{name} {_value(value)}" for name, value in best["coordinates"].items())


def _value(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)
