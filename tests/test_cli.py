"""The command line: its numbers are those of the functions, its errors one line, its files whole or not there."""

import errno
import json
import os
import pty
import re
import signal
import subprocess
import sys
from math import prod
from pathlib import Path

import numpy as np
import pytest
import typer
import xarray as xr
from typer.testing import CliRunner

import deepstack_noc as dn
import stacksweep as ss
from stacksweep import cli, evaluate, space, summary
from stacksweep.kernels.validity import REASONS
from stacksweep.parameters import BY_NAME, PARAMETERS, Parameter
from stacksweep.results import BY_NAME as RESULTS
from stacksweep.spec import SpecError, read_spec, value_of
from stacksweep.understood import understood

MILLION = Path(__file__).parents[1] / "docs" / "examples" / "million.toml"
STACK = "fictional_stacked_dram"
POINT = {"model": "llama-3.1-8b", "memory": STACK}
SPEC = """
[parameters]
model = "llama-3.1-8b"
memory = "fictional_stacked_dram"
layers = [2, 8, 12]
connected_layers = { start = 2, stop = 5 }
batch_size = [1, 16]
"""
ARGUMENTS = {**POINT, "layers": [2, 8, 12], "connected_layers": [2, 3, 4], "batch_size": [1, 16]}


def run(*arguments, env=None):
    result = CliRunner().invoke(cli.app, [str(one) for one in arguments], prog_name="stacksweep", env=env)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def shown(*arguments):
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def refused(*arguments):
    """Text of the one line on stderr."""
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("error: ").rstrip("\n")


def strict_json(text):
    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def options(parameters):
    return [text for name, value in parameters.items() for text in ("--" + name.replace("_", "-"), str(value))]


@pytest.fixture
def spec(tmp_path):
    def write(text=SPEC, name="spec.toml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def no_sweep(monkeypatch):
    """Nothing may be evaluated."""
    monkeypatch.setattr(ss, "sweep", lambda **_: pytest.fail("evaluated"))


# estimate


def test_estimate_prints_the_report():
    given = {"model": "llama-3.1-8b", "frequency_hz": 1.5e9, "memory": STACK, "layers": 8, "overlap": "serial"}
    assert shown("estimate", *options(given)) == ss.estimate(**given).table() + "\n"


def test_estimate_takes_switches():
    reports = [ss.estimate(**POINT, include_lm_head=wanted) for wanted in (True, False)]
    assert reports[0].ttft > reports[1].ttft
    for report, option in zip(reports, ("--include-lm-head", "--no-include-lm-head"), strict=True):
        assert shown("estimate", *options(POINT), option) == report.table() + "\n"


def test_estimate_as_json_has_every_number_and_null_for_nan():
    given = {"model": "qwen3-30b-a3b", "memory": "h100_sxm", "batch_size": 4}
    report = strict_json(shown("estimate", *options(given), "--json"))
    expected = ss.estimate(**given)
    assert np.isnan(expected.prefill.stage.dram_energy)
    assert report["prefill"]["stage"]["dram_energy"] is None
    assert report == json.loads(json.dumps(expected.to_dict()), parse_constant=lambda _: None)
    assert report["ttft"] == expected.ttft


def test_estimate_takes_the_network_and_fill():
    given = {**POINT, "memory": "h100_sxm", "noc": "gpu_node_8", "tp": "fill"}
    report = strict_json(shown("estimate", *options(given), "--json"))
    assert report["parameters"]["tp"] == 8
    assert report["tps"] == ss.estimate(**given).tps


def test_estimate_has_an_option_for_every_parameter():
    command = typer.main.get_command(cli.app).commands["estimate"]
    by_name = {option.name: option for option in command.params}
    assert set(by_name) == {known.name for known in PARAMETERS} | {"as_json"}
    for known in PARAMETERS:
        assert by_name[known.name].opts == ["--" + known.name.replace("_", "-")]
        assert known.words in by_name[known.name].help
    assert by_name["batch_size"].help == (
        "sequences served together by the whole system; a whole number of at least 1 and at most 1e+09; 16 by default"
    )
    assert by_name["frequency_hz"].help == (
        "compute clock of a PLENA chip before thermal derating (s-1); a number of at least 1e-12 and at most 1e+24; "
        "1e+09 by default"
    )
    assert by_name["model"].help.endswith("; a bundled name or a path; must be given")


def test_a_new_parameter_becomes_an_option():
    seen = {}
    app = typer.Typer()
    new = Parameter("new_size", "plan", "integer", "load", "a new size", default=1, low=1)

    @app.command()
    @cli.takes([new])
    def command(**given: object) -> None:
        seen.update(given)

    assert CliRunner().invoke(app, ["--new-size", "7"]).exit_code == 0
    assert seen == {"new_size": "7"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "model: is missing, needs "),
        ({"model": "llama-3.1-8b"}, "memory: is missing, needs "),
        ({**POINT, "batch_size": "0"}, "batch_size: got 0, needs a whole number of at least 1 and at most 1e+09"),
        ({**POINT, "batch_size": "2.5"}, "batch_size: got 2.5, needs a whole number of at least 1 and at most 1e+09"),
        ({**POINT, "batch_size": "many"}, "batch_size: got 'many', needs a whole number of at least 1 and at most"),
        ({**POINT, "batch_size": "1,2"}, "batch_size: got '1,2', needs a whole number of at least 1 and at most 1e+09"),
        ({**POINT, "batch_size": ""}, "batch_size: got '', needs a whole number of at least 1 and at most 1e+09"),
        ({**POINT, "frequency_hz": "nan"}, "frequency_hz: got nan, needs a number of at least 1e-12 and at most 1e+24"),
        (
            {**POINT, "frequency_hz": "1e999"},
            "frequency_hz: got inf, needs a number of at least 1e-12 and at most 1e+24",
        ),
        (
            {**POINT, "frequency_hz": "9" * 5000},
            "frequency_hz: got inf, needs a number of at least 1e-12 and at most 1e+24",
        ),
        ({**POINT, "overlap": "none"}, "overlap: got 'none', needs one of stage-roofline, op-roofline, serial"),
        ({**POINT, "tp": "some"}, "tp: got 'some', needs a whole number of at least 1 and at most 1.04858e+06, or "),
        ({**POINT, "model": "llama"}, "model 'llama': neither an existing file nor a bundled name (deepseek-v3, "),
        ({**POINT, "noc": "web"}, "noc 'web' is neither a file that can be read "),
        ({**POINT, "requesters": "3", "memory": "h100_sxm"}, "requesters: memory 'h100_sxm' (fixed_bandwidth) has no "),
        (
            {**POINT, "layers": "2", "connected_layers": "4"},
            "connected_layers: more layers are connected than the stack has (connected_layers=4, layers=2)",
        ),
        ({**POINT, "static_power_w": "1e9"}, "thermal: static power alone exceeds what the stack can cool"),
    ],
)
def test_estimate_refuses(given, message):
    text = refused("estimate", *options(given))
    assert text.startswith(message)
    values = {name: value_of(BY_NAME[name], value) for name, value in given.items()}
    with pytest.raises(ValueError) as error:  # noqa: PT011 (any of our errors, with the same text)
        ss.estimate(**values)
    assert text == str(error.value)


# memory


def test_memory_shows_a_grid():
    text = shown("memory", STACK, "--layers", "2,8", "--connected-layers", "2, 4", "--static-power-w", "8,1e6")
    heading, empty, head, *rows = text.splitlines()
    assert (heading, empty) == (f"{STACK} (stacked_dram)", "")
    assert head.split("  ")[0] == "layers"
    words = [row.split(maxsplit=9) for row in rows]
    assert [row[:3] for row in words] == [
        [layers, connected, power] for layers in ("2", "8") for connected in ("2", "4") for power in ("8", "1000000")
    ]
    # 2 layers of 7 channels that move 5.5 bytes 1.25 times per clock
    assert words[0][3] == f"{2 * 7 * 5.5 * 1.25 * 345678901 / 1e9:.6g}" == "33.2716"
    first = ss.sweep(**POINT, layers=2, connected_layers=2, outputs=["clock_scale", "connectivity_efficiency"])
    efficiency = first.connectivity_efficiency.item()
    usable = efficiency * 2 * 7 * 5.5 * 1.25 * 345678901 / 1e9
    assert words[0][4:] == [
        f"{usable:.6g}",
        f"{efficiency:.6g}",
        f"{2 * 1.23456789:.6g}",
        f"{first.clock_scale.item():.6g}",
        "no",
    ]
    assert words[1][3:] == ["-"] * 6 + [f"thermal: {REASONS['thermal']}"]
    assert words[2][3:] == ["-"] * 6 + [f"connected_layers: {REASONS['connected_layers']}"]


def test_memory_as_json_equals_the_sweep():
    axes = {"layers": [4, 8, 12], "connected_layers": [2, 8], "buffer_bytes_per_requester": [1, 54321]}
    lists = {name: ",".join(map(str, values)) for name, values in axes.items()}
    report = strict_json(shown("memory", STACK, *options(lists), "--json"))
    names = ["peak_bandwidth", "usable_bandwidth", "connectivity_efficiency", "capacity", "clock_scale"]
    expected = ss.sweep(**POINT, **axes, outputs=[*names, "buffering_limited"])
    memory = ss.load_memory(STACK)
    assert report["memory"] == {
        "name": STACK,
        "kind": "stacked_dram",
        "source": "Invented for examples and tests; describes no product.",
        "path": memory.provenance.path,
        "sha256": memory.provenance.sha256,
    }
    assert len(report["points"]) == 12
    for point in report["points"]:
        place = expected.sel({axis: point[axis] for axis in axes})
        assert point["reason"] == list(REASONS)[int(place.reason)]
        assert point["buffering_limited"] == bool(place.buffering_limited)
        for name in names:
            assert point[name] == (float(place[name]) if place.valid else None)
    assert {point["buffering_limited"] for point in report["points"]} == {True, False}
    assert [point["reason"] for point in report["points"][:4]] == ["valid"] * 2 + ["connected_layers"] * 2


def test_memory_of_fixed_bandwidth():
    text = shown("memory", "h100_sxm")
    assert text.splitlines()[0] == "h100_sxm (fixed_bandwidth)"
    assert text.splitlines()[3].split() == ["3350", "3350", "1", "80", "1", "no"]
    points = strict_json(shown("memory", "h100_sxm", "--bandwidth-bytes-per-s", "1e12,2e12", "--json"))["points"]
    assert [point["usable_bandwidth"] for point in points] == [1e12, 2e12]


def test_memory_takes_a_file(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({**ss.load_memory("h100_sxm").to_dict(), "name": "mine", "capacity_bytes": None}))
    assert shown("memory", path).splitlines()[0] == "mine (fixed_bandwidth)"
    assert strict_json(shown("memory", path, "--json"))["points"][0]["capacity"] is None


def test_memory_evaluates_machine_results_only(monkeypatch):
    asked = {}

    def sweep(**arguments):
        asked.update(arguments)
        return evaluate.sweep(**arguments)

    monkeypatch.setattr(ss, "sweep", sweep)
    shown("memory", STACK)
    assert {stage for name in asked["outputs"] for stage in RESULTS[name].needs} == {"machine"}


def test_memory_has_an_option_for_every_parameter_of_a_memory():
    command = typer.main.get_command(cli.app).commands["memory"]
    expected = {known.name for known in PARAMETERS if known.group == "memory"} - {"memory"} | {"source", "as_json"}
    assert {option.name for option in command.params} == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "memory profile 'nothing': neither an existing file nor a bundled name (b200, "),
        ([STACK, "--layers", "4,,8"], "layers: got '', needs a whole number of at least 1 and at most 4096"),
        ([STACK, "--layers", "4,x"], "layers: got 'x', needs a whole number of at least 1 and at most 4096"),
        ([STACK, "--layers", "0"], "layers: got 0, needs a whole number of at least 1 and at most 4096"),
        (["h200", "--layers", "4"], "layers: memory 'h200' (fixed_bandwidth) has no such field to override"),
    ],
)
def test_memory_refuses(arguments, message):
    assert refused("memory", *arguments).startswith(message)


# specs


def test_spec_ranges_are_like_pythons(spec):
    text = """
    dtype = "float32"
    outputs = ["tps", "fits"]
    [parameters]
    layers = { start = 4, stop = 13, step = 4 }
    batch_size = { start = 1, stop = 4 }
    input_seq_len = { start = 512, stop = 0, step = -256 }
    frequency_hz = { start = 0.5e9, stop = 2e9, step = 5e8 }
    read_pj_per_bit = { start = 0.1, stop = 0.8, step = 0.1 }
    static_power_w = { start = 0, stop = 1, step = 0.25 }
    tp = "fill"
    """
    read = read_spec(spec(text))
    assert {name: value if isinstance(value, str) else list(value) for name, value in read.parameters.items()} == {
        "layers": [4, 8, 12],
        "batch_size": [1, 2, 3],
        "input_seq_len": [512, 256],
        "frequency_hz": [5e8, 1e9, 1.5e9],
        "read_pj_per_bit": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7],
        "static_power_w": [0.0, 0.25, 0.5, 0.75],
        "tp": "fill",
    }
    assert (read.points, read.outputs, read.dtype) == (None, ["tps", "fits"], "float32")


def test_spec_paths_are_relative_to_the_spec_and_names_are_not(spec, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text(json.dumps(ss.load_model("llama-3.2-1b").to_dict()))
    fixed = ss.load_memory("h100_sxm").to_dict()
    (tmp_path / "fixed.json").write_text(json.dumps({**fixed, "name": "fixed"}))
    text = """
    [parameters]
    model = ["llama-3.1-8b", "mine/config.json"]
    memory = ["fixed.json", INLINE]
    """
    inline = '{ schema_version = 1, kind = "fixed_bandwidth", bandwidth_bytes_per_s = 1, capacity_bytes = 8 }'
    read = read_spec(spec(text.replace("INLINE", inline)))
    assert read.parameters["model"] == ["llama-3.1-8b", str(tmp_path / "mine" / "config.json")]
    dataset = ss.sweep(**read.parameters, outputs=["usable_bandwidth"])
    assert dataset.model.values.tolist() == ["llama-3.1-8b", "llama-3.2-1b"]
    assert dataset.memory.values.tolist() == ["fixed", "custom"]
    assert dataset.usable_bandwidth.values.tolist() == [[3.35e12, 1]] * 2


def test_spec_points(spec, tmp_path):
    (tmp_path / "fixed.json").write_text(json.dumps({**ss.load_memory("h100_sxm").to_dict(), "name": "fixed"}))
    # with a byte order mark, blanks and an empty line
    (tmp_path / "points.csv").write_text(
        "\ufeffmemory, batch_size,include_lm_head,overlap,frequency_hz\n"
        "fixed.json,1,true,serial,0.1\n\n"
        'h100_sxm, 1e2,False,"stage-roofline",1000000000\n',
        encoding="utf-8",
    )
    read = read_spec(spec('points = "points.csv"\n[parameters]\nmodel = "llama-3.1-8b"'))
    assert dict(read.points.sizes) == {"point": 2}
    assert read.points.memory.values.tolist() == [str(tmp_path / "fixed.json"), "h100_sxm"]
    assert read.points.batch_size.values.tolist() == [1, 100]
    assert read.points.frequency_hz.values.tolist() == [0.1, 1e9]
    assert read.points.include_lm_head.values.tolist() == [True, False]
    dataset = ss.sweep(points=read.points, **read.parameters)
    assert dataset.overlap.values.tolist() == ["serial", "stage-roofline"]
    alone = ss.estimate(model="llama-3.1-8b", memory="h100_sxm", batch_size=100)
    assert dataset.tps.values[1] == alone.tps


def test_spec_points_of_many_lines(spec, tmp_path):
    values = np.random.default_rng(0).random(3000)
    lines = [f"{value},{row % 7 + 1}" for row, value in enumerate(values.tolist())]
    (tmp_path / "points.csv").write_text("\n".join(["read_pj_per_bit,batch_size", *lines]))
    path = spec('points = "points.csv"')
    points = read_spec(path).points
    assert np.array_equal(points.read_pj_per_bit, values)
    assert np.array_equal(points.batch_size, np.arange(3000) % 7 + 1)
    lines[2500] = "0.5,x"
    (tmp_path / "points.csv").write_text("\n".join(["read_pj_per_bit,batch_size", *lines]))
    with pytest.raises(SpecError, match=r"points\.csv: line 2502: batch_size: got 'x', needs a whole number of at"):
        read_spec(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("parameters = 3", "{spec}: parameters: got 3, needs a table [parameters]"),
        ("layers = 3", "{spec}: layers: no such key of a spec; parameters stand below [parameters]"),
        ("output = 'tps'", "{spec}: output: no such key of a spec; did you mean outputs?"),
        ("x = 1", "{spec}: x: no such key of a spec; there are parameters, points, outputs, dtype"),
        ("[parameters", "{spec}: not valid TOML: "),
        ("a = 1\na = 2", "{spec}: not valid TOML: "),
        ("outputs = 5", "{spec}: outputs: got 5, needs text or a list of texts"),
        ("outputs = 'speed'\n" + SPEC, "outputs: no result is called 'speed'"),
        ("outputs = []\n" + SPEC, "outputs: got none; name at least one result"),
        ("outputs = [3]\n" + SPEC, "outputs: no result is called 3"),
        ("dtype = 64", "{spec}: dtype: got 64, needs float64 or float32"),
        ("dtype = 'int'\n" + SPEC, "dtype: got 'int', needs float64 or float32"),
        ("points = 5", "{spec}: points: got 5, needs the path of a CSV file"),
        ("points = 'none.csv'", "{folder}/none.csv: No such file or directory"),
        ("[parameters]\nbatchsize = 3", "batchsize: no such parameter; did you mean batch_size?"),
        ("[parameters]\nprogress = 3", "progress: no such parameter"),
        (SPEC + "input_seq_len = true", "input_seq_len: got True, needs a whole number of at least 1"),
        (SPEC + "input_seq_len = 2020-01-01", "input_seq_len: got datetime.date(2020, 1, 1), needs a whole number"),
        (SPEC + "input_seq_len = [1, '2']", "input_seq_len: got '2', needs a whole number of at least 1"),
        (SPEC + "input_seq_len = []", "input_seq_len: got no values, needs at least one"),
        (SPEC + "input_seq_len = {start = 1, end = 3}", "input_seq_len: a range has start, stop and step, got 'end'"),
        (SPEC + "input_seq_len = {stop = 3}", "input_seq_len: a range needs start and stop, start is missing"),
        (SPEC + "input_seq_len = {start = 3}", "input_seq_len: a range needs start and stop, stop is missing"),
        (
            SPEC + "input_seq_len = {start = 1, stop = inf}",
            "input_seq_len: stop of the range: got inf, needs a finite number",
        ),
        (
            SPEC + "input_seq_len = {start = true, stop = 3}",
            "input_seq_len: start of the range: got True, needs a finite number",
        ),
        (
            SPEC + "input_seq_len = {start = 1, stop = 3, step = 0}",
            "input_seq_len: step of the range: got 0, needs a number other than 0",
        ),
        (
            SPEC + "input_seq_len = {start = 5, stop = 3}",
            "input_seq_len: the range start = 5, stop = 3, step = 1 has 0 values, needs at least one",
        ),
        (
            SPEC + "input_seq_len = {start = 1, stop = 1_000_000_001}",
            "input_seq_len: the range start = 1, stop = 1000000001, step = 1 has 1,000,000,000 values, "
            "needs at most 10,000,000",
        ),
        (
            SPEC + "frequency_hz = {start = 1, stop = 1e308, step = 1e-308}",
            "frequency_hz: the range start = 1, stop = 1e+308, step = 1e-308 has ",
        ),
        (SPEC + "overlap = {start = 1, stop = 2}", "overlap: got {'start': 1, 'stop': 2}, needs one of "),
        (SPEC.replace("[2, 8, 12]", "[2, 0]"), "layers: got 0, needs a whole number of at least 1 and at most 4096"),
        (SPEC.replace("llama-3.1-8b", "none.json"), "model '{folder}/none.json': neither an existing file nor a "),
        (SPEC.replace("llama-3.1-8b", "llama"), "model 'llama': neither an existing file nor a bundled name"),
        ("[parameters]\nmodel = 'llama-3.1-8b'", "memory: is missing, needs "),
    ],
)
def test_sweep_refuses_a_spec(spec, tmp_path, text, message):
    path = spec(text)
    assert refused("sweep", path, "-o", tmp_path / "out.nc").startswith(
        message.replace("{spec}", str(path)).replace("{folder}", str(tmp_path))
    )
    assert files(tmp_path) == ["spec.toml"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1: is empty, needs the names of the parameters"),
        ("layers\n", "has no points, needs a line for each below the names of the parameters"),
        ("layers,layer\n1,2\n", "line 1: layer: no such parameter; did you mean layers"),
        ("layers;batch_size\n1;2\n", "line 1: layers;batch_size: no such parameter"),
        ("layers,layers\n1,2\n", "line 1: layers: stands more than once"),
        ("layers,batch_size\n1,2\n\n1\n", "line 4: has 1 values, needs 2"),
        ("layers,batch_size\n1,2\n1,2,3\n", "line 3: has 3 values, needs 2"),
        ("layers,batch_size\n1,2\n1,\n", "line 3: batch_size: got '', needs a whole number of at least 1"),
        ("layers,batch_size\n1,2\nx,2\n", "line 3: layers: got 'x', needs a whole number of at least 1 and at most 40"),
        ('layers,batch_size\n1,"2\n', "line 2: not valid CSV: "),
        ("layers,batch_size\n1,\udcff\n", "not valid CSV: it is not UTF-8 text"),
    ],
)
def test_sweep_refuses_a_damaged_table_of_points(spec, tmp_path, content, message):
    points = tmp_path / "points.csv"
    points.write_bytes(content.encode("utf-8", "surrogateescape"))
    path = spec('points = "points.csv"\n' + SPEC)
    text = refused("sweep", path, "-o", tmp_path / "out.nc")
    assert text.startswith(f"{points}: {message}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("layers\n4\n", "layers: given both in points and as an argument; give it once"),
        ("input_seq_len\nnan\n", "input_seq_len: got nan, needs a whole number of at least 1"),
        ("include_lm_head\nyes\n", "include_lm_head: got 'yes', needs true or false"),
        ("overlap\nnone\n", "overlap: got 'none', needs one of stage-roofline, op-roofline, serial"),
    ],
)
def test_sweep_refuses_values_of_points(spec, tmp_path, content, message):
    (tmp_path / "points.csv").write_text(content)
    path = spec('points = "points.csv"\n' + SPEC)
    assert refused("sweep", path, "-o", tmp_path / "out.nc").startswith(message)


def test_sweep_refuses_a_spec_that_cannot_be_read(spec, tmp_path, monkeypatch):
    out = tmp_path / "out.nc"
    assert refused("sweep", tmp_path / "no.toml", "-o", out) == f"{tmp_path}/no.toml: No such file or directory"
    assert refused("sweep", tmp_path, "-o", out) == f"{tmp_path}: Is a directory"
    damaged = tmp_path / "damaged.toml"
    damaged.write_bytes(b"a = '\xff'")
    assert refused("sweep", damaged, "-o", out) == f"{damaged}: not valid TOML: it is not UTF-8 text"

    def denied(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "read_bytes", denied)
    assert refused("sweep", damaged, "-o", out) == f"{damaged}: Permission denied"


# sweep


def summary_of(spec_path, out, *more):
    return strict_json(shown("sweep", spec_path, "-o", out, "--json", *more))


def test_sweep_writes_what_the_function_returns(spec, tmp_path):
    out = tmp_path / "out.nc"
    summary = summary_of(spec(), out)
    expected = ss.sweep(**ARGUMENTS)
    with xr.open_dataset(out) as written:
        xr.testing.assert_equal(written, expected)
        assert written.attrs["call"] == expected.attrs["call"]
    assert files(tmp_path) == ["out.nc", "spec.toml"]
    tps = expected.tps.where(expected.fits)
    best = tps.argmax(...)
    assert summary.pop("seconds") > 0
    assert summary == {
        "dimensions": {"layers": 3, "connected_layers": 3, "batch_size": 2},
        "points": 18,
        "valid": 14,
        "fits": int(expected.fits.sum()),
        "reasons": {"connected_layers": 4},
        "best": {
            "among": "fits",
            "tps": float(tps.max()),
            "ttft": float(expected.ttft.isel(best)),
            "equals": int((tps == tps.max()).sum()),
            "coordinates": {
                "layers": int(expected.layers[best["layers"]]),
                "connected_layers": int(expected.connected_layers[best["connected_layers"]]),
                "batch_size": int(expected.batch_size[best["batch_size"]]),
            },
        },
        "output": str(out),
        "bytes": out.stat().st_size,
    }
    assert 0 < summary["fits"] < 14


def test_sweep_prints_a_summary(spec, tmp_path):
    out = tmp_path / "out.nc"
    lines = shown("sweep", spec(), "-o", out).splitlines()
    expected = ss.sweep(**ARGUMENTS)
    best = expected.where(expected.fits).tps.max().item()
    at = expected.isel(expected.where(expected.fits).tps.argmax(...))
    assert lines[0] == "dimensions          layers 3 x connected_layers 3 x batch_size 2"
    assert lines[1].startswith("points              18 in ")
    assert lines[1].endswith(" points/s)")
    assert lines[2:] == [
        "valid               14 (77.8%)",
        "  connected_layers  4: more layers are connected than the stack has",
        f"fits                {expected.fits.sum().item()} ({expected.fits.sum().item() / 18:.1%})",
        f"best                tps {best:.6g} tokens/s, ttft {at.ttft:.6g} s, among points that fit",
        f"  at                layers {at.layers:d}, connected_layers {at.connected_layers:d}, "
        f"batch_size {at.batch_size:d}",
        f"written             {out} ({out.stat().st_size / 1e6:.1f} MB)",
    ]


def test_sweep_writes_zarr_and_replaces_it_when_asked(spec, tmp_path):
    pytest.importorskip("zarr")
    out = tmp_path / "out.zarr"
    summary = summary_of(spec(), out)
    assert summary["bytes"] == sum(file.stat().st_size for file in out.rglob("*") if file.is_file()) > 0
    assert refused("sweep", spec(), "-o", out) == (
        f"output: '{out}' exists; choose another name, or replace it with --overwrite"
    )
    summary_of(spec(SPEC.replace("[1, 16]", "[2]")), out, "--overwrite")
    with xr.open_zarr(out, consolidated=False) as written:
        xr.testing.assert_equal(written.load(), ss.sweep(**{**ARGUMENTS, "batch_size": [2]}))
    assert files(tmp_path) == ["out.zarr", "spec.toml"]


def best_of(text, spec, tmp_path):
    return summary_of(spec(text), tmp_path / "out.nc", "--overwrite")["best"], shown(
        "sweep", spec(text), "-o", tmp_path / "out.nc", "--overwrite"
    )


def test_best_point_among_all_where_none_fits(spec, tmp_path):
    best, text = best_of(SPEC.replace("[2, 8, 12]", "2"), spec, tmp_path)
    expected = ss.sweep(**{**ARGUMENTS, "layers": 2})
    assert not expected.fits.any()
    assert best["among"] == "valid"
    assert best["tps"] == float(expected.tps.max())
    assert best["coordinates"] == {"connected_layers": 2, "batch_size": 16}
    assert "s, among all valid points: no point fits\n" in text


def test_best_point_without_all_results(spec, tmp_path):
    best, text = best_of("outputs = ['tps']\n" + SPEC, spec, tmp_path)
    assert set(best) == {"among", "tps", "equals", "coordinates"}
    assert (best["among"], best["tps"]) == ("valid", float(ss.sweep(**ARGUMENTS).tps.max()))
    assert "tokens/s, among all valid points: fits is not an output" in text
    best, text = best_of("outputs = ['ttft']\n" + SPEC, spec, tmp_path)
    assert best is None
    assert "best                not known: tps is not among the outputs\n" in text
    best, text = best_of(SPEC.replace("[2, 8, 12]", "1"), spec, tmp_path)
    assert best is None
    assert "best                no point is valid\n" in text


def test_best_point_of_equals_and_of_one(spec, tmp_path):
    best, text = best_of(SPEC + "read_pj_per_bit = [1, 2, 3]", spec, tmp_path)
    assert (best["equals"], best["coordinates"]["read_pj_per_bit"]) == (3, 1)
    assert "among points that fit (the first of 3 with this tps)\n" in text
    single = "[parameters]\nmodel = 'llama-3.1-8b'\nmemory = 'fictional_stacked_dram'"
    best, text = best_of(single, spec, tmp_path)
    assert (best["tps"], best["coordinates"]) == (ss.estimate(**POINT).tps, {})
    assert text.startswith("dimensions  none: one point\npoints      1 in ")
    assert "  at " not in text


def test_best_of_points(spec, tmp_path):
    (tmp_path / "points.csv").write_text("layers,batch_size\n12,1\n12,4\n12,2\n")
    text = "points = 'points.csv'\n[parameters]\nmodel = 'llama-3.1-8b'\nmemory = 'fictional_stacked_dram'"
    best, _ = best_of(text, spec, tmp_path)
    assert best["coordinates"] == {"layers": 12, "batch_size": 4}


def test_sweep_hands_the_whole_spec_over(spec, tmp_path, monkeypatch):
    asked = {}

    def sweep(**arguments):
        asked.update(arguments)
        return evaluate.sweep(**{**arguments, "dtype": "float64"})

    monkeypatch.setattr(ss, "sweep", sweep)
    out = tmp_path / "out.nc"
    more = ("--max-memory", "1 GB", "--compression", "none")
    summary_of(spec("dtype = 'float32'\noutputs = 'main'\n" + SPEC), out, *more)
    asked.pop("progress")
    assert asked == {
        **ARGUMENTS,
        "connected_layers": range(2, 5),
        "dtype": "float32",
        "outputs": "main",
        "points": None,
        "to": out,
        "resume": False,
        "max_memory": "1 GB",
        "compression": "none",
    }


@pytest.mark.usefixtures("no_sweep")
def test_sweep_checks_the_output_first(spec, tmp_path, monkeypatch):
    path = spec()
    assert refused("sweep", path) == ("output: is missing, needs a file that ends in .nc or .zarr, as in -o sweep.nc")
    assert refused("sweep", path, "-o", "out.csv") == "output: got 'out.csv', needs a file that ends in .nc or .zarr"
    lost = tmp_path / "no" / "out.nc"
    assert refused("sweep", path, "-o", lost) == f"output: got '{lost}', and there is no folder '{lost.parent}'"
    for name, words in (("folder.nc", ""), ("folder.zarr", " and no Zarr store")):
        folder = tmp_path / name
        folder.mkdir()
        for more in ([], ["--overwrite"]):
            assert refused("sweep", path, "-o", folder, *more) == f"output: got '{folder}', which is a folder{words}"
    file = tmp_path / "file.zarr"
    file.touch()
    assert refused("sweep", path, "-o", file, "--overwrite") == (
        f"output: got '{file}', which is a file, and a Zarr store is a folder"
    )
    there = tmp_path / "there.nc"
    there.write_text("precious")
    assert refused("sweep", path, "-o", there) == (
        f"output: '{there}' exists; choose another name, or replace it with --overwrite"
    )
    assert there.read_text() == "precious"
    out = tmp_path / "out.nc"
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert refused("sweep", path, "-o", out) == (
        f"output: got '{out}', and the folder '{tmp_path}' cannot be written to"
    )
    monkeypatch.undo()
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert refused("sweep", path, "-o", tmp_path / "out.zarr") == (
        "output: .zarr needs the package zarr; install stacksweep[distributed], or write .nc"
    )


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "[Errno 28] No space left on device"),
        (
            RuntimeError("NetCDF: HDF error"),
            "{out}: could not be written, maybe for want of room: NetCDF: HDF",
        ),
    ],
)
def test_a_write_that_fails_leaves_the_old_file(spec, tmp_path, monkeypatch, error, message):
    out = tmp_path / "out.nc"
    out.write_text("precious")

    def half(dataset, path, **_):
        path.write_text("half")
        raise error

    monkeypatch.setattr(xr.Dataset, "to_netcdf", half)
    text = refused("sweep", spec(), "-o", out, "--overwrite")
    assert text.startswith(message.replace("{out}", str(out)))
    assert out.read_text() == "precious"
    assert files(tmp_path) == ["out.nc", "spec.toml"]


def test_a_memory_that_is_too_small(spec, tmp_path):
    # the largest memory that does not hold a single point in each of three blocks
    text = refused("sweep", spec(), "-o", tmp_path / "out.nc", "--max-memory", "203")
    assert text == "max_memory: got 203 bytes, needs at least 204 for 3 chunks"
    assert files(tmp_path) == ["spec.toml"]


def test_memory_that_runs_out(spec, tmp_path, monkeypatch):
    def sweep(**_):
        raise MemoryError

    monkeypatch.setattr(ss, "sweep", sweep)
    assert refused("sweep", spec(), "-o", tmp_path / "out.nc") == "out of memory"


def test_a_bug_keeps_its_traceback(spec, tmp_path, monkeypatch):
    def sweep(**_):
        raise ValueError("of numpy")

    monkeypatch.setattr(ss, "sweep", sweep)
    with pytest.raises(ValueError, match="of numpy"):
        run("sweep", spec(), "-o", tmp_path / "out.nc")


# interruptions, terminals and pipes


def process(*arguments, script="from stacksweep.cli import main; main()", **more):
    command = [sys.executable, "-c", script, *(str(one) for one in arguments)]
    return subprocess.Popen(command, text=True, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more})


HELD = """
import signal, sys, threading, time
import deepstack_noc as dn
import stacksweep as ss
from stacksweep import cli

interrupted = threading.Event()
evaluate = ss.sweep

def interrupt(*_):
    interrupted.set()
    raise KeyboardInterrupt

def sweep(progress, **arguments):
    def hold(done, total):
        progress(done, total)
        print("in the middle", file=sys.__stderr__, flush=True)
        while not interrupted.is_set():
            time.sleep(0.01)
    return evaluate(progress=hold, **arguments)

signal.signal(signal.SIGINT, interrupt)
ss.sweep = sweep
cli.main()
"""


def test_an_interrupted_sweep_leaves_nothing(spec, tmp_path):
    out = tmp_path / "out.nc"
    # more than one block, so that there is a middle
    path = spec(SPEC.replace("[1, 16]", "{ start = 1, stop = 16001 }"))
    with process("sweep", path, "-o", out, script=HELD) as running:
        try:
            assert running.stderr.readline() == "in the middle\n"
            running.send_signal(signal.SIGINT)
            stdout, stderr = running.communicate(timeout=300)
        finally:
            running.kill()
    lines = [line for line in stderr.splitlines() if line != "in the middle"]
    assert (running.returncode, stdout, lines) == (130, "", ["interrupted; nothing was written"])
    assert files(tmp_path) == ["spec.toml"]


def test_an_interrupted_write_leaves_the_old_file(spec, tmp_path, monkeypatch):
    out = tmp_path / "out.nc"
    out.write_text("precious")

    def interrupted(dataset, path, **_):
        path.write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(xr.Dataset, "to_netcdf", interrupted)
    result = run("sweep", spec(), "-o", out, "--overwrite")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "interrupted; nothing was written\n")
    assert out.read_text() == "precious"
    assert files(tmp_path) == ["out.nc", "spec.toml"]


def on_terminal(*arguments):
    """Run with stderr on a terminal; returns what it showed there."""
    master, slave = pty.openpty()
    shown_there = b""
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with process(*arguments, stderr=slave, env=environment) as running:
        os.close(slave)
        while True:
            try:
                piece = os.read(master, 4096)
            except OSError:
                break
            if not piece:
                break
            shown_there += piece
        stdout, _ = running.communicate(timeout=300)
    os.close(master)
    assert running.returncode == 0
    assert "\x1b" not in stdout
    return shown_there.decode()


def test_progress_shows_on_a_terminal_and_is_silenced_by_an_option(spec, tmp_path):
    bar = on_terminal("sweep", spec(), "-o", tmp_path / "out.nc")
    assert "100%" in bar
    assert " points/s" in bar
    assert on_terminal("sweep", spec(), "-o", tmp_path / "out.nc", "--overwrite", "--no-progress") == ""


def test_a_pipe_that_nobody_reads():
    with process("profiles") as running:
        running.stdout.close()
        assert running.stderr.read() == ""
    assert running.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_stdout_that_is_full():
    with Path("/dev/full").open("w") as full, process("profiles", stdout=full) as running:
        assert running.stderr.read() == "error: [Errno 28] No space left on device\n"
    assert running.returncode == 2


def test_kernels_are_loaded_by_commands_that_evaluate():
    script = """
import sys
from stacksweep.cli import app
for arguments in (["--help"], ["--version"], ["models"], ["models", "llama-3.1-8b"], ["profiles", "--json"]):
    app(arguments, standalone_mode=False)
    assert "stacksweep.kernels.block" not in sys.modules, arguments
app(["memory", "h100_sxm"], standalone_mode=False)
assert "stacksweep.kernels.block" in sys.modules
"""
    with process(script=script) as running:
        _, stderr = running.communicate(timeout=300)
    assert (running.returncode, stderr) == (0, "")


# lists, help and usage


def test_models_are_listed():
    text = shown("models")
    head, *rows = text.splitlines()
    assert head.split("  ")[0] == "model"
    assert [row.split()[0] for row in rows] == ss.bundled_names("models")
    by_name = {row.split()[0]: row.split()[1:] for row in rows}
    assert by_name["llama-3.1-8b"] == ["32", "4096", "0", "0", "8.030", "7.505"]
    assert by_name["qwen3-30b-a3b"] == ["48", "2048", "128", "8", "30.532", "3.042"]
    entries = strict_json(shown("models", "--json"))
    assert [entry["name"] for entry in entries] == ss.bundled_names("models")
    assert entries[ss.bundled_names("models").index("gpt-oss-20b")] == {
        "name": "gpt-oss-20b",
        "num_hidden_layers": 24,
        "hidden_size": 2880,
        "num_experts": 32,
        "num_experts_per_tok": 4,
        "weight_elements": ss.load_model("gpt-oss-20b").weight_elements(),
        "active_elements": ss.load_model("gpt-oss-20b").active_elements(),
    }


def test_one_model_is_shown(tmp_path):
    spec = ss.load_model("gpt-oss-20b")
    head, _, headings, sliding, full, _, *rows = shown("models", "gpt-oss-20b").splitlines()
    assert head == "gpt-oss-20b (gpt_oss): 24 layers, hidden size 2,880, vocabulary 201,088"
    assert re.split("  +", headings.strip()) == [
        "layers",
        "mixer",
        "MLP",
        "parameters (1e6)",
        "active (1e6)",
        "cache B/token",
        "state B",
    ]
    experts = ["4 of 32 experts of 2,880", "822.9", "126.2", "2,048", "0"]
    heads = "64 heads, 8 KV heads of 64"
    assert re.split("  +", sliding.strip()) == ["12", f"sliding attention of 128 tokens, {heads}", *experts]
    assert re.split("  +", full.strip()) == ["12", f"full attention, {heads}", *experts]
    lines = dict(line.split(maxsplit=1) for line in rows)
    assert lines == {
        "parameters": "20.908e9, of which a token takes 3.607e9",
        "cache": "49,152 bytes per token in 16 bits; beyond all windows 24,576, "
        "and 3,145,728 per sequence for the windows",
        "state": "0 bytes per sequence in 32 bits",
        "source": "Sizes of the published config of openai/gpt-oss-20b",
        "path": spec.provenance.path,
        "sha256": spec.provenance.sha256,
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(spec.to_dict()))
    details = strict_json(shown("models", path, "--json"))
    assert details == {**understood(spec), "source": lines["source"], "path": str(path), "sha256": details["sha256"]}
    assert (details["weight_elements"], details["active_elements"]) == (20_907_786_240, spec.active_elements())


def test_mixed_layers_are_shown():
    details = strict_json(shown("models", "nemotron-3-nano-30b-a3b", "--json"))
    assert [kind["layers"] for kind in details["kinds"]] == [23, 23, 6]
    words = [[kind[part] and kind[part]["words"] for part in ("mixer", "ffn", "moe")] for kind in details["kinds"]]
    assert words == [
        ["mamba2, 64 heads of 64, state 128", None, None],
        [None, "FFN of 3,712 without gate", "6 of 128 experts of 1,856 without gate"],
        ["full attention, 32 heads, 2 KV heads of 128", None, None],
    ]
    assert (details["cache_bytes_per_token"], details["state_bytes"]) == (6144, 50_495_488)
    assert "cache       70,272 bytes per token in 16 bits\n" in shown("models", "deepseek-v3")
    for name, words in {
        "glm-5": "sparse latent attention of 2,048 tokens, 64 heads, latent 512 + 64",
        "gemma-4-31b": "full attention, 32 heads, 4 KV heads of 512, values are keys",
        "qwen3.5-27b": "full attention, 24 heads, 4 KV heads of 256, output gate",
        "qwen3.5-397b-a17b": "10 of 512 experts of 1,024 + FFN of 1,024",
        "mimo-v2-flash": "sliding attention of 128 tokens, 64 heads, 8 KV heads of 192 and 128",
        "llama-4-scout": "chunked attention of 8,192 tokens, 40 heads, 8 KV heads of 128",
    }.items():
        assert words in shown("models", name)


def test_models_that_cannot_be_shown(tmp_path):
    assert refused("models", "nothing").startswith("model 'nothing': neither an existing file nor a bundled name (")
    assert refused("models", tmp_path) == f"model '{tmp_path}': is a directory, needs a file"


def test_profiles_are_listed_with_their_sources():
    entries = strict_json(shown("profiles", "--json"))
    names = {
        kind: [entry["name"] for entry in entries if entry["kind"] == kind] for kind in ("chip", "memory", "model")
    }
    assert names == {
        "chip": ss.bundled_names("chips"),
        "memory": ss.bundled_names("memory"),
        "model": ss.bundled_names("models"),
    }
    networks = [entry for entry in entries if entry["kind"] == "noc"]
    assert "gpu_cluster_32" in [entry["name"] for entry in networks]
    assert all(entry["source"] and len(entry["sha256"]) == 64 for entry in entries)
    by_name = {entry["name"]: entry for entry in entries}
    assert by_name["h100_sxm"]["source"] == ss.load_memory("h100_sxm").provenance.notes["source"]
    assert by_name["gpu_node_8"]["sha256"] == ss.load_noc("gpu_node_8").provenance["sha256"]
    head, *rows = shown("profiles").splitlines()
    assert head.split() == ["kind", "name", "source"]
    assert [row.split(maxsplit=2) for row in rows] == [
        [entry["kind"], entry["name"], entry["source"]] for entry in entries
    ]


def test_version_and_help():
    assert shown("--version") == f"stacksweep {ss.__version__}\n"
    for command in ("estimate", "memory", "sweep", "models", "profiles"):
        text = shown(command, "-h")
        assert text.startswith(f"Usage: stacksweep {command} ")
        assert "\x1b" not in text
        assert text.isascii()
        assert f"  {command} " in shown("--help")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sweeep"], "No such command 'sweeep'"),
        (["sweep"], "Missing argument"),
        (["estimate", "--batch_size", "3"], "--batch-size"),
        (["estimate", "--batch-size"], "--batch-size"),
        (["memory"], "Missing argument"),
        (["models", "a", "b"], "unexpected extra argument"),
    ],
)
def test_wrong_usage_is_short(arguments, words):
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert len(result.stderr.splitlines()) <= 4
    assert result.stderr.isascii()
    assert "Traceback" not in result.stderr


def test_output_is_plain_even_where_colour_is_forced():
    result = run("models", env={"FORCE_COLOR": "1", "COLUMNS": "20"})
    assert result.stdout == shown("models")
    assert "\x1b" not in result.stdout


# the example


def test_the_million_example_is_a_million_points():
    read = read_spec(MILLION)
    assert (read.points, read.outputs, read.dtype) == (None, "main", "float64")
    grid = space.build(read.parameters, loaders=evaluate.LOADERS)
    assert list(grid.sizes) == ["layers", "connected_layers", "batch_size", "input_seq_len"]
    assert prod(grid.sizes.values()) == 2**20


def test_the_million_example_runs_thinned(tmp_path):
    parameters = read_spec(MILLION).parameters
    thin = {name: list(value)[3::8] if isinstance(value, range) else value for name, value in parameters.items()}
    lines = ["[parameters]", *(f"{name} = {json.dumps(value)}" for name, value in thin.items())]
    (tmp_path / "thin.toml").write_text("\n".join(lines))
    summary = summary_of(tmp_path / "thin.toml", tmp_path / "sweep.nc")
    expected = ss.sweep(**thin)
    assert summary["points"] == expected.valid.size == 4 * 2 * 8 * 4
    assert summary["valid"] == int(expected.valid.sum()) < summary["points"]
    assert 0 < summary["fits"] == int(expected.fits.sum()) < summary["valid"]
    assert summary["best"]["tps"] == float(expected.tps.where(expected.fits).max())


def torus(tmp_path):
    """A 4x4 torus of 2x2 meshes: half of the L3 links go free in DeepStack's model."""
    level = {"hop_latency_ns": 1000, "link_bandwidth_gbytes_per_s": 50}
    layers = {"L3": {"kind": "torus2d", "shape": [4, 4]}, "L2": {"kind": "mesh2d", "shape": [2, 2]}}
    layers["L1"] = {"kind": "switch", "shape": [1, 1]}
    profile = {"schema_version": 1, "kind": "noc_hierarchy", "name": "torus"}
    path = tmp_path / "torus.json"
    path.write_text(json.dumps({**profile, "layers": {name: {**one, **level} for name, one in layers.items()}}))
    return path


def test_noc_describes_a_network(tmp_path):
    lines = shown("noc", torus(tmp_path)).splitlines()
    assert lines[0] == "torus: 64 devices, bisection 400 GB/s"
    assert lines[1] == "  L3 torus2d 4x4, 1000 ns, 50 GB/s per link"
    assert lines[-1].startswith('  link_model "deepstack" leaves ')
    described = json.loads(shown("noc", "gpu_node_8", "--json"))
    assert described["devices"] == 8
    assert described["uncharged_share"] == 0.0
    assert described["levels"]["L1"]["link_bandwidth_gbytes_per_s"] == 370
    assert described["sha256"]


def test_links_that_go_free_are_warned_of(tmp_path):
    system = ("--model", "llama-3.1-8b", "--memory", "fictional_stacked_dram", "--noc", torus(tmp_path), "--dp", "fill")
    result = run("estimate", *system)
    assert result.exit_code == 0
    share = dn.uncharged_shares(torus(tmp_path))[0]
    assert share > 0.1
    assert result.stderr == (
        f"warning: link_model \"deepstack\" leaves {share:.1%} of the route links of 'torus' uncharged; "
        '"physical" charges all\n'
    )
    assert run("estimate", *system, "--link-model", "physical").stderr == ""


def test_a_summary_of_pieces_is_that_of_the_whole(monkeypatch: pytest.MonkeyPatch):
    ds = ss.sweep(
        model="llama-3.2-1b", memory="fictional_stacked_dram", layers=[4, 8, 16], connected_layers=[2, 8],
        batch_size=[1, 3, 5, 9], input_seq_len=[64, 128, 256],
    )  # fmt: skip
    # ties, in other pieces than the first
    ds["tps"] = ds.tps.where(ds.tps < ds.tps.quantile(0.6), 77.0)
    whole = summary.summarize(ds)
    assert whole["best"] is not None
    monkeypatch.setattr(summary, "PIECE", 16)
    assert summary.summarize(ds) == whole
