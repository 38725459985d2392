"""From the layers of a model to the rows of their kinds that kernels read."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stacksweep.columns import Array
from stacksweep.kernels import rows
from stacksweep.profiles import ModelSpec
from stacksweep.profiles.layers import STATE_BYTES, Attention, LatentAttention, Layer, LinearAttention, Mamba2


def kinds_of(model: ModelSpec) -> list[Layer]:
    """Kinds of layer of a model in the order of their rows: those without a window and without experts first."""
    return sorted(model.kinds, key=lambda layer: (layer.window > 0, layer.moe is not None))


def kind_rows(models: Sequence[ModelSpec]) -> tuple[Array, Array]:
    """
    Rows of all kinds of layer.

    Parameters
    ----------
    models : sequence of ModelSpec

    Returns
    -------
    table : record array, (kinds of all models,)
        Rows of `rows.KIND`.
    first : int array, (models,)
        Where the kinds of each model begin.
    """
    found = [(layer, model.hidden_size) for model in models for layer in kinds_of(model)]
    table = np.zeros(len(found), rows.KIND)
    for row, (layer, hidden_size) in zip(table, found, strict=True):
        for name, value in kind_row(layer, hidden_size).items():
            row[name] = value
    counts = [len(model.kinds) for model in models]
    return table, np.cumsum([0, *counts[:-1]])


def kind_row(layer: Layer, hidden_size: int) -> dict[str, Any]:
    """Fields of a row of `rows.KIND`; those that are missing are 0."""
    row: dict[str, Any] = {"mixer": rows.NO_MIXER, "ffn": layer.ffn is not None, "moe": layer.moe is not None}
    mixer = layer.mixer
    if isinstance(mixer, Attention):
        row |= _attention(mixer, hidden_size)
    elif isinstance(mixer, LatentAttention):
        row |= _latent(mixer, hidden_size)
    elif isinstance(mixer, LinearAttention):
        row |= _linear(mixer, hidden_size)
    elif mixer is not None:
        row |= _mamba2(mixer, hidden_size)
    if layer.ffn:
        row |= {"ffn_width": layer.ffn.width, "ffn_matrices": 2 + layer.ffn.gated}
    if layer.moe:
        row |= {
            "expert_width": layer.moe.width,
            "expert_matrices": 2 + layer.moe.gated,
            "router_weights": layer.moe.weights(hidden_size).total,
        }
    return row


def _attention(mixer: Attention, hidden_size: int) -> dict[str, Any]:
    # the projections of KV heads follow from their sizes: they are sharded or replicated
    projected = mixer.heads * (mixer.key_size + mixer.output_gate * mixer.value_size)
    pair = 2 * mixer.heads * (mixer.key_size + mixer.value_size)
    reach = mixer.window or np.inf
    return {
        "mixer": rows.ATTENTION_WITH_HEADS,
        "heads": mixer.heads,
        "kv_heads": mixer.kv_heads,
        "key_size": mixer.key_size,
        "value_size": mixer.value_size,
        "cached_value_size": 0 if mixer.values_are_keys else mixer.value_size,
        "gate": mixer.output_gate,
        "window": reach,
        "attended": reach,
        "chunk": mixer.window if mixer.reach == "chunked" else 0,
        "sharded_weights": mixer.weights(hidden_size).total - hidden_size * mixer.cache().total,
        "sharded_rows": projected,
        "out_width": mixer.heads * mixer.value_size,
        "prefill_pair": pair,
        "decode_pair": pair,
    }


def _latent(mixer: LatentAttention, hidden_size: int) -> dict[str, Any]:
    weights = mixer.weights(hidden_size)
    out_width = mixer.heads * mixer.value_size
    keys = mixer.nope_size + mixer.rope_size
    return {
        "mixer": rows.OTHER_MIXER,
        "heads": mixer.heads,
        "window": np.inf,
        "attended": mixer.index_top_k or np.inf,
        "replicated_cache": mixer.latent_size + mixer.rope_size,
        "replicated_weights": weights.replicated,
        "sharded_weights": weights.sharded,
        "out_width": out_width,
        # queries, and keys and values once they are expanded; the part of a key with position is shared
        "sharded_rows": mixer.heads * (keys + mixer.nope_size + mixer.value_size),
        "replicated_rows": mixer.rope_size,
        "prefill_pair": 2 * mixer.heads * (keys + mixer.value_size),
        # keys and values stay latent in decode
        "decode_pair": 2 * mixer.heads * (2 * mixer.latent_size + mixer.rope_size),
        "index_pair": 2 * mixer.index_heads * mixer.index_size,
        "index_cache": mixer.index_size,
        "index_rows": (mixer.index_heads + 1) * mixer.index_size,
    }


def _linear(mixer: LinearAttention, hidden_size: int) -> dict[str, Any]:
    values = mixer.value_heads * mixer.value_size
    # a token decays the state, reads it, corrects it and reads the output: 8 FLOP for each element
    flop = 8 * values * mixer.key_size
    return _recurrent(mixer, hidden_size, values, mixer.convolved + values + 2 * mixer.value_heads, flop)


def _mamba2(mixer: Mamba2, hidden_size: int) -> dict[str, Any]:
    channels = mixer.heads * mixer.head_size
    # a token decays the state, adds to it and reads the output: 6 FLOP for each element
    flop = 6 * channels * mixer.state_size
    return _recurrent(mixer, hidden_size, channels, mixer.convolved + channels + mixer.heads, flop)


def _recurrent(
    mixer: LinearAttention | Mamba2, hidden_size: int, out_width: int, projected: int, flop: int
) -> dict[str, Any]:
    return {
        "mixer": rows.OTHER_MIXER,
        "heads": mixer.heads,
        "state": STATE_BYTES * mixer.state().total,
        "sharded_weights": mixer.weights(hidden_size).total,
        "out_width": out_width,
        "sharded_rows": projected,
        "scan": flop,
    }
