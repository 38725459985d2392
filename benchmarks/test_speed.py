"""
The main cases for pytest-benchmark, to compare two versions of the code.

pytest benchmarks -n 0 --benchmark-enable --benchmark-autosave, then pytest-benchmark compare
"""

from typing import Any

import pytest

import stacksweep as ss
from cases import GRID_POINTS, grid, unordered

CASES = {
    "grid": grid(GRID_POINTS),
    "unordered": unordered(GRID_POINTS),
    "long decode": grid(GRID_POINTS, outputs="tps", output_seq_len=100_000),
    "one point": {**grid(10**4), "layers": 12, "connected_layers": 4, "batch_size": 16, "input_seq_len": 2048},
}


@pytest.mark.parametrize("case", CASES)
def test_sweep(benchmark: Any, case: str) -> None:
    result = benchmark(ss.sweep, **CASES[case])
    assert result.valid.all()
