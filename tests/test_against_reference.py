"""Random design points, mixed grids and long decodes against the plain scalar reference."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import example, given, settings
from hypothesis import strategies as st

import stacksweep as ss
from reference import evaluate
from strategies import WIDTHS, Case, cases, chips, keywords, memories, models, point_values, wrong

PLAIN_CHIP = {
    "MLEN": 64,
    "BLEN": 4,
    "VLEN": 16,
    "HLEN": 8,
    "VECTOR_SRAM_SIZE": 4096,
    "HBM_V_Prefetch_Amount": 4,
    **{f"VECTOR_{name}_CYCLES": n for n, name in enumerate(("BASIC", "ADD", "MUL", "EXP", "MAX"), start=1)},
    **{f"SCALAR_FP_{name}_CYCLES": n for n, name in enumerate(("BASIC", "EXP", "RECI"), start=2)},
}
EXACT_WIDTHS = {"weight_bytes": 1.125, "kv_read_bytes": 1.125, "kv_write_bytes": 1.0, "activation_bytes": 2.0}
DENSE = {
    "hidden_size": 96,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "intermediate_size": 200,
    "vocab_size": 1000,
}
SLIDING = DENSE | {"sliding_window": 700, "layer_types": ["sliding_attention"] * 3}
MIXED = DENSE | {
    "num_hidden_layers": 5,
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 50,
    "mlp_types": ["ffn", "moe", "moe", "ffn", "moe"],
    "sliding_window": 700,
    "layer_types": [
        "full_attention",
        "sliding_attention",
        "full_attention",
        "sliding_attention",
        "sliding_attention",
    ],
}


def fixed_memory(bandwidth: float, transaction: int | None = None) -> dict[str, Any]:
    memory = {
        "schema_version": 1,
        "kind": "fixed_bandwidth",
        "name": "fixed",
        "bandwidth_bytes_per_s": bandwidth,
        "capacity_bytes": 10**9,
        "energy": {"read_pj_per_bit": 2.47, "write_pj_per_bit": 0.9},
    }
    return memory if transaction is None else memory | {"transaction_bytes": transaction}


def plain_case(**changes: Any) -> Case:
    return {
        "model": DENSE,
        "chip": PLAIN_CHIP,
        "precision": EXACT_WIDTHS,
        "memory": fixed_memory(1.0000123e10),
        "batch_size": 3,
        "input_seq_len": 100,
        "output_seq_len": 50,
        "frequency_hz": 987654321.0,
        **changes,
    }


def check(case: Case) -> dict[str, Any]:
    """Compare all results of a point; returns what they must be."""
    expected = evaluate(**case, plan={})
    got = point_values(ss.sweep(**keywords(case), outputs="all"))
    assert wrong(got, expected) == {}
    if got["valid"]:
        tokens = case["batch_size"] * case["output_seq_len"]
        per_token = got["decode_dram_energy"] / tokens
        np.testing.assert_allclose(got["dram_energy_per_token"], per_token, rtol=1e-12)
        np.testing.assert_allclose(got["energy_per_token"], per_token * 1e-12, rtol=1e-12)
        assert got["noc_energy_per_token"] == 0.0
    return expected


@given(cases())
@settings(max_examples=120)
def test_random_points(case: Case):
    check(case)


@given(cases(output=1500, prompt=400))
@settings(max_examples=15)
def test_random_points_with_long_answers(case: Case):
    check(case)


@given(
    st.integers(1, 4),
    st.sampled_from([1, 3, 5, 10, 20, 64]),
    st.sampled_from([0.1, 0.3, 0.6, 0.7, 1.1]),
    st.sampled_from([3, 6, 7, 9, 21, 33, 96]),
    st.integers(1, 5),
    st.integers(1, 30),
    st.integers(1, 30),
)
@example(kv_heads=1, head_dim=1, width=0.1, transaction=3, batch=3, prompt=3, answer=5)
@settings(max_examples=40)
def test_widths_that_are_no_binary_fractions(
    kv_heads: int, head_dim: int, width: float, transaction: int, batch: int, prompt: int, answer: int
):
    # KV reads of such widths often fall on a whole number of transactions, where the order of products decides
    model = DENSE | {"num_attention_heads": kv_heads, "num_key_value_heads": kv_heads, "head_dim": head_dim}
    check(
        plain_case(
            model=model,
            precision=EXACT_WIDTHS | {"kv_read_bytes": width},
            memory=fixed_memory(1.0000123e7, transaction),
            batch_size=batch,
            input_seq_len=prompt,
            output_seq_len=answer,
        )
    )


# --- decodes in which memory and compute change places ---------------------------------------------------------------


def tie_bandwidth(case: Case, tokens: int) -> float:
    """Bandwidth at which memory takes about as long as compute in a decode step that attends to so many tokens."""
    step = evaluate(**case | {"input_seq_len": tokens, "output_seq_len": 1}, plan={})
    moved = step["first_decode_read_bytes"] + step["first_decode_write_bytes"]
    return float(moved / step["first_decode_compute_time"]) * 1.0000003


@pytest.mark.parametrize("transaction", [None, 96])
@pytest.mark.parametrize("overlap", ["stage-roofline", "serial"])
@pytest.mark.parametrize("model", [DENSE, SLIDING, MIXED], ids=["dense", "sliding", "mixed"])
def test_crossing_inside_ten_thousand_steps(model: dict[str, Any], overlap: str, transaction: int | None):
    # with a window of 700 tokens the attended tokens stop growing inside the decode
    at = 5000 if model is DENSE else 500
    case = plain_case(model=model, overlap=overlap, memory=fixed_memory(1.0, transaction))
    bandwidth = tie_bandwidth(case, at)
    expected = check(case | {"memory": fixed_memory(bandwidth, transaction), "output_seq_len": 10_000})
    assert 0 < expected["decode_memory_bound_time"] < 0.99 * expected["decode_time"]


@given(
    models(layers=3),
    chips(),
    st.sampled_from([None, 1, 7, 96]),
    st.sampled_from(WIDTHS),
    st.integers(1, 9),
    st.integers(1, 50),
    st.integers(2, 600),
    st.floats(0, 1),
    st.sampled_from(["stage-roofline", "serial"]),
)
@settings(max_examples=60)
def test_crossing_inside_a_random_decode(
    model: dict[str, Any],
    chip: dict[str, Any],
    transaction: int | None,
    width: float,
    batch: int,
    prompt: int,
    answer: int,
    at: float,
    overlap: str,
):
    case = plain_case(
        model=model,
        chip=chip,
        precision=EXACT_WIDTHS | {"kv_read_bytes": width},
        memory=fixed_memory(1.0, transaction),
        batch_size=batch,
        input_seq_len=prompt,
        output_seq_len=answer,
        overlap=overlap,
    )
    bandwidth = tie_bandwidth(case, prompt + int(at * (answer - 1)))
    check(case | {"memory": fixed_memory(bandwidth, transaction)})


def parallel_case(model: dict[str, Any], stride: int, *, exact: bool, transaction: int | None) -> Case:
    """A decode whose bytes grow about as fast as its cycles, so that memory runs along the stairs of compute."""
    case = plain_case(
        model=model,
        memory=fixed_memory(1.0),
        precision=EXACT_WIDTHS | {"kv_read_bytes": 1.0, "kv_write_bytes": 1e-3},
    )

    def step(tokens: int) -> dict[str, Any]:
        return evaluate(**case | {"input_seq_len": tokens, "output_seq_len": 1}, plan={})

    near, far = step(stride), step(2 * stride)
    bytes_per_token = (far["first_decode_read_bytes"] - near["first_decode_read_bytes"]) / stride
    seconds_per_token = (far["first_decode_compute_time"] - near["first_decode_compute_time"]) / stride
    weights = near["first_decode_read_bytes"] - stride * bytes_per_token
    # the line of memory runs through the middle of the stairs of compute
    heights = [step(tokens)["first_decode_compute_time"] - tokens * seconds_per_token for tokens in range(1, stride)]
    bandwidth = weights / (sum(heights) / len(heights)) * 1.0000003
    width = seconds_per_token * bandwidth / bytes_per_token
    if exact:
        width = max(1.0, round(width * 1024)) / 1024
    precision = case["precision"] | {"kv_read_bytes": width}
    memory = fixed_memory(bandwidth, transaction)
    return case | {"precision": precision, "memory": memory, "input_seq_len": 10, "output_seq_len": stride - 20}


@pytest.mark.parametrize("transaction", [None, 1, 96])
@pytest.mark.parametrize("exact", [True, False], ids=["binary width", "any width"])
@pytest.mark.parametrize(("model", "stride"), [(DENSE, 640), (SLIDING, 320)], ids=["full", "sliding"])
def test_many_crossings(model: dict[str, Any], stride: int, exact: bool, transaction: int | None):
    case = parallel_case(model, stride, exact=exact, transaction=transaction)
    check(case)
    steps = ss.sweep(
        **keywords(case | {"output_seq_len": 1}) | {"input_seq_len": range(10, stride - 10)},
        outputs=["first_decode_memory_bound_time"],
    )
    changes = np.count_nonzero(np.diff(steps.first_decode_memory_bound_time.values > 0))
    assert changes >= 5


@given(
    st.integers(1, 60),
    st.integers(1, 60),
    st.integers(1, 60),
    st.sampled_from([1, 2, 8, 64]),
    st.sampled_from([None, 96]),
)
@settings(max_examples=40)
def test_windows_around_the_first_and_the_last_token(
    window: int, prompt: int, answer: int, blen: int, transaction: int | None
):
    case = plain_case(
        model=SLIDING | {"sliding_window": window},
        chip=PLAIN_CHIP | {"BLEN": blen, "MLEN": 64, "VLEN": 64},
        input_seq_len=prompt,
        output_seq_len=answer,
    )
    check(case | {"memory": fixed_memory(tie_bandwidth(case, min(window, prompt + answer // 2)), transaction)})


@pytest.mark.parametrize("window", [150, 151, 10_149, 10_151])
def test_window_at_an_end_of_ten_thousand_steps(window: int):
    case = plain_case(model=MIXED | {"sliding_window": window}, input_seq_len=150, output_seq_len=10_001)
    check(case)


@pytest.mark.parametrize("routing", ["balanced", "random"])
@pytest.mark.parametrize("tokens", [1, 2, 4095, 4096, 4097])
def test_routing_around_the_closed_form(routing: str, tokens: int):
    # one sequence gives prefill so many micro-batch tokens, many sequences give them to decode
    one = plain_case(model=MIXED, routing=routing, input_seq_len=tokens, output_seq_len=2, batch_size=1)
    many = plain_case(model=MIXED, routing=routing, input_seq_len=1, output_seq_len=2, batch_size=tokens)
    check(one)
    check(many)


def test_a_chip_s_own_instruction_cycles():
    # an ISA library replaces the table; here M_MM takes twice BLEN, which doubles the LM head but for its 3 * S_BASIC
    library = {name: {"pipelined": str(cycles)} for name, cycles in INSTRUCTIONS.items()}
    doubled = library | {"M_MM": {"pipelined": "2 * BLEN"}}
    case = keywords(plain_case(memory=fixed_memory(1e30), output_seq_len=1, batch_size=1))

    def head(isa: dict[str, Any]) -> float:
        with_head, without = (
            ss.sweep(
                **case | {"chip": PLAIN_CHIP | {"isa": isa}, "include_lm_head": asked},
                outputs=["first_decode_compute_time"],
            ).first_decode_compute_time.item()
            for asked in (True, False)
        )
        return (with_head - without) * 987654321.0

    # ceil(1/4) * ceil(96/64) * ceil(1000/4) * BLEN
    np.testing.assert_allclose(head(library), 3 * 2 + 2 * 250 * 4, rtol=1e-9)
    np.testing.assert_allclose(head(doubled), 3 * 2 + 2 * 250 * 8, rtol=1e-9)


INSTRUCTIONS = {
    "M_MM": "BLEN",
    "M_MV": "1 + BLEN",
    "M_BTMV": "1 + BLEN",
    "V_BASIC": 1,
    "V_ADD_VV": 2,
    "V_MUL_VV": 3,
    "V_EXP_V": 5,
    "V_RED_MAX": 6,
    "V_TOPK": 6,
    "S_BASIC": 2,
    "S_EXP_FP": 3,
    "S_RECI_FP": 4,
    "H_PREFETCH_M": 1,
    "H_PREFETCH_V": 1,
    "H_STORE_V": 1,
}


# --- grids and lists of points -------------------------------------------------------------------------------------


@given(
    st.lists(models(layers=3), min_size=1, max_size=3, unique_by=lambda model: model["name"]),
    st.lists(chips(), min_size=1, max_size=2, unique_by=lambda chip: chip["name"]),
    st.lists(memories(), min_size=1, max_size=3, unique_by=lambda memory: memory["name"]),
    st.lists(st.sampled_from(["balanced", "random"]), min_size=1, max_size=2, unique=True),
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 500), st.integers(1, 20)), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)
@settings(max_examples=12)
def test_mixed_grids(
    some_models: list[dict[str, Any]],
    some_chips: list[dict[str, Any]],
    some_memories: list[dict[str, Any]],
    routings: list[str],
    loads: list[tuple[int, int, int]],
    random: Any,
):
    """Profiles and policies as axes, loads as points, against each point on its own."""
    axes = {
        "model": some_models,
        "chip": some_chips,
        "memory": some_memories,
        "routing": routings,
        "overlap": ["stage-roofline", "serial"],
        "include_lm_head": [False, True],
    }
    points = pd.DataFrame(loads, columns=["batch_size", "input_seq_len", "output_seq_len"])
    widths = {"weight_bytes": 1.125, "kv_read_bytes": 0.53125, "kv_write_bytes": 0.7, "activation_bytes": 2.0}
    ds = ss.sweep(**axes, points=points, frequency_hz=1.2345678e9, **widths, outputs="all")
    assert ds.tps.dims == ("point", *axes)
    for _ in range(12):
        where = {dim: random.randrange(size) for dim, size in ds.sizes.items() if dim != "collective"}
        batch, prompt, answer = loads[where["point"]]
        case = {
            **{name: axes[name][where[name]] for name in axes},
            "precision": widths,
            "frequency_hz": 1.2345678e9,
            "batch_size": batch,
            "input_seq_len": prompt,
            "output_seq_len": answer,
        }
        assert wrong(point_values(ds, **where), evaluate(**case, plan={})) == {}


@given(st.lists(cases(output=10, prompt=300), min_size=2, max_size=8), st.booleans())
@settings(max_examples=12)
def test_unrelated_points_in_one_call(some: list[Case], as_dataset: bool):
    # profiles need names of their own
    for number, case in enumerate(some):
        for kind in ("model", "chip", "memory"):
            case[kind] = case[kind] | {"name": f"{kind} {number}"}
    rows = [keywords(case) for case in some]
    table: Any = pd.DataFrame({name: [row[name] for row in rows] for name in rows[0]})
    if as_dataset:
        table = xr.Dataset({name: ("point", table[name].to_numpy()) for name in table})
    ds = ss.sweep(points=table, outputs="all")
    assert dict(ds.tps.sizes) == {"point": len(some)}
    for number, case in enumerate(some):
        assert wrong(point_values(ds, point=number), evaluate(**case, plan={})) == {}


STACK_FIELDS = {
    "layers": "total_layers",
    **{
        name: name
        for name in (
            "connected_layers",
            "channels_per_connected_layer",
            "capacity_per_layer_bytes",
            "transaction_bytes",
            "bytes_per_channel_transfer",
            "transfers_per_memory_clock",
            "memory_frequency_hz",
        )
    },
}
OVERRIDES = {
    "layers": [3, 7, 16],
    "connected_layers": [1, 2, 3],
    "channels_per_connected_layer": [1, 5],
    "capacity_per_layer_bytes": [10**5, 10**9],
    "transaction_bytes": [7, 96],
    "bytes_per_channel_transfer": [0.37, 5.5],
    "transfers_per_memory_clock": [1, 2.5],
    "memory_frequency_hz": [1.23e8, 4.56e9],
    "row_bytes": [74, 4070],
    "sector_bytes": [37, 74],
    "sector_cycles": [0.5, 3],
    "recharge_cycles": [0, 41],
    "round_trip_latency_cycles": [0, 137.5],
    "latency_clock_hz": [1.1e8, 6.5e8],
    "requesters": [1, 3],
    "buffer_bytes_per_requester": [100, 10**6],
    "buffering_factor": [0.5, 1.75],
    "resistance_base_c_per_w": [0.1, 0.42],
    "resistance_per_layer_c_per_w": [0, 0.1],
    "baseline_layers": [0, 3],
    "design_power_w": [73, 200.5],
    "static_power_w": [0, 60],
    "dynamic_power_exponent": [1, 2.5],
    "read_pj_per_bit": [0, 2.47],
    "write_pj_per_bit": [0.9, 2.71],
}
PLACES = {
    "dram": STACK_FIELDS,
    "bank_timing": dict.fromkeys(
        (
            "row_bytes",
            "sector_bytes",
            "sector_cycles",
            "recharge_cycles",
            "round_trip_latency_cycles",
            "latency_clock_hz",
        )
    ),
    "buffering": dict.fromkeys(("requesters", "buffer_bytes_per_requester", "buffering_factor")),
    "thermal": dict.fromkeys(
        (
            "resistance_base_c_per_w",
            "resistance_per_layer_c_per_w",
            "baseline_layers",
            "design_power_w",
            "static_power_w",
            "dynamic_power_exponent",
        )
    ),
    "energy": dict.fromkeys(("read_pj_per_bit", "write_pj_per_bit")),
}


def overridden(profile: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """A memory profile with numbers replaced in its own layout."""
    document = {name: dict(part) if isinstance(part, dict) else part for name, part in profile.items()}
    document["dram"]["bank_timing"] = dict(document["dram"]["bank_timing"])
    if "layers" in values and "connected_layers" not in values:
        values = values | {"connected_layers": values["layers"]}
    for name, value in values.items():
        place = next(place for place, names in PLACES.items() if name in names)
        table = document["dram"]["bank_timing"] if place == "bank_timing" else document[place]
        table[PLACES[place][name] or name] = value
    return document


@given(st.lists(st.sampled_from(list(OVERRIDES)), min_size=1, max_size=6, unique=True), st.randoms())
@settings(max_examples=30)
def test_overridden_fields_of_a_stack(names: list[str], random: Any):
    """Every field of a memory as an axis, against a profile that says the same."""
    profile = ss.load_memory("fictional_stacked_dram").to_dict()
    case = plain_case(memory=profile, output_seq_len=5)
    axes = {name: OVERRIDES[name] for name in names}
    ds = ss.sweep(**keywords(case), **axes, outputs="all")
    for _ in range(4):
        where = {name: random.randrange(len(axes[name])) for name in names}
        values = {name: axes[name][where[name]] for name in names}
        expected = evaluate(**case | {"memory": overridden(profile, values)}, plan={})
        assert wrong(point_values(ds, **where), expected) == {}


def test_more_connected_layers_than_layers_are_masked():
    ds = ss.sweep(
        **keywords(plain_case(memory="fictional_stacked_dram")), layers=[1, 2, 3], connected_layers=[1, 2, 3, 4]
    )
    assert ds.valid.values.tolist() == [[c <= n for c in (1, 2, 3, 4)] for n in (1, 2, 3)]
    assert ds.tps.isnull().equals(~ds.valid)
