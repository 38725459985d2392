"""Chunked and full attention, experts in every n-th layer, with one shared expert: Llama 4."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from stacksweep.profiles._validation import NaturalInteger, PositiveInteger, validated
from stacksweep.profiles.families.common import (
    Bit,
    Experts,
    Family,
    GroupedHeads,
    needed,
    one_for_each_layer,
    read_experts,
    stack,
)
from stacksweep.profiles.layers import Attention, Ffn, Layer
from stacksweep.profiles.source import Document

_PER_LAYER = "a list of full_attention and chunked_attention, one for each layer"
_ROPE = "a list of 0 and 1, one for each layer"


class _Sizes(GroupedHeads):
    intermediate_size: PositiveInteger
    intermediate_size_mlp: PositiveInteger | None = None
    attention_chunk_size: PositiveInteger | None = None
    no_rope_layer_interval: PositiveInteger = 4
    no_rope_layers: list[Bit] | None = Field(default=None, description=_ROPE)
    layer_types: list[Literal["full_attention", "chunked_attention"]] | None = Field(
        default=None, description=_PER_LAYER
    )
    moe_layers: list[NaturalInteger] | None = Field(default=None, description="a list of layer numbers")


def _read(document: Document, text: dict[str, Any], _: str | None) -> tuple[_Sizes, list[Layer]]:
    sizes = validated(_Sizes, document, text)
    layers, head_dim = sizes.num_hidden_layers, sizes.head_dim
    chunked = _chunked_layers(document, sizes)
    heads = (sizes.num_attention_heads, sizes.num_key_value_heads, head_dim, head_dim)
    near = far = Attention(*heads)
    if any(chunked):
        near = Attention(*heads, "chunked", needed(document, sizes, "attention_chunk_size", "layers are chunked"))
    # the width of a routed expert is that of the shared one
    moe, routed = read_experts(document, sizes, {"moe_intermediate_size": sizes.intermediate_size, **text})
    if moe and sizes.moe_layers is not None:
        if not sizes.moe_layers or max(sizes.moe_layers) >= layers:
            document.fail("moe_layers", sizes.moe_layers, f"layer numbers below {layers}, at least one")
        routed = tuple(layer in sizes.moe_layers for layer in range(layers))
    return sizes, stack(
        [near if is_near else far for is_near in chunked],
        routed,
        lambda: Ffn(needed(document, sizes, "intermediate_size_mlp", "layers are dense")),
        moe,
        Ffn(sizes.intermediate_size),
    )


def _chunked_layers(document: Document, sizes: _Sizes) -> list[bool]:
    """Layers with position embeddings are chunked: all but every fourth."""
    layers = sizes.num_hidden_layers
    if sizes.layer_types is not None:
        one_for_each_layer(document, "layer_types", sizes.layer_types, layers, _PER_LAYER)
        return [word == "chunked_attention" for word in sizes.layer_types]
    if sizes.no_rope_layers:
        one_for_each_layer(document, "no_rope_layers", sizes.no_rope_layers, layers, _ROPE)
        return [has_rope == 1 for has_rope in sizes.no_rope_layers]
    return [(layer + 1) % sizes.no_rope_layer_interval != 0 for layer in range(layers)]


FAMILY = Family(
    types=("llama4", "llama4_text"),
    architectures={"Llama4ForCausalLM": "llama4_text", "Llama4ForConditionalGeneration": "llama4"},
    schemas=(_Sizes, Experts),
    read=_read,
    layer_words=("full_attention", "chunked_attention"),
)
