"""What a config can say that is not modelled: found before anything else is read, so that nothing is priced wrongly."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stacksweep.profiles.base import ProfileError, shown
from stacksweep.profiles.families import ARCHITECTURES, BY_TYPE, STANDARD, UNDERSTOOD
from stacksweep.profiles.families.common import Family
from stacksweep.profiles.source import Document

# A structure -> the keys that announce it, unless they are null, false, zero or empty. A family models those that it
# reads.
_ANNOUNCED_BY: dict[str, tuple[str, ...]] = {
    "latent attention": ("kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim"),
    "sparse attention": ("index_topk", "index_n_heads", "index_head_dim", "sparse_attention_config", "compress_ratios"),
    "an indexer shared between layers": ("index_topk_freq", "index_topk_pattern", "indexer_types"),
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
    "sliding layers with their own heads": (
        "swa_head_dim",
        "swa_v_head_dim",
        "swa_num_attention_heads",
        "swa_num_key_value_heads",
        "attention_other_setting",
    ),
    "an output gate of the attention": ("attn_output_gate", "mla_use_output_gate"),
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


# What a key of a structure looks like. Only where no type vouches for a config, as types have many harmless keys.
_STRUCTURAL = re.compile(r"^(num|n)_|_(dim|heads|layers|experts|pattern|rank|size|width)$")
_HARMLESS = {
    "chunk_size_feed_forward",
    "encoder_no_repeat_ngram_size",
    "ep_size",
    "mtp_num_hidden_layers",
    "mtp_transformer_layers",
    "n_group",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_logits_to_keep",
    "num_mtp_modules",
    "num_nextn_predict_layers",
    "num_return_sequences",
    "rotary_dim",
    "type_vocab_size",
}
_NONE: tuple[Any, ...] = (None, False, 0, "", [], {})


def refuse_unmodelled(
    document: Document, tables: Sequence[Mapping[str, Any]], family: Family, model_type: str | None
) -> None:
    """Refuse a config that has what is not modelled.

    Parameters
    ----------
    document : Document
        The config.
    tables : sequence of Mapping
        The config and, where it has one, its text config.
    family : Family
        How it is to be read.
    model_type : str or None
        Type of the text model, where there is one.

    Raises
    ------
    ProfileError
        One line that names everything that is not modelled.
    """
    found: dict[str, str] = {}
    for table in tables:
        for words, evidence in _features(table, family):
            found.setdefault(words, evidence)
    problems = [f"{words} ({evidence})" for words, evidence in found.items()]
    if model_type is None:
        problems += _unvouched(tables[0])
    for table in tables:
        name = table.get("model_type")
        if isinstance(name, str) and name not in BY_TYPE:
            problems.append(f"model_type {name!r} (understood: {UNDERSTOOD})")
            break
    if problems:
        raise ProfileError(f"{document.label}: not modelled: {'; '.join(problems)}")


def _features(config: Mapping[str, Any], family: Family) -> Iterator[tuple[str, str]]:
    for words, keys in _ANNOUNCED_BY.items():
        for key in keys:
            value = config.get(key)
            if key not in family.keys and value not in _NONE:
                yield words, _evidence(key, value)
    layer_types = config.get("layer_types")
    for word in layer_types if isinstance(layer_types, list) else ():
        if isinstance(word, str) and word not in family.layer_words:
            yield _LAYER_WORDS.get(word, f"layers of type {word!r}"), f"layer_types has {word!r}"
    kinds = config.get("attn_type_list")
    if isinstance(kinds, list) and any(kind != 1 for kind in kinds):
        yield "linear attention", "attn_type_list"
    if config.get("mlp_hidden_act") == "relu2" and "mlp_hidden_act" not in family.keys:
        yield "an MLP without gate", "mlp_hidden_act='relu2'"


def _unvouched(config: Mapping[str, Any]) -> Iterator[str]:
    """Find what is unknown in a config without type: its architecture, and keys that look like a structure."""
    names = config.get("architectures")
    for name in names if isinstance(names, list) else ():
        if not isinstance(name, str) or name not in ARCHITECTURES:
            yield f"architecture {name!r} without model_type (understood: {UNDERSTOOD})"
    announced = {key for keys in _ANNOUNCED_BY.values() for key in keys}
    for key, value in config.items():
        known = key in STANDARD.keys or key in announced or key in _HARMLESS
        if not known and _STRUCTURAL.search(key) and value not in _NONE:
            yield f"an unknown key in a config without model_type ({_evidence(key, value)})"


def _evidence(key: str, value: Any) -> str:
    return key if isinstance(value, list | dict) else f"{key}={shown(value)}"
