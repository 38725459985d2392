"""Which models a chip can price, and what is said of the others."""

from typing import Any

import numpy as np
import pytest

import stacksweep as ss
from stacksweep.kernels.validity import REASONS

SMALL: dict[str, Any] = {
    "name": "small",
    "hidden_size": 96,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_hidden_layers": 2,
    "intermediate_size": 200,
    "vocab_size": 1000,
}


def refusal(**given: Any) -> str:
    messages = []
    for call in (ss.sweep, ss.estimate):
        with pytest.raises(ss.ParameterError) as caught:
            call(memory="h100_sxm", **given)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    return messages[0]


@pytest.mark.parametrize(
    ("name", "mixers"),
    [
        ("deepseek-v3", "latent attention"),
        ("kimi-k2", "latent attention"),
        ("glm-5", "sparse latent attention"),
        ("qwen3.5-27b", "linear attention"),
        ("qwen3.5-397b-a17b", "linear attention"),
        ("nemotron-3-nano-30b-a3b", "mamba2"),
    ],
)
def test_mixers_without_cycles(name: str, mixers: str) -> None:
    expected = f"model: got {name!r}, and chip 'plena' cannot price {mixers}; give a roofline chip"
    assert refusal(model=name) == expected
    assert bool(ss.sweep(model=name, chip="h100_sxm", memory="h100_sxm").valid)


@pytest.mark.parametrize(
    "name", ["llama-4-scout", "llama-4-maverick", "gemma-4-31b", "mimo-v2-flash", "step-3.7-flash", "minimax-m2.5"]
)
def test_models_that_every_chip_prices(name: str) -> None:
    assert ss.sweep(model=name, chip=["plena", "h100_sxm"], memory="h100_sxm").valid.values.all()


def test_experts_of_another_hidden_size() -> None:
    mamba = dict.fromkeys(("mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups", "conv_kernel"), 4)
    parts = {**SMALL, **mamba, "model_type": "nemotron_h", "mlp_hidden_act": "relu2", "hybrid_override_pattern": "*E"}
    parts |= {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
    assert bool(ss.sweep(model=parts, memory="h100_sxm").valid)
    latent = parts | {"moe_latent_size": 8}
    assert refusal(model=latent).endswith("cannot price experts of another hidden size; give a roofline chip")
    assert bool(ss.sweep(model=latent, chip="h100_sxm", memory="h100_sxm").valid)


def test_points_of_a_mixed_call_are_masked() -> None:
    models, chips = ["llama-3.2-1b", "deepseek-v3", "glm-5"], ["plena", "h100_sxm"]
    given: dict[str, Any] = {"memory": "h100_sxm", "batch_size": [1, 7], "outputs": ["main", "prefill_latency"]}
    mixed = ss.sweep(model=models, chip=chips, **given)
    code = list(REASONS).index("chip_layers")
    np.testing.assert_array_equal(mixed.reason.isel(batch_size=0), [[0, 0], [code, 0], [code, 0]])
    assert mixed.reason.attrs["flag_meanings"].split()[code] == "chip_layers"
    assert mixed.tps.sel(model="glm-5", chip="plena").isnull().all()
    for model in models:
        alone = ss.sweep(model=model, chip="h100_sxm", **given)
        for name in ("ttft", "tps", "kv_bytes", "prefill_latency"):
            np.testing.assert_array_equal(mixed[name].sel(model=model, chip="h100_sxm"), alone[name])


def test_a_call_of_several_models_that_no_chip_prices() -> None:
    with pytest.raises(ss.ParameterError, match="got 'deepseek-v3', and chip 'plena' cannot price latent attention"):
        ss.sweep(model=["deepseek-v3", "glm-5"], memory="h100_sxm")


def test_a_family_of_its_own_with_plain_layers_is_priced_like_any_other() -> None:
    kinds = ["full_attention", "sliding_attention"]
    plain = {**SMALL, "layer_types": kinds, "sliding_window": 9}
    one, other = ({**plain, **more} for more in ({}, {"model_type": "gemma4_text", "tie_word_embeddings": False}))
    kwargs: dict[str, Any] = {"memory": "h100_sxm", "batch_size": [1, 7], "outputs": ["tps", "ttft", "weight_bytes"]}
    assert ss.sweep(model=other, **kwargs).equals(ss.sweep(model=one, **kwargs))


def test_plans_of_a_model_with_heads_of_two_kinds() -> None:
    # 32 heads everywhere, 16 KV heads in sliding layers and 4 in full ones
    found = ss.plans("gemma-4-31b", "gpu_cluster_32")
    assert set(found["tp"].values.tolist()) == {1, 2, 4, 8, 16, 32}
    assert set(found["cp"].values.tolist()) == {1}
    # 24 query heads and 4 KV heads in full layers, 48 value heads in linear ones
    assert set(ss.plans("qwen3.5-27b", "gpu_cluster_32")["tp"].values.tolist()) == {1, 2, 4, 8}
    assert set(ss.plans("kimi-k2", "gpu_cluster_32")["tp"].values.tolist()) == {1, 2, 4, 8, 16, 32}
