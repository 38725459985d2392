"""How kernels are compiled and kept on disk."""

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import numba

import deepstack_noc
from deepstack_noc._jit import guard_cache


def _digest_of_sources(*folders: Path) -> str:
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


_CODE = _digest_of_sources(Path(__file__).parent, Path(deepstack_noc.__file__).parent)


def kernel(function: Callable[..., Any], name: str = "", *, from_python: bool = True) -> Callable[..., Any]:
    """
    Compile a function on first use, release the GIL in it and keep it on disk.

    Division follows numpy (no check for zero), since no divisor of the model can be zero.

    Parameters
    ----------
    function : callable
        A pure function of numbers and arrays, always called with arguments of the same types.
    name : str, optional
        Name of the kernel, where one function makes several of them for different types: numba's files for several
        types of one kernel can be mixed up when two processes write them at once.
    from_python : bool
        Whether Python calls it; what only kernels call compiles faster.

    Returns
    -------
    callable
        The dispatcher; without a disk cache where no cache directory can be written.
    """
    # numba names its files after the function, and looks for changes only in the file that the function stands in. A
    # kernel must also be compiled again when one that it calls has changed: so its name holds the code's digest.
    function.__qualname__ = f"{name or function.__name__}_{_CODE[:16]}"
    njit: Any = partial(
        numba.njit, nogil=True, error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=not from_python
    )
    try:
        dispatcher = njit(cache=True)(function)
    except (RuntimeError, OSError):
        # no directory can be written to
        dispatcher = njit()(function)
    guard_cache(dispatcher)
    return cast(Callable[..., Any], dispatcher)


inner: Callable[[Callable[..., Any]], Callable[..., Any]] = partial(kernel, from_python=False)
"""Compile a function that only kernels call."""
