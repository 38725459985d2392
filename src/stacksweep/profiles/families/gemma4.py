"""Sliding layers, and full ones with heads of their own; experts, if any, beside the FFN of every layer: Gemma 4."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from stacksweep.profiles._validation import Flag, PositiveInteger, validated
from stacksweep.profiles.families.common import (
    Experts,
    Family,
    GroupedHeads,
    check_heads,
    needed,
    one_for_each_layer,
    read_experts,
)
from stacksweep.profiles.layers import Attention, Ffn, Layer
from stacksweep.profiles.source import Document

_PER_LAYER = "a list of full_attention and sliding_attention, one for each layer"


class _Sizes(GroupedHeads):
    intermediate_size: PositiveInteger
    tie_word_embeddings: Flag = True
    sliding_window: PositiveInteger | None = None
    layer_types: list[Literal["full_attention", "sliding_attention"]] = Field(description=_PER_LAYER)
    global_head_dim: PositiveInteger | None = None
    num_global_key_value_heads: PositiveInteger | None = None
    attention_k_eq_v: Flag = False
    enable_moe_block: Flag = False

    @model_validator(mode="after")
    def _heads_share_global_kv_heads(self) -> Self:
        kv_heads = self.num_global_key_value_heads or 1
        check_heads("num_global_key_value_heads", kv_heads, "num_attention_heads", self.num_attention_heads)
        return self


def _read(document: Document, text: dict[str, Any], _: str | None) -> tuple[_Sizes, list[Layer]]:
    sizes = validated(_Sizes, document, text)
    one_for_each_layer(document, "layer_types", sizes.layer_types, sizes.num_hidden_layers, _PER_LAYER)
    head_dim = sizes.global_head_dim or sizes.head_dim
    full = Attention(
        sizes.num_attention_heads,
        sizes.num_global_key_value_heads or sizes.num_key_value_heads,
        head_dim,
        head_dim,
        values_are_keys=sizes.attention_k_eq_v,
    )
    sliding = full
    if "sliding_attention" in sizes.layer_types:
        sliding = Attention(
            sizes.num_attention_heads,
            sizes.num_key_value_heads,
            sizes.head_dim,
            sizes.head_dim,
            "sliding",
            needed(document, sizes, "sliding_window", "layers slide"),
        )
    moe = None
    if sizes.enable_moe_block:
        moe, _routed = read_experts(document, sizes, text)
        if moe is None:
            document.missing("num_experts", "an integer above 1, as enable_moe_block is true")
    ffn = Ffn(sizes.intermediate_size)
    return sizes, [Layer(sliding if word == "sliding_attention" else full, ffn, moe) for word in sizes.layer_types]


FAMILY = Family(
    types=("gemma4", "gemma4_text"),
    architectures={"Gemma4ForCausalLM": "gemma4_text", "Gemma4ForConditionalGeneration": "gemma4"},
    schemas=(_Sizes, Experts),
    read=_read,
)
