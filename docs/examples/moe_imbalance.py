"""Random routing loads the busiest rank more than balanced routing does, and large batches even it out.

python docs/examples/moe_imbalance.py
"""

import numpy as np
import xarray as xr

import stacksweep as ss


def imbalance() -> xr.Dataset:
    """Load of the busiest of 8 expert-parallel ranks, and what it costs."""
    return ss.sweep(
        model="qwen3-235b-a22b",
        memory="h200",
        noc="gpu_node_8",
        ep=8,
        routing=["balanced", "random"],
        batch_size=4 ** np.arange(1, 7),
        input_seq_len=2048,
        output_seq_len=1024,
        outputs=["decode_imbalance", "decode_active_experts", "tps"],
    )


def main() -> None:
    """Print the load of the busiest rank over the mean, its experts with a token, and the throughput that is lost."""
    ds = imbalance()
    random = ds.sel(routing="random")
    kept = (random.tps / ds.tps.sel(routing="balanced")).values
    print("Qwen3 235B A22B on 8 devices, decode: random against balanced routing")
    print("batch   busiest rank   experts with a token   throughput")
    for at, share in zip((random.sel(batch_size=batch) for batch in ds.batch_size), kept, strict=True):
        busiest, experts = at.decode_imbalance.item(), f"{at.decode_active_experts.item():.0f} of 16"
        print(f"{at.batch_size.item():5}   {busiest:9.2f} x   {experts:>20}   {share:10.1%}")


if __name__ == "__main__":
    main()
