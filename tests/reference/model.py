"""What a HuggingFace-style config says about a model, for configs that are known to be understood."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Model:
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    layers: int
    ffn_width: int
    vocabulary: int
    tied: bool
    experts: int
    experts_per_token: int
    expert_width: int
    window: int | None
    kinds: tuple[tuple[str, str], ...]
    """(attention, mlp) of every layer."""
    moe_composition: bool

    @property
    def has_experts(self) -> bool:
        return any(mlp == "moe" for _, mlp in self.kinds)

    @property
    def has_sliding(self) -> bool:
        return any(attention == "sliding_attention" for attention, _ in self.kinds)


def model_of(config: dict[str, Any]) -> Model:
    config = config.get("text_config", config)
    layers = config["num_hidden_layers"]
    heads = config["num_attention_heads"]
    experts = max(config.get(key) or 0 for key in ("num_local_experts", "num_experts", "n_routed_experts"))
    experts = experts if experts > 1 else 0
    kinds = tuple(zip(_attention_types(config), _mlp_types(config, experts), strict=True))
    sliding = any(attention == "sliding_attention" for attention, _ in kinds)
    return Model(
        hidden=config["hidden_size"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or config["hidden_size"] // heads,
        layers=layers,
        ffn_width=config["intermediate_size"],
        vocabulary=config["vocab_size"],
        tied=config.get("tie_word_embeddings", False),
        experts=experts,
        experts_per_token=(config.get("experts_per_token") or config["num_experts_per_tok"]) if experts else 0,
        expert_width=config.get("moe_intermediate_size") or config["intermediate_size"],
        window=config.get("sliding_window"),
        kinds=kinds,
        moe_composition=experts > 0 or sliding or config.get("model_type") == "gpt_oss",
    )


def _attention_types(config: dict[str, Any]) -> list[str]:
    if config.get("layer_types"):
        return list(config["layer_types"])
    full, sliding = "full_attention", "sliding_attention"
    layers = config["num_hidden_layers"]
    kind = config.get("model_type")
    if config.get("sliding_window") is not None:
        if kind in ("mistral", "mixtral"):
            return [sliding] * layers
        if kind in ("qwen2", "qwen3") and config.get("use_sliding_window"):
            return [sliding if layer >= config["max_window_layers"] else full for layer in range(layers)]
    return [full] * layers


def _mlp_types(config: dict[str, Any], experts: int) -> list[str]:
    if config.get("mlp_types"):
        return list(config["mlp_types"])
    return [
        "moe" if experts and _layer_is_routed(config, layer) else "ffn" for layer in range(config["num_hidden_layers"])
    ]


def _layer_is_routed(config: dict[str, Any], layer: int) -> bool:
    if layer < (config.get("first_k_dense_replace") or 0):
        return False
    if layer in (config.get("mlp_only_layers") or ()):
        return False
    for key in ("decoder_sparse_step", "interleave_moe_layer_step"):
        if config.get(key) is not None and (layer + 1) % config[key] != 0:
            return False
    every = config.get("moe_layer_freq")
    if isinstance(every, list):
        return bool(every[layer])
    return every is None or layer % every == 0
