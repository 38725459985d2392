"""Draws of uncertain parameters: where they lie, what is made of them, and what is refused."""

import doctest
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

import stacksweep as ss
from stacksweep.analysis import draws

STACK: dict[str, Any] = {"model": "llama-3.1-8b", "memory": "fictional_stacked_dram"}
HERTZ = stats.norm(4e8, 2e7)
RECHARGE = stats.triang(0.5, 20, 40)


@pytest.mark.parametrize(("method", "samples"), [("latin-hypercube", 50), ("sobol", 64)])
def test_one_draw_in_each_likely_part(method: str, samples: int):
    ds = ss.sample(samples=samples, method=method, memory_frequency_hz=HERTZ, recharge_cycles=RECHARGE, **STACK)
    assert ds.tps.dims == ("sample",)
    for name, distribution in (("memory_frequency_hz", HERTZ), ("recharge_cycles", RECHARGE)):
        parts = np.floor(distribution.cdf(ds[name].values) * samples)
        assert sorted(parts) == list(range(samples))
    # independent of each other
    assert abs(stats.spearmanr(ds.memory_frequency_hz, ds.recharge_cycles).statistic) < 0.3


def test_it_is_the_sweep_of_its_draws():
    ds = ss.sample(
        samples=8,
        layers=[8, 12],
        memory_frequency_hz=HERTZ,
        batch_size=stats.randint(1, 9),
        outputs=["tps", "fits"],
        **STACK,
    )
    assert dict(ds.sizes) == {"layers": 2, "sample": 8}
    assert sorted(ds.batch_size.values) == list(range(1, 9))
    again = ss.sweep(
        layers=[8, 12],
        memory_frequency_hz=ds.memory_frequency_hz.variable.values * xr.DataArray(np.ones(8), dims="sample"),
        batch_size=xr.DataArray(ds.batch_size.values, dims="sample"),
        outputs=["tps", "fits"],
        **STACK,
    )
    xr.testing.assert_identical(ds.drop_attrs(deep=False), again.drop_attrs(deep=False))


def test_the_seed_makes_the_draws():
    def draw(**change: Any) -> list[float]:
        given = {"samples": 4, "memory_frequency_hz": HERTZ, "recharge_cycles": RECHARGE} | change
        return ss.sample(**given, **STACK).recharge_cycles.values.tolist()

    assert draw() == draw(seed=0) == draw(seed=np.int64(0))
    assert draw() != draw(seed=1)
    turned = ss.sample(recharge_cycles=RECHARGE, memory_frequency_hz=HERTZ, samples=4, **STACK)
    assert turned.recharge_cycles.values.tolist() == draw()


def test_quantiles_are_those_of_what_is_uncertain():
    # decode waits for DRAM alone: TPS is in proportion to its clock
    ds = ss.sample(memory_frequency_hz=stats.uniform(3e8, 2e8), connected_layers=[4, 8], samples=1000, **STACK)
    at = ss.sweep(memory_frequency_hz=[3.2e8, 4e8, 4.8e8], connected_layers=[4, 8], **STACK)
    found = ds.tps.quantile([0.1, 0.5, 0.9], "sample")
    np.testing.assert_allclose(found, at.tps, rtol=1e-3)


def test_draws_that_cannot_be_are_masked():
    ds = ss.sample(static_power_w=stats.uniform(1, 100), layers=12, samples=200, **STACK)
    assert 0 < ds.valid.sum() < 200
    assert ds.ttft.isnull().equals(~ds.valid)
    assert ds.ttft.quantile(0.5, "sample").item() == np.median(ds.ttft.values[ds.valid.values])


def test_points_and_single_precision(tmp_path):
    table = pd.DataFrame({"layers": [8, 12], "connected_layers": [8, 6]})
    ds = ss.sample(points=table, memory_frequency_hz=HERTZ, samples=3, dtype="float32", **STACK)
    assert dict(ds.sizes) == {"point": 2, "sample": 3}
    assert ds.tps.dtype == np.float32
    for name in ("drawn.nc", "drawn.zarr"):
        ss.save(ds, tmp_path / name)
        with xr.open_dataset(tmp_path / name) as opened:
            xr.testing.assert_identical(opened.load(), ds)


def test_attributes_say_where_draws_come_from():
    seen = []
    ds = ss.sample(
        memory_frequency_hz=stats.norm(np.float64(4e8), scale=2e7),
        recharge_cycles=RECHARGE,
        samples=2,
        seed=7,
        progress=lambda done, total: seen.append((done, total)),
        **STACK,
    )
    assert seen == [(2, 2)]
    assert json.loads(ds.attrs["sample"]) == {
        "samples": 2,
        "method": "latin-hypercube",
        "seed": 7,
        "distributions": {
            "memory_frequency_hz": "norm(400000000.0, scale=20000000.0)",
            "recharge_cycles": "triang(0.5, 20, 40)",
        },
    }
    assert json.loads(ds.attrs["call"])["memory_frequency_hz"]["dims"] == ["sample"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"memory_frequency_hz": 4e8},
            "sample: got no distribution, needs at least one frozen distribution of scipy.stats",
        ),
        (
            {"memory_frequency_hz": stats.norm},
            "memory_frequency_hz: the distribution is not frozen; give it its numbers, as in norm(400e6, 20e6)",
        ),
        (
            {"memory_frequency_hz": stats.norm([4e8, 5e8], 1)},
            "memory_frequency_hz: the distribution has arrays of numbers, and describes several; give it one each",
        ),
        (
            {"recharge_cycles": stats.uniform(-10, 1)},
            "recharge_cycles: got -9.",
        ),
        (
            {"batch_size": stats.norm(100, 1)},
            "batch_size: got ",
        ),
        (
            {"tp": stats.randint(1, 9)},
            'tp: got a distribution, needs a whole number of at least 1 and at most 1.04858e+06, or "fill"',
        ),
        ({"overlap": HERTZ}, "overlap: got a distribution, needs one of stage-roofline, op-roofline, serial"),
        ({"memory_hertz": HERTZ}, "memory_hertz: no such parameter; did you mean memory"),
        ({"samples": 0}, "samples: got 0, needs a whole number of at least 1 and at most 16,777,216"),
        ({"samples": 2.0}, "samples: got 2.0, needs a whole number of at least 1 and at most 16,777,216"),
        ({"samples": 10**9}, "samples: got 1000000000, needs a whole number of at least 1 and at most 16,777,216"),
        ({"seed": -1}, "seed: got -1, needs a whole number of at least 0"),
        ({"seed": None}, "seed: got None, needs a whole number of at least 0"),
        ({"method": "random"}, "method: got 'random', needs one of latin-hypercube, sobol"),
        ({"method": "sobol", "samples": 100}, "samples: got 100, and Sobol points need a power of two"),
    ],
)
def test_errors(change: dict[str, Any], message: str):
    with pytest.raises(ss.ParameterError) as caught:
        ss.sample(**STACK | {"memory_frequency_hz": HERTZ} | change)
    assert str(caught.value).startswith(message)


def test_draws_outside_the_limits_are_named_with_their_distribution():
    with pytest.raises(ss.ParameterError) as caught:
        ss.sample(batch_size=stats.randint(-9, 0), samples=2, **STACK)
    assert str(caught.value).endswith(
        "needs a whole number of at least 1 and at most 1e+09, in every draw of its distribution randint(-9, 0)"
    )


def test_examples_of_the_docstring():
    tried = doctest.testmod(draws)
    assert (tried.failed, tried.attempted) == (0, 5)
