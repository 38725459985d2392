"""The Python call that gives some points of a sweep again."""

import json
from typing import Any, Literal

import xarray as xr

from deepstack_noc import bundled_nocs
from stacksweep.parameters import BY_NAME
from stacksweep.profiles import bundled_names, load_chip, load_memory, load_model, load_noc

_BUNDLED: dict[str, tuple[Literal["chips", "memory", "models"], Any]] = {
    "model": ("models", load_model),
    "chip": ("chips", load_chip),
    "memory": ("memory", load_memory),
}


def call_of(ds: xr.Dataset) -> dict[str, Any] | None:
    """
    Parts of the call that made a Dataset.

    Parameters
    ----------
    ds : xarray.Dataset
        With the attribute `call` of `sweep`; some of its points may have been selected since.

    Returns
    -------
    dict or None
        `fixed`: Python source of the value of each parameter that is the same in all points; `columns`: of each other
        parameter the coordinate with its values; `sources`: what stands in a call for the names of profiles that are
        not bundled; `options`: Python source of the other arguments. None where the call is not known, or a coordinate
        that it needs is gone.
    """
    try:
        call = json.loads(ds.attrs["call"])
        profiles = json.loads(ds.attrs.get("profiles", "{}"))
        given = {name: value for name, value in call.items() if name in BY_NAME}
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    sources = {
        kind: {entry["name"]: _source(kind, entry) for entry in entries if _is_own(kind, entry)}
        for kind, entries in profiles.items()
        if kind in BY_NAME
    }
    fixed, columns = {}, {}
    for name, value in given.items():
        coordinate = BY_NAME[name].coordinate
        if coordinate in ds.coords and ds[coordinate].ndim:
            columns[name] = coordinate
        elif coordinate in ds.coords:
            fixed[name] = _literal(ds[coordinate].item(), sources.get(name, {}))
        elif isinstance(value, list | dict) or value == "fill":
            return None
        else:
            fixed[name] = _literal(value, sources.get(name, {}))
    options = {name: _literal(call[name], {}) for name in ("outputs", "dtype") if name in call}
    return {"fixed": fixed, "columns": columns, "sources": sources, "options": options}


def _is_own(kind: str, entry: dict[str, Any]) -> bool:
    """Whether a profile is not what is bundled under its name, or a trace: the name would give other numbers."""
    name = entry["name"]
    if "content" in entry or kind == "routing":
        return True
    if kind == "noc":
        return name not in bundled_nocs() or load_noc(name).provenance["sha256"] != entry["sha256"]
    folder, load = _BUNDLED[kind]
    return name not in bundled_names(folder) or load(name).provenance.sha256 != entry["sha256"]


def _source(kind: str, entry: dict[str, Any]) -> str:
    """Python source of a profile that is not bundled: its path, or its content."""
    return json.dumps(entry["path"]) if "path" in entry else repr(entry["content"])


def _literal(value: Any, sources: dict[str, str]) -> str:
    return sources.get(value, json.dumps(value)) if isinstance(value, str) else repr(value)
