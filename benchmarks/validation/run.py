"""
Fit roofline chips to measured decode throughputs, and write how far the predictions are.

python benchmarks/validation/run.py

Writes RESULTS.md and its figures beside this file, its errors into the README, and the fitted chips among the bundled
profiles.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

import stacksweep as ss
from stacksweep.calibrate import Calibration
from stacksweep.parity import scatter
from stacksweep.plot.palette import COLOURS, MARKERS

HERE = Path(__file__).resolve().parent
README = HERE.parents[1] / "README.md"
BEGIN, END = "<!-- validation: begin -->", "<!-- validation: end -->"
CHIPS = HERE.parents[1] / "profiles" / "chips"
DATA = HERE / "decode_vllm.csv"

PLATFORMS: dict[str, dict[str, Any]] = {
    "b200": {
        "title": "8 x NVIDIA B200",
        "models": "Llama 3.1 70B and 405B and Qwen3 235B-A22B",
        "deepstack": 0.129,
        "system": {"chip": "b200", "memory": "b200", "noc": "nvlink5_node_8", "overlap": "op-roofline"},
    },
    "mi325x": {
        "title": "4 x AMD MI325X",
        "models": "Llama 3.3 70B, Llama 3.1 405B and Qwen3 235B-A22B",
        "deepstack": 0.131,
        "system": {"chip": "mi325x", "memory": "mi325x", "noc": "infinity_fabric_node_4", "overlap": "serial"},
    },
}
"""Systems by name, and the error that DeepStack reports of its own predictions of these measurements."""

COMMON = {"routing": "expected", "include_lm_head": True}
"""What both systems do: tokens choose experts at random, and every step has its LM head."""

EFFICIENCIES = ("memory_efficiency", "compute_efficiency")
FIT = (*EFFICIENCIES, "operation_overhead")

VARIANTS: dict[str, dict[str, Any]] = {
    "as chosen": {},
    "overlap op-roofline": {"overlap": "op-roofline"},
    "overlap stage-roofline": {"overlap": "stage-roofline"},
    "overlap serial": {"overlap": "serial"},
    "an overhead per layer, not per operation": {"fit": (*EFFICIENCIES, "layer_overhead")},
    "and an overhead per pass": {"fit": (*FIT, "pass_overhead")},
    "and the bandwidth of the links": {"fit": (*FIT, "l1_bandwidth")},
    "and bandwidth and latency of the links": {"fit": (*FIT, "l1_bandwidth", "l1_latency")},
    "all experts read in every step": {"routing": "balanced"},
    "experts tensor parallel": {"moe_tp_mode": "keep"},
    "collectives hidden behind each layer": {"comm_overlap": "full"},
    "no overhead": {"fit": EFFICIENCIES},
}
"""What was tried: changes of the chosen call."""


TEMPLATE = """\
# How far predictions are from measured systems

Written by `python benchmarks/validation/run.py`.

Decode throughputs of vLLM (graphs on, weights and KV cache in 16 bits, tensor parallel over all GPUs, 1,024 tokens in
and 1,024 out), as published with DeepStack's artifact (tile-ai/DeepStack, `data/fig09/reference` and
`data/fig10/reference`, Apache-2.0), against roofline chips. The table is [decode_vllm.csv](decode_vllm.csv).
The 70B model of MI325X is Llama 3.3, which has the shape of Llama 3.1, under whose name it stands here.

* **Fitted**, for each platform from its measurements: `memory_efficiency`, `compute_efficiency` and
  `operation_overhead`, three numbers for all its models and batch sizes.
* **Not fitted**: peaks, bandwidths and links, which are those of the data sheets; 0.5 µs for a hop, an assumption; work
  and bytes of each operation, which follow from the models' configs.
* **Predicted**: in the columns "not seen", all rows of a model from a fit to the other two.

Mean size of the relative error:

{}

DeepStack's figures are those that its authors report for their own model on these measurements, and are given for
orientation: "not seen" rests on two other models of the same machine, three models are few, and all are measured at one
prompt and answer length. Nothing here says how far prefill, other lengths or other plans are off.

![predicted over measured](parity.png)

## By model

{}

![errors over the batch size](errors.png)

Solid: in sample; dotted: model not seen. Qwen3 on MI325X stands out: at 8 to 128 sequences it is faster than predicted.
A likely reason, which these data cannot settle, is that real tokens favour some experts, so that fewer different ones
are read than uniform chance would have it.

## What was fitted

{}

The bundled chips `b200-vllm` and `mi325x-vllm` have these numbers. An overhead of some 18 µs for each operation is more
than a launch: it stands for all that happens between the large kernels, and at small batches it is most of a step.

## What was tried

Each line changes the chosen call in one place. What does not help on models not seen was not kept. The overlap of each
platform, the parameters and the plan of the experts were chosen by these very errors, which makes them a little too
good; the lines show how much hangs on each choice. With "overlap serial" both platforms have the same call.

{}

Experts are expert parallel here (`moe_tp_mode` "replace"). The source gives the tensor-parallel size alone, with which
vLLM splits each expert unless told otherwise. Tensor-parallel experts of this model reduce the rows of all token-expert
pairs, where vLLM adds the pairs of a token up first and reduces one row each; dispatch and combine carry about as much
as that.

## Every row

{}
"""
"""The report, with room for its tables."""


def measurements(platform: str) -> pd.DataFrame:
    """Read the measurements of a platform."""
    table = pd.read_csv(DATA)
    return table[table.platform == platform].drop(columns="platform").reset_index(drop=True)


def fitted(platform: str, **changes: Any) -> Calibration:
    """Fit a platform."""
    call = {"fit": FIT, **PLATFORMS[platform]["system"], **COMMON, **changes}
    return ss.calibrate(measurements(platform), **call)


def chip_of(found: Calibration, platform: str) -> Any:
    """Name the chip that was fitted, and say what it stands for."""
    source = f"{found.chip.provenance.notes['source']}; {PLATFORMS[platform]['title']} under vLLM"
    description = (
        f"Fitted to decode throughputs of {PLATFORMS[platform]['models']} on {PLATFORMS[platform]['title']} "
        f"(vLLM, 16 bits), mean error {found.mean_error:.1%}; holds for memory {platform!r} and "
        f"noc {PLATFORMS[platform]['system']['noc']!r} with include_lm_head and routing 'expected'."
    )
    notes = {**found.chip.provenance.notes, "source": source, "description": description}
    provenance = replace(found.chip.provenance, notes=notes)
    # four digits: the standard errors leave no more
    numbers = {name: float(f"{getattr(found.chip, name):.4g}") for name in FIT}
    return replace(found.chip, name=f"{platform}-vllm", provenance=provenance, **numbers)


def parity_figure(results: dict[str, Calibration], path: Path) -> None:
    """Draw predictions over measurements of both platforms."""
    figure = Figure(figsize=(9, 9), layout="constrained")
    panels = figure.subplots(2, len(results), squeeze=False)
    for column, (platform, found) in enumerate(results.items()):
        for row, kind in enumerate(("predicted", "held_out")):
            scatter(panels[row][column], found.rows, "tps", kind, "model")
            error = found.mean_error if kind == "predicted" else found.held_out_error
            what = "all models fitted" if kind == "predicted" else "each model predicted from the others"
            panels[row][column].set_title(
                f"{PLATFORMS[platform]['title']}: {what}\nmean error {error:.1%}", fontsize=10
            )
            panels[row][column].set_xlabel("measured tokens/s")
            panels[row][column].set_ylabel("predicted tokens/s")
    figure.savefig(path, dpi=130)


def error_figure(results: dict[str, Calibration], path: Path) -> None:
    """Draw the errors over the batch size."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    panels = figure.subplots(1, len(results), sharey=True)
    for panel, (platform, found) in zip(panels, results.items(), strict=True):
        for place, (model, rows) in enumerate(found.rows.groupby("model", sort=False)):
            style = {"marker": MARKERS[place], "color": COLOURS[place], "markersize": 5}
            panel.plot(rows.batch_size, 100 * rows.error_tps, label=model, **style)
            panel.plot(rows.batch_size, 100 * rows.held_out_error_tps, linestyle=":", **style, markerfacecolor="none")
        panel.axhline(0, color="0.3", linewidth=1)
        panel.set_xscale("log", base=2)
        panel.set_xticks([2**n for n in range(0, 10, 3)], [str(2**n) for n in range(0, 10, 3)])
        panel.set_xlabel("batch size")
        panel.set_title(PLATFORMS[platform]["title"], fontsize=10)
        panel.grid(alpha=0.25)
    panels[0].set_ylabel("predicted over measured, less 1 (%)")
    panels[0].legend(fontsize="small", frameon=False)
    figure.savefig(path, dpi=130)


def lines_of(table: list[list[str]]) -> str:
    """Lay out a Markdown table, its first row the head."""
    head, *rows = ["| " + " | ".join(row) + " |" for row in table]
    return "\n".join([head, "|" + "---|" * len(table[0]), *rows])


def page(results: dict[str, Calibration], variants: dict[str, dict[str, Calibration]]) -> str:
    """Write the report."""
    titles = {platform: PLATFORMS[platform]["title"] for platform in results}
    by_model = [["platform", "model", "in sample", "not seen"]]
    numbers = [["platform", "parameter", "value", "standard error", "overlap"]]
    tried = [["change", *(f"{title}, {what}" for title in titles.values() for what in ("in sample", "not seen"))]]
    every = [["platform", "model", "batch", "measured tokens/s", "in sample", "error", "not seen", "error"]]
    for platform, found in results.items():
        title, system = titles[platform], PLATFORMS[platform]["system"]
        for model, group in found.group_errors().iterrows():
            by_model.append([title, str(model), *(f"{error:.1%}" for error in group)])
        for name, value in found.parameters.items():
            numbers.append(
                [title, f"`{name}`", f"{value:.3g}", f"{found.standard_errors[name]:.1g}", system["overlap"]]
            )
        for row in found.rows.itertuples():
            fits = (f"{row.predicted_tps:,.1f}", f"{row.error_tps:+.1%}")
            held_out = (f"{row.held_out_tps:,.1f}", f"{row.held_out_error_tps:+.1%}")
            every.append([platform, row.model, str(row.batch_size), f"{row.tps:,.2f}", *fits, *held_out])
    for words, fits_of in variants.items():
        errors_of = (error for found in fits_of.values() for error in (found.mean_error, found.held_out_error))
        tried.append([words, *(f"{error:.1%}" for error in errors_of)])
    return TEMPLATE.format(*map(lines_of, (overall_table(results), by_model, numbers, tried, every)))


def overall_table(results: dict[str, Calibration]) -> list[list[str]]:
    """Tabulate the errors of each platform."""
    table = [["platform", "rows", "in sample", "model not seen", "DeepStack, as published"]]
    for platform, found in results.items():
        errors = (found.mean_error, found.held_out_error, PLATFORMS[platform]["deepstack"])
        table.append([PLATFORMS[platform]["title"], str(len(found.rows)), *(f"{error:.1%}" for error in errors)])
    return table


def write_readme(results: dict[str, Calibration]) -> None:
    """Put the errors into the README, between the marks."""
    before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    text = f"{before}{BEGIN}\nMean size of the relative error:\n\n{lines_of(overall_table(results))}\n{END}{after}"
    README.write_text(text, encoding="utf-8")


def main() -> None:
    """Fit, predict, and write."""
    results = {platform: fitted(platform) for platform in PLATFORMS}
    for platform, found in results.items():
        print(f"{PLATFORMS[platform]['title']}\n\n{found}\n")
        (CHIPS / f"{platform}-vllm.toml").write_text(chip_of(found, platform).to_toml(), encoding="utf-8")
    variants = {
        words: {platform: fitted(platform, **changes) for platform in PLATFORMS} for words, changes in VARIANTS.items()
    }
    parity_figure(results, HERE / "parity.png")
    error_figure(results, HERE / "errors.png")
    (HERE / "RESULTS.md").write_text(page(results, variants), encoding="utf-8")
    write_readme(results)


if __name__ == "__main__":
    main()
