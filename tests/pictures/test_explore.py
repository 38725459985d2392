"""The page to explore a sweep: what it holds, by value, and the call that it writes."""

import base64
import builtins
import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import stacksweep as ss
from stacksweep import explorer
from stacksweep.explorer.call import call_of
from stacksweep.explorer.table import table_of
from stacksweep.parameters import ParameterError

LIBRARY = "/* plotly.js */"


@pytest.fixture(scope="module")
def ds() -> xr.Dataset:
    return ss.sweep(
        model=["llama-3.1-8b", "qwen3-8b"],
        memory="fictional_stacked_dram",
        noc="gpu_node_8",
        layers=[4, 8, 16],
        connected_layers=[4, 8],
        tp=[1, 2, 4],
        dp="fill",
        batch_size=[8, 64],
        outputs=["main", "prefill_collective_time", "energy_per_token"],
    )


def meta_of(html: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="meta">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    meta: dict[str, Any] = json.loads(found[1])
    return meta


def columns_of(html: str) -> dict[str, Any]:
    """Values of each column, as the page reads them."""
    meta = meta_of(html)
    arrays = []
    for number, kind in enumerate(meta["types"]):
        found = re.search(rf'id="column-{number}">([^<]*)<', html)
        assert found is not None
        arrays.append(np.frombuffer(gzip.decompress(base64.b64decode(found[1])), f"<{kind}"))
    return {
        one["name"]: np.array(one["labels"])[arrays[one["array"]]] if one["kind"] == "axis" else arrays[one["array"]]
        for one in meta["columns"]
    }


def test_page_holds_every_valid_point(ds: xr.Dataset) -> None:
    html = explorer.page(table_of(ds, 1000), call_of(ds), LIBRARY, "A <title> & more")
    meta, columns = meta_of(html), columns_of(html)
    valid = int(ds.valid.sum())
    assert (meta["points"], meta["valid"], meta["total"]) == (valid, valid, ds.valid.size)
    assert meta["masked"] == {"connected_layers": ds.valid.size - valid}
    for row in range(0, valid, 7):
        labels = {name: columns[name][row] for name in ("model", "layers", "connected_layers", "tp", "batch_size")}
        point = ds.sel(labels)
        for name in ("ttft", "tps", "kv_bytes", "weight_bytes", "energy_per_token", "dp", "fits", "warnings"):
            assert columns[name][row] == np.asarray(point[name].item()).astype(columns[name].dtype), name
        collective = point.prefill_collective_time.sel(collective="tp_all_reduce").item()
        assert columns["prefill_collective_time[tp_all_reduce]"][row] == np.float32(collective)
    assert "prefill_collective_time[ep_dispatch]" not in columns
    assert meta["shared"]["input_seq_len"] == 2048
    assert meta["first"] == {"x": "ttft", "y": "tps", "colour": "model"}
    assert "<title>A &lt;title&gt; &amp; more</title>" in html
    assert LIBRARY in html


def test_units_and_directions_stand_with_the_columns(ds: xr.Dataset) -> None:
    columns = {one["name"]: one for one in table_of(ds, 1000).meta["columns"]}
    ttft = columns["ttft"]
    assert (ttft["unit"], ttft["factor"], ttft["prefixed"], ttft["higher"]) == ("s", 1.0, True, False)
    assert (columns["tps"]["unit"], columns["tps"]["higher"]) == ("tokens/s", True)
    assert (columns["kv_bytes"]["unit"], columns["kv_bytes"]["kind"]) == ("B", "number")
    assert (columns["layers"]["kind"], columns["layers"]["labels"]) == ("axis", [4, 8, 16])
    assert columns["fits"]["kind"] == "boolean"
    assert (columns["warnings"]["flags"][0], columns["warnings"]["kind"]) == ("idle_ranks", "flags")


def test_page_asks_for_nothing_from_elsewhere(ds: xr.Dataset) -> None:
    html = explorer.page(table_of(ds, 1000), call_of(ds), LIBRARY, "t")
    assert not re.findall(r"(?:src|href)=[\"'](?!data:)", html)
    assert "http" not in html.replace(json.dumps(call_of(ds)), "")


def test_same_page_for_the_same_dataset(ds: xr.Dataset) -> None:
    pages = [explorer.page(table_of(ds, 30), call_of(ds), LIBRARY, "t") for _ in range(2)]
    assert pages[0] == pages[1]


def test_sample_keeps_extremes_and_fronts(ds: xr.Dataset) -> None:
    table = table_of(ds, 40)
    html = explorer.page(table, None, LIBRARY, "t")
    columns = columns_of(html)
    assert (table.meta["points"], table.meta["valid"]) == (40, int(ds.valid.sum()))
    for name in ("ttft", "tps", "kv_bytes"):
        assert columns[name].min() == np.float32(ds[name].min())
        assert columns[name].max() == np.float32(ds[name].max())
    rows = {(float(a), float(b)) for a, b in zip(columns["ttft"], columns["tps"], strict=True)}
    for where in (None, ds.fits):
        front = ss.pareto(ds, minimize="ttft", maximize="tps", where=where)
        assert {
            (float(np.float32(a)), float(np.float32(b))) for a, b in zip(front.ttft, front.tps, strict=True)
        } <= rows
    places = list(
        zip(*(columns[name] for name in ("model", "layers", "connected_layers", "tp", "batch_size")), strict=True)
    )
    assert len(set(places)) == 40


def test_lazy_and_eager_datasets_give_the_same_page(ds: xr.Dataset) -> None:
    pytest.importorskip("dask")
    lazy = ds.chunk({"layers": 1})
    assert explorer.page(table_of(lazy, 40), None, LIBRARY, "t") == explorer.page(table_of(ds, 40), None, LIBRARY, "t")


def test_points_without_order_and_foreign_datasets() -> None:
    table = xr.Dataset(
        {"a": ("point", [1.0, 2.0, np.nan]), "b": ("point", [3, 2, 1]), "word": ("point", ["x", "y", "z"])},
        {"size": ("point", [5, 6, 7]), "none": float("nan")},
    )
    found = table_of(table, 10)
    assert [one["name"] for one in found.meta["columns"]] == ["point", "size", "a", "b"]
    assert found.meta["shared"] == {"none": None}
    assert found.meta["first"] == {"x": "point", "y": "a", "colour": "point"}
    html = explorer.page(found, call_of(table), LIBRARY, "t")
    assert meta_of(html)["call"] is None
    np.testing.assert_array_equal(columns_of(html)["size"], [5, 6, 7])


def test_text_cannot_leave_its_script() -> None:
    table = xr.Dataset({"a": ("m", [1.0, 2.0])}, {"m": ["</script><b>", "%%META%%"]})
    html = explorer.page(table_of(table, 10), None, LIBRARY, "%%CODE%%</title>")
    assert meta_of(html)["columns"][0]["labels"] == ["</script><b>", "%%META%%"]
    assert "</script><b>" not in html
    assert "<title>%%CODE%%&lt;/title&gt;</title>" in html


def test_call_of_selected_points(ds: xr.Dataset) -> None:
    call = call_of(ds)
    assert call is not None
    assert call["columns"] == {name: name for name in ("model", "layers", "connected_layers", "tp", "batch_size", "dp")}
    assert call["fixed"]["memory"] == '"fictional_stacked_dram"'
    assert call["fixed"]["include_lm_head"] == "False"
    assert call["options"] == {
        "outputs": "['main', 'prefill_collective_time', 'energy_per_token']",
        "dtype": '"float64"',
    }
    assert call["sources"] == {"model": {}, "chip": {}, "memory": {}, "noc": {}}
    part = call_of(ds.sel(layers=8, tp=2))
    assert part is not None
    assert (part["fixed"]["layers"], part["fixed"]["dp"]) == ("8", "4")
    assert call_of(ds.sel(layers=8).drop_vars("layers")) is None


def test_call_names_profiles_of_ones_own(tmp_path: Path) -> None:
    memory = ss.load_memory("fictional_stacked_dram").to_dict() | {"name": "mine"}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(memory))
    for given, source in ((str(path), json.dumps(str(path))), (memory, None)):
        own = ss.sweep(model="llama-3.1-8b", memory=given, layers=[8], outputs="tps")
        call = call_of(own)
        assert call is not None
        text = call["fixed"]["memory"]
        assert text == source if source else eval(text)["name"] == "mine"


def test_explore_writes_one_file_or_none(ds: xr.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "_plotly", lambda: LIBRARY)
    page = tmp_path / "page.html"
    ss.explore(ds, page)
    assert "<title>llama-3.1-8b, qwen3-8b · plena · fictional_stacked_dram · gpu_node_8</title>" in page.read_text()
    ss.explore(ds, page, title="Mine", most=20)
    assert meta_of(page.read_text())["points"] == 20
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        ss.explore(ds, tmp_path / "none" / "page.html")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        ss.explore(ds, tmp_path)


@pytest.mark.parametrize(
    ("change", "most", "message"),
    [
        (lambda ds: ds.ttft, 10, "ds: got DataArray, needs an xarray.Dataset"),
        (lambda ds: ds[["valid"]], 10, "ds: has no variable of numbers, needs at least one to explore"),
        (
            lambda ds: ds.sel(layers=[4], connected_layers=[8]),
            10,
            "ds: has no valid point, needs at least one to explore",
        ),
        (lambda ds: ds, 0, "most: got 0, needs a whole number of at least 1"),
        (lambda ds: ds, 1.5, "most: got 1.5, needs a whole number of at least 1"),
    ],
)
def test_each_wrong_argument_has_one_clear_message(
    ds: xr.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any, most: Any, message: str
) -> None:
    monkeypatch.setattr(explorer, "_plotly", lambda: LIBRARY)
    with pytest.raises(ParameterError) as error:
        ss.explore(change(ds), tmp_path / "page.html", most=most)
    assert str(error.value) == message
    assert not list(tmp_path.iterdir())


def test_a_missing_library_says_what_to_install(
    ds: xr.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("plotly"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModuleNotFoundError, match=r"explore needs plotly; install stacksweep\[explore\]"):
        ss.explore(ds, tmp_path / "page.html")


def test_a_profile_with_the_name_of_a_bundled_one_stays_itself(tmp_path: Path) -> None:
    mine = json.loads(json.dumps(ss.load_memory("fictional_stacked_dram").to_dict()))
    mine["dram"]["memory_frequency_hz"] *= 2
    path = tmp_path / "fictional_stacked_dram.json"
    path.write_text(json.dumps(mine))
    for memory, source in ((mine, repr(mine)), (path, json.dumps(str(path))), ("h200", '"h200"')):
        made = ss.sweep(model="llama-3.1-8b", memory=memory, batch_size=[1, 2], outputs="tps")
        call = call_of(made)
        assert call is not None
        assert call["fixed"]["memory"] == source
        again = ss.sweep(model="llama-3.1-8b", memory=eval(source), batch_size=[1, 2], outputs="tps")
        np.testing.assert_array_equal(again.tps, made.tps)


def test_parameters_over_several_dimensions_are_exact() -> None:
    clocks = xr.DataArray([[1e9 / 3, 1e9 / 7], [1e9, 1.23456789e9]], dims=("i", "j"))
    memories = xr.DataArray(np.array([["h200", "b200"], ["h100_sxm", "h200"]]), dims=("i", "j"))
    made = ss.sweep(model="llama-3.1-8b", memory=memories, frequency_hz=clocks, batch_size=[1, 2])
    html = explorer.page(table_of(made, 100), call_of(made), LIBRARY, "t")
    columns, call = columns_of(html), call_of(made)
    assert call is not None
    assert call["columns"] == {"memory": "memory", "frequency_hz": "frequency_hz", "batch_size": "batch_size"}
    np.testing.assert_array_equal(columns["frequency_hz"], np.repeat(clocks.values.ravel(), 2))
    assert columns["memory"].tolist() == np.repeat(memories.values.ravel(), 2).tolist()
    np.testing.assert_array_equal(columns["tps"], made.tps.values.ravel().astype(np.float32))
