"""
Predictions against published figures and physical limits.

KV cache and DRAM traffic of bundled models are held to numbers that others published; the speed of random design
points to what bandwidth and peaks allow.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stacksweep as ss
from strategies import Case, cases, chips, keywords, roofline_chips

BF16 = dict.fromkeys(("weight_bytes", "kv_read_bytes", "kv_write_bytes", "activation_bytes"), 2)
SINGLE: dict[str, Any] = {"memory": "h200", "batch_size": 1, **BF16}


@pytest.mark.parametrize(
    ("model", "tokens", "gibibytes"),
    [
        # table of KV cache sizes at FP16 in "Llama 3.1 - 405B, 70B & 8B", huggingface.co/blog/llama31; its row
        # for 405B is of the first release, which had twice the KV heads
        ("llama-3.1-8b", 16_000, 1.95),
        ("llama-3.1-8b", 128_000, 15.62),
        ("llama-3.1-70b", 16_000, 4.88),
        ("llama-3.1-70b", 128_000, 39.06),
    ],
)
def test_kv_cache_of_a_sequence(model: str, tokens: int, gibibytes: float):
    ds = ss.sweep(model=model, input_seq_len=tokens - 1, output_seq_len=1, outputs="kv_bytes", **SINGLE)
    assert ds.kv_bytes.item() / 2**30 == pytest.approx(gibibytes, abs=0.0051)


@pytest.mark.parametrize(
    ("model", "kilobytes"),
    [
        # table 1 of "Insights into DeepSeek-V3: scaling challenges and reflections on hardware for AI architectures",
        # arXiv:2505.09343: KV cache per token at BF16, with 1,000 bytes to the KB
        ("llama-3.1-405b", 516.096),
        ("deepseek-v3", 70.272),
    ],
)
def test_kv_cache_of_a_token(model: str, kilobytes: float):
    assert ss.load_model(model).cache_elements() * 2 == pytest.approx(kilobytes * 1000, rel=1e-12)


def test_kv_cache_grows_by_that_with_each_token():
    ds = ss.sweep(model="llama-3.1-405b", input_seq_len=[1000, 1001], outputs=["kv_bytes"], **SINGLE)
    assert np.diff(ds.kv_bytes).item() == 516_096


@pytest.mark.parametrize(
    ("model", "published", "embedding", "norms"),
    [
        # total_size in model.safetensors.index.json of meta-llama/Llama-3.1-8B and -70B (BF16); a step looks up one row
        # of the embedding, 128,256 words by the width, and the two norms of a layer and the last one are left out
        ("llama-3.1-8b", 16_060_522_496, 128_256 * 4096, 65 * 4096),
        ("llama-3.1-70b", 141_107_412_992, 128_256 * 8192, 161 * 8192),
    ],
)
@pytest.mark.parametrize("chip", ["plena", "h200"])
def test_a_decode_step_reads_the_published_weights(model: str, published: int, embedding: int, norms: int, chip: str):
    ds = ss.sweep(
        model=model, chip=chip, include_lm_head=True, input_seq_len=1000, outputs="first_decode_read_bytes", **SINGLE
    )
    cache = 1000 * 2 * ss.load_model(model).cache_elements()
    assert ds.first_decode_read_bytes.item() - cache == pytest.approx(published - 2 * (embedding + norms), rel=1e-12)


@pytest.mark.parametrize(
    ("model", "billions", "tolerance"),
    [
        # table 1 of the gpt-oss model card, arXiv:2508.10925: active parameters with the LM head, without the embedding
        ("gpt-oss-120b", 5.13, 0.005),
        ("gpt-oss-20b", 3.61, 0.005),
        # "Mixtral of experts", mistral.ai, December 2023: 12.9B parameters per token, the embedding (0.13B) among them
        ("mixtral-8x7b", 12.9 - 0.13, 0.005),
        # model card of Qwen/Qwen3-30B-A3B: 3.3B activated, the embedding (0.31B) among them
        ("qwen3-30b-a3b", 3.3 - 0.31, 0.03),
    ],
)
@pytest.mark.parametrize("chip", ["plena", "h200"])
def test_a_token_reads_the_published_active_parameters(model: str, billions: float, tolerance: float, chip: str):
    ds = ss.sweep(
        model=model,
        chip=chip,
        routing="expected",
        include_lm_head=True,
        input_seq_len=1,
        outputs="first_decode_read_bytes",
        **SINGLE,
    )
    assert ds.first_decode_read_bytes.item() / 2e9 == pytest.approx(billions, rel=tolerance)


def bytes_of_a_step(case: Case, batch: int, tokens: int) -> float:
    """Bytes that a decode step cannot do without: weights that one token takes, and the cache of every sequence."""
    model = ss.load_model(case["model"])
    precision = case["precision"]
    weights = sum(count * layer.active_elements(model.hidden_size) for layer, count in model.kinds.items())
    cache = sum(
        count * layer.cache().total * min(tokens, layer.window or tokens) for layer, count in model.kinds.items()
    )
    return weights * precision["weight_bytes"] + batch * cache * precision["kv_read_bytes"]


def products_of_a_token(case: Case) -> int:
    """Multiplications of a token with the weights of its MLPs."""
    model = ss.load_model(case["model"])
    per_kind = {
        layer: layer.moe.top_k * layer.moe.width if layer.moe else layer.ffn.width if layer.ffn else 0
        for layer in model.kinds
    }
    return sum(count * 3 * model.hidden_size * per_kind[layer] for layer, count in model.kinds.items())


@pytest.mark.parametrize("kind", ["plena", "roofline"])
@given(st.data())
@settings(max_examples=20)
def test_no_point_is_faster_than_bandwidth_and_peak_allow(kind: str, data: st.DataObject):
    roofline = kind == "roofline"
    overlaps = ("stage-roofline", "op-roofline", "serial") if roofline else ("stage-roofline", "serial")
    case = data.draw(cases(chip=roofline_chips() if roofline else chips(), overlaps=overlaps))
    batches, prompts = [1, case["batch_size"] + 1], [case["input_seq_len"], case["input_seq_len"] + 777]
    axes: dict[str, Any] = {"batch_size": batches, "input_seq_len": prompts}
    outputs = ["tps", "usable_bandwidth", "peak_bandwidth", "clock_scale"]
    ds = ss.sweep(**keywords(case) | axes, outputs=outputs)
    chip = ss.load_chip(keywords(case)["chip"])
    for batch in batches:
        for tokens in prompts:
            one = ds.sel(batch_size=batch, input_seq_len=tokens)
            if not one.valid:
                continue
            assert one.usable_bandwidth <= one.peak_bandwidth * (1 + 1e-12)
            longest = batch * one.usable_bandwidth.item() / bytes_of_a_step(case, batch, tokens)
            assert one.tps.item() <= longest * (1 + 1e-12)
            if isinstance(chip, ss.profiles.RooflineChip):
                # FLOP/s, two for a product, with all weights that a token takes
                model = ss.load_model(case["model"])
                flop = 2 * sum(n * layer.active_elements(model.hidden_size) for layer, n in model.kinds.items())
                fastest = max(chip.peak_flops.values()) * one.clock_scale.item() / flop
            else:
                # products of a matrix instruction; decode issues each twice
                per_cycle = chip.mlen * chip.blen**2 / chip.instructions["M_MM"]
                hertz = case["frequency_hz"] * one.clock_scale.item()
                fastest = per_cycle * hertz / (2 * products_of_a_token(case))
            assert one.tps.item() <= fastest * (1 + 1e-12)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt-oss-20b"])
def test_no_plan_is_faster_than_the_bandwidth_of_its_devices(model: str):
    plans = ss.plans(model, "gpu_node_8")
    ds = ss.sweep(
        model=model,
        chip="h200",
        memory="h200",
        noc="gpu_node_8",
        routing="expected",
        batch_size=[1, 8, 64, 512],
        input_seq_len=[8, 4096],
        outputs=["tps", "usable_bandwidth"],
        **BF16,
        **plans,
    )
    case = {"model": model, "precision": BF16}
    for batch in ds.batch_size.values.tolist():
        for tokens in ds.input_seq_len.values.tolist():
            here = ds.sel(batch_size=batch, input_seq_len=tokens)
            # a batch that does not fill the pipeline is rounded up to one that does
            filled = np.ceil(batch / ds.pp) * ds.pp
            cache = bytes_of_a_step(case, 1, tokens) - bytes_of_a_step(case, 0, tokens)
            # all devices read every weight at least once for all sequences, and each sequence's cache once
            least = [bytes_of_a_step(case, 0, tokens) + sequences * cache for sequences in filled.values.tolist()]
            limit = filled.values * 8 * here.usable_bandwidth.values / np.array(least)
            assert here.valid.all()
            assert (here.tps.values <= limit * (1 + 1e-12)).all()
            # and some plan comes near it, or the limit would say nothing
            if batch == 512 and tokens == 4096:
                assert (here.tps.values / limit).max() > 0.5
