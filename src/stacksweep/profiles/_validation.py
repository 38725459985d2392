"""What the schemas of all profiles share: kinds of numbers, and pydantic's errors in one line of our own words.

Imported only when a profile is loaded, because pydantic takes a while to import.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, NoReturn, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from stacksweep.profiles.base import LARGEST_INTEGER, ProfileError
from stacksweep.profiles.source import Document

# The description of a number says what is allowed; messages are made from it.
PositiveInteger = Annotated[int, Field(strict=True, gt=0, le=LARGEST_INTEGER, description="an integer above 0")]
NaturalInteger = Annotated[int, Field(strict=True, ge=0, le=LARGEST_INTEGER, description="an integer of at least 0")]
AnyInteger = Annotated[int, Field(strict=True, description="an integer")]
PositiveNumber = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False, description="a finite number above 0")]
NaturalNumber = Annotated[
    float, Field(strict=True, ge=0, allow_inf_nan=False, description="a finite number of at least 0")
]
Fraction = Annotated[float, Field(strict=True, gt=0, le=1, description="a number above 0 and at most 1")]
Flag = Annotated[bool, Field(strict=True, description="true or false")]

_RULE = "broken_rule"


class Strict(BaseModel):
    """A table whose keys are all known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Open(BaseModel):
    """A table in which unknown keys are somebody else's."""

    model_config = ConfigDict(extra="ignore", frozen=True)


def broken_rule(field: str, value: object, needs: str) -> PydanticCustomError:
    """Make the error of a rule between fields, to be raised in a validator of a whole table."""
    return PydanticCustomError(_RULE, "{needs}", {"field": field, "value": value, "needs": needs})


_Table = TypeVar("_Table", bound=BaseModel)


def validated(schema: type[_Table], document: Document, data: dict[str, Any], place: str = "") -> _Table:
    """Check data against a schema.

    Parameters
    ----------
    schema : type
        A subclass of `Strict` or `Open`.
    document : Document
        The profile, for its name in the message.
    data : dict
        What to check.
    place : str, optional
        Where `data` stands in the profile, with a dot at its end.

    Returns
    -------
    BaseModel
        An instance of `schema`.

    Raises
    ------
    ProfileError
        One line on the first thing that is wrong; unknown keys come first, as they often explain what is missing.
    """
    try:
        return schema.model_validate(data)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        _raise(schema, document, place, min(errors, key=lambda details: details["type"] != "extra_forbidden"))


def _raise(schema: type[BaseModel], document: Document, place: str, error: ErrorDetails) -> NoReturn:
    steps, given, kind = error["loc"], error["input"], error["type"]
    if kind == _RULE:
        rule = error["ctx"]
        steps, given, needs = (*steps, rule["field"]), rule["value"], rule["needs"]
    location = place + _dotted(steps)
    if kind == "extra_forbidden":
        *_, table = (schema, *_tables(schema, steps))
        known = ", ".join(table.model_fields)
        raise ProfileError(f"{document.label}: {location}: unknown key; known here: {known}")
    if kind != _RULE:
        needs = _needs(schema, steps)
    if kind == "missing" or (given is None and kind == _RULE):
        document.missing(location, needs)
    if kind == "less_than_equal" and error["ctx"]["le"] == LARGEST_INTEGER:
        needs += " and at most 2**53"
    document.fail(location, given, needs)


def _dotted(steps: tuple[int | str, ...]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".")


def _tables(schema: type[BaseModel], steps: tuple[int | str, ...]) -> Iterator[type[BaseModel]]:
    """Schemas of the nested tables along a location."""
    for step in steps:
        field = schema.model_fields.get(str(step))
        annotation = field.annotation if field else None
        inner = [kind for kind in (annotation, *get_args(annotation)) if _is_table(kind)]
        if not inner:
            return
        schema = inner[0]
        yield schema


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _needs(schema: type[BaseModel], steps: tuple[int | str, ...]) -> str:
    """Say what the field at a location allows, from its description."""
    tables = [schema, *_tables(schema, steps)]
    if len(tables) > len(steps):
        return "a table"
    field = tables[-1].model_fields[str(steps[len(tables) - 1])]
    inner = (meta for kind in get_args(field.annotation) for meta in getattr(kind, "__metadata__", ()))
    described = [field, *(meta for meta in inner if isinstance(meta, FieldInfo))]
    return next(info.description for info in described if info.description)
