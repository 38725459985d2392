"""Model specs: what a HuggingFace-style config says about the layers of a decoder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from stacksweep.profiles.base import Provenance
from stacksweep.profiles.source import read_document


@dataclass(frozen=True)
class ModelSpec:
    """One decoder model.

    Attributes
    ----------
    name : str
        Name of the model.
    model_type : str or None
        Type of the (text) model in its config.
    hidden_size, num_attention_heads, num_key_value_heads, head_dim : int
        Width of the model, query heads, KV heads and size of a head.
    num_hidden_layers, intermediate_size, vocab_size : int
        Layers, width of a dense MLP and size of the vocabulary.
    tie_word_embeddings : bool
        Whether the LM head is the embedding.
    num_experts, experts_per_token : int
        Routed experts of a layer and how many a token takes; 0 without experts.
    moe_intermediate_size : int
        Width of one expert; `intermediate_size` without experts.
    sliding_window : int
        Tokens that a sliding layer attends to; 0 when no layer slides.
    sliding, moe : tuple of bool
        Layer by layer: whether its attention slides, whether its MLP is made of routed experts.
    provenance : Provenance
        File, hash and notes; not part of equality.
    """

    name: str
    model_type: str | None
    hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    num_hidden_layers: int
    intermediate_size: int
    vocab_size: int
    tie_word_embeddings: bool
    num_experts: int
    experts_per_token: int
    moe_intermediate_size: int
    sliding_window: int
    sliding: tuple[bool, ...]
    moe: tuple[bool, ...]
    provenance: Provenance = field(compare=False)

    @property
    def composition(self) -> Literal["moe", "llama"]:
        """Which parts a layer has: ``moe`` with experts, a sliding layer or type gpt_oss, else ``llama``."""
        if self.num_experts or any(self.sliding) or self.model_type == "gpt_oss":
            return "moe"
        return "llama"

    def weight_elements(self) -> int:
        """Count the weights: all layers with all experts, the embedding, and the LM head unless it is tied.

        Norms and biases are left out, as everywhere in the model.
        """
        attention = 2 * self.hidden_size * self.head_dim * (self.num_attention_heads + self.num_key_value_heads)
        ffn = 3 * self.hidden_size * self.intermediate_size
        experts = self.num_experts * self.hidden_size * (1 + 3 * self.moe_intermediate_size)
        embeddings = self.vocab_size * self.hidden_size * (1 if self.tie_word_embeddings else 2)
        return sum(attention + (experts if routed else ffn) for routed in self.moe) + embeddings

    def to_dict(self) -> dict[str, Any]:
        """Return a config; loading it gives an equal spec."""
        config: dict[str, Any] = {"name": self.name}
        if self.model_type is not None:
            config["model_type"] = self.model_type
        for key in (
            "hidden_size",
            "num_attention_heads",
            "num_key_value_heads",
            "head_dim",
            "num_hidden_layers",
            "intermediate_size",
            "vocab_size",
            "tie_word_embeddings",
        ):
            config[key] = getattr(self, key)
        if self.num_experts:
            config["num_experts"] = self.num_experts
            config["num_experts_per_tok"] = self.experts_per_token
            config["moe_intermediate_size"] = self.moe_intermediate_size
            config["mlp_types"] = ["moe" if routed else "ffn" for routed in self.moe]
        if self.sliding_window:
            config["sliding_window"] = self.sliding_window
            config["layer_types"] = ["sliding_attention" if slides else "full_attention" for slides in self.sliding]
        if self.provenance.notes:
            config["provenance"] = dict(self.provenance.notes)
        return config


def load_model(source: str | os.PathLike[str] | Mapping[str, Any] | ModelSpec) -> ModelSpec:
    """Load a model spec.

    Parameters
    ----------
    source : str, path, Mapping or ModelSpec
        A bundled name, the path of a ``config.json``, its content, or a spec (returned as it is).

    Returns
    -------
    ModelSpec
        The model.

    Raises
    ------
    ProfileError
        If the config cannot be read, is inconsistent, or describes something that is not modelled.

    Notes
    -----
    A config with `text_config` stands for its text model. Vision towers and multi-token-prediction layers are left out.
    """
    if isinstance(source, ModelSpec):
        return source
    from stacksweep.profiles._model_config import read_config

    return read_config(read_document(source, "model", "models"))
