"""What a HuggingFace-style config says about a model, for configs that are known to be understood."""

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Mixer:
    """What mixes tokens; sizes that a kind does not have are 0."""

    kind: str
    """full, sliding, chunked, latent, linear or mamba2"""
    heads: int = 0
    kv_heads: int = 0
    key: int = 0
    value: int = 0
    window: int = 0
    gate: bool = False
    same_kv: bool = False
    latent: int = 0
    query_latent: int = 0
    nope: int = 0
    rope: int = 0
    index_heads: int = 0
    index_size: int = 0
    index_top_k: int = 0
    key_heads: int = 0
    conv: int = 0
    state_size: int = 0
    groups: int = 0

    @property
    def has_kv_heads(self) -> bool:
        return self.kind in ("full", "sliding", "chunked")


@dataclass(frozen=True)
class Layer:
    mixer: Mixer | None
    ffn: tuple[int, int] | None
    """Width and matrices."""
    moe: bool


@dataclass(frozen=True)
class Model:
    hidden: int
    vocabulary: int
    tied: bool
    experts: int
    experts_per_token: int
    expert_width: int
    expert_matrices: int
    expert_hidden: int
    kinds: tuple[Layer, ...]
    """Every layer."""
    moe_composition: bool

    @property
    def layers(self) -> int:
        return len(self.kinds)

    @property
    def mixers(self) -> tuple[Mixer, ...]:
        """Different mixers, in the order of their first layers."""
        return tuple(dict.fromkeys(layer.mixer for layer in self.kinds if layer.mixer))

    @property
    def has_experts(self) -> bool:
        return any(layer.moe for layer in self.kinds)


def described(text: dict[str, Any]) -> Model:
    """A model given by its layers, each with `mixer` (fields of `Mixer`), `ffn` (width, matrices) and `moe`."""
    layers = []
    for layer in text["layers"]:
        mixer, ffn = layer.get("mixer"), layer.get("ffn")
        layers.append(Layer(Mixer(**mixer) if mixer else None, tuple(ffn) if ffn else None, layer.get("moe", False)))
    windows = any(layer.mixer and layer.mixer.window for layer in layers)
    return Model(
        hidden=text["hidden"],
        vocabulary=text["vocabulary"],
        tied=text.get("tied", False),
        experts=text.get("experts", 0),
        experts_per_token=text.get("experts_per_token", 0),
        expert_width=text.get("expert_width", 0),
        expert_matrices=text.get("expert_matrices", 3),
        expert_hidden=text.get("expert_hidden") or text["hidden"],
        kinds=tuple(layers),
        moe_composition=text.get("experts", 0) > 0 or windows,
    )


def model_of(config: dict[str, Any]) -> Model:
    if "layers" in config:
        return described(config)
    config = config.get("text_config", config)
    heads = config["num_attention_heads"]
    experts = max(config.get(key) or 0 for key in ("num_local_experts", "num_experts", "n_routed_experts"))
    experts = experts if experts > 1 else 0
    types = list(zip(_attention_types(config), _mlp_types(config, experts), strict=True))
    sliding = any(attention == "sliding_attention" for attention, _ in types)
    size = config.get("head_dim") or config["hidden_size"] // heads
    full = Mixer("full", heads, config.get("num_key_value_heads") or heads, size, size)
    window = config.get("sliding_window") or 0
    mixers = {"full_attention": full, "sliding_attention": replace(full, kind="sliding", window=window)}
    ffn = (config["intermediate_size"], 3)
    return Model(
        hidden=config["hidden_size"],
        vocabulary=config["vocab_size"],
        tied=config.get("tie_word_embeddings", False),
        experts=experts,
        experts_per_token=(config.get("experts_per_token") or config["num_experts_per_tok"]) if experts else 0,
        expert_width=config.get("moe_intermediate_size") or config["intermediate_size"],
        expert_matrices=3,
        expert_hidden=config["hidden_size"],
        kinds=tuple(Layer(mixers[attention], None if mlp == "moe" else ffn, mlp == "moe") for attention, mlp in types),
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
