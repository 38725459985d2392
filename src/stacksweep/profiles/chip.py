"""Chip profiles: a PLENA chip with sizes, instruction cycles and storage precision, or a roofline chip."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from stacksweep.profiles.base import ProfileError, Provenance
from stacksweep.profiles.isa import PIPELINED, ExpressionError, UnknownNameError, cycles
from stacksweep.profiles.roofline import RooflineChip, roofline_chip
from stacksweep.profiles.source import Document, read_document

KINDS = ("plena", "roofline")
"""Kinds of chip; a profile without a kind is a PLENA chip."""


@dataclass(frozen=True)
class ChipProfile:
    """One PLENA chip.

    Attributes
    ----------
    name : str
        Name of the profile.
    mlen, blen, vlen, hlen : int
        Widths of the matrix unit (reduction and block), of the vector unit and of an attention head, in elements.
    vector_sram_size : int
        Rows of `vlen` elements that the vector SRAM holds.
    prefetch_amount : int
        Rows that one prefetch of the vector SRAM brings.
    instructions : Mapping
        Pipelined cycles of each instruction.
    weight_bytes, kv_read_bytes, kv_write_bytes, activation_bytes : float
        Bytes per element in off-chip memory.
    provenance : Provenance
        File, hash and notes; not part of equality.
    constants : Mapping
        All integers that the profile gives, by PLENA's names; the names that expressions of an ISA library may use.
    isa : Mapping
        The expression behind each entry of `instructions`.
    """

    name: str
    mlen: int
    blen: int
    vlen: int
    hlen: int
    vector_sram_size: int
    prefetch_amount: int
    instructions: Mapping[str, int] = field(hash=False)
    weight_bytes: float
    kv_read_bytes: float
    kv_write_bytes: float
    activation_bytes: float
    provenance: Provenance = field(compare=False)
    constants: Mapping[str, int] = field(hash=False)
    isa: Mapping[str, str] = field(hash=False)
    kind: ClassVar[str] = "plena"

    def to_dict(self) -> dict[str, Any]:
        """Return the profile with PLENA's flat names; loading it gives an equal profile."""
        document: dict[str, Any] = {"name": self.name, **self.constants}
        if self.isa != PIPELINED:
            document["isa"] = {name: {"pipelined": expression} for name, expression in self.isa.items()}
        for name in ("weight_bytes", "kv_read_bytes", "kv_write_bytes", "activation_bytes"):
            document[name] = getattr(self, name)
        if self.provenance.notes:
            document["provenance"] = dict(self.provenance.notes)
        return document


Chip = ChipProfile | RooflineChip
"""A chip of either kind."""


def load_chip(
    source: str | os.PathLike[str] | Mapping[str, Any] | Chip,
    isa: str | os.PathLike[str] | Mapping[str, Any] | None = None,
) -> Chip:
    """Load a chip profile.

    Parameters
    ----------
    source : str, path, Mapping, ChipProfile or RooflineChip
        A bundled name, the path of a TOML file in the layout of PLENA's settings (or of a JSON file), content in that
        layout, or flat content by PLENA's names: ``{"MLEN": 2048, ..., "VECTOR_ADD_CYCLES": 1}``, optionally with
        `weight_bytes`, `kv_read_bytes`, `kv_write_bytes` and `activation_bytes` (1.125 each without them) and an ISA
        library as `isa`; or a profile of kind "roofline". A profile is returned as it is.
    isa : str, path or Mapping, optional
        An ISA library, ``{"M_MM": {"pipelined": "BLEN"}, ...}``, whose expressions replace the profile's.

    Returns
    -------
    ChipProfile or RooflineChip
        The checked profile.

    Raises
    ------
    ProfileError
        If the profile or the library cannot be read or breaks a rule.
    """
    library = None if isa is None else read_document(isa, "ISA library")
    if isinstance(source, ChipProfile):
        return source if library is None else _with_library(source, library)
    if isinstance(source, RooflineChip):
        return _without_library(source, library)
    document = read_document(source, "chip profile", "chips")
    kind = document.data.pop("kind", "plena")
    if kind not in KINDS:
        document.fail("kind", kind, "'plena', 'roofline' or no kind")
    if kind == "roofline":
        return _without_library(roofline_chip(document), library)
    return _plena_chip(document, library)


def _without_library(chip: RooflineChip, library: Document | None) -> RooflineChip:
    if library is not None:
        raise ProfileError(
            f"chip profile {chip.name!r}: is a roofline chip, which has no instructions for an ISA library"
        )
    return chip


def _plena_chip(document: Document, library: Document | None) -> ChipProfile:
    from stacksweep.profiles._chip_schema import read_plena

    content = read_plena(document)
    chip = ChipProfile(
        name=document.name,
        mlen=content.constants["MLEN"],
        blen=content.constants["BLEN"],
        vlen=content.constants["VLEN"],
        hlen=content.constants["HLEN"],
        vector_sram_size=content.constants["VECTOR_SRAM_SIZE"],
        prefetch_amount=content.constants["HBM_V_Prefetch_Amount"],
        instructions={},
        weight_bytes=content.element_bytes["weight_bytes"],
        kv_read_bytes=content.element_bytes["kv_read_bytes"],
        kv_write_bytes=content.element_bytes["kv_write_bytes"],
        activation_bytes=content.element_bytes["activation_bytes"],
        provenance=document.provenance,
        constants=content.constants,
        isa={},
    )
    if library is not None:
        return _with_library(chip, library)
    expressions = PIPELINED if content.isa is None else _expressions(document.label, content.isa)
    return replace(chip, isa=expressions, instructions=_evaluated(document.label, expressions, content.constants))


def _with_library(chip: ChipProfile, library: Document) -> ChipProfile:
    expressions = _expressions(library.label, library.data)
    label = f"chip profile {chip.name!r} with {library.label}"
    origin = library.provenance
    notes = {**chip.provenance.notes, "isa_library": {"path": origin.path, "sha256": origin.sha256, **origin.notes}}
    return replace(
        chip,
        isa=expressions,
        instructions=_evaluated(label, expressions, chip.constants),
        provenance=replace(chip.provenance, notes=notes),
    )


def _expressions(label: str, library: Mapping[str, Any]) -> dict[str, str]:
    """Take the expression of every needed instruction out of an ISA library; the others are not read."""
    expressions = {}
    for name in PIPELINED:
        entry = library.get(name)
        value = entry.get("pipelined") if isinstance(entry, Mapping) else None
        if isinstance(value, bool) or not isinstance(value, int | str):
            problem = f"got {value!r}" if value is not None else "missing"
            raise ProfileError(
                f'{label}: instruction {name}: {problem}, needs an expression as {{"pipelined": "BLEN"}}'
            )
        expressions[name] = str(value)
    return expressions


def _evaluated(label: str, expressions: Mapping[str, str], constants: Mapping[str, int]) -> dict[str, int]:
    evaluated = {}
    for name, expression in expressions.items():
        try:
            evaluated[name] = cycles(expression, constants)
        except UnknownNameError as error:
            raise ProfileError(
                f"{label}: instruction {name}: needs {error.name} for {expression!r}, which the chip profile does not "
                f"give as an integer"
            ) from None
        except ExpressionError as error:
            raise ProfileError(f"{label}: instruction {name}: {error}") from None
    return evaluated
