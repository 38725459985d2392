"""Systems of many devices: at random, as arguments of `reference.evaluate` and of `sweep`, and compared."""

import math
from collections.abc import Container, Sequence
from typing import Any

import pandas as pd
from hypothesis import strategies as st

import stacksweep as ss
from reference import evaluate
from reference.chip import chip_of
from reference.golden import arguments, differences
from reference.memory import memory_of
from reference.model import model_of
from reference.network import Noc
from reference.system import Plan, Point, invalid_reason, prepare
from stacksweep.estimate import Stage
from stacksweep.kernels.rows import COLLECTIVES
from stacksweep.kernels.validity import WARNINGS
from strategies import ODD_HERTZ, WIDTHS, chips, keywords, memories, models, wrong

System = dict[str, Any]
"""Keyword arguments of `reference.evaluate`, but with a NoC profile `noc` and a `link_model` for its `network`."""

PARALLEL = ("tp", "ep", "dp", "pp", "cp")
PASSES = ("prefill", "first_decode", "decode")
PROFILES = ("chip", "memory", "noc")
LINK_MODELS = ("deepstack", "physical")
CHIP = {
    "MLEN": 16,
    "BLEN": 4,
    "VLEN": 16,
    "HLEN": 8,
    "VECTOR_SRAM_SIZE": 4096,
    "HBM_V_Prefetch_Amount": 4,
    **{f"VECTOR_{name}_CYCLES": n for n, name in enumerate(("BASIC", "ADD", "MUL", "EXP", "MAX"), start=1)},
    **{f"SCALAR_FP_{name}_CYCLES": n for n, name in enumerate(("BASIC", "EXP", "RECI"), start=2)},
}
GRIDS = ("ring", "chain", "mesh2d", "torus2d", "mchain_nring", "mring_nchain")
KINDS = ("switch", "all_to_all", *GRIDS)


# --- the same system for the reference and for the package -----------------------------------------------------------


def network_of(system: System) -> Noc | None:
    """The plain network of a system."""
    profile = system.get("noc")
    return None if profile is None else Noc(profile, system.get("link_model", "deepstack"))


def reference_of(system: System) -> dict[str, Any]:
    """What the plain reference says of a system."""
    known = {name: value for name, value in system.items() if name not in ("noc", "link_model")}
    return evaluate(**known, network=network_of(system))


def prepared(system: System) -> Point:
    """A system that can be, as the reference prices it."""
    return prepare(
        model_of(system["model"]),
        chip_of(system["chip"]),
        system["precision"],
        memory_of(system["memory"]),
        Plan(**system["plan"]),
        system["batch_size"],
        system["input_seq_len"],
        system["output_seq_len"],
        system["frequency_hz"],
        system.get("overlap", "stage-roofline"),
        system.get("comm_overlap", "none"),
        system.get("routing", "balanced"),
        system.get("include_lm_head", False),
        network_of(system),
    )


def arguments_of(system: System) -> dict[str, Any]:
    """A system as arguments of `sweep` and `estimate`."""
    given = keywords(system)
    plan = given.pop("plan")
    return given | plan


def golden_system(case: dict[str, Any]) -> System:
    """A case of ``multi_chip`` or ``invalid``."""
    known = arguments(case)
    return known | {"model": known["model"] | {"name": case["model"]}, "noc": case["noc"]}


def table_of(systems: Sequence[System], shared: Container[str] = ()) -> pd.DataFrame:
    """Systems as the points of a sweep, but for what they share; each has profiles of its own names."""
    rows = []
    for number, system in enumerate(systems):
        given = arguments_of(system)
        for kind in PROFILES:
            given[kind] = given[kind] | {"name": f"{kind} {number}"}
        rows.append({name: value for name, value in given.items() if name not in shared})
    return pd.DataFrame(rows)


def comm_differences(got: dict[str, Any], expected: dict[str, float], prefix: str) -> dict[str, Any]:
    """What a pass spends in each collective, where it differs; collectives that are not expected take no time."""
    found = dict(zip(COLLECTIVES, got[f"{prefix}_collective_time"], strict=True))
    return {
        f"{prefix} {name}": values
        for name, values in differences(found, dict.fromkeys(COLLECTIVES, 0.0) | expected).items()
    }


def system_differences(got: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """Name -> (got, expected) of every result of a point that is not what the reference says."""
    found = wrong(got, expected)
    if expected["reason"] is None:
        for prefix in PASSES:
            found |= comm_differences(got, expected[f"{prefix}_comm"], prefix)
    return found


def values_of(report: ss.Estimate) -> dict[str, Any]:
    """A report under the names of a sweep's results, as `point_values` gives them."""
    flat = {name: value for name, value in vars(report).items() if isinstance(value, float | bool)}
    for prefix in PASSES:
        phase = getattr(report, prefix)
        flat |= {f"{prefix}_{name}": getattr(phase, name) for name in ("period", "transfer", "bottleneck")}
        flat |= {f"{prefix}_{name}": value for name, value in vars(phase.stage).items() if isinstance(value, float)}
        flat[f"{prefix}_operation_time"] = list(phase.stage.operations.values()) or [math.nan]
        flat[f"{prefix}_operation_memory_bound_time"] = list(phase.stage.memory_bound_operations.values()) or [math.nan]
        flat[f"{prefix}_collective_time"] = [phase.stage.collectives[name] for name in COLLECTIVES]
        for name in ("imbalance", "pairs", "active_experts"):
            flat[f"{prefix}_{name}"] = math.nan if phase.experts is None else getattr(phase.experts, name)
    flat["prefill_latency"], flat["first_decode_latency"] = report.prefill.seconds, report.first_decode.seconds
    flat["decode_time"] = report.decode.seconds
    flat["warnings"] = {name for name, words in WARNINGS.items() if words in report.warnings}
    assert len(flat["warnings"]) == len(report.warnings)
    return flat | {"valid": True, "reason": "valid"}


def same(one: Stage, other: Stage) -> bool:
    """Whether two reports of a stage are equal, NaN to NaN."""
    pairs = [(getattr(one, name), getattr(other, name)) for name in vars(one)]
    return all(a == b or (a != a and b != b) for a, b in pairs)


# --- networks --------------------------------------------------------------------------------------------------------


def shapes(kind: str, size: int) -> list[tuple[int, int]]:
    """Shapes of so many nodes that a kind of level can have."""
    grid = [(rows, size // rows) for rows in range(1, size + 1) if size % rows == 0]
    if kind == "switch":
        return [(1, size)]
    if kind == "all_to_all":
        return grid if size >= 4 else []
    if kind in ("ring", "chain"):
        return [] if size % 2 else [(1, size)]
    least_rows = 2 if kind in ("torus2d", "mring_nchain") else 1
    least_columns = 2 if kind in ("torus2d", "mchain_nring") else 1
    return [
        (rows, columns)
        for rows, columns in grid
        if rows >= least_rows and columns >= least_columns and all(n == 1 or n % 2 == 0 for n in (rows, columns))
    ]


@st.composite
def levels(draw: st.DrawFn, size: int, kinds: Sequence[str] = KINDS) -> dict[str, Any]:
    """One level of so many nodes."""
    kind = draw(st.sampled_from([kind for kind in kinds if shapes(kind, size)]))
    shape = draw(st.sampled_from(shapes(kind, size)))
    level: dict[str, Any] = {
        "kind": kind,
        "shape": list(shape),
        "hop_latency_ns": draw(st.sampled_from([0, 100, 250.5, 12345.678])),
        "link_bandwidth_gbytes_per_s": draw(st.sampled_from([0.0123456789, 25, 50, 370, 1234.56789])),
    }
    if kind == "switch" and draw(st.booleans()):
        level["switch_center_in_gbytes_per_s"] = draw(st.sampled_from([30, 100, 802.5]))
        level["switch_center_out_gbytes_per_s"] = draw(st.sampled_from([20, 100]))
    return level


def splits(devices: int) -> list[tuple[int, int, int]]:
    """Sizes of three levels that make so many devices."""
    factors = [n for n in range(1, devices + 1) if devices % n == 0]
    return [(a, b, devices // a // b) for a in factors for b in factors if devices // a % b == 0 and devices % a == 0]


def grids_or_one(size: int) -> list[str]:
    return [kind for kind in GRIDS if shapes(kind, size)]


@st.composite
def nocs(draw: st.DrawFn, devices: int, link_model: str) -> dict[str, Any]:
    """A profile of so many devices that the link model has routes for."""
    sizes = draw(st.sampled_from(splits(devices)))
    forms = [[("switch",)] * 3]
    if grids_or_one(sizes[0]) and grids_or_one(sizes[1]):
        forms += [[GRIDS, GRIDS, ("switch",)]] * 2
    if link_model == "physical" or sizes[2] == devices:
        forms += [[KINDS, KINDS, KINDS]] * 4
    elif sorted(sizes)[1] == 1:
        # a route starts at the CENTER of L1, so that L1 has to be a switch
        forms += [[KINDS, KINDS, ("switch",)]] * 4
    form = draw(st.sampled_from(forms))
    drawn = [draw(levels(size, kinds)) for size, kinds in zip(sizes, form, strict=True)]
    profile = {
        "schema_version": 1,
        "kind": "noc_hierarchy",
        "name": draw(st.sampled_from(["near", "far"])),
        "layers": dict(zip(("L3", "L2", "L1"), drawn, strict=True)),
    }
    if link_model == "physical" and draw(st.booleans()):
        profile["port_spread"] = draw(st.sampled_from(["even", "nearest"]))
    if draw(st.integers(0, 3)):
        profile["energy_pj_per_bit"] = {
            level: draw(st.sampled_from([0, 1, 2.5, 0.123])) for level in ("l1", "l2", "l3")
        }
    return profile


def switch_profile(devices: int, latency_ns: float = 1250.5, bandwidth: float = 370.25) -> dict[str, Any]:
    """Devices around one switch."""
    level = {"kind": "switch", "hop_latency_ns": latency_ns, "link_bandwidth_gbytes_per_s": bandwidth}
    sizes = {"L3": 1, "L2": 1, "L1": devices}
    return {
        "schema_version": 1,
        "kind": "noc_hierarchy",
        "name": f"switch of {devices}",
        "layers": {name: level | {"shape": [1, size]} for name, size in sizes.items()},
        "energy_pj_per_bit": {"l1": 1.25, "l2": 2, "l3": 3},
    }


def fixed_memory(bandwidth: float, transaction: int | None = None) -> dict[str, Any]:
    memory = {
        "schema_version": 1,
        "kind": "fixed_bandwidth",
        "name": "fixed",
        "bandwidth_bytes_per_s": bandwidth,
        "capacity_bytes": 10**9,
        "energy": {"read_pj_per_bit": 2.47, "write_pj_per_bit": 0.9},
    }
    return memory if transaction is None else memory | {"transaction_bytes": transaction}


def plain_system(model: dict[str, Any], plan: dict[str, Any], **changes: Any) -> System:
    """A model on a small chip, as many of them around a switch as the plan uses."""
    sizes = [plan[name] for name in PARALLEL if name in plan]
    return {
        "model": model,
        "chip": CHIP,
        "precision": {"weight_bytes": 1.125, "kv_read_bytes": 1.125, "kv_write_bytes": 1.0, "activation_bytes": 2.0},
        "memory": fixed_memory(1.0000123e9),
        "plan": plan,
        "batch_size": 4,
        "input_seq_len": 20,
        "output_seq_len": 3,
        "frequency_hz": 987654321.0,
        "noc": switch_profile(math.prod(sizes), latency_ns=10.5, bandwidth=37.1),
        **changes,
    }


# --- plans and whole systems -----------------------------------------------------------------------------------------


class Devices:
    """Stands for a network where only its size counts."""

    def __init__(self, devices: int) -> None:
        self.devices = devices


def reason_of(
    model: dict[str, Any],
    plan: dict[str, Any],
    devices: int | None = None,
    *,
    memory_reason: str | None = None,
    batch_size: int = 1,
    input_seq_len: int = 10**9,
    routing: Any = "balanced",
) -> str | None:
    """Why the reference refuses a plan on so many devices, by default on as many as it uses."""
    sizes = Plan(**plan)
    network: Any = Devices(sizes.devices if devices is None else devices)
    return invalid_reason(
        model_of(model), {"reason": memory_reason}, sizes, batch_size, input_seq_len, routing, network
    )


@st.composite
def valid_plans(
    draw: st.DrawFn, model: dict[str, Any], prompt: int, most: int = 24, several: str = ""
) -> dict[str, Any]:
    """A plan of at most so many devices, sizes in a random order of preference; `several` is above 1 if it can be."""
    plan: dict[str, Any] = dict.fromkeys(PARALLEL, 1)
    plan["moe_tp_mode"] = draw(st.sampled_from(["replace", "keep"]))
    for name in sorted(draw(st.permutations(PARALLEL)), key=lambda name: name != several):
        room = most // math.prod(plan[size] for size in PARALLEL)
        sizes = [
            size
            for size in range(1, min(room, 12) + 1)
            if reason_of(model, plan | {name: size}, input_seq_len=prompt) is None
        ]
        if name == several and len(sizes) > 1:
            sizes = sizes[1:]
        # grids have even sides
        plan[name] = draw(st.sampled_from(sizes + [size for size in sizes if size % 2 == 0]))
    return plan


@st.composite
def routed_models(draw: st.DrawFn) -> dict[str, Any]:
    """Models with experts in some layers at least."""
    config = draw(models(layers=5))
    experts = draw(st.sampled_from([2, 4, 6, 12]))
    config |= {
        "num_experts": experts,
        "num_experts_per_tok": draw(st.integers(1, min(experts, 4))),
        "moe_intermediate_size": draw(st.integers(1, 900)),
    }
    if "mlp_types" in config:
        config["mlp_types"][-1] = "moe"
    return config


@st.composite
def loads(draw: st.DrawFn, prompt: int, output: int) -> dict[str, Any]:
    return {
        "batch_size": draw(st.one_of(st.integers(1, 12), st.integers(1, 90))),
        "input_seq_len": draw(st.one_of(st.integers(1, 60), st.integers(1, prompt))),
        "output_seq_len": draw(st.integers(1, output)),
    }


@st.composite
def systems(
    draw: st.DrawFn,
    output: int = 40,
    prompt: int = 300,
    most: int = 24,
    model: st.SearchStrategy[dict[str, Any]] | None = None,
    several: str = "",
    chip: st.SearchStrategy[dict[str, Any]] | None = None,
    overlaps: tuple[str, ...] = ("stage-roofline", "serial"),
) -> System:
    """Whole design points of several devices, nearly all of which can be."""
    chosen = draw(models(layers=9) if model is None else model)
    load = draw(loads(prompt, output))
    plan = draw(valid_plans(chosen, load["input_seq_len"], most, several))
    link_model = draw(st.sampled_from(LINK_MODELS))
    widths = ("weight_bytes", "kv_read_bytes", "kv_write_bytes", "activation_bytes")
    return {
        "model": chosen,
        "chip": draw(chips() if chip is None else chip),
        "precision": {name: draw(st.sampled_from(WIDTHS)) for name in widths},
        "memory": draw(memories()),
        "plan": plan,
        **load,
        "frequency_hz": draw(ODD_HERTZ),
        "overlap": draw(st.sampled_from(overlaps)),
        "comm_overlap": draw(st.sampled_from(["none", "full"])),
        "routing": draw(st.sampled_from(["balanced", "random", "expected"])),
        "include_lm_head": draw(st.booleans()),
        "noc": draw(nocs(math.prod(plan[name] for name in PARALLEL), link_model)),
        "link_model": link_model,
    }
