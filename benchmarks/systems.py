"""Many chips: grids of plans, plans of experts on a network, and points without order over all parameters."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import stacksweep as ss
from cases import MEMORY, fill, scalar
from measure import Figure, fastest, fastest_of_each

POINTS = 10**6


def grid() -> dict[str, Any]:
    """Arguments of a grid over stacks, plans and loads of 32 devices."""
    return {
        "model": "llama-3.1-70b",
        "memory": MEMORY,
        "noc": "gpu_cluster_32",
        "layers": range(8, 28, 4),
        "connected_layers": range(1, 9),
        "tp": [1, 2, 4, 8],
        "pp": [1, 2, 4],
        "dp": "fill",
        "batch_size": range(8, 8 * 53, 8),
        "input_seq_len": range(256, 256 * 41, 256),
    }


def experts() -> dict[str, Any]:
    """Arguments of all plans of 64 devices for routed experts, over stacks and loads."""
    model, noc = "qwen3-235b-a22b", "torus_mesh_switch_64"
    return {
        "model": model,
        "memory": MEMORY,
        "noc": noc,
        "routing": "random",
        "layers": range(8, 28, 4),
        "connected_layers": range(1, 9),
        "batch_size": range(8, 8 * 26, 8),
        "input_seq_len": range(512, 512 * 13, 512),
        **ss.plans(model, noc),
    }


def unordered(points: int) -> pd.DataFrame:
    """Points without order: models, networks, plans, rates, stacks, clocks, loads and policies all change."""
    random = np.random.default_rng(0)
    parts = []
    for noc in ("gpu_cluster_32", "torus_mesh_switch_64"):
        for model in ("llama-3.1-70b", "qwen3-235b-a22b", "gpt-oss-120b"):
            plans = ss.plans(model, noc)
            chosen = random.integers(0, plans["tp"].size, -(-points // 6))
            sizes = {name: size.values[chosen] for name, size in plans.items()}
            parts.append(pd.DataFrame({"noc": noc, "model": model, **sizes}))
    table = pd.concat(parts, ignore_index=True).sample(points, random_state=0, ignore_index=True)
    for name in ("noc", "model"):
        table[name] = table[name].astype("category")
    table["layers"] = random.integers(4, 25, points)
    table["connected_layers"] = 1 + random.integers(0, 2**20, points) % table["layers"]
    table["channels_per_connected_layer"] = random.integers(4, 64, points)
    table["design_power_w"] = random.uniform(60, 100, points)
    table["frequency_hz"] = random.uniform(5e8, 2e9, points)
    table["weight_bytes"] = random.choice([0.53125, 1.0, 2.0], points)
    table["l1_bandwidth"] = random.uniform(1e11, 9e11, points)
    table["l2_latency"] = random.uniform(1e-7, 1e-5, points)
    table["batch_size"] = random.integers(1, 512, points)
    table["input_seq_len"] = random.integers(64, 16384, points)
    table["output_seq_len"] = random.integers(16, 4096, points)
    for name, words in (("overlap", ["stage-roofline", "serial"]), ("comm_overlap", ["none", "full"])):
        table[name] = pd.Categorical.from_codes(random.integers(0, 2, points), words)
    return table


def mixed() -> dict[str, Any]:
    """Arguments of models of all families on roofline chips and their memories, over plans and loads of 8 devices."""
    return {
        "model": ["llama-3.1-70b", "qwen3-30b-a3b", "gpt-oss-120b", "deepseek-v3", "glm-5", "qwen3.5-397b-a17b"],
        "chip": "b200",
        "memory": ["b200", "h200", "mi325x"],
        "noc": "gpu_node_8",
        "tp": [1, 2, 4, 8],
        "dp": "fill",
        "memory_efficiency": [0.7, 0.8, 0.9],
        "batch_size": range(8, 8 * 51, 8),
        "input_seq_len": range(512, 512 * 81, 512),
    }


def run(quick: bool) -> list[Figure]:
    """Measure many chips, warm and on all cores."""
    repeats = 3 if quick else 7
    figures = []
    for key, words, arguments, target in (
        ("systems_grid", "grid of stacks, plans and loads, 32 devices", grid(), 10),
        ("systems_experts", "all plans with random experts, stacks and loads, 64 devices", experts(), 20),
        ("systems_mixed", "six models with five kinds of attention on roofline chips, 8 devices", mixed(), 100),
        (
            "systems_unordered",
            "10⁶ points without order, 18 parameters",
            {"memory": MEMORY, "points": unordered(POINTS)},
            60,
        ),
    ):
        result = ss.sweep(**arguments)
        seconds, filled = fastest_of_each([partial(ss.sweep, **arguments), fill(result)], repeats)
        points = result.valid.size
        figures += [
            Figure(f"{key}_points_per_s", words, points / seconds, "points/s"),
            Figure(f"{key}_over_fill", f"{words}, over filling once", seconds / filled, "×", target),
        ]
        if key == "systems_grid":
            samples = 4 if quick else 12
            one_by_one = fastest(scalar(result, samples), 1) / samples
            ratio = one_by_one / (seconds / points)
            figures.append(
                Figure("systems_grid_over_scalar", f"{words}, faster than plain Python", ratio, "×", 1e6, "at least")
            )
    return figures
