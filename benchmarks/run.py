"""
Measure how fast stacksweep is, and print a table.

python benchmarks/run.py [--quick] [--json FILE] [--write]

Every ratio compares two things measured in this one run. Add a part by writing a module with
`run(quick: bool) -> list[Figure]` and naming it in `PARTS`.
"""

import argparse
import importlib
import json
from collections.abc import Sequence
from pathlib import Path

from measure import Figure, machine, table

PARTS = ("single_chip", "systems", "start_up", "peak_memory", "network", "growth", "large")

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "RESULTS.md"
README = HERE.parent / "README.md"
BEGIN, END = "<!-- speed: begin -->", "<!-- speed: end -->"


def measure_all(quick: bool) -> dict[str, list[Figure]]:
    """Run all parts, one after the other."""
    found = {}
    for name in PARTS:
        print(f"measuring {name} ...", flush=True)
        found[name] = importlib.import_module(name).run(quick)
    return found


def as_json(figures: Sequence[Figure], on: dict[str, str]) -> str:
    """Write figures and the machine as JSON."""
    entries = {
        figure.key: {"value": figure.value, "unit": figure.unit, "target": figure.target, "met": figure.met}
        for figure in figures
    }
    return json.dumps({"machine": on, "figures": entries}, indent=2) + "\n"


def results_page(figures: Sequence[Figure], on: dict[str, str]) -> str:
    """Write the page of results."""
    lines = [
        "# Measured speed",
        "",
        "Written by `python benchmarks/run.py --write`.",
        "",
        table(figures),
        "",
        "How to read it:",
        "",
        "* All is measured warm and on all cores, but for the last rows, which start fresh processes.",
        "* A time is the fastest of several, since whatever else a machine does only adds to it. Both sides of a ratio",
        "  take turns in one process. Results are kept, so that each call needs memory that is fresh to the process.",
        '* "Filling its arrays once" makes arrays of the shapes and types of the result and fills each with a constant',
        "  (`numpy.full`), in memory that is fresh, too.",
        '* "Plain Python" is `tests/reference`, the scalar program that the tests compare with. It evaluates a random',
        "  sample of the grid's points, and both must agree to 1e-12.",
        "* The grid of one device runs over layers, connected layers, batch size and prompt length, with the outputs",
        "  `main`; all of its points are valid. `benchmarks/cases.py` and `benchmarks/systems.py` have every number.",
        "* The target of the peak memory is the result, a quarter of it, and 300 MB, in which the interpreter and all",
        "  imported packages are included.",
        "* Large sweeps write where `tempfile` puts files, each in a process of its own. netCDF4 alone writes as many",
        "  bytes in the same layout, all ones; both end with `fsync`. Processes of a cluster have one thread each.",
        "",
        "The machine:",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in on.items()),
    ]
    return "\n".join(lines) + "\n"


def put_table(page: str, figures: Sequence[Figure]) -> str:
    """Replace the table that stands between the two marks of a page."""
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{table(figures)}\n{END}{after}"


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description="Measure the speed of stacksweep.")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, and nothing of 10⁷ points")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a JSON file")
    parser.add_argument("--write", action="store_true", help="write RESULTS.md and the table in README.md")
    options = parser.parse_args()
    if options.quick and options.write:
        parser.error("--write needs all figures; leave --quick out")
    figures = [figure for part in measure_all(options.quick).values() for figure in part]
    on = machine()
    if options.json:
        options.json.write_text(as_json(figures, on), encoding="utf-8")
    if options.write:
        RESULTS.write_text(results_page(figures, on), encoding="utf-8")
        README.write_text(put_table(README.read_text(encoding="utf-8"), figures), encoding="utf-8")
    print("\n" + ", ".join(f"{name} {value}" for name, value in on.items()) + "\n")
    print(table(figures))
    missed = [figure.words for figure in figures if figure.met is False]
    print("\nAll targets are met." if not missed else "\nMissed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
