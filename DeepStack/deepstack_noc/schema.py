"""Strict reading of NoC profiles with pydantic, and the rules between their fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .errors import ProfileError
from .noc import LEVEL_NAMES, WRAPPING_COLUMNS, WRAPPING_ROWS, Level, Noc

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class _Layer(_Strict):
    kind: Literal["switch", "ring", "chain", "mesh2d", "torus2d", "mchain_nring", "mring_nchain", "all_to_all"]
    shape: Annotated[list[Count], Field(min_length=2, max_length=2)]
    hop_latency_ns: NotNegative
    link_bandwidth_gbytes_per_s: Positive
    switch_center_in_gbytes_per_s: Positive | None = None
    switch_center_out_gbytes_per_s: Positive | None = None


class _Layers(_Strict):
    L3: _Layer
    L2: _Layer
    L1: _Layer


class _Energy(_Strict):
    l1: NotNegative
    l2: NotNegative
    l3: NotNegative


class _Profile(_Strict):
    schema_version: Literal[1]
    kind: Literal["noc_hierarchy"]
    name: Annotated[str, Field(min_length=1)]
    layers: _Layers
    port_spread: Literal["even", "nearest"] = "even"
    energy_pj_per_bit: _Energy | None = None
    provenance: dict[str, str] = {}


def parse_noc(layout: Any, title: str, stamp: Mapping[str, str]) -> Noc:
    """Check the content of a profile and return it as plain data.

    Parameters
    ----------
    layout : object
        What the JSON file holds.
    title : str
        How to call the profile in messages.
    stamp : mapping
        Entries to add to the provenance.

    Raises
    ------
    ProfileError
        Naming the first field that breaks a rule, its value and what is allowed.
    """
    if not isinstance(layout, dict):
        raise ProfileError(f"{title} is {layout!r}; allowed is a JSON object")
    try:
        profile = _Profile.model_validate(layout)
    except ValidationError as error:
        raise ProfileError(f"{title}: {_first_problem(error)}") from None
    levels = []
    for name in LEVEL_NAMES:
        layer: _Layer = getattr(profile.layers, name)
        _check_shape(layer, f"{title}: layers.{name}")
        _check_center(layer, f"{title}: layers.{name}")
        fields = layer.model_dump()
        levels.append(Level(**{**fields, "shape": (layer.shape[0], layer.shape[1])}))
    energy = profile.energy_pj_per_bit
    outermost, middle, innermost = levels
    return Noc(
        name=profile.name,
        levels=(outermost, middle, innermost),
        port_spread=profile.port_spread,
        energy_pj_per_bit=None if energy is None else (energy.l1, energy.l2, energy.l3),
        provenance={**profile.provenance, **stamp},
    )


def _first_problem(error: ValidationError) -> str:
    """Say in one line which field is wrong, what it holds and what is allowed."""
    problem = error.errors()[0]
    place = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{place} is not a known key; remove it"
    if problem["type"] == "missing":
        return f"{place} is missing"
    rule = problem["msg"].removeprefix("Input should be ").replace("Input should have", "to have")
    return f"{place} is {problem['input']!r}; allowed is {rule}"


def _check_shape(layer: _Layer, place: str) -> None:
    rows, columns = layer.shape

    def refuse(allowed: str) -> None:
        raise ProfileError(f"{place}.shape of kind {layer.kind!r} is {[rows, columns]}; {allowed}")

    if layer.kind in ("switch", "ring", "chain") and rows != 1:
        refuse("allowed is one row: [1, N]")
    if layer.kind == "switch":
        return
    if layer.kind == "all_to_all":
        if rows * columns < 4:
            refuse("allowed are 4 nodes or more")
        return
    if layer.kind in ("ring", "chain"):
        if columns % 2:
            refuse("allowed is an even N of [1, N]")
        return
    for size, ringed, other, other_ringed in (
        (rows, layer.kind in WRAPPING_ROWS, columns, layer.kind in WRAPPING_COLUMNS),
        (columns, layer.kind in WRAPPING_COLUMNS, rows, layer.kind in WRAPPING_ROWS),
    ):
        if ringed and size == 1:
            kind = "switch" if other == 1 else "ring" if other_ringed else "chain"
            refuse(f"a dimension that wraps needs 2 nodes or more, use kind {kind!r} of shape {[1, other]}")
    if any(size > 1 and size % 2 for size in (rows, columns)):
        refuse("allowed are dimensions that are 1 or even")


def _check_center(layer: _Layer, place: str) -> None:
    fields = ("switch_center_in_gbytes_per_s", "switch_center_out_gbytes_per_s")
    given = [name for name in fields if getattr(layer, name) is not None]
    if given and layer.kind != "switch":
        raise ProfileError(f"{place}.{given[0]} is given for kind {layer.kind!r}; only a switch has a CENTER")
    if len(given) == 1:
        missing = next(name for name in fields if name not in given)
        raise ProfileError(f"{place}.{missing} is missing; it goes together with {given[0]}")
