"""
The one table of parameters: names, kinds, units, defaults, limits, words.

Everything that lists or checks parameters is made from `PARAMETERS`: the checks at the door, the signatures and
docstrings of `sweep` and `estimate`, the command line, the attributes of coordinates and the reference page.
"""

import difflib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["profile", "integer", "parallel", "number", "choice", "switch", "routing"]
Side = Literal["load", "machine"]


class ParameterError(ValueError):
    """A parameter was given a name, a value or a shape that it cannot have; the message says which and what can be."""


@dataclass(frozen=True)
class Parameter:
    """
    One parameter of a sweep.

    Parameters
    ----------
    name : str
        Name of the argument.
    group : str
        Heading under which it is listed.
    kind : {"profile", "integer", "parallel", "number", "choice", "switch", "routing"}
        What its values are; a parallel size is a whole number or "fill".
    side : {"load", "machine"}
        Whether it describes the work or what does it.
    words : str
        What it is; becomes `long_name`.
    units : str
        UDUNITS spelling; "1" where there is none.
    default : object
        Value where none is given; None where it must be given, or comes from a profile.
    low, high : float
        Limits of numbers.
    choices : tuple of str
        Allowed words of a choice.
    coordinate : str, optional
        Name of its coordinate and dimension where that is not its own.
    chips : {"plena", "roofline"}, optional
        The only kind of chip that takes it; its default is for these chips alone.
    """

    name: str
    group: str
    kind: Kind
    side: Side
    words: str
    units: str = "1"
    default: Any = None
    low: float = 0.0
    high: float = math.inf
    choices: tuple[str, ...] = ()
    coordinate: str = ""
    chips: Literal["", "plena", "roofline"] = ""

    def __post_init__(self) -> None:
        """Name the coordinate after the parameter."""
        if not self.coordinate:
            object.__setattr__(self, "coordinate", self.name)

    @property
    def allowed(self) -> str:
        """What values it takes, in words."""
        if self.kind == "choice":
            return "one of " + ", ".join(self.choices)
        if self.kind == "switch":
            return "true or false"
        if self.kind == "profile":
            return "a bundled name, a path, a mapping in the file's layout, or a loaded profile"
        if self.kind == "routing":
            return (
                "balanced, random, expected, a trace by name (" + ", ".join(TRACES) + ") or the path of an .npz trace"
            )
        noun = "a number" if self.kind == "number" else "a whole number"
        limits = f"{noun} of at least {self.low:g} and at most {self.high:g}"
        return limits + (', or "fill"' if self.kind == "parallel" else "")


TRACES = ("qwen3_235b", "deepseek_v3")
"""Routing traces that a checkout of DeepStack brings."""

PARALLEL = ("tp", "ep", "dp", "pp", "cp")
"""Sizes of a plan, from the innermost out but for cp, which lies between ep and dp."""

_SMALL, _LARGE = 1e-12, 1e24
"""Limits of real numbers, in which no product of several leaves double precision."""

_TOKENS = 1e9
_BYTES = 1e18


def _load(name: str, words: str, default: int) -> Parameter:
    return Parameter(name, "load", "integer", "load", words, default=default, low=1, high=_TOKENS)


def _width(name: str, words: str, coordinate: str = "") -> Parameter:
    return Parameter(name, "chip", "number", "load", words, "byte", low=_SMALL, high=1024, coordinate=coordinate)


def _peak(bits: int) -> Parameter:
    words = f"peak of a roofline chip for operands of {bits} bits, in FLOP/s"
    return Parameter(
        f"peak_flops_{bits}", "chip", "number", "load", words, "s-1", low=_SMALL, high=_LARGE, chips="roofline"
    )


def _roofline(name: str, words: str, units: str, low: float = 0.0, high: float = _LARGE) -> Parameter:
    return Parameter(name, "chip", "number", "load", words, units, low=low, high=high, chips="roofline")


def _count(name: str, words: str, low: float = 1, high: float = 2**20, units: str = "1") -> Parameter:
    return Parameter(name, "memory", "integer", "machine", words, units, low=low, high=high)


def _number(name: str, words: str, units: str, low: float = _SMALL, high: float = _LARGE) -> Parameter:
    return Parameter(name, "memory", "number", "machine", words, units, low=low, high=high)


def _parallel(name: str, words: str) -> Parameter:
    return Parameter(name, "plan", "parallel", "load", words, default=1, low=1, high=2**20)


def _level(suffix: str, words: str, units: str, *, zero: bool) -> tuple[Parameter, ...]:
    return tuple(
        Parameter(
            f"l{level}_{suffix}",
            "network",
            "number",
            "load",
            f"{words} of level {level} (1 is innermost), from the network unless given",
            units,
            low=0 if zero else _SMALL,
            high=_LARGE,
        )
        for level in (1, 2, 3)
    )


PARAMETERS: tuple[Parameter, ...] = (
    Parameter("model", "what runs", "profile", "load", "network whose inference is predicted"),
    Parameter("chip", "chip", "profile", "load", "chip that computes", default="plena"),
    Parameter(
        "frequency_hz",
        "chip",
        "number",
        "machine",
        "compute clock of a PLENA chip before thermal derating",
        "s-1",
        1e9,
        _SMALL,
        _LARGE,
        chips="plena",
    ),
    *(_peak(bits) for bits in (4, 8, 16, 32)),
    _roofline("compute_efficiency", "share of its peak that a roofline chip reaches", "1", _SMALL, 1),
    _roofline("memory_efficiency", "share of the usable bandwidth that a roofline chip reaches", "1", _SMALL, 1),
    _roofline("operation_overhead", "time that each operation takes besides on a roofline chip", "s"),
    _roofline("layer_overhead", "time that each layer takes besides on a roofline chip", "s"),
    _roofline("pass_overhead", "time that each pass through a stage takes besides on a roofline chip", "s"),
    _roofline("activation_cache", "activations that an operation keeps on a roofline chip in prefill", "byte"),
    _width("weight_bytes", "bytes per stored weight, from the chip unless given", "weight_bytes_per_element"),
    _width("kv_read_bytes", "bytes per element of KV cache read, from the chip unless given"),
    _width("kv_write_bytes", "bytes per element of KV cache written and held, from the chip unless given"),
    _width("activation_bytes", "bytes per stored activation, from the chip unless given"),
    Parameter("memory", "memory", "profile", "machine", "memory of a device"),
    _count("layers", "DRAM layers of the stack", high=4096),
    _count("connected_layers", "layers connected to the chip; all of them when only `layers` is given", high=4096),
    _count("channels_per_connected_layer", "channels of a connected layer"),
    _count("capacity_per_layer_bytes", "capacity of a layer", units="byte", high=_BYTES),
    _count("transaction_bytes", "bytes of one transaction", units="byte", high=2**30),
    _number("bytes_per_channel_transfer", "bytes that a channel moves at once", "byte"),
    _number("transfers_per_memory_clock", "transfers of a channel per memory clock", "1"),
    _number("memory_frequency_hz", "memory clock", "s-1"),
    _number("direct_peak_bandwidth_per_connected_layer_bytes_per_s", "peak bandwidth of a connected layer", "byte s-1"),
    _number("fully_connected_efficiency", "share of the peak left when all layers are connected", "1", high=1),
    _count("row_bytes", "bytes of a DRAM row, a multiple of the sector", units="byte", high=2**40),
    _count("sector_bytes", "bytes of a sector", units="byte", high=2**40),
    _number("sector_cycles", "cycles to read a sector", "1"),
    _number("recharge_cycles", "cycles to recharge a row", "1", low=0),
    _number("round_trip_latency_cycles", "cycles from a request to its data (bank timing)", "1", low=0),
    _number("latency_clock_hz", "clock of the bank timing's round-trip latency", "s-1"),
    _count("requesters", "requesters that share the bandwidth"),
    _count("buffer_bytes_per_requester", "buffer of one requester", units="byte", high=_BYTES),
    _number("buffering_factor", "factor on the bytes in flight that Little's law asks for", "1"),
    _number("buffer_round_trip_latency_cycles", "cycles from a request to its data (buffering)", "1", low=0),
    _number("buffer_round_trip_latency_clock_hz", "clock of the buffering's round-trip latency", "s-1"),
    _number("resistance_base_c_per_w", "thermal resistance without layers", "K W-1"),
    _number("resistance_per_layer_c_per_w", "thermal resistance that a layer adds", "K W-1", low=0),
    _count("baseline_layers", "layers at which the chip runs at its design power", low=0, high=4096),
    _number("design_power_w", "power at the baseline and full clock", "W"),
    _number("static_power_w", "power that does not depend on the clock", "W", low=0),
    _number("dynamic_power_exponent", "exponent of the clock in the dynamic power", "1", 0.1, 100),
    _number("read_pj_per_bit", "energy of a DRAM read", "pJ bit-1", low=0),
    _number("write_pj_per_bit", "energy of a DRAM write", "pJ bit-1", low=0),
    _number("bandwidth_bytes_per_s", "bandwidth of a memory of fixed bandwidth", "byte s-1"),
    _count("capacity_bytes", "capacity of a memory of fixed bandwidth", units="byte", high=_BYTES),
    Parameter("noc", "network", "profile", "load", "network between the devices; one device without it"),
    *_level("bandwidth", "bandwidth of a link", "byte s-1", zero=False),
    *_level("latency", "latency of a link", "s", zero=True),
    *_level("pj_per_bit", "energy of a link", "pJ bit-1", zero=True),
    Parameter(
        "link_model",
        "network",
        "choice",
        "load",
        "which links a route pays for: those of DeepStack's numbers, or all it crosses",
        default="deepstack",
        choices=("deepstack", "physical"),
    ),
    _parallel("tp", "tensor-parallel size"),
    _parallel("ep", "expert-parallel size"),
    _parallel("dp", "data-parallel size"),
    _parallel("pp", "pipeline-parallel size"),
    _parallel("cp", "context-parallel size"),
    Parameter(
        "moe_tp_mode",
        "plan",
        "choice",
        "load",
        "whether routed experts replace tensor by expert parallelism or keep it",
        default="replace",
        choices=("replace", "keep"),
    ),
    _load("batch_size", "sequences served together by the whole system", 16),
    _load("input_seq_len", "prompt tokens of a sequence", 2048),
    _load("output_seq_len", "tokens generated per sequence", 1024),
    Parameter(
        "overlap",
        "policies",
        "choice",
        "machine",
        "whether memory time hides behind compute time: in a layer, in an operation (roofline chips), or not",
        choices=("stage-roofline", "op-roofline", "serial"),
    ),
    Parameter(
        "comm_overlap",
        "policies",
        "choice",
        "machine",
        "whether the collectives of a layer hide behind it",
        default="none",
        choices=("none", "full"),
    ),
    Parameter("routing", "policies", "routing", "load", "how tokens choose experts", default="balanced"),
    Parameter(
        "include_lm_head",
        "policies",
        "switch",
        "load",
        "whether every pass pays for the LM head (models with experts or sliding layers always do in prefill)",
        default=False,
    ),
)
"""All parameters, in the order in which they are listed."""

BY_NAME = {parameter.name: parameter for parameter in PARAMETERS}


def parameter(name: str) -> Parameter:
    """
    Look a parameter up.

    Parameters
    ----------
    name : str
        Its name.

    Returns
    -------
    Parameter

    Raises
    ------
    ParameterError
        If there is none; the message names the nearest ones.
    """
    if name not in BY_NAME:
        raise ParameterError(f"{name}: no such parameter{did_you_mean(name, BY_NAME)}")
    return BY_NAME[name]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Suggest known words that are spelled alike, or list them all when they are few."""
    names = list(known)
    near = difflib.get_close_matches(word, names, n=3, cutoff=0.6)
    if near:
        return "; did you mean " + " or ".join(near) + "?"
    if len(names) <= 30:
        return "; there are " + ", ".join(names)
    return ""
