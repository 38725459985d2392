import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.golden import cases
from stacksweep.profiles import ProfileError, load_memory

STACK: dict[str, Any] = {
    "schema_version": 1,
    "kind": "stacked_dram",
    "name": "stack",
    "dram": {
        "total_layers": 10,
        "connected_layers": 3,
        "channels_per_connected_layer": 7,
        "capacity_per_layer_bytes": 123,
        "transaction_bytes": 96,
        "apply_wave_quantization": True,
        "bytes_per_channel_transfer": 5.5,
        "transfers_per_memory_clock": 1.25,
        "memory_frequency_hz": 345e6,
        "bank_timing": {
            "row_bytes": 4070,
            "sector_bytes": 74,
            "sector_cycles": 3,
            "recharge_cycles": 41,
            "round_trip_latency_cycles": 137.5,
            "latency_clock_hz": 654e6,
        },
    },
    "buffering": {
        "requesters": 3,
        "buffer_bytes_per_requester": 54321,
        "buffering_factor": 1.75,
        "round_trip_latency_cycles": 99.5,
        "round_trip_latency_clock_hz": 1.5e9,
    },
    "thermal": {
        "resistance_base_c_per_w": 0.42,
        "resistance_per_layer_c_per_w": 0.007,
        "baseline_layers": 3,
        "design_power_w": 73.0,
        "static_power_w": 8.0,
        "dynamic_power_exponent": 2.5,
    },
    "energy": {"read_pj_per_bit": 2.47, "write_pj_per_bit": 2.71},
}
FIXED: dict[str, Any] = {
    "schema_version": 1,
    "kind": "fixed_bandwidth",
    "name": "fixed",
    "bandwidth_bytes_per_s": 1.5e12,
    "capacity_bytes": 1000,
    "transaction_bytes": 96,
    "energy": {"read_pj_per_bit": 2.47, "write_pj_per_bit": 2.71},
}

# Place in the file -> name of the number, for every number of a stack.
PLACES = {
    ("dram", "total_layers"): "layers",
    **{
        ("dram", name): name
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
    **{("dram", "bank_timing", name): name for name in STACK["dram"]["bank_timing"]},
    ("buffering", "requesters"): "requesters",
    ("buffering", "buffer_bytes_per_requester"): "buffer_bytes_per_requester",
    ("buffering", "buffering_factor"): "buffering_factor",
    ("buffering", "round_trip_latency_cycles"): "buffer_round_trip_latency_cycles",
    ("buffering", "round_trip_latency_clock_hz"): "buffer_round_trip_latency_clock_hz",
    **{("thermal", name): name for name in STACK["thermal"]},
    **{("energy", name): name for name in STACK["energy"]},
}
WHOLE = {
    "layers",
    "connected_layers",
    "channels_per_connected_layer",
    "capacity_per_layer_bytes",
    "transaction_bytes",
    "row_bytes",
    "sector_bytes",
    "requesters",
    "buffer_bytes_per_requester",
    "baseline_layers",
}
MAY_BE_ZERO = {
    "recharge_cycles",
    "round_trip_latency_cycles",
    "buffer_round_trip_latency_cycles",
    "resistance_per_layer_c_per_w",
    "baseline_layers",
    "static_power_w",
    "read_pj_per_bit",
    "write_pj_per_bit",
}


def changed(profile: dict[str, Any], place: tuple[str, ...], *value: Any) -> dict[str, Any]:
    """A copy with one entry set, or taken away when no value is given."""
    profile = copy.deepcopy(profile)
    table = profile
    for key in place[:-1]:
        table = table[key]
    if value:
        table[place[-1]] = value[0]
    else:
        del table[place[-1]]
    return profile


def message(profile: Any) -> str:
    with pytest.raises(ProfileError) as caught:
        load_memory(profile)
    return str(caught.value)


def leaves_no_clock(profile: dict[str, Any]) -> bool:
    """Whether thermal derating leaves no power at the profile's height: an invalid point, not an invalid profile."""
    thermal = profile.get("thermal")
    if thermal is None:
        return False
    base, per_layer = thermal["resistance_base_c_per_w"], thermal["resistance_per_layer_c_per_w"]
    layers = profile["dram"]["total_layers"]
    power = thermal["design_power_w"] * (base + per_layer * thermal["baseline_layers"]) / (base + per_layer * layers)
    return bool(power <= thermal["static_power_w"])


def test_reference_profiles_load_unless_refused_and_come_back_as_they_were() -> None:
    refused = 0
    for case in cases("memory"):
        profile = case["profile"]
        if "error" in case:
            refused += 1
            assert leaves_no_clock(profile), "every refused reference profile is one without a clock"
        memory = load_memory(profile)
        assert memory.to_dict() == profile
        assert load_memory(memory.to_dict()) == memory
        assert memory.kind == profile["kind"]
        if "error" in case:
            continue
        expected = case["expect"]
        assert memory.name == expected["name"]
        if memory.kind == "stacked_dram":
            numbers = memory.numbers
            assert numbers["layers"] == expected["total_layers"]
            assert numbers["connected_layers"] == expected["connected_layers"]
            assert numbers["layers"] * numbers["capacity_per_layer_bytes"] == expected["capacity_bytes"]
            assert memory.wave_quantization == expected["apply_wave_quantization"]
            assert not leaves_no_clock(profile)
        else:
            assert memory.numbers.get("capacity_bytes") == expected["capacity_bytes"]
            assert memory.numbers.get("transaction_bytes") == expected["transaction_bytes"]
            assert memory.wave_quantization is False
    assert refused == 1


def test_every_number_has_its_own_name() -> None:
    numbers = load_memory(STACK).numbers
    assert set(numbers) == set(PLACES.values())
    for place, name in PLACES.items():
        value: Any = STACK
        for key in place:
            value = value[key]
        assert numbers[name] == value
        assert isinstance(numbers[name], int if name in WHOLE else float)
    assert load_memory(FIXED).numbers == {
        "bandwidth_bytes_per_s": 1.5e12,
        "capacity_bytes": 1000,
        "transaction_bytes": 96,
        "read_pj_per_bit": 2.47,
        "write_pj_per_bit": 2.71,
    }


def test_what_is_not_given_is_absent() -> None:
    bare = {"schema_version": 1, "kind": "fixed_bandwidth", "bandwidth_bytes_per_s": 1.0, "capacity_bytes": None}
    memory = load_memory(bare)
    assert memory.numbers == {"bandwidth_bytes_per_s": 1.0}
    assert memory.to_dict() == {**bare, "name": "custom"}
    small = {key: value for key, value in STACK.items() if key not in ("buffering", "thermal", "energy")}
    assert set(load_memory(small).numbers) == {name for place, name in PLACES.items() if place[0] == "dram"}
    assert load_memory({**small, "thermal": None, "energy": None}) == load_memory(small)


@pytest.mark.parametrize("place", PLACES)
def test_a_number_of_a_stack_is_of_its_kind(place: tuple[str, ...]) -> None:
    name = PLACES[place]
    needs = ("an integer" if name in WHOLE else "a finite number") + (
        " of at least 0" if name in MAY_BE_ZERO else " above 0"
    )
    location = ".".join(place)
    for wrong in (True, "7", -1, float("nan"), float("inf"), [], *([1.5] if name in WHOLE else [])):
        text = message(changed(STACK, place, wrong))
        assert text.startswith(f"memory profile 'stack': {location}: got ")
        assert text.endswith(f", needs {needs}")
    if name in MAY_BE_ZERO:
        assert load_memory(changed(STACK, place, 0)).numbers[name] == 0
    else:
        assert message(changed(STACK, place, 0)) == f"memory profile 'stack': {location}: got 0, needs {needs}"
    if name in WHOLE:
        text = message(changed(STACK, place, 2**53 + 2))
        assert text == f"memory profile 'stack': {location}: got {2**53 + 2}, needs {needs} and at most 2**53"
    assert message(changed(STACK, place)).startswith(f"memory profile 'stack': {location}: missing, needs ")
    misspelt = message(changed(STACK, (*place[:-1], place[-1] + "s"), 1))
    assert misspelt.startswith(f"memory profile 'stack': {location}s: unknown key; known here: ")


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        (changed(STACK, ("dram", "total_layers"), True), "dram.total_layers: got true, needs an integer above 0"),
        (changed(STACK, ("dram", "connected_layers"), 11), "an integer of at most total_layers (10)"),
        (changed(STACK, ("dram", "bank_timing", "row_bytes"), 4071), "needs a multiple of sector_bytes (74)"),
        (changed(STACK, ("dram", "apply_wave_quantization"), 1), "got 1, needs true or false"),
        (changed(STACK, ("dram", "apply_wave_quantization")), "missing, needs true or false"),
        (changed(STACK, ("dram",)), "memory profile 'stack': dram: missing, needs a table"),
        (changed(STACK, ("energy",), 3), "memory profile 'stack': energy: got 3, needs a table"),
        (changed(STACK, ("energy",), []), "memory profile 'stack': energy: got a list of 0, needs a table"),
        (changed(STACK, ("schema_version",), 2), "schema_version: got 2, needs 1"),
        (changed(STACK, ("schema_version",), True), "schema_version: got true, needs 1"),
        (changed(STACK, ("schema_version",)), "schema_version: missing, needs 1"),
        (changed(STACK, ("kind",)), "kind: missing, needs one of stacked_dram, fixed_bandwidth"),
        (changed(STACK, ("kind",), "hbm"), "kind: got 'hbm', needs one of stacked_dram, fixed_bandwidth"),
        (changed(STACK, ("kind",), []), "kind: got a list of 0, needs one of stacked_dram, fixed_bandwidth"),
        (changed(STACK, ("cooling",), {}), "cooling: unknown key; known here: schema_version, kind, dram, buffering,"),
        (
            changed(STACK, ("dram", "direct_peak_bandwidth_per_connected_layer_bytes_per_s"), 5e11),
            "dram.direct_peak_bandwidth_per_connected_layer_bytes_per_s: got 500000000000.0, needs to be left out "
            "beside bytes_per_channel_transfer, transfers_per_memory_clock, memory_frequency_hz",
        ),
        (
            changed(STACK, ("dram", "fully_connected_efficiency"), 0.5),
            "dram.fully_connected_efficiency: got 0.5, needs to be left out beside bank_timing",
        ),
        (
            changed(STACK, ("dram", "bank_timing")),
            "fully_connected_efficiency: missing, needs a number above 0 and at most 1 (or bank_timing in its place)",
        ),
        (
            changed(STACK, ("buffering", "round_trip_latency_clock_hz")),
            "round_trip_latency_clock_hz: missing, needs a finite number, as round_trip_latency_cycles is given",
        ),
        (
            changed(STACK, ("buffering", "round_trip_latency_cycles")),
            "round_trip_latency_cycles: missing, needs a finite number, as round_trip_latency_clock_hz is given",
        ),
        (
            changed(STACK, ("thermal", "static_power_w"), 73),
            "thermal.static_power_w: got 73.0, needs a number of at least 0 and below design_power_w (73)",
        ),
        (changed(FIXED, ("capacity_bytes",)), "capacity_bytes: missing, needs an integer above 0, or null"),
        (changed(FIXED, ("capacity_bytes",), 0), "capacity_bytes: got 0, needs an integer above 0, or null"),
        (changed(FIXED, ("capacity_bytes",), 1.5), "capacity_bytes: got 1.5, needs an integer above 0, or null"),
        (changed(FIXED, ("bandwidth_bytes_per_s",), 0), "bandwidth_bytes_per_s: got 0, needs a finite number above 0"),
        (changed(FIXED, ("bandwidth_bytes_per_s",), None), "got null, needs a finite number above 0"),
        (changed(FIXED, ("bandwidth_bytes_per_s",)), "missing, needs a finite number above 0"),
        (changed(FIXED, ("bandwidth_bytes_per_s",), 10**400), "got an integer of more than 40 digits, needs a finite"),
        (changed(FIXED, ("transaction_bytes",), False), "transaction_bytes: got false, needs an integer above 0"),
        (changed(FIXED, ("energy", "write_pj_per_bit")), "energy.write_pj_per_bit: missing, needs a finite number of"),
        (changed(FIXED, ("dram",), {}), "dram: unknown key; known here: schema_version, kind, bandwidth_bytes_per_s,"),
    ],
)
def test_rules(profile: dict[str, Any], expected: str) -> None:
    assert expected in message(profile)


def test_the_direct_peak_and_the_efficiency_forms() -> None:
    dram = {
        key: value
        for key, value in STACK["dram"].items()
        if key not in ("bytes_per_channel_transfer", "transfers_per_memory_clock", "memory_frequency_hz")
    }
    direct = {**dram, "direct_peak_bandwidth_per_connected_layer_bytes_per_s": 5e11}
    assert load_memory({**STACK, "dram": direct}).numbers["row_bytes"] == 4070
    plain = {key: value for key, value in direct.items() if key != "bank_timing"} | {"fully_connected_efficiency": 1}
    assert load_memory({**STACK, "dram": plain}).numbers["fully_connected_efficiency"] == 1.0
    for wrong in (0, 1.01, True, float("nan")):
        text = message({**STACK, "dram": {**plain, "fully_connected_efficiency": wrong}})
        assert text.endswith("needs a number above 0 and at most 1")
    unpaired = {**STACK["buffering"]}
    del unpaired["round_trip_latency_cycles"], unpaired["round_trip_latency_clock_hz"]
    assert "buffer_round_trip_latency_cycles" not in load_memory({**STACK, "buffering": unpaired}).numbers
    assert message({**STACK, "dram": plain, "buffering": unpaired}) == (
        "memory profile 'stack': buffering.round_trip_latency_cycles: missing, needs a finite number of at least 0, "
        "with round_trip_latency_clock_hz (or dram.bank_timing)"
    )
    for absent in ("bytes_per_channel_transfer", "transfers_per_memory_clock", "memory_frequency_hz"):
        text = message(changed(STACK, ("dram", absent)))
        assert text.startswith(
            f"memory profile 'stack': dram.{absent}: missing, needs a finite number above 0 (all of "
        )
    assert "dram.bytes_per_channel_transfer: missing" in message({**STACK, "dram": dram})


def test_fictional_profiles() -> None:
    stack = load_memory("fictional_stacked_dram")
    assert stack.wave_quantization is True
    assert stack.numbers == {
        "layers": 10,
        "connected_layers": 3,
        "channels_per_connected_layer": 7,
        "capacity_per_layer_bytes": 1234567890,
        "transaction_bytes": 96,
        "bytes_per_channel_transfer": 5.5,
        "transfers_per_memory_clock": 1.25,
        "memory_frequency_hz": 345678901.0,
        "row_bytes": 4070,
        "sector_bytes": 74,
        "sector_cycles": 3,
        "recharge_cycles": 41,
        "round_trip_latency_cycles": 137.5,
        "latency_clock_hz": 654321987.0,
        "requesters": 3,
        "buffer_bytes_per_requester": 54321,
        "buffering_factor": 1.75,
        "resistance_base_c_per_w": 0.42,
        "resistance_per_layer_c_per_w": 0.007,
        "baseline_layers": 3,
        "design_power_w": 73.0,
        "static_power_w": 8.0,
        "dynamic_power_exponent": 2.5,
        "read_pj_per_bit": 2.47,
        "write_pj_per_bit": 2.71,
    }
    assert load_memory("fictional_fixed_bandwidth").numbers == {
        "bandwidth_bytes_per_s": 1234567890123.0,
        "capacity_bytes": 98765432101,
        "transaction_bytes": 96,
        "read_pj_per_bit": 2.47,
        "write_pj_per_bit": 2.71,
    }


@pytest.mark.parametrize(
    ("name", "bandwidth", "capacity"),
    [
        ("h100_sxm", 3.35e12, 80e9),
        ("h200", 4.8e12, 141e9),
        ("b200", 8e12, 180e9),
        ("mi300x", 5.3e12, 192e9),
        ("mi325x", 6e12, 256e9),
    ],
)
def test_data_sheet_profiles(name: str, bandwidth: float, capacity: float) -> None:
    memory = load_memory(name)
    assert memory.kind == "fixed_bandwidth"
    assert memory.numbers == {"bandwidth_bytes_per_s": bandwidth, "capacity_bytes": capacity}
    assert "data sheet" in memory.provenance.notes["source"]


positive = st.floats(1e-12, 1e15)
count = st.integers(1, 2**53)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(data=st.data())
def test_any_valid_stack_comes_back_as_it_was(data: st.DataObject) -> None:
    layers = data.draw(st.integers(1, 64))
    sector = data.draw(st.integers(1, 500))
    dram: dict[str, Any] = {
        "total_layers": layers,
        "connected_layers": data.draw(st.integers(1, layers)),
        "channels_per_connected_layer": data.draw(count),
        "capacity_per_layer_bytes": data.draw(count),
        "transaction_bytes": data.draw(count),
        "apply_wave_quantization": data.draw(st.booleans()),
    }
    if data.draw(st.booleans()):
        dram["direct_peak_bandwidth_per_connected_layer_bytes_per_s"] = data.draw(positive)
    else:
        for name in ("bytes_per_channel_transfer", "transfers_per_memory_clock", "memory_frequency_hz"):
            dram[name] = data.draw(positive)
    if data.draw(st.booleans()):
        dram["fully_connected_efficiency"] = data.draw(st.floats(1e-6, 1))
    else:
        dram["bank_timing"] = {
            "row_bytes": sector * data.draw(st.integers(1, 100)),
            "sector_bytes": sector,
            "sector_cycles": data.draw(positive),
            "recharge_cycles": data.draw(st.just(0.0) | positive),
            "round_trip_latency_cycles": data.draw(st.just(0.0) | positive),
            "latency_clock_hz": data.draw(positive),
        }
    profile = {
        "schema_version": 1,
        "kind": "stacked_dram",
        "name": data.draw(st.text("ab c", min_size=1)),
        "dram": dram,
    }
    if profile["name"].strip():
        assert load_memory(profile).to_dict() == profile
