"""Profiles of roofline chips: bundled ones, storage formats, and what is refused."""

import math
from pathlib import Path
from typing import Any

import pytest

from stacksweep.profiles import ProfileError, RooflineChip, bundled_names, load_chip

WIDTHS = {"weight_bytes": 1.0, "kv_read_bytes": 1.0, "kv_write_bytes": 2.0, "activation_bytes": 2.0}
CHIP: dict[str, Any] = {"name": "card", "kind": "roofline", "peak_flops": {"16": 1e15, "8": 2e15}, **WIDTHS}
BUNDLED = {
    "h100_sxm": {8: 1979e12, 16: 989.5e12},
    "h200": {8: 1979e12, 16: 989.5e12},
    "b200": {4: 9e15, 8: 4.5e15, 16: 2.25e15},
    "mi300x": {8: 2614.9e12, 16: 1307.4e12},
    "mi325x": {8: 2614.9e12, 16: 1307.4e12},
}


def message(source: Any, isa: Any = None) -> str:
    with pytest.raises(ProfileError) as caught:
        load_chip(source, isa)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_chips_are_upper_bounds(name: str) -> None:
    chip = load_chip(name)
    assert isinstance(chip, RooflineChip)
    assert chip.peak_flops == BUNDLED[name]
    assert (chip.compute_efficiency, chip.memory_efficiency) == (1, 1)
    assert (chip.operation_overhead, chip.layer_overhead, chip.pass_overhead, chip.activation_cache) == (0, 0, 0, 0)
    assert {getattr(chip, width) for width in WIDTHS} == {2.0}
    assert "sheet" in chip.provenance.notes["source"] or "brief" in chip.provenance.notes["source"]
    assert chip.provenance.notes["description"].startswith("An upper bound")
    assert chip.name == name
    assert name in bundled_names("chips")


def test_defaults_and_round_trip() -> None:
    chip = load_chip(CHIP)
    assert isinstance(chip, RooflineChip)
    assert chip.kind == "roofline"
    assert list(chip.peak_flops) == [8, 16]
    assert (chip.compute_efficiency, chip.memory_efficiency, chip.layer_overhead) == (1, 1, 0)
    assert load_chip(chip.to_dict()) == chip
    assert load_chip(chip) is chip
    noted = load_chip({**CHIP, "provenance": {"source": "a guess"}})
    assert load_chip(noted.to_dict()).provenance.notes == {"source": "a guess"}


def test_a_file_with_storage_formats(tmp_path: Path) -> None:
    path = tmp_path / "card.toml"
    path.write_text(
        """
        kind = "roofline"
        layer_overhead = 2e-6
        kv_read_bytes = 1.0
        [peak_flops]
        8 = 2e15
        [HBM_M_WEIGHT_TYPE]
        format = "Mx"
        block = 32
        ELEM = { type = "Fp", sign = true, exponent = 4, mantissa = 3 }
        SCALE = { type = "Fp", sign = false, exponent = 8, mantissa = 0 }
        [HBM_V_KV_TYPE]
        type = "Int"
        width = 8
        [HBM_V_ACT_TYPE]
        format = "Plain"
        DATA_TYPE = { type = "Fp", sign = true, exponent = 8, mantissa = 7 }
        """
    )
    chip = load_chip(path)
    assert isinstance(chip, RooflineChip)
    assert chip.name == "card"
    assert (chip.weight_bytes, chip.kv_read_bytes) == (1.03125, 1.0)
    assert (chip.kv_write_bytes, chip.activation_bytes) == (1.0, 2.0)
    assert chip.layer_overhead == 2e-6


PEAKS = "a table from bits of the operand (4, 8, 16, 32) to FLOP/s above 0"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"peak_flops": 1e15}, f"peak_flops: got 1000000000000000.0, needs {PEAKS}"),
        ({"peak_flops": {}}, "peak_flops: got a table, needs at least one of 4, 8, 16, 32"),
        ({"peak_flops": {"12": 1e15}}, "peak_flops: got '12', needs bits of an operand: 4, 8, 16, 32"),
        ({"peak_flops": {"16": 0}}, "peak_flops.16: got 0, needs"),
        ({"peak_flops": {"16": True}}, "peak_flops.16: got true, needs"),
        ({"peak_flops": {"16": math.inf}}, "peak_flops.16: got inf, needs"),
        ({"compute_efficiency": 0}, "compute_efficiency: got 0, needs a number above 0 and at most 1"),
        ({"memory_efficiency": 1.01}, "memory_efficiency: got 1.01, needs a number above 0 and at most 1"),
        ({"layer_overhead": -1e-9}, "layer_overhead: got -1e-09, needs a finite number of at least 0"),
        ({"pass_overhead": "1"}, "pass_overhead: got '1', needs a finite number of at least 0"),
        ({"activation_cache": math.nan}, "activation_cache: got nan, needs a finite number of at least 0"),
        ({"weight_bytes": -2}, "weight_bytes: got -2, needs a finite number above 0"),
        ({"MLEN": 64}, "MLEN: unknown key; known here: peak_flops, compute_efficiency"),
        ({"HBM_M_KV_TYPE": {}}, "kv_read_bytes: given twice, as a number and as HBM_M_KV_TYPE"),
    ],
)
def test_rules(change: dict[str, Any], expected: str) -> None:
    assert message({**CHIP, **change}).startswith(f"chip profile 'card': {expected}")


def test_what_is_missing() -> None:
    assert message({"kind": "roofline", **WIDTHS}) == f"chip profile 'custom': peak_flops: missing, needs {PEAKS}"
    without = {key: value for key, value in CHIP.items() if key != "kv_read_bytes"}
    needs = "a number, or the table of a storage format as HBM_M_KV_TYPE"
    assert message(without) == f"chip profile 'card': kv_read_bytes: missing, needs {needs}"


def test_an_isa_library_has_no_use() -> None:
    for chip in (CHIP, load_chip(CHIP)):
        assert message(chip, {"M_MM": {"pipelined": "1"}}) == (
            "chip profile 'card': is a roofline chip, which has no instructions for an ISA library"
        )
