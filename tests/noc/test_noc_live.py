"""Random cases against DeepStack itself, where the environment variable DEEPSTACK_ROOT names a checkout of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from noc_cases import relative_error

import deepstack_noc as dn

ROOT = os.environ.get("DEEPSTACK_ROOT")
TOLERANCE = 1e-12


@pytest.fixture(scope="module")
def deepstack():
    """The functions of the checkout that are compared with."""
    paths = [str(Path(ROOT) / "src" / name) for name in ("deepstack", "tilesight")]
    sys.path[:0] = paths
    try:
        from mosaic.collectives.all_gather_wrapper import all_gather_wrapper
        from mosaic.collectives.all_reduce_wrapper import all_reduce_wrapper
        from mosaic.noc.custom_profile import make_custom_profile
        from mosaic.parallelism import ParallelScheme
        from mosaic.utils import Modeling_Granularity
    except ImportError as error:
        pytest.skip(f"the checkout needs what is not installed: {error}")
    finally:
        del sys.path[:2]
    granularity = Modeling_Granularity("coarse", True, False)

    def price(wrapper, profile, sizes, dim, nbytes):
        hierarchy = make_custom_profile(layers=profile["layers"], name=profile["name"])
        return wrapper(None, ParallelScheme(**sizes), hierarchy, granularity, dim, nbytes)[:2]

    return {
        "all_reduce": lambda *case: price(all_reduce_wrapper, *case),
        "all_gather": lambda *case: price(all_gather_wrapper, *case),
    }


def random_case(seed):
    """A network, parallel sizes, all powers of two, a dimension and bytes."""
    rng = np.random.default_rng(seed)

    def level(kind, rows, columns):
        return {
            "kind": kind,
            "shape": [int(rows), int(columns)],
            "hop_latency_ns": float(rng.choice([0, 100, 250.5, 5000])),
            "link_bandwidth_gbytes_per_s": float(rng.choice([25, 50, 370])),
        }

    flat = ("mesh2d", "torus2d", "mchain_nring", "mring_nchain")
    form = rng.integers(3)
    if form == 0:
        levels = [level("switch", 1, rng.choice([1, 2, 4])) for _ in range(3)]
    elif form == 1:
        levels = [level(rng.choice(flat), *rng.choice([2, 4], 2)) for _ in range(2)] + [
            level("switch", 1, rng.choice([1, 2]))
        ]
    else:
        alone = level(rng.choice(["ring", "chain"]), 1, rng.choice([4, 8, 16]))
        levels = [level("switch", 1, 1), level("switch", 1, 1), alone]
    profile = {
        "schema_version": 1,
        "kind": "noc_hierarchy",
        "name": f"random-{seed}",
        "layers": dict(zip(("L3", "L2", "L1"), levels, strict=True)),
    }
    left = dn.load_noc(profile).devices
    sizes = {}
    for dim in ("tp", "ep", "sp", "cp", "dp"):
        sizes[dim] = int(2 ** rng.integers(left.bit_length()))
        left //= sizes[dim]
    sizes["pp"] = left
    dims = [dim for dim, n in sizes.items() if n > 1] or ["tp"]
    return profile, sizes, str(rng.choice(dims)), int(rng.choice([1, 7, 12345, 1000001, 67108864]))


@pytest.mark.skipif(not ROOT, reason="DEEPSTACK_ROOT names no checkout of tile-ai/DeepStack")
@pytest.mark.filterwarnings("ignore")  # what the checkout warns of is not ours
@pytest.mark.parametrize("seed", range(40))
def test_random_cases(deepstack, seed):
    profile, sizes, dim, nbytes = random_case(seed)
    if sizes[dim] == 1:
        pytest.skip("a single device")
    for collective, price in deepstack.items():
        hop, link = price(profile, sizes, dim, nbytes)
        cost = getattr(dn, collective)(profile, sizes, dim, nbytes)
        total = relative_error(cost.time, float(hop + link))
        assert total <= TOLERANCE, f"{collective}: {cost} instead of {hop} + {link}"


@pytest.mark.parametrize("seed", range(10))
def test_random_cases_are_priced(seed):
    """The cases themselves are good, with or without a checkout."""
    profile, sizes, dim, nbytes = random_case(seed)
    assert dn.all_reduce(profile, sizes, dim, nbytes).time >= 0
