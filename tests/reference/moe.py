"""Routed experts: who is asked for what, the load of the busiest rank, and the tokens that travel."""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from reference.chip import ceil_div

CLOSED_FORM_LOAD = 4096
"""Micro-batch tokens from which the load comes from a closed form."""
CLOSED_FORM_DISPATCH = 8192
"""Micro-batch tokens from which the dispatch is taken as uniform."""

Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class Trace:
    """A recorded routing: rows of expert ids per phase, each row the choices of one token."""

    prefill: Rows
    decode: Rows

    @cached_property
    def experts(self) -> int:
        return 1 + max(max(row) for row in self.prefill + self.decode)

    @classmethod
    def of(cls, arrays: Any) -> "Trace":
        """From a mapping of the arrays ``prefill`` and ``decode``, whose last axis is the choices."""
        flat = {name: np.asarray(arrays[name]) for name in ("prefill", "decode")}
        return cls(**{name: tuple(map(tuple, a.reshape(-1, a.shape[-1]).tolist())) for name, a in flat.items()})


Routing = str | Trace


@dataclass(frozen=True)
class Load:
    """The busiest rank of a micro-batch."""

    tokens: int
    pairs: int
    imbalance: float
    counts: tuple[int, ...]
    """Tokens of each expert that the rank holds."""
    expected: float | None = None
    """Experts with a token, where that is a mean and no count."""

    @property
    def active(self) -> float:
        return sum(count > 0 for count in self.counts) if self.expected is None else self.expected


@lru_cache(maxsize=256)
def rows(routing: Routing, phase: str, tokens: int, experts: int, k: int) -> Rows:
    """Expert ids that each token asks for."""
    if isinstance(routing, Trace):
        return tuple(row[:k] for row in getattr(routing, phase)[:tokens])
    if routing == "balanced":
        return tuple(tuple((t + j * (experts // k)) % experts for j in range(k)) for t in range(tokens))
    scores = np.random.default_rng(0).random((tokens, experts))
    return tuple(map(tuple, np.argsort(scores, axis=1)[:, :k].tolist()))


def trace_fits(trace: Trace, phase: str, tokens: int, experts: int, k: int, *, ep: int) -> bool:
    """Whether a trace is of this model and long enough for what is read from it."""
    recorded = getattr(trace, phase)
    needs_rows = tokens < CLOSED_FORM_LOAD or (ep > 1 and tokens < CLOSED_FORM_DISPATCH)
    return trace.experts == experts and len(recorded[0]) >= k and (not needs_rows or len(recorded) >= tokens)


def closed_form_imbalance(group_tokens: int, k: int, experts: int, ep: int, ranks: int) -> float:
    """Expected excess of the busiest of the ranks; ``ranks`` counts the replicas, tp times dp."""
    mean = group_tokens * k / ep
    if ep == 1 or mean == 0:
        return 1.0
    sigma = 0.0
    if experts > 1 and experts != k:
        sigma = math.sqrt(group_tokens * k * (1 / ep) * (1 - 1 / ep) * (experts - k) / (experts - 1))
    m = (ep - 1) * ranks
    a = 0.0
    if m > 1:
        log = math.log(m)
        root = math.sqrt(2 * log)
        a = root - (math.log(log) + math.log(4 * math.pi)) / (2 * root)
    return 1 + sigma * a / mean


@lru_cache(maxsize=4096)
def busiest_rank(
    routing: Routing, phase: str, experts: int, k: int, ep: int, dp: int, tp: int, micro_batch: int, query_len: int
) -> Load:
    """Load of the busiest rank; ep, dp and tp are those of the MoE scheme."""
    tokens = micro_batch * query_len
    group = ceil_div(micro_batch, dp) * query_len
    held = experts // ep
    rank_tokens = ceil_div(group, ep)
    if routing in ("balanced", "expected"):
        distinct = None if routing == "balanced" else held * (1 - (1 - k / experts) ** group)
        return Load(rank_tokens, ceil_div(group * k, ep), 1.0, (ceil_div(group * k, experts),) * held, distinct)
    if tokens >= CLOSED_FORM_LOAD:
        imbalance = closed_form_imbalance(group, k, experts, ep, tp * dp)
        pairs = round(rank_tokens * k * imbalance)
        more = pairs % held
        counts = tuple(pairs // held + (1 if expert < more else 0) for expert in range(held))
        return Load(rank_tokens, pairs, pairs / ceil_div(group * k, ep), counts)
    chosen = rows(routing, phase, tokens, experts, k)
    best: tuple[int, ...] | None = None
    for start in range(0, tokens, group):
        counts_of = [0] * experts
        for row in chosen[start : start + group]:
            for expert in row:
                counts_of[expert] += 1
        for rank in range(ep):
            counts = tuple(n for expert, n in enumerate(counts_of) if expert * ep // experts == rank)
            if best is None or sum(counts) > sum(best):
                best = counts
    assert best is not None
    return Load(rank_tokens, sum(best), sum(best) / (group * k / ep), best)


@lru_cache(maxsize=256)
def dispatch_counts(
    routing: Routing, phase: str, experts: int, k: int, ep: int, dp: int, tokens: int
) -> tuple[Rows, ...]:
    """Tokens that source rank a sends to rank b, ``[slot][a][b]``, for each of the dp data slots."""
    chosen = rows(routing, phase, tokens, experts, k)
    share = ceil_div(tokens, dp)
    slots = []
    for slot in range(dp):
        mine = chosen[slot * share : (slot + 1) * share]
        fewest, more = divmod(len(mine), ep)
        counts = [[0] * ep for _ in range(ep)]
        start = 0
        for source in range(ep):
            stop = start + fewest + (1 if source < more else 0)
            for row in mine[start:stop]:
                for rank in {expert * ep // experts for expert in row}:
                    if rank != source:
                        counts[source][rank] += 1
            start = stop
        slots.append(tuple(map(tuple, counts)))
    return tuple(slots)


def dispatch_bytes(
    routing: Routing,
    phase: str,
    experts: int,
    k: int,
    ep: int,
    dp: int,
    tokens: int,
    bytes_per_token: int,
    imbalance: float,
) -> tuple[Rows, ...]:
    """Bytes from rank a to rank b of an EP group, ``[slot][a][b]``."""
    if tokens >= CLOSED_FORM_DISPATCH:
        x = int(math.ceil(tokens / (dp * ep)) * k / ep * bytes_per_token * imbalance)
        return (tuple(tuple(0 if a == b else x for b in range(ep)) for a in range(ep)),)
    counts = dispatch_counts(routing, phase, experts, k, ep, dp, tokens)
    return tuple(tuple(tuple(n * bytes_per_token for n in row) for row in slot) for slot in counts)
