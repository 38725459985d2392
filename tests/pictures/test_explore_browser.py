"""The page in a browser: what it draws, selects and exports. Needs Chromium, playwright and plotly."""

import csv
import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import stacksweep as ss

pytest.importorskip("plotly")
sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("there is no Chromium", allow_module_level=True)

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def ds() -> xr.Dataset:
    return ss.sweep(
        model="llama-3.1-8b",
        memory="fictional_stacked_dram",
        noc="gpu_node_8",
        layers=[4, 8, 16],
        connected_layers=[4, 8],
        tp=[1, 2, 4],
        dp="fill",
        batch_size=[8, 64, 512],
    )


@pytest.fixture(scope="module")
def page(ds: xr.Dataset, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = tmp_path_factory.mktemp("page") / "sweep.html"
    ss.explore(ds, path)
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        tab = browser.new_page(viewport={"width": 1500, "height": 1000})
        tab.errors = []
        tab.on("pageerror", lambda error: tab.errors.append(str(error)))
        tab.on("request", lambda one: one.url.startswith(("file:", "data:", "blob:")) or tab.errors.append(one.url))
        tab.goto(f"file://{path}")
        tab.wait_for_selector("body[data-ready]", timeout=60_000)
        yield tab
        assert tab.errors == []
        browser.close()


def evaluate(page: Any, script: str) -> Any:
    return page.evaluate(f"() => {{ {script} }}")


def test_page_in_a_browser(ds: xr.Dataset, page: Any, tmp_path: Path) -> None:
    kept = ds.valid & ds.fits
    assert evaluate(page, "return state.kept.length") == int(kept.sum())
    assert page.inner_text("#counts").startswith(f"All {int(ds.valid.sum())} valid points are on this page")

    wanted = ss.pareto(ds, minimize="ttft", maximize="tps", where=ds.fits)
    front = evaluate(page, "return state.fronts[0].map((i) => [column('ttft').at(i), column('tps').at(i)])")
    np.testing.assert_array_equal(np.array(front), np.stack([wanted.ttft, wanted.tps], 1).astype(np.float32))

    page.click("#take-front")
    assert page.inner_text("#selected") == str(wanted.sizes["point"])
    names: dict[str, Any] = {}
    exec(page.inner_text("#call"), names)
    got = names["ds"]
    assert sorted(got.tps.values) == sorted(wanted.tps.values)
    assert sorted(got.ttft.values) == sorted(wanted.ttft.values)

    with page.expect_download() as download:
        page.click("#csv")
    download.value.save_as(tmp_path / "points.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "points.csv").read_text())))
    assert len(rows) == wanted.sizes["point"]
    for row in rows:
        labels = {name: int(row[name]) for name in ("layers", "connected_layers", "tp", "batch_size")}
        assert float(row["tps"]) == pytest.approx(ds.tps.sel(labels).item(), rel=1e-6)
        assert (row["model"], row["fits"], int(row["dp"])) == ("llama-3.1-8b", "true", 8 // labels["tp"])

    page.click("#add")
    page.select_option("#constraints select >> nth=0", "ttft")
    page.fill("#constraints input", "2.5")
    page.wait_for_function(f"() => state.kept.length === {int((kept & (ds.ttft < 2.5)).sum())}")
    page.select_option("#boolean-fits", "")
    assert evaluate(page, "return state.kept.length") == int((ds.valid & (ds.ttft < 2.5)).sum())
    page.click("#constraints button")
    evaluate(page, "const s = document.getElementById('slider-tp'); s.value = 1; s.dispatchEvent(new Event('input'))")
    page.wait_for_function(f"() => state.kept.length === {int(ds.valid.sel(tp=2).sum())}")

    page.select_option("#facet", "layers")
    sizes = evaluate(page, "return state.panels.map((panel) => panel.indices.length)")
    assert sizes == [int(ds.valid.sel(tp=2, layers=height).sum()) for height in ds.layers]
    page.select_option("#facet", "")
    page.click("#clear")

    evaluate(page, "Plotly.relayout('plot', { dragmode: 'select' })")
    box = page.locator("#plot .nsewdrag").first.bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] - 2, steps=4)
    page.mouse.up()
    page.wait_for_function(f"() => state.selected.length === {int(ds.valid.sel(tp=2).sum())}")
    evaluate(page, "choose([0]); detail(0)")
    first = ds.where(ds.valid).stack(point=ds.valid.dims).dropna("point", subset=["tps"]).isel(point=0)
    cells = dict(row.split("\t") for row in page.inner_text("#details").splitlines() if "\t" in row)
    assert cells["layers"] == str(int(first.layers))
    assert cells["tps"] == f"{float(f'{first.tps.item():.5g}'):,g} tokens/s"
    assert not page.errors


def test_call_and_table_have_parameters_exactly(page: Any, tmp_path: Path) -> None:
    clocks = xr.DataArray([[1e9 / 3, 1e9 / 7], [1e9, 1.23456789e9]], dims=("i", "j"))
    memories = xr.DataArray(np.array([["h200", "b200"], ["h100_sxm", "h200"]]), dims=("i", "j"))
    links = [1e11 / 3, 2e11]
    made = ss.sweep(
        model="llama-3.1-8b", memory=memories, frequency_hz=clocks, noc="gpu_node_8", dp=8, l1_bandwidth=links
    )
    path = tmp_path / "page.html"
    ss.explore(made, path)
    tab = page.context.browser.new_page()
    tab.goto(f"file://{path}")
    tab.wait_for_selector("body[data-ready]", timeout=60_000)
    text = tab.evaluate("choose(state.kept); document.getElementById('call').textContent")
    names: dict[str, Any] = {}
    exec(text, names)
    order = made.to_dataframe()
    order = order[order["fits"]].reset_index()
    assert 2 <= len(order) <= 8
    for name in ("frequency_hz", "memory", "l1_bandwidth", "tps", "ttft"):
        assert names["ds"][name].values.tolist() == order[name].tolist()
    table = tab.evaluate("csvOf(state.selected, meta.columns, meta.shared)")
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [float(row["frequency_hz"]) for row in rows] == order.frequency_hz.tolist()
    assert [float(row["l1_bandwidth"]) for row in rows] == order.l1_bandwidth.tolist()
    tab.close()
