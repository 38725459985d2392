"""What a config can say that is not modelled: found before anything else is read, so that nothing is priced wrongly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stacksweep.profiles.base import ProfileError, shown
from stacksweep.profiles.source import Document

UNDERSTOOD_TYPES = (
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

# What is not modelled -> the keys that announce it, unless they are null, false, zero or empty.
_ANNOUNCED_BY: dict[str, tuple[str, ...]] = {
    "latent attention": ("kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim"),
    "sparse attention": ("index_topk", "index_n_heads", "index_head_dim", "sparse_attention_config"),
    "linear attention": (
        "linear_num_value_heads",
        "linear_num_key_heads",
        "linear_value_head_dim",
        "linear_key_head_dim",
        "linear_attn_config",
        "full_attention_interval",
    ),
    "chunked attention": ("attention_chunk_size", "dual_chunk_attention_config"),
    "state-space layers": ("ssm_state_size", "mamba_num_heads", "mamba_n_heads", "mamba_d_state", "state_size"),
    "a pattern of layer kinds": ("hybrid_override_pattern", "hybrid_layer_pattern", "layers_block_type", "block_types"),
    "per-layer block lists": ("block_configs",),
    "shared experts": (
        "n_shared_experts",
        "num_shared_experts",
        "num_shared_expert",
        "moe_num_shared_experts",
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "shared_intermediate_size",
        "share_expert_dim",
    ),
    "experts beside the dense MLP of a layer": ("enable_moe_block",),
    "experts of another hidden size": ("routed_expert_hidden_size", "moe_latent_size"),
    "experts placed by another rule": (
        "mlp_layer_types",
        "moe_layers",
        "moe_layers_enum",
        "moe_layer_interval",
        "moe_layer_start_index",
        "moe_every_n_layers",
        "expert_layer_period",
    ),
    "dense layers of another width": ("intermediate_size_mlp", "dense_intermediate_size", "use_double_wide_mlp"),
    "global layers with their own head size": ("global_head_dim", "num_global_key_value_heads", "attention_k_eq_v"),
    "sliding layers with their own heads": ("swa_head_dim", "swa_num_attention_heads", "swa_num_key_value_heads"),
    "an output gate of the attention": ("attn_output_gate",),
    "KV caches shared between layers": ("num_kv_shared_layers",),
    "embeddings of every layer": ("hidden_size_per_layer_input",),
    "cross-attention layers": ("cross_attention_layers", "add_cross_attention"),
    "an encoder": ("is_encoder_decoder", "encoder_layers", "num_encoder_layers"),
}

_LAYER_WORDS = {
    "linear_attention": "linear attention",
    "chunked_attention": "chunked attention",
    "mamba": "state-space layers",
    "mamba2": "state-space layers",
}


def refuse_unmodelled(document: Document, tables: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a config that has what is not modelled.

    Parameters
    ----------
    document : Document
        The config.
    tables : sequence of Mapping
        The config and, where it has one, its text config.

    Raises
    ------
    ProfileError
        One line that names everything that is not modelled.
    """
    found: dict[str, str] = {}
    for table in tables:
        for words, evidence in _features(table):
            found.setdefault(words, evidence)
    problems = [f"{words} ({evidence})" for words, evidence in found.items()]
    for table in tables:
        model_type = table.get("model_type")
        if isinstance(model_type, str) and model_type not in UNDERSTOOD_TYPES:
            problems.append(f"model_type {model_type!r} (understood: {', '.join(UNDERSTOOD_TYPES)})")
            break
    if problems:
        raise ProfileError(f"{document.label}: not modelled: {'; '.join(problems)}")


def _features(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for words, keys in _ANNOUNCED_BY.items():
        for key in keys:
            value = config.get(key)
            if value not in (None, False, 0, "", [], {}):
                yield words, key if isinstance(value, list | dict) else f"{key}={shown(value)}"
    layer_types = config.get("layer_types")
    for word in layer_types if isinstance(layer_types, list) else ():
        if isinstance(word, str) and word not in ("full_attention", "sliding_attention"):
            yield _LAYER_WORDS.get(word, f"layers of type {word!r}"), f"layer_types has {word!r}"
    kinds = config.get("attn_type_list")
    if isinstance(kinds, list) and any(kind != 1 for kind in kinds):
        yield "linear attention", "attn_type_list"
    if config.get("mlp_hidden_act") == "relu2":
        yield "an MLP without gate", "mlp_hidden_act='relu2'"
