"""`stacksweep best` and `stacksweep pareto` against the functions of the same names."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import xarray as xr
from typer.testing import CliRunner

import stacksweep as ss
from stacksweep import cli_analysis
from stacksweep.cli import app


@pytest.fixture(scope="module")
def ds() -> xr.Dataset:
    made = ss.sweep(
        model=["llama-3.1-8b", "qwen3-8b"],
        memory="fictional_stacked_dram",
        noc="gpu_node_8",
        layers=[4, 16],
        tp=[1, 4, 8],
        pp=[1, 2],
        dp="fill",
        batch_size=[1, 8],
        outputs=["main", "bottleneck"],
    )
    return made.assign(ss.bottleneck(made))


@pytest.fixture(scope="module")
def files(ds: xr.Dataset, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("files")
    paths = {kind: folder / f"sweep.{kind}" for kind in ("nc", "zarr")}
    for path in paths.values():
        ss.save(ds, path)
    return {kind: str(path) for kind, path in paths.items()}


def run(*words: str) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(*words: str) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert done.stdout == ""
    return done.stderr.strip()


@pytest.mark.parametrize("kind", ["nc", "zarr"])
def test_best_as_json(ds: xr.Dataset, files: dict[str, str], kind: str):
    words = (
        "best",
        files[kind],
        "tps",
        "--over",
        "tp,pp",
        "--where",
        "fits and ttft < 0.05",
        "--show",
        "ttft,decode_bound",
    )
    said = json.loads(run(*words, "--json"))
    assert {name: said[name] for name in ("file", "objective", "over", "where")} == {
        "file": files[kind],
        "objective": "tps",
        "over": ["tp", "pp"],
        "where": ["fits and ttft < 0.05"],
    }
    found = ss.best(ds, "tps", over=["tp", "pp"], where=ds.fits & (ds.ttft < 0.05))
    names = ds.decode_bound.attrs["flag_meanings"].split()
    flat = found.stack(case=("model", "layers", "batch_size"), create_index=False)
    assert 0 < flat.feasible.sum() < flat.feasible.size
    for point, at in zip(said["points"], range(8), strict=True):
        one = flat.isel(case=at)
        feasible = bool(one.feasible)
        here = {name: one[name].item() for name in ("model", "layers", "batch_size")}
        there = {name: one[name].item() for name in ("tp", "pp", "dp", "tps", "ttft", "fits")}
        there["decode_bound"] = names[one.decode_bound.item()]
        assert point == here | (there if feasible else dict.fromkeys(there)) | {"feasible": feasible}


def test_best_as_table(files: dict[str, str]):
    text = run(
        "best", files["nc"], "tps", "--where", "fits", "--over", "tp,pp,batch_size,model", "--show", "prefill_bound"
    )
    lines = text.splitlines()
    assert " ".join(lines[0].split()) == "layers model tp pp batch_size dp tps (s-1) prefill_bound fits"
    assert [line.split()[:5] for line in lines[2:]] == [
        ["4", "llama-3.1-8b", "8", "1", "8"],
        ["16", "llama-3.1-8b", "8", "1", "8"],
    ]
    assert lines[-1].split()[-2:] == ["thermal_clock", "yes"]


def test_table_says_what_it_leaves_out(ds: xr.Dataset, files: dict[str, str]):
    text = run("best", files["nc"], "ttft", "--over", "tp", "--where", "ttft < 0.05", "--rows", "3")
    lines = text.splitlines()
    assert len(lines) == 8
    one = ds.sel(model="llama-3.1-8b", layers=4, tp=8, pp=1, batch_size=1)
    assert lines[2].split() == ["llama-3.1-8b", "4", "1", "1", "8", "1", f"{one.ttft.item():.6g}", "yes"]
    assert lines[3].split() == ["llama-3.1-8b", "4", "1", "8", "-", "-", "-", "-"]
    assert lines[5] == "… 13 more rows; see --rows and --json"
    assert lines[6] == ""
    whole = run("best", files["nc"], "ttft", "--over", "tp", "--where", "ttft < 0.05")
    assert len(whole.splitlines()) == 2 + 16 + 2
    assert whole.splitlines()[-1] == "no point meets the conditions in 10 of 16 cases"


def test_direction(ds: xr.Dataset, files: dict[str, str]):
    for option, wanted in (("--maximize", ds.ttft.max()), ("--minimize", ds.ttft.min())):
        (point,) = json.loads(run("best", files["nc"], "ttft", option, "--json"))["points"]
        assert point["ttft"] == wanted.item()


@pytest.mark.parametrize("kind", ["nc", "zarr"])
def test_pareto(ds: xr.Dataset, files: dict[str, str], kind: str):
    words = ("pareto", files[kind], "--minimize", "ttft, kv_bytes", "--maximize", "tps", "--where", "fits")
    said = json.loads(run(*words, "--where", "model == qwen3-8b", "--json"))
    front = ss.pareto(ds, minimize=["ttft", "kv_bytes"], maximize="tps", where=ds.fits & (ds.model == "qwen3-8b"))
    names = ["model", "layers", "tp", "pp", "batch_size", "dp", "ttft", "kv_bytes", "tps", "fits"]
    frame: Any = front[["ttft", "kv_bytes", "tps", "fits"]].to_dataframe()[names]
    assert said["points"] == frame.to_dict("records")
    assert len(said["points"]) > 3
    assert (said["minimize"], said["maximize"]) == (["ttft", "kv_bytes"], ["tps"])
    assert said["where"] == ["fits", "model == qwen3-8b"]
    lines = run(*words, "--rows", "2").splitlines()
    heading = "model layers tp pp batch_size dp ttft (s) kv_bytes (byte) tps (s-1) fits"
    assert " ".join(lines[0].split()) == heading
    everything = ss.pareto(ds, minimize=["ttft", "kv_bytes"], maximize="tps", where=ds.fits)
    assert lines[-1] == f"{everything.sizes['point']} of 48 points are on the front"


def test_large_files_are_read_by_chunks(files: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    best = ("best", files["nc"], "tps", "--over", "tp,pp", "--where", "fits", "--show", "ttft", "--json")
    pareto = ("pareto", files["nc"], "--minimize", "ttft", "--maximize", "tps", "--where", "fits", "--json")
    whole = [run(*words) for words in (best, pareto)]
    monkeypatch.setattr(cli_analysis, "EAGER", 0)
    seen = []
    original = ss.best
    monkeypatch.setattr(ss, "best", lambda ds, *rest: seen.append(ds.tps.chunks) or original(ds, *rest))
    assert [run(*words) for words in (best, pareto)] == whole
    assert seen[0] is not None


def test_points_and_other_datasets(tmp_path: Path):
    table = pd.DataFrame({"layers": [4, 12, 8], "batch_size": [1, 2, 4]})
    ss.save(
        ss.sweep(model="llama-3.1-8b", memory="fictional_stacked_dram", points=table, outputs=["ttft", "tps"]),
        tmp_path / "points.nc",
    )
    (point,) = json.loads(run("best", str(tmp_path / "points.nc"), "ttft", "--json"))["points"]
    assert {name: point[name] for name in ("point", "layers", "batch_size")} == {
        "point": 1,
        "layers": 12,
        "batch_size": 2,
    }
    front = json.loads(
        run("pareto", str(tmp_path / "points.nc"), "--minimize", "layers", "--maximize", "tps", "--json")
    )
    assert [point["point"] for point in front["points"]] == [0, 2]
    other = xr.Dataset({"y": (("a", "b"), [[3.0, 1.0], [2.0, float("nan")]])}, {"b": ["p", "q"]})
    other.to_netcdf(tmp_path / "other.nc")
    said = json.loads(run("best", str(tmp_path / "other.nc"), "y", "--minimize", "--over", "b", "--json"))
    assert said["points"] == [
        {"a": 0, "b": "q", "y": 1.0, "feasible": True},
        {"a": 1, "b": "p", "y": 2.0, "feasible": True},
    ]
    (point,) = json.loads(run("best", str(tmp_path / "other.nc"), "y", "--minimize", "--json"))["points"]
    assert point == {"a": 0, "b": "q", "y": 1.0, "feasible": True}
    assert run("pareto", str(tmp_path / "other.nc"), "--maximize", "y").splitlines()[2].split() == ["0", "p", "3"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("best", "FILE", "tpz"), "error: objective: the file has no variable 'tpz'; did you mean tp or tps?"),
        (("best", "FILE", "fits"), "error: maximize: must be true or false, since more of 'fits' may be good or bad"),
        (("best", "FILE", "model"), "error: objective: 'model' holds "),
        (("best", "FILE", "tps", "--over", "tpp"), "error: over: ds has no dimension 'tpp'; did you mean tp or pp?"),
        (
            ("best", "FILE", "tps", "--over", ","),
            "error: over: got no dimension, needs at least one of ds, or None for all",
        ),
        (
            ("best", "FILE", "tps", "--show", "ttfft"),
            "error: show: the file has no variable 'ttfft'; did you mean ttft?",
        ),
        (
            ("best", "FILE", "tps", "--show", "prefill_collective_time"),
            "error: show: 'prefill_collective_time' varies along 'collective', which is no dimension of the points",
        ),
        (("best", "FILE", "tps", "--where", "ttft"), "error: where: 'ttft': 'ttft' is not true or false; compare it"),
        (("pareto", "FILE"), "error: minimize, maximize: got no objective, need the name of a variable of ds"),
        (
            ("pareto", "FILE", "--minimize", "tfft"),
            "error: minimize: the file has no variable 'tfft'; did you mean ttft",
        ),
        (("best", "missing.nc", "tps"), "error: "),
        (("best", "FOLDER", "tps"), "error: FOLDER: is a folder and no Zarr store"),
        (("best", "TEXT", "tps"), "error: TEXT: NetCDF: Unknown file format"),
        (("pareto", "DAMAGED.zarr", "--minimize", "ttft"), "error: DAMAGED.zarr: "),
    ],
)
def test_errors(files: dict[str, str], tmp_path: Path, words: tuple[str, ...], message: str):
    (tmp_path / "text.nc").write_text("no NetCDF")
    damaged = tmp_path / "damaged.zarr"
    damaged.mkdir()
    (damaged / ".zgroup").write_text("{")
    places = {
        "FILE": files["nc"],
        "FOLDER": str(tmp_path),
        "TEXT": str(tmp_path / "text.nc"),
        "DAMAGED.zarr": str(damaged),
    }
    said = refused(*(places.get(word, word) for word in words))
    for word, place in places.items():
        message = message.replace(word, place)
    assert said.startswith(message)
    assert "\n" not in said


def test_help_says_what_the_options_are():
    text = run("best", "--help")
    for option in ("--over", "--where", "--maximize", "--minimize", "--show", "--rows", "--json"):
        assert option in text
