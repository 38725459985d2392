"""`stacksweep plot` and `stacksweep explore`: what they write, and every message."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
from typer.testing import CliRunner

import stacksweep as ss
from stacksweep import explorer
from stacksweep.cli import app

mpl.use("Agg")
SIGNATURES = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sweep") / "sweep.nc"
    ds = ss.sweep(
        model="llama-3.1-8b",
        memory="fictional_stacked_dram",
        layers=[8, 16],
        connected_layers=[4, 8],
        batch_size=[8, 64],
        outputs="all",
    )
    ss.save(ds, path)
    return path


def run(*words: Any) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (".png", "--kind lines --x batch_size --y tps --hue layers --sel connected_layers=8 --where fits"),
        (".svg", "--kind heatmap --x batch_size --y layers --value ttft --sel connected_layers=4"),
        (".pdf", "--kind pareto --x ttft --y tps"),
        (".png", "--kind time-split --x batch_size --sel layers=16 --sel connected_layers=8 --phase prefill --share"),
    ],
)
def test_pictures_are_written(file: Path, tmp_path: Path, ending: str, words: str) -> None:
    output = tmp_path / f"picture{ending}"
    result = run("plot", file, *words.split(), "-o", output)
    assert (result.exit_code, result.stderr) == (0, "")
    assert output.read_bytes().startswith(SIGNATURES[ending])
    assert [one.name for one in tmp_path.iterdir()] == [output.name]


def test_options_reach_the_picture(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stacksweep import plot

    seen: dict[str, Any] = {}
    monkeypatch.setattr(plot, "lines", lambda ds, **options: seen.update(options))
    words = "--kind lines --x batch_size --y ttft --objective tps --maximize --sel layers=8,16 --where ttft<1"
    assert run("plot", file, *words.split(), "-o", tmp_path / "a.png").exit_code == 0
    where = seen.pop("where")
    assert where.dtype == bool
    seen.pop("ax")
    assert seen == {"x": "batch_size", "y": "ttft", "objective": "tps", "maximize": True, "sel": {"layers": [8, 16]}}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--kind lines --x batch_size -o a.png", "error: y: is missing, lines needs --x, --y"),
        ("--kind heatmap --x layers --y tps -o a.png", "error: value: is missing, heatmap needs --x, --y, --value"),
        ("--kind pareto --x ttft --y tps --value tps -o a.png", "error: value: pareto does not take it, but x, y, hue"),
        ("--kind lines --x batch_size --y tps --sel layers -o a.png", "error: sel: got 'layers', needs DIM=LABEL"),
        ("--kind lines --x batch_size --y tps --sel layer=8 -o a.png", "error: sel: the file has no dimension 'layer'"),
        ("--kind lines --x batch_size --y tps --sel layers=a -o a.png", "error: sel: layers has numbers, got 'a'"),
        ("--kind lines --x batch_size --y tps --sel layers=9 -o a.png", "error: sel: layers has no label 9; there are"),
        ("--kind lines --x batch_size --y tp5 -o a.png", "error: y: ds has no variable 'tp5'; did you mean"),
        ("--kind lines --x batch_size --y tps -o a.gif", "error: output: got 'a.gif', needs a file that ends in .png"),
        (
            "--kind lines --x batch_size --y tps -o none/a.png",
            "error: output: got 'none/a.png', and there is no folder",
        ),
    ],
)
def test_each_wrong_option_has_one_line(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("plot", file, *words.split())
    assert result.exit_code == 2
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_explore_writes_a_page(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "_plotly", lambda: "")
    page = tmp_path / "page.html"
    result = run("explore", file, "-o", page, "--title", "Stacks", "--most", 3)
    assert result.exit_code == 0
    assert "<title>Stacks</title>" in page.read_text()
    again = run("explore", file, "-o", page)
    assert (again.exit_code, again.stderr) == (
        2,
        f"error: output: {str(page)!r} exists; choose another name, or replace it with --overwrite\n",
    )
    assert run("explore", file, "-o", page, "--overwrite").exit_code == 0
    assert "<title>llama-3.1-8b" in page.read_text()
    assert run("explore", tmp_path / "none.nc", "-o", tmp_path / "b.html").stderr.endswith(
        "No such file or directory\n"
    )
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]
