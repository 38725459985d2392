"""Counted flow patterns: built once per key, kept in memory and, where a directory is named, on disk."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ._jit import CODE_VERSION
from .collectives import Family, rank_pairs
from .count import Counter, Counts
from .network import network_of
from .noc import Topology

CACHE_VARIABLE = "DEEPSTACK_NOC_CACHE"
"""Environment variable with the directory to keep counts in, unless :func:`set_cache_directory` names another."""


class Key(NamedTuple):
    """What a family of patterns depends on."""

    topology: Topology
    link_model: str
    family: Family


# Builds

_lock = threading.Lock()
_kept: dict[Key, Future[list[Counts]]] = {}


def _forget_builds() -> None:
    """Start anew in a forked child, whose parent's threads will not finish anything here."""
    global _lock
    _lock = threading.Lock()
    for key in [key for key, future in _kept.items() if not future.done()]:
        del _kept[key]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_builds)


def patterns_of(key: Key) -> list[Counts]:
    """Return the counts of a family of patterns; a second thread that asks meanwhile waits for the first."""
    with _lock:
        future = _kept.get(key)
        mine = future is None
        if future is None:
            future = _kept[key] = Future()
    if mine:
        try:
            future.set_result(_load(key) or _store(key, count_family(key)))
        except BaseException as error:
            with _lock:
                del _kept[key]
            future.set_exception(error)
    return future.result()


def build(keys: list[Key], workers: int) -> None:
    """Count the families of several keys on several threads, the longest first."""
    missing = sorted({key for key in keys if key not in _kept}, key=_work, reverse=True)
    if workers == 1 or sum(_work(key) for key in missing) < 100_000:  # not worth a thread
        for key in missing:
            patterns_of(key)
        return
    network_of(missing[0].topology, missing[0].link_model)
    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(patterns_of, missing):
            pass


def _work(key: Key) -> int:
    """Flows to route, about."""
    devices, (name, _, size) = key.topology.devices, key.family
    return devices * (size if name == "direct" else size.bit_length() if name == "tree" else 1)


def count_family(key: Key) -> list[Counts]:
    """Count the patterns of a family."""
    counter = Counter(network_of(key.topology, key.link_model))
    _, stride, size = key.family
    if key.family.name == "direct":
        return [counter.matrix(stride, size, np.ones((1, 1, 1), np.int64))]
    counts = [counter.pairs(stride, size, sources, targets) for sources, targets in rank_pairs(key.family)]
    return _slowest_boundaries(counts) if key.family.name == "pipeline" else counts


def _slowest_boundaries(boundaries: list[Counts]) -> list[Counts]:
    """Keep the boundaries that can be the slowest, each with the crossings of all boundaries as its total."""
    total = np.sum([counts.total for counts in boundaries], axis=0)
    different = {signature(counts): counts for counts in reversed(boundaries)}
    different = dict(reversed(different.items()))
    kept: list[Counts] = []
    for counts in different.values():
        if not any(_covers(other, counts) for other in kept):
            kept = [other for other in kept if not _covers(counts, other)] + [counts]
    return [counts._replace(total=total) for counts in kept]


def signature(counts: Counts) -> tuple[bytes, bytes, bytes]:
    """Return what the time of a stage depends on, as something to compare."""
    return counts.hops.tobytes(), counts.busy.tobytes(), counts.center.tobytes()


def _covers(one: Counts, other: Counts) -> bool:
    """Whether `one` is at least as slow as `other` whatever the rates."""
    if (one.busy < other.busy).any() or (one.center < other.center).any():
        return False
    return bool((one.hops[:, None] >= other.hops[None]).all(axis=2).any(axis=0).all())


# Disk

_directory: list[Path | None] = []


def set_cache_directory(directory: str | os.PathLike[str] | None) -> None:
    """Keep counts in a directory, so that the next process does not route the same flows again.

    Parameters
    ----------
    directory : str, path or None
        Made when it does not exist. None keeps counts in memory only. Without a call, the environment variable
        ``DEEPSTACK_NOC_CACHE`` names the directory, if it is set.

    Notes
    -----
    Several processes may use one directory. A file that is damaged, or was written by another version, is ignored
    and replaced; a directory that cannot be written is no error.
    """
    _directory[:] = [None if directory is None else Path(directory)]


def _cache_directory() -> Path | None:
    if _directory:
        return _directory[0]
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named) if named else None


def _text_of(key: Key) -> str:
    topology = key.topology
    return json.dumps([topology.kinds, topology.shapes, topology.port_spread, key.link_model, key.family, CODE_VERSION])


def _file_of(key: Key, directory: Path) -> Path:
    return directory / f"{hashlib.sha256(_text_of(key).encode()).hexdigest()[:40]}.json"


def _load(key: Key) -> list[Counts] | None:
    """Read counts from disk; None unless all of the file is as it was written."""
    directory = _cache_directory()
    if directory is None:
        return None
    try:
        title, digest, body = _file_of(key, directory).read_text("utf-8").split("\n")
    except (OSError, ValueError):
        return None
    if title != _text_of(key) or digest != hashlib.sha256(body.encode()).hexdigest():
        return None
    entries: list[dict[str, Any]] = json.loads(body)
    return [Counts(**{name: np.array(values, np.int64) for name, values in entry.items()}) for entry in entries]


def _store(key: Key, counts: list[Counts]) -> list[Counts]:
    """Write counts to disk, all of the file at once; return them."""
    directory = _cache_directory()
    if directory is None:
        return counts
    body = json.dumps([{name: array.tolist() for name, array in entry._asdict().items()} for entry in counts])
    content = "\n".join((_text_of(key), hashlib.sha256(body.encode()).hexdigest(), body))
    with suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=directory, suffix=".part")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(content)
            Path(name).replace(_file_of(key, directory))
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
    return counts
