"""Prefill is bound by compute and decode by DRAM, up to the batch that gives each weight enough work.

python docs/examples/decode_bound.py
"""

import numpy as np
import xarray as xr

import stacksweep as ss

PHASES = {"prefill": "prefill", "first_decode": "decode"}


def phases() -> xr.Dataset:
    """Compute and DRAM time of the prefill and of the first decode step, over batch size and connected layers."""
    return ss.sweep(
        model="llama-3.1-8b",
        memory="fictional_stacked_dram",
        layers=32,
        connected_layers=[4, 16],
        batch_size=4 ** np.arange(6),
        input_seq_len=2048,
        outputs=[
            "prefill_compute_time",
            "prefill_memory_time",
            "first_decode_compute_time",
            "first_decode_memory_time",
        ],
    )


def main() -> None:
    """Print how many times longer DRAM takes than compute."""
    ds = phases()
    print("DRAM time over compute time, Llama 3.1 8B")
    print("batch size" + "".join(f"{size:>8}" for size in ds.batch_size.values))
    for connected in ds.connected_layers.values:
        at = ds.sel(connected_layers=connected)
        for phase, words in PHASES.items():
            ratio = at[f"{phase}_memory_time"] / at[f"{phase}_compute_time"]
            numbers = "".join(f"{value:8.2f}" for value in ratio.values)
            print(f"{words:<10}{numbers}   {connected} layers connected")


if __name__ == "__main__":
    main()
