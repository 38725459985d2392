"""Large sweeps: into files against the plain writing of the same bytes, lazily against in memory, on a cluster."""

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import stacksweep as ss
from cases import GRID_POINTS, grid
from measure import Figure, fastest, fastest_of_each, fresh_process

PEAK = """
def peak():
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
"""

STREAM = (
    """
import json, os, sys, time
from pathlib import Path
sys.path.insert(0, {folder!r})
import stacksweep
from cases import grid
"""
    + PEAK
    + """
stacksweep.sweep(**grid(10**4), to={path!r}, compression={compression!r}).close()
os.sync()
start = time.perf_counter()
result = stacksweep.sweep(**grid({points}), to={path!r}, compression={compression!r})
print(json.dumps({{"seconds": time.perf_counter() - start, "peak": peak(), "result": result.nbytes}}))
"""
)

PLAIN = """
import itertools, json, os, time
import netCDF4, numpy
with netCDF4.Dataset({path!r}) as there:
    sizes = {{name: len(dim) for name, dim in there.dimensions.items()}}
    layout = [
        (name, variable.dtype, variable.dimensions, variable.chunking())
        for name, variable in there.variables.items()
        if len(variable.dimensions) == len(sizes)
    ]
os.unlink({path!r})
os.sync()
BLOCK = 2**21
start = time.perf_counter()
with netCDF4.Dataset({path!r}, "w") as file:
    file.set_fill_off()
    for name, size in sizes.items():
        file.createDimension(name, size)
    for name, dtype, dims, chunks in layout:
        file.createVariable(name, dtype, dims, chunksizes=chunks)
        file[name].set_auto_maskandscale(False)
    chunks = layout[0][3]
    steps, points = list(chunks), int(numpy.prod(chunks))
    for axis in reversed(range(len(steps))):
        grown = min(sizes[layout[0][2][axis]], steps[axis] * max(1, BLOCK // points))
        points, steps[axis] = points // steps[axis] * grown, grown
    values = {{dtype: numpy.ones(steps, dtype) for _, dtype, _, _ in layout}}
    for at in itertools.product(*(range(0, sizes[d], step) for d, step in zip(layout[0][2], steps))):
        box = tuple(slice(a, min(a + step, sizes[d])) for a, step, d in zip(at, steps, layout[0][2]))
        inside = tuple(slice(0, one.stop - one.start) for one in box)
        for name, dtype, _, _ in layout:
            file[name][box] = values[dtype][inside]
with open({path!r}, "rb") as file:
    os.fsync(file.fileno())
seconds = time.perf_counter() - start
print(json.dumps({{"seconds": seconds, "bytes": os.path.getsize({path!r})}}))
"""
"""Writes as many bytes in the same layout, all ones, by netCDF4 alone."""


def run(quick: bool) -> list[Figure]:
    """Measure sweeps that are not held in memory as a whole; files go where `tempfile` puts them."""
    return _files(quick) + _lazy(quick) + _cluster(quick)


def _files(quick: bool) -> list[Figure]:
    points, power = (10 * GRID_POINTS, "10⁷") if quick else (100 * GRID_POINTS, "10⁸")
    what = f"{power} points into"
    seconds: dict[str, list[float]] = {"none": [], "plain": [], "zlib": [], "zstd": []}
    figures, peaks = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            for kind in seconds:
                path = str(Path(folder) / "large.nc")
                options = {"path": path, "points": points, "compression": kind, "folder": str(Path(__file__).parent)}
                found = fresh_process((PLAIN if kind == "plain" else STREAM).format(**options))
                seconds[kind].append(found["seconds"])
                peaks.append(found.get("peak", 0))
                nbytes = found.get("result", 0) or found["bytes"]
                if kind != "none":
                    # the plain file takes the layout of the one before it
                    Path(path).unlink()
    best = {kind: min(of_kind) for kind, of_kind in seconds.items()}
    figures.append(Figure("stream_points_per_s", f"{what} NetCDF, uncompressed", points / best["none"], "points/s"))
    figures.append(Figure("stream_bytes_per_s", f"{what} NetCDF, uncompressed", nbytes / 1e6 / best["none"], "MB/s"))
    ratio = 100 * best["plain"] / best["none"]
    words = f"{what} NetCDF, share of the rate of netCDF4 alone"
    figures.append(Figure("stream_over_plain", words, ratio, "%", 60, "at least"))
    for kind in ("zlib", "zstd"):
        words = f"{what} NetCDF, compressed by {kind}"
        figures.append(Figure(f"stream_{kind}", words, points / best[kind], "points/s"))
    figures.append(Figure("stream_peak", f"peak of the process, {what} NetCDF", max(peaks) / 2**20, "MiB", 1536))
    return figures


def _lazy(quick: bool) -> list[Figure]:
    points, power = (GRID_POINTS, "10⁶") if quick else (10 * GRID_POINTS, "10⁷")
    whole = grid(points)
    ss.sweep(**grid(10**4), chunks="auto").compute()
    calls = [partial(ss.sweep, **whole), lambda: ss.sweep(**whole, chunks={"layers": 1}).compute()]
    eager, lazy = fastest_of_each(calls, 3 if quick else 5)
    words = f"{power} points in ten lazy chunks, over in memory"
    return [Figure("lazy_over_eager", words, lazy / eager, "×", 1.3)]


def _cluster(quick: bool) -> list[Figure]:
    from distributed import Client, LocalCluster

    points, power = (GRID_POINTS, "10⁶") if quick else (10 * GRID_POINTS, "10⁷")
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        for workers in (1, 2):
            options: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
            with LocalCluster(n_workers=workers, **options) as cluster, Client(cluster):

                def save(size: int, workers: int = workers) -> None:
                    chunks = {"layers": 1, "connected_layers": 2}
                    ss.save(ss.sweep(**grid(size), chunks=chunks), Path(folder) / f"{workers}.zarr")

                save(10**4)
                seconds[workers] = fastest(partial(save, points), 3)
    words = f"{power} points into Zarr, two processes of a cluster over one"
    return [Figure("cluster", words, seconds[1] / seconds[2], "× as fast")]
