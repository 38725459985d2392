"""Adapters of the families whose layers differ from one another: what they read, and what they refuse."""

from typing import Any

import pytest

from stacksweep.profiles import ModelSpec, ProfileError, load_model
from stacksweep.profiles.layers import Attention, Ffn, LatentAttention, Layer, LinearAttention, Mamba2, Moe

FULL, SLIDING, CHUNKED, LINEAR = "full_attention", "sliding_attention", "chunked_attention", "linear_attention"
EXPERTS: dict[str, Any] = {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 50}
BASE: dict[str, Any] = {"name": "tiny", "hidden_size": 96, "num_attention_heads": 6, "vocab_size": 1000}
GROUPED: dict[str, Any] = {**BASE, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 200}
LATENT: dict[str, Any] = {
    **BASE,
    "model_type": "deepseek_v3",
    "num_hidden_layers": 3,
    "kv_lora_rank": 32,
    "q_lora_rank": 24,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
    "intermediate_size": 200,
    **EXPERTS,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
}
QWEN: dict[str, Any] = {
    **GROUPED,
    "model_type": "qwen3_5_text",
    "num_hidden_layers": 4,
    "full_attention_interval": 2,
    "linear_num_key_heads": 3,
    "linear_num_value_heads": 6,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 10,
    "linear_conv_kernel_dim": 4,
}
LLAMA4: dict[str, Any] = {
    **GROUPED,
    "model_type": "llama4_text",
    "num_hidden_layers": 4,
    "intermediate_size_mlp": 300,
    "attention_chunk_size": 64,
    "num_local_experts": 8,
    "num_experts_per_tok": 1,
    "interleave_moe_layer_step": 2,
}
GEMMA: dict[str, Any] = {
    **GROUPED,
    "model_type": "gemma4_text",
    "num_hidden_layers": 3,
    "layer_types": [SLIDING, SLIDING, FULL],
    "sliding_window": 9,
    "global_head_dim": 40,
    "num_global_key_value_heads": 1,
    "attention_k_eq_v": True,
}
NEMOTRON: dict[str, Any] = {
    **GROUPED,
    "model_type": "nemotron_h",
    "num_hidden_layers": 4,
    "hybrid_override_pattern": "M-*E",
    "mlp_hidden_act": "relu2",
    "mamba_num_heads": 6,
    "mamba_head_dim": 5,
    "ssm_state_size": 7,
    "n_groups": 2,
    "conv_kernel": 4,
    **EXPERTS,
    "n_shared_experts": 1,
    "moe_shared_expert_intermediate_size": 70,
}
MIMO: dict[str, Any] = {
    **GROUPED,
    "model_type": "mimo_v2_flash",
    "num_hidden_layers": 3,
    "v_head_dim": 8,
    "swa_num_attention_heads": 12,
    "swa_num_key_value_heads": 4,
    "swa_head_dim": 20,
    "swa_v_head_dim": 10,
    "sliding_window": 9,
    "hybrid_layer_pattern": [0, 1, 1],
    **EXPERTS,
    "moe_layer_freq": [0, 1, 1],
}
STEP: dict[str, Any] = {
    **GROUPED,
    "model_type": "step3p7",
    "num_hidden_layers": 3,
    "layer_types": [FULL, SLIDING, SLIDING],
    "sliding_window": 9,
    **EXPERTS,
    "first_k_dense_replace": 1,
    "share_expert_dim": 70,
    "n_shared_experts": 1,
}
FAMILIES = (LATENT, QWEN, LLAMA4, GEMMA, NEMOTRON, MIMO, STEP)
MOE, SAME = Moe(8, 3, 50), Attention(6, 2, 16, 16)


def layers(config: dict[str, Any], **change: Any) -> list[Layer]:
    return list(loaded(config, **change).layers)


def loaded(config: dict[str, Any], **change: Any) -> ModelSpec:
    """Load a config, without the keys that are changed to `...`; what it says of itself loads as the same."""
    model = load_model({key: value for key, value in {**config, **change}.items() if value is not ...})
    assert load_model(model.to_dict()) == model
    return model


def message(config: dict[str, Any], **change: Any) -> str:
    with pytest.raises(ProfileError) as caught:
        loaded(config, **change)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_latent_attention_with_shared_experts() -> None:
    latent = LatentAttention(6, 32, 24, 12, 4, 8)
    assert layers(LATENT) == [Layer(latent, Ffn(200))] + 2 * [Layer(latent, Ffn(100), MOE)]
    assert layers(LATENT, n_shared_experts=0)[1] == layers(LATENT, n_shared_experts=...)[1] == Layer(latent, None, MOE)
    assert layers(LATENT, q_lora_rank=None)[0].mixer == LatentAttention(6, 32, 0, 12, 4, 8)
    assert layers(LATENT, num_experts=0) == [Layer(latent, Ffn(200))] * 3
    kinds = ["sparse", "dense", "sparse"]
    assert [layer.moe for layer in layers(LATENT, mlp_layer_types=kinds)] == [MOE, None, MOE]
    sparse = layers(LATENT, index_n_heads=2, index_head_dim=5, index_topk=64, model_type="glm_moe_dsa")
    assert sparse[0].mixer == LatentAttention(6, 32, 24, 12, 4, 8, 2, 5, 64)
    assert layers(LATENT, intermediate_size=..., first_k_dense_replace=0) == [Layer(latent, Ffn(100), MOE)] * 3
    # heads of keys and values and their size mean nothing here
    assert layers(LATENT, num_key_value_heads=6, head_dim=4) == layers(LATENT)


def test_linear_attention_with_gated_full_attention() -> None:
    full = Attention(6, 2, 16, 16, output_gate=True)
    linear = LinearAttention(3, 6, 8, 10, 4)
    assert layers(QWEN) == [Layer(linear, Ffn(200)), Layer(full, Ffn(200))] * 2
    kinds = [FULL, LINEAR, LINEAR, FULL]
    assert [layer.mixer for layer in layers(QWEN, layer_types=kinds)] == [full, linear, linear, full]
    assert layers(QWEN, attn_output_gate=False)[1].mixer == SAME
    routed = {**EXPERTS, "intermediate_size": ..., "shared_expert_intermediate_size": 70}
    assert layers(QWEN, **routed)[:2] == [Layer(linear, Ffn(70), MOE), Layer(full, Ffn(70), MOE)]
    assert loaded(QWEN).composition == "llama"
    assert loaded(QWEN, **routed).composition == "moe"


def test_chunked_attention_with_experts_in_every_second_layer() -> None:
    near, moe = Attention(6, 2, 16, 16, "chunked", 64), Moe(8, 1, 200)
    dense, routed = Layer(near, Ffn(300)), Layer(near, Ffn(200), moe)
    assert layers(LLAMA4) == [dense, routed, dense, Layer(SAME, Ffn(200), moe)]
    assert [layer.mixer for layer in layers(LLAMA4, no_rope_layer_interval=2)] == [near, SAME] * 2
    assert [layer.mixer for layer in layers(LLAMA4, no_rope_layers=[0, 1, 1, 0])] == [SAME, near, near, SAME]
    assert layers(LLAMA4, no_rope_layers=[]) == layers(LLAMA4)
    words = [FULL, FULL, CHUNKED, FULL]
    assert [layer.mixer for layer in layers(LLAMA4, layer_types=words)] == [SAME, SAME, near, SAME]
    assert [layer.moe for layer in layers(LLAMA4, moe_layers=[0])] == [moe, None, None, None]
    assert layers(LLAMA4, interleave_moe_layer_step=1, intermediate_size_mlp=...)[0] == routed


def test_full_layers_with_heads_of_their_own() -> None:
    sliding, full = Attention(6, 2, 16, 16, "sliding", 9), Attention(6, 1, 40, 40, values_are_keys=True)
    assert layers(GEMMA) == 2 * [Layer(sliding, Ffn(200))] + [Layer(full, Ffn(200))]
    assert layers(GEMMA, attention_k_eq_v=False)[2].mixer == Attention(6, 1, 40, 40)
    assert layers(GEMMA, global_head_dim=None, num_global_key_value_heads=None, attention_k_eq_v=False)[2].mixer == SAME
    beside = layers(GEMMA, enable_moe_block=True, **EXPERTS)
    assert beside == 2 * [Layer(sliding, Ffn(200), MOE)] + [Layer(full, Ffn(200), MOE)]
    assert loaded(GEMMA).tie_word_embeddings is True
    assert loaded(GEMMA, tie_word_embeddings=False).tie_word_embeddings is False
    assert loaded(GEMMA).head_counts == (6,)
    assert loaded(GEMMA).kv_head_counts == (2, 1)


def test_layers_of_one_part() -> None:
    mamba, moe = Mamba2(6, 5, 7, 2, 4), Moe(8, 3, 50, gated=False)
    shared = Ffn(70, gated=False)
    expected = [Layer(mamba), Layer(ffn=Ffn(200, gated=False)), Layer(SAME), Layer(ffn=shared, moe=moe)]
    assert layers(NEMOTRON) == expected
    words = ["mamba", "mlp", "attention", "moe"]
    assert layers(NEMOTRON, hybrid_override_pattern=..., layers_block_type=words) == expected
    assert layers(NEMOTRON, head_dim=..., attention_head_dim=16) == expected
    assert layers(NEMOTRON, moe_latent_size=30)[3].moe == Moe(8, 3, 50, gated=False, latent_size=30)
    assert layers(NEMOTRON, n_shared_experts=0)[3] == Layer(moe=moe)
    plain = dict.fromkeys((*EXPERTS, "n_shared_experts", "moe_shared_expert_intermediate_size"), ...)
    assert layers(NEMOTRON, **plain, hybrid_override_pattern="M-M-") == expected[:2] * 2


def test_values_of_another_size_and_sliding_layers_with_heads_of_their_own() -> None:
    full, sliding = Attention(6, 2, 16, 8), Attention(12, 4, 20, 10, "sliding", 9)
    assert layers(MIMO) == [Layer(full, Ffn(200))] + 2 * [Layer(sliding, None, MOE)]
    assert layers(MIMO, sliding_window_size=9, attention_chunk_size=9) == layers(MIMO)
    assert loaded(MIMO).head_counts == (6, 12)


def test_sliding_layers_with_a_shared_expert() -> None:
    sliding = Attention(6, 2, 16, 16, "sliding", 9)
    assert layers(STEP) == [Layer(SAME, Ffn(200))] + 2 * [Layer(sliding, Ffn(70), MOE)]
    assert layers(STEP, n_shared_experts=0)[1] == Layer(sliding, None, MOE)
    assert layers(STEP, layer_types=[FULL] * 3, sliding_window=...)[1] == Layer(SAME, Ffn(70), MOE)


@pytest.mark.parametrize("config", FAMILIES, ids=lambda config: config["model_type"])
def test_a_family_is_found_by_its_type_in_a_multimodal_config_too(config: dict[str, Any]) -> None:
    text = {key: value for key, value in config.items() if key != "name"}
    whole = {"name": "tiny", "model_type": config["model_type"], "vision_config": {"hidden_size": 7}}
    assert load_model({**whole, "text_config": text}) == load_model(config)


@pytest.mark.parametrize(
    ("architecture", "config"),
    [
        ("DeepseekV3ForCausalLM", LATENT),
        ("Qwen3_5ForCausalLM", QWEN),
        ("Llama4ForCausalLM", LLAMA4),
        ("Gemma4ForCausalLM", GEMMA),
        ("NemotronHForCausalLM", NEMOTRON),
        ("MiMoV2FlashForCausalLM", MIMO),
        ("Step3p7FlashForCausalLM", STEP),
    ],
)
def test_a_config_without_type_has_that_of_its_architecture(architecture: str, config: dict[str, Any]) -> None:
    assert loaded(config, model_type=..., architectures=[architecture]) == load_model(config)


@pytest.mark.parametrize(
    ("config", "change", "expected"),
    [
        (LATENT, {"kv_lora_rank": None}, "kv_lora_rank: got null, needs an integer above 0"),
        (LATENT, {"index_topk": 64}, "index_n_heads: missing, needs an integer above 0, as the attention has an"),
        (
            LATENT,
            {"index_n_heads": 2, "index_head_dim": 5, "index_topk": 64, "q_lora_rank": None},
            "q_lora_rank: missing, needs an integer above 0, as the attention has an indexer",
        ),
        (LATENT, {"intermediate_size": ...}, "intermediate_size: missing, needs an integer above 0, as layers are"),
        (LATENT, {"n_shared_experts": -1}, "n_shared_experts: got -1, needs an integer of at least 0"),
        (LATENT, {"mlp_layer_types": ["dense"]}, "mlp_layer_types: got a list of 1, needs a list of dense and sparse"),
        (
            LATENT,
            {"num_experts": 0, "mlp_layer_types": ["sparse"] * 3},
            "mlp_layer_types: got a list of 3, needs to be all dense, as the model has no experts",
        ),
        (LATENT, {"moe_intermediate_size": ...}, "moe_intermediate_size: missing, needs an integer above 0"),
        (QWEN, {"full_attention_interval": ...}, "layer_types: missing, needs a list of full_attention and linear_att"),
        (QWEN, {"layer_types": [FULL] * 3}, "layer_types: got a list of 3, needs a list of full_attention and linear"),
        (QWEN, {"linear_conv_kernel_dim": 0}, "linear_conv_kernel_dim: got 0, needs an integer above 0"),
        (QWEN, {"head_dim": ...}, "head_dim: missing, needs an integer above 0"),
        (QWEN, {"num_key_value_heads": 4}, "num_key_value_heads: got 4, needs a divisor of num_attention_heads (6)"),
        (QWEN, {"intermediate_size": ...}, "intermediate_size: missing, needs an integer above 0, as layers are dense"),
        (LLAMA4, {"attention_chunk_size": None}, "attention_chunk_size: missing, needs an integer above 0, as layers"),
        (LLAMA4, {"intermediate_size_mlp": ...}, "intermediate_size_mlp: missing, needs an integer above 0, as layers"),
        (LLAMA4, {"moe_layers": [4]}, "moe_layers: got a list of 1, needs layer numbers below 4, at least one"),
        (LLAMA4, {"moe_layers": []}, "moe_layers: got a list of 0, needs layer numbers below 4, at least one"),
        (LLAMA4, {"no_rope_layers": [1]}, "no_rope_layers: got a list of 1, needs a list of 0 and 1, one for each"),
        (LLAMA4, {"no_rope_layers": [2] * 4}, "no_rope_layers[0]: got 2, needs a list of 0 and 1, one for each layer"),
        (LLAMA4, {"layer_types": [FULL]}, "layer_types: got a list of 1, needs a list of full_attention and chunked"),
        (GEMMA, {"layer_types": ...}, "layer_types: missing, needs a list of full_attention and sliding_attention"),
        (GEMMA, {"layer_types": [FULL]}, "layer_types: got a list of 1, needs a list of full_attention and sliding"),
        (GEMMA, {"sliding_window": None}, "sliding_window: missing, needs an integer above 0, as layers slide"),
        (GEMMA, {"num_global_key_value_heads": 4}, "num_global_key_value_heads: got 4, needs a divisor of num_attent"),
        (GEMMA, {"enable_moe_block": True}, "num_experts: missing, needs an integer above 1, as enable_moe_block is"),
        (NEMOTRON, {"hybrid_override_pattern": "M-*X"}, "hybrid_override_pattern: got 'M-*X', needs one of M, *, -"),
        (NEMOTRON, {"hybrid_override_pattern": "M-*"}, "hybrid_override_pattern: got 'M-*', needs one of M, *, - and"),
        (NEMOTRON, {"hybrid_override_pattern": 3}, "hybrid_override_pattern: got 3, needs one of M, *, - and E"),
        (NEMOTRON, {"hybrid_override_pattern": ...}, "hybrid_override_pattern: missing, needs one of M, *, - and E"),
        (NEMOTRON, {"mlp_hidden_act": "silu"}, "mlp_hidden_act: got 'silu', needs 'relu2'"),
        (NEMOTRON, {"num_experts": 0}, "n_routed_experts: missing, needs an integer above 1, as layers have experts"),
        (NEMOTRON, {"n_shared_experts": 2}, "n_shared_experts: got 2, needs 0 or 1"),
        (
            NEMOTRON,
            {"moe_shared_expert_intermediate_size": None},
            "moe_shared_expert_intermediate_size: missing, needs an integer above 0, as an expert is shared",
        ),
        (MIMO, {"attention_chunk_size": 8}, "attention_chunk_size: got 8, needs the value of sliding_window (9)"),
        (MIMO, {"sliding_window_size": 8}, "sliding_window_size: got 8, needs the value of sliding_window (9)"),
        (MIMO, {"swa_num_key_value_heads": 5}, "swa_num_key_value_heads: got 5, needs a divisor of swa_num_attention"),
        (MIMO, {"hybrid_layer_pattern": [0]}, "hybrid_layer_pattern: got a list of 1, needs a list of 0 (full) and 1"),
        (MIMO, {"hybrid_layer_pattern": [2, 0, 0]}, "hybrid_layer_pattern[0]: got 2, needs a list of 0 (full) and 1"),
        (
            MIMO,
            {"hybrid_layer_pattern": [0, True, 1]},
            "hybrid_layer_pattern[1]: got true, needs a list of 0 (full) and",
        ),
        (STEP, {"share_expert_dim": None}, "share_expert_dim: missing, needs an integer above 0, as an expert is"),
        (STEP, {"sliding_window": None}, "sliding_window: missing, needs an integer above 0, as layers slide"),
        (STEP, {"layer_types": [FULL]}, "layer_types: got a list of 1, needs a list of full_attention and sliding"),
    ],
)
def test_inconsistent_configs(config: dict[str, Any], change: dict[str, Any], expected: str) -> None:
    assert message(config, **change).startswith(f"model 'tiny': {expected}")


@pytest.mark.parametrize(
    ("config", "change", "reason"),
    [
        (LATENT, {"attention_chunk_size": 8}, "chunked attention (attention_chunk_size=8)"),
        (LATENT, {"indexer_types": ["full", "shared"]}, "an indexer shared between layers (indexer_types)"),
        (LATENT, {"index_topk_freq": 4}, "an indexer shared between layers (index_topk_freq=4)"),
        (LATENT, {"mla_use_output_gate": True}, "an output gate of the attention (mla_use_output_gate=true)"),
        (LATENT, {"routed_expert_hidden_size": 64}, "experts of another hidden size (routed_expert_hidden_size=64)"),
        (LATENT, {"layer_types": [LINEAR] * 3}, "linear attention (layer_types has 'linear_attention')"),
        (QWEN, {"layer_types": [SLIDING] * 4}, "layers of type 'sliding_attention' (layer_types has 'sliding_attenti"),
        (QWEN, {"kv_lora_rank": 8}, "latent attention (kv_lora_rank=8)"),
        (LLAMA4, {"n_shared_experts": 2}, "shared experts (n_shared_experts=2)"),
        (GEMMA, {"num_kv_shared_layers": 2}, "KV caches shared between layers (num_kv_shared_layers=2)"),
        (GEMMA, {"hidden_size_per_layer_input": 9}, "embeddings of every layer (hidden_size_per_layer_input=9)"),
        (GEMMA, {"use_double_wide_mlp": True}, "dense layers of another width (use_double_wide_mlp=true)"),
        (NEMOTRON, {"block_configs": [{"a": 1}]}, "per-layer block lists (block_configs)"),
        (MIMO, {"n_shared_experts": 1}, "shared experts (n_shared_experts=1)"),
        (STEP, {"attention_other_setting": {"a": 1}}, "sliding layers with their own heads (attention_other_setting)"),
        (STEP, {"moe_layers_enum": "3,4"}, "experts placed by another rule (moe_layers_enum='3,4')"),
    ],
)
def test_what_a_family_does_not_model_is_refused(config: dict[str, Any], change: dict[str, Any], reason: str) -> None:
    assert message(config, **change).startswith(f"model 'tiny': not modelled: {reason}")


PUBLISHED: list[tuple[dict[str, Any], float, float, str]] = [
    (
        {
            "model_type": "deepseek_v2",
            "hidden_size": 2048,
            "num_attention_heads": 16,
            "num_hidden_layers": 27,
            "vocab_size": 102400,
            "intermediate_size": 10944,
            "moe_intermediate_size": 1408,
            "n_routed_experts": 64,
            "n_shared_experts": 2,
            "num_experts_per_tok": 6,
            "first_k_dense_replace": 1,
            "kv_lora_rank": 512,
            "q_lora_rank": None,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "v_head_dim": 128,
        },
        15.7,
        2.4,
        "DeepSeek-V2-Lite: arXiv:2405.04434, appendix B",
    ),
    (
        {
            "model_type": "nemotron_h",
            "hidden_size": 4096,
            "num_attention_heads": 32,
            "num_key_value_heads": 2,
            "head_dim": 128,
            "num_hidden_layers": 88,
            "hybrid_override_pattern": 40 * "M" + 40 * "E" + 8 * "*",
            "vocab_size": 131072,
            "mlp_hidden_act": "relu2",
            "mamba_num_heads": 128,
            "mamba_head_dim": 64,
            "ssm_state_size": 128,
            "n_groups": 8,
            "conv_kernel": 4,
            "n_routed_experts": 512,
            "num_experts_per_tok": 22,
            "moe_intermediate_size": 2688,
            "moe_latent_size": 1024,
            "n_shared_experts": 1,
            "moe_shared_expert_intermediate_size": 5376,
        },
        120.0,
        12.0,
        "Nemotron 3 Super 120B-A12B: model card; the order of its layers does not matter here",
    ),
    (
        {
            "model_type": "mimo_v2",
            "hidden_size": 6144,
            "num_attention_heads": 128,
            "num_key_value_heads": 8,
            "head_dim": 192,
            "v_head_dim": 128,
            "num_hidden_layers": 70,
            "intermediate_size": 16384,
            "vocab_size": 152576,
            "swa_num_attention_heads": 128,
            "swa_num_key_value_heads": 8,
            "swa_head_dim": 192,
            "swa_v_head_dim": 128,
            "sliding_window": 128,
            "hybrid_layer_pattern": 10 * [0] + 60 * [1],
            "n_routed_experts": 384,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 2048,
            "moe_layer_freq": [0] + 69 * [1],
        },
        1020.0,
        42.0,
        "MiMo-V2.5-Pro: model card",
    ),
]


@pytest.mark.parametrize(("config", "billions", "of_a_token", "_source"), PUBLISHED)
def test_published_parameter_counts(config: dict[str, Any], billions: float, of_a_token: float, _source: str) -> None:
    model = loaded(config)
    assert model.weight_elements() / 1e9 == pytest.approx(billions, rel=0.01)
    assert model.active_elements() / 1e9 == pytest.approx(of_a_token, rel=0.08)


def test_a_config_without_type_is_not_guessed() -> None:
    plain = {**GROUPED, "num_hidden_layers": 2}
    assert layers(plain) == [Layer(SAME, Ffn(200))] * 2
    assert message(plain, num_memory_slots=4) == (
        "model 'tiny': not modelled: an unknown key in a config without model_type (num_memory_slots=4)"
    )
    assert message(plain, side_rank=[1], extra_experts=2) == (
        "model 'tiny': not modelled: an unknown key in a config without model_type (side_rank); "
        "an unknown key in a config without model_type (extra_experts=2)"
    )
    assert message(plain, architectures=["FooForCausalLM"]).startswith(
        "model 'tiny': not modelled: architecture 'FooForCausalLM' without model_type (understood: deepseek_v2, "
    )
    harmless = {"num_nextn_predict_layers": 1, "rotary_dim": 64, "max_position_embeddings": 9, "num_memory_slots": None}
    assert load_model({**plain, **harmless}) == load_model(plain)
    for names in ([3], [{}]):
        assert "architecture" in message(plain, architectures=names)
    assert load_model({**plain, "architectures": ["LlamaForCausalLM"], "num_memory_slots": 4}).model_type == "llama"
