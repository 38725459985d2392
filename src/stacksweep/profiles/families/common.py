"""What the adapters of all families share: sizes of a decoder, and which of its layers have experts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from stacksweep.profiles._validation import (
    AnyInteger,
    Flag,
    NaturalInteger,
    Open,
    PositiveInteger,
    broken_rule,
    validated,
)
from stacksweep.profiles.layers import Ffn, Layer, Mixer, Moe
from stacksweep.profiles.source import Document

# Far above any model; keeps a slip of the pen from filling the memory with layers.
_MOST_LAYERS = 10_000

Bit = Annotated[int, Field(strict=True, ge=0, le=1, description="0 or 1")]
"""A whole number that stands for yes or no."""

PER_TOKEN_KEYS = ("num_experts_per_tok", "experts_per_token", "num_experts_per_token", "top_k_experts")
"""Names for the experts that a token takes."""


class Decoder(Open):
    """What every decoder has."""

    hidden_size: PositiveInteger
    num_attention_heads: PositiveInteger
    num_hidden_layers: Annotated[
        int, Field(strict=True, ge=1, le=_MOST_LAYERS, description=f"an integer from 1 to {_MOST_LAYERS}")
    ]
    vocab_size: PositiveInteger
    tie_word_embeddings: Flag = False
    num_local_experts: AnyInteger | None = None
    num_experts: AnyInteger | None = None
    n_routed_experts: AnyInteger | None = None

    @property
    def expert_count(self) -> int:
        """Routed experts of a layer; 0 without."""
        number = max(0, *(n or 0 for n in (self.num_local_experts, self.num_experts, self.n_routed_experts)))
        return number if number > 1 else 0


class GroupedHeads(Decoder):
    """A decoder whose query heads share KV heads."""

    num_key_value_heads: PositiveInteger
    head_dim: PositiveInteger

    @model_validator(mode="after")
    def _heads_share_kv_heads(self) -> Self:
        check_heads("num_key_value_heads", self.num_key_value_heads, "num_attention_heads", self.num_attention_heads)
        return self


class Experts(Open):
    """What is only read when a model has experts."""

    num_experts_per_tok: PositiveInteger | None = None
    experts_per_token: PositiveInteger | None = None
    num_experts_per_token: PositiveInteger | None = None
    top_k_experts: PositiveInteger | None = None
    moe_intermediate_size: PositiveInteger
    first_k_dense_replace: NaturalInteger = 0
    mlp_only_layers: list[NaturalInteger] | None = Field(default=None, description="a list of layer numbers")
    decoder_sparse_step: PositiveInteger = 1
    interleave_moe_layer_step: PositiveInteger = 1
    moe_layer_freq: Any = 1

    @property
    def per_token_key(self) -> str:
        """Name under which the experts of a token are given."""
        return next(key for key in PER_TOKEN_KEYS if getattr(self, key) is not None)

    @model_validator(mode="after")
    def _one_number_of_experts_per_token(self) -> Self:
        given = {key: getattr(self, key) for key in PER_TOKEN_KEYS if getattr(self, key) is not None}
        if not given:
            raise broken_rule(PER_TOKEN_KEYS[0], None, "an integer above 0 and at most the number of experts")
        first, number = next(iter(given.items()))
        for key, other in given.items():
            if other != number:
                raise broken_rule(key, other, f"the value of {first} ({number})")
        return self


@dataclass(frozen=True)
class Family:
    """
    How the configs of one family are read.

    Attributes
    ----------
    types : tuple of str
        Every `model_type` of the family.
    architectures : Mapping
        `model_type` by the name of an architecture, for configs that have only that.
    schemas : tuple of type
        Keys that are read. Keys that tell of a structure (`_model_features`) and are in none of them are refused.
    read : callable
        From a document, its text config and its type to sizes and layers.
    layer_words : tuple of str
        What `layer_types` may hold.
    """

    types: tuple[str, ...]
    architectures: Mapping[str, str]
    schemas: tuple[type[Open], ...]
    read: Callable[[Document, dict[str, Any], str | None], tuple[Decoder, Sequence[Layer]]]
    layer_words: tuple[str, ...] = ("full_attention", "sliding_attention")

    @property
    def keys(self) -> frozenset[str]:
        """All keys that are read."""
        return frozenset(key for schema in self.schemas for key in schema.model_fields)


def check_heads(key: str, kv_heads: int, of: str, heads: int) -> None:
    """Raise the error of KV heads that do not divide the query heads, inside a validator."""
    if heads % kv_heads:
        raise broken_rule(key, kv_heads, f"a divisor of {of} ({heads})")


def needed(document: Document, sizes: Open, key: str, why: str) -> int:
    """Take a size that only some configs of a family need."""
    value: int | None = getattr(sizes, key)
    if value is None:
        document.missing(key, f"an integer above 0, as {why}")
    return value


def one_for_each_layer(document: Document, key: str, values: Sequence[Any], layers: int, needs: str) -> None:
    """Check the length of a list that has an entry for each layer."""
    if len(values) != layers:
        document.fail(key, values, f"{needs} ({layers})")


def read_experts(
    document: Document, sizes: Decoder, text: dict[str, Any], *, gated: bool = True, latent_size: int = 0
) -> tuple[Moe | None, tuple[bool, ...]]:
    """
    Work out the routed experts, and where the rules of the config put them.

    Returns
    -------
    Moe or None
        The experts of a layer that has them; None for a model without.
    tuple of bool
        Layer by layer, whether it has them: where every given rule agrees.
    """
    number, layers = sizes.expert_count, sizes.num_hidden_layers
    if not number:
        return None, (False,) * layers
    experts = validated(Experts, document, text)
    key = experts.per_token_key
    per_token: int = getattr(experts, key)
    if per_token > number:
        document.fail(key, per_token, f"an integer of at most the number of experts ({number})")
    moe = Moe(number, per_token, experts.moe_intermediate_size, gated, latent_size)
    return moe, _routed_layers(document, layers, experts)


def _routed_layers(document: Document, layers: int, experts: Experts) -> tuple[bool, ...]:
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


def stack(
    mixers: Sequence[Mixer], routed: Sequence[bool], dense: Callable[[], Ffn], moe: Moe | None, beside: Ffn | None
) -> list[Layer]:
    """
    Put mixers and MLPs together.

    Parameters
    ----------
    mixers : sequence of Mixer
        Of each layer.
    routed : sequence of bool
        Layer by layer, whether it has experts.
    dense : callable
        Gives the FFN of layers without experts; only asked where there are any.
    moe, beside : Moe or None, Ffn or None
        Experts of the others, and what every token takes beside them.
    """
    ffn = None if all(routed) else dense()
    return [
        Layer(mixer, beside, moe) if has_experts else Layer(mixer, ffn)
        for mixer, has_experts in zip(mixers, routed, strict=True)
    ]
