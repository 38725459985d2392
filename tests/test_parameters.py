"""What parameters may be, and what is said when they are something else."""

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import stacksweep as ss
from stacksweep.parameters import BY_NAME, PARAMETERS, did_you_mean, parameter
from stacksweep.results import RESULTS

BASE: dict[str, Any] = {
    "model": "llama-3.2-1b",
    "memory": "fictional_stacked_dram",
    "input_seq_len": 10,
    "output_seq_len": 2,
}
STACK = ss.load_memory("fictional_stacked_dram").to_dict()
COMPOSED = ("bytes_per_channel_transfer", "transfers_per_memory_clock", "memory_frequency_hz")
DIRECT = "direct_peak_bandwidth_per_connected_layer_bytes_per_s"
BANK = {
    "row_bytes": 4070,
    "sector_bytes": 74,
    "sector_cycles": 3,
    "recharge_cycles": 41,
    "round_trip_latency_cycles": 137.5,
    "latency_clock_hz": 654321987,
}
BUFFERING = {"requesters": 3, "buffer_bytes_per_requester": 54321, "buffering_factor": 1.75}
THERMAL = STACK["thermal"]
LATENCY = {"buffer_round_trip_latency_cycles": 137.5, "buffer_round_trip_latency_clock_hz": 654321987}
FIXED = {
    "schema_version": 1,
    "kind": "fixed_bandwidth",
    "name": "fixed",
    "bandwidth_bytes_per_s": 1e12,
    "capacity_bytes": 10**11,
}


def changed_stack(dram: dict[str, Any] | None = None, *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fictional stack with other entries in `dram`, and without some entries or tables."""
    document = {name: part for name, part in STACK.items() if name not in without} | {"name": "stack"}
    document["dram"] = {name: value for name, value in STACK["dram"].items() if name not in without} | (dram or {})
    return document


DIRECT_STACK = changed_stack({DIRECT: 7e9}, without=COMPOSED)
EFFICIENT_STACK = changed_stack({"fully_connected_efficiency": 0.83}, without=("bank_timing", "buffering"))


def refused(message: str, **arguments: Any) -> None:
    """The call is refused in exactly these words, at once, by `sweep` and by `estimate`."""
    with pytest.raises(ss.ParameterError) as caught:
        ss.sweep(**BASE | arguments)
    assert str(caught.value) == message


# --- the table -------------------------------------------------------------------------------------------------------


def test_the_table_is_sound():
    assert len(BY_NAME) == len(PARAMETERS)
    assert len({known.coordinate for known in PARAMETERS}) == len(PARAMETERS)
    for known in PARAMETERS:
        assert known.name.isidentifier()
        assert not known.words[0].isupper() or known.words[1].isupper()
        assert not known.words.endswith(".")
        if known.kind in ("integer", "number", "parallel"):
            assert known.low < known.high
            assert known.default is None or known.low <= known.default <= known.high
        if known.kind == "choice":
            # what overlap is by default depends on the chip
            assert known.default in known.choices or known.name == "overlap"
    # a coordinate must not be mistaken for a result
    assert not {known.coordinate for known in PARAMETERS} & {result.name for result in RESULTS}


def test_defaults():
    given = {known.name: known.default for known in PARAMETERS if known.default is not None}
    assert given == {
        "chip": "plena",
        "frequency_hz": 1e9,
        "link_model": "deepstack",
        **dict.fromkeys(("tp", "ep", "dp", "pp", "cp"), 1),
        "moe_tp_mode": "replace",
        "batch_size": 16,
        "input_seq_len": 2048,
        "output_seq_len": 1024,
        "comm_overlap": "none",
        "routing": "balanced",
        "include_lm_head": False,
    }


def test_every_numeric_field_of_a_memory_is_a_parameter():
    numbers = {name for memory in ss.bundled_names("memory") for name in ss.load_memory(memory).numbers}
    numbers |= {DIRECT, "fully_connected_efficiency", *LATENCY}
    assert numbers <= set(BY_NAME)


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("batch_size", "a whole number of at least 1 and at most 1e+09"),
        ("layers", "a whole number of at least 1 and at most 4096"),
        ("weight_bytes", "a number of at least 1e-12 and at most 1024"),
        ("frequency_hz", "a number of at least 1e-12 and at most 1e+24"),
        ("recharge_cycles", "a number of at least 0 and at most 1e+24"),
        ("fully_connected_efficiency", "a number of at least 1e-12 and at most 1"),
        ("baseline_layers", "a whole number of at least 0 and at most 4096"),
        ("overlap", "one of stage-roofline, op-roofline, serial"),
        ("include_lm_head", "true or false"),
        ("model", "a bundled name, a path, a mapping in the file's layout, or a loaded profile"),
    ],
)
def test_what_is_allowed_in_words(name: str, allowed: str):
    assert parameter(name).allowed == allowed


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("batchsize", "; did you mean batch_size?"),
        ("batch", "; did you mean batch_size?"),
        ("Layers", "; did you mean layers?"),
        ("conected_layers", "; did you mean connected_layers or channels_per_connected_layer or baseline_layers?"),
        ("zzz", ""),
    ],
)
def test_unknown_parameters(name: str, suggestion: str):
    refused(f"{name}: no such parameter{suggestion}", **{name: 1})
    with pytest.raises(ss.ParameterError, match=f"^{name}: no such parameter"):
        ss.estimate(**BASE, **{name: 1})
    with pytest.raises(ss.ParameterError, match=f"^{name}: no such parameter"):
        ss.sweep(**BASE, points=pd.DataFrame({name: [1]}))


def test_an_unknown_parameter_is_found_before_a_missing_one():
    with pytest.raises(ss.ParameterError, match=r"^layer: no such parameter; did you mean layers"):
        ss.sweep(layer=3)


@pytest.mark.parametrize("name", ["model", "memory"])
def test_missing_parameters(name: str):
    needs = "a bundled name, a path, a mapping in the file's layout, or a loaded profile"
    refused(f"{name}: is missing, needs {needs}", **{name: None})


def test_few_known_words_are_listed():
    assert did_you_mean("zzz", ["one", "two"]) == "; there are one, two"


# --- numbers ---------------------------------------------------------------------------------------------------------

WHOLE = "needs a whole number of at least 1 and at most 1e+09"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (-3, "-3"),
        (2.5, "2.5"),
        (math.nan, "nan"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (10**9 + 1, "1000000001"),
        (10**30, str(10**30)),
        (True, "True"),
        (np.True_, "True"),
        ("16", "'16'"),
        (b"16", "b'16'"),
        (16 + 0j, "(16+0j)"),
        (Decimal(16), "Decimal('16')"),
        (Fraction(16), "Fraction(16, 1)"),
        ({"a": 1}, "{'a': 1}"),
        ({16}, "{16}"),
        (np.float32(0.5), "0.5"),
        (np.int8(-1), "-1"),
    ],
    ids=str,
)
@pytest.mark.parametrize("form", ["value", "list", "array", "DataArray", "points"])
def test_numbers_that_are_none(value: Any, shown: str, form: str):
    if form in ("array", "DataArray", "points") and isinstance(value, dict | set):
        pytest.skip("no array holds these")
    message = f"batch_size: got {shown}, {WHOLE}"
    if form == "value":
        refused(message, batch_size=value)
        return
    if form == "list":
        refused(message, batch_size=[1, value])
        return
    # numbers of one kind only: an array turns its other entries into the kind of this one
    array = np.array([value])
    if form == "array":
        refused(message, batch_size=array)
    elif form == "DataArray":
        refused(message, batch_size=xr.DataArray(array, dims="x"))
    else:
        refused(message, points=pd.DataFrame({"batch_size": [value]}))


@pytest.mark.parametrize("value", [0, -1.5, math.nan, math.inf])
def test_numbers_above_zero(value: float):
    needs = "needs a number of at least 1e-12 and at most 1e+24"
    refused(f"frequency_hz: got {value!r}, {needs}", frequency_hz=value)
    refused(f"frequency_hz: got {float(value)!r}, {needs}", frequency_hz=[1e9, value])


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("fully_connected_efficiency", 1.5, "a number of at least 1e-12 and at most 1"),
        ("weight_bytes", 2000, "a number of at least 1e-12 and at most 1024"),
        ("kv_read_bytes", 0, "a number of at least 1e-12 and at most 1024"),
        ("recharge_cycles", -1, "a number of at least 0 and at most 1e+24"),
        ("layers", 0, "a whole number of at least 1 and at most 4096"),
        ("layers", 5000, "a whole number of at least 1 and at most 4096"),
        ("connected_layers", 1.5, "a whole number of at least 1 and at most 4096"),
        ("baseline_layers", -1, "a whole number of at least 0 and at most 4096"),
        ("capacity_per_layer_bytes", 1e19, "a whole number of at least 1 and at most 1e+18"),
        ("bandwidth_bytes_per_s", -1.0, "a number of at least 1e-12 and at most 1e+24"),
        ("tp", 0, 'a whole number of at least 1 and at most 1.04858e+06, or "fill"'),
        ("tp", "all", 'a whole number of at least 1 and at most 1.04858e+06, or "fill"'),
    ],
)
def test_limits(name: str, value: float, allowed: str):
    refused(f"{name}: got {value!r}, needs {allowed}", **{name: value})


@pytest.mark.parametrize("name", [known.name for known in PARAMETERS if known.kind in ("integer", "number")])
def test_limits_of_every_number(name: str):
    known = BY_NAME[name]
    for value in (known.low - 1, known.low - 1e-13, known.high * 1.01, math.nan, -math.inf, math.inf, "1", True):
        with pytest.raises(ss.ParameterError, match=f"^{name}: got .*, needs {re.escape(known.allowed)}$"):
            ss.sweep(**BASE | {name: value})


COMPLETE: dict[str, dict[str, Any]] = {
    "direct_peak_bandwidth_per_connected_layer_bytes_per_s": {"memory": DIRECT_STACK},
    "fully_connected_efficiency": {"memory": EFFICIENT_STACK},
    "bandwidth_bytes_per_s": {"memory": "fictional_fixed_bandwidth"},
    "capacity_bytes": {"memory": "fictional_fixed_bandwidth"},
    "buffer_round_trip_latency_cycles": LATENCY,
    "buffer_round_trip_latency_clock_hz": LATENCY,
    "row_bytes": {"sector_bytes": 1},
    "sector_bytes": {"row_bytes": 2**40},
    **{
        f"l{n}_{name}": {"noc": "gpu_node_8", "tp": 8}
        for n in (1, 2, 3)
        for name in ("bandwidth", "latency", "pj_per_bit")
    },
    **{known.name: {"chip": "b200"} for known in PARAMETERS if known.chips == "roofline"},
}
"""What a parameter needs beside it to have a meaning."""


@pytest.mark.parametrize("name", [known.name for known in PARAMETERS if known.kind in ("integer", "number")])
def test_results_at_the_limits_are_numbers(name: str):
    known = BY_NAME[name]
    ds = ss.sweep(**BASE | COMPLETE.get(name, {}) | {name: [known.low, known.high]})
    for variable in ds.data_vars.values():
        assert (np.isfinite(variable) | ~ds.valid).all(), variable.name
        assert ((variable >= 0) | ~ds.valid).all()


@pytest.mark.parametrize(
    "empty", [[], (), range(0), np.array([]), pd.Series([], dtype=float), xr.DataArray([], dims="x")], ids=type
)
def test_no_values(empty: Any):
    refused("batch_size: got no values, needs at least one", batch_size=empty)


@pytest.mark.parametrize("shape", [(2, 0), (0, 2), (0, 0)])
def test_no_values_along_one_of_two_dimensions(shape: tuple[int, int]):
    refused("batch_size: got no values, needs at least one", batch_size=xr.DataArray(np.zeros(shape), dims=("x", "y")))


def test_no_points():
    with pytest.raises(ss.ParameterError, match="got no values, needs at least one"):
        ss.sweep(**BASE, points=pd.DataFrame({"batch_size": []}))
    refused("points: got no column, needs at least one parameter", points=pd.DataFrame(index=[1, 2]))


def test_arrays_of_two_dimensions_need_names():
    message = "batch_size: got an array of 2 dimensions; name them with an xarray.DataArray"
    refused(message, batch_size=np.ones((2, 2)))


def test_lists_in_lists():
    refused(f"batch_size: got [1, 2], {WHOLE}", batch_size=[[1, 2], [3, 4]])


def test_masked_arrays_are_refused():
    masked = np.ma.masked_array([1, 2], mask=[False, True])
    refused("batch_size: got a masked array, needs plain values", batch_size=masked)


def test_missing_values_of_pandas():
    for values in (pd.Series([1, None], dtype="Int64"), pd.Series([1, None], dtype=float), pd.Series([1, pd.NA])):
        with pytest.raises(ss.ParameterError, match=r"^batch_size: got (<NA>|nan), needs a whole number"):
            ss.sweep(**BASE, batch_size=values)


# --- words and profiles ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["Serial", "", 1, None, 2.5, True])
def test_words(value: Any):
    message = f"overlap: got {value!r}, needs one of stage-roofline, op-roofline, serial"
    if value is not None:
        refused(message, overlap=value)
    refused(message, overlap=["serial", value])


@pytest.mark.parametrize("value", [0, 1, "true", "False", 1.0])
def test_switches(value: Any):
    message = f"include_lm_head: got {value!r}, needs true or false"
    refused(message, include_lm_head=value)
    refused(message, include_lm_head=[True, False, value])


@pytest.mark.parametrize("kind", ["model", "chip", "memory"])
def test_unknown_profiles(kind: str):
    with pytest.raises(ss.ProfileError, match="'nonsense': neither an existing file nor a bundled name"):
        ss.sweep(**BASE | {kind: "nonsense"})
    with pytest.raises(ss.ProfileError, match="got 5, needs a bundled name, a path or a mapping"):
        ss.sweep(**BASE | {kind: 5})
    with pytest.raises(ss.ProfileError, match="'nonsense': neither an existing file nor a bundled name"):
        ss.sweep(
            **{name: value for name, value in BASE.items() if name != kind}, points=pd.DataFrame({kind: ["nonsense"]})
        )


def test_two_profiles_of_one_name():
    one = {
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "intermediate_size": 96,
        "vocab_size": 100,
    }
    other = one | {"num_hidden_layers": 3}
    refused("model: two different ones are called 'custom'; give each its own name", model=[one, other])
    assert ss.sweep(**BASE | {"model": [one, other | {"name": "more"}]}).model.values.tolist() == ["custom", "more"]


def test_an_unknown_routing():
    with pytest.raises(ss.ParameterError, match=r"^routing: got 'fair', needs balanced, random"):
        ss.sweep(**BASE, routing="fair")


# --- what is asked for -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ("tsp", "outputs: no result is called 'tsp'; did you mean tps?"),
        (["ttft", "tsp"], "outputs: no result is called 'tsp'; did you mean tps?"),
        ("", "outputs: no result is called ''"),
        ([], 'outputs: got none; name at least one result, or "main", "all" or "bottleneck"'),
        ([5], "outputs: no result is called 5"),
        (5, "outputs: no result is called 5"),
        (None, "outputs: no result is called None"),
    ],
)
def test_outputs(outputs: Any, message: str):
    refused(message, outputs=outputs)


@pytest.mark.parametrize("dtype", ["float16", "int", None, int, 5, ["float32"]])
def test_dtypes(dtype: Any):
    with pytest.raises(ss.ParameterError, match=f"^dtype: got {re.escape(repr(dtype))}, needs float64 or float32$"):
        ss.sweep(**BASE, dtype=dtype)


def test_results_that_do_not_fit_in_memory():
    huge = {"batch_size": range(1, 100_001), "input_seq_len": range(1, 100_001), "output_seq_len": range(1, 1001)}
    with pytest.raises(ss.ResultTooLargeError) as caught:
        ss.sweep(**BASE | huge, outputs="ttft")
    # 8 bytes of ttft, valid, reason
    assert re.fullmatch(
        r"the result of 10,000,000,000,000 points and 3 variables needs 93132\.3 GiB, and [0-9.]+ GiB are free; "
        r'ask for fewer outputs= or for dtype="float32", write it block by block with to="sweep\.nc", or '
        r'evaluate it lazily with chunks="auto"',
        str(caught.value),
    )
    assert isinstance(caught.value, MemoryError)


# --- overrides of a memory's numbers ---------------------------------------------------------------------------------


def along(dim: Any, values: Any, **coordinates: Any) -> xr.DataArray:
    return xr.DataArray(values, dims=dim, coords={name: (dim, value) for name, value in coordinates.items()})


def peak(**arguments: Any) -> float:
    ds = ss.sweep(**BASE | arguments, outputs=["peak_bandwidth", "connectivity_efficiency", "usable_bandwidth"])
    assert ds.valid.all()
    return float(ds.peak_bandwidth)


def test_fields_of_another_kind_of_memory():
    refused("layers: memory 'fixed' (fixed_bandwidth) has no such field to override", memory=FIXED, layers=[1, 2])
    refused("row_bytes: memory 'fixed' (fixed_bandwidth) has no such field to override", memory=FIXED, row_bytes=74)
    refused(
        "bandwidth_bytes_per_s: memory 'fictional_stacked_dram' (stacked_dram) has no such field to override",
        bandwidth_bytes_per_s=1e12,
    )
    refused(
        "capacity_bytes: memory 'fictional_stacked_dram' (stacked_dram) has no such field to override",
        capacity_bytes=10,
    )
    # one of several memories is enough
    refused(
        "layers: memory 'fixed' (fixed_bandwidth) has no such field to override",
        memory=["fictional_stacked_dram", FIXED],
        layers=4,
    )


def test_fields_that_a_fixed_bandwidth_may_be_given():
    ds = ss.sweep(
        **BASE | {"memory": FIXED}, bandwidth_bytes_per_s=[1e9, 1e12], transaction_bytes=[1, 4096], outputs="all"
    )
    assert ds.usable_bandwidth.isel(transaction_bytes=0).values.tolist() == [1e9, 1e12]
    assert (ds.prefill_read_bytes.sel(transaction_bytes=4096) % 4096 == 0).all()
    unknown = ss.sweep(**BASE | {"memory": FIXED | {"capacity_bytes": None}}, capacity_bytes=[1, 10**11])
    assert unknown.fits.values.tolist() == [False, True]
    energy = ss.sweep(**BASE | {"memory": FIXED}, read_pj_per_bit=1, write_pj_per_bit=[0, 2], outputs="all")
    reads, writes = energy.prefill_read_bytes.values, energy.prefill_write_bytes.values
    np.testing.assert_allclose(energy.prefill_dram_energy, 8 * (reads + np.array([0, 2]) * writes), rtol=1e-14)


@pytest.mark.parametrize("name", ["read_pj_per_bit", "write_pj_per_bit"])
def test_half_of_the_energies(name: str):
    (other,) = {"read_pj_per_bit", "write_pj_per_bit"} - {name}
    message = f"{name}: memory 'fixed' does not have its energy; give {other} too to complete it"
    refused(message, memory=FIXED, **{name: 1})


def test_fields_of_a_form_that_the_memory_does_not_have():
    refused(
        "fully_connected_efficiency: memory 'fictional_stacked_dram' is described by row_bytes, sector_bytes, "
        "sector_cycles, recharge_cycles, round_trip_latency_cycles, latency_clock_hz instead",
        fully_connected_efficiency=0.5,
    )
    refused(
        f"{DIRECT}: memory 'fictional_stacked_dram' is described by bytes_per_channel_transfer, "
        "transfers_per_memory_clock, memory_frequency_hz instead",
        **{DIRECT: 1e9},
    )
    refused(
        "memory_frequency_hz: memory 'stack' does not have its composed peak; give bytes_per_channel_transfer, "
        "transfers_per_memory_clock too to complete it",
        memory=DIRECT_STACK,
        memory_frequency_hz=1e9,
    )
    refused(
        "row_bytes: memory 'stack' does not have its bank timing; give sector_bytes, sector_cycles, recharge_cycles, "
        "round_trip_latency_cycles, latency_clock_hz too to complete it",
        memory=EFFICIENT_STACK,
        row_bytes=74,
    )
    refused(
        "static_power_w: memory 'stack' does not have its thermal; give resistance_base_c_per_w, "
        "resistance_per_layer_c_per_w, baseline_layers, design_power_w, dynamic_power_exponent too to complete it",
        memory=changed_stack(without=("thermal",)),
        static_power_w=3,
    )
    refused(
        "requesters: memory 'stack' does not have its buffering; give buffer_bytes_per_requester, buffering_factor too "
        "to complete it",
        memory=changed_stack(without=("buffering",)),
        requesters=3,
    )
    refused(
        "buffer_round_trip_latency_cycles: memory 'fictional_stacked_dram' does not have its buffering's round trip; "
        "give buffer_round_trip_latency_clock_hz too to complete it",
        buffer_round_trip_latency_cycles=10,
    )


def test_completing_the_other_form_of_the_peak():
    given = {"bytes_per_channel_transfer": 2, "transfers_per_memory_clock": 1.5, "memory_frequency_hz": 1e9}
    # three connected layers of seven channels
    assert peak(memory=DIRECT_STACK) == 3 * 7e9
    assert peak(memory=DIRECT_STACK, **given) == 3 * 7 * 2 * 1.5 * 1e9
    assert peak(memory=DIRECT_STACK, **{DIRECT: 5e9}) == 3 * 5e9
    with pytest.raises(ss.ParameterError, match=DIRECT):
        peak(memory=DIRECT_STACK, **given, **{DIRECT: 5e9})


def test_completing_the_other_form_of_the_efficiency():
    ds = ss.sweep(**BASE | {"memory": EFFICIENT_STACK}, **BANK, layers=4, outputs="all")
    assert ds.connectivity_efficiency.item() == pytest.approx(165 / 206, rel=1e-15)
    assert ss.sweep(**BASE | {"memory": EFFICIENT_STACK}, layers=4, outputs="all").connectivity_efficiency == 0.83
    with pytest.raises(ss.ParameterError, match="fully_connected_efficiency"):
        ss.sweep(**BASE | {"memory": EFFICIENT_STACK}, **BANK, fully_connected_efficiency=0.5)


def test_completing_buffering_and_its_latency():
    bare = changed_stack(without=("buffering",))
    with_profile = ss.sweep(**BASE, outputs="all")
    given = ss.sweep(**BASE | {"memory": bare}, **BUFFERING, outputs="all")
    assert given.usable_bandwidth == with_profile.usable_bandwidth
    # with an efficiency in place of bank timing there is no latency to fall back on
    message = (
        "requesters: memory 'stack' has no round-trip latency; give buffer_round_trip_latency_cycles and "
        "buffer_round_trip_latency_clock_hz too"
    )
    refused(message, memory=EFFICIENT_STACK, **BUFFERING)
    limited = ss.sweep(
        **BASE | {"memory": EFFICIENT_STACK}, **BUFFERING | LATENCY | {"buffer_bytes_per_requester": 10}, outputs="all"
    )
    # 10 bytes from each of 3 requesters in each latency, with a factor of 1.75
    latency = 137.5 / 654321987
    assert limited.buffering_limited
    assert limited.usable_bandwidth.item() == pytest.approx(3 * 10 / latency / 1.75, rel=1e-14)
    refused("buffer_round_trip_latency_cycles: memory 'stack' has no buffering", memory=bare, **LATENCY)
    # given beside bank timing, the buffering's own latency counts
    own = ss.sweep(**BASE, **{name: value * 10 for name, value in LATENCY.items()}, outputs="all")
    assert own.usable_bandwidth == with_profile.usable_bandwidth
    slower = ss.sweep(**BASE, **LATENCY | {"buffer_round_trip_latency_cycles": 10**6}, outputs="all")
    assert slower.buffering_limited


def test_completing_thermal():
    bare = changed_stack(without=("thermal",))
    assert ss.sweep(**BASE | {"memory": bare}).clock_scale == 1
    assert ss.sweep(**BASE | {"memory": bare}, **THERMAL).clock_scale == ss.sweep(**BASE).clock_scale


def test_rows_are_whole_sectors():
    message = "row_bytes: needs a multiple of sector_bytes at every point"
    refused(message, row_bytes=75)
    refused(message, row_bytes=[74, 148, 149])
    refused(message, sector_bytes=[74, 73])
    refused(message, memory=EFFICIENT_STACK, **BANK | {"row_bytes": 75})
    # together at each point, not in every combination
    ds = ss.sweep(
        **BASE,
        row_bytes=along("x", [100, 99], x=["a", "b"]),
        sector_bytes=along("x", [50, 33], x=["a", "b"]),
        layers=2,
        outputs="connectivity_efficiency",
    )
    assert ds.connectivity_efficiency.values.tolist() == pytest.approx([6 / 47, 9 / 50])
    refused(message, row_bytes=[100, 99], sector_bytes=[50, 33])


def test_height_alone_connects_all_layers():
    alone = ss.sweep(**BASE, layers=[2, 5], outputs="all")
    all_of_them = ss.sweep(**BASE, layers=[2, 5], connected_layers=along("layers", [2, 5]), outputs="all")
    assert alone.peak_bandwidth.values.tolist() == all_of_them.peak_bandwidth.values.tolist()
    assert (alone.connectivity_efficiency == 165 / 206).all()
    both = ss.sweep(**BASE, layers=[3, 5], connected_layers=3, outputs="all")
    assert both.peak_bandwidth.values[0] == both.peak_bandwidth.values[1]


# --- one point -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values", [[1], (1, 2), range(3), np.array([1]), pd.Series([1]), xr.DataArray([1], dims="x")], ids=type
)
def test_an_estimate_takes_one_point(values: Any):
    message = "^batch_size: got several values, and an estimate takes one; use sweep for arrays$"
    with pytest.raises(ss.ParameterError, match=message):
        ss.estimate(**BASE, batch_size=values)


@pytest.mark.parametrize("name", ["points", "outputs", "dtype", "progress"])
def test_an_estimate_has_no_options_of_a_sweep(name: str):
    with pytest.raises(ss.ParameterError, match=f"^{name}: no such parameter"):
        ss.estimate(**BASE, **{name: "main"})


def test_errors_are_value_errors():
    for error in (ss.ParameterError, ss.ProfileError, ss.InvalidPointError):
        assert issubclass(error, ValueError)
