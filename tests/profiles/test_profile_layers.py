"""Elements of every kind of layer, against the formulas written out."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stacksweep.profiles import bundled_names, load_model
from stacksweep.profiles.layers import (
    NOTHING,
    Attention,
    Ffn,
    LatentAttention,
    Layer,
    LinearAttention,
    Mamba2,
    Moe,
    Split,
)

SIZE = st.integers(1, 300)
BASE = settings(derandomize=True, deadline=None, max_examples=25)


@BASE
@given(h=SIZE, heads=SIZE, kv=SIZE, d=SIZE, dv=SIZE, w=SIZE)
def test_attention(h: int, heads: int, kv: int, d: int, dv: int, w: int) -> None:
    full = Attention(heads, kv, d, d)
    assert full.weights(h) == Split(0, 2 * h * heads * d + 2 * h * kv * d)
    assert full.cache() == Split(0, 2 * kv * d)
    assert full.state() == NOTHING
    for reach in ("sliding", "chunked"):
        near = Attention(heads, kv, d, d, reach, w)
        assert (near.weights(h), near.cache(), near.window) == (full.weights(h), full.cache(), w)
    gated = Attention(heads, kv, d, d, output_gate=True)
    assert gated.weights(h) == Split(0, 3 * h * heads * d + 2 * h * kv * d)
    uneven = Attention(heads, kv, d, dv)
    assert uneven.weights(h) == Split(0, h * heads * d + h * kv * (d + dv) + heads * dv * h)
    assert uneven.cache() == Split(0, kv * (d + dv))
    same = Attention(heads, kv, d, d, values_are_keys=True)
    assert same.weights(h) == Split(0, 2 * h * heads * d + h * kv * d)
    assert same.cache() == Split(0, kv * d)


@BASE
@given(h=SIZE, heads=SIZE, c=SIZE, r=SIZE, n=SIZE, e=SIZE, u=SIZE, x=SIZE, y=SIZE)
def test_latent_attention(h: int, heads: int, c: int, r: int, n: int, e: int, u: int, x: int, y: int) -> None:
    latent = LatentAttention(heads, c, r, n, e, u)
    assert latent.weights(h) == Split(h * r + h * (c + e), r * heads * (n + e) + c * heads * (n + u) + heads * u * h)
    assert latent.cache() == Split(c + e, 0)
    direct = LatentAttention(heads, c, 0, n, e, u)
    assert direct.weights(h) == Split(h * (c + e), h * heads * (n + e) + c * heads * (n + u) + heads * u * h)
    sparse = LatentAttention(heads, c, r, n, e, u, x, y, 64)
    assert sparse.weights(h) == latent.weights(h) + Split(r * x * y + h * y + h * x)
    assert sparse.cache() == Split(c + e + y, 0)
    assert (latent.words, sparse.words) == ("latent attention", "sparse latent attention")
    assert latent.state() == sparse.state() == NOTHING


@BASE
@given(h=SIZE, k=SIZE, heads=SIZE, a=SIZE, z=SIZE, q=SIZE)
def test_linear_attention(h: int, k: int, heads: int, a: int, z: int, q: int) -> None:
    linear = LinearAttention(k, heads, a, z, q)
    keys, values = k * a, heads * z
    assert linear.weights(h) == Split(
        0, h * (2 * keys + 2 * values) + 2 * h * heads + values * h + q * (2 * keys + values)
    )
    assert linear.state() == Split(0, heads * a * z + q * (2 * keys + values))
    assert linear.cache() == NOTHING
    assert linear.heads == heads


@BASE
@given(h=SIZE, heads=SIZE, m=SIZE, s=SIZE, groups=SIZE, q=SIZE)
def test_mamba2(h: int, heads: int, m: int, s: int, groups: int, q: int) -> None:
    mamba = Mamba2(heads, m, s, groups, q)
    inner = heads * m
    assert mamba.weights(h) == Split(
        0, h * (2 * inner + 2 * groups * s + heads) + inner * h + q * (inner + 2 * groups * s)
    )
    assert mamba.state() == Split(0, heads * m * s + q * (inner + 2 * groups * s))
    assert mamba.cache() == NOTHING


@BASE
@given(h=SIZE, i=SIZE, experts=SIZE, k=SIZE, im=SIZE, inner=SIZE)
def test_mlps(h: int, i: int, experts: int, k: int, im: int, inner: int) -> None:
    assert Ffn(i).weights(h) == Split(0, 3 * h * i)
    assert Ffn(i, gated=False).weights(h) == Split(0, 2 * h * i)
    moe = Moe(experts, k, im)
    assert (moe.weights(h), moe.expert(h)) == (Split(h * experts), 3 * h * im)
    assert Moe(experts, k, im, gated=False).expert(h) == 2 * h * im
    latent = Moe(experts, k, im, latent_size=inner)
    assert (latent.weights(h), latent.expert(h)) == (Split(h * experts + 2 * h * inner), 3 * inner * im)
    both = Layer(None, Ffn(i), moe)
    assert both.weight_elements(h) == 3 * h * i + h * experts + experts * 3 * h * im
    assert both.active_elements(h) == 3 * h * i + h * experts + k * 3 * h * im
    assert both.dense_weights(h) == Split(h * experts, 3 * h * i)
    assert (both.cache(), both.state(), both.window) == (NOTHING, NOTHING, 0)


@pytest.mark.parametrize("name", bundled_names("models"))
def test_a_model_is_the_sum_of_its_layers(name: str) -> None:
    model = load_model(name)
    h, v = model.hidden_size, model.vocab_size
    head = 0 if model.tie_word_embeddings else v * h
    assert sum(model.kinds.values()) == model.num_hidden_layers == len(model.layers)
    assert list(model.kinds) == list(dict.fromkeys(model.layers))
    assert model.weight_elements() == v * h + head + sum(layer.weight_elements(h) for layer in model.layers)
    assert model.active_elements() == v * h + sum(layer.active_elements(h) for layer in model.layers)
    assert model.cache_elements() == sum(layer.cache().total for layer in model.layers if not layer.window)
    assert model.window_elements() == sum(layer.cache().total * layer.window for layer in model.layers)
    assert model.state_bytes() == 4 * sum(layer.state().total for layer in model.layers)


@pytest.mark.parametrize(
    ("name", "per_token", "windows", "state"),
    [
        # 576 elements in each of 61 layers: DeepSeek-V3 technical report, arXiv:2412.19437, sections 2.1.1 and 4.2
        ("deepseek-v3", 70_272, 0, 0),
        ("kimi-k2", 70_272, 0, 0),
        ("glm-5", 78 * (512 + 64 + 128) * 2, 0, 0),
        ("llama-3.1-8b", 131_072, 0, 0),
        ("llama-4-maverick", 12 * 2 * 8 * 128 * 2, 36 * 2 * 8 * 128 * 8192 * 2, 0),
        ("gemma-4-31b", 10 * 4 * 512 * 2, 50 * 2 * 16 * 256 * 1024 * 2, 0),
        ("mimo-v2-flash", 9 * 4 * 320 * 2, 39 * 8 * 320 * 128 * 2, 0),
        ("qwen3.5-27b", 16 * 2 * 4 * 256 * 2, 0, 48 * (48 * 128 * 128 + 4 * (2 * 16 * 128 + 48 * 128)) * 4),
        ("nemotron-3-nano-30b-a3b", 6 * 2 * 2 * 128 * 2, 0, 23 * (64 * 64 * 128 + 4 * (64 * 64 + 2 * 8 * 128)) * 4),
    ],
)
def test_cache_and_state_in_bytes(name: str, per_token: int, windows: int, state: int) -> None:
    model: Any = load_model(name)
    assert 2 * model.cache_elements() == per_token
    assert 2 * model.window_elements() == windows
    assert model.state_bytes() == state
