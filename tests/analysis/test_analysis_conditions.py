"""Conditions in words."""

import numpy as np
import pytest
import xarray as xr

import stacksweep as ss
from stacksweep.analysis.conditions import condition


@pytest.fixture(scope="module")
def ds() -> xr.Dataset:
    return xr.Dataset(
        {
            "ttft": (("model", "layers"), [[0.5, 1.0, 2.0], [np.nan, 3.0, 1e-3]]),
            "fits": (("model", "layers"), [[True, False, True], [True, True, False]]),
            "bound": (
                ("model", "layers"),
                np.array([[0, 1, 2], [2, 1, 0]], "i1"),
                {"flag_values": np.arange(3, dtype="i1"), "flag_meanings": "invalid compute dram_bandwidth"},
            ),
        },
        {"model": np.array(["llama-3.1-8b", "qwen3-8b"], object), "layers": [4, 8, 12]},
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ttft < 1", [[1, 0, 0], [0, 0, 1]]),
        ("ttft<=1e0", [[1, 1, 0], [0, 0, 1]]),
        (" ttft > 1 ", [[0, 0, 1], [0, 1, 0]]),
        ("ttft >= -1", [[1, 1, 1], [0, 1, 1]]),
        ("ttft == 2", [[0, 0, 1], [0, 0, 0]]),
        ("ttft < inf", [[1, 1, 1], [0, 1, 1]]),
        ("fits", [[1, 0, 1], [1, 1, 0]]),
        ("not fits", [[0, 1, 0], [0, 0, 1]]),
        ("not  fits", [[0, 1, 0], [0, 0, 1]]),
        ("fits == false", [[0, 1, 0], [0, 0, 1]]),
        ("fits != False", [[1, 0, 1], [1, 1, 0]]),
        ("bound == compute", [[0, 1, 0], [0, 1, 0]]),
        ("bound != dram_bandwidth", [[1, 1, 0], [0, 1, 1]]),
        ("bound >= 1", [[0, 1, 1], [1, 1, 0]]),
        ("fits and ttft < 2.5 and bound != invalid", [[0, 0, 1], [0, 0, 0]]),
    ],
)
def test_conditions(ds: xr.Dataset, text: str, wanted: list[list[int]]):
    found = condition(ds, text)
    assert found.dims == ("model", "layers")
    assert found.dtype == np.bool_
    assert found.values.astype(int).tolist() == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("model == llama-3.1-8b", [True, False]),
        ("model != 'llama-3.1-8b'", [False, True]),
        ('model=="qwen3-8b"', [False, True]),
    ],
)
def test_words_of_coordinates(ds: xr.Dataset, text: str, wanted: list[bool]):
    assert condition(ds, text).values.tolist() == wanted


def test_dimensions_stay_apart(ds: xr.Dataset):
    assert condition(ds, "layers > 4").dims == ("layers",)
    assert condition(ds, "layers > 4 and model == qwen3-8b").dims == ("layers", "model")
    lazy = condition(ds.chunk(layers=1), "fits and ttft < 1")
    assert lazy.chunks is not None
    np.testing.assert_array_equal(lazy, condition(ds, "fits and ttft < 1"))


EXPECTED = "needs NAME, not NAME, or NAME with one of <, <=, >, >=, ==, != and a number or word; several with and"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"where: got '', {EXPECTED}"),
        ("ttft = 1", f"where: got 'ttft = 1', {EXPECTED}"),
        ("ttft =< 1", f"where: got 'ttft =< 1', {EXPECTED}"),
        ("1 > ttft", f"where: got '1 > ttft', {EXPECTED}"),
        ("not ttft < 1", f"where: got 'not ttft < 1', {EXPECTED}"),
        ("fits and ", f"where: got '', {EXPECTED}"),
        ("fits or ttft < 1", f"where: got 'fits or ttft < 1', {EXPECTED}"),
        ("ttft.values", f"where: got 'ttft.values', {EXPECTED}"),
        ("__import__('os').getcwd()", f"where: got \"__import__('os').getcwd()\", {EXPECTED}"),
        ("tft < 1", "where: 'tft < 1': there is no variable 'tft'; did you mean ttft?"),
        ("ttft", "where: 'ttft': 'ttft' is not true or false; compare it with a value"),
        ("not ttft", "where: 'not ttft': 'ttft' is not true or false; compare it with a value"),
        ("ttft <", "where: 'ttft <': 'ttft' cannot be compared with '', needs a number"),
        ("ttft < nan", "where: 'ttft < nan': 'ttft' cannot be compared with 'nan', needs a number"),
        ("ttft < 1 s", "where: 'ttft < 1 s': 'ttft' cannot be compared with '1 s', needs a number"),
        ("ttft < layers", "where: 'ttft < layers': 'ttft' cannot be compared with 'layers', needs a number"),
        ("fits == 2", "where: 'fits == 2': 'fits' needs true or false"),
        ("fits > false", "where: 'fits > false': 'fits' has no order; compare it with == or !="),
        ("model > qwen3-8b", "where: 'model > qwen3-8b': 'model' has no order; compare it with == or !="),
        ("model == qwen3", "where: 'model == qwen3': 'model' is never 'qwen3'; did you mean qwen3-8b?"),
        ("bound < compute", "where: 'bound < compute': 'bound' has no order; compare it with == or !="),
        (
            "bound == comput",
            "where: 'bound == comput': 'bound' cannot be compared with 'comput', needs a meaning of it; did you mean "
            "compute?",
        ),
    ],
)
def test_errors(ds: xr.Dataset, text: str, message: str):
    with pytest.raises(ss.ParameterError) as caught:
        condition(ds, text)
    assert str(caught.value).startswith(message)
