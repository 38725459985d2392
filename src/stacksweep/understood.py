"""What was understood of a model: its layers by kind, their parameters, and what they keep of a sequence."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from stacksweep.profiles import ModelSpec
from stacksweep.profiles.layers import STATE_BYTES, Attention, Ffn, LatentAttention, Layer, LinearAttention, Mixer, Moe

CACHE_BYTES = 2
"""Bytes of an element of the cache where nothing else is said: 16 bits."""


def understood(model: ModelSpec) -> dict[str, Any]:
    """
    Describe a model in plain values.

    Parameters
    ----------
    model : ModelSpec

    Returns
    -------
    dict
        Sizes, parameters in all and of a token, bytes of cache (in 16 bits) and state (in 32 bits), and the kinds of
        layer. `cache_bytes_per_token` is what every layer keeps of a token, `cache_bytes_per_token_beyond_windows` what
        is left of it once the token is out of all windows and chunks; `window_cache_bytes` is a whole window of each
        layer that has one.
    """
    cache = sum(count * layer.cache().total for layer, count in model.kinds.items())
    return {
        "name": model.name,
        "model_type": model.model_type,
        "hidden_size": model.hidden_size,
        "vocab_size": model.vocab_size,
        "tie_word_embeddings": model.tie_word_embeddings,
        "num_hidden_layers": model.num_hidden_layers,
        "weight_elements": model.weight_elements(),
        "active_elements": model.active_elements(),
        "cache_bytes_per_token": CACHE_BYTES * cache,
        "cache_bytes_per_token_beyond_windows": CACHE_BYTES * model.cache_elements(),
        "window_cache_bytes": CACHE_BYTES * model.window_elements(),
        "state_bytes": model.state_bytes(),
        "kinds": [{"layers": count, **_kind(layer, model.hidden_size)} for layer, count in model.kinds.items()],
    }


def _kind(layer: Layer, hidden_size: int) -> dict[str, Any]:
    parts = {name: getattr(layer, name) for name in ("mixer", "ffn", "moe")}
    return {
        **{name: {"words": words_of(part), **asdict(part)} if part else None for name, part in parts.items()},
        "weight_elements": layer.weight_elements(hidden_size),
        "active_elements": layer.active_elements(hidden_size),
        "cache_bytes_per_token": CACHE_BYTES * layer.cache().total,
        "window": layer.window,
        "state_bytes": STATE_BYTES * layer.state().total,
    }


def words_of(part: Mixer | Ffn | Moe) -> str:
    """
    Describe a part of a layer.

    Parameters
    ----------
    part : Attention, LatentAttention, LinearAttention, Mamba2, Ffn or Moe

    Returns
    -------
    str
        Its kind and its sizes, in a few words.
    """
    return ", ".join(_words(part))


def _words(part: Mixer | Ffn | Moe) -> Iterator[str]:
    if isinstance(part, Attention):
        yield part.words + (f" of {part.window:,} tokens" if part.window else "")
        yield f"{part.heads} heads"
        values = "" if part.key_size == part.value_size else f" and {part.value_size}"
        yield f"{part.kv_heads} KV heads of {part.key_size}{values}"
        if part.values_are_keys:
            yield "values are keys"
        if part.output_gate:
            yield "output gate"
    elif isinstance(part, LatentAttention):
        yield part.words + (f" of {part.index_top_k:,} tokens" if part.index_top_k else "")
        yield f"{part.heads} heads"
        yield f"latent {part.latent_size} + {part.rope_size}"
    elif isinstance(part, LinearAttention):
        yield part.words
        yield f"{part.key_heads} key heads of {part.key_size}"
        yield f"{part.value_heads} value heads of {part.value_size}"
    elif isinstance(part, Ffn):
        yield f"FFN of {part.width:,}" + " without gate" * (not part.gated)
    elif isinstance(part, Moe):
        yield f"{part.top_k} of {part.experts} experts of {part.width:,}" + " without gate" * (not part.gated)
        if part.latent_size:
            yield f"latent {part.latent_size:,}"
    else:
        yield part.words
        yield f"{part.heads} heads of {part.head_size}"
        yield f"state {part.state_size}"


def kind_rows(model: ModelSpec) -> list[list[str]]:
    """
    Lay out the kinds of layer as a table.

    Parameters
    ----------
    model : ModelSpec

    Returns
    -------
    list of list of str
        Headings, then a row for each kind.
    """
    head = ["layers", "mixer", "MLP", "parameters (1e6)", "active (1e6)", "cache B/token", "state B"]
    rows = [
        [
            str(entry["layers"]),
            _part(entry, ("mixer",)),
            _part(entry, ("moe", "ffn")),
            f"{entry['weight_elements'] / 1e6:,.1f}",
            f"{entry['active_elements'] / 1e6:,.1f}",
            f"{entry['cache_bytes_per_token']:,}",
            f"{entry['state_bytes']:,}",
        ]
        for entry in understood(model)["kinds"]
    ]
    return [head, *rows]


def _part(entry: Mapping[str, Any], names: Sequence[str]) -> str:
    return " + ".join(entry[name]["words"] for name in names if entry[name]) or "-"
