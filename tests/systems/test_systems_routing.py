"""Routing of tokens to experts: recorded traces against the plain reference, and what is refused."""

import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from system_cases import (
    System,
    arguments_of,
    plain_system,
    reference_of,
    routed_models,
    system_differences,
    systems,
)

import stacksweep as ss
from reference.moe import Trace
from strategies import bitwise_equal, point_values

ROUTED = {
    "name": "routed",
    "hidden_size": 96,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "num_hidden_layers": 3,
    "intermediate_size": 200,
    "vocab_size": 1000,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 50,
    "mlp_types": ["ffn", "moe", "moe"],
}
DENSE = {name: ROUTED[name] for name in list(ROUTED)[:7]} | {"name": "dense"}
PLANS = ({"dp": 8}, {"ep": 8}, {"ep": 4, "dp": 2}, {"tp": 2, "ep": 2, "pp": 2})


def rows(count: int, experts: int = 8, choices: int = 2, seed: int = 0) -> Any:
    """Rows of experts of which some are chosen more often than others; the last expert is in the first row."""
    scores = np.random.default_rng(seed).random((count, experts)) * np.linspace(1, 2, experts)
    ids = np.argsort(scores, axis=1)[:, :choices]
    ids[0, 0] = experts - 1
    return ids


def written(folder: Path, name: str = "trace", **arrays: Any) -> Path:
    path = folder / f"{name}.npz"
    np.savez(path, **arrays)
    return path


def system_of(plan: dict[str, int], routing: Any, **changes: Any) -> System:
    return plain_system(ROUTED, plan, **{"routing": routing} | changes)


def reasons(ds: xr.Dataset) -> Any:
    names = np.array(ds.reason.attrs["flag_meanings"].split())
    return names[ds.reason.values].tolist()


def mkdir(folder: Path) -> Path:
    folder.mkdir()
    return folder


# --- traces that are read --------------------------------------------------------------------------------------------


def test_random_systems_with_traces(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("traces")
    seen: Counter[str | None] = Counter()

    @given(
        systems(output=3, model=routed_models(), most=12, several="ep"),
        st.integers(0, 2**32 - 1),
        st.sampled_from([1.0, 1.0, 0.99]),
        st.sampled_from([1.0, 1.0, 0.9]),
        st.sampled_from(["i8", "u1", "i2"]),
        st.sampled_from([0, 0, 1, 3]),
    )
    @settings(max_examples=50)
    def run(system: System, seed: int, prefill: float, decode: float, dtype: str, more_choices: int):
        model = system["model"]
        experts, choices = model["num_experts"], min(model["num_experts_per_tok"] + more_choices, model["num_experts"])
        micro_batch = math.ceil(system["batch_size"] / system["plan"]["pp"])
        arrays = {
            phase: rows(max(1, int(tokens * share)), experts, choices, seed + at).astype(dtype)
            for at, (phase, tokens, share) in enumerate(
                [("prefill", micro_batch * system["input_seq_len"], prefill), ("decode", micro_batch, decode)]
            )
        }
        path = written(folder, f"trace {sum(seen.values())}", **arrays)
        expected = reference_of(system | {"routing": Trace.of(arrays)})
        got = point_values(ss.sweep(**arguments_of(system | {"routing": path}), outputs="all"))
        assert system_differences(got, expected) == {}
        seen[expected["reason"]] += 1

    run()
    assert seen[None] > 15
    assert seen["routing_trace"] > 5


@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize(
    ("tokens", "recorded"),
    [(4095, 4095), (4095, 4094), (4096, 4096), (4096, 4095), (8191, 8191), (8191, 8190), (8192, 8192), (8192, 1)],
)
def test_rows_that_a_load_and_its_dispatch_need(tmp_path: Path, plan: dict[str, int], tokens: int, recorded: int):
    """The load is counted below 4096 tokens, the dispatch below 8192; from there on no row is read."""
    arrays = {"prefill": rows(recorded), "decode": rows(1, seed=1)}
    system = system_of(plan, Trace.of(arrays), batch_size=plan.get("pp", 1), input_seq_len=tokens, output_seq_len=1)
    expected = reference_of(system)
    ds = ss.sweep(**arguments_of(system | {"routing": written(tmp_path, **arrays)}), outputs="all")
    assert system_differences(point_values(ds), expected) == {}
    counted = tokens < 4096 or (plan.get("ep", 1) > 1 and tokens < 8192)
    assert expected["reason"] == ("routing_trace" if counted and recorded < tokens else None)


def test_all_axes_but_the_last_are_tokens(tmp_path: Path):
    flat = {"prefill": rows(120), "decode": rows(12, seed=1)}
    folded = {"prefill": flat["prefill"].reshape(2, 3, 20, 2), "decode": flat["decode"].reshape(3, 4, 2)}
    paths = [written(mkdir(tmp_path / name), **arrays) for name, arrays in (("a", flat), ("b", folded))]
    one, other = (ss.sweep(**arguments_of(system_of({"ep": 8}, path)), outputs="all") for path in paths)
    assert reasons(one) == "valid"
    assert bitwise_equal(one, other)


def test_only_the_first_rows_and_choices_count(tmp_path: Path):
    arrays = {"prefill": rows(80), "decode": rows(4, seed=1)}
    longer = {
        name: np.concatenate([np.hstack([array, np.full((len(array), 1), 3)]), np.full((9, 3), 5)])
        for name, array in arrays.items()
    }
    paths = [written(mkdir(tmp_path / name), **content) for name, content in (("a", arrays), ("b", longer))]
    one, other = (ss.sweep(**arguments_of(system_of({"ep": 4, "dp": 2}, path)), outputs="all") for path in paths)
    assert reasons(one) == "valid"
    assert bitwise_equal(one, other)


def test_routings_as_an_axis(tmp_path: Path):
    traces = [{"prefill": rows(80, seed=s), "decode": rows(4, seed=s + 9)} for s in (1, 2)]
    paths = [written(tmp_path, f"trace {number}", **arrays) for number, arrays in enumerate(traces)]
    system = system_of({"ep": 8}, ["balanced", paths[0], "random", str(paths[1])])
    ds = ss.sweep(**arguments_of(system), outputs="all")
    assert ds.routing.values.tolist() == ["balanced", "trace 0", "random", "trace 1"]
    for number, routing in enumerate(["balanced", Trace.of(traces[0]), "random", Trace.of(traces[1])]):
        expected = reference_of(system | {"routing": routing})
        assert system_differences(point_values(ds, routing=number), expected) == {}
    assert len(set(ds.prefill_pairs.values)) > 2


def test_traces_of_one_name_are_told_apart(tmp_path: Path):
    arrays = {"prefill": rows(80), "decode": rows(4, seed=1)}
    paths = [
        written(mkdir(tmp_path / str(number)), prefill=rows(80, seed=seed), decode=arrays["decode"])
        for number, seed in enumerate([0, 0, 5])
    ]
    given = arguments_of(system_of({"ep": 8}, None))
    with pytest.raises(ss.ParameterError, match=r"^routing: two different ones are called 'trace'"):
        ss.sweep(**given | {"routing": paths})
    same = ss.sweep(**given | {"routing": paths[:2]}, outputs="all")
    assert bitwise_equal(same.isel(routing=0, drop=True), same.isel(routing=1, drop=True))


def test_a_changed_file_is_read_anew(tmp_path: Path):
    found = []
    for seed in (0, 5):
        arrays = {"prefill": rows(80, seed=seed), "decode": rows(4, seed=seed + 1)}
        system = system_of({"ep": 8}, written(tmp_path, **arrays))
        got = point_values(ss.sweep(**arguments_of(system), outputs="all"))
        assert system_differences(got, reference_of(system | {"routing": Trace.of(arrays)})) == {}
        found.append(got["prefill_latency"])
    assert found[0] != found[1]


# --- traces that do not fit ------------------------------------------------------------------------------------------

MISFITS: dict[str, dict[str, Any]] = {
    "more experts": {"prefill": rows(80, experts=9), "decode": rows(4, seed=1)},
    "fewer experts": {"prefill": rows(80, experts=7), "decode": rows(4, experts=7)},
    "more experts in decode": {"prefill": rows(80), "decode": rows(4, experts=16)},
    "one choice": {"prefill": rows(80, choices=1), "decode": rows(4, choices=1)},
    "one choice in decode": {"prefill": rows(80), "decode": rows(4, choices=1)},
    "short prefill": {"prefill": rows(79), "decode": rows(4)},
    "short decode": {"prefill": rows(80), "decode": rows(3)},
    "an id beyond all": {"prefill": rows(80), "decode": np.full((4, 2), 2**64 - 1, np.uint64)},
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_traces_that_do_not_fit(tmp_path: Path, misfit: str):
    arrays = MISFITS[misfit]
    path = written(tmp_path, **arrays)
    system = system_of({"ep": 4, "dp": 2}, Trace.of(arrays))
    expected = reference_of(system)
    assert expected["reason"] == "routing_trace"
    given = arguments_of(system | {"routing": path})
    assert system_differences(point_values(ss.sweep(**given, outputs="all")), expected) == {}
    with pytest.raises(ss.InvalidPointError, match=r"^routing_trace: the trace 'trace' has "):
        ss.estimate(**given)


@pytest.mark.parametrize(
    ("misfit", "got", "needs"),
    [
        ("more experts", 9, 8),
        ("fewer experts", 7, 8),
        ("one choice", 1, 2),
        ("one choice in decode", 1, 2),
        ("short prefill", 79, 80),
        ("short decode", 3, 4),
    ],
)
def test_errors_say_what_does_not_fit(tmp_path: Path, misfit: str, got: int, needs: int):
    system = system_of({"ep": 4, "dp": 2}, written(tmp_path, **MISFITS[misfit]))
    with pytest.raises(ss.InvalidPointError) as caught:
        ss.estimate(**arguments_of(system))
    numbers = set(map(int, re.findall(r"\b\d+\b", str(caught.value))))
    assert numbers >= {got, needs}


def test_a_trace_that_does_not_fit_a_dense_model_is_not_read(tmp_path: Path):
    arrays = MISFITS["more experts"]
    system = plain_system(DENSE, {"tp": 4, "dp": 2}, routing=written(tmp_path, **arrays))
    ds = ss.sweep(**arguments_of(system | {"model": [DENSE, ROUTED]}), outputs="all")
    assert reasons(ds) == ["valid", "routing_trace"]
    assert system_differences(point_values(ds, model=0), reference_of(system | {"routing": Trace.of(arrays)})) == {}


def test_reasons_do_not_depend_on_what_is_asked_for(tmp_path: Path):
    """Loads of 80 to 12000 tokens of a trace of 5000 rows, with and without a dispatch."""
    path = written(tmp_path, prefill=rows(5000), decode=rows(4))
    prompts = [20, 1000, 1023, 1024, 1250, 1251, 1500, 2047, 2048, 3000]
    for plan, misfits in (({"ep": 8}, prompts[5:8]), ({"dp": 8}, [])):
        system = system_of(plan, path, input_seq_len=prompts)
        whole = ss.sweep(**arguments_of(system), outputs="all")
        assert whole.input_seq_len.values[~whole.valid.values].tolist() == misfits
        for name in whole.data_vars:
            part = ss.sweep(**arguments_of(system), outputs=str(name))
            assert bitwise_equal(part, whole[list(part.data_vars)]), name


def test_a_short_trace_comes_last_of_all_reasons(tmp_path: Path):
    path = written(tmp_path, **MISFITS["short prefill"])
    system = system_of({"ep": 4, "dp": 2}, path)
    given = arguments_of(system | {"memory": "fictional_stacked_dram"})
    ds = ss.sweep(**given | {"layers": [4, 8], "connected_layers": 8, "ep": [4, 3]})
    assert reasons(ds.transpose("layers", "ep")) == [
        ["connected_layers", "world_size"],
        ["routing_trace", "world_size"],
    ]


# --- files that cannot be used ---------------------------------------------------------------------------------------


def refused(routing: Any, words: str) -> None:
    given = arguments_of(system_of({"ep": 8}, routing))
    for call in (ss.sweep, ss.estimate):
        with pytest.raises(ss.ParameterError, match=words):
            call(**given)


@pytest.mark.parametrize("missing", ["prefill", "decode"])
def test_an_array_is_missing(tmp_path: Path, missing: str):
    arrays = {"prefill": rows(80), "decode": rows(4), "other": rows(4)}
    del arrays[missing]
    path = written(tmp_path, **arrays)
    refused(path, rf"^routing: trace {re.escape(repr(str(path)))} needs the arrays prefill and decode$")


@pytest.mark.parametrize(
    "array",
    [
        rows(4).astype(float),
        rows(4) > 3,
        rows(4) - 1 - rows(4).max(),
        rows(4)[:0],
        rows(4)[:, :0],
        np.array(3),
        np.array([["a", "b"]]),
        rows(4).astype("datetime64[s]"),
    ],
    ids=["floats", "switches", "negative", "no rows", "no choices", "a number", "text", "dates"],
)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_an_array_is_not_of_expert_ids(tmp_path: Path, phase: str, array: Any):
    path = written(tmp_path, **{"prefill": rows(80), "decode": rows(4)} | {phase: array})
    refused(path, rf"^routing: trace {re.escape(repr(str(path)))}: {phase} needs integers from 0")


def test_there_is_no_file(tmp_path: Path):
    path = tmp_path / "gone.npz"
    refused(path, rf"^routing: .*{re.escape(str(path))}")


def test_a_folder(tmp_path: Path):
    refused(mkdir(tmp_path / "trace.npz"), r"^routing: .*trace\.npz.* cannot be read")


def test_damaged_files(tmp_path: Path):
    whole = written(tmp_path, prefill=rows(800), decode=rows(4)).read_bytes()
    np.save(tmp_path / "array.npy", rows(80))
    contents = {
        "empty": b"",
        "text": b"prefill, decode",
        "cut": whole[: len(whole) // 2],
        "tail": whole[100:],
        "flipped": whole[:300] + bytes(256 - byte - 1 for byte in whole[300:400]) + whole[400:],
        "array": (tmp_path / "array.npy").read_bytes(),
    }
    for name, content in contents.items():
        path = tmp_path / f"{name}.npz"
        path.write_bytes(content)
        refused(path, rf"^routing: .*{name}\.npz")


def test_objects_are_not_loaded(tmp_path: Path):
    path = written(tmp_path, prefill=np.array([{}], object), decode=rows(4))
    refused(path, r"^routing: .*trace\.npz.* cannot be read")


@pytest.mark.parametrize("routing", ["uniform", "Balanced", "trace.npy", "", 3, True, 1.5, {"prefill": []}], ids=repr)
def test_other_routings_are_refused(routing: Any):
    refused(routing, rf"^routing: got {re.escape(repr(routing))}, needs balanced, random, expected, a trace by name")


# --- traces of DeepStack ---------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of DeepStack with one of its traces."""
    folder = tmp_path / "DeepStack" / "src" / "deepstack" / "mosaic" / "data" / "routing"
    folder.mkdir(parents=True)
    written(folder, "qwen3_235b", prefill=rows(80), decode=rows(4, seed=1))
    return tmp_path / "DeepStack"


def test_a_trace_by_name(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DEEPSTACK_ROOT", str(checkout))
    system = system_of({"ep": 8}, "qwen3_235b")
    ds = ss.sweep(**arguments_of(system), outputs="all")
    expected = reference_of(system | {"routing": Trace.of({"prefill": rows(80), "decode": rows(4, seed=1)})})
    assert ds.routing.item() == "qwen3_235b"
    assert system_differences(point_values(ds), expected) == {}


def test_a_trace_by_name_needs_a_checkout(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DEEPSTACK_ROOT", raising=False)
    refused("qwen3_235b", r"^routing: trace 'qwen3_235b' .*set DEEPSTACK_ROOT to a checkout of tile-ai/DeepStack")
    monkeypatch.setenv("DEEPSTACK_ROOT", "")
    refused("deepseek_v3", r"^routing: trace 'deepseek_v3' .*set DEEPSTACK_ROOT to a checkout of tile-ai/DeepStack")
    monkeypatch.setenv("DEEPSTACK_ROOT", str(checkout))
    refused("deepseek_v3", r"^routing: .*DeepStack.*deepseek_v3\.npz")
    monkeypatch.setenv("DEEPSTACK_ROOT", str(checkout / "src"))
    refused("qwen3_235b", r"^routing: .*qwen3_235b\.npz")
