"""Profiles with fitted numbers in them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import deepstack_noc as dn
from stacksweep.parameters import Parameter, ParameterError
from stacksweep.profiles import RooflineChip

SECONDS = 1e-6
"""Where times start that a profile has as 0."""

RATES = {
    "bandwidth": ("link_bandwidth_gbytes_per_s", 1e9),
    "latency": ("hop_latency_ns", 1e-9),
}
"""Fields of a network's levels that can be fitted, and their units."""


@dataclass(frozen=True)
class Fitted:
    """Fitted values by parameter, what they were fitted to, and the overlap that was given for it."""

    values: Mapping[str, float]
    measurements: int
    targets: tuple[str, ...]
    overlap: str | None = None

    @property
    def words(self) -> str:
        """Say where the numbers come from."""
        names = ", ".join(self.values)
        return f"{names} fitted to {self.measurements} measurements of {', '.join(self.targets)} by stacksweep"


def starting_value(known: Parameter, profiles: Mapping[str, Any]) -> float:
    """
    Value of a parameter in the profiles of a calibration.

    Raises
    ------
    ParameterError
        If they have none.
    """
    value = _value(known.name, profiles)
    if value is None:
        value = known.default
    if value == 0.0 and known.units == "s":
        return SECONDS
    if value is None or not value > 0.0:
        raise ParameterError(f"{known.name}: has no value above 0 to start from in the profiles that are given")
    return float(value)


def _value(name: str, profiles: Mapping[str, Any]) -> float | None:
    chip, noc = profiles["chip"], profiles.get("noc")
    if isinstance(chip, RooflineChip):
        if name.startswith("peak_flops_"):
            return chip.peak_flops.get(int(name.rpartition("_")[2]))
        if name in {field.name for field in fields(chip)}:
            return float(getattr(chip, name))
    if name[:1] == "l" and name[1:2].isdigit():
        if noc is None:
            raise ParameterError(f"{name}: is fitted, and no network is given; give noc too")
        level, _, rate = name.partition("_")
        if rate == "pj_per_bit":
            return noc.energy_pj_per_bit[int(level[1]) - 1] if noc.energy_pj_per_bit else None
        return float(getattr(noc.levels[3 - int(level[1])], rate))
    memory = profiles.get("memory")
    return memory.numbers.get(name) if memory is not None else None


def fitted_profiles(chip: Any, noc: Any, fitted: Fitted) -> tuple[Any, Any]:
    """
    Put fitted values into a chip and a network.

    Parameters
    ----------
    chip : loaded profile
    noc : loaded profile or None
    fitted : Fitted

    Returns
    -------
    chip, noc : loaded profiles
        Renamed where they hold a fitted value, with a note of it in their provenance; else as they were.
    """
    return _fitted_chip(chip, fitted), _fitted_noc(noc, fitted)


def _fitted_chip(chip: Any, fitted: Fitted) -> Any:
    if not isinstance(chip, RooflineChip):
        return chip
    names = {field.name for field in fields(chip)}
    changes: dict[str, Any] = {name: value for name, value in fitted.values.items() if name in names}
    peaks = {
        int(name.rpartition("_")[2]): value for name, value in fitted.values.items() if name.startswith("peak_flops_")
    }
    if peaks:
        changes["peak_flops"] = dict(sorted({**chip.peak_flops, **peaks}.items()))
    if not changes:
        return chip
    if fitted.overlap is not None:
        changes["overlap"] = fitted.overlap
    # what a data sheet's profile says of itself no longer holds
    notes = {name: note for name, note in chip.provenance.notes.items() if name != "description"}
    provenance = replace(chip.provenance, path=None, sha256=None, notes={**notes, "fitted": fitted.words})
    return replace(chip, name=f"{chip.name}-fitted", provenance=provenance, **changes)


def _fitted_noc(noc: Any, fitted: Fitted) -> Any:
    if noc is None:
        return None
    document = noc.to_dict()
    changed = False
    for name, value in fitted.values.items():
        level, _, rate = name.partition("_")
        if level not in ("l1", "l2", "l3"):
            continue
        changed = True
        if rate == "pj_per_bit":
            document["energy_pj_per_bit"][level] = value
        else:
            field, unit = RATES[rate]
            document["layers"][level.upper()][field] = value / unit
    if not changed:
        return noc
    notes = {name: note for name, note in noc.provenance.items() if name not in ("path", "sha256")}
    document |= {"name": f"{noc.name}-fitted", "provenance": {**notes, "fitted": fitted.words}}
    return dn.load_noc(document)
