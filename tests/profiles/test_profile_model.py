import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.golden import cases
from stacksweep.profiles import ModelSpec, ProfileError, bundled_names, load_model
from stacksweep.profiles.layers import Attention, Ffn, Layer, Moe

TINY: dict[str, Any] = {
    "name": "tiny",
    "hidden_size": 96,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "num_hidden_layers": 6,
    "intermediate_size": 200,
    "vocab_size": 1000,
}
EXPERTS: dict[str, Any] = {**TINY, "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 50}
FULL, SLIDING = "full_attention", "sliding_attention"
STANDARD = (
    "gpt_oss, llama, mimo, minimax_m2, mistral, mixtral, qwen2, qwen3, qwen3_moe, qwen3_vl, qwen3_vl_moe, "
    "qwen3_vl_moe_text, qwen3_vl_text"
)
UNDERSTOOD = (
    "deepseek_v2, deepseek_v3, deepseek_v32, gemma4, gemma4_text, glm_moe_dsa, gpt_oss, kimi_k2, llama, llama4, "
    "llama4_text, mimo, mimo_v2, mimo_v2_flash, minimax_m2, mistral, mixtral, nemotron_h, qwen2, qwen3, qwen3_5, "
    "qwen3_5_moe, qwen3_5_moe_text, qwen3_5_text, qwen3_moe, qwen3_vl, qwen3_vl_moe, qwen3_vl_moe_text, "
    "qwen3_vl_text, step3p7"
)

# Published parameters in billions: in all, and of a token for models with experts. The weight elements leave norms,
# biases and vision towers out; publishers round, and some count the embedding among those of a token.
PUBLISHED: dict[str, tuple[float, float | None, str]] = {
    "deepseek-v3": (671.0, 37.0, "DeepSeek-V3 technical report, arXiv:2412.19437, abstract"),
    "gemma-4-31b": (30.7, None, "model card of Gemma 4, ai.google.dev"),
    "glm-5": (744.0, 40.0, "README of zai-org/GLM-5"),
    "gpt-oss-120b": (116.8, 5.1, "gpt-oss model card, arXiv:2508.10925, table 1"),
    "gpt-oss-20b": (20.9, 3.6, "gpt-oss model card, arXiv:2508.10925, table 1"),
    "kimi-k2": (1026.0, 32.0, "parameters of the published weights of moonshotai/Kimi-K2-Instruct, and its model card"),
    "llama-3.1-405b": (405.9, None, "parameters of the published weights of meta-llama/Llama-3.1-405B"),
    "llama-3.1-70b": (70.6, None, "model card of meta-llama/Llama-3.1-70B"),
    "llama-3.1-8b": (8.03, None, "model card of meta-llama/Llama-3.1-8B"),
    "llama-3.2-1b": (1.23, None, "model card of meta-llama/Llama-3.2-1B"),
    "llama-3.2-3b": (3.21, None, "model card of meta-llama/Llama-3.2-3B"),
    "llama-4-maverick": (400.7, 17.0, "parameters of the published weights, and the model card of Llama 4"),
    "llama-4-scout": (108.6, 17.0, "parameters of the published weights, and the model card of Llama 4"),
    "mimo-v2-flash": (309.0, 15.0, "model card of XiaomiMiMo/MiMo-V2-Flash"),
    "minimax-m2.5": (230.0, 10.0, "model card of MiniMaxAI/MiniMax-M2.5"),
    "mixtral-8x22b": (141.0, 39.0, "Cheaper, better, faster, stronger, mistral.ai, April 2024"),
    "mixtral-8x7b": (46.7, 12.9, "Mixtral of experts, mistral.ai, December 2023"),
    "nemotron-3-nano-30b-a3b": (31.6, 3.5, "model card of nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"),
    "qwen3-235b-a22b": (235.0, 22.0, "model card of Qwen/Qwen3-235B-A22B"),
    "qwen3-30b-a3b": (30.5, 3.3, "model card of Qwen/Qwen3-30B-A3B"),
    "qwen3-32b": (32.8, None, "model card of Qwen/Qwen3-32B"),
    "qwen3-8b": (8.2, None, "model card of Qwen/Qwen3-8B"),
    "qwen3.5-27b": (27.0, None, "model card of Qwen/Qwen3.5-27B"),
    "qwen3.5-397b-a17b": (397.0, 17.0, "model card of Qwen/Qwen3.5-397B-A17B"),
    "step-3.7-flash": (196.0, 11.0, "model card of stepfun-ai/Step-3.7-Flash"),
}


def message(config: Any) -> str:
    with pytest.raises(ProfileError) as caught:
        load_model(config)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def without(config: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != key}


def moe_layers(**rules: Any) -> str:
    """Layers of a model with experts, as one letter each: m for experts, f for a dense MLP."""
    return "".join("m" if routed else "f" for routed in load_model({**EXPERTS, **rules}).moe)


def sliding_layers(**rules: Any) -> str:
    """Layers as one letter each: s for sliding, a for full attention."""
    return "".join("s" if slides else "a" for slides in load_model({**TINY, **rules}).sliding)


def window_of(config: dict[str, Any]) -> int:
    return max(layer.window for layer in load_model(config).layers)


# ---------------------------------------------------------------- bundled models


@pytest.mark.parametrize("name", bundled_names("models"))
def test_weight_elements_agree_with_the_published_parameter_count(name: str) -> None:
    billions, of_a_token, _source = PUBLISHED[name]
    model = load_model(name)
    assert model.weight_elements() / 1e9 == pytest.approx(billions, rel=0.01)
    if of_a_token is not None:
        assert model.active_elements() / 1e9 == pytest.approx(of_a_token, rel=0.08)
    assert (model.experts is None) == (of_a_token is None)


@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.1-70b", 70_553_706_496),
        ("llama-3.1-405b", 405_853_388_800),
        ("llama-3.2-1b", 1_235_814_400),
        ("llama-3.2-3b", 3_212_749_824),
        ("mixtral-8x7b", 46_702_792_704),
        ("mixtral-8x22b", 140_620_634_112),
    ],
)
def test_weight_elements_and_norms_are_all_parameters_of_models_without_biases(name: str, exact: int) -> None:
    """Counts of the published weights; two norms a layer and the last one are all that the elements leave out."""
    model = load_model(name)
    assert model.weight_elements() + (2 * model.num_hidden_layers + 1) * model.hidden_size == exact


def replaced(mixer: Any) -> Any:
    """The attention if it reached all tokens."""
    return dataclasses.replace(mixer, reach="full", window=0)


def test_reference_models() -> None:
    for name, config in cases("models").items():
        model = load_model({**config, "name": name})
        layers = config["num_hidden_layers"]
        assert model.hidden_size == config["hidden_size"]
        head_dim = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
        heads = (config["num_attention_heads"], config["num_key_value_heads"], head_dim, head_dim)
        assert {replaced(layer.mixer) for layer in model.layers} == {Attention(*heads)}
        assert model.sliding == tuple(word == SLIDING for word in config.get("layer_types", [FULL] * layers))
        default = "moe" if model.num_experts else "ffn"
        assert model.moe == tuple(word == "moe" for word in config.get("mlp_types", [default] * layers))
        assert load_model(model.to_dict()) == model
        if name in bundled_names("models"):
            bundled = load_model(name)
            assert dataclasses.replace(model, model_type=bundled.model_type) == bundled
            assert model.composition == bundled.composition


# ---------------------------------------------------------------- sizes


def test_sizes_and_their_defaults() -> None:
    layer = Layer(Attention(6, 2, 16, 16), Ffn(200))
    assert load_model(TINY) == ModelSpec(
        name="tiny",
        model_type=None,
        composition="llama",
        hidden_size=96,
        vocab_size=1000,
        tie_word_embeddings=False,
        layers=(layer,) * 6,
        config={},
        provenance=load_model(TINY).provenance,
    )
    assert load_model(TINY).kinds == {layer: 6}
    assert load_model(without(TINY, "num_key_value_heads")).kv_head_counts == (6,)
    for head_dim, size in ((40, 40), (None, 16)):
        assert load_model({**TINY, "head_dim": head_dim}).layers[0].mixer == Attention(6, 2, size, size)
    assert load_model({**TINY, "hidden_size": 100}).layers[0].mixer == Attention(6, 2, 16, 16)
    assert load_model({**TINY, "tie_word_embeddings": True}).tie_word_embeddings is True
    assert load_model({**TINY, "rope_theta": 1e6, "torch_dtype": "bfloat16"}) == load_model(TINY)


def test_weight_elements() -> None:
    attention, ffn, embedding = 2 * 96 * 6 * 16 + 2 * 96 * 2 * 16, 3 * 96 * 200, 1000 * 96
    assert load_model(TINY).weight_elements() == 6 * (attention + ffn) + 2 * embedding
    assert load_model({**TINY, "tie_word_embeddings": True}).weight_elements() == 6 * (attention + ffn) + embedding
    experts = 96 * 8 + 8 * 3 * 96 * 50
    mixed = load_model({**EXPERTS, "mlp_types": ["ffn", "moe", "ffn", "ffn", "moe", "ffn"]})
    assert mixed.weight_elements() == 6 * attention + 4 * ffn + 2 * experts + 2 * embedding


def test_composition() -> None:
    assert load_model(TINY).composition == "llama"
    assert load_model(EXPERTS).composition == "moe"
    assert load_model({**EXPERTS, "mlp_types": ["ffn"] * 6}).composition == "moe"
    assert load_model({**TINY, "model_type": "gpt_oss"}).composition == "moe"
    assert load_model({**TINY, "model_type": "mistral", "sliding_window": 9}).composition == "moe"
    assert load_model({**TINY, "sliding_window": 9, "layer_types": [FULL] * 6}).composition == "llama"


REQUIRED = ("hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size", "vocab_size")


@pytest.mark.parametrize("key", [*REQUIRED, "num_key_value_heads", "head_dim"])
def test_sizes_are_integers_above_zero(key: str) -> None:
    needs = "an integer from 1 to 10000" if key == "num_hidden_layers" else "an integer above 0"
    for wrong, shown in ((0, "0"), (-1, "-1"), (2.0, "2.0"), (True, "true"), ("8", "'8'"), ([8], "a list of 1")):
        assert message({**TINY, key: wrong}) == f"model 'tiny': {key}: got {shown}, needs {needs}"
    if key != "head_dim":
        assert message({**TINY, key: None}) == f"model 'tiny': {key}: got null, needs {needs}"
    if key in REQUIRED:
        assert message(without(TINY, key)) == f"model 'tiny': {key}: missing, needs {needs}"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"num_key_value_heads": 4}, "num_key_value_heads: got 4, needs a divisor of num_attention_heads (6)"),
        ({"num_key_value_heads": 12}, "num_key_value_heads: got 12, needs a divisor of num_attention_heads (6)"),
        ({"hidden_size": 5}, "num_attention_heads: got 6, needs an integer of at most hidden_size (5), or head_dim"),
        ({"num_hidden_layers": 10001}, "num_hidden_layers: got 10001, needs an integer from 1 to 10000"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings: got 1, needs true or false"),
        ({"tie_word_embeddings": None}, "tie_word_embeddings: got null, needs true or false"),
        ({"num_experts": True}, "num_experts: got true, needs an integer"),
        ({"num_local_experts": 8.0}, "num_local_experts: got 8.0, needs an integer"),
        ({"layer_types": [FULL] * 5}, "layer_types: got a list of 5, needs a list of full_attention and"),
        ({"layer_types": FULL}, "layer_types: got 'full_attention', needs a list of full_attention and"),
        ({"layer_types": [FULL] * 5 + [None]}, "layer_types[5]: got null, needs a list of full_attention and"),
        ({"layer_types": [SLIDING] * 6}, "sliding_window: missing, needs an integer above 0, as layers slide"),
        ({"layer_types": [SLIDING] * 6, "sliding_window": 0}, "sliding_window: got 0, needs an integer above 0"),
        ({"mlp_types": ["ffn"] * 7}, "mlp_types: got a list of 7, needs a list of ffn and moe, one for each layer (6)"),
        ({"mlp_types": ["dense"] * 6}, "mlp_types[0]: got 'dense', needs a list of ffn and moe, one for each layer"),
        ({"mlp_types": ["moe"] * 6}, "mlp_types: got a list of 6, needs to be all ffn, as the model has no experts"),
        ({"sliding_window": 9}, "layer_types: missing, needs a list of full_attention and sliding_attention"),
        ({"model_type": None}, f"model_type: got null, needs one of {UNDERSTOOD}, or no entry"),
        ({"model_type": 3}, f"model_type: got 3, needs one of {UNDERSTOOD}, or no entry"),
        ({"text_config": 3}, "text_config: got 3, needs a table"),
    ],
)
def test_inconsistent_sizes(change: dict[str, Any], expected: str) -> None:
    assert message({**TINY, **change}).startswith(f"model 'tiny': {expected}")


# ---------------------------------------------------------------- experts


@pytest.mark.parametrize("key", ["num_local_experts", "num_experts", "n_routed_experts"])
def test_number_of_experts(key: str) -> None:
    base = {**TINY, "num_experts_per_tok": 2}
    assert load_model({**base, key: 8}).num_experts == 8
    for none in (None, 1, 0, -1):
        model = load_model({**base, key: none})
        assert (model.num_experts, model.experts_per_token, model.moe) == (0, 0, (False,) * 6)
    largest = {"num_local_experts": 4, "num_experts": 4, "n_routed_experts": 4, key: 9}
    assert load_model({**base, **largest}).num_experts == 9


def test_experts_per_token_and_width() -> None:
    model = load_model(EXPERTS)
    assert (model.num_experts, model.experts_per_token, model.experts) == (8, 3, Moe(8, 3, 50))
    assert model.moe == (True,) * 6
    assert load_model(without(EXPERTS, "moe_intermediate_size")).experts == Moe(8, 3, 200)
    for key in ("num_experts_per_token", "top_k_experts"):
        assert load_model({**without(EXPERTS, "num_experts_per_tok"), key: 4}).experts_per_token == 4
    assert load_model({**without(EXPERTS, "num_experts_per_tok"), "experts_per_token": 5}).experts_per_token == 5
    assert load_model({**EXPERTS, "experts_per_token": 3}).experts_per_token == 3
    assert load_model({**EXPERTS, "num_experts_per_tok": 8}).experts_per_token == 8


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"num_experts_per_tok": 9},
            "num_experts_per_tok: got 9, needs an integer of at most the number of experts (8)",
        ),
        ({"num_experts_per_tok": 0}, "num_experts_per_tok: got 0, needs an integer above 0"),
        (
            {"num_experts_per_tok": None},
            "num_experts_per_tok: missing, needs an integer above 0 and at most the number",
        ),
        ({"experts_per_token": 2}, "experts_per_token: got 2, needs the value of num_experts_per_tok (3)"),
        ({"moe_intermediate_size": None}, "moe_intermediate_size: got null, needs an integer above 0"),
        ({"first_k_dense_replace": 7}, "first_k_dense_replace: got 7, needs an integer of at most 6"),
        ({"first_k_dense_replace": -1}, "first_k_dense_replace: got -1, needs an integer of at least 0"),
        ({"first_k_dense_replace": None}, "first_k_dense_replace: got null, needs an integer of at least 0"),
        ({"mlp_only_layers": [6]}, "mlp_only_layers: got 6, needs layer numbers below 6"),
        ({"mlp_only_layers": [True]}, "mlp_only_layers[0]: got true, needs a list of layer numbers"),
        ({"mlp_only_layers": 2}, "mlp_only_layers: got 2, needs a list of layer numbers"),
        ({"decoder_sparse_step": 0}, "decoder_sparse_step: got 0, needs an integer above 0"),
        ({"interleave_moe_layer_step": 0}, "interleave_moe_layer_step: got 0, needs an integer above 0"),
        ({"moe_layer_freq": 0}, "moe_layer_freq: got 0, needs an integer above 0, or a list of 0 and 1, one for each"),
        ({"moe_layer_freq": True}, "moe_layer_freq: got true, needs an integer above 0, or a list"),
        ({"moe_layer_freq": None}, "moe_layer_freq: got null, needs an integer above 0, or a list"),
        ({"moe_layer_freq": [1] * 5}, "moe_layer_freq: got a list of 5, needs an integer above 0, or a list"),
        (
            {"moe_layer_freq": [1, 0, 2, 0, 1, 0]},
            "moe_layer_freq: got a list of 6, needs an integer above 0, or a list",
        ),
        ({"moe_layer_freq": [True] * 6}, "moe_layer_freq: got a list of 6, needs an integer above 0, or a list"),
    ],
)
def test_inconsistent_experts(change: dict[str, Any], expected: str) -> None:
    assert message({**EXPERTS, **change}).startswith(f"model 'tiny': {expected}")


def test_which_layers_have_experts() -> None:
    assert moe_layers() == "mmmmmm"
    assert moe_layers(mlp_types=["ffn", "moe", "moe", "ffn", "ffn", "moe"]) == "fmmffm"
    assert moe_layers(first_k_dense_replace=2) == "ffmmmm"
    assert moe_layers(first_k_dense_replace=6) == "ffffff"
    assert moe_layers(mlp_only_layers=[0, 4]) == "fmmmfm"
    assert moe_layers(mlp_only_layers=[]) == moe_layers(mlp_only_layers=None) == "mmmmmm"
    assert moe_layers(decoder_sparse_step=2) == "fmfmfm"
    assert moe_layers(decoder_sparse_step=4) == "fffmff"
    assert moe_layers(decoder_sparse_step=7) == "ffffff"
    assert moe_layers(moe_layer_freq=2) == "mfmfmf"
    assert moe_layers(moe_layer_freq=4) == "mfffmf"
    assert moe_layers(moe_layer_freq=[0, 1, 1, 0, 0, 1]) == "fmmffm"
    assert moe_layers(interleave_moe_layer_step=3) == "ffmffm"
    assert moe_layers(first_k_dense_replace=1, moe_layer_freq=2) == "ffmfmf"
    assert moe_layers(decoder_sparse_step=2, mlp_only_layers=[3]) == "fmfffm"
    assert moe_layers(mlp_types=["moe"] * 6, first_k_dense_replace=3) == "mmmmmm"


def test_rules_for_experts_mean_nothing_without_experts() -> None:
    rules = {"decoder_sparse_step": 1, "mlp_only_layers": [], "first_k_dense_replace": 99, "num_experts_per_tok": None}
    assert load_model({**TINY, **rules, "moe_intermediate_size": 7, "mlp_types": ["ffn"] * 6}) == load_model(TINY)


@settings(derandomize=True, deadline=None, max_examples=80)
@given(
    layers=st.integers(1, 40),
    first=st.integers(0, 5),
    sparse=st.integers(1, 5),
    step=st.integers(1, 5),
    data=st.data(),
)
def test_a_layer_has_experts_where_every_rule_agrees(
    layers: int, first: int, sparse: int, step: int, data: st.DataObject
) -> None:
    first = min(first, layers)
    only = data.draw(st.lists(st.integers(0, layers - 1), max_size=4))
    frequency = data.draw(st.integers(1, 5) | st.lists(st.integers(0, 1), min_size=layers, max_size=layers))
    config = {
        **EXPERTS,
        "num_hidden_layers": layers,
        "first_k_dense_replace": first,
        "mlp_only_layers": only,
        "decoder_sparse_step": sparse,
        "interleave_moe_layer_step": step,
        "moe_layer_freq": frequency,
    }
    dense = set(range(first)) | set(only)
    dense |= {layer for layer in range(layers) if (layer + 1) % sparse or (layer + 1) % step}
    if isinstance(frequency, int):
        dense |= set(range(layers)) - set(range(0, layers, frequency))
    else:
        dense |= {layer for layer in range(layers) if not frequency[layer]}
    model = load_model(config)
    assert {layer for layer, routed in enumerate(model.moe) if not routed} == dense
    assert load_model(json.loads(json.dumps(model.to_dict()))) == model


# ---------------------------------------------------------------- sliding layers


def test_which_layers_slide() -> None:
    mixed = [FULL, SLIDING, SLIDING, FULL, SLIDING, FULL]
    assert sliding_layers() == "aaaaaa"
    assert sliding_layers(layer_types=mixed, sliding_window=9) == "assasa"
    assert window_of({**TINY, "layer_types": mixed, "sliding_window": 9}) == 9
    assert sliding_layers(layer_types=None) == "aaaaaa"
    for family in ("mistral", "mixtral"):
        assert sliding_layers(model_type=family, sliding_window=9) == "ssssss"
        assert sliding_layers(model_type=family, sliding_window=9, use_sliding_window=False) == "ssssss"
        assert sliding_layers(model_type=family, sliding_window=None) == "aaaaaa"
        assert sliding_layers(model_type=family) == "aaaaaa"
        assert sliding_layers(model_type=family, sliding_window=9, layer_types=mixed) == "assasa"
    for family in ("qwen2", "qwen3", "qwen3_moe", "mimo"):
        habits: dict[str, Any] = {"model_type": family, "sliding_window": 9, "max_window_layers": 4}
        assert sliding_layers(**habits, use_sliding_window=True) == "aaaass"
        assert sliding_layers(**habits, use_sliding_window=False) == "aaaaaa"
        assert sliding_layers(**habits) == "aaaaaa"
        assert sliding_layers(**{**habits, "max_window_layers": 0}, use_sliding_window=True) == "ssssss"
        assert sliding_layers(**{**habits, "max_window_layers": 99}, use_sliding_window=True) == "aaaaaa"
        assert sliding_layers(**habits, use_sliding_window=True, layer_types=mixed) == "assasa"
    assert sliding_layers(sliding_window=9, max_window_layers=4, use_sliding_window=True) == "aaaass"
    assert sliding_layers(sliding_window=9, use_sliding_window=False) == "aaaaaa"
    assert sliding_layers(model_type="llama", sliding_window=9) == "aaaaaa"


def test_the_window_is_kept_only_where_a_layer_slides() -> None:
    assert window_of({**TINY, "sliding_window": 9, "layer_types": [FULL] * 6}) == 0
    assert window_of({**TINY, "model_type": "llama", "sliding_window": 9}) == 0
    assert window_of({**TINY, "model_type": "mistral", "sliding_window": 9}) == 9


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"model_type": "gpt_oss", "sliding_window": 9},
            "layer_types: missing, needs a list of full_attention and sliding_attention, one for each layer, as "
            "sliding_window is set",
        ),
        ({"model_type": "minimax_m2", "sliding_window": 9}, "layer_types: missing"),
        (
            {"model_type": "qwen3", "use_sliding_window": True, "sliding_window": 9},
            "max_window_layers: missing, needs an integer of at least 0, as use_sliding_window is true",
        ),
        (
            {"model_type": "qwen3", "use_sliding_window": True, "max_window_layers": 2},
            "sliding_window: missing, needs an integer above 0, as use_sliding_window is true",
        ),
        ({"use_sliding_window": 1}, "use_sliding_window: got 1, needs true or false"),
        ({"max_window_layers": -1}, "max_window_layers: got -1, needs an integer of at least 0"),
        (
            {"use_sliding_window": False, "sliding_window": 9, "layer_types": [SLIDING] * 6},
            "use_sliding_window: got false, needs true, as layer_types has sliding layers",
        ),
        ({"model_type": "mistral", "sliding_window": -1}, "sliding_window: got -1, needs an integer above 0"),
    ],
)
def test_inconsistent_sliding(change: dict[str, Any], expected: str) -> None:
    assert message({**TINY, **change}).startswith(f"model 'tiny': {expected}")


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    family=st.sampled_from(["qwen2", "qwen3"]),
    layers=st.integers(1, 60),
    first=st.integers(0, 70),
    use=st.booleans(),
    window=st.integers(1, 10**6),
)
def test_qwen_slides_from_max_window_layers_on(family: str, layers: int, first: int, use: bool, window: int) -> None:
    model = load_model(
        {
            **TINY,
            "num_hidden_layers": layers,
            "model_type": family,
            "use_sliding_window": use,
            "max_window_layers": first,
            "sliding_window": window,
        }
    )
    sliding = max(0, layers - first) if use else 0
    assert model.sliding == (False,) * (layers - sliding) + (True,) * sliding
    assert max(layer.window for layer in model.layers) == (window if sliding else 0)
    assert load_model(model.to_dict()) == model


# ---------------------------------------------------------------- what is not modelled


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kv_lora_rank": 512}, "latent attention (kv_lora_rank=512)"),
        ({"q_lora_rank": 8}, "latent attention (q_lora_rank=8)"),
        ({"index_topk": 2048}, "sparse attention (index_topk=2048)"),
        ({"linear_num_value_heads": 48}, "linear attention (linear_num_value_heads=48)"),
        ({"full_attention_interval": 4}, "linear attention (full_attention_interval=4)"),
        ({"layer_types": [FULL, "linear_attention"] * 3}, "linear attention (layer_types has 'linear_attention')"),
        ({"attn_type_list": [1, 0, 1, 1, 1, 1]}, "linear attention (attn_type_list)"),
        ({"attention_chunk_size": 8192}, "chunked attention (attention_chunk_size=8192)"),
        ({"layer_types": ["chunked_attention"] * 6}, "chunked attention (layer_types has 'chunked_attention')"),
        ({"layer_types": ["banana"] * 6}, "layers of type 'banana' (layer_types has 'banana')"),
        ({"ssm_state_size": 128}, "state-space layers (ssm_state_size=128)"),
        ({"layer_types": ["mamba"] * 6}, "state-space layers (layer_types has 'mamba')"),
        ({"hybrid_override_pattern": "M-M*"}, "a pattern of layer kinds (hybrid_override_pattern='M-M*')"),
        ({"hybrid_layer_pattern": [0, 1]}, "a pattern of layer kinds (hybrid_layer_pattern)"),
        ({"block_configs": [{"attention": {}}]}, "per-layer block lists (block_configs)"),
        ({"n_shared_experts": 1}, "shared experts (n_shared_experts=1)"),
        ({"num_shared_experts": 2}, "shared experts (num_shared_experts=2)"),
        ({"shared_expert_intermediate_size": 64}, "shared experts (shared_expert_intermediate_size=64)"),
        ({"share_expert_dim": 64}, "shared experts (share_expert_dim=64)"),
        ({"enable_moe_block": True}, "experts beside the dense MLP of a layer (enable_moe_block=true)"),
        ({"moe_latent_size": 64}, "experts of another hidden size (moe_latent_size=64)"),
        ({"mlp_layer_types": ["dense"] * 6}, "experts placed by another rule (mlp_layer_types)"),
        ({"intermediate_size_mlp": 64}, "dense layers of another width (intermediate_size_mlp=64)"),
        ({"global_head_dim": 512}, "global layers with their own head size (global_head_dim=512)"),
        ({"swa_head_dim": 64}, "sliding layers with their own heads (swa_head_dim=64)"),
        ({"attn_output_gate": True}, "an output gate of the attention (attn_output_gate=true)"),
        ({"mlp_hidden_act": "relu2"}, "an MLP without gate (mlp_hidden_act='relu2')"),
        ({"num_kv_shared_layers": 3}, "KV caches shared between layers (num_kv_shared_layers=3)"),
        ({"hidden_size_per_layer_input": 256}, "embeddings of every layer (hidden_size_per_layer_input=256)"),
        ({"cross_attention_layers": [3]}, "cross-attention layers (cross_attention_layers)"),
        ({"is_encoder_decoder": True}, "an encoder (is_encoder_decoder=true)"),
        ({"v_head_dim": 24}, "values of another size than the keys (v_head_dim=24 beside 16)"),
        ({"model_type": "deepseek_v9"}, f"model_type 'deepseek_v9' (understood: {UNDERSTOOD})"),
        ({"model_type": "LLAMA"}, f"model_type 'LLAMA' (understood: {UNDERSTOOD})"),
    ],
)
def test_what_is_not_modelled_is_refused_by_name(change: dict[str, Any], reason: str) -> None:
    for config in ({**EXPERTS, **change}, {**EXPERTS, "model_type": "llama", **change}):
        assert message(config) == f"model 'tiny': not modelled: {reason}"


def test_every_reason_is_named_at_once_and_before_anything_else() -> None:
    config = {
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "n_shared_experts": 1,
        "model_type": "deepseek_v9",
        "intermediate_size": None,
    }
    assert message(config) == (
        "model 'custom': not modelled: latent attention (kv_lora_rank=512); shared experts (n_shared_experts=1); "
        f"model_type 'deepseek_v9' (understood: {UNDERSTOOD})"
    )


def test_a_key_that_says_none_is_no_reason() -> None:
    none = {
        "kv_lora_rank": None,
        "attention_chunk_size": None,
        "n_shared_experts": 0,
        "shared_expert_intermediate_size": 0,
        "shared_intermediate_size": 0,
        "num_kv_shared_layers": 0,
        "attn_output_gate": False,
        "block_configs": [],
        "linear_attn_config": {},
        "attn_type_list": [1] * 6,
        "mlp_hidden_act": "silu",
        "v_head_dim": 16,
        "num_nextn_predict_layers": 1,
    }
    assert load_model({**EXPERTS, **none}) == load_model(EXPERTS)


@pytest.mark.parametrize("model_type", STANDARD.split(", "))
def test_understood_types(model_type: str) -> None:
    model = load_model({**TINY, "model_type": model_type})
    assert model.model_type == model_type
    assert load_model(model.to_dict()) == model


# ---------------------------------------------------------------- multimodal configs

TEXT = without(TINY, "name") | {"model_type": "qwen3_vl_text"}
VISION: dict[str, Any] = {
    "name": "vl",
    "model_type": "qwen3_vl",
    "vision_config": {"hidden_size": 7},
    "text_config": TEXT,
}


def test_a_multimodal_config_stands_for_its_text_model() -> None:
    model = load_model(VISION)
    assert model == load_model({**TEXT, "name": "vl"})
    assert load_model({**VISION, "text_config": None} | TEXT) == model
    assert load_model({**VISION, "text_config": without(TEXT, "model_type")}).model_type == "qwen3_vl"
    assert load_model(without(VISION, "model_type")) == model
    assert load_model({**VISION, "hidden_size": 96}) == model


def test_tied_embeddings_stand_at_either_place() -> None:
    tied = {"tie_word_embeddings": True}
    assert load_model({**VISION, **tied}).tie_word_embeddings is True
    assert load_model({**VISION, "text_config": {**TEXT, **tied}}).tie_word_embeddings is True
    assert load_model({**VISION, **tied, "text_config": {**TEXT, **tied}}).tie_word_embeddings is True
    assert message({**VISION, "tie_word_embeddings": False, "text_config": {**TEXT, **tied}}) == (
        "model 'vl': tie_word_embeddings: got false, needs to be the same as in text_config"
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"hidden_size": 7}, "hidden_size: got 7, needs to be left out or to be the same in text_config"),
        ({"sliding_window": 7}, "sliding_window: got 7, needs to be left out or to be the same in text_config"),
        ({"num_experts": 8}, "num_experts: got 8, needs to be left out or to be the same in text_config"),
        ({"model_type": "llava"}, f"not modelled: model_type 'llava' (understood: {UNDERSTOOD})"),
        ({"model_type": "gemma9", "text_config": {}}, "not modelled: model_type 'gemma9' (understood: "),
        (
            {"text_config": {**TEXT, "model_type": "gemma9_text"}},
            "not modelled: model_type 'gemma9_text' (understood: ",
        ),
        ({"text_config": {**TEXT, "model_type": None}}, "text_config.model_type: got null, needs one of "),
        (
            {"text_config": {**TEXT, "attention_chunk_size": 9}},
            "not modelled: chunked attention (attention_chunk_size=9)",
        ),
        ({"attention_chunk_size": 9}, "not modelled: chunked attention (attention_chunk_size=9)"),
        ({"text_config": {}}, "hidden_size: missing, needs an integer above 0"),
        ({"text_config": [1]}, "text_config: got a list of 1, needs a table"),
    ],
)
def test_inconsistent_multimodal_configs(change: dict[str, Any], expected: str) -> None:
    assert message({**VISION, **change}).startswith(f"model 'vl': {expected}")


def test_a_text_config_needs_a_type_somewhere() -> None:
    untyped = {"name": "vl", "text_config": without(TEXT, "model_type")}
    assert message(untyped) == f"model 'vl': text_config.model_type: missing, needs one of {UNDERSTOOD}"


# ---------------------------------------------------------------- published configs

CONFIGS = os.environ.get("STACKSWEEP_HF_CONFIGS", "")

# Weights in billions of a config that loads, or what its refusal names.
PUBLISHED_CONFIGS: dict[str, float | tuple[str, ...]] = {
    "MiniMaxAI--MiniMax-M2.5": 230.0,
    "Qwen--Qwen3-235B-A22B": 235.0,
    "Qwen--Qwen3-30B-A3B": 30.5,
    "Qwen--Qwen3-32B": 32.8,
    "Qwen--Qwen3-8B": 8.2,
    "Qwen--Qwen3-Coder-480B-A35B-Instruct": 480.0,
    "Qwen--Qwen3-VL-30B-A3B-Instruct": 30.5,
    "Qwen--Qwen3-VL-8B-Instruct": 8.2,
    "Qwen--Qwen3.5-27B": 27.0,
    "XiaomiMiMo--MiMo-7B-Base": 7.6,
    "deepseek-ai--DeepSeek-V3": 671.0,
    "google--gemma-4-26B-A4B": 25.2,
    "meta-llama--Llama-4-Scout-17B-16E-Instruct": 108.6,
    "meta-llama--Meta-Llama-3.1-405B": 405.9,
    "meta-llama--Meta-Llama-3.1-70B": 70.6,
    "meta-llama--Meta-Llama-3.1-8B": 8.03,
    "mistralai--Mixtral-8x7B-v0.1": 46.7,
    "moonshotai--Kimi-K2-Instruct": 1026.0,
    "nvidia--Llama-3_3-Nemotron-Super-49B-v1": ("per-layer block lists (block_configs)", "'nemotron-nas'"),
    "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": 31.6,
    "nvidia--Nemotron-H-56B-Base-8K": 56.0,
    "openai--gpt-oss-120b": 116.8,
    "openai--gpt-oss-20b": 20.9,
    "stepfun-ai--Step-3.7-Flash": 196.0,
}
BUNDLED_CONFIGS = {
    "MiniMaxAI--MiniMax-M2.5": "minimax-m2.5",
    "Qwen--Qwen3.5-27B": "qwen3.5-27b",
    "deepseek-ai--DeepSeek-V3": "deepseek-v3",
    "meta-llama--Llama-4-Scout-17B-16E-Instruct": "llama-4-scout",
    "moonshotai--Kimi-K2-Instruct": "kimi-k2",
    "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "nemotron-3-nano-30b-a3b",
    "stepfun-ai--Step-3.7-Flash": "step-3.7-flash",
    "Qwen--Qwen3-235B-A22B": "qwen3-235b-a22b",
    "Qwen--Qwen3-30B-A3B": "qwen3-30b-a3b",
    "Qwen--Qwen3-32B": "qwen3-32b",
    "Qwen--Qwen3-8B": "qwen3-8b",
    "meta-llama--Meta-Llama-3.1-405B": "llama-3.1-405b",
    "meta-llama--Meta-Llama-3.1-70B": "llama-3.1-70b",
    "meta-llama--Meta-Llama-3.1-8B": "llama-3.1-8b",
    "mistralai--Mixtral-8x7B-v0.1": "mixtral-8x7b",
    "openai--gpt-oss-120b": "gpt-oss-120b",
    "openai--gpt-oss-20b": "gpt-oss-20b",
}


@pytest.mark.skipif(not CONFIGS, reason="STACKSWEEP_HF_CONFIGS names no directory of published configs")
def test_published_configs_load_or_are_refused_for_the_right_reason() -> None:
    found = {path.stem: path for path in Path(CONFIGS).glob("*.json")}
    assert set(found) == set(PUBLISHED_CONFIGS)
    for name, expected in PUBLISHED_CONFIGS.items():
        if isinstance(expected, float):
            model = load_model(found[name])
            assert model.weight_elements() / 1e9 == pytest.approx(expected, rel=0.01)
            assert load_model(model.to_dict()) == model
            if name in BUNDLED_CONFIGS:
                assert dataclasses.replace(model, name=BUNDLED_CONFIGS[name]) == load_model(BUNDLED_CONFIGS[name])
        else:
            text = message(found[name])
            assert text.startswith(f"model {name!r}: not modelled: ")
            for reason in expected:
                assert reason in text
