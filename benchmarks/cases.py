"""The design spaces that are measured."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import stacksweep as ss

MODEL = "llama-3.1-8b"
MODELS = ("llama-3.1-8b", "qwen3-30b-a3b", "gpt-oss-20b")
"""Dense; routed experts; routed experts and sliding layers."""

MEMORY = "fictional_stacked_dram"
GRID_POINTS = 10**6


def grid(points: int, **changes: Any) -> dict[str, Any]:
    """
    Arguments of a grid over layers, connected layers, batch size and prompt length, all of whose points are valid.

    Parameters
    ----------
    points : int
        A multiple of 10,000.
    """
    lengths = points // 10**4
    return {
        "model": MODEL,
        "memory": MEMORY,
        "layers": range(10, 20),
        "connected_layers": range(1, 11),
        "batch_size": range(1, 101),
        "input_seq_len": range(100, 100 * lengths + 1, 100),
        **changes,
    }


def unordered(points: int, models: Sequence[str] = MODELS) -> dict[str, Any]:
    """
    Arguments of points without order, in which fourteen parameters change from each point to the next.

    Parameters
    ----------
    points : int
    models : sequence of str
        A fifteenth parameter where there are several.
    """
    random = np.random.default_rng(0)

    def whole(low: int, high: int) -> Any:
        return random.integers(low, high, points)

    layers = whole(2, 21)
    columns = {
        "model": random.choice(models, points),
        "layers": layers,
        "connected_layers": 1 + whole(0, 2**20) % layers,
        "channels_per_connected_layer": whole(1, 17),
        "capacity_per_layer_bytes": whole(10**9, 4 * 10**9),
        "memory_frequency_hz": random.uniform(2e8, 1e9, points),
        "recharge_cycles": random.uniform(10, 100, points),
        "resistance_per_layer_c_per_w": random.uniform(0.001, 0.02, points),
        "design_power_w": random.uniform(50, 150, points),
        "frequency_hz": random.uniform(5e8, 2e9, points),
        "weight_bytes": random.choice([0.5625, 1.125, 2.0], points),
        "kv_read_bytes": random.choice([0.5625, 1.125, 2.0], points),
        "batch_size": whole(1, 257),
        "input_seq_len": whole(1, 32769),
        "output_seq_len": whole(1, 8193),
    }
    return {
        "memory": MEMORY,
        "points": xr.Dataset({name: ("point", values) for name, values in columns.items()}),
    }


def fill(dataset: xr.Dataset) -> Any:
    """Return a function that makes the arrays of a result anew and fills them once."""
    arrays = [(array.shape, array.dtype) for array in dataset.data_vars.values()]
    return lambda: [np.full(shape, 1, dtype) for shape, dtype in arrays]


def scalar(dataset: xr.Dataset, samples: int) -> Any:
    """
    Return a function that evaluates a random sample of a grid's valid points by the scalar reference, one by one.

    Raises
    ------
    ArithmeticError
        If the two do not agree: a fast wrong answer is worth nothing.
    """
    folder = str(Path(__file__).resolve().parents[1] / "tests")
    if folder not in sys.path:
        sys.path.append(folder)
    from reference import evaluate
    from reference.network import Noc

    model, chip = ss.load_model(dataset.model.item()), ss.load_chip("plena")
    memory = ss.load_memory(MEMORY).to_dict()
    network = Noc(ss.load_noc(dataset.noc.item()).to_dict()) if "noc" in dataset.coords else None
    precision = {name: getattr(chip, name) for name in ("weight_bytes", "kv_read_bytes", "kv_write_bytes")}
    precision["activation_bytes"] = chip.activation_bytes
    random = np.random.default_rng(0)
    valid = np.argwhere(dataset.valid.values)
    places = valid[random.integers(0, len(valid), samples)]
    chosen = [dataset.isel(dict(zip(dataset.sizes, place.tolist(), strict=True))) for place in places]

    def run() -> list[dict[str, Any]]:
        results = []
        for point in chosen:
            dram = {
                **memory["dram"],
                "total_layers": point.layers.item(),
                "connected_layers": point.connected_layers.item(),
            }
            results.append(
                evaluate(
                    model=model.to_dict(),
                    chip=dict(chip.constants),
                    precision=precision,
                    memory={**memory, "dram": dram},
                    plan={name: point[name].item() for name in ("tp", "ep", "dp", "pp", "cp")},
                    network=network,
                    **{name: point[name].item() for name in ("batch_size", "input_seq_len", "output_seq_len")},
                )
            )
        return results

    for point, expected in zip(chosen, run(), strict=True):
        for name in ("ttft", "tps", "kv_bytes", "usable_bandwidth"):
            if abs(point[name].item() - expected[name]) > 1e-12 * abs(expected[name]):
                raise ArithmeticError(f"{name}: {point[name].item()} differs from the reference's {expected[name]}")
    return run
