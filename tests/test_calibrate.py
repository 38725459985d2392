"""Calibration: known parameters come back, held-out groups are not seen, wrong input is named, files are whole."""

import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure
from typer.testing import CliRunner

import stacksweep as ss
from stacksweep import cli
from stacksweep.profiles import RooflineChip

ROOT = Path(__file__).parents[1]
WIDTHS = dict.fromkeys(("weight_bytes", "kv_read_bytes", "kv_write_bytes", "activation_bytes"), 2.0)
TRUE = {
    "memory_efficiency": 0.71,
    "compute_efficiency": 0.43,
    "layer_overhead": 2.3e-5,
    "l1_bandwidth": 1.9e11,
    "l1_latency": 4.1e-6,
}
SYSTEM: dict[str, Any] = {"memory": "h100_sxm", "noc": "gpu_node_8", "include_lm_head": True}


def measured(noise: float, targets: tuple[str, ...] = ("tps",), seed: int = 0) -> pd.DataFrame:
    """60 measurements of three models, made by the model itself."""
    names = ["llama-3.1-8b", "llama-3.1-70b", "qwen3-32b"]
    rows = [(name, 2**n, tp) for name in names for n in range(10) for tp in (8, 4)]
    table = pd.DataFrame(rows, columns=["model", "batch_size", "tp"])
    table["dp"] = 8 // table.tp
    random = np.random.default_rng(seed)
    ds = ss.sweep(points=table, chip="h100_sxm", **SYSTEM, **TRUE, outputs=list(targets))
    for name in targets:
        table[name] = ds[name].values * np.exp(noise * random.normal(size=len(table)))
    return table


@pytest.fixture(scope="module")
def found() -> ss.Calibration:
    return ss.calibrate(measured(0.05), chip="h100_sxm", **SYSTEM)


def test_parameters_come_back_without_noise():
    exact = ss.calibrate(measured(0.0), chip="h100_sxm", group=None, **SYSTEM)
    for name, value in TRUE.items():
        assert exact.parameters[name] == pytest.approx(value, rel=1e-4), name
    assert exact.mean_error < 1e-5
    assert exact.group is None
    assert np.isnan(exact.held_out_error)
    assert "held_out_tps" not in exact.rows
    assert exact.group_errors().empty


def test_parameters_come_back_within_their_standard_errors():
    """Of four sets of measurements with 5 % noise."""
    off = []
    for seed in range(1, 5):
        got = ss.calibrate(measured(0.05, seed=seed), chip="h100_sxm", group=None, **SYSTEM)
        assert list(got.parameters) == list(TRUE)
        for name, value in got.parameters.items():
            off.append(abs(np.log(value / TRUE[name])) / (got.standard_errors[name] / value))
        assert got.standard_errors["memory_efficiency"] < 0.15 * TRUE["memory_efficiency"]
    # as often within one as a normal distribution has it, give or take
    assert 0.5 < np.mean(np.array(off) < 1) < 0.85
    assert max(off) < 3


def test_errors_are_those_of_the_rows(found: ss.Calibration):
    rows = found.rows
    np.testing.assert_allclose(rows.error_tps, rows.predicted_tps / rows.tps - 1, rtol=1e-12)
    assert found.mean_error == pytest.approx(rows.error_tps.abs().mean())
    assert 0.03 < found.mean_error < 0.05
    assert found.mean_error < found.held_out_error < 0.1
    groups = found.group_errors()
    assert groups.index.tolist() == ["llama-3.1-8b", "llama-3.1-70b", "qwen3-32b"]
    mine = rows[rows.model == "qwen3-32b"]
    assert groups.loc["qwen3-32b", "held_out_error"] == pytest.approx(mine.held_out_error_tps.abs().mean())


def test_fitted_profiles_predict_what_the_report_says(found: ss.Calibration):
    assert isinstance(found.chip, RooflineChip)
    assert found.chip.name == "h100_sxm-fitted"
    assert found.chip.memory_efficiency == found.parameters["memory_efficiency"]
    assert "fitted to 60 measurements of tps" in found.chip.provenance.notes["fitted"]
    assert "description" not in found.chip.provenance.notes
    assert found.noc.levels[2].bandwidth == pytest.approx(found.parameters["l1_bandwidth"])
    points = found.rows[["model", "batch_size", "tp", "dp"]]
    ds = ss.sweep(points=points, **SYSTEM | {"chip": found.chip, "noc": found.noc}, outputs=["tps"])
    np.testing.assert_allclose(ds.tps, found.rows.predicted_tps, rtol=1e-9)


def test_a_held_out_group_is_not_seen():
    """Its measurements change nothing in its own predictions."""
    table = measured(0.05)
    call: dict[str, Any] = {"chip": "h100_sxm", **SYSTEM, "fit": ["memory_efficiency", "layer_overhead"]}
    wild = table.copy()
    last = (table.model == "qwen3-32b").to_numpy()
    wild.loc[last, "tps"] *= 3
    one, other = ss.calibrate(table, **call), ss.calibrate(wild, **call)
    np.testing.assert_allclose(one.rows.held_out_tps[last], other.rows.held_out_tps[last], rtol=1e-12)
    assert not np.allclose(one.rows.predicted_tps[last], other.rows.predicted_tps[last], rtol=1e-3)


def test_several_targets_of_a_dataset():
    table = measured(0.0, ("tps", "ttft"))
    table["system"] = np.where(table.tp == 8, "wide", "narrow")
    ds = xr.Dataset({name: ("case", table[name].to_numpy()) for name in table})
    got = ss.calibrate(ds, chip="h100_sxm", **SYSTEM, fit=list(TRUE), target=["tps", "ttft"], group="system")
    for name, value in TRUE.items():
        assert got.parameters[name] == pytest.approx(value, rel=1e-4), name
    assert got.group_errors().index.tolist() == ["wide", "narrow"]
    assert set(got.rows) >= {"predicted_tps", "error_ttft", "held_out_ttft", "held_out_error_tps"}


def test_what_data_do_not_determine():
    """A chip that is too fast ends at the limit of its efficiency; 16-bit operands never meet the peak of 8 bits."""
    table = pd.DataFrame({"batch_size": [1, 2, 4, 8], "tps": [1e7, 2e7, 4e7, 8e7]})
    call: dict[str, Any] = {"chip": "h100_sxm", "memory": "h100_sxm", "model": "llama-3.1-8b"}
    got = ss.calibrate(table, **call, fit=["memory_efficiency"])
    assert got.parameters["memory_efficiency"] == pytest.approx(1, rel=1e-6)
    assert np.isnan(got.standard_errors["memory_efficiency"])
    assert "at a limit" in str(got)
    table["tps"] = [150.0, 300.0, 600.0, 1150.0]
    got = ss.calibrate(table, **call, fit=["memory_efficiency", "peak_flops_8"])
    assert np.isinf(got.standard_errors["peak_flops_8"])
    assert "unknown" in str(got)
    assert 0 < got.standard_errors["memory_efficiency"] < 0.1


def test_report(found: ss.Calibration, tmp_path: Path):
    text = str(found)
    assert "memory_efficiency" in text
    assert "whose model the fit has not seen" in text
    told = found.to_dict()
    assert json.loads(json.dumps(told))["groups"].keys() == {"llama-3.1-8b", "llama-3.1-70b", "qwen3-32b"}
    assert len(told["rows"]) == 60
    figure = found.plot(tmp_path / "parity.png")
    assert isinstance(figure, Figure)
    assert len(figure.axes) == 2
    assert (tmp_path / "parity.png").stat().st_size > 10_000


DATA = pd.DataFrame({"batch_size": [1, 8, 64], "tps": [150.0, 1150.0, 7800.0]})


@pytest.mark.parametrize(
    ("data", "call", "words"),
    [
        (3, {}, "data: got int, needs a pandas.DataFrame or an xarray.Dataset"),
        (DATA[:0], {}, "data: has no rows"),
        (DATA.assign(batchsize=1), {}, "data: column 'batchsize' is no parameter, target or group; did you mean batch"),
        (DATA.assign(tps=[1, 2, np.nan]), {}, "data: tps of row 2 is nan, needs a number above 0"),
        (DATA.assign(tps=[1, 0.0, 2]), {}, "data: tps of row 1 is 0.0, needs a number above 0"),
        (DATA.assign(tps=["1", "fast", "2"]), {}, "data: tps of row 1 is 'fast', needs a number above 0"),
        (DATA.drop(columns="tps"), {}, "data: has no column 'tps', the target"),
        (DATA.assign(chip="h200"), {}, "chip: given both in data and as an argument; give it once"),
        (DATA, {"target": "fits"}, "target: got 'fits', needs a time or a rate"),
        (DATA, {"fit": []}, "fit: got none, needs at least one parameter"),
        (DATA, {"fit": ["batch_size"]}, "fit: got 'batch_size', needs a parameter that is a real number"),
        (DATA, {"fit": ["memory_eff"]}, "memory_eff: no such parameter; did you mean memory or memory_efficiency?"),
        (DATA, {"fit": ["l1_latency"]}, "l1_latency: is fitted, and no network is given; give noc too"),
        (DATA, {"fit": ["activation_cache"]}, "activation_cache: has no value above 0 to start from"),
        (DATA, {"fit": ["layer_overhead"], "layer_overhead": 1.0}, "layer_overhead: is given, and fitted too"),
        (DATA[:1], {"fit": ["layer_overhead", "pass_overhead"]}, "data: has 1 measurements, too few for 2 fitted"),
        (DATA, {"group": "vendor"}, "group: got 'vendor', and data has no such column"),
        (DATA, {"input_seq_len": [1, 2]}, "input_seq_len: got several values, and a calibration takes one"),
        (DATA.assign(tp=[1, 1, 2]), {"noc": "gpu_node_8"}, "data: row 0 cannot be: world_size: the plan does not use"),
        (DATA.assign(batch_size=[1, 2, -1]), {}, "batch_size: got -1, needs a whole number"),
        (DATA, {"chip": "plena"}, "memory_efficiency: has no value above 0 to start from"),
    ],
)
def test_what_cannot_be(data: Any, call: dict[str, Any], words: str):
    call = {"chip": "h100_sxm", "memory": "h100_sxm", "model": "llama-3.1-8b", "fit": ["memory_efficiency"]} | call
    with pytest.raises(ss.ParameterError) as caught:
        ss.calibrate(data, **call)
    assert str(caught.value).startswith(words)


def test_too_few_rows_without_a_group():
    data = DATA.assign(model=["llama-3.1-8b", "llama-3.1-8b", "qwen3-8b"])
    with pytest.raises(ss.ParameterError, match=r"^group: without one model there are fewer measurements than fitted"):
        ss.calibrate(
            data,
            chip="h100_sxm",
            memory="h100_sxm",
            fit=["memory_efficiency", "layer_overhead"],
        )


# --- the command -----------------------------------------------------------------------------------------------------


def command(*arguments: Any) -> Any:
    return CliRunner().invoke(cli.app, ["calibrate", *map(str, arguments)], prog_name="stacksweep")


POINT = ("--memory", "h100_sxm", "--model", "llama-3.1-8b", "--fit", "memory_efficiency")


def test_command(tmp_path: Path):
    table = tmp_path / "data.csv"
    measured(0.02).to_csv(table, index=False)
    chip, picture = tmp_path / "mine.toml", tmp_path / "parity.png"
    options = ("--memory", "h100_sxm", "--noc", "gpu_node_8", "--include-lm-head", "--overlap", "op-roofline")
    options += ("--fit", "memory_efficiency,l1_latency", "--layer-overhead", "2.3e-5")
    result = command(table, "--chip", "h100_sxm", *options, "-o", chip, "--plot", picture, "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["written"] == [str(chip), str(tmp_path / "mine.noc.json")]
    loaded, network = ss.load_chip(chip), ss.load_noc(tmp_path / "mine.noc.json")
    assert isinstance(loaded, RooflineChip)
    assert (loaded.name, network.name) == ("mine", "mine")
    assert loaded.memory_efficiency == told["parameters"]["memory_efficiency"]
    assert network.levels[2].latency == pytest.approx(told["parameters"]["l1_latency"])
    assert picture.stat().st_size > 10_000
    again = command(table, "--chip", "h100_sxm", *options, "-o", chip)
    assert again.exit_code == 2
    assert "exists; choose another name, or replace it with --overwrite" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("missing.csv", "--chip", "h100_sxm", *POINT), "missing.csv: No such file or directory"),
        (("empty.csv", "--chip", "h100_sxm", *POINT), "empty.csv: not a table with commas"),
        (("binary.csv", "--chip", "h100_sxm", *POINT), "binary.csv: not a table with commas"),
        (("good.csv", *POINT), "error: chip: is missing, needs a roofline chip to start from"),
        (
            ("good.csv", "--chip", "h100_sxm", *POINT, "-o", "a.json"),
            "output: got 'a.json', needs a file that ends in .toml",
        ),
        (
            ("good.csv", "--chip", "h100_sxm", *POINT, "-o", "no/a.toml"),
            "output: got 'no/a.toml', and there is no folder 'no'",
        ),
        (
            ("good.csv", "--chip", "h100_sxm", *POINT, "--plot", "a.gif"),
            "plot: got 'a.gif', needs a file that ends in .png",
        ),
        (("good.csv", "--chip", "plena", *POINT), "memory_efficiency: has no value above 0 to start from"),
    ],
)
def test_command_that_cannot_be(
    arguments: tuple[str, ...], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("empty.csv").write_text("")
    Path("binary.csv").write_bytes(b"\xff\xfe\x00")
    DATA.to_csv("good.csv", index=False)
    result = command(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_profile_survives_its_file(tmp_path: Path):
    notes = {"source": 'a "quoted" sheet\n\x7fé', "odd key.": [1, 2.5, True], "table": {"a b": "c", "none": None}}
    numbers = {"overlap": "serial", "pass_overhead": 1.5e-6, "activation_cache": 1e6}
    chip = ss.load_chip(
        {"name": "x", "kind": "roofline", "peak_flops": {"16": 1e15}, **WIDTHS, **numbers, "provenance": notes}
    )
    path = tmp_path / "x.toml"
    path.write_text(chip.to_toml(), encoding="utf-8")
    again = ss.load_chip(path)
    assert again == chip
    assert again.provenance.notes["source"] == notes["source"]
    assert again.provenance.notes["odd key."] == [1, 2.5, True]
    assert again.provenance.notes["table"] == {"a b": "c", "none": "null"}


# --- validation ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("platform", "in_sample", "held_out"), [("b200", 0.08, 0.09), ("mi325x", 0.10, 0.14)])
def test_bundled_chips_are_as_fitted(platform: str, in_sample: float, held_out: float):
    script = runpy.run_path(str(ROOT / "benchmarks" / "validation" / "run.py"))
    found = script["fitted"](platform)
    assert found.mean_error < in_sample
    assert found.held_out_error < held_out
    bundled = ss.load_chip(f"{platform}-vllm")
    assert isinstance(bundled, RooflineChip)
    for name in script["FIT"]:
        assert getattr(bundled, name) == pytest.approx(found.parameters[name], rel=2e-3)
    # used as its description says, it predicts what was fitted
    system = {name: value for name, value in script["PLATFORMS"][platform]["system"].items() if name != "overlap"}
    points = found.rows[["model", "tp", "batch_size", "input_seq_len", "output_seq_len"]]
    ds = ss.sweep(points=points, **system | {"chip": bundled}, **script["COMMON"], outputs=["tps"])
    np.testing.assert_allclose(ds.tps, found.rows.predicted_tps, rtol=3e-3)
