"""The pages show what happens: their Python prints what they say, and their commands are those of CI."""

import math
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stacksweep.cli import app
from stacksweep.spec import read_spec

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]

BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:^```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
"""A block of Python, and what it prints where a block of text follows at once."""

SWEEP = (
    "python3 -m venv .venv && .venv/bin/pip install -q . && "
    ".venv/bin/stacksweep sweep docs/examples/million.toml -o sweep.nc --overwrite"
)
TESTS = 'python3 -m venv .venv && .venv/bin/pip install -q -e ".[dev]" && .venv/bin/pytest'


def lines(text):
    return [line.rstrip() for line in text.splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_prints_what_the_page_says(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    assert len(blocks) == text.count("```python")
    namespace = {}
    for code, expected in blocks:
        exec(compile(code, page.name, "exec"), namespace)
        assert lines(capsys.readouterr().out) == lines(expected)


def test_readme_has_both_commands():
    commands = re.findall(r"^```bash\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert commands == [f"{SWEEP}\n", f"{TESTS}\n"]


def test_commands_come_before_everything_else():
    first_screen = README.read_text(encoding="utf-8").splitlines()[:20]
    assert {SWEEP, TESTS} <= set(first_screen)


def test_ci_runs_the_readme_command():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (pattern,) = re.findall(r"grep '(.*)' README\.md", script)
    assert re.findall(pattern, README.read_text(encoding="utf-8"), re.MULTILINE) == [TESTS]
    assert script.splitlines()[-1] == 'bash -c "$tests"'


def test_summary_of_the_sweep(tmp_path):
    spec = ROOT / "docs" / "examples" / "million.toml"
    axes = [value for value in read_spec(spec).parameters.values() if not isinstance(value, str | int | float)]
    assert math.prod(map(len, axes)) >= 1_000_000
    done = CliRunner().invoke(app, ["sweep", str(spec), "-o", str(tmp_path / "sweep.nc")])
    assert done.exit_code == 0
    shown = README.read_text(encoding="utf-8").split("ends with a summary:\n\n```text\n")[1].split("```")[0]
    assert shown in done.output


def test_speed_is_that_of_the_results_page():
    shown = README.read_text(encoding="utf-8").split("<!-- speed: begin -->")[1].split("<!-- speed: end -->")[0]
    assert shown.count("\n| ") >= 10
    assert shown.strip() in (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
