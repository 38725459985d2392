"""One device's share of a layer: elements of weights, of the cache, of a state."""

from typing import Any

from reference.chip import ceil_div
from reference.model import Layer, Mixer


def heads(x: Any, mixer: Mixer) -> int:
    """Query heads, or heads of a state; `x` is a `system.Point`."""
    return mixer.heads // x.plan.tp


def kv_heads(x: Any, mixer: Mixer) -> int:
    return mixer.kv_heads // x.plan.tp if x.plan.tp <= mixer.kv_heads else 1


def mixer_weights(x: Any, mixer: Mixer) -> tuple[float, float]:
    """Weight elements of a device that lead into a mixer, and out of it."""
    h, tp = x.model.hidden, x.plan.tp
    if mixer.has_kv_heads:
        queries = heads(x, mixer) * mixer.key + (heads(x, mixer) * mixer.value if mixer.gate else 0)
        keys_and_values = kv_heads(x, mixer) * (mixer.key if mixer.same_kv else mixer.key + mixer.value)
        return h * (queries + keys_and_values), heads(x, mixer) * mixer.value * h
    if mixer.kind == "latent":
        c, r, n, e, u = mixer.latent, mixer.query_latent, mixer.nope, mixer.rope, mixer.value
        replicated = h * (c + e) + (h * r if r else 0)
        if mixer.index_top_k:
            xh, y = mixer.index_heads, mixer.index_size
            replicated += (r or h) * xh * y + h * y + h * xh
        sharded = (r or h) * heads(x, mixer) * (n + e) + c * heads(x, mixer) * (n + u)
        return replicated + sharded, heads(x, mixer) * u * h
    if mixer.kind == "linear":
        big_a, big_z = mixer.key_heads * mixer.key, mixer.heads * mixer.value
        into = h * (2 * big_a + 2 * big_z) + 2 * h * mixer.heads + mixer.conv * (2 * big_a + big_z)
        return into / tp, big_z * h / tp
    inner = mixer.heads * mixer.value
    gs = mixer.groups * mixer.state_size
    into = h * (2 * inner + 2 * gs + mixer.heads) + mixer.conv * (inner + 2 * gs)
    return into / tp, inner * h / tp


def cache(x: Any, mixer: Mixer | None) -> tuple[int, int]:
    """Elements of a token on a device that attention keeps, and that an indexer keeps."""
    if mixer is None or mixer.kind in ("linear", "mamba2"):
        return 0, 0
    if mixer.kind == "latent":
        return mixer.latent + mixer.rope, mixer.index_size
    return kv_heads(x, mixer) * (mixer.key if mixer.same_kv else mixer.key + mixer.value), 0


def state(x: Any, mixer: Mixer | None) -> float:
    """Elements of a sequence on a device."""
    if mixer is None or mixer.kind not in ("linear", "mamba2"):
        return 0
    if mixer.kind == "linear":
        big_a, big_z = mixer.key_heads * mixer.key, mixer.heads * mixer.value
        return (mixer.heads * mixer.key * mixer.value + mixer.conv * (2 * big_a + big_z)) / x.plan.tp
    inner, gs = mixer.heads * mixer.value, mixer.groups * mixer.state_size
    return (inner * mixer.state_size + mixer.conv * (inner + 2 * gs)) / x.plan.tp


def attended(mixer: Mixer | None, kv: int) -> int:
    """How many of `kv` tokens the last one attends to."""
    if mixer is None or mixer.kind in ("linear", "mamba2"):
        return 0
    if mixer.kind == "chunked":
        return (kv - 1) % mixer.window + 1
    if mixer.kind == "sliding":
        return min(kv, mixer.window)
    return min(kv, mixer.index_top_k) if mixer.index_top_k else kv


def held(mixer: Mixer | None, tokens: int) -> int:
    """How many of `tokens` the cache holds."""
    if mixer is None or mixer.kind in ("linear", "mamba2"):
        return 0
    return min(tokens, mixer.window) if mixer.window else tokens


def ffn_weights(x: Any, layer: Layer) -> int:
    assert layer.ffn
    width, matrices = layer.ffn
    return matrices * x.model.hidden * ceil_div(width, x.plan.tp)


def expert_weights(x: Any) -> int:
    m = x.model
    return int(m.expert_matrices * m.expert_hidden * ceil_div(m.expert_width, x.moe_scheme["tp"]))


def router_weights(x: Any) -> int:
    m = x.model
    return int(m.hidden * m.experts + (2 * m.hidden * m.expert_hidden if m.expert_hidden != m.hidden else 0))


def weights(x: Any, layer: Layer, experts: float) -> float:
    """Weight elements of a layer on a device, counting so many experts."""
    total = sum(mixer_weights(x, layer.mixer)) if layer.mixer else 0
    if layer.ffn:
        total += ffn_weights(x, layer)
    if layer.moe:
        total += router_weights(x) + experts * expert_weights(x)
    return total
