"""The most memory that a process holds during a sweep, beside the size of the result."""

from pathlib import Path

from cases import GRID_POINTS
from measure import Figure, fresh_process

SWEEP = """
import json, sys
from pathlib import Path
sys.path.insert(0, {folder!r})
import stacksweep
from cases import grid
result = stacksweep.sweep(**grid({points}))
status = Path("/proc/self/status").read_text().splitlines()
peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
print(json.dumps({{"peak": peak, "result": result.nbytes}}))
"""


def run(quick: bool) -> list[Figure]:
    """Read the high-water mark of a process that makes one sweep (Linux)."""
    folder = str(Path(__file__).parent)
    points = GRID_POINTS if quick else 10 * GRID_POINTS
    found = fresh_process(SWEEP.format(folder=folder, points=points))
    power = "10⁶" if quick else "10⁷"
    allowed = 1.25 * found["result"] + 300e6
    return [
        Figure("peak_memory", f"peak of the process, grid of {power} points", found["peak"] / 1e6, "MB", allowed / 1e6),
        Figure("result_size", "result of that grid", found["result"] / 1e6, "MB"),
    ]
