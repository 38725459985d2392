"""The pages show what happens: their Python prints what they say, and their commands are those of CI."""

import math
import re
import runpy
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stacksweep.cli import app
from stacksweep.spec import read_spec

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = runpy.run_path(str(ROOT / "docs" / "pages.py"))

BASH = re.compile(r"^```bash\n(.*?)\n```", re.MULTILINE | re.DOTALL)

SWEEP = (
    "python3 -m venv .venv && .venv/bin/pip install -q . && "
    ".venv/bin/stacksweep sweep docs/examples/million.toml -o sweep.nc --overwrite"
)
INSTALL = 'python3 -m venv .venv && .venv/bin/pip install -q ".[plot]"'
TESTS = 'python3 -m venv .venv && .venv/bin/pip install -q -e ".[dev]" && .venv/bin/pytest'


@pytest.mark.parametrize("page", [README, *PAGES["pages"]()], ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_print_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    for block in PAGES["run"](page, tmp_path):
        assert block.agree or block.shown == block.expected, block.code
    for figure in tmp_path.glob("*.png"):
        assert figure.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert (ROOT / "docs" / "figures" / figure.name).is_file(), "run python docs/build.py"


def test_every_block_of_python_is_found():
    for page in (README, *PAGES["pages"]()):
        text = page.read_text(encoding="utf-8")
        assert sum(block["language"] == "python" for block in PAGES["FENCE"].finditer(text)) == text.count("```python")


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("```sh\nls\n```", "line 3: a block of 'sh' does not run"),
        ("```console\n$ ls\n```", "'ls' calls neither stacksweep nor an example"),
    ],
)
def test_a_block_that_cannot_run_is_an_error(block, message, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n{block}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        PAGES["run"](page, tmp_path)


def test_numbers_in_the_words_of_the_tutorial_are_those_of_its_blocks():
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    number = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\d]*\w)")
    shown = [float(one.replace(",", "")) for block in PAGES["FENCE"].findall(text) for one in number.findall(block[2])]
    words = re.sub(r"`[^`]*`", "", PAGES["FENCE"].sub("", text))
    for one in number.findall(words):
        digits = len(one.partition(".")[2])
        value = float(one.replace(",", ""))
        assert any(round(of, digits) == value for known in shown for of in (known, known * 1e3)), one


def test_only_known_commands_are_not_run():
    commands = {page.name: BASH.findall(page.read_text(encoding="utf-8")) for page in (README, *PAGES["pages"]())}
    assert {name: found for name, found in commands.items() if found} == {
        "README.md": [SWEEP, TESTS],
        "tutorial.md": [INSTALL],
    }


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
