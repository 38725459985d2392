"""Roofline chips: a chip given by its peaks, the share of them that is reached, and what each pass costs besides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from stacksweep.profiles.base import Provenance
from stacksweep.profiles.source import Document

OPERAND_BITS = (4, 8, 16, 32)
"""Widths of operands for which a chip can have a peak."""

NUMBERS = (
    "compute_efficiency",
    "memory_efficiency",
    "operation_overhead",
    "layer_overhead",
    "pass_overhead",
    "activation_cache",
)
"""Numbers of a profile beside its peaks and storage formats."""


@dataclass(frozen=True)
class RooflineChip:
    """One chip given by its peaks.

    Attributes
    ----------
    name : str
        Name of the profile.
    peak_flops : Mapping
        FLOP/s (a multiplication and an addition count two) by bits of the wider operand, from narrow to wide.
    compute_efficiency, memory_efficiency : float
        Shares of the peak and of the usable bandwidth that operations reach.
    operation_overhead, layer_overhead, pass_overhead : float
        Seconds that each operation, each layer, and each pass through a pipeline stage take besides.
    activation_cache : float
        Bytes of activations that an operation of the prefill keeps on the chip.
    overlap : {"op-roofline", "stage-roofline", "serial"}
        What the parameter `overlap` is by default on this chip.
    weight_bytes, kv_read_bytes, kv_write_bytes, activation_bytes : float
        Bytes per element in off-chip memory.
    provenance : Provenance
        File, hash and notes; not part of equality.
    """

    name: str
    peak_flops: Mapping[int, float] = field(hash=False)
    compute_efficiency: float
    memory_efficiency: float
    operation_overhead: float
    layer_overhead: float
    pass_overhead: float
    activation_cache: float
    overlap: str
    weight_bytes: float
    kv_read_bytes: float
    kv_write_bytes: float
    activation_bytes: float
    provenance: Provenance = field(compare=False)
    kind: ClassVar[str] = "roofline"

    def to_dict(self) -> dict[str, Any]:
        """Return the profile in its file's layout; loading it gives an equal profile."""
        document: dict[str, Any] = {"name": self.name, "kind": self.kind}
        document |= {"peak_flops": {str(bits): peak for bits, peak in self.peak_flops.items()}}
        document |= {name: getattr(self, name) for name in (*NUMBERS, "overlap")}
        for name in ("weight_bytes", "kv_read_bytes", "kv_write_bytes", "activation_bytes"):
            document[name] = getattr(self, name)
        if self.provenance.notes:
            document["provenance"] = dict(self.provenance.notes)
        return document

    def to_toml(self) -> str:
        """Return the content of a profile file."""
        document = self.to_dict()
        lines = [f"{key} = {_toml(value)}" for key, value in document.items() if not isinstance(value, dict)]
        for name in ("peak_flops", "provenance"):
            if name in document:
                lines += ["", f"[{name}]", *(f"{_key(key)} = {_toml(value)}" for key, value in document[name].items())]
        return "\n".join(lines) + "\n"


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else _toml(key)


def _toml(value: Any) -> str:
    """Write a value; TOML's texts and numbers are JSON's, and what has no value in TOML (null) is a text."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_toml(entry)}" for key, entry in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # DEL is the one character that JSON leaves as it is and TOML does not
    # and pairs of escapes, as JSON writes what is beyond 16 bits, are not TOML's
    return json.dumps("null" if value is None else value, ensure_ascii=False).replace("\x7f", "\\u007f")


def roofline_chip(document: Document) -> RooflineChip:
    """Check a document of kind "roofline".

    Raises
    ------
    ProfileError
        One line on the first entry that breaks a rule.
    """
    from stacksweep.profiles._roofline_schema import read_roofline

    content, element_bytes = read_roofline(document)
    peaks = {int(bits): peak for bits, peak in content.peak_flops.items()}
    return RooflineChip(
        name=document.name,
        peak_flops={bits: peaks[bits] for bits in sorted(peaks)},
        **{name: getattr(content, name) for name in NUMBERS},
        overlap=content.overlap,
        **element_bytes,
        provenance=document.provenance,
    )
