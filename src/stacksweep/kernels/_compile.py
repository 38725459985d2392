"""How kernels are compiled and kept on disk."""

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import numba


def _digest_of_sources(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


_SOURCES = _digest_of_sources(Path(__file__).parent)


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """
    Compile a function on first use, release the GIL in it and keep it on disk.

    Division follows numpy (no check for zero), since no divisor of the model can be zero.

    Parameters
    ----------
    function : callable
        A pure function of numbers and arrays.

    Returns
    -------
    callable
        The dispatcher; without a disk cache where no cache directory can be written.
    """
    njit: Any = partial(numba.njit, nogil=True, error_model="numpy")
    try:
        dispatcher = njit(cache=True)(function)
    except RuntimeError:
        # numba found no directory that it could write to
        dispatcher = njit()(function)
    # numba looks only at the file that a function stands in; a kernel must also be compiled again when one that it
    # calls, in another file, has changed
    cache_file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if cache_file is not None:
        cache_file._source_stamp = (cache_file._source_stamp, _SOURCES)
    return cast(Callable[..., Any], dispatcher)
