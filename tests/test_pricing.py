"""Models that no chip can price are refused before anything is priced."""

from typing import Any

import pytest

import stacksweep as ss

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
NOT_YET = "model: got {!r}, which has what is not priced yet: {}"
BESIDE = "an FFN or a shared expert beside routed experts"


def refusal(model: Any) -> str:
    messages = []
    for call in (ss.sweep, ss.estimate):
        with pytest.raises(ss.ParameterError) as caught:
            call(model=model, memory="h100_sxm")
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
def test_mixers_that_no_chip_prices(name: str, mixers: str) -> None:
    assert refusal(name) == f"model: got {name!r}, and chip 'plena' cannot price {mixers}"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("llama-4-scout", f"chunked attention, {BESIDE}"),
        ("llama-4-maverick", f"chunked attention, {BESIDE}"),
        ("gemma-4-31b", "keys that serve as values, attention layers with different heads"),
        ("mimo-v2-flash", "values of another size than the keys, attention layers with different heads"),
        ("step-3.7-flash", BESIDE),
    ],
)
def test_layers_that_are_not_priced_yet(name: str, parts: str) -> None:
    assert refusal(name) == NOT_YET.format(name, parts)


def test_the_first_model_that_cannot_be_priced_is_named() -> None:
    with pytest.raises(ss.ParameterError) as caught:
        ss.sweep(model=["llama-3.2-1b", "step-3.7-flash", "deepseek-v3"], memory="h100_sxm")
    assert str(caught.value) == NOT_YET.format("step-3.7-flash", BESIDE)


def test_odd_layers_of_a_family_that_also_has_plain_ones() -> None:
    linear = {f"linear_{key}": 4 for key in ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim")}
    gated = {**SMALL, **linear, "model_type": "qwen3_5_text", "linear_conv_kernel_dim": 4}
    gated["layer_types"] = ["full_attention"] * 2
    assert refusal(gated) == NOT_YET.format("small", "an output gate of the attention")
    assert bool(ss.sweep(model={**gated, "attn_output_gate": False}, memory="h100_sxm").valid)
    mamba = dict.fromkeys(("mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups", "conv_kernel"), 4)
    parts = {**SMALL, **mamba, "model_type": "nemotron_h", "mlp_hidden_act": "relu2", "hybrid_override_pattern": "*-"}
    assert refusal(parts) == NOT_YET.format("small", "layers of one part, an MLP without gate")
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "moe_latent_size": 8}
    parts |= {**experts, "hybrid_override_pattern": "*E"}
    expected = "layers of one part, an MLP without gate, experts of another hidden size"
    assert refusal(parts) == NOT_YET.format("small", expected)


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
