"""Draw what a token costs of six models on 64 devices, over batch size and context, with HBM and with a stack.

python docs/examples/serving_cost.py [FILE]
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

import stacksweep as ss

FIGURE = Path(__file__).resolve().parents[1] / "figures" / "serving_cost.png"
DEVICES = 64
MODELS = {
    "llama-3.1-405b": "dense, 8 KV heads",
    "qwen3-235b-a22b": "experts, 4 KV heads",
    "llama-4-maverick": "experts, chunks of 8,192",
    "deepseek-v3": "experts, latent",
    "glm-5": "experts, latent, sparse",
    "qwen3.5-397b-a17b": "experts, 3 of 4 layers linear",
}
MEMORIES = {"HBM, 8 TB/s and 180 GB": "HBM", "stack, 32 TB/s and 48 GB": "stack"}
CONTEXTS = [8_192, 131_072]
BATCHES = 2 ** np.arange(4, 14)


def stack() -> dict[str, Any]:
    """Describe a stack with four times the bandwidth of the HBM and about a quarter of its capacity."""
    return {
        "schema_version": 1,
        "kind": "stacked_dram",
        "name": "stack",
        "dram": {
            "total_layers": 16,
            "connected_layers": 8,
            "channels_per_connected_layer": 64,
            "direct_peak_bandwidth_per_connected_layer_bytes_per_s": 4e12,
            "fully_connected_efficiency": 0.8,
            "capacity_per_layer_bytes": 3_000_000_000,
            "transaction_bytes": 64,
            "apply_wave_quantization": False,
        },
    }


def network() -> dict[str, Any]:
    """Describe one switch between all devices, with the links of an NVLink 5 node."""
    profile = dict(ss.load_noc("nvlink5_node_8").to_dict())
    profile["name"] = "one switch of 64"
    profile["layers"] = {**profile["layers"], "L1": {**profile["layers"]["L1"], "shape": [1, DEVICES]}}
    return profile


def costs(model: str) -> xr.Dataset:
    """Sweep all plans of a model, and keep at each point the one that fits and generates the most tokens."""
    plans = ss.plans(model, network())
    # without pipelines: the KV cache that is counted is that of one micro-batch
    flat = plans["pp"].values == 1
    ds = ss.sweep(
        model=model,
        chip="b200",
        memory=[ss.load_memory("b200").to_dict() | {"name": "HBM"}, stack()],
        noc=network(),
        batch_size=BATCHES,
        input_seq_len=CONTEXTS,
        output_seq_len=1024,
        weight_bytes=1,
        routing="expected",
        outputs=["tps", "fits", "kv_bytes", "weight_bytes"],
        **{name: sizes[flat] for name, sizes in plans.items()},
    )
    # no rank without a sequence
    whole = ds.batch_size % (ds.dp * ds.ep) == 0
    best = ss.best(ds, "tps", over="plan", where=ds.fits & whole)
    return best.assign(cost=DEVICES * 1e6 / 3600 / best.tps.where(best.feasible))


def show(found: dict[str, xr.Dataset]) -> None:
    """Print the least cost over all batch sizes, and the batch that has it."""
    print("least device-hours per million tokens on 64 devices, and its batch size")
    print(
        f"{'':<18}"
        + "".join(f"{memory + ', ' + str(context):>22}" for context in CONTEXTS for memory in ("HBM", "stack"))
    )
    for model, best in found.items():
        cells = []
        for context in CONTEXTS:
            for memory in ("HBM", "stack"):
                cost = best.cost.sel(memory=memory, input_seq_len=context)
                if cost.isnull().all():
                    cells.append("does not fit")
                    continue
                batch = cost.batch_size[int(cost.argmin("batch_size"))].item()
                cells.append(f"{cost.min().item():.3f} at {batch:5}")
        print(f"{model:<18}" + "".join(f"{cell:>22}" for cell in cells))


def draw(found: dict[str, xr.Dataset], path: Path) -> None:
    """Draw cost over batch size, a panel for each context and memory."""
    figure, axes = plt.subplots(2, 2, figsize=(10.5, 7.2), sharex=True, sharey="row", layout="constrained")
    for row, context in zip(axes, CONTEXTS, strict=True):
        for axis, (title, memory) in zip(row, MEMORIES.items(), strict=True):
            for number, (model, best) in enumerate(found.items()):
                cost = best.cost.sel(memory=memory, input_seq_len=context)
                axis.plot(best.batch_size, cost, "osD^vP"[number] + "-", ms=4, label=f"{model} ({MODELS[model]})")
            axis.set(xscale="log", yscale="log", title=f"{title}; prompts of {context:,} tokens")
            axis.set_xticks(BATCHES, [f"{size:,}" for size in BATCHES], rotation=45)
            axis.minorticks_off()
            axis.grid(alpha=0.3)
        row[0].set_ylabel("device-hours per million tokens")
    for axis in axes[1]:
        axis.set_xlabel("batch size of the whole system (sequences)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=9)
    figure.suptitle("Decode on 64 devices of 2,250 TFLOP/s, weights in 8 bits: the best plan that fits", fontsize=11)
    figure.savefig(path, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    best_of = {name: costs(name) for name in MODELS}
    show(best_of)
    draw(best_of, Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURE)
