"""Networks: tables of all collectives of all plans, and prices of a million of them; see `bench_noc.py` for more."""

import bench_noc
from measure import Figure


def run(quick: bool) -> list[Figure]:
    """Take the slowest of the networks and link models of each size."""
    measured = bench_noc.run((64,) if quick else tuple(bench_noc.NETWORKS))
    figures = []
    for devices, limit in bench_noc.LIMITS.items():
        seconds = [value for name, value in measured.items() if name.endswith(f"/{devices}")]
        if seconds:
            words = f"tables of all collectives, {devices:,} devices"
            figures.append(Figure(f"network_{devices}", words, max(seconds), "s", limit))
    over_fill = max(
        value for name, value in measured.items() if name.startswith("price/") and name.endswith("over fill")
    )
    figures.append(Figure("all_reduce_over_fill", "10⁶ all-reduces, over filling once", over_fill, "×"))
    return figures
