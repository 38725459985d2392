"""Layers of one part each: Mamba-2, full attention, an FFN or experts, all without gate: Nemotron-H, Nemotron 3."""

from __future__ import annotations

from typing import Annotated, Any, Literal

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
)
from stacksweep.profiles.layers import Attention, Ffn, Layer, Mamba2
from stacksweep.profiles.source import Document

_PATTERN = "one of M, *, - and E for each layer"
_BLOCKS = {"mamba": "M", "attention": "*", "mlp": "-", "moe": "E"}
_PER_LAYER = f"a list of {', '.join(_BLOCKS)}, one for each layer"


class _Sizes(GroupedHeads):
    attention_head_dim: PositiveInteger | None = None
    intermediate_size: PositiveInteger | None = None
    mlp_hidden_act: Literal["relu2"] = Field(description="'relu2'")
    hybrid_override_pattern: Annotated[str, Field(strict=True, description=_PATTERN)] | None = None
    layers_block_type: list[Literal["mamba", "attention", "mlp", "moe"]] | None = Field(
        default=None, description=_PER_LAYER
    )
    mamba_num_heads: PositiveInteger
    mamba_head_dim: PositiveInteger
    ssm_state_size: PositiveInteger
    n_groups: PositiveInteger
    conv_kernel: PositiveInteger
    moe_latent_size: PositiveInteger | None = None
    moe_shared_expert_intermediate_size: PositiveInteger | None = None
    n_shared_experts: Bit | None = None


def _read(document: Document, text: dict[str, Any], _: str | None) -> tuple[_Sizes, list[Layer]]:
    # older configs call the size of a head attention_head_dim
    head_dim = {"head_dim": text["attention_head_dim"]} if "attention_head_dim" in text else {}
    sizes = validated(_Sizes, document, {**head_dim, **text})
    parts = _parts(document, sizes)
    moe = None
    if "E" in parts:
        moe, _routed = read_experts(document, sizes, text, gated=False, latent_size=sizes.moe_latent_size or 0)
        if moe is None:
            document.missing("n_routed_experts", "an integer above 1, as layers have experts")
    shared = None
    if sizes.n_shared_experts:
        shared = Ffn(needed(document, sizes, "moe_shared_expert_intermediate_size", "an expert is shared"), gated=False)
    layers = {
        "M": lambda: Layer(
            Mamba2(
                sizes.mamba_num_heads,
                sizes.mamba_head_dim,
                sizes.ssm_state_size,
                sizes.n_groups,
                sizes.conv_kernel,
            )
        ),
        "*": lambda: Layer(
            Attention(sizes.num_attention_heads, sizes.num_key_value_heads, sizes.head_dim, sizes.head_dim)
        ),
        "-": lambda: Layer(ffn=Ffn(needed(document, sizes, "intermediate_size", "layers are dense"), gated=False)),
        "E": lambda: Layer(ffn=shared, moe=moe),
    }
    made = {part: layers[part]() for part in dict.fromkeys(parts)}
    return sizes, [made[part] for part in parts]


def _parts(document: Document, sizes: _Sizes) -> str:
    pattern, key, needs = sizes.hybrid_override_pattern, "hybrid_override_pattern", _PATTERN
    if pattern is None:
        if sizes.layers_block_type is None:
            document.missing(key, needs)
        key, needs = "layers_block_type", _PER_LAYER
        pattern = "".join(_BLOCKS[word] for word in sizes.layers_block_type)
    if set(pattern) - set("M*-E"):
        document.fail(key, pattern, needs)
    one_for_each_layer(document, key, pattern, sizes.num_hidden_layers, needs)
    return pattern


FAMILY = Family(
    types=("nemotron_h",),
    architectures={"NemotronHForCausalLM": "nemotron_h"},
    schemas=(_Sizes, Experts),
    read=_read,
    layer_words=(),
)
