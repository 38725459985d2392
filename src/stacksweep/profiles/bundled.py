"""Where the bundled profiles are: beside the code of an installed package, at the top of a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from stacksweep.profiles.base import ProfileError

Kind = Literal["chips", "memory", "models"]

SUFFIXES: dict[str, str] = {"chips": ".toml", "memory": ".json", "models": ".json"}

_PACKAGE = Path(__file__).resolve().parents[1]


def bundled_directory(kind: Kind, package: Path = _PACKAGE) -> Path:
    """Find the directory of one kind of bundled profile.

    Parameters
    ----------
    kind : {"chips", "memory", "models"}
        Kind of profile.
    package : Path, optional
        Directory of the stacksweep package.

    Returns
    -------
    Path
        ``stacksweep/bundled/<kind>`` of an installation, ``profiles/<kind>`` of a checkout.

    Raises
    ------
    ProfileError
        If `kind` is unknown, or the installation lacks the directory.
    """
    if kind not in SUFFIXES:
        raise ProfileError(f"kind of profile: got {kind!r}, needs one of {', '.join(SUFFIXES)}")
    installed, checkout = package / "bundled" / kind, package.parents[1] / "profiles" / kind
    for directory in (installed, checkout):
        if directory.is_dir():
            return directory
    raise ProfileError(f"the bundled {kind} profiles are missing: {installed} does not exist")


def bundled_names(kind: Kind) -> list[str]:
    """List the bundled profiles.

    Parameters
    ----------
    kind : {"chips", "memory", "models"}
        Kind of profile.

    Returns
    -------
    list of str
        Names in alphabetical order.

    Raises
    ------
    ProfileError
        If `kind` is unknown.
    """
    return sorted(path.stem for path in bundled_directory(kind).glob(f"*{SUFFIXES[kind]}"))
