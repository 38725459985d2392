"""Hold a B200-class chip with DRAM stacked on it against the same chip with HBM, in decode throughput and DRAM energy.

python docs/examples/stacked_b200.py [FILE]
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import xarray as xr

import stacksweep as ss

FIGURE = Path(__file__).resolve().parents[1] / "figures" / "stacked_b200.png"
DEVICES = 8

STACK: dict[str, Any] = {
    "schema_version": 1,
    "kind": "stacked_dram",
    "name": "assumed_stack",
    "dram": {
        "total_layers": 8,
        "connected_layers": 8,
        "channels_per_connected_layer": 192,
        "capacity_per_layer_bytes": 24_000_000_000,
        "transaction_bytes": 64,
        "apply_wave_quantization": False,
        "direct_peak_bandwidth_per_connected_layer_bytes_per_s": 4e12,
        "fully_connected_efficiency": 0.75,
    },
    "thermal": {
        "resistance_base_c_per_w": 0.05,
        "resistance_per_layer_c_per_w": 0.0015,
        "baseline_layers": 0,
        "design_power_w": 1000,
        "static_power_w": 300,
        "dynamic_power_exponent": 2.5,
    },
    "energy": {"read_pj_per_bit": 1.96, "write_pj_per_bit": 1.96},
    "provenance": {"source": "Assumptions of a study; describes no product."},
}
HBM: dict[str, Any] = {"memory": "b200", "read_pj_per_bit": 3.92, "write_pj_per_bit": 3.92}

# K/W of a layer: as good as none, as assumed, twice that
COOL, ASSUMED, WARM = RESISTANCES = (1e-9, 0.0015, 0.003)
NEEDED = (30, 35, 38)  # tokens/s of each sequence

# colour, marker, and how far the number is moved up, which sets those of near lines apart
STYLES = {2: ("#0072B2", "o", -5), 4: ("#D55E00", "s", 0), 8: ("#009E73", "^", 5)}


def decode(**arguments: Any) -> xr.Dataset:
    """Decode of Llama 3.1 405B in 16 bits on eight devices, as in the measurements that the chip is fitted to."""
    ds = ss.sweep(
        model="llama-3.1-405b",
        noc="nvlink5_node_8",
        tp=DEVICES,
        include_lm_head=True,
        input_seq_len=1024,
        output_seq_len=1024,
        outputs=["tps", "tps_per_sequence", "fits", "clock_scale", "dram_energy_per_token"],
        **arguments,
    )
    ds["per_device"] = ds.tps / DEVICES
    ds["energy"] = ds.dram_energy_per_token * 1e-12
    ds["dram_power"] = ds.energy * ds.per_device
    return ds


def study() -> tuple[xr.Dataset, xr.Dataset]:
    """Sweep HBM and the stack over height, connectivity, heat, batch size, and both chips."""
    axes = {"chip": ["b200-vllm", "b200"], "batch_size": [1, 8, 64, 512]}
    stack = decode(
        memory=STACK,
        layers=[4, 5, 6, 8, 10, 12, 14, 16],
        connected_layers=list(STYLES),
        resistance_per_layer_c_per_w=RESISTANCES,
        **axes,
    )
    hbm = decode(**HBM, **axes)
    stack["gain"] = stack.tps / hbm.tps
    return hbm, stack


def show(hbm: xr.Dataset, stack: xr.Dataset) -> None:
    """Print gains in throughput, and what a token costs in DRAM."""
    batches = stack.batch_size.values
    print("decode throughput with the stack over that with HBM; Llama 3.1 405B on 8 devices")
    print("                                  fitted chip, batch of       upper bound, batch of")
    print("height connected  mK/W  clock" + 2 * (" " + "".join(f"{size:>6}" for size in batches)))
    for height, connected in ((8, 2), (8, 4), (8, 8), (16, 8)):
        for heat in RESISTANCES:
            at = stack.sel(layers=height, connected_layers=connected, resistance_per_layer_c_per_w=heat)
            gains = [" " + "".join(f"{gain:6.2f}" for gain in row) for row in at.gain.transpose("chip", ...).values]
            clock = at.clock_scale.values.flat[0]
            print(f"{height:6}{connected:10}{heat * 1e3:6.1f}{clock:7.2f}" + "".join(gains))

    memories = {"HBM": hbm, "stack": stack.sel(layers=8, connected_layers=8, resistance_per_layer_c_per_w=ASSUMED)}
    print("\nfitted chip, HBM against 8 layers, all connected: a device's tokens/s, DRAM energy of a token, DRAM power")
    print(" batch  tokens/s               mJ per token             W")
    print("             HBM     stack       HBM     stack    HBM  stack")
    for size in batches:
        at = [ds.sel(chip="b200-vllm", batch_size=size) for ds in memories.values()]
        speeds = "".join(f"{one.per_device.item():10.1f}" for one in at)
        energies = "".join(f"{one.energy.item() * 1e3:10.1f}" for one in at)
        print(f"{size:6}{speeds}{energies}" + "".join(f"{one.dram_power.item():7.0f}" for one in at))


def show_equal_speed() -> None:
    """Print the largest batches that still give each sequence its tokens/s, and what they bring."""
    memories = {
        "HBM": HBM,
        "4 layers of 8": {"memory": STACK, "connected_layers": 4},
        "8 layers of 8": {"memory": STACK, "connected_layers": 8},
    }
    print("\nfitted chip, the largest batch that gives each sequence its tokens/s")
    print("needed  connected      batch  tokens/s of a device  mJ per token")
    swept = {
        words: decode(chip="b200-vllm", batch_size=range(4, 257, 4), **memory) for words, memory in memories.items()
    }
    for needed in NEEDED:
        for words, ds in swept.items():
            best = ss.best(ds, "tps", where=ds.fits & (ds.tps_per_sequence >= needed))
            speed, energy = best.per_device.item(), best.energy.item() * 1e3
            print(f"{needed:6}  {words:13}{best.batch_size.item():7}{speed:22.1f}{energy:14.1f}")


def draw(hbm: xr.Dataset, stack: xr.Dataset, path: Path) -> None:
    """Draw the gain over height for three batch sizes, and the energy of a token over the batch."""
    figure, axes = plt.subplots(2, 2, figsize=(9.5, 7), layout="constrained")
    fitted = stack.sel(chip="b200-vllm")
    for panel, size in zip(axes.flat, (8, 64, 512), strict=False):
        for connected, style in STYLES.items():
            line(panel, fitted.sel(batch_size=size, connected_layers=connected), *style)
        panel.axhline(1, color="0.3", linewidth=1)
        panel.set(xlim=(3, 18), ylim=(0.5, 2), xticks=range(4, 17, 2))
        panel.set(xlabel="height of the stack (DRAM layers)", ylabel="throughput over that with HBM")
        panel.set_title(f"batch of {size}", loc="left")
    axes.flat[0].annotate("HBM", (10, 1), (0, -5), textcoords="offset points", va="top", ha="center", color="0.3")
    axes.flat[1].plot([], [], "o", color="0.3", markerfacecolor="white", label="does not fit in the memory")
    axes.flat[1].fill_between([], [], color="0.3", alpha=0.2, linewidth=0, label="no heat to twice that assumed")
    axes.flat[1].legend(loc="lower right", frameon=False)

    energy = axes.flat[3]
    at = fitted.sel(layers=8, connected_layers=8, resistance_per_layer_c_per_w=ASSUMED)
    for words, ds, style in (("HBM, 3.92 pJ/bit", hbm.sel(chip="b200-vllm"), "0.3"), ("stack, 1.96 pJ/bit", at, "C3")):
        energy.loglog(ds.batch_size, ds.energy, "o-", color=style, label=words)
    energy.set(xlabel="batch size (sequences)", ylabel="DRAM energy per token (J)")
    energy.set_xticks(at.batch_size.values, [f"{size}" for size in at.batch_size.values])
    energy.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
    energy.minorticks_off()
    energy.set_title("the same at any height and connectivity", loc="left")
    energy.legend(frameon=False)
    for panel in axes.flat:
        panel.grid(alpha=0.25)
    figure.suptitle("Llama 3.1 405B on 8 B200-class devices; numbers at the lines: connected layers", fontsize=11)
    figure.savefig(path, dpi=160)
    plt.close(figure)


def line(panel: Any, ds: xr.Dataset, colour: str, marker: str, up: int) -> None:
    """Draw a line at the assumed resistance, and the band from no heat to twice as much."""
    by_heat = {heat: ds.gain.sel(resistance_per_layer_c_per_w=heat) for heat in RESISTANCES}
    panel.fill_between(ds.layers, by_heat[WARM], by_heat[COOL], color=colour, alpha=0.2, linewidth=0)
    gain = by_heat[ASSUMED]
    panel.plot(ds.layers, gain, color=colour, linewidth=1.6)
    fits = ds.fits.sel(resistance_per_layer_c_per_w=ASSUMED)
    for shown, face in ((gain.where(fits), colour), (gain.where(~fits), "white")):
        panel.plot(ds.layers, shown, marker, color=colour, markerfacecolor=face, markersize=5)
    end = (ds.layers[-1].item(), gain[-1].item())
    number = f"{ds.connected_layers.item()}"
    panel.annotate(number, end, (7, up), textcoords="offset points", color=colour, va="center", fontweight="bold")


if __name__ == "__main__":
    with_hbm, stacked = study()
    show(with_hbm, stacked)
    show_equal_speed()
    with plt.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        draw(with_hbm, stacked, Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURE)
