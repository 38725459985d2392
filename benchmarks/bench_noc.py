"""How long network tables and prices take, and how the tables grow with the network.

Run it as ``python benchmarks/bench_noc.py``; ``run()`` returns the same numbers for other scripts.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "DeepStack"))

import deepstack_noc as dn
from deepstack_noc import patterns, tables

POINTS = 1_000_000

# devices: three kinds of networks, L3 to L1
NETWORKS = {
    64: {
        "switches": (("switch", (1, 2)), ("switch", (1, 4)), ("switch", (1, 8))),
        "torus": (("torus2d", (2, 2)), ("mesh2d", (2, 2)), ("switch", (1, 4))),
    },
    256: {
        "switches": (("switch", (1, 4)), ("switch", (1, 8)), ("switch", (1, 8))),
        "torus": (("torus2d", (4, 4)), ("mesh2d", (2, 2)), ("switch", (1, 4))),
    },
    1024: {
        "switches": (("switch", (1, 8)), ("switch", (1, 16)), ("switch", (1, 8))),
        "torus": (("torus2d", (4, 4)), ("mesh2d", (4, 4)), ("switch", (1, 4))),
    },
    4096: {
        "switches": (("switch", (1, 16)), ("switch", (1, 32)), ("switch", (1, 8))),
        "torus": (("torus2d", (8, 8)), ("mesh2d", (4, 4)), ("switch", (1, 4))),
    },
}
LIMITS = {64: 1.0, 1024: 20.0, 4096: 180.0}


def topology_of(levels: tuple[tuple[str, tuple[int, int]], ...]) -> dn.Topology:
    (kind3, shape3), (kind2, shape2), (kind1, shape1) = levels
    return dn.Topology((kind3, kind2, kind1), (shape3, shape2, shape1), "even")


def table_seconds(topology: dn.Topology, link_model: str) -> float:
    """Tabulate every collective in every dimension of all plans, from nothing."""
    patterns._kept.clear()
    tables._tabulate_one.cache_clear()
    requests = [
        (collective, *groups)
        for groups in dn.all_groups(topology.devices)
        for collective in dn.COLLECTIVES
        if collective != "pipeline_transfer" or groups.stride * groups.size == topology.devices
    ]
    start = time.perf_counter()
    dn.tabulate(topology, requests, link_model)
    return time.perf_counter() - start


def best(call: Callable[[], object], repeats: int = 7) -> float:
    """Shortest of several runs after a first one, s."""
    call()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def price_seconds() -> dict[str, float]:
    """Price a million all-reduces whose bytes, bandwidth and latency all vary."""
    rng = np.random.default_rng(0)
    nbytes = rng.integers(1, 2**28, POINTS)
    bandwidth, latency = rng.uniform(10e9, 500e9, POINTS), rng.uniform(0, 5e-6, POINTS)
    seconds = {"fill": best(lambda: [np.full(POINTS, 1.5) for _ in range(3)])}
    for name, sizes in (("gpu_cluster_32", {"tp": 8, "dp": 4}), ("torus_mesh_switch_64", {"tp": 64})):
        noc = dn.load_noc(name)

        def price(noc: dn.Noc = noc, sizes: dict[str, int] = sizes) -> dn.Cost:
            return dn.all_reduce(noc, sizes, "tp", nbytes, l1_bandwidth=bandwidth, l1_latency=latency)

        seconds[f"{name}/tp{sizes['tp']}"] = best(price)
    return seconds


def run(sizes: tuple[int, ...] = tuple(NETWORKS)) -> dict[str, float]:
    """Measure everything.

    Parameters
    ----------
    sizes : tuple of int
        Numbers of devices, of `NETWORKS`.

    Returns
    -------
    dict of str to float
        Seconds by name; ratios have ``growth`` or ``over fill`` in their names, memory ``MiB``.
    """
    measured: dict[str, float] = {}
    small = topology_of(NETWORKS[64]["torus"])
    for link_model in dn.LINK_MODELS:
        table_seconds(small, link_model)  # compile
    for kind in ("switches", "torus"):
        for link_model in ("deepstack",) if kind == "switches" else dn.LINK_MODELS:
            before = None
            for devices in sizes:
                name = f"tables/{kind}/{link_model}/{devices}"
                measured[name] = seconds = table_seconds(topology_of(NETWORKS[devices][kind]), link_model)
                if before is not None:
                    measured[f"{name} growth"] = seconds / before
                before = seconds
    prices = price_seconds()
    for name, seconds in prices.items():
        measured[f"price/{name}"] = seconds
        if name != "fill":
            measured[f"price/{name} over fill"] = seconds / prices["fill"]
    measured["peak MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return measured


def main() -> None:
    for name, value in run().items():
        limit = LIMITS.get(int(name.rpartition("/")[2])) if name.rpartition("/")[2].isdigit() else None
        note = f"  (below {limit:g})" if limit else ""
        print(f"{name:45s} {value:10.4f}{note}")


if __name__ == "__main__":
    main()
