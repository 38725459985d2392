"""Draw TTFT and TPS over the height of the DRAM stack and its connected layers; print what recharging rows costs.

python docs/examples/stack_height.py [FILE]
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import xarray as xr

import stacksweep as ss

FIGURE = Path(__file__).resolve().parents[1] / "figures" / "stack_height.png"

# three colours of Okabe and Ito and one of Tol, told apart by the colour blind; the markers do it in grey as well
STYLES = {2: ("#0072B2", "o"), 4: ("#D55E00", "s"), 8: ("#009E73", "^"), 16: ("#AA4499", "D")}


def sweep() -> xr.Dataset:
    """Stacks of 2 to 32 layers, of which 2 to 16 are connected."""
    return ss.sweep(
        model="llama-3.1-8b",
        memory="fictional_stacked_dram",
        layers=range(2, 33, 2),
        connected_layers=list(STYLES),
        batch_size=16,
        input_seq_len=2048,
        output_seq_len=1024,
        outputs=["main", "connectivity_efficiency"],
    )


def draw(ds: xr.Dataset, path: Path) -> None:
    """Draw a panel each; points that do not fit in the memory are hollow."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    for panel, name, label in ((axes[0], "ttft", "TTFT (s)"), (axes[1], "tps", "TPS (tokens/s)")):
        for connected, (colour, marker) in STYLES.items():
            line(panel, ds.sel(connected_layers=connected), name, colour, marker)
        panel.set_xlabel("height of the stack (DRAM layers)")
        panel.set_ylabel(label)
        panel.set_xlim(0, 36)
        panel.set_xticks(range(0, 33, 4))
        panel.grid(alpha=0.25)
    axes[0].set_ylim(1.55, 2.15)
    axes[1].set_ylim(0, 430)
    axes[0].plot([], [], "o", color="0.3", label="model and KV cache fit")
    axes[0].plot([], [], "o", color="0.3", markerfacecolor="white", label="they do not fit")
    axes[0].legend(loc="upper left", frameon=False, fontsize=10)
    axes[1].set_title("numbers at the lines: connected layers", loc="left", fontsize=10)
    figure.suptitle(
        "Llama 3.1 8B on one device: 16 sequences, 2,048 tokens in, 1,024 out; fictional stack", fontsize=11
    )
    figure.savefig(path, dpi=160)
    plt.close(figure)


def show(ds: xr.Dataset) -> None:
    """Print the share of the peak bandwidth that is left, and what of it decode gets."""
    print("Llama 3.1 8B, 8 layers connected: bandwidth that recharging rows leaves, and TPS")
    print("height   share of peak       GB/s   tokens/s")
    for at in (ds.sel(layers=height, connected_layers=8) for height in (8, 10, 12, 14, 16, 32)):
        share, bandwidth = at.connectivity_efficiency.item(), at.usable_bandwidth.item() / 1e9
        print(f"{at.layers.item():6}{share:16.1%}{bandwidth:11.1f}{at.tps.item():11.1f}")


def line(panel: Any, ds: Any, name: str, colour: str, marker: str) -> None:
    """Draw one line: filled where the model fits, hollow elsewhere, with its name at the end."""
    panel.plot(ds.layers, ds[name], color=colour, linewidth=1.6)
    fits = ds.fits.to_numpy()
    for inside, face in ((fits, colour), (~fits, "white")):
        shown = ds.layers.to_numpy()[inside], ds[name].to_numpy()[inside]
        panel.plot(*shown, marker, color=colour, markerfacecolor=face, markersize=5)
    panel.annotate(
        f"{ds.connected_layers.item()}",
        (ds.layers[-1].item(), ds[name][-1].item()),
        (7, 0),
        textcoords="offset points",
        color=colour,
        va="center",
        fontweight="bold",
    )


if __name__ == "__main__":
    points = sweep()
    show(points)
    with plt.rc_context({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False}):
        draw(points, Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURE)
