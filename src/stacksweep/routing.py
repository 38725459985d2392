"""Rows of expert ids: balanced, random, or recorded in a trace; or what is expected of random ones."""

import hashlib
import os
import zlib
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from stacksweep.columns import Array
from stacksweep.kernels.experts import DISPATCHED_TOKENS
from stacksweep.parameters import BY_NAME, TRACES, ParameterError

SEED = 0
"""Seed of the random routing, the same for everyone so that results can be compared."""

MOST_EXPERTS = 2**31
"""No model has as many experts: larger ids say no more."""

PHASES = ("prefill", "decode")


@dataclass(frozen=True)
class Routing:
    """
    How tokens choose experts.

    Parameters
    ----------
    name : str
        "balanced", "random", "expected", or that of a trace.
    digest : str
        SHA-256 of a trace's file, by which traces are told apart.
    trace : dict, optional
        For each phase the experts of every recorded token, (tokens, choices).
    path : str
        File of a trace.
    """

    name: str
    digest: str = ""
    trace: dict[str, Array] | None = field(default=None, compare=False, repr=False)
    path: str = field(default="", compare=False)

    @property
    def balanced(self) -> bool:
        """Whether every expert is chosen equally often."""
        return self.trace is None and self.name == "balanced"

    @property
    def expected(self) -> bool:
        """Whether experts are chosen at random, and their load is what is expected of that."""
        return self.trace is None and self.name == "expected"

    @property
    def in_closed_form(self) -> bool:
        """Whether the load of experts needs no rows."""
        return self.balanced or self.expected

    def fits(self, experts: int, top_k: int) -> bool:
        """Whether a trace is one of a model with so many experts, and records choices enough."""
        if self.trace is None:
            return True
        largest = max(int(rows.max()) for rows in self.trace.values())
        return largest + 1 == experts and min(rows.shape[1] for rows in self.trace.values()) >= top_k

    def recorded(self, phase: int) -> float:
        """Tokens that can be read in a phase."""
        return np.inf if self.trace is None else len(self.trace[PHASES[phase]])

    def words(self) -> str:
        """Describe a trace in numbers."""
        trace = self.trace or {}
        rows = " and ".join(f"{len(rows)} rows of {rows.shape[1]} choices in {phase}" for phase, rows in trace.items())
        return f"{rows}, of {1 + max(int(rows.max()) for rows in trace.values())} experts" if trace else self.name

    def rows(self, phase: int, tokens: int, experts: int, top_k: int) -> Array:
        """
        Experts of the first tokens.

        Parameters
        ----------
        phase : int
            Position in `PHASES`.
        tokens, experts, top_k : int

        Returns
        -------
        int array, (tokens, top_k)
            The first rows do not depend on `tokens`.
        """
        if self.trace is not None:
            return self.trace[PHASES[phase]][:tokens, :top_k]
        if self.balanced:
            token = np.arange(tokens)[:, None]
            return (token + np.arange(top_k) * (experts // top_k)) % experts
        return np.random.default_rng(SEED).random((tokens, experts)).argsort(axis=1)[:, :top_k]


@lru_cache(maxsize=64)
def first_rows(routing: Routing, phase: int, experts: int, top_k: int) -> Array:
    """Experts of as many tokens as are ever counted, or as a trace has; kept, since every sweep needs the same."""
    return np.ascontiguousarray(routing.rows(phase, DISPATCHED_TOKENS, experts, top_k))


def load_routing(source: Any) -> Routing:
    """
    Load a routing.

    Parameters
    ----------
    source : str, path or Routing
        "balanced", "random", "expected", the name of a trace in a DeepStack checkout that the environment variable
        `DEEPSTACK_ROOT` names, or the path of an `.npz` file with integer arrays `prefill` and `decode`.

    Returns
    -------
    Routing

    Raises
    ------
    ParameterError
        If there is no such routing, or its file cannot be read or holds something else.
    """
    if isinstance(source, Routing):
        return source
    if not isinstance(source, str | os.PathLike):
        raise ParameterError(f"routing: got {source!r}, needs {BY_NAME['routing'].allowed}")
    name = os.fspath(source)
    if name in ("balanced", "random", "expected"):
        return Routing(name)
    path = Path(name)
    if name in TRACES:
        root = os.environ.get("DEEPSTACK_ROOT")
        if not root:
            raise ParameterError(
                f"routing: trace {name!r} is part of DeepStack; set DEEPSTACK_ROOT to a checkout of tile-ai/DeepStack"
            )
        path = Path(root) / "src" / "deepstack" / "mosaic" / "data" / "routing" / f"{name}.npz"
    elif path.suffix != ".npz":
        raise ParameterError(f"routing: got {name!r}, needs {BY_NAME['routing'].allowed}")
    return Routing(path.stem, *_read_trace(path), str(path))


def _read_trace(path: Path) -> tuple[str, dict[str, Array]]:
    try:
        content = path.read_bytes()
        file = np.load(BytesIO(content), allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ParameterError(f"routing: trace {str(path)!r} cannot be read: it is no .npz file")
        with file:
            arrays = {phase: file[phase] for phase in PHASES}
    except FileNotFoundError:
        raise ParameterError(
            f"routing: there is no trace {str(path)!r}; give the path of an .npz file with the arrays prefill and "
            "decode, or a checkout of tile-ai/DeepStack as DEEPSTACK_ROOT"
        ) from None
    except KeyError:
        raise ParameterError(f"routing: trace {str(path)!r} needs the arrays prefill and decode") from None
    except (OSError, ValueError, EOFError, BadZipFile, zlib.error, NotImplementedError) as error:
        raise ParameterError(f"routing: trace {str(path)!r} cannot be read: {error}") from None
    for phase, array in arrays.items():
        if array.dtype.kind not in "iu" or array.ndim < 1 or array.size == 0 or array.min() < 0:
            raise ParameterError(f"routing: trace {str(path)!r}: {phase} needs integers from 0, the last axis choices")
    flat = {
        phase: np.minimum(array.reshape(-1, array.shape[-1]).astype(np.uint64), MOST_EXPERTS).astype(np.int64)
        for phase, array in arrays.items()
    }
    return hashlib.sha256(content).hexdigest(), flat
