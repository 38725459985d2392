"""The one way this package compiles functions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from numba import njit

P = ParamSpec("P")
R = TypeVar("R")

CODE_VERSION = hashlib.sha256(
    b"".join(path.read_bytes() for path in sorted(Path(__file__).resolve().parent.glob("*.py")))
).hexdigest()[:16]
"""Digest of this package's code: nothing that is kept on disk is used by other code."""


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first use, without the GIL, and keep the machine code on disk where there is a place for it.

    numba names its files after the function and notices when the function's own file changes, but not when a function
    of another file does that was compiled into it. So the name carries the version of the whole package.
    """
    function.__qualname__ += f"_{CODE_VERSION}"
    try:
        compiled = njit(nogil=True, cache=True)(function)
    except (RuntimeError, OSError):  # no directory that can be written: compile in every process instead
        compiled = njit(nogil=True)(function)
    guard_cache(compiled)
    return cast("Callable[P, R]", compiled)


def guard_cache(compiled: Any) -> None:
    """Let a full or vanished disk cost a compilation, and not the call that needs the function."""
    cache = getattr(compiled, "_cache", None)
    for name in ("load_overload", "save_overload"):
        if hasattr(cache, name):
            setattr(cache, name, partial(_unless_disk_fails, getattr(cache, name)))


def _unless_disk_fails(method: Callable[..., Any], *arguments: Any) -> Any:
    with suppress(OSError):
        return method(*arguments)
    return None


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function part of every compiled function that calls it."""
    return cast("Callable[P, R]", njit(nogil=True, inline="always", error_model="numpy")(function))
