"""Model specs: what a HuggingFace-style config says about the layers of a decoder."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from stacksweep.profiles.base import Provenance
from stacksweep.profiles.layers import STATE_BYTES, Attention, Layer, Moe
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
    composition : {"moe", "llama"}
        Which parts a layer has beside mixer and MLP: ``moe`` with experts, a window or type gpt_oss, else ``llama``.
    hidden_size, vocab_size : int
        Width of the model and size of the vocabulary.
    tie_word_embeddings : bool
        Whether the LM head is the embedding.
    layers : tuple of Layer
        All layers in their order.
    config : Mapping
        What of the config the layers were made from; not part of equality.
    provenance : Provenance
        File, hash and notes; not part of equality.
    """

    name: str
    model_type: str | None
    composition: Literal["moe", "llama"]
    hidden_size: int
    vocab_size: int
    tie_word_embeddings: bool
    layers: tuple[Layer, ...]
    config: Mapping[str, Any] = field(compare=False, repr=False)
    provenance: Provenance = field(compare=False)

    @cached_property
    def kinds(self) -> dict[Layer, int]:
        """Different layers in the order of their first appearance, and how many there are of each."""
        return dict(Counter(self.layers))

    @property
    def num_hidden_layers(self) -> int:
        """Number of layers."""
        return len(self.layers)

    @property
    def sliding(self) -> tuple[bool, ...]:
        """Layer by layer: whether its mixer attends to a window only."""
        return tuple(layer.window > 0 for layer in self.layers)

    @property
    def moe(self) -> tuple[bool, ...]:
        """Layer by layer: whether its MLP has routed experts."""
        return tuple(layer.moe is not None for layer in self.layers)

    @property
    def head_counts(self) -> tuple[int, ...]:
        """Numbers of heads that tensor parallelism divides, of all mixers that have heads."""
        return tuple(dict.fromkeys(layer.mixer.heads for layer in self.kinds if layer.mixer))

    @property
    def kv_head_counts(self) -> tuple[int, ...]:
        """Numbers of KV heads of all mixers that have them."""
        mixers = [layer.mixer for layer in self.kinds]
        return tuple(dict.fromkeys(mixer.kv_heads for mixer in mixers if isinstance(mixer, Attention)))

    @property
    def experts(self) -> Moe | None:
        """Routed experts, of which all layers that have any have the same."""
        return next((layer.moe for layer in self.kinds if layer.moe), None)

    @property
    def num_experts(self) -> int:
        """Routed experts of a layer that has them; 0 without."""
        return self.experts.experts if self.experts else 0

    @property
    def experts_per_token(self) -> int:
        """Routed experts that a token takes; 0 without."""
        return self.experts.top_k if self.experts else 0

    def weight_elements(self) -> int:
        """Count the weights: all layers with all experts, the embedding, and the LM head unless it is tied.

        Norms and biases are left out, as everywhere in the model.
        """
        layers = sum(count * layer.weight_elements(self.hidden_size) for layer, count in self.kinds.items())
        return layers + self.vocab_size * self.hidden_size * (1 if self.tie_word_embeddings else 2)

    def active_elements(self) -> int:
        """Count the weights that a token is multiplied with: all layers with the experts it takes, and the LM head."""
        layers = sum(count * layer.active_elements(self.hidden_size) for layer, count in self.kinds.items())
        return layers + self.vocab_size * self.hidden_size

    def cache_elements(self) -> int:
        """Count what the layers that reach all tokens keep of each of them."""
        return sum(count * layer.cache().total for layer, count in self.kinds.items() if not layer.window)

    def window_elements(self) -> int:
        """Count what the layers with a window or chunks keep of a sequence that fills it."""
        return sum(count * layer.cache().total * layer.window for layer, count in self.kinds.items())

    def state_bytes(self) -> int:
        """Count the bytes that are kept of a sequence whatever its length."""
        return STATE_BYTES * sum(count * layer.state().total for layer, count in self.kinds.items())

    def to_dict(self) -> dict[str, Any]:
        """Return a config; loading it gives an equal spec."""
        config: dict[str, Any] = {"name": self.name}
        if self.model_type is not None:
            config["model_type"] = self.model_type
        config |= self.config
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
