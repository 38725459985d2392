"""The one way this package compiles functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from numba import njit

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first use, without the GIL, and keep the machine code on disk where there is a place for it."""
    try:
        return cast("Callable[P, R]", njit(nogil=True, cache=True)(function))
    except (RuntimeError, OSError):  # no directory that can be written: compile in every process instead
        return cast("Callable[P, R]", njit(nogil=True)(function))
