"""Latent attention with shared experts, with or without a sparse indexer: DeepSeek V2 to V3.2, Kimi K2, GLM-5."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from stacksweep.profiles._validation import NaturalInteger, PositiveInteger, broken_rule, validated
from stacksweep.profiles.families.common import (
    Decoder,
    Experts,
    Family,
    needed,
    one_for_each_layer,
    read_experts,
    stack,
)
from stacksweep.profiles.layers import Ffn, LatentAttention, Layer
from stacksweep.profiles.source import Document

_PER_LAYER_MLP = "a list of dense and sparse, one for each layer"
_INDEXER = ("index_n_heads", "index_head_dim", "index_topk")


class _Sizes(Decoder):
    kv_lora_rank: PositiveInteger
    q_lora_rank: PositiveInteger | None = None
    qk_nope_head_dim: PositiveInteger
    qk_rope_head_dim: PositiveInteger
    v_head_dim: PositiveInteger
    index_n_heads: PositiveInteger | None = None
    index_head_dim: PositiveInteger | None = None
    index_topk: PositiveInteger | None = None
    intermediate_size: PositiveInteger | None = None
    n_shared_experts: NaturalInteger | None = None
    mlp_layer_types: list[Literal["dense", "sparse"]] | None = Field(default=None, description=_PER_LAYER_MLP)

    @model_validator(mode="after")
    def _whole_indexer(self) -> Self:
        if any(getattr(self, key) is not None for key in _INDEXER):
            for key in (*_INDEXER, "q_lora_rank"):
                if getattr(self, key) is None:
                    raise broken_rule(key, None, "an integer above 0, as the attention has an indexer")
        return self


def _read(document: Document, text: dict[str, Any], _: str | None) -> tuple[_Sizes, list[Layer]]:
    sizes = validated(_Sizes, document, text)
    mixer = LatentAttention(
        heads=sizes.num_attention_heads,
        latent_size=sizes.kv_lora_rank,
        query_latent_size=sizes.q_lora_rank or 0,
        nope_size=sizes.qk_nope_head_dim,
        rope_size=sizes.qk_rope_head_dim,
        value_size=sizes.v_head_dim,
        index_heads=sizes.index_n_heads or 0,
        index_size=sizes.index_head_dim or 0,
        index_top_k=sizes.index_topk or 0,
    )
    moe, routed = read_experts(document, sizes, text)
    if (kinds := sizes.mlp_layer_types) is not None:
        one_for_each_layer(document, "mlp_layer_types", kinds, sizes.num_hidden_layers, _PER_LAYER_MLP)
        if moe is None and "sparse" in kinds:
            document.fail("mlp_layer_types", kinds, "to be all dense, as the model has no experts")
        routed = tuple(word == "sparse" for word in kinds)
    shared = Ffn(moe.width * sizes.n_shared_experts) if moe and sizes.n_shared_experts else None
    return sizes, stack(
        (mixer,) * sizes.num_hidden_layers,
        routed,
        lambda: Ffn(needed(document, sizes, "intermediate_size", "layers are dense")),
        moe,
        shared,
    )


FAMILY = Family(
    types=("deepseek_v2", "deepseek_v3", "deepseek_v32", "glm_moe_dsa", "kimi_k2"),
    architectures={
        "DeepseekV2ForCausalLM": "deepseek_v2",
        "DeepseekV3ForCausalLM": "deepseek_v3",
        "DeepseekV32ForCausalLM": "deepseek_v32",
        "GlmMoeDsaForCausalLM": "glm_moe_dsa",
    },
    schemas=(_Sizes, Experts),
    read=_read,
    layer_words=(),
)
