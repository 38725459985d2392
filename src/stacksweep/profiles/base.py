"""What every profile has: an error of one line, and where its numbers come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

# Integers of a profile stay exact in double precision and far from the end of 64 bits.
LARGEST_INTEGER = 2**53


class ProfileError(ValueError):
    """A profile that cannot be used. One line that names the profile, the field, its value and what is allowed."""


@dataclass(frozen=True)
class Provenance:
    """Where the numbers of a profile come from.

    Attributes
    ----------
    path : str or None
        The file, or None for a mapping.
    sha256 : str or None
        Hash of the file's bytes, or None for a mapping.
    notes : Mapping
        The profile's own `provenance` entries, as plain JSON values.
    """

    path: str | None = None
    sha256: str | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)


def shown(value: object) -> str:
    """Write a value into a message: as JSON would, short, on one line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, int) and abs(value) > 10**40:
        return "an integer of more than 40 digits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def fail(profile: str, location: str, value: object, needs: str) -> NoReturn:
    """Raise the error of a field that has the wrong value.

    Parameters
    ----------
    profile : str
        Kind and name, such as ``memory profile 'x'``.
    location : str
        The field, as a dotted path.
    value : object
        What was given.
    needs : str
        What is allowed.

    Raises
    ------
    ProfileError
        Always.
    """
    raise ProfileError(f"{profile}: {location}: got {shown(value)}, needs {needs}")


def missing(profile: str, location: str, needs: str) -> NoReturn:
    """Raise the error of a field that is not given; parameters as in `fail`.

    Raises
    ------
    ProfileError
        Always.
    """
    raise ProfileError(f"{profile}: {location}: missing, needs {needs}")
