"""Decoders of one kind of attention, full or sliding, with FFNs or routed experts: most families."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from stacksweep.profiles._validation import Flag, NaturalInteger, PositiveInteger, broken_rule, validated
from stacksweep.profiles.base import ProfileError
from stacksweep.profiles.families.common import (
    Decoder,
    Experts,
    Family,
    check_heads,
    one_for_each_layer,
    read_experts,
    stack,
)
from stacksweep.profiles.layers import Attention, Ffn, Layer
from stacksweep.profiles.source import Document

_TYPES = (
    "gpt_oss",
    "llama",
    "mimo",
    "minimax_m2",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "qwen3_vl",
    "qwen3_vl_moe",
    "qwen3_vl_moe_text",
    "qwen3_vl_text",
)
_ALWAYS_SLIDING = ("mistral", "mixtral")
_SLIDING_ON_DEMAND = tuple(name for name in _TYPES if name.startswith(("qwen", "mimo")))

_PER_LAYER_ATTENTION = "a list of full_attention and sliding_attention, one for each layer"
_PER_LAYER_MLP = "a list of ffn and moe, one for each layer"


class _Sizes(Decoder):
    num_key_value_heads: PositiveInteger
    head_dim: PositiveInteger | None = None
    v_head_dim: Any = None
    intermediate_size: PositiveInteger
    sliding_window: PositiveInteger | None = None
    use_sliding_window: Flag | None = None
    max_window_layers: NaturalInteger | None = None
    layer_types: list[Literal["full_attention", "sliding_attention"]] | None = Field(
        default=None, description=_PER_LAYER_ATTENTION
    )
    mlp_types: list[Literal["ffn", "moe"]] | None = Field(default=None, description=_PER_LAYER_MLP)

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        heads = self.num_attention_heads
        check_heads("num_key_value_heads", self.num_key_value_heads, "num_attention_heads", heads)
        if self.head_dim is None and heads > self.hidden_size:
            needs = f"an integer of at most hidden_size ({self.hidden_size}), or head_dim beside it"
            raise broken_rule("num_attention_heads", heads, needs)
        return self


def _read(document: Document, text: dict[str, Any], model_type: str | None) -> tuple[_Sizes, list[Layer]]:
    text = dict(text)
    if "num_attention_heads" in text:
        text.setdefault("num_key_value_heads", text["num_attention_heads"])
    sizes = validated(_Sizes, document, text)
    layers = sizes.num_hidden_layers
    for key, needs in (("layer_types", _PER_LAYER_ATTENTION), ("mlp_types", _PER_LAYER_MLP)):
        if (entries := getattr(sizes, key)) is not None:
            one_for_each_layer(document, key, entries, layers, needs)
    head_dim = sizes.head_dim or sizes.hidden_size // sizes.num_attention_heads
    if sizes.v_head_dim not in (None, head_dim):
        raise ProfileError(
            f"{document.label}: not modelled: values of another size than the keys "
            f"(v_head_dim={sizes.v_head_dim!r} beside {head_dim})"
        )
    heads = (sizes.num_attention_heads, sizes.num_key_value_heads, head_dim, head_dim)
    full = Attention(*heads)
    sliding = Attention(*heads, "sliding", sizes.sliding_window or 0)
    mixers = [sliding if slides else full for slides in _sliding_layers(document, sizes, model_type)]
    moe, routed = read_experts(document, sizes, {"moe_intermediate_size": sizes.intermediate_size, **text})
    if sizes.mlp_types is not None:
        if moe is None and "moe" in sizes.mlp_types:
            document.fail("mlp_types", sizes.mlp_types, "to be all ffn, as the model has no experts")
        routed = tuple(word == "moe" for word in sizes.mlp_types)
    return sizes, stack(mixers, routed, lambda: Ffn(sizes.intermediate_size), moe, None)


def _sliding_layers(document: Document, sizes: _Sizes, model_type: str | None) -> tuple[bool, ...]:
    """Which layers slide: by the explicit list, else by the habits of the model's family."""
    layers, window = sizes.num_hidden_layers, sizes.sliding_window
    if sizes.layer_types is not None:
        sliding = tuple(word == "sliding_attention" for word in sizes.layer_types)
        if any(sliding) and sizes.use_sliding_window is False:
            document.fail("use_sliding_window", False, "true, as layer_types has sliding layers")
    elif model_type in _ALWAYS_SLIDING:
        sliding = (window is not None,) * layers
    elif model_type in _SLIDING_ON_DEMAND or (model_type is None and sizes.use_sliding_window is not None):
        first = layers
        if sizes.use_sliding_window:
            if sizes.max_window_layers is None:
                document.missing("max_window_layers", "an integer of at least 0, as use_sliding_window is true")
            first = sizes.max_window_layers
            if window is None:
                document.missing("sliding_window", "an integer above 0, as use_sliding_window is true")
        sliding = tuple(layer >= first for layer in range(layers))
    elif window is not None and model_type != "llama":
        # llama never slides, whatever its config carries along; here a guess could be wrong
        raise ProfileError(
            f"{document.label}: layer_types: missing, needs {_PER_LAYER_ATTENTION}, as sliding_window is set"
        )
    else:
        sliding = (False,) * layers
    if any(sliding) and window is None:
        document.missing("sliding_window", "an integer above 0, as layers slide")
    return sliding


FAMILY = Family(
    types=_TYPES,
    architectures={
        "GptOssForCausalLM": "gpt_oss",
        "LlamaForCausalLM": "llama",
        "MiMoForCausalLM": "mimo",
        "MiniMaxM2ForCausalLM": "minimax_m2",
        "MistralForCausalLM": "mistral",
        "MixtralForCausalLM": "mixtral",
        "Qwen2ForCausalLM": "qwen2",
        "Qwen3ForCausalLM": "qwen3",
        "Qwen3MoeForCausalLM": "qwen3_moe",
        "Qwen3VLForConditionalGeneration": "qwen3_vl",
        "Qwen3VLMoeForConditionalGeneration": "qwen3_vl_moe",
    },
    schemas=(_Sizes, Experts),
    read=_read,
)
