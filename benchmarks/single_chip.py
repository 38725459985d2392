"""One device: points per second of grids, of unordered points and of long decodes."""

from functools import partial

import stacksweep as ss
from cases import GRID_POINTS, MODEL, MODELS, fill, grid, scalar, unordered
from measure import Figure, fastest, fastest_of_each

LENGTHS = (100, 100_000)
"""Output tokens that are compared."""


def run(quick: bool) -> list[Figure]:
    """Measure one device, warm and on all cores."""
    repeats = 3 if quick else 9
    return _grids(quick, repeats) + _unordered(repeats) + _decode(repeats)


def _grids(quick: bool, repeats: int) -> list[Figure]:
    small = grid(GRID_POINTS)
    result = ss.sweep(**small)
    seconds, filled = fastest_of_each([partial(ss.sweep, **small), fill(result)], repeats)
    samples = 5 if quick else 20
    one_by_one = fastest(scalar(result, samples), 1 if quick else 3) / samples
    del result
    figures = [
        Figure("grid_points_per_s", "grid of 10⁶ points", GRID_POINTS / seconds, "points/s"),
        Figure("grid_over_fill", "grid of 10⁶ points, over filling its arrays once", seconds / filled, "×", 10),
        Figure(
            "grid_over_scalar",
            "grid of 10⁶ points, faster per point than plain Python",
            one_by_one / (seconds / GRID_POINTS),
            "×",
            1e5,
            "at least",
        ),
    ]
    if not quick:
        large = grid(10 * GRID_POINTS)
        result = ss.sweep(**large)
        seconds, filled = fastest_of_each([partial(ss.sweep, **large), fill(result)], 5)
        figures.append(
            Figure("large_grid_over_fill", "grid of 10⁷ points, over filling its arrays once", seconds / filled, "×", 5)
        )
    return figures


def _unordered(repeats: int) -> list[Figure]:
    figures = []
    for key, models, words in (
        ("unordered", [MODEL], "10⁶ points without order, 14 parameters"),
        ("unordered_models", MODELS, "10⁶ points without order, 14 parameters and 3 models"),
    ):
        arguments = unordered(GRID_POINTS, models)
        calls = [partial(ss.sweep, **arguments), fill(ss.sweep(**arguments))]
        seconds, filled = fastest_of_each(calls, repeats)
        figures += [
            Figure(f"{key}_points_per_s", words, GRID_POINTS / seconds, "points/s"),
            Figure(f"{key}_over_fill", f"{words}, over filling once", seconds / filled, "×", 25),
        ]
    return figures


def _decode(repeats: int) -> list[Figure]:
    fixed = {"layers": None, "connected_layers": None, "bandwidth_bytes_per_s": range(10**12, 10**13, 9 * 10**10)}
    figures = []
    for key, words, changes in (
        ("decode_with_waves", "transfers rounded to waves", {}),
        ("decode_without_waves", "no rounding", {"memory": "h100_sxm", **fixed}),
    ):
        of_length = {length: grid(GRID_POINTS, outputs="tps", output_seq_len=length, **changes) for length in LENGTHS}
        calls = [partial(ss.sweep, **arguments) for arguments in of_length.values()]
        few, many = fastest_of_each(calls, repeats)
        figures.append(Figure(key, f"decode of 100,000 tokens, over 100 ({words})", many / few, "×", 3))
    return figures
