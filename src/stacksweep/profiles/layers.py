"""
Layers of a decoder: a mixer, which looks at other tokens, and an MLP, which looks at each token alone.

Every part says how many elements its weights, its cache and its state have, for a model of hidden size h. Norms and
biases are left out, as everywhere in the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

STATE_BYTES = 4
"""Bytes of an element of a state, which stays in single precision."""

Reach: TypeAlias = Literal["full", "sliding", "chunked"]


@dataclass(frozen=True)
class Split:
    """Elements that every tensor-parallel rank holds, and those that are divided among the ranks."""

    replicated: int = 0
    sharded: int = 0

    @property
    def total(self) -> int:
        """Elements in the whole model."""
        return self.replicated + self.sharded

    def __add__(self, other: Split) -> Split:
        """Elements of two parts together."""
        return Split(self.replicated + other.replicated, self.sharded + other.sharded)


NOTHING = Split()


@dataclass(frozen=True)
class Attention:
    """
    Attention with keys and values for each KV head.

    Attributes
    ----------
    heads, kv_heads : int
        Query heads and KV heads.
    key_size, value_size : int
        Elements of a key (and of a query), and of a value.
    reach : {"full", "sliding", "chunked"}
        Whether a token attends to all tokens before it, to the last `window` ones, or to those of its chunk.
    window : int
        Tokens of the window or chunk; 0 with full reach.
    output_gate : bool
        Whether a projection of the input gates the output.
    values_are_keys : bool
        Whether the keys serve as values, so that values have neither weights nor a cache.
    """

    heads: int
    kv_heads: int
    key_size: int
    value_size: int
    reach: Reach = "full"
    window: int = 0
    output_gate: bool = False
    values_are_keys: bool = False

    @property
    def words(self) -> str:
        """Name of the mixer."""
        return f"{self.reach} attention"

    def weights(self, hidden_size: int) -> Split:
        """Elements of the projections of queries, keys, values and the output, and of the gate."""
        queries = self.heads * (self.key_size + self.value_size * (1 + self.output_gate))
        return Split(sharded=hidden_size * (queries + self.cache().total))

    def cache(self) -> Split:
        """Elements kept of a token: a key and a value for each KV head."""
        return Split(sharded=self.kv_heads * (self.key_size + (0 if self.values_are_keys else self.value_size)))

    def state(self) -> Split:
        """Elements kept of a sequence whatever its length."""
        return NOTHING


@dataclass(frozen=True)
class LatentAttention:
    """
    Attention whose keys and values are projections of one latent vector (DeepSeek-V2, arXiv:2405.04434).

    With an indexer, a token attends to the `index_top_k` tokens that the indexer scores highest (DeepSeek-V3.2-Exp).

    Attributes
    ----------
    heads : int
        Query heads.
    latent_size : int
        Elements of the latent vector of keys and values.
    query_latent_size : int
        Elements of the latent vector of queries; 0 where queries are projected directly.
    nope_size, rope_size : int
        Elements of a key without and with position; the latter is shared by all heads.
    value_size : int
        Elements of a value.
    index_heads, index_size, index_top_k : int
        Heads of the indexer, elements of its keys, and tokens that it chooses; 0 without indexer.
    """

    heads: int
    latent_size: int
    query_latent_size: int
    nope_size: int
    rope_size: int
    value_size: int
    index_heads: int = 0
    index_size: int = 0
    index_top_k: int = 0

    window: ClassVar[int] = 0

    @property
    def words(self) -> str:
        """Name of the mixer."""
        return "sparse latent attention" if self.index_top_k else "latent attention"

    def weights(self, hidden_size: int) -> Split:
        """Elements of the projections into the latent vectors and the indexer, and out of them for each head."""
        queries_from = self.query_latent_size or hidden_size
        down = hidden_size * (self.query_latent_size + self.latent_size + self.rope_size)
        index = self.index_size * (self.index_heads * queries_from + hidden_size) + hidden_size * self.index_heads
        per_head = queries_from * (self.nope_size + self.rope_size)
        per_head += self.latent_size * (self.nope_size + self.value_size) + self.value_size * hidden_size
        return Split(down + index, self.heads * per_head)

    def cache(self) -> Split:
        """Elements kept of a token: the latent vector, the part of the key with position, the indexer's key."""
        return Split(replicated=self.latent_size + self.rope_size + self.index_size)

    def state(self) -> Split:
        """Elements kept of a sequence whatever its length."""
        return NOTHING


@dataclass(frozen=True)
class LinearAttention:
    """
    Linear attention with the gated delta rule (arXiv:2412.06464).

    Attributes
    ----------
    key_heads, value_heads : int
        Heads of queries and keys, and of values.
    key_size, value_size : int
        Elements of a key and of a value.
    convolution : int
        Tokens that the convolution of queries, keys and values spans.
    """

    key_heads: int
    value_heads: int
    key_size: int
    value_size: int
    convolution: int

    window: ClassVar[int] = 0
    words: ClassVar[str] = "linear attention"

    @property
    def heads(self) -> int:
        """Heads that tensor parallelism divides."""
        return self.value_heads

    @property
    def convolved(self) -> int:
        """Elements of a token that the convolution runs over: queries, keys and values."""
        return 2 * self.key_heads * self.key_size + self.value_heads * self.value_size

    def weights(self, hidden_size: int) -> Split:
        """Elements of the projections (queries, keys, values, gate, two of each head, output) and the convolution."""
        values = self.value_heads * self.value_size
        projections = hidden_size * (self.convolved + 2 * values + 2 * self.value_heads)
        return Split(sharded=projections + self.convolution * self.convolved)

    def cache(self) -> Split:
        """Elements kept of a token."""
        return NOTHING

    def state(self) -> Split:
        """Elements kept of a sequence: a matrix for each value head, and the tokens under the convolution."""
        matrices = self.value_heads * self.key_size * self.value_size
        return Split(sharded=matrices + self.convolution * self.convolved)


@dataclass(frozen=True)
class Mamba2:
    """
    State-space layer of Mamba-2 (arXiv:2405.21060).

    Attributes
    ----------
    heads, head_size : int
        Heads, and channels of each.
    state_size : int
        Elements of the state of a channel.
    groups : int
        Groups of heads that share input and output matrices.
    convolution : int
        Tokens that the convolution spans.
    """

    heads: int
    head_size: int
    state_size: int
    groups: int
    convolution: int

    window: ClassVar[int] = 0
    words: ClassVar[str] = "mamba2"

    @property
    def convolved(self) -> int:
        """Elements of a token that the convolution runs over: channels, input and output matrices."""
        return self.heads * self.head_size + 2 * self.groups * self.state_size

    def weights(self, hidden_size: int) -> Split:
        """Elements of the projections (gate, channels, matrices, time steps, output) and the convolution."""
        channels = self.heads * self.head_size
        projections = hidden_size * (self.convolved + 2 * channels + self.heads)
        return Split(sharded=projections + self.convolution * self.convolved)

    def cache(self) -> Split:
        """Elements kept of a token."""
        return NOTHING

    def state(self) -> Split:
        """Elements kept of a sequence: the state of every channel, and the tokens under the convolution."""
        return Split(sharded=self.heads * self.head_size * self.state_size + self.convolution * self.convolved)


Mixer: TypeAlias = Attention | LatentAttention | LinearAttention | Mamba2


@dataclass(frozen=True)
class Ffn:
    """
    Dense MLP: an FFN that every token takes, or the shared expert beside routed ones.

    Attributes
    ----------
    width : int
        Intermediate size.
    gated : bool
        Whether the activation has a gate: three matrices, else two.
    """

    width: int
    gated: bool = True

    def weights(self, hidden_size: int) -> Split:
        """Elements of the matrices."""
        return Split(sharded=(2 + self.gated) * hidden_size * self.width)


@dataclass(frozen=True)
class Moe:
    """
    Routed experts.

    Attributes
    ----------
    experts, top_k : int
        Experts, and how many of them a token takes.
    width : int
        Intermediate size of an expert.
    gated : bool
        Whether the activation has a gate: three matrices, else two.
    latent_size : int
        Hidden size of the experts where it is their own, with a projection into it and out of it; else 0.
    """

    experts: int
    top_k: int
    width: int
    gated: bool = True
    latent_size: int = 0

    def weights(self, hidden_size: int) -> Split:
        """Elements beside the experts: the router, and projections into the experts' hidden size and back."""
        return Split(replicated=hidden_size * (self.experts + 2 * self.latent_size))

    def expert(self, hidden_size: int) -> int:
        """Elements of one expert."""
        return (2 + self.gated) * (self.latent_size or hidden_size) * self.width


@dataclass(frozen=True)
class Layer:
    """
    One layer: a mixer, and an MLP made of an FFN, of routed experts, or of both side by side; any may be absent.

    Attributes
    ----------
    mixer : Attention, LatentAttention, LinearAttention, Mamba2 or None
    ffn : Ffn or None
        Beside routed experts: the shared expert, or the FFN of a model that has both.
    moe : Moe or None
    """

    mixer: Mixer | None = None
    ffn: Ffn | None = None
    moe: Moe | None = None

    def dense_weights(self, hidden_size: int) -> Split:
        """Elements of all weights but those of the routed experts."""
        parts = [part.weights(hidden_size) for part in (self.mixer, self.ffn, self.moe) if part]
        return sum(parts, NOTHING)

    def weight_elements(self, hidden_size: int) -> int:
        """Count all weights."""
        experts = self.moe.experts * self.moe.expert(hidden_size) if self.moe else 0
        return self.dense_weights(hidden_size).total + experts

    def active_elements(self, hidden_size: int) -> int:
        """Count the weights that a token takes."""
        experts = self.moe.top_k * self.moe.expert(hidden_size) if self.moe else 0
        return self.dense_weights(hidden_size).total + experts

    def cache(self) -> Split:
        """Elements kept of each token that the mixer reaches."""
        return self.mixer.cache() if self.mixer else NOTHING

    def state(self) -> Split:
        """Elements kept of a sequence whatever its length."""
        return self.mixer.state() if self.mixer else NOTHING

    @property
    def window(self) -> int:
        """Tokens that are kept at most; 0 for all."""
        return self.mixer.window if self.mixer else 0
