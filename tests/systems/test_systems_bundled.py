"""One point of every bundled model, and the work of a token in each."""

from typing import Any

import numpy as np
import pytest
from system_cases import reference_of

import stacksweep as ss
from layer_cases import described_of
from stacksweep.profiles import ModelSpec, load_model
from stacksweep.profiles.bundled import bundled_names
from stacksweep.profiles.layers import Attention, LatentAttention, LinearAttention, Mamba2

CHIP_NAME = "b200"
LOAD: dict[str, Any] = {"batch_size": 32, "input_seq_len": 16384, "output_seq_len": 1024, "include_lm_head": True}
SYSTEM: dict[str, Any] = LOAD | {
    "chip": ss.load_chip(CHIP_NAME).to_dict(),
    "precision": dict.fromkeys(("weight_bytes", "kv_read_bytes", "kv_write_bytes", "activation_bytes"), 2.0),
    "memory": ss.load_memory("b200").to_dict(),
    "noc": ss.load_noc("gpu_node_8").to_dict(),
    "link_model": "deepstack",
    "plan": {"tp": 4, "ep": 1, "dp": 2, "pp": 1, "cp": 1},
    "overlap": "op-roofline",
}
RESULTS = ("ttft", "tps", "weight_bytes", "kv_bytes", "prefill_latency", "first_decode_latency")


def test_every_bundled_model():
    """Full sizes, long prompts and a network, against the scalar reference."""
    names = bundled_names("models")
    ds = ss.sweep(
        model=names, outputs=["main", *RESULTS], chip=CHIP_NAME, memory="b200", noc="gpu_node_8", tp=4, dp=2, **LOAD
    )
    assert ds.valid.values.all()
    for name in names:
        expected = reference_of(SYSTEM | {"model": described_of(load_model(name))})
        got = [ds[key].sel(model=name).item() for key in RESULTS]
        np.testing.assert_allclose(got, [expected[key] for key in RESULTS], rtol=1e-12, err_msg=name)


PEAK = 1e30
CHIP = {
    "kind": "roofline",
    "name": "counts FLOP",
    "peak_flops": {"16": PEAK},
    **dict.fromkeys(("weight_bytes", "kv_read_bytes", "kv_write_bytes", "activation_bytes"), 2),
}
ENDLESS = {
    "schema_version": 1,
    "kind": "fixed_bandwidth",
    "name": "endless",
    "bandwidth_bytes_per_s": 1e300,
    "capacity_bytes": None,
}
MIXING = ["index", "attention", "scan"]


def mixing_flop(model: ModelSpec, tokens: int) -> float:
    """FLOP of a token that attends to so many, but for weights."""
    total = 0.0
    for layer, count in model.kinds.items():
        mixer = layer.mixer
        if isinstance(mixer, Attention):
            reach = min(tokens, mixer.window) if mixer.window else tokens
            if mixer.reach == "chunked":
                reach = (tokens - 1) % mixer.window + 1
            total += count * 2 * reach * mixer.heads * (mixer.key_size + mixer.value_size)
        elif isinstance(mixer, LatentAttention):
            reach = min(tokens, mixer.index_top_k) if mixer.index_top_k else tokens
            total += count * 2 * reach * mixer.heads * (2 * mixer.latent_size + mixer.rope_size)
            total += count * 2 * tokens * mixer.index_heads * mixer.index_size
        elif isinstance(mixer, LinearAttention):
            total += count * 8 * mixer.value_heads * mixer.key_size * mixer.value_size
        elif isinstance(mixer, Mamba2):
            total += count * 6 * mixer.heads * mixer.head_size * mixer.state_size
    return total


@pytest.mark.parametrize("tokens", [1, 20_000])
def test_flop_of_a_token(tokens: int):
    """Two for every weight that a token meets, and those of attention."""
    names = bundled_names("models")
    ds = ss.sweep(
        model=names,
        chip=CHIP,
        memory=ENDLESS,
        batch_size=1,
        input_seq_len=tokens,
        output_seq_len=1,
        include_lm_head=True,
        outputs="first_decode_operation_time",
    )
    flop = ds.first_decode_operation_time * PEAK
    for name in names:
        model = load_model(name)
        of_model = flop.sel(model=name)
        mixing = of_model.sel(operation=MIXING).sum().item()
        np.testing.assert_allclose(mixing, mixing_flop(model, tokens), rtol=1e-12, err_msg=name)
        np.testing.assert_allclose(of_model.sum().item() - mixing, 2 * model.active_elements(), rtol=1e-9, err_msg=name)
