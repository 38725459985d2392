"""NoC profiles as plain data: three levels of links between devices.

A profile is a JSON file (``schema_version`` 1, ``kind`` ``noc_hierarchy``). Its own units, ns and decimal GB/s, are
kept; the properties of :class:`Level` and :class:`Noc` give SI units.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import ProfileError

LEVEL_NAMES = ("L3", "L2", "L1")
"""Levels from the outermost to the innermost, the order of every array over levels inside the routing code."""

WRAPPING_ROWS = ("torus2d", "mring_nchain")
WRAPPING_COLUMNS = ("ring", "torus2d", "mchain_nring")


@dataclass(frozen=True)
class Level:
    """One level of the hierarchy.

    Attributes
    ----------
    kind : str
        One of ``switch``, ``ring``, ``chain``, ``mesh2d``, ``torus2d``, ``mchain_nring``, ``mring_nchain``,
        ``all_to_all``.
    shape : tuple of int
        Rows and columns.
    hop_latency_ns : float
        Time to cross one link, ns.
    link_bandwidth_gbytes_per_s : float
        Bandwidth of one link in one direction, decimal GB/s.
    switch_center_in_gbytes_per_s, switch_center_out_gbytes_per_s : float or None
        What the CENTER of a switch takes in and gives out, GB/s; both or none.
    """

    kind: str
    shape: tuple[int, int]
    hop_latency_ns: float
    link_bandwidth_gbytes_per_s: float
    switch_center_in_gbytes_per_s: float | None = None
    switch_center_out_gbytes_per_s: float | None = None

    @property
    def size(self) -> int:
        """Number of nodes."""
        return self.shape[0] * self.shape[1]

    @property
    def latency(self) -> float:
        """Time to cross one link, s."""
        return self.hop_latency_ns * 1e-9

    @property
    def bandwidth(self) -> float:
        """Bandwidth of one link in one direction, byte/s."""
        return self.link_bandwidth_gbytes_per_s * 1e9

    @property
    def center_capacity(self) -> float:
        """What passes a CENTER, in plus out, byte/s; infinite where the profile does not limit it."""
        if self.switch_center_in_gbytes_per_s is None or self.switch_center_out_gbytes_per_s is None:
            return math.inf
        return (self.switch_center_in_gbytes_per_s + self.switch_center_out_gbytes_per_s) * 1e9

    def to_dict(self) -> dict[str, Any]:
        """Return the level in the layout of a profile file."""
        entry: dict[str, Any] = {
            "kind": self.kind,
            "shape": list(self.shape),
            "hop_latency_ns": self.hop_latency_ns,
            "link_bandwidth_gbytes_per_s": self.link_bandwidth_gbytes_per_s,
        }
        if self.switch_center_in_gbytes_per_s is not None:
            entry["switch_center_in_gbytes_per_s"] = self.switch_center_in_gbytes_per_s
            entry["switch_center_out_gbytes_per_s"] = self.switch_center_out_gbytes_per_s
        return entry


@dataclass(frozen=True)
class Topology:
    """What routes depend on, and so the key of every table: no bandwidth, latency or energy.

    Attributes
    ----------
    kinds : tuple of str
        Kinds of L3, L2, L1.
    shapes : tuple of tuple of int
        Rows and columns of L3, L2, L1.
    port_spread : str
        ``even`` or ``nearest``.
    """

    kinds: tuple[str, str, str]
    shapes: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
    port_spread: str

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Number of nodes of L3, L2, L1."""
        outermost, middle, innermost = (rows * columns for rows, columns in self.shapes)
        return outermost, middle, innermost

    @property
    def devices(self) -> int:
        """Number of devices."""
        return math.prod(self.sizes)

    @property
    def all_switch(self) -> bool:
        """Whether every level is a switch."""
        return all(kind == "switch" for kind in self.kinds)


@dataclass(frozen=True)
class Noc:
    """A network between chips, as loaded and checked by :func:`load_noc`.

    Attributes
    ----------
    name : str
        Name of the profile.
    levels : tuple of Level
        L3 (outermost), L2, L1 (innermost).
    port_spread : str
        ``even`` or ``nearest``: how traffic of an outer level is spread over the ports of an inner one.
    energy_pj_per_bit : tuple of float or None
        Energy per bit and link of L1, L2, L3, pJ; None where the profile has none.
    provenance : mapping
        Where the numbers are from; ``path`` and ``sha256`` of the file where it was loaded from one.
    """

    name: str
    levels: tuple[Level, Level, Level]
    port_spread: str = "even"
    energy_pj_per_bit: tuple[float, float, float] | None = None
    provenance: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def devices(self) -> int:
        """Number of devices."""
        return self.topology.devices

    @property
    def topology(self) -> Topology:
        """The part of the profile that routes depend on."""
        outermost, middle, innermost = self.levels
        return Topology(
            (outermost.kind, middle.kind, innermost.kind),
            (outermost.shape, middle.shape, innermost.shape),
            self.port_spread,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the profile in the layout of its file; :func:`load_noc` reads it back."""
        layout: dict[str, Any] = {
            "schema_version": 1,
            "kind": "noc_hierarchy",
            "name": self.name,
            "layers": {name: level.to_dict() for name, level in zip(LEVEL_NAMES, self.levels, strict=True)},
            "port_spread": self.port_spread,
        }
        if self.energy_pj_per_bit is not None:
            layout["energy_pj_per_bit"] = dict(zip(("l1", "l2", "l3"), self.energy_pj_per_bit, strict=True))
        if self.provenance:
            layout["provenance"] = dict(self.provenance)
        return layout


def bundled_directory() -> Path:
    """Return the directory of the bundled profiles: inside the installed package, or at the top of a checkout."""
    package = Path(__file__).resolve().parent
    installed = package / "bundled"
    return installed if installed.is_dir() else package.parents[1] / "profiles" / "noc"


def bundled_nocs() -> list[str]:
    """Return the names of the bundled profiles."""
    return sorted(path.stem for path in bundled_directory().glob("*.json"))


def load_noc(source: str | os.PathLike[str] | Mapping[str, Any] | Noc) -> Noc:
    """Load and check a NoC profile.

    Parameters
    ----------
    source : str, path, mapping or Noc
        Name of a bundled profile, path of a JSON file, the content of one as a mapping, or a `Noc`, which is
        returned as it is.

    Returns
    -------
    Noc
        With the path and SHA-256 of the file in its provenance.

    Raises
    ------
    ProfileError
        If there is no such profile, or it breaks a rule of the format.
    """
    if isinstance(source, Noc):
        return source
    if isinstance(source, Mapping):
        return _checked(dict(source), "NoC profile")
    if not isinstance(source, str | os.PathLike):
        raise ProfileError(f"noc is {source!r}; allowed are a bundled name, a path, a mapping or a Noc")
    path = Path(source)
    names = bundled_nocs()
    if isinstance(source, str) and source in names:
        path = bundled_directory() / f"{source}.json"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ProfileError(
            f"noc {os.fspath(source)!r} is neither a file that can be read ({error.strerror}) "
            f"nor a bundled profile ({', '.join(names)})"
        ) from None
    title = f"NoC profile {os.fspath(path)!r}"
    try:
        layout = json.loads(content.decode("utf-8"), object_pairs_hook=_unique_keys)
    except UnicodeDecodeError:
        raise ProfileError(f"{title} is not JSON: it is not UTF-8 text") from None
    except ValueError as error:
        raise ProfileError(f"{title} is not JSON: {error}") from None
    stamp = {"path": os.fspath(path), "sha256": hashlib.sha256(content).hexdigest()}
    return _checked(layout, title, stamp)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entry = dict(pairs)
    if len(entry) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {twice!r} stands twice in one object")
    return entry


def _checked(layout: Any, title: str, stamp: Mapping[str, str] | None = None) -> Noc:
    from .schema import parse_noc  # pydantic is only imported when a profile is loaded

    return parse_noc(layout, title, stamp or {})
