"""Keys and values of different sizes, sliding layers with heads of their own, experts: MiMo V2."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, model_validator

from stacksweep.profiles._validation import PositiveInteger, broken_rule, validated
from stacksweep.profiles.families.common import (
    Bit,
    Experts,
    Family,
    GroupedHeads,
    check_heads,
    needed,
    one_for_each_layer,
    read_experts,
    stack,
)
from stacksweep.profiles.layers import Attention, Ffn, Layer
from stacksweep.profiles.source import Document

_PER_LAYER = "a list of 0 (full) and 1 (sliding), one for each layer"


class _Sizes(GroupedHeads):
    v_head_dim: PositiveInteger
    intermediate_size: PositiveInteger | None = None
    swa_num_attention_heads: PositiveInteger
    swa_num_key_value_heads: PositiveInteger
    swa_head_dim: PositiveInteger
    swa_v_head_dim: PositiveInteger
    sliding_window: PositiveInteger
    sliding_window_size: PositiveInteger | None = None
    attention_chunk_size: PositiveInteger | None = None
    hybrid_layer_pattern: list[Bit] = Field(description=_PER_LAYER)

    @model_validator(mode="after")
    def _sliding_heads_fit(self) -> Self:
        check_heads(
            "swa_num_key_value_heads",
            self.swa_num_key_value_heads,
            "swa_num_attention_heads",
            self.swa_num_attention_heads,
        )
        for key in ("sliding_window_size", "attention_chunk_size"):
            if getattr(self, key) not in (None, self.sliding_window):
                raise broken_rule(key, getattr(self, key), f"the value of sliding_window ({self.sliding_window})")
        return self


def _read(document: Document, text: dict[str, Any], _: str | None) -> tuple[_Sizes, list[Layer]]:
    sizes = validated(_Sizes, document, text)
    pattern = sizes.hybrid_layer_pattern
    one_for_each_layer(document, "hybrid_layer_pattern", pattern, sizes.num_hidden_layers, _PER_LAYER)
    full = Attention(sizes.num_attention_heads, sizes.num_key_value_heads, sizes.head_dim, sizes.v_head_dim)
    sliding = Attention(
        sizes.swa_num_attention_heads,
        sizes.swa_num_key_value_heads,
        sizes.swa_head_dim,
        sizes.swa_v_head_dim,
        "sliding",
        sizes.sliding_window,
    )
    moe, routed = read_experts(document, sizes, text)
    return sizes, stack(
        [sliding if slides else full for slides in pattern],
        routed,
        lambda: Ffn(needed(document, sizes, "intermediate_size", "layers are dense")),
        moe,
        None,
    )


FAMILY = Family(
    types=("mimo_v2", "mimo_v2_flash"),
    architectures={"MiMoV2FlashForCausalLM": "mimo_v2_flash", "MiMoV2ForCausalLM": "mimo_v2"},
    schemas=(_Sizes, Experts),
    read=_read,
    layer_words=(),
)
