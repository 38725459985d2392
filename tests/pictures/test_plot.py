"""Pictures, by what their artists hold: data, labels, units; and every message."""

import doctest
import importlib
import math
import sys
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure

import deepstack_noc as dn
import stacksweep as ss
from stacksweep.parameters import ParameterError

mpl.use("Agg")
from stacksweep import plot
from stacksweep.plot import fronts, grids, networks, palette, quantities, times
from stacksweep.plot.loads import link_loads, links_of


@pytest.fixture(scope="module")
def ds() -> xr.Dataset:
    """Stacks, plans and loads of which some cannot be and some do not fit."""
    return ss.sweep(
        model="llama-3.1-8b",
        memory="fictional_stacked_dram",
        noc="gpu_node_8",
        layers=[4, 8, 16],
        connected_layers=[4, 8],
        tp=[1, 2, 4, 8],
        dp="fill",
        batch_size=[8, 64, 512],
        outputs="all",
    )


@pytest.fixture
def ax() -> Any:
    return Figure().subplots()


def named(ax: Any) -> dict[str, Any]:
    return {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}


def text_of(axis: Any, value: float) -> str:
    return str(axis.get_major_formatter()(value))


def test_lines_have_the_values_of_the_dataset(ds: xr.Dataset, ax: Any) -> None:
    got = plot.lines(ds, "ttft", "batch_size", "tp", sel={"layers": 16, "connected_layers": 8}, ax=ax)
    assert got is ax
    lines = named(ax)
    assert list(lines) == ["1", "2", "4", "8"]
    for tp in ds.tp.values:
        line = lines[str(tp)]
        np.testing.assert_array_equal(line.get_xdata(), [8, 64, 512])
        np.testing.assert_array_equal(line.get_ydata(), ds.ttft.sel(layers=16, connected_layers=8, tp=tp))
    assert ax.get_ylabel() == "time to first token (s)"
    assert ax.get_xlabel() == "sequences served together by the whole system"
    assert ax.get_title(loc="left") == "layers 16, connected layers 8"
    assert ax.get_legend().get_title().get_text() == "tp"
    assert ax.get_xscale() == "log"
    assert [text_of(ax.xaxis, tick) for tick in ax.get_xticks()] == ["8", "64", "512"]
    looks = {(line.get_color(), line.get_marker(), str(line.get_linestyle())) for line in lines.values()}
    assert len({look[0] for look in looks}) == len({look[1] for look in looks}) == 4


def test_masked_points_are_gaps_and_points_that_do_not_fit_are_hollow(ds: xr.Dataset, ax: Any) -> None:
    chosen = {"connected_layers": 8, "tp": 1, "batch_size": 64}
    plot.lines(ds, "tps", "layers", sel=chosen, ax=ax)
    part = ds.sel(chosen)
    filled, hollow = ax.lines
    assert not part.valid.values[0]
    assert np.isnan(filled.get_ydata()[0])
    outside = part.valid.values & ~part.fits.values
    assert outside.any()
    np.testing.assert_array_equal(hollow.get_xdata(), part.layers.values[outside])
    assert hollow.get_markerfacecolor() == "white"
    assert set(filled.get_markevery()) == set(np.flatnonzero(~outside))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["does not fit"]


def test_what_is_not_drawn_is_optimised(ds: xr.Dataset, ax: Any) -> None:
    plot.lines(ds, "tps", "layers", where=ds.fits, ax=ax)
    wanted = ss.best(ds, "tps", over=["connected_layers", "tp", "batch_size"], where=ds.fits)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), wanted.tps.where(wanted.feasible))
    assert ax.get_title(loc="left") == "best tps over connected layers, tp, batch size"


def test_one_result_at_the_optimum_of_another(ds: xr.Dataset, ax: Any) -> None:
    plot.lines(ds, "ttft", "layers", objective="tps", ax=ax)
    wanted = ss.best(ds, "tps", over=["connected_layers", "tp", "batch_size"])
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), wanted.ttft)


def test_where_is_selected_with_the_dataset(ds: xr.Dataset, ax: Any) -> None:
    chosen = {"layers": 16, "connected_layers": 8, "tp": 8}
    plot.lines(ds, "ttft", "batch_size", sel=chosen, where=ds.ttft < 1, ax=ax)
    part = ds.ttft.sel(chosen)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), part.where(part < 1))


def test_lines_over_words_and_over_a_coordinate(ax: Any) -> None:
    table = xr.Dataset(
        {"tps": ("plan", [3.0, 1.0, 2.0], {"units": "s-1"})},
        {"plan": ["a", "b", "c"], "size": ("plan", [30, 10, 20])},
    )
    plot.lines(table, "tps", "size", ax=ax)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [10, 20, 30])
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [1, 2, 3])
    assert ax.get_ylabel() == "tps (1/s)"
    other = Figure().subplots()
    plot.lines(table, "tps", "plan", ax=other)
    assert [text_of(other.xaxis, place) for place in (0, 1, 2)] == ["a", "b", "c"]


def test_many_lines_follow_a_sequence_of_colours(ax: Any) -> None:
    table = xr.Dataset({"t": (("a", "b"), np.ones((9, 2)))}, {"a": np.arange(9), "b": [0, 1]})
    plot.lines(table, "t", "b", "a", ax=ax)
    brightness = [float(np.sum(line.get_color()[:3])) for line in ax.lines]
    assert brightness == sorted(brightness)
    assert len({line.get_marker() for line in ax.lines[:7]}) == 7


def test_heatmap_has_cells_gaps_and_hatches(ds: xr.Dataset, ax: Any) -> None:
    chosen = {"connected_layers": 8, "tp": 1}
    plot.heatmap(ds, "ttft", "batch_size", "layers", sel=chosen, ax=ax)
    mesh = ax.collections[0]
    wanted = ds.ttft.sel(chosen).transpose("layers", "batch_size").values
    np.testing.assert_array_equal(np.ma.filled(mesh.get_array(), np.nan).reshape(wanted.shape), wanted)
    assert [text_of(ax.yaxis, place) for place in (0, 1, 2)] == ["4", "8", "16"]
    assert ax.get_ylabel() == "DRAM layers of the stack"
    bar = next(other for other in ax.figure.axes if other is not ax)
    assert bar.get_ylabel() == "time to first token (s)"
    assert {text.get_text() for text in ax.get_legend().get_texts()} == {"does not fit", "no point"}
    assert len(ax.texts) == np.isfinite(wanted).sum()
    hatched = next(one for one in ax.collections if one.get_label() == "does not fit")
    part = ds.sel(chosen)
    outside = np.argwhere((part.valid & ~part.fits).transpose("layers", "batch_size").values)
    corners = [path.get_extents().min + 0.5 for path in hatched.get_paths()]
    np.testing.assert_array_equal(corners, outside[:, ::-1])


def test_heatmap_of_a_coordinate_at_the_optimum(ds: xr.Dataset, ax: Any) -> None:
    plot.heatmap(ds, "tp", "batch_size", "layers", objective="tps", where=ds.fits, ax=ax)
    wanted = ss.best(ds, "tps", over=["connected_layers", "tp"], where=ds.fits)
    shown = np.ma.filled(ax.collections[0].get_array(), np.nan).reshape(3, 3)
    np.testing.assert_array_equal(shown, wanted.tp.where(wanted.feasible).transpose("layers", "batch_size"))


def test_front_is_that_of_all_points(ds: xr.Dataset, ax: Any) -> None:
    plot.pareto(ds, "ttft", "tps", where=ds.fits, ax=ax)
    wanted = ss.pareto(ds, minimize="ttft", maximize="tps", where=ds.fits)
    line = next(one for one in ax.lines if one.get_label() == "_front")
    np.testing.assert_array_equal(np.sort(line.get_xdata()), np.sort(wanted.ttft))
    np.testing.assert_array_equal(np.sort(line.get_ydata()), np.sort(wanted.tps))
    assert line.get_drawstyle() == "steps-post"
    cloud = next(one for one in ax.collections if isinstance(one, PathCollection))
    assert len(cloud.get_offsets()) == int((ds.fits & ds.valid).sum())
    assert cloud.get_rasterized()
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == [f"front: {wanted.sizes['point']} points", f"{int((ds.fits & ds.valid).sum())} points"]


def test_many_points_are_thinned_without_a_visible_loss(ax: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = 1 + rng.random(60_000), 1 + rng.random(60_000)
    table = xr.Dataset({"x": ("point", x), "y": ("point", y)})
    plot.pareto(table, "x", "y", minimize=["x", "y"], ax=ax)
    offsets = np.asarray(ax.collections[0].get_offsets())
    columns, rows = fronts.CELLS

    def cells(xs: Any, ys: Any) -> set[tuple[int, int]]:
        a = np.minimum((xs - x.min()) / (x.max() - x.min()) * columns, columns - 1).astype(int)
        b = np.minimum((ys - y.min()) / (y.max() - y.min()) * rows, rows - 1).astype(int)
        return set(zip(a.tolist(), b.tolist(), strict=True))

    assert cells(offsets[:, 0], offsets[:, 1]) == cells(x, y)
    assert len(offsets) == len(cells(x, y))
    line = next(one for one in ax.lines if one.get_label() == "_front")
    wanted = ss.pareto(table, minimize=["x", "y"])
    np.testing.assert_array_equal(line.get_xdata(), np.sort(wanted.x))
    assert f"{len(offsets):,} of 60,000 drawn, one per pixel" in [t.get_text() for t in ax.get_legend().get_texts()]


@pytest.mark.parametrize("phase", ["prefill", "first_decode", "decode"])
def test_bars_add_up_to_the_time_of_the_phase(ds: xr.Dataset, ax: Any, phase: Any) -> None:
    chosen = {"layers": 16, "connected_layers": 8, "batch_size": 64}
    plot.time_split(ds, "tp", phase, sel=chosen, ax=ax)
    part = ds.sel(chosen)
    bars = {group.get_label(): np.array([bar.get_height() for bar in group]) for group in ax.containers}
    whole = part[times.PHASES[phase][0]].values
    np.testing.assert_allclose(sum(bars.values()), whole, rtol=1e-12)
    np.testing.assert_allclose(bars["DRAM"], part[f"{phase}_memory_bound_time"], rtol=1e-12)
    collective = part[f"{phase}_collective_time"].sel(collective="tp_all_reduce")
    np.testing.assert_allclose(bars["tp all reduce"], collective, rtol=1e-12)
    assert "transfer" not in bars


def test_compute_is_the_rest_also_where_nothing_overlaps(ax: Any) -> None:
    one = ss.sweep(
        model="llama-3.1-8b",
        memory="fictional_stacked_dram",
        layers=16,
        batch_size=[4, 8],
        overlap="serial",
        outputs="all",
    )
    plot.time_split(one, "batch_size", share=True, ax=ax)
    bars = {group.get_label(): np.array([bar.get_height() for bar in group]) for group in ax.containers}
    np.testing.assert_allclose(bars["compute"], one.decode_compute_time / one.decode_time, rtol=1e-9)
    np.testing.assert_allclose(bars["DRAM"], one.decode_memory_time / one.decode_time, rtol=1e-9)
    assert ax.get_ylim() == (0, 1)


@pytest.mark.parametrize("phase", ["prefill", "first_decode", "decode"])
def test_bars_of_a_roofline_chip_are_those_of_its_operations(ax: Any, phase: Any) -> None:
    chip = {"layer_overhead": 1e-6, "pass_overhead": 2e-5}
    one = ss.sweep(
        model="qwen3-30b-a3b",
        chip="b200",
        memory="b200",
        batch_size=[1, 256],
        outputs="all",
        overlap="op-roofline",
        **chip,
    )
    plot.time_split(one, "batch_size", phase, ax=ax)
    bars = {group.get_label(): np.array([bar.get_height() for bar in group]) for group in ax.containers}
    bound = one[f"{phase}_operation_memory_bound_time"].sum("operation")
    compute = (one[f"{phase}_operation_time"]).sum("operation") - bound
    np.testing.assert_allclose(bars.get("compute", np.zeros(2)), compute, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(bars["DRAM"], bound, rtol=1e-9)
    np.testing.assert_allclose(bars["overhead"], one[f"{phase}_overhead_time"], rtol=1e-12)
    np.testing.assert_allclose(sum(bars.values()), one[times.PHASES[phase][0]], rtol=1e-9)


@pytest.fixture(scope="module")
def report() -> ss.Estimate:
    return ss.estimate(
        model="llama-3.1-8b", memory="fictional_stacked_dram", noc="gpu_node_8", layers=16, tp=4, pp=2, batch_size=8
    )


def test_roofline_has_each_stage_below_the_roof(report: ss.Estimate, ax: Any) -> None:
    plot.roofline(report, ax=ax)
    lines = named(ax)
    assert list(lines) == ["prefill", "first decode step", "roof"]
    for phase, label in (("prefill", "prefill"), ("first_decode", "first decode step")):
        done = [(getattr(stage, phase), getattr(stage, f"{phase}_seconds")) for stage in report.stages]
        xs, ys = lines[label].get_xdata(), lines[label].get_ydata()
        np.testing.assert_array_equal(xs, [one.compute_time / one.memory_time for one, _ in done])
        np.testing.assert_array_equal(ys, [one.compute_time / seconds for one, seconds in done])
        assert (ys <= np.minimum(1, xs) * (1 + 1e-12)).all()
    xs, ys = lines["roof"].get_data()
    np.testing.assert_array_equal(ys, np.minimum(1, xs))
    assert ax.get_xscale() == ax.get_yscale() == "log"


def test_topology_colours_links_by_their_load(ax: Any) -> None:
    plot.topology("gpu_node_8", "all_to_all", nbytes=1000, ax=ax)
    loads = next(one for one in ax.collections if isinstance(one, LineCollection) and one.get_label() == "loads")
    # eight links into the switch and eight out of it, each with what a device sends to the seven others
    assert loads.get_array().tolist() == [7000.0] * 16
    devices = next(one for one in ax.collections if one.get_label() == "devices")
    assert len(np.unique(np.asarray(devices.get_offsets()), axis=0)) == 8
    assert ax.get_title(loc="left") == "gpu_node_8: all to all of 1 kB over tp 8, direct"


@pytest.mark.parametrize("noc", dn.bundled_nocs())
@pytest.mark.parametrize(
    ("collective", "dim"), [("all_to_all", "dp"), ("all_gather", "dp"), ("pipeline_transfer", "pp")]
)
def test_loads_agree_with_the_bottleneck_and_the_energy(noc: str, collective: str, dim: str) -> None:
    network = dn.load_noc(noc)
    sizes = {"tp": network.devices // 4, dim: 4}
    loads, algorithm = link_loads(network, sizes, dim, 4096, collective, "physical")
    slow = dn.bottleneck(noc, sizes, dim, 4096, collective, "physical")
    assert algorithm == slow.algorithm
    if collective == "all_to_all" and slow.source != slow.target:
        assert loads[slow.source, slow.target] == slow.load
    arguments = (noc, sizes, 4096) if dim == "pp" else (noc, sizes, dim, 4096)
    rates = {f"l{level}_pj_per_bit": 1.0 for level in (1, 2, 3)}
    cost = getattr(dn, collective)(*arguments, link_model="physical", **rates)
    assert sum(loads.values()) * 8 == pytest.approx(cost.energy, rel=1e-12)
    assert set(loads) <= set(links_of(network, "physical"))


def test_places_of_devices_differ_and_centers_stand_among_them() -> None:
    network = dn.load_noc("torus_mesh_switch_64")
    _, middle, inner = network.topology.sizes
    at = [networks.position(network, (n // (middle * inner), n // inner % middle, n % inner)) for n in range(64)]
    assert len({tuple(one) for one in at}) == 64
    first = np.mean(at[:inner], axis=0)
    np.testing.assert_allclose(networks.position(network, (0, 0, "C")), first)


def variable(units: str, words: str = "x") -> xr.DataArray:
    return xr.DataArray(0.0, attrs={"units": units, "long_name": words})


@pytest.mark.parametrize(
    ("units", "values", "label", "value", "text"),
    [
        ("s", [0.0, 0.0025], "x (ms)", 0.0025, "2.5"),
        ("s", [1200.0], "x (s)", 1200.0, "1,200"),
        ("s", [0.999999999999], "x (s)", 0.5, "0.5"),
        ("byte", [16e9], "x (GB)", 4e9, "4"),
        ("byte s-1", [3.35e12], "x (TB/s)", 3.35e12, "3.35"),
        ("pJ", [2e9, 5e9], "x (mJ)", 2e9, "2"),
        ("1", [0.5], "x", 2048.0, "2,048"),
        ("1", [5e5], "x", 5e5, "500k"),
        ("s-1", [1e9], "x (1/s)", 1e9, "1G"),
        ("K W-1", [0.2], "x (K/W)", 0.2, "0.2"),
        ("pJ bit-1", [3.9], "x (pJ/bit)", 3.9e0, "3.9"),
        ("s", [1e-6, 10.0], "x", 1e-3, "1 ms"),
        ("byte", [1e3, 1e12], "x", 1e9, "1 GB"),
        ("s", [math.nan], "x (s)", 1.0, "1"),
    ],
)
def test_units_and_prefixes(units: str, values: list[float], label: str, value: float, text: str) -> None:
    got, formatter = quantities.label_and_formatter(variable(units), np.array(values))
    assert (got, formatter(value)) == (label, text)


def test_words_drop_remarks() -> None:
    axis = variable("1", "layers connected to the chip; all of them when only `layers` is given")
    assert quantities.words(axis) == "layers connected to the chip"
    assert quantities.words(variable("byte", "bytes per stored weight, from the chip unless given")) == (
        "bytes per stored weight"
    )


def test_scales_follow_the_values() -> None:
    assert quantities.is_geometric(np.array([1, 4, 16, 64]))
    assert quantities.is_geometric(np.array([1, 2, 5, 10]))
    assert not quantities.is_geometric(np.array([4, 8, 12, 16]))
    assert not quantities.is_geometric(np.array([0, 1, 2]))
    assert not quantities.is_geometric(np.array([1, 2]))
    assert quantities.is_wide(np.array([1.0, 31.0, np.nan]))
    assert not quantities.is_wide(np.array([0.0, 31.0]))
    assert not quantities.is_wide(np.array([np.nan]))


def test_colours_and_markers_are_all_different() -> None:
    looks = [palette.style(number, grids.MOST_LINES, ordered=False) for number in range(grids.MOST_LINES)]
    assert len({(look["color"], str(look["linestyle"])) for look in looks}) == grids.MOST_LINES


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ds: plot.lines(ds, "ttfd", "layers"), "y: ds has no variable 'ttfd'; did you mean ttft"),
        (lambda ds: plot.lines(ds, "ttft", "layer"), "x: ds has no axis 'layer'; there are layers, connected_layers"),
        (lambda ds: plot.lines(ds, "ttft", "layers", "layers"), "hue: 'layers' lies along 'layers', as x does"),
        (lambda ds: plot.lines(ds, "ttft", "layers", sel={"tp": 3}), "sel: tp has no label 3; there are 1, 2, 4, 8"),
        (lambda ds: plot.lines(ds, "ttft", "layers", sel={"xp": 3}), "sel: ds has no dimension 'xp'; there are layers"),
        (lambda ds: plot.lines(ds, "ttft", "layers", sel=[3]), "sel: got list, needs a mapping"),
        (lambda ds: plot.lines(ds, "ttft", "layers", where=True), "where: got bool, needs an xarray.DataArray"),
        (
            lambda ds: plot.lines(ds, "ttft", "layers", where=ds.valid.assign_coords(layers=ds.layers + 1)),
            "where: its labels of 'layers' are not those of ds",
        ),
        (lambda ds: plot.lines(ds, "ttft", "layers", where=ds.ttft), "where: got values of float64, needs booleans"),
        (lambda ds: plot.lines(ds, "model", "layers"), "y: 'model' holds object, needs numbers"),
        (lambda ds: plot.lines(ds, "prefill_pairs", "layers"), "maximize: must be true or false"),
        (lambda ds: plot.lines(ds, "prefill_collective_time", "layers"), "sel: 'prefill_collective_time' has a value"),
        (lambda ds: plot.lines(ds.ttft, "ttft", "layers"), "ds: got DataArray, needs an xarray.Dataset"),
        (lambda ds: plot.heatmap(ds, "ttft", "layers", "layers"), "y: 'layers' lies along 'layers', as x does"),
        (lambda ds: plot.pareto(ds, "ttft", "ttft"), "y: got 'ttft', which is x too"),
        (lambda ds: plot.pareto(ds, "ttft", "layers"), "y: more of 'layers' may be good or bad; name it in minimize"),
        (lambda ds: plot.pareto(ds, "ttft", "tps", maximize="tp"), "maximize: got 'tp', needs some of ttft, tps"),
        (lambda ds: plot.time_split(ds, "tp"), "sel: choose a label of layers, connected_layers, batch_size"),
        (lambda ds: plot.time_split(ds, "tp", "all"), "phase: got 'all', needs one of prefill, first_decode, decode"),
        (lambda ds: plot.time_split(ds[["ttft"]], "tp"), "ds: lacks decode_time, first_decode_transfer"),
        (lambda _: plot.roofline({}), "report: got dict, needs what ss.estimate returns"),
        (lambda _: plot.topology("gpu_node_8", "gather"), "collective: got 'gather', needs None or one of all_reduce"),
        (lambda _: plot.topology("gpu_node_8", nbytes=0.5), "nbytes: got 0.5, needs a whole number of at least 0"),
        (lambda _: plot.topology("gpu_node_8", sizes={"tp": 2, "dp": 4}), "dim: is missing, needs one of tp, dp"),
    ],
)
def test_each_wrong_argument_has_one_clear_message(ds: xr.Dataset, call: Any, message: str) -> None:
    with pytest.raises(ParameterError) as error:
        call(ds)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_hidden_collectives_cannot_be_split() -> None:
    hidden = ss.sweep(
        model="llama-3.1-8b",
        memory="fictional_stacked_dram",
        noc="gpu_node_8",
        layers=16,
        tp=8,
        batch_size=[8],
        comm_overlap="full",
        outputs="all",
    )
    with pytest.raises(ParameterError, match="comm_overlap is 'full'"):
        plot.time_split(hidden, "batch_size")


def test_a_network_that_is_too_large_is_refused() -> None:
    layout = dn.load_noc("gpu_node_8").to_dict()
    layout["layers"]["L1"]["shape"] = [1, 144]
    with pytest.raises(ParameterError, match="has 144 devices; a diagram of more than 128 cannot be read"):
        plot.topology(layout)


@pytest.mark.parametrize("module", [grids, fronts, times, networks], ids=lambda module: module.__name__)
def test_examples_of_the_documentation(module: Any) -> None:
    import matplotlib.pyplot as plt

    for example in doctest.DocTestFinder(exclude_empty=True).find(module):
        assert doctest.DocTestRunner().run(example).failed == 0
        plt.close("all")


def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "stacksweep.plot")
    with pytest.raises(ModuleNotFoundError, match=r"stacksweep.plot needs matplotlib; install stacksweep\[plot\]"):
        importlib.import_module("stacksweep.plot")
