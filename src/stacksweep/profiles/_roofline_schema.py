"""Schema of a roofline chip."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from stacksweep.profiles._chip_schema import element_bytes
from stacksweep.profiles._validation import Fraction, NaturalNumber, PositiveNumber, Strict, broken_rule, validated
from stacksweep.profiles.precision import TABLES
from stacksweep.profiles.roofline import OPERAND_BITS
from stacksweep.profiles.source import Document

_WIDTHS = ", ".join(map(str, OPERAND_BITS))

_Peaks = Annotated[
    dict[str, PositiveNumber], Field(description=f"a table from bits of the operand ({_WIDTHS}) to FLOP/s above 0")
]

_Overlap = Annotated[
    Literal["op-roofline", "stage-roofline", "serial"],
    Field(description="one of op-roofline, stage-roofline, serial"),
]


class Roofline(Strict):
    """What a roofline profile says beside its storage formats."""

    peak_flops: _Peaks
    compute_efficiency: Fraction = 1.0
    memory_efficiency: Fraction = 1.0
    operation_overhead: NaturalNumber = 0.0
    layer_overhead: NaturalNumber = 0.0
    pass_overhead: NaturalNumber = 0.0
    activation_cache: NaturalNumber = 0.0
    overlap: _Overlap = "op-roofline"

    @model_validator(mode="after")
    def _known_widths(self) -> Self:
        if not self.peak_flops:
            raise broken_rule("peak_flops", self.peak_flops, f"at least one of {_WIDTHS}")
        for bits in self.peak_flops:
            if bits not in map(str, OPERAND_BITS):
                raise broken_rule("peak_flops", bits, f"bits of an operand: {_WIDTHS}")
        return self


def read_roofline(document: Document) -> tuple[Roofline, dict[str, float]]:
    """Check a roofline profile; returns its numbers, and its bytes per element.

    Raises
    ------
    ProfileError
        One line on the first entry that breaks a rule.
    """
    stored = (*TABLES, *TABLES.values())
    numbers = {name: value for name, value in document.data.items() if name not in stored}
    content = validated(Roofline, document, numbers)
    return content, element_bytes(document, document.data, "", None)
