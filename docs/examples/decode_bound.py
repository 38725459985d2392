"""Prefill is bound by compute and decode by DRAM, until the batch gives every weight enough work.

python docs/examples/decode_bound.py
"""

import numpy as np
import xarray as xr

import stacksweep as ss

PHASES = {"prefill": "prefill", "first_decode": "decode"}


def phases() -> xr.Dataset:
    """Compute and DRAM time of the prefill and of the first decode step, over batch size and prompt length."""
    return ss.sweep(
        model="llama-3.1-8b",
        chip="h100_sxm",
        memory="h100_sxm",
        batch_size=4 ** np.arange(6),
        input_seq_len=[128, 2048],
        outputs=[f"{phase}_{part}_time" for phase in PHASES for part in ("compute", "memory")]
        + ["first_decode_read_bytes"],
    )


def main() -> None:
    """Print how many times longer DRAM takes than compute."""
    ds = phases()
    print("DRAM time over compute time, Llama 3.1 8B in 16 bits on the peaks of an H100")
    print("batch size" + "".join(f"{size:>8}" for size in ds.batch_size.values))
    for prompt in ds.input_seq_len.values:
        at = ds.sel(input_seq_len=prompt)
        for phase, words in PHASES.items():
            ratio = at[f"{phase}_memory_time"] / at[f"{phase}_compute_time"]
            numbers = "".join(f"{value:8.2f}" for value in ratio.values)
            print(f"{words:<10}{numbers}   prompts of {prompt}")
    alone = ds.sel(batch_size=1, input_seq_len=128)
    read, time = alone.first_decode_read_bytes.item(), alone.first_decode_memory_time.item()
    print(f"one sequence reads {read / 1e9:.1f} GB for a token, in {time * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
