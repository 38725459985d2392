"""How the cost of a point grows: with their number, the output length, the devices, the models and the plans."""

from collections.abc import Callable
from functools import partial
from typing import Any

import stacksweep as ss
import systems
from cases import GRID_POINTS, MEMORY, MODELS, fill, grid
from measure import Figure, fastest, fastest_of_each

POWERS = {10**4: "10⁴", 10**5: "10⁵", 10**6: "10⁶", 10**7: "10⁷"}
LENGTHS = (1, 100, 10_000, 1_000_000)
DEVICES = {
    8: ((1, 8), (1, 1), (1, 1)),
    64: ((1, 8), (2, 2), (1, 2)),
    512: ((1, 8), (2, 4), (2, 4)),
    4096: ((1, 8), (8, 8), (2, 4)),
}
"""Shapes of the three levels of a network, innermost first."""


def run(quick: bool) -> list[Figure]:
    """Measure sweeps of a million points, warm and on all cores."""
    repeats = 3 if quick else 5
    lengths = {str(length): grid(GRID_POINTS, output_seq_len=length) for length in LENGTHS}
    devices = {str(count): _of_devices(count) for count in DEVICES}
    return [
        *_points(quick, repeats),
        *_each("length", "{} output tokens", lengths, repeats),
        *_each("devices", "{} devices", devices, repeats),
        *_each("models", "{} models", _of_models(), repeats),
        *_each("plans", "{} plans", _of_plans(), repeats),
        *_over_fill(quick),
    ]


def _points(quick: bool, repeats: int) -> list[Figure]:
    figures = []
    for points, power in POWERS.items():
        if points <= GRID_POINTS or not quick:
            seconds = fastest(partial(ss.sweep, **grid(points)), repeats)
            figures.append(
                Figure(f"growth_points_{points}", f"grid of {power} points", 1e9 * seconds / points, "ns per point")
            )
    return figures


def _each(key: str, words: str, calls: dict[str, dict[str, Any]], repeats: int) -> list[Figure]:
    """Measure the cost of a point of several calls, which take turns."""
    sweeps: list[Callable[[], Any]] = [partial(ss.sweep, **arguments) for arguments in calls.values()]
    points = [sweep().valid.size for sweep in sweeps]
    return [
        Figure(f"growth_{key}_{name}", words.format(f"{int(name):,}"), 1e9 * seconds / size, "ns per point")
        for name, seconds, size in zip(calls, fastest_of_each(sweeps, repeats), points, strict=True)
    ]


def network(devices: int) -> dict[str, Any]:
    """Describe a network of three levels: meshes of meshes of switches."""
    layers = {}
    for level, shape in enumerate(DEVICES[devices], 1):
        layers[f"L{level}"] = {
            "kind": "switch" if shape in ((1, 1), (1, 8)) else "mesh2d",
            "shape": list(shape),
            "hop_latency_ns": 200 * level,
            "link_bandwidth_gbytes_per_s": 400 / level,
        }
        if layers[f"L{level}"]["kind"] == "switch":
            layers[f"L{level}"] |= {"switch_center_in_gbytes_per_s": 1600, "switch_center_out_gbytes_per_s": 1600}
    return {
        "schema_version": 1,
        "kind": "noc_hierarchy",
        "name": f"devices_{devices}",
        "layers": layers,
        "energy_pj_per_bit": {"l1": 1, "l2": 2, "l3": 3},
        "provenance": {"source": "invented for measurements; describes no product"},
    }


def _loads(points: int) -> dict[str, Any]:
    """Arguments of a grid over stacks and loads."""
    lengths = points // 1000
    return {
        "memory": MEMORY,
        "layers": range(10, 20),
        "batch_size": range(16, 1616, 16),
        "input_seq_len": range(64, 64 * lengths + 1, 64),
    }


def _of_devices(devices: int) -> dict[str, Any]:
    plans = {"tp": [1, 2, 4, 8], "pp": [1, 2], "dp": "fill"}
    return {"model": "llama-3.1-8b", "noc": network(devices), **plans, **_loads(GRID_POINTS // 8)}


def _of_models() -> dict[str, dict[str, Any]]:
    # those that every chip can price
    families = [name for name in ss.bundled_names("models") if name.startswith(("llama-3", "qwen3-", "gpt", "mixtral"))]
    return {
        str(len(models)): {"model": models, **_loads(GRID_POINTS // len(models))}
        for models in (list(MODELS[:1]), list(MODELS), families)
    }


def _of_plans() -> dict[str, dict[str, Any]]:
    model, noc = "qwen3-235b-a22b", "torus_mesh_switch_64"
    every = ss.plans(model, noc)
    count = every["tp"].size
    return {
        str(chosen): {
            "model": model,
            "noc": noc,
            "routing": "random",
            **{name: sizes[:chosen] for name, sizes in every.items()},
            **_loads(GRID_POINTS // chosen),
        }
        for chosen in (1, 8, count)
    }


def _over_fill(quick: bool) -> list[Figure]:
    if quick:
        return []
    arguments = {**systems.grid(), "batch_size": range(8, 8 * 531, 8)}
    result = ss.sweep(**arguments)
    seconds, filled = fastest_of_each([partial(ss.sweep, **arguments), fill(result)], 5)
    words = "grid of 10⁷ points, 32 devices, over filling its arrays once"
    return [Figure("large_systems_over_fill", words, seconds / filled, "×", 4)]
