"""Golden cases and random networks for the tests of the network model."""

from __future__ import annotations

import gzip
import json
import math
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

DATA = Path(__file__).resolve().parents[1] / "data" / "noc"
GRIDS = ("ring", "chain", "mesh2d", "torus2d", "mchain_nring", "mring_nchain")


@cache
def golden(name):
    """Cases of a golden file."""
    return json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes()))


def relative_error(value, expected):
    """Relative difference; 0 for equal values, None stands for NaN."""
    if expected is None:
        return 0.0 if math.isnan(value) else math.inf
    if value == expected:
        return 0.0
    return abs(value - expected) / max(abs(value), abs(expected))


# What follows draws networks of a few devices, so that plain Python can walk every route.


@st.composite
def layers(draw, kinds, most):
    """Draw one level of at most `most` nodes, 1 node where nothing else fits."""
    kind = draw(st.sampled_from(kinds))
    shapes = [shape for shape in _shapes(kind) if math.prod(shape) <= most]
    if not shapes:
        kind, shapes = "mesh2d" if "switch" not in kinds else "switch", [(1, 1)]
    layer = {
        "kind": kind,
        "shape": list(draw(st.sampled_from(shapes))),
        "hop_latency_ns": draw(st.sampled_from([0, 100, 250.5, 1000])),
        "link_bandwidth_gbytes_per_s": draw(st.sampled_from([25, 50, 370])),
    }
    if kind == "switch" and draw(st.booleans()):
        layer["switch_center_in_gbytes_per_s"] = draw(st.sampled_from([30, 100, 800]))
        layer["switch_center_out_gbytes_per_s"] = draw(st.sampled_from([20, 100]))
    return layer


def _shapes(kind):
    sides = (1, 2, 4, 6)
    if kind == "switch":
        return [(1, n) for n in (1, 2, 3, 4, 6)]
    if kind in ("ring", "chain"):
        return [(1, n) for n in (2, 4, 6)]
    if kind == "all_to_all":
        return [(1, 4), (2, 2), (1, 5), (2, 3), (3, 2), (2, 4)]
    return [
        (m, n)
        for m in sides
        for n in sides
        if (m > 1 or kind in ("mesh2d", "mchain_nring")) and (n > 1 or kind in ("mesh2d", "mring_nchain"))
    ]


@st.composite
def profiles(draw, link_model, most=24):
    """Draw a profile that the link model has routes for."""
    every = ("switch", "all_to_all", *GRIDS)
    if link_model == "physical":
        kinds = [every] * 3
    else:
        mixed = [GRIDS, GRIDS, ("switch",)]
        alone = draw(st.integers(0, 2))
        single = [("switch",) if level != alone else every for level in range(3)]
        kinds = draw(st.sampled_from([[("switch",)] * 3, mixed, single]))
        if kinds is single:
            chosen = [_one_node() for _ in range(3)]
            chosen[alone] = draw(layers(every, most))
            return _profile(draw, chosen, "even")
    inner = draw(layers(kinds[2], most))
    middle = draw(layers(kinds[1], most // math.prod(inner["shape"])))
    outer = draw(layers(kinds[0], most // math.prod(inner["shape"]) // math.prod(middle["shape"])))
    spread = draw(st.sampled_from(["even", "nearest"])) if link_model == "physical" else "even"
    return _profile(draw, [outer, middle, inner], spread)


def _one_node():
    return {"kind": "switch", "shape": [1, 1], "hop_latency_ns": 0, "link_bandwidth_gbytes_per_s": 50}


def _profile(draw, levels, spread):
    profile = {
        "schema_version": 1,
        "kind": "noc_hierarchy",
        "name": "drawn",
        "layers": dict(zip(("L3", "L2", "L1"), levels, strict=True)),
        "port_spread": spread,
    }
    if draw(st.booleans()):
        profile["energy_pj_per_bit"] = {"l1": 1.0, "l2": 2.5, "l3": 4.0}
    return profile


def device_count(profile):
    """Number of devices of a profile."""
    return math.prod(math.prod(layer["shape"]) for layer in profile["layers"].values())


@st.composite
def plans(draw, devices):
    """Draw parallel sizes that multiply to a number of devices."""
    sizes = {}
    for dim in ("tp", "ep", "cp", "dp"):
        sizes[dim] = draw(st.sampled_from([n for n in range(1, devices + 1) if devices % n == 0]))
        devices //= sizes[dim]
    return {**sizes, "pp": devices}


def dispatch_bytes(sizes, case):
    """Bytes from rank to rank of every expert-parallel group: routed tokens, as a golden case describes them."""
    ep, dp = sizes["ep"], sizes["dp"]
    experts, choices, tokens = case["num_experts"], case["top_k"], case["micro_batch_tokens"]
    per_token = case["bytes_per_token"]
    groups = math.prod(sizes.values()) // ep
    sent = np.zeros((groups, ep, ep), np.int64)
    if tokens >= 8192:
        sent[:] = int(math.ceil(tokens / (dp * ep)) * choices / ep * per_token * case["imbalance"])
        return sent
    if case["routing"] == "balanced":
        rows = [[(t + j * (experts // choices)) % experts for j in range(choices)] for t in range(tokens)]
    else:
        rows = np.random.default_rng(0).random((tokens, experts)).argsort(axis=1)[:, :choices].tolist()
    slot_size = -(-tokens // dp)
    for group in range(groups):
        first = group % dp * slot_size
        mine = rows[first : min(first + slot_size, tokens)]
        each, more = divmod(len(mine), ep)
        at = 0
        for source in range(ep):
            end = at + each + (source < more)
            for row in mine[at:end]:
                for rank in {expert * ep // experts for expert in row}:
                    sent[group, source, rank] += per_token
            at = end
    return sent
