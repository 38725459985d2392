"""Draw which plan of 32 devices gives the most TPS, over stack height and batch size; print tensor against pipeline.

python docs/examples/best_plan.py [FILE]
"""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

import stacksweep as ss

FIGURE = Path(__file__).resolve().parents[1] / "figures" / "best_plan.png"
MODEL, NOC = "llama-3.1-70b", "gpu_cluster_32"


def best_plans() -> xr.Dataset:
    """Sweep all plans without context parallelism, and keep the best that fits at each height and batch size."""
    plans = ss.plans(MODEL, NOC)
    plain = plans["cp"].values == 1
    ds = ss.sweep(
        model=MODEL,
        memory="fictional_stacked_dram",
        noc=NOC,
        layers=[2, 4, 6, 8, 12, 16, 24],
        connected_layers=2,
        batch_size=2 ** np.arange(11),
        input_seq_len=2048,
        output_seq_len=1024,
        **{name: sizes[plain] for name, sizes in plans.items()},
    )
    # a batch that pp does not divide is rounded up, and its throughput counts sequences that there are not
    return ss.best(ds, "tps", over="plan", where=ds.fits & (ds.batch_size % ds.pp == 0))


def show(best: xr.Dataset) -> None:
    """Print the best plans of one height: tensor parallelism first, then pipelines and replicas."""
    print("Llama 3.1 70B on 32 devices, stacks of 6 layers: the plan with the most TPS")
    print("batch    tp   pp   dp   tokens/s   tokens/s of a sequence")
    for at in (best.sel(layers=6, batch_size=batch) for batch in best.batch_size.values[::2]):
        sizes = "".join(f"{at[name].item():5}" for name in ("tp", "pp", "dp"))
        print(f"{at.batch_size.item():5} {sizes}{at.tps.item():11.1f}{at.tps_per_sequence.item():16.2f}")


def draw(best: xr.Dataset, path: Path) -> None:
    """Draw TPS as colour, and the sizes of the plan in each cell."""
    tps = best.tps.transpose("layers", "batch_size")
    figure, axes = plt.subplots(figsize=(9.5, 4.2), layout="constrained")
    norm = mpl.colors.LogNorm(vmin=float(tps.min()), vmax=float(tps.max()))
    image = axes.pcolormesh(tps, norm=norm, cmap="cividis", edgecolors="white", linewidth=1.5)
    for row, column in np.ndindex(tps.shape):
        point = best.isel(layers=row, batch_size=column)
        if not point.feasible:
            axes.text(column + 0.5, row + 0.5, "does\nnot fit", ha="center", va="center", fontsize=8, color="0.35")
            continue
        sizes = "\n".join(f"{name} {point[name].item()}" for name in ("tp", "pp", "dp") if point[name] > 1)
        dark = norm(point.tps.item()) < 0.55
        axes.text(
            column + 0.5, row + 0.5, sizes, ha="center", va="center", fontsize=8, color="white" if dark else "black"
        )
    axes.set_xticks(np.arange(best.batch_size.size) + 0.5, [f"{size}" for size in best.batch_size.values])
    axes.set_yticks(np.arange(best.layers.size) + 0.5, [f"{height}" for height in best.layers.values])
    axes.tick_params(length=0)
    axes.set_xlabel("batch size of the whole system (sequences)")
    axes.set_ylabel("height of the stack (DRAM layers)")
    figure.colorbar(image, label="TPS of the best plan (tokens/s)", pad=0.01)
    title = "Best plan of 32 devices for Llama 3.1 70B, 2,048 tokens in, 1,024 out; fictional stack"
    figure.suptitle(title, fontsize=11)
    figure.savefig(path, dpi=160)
    plt.close(figure)


if __name__ == "__main__":
    chosen = best_plans()
    show(chosen)
    draw(chosen, Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURE)
