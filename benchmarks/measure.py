"""How things are measured and shown: times by their minimum, fresh processes, figures beside their targets."""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

VERSIONS_OF = ("stacksweep", "numpy", "numba", "xarray")


@dataclass(frozen=True)
class Figure:
    """
    One measured number.

    Parameters
    ----------
    key : str
        Name in the JSON file.
    words : str
        What was measured.
    value : float
    unit : str
    target : float, optional
        What it should be.
    sense : {"at most", "at least"}
        On which side of the target it should be.
    """

    key: str
    words: str
    value: float
    unit: str
    target: float | None = None
    sense: Literal["at most", "at least"] = "at most"

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None:
            return None
        return self.value <= self.target if self.sense == "at most" else self.value >= self.target


def elapsed(function: Callable[[], Any], kept: list[Any]) -> float:
    """Seconds of one call, whose result is kept."""
    start = time.perf_counter()
    kept.append(function())
    return time.perf_counter() - start


def fastest(function: Callable[[], Any], repeats: int) -> float:
    """Seconds of the fastest of several calls."""
    return fastest_of_each([function], repeats)[0]


def fastest_of_each(functions: Sequence[Callable[[], Any]], repeats: int) -> list[float]:
    """
    Seconds of the fastest call of each function, the functions taking turns.

    Whatever else the machine does only adds time, so the minimum is the steadiest measure; taking turns gives all of
    them the same chances. Results are kept until the end, so that each call needs memory that is fresh to the process,
    as a result that somebody wants to keep does.
    """
    kept: list[Any] = []
    rounds = [[elapsed(function, kept) for function in functions] for _ in range(repeats)]
    return [min(times) for times in zip(*rounds, strict=True)]


def fresh_process(code: str, environment: Mapping[str, str] | None = None) -> dict[str, float]:
    """Run code in a new interpreter; returns the numbers that it prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **(environment or {})},
        check=True,
        capture_output=True,
        text=True,
    )
    numbers: dict[str, float] = json.loads(done.stdout)
    return numbers


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "cores": str(cores),
        "memory": f"{memory / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in VERSIONS_OF},
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def rounded(value: float, unit: str) -> str:
    """Write a value with two digits that count, and its unit."""
    if value >= 1e6:
        text = f"{float(f'{value:.2g}') / 1e6:g} million"
    elif value >= 100:
        text = f"{float(f'{value:.2g}'):,.0f}"
    else:
        text = f"{value:.2g}"
    return f"{text} {unit}" if unit else text


def table(figures: Sequence[Figure]) -> str:
    """Lay figures out as a Markdown table."""
    rows = [("what", "measured", "target", "met")]
    for figure in figures:
        target = "" if figure.target is None else f"{figure.sense} {rounded(figure.target, figure.unit)}"
        met = {None: "", True: "yes", False: "**no**"}[figure.met]
        rows.append((figure.words, rounded(figure.value, figure.unit), target, met))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
