"""The one way this package compiles functions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

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
        return cast("Callable[P, R]", njit(nogil=True, cache=True)(function))
    except (RuntimeError, OSError):  # no directory that can be written: compile in every process instead
        return cast("Callable[P, R]", njit(nogil=True)(function))


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function part of every compiled function that calls it."""
    return cast("Callable[P, R]", njit(nogil=True, inline="always", error_model="numpy")(function))
