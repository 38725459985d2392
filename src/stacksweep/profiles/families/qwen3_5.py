"""Gated delta rule in three layers of four, gated full attention in the others: Qwen3.5."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from stacksweep.profiles._validation import Flag, PositiveInteger, validated
from stacksweep.profiles.families.common import (
    Experts,
    Family,
    GroupedHeads,
    needed,
    one_for_each_layer,
    read_experts,
    stack,
)
from stacksweep.profiles.layers import Attention, Ffn, Layer, LinearAttention
from stacksweep.profiles.source import Document

_PER_LAYER = "a list of full_attention and linear_attention, one for each layer"


class _Sizes(GroupedHeads):
    intermediate_size: PositiveInteger | None = None
    attn_output_gate: Flag = True
    linear_num_key_heads: PositiveInteger
    linear_num_value_heads: PositiveInteger
    linear_key_head_dim: PositiveInteger
    linear_value_head_dim: PositiveInteger
    linear_conv_kernel_dim: PositiveInteger
    full_attention_interval: PositiveInteger | None = None
    layer_types: list[Literal["full_attention", "linear_attention"]] | None = Field(
        default=None, description=_PER_LAYER
    )
    shared_expert_intermediate_size: PositiveInteger | None = None


def _read(document: Document, text: dict[str, Any], _: str | None) -> tuple[_Sizes, list[Layer]]:
    sizes = validated(_Sizes, document, text)
    head_dim = sizes.head_dim
    full = Attention(
        sizes.num_attention_heads,
        sizes.num_key_value_heads,
        head_dim,
        head_dim,
        output_gate=sizes.attn_output_gate,
    )
    linear = LinearAttention(
        sizes.linear_num_key_heads,
        sizes.linear_num_value_heads,
        sizes.linear_key_head_dim,
        sizes.linear_value_head_dim,
        sizes.linear_conv_kernel_dim,
    )
    mixers = [full if is_full else linear for is_full in _full_layers(document, sizes)]
    moe, routed = read_experts(document, sizes, text)
    shared = Ffn(sizes.shared_expert_intermediate_size) if sizes.shared_expert_intermediate_size else None
    return sizes, stack(
        mixers, routed, lambda: Ffn(needed(document, sizes, "intermediate_size", "layers are dense")), moe, shared
    )


def _full_layers(document: Document, sizes: _Sizes) -> list[bool]:
    layers = sizes.num_hidden_layers
    if sizes.layer_types is not None:
        one_for_each_layer(document, "layer_types", sizes.layer_types, layers, _PER_LAYER)
        return [word == "full_attention" for word in sizes.layer_types]
    if sizes.full_attention_interval is None:
        document.missing("layer_types", f"{_PER_LAYER}, or full_attention_interval")
    return [(layer + 1) % sizes.full_attention_interval == 0 for layer in range(layers)]


FAMILY = Family(
    types=("qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text"),
    architectures={
        "Qwen3_5ForCausalLM": "qwen3_5_text",
        "Qwen3_5ForConditionalGeneration": "qwen3_5",
        "Qwen3_5MoeForCausalLM": "qwen3_5_moe_text",
        "Qwen3_5MoeForConditionalGeneration": "qwen3_5_moe",
    },
    schemas=(_Sizes, Experts),
    read=_read,
    layer_words=("full_attention", "linear_attention"),
)
