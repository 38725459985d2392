"""Schema and rules of a HuggingFace-style config."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from stacksweep.profiles._model_features import UNDERSTOOD_TYPES, refuse_unmodelled
from stacksweep.profiles._validation import (
    AnyInteger,
    Flag,
    NaturalInteger,
    Open,
    PositiveInteger,
    broken_rule,
    validated,
)
from stacksweep.profiles.base import ProfileError
from stacksweep.profiles.model import ModelSpec
from stacksweep.profiles.source import Document

# Far above any model; keeps a slip of the pen from filling the memory with layers.
_MOST_LAYERS = 10_000

_ALWAYS_SLIDING = ("mistral", "mixtral")
_SLIDING_ON_DEMAND = tuple(name for name in UNDERSTOOD_TYPES if name.startswith(("qwen", "mimo")))

_PER_LAYER_ATTENTION = "a list of full_attention and sliding_attention, one for each layer"
_PER_LAYER_MLP = "a list of ffn and moe, one for each layer"


class _Sizes(Open):
    """Sizes of a model, and the keys that decide which layers slide."""

    hidden_size: PositiveInteger
    num_attention_heads: PositiveInteger
    num_key_value_heads: PositiveInteger
    head_dim: PositiveInteger | None = None
    num_hidden_layers: Annotated[
        int, Field(strict=True, ge=1, le=_MOST_LAYERS, description=f"an integer from 1 to {_MOST_LAYERS}")
    ]
    intermediate_size: PositiveInteger
    vocab_size: PositiveInteger
    tie_word_embeddings: Flag = False
    num_local_experts: AnyInteger | None = None
    num_experts: AnyInteger | None = None
    n_routed_experts: AnyInteger | None = None
    sliding_window: PositiveInteger | None = None
    use_sliding_window: Flag | None = None
    max_window_layers: NaturalInteger | None = None
    layer_types: list[Literal["full_attention", "sliding_attention"]] | None = Field(
        default=None, description=_PER_LAYER_ATTENTION
    )
    mlp_types: list[Literal["ffn", "moe"]] | None = Field(default=None, description=_PER_LAYER_MLP)

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        heads, kv_heads = self.num_attention_heads, self.num_key_value_heads
        if heads % kv_heads:
            raise broken_rule("num_key_value_heads", kv_heads, f"a divisor of num_attention_heads ({heads})")
        if self.head_dim is None and heads > self.hidden_size:
            needs = f"an integer of at most hidden_size ({self.hidden_size}), or head_dim beside it"
            raise broken_rule("num_attention_heads", heads, needs)
        return self

    @model_validator(mode="after")
    def _one_entry_for_each_layer(self) -> Self:
        for name, needs in (("layer_types", _PER_LAYER_ATTENTION), ("mlp_types", _PER_LAYER_MLP)):
            entries = getattr(self, name)
            if entries is not None and len(entries) != self.num_hidden_layers:
                raise broken_rule(name, entries, f"{needs} ({self.num_hidden_layers})")
        return self


class _Experts(Open):
    """What is only read when a model has experts."""

    num_experts_per_tok: PositiveInteger | None = None
    experts_per_token: PositiveInteger | None = None
    moe_intermediate_size: PositiveInteger
    first_k_dense_replace: NaturalInteger = 0
    mlp_only_layers: list[NaturalInteger] | None = Field(default=None, description="a list of layer numbers")
    decoder_sparse_step: PositiveInteger = 1
    interleave_moe_layer_step: PositiveInteger = 1
    moe_layer_freq: Any = 1

    @model_validator(mode="after")
    def _one_number_of_experts_per_token(self) -> Self:
        first, second = self.experts_per_token, self.num_experts_per_tok
        if first is None and second is None:
            raise broken_rule("num_experts_per_tok", None, "an integer above 0 and at most the number of experts")
        if first is not None and second is not None and first != second:
            raise broken_rule("experts_per_token", first, f"the value of num_experts_per_tok ({second})")
        return self


# Keys that must not say another thing beside a text config than in it.
_READ_KEYS = {*_Sizes.model_fields, *_Experts.model_fields} - {"tie_word_embeddings"}


def read_config(document: Document) -> ModelSpec:
    """Check a config and work out what each of its layers is.

    Raises
    ------
    ProfileError
        One line on what is not modelled, or on the first entry that is missing, of the wrong kind or inconsistent.
    """
    text, model_type = _text_model(document)
    if "num_attention_heads" in text:
        text.setdefault("num_key_value_heads", text["num_attention_heads"])
    sizes = validated(_Sizes, document, text)
    head_dim = sizes.head_dim or sizes.hidden_size // sizes.num_attention_heads
    if text.get("v_head_dim") not in (None, head_dim):
        raise ProfileError(
            f"{document.label}: not modelled: values of another size than the keys "
            f"(v_head_dim={text['v_head_dim']!r} beside {head_dim})"
        )
    sliding = _sliding_layers(document, sizes, model_type)
    experts, per_token, width, moe = _experts(document, sizes, text)
    return ModelSpec(
        name=document.name,
        model_type=model_type,
        hidden_size=sizes.hidden_size,
        num_attention_heads=sizes.num_attention_heads,
        num_key_value_heads=sizes.num_key_value_heads,
        head_dim=head_dim,
        num_hidden_layers=sizes.num_hidden_layers,
        intermediate_size=sizes.intermediate_size,
        vocab_size=sizes.vocab_size,
        tie_word_embeddings=sizes.tie_word_embeddings,
        num_experts=experts,
        experts_per_token=per_token,
        moe_intermediate_size=width,
        sliding_window=(sizes.sliding_window or 0) if any(sliding) else 0,
        sliding=sliding,
        moe=moe,
        provenance=document.provenance,
    )


def _text_model(document: Document) -> tuple[dict[str, Any], str | None]:
    """Find the part of a config that describes the text model, and its type."""
    whole = document.data
    text = whole.get("text_config")
    if text is not None and not isinstance(text, dict):
        document.fail("text_config", text, "a table")
    tables: list[dict[str, Any]] = [whole] if text is None else [whole, text]
    for table, place in zip(tables, ("", "text_config."), strict=False):
        if "model_type" in table and not isinstance(table["model_type"], str):
            document.fail(
                f"{place}model_type", table["model_type"], f"one of {', '.join(UNDERSTOOD_TYPES)}, or no entry"
            )
    refuse_unmodelled(document, tables)
    if text is None:
        return dict(whole), whole.get("model_type")
    model_type = text.get("model_type", whole.get("model_type"))
    if model_type is None:
        document.missing("text_config.model_type", f"one of {', '.join(UNDERSTOOD_TYPES)}")
    for key in sorted(_READ_KEYS & whole.keys()):
        if key not in text or whole[key] != text[key]:
            document.fail(key, whole[key], "to be left out or to be the same in text_config")
    tied = [table["tie_word_embeddings"] for table in tables if "tie_word_embeddings" in table]
    if len(tied) == 2 and tied[0] != tied[1]:
        document.fail("tie_word_embeddings", tied[0], "to be the same as in text_config")
    return {**text, **({"tie_word_embeddings": tied[0]} if tied else {})}, model_type


def _sliding_layers(document: Document, sizes: _Sizes, model_type: str | None) -> tuple[bool, ...]:
    """Which layers slide: by the explicit list, else by the habits of the model's family."""
    layers, window = sizes.num_hidden_layers, sizes.sliding_window
    if sizes.layer_types is not None:
        sliding = tuple(word == "sliding_attention" for word in sizes.layer_types)
        if any(sliding) and sizes.use_sliding_window is False:
            document.fail("use_sliding_window", False, "true, as layer_types has sliding layers")
    elif model_type in _ALWAYS_SLIDING:
        sliding = (window is not None,) * layers
    elif model_type in _SLIDING_ON_DEMAND or (model_type is None and sizes.use_sliding_window is not None):
        first = layers
        if sizes.use_sliding_window:
            if sizes.max_window_layers is None:
                document.missing("max_window_layers", "an integer of at least 0, as use_sliding_window is true")
            first = sizes.max_window_layers
            if window is None:
                document.missing("sliding_window", "an integer above 0, as use_sliding_window is true")
        sliding = tuple(layer >= first for layer in range(layers))
    elif window is not None and model_type != "llama":
        # llama never slides, whatever its config carries along; here a guess could be wrong
        raise ProfileError(
            f"{document.label}: layer_types: missing, needs {_PER_LAYER_ATTENTION}, as sliding_window is set"
        )
    else:
        sliding = (False,) * layers
    if any(sliding) and window is None:
        document.missing("sliding_window", "an integer above 0, as layers slide")
    return sliding


def _experts(document: Document, sizes: _Sizes, text: dict[str, Any]) -> tuple[int, int, int, tuple[bool, ...]]:
    """Work out the number of experts, experts per token, width of an expert, and which layers have experts."""
    number = max(0, *(n or 0 for n in (sizes.num_local_experts, sizes.num_experts, sizes.n_routed_experts)))
    if number <= 1:
        if sizes.mlp_types is not None and "moe" in sizes.mlp_types:
            document.fail("mlp_types", sizes.mlp_types, "to be all ffn, as the model has no experts")
        return 0, 0, sizes.intermediate_size, (False,) * sizes.num_hidden_layers
    experts = validated(_Experts, document, {"moe_intermediate_size": sizes.intermediate_size, **text})
    key = "num_experts_per_tok" if experts.experts_per_token is None else "experts_per_token"
    per_token = getattr(experts, key)
    if per_token > number:
        document.fail(key, per_token, f"an integer of at most the number of experts ({number})")
    return number, per_token, experts.moe_intermediate_size, _routed_layers(document, sizes, experts)


def _routed_layers(document: Document, sizes: _Sizes, experts: _Experts) -> tuple[bool, ...]:
    """Which layers have routed experts: by the explicit list, else where every given rule agrees."""
    layers = sizes.num_hidden_layers
    if sizes.mlp_types is not None:
        return tuple(word == "moe" for word in sizes.mlp_types)
    if experts.first_k_dense_replace > layers:
        document.fail("first_k_dense_replace", experts.first_k_dense_replace, f"an integer of at most {layers}")
    dense = experts.mlp_only_layers or []
    for number in dense:
        if number >= layers:
            document.fail("mlp_only_layers", number, f"layer numbers below {layers}")
    frequency = _frequency(document, experts.moe_layer_freq, layers)
    return tuple(
        layer >= experts.first_k_dense_replace
        and layer not in dense
        and (layer + 1) % experts.decoder_sparse_step == 0
        and (layer + 1) % experts.interleave_moe_layer_step == 0
        and frequency[layer]
        for layer in range(layers)
    )


def _frequency(document: Document, value: Any, layers: int) -> list[bool]:
    """Read `moe_layer_freq`: n for every n-th layer from the first, or a 0 or 1 for each layer."""
    needs = f"an integer above 0, or a list of 0 and 1, one for each layer ({layers})"
    if isinstance(value, list):
        if len(value) != layers or any(isinstance(entry, bool) or entry not in (0, 1) for entry in value):
            document.fail("moe_layer_freq", value, needs)
        return [entry == 1 for entry in value]
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        document.fail("moe_layer_freq", value, needs)
    return [layer % value == 0 for layer in range(layers)]
