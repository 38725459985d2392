import copy
import json
import re
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.golden import cases
from stacksweep.profiles import ChipProfile, ProfileError, load_chip
from stacksweep.profiles.bundled import bundled_directory
from stacksweep.profiles.isa import PIPELINED, ExpressionError, cycles
from stacksweep.profiles.precision import FormatError, bytes_per_element

FLAT: dict[str, Any] = {
    "name": "small",
    "MLEN": 64,
    "BLEN": 4,
    "VLEN": 16,
    "HLEN": 32,
    "VECTOR_SRAM_SIZE": 512,
    "HBM_V_Prefetch_Amount": 7,
    "VECTOR_BASIC_CYCLES": 2,
    "VECTOR_ADD_CYCLES": 3,
    "VECTOR_MUL_CYCLES": 5,
    "VECTOR_EXP_CYCLES": 11,
    "VECTOR_MAX_CYCLES": 13,
    "SCALAR_FP_BASIC_CYCLES": 17,
    "SCALAR_FP_EXP_CYCLES": 19,
    "SCALAR_FP_RECI_CYCLES": 23,
}
SIZES = ("MLEN", "BLEN", "VLEN", "HLEN", "VECTOR_SRAM_SIZE", "HBM_V_Prefetch_Amount")
FP8 = {"type": "Fp", "sign": True, "exponent": 4, "mantissa": 3}
SCALE = {"type": "Fp", "sign": False, "exponent": 8, "mantissa": 0}
MX = {"format": "Mx", "block": 8, "ELEM": FP8, "SCALE": SCALE}
TABLES = {
    "weight_bytes": "HBM_M_WEIGHT_TYPE",
    "kv_read_bytes": "HBM_M_KV_TYPE",
    "kv_write_bytes": "HBM_V_KV_TYPE",
    "activation_bytes": "HBM_V_ACT_TYPE",
}


def expected_instructions(chip: dict[str, Any]) -> dict[str, int]:
    """Cycles of every instruction, written out."""
    return {
        "M_MM": chip["BLEN"],
        "M_MV": 1 + chip["BLEN"],
        "M_BTMV": 1 + chip["BLEN"],
        "V_BASIC": chip["VECTOR_BASIC_CYCLES"],
        "V_ADD_VV": chip["VECTOR_ADD_CYCLES"],
        "V_MUL_VV": chip["VECTOR_MUL_CYCLES"],
        "V_EXP_V": 1 + chip["VECTOR_EXP_CYCLES"],
        "V_RED_MAX": 1 + chip["VECTOR_MAX_CYCLES"],
        "V_TOPK": 1 + chip["VECTOR_MAX_CYCLES"],
        "S_BASIC": chip["SCALAR_FP_BASIC_CYCLES"],
        "S_EXP_FP": chip["SCALAR_FP_EXP_CYCLES"],
        "S_RECI_FP": chip["SCALAR_FP_RECI_CYCLES"],
        "H_PREFETCH_M": 1,
        "H_PREFETCH_V": 1,
        "H_STORE_V": 1,
    }


def sizes_of(chip: ChipProfile) -> tuple[int, ...]:
    return (chip.mlen, chip.blen, chip.vlen, chip.hlen, chip.vector_sram_size, chip.prefetch_amount)


def element_bytes(chip: ChipProfile) -> tuple[float, ...]:
    return (chip.weight_bytes, chip.kv_read_bytes, chip.kv_write_bytes, chip.activation_bytes)


def settings_of(flat: dict[str, Any], tables: dict[str, Any] | None = None) -> dict[str, Any]:
    """The same chip in the layout of PLENA's settings."""
    names = [name for name in flat if name != "name"]
    analytic = {
        "CONFIG": {name: {"value": flat[name]} for name in names if not name.endswith("_CYCLES")},
        "LATENCY": {name: {"value": flat[name]} for name in names if name.endswith("_CYCLES")},
        "PRECISION": dict.fromkeys(TABLES.values(), MX) if tables is None else tables,
    }
    return {"name": flat["name"], "ANALYTIC": copy.deepcopy(analytic)}


def message(chip: Any, isa: Any = None) -> str:
    with pytest.raises(ProfileError) as caught:
        load_chip(chip, isa)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_bundled_chip() -> None:
    chip = load_chip("plena")
    assert sizes_of(chip) == (2048, 128, 2048, 128, 65536, 16)
    assert element_bytes(chip) == (1.125, 1.125, 1.125, 1.125)
    assert chip.instructions == {
        "M_MM": 128,
        "M_MV": 129,
        "M_BTMV": 129,
        "V_BASIC": 1,
        "V_ADD_VV": 1,
        "V_MUL_VV": 1,
        "V_EXP_V": 2,
        "V_RED_MAX": 5,
        "V_TOPK": 5,
        "S_BASIC": 1,
        "S_EXP_FP": 1,
        "S_RECI_FP": 1,
        "H_PREFETCH_M": 1,
        "H_PREFETCH_V": 1,
        "H_STORE_V": 1,
    }
    others = ("VECTOR_SUM", "VECTOR_RECI", "SCALAR_FP_SQRT", "SCALAR_INT_BASIC")
    assert [chip.constants[f"{name}_CYCLES"] for name in others] == [8, 2, 1, 1]


def test_reference_chips() -> None:
    for case in cases("single_chip"):
        chip = load_chip({**case["chip"], **case["precision"]})
        assert sizes_of(chip) == tuple(case["chip"][name] for name in SIZES)
        assert chip.instructions == expected_instructions(case["chip"])
        assert element_bytes(chip) == tuple(case["precision"][name] for name in TABLES)
        assert load_chip(chip.to_dict()) == chip


def test_flat_names_and_settings_give_the_same_chip(tmp_path: Path) -> None:
    chip = load_chip(FLAT)
    assert element_bytes(chip) == (1.125, 1.125, 1.125, 1.125)
    assert chip.instructions == expected_instructions(FLAT)
    assert load_chip(settings_of(FLAT)) == chip
    path = tmp_path / "small.json"
    path.write_text(json.dumps(settings_of(FLAT)))
    assert load_chip(path) == chip
    path.write_text(json.dumps(chip.to_dict()))
    assert load_chip(path) == chip
    assert load_chip({**FLAT, "kind": "plena"}) == chip


def test_only_the_analytic_part_of_a_settings_file_is_read(tmp_path: Path) -> None:
    text = bundled_directory("chips").joinpath("plena.toml").read_text()
    path = tmp_path / "my_settings.toml"
    text = text.replace('name = "plena"', "")
    foreign = """
        [BEHAVIOR.CONFIG.MLEN]
        value = 8
        [ANALYTIC.CONFIG.NOTE]
        value = "x"
        [ANALYTIC.CONFIG.note]
        value = 3
        [ANALYTIC.CONFIG.EMPTY]
    """
    path.write_text(foreign + text)
    chip = load_chip(path)
    assert chip.name == "my_settings"
    bundled = load_chip("plena")
    assert sizes_of(chip) == sizes_of(bundled)
    assert chip.instructions == bundled.instructions
    assert chip.constants == bundled.constants
    assert load_chip(chip.to_dict()) == chip


def test_latency_prefers_the_library_entry() -> None:
    chip = settings_of(FLAT)
    chip["ANALYTIC"]["LATENCY"]["VECTOR_ADD_CYCLES"] = {"dc_lib_en": 29, "dc_lib_dis": 31, "value": 37}
    chip["ANALYTIC"]["LATENCY"]["VECTOR_MUL_CYCLES"] = {"dc_lib_en": 41}
    instructions = load_chip(chip).instructions
    assert instructions == {**expected_instructions(FLAT), "V_ADD_VV": 29, "V_MUL_VV": 41}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_integers_above_zero(name: str) -> None:
    for chip, location in ((FLAT, name), (settings_of(FLAT), f"ANALYTIC.CONFIG.{name}")):
        for wrong in (0, -1, 2.0, True, "8", None):
            broken = copy.deepcopy(chip)
            if "ANALYTIC" in broken:
                broken["ANALYTIC"]["CONFIG"][name]["value"] = wrong
            else:
                broken[name] = wrong
            text = message(broken)
            assert text.startswith(f"chip profile 'small': {location}: got ")
            assert text.endswith(", needs an integer above 0")
        broken = copy.deepcopy(chip)
        del (broken["ANALYTIC"]["CONFIG"] if "ANALYTIC" in broken else broken)[name]
        assert message(broken) == f"chip profile 'small': {location}: missing, needs an integer above 0"
    broken = settings_of(FLAT)
    broken["ANALYTIC"]["CONFIG"][name] = 8
    assert message(broken) == (
        f"chip profile 'small': ANALYTIC.CONFIG.{name}: got 8, needs a table with an entry `value`"
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"MLEN": 66}, "MLEN: got 66, needs a multiple of BLEN (4)"),
        ({"VLEN": 3}, "VLEN: got 3, needs an integer of at least BLEN (4)"),
        ({"HLEN": 65}, "MLEN: got 64, needs an integer of at least HLEN (65)"),
        (
            {"VECTOR_SRAM_SIZE": 2**50},
            "VECTOR_SRAM_SIZE: got 1125899906842624, needs rows of VLEN (16) that hold at most",
        ),
        ({"MLEN": 2**54}, "MLEN: got 18014398509481984, needs an integer above 0 and at most 2**53"),
        ({"kind": "gpu"}, "kind: got 'gpu', needs 'plena', 'roofline' or no kind"),
        ({"weight_byte": 2}, "weight_byte: unknown key; known here: PLENA's names in capitals, isa, weight_bytes,"),
        ({"weight_bytes": 0}, "weight_bytes: got 0, needs a finite number above 0"),
        ({"kv_read_bytes": True}, "kv_read_bytes: got true, needs a finite number above 0"),
        ({"kv_write_bytes": float("nan")}, "kv_write_bytes: got nan, needs a finite number above 0"),
        ({"activation_bytes": MX}, "activation_bytes: got a table, needs a finite number above 0"),
        ({"isa": 3}, "isa: got 3, needs an ISA library"),
        (
            {"weight_bytes": 2, "HBM_M_WEIGHT_TYPE": MX},
            "weight_bytes: given twice, as a number and as HBM_M_WEIGHT_TYPE",
        ),
        (
            {"VECTOR_EXP_CYCLES": 1.5},
            "instruction V_EXP_V: needs VECTOR_EXP_CYCLES for '1 + VECTOR_EXP_CYCLES', which the chip profile does not",
        ),
        ({"VECTOR_ADD_CYCLES": 0}, "instruction V_ADD_VV: 'VECTOR_ADD_CYCLES' gives 0, needs an integer above 0"),
        (
            {"VECTOR_MAX_CYCLES": -4},
            "instruction V_RED_MAX: '1 + VECTOR_MAX_CYCLES' gives -3, needs an integer above 0",
        ),
    ],
)
def test_rules_of_a_flat_chip(change: dict[str, Any], expected: str) -> None:
    assert message({**FLAT, **change}).startswith(f"chip profile 'small': {expected}")


def test_a_missing_latency_names_the_instruction_that_needs_it() -> None:
    for name in FLAT:
        if name.endswith("_CYCLES"):
            text = message({key: value for key, value in FLAT.items() if key != name})
            assert f": needs {name} for " in text
            assert text.startswith("chip profile 'small': instruction ")


def test_settings_that_are_no_tables() -> None:
    assert message({"ANALYTIC": 3}) == "chip profile 'custom': ANALYTIC: got 3, needs a table"
    for part in ("CONFIG", "LATENCY", "PRECISION"):
        broken = settings_of(FLAT)
        broken["ANALYTIC"][part] = [1]
        assert message(broken) == f"chip profile 'small': ANALYTIC.{part}: got a list of 1, needs a table"


def test_element_bytes_by_table_or_number() -> None:
    tables = {
        "HBM_M_WEIGHT_TYPE": {**MX, "ELEM": {"type": "Int", "width": 4}, "block": 32},
        "HBM_M_KV_TYPE": {"format": "Plain", "DATA_TYPE": {"type": "Fp", "sign": True, "exponent": 8, "mantissa": 7}},
        "HBM_V_KV_TYPE": {"type": "Int", "width": 6},
        "HBM_V_ACT_TYPE": MX,
    }
    expected = ((4 + 8 / 32) / 8, 2.0, 0.75, 1.125)
    assert element_bytes(load_chip(settings_of(FLAT, tables))) == expected
    assert element_bytes(load_chip({**FLAT, **tables})) == expected
    numbers = dict(zip(TABLES, (0.5, 1, 2.5, 4), strict=True))
    assert element_bytes(load_chip({**FLAT, **numbers})) == (0.5, 1.0, 2.5, 4.0)
    assert element_bytes(load_chip({**settings_of(FLAT, {}), **numbers})) == (0.5, 1.0, 2.5, 4.0)
    assert element_bytes(load_chip({**FLAT, "kv_read_bytes": 3})) == (1.125, 3.0, 1.125, 1.125)


@pytest.mark.parametrize(("name", "table"), TABLES.items())
def test_a_settings_file_needs_every_storage_format(name: str, table: str) -> None:
    tables = dict.fromkeys(TABLES.values(), MX)
    place = f"chip profile 'small': ANALYTIC.PRECISION.{table}"
    broken = settings_of(FLAT, {key: value for key, value in tables.items() if key != table})
    assert message(broken) == f"{place}: missing, needs the table of a storage format"
    assert message(settings_of(FLAT, {**tables, table: {}})) == f"{place}.type: missing, needs 'Fp' or 'Int'"
    twice = {**settings_of(FLAT), name: 2}
    assert message(twice) == f"chip profile 'small': {name}: given twice, as a number and as ANALYTIC.PRECISION.{table}"


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (MX, 9 / 8),
        ({**MX, "block": 32}, (8 + 8 / 32) / 8),
        ({**MX, "block": 1}, 2.0),
        ({"format": "Plain", "DATA_TYPE": FP8}, 1.0),
        ({"format": "Plain", "DATA_TYPE": {"type": "Int", "width": 4}}, 0.5),
        (FP8, 1.0),
        (SCALE, 1.0),
        ({"type": "Fp", "sign": True, "exponent": 8, "mantissa": 23}, 4.0),
        ({"type": "Int", "width": 3, "comment": "kept by PLENA"}, 3 / 8),
    ],
)
def test_storage_formats(table: dict[str, Any], expected: float) -> None:
    assert bytes_per_element(table) == expected


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({**MX, "format": "mx"}, ".format: got 'mx', needs 'Mx' or 'Plain'"),
        ({**MX, "block": 0}, ".block: got 0, needs an integer from 1 to 65536"),
        ({**MX, "block": 8.0}, ".block: got 8.0, needs an integer from 1 to 65536"),
        ({**MX, "block": True}, ".block: got true, needs an integer from 1 to 65536"),
        ({**MX, "ELEM": 8}, ".ELEM: got 8, needs the table of a storage format"),
        ({**MX, "SCALE": {**SCALE, "type": "Bf"}}, ".SCALE.type: got 'Bf', needs 'Fp' or 'Int'"),
        ({"format": "Mx", "block": 8, "ELEM": FP8}, ".SCALE: missing, needs the table of a storage format"),
        ({"format": "Plain"}, ".DATA_TYPE: missing, needs the table of a storage format"),
        ({"format": "Plain", "DATA_TYPE": {"type": "Int"}}, ".DATA_TYPE.width: missing, needs an integer from 1"),
        ({"type": "Int", "width": 0}, ".width: got 0, needs an integer from 1 to 65536"),
        ({**FP8, "sign": 1}, ".sign: got 1, needs true or false"),
        ({**FP8, "exponent": -1}, ".exponent: got -1, needs an integer from 0 to 65536"),
        ({**SCALE, "exponent": 0}, ": got 0 bits, needs at least 1"),
        ({}, ".type: missing, needs 'Fp' or 'Int'"),
        (8, ": got 8, needs the table of a storage format"),
    ],
)
def test_what_is_no_storage_format(table: Any, expected: str) -> None:
    with pytest.raises(FormatError) as caught:
        bytes_per_element(table)
    assert str(caught.value).startswith(expected)
    text = message(settings_of(FLAT, dict.fromkeys(TABLES.values(), table)))
    assert text.startswith(f"chip profile 'small': ANALYTIC.PRECISION.HBM_M_WEIGHT_TYPE{expected}")


LIBRARY: dict[str, Any] = {name: {"pipelined": str(3 + order)} for order, name in enumerate(PIPELINED)}


def test_an_isa_library_replaces_the_table(tmp_path: Path) -> None:
    library = {
        **LIBRARY,
        "M_MM": {"pipelined": "(MLEN // BLEN) ** 2 % 100 - VLEN / HBM_V_Prefetch_Amount * 0 + 1", "latency": "x"},
        "H_STORE_V": {"pipelined": 9},
        "ANOTHER": {"pipelined": "UNKNOWN"},
    }
    expected = {name: 3 + order for order, name in enumerate(PIPELINED)} | {"M_MM": 57, "H_STORE_V": 9}
    chip = load_chip(FLAT, isa=library)
    assert chip.instructions == expected
    assert sizes_of(chip) == sizes_of(load_chip(FLAT))
    path = tmp_path / "isa.json"
    path.write_text(json.dumps(library))
    assert load_chip(FLAT, isa=path) == load_chip(FLAT, isa=str(path)) == load_chip(load_chip(FLAT), path) == chip
    assert load_chip({**FLAT, "isa": library}) == chip
    assert load_chip(json.loads(json.dumps(chip.to_dict()))) == chip
    assert load_chip(FLAT, isa=path).provenance.notes["isa_library"]["path"] == str(path.resolve())
    assert len(load_chip(FLAT, isa=path).provenance.notes["isa_library"]["sha256"]) == 64


def test_an_isa_library_needs_no_latency_that_it_does_not_use() -> None:
    sizes = {name: FLAT[name] for name in ("name", *SIZES)}
    assert load_chip(sizes, isa=LIBRARY).instructions["M_MM"] == 3
    assert "VECTOR_BASIC_CYCLES" in message(sizes)


@pytest.mark.parametrize("name", PIPELINED)
def test_an_isa_library_has_every_instruction(name: str) -> None:
    library = {key: value for key, value in LIBRARY.items() if key != name}
    ending = 'needs an expression as {"pipelined": "BLEN"}'
    assert message(FLAT, library) == f"ISA library 'custom': instruction {name}: missing, {ending}"
    for entry, problem in (
        ({}, "missing"),
        (5, "missing"),
        ({"pipelined": 1.5}, "got 1.5"),
        ({"pipelined": True}, "got "),
    ):
        assert message(FLAT, {**LIBRARY, name: entry}).startswith(
            f"ISA library 'custom': instruction {name}: {problem}"
        )


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("BLEN +", "'BLEN +' is not made of names, integers, + - * / // % ** and parentheses"),
        ("", "'' is not made of"),
        ("1.5", "'1.5' is not made of"),
        ("True", "'True' is not made of"),
        ("'a'", "\"'a'\" is not made of"),
        ("abs(BLEN)", "'abs(BLEN)' is not made of"),
        ("BLEN.real", "'BLEN.real' is not made of"),
        ("BLEN if 1 else 2", "'BLEN if 1 else 2' is not made of"),
        ("~BLEN", "'~BLEN' is not made of"),
        ("BLEN << 2", "'BLEN << 2' is not made of"),
        ("[BLEN][0]", "'[BLEN][0]' is not made of"),
        ("(" * 199, "is not made of"),
        ("1\0", "is not made of"),
        ("BLEN" * 51, "got 204 characters, needs at most 200"),
        ("BLEN / 0", "'BLEN / 0' divides by zero"),
        ("BLEN // (4 - 4)", "divides by zero"),
        ("BLEN % 0", "divides by zero"),
        ("0 ** -1", "divides by zero"),
        ("BLEN / 3", "'BLEN / 3' gives 4/3, needs an integer above 0"),
        ("BLEN - 4", "'BLEN - 4' gives 0, needs an integer above 0"),
        ("-BLEN", "'-BLEN' gives -4, needs an integer above 0"),
        ("2 ** 54", "gives 18014398509481984, needs an integer above 0 and at most 2**53"),
        ("9 ** 9 ** 9", "got a power of more than 4096 bits"),
        ("BLEN ** (1 / 2)", "got the exponent 1/2, needs an integer"),
        ("2 ** 2000", "gives a number of more than 40 digits"),
    ],
)
def test_expressions_that_give_no_cycles(expression: str, expected: str) -> None:
    library = {**LIBRARY, "V_EXP_V": {"pipelined": expression}}
    text = message(FLAT, library)
    assert text.startswith("chip profile 'small' with ISA library 'custom': instruction V_EXP_V: ")
    assert expected in text


def test_a_name_that_the_chip_does_not_have() -> None:
    assert message(FLAT, {**LIBRARY, "S_BASIC": {"pipelined": "BLEN + DEPTH"}}) == (
        "chip profile 'small' with ISA library 'custom': instruction S_BASIC: needs DEPTH for 'BLEN + DEPTH', "
        "which the chip profile does not give as an integer"
    )


NAMES = {"A": 3, "B_CYCLES": 128, "C": 7}
leaves = st.integers(0, 50).map(str) | st.sampled_from(sorted(NAMES))
expressions = st.recursive(
    leaves,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(
            lambda parts: f"({' '.join(parts)})"
        )
        | st.tuples(st.sampled_from("+-"), inner).map("".join)
        | st.tuples(inner, st.integers(-2, 3)).map(lambda parts: f"({parts[0]}) ** {parts[1]}")
    ),
    max_leaves=6,
)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(expressions)
def test_expressions_are_worth_what_python_says(expression: str) -> None:
    # integers become fractions, except exponents, so that Python computes exactly as well
    exact = re.sub(r"(?<!\*\* )(?<!\*\* -)\b\d+", r"Fraction(\g<0>)", expression)
    try:
        value = eval(exact, {"Fraction": Fraction, **{name: Fraction(number) for name, number in NAMES.items()}})
    except ZeroDivisionError:
        value = None
    if value is not None and value == int(value) and 1 <= value <= 2**53:
        assert cycles(expression, NAMES) == value
    else:
        with pytest.raises(ExpressionError):
            cycles(expression, NAMES)


@st.composite
def flat_chips(draw: st.DrawFn) -> dict[str, Any]:
    block = draw(st.integers(1, 64))
    chip = {
        "name": "drawn",
        "BLEN": block,
        "MLEN": block * draw(st.integers(1, 64)),
        "VLEN": block + draw(st.integers(0, 4096)),
        "VECTOR_SRAM_SIZE": draw(st.integers(1, 2**40)),
        "HBM_V_Prefetch_Amount": draw(st.integers(1, 64)),
    }
    chip["HLEN"] = draw(st.integers(1, chip["MLEN"]))
    chip |= {name: draw(st.integers(1, 99)) for name in FLAT if name.endswith("_CYCLES")}
    return chip | {name: draw(st.floats(1 / 64, 16)) for name in TABLES}


@settings(derandomize=True, deadline=None, max_examples=60)
@given(flat_chips())
def test_any_valid_chip_loads_and_comes_back(flat: dict[str, Any]) -> None:
    chip = load_chip(flat)
    assert sizes_of(chip) == tuple(flat[name] for name in SIZES)
    assert chip.instructions == expected_instructions(flat)
    assert element_bytes(chip) == tuple(flat[name] for name in TABLES)
    assert load_chip(json.loads(json.dumps(chip.to_dict()))) == chip


def test_the_bundled_file_is_in_the_layout_of_plenas_settings() -> None:
    data = tomllib.loads(bundled_directory("chips").joinpath("plena.toml").read_text())
    assert data["ANALYTIC"]["CONFIG"]["MLEN"]["value"] == 2048
    assert data["ANALYTIC"]["PRECISION"]["HBM_M_WEIGHT_TYPE"] == MX
