"""
The one table of result variables: names, units, words, and what they need.

The attributes of a Dataset, the choices of `outputs=`, the docstrings and the reference page are made from `RESULTS`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from stacksweep.kernels.rows import COLLECTIVES, OPERATIONS
from stacksweep.kernels.validity import REASONS, WARNINGS
from stacksweep.parameters import ParameterError, did_you_mean

Stage = Literal[
    "machine",
    "footprint",
    "prefill",
    "prefill details",
    "first_decode",
    "first_decode details",
    "decode",
    "decode details",
    "experts",
    "energy",
]
"""Parts of the model, in the order of the kernel's `needs`; `machine` is always there."""


COLLECTIVE = "collective"
OPERATION = "operation"

ALONG = {COLLECTIVE: ("collective of a layer", COLLECTIVES), OPERATION: ("operation of a pass", OPERATIONS)}
"""Dimensions of results that have a value for each collective or operation: words and labels."""


@dataclass(frozen=True)
class Result:
    """
    One result variable.

    Parameters
    ----------
    name : str
        Name of the variable.
    words : str
        What it is; becomes `long_name`.
    units : str
        UDUNITS spelling; "1" where there is none.
    needs : tuple of str
        Parts of the model that must be evaluated for it.
    main : bool
        Whether it belongs to `outputs="main"`.
    dtype : {"real", "bool", "int8", "uint8", "int16"}
        How it is stored; "real" follows the `dtype` of the call.
    rows : tuple of str
        Outputs of the kernels that it is made of.
    along : str
        Dimension of `ALONG` that several of them lie along.
    higher_is_better : bool, optional
        Whether more of it is better; None where that is not clear.
    """

    name: str
    words: str
    units: str = "1"
    needs: tuple[Stage, ...] = ()
    main: bool = False
    dtype: Literal["real", "bool", "int8", "uint8", "int16"] = "real"
    rows: tuple[str, ...] = ()
    along: str = ""
    higher_is_better: bool | None = None

    @property
    def nbytes(self) -> tuple[int, int]:
        """Real numbers of a point, and bytes beside them."""
        if self.dtype == "real":
            return len(self.rows), 0
        return len(self.rows), np.dtype(self.dtype).itemsize

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the variable in a Dataset (CF conventions)."""
        attributes: dict[str, Any] = {"units": self.units, "long_name": self.words}
        if self.name == "reason":
            attributes["flag_values"] = np.arange(len(REASONS), dtype=np.int8)
            attributes["flag_meanings"] = " ".join(REASONS)
        if self.name == "warnings":
            attributes["flag_masks"] = np.array([1 << bit for bit in range(len(WARNINGS))], dtype=np.uint8)
            attributes["flag_meanings"] = " ".join(WARNINGS)
        return attributes


def _real(name: str, words: str, units: str, *needs: Stage, main: bool = False, higher: bool | None = False) -> Result:
    """Describe a result of one real number; most are better the less they are."""
    return Result(name, words, units, needs, main, rows=(name,), higher_is_better=higher)


def _phase(prefix: str, needs: Stage, details: Stage, of: str, *, whole: bool) -> Iterable[Result]:
    if whole:
        yield _real(f"{prefix}_latency", f"time of {of} through all pipeline stages", "s", needs)
        yield _real(f"{prefix}_period", f"time of {of} in the slowest pipeline stage, with its transfer", "s", needs)
        yield _real(f"{prefix}_transfer", f"time to pass {of} from a pipeline stage to the next", "s", needs)
        yield Result(
            f"{prefix}_bottleneck",
            f"slowest pipeline stage of {of}, counted from 0; -1 where the point cannot be",
            "1",
            (needs,),
            dtype="int16",
            rows=(f"{prefix}_bottleneck",),
        )
    stage = f"of {of} on a device of the slowest pipeline stage"
    for name, words, units in (
        ("compute_time", "compute time", "s"),
        ("memory_time", "DRAM time", "s"),
        ("memory_bound_time", "time of the layers (op-roofline: operations) that DRAM takes longer for,", "s"),
        ("comm_time", "time of all collectives", "s"),
        ("overhead_time", "overhead of a roofline chip in all layers and", "s"),
        ("read_bytes", "bytes read from DRAM", "byte"),
        ("write_bytes", "bytes written to DRAM", "byte"),
        ("dram_energy", "energy of DRAM accesses", "pJ"),
    ):
        yield _real(f"{prefix}_{name}", f"{words} {stage}", units, needs, details)
    yield Result(
        f"{prefix}_collective_time",
        f"time of each collective {stage}",
        "s",
        (needs, details),
        rows=tuple(f"{prefix}_{collective}_time" for collective in COLLECTIVES),
        along=COLLECTIVE,
        higher_is_better=False,
    )
    for name, words in (
        ("operation_time", "time of each operation of a roofline chip, taken alone,"),
        ("operation_memory_bound_time", "part of it in which DRAM takes longer than compute"),
    ):
        yield Result(
            f"{prefix}_{name}",
            f"{words} {stage}",
            "s",
            (needs, details),
            rows=tuple(f"{prefix}_{operation}_{name}" for operation in OPERATIONS),
            along=OPERATION,
            higher_is_better=False,
        )


def _experts(phase: str) -> Iterable[Result]:
    of = f"on the busiest expert-parallel rank in {phase}"
    yield _real(f"{phase}_imbalance", f"token-expert pairs {of} over the mean", "1", "experts")
    yield _real(f"{phase}_pairs", f"token-expert pairs {of}", "1", "experts", higher=None)
    yield _real(f"{phase}_active_experts", f"experts with at least one token {of}", "1", "experts", higher=None)


RESULTS: tuple[Result, ...] = (
    Result("valid", "whether the point can be", main=True, dtype="bool"),
    Result("reason", "why the point cannot be", main=True, dtype="int8"),
    Result("warnings", "what deserves a second look", needs=("footprint",), main=True, dtype="uint8"),
    _real("ttft", "time to first token", "s", "prefill", "first_decode", main=True),
    _real("tps", "generated tokens per second of the whole system", "s-1", "decode", main=True, higher=True),
    _real("tps_per_sequence", "generated tokens per second of one sequence", "s-1", "decode", main=True, higher=True),
    Result(
        "fits",
        "whether weights and KV cache fit the memory; true where its profile gives no capacity",
        "1",
        ("footprint",),
        main=True,
        dtype="bool",
    ),
    _real("weight_bytes", "weights held by a device of the fullest pipeline stage", "byte", "footprint", main=True),
    _real("kv_bytes", "KV cache held by that device at the last token", "byte", "footprint", main=True),
    _real(
        "capacity", "memory of a device; NaN where the profile gives none", "byte", "machine", main=True, higher=True
    ),
    _real(
        "usable_bandwidth",
        "DRAM bandwidth of a device after all derating",
        "byte s-1",
        "machine",
        main=True,
        higher=True,
    ),
    _real("clock_scale", "factor of the thermal policy on the compute clock", "1", "machine", main=True, higher=True),
    *_phase("prefill", "prefill", "prefill details", "the prefill", whole=True),
    *_phase("first_decode", "first_decode", "first_decode details", "the first decode step", whole=True),
    _real("decode_time", "time of all decode steps", "s", "decode"),
    *_phase("decode", "decode", "decode details", "all decode steps", whole=False),
    *_experts("prefill"),
    *_experts("decode"),
    _real("noc_energy_per_token", "energy of the network per generated token", "pJ", "energy"),
    _real("dram_energy_per_token", "energy of all devices' DRAM per generated token, in decode", "pJ", "energy"),
    _real("energy_per_token", "energy of DRAM and network per generated token, in decode", "J", "energy"),
    _real(
        "peak_bandwidth", "DRAM bandwidth of all connected layers before derating", "byte s-1", "machine", higher=True
    ),
    _real("connectivity_efficiency", "share of the peak that row recharges leave", "1", "machine", higher=True),
    Result("buffering_limited", "whether buffers limit the bandwidth", "1", ("machine",), dtype="bool"),
)
"""All results, in the order of a Dataset."""

BY_NAME = {result.name: result for result in RESULTS}

ALWAYS = ("valid", "reason")
"""Results that every Dataset has."""

BOTTLENECK = (
    "valid",
    "fits",
    "weight_bytes",
    "kv_bytes",
    "capacity",
    "clock_scale",
    "connectivity_efficiency",
    "buffering_limited",
    "prefill_latency",
    "prefill_period",
    "prefill_transfer",
    "first_decode_transfer",
    *(
        f"{phase}_{name}_time"
        for phase in ("prefill", "decode")
        for name in ("compute", "memory", "overhead", "collective")
    ),
)
"""Results that `stacksweep.bottleneck` reads, and `outputs="bottleneck"` stands for."""


def select(outputs: str | Sequence[str], *, operations: bool = True) -> tuple[Result, ...]:
    """
    Choose results by name.

    Parameters
    ----------
    outputs : str or sequence of str
        "main", "all", "bottleneck" (what `stacksweep.bottleneck` reads), a name, or several of these.
    operations : bool, optional
        Whether "all" has the results of operations, which are NaN on every chip but a roofline.

    Returns
    -------
    tuple of Result
        In the order of `RESULTS`, `valid` and `reason` always among them.

    Raises
    ------
    ParameterError
        If a name is not that of a result.
    """
    names = [outputs] if isinstance(outputs, str) else list(outputs)
    chosen = set(ALWAYS)
    for name in names:
        if name == "main":
            chosen.update(result.name for result in RESULTS if result.main)
        elif name == "all":
            chosen.update(result.name for result in RESULTS if operations or result.along != OPERATION)
        elif name == "bottleneck":
            chosen.update(BOTTLENECK)
        elif isinstance(name, str) and name in BY_NAME:
            chosen.add(name)
        else:
            known = ("main", "all", "bottleneck", *BY_NAME)
            raise ParameterError(f"outputs: no result is called {name!r}{did_you_mean(str(name), known)}")
    if not names:
        raise ParameterError('outputs: got none; name at least one result, or "main", "all" or "bottleneck"')
    return tuple(result for result in RESULTS if result.name in chosen)
