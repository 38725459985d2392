"""Schema of a PLENA chip, given in the layout of PLENA's settings or by flat names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from pydantic import model_validator

from stacksweep.profiles._validation import Open, PositiveInteger, PositiveNumber, Strict, broken_rule, validated
from stacksweep.profiles.base import LARGEST_INTEGER, ProfileError
from stacksweep.profiles.precision import DEFAULT_BYTES, TABLES, FormatError, bytes_per_element
from stacksweep.profiles.source import Document


class _Sizes(Open):
    MLEN: PositiveInteger
    BLEN: PositiveInteger
    VLEN: PositiveInteger
    HLEN: PositiveInteger
    VECTOR_SRAM_SIZE: PositiveInteger
    HBM_V_Prefetch_Amount: PositiveInteger

    @model_validator(mode="after")
    def _blocks_fit(self) -> Self:
        if self.MLEN % self.BLEN:
            raise broken_rule("MLEN", self.MLEN, f"a multiple of BLEN ({self.BLEN})")
        if self.VLEN < self.BLEN:
            raise broken_rule("VLEN", self.VLEN, f"an integer of at least BLEN ({self.BLEN})")
        if self.MLEN < self.HLEN:
            raise broken_rule("MLEN", self.MLEN, f"an integer of at least HLEN ({self.HLEN})")
        for name in ("VECTOR_SRAM_SIZE", "HBM_V_Prefetch_Amount"):
            rows = getattr(self, name)
            if rows * self.VLEN > LARGEST_INTEGER:
                raise broken_rule(name, rows, f"rows of VLEN ({self.VLEN}) that hold at most 2**53 elements")
        return self


class _ElementBytes(Strict):
    weight_bytes: PositiveNumber
    kv_read_bytes: PositiveNumber
    kv_write_bytes: PositiveNumber
    activation_bytes: PositiveNumber


@dataclass(frozen=True)
class PlenaContent:
    """What a PLENA profile says.

    Attributes
    ----------
    constants : dict
        Every integer, by PLENA's names (in capitals).
    element_bytes : dict
        Bytes per element of weights, KV read, KV written and activations.
    isa : dict or None
        An ISA library inside the profile, unchecked.
    """

    constants: dict[str, int]
    element_bytes: dict[str, float]
    isa: dict[str, Any] | None


def read_plena(document: Document) -> PlenaContent:
    """Check a PLENA profile.

    Raises
    ------
    ProfileError
        One line on the first entry that breaks a rule.
    """
    isa = document.data.get("isa")
    if isa is not None and not isinstance(isa, dict):
        document.fail("isa", isa, "an ISA library")
    if "ANALYTIC" in document.data:
        named, tables = _settings(document)
        validated(_Sizes, document, named, "ANALYTIC.CONFIG.")
        stored = element_bytes(document, tables, "ANALYTIC.PRECISION.", None)
    else:
        named = _flat(document)
        validated(_Sizes, document, named)
        stored = element_bytes(document, named, "", DEFAULT_BYTES)
    return PlenaContent({name: value for name, value in named.items() if _is_constant(name, value)}, stored, isa)


def _is_constant(name: str, value: object) -> bool:
    return _is_plena_name(name) and isinstance(value, int) and not isinstance(value, bool)


def _is_plena_name(name: str) -> bool:
    """Tell PLENA's own names, which start with a capital, from the entries that a profile adds to them."""
    return name[:1].isupper()


def _settings(document: Document) -> tuple[dict[str, Any], dict[str, Any]]:
    """Flatten `[ANALYTIC.CONFIG]` and `[ANALYTIC.LATENCY]`; return them with the tables of `[ANALYTIC.PRECISION]`."""
    analytic = _table(document, "ANALYTIC", document.data["ANALYTIC"])
    config, latency, precision = (
        _table(document, f"ANALYTIC.{name}", analytic.get(name, {})) for name in ("CONFIG", "LATENCY", "PRECISION")
    )
    for name in _Sizes.model_fields:
        if name in config and not (isinstance(config[name], dict) and "value" in config[name]):
            document.fail(f"ANALYTIC.CONFIG.{name}", config[name], "a table with an entry `value`")
    named = {}
    for entries, keys in ((config, ("value",)), (latency, ("dc_lib_en", "value"))):
        for name, entry in entries.items():
            key = next((key for key in keys if isinstance(entry, dict) and key in entry), None)
            if key is not None:
                named[name] = entry[key]
    return named, precision


def _flat(document: Document) -> dict[str, Any]:
    known = ("isa", *TABLES)
    for name in document.data:
        if name not in known and not _is_plena_name(name):
            raise ProfileError(
                f"{document.label}: {name}: unknown key; known here: PLENA's names in capitals, "
                f"{', '.join(known)}, name, provenance"
            )
    return {name: value for name, value in document.data.items() if name not in known}


def _table(document: Document, place: str, table: Any) -> dict[str, Any]:
    if not isinstance(table, dict):
        document.fail(place, table, "a table")
    return table


def element_bytes(document: Document, tables: Mapping[str, Any], place: str, default: float | None) -> dict[str, float]:
    """Read bytes per element: a number at the top of the profile, or the storage format of its table.

    Parameters
    ----------
    document : Document
        The profile, which may give numbers.
    tables : Mapping
        Where its tables of formats are.
    place : str
        Where `tables` stand in the profile, with a dot at its end.
    default : float or None
        Bytes where neither is given; None where one must be.

    Raises
    ------
    ProfileError
        If something is missing, given twice, or no storage format.
    """
    given: dict[str, Any] = {}
    for name, table in TABLES.items():
        location = f"{place}{table}"
        if name in document.data and table in tables:
            raise ProfileError(f"{document.label}: {name}: given twice, as a number and as {location}")
        if name in document.data:
            given[name] = document.data[name]
        elif table in tables:
            try:
                given[name] = bytes_per_element(tables[table])
            except FormatError as error:
                raise ProfileError(f"{document.label}: {location}{error}") from None
        elif default is not None:
            given[name] = default
        else:
            needs = "the table of a storage format"
            document.missing(location if place else name, needs if place else f"a number, or {needs} as {table}")
    return validated(_ElementBytes, document, given).model_dump()
