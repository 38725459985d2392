"""From what a user names (a bundled profile, a file, a mapping) to its plain content and its provenance."""

from __future__ import annotations

import hashlib
import json
import numbers
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from stacksweep.profiles.base import ProfileError, Provenance, fail, missing
from stacksweep.profiles.bundled import SUFFIXES, Kind, bundled_directory, bundled_names

Source: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any]"


@dataclass(frozen=True)
class Document:
    """The content of a profile before its own rules are checked.

    Attributes
    ----------
    what : str
        Words for the kind of profile, such as ``memory profile``.
    name : str
        Its ``name`` entry, else the file's name, else ``custom``.
    data : dict
        Plain content without ``name`` and ``provenance``.
    provenance : Provenance
        File, hash and the profile's own notes.
    """

    what: str
    name: str
    data: dict[str, Any]
    provenance: Provenance

    @property
    def label(self) -> str:
        """Kind and name, for messages."""
        return f"{self.what} {self.name!r}"

    def fail(self, location: str, value: object, needs: str) -> NoReturn:
        """Raise the error of a field of this profile; see `base.fail`."""
        fail(self.label, location, value, needs)

    def missing(self, location: str, needs: str) -> NoReturn:
        """Raise the error of a field that this profile does not give; see `base.missing`."""
        missing(self.label, location, needs)


def read_document(source: object, what: str, kind: Kind | None = None) -> Document:
    """Read a profile.

    Parameters
    ----------
    source : str, path or Mapping
        Bundled name, path of a TOML or JSON file, or content in the layout of such a file. A bundled name comes before
        a file of the same name.
    what : str
        Words for the kind of profile in messages.
    kind : {"chips", "memory", "models"}, optional
        Directory of bundled names; without it a string is always a path.

    Returns
    -------
    Document
        Plain content, name and provenance.

    Raises
    ------
    ProfileError
        If the name is unknown, the file cannot be read or parsed, or `source` is of another kind.
    """
    if isinstance(source, Mapping):
        return _document(what, "custom", _plain(source, what), Provenance())
    if not isinstance(source, str | os.PathLike):
        allowed = "a path or a mapping" if kind is None else "a bundled name, a path or a mapping"
        raise ProfileError(f"{what}: got {source!r}, needs {allowed}")
    label = f"{what} {os.fspath(source)!r}"
    if not os.fspath(source):
        raise ProfileError(f"{label}: {_not_found(kind)}")
    path = Path(source)
    if kind is not None and isinstance(source, str) and source in bundled_names(kind):
        path = bundled_directory(kind) / f"{source}{SUFFIXES[kind]}"
    content = _bytes_of(path, label, kind)
    data = _parsed(content, label, path.suffix.lower())
    provenance = Provenance(str(path.resolve()), hashlib.sha256(content).hexdigest())
    # Downloaded models are all called config.json; their directory has the name.
    default_name = path.resolve().parent.name if path.name == "config.json" else path.stem
    return _document(what, default_name, data, provenance)


def _bytes_of(path: Path, label: str, kind: Kind | None) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise ProfileError(f"{label}: {_not_found(kind)}") from None
    except IsADirectoryError:
        raise ProfileError(f"{label}: is a directory, needs a file") from None
    except OSError as error:
        raise ProfileError(f"{label}: cannot be read: {error.strerror}") from None


def _not_found(kind: Kind | None) -> str:
    if kind is None:
        return "no such file"
    return f"neither an existing file nor a bundled name ({', '.join(bundled_names(kind))})"


def _parsed(content: bytes, label: str, suffix: str) -> dict[str, Any]:
    form = "TOML" if suffix == ".toml" else "JSON"
    try:
        text = content.decode("utf-8-sig")
        data = tomllib.loads(text) if form == "TOML" else json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ProfileError(f"{label}: not valid {form}: {reason}") from None
    if not isinstance(data, dict):
        raise ProfileError(f"{label}: holds {type(data).__name__}, needs a table of named entries at its top")
    return data


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {next(name for name in names if names.count(name) > 1)!r} stands twice")
    return table


def _document(what: str, default_name: str, data: dict[str, Any], provenance: Provenance) -> Document:
    data = dict(data)
    name = data.pop("name", default_name)
    if not isinstance(name, str) or not name.strip():
        fail(f"{what} {default_name!r}", "name", name, "text that is not empty")
    notes = _notes(f"{what} {name!r}", data.pop("provenance", {}))
    return Document(what, name, data, Provenance(provenance.path, provenance.sha256, notes))


def _notes(label: str, notes: object) -> dict[str, Any]:
    if not isinstance(notes, dict):
        fail(label, "provenance", notes, "a table")
    try:
        # dates of a TOML file become text, so that the notes fit into any file written later
        plain: dict[str, Any] = json.loads(json.dumps(notes, default=str, allow_nan=False))
    except ValueError:
        fail(label, "provenance", notes, "finite numbers, texts, lists and tables")
    return plain


def _plain(value: Any, what: str) -> Any:
    """Copy a mapping into dicts, lists and Python's own numbers; numpy's would not pass the strict checks."""
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise ProfileError(f"{what} given as a mapping: got the key {key!r}, needs texts as keys")
        return {key: _plain(entry, what) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry, what) for entry in value]
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return value
