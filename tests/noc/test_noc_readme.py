"""The code and the figures of DeepStack/README.md."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import deepstack_noc as dn

PACKAGE = Path(dn.__file__).resolve().parents[1]
README = Path(__file__).resolve().parents[2] / "DeepStack" / "README.md"
TEXT = README.read_text("utf-8")


def run(code, directory):
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "MPLBACKEND": "Agg", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=directory, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_prices_and_plots(tmp_path):
    pytest.importorskip("matplotlib")
    (code,) = re.findall(r'```sh\npython -c "\n(.*?)"\n```', TEXT, re.DOTALL)
    assert "$" not in code  # nothing that a shell would change
    assert "`" not in code
    printed = run(code, tmp_path)
    assert printed.startswith("(3, 200) [")
    assert "rabenseifner" in printed
    assert (tmp_path / "all_reduce.png").stat().st_size > 10_000


def test_the_api_by_example(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    printed = run(code, tmp_path)
    assert "torus_mesh_switch_64: 64 devices" in printed
    assert "Bottleneck(level=" in printed
    assert "[(0, 0, 3), (0, 0, 'C')" in printed


def test_figures():
    layout = dn.load_noc("torus_mesh_switch_64").to_dict()
    layout["layers"]["L3"]["shape"] = [4, 4]
    description = dn.describe(layout)
    assert f"{description.uncharged_share_l3:.1%}".replace("%", " %") in TEXT
    assert f"{description.uncharged_share:.1%}".replace("%", " %") in TEXT
    for sizes, dim in (({"tp": 16, "dp": 16}, "dp"), ({"tp": 4, "dp": 64}, "dp")):
        costs = [dn.all_reduce(layout, sizes, dim, 2**20, model) for model in dn.LINK_MODELS]
        cells = [f"{cost.time * 1e6:.1f} µs, {cost.algorithm}" for cost in costs]
        sizes_cell = ", ".join(f"{name} {size}" for name, size in sizes.items())
        assert f"| {sizes_cell} | {' | '.join(cells)} |" in TEXT.replace("Rabenseifner", "rabenseifner")
    exchanges = [dn.all_to_all(layout, {"ep": 256}, "ep", 2**20, model).time for model in dn.LINK_MODELS]
    assert [f"{time * 1e3:.1f}" for time in exchanges] == ["128.9", "128.9"]
    energies = [dn.all_reduce("ring_switch_32", {"tp": 32}, "tp", 2**24, model).energy for model in dn.LINK_MODELS]
    assert [f"{energy * 1e-9:.1f}" for energy in energies] == ["35.4", "18.7"]
    assert "35.4 mJ and 18.7 mJ" in TEXT


@pytest.mark.parametrize("module", [dn.api, dn.report])
def test_examples_of_docstrings(module):
    failed, tried = doctest.testmod(module)
    assert failed == 0
    assert tried > 0
