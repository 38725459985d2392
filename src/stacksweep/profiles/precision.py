"""Storage formats of a chip profile, and the bytes that an element takes in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stacksweep.profiles.base import shown

# What an element takes in PLENA's default format: 8 bits, and an 8-bit scale shared by 8 elements.
DEFAULT_BYTES = 1.125

# Number of a chip profile -> table of PLENA's settings that gives it.
TABLES = {
    "weight_bytes": "HBM_M_WEIGHT_TYPE",
    "kv_read_bytes": "HBM_M_KV_TYPE",
    "kv_write_bytes": "HBM_V_KV_TYPE",
    "activation_bytes": "HBM_V_ACT_TYPE",
}


class FormatError(ValueError):
    """A table that is no storage format. The message starts at the entry inside the table that is wrong."""


def bytes_per_element(table: object) -> float:
    """Read the size of an element off the table of its storage format.

    Parameters
    ----------
    table : object
        ``{"format": "Mx", "block": n, "ELEM": scalar, "SCALE": scalar}``, ``{"format": "Plain", "DATA_TYPE": scalar}``
        or a scalar: ``{"type": "Fp", "sign": bool, "exponent": bits, "mantissa": bits}`` or
        ``{"type": "Int", "width": bits}``.

    Returns
    -------
    float
        Bytes per element; for ``Mx`` with the element's share of the scale.

    Raises
    ------
    FormatError
        If the table is anything else.
    """
    form = table.get("format") if isinstance(table, Mapping) else None
    if form == "Mx":
        block = _bits(table, "block", least=1)
        return (
            _scalar_bits(_entry(table, "ELEM"), ".ELEM") + _scalar_bits(_entry(table, "SCALE"), ".SCALE") / block
        ) / 8
    if form == "Plain":
        return _scalar_bits(_entry(table, "DATA_TYPE"), ".DATA_TYPE") / 8
    if form is not None:
        raise FormatError(f".format: got {shown(form)}, needs 'Mx' or 'Plain'")
    return _scalar_bits(table, "") / 8


def _scalar_bits(table: object, location: str) -> int:
    if not isinstance(table, Mapping):
        raise FormatError(f"{location}: got {shown(table)}, needs the table of a storage format")
    kind = table.get("type")
    if kind == "Int":
        return _bits(table, "width", location, least=1)
    if kind != "Fp":
        raise FormatError(f"{location}.type: {_got(table, 'type')}, needs 'Fp' or 'Int'")
    sign = table.get("sign")
    if not isinstance(sign, bool):
        raise FormatError(f"{location}.sign: {_got(table, 'sign')}, needs true or false")
    bits = sign + _bits(table, "exponent", location) + _bits(table, "mantissa", location)
    if bits == 0:
        raise FormatError(f"{location}: got 0 bits, needs at least 1")
    return bits


def _bits(table: Any, key: str, location: str = "", least: int = 0) -> int:
    value = table.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= 2**16:
        raise FormatError(f"{location}.{key}: {_got(table, key)}, needs an integer from {least} to 65536")
    return value


def _entry(table: Any, key: str) -> object:
    if key not in table:
        raise FormatError(f".{key}: missing, needs the table of a storage format")
    return table[key]


def _got(table: Mapping[str, object], key: str) -> str:
    return f"got {shown(table[key])}" if key in table else "missing"
