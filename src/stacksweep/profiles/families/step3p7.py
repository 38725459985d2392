"""Full and sliding attention, the first layers dense, the others with experts and a shared one: Step 3.7."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from stacksweep.profiles._validation import PositiveInteger, validated
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

_PER_LAYER = "a list of full_attention and sliding_attention, one for each layer"


class _Sizes(GroupedHeads):
    intermediate_size: PositiveInteger | None = None
    sliding_window: PositiveInteger | None = None
    layer_types: list[Literal["full_attention", "sliding_attention"]] = Field(description=_PER_LAYER)
    share_expert_dim: PositiveInteger | None = None
    n_shared_experts: Bit | None = None


def _read(document: Document, text: dict[str, Any], _: str | None) -> tuple[_Sizes, list[Layer]]:
    sizes = validated(_Sizes, document, text)
    one_for_each_layer(document, "layer_types", sizes.layer_types, sizes.num_hidden_layers, _PER_LAYER)
    heads = (sizes.num_attention_heads, sizes.num_key_value_heads, sizes.head_dim, sizes.head_dim)
    full = sliding = Attention(*heads)
    if "sliding_attention" in sizes.layer_types:
        sliding = Attention(*heads, "sliding", needed(document, sizes, "sliding_window", "layers slide"))
    moe, routed = read_experts(document, sizes, text)
    shared = None
    if sizes.n_shared_experts:
        shared = Ffn(needed(document, sizes, "share_expert_dim", "an expert is shared"))
    return sizes, stack(
        [sliding if word == "sliding_attention" else full for word in sizes.layer_types],
        routed,
        lambda: Ffn(needed(document, sizes, "intermediate_size", "layers are dense")),
        moe,
        shared,
    )


FAMILY = Family(
    types=("step3p7",),
    architectures={"Step3p7FlashForCausalLM": "step3p7"},
    schemas=(_Sizes, Experts),
    read=_read,
)
