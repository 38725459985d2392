"""Several processes and threads at once, disks that fail, and code that changes under the compiled kernels."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import stacksweep as ss
from strategies import bitwise_equal

SOURCES = Path(ss.__file__).parent

SWEEP = """
import sys
from concurrent.futures import ThreadPoolExecutor
import stacksweep as ss

def sweep(dtype):
    return ss.sweep(
        model=["llama-3.2-1b", "gpt-oss-20b"], memory="fictional_stacked_dram", layers=[3, 4], connected_layers=[1, 4],
        input_seq_len=50, output_seq_len=[1, 300], routing=["balanced", "random"], outputs="all", dtype=dtype,
    )
"""

SMALL_KERNELS = """
import numpy as np
from stacksweep.kernels.decode import floor_sum
from stacksweep.kernels.block import SCATTER

for dtype in (np.float64, np.float32, np.uint8):
    block = np.arange(12).astype(dtype).reshape(1, 3, 4)
    out = np.zeros(12, dtype)
    offsets = np.zeros(1, np.int64), np.arange(3) * 4, np.arange(4)
    SCATTER[np.dtype(dtype)](block, offsets, False, out)
    print(out.tolist())
print(floor_sum(50, 96, 7, 95))
"""
"""Kernels of the package that compile quickly."""


def start(code: str, cache: Path | str | None, *arguments: str, path: Path | None = None) -> subprocess.Popen[str]:
    """A fresh interpreter, to which warnings are errors, with a cache directory of its own or with the usual one."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = str(cache)
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    """What a process printed; it must not fail, nor say anything else."""
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    return out


def run(code: str, cache: Path | str | None, *arguments: str, path: Path | None = None) -> str:
    return finish(start(code, cache, *arguments, path=path))


def files(folder: Path) -> dict[str, float]:
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


# --- processes -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the small kernels print, compiled by one process alone."""
    return run(SMALL_KERNELS, tmp_path_factory.mktemp("alone"))


def test_small_kernels_print_numbers(small: str):
    assert small.splitlines()[0] == str([float(n) for n in range(12)])
    assert small.splitlines()[2] == str(list(range(12)))
    assert int(small.splitlines()[3]) == sum((7 * j + 95) // 96 for j in range(50))


@pytest.mark.parametrize("round_", range(2))
def test_four_processes_on_an_empty_cache(tmp_path: Path, small: str, round_: int):
    processes = [start(SMALL_KERNELS, tmp_path) for _ in range(4)]
    assert [finish(process) for process in processes] == [small] * 4
    before = files(tmp_path)
    assert len(before) == 8
    # what they left behind is whole and is used
    assert run(SMALL_KERNELS, tmp_path) == small
    assert files(tmp_path) == before


def test_processes_with_different_types_on_an_empty_cache(tmp_path: Path):
    """The whole model, compiled by processes at once for double and for single precision; two threads in each."""
    code = SWEEP + (
        "with ThreadPoolExecutor(2) as pool:\n"
        "    one, other = pool.map(sweep, sys.argv[2:])\n"
        "one.to_netcdf(sys.argv[1] + '-0.nc')\n"
        "other.to_netcdf(sys.argv[1] + '-1.nc')\n"
    )
    cache = tmp_path / "cache"
    types = {"a": ("float64", "float64"), "b": ("float32", "float64")}
    for process in [start(code, cache, str(tmp_path / name), *pair) for name, pair in types.items()]:
        finish(process)
    before = files(cache)
    finish(start(code, cache, str(tmp_path / "c"), "float32", "float32"))
    # compiled once for all of them
    assert files(cache) == before

    namespace: dict[str, Any] = {}
    exec(SWEEP, namespace)
    expected = {dtype: namespace["sweep"](dtype) for dtype in ("float64", "float32")}
    assert expected["float64"].valid.sum() == 24
    for name, pair in (types | {"c": ("float32", "float32")}).items():
        for number, dtype in enumerate(pair):
            assert bitwise_equal(xr.load_dataset(tmp_path / f"{name}-{number}.nc"), expected[dtype]), (name, number)


def test_kernels_are_compiled_for_one_set_of_types():
    """numba can mix up files of a kernel that two processes compile for different types at once."""
    code = (
        SWEEP
        + """
import gc
import pandas as pd
from numba.core.dispatcher import Dispatcher

sweep("float64"), sweep("float32")
ss.estimate(model="llama-3.2-1b", memory="h200", include_lm_head=True)
ss.sweep(model="llama-3.2-1b", memory="h200", points=pd.DataFrame({"batch_size": [1, 2], "kv_read_bytes": [0.3, 1]}))
ss.sweep(
    model=["llama-3.2-1b", "gpt-oss-20b"], memory="h200", noc="gpu_node_8", tp=[1, 2, 8], pp=[1, 2], dp="fill",
    routing=["random", "balanced"], link_model=["deepstack", "physical"], outputs="all",
)
kernels = [
    one for one in gc.get_objects()
    if isinstance(one, Dispatcher) and one.py_func.__module__.split(".")[0] in ("stacksweep", "deepstack_noc")
]
assert len(kernels) > 20
print([one.py_func.__qualname__ for one in kernels if len(one.signatures) > 1])
"""
    )
    assert run(code, os.environ.get("NUMBA_CACHE_DIR")) == "[]\n"


# --- caches that cannot be used --------------------------------------------------------------------------------------

ONE_KERNEL = "from stacksweep.kernels.decode import ceil_sum\nprint(ceil_sum(1.0, 3.0, 2.0))\n"


def test_a_cache_directory_that_cannot_be(tmp_path: Path):
    (tmp_path / "file").touch()
    assert run(ONE_KERNEL, tmp_path / "file" / "cache") == "4.0\n"
    assert run(ONE_KERNEL, "/proc/nowhere") == "4.0\n"


def test_a_cache_directory_that_is_not_there_yet(tmp_path: Path):
    assert run(ONE_KERNEL, tmp_path / "new" / "cache") == "4.0\n"
    assert files(tmp_path / "new" / "cache")


NOTHING_CAN_BE_WRITTEN = """
import numba.core.caching

def refuse(self):
    raise PermissionError(13, "Permission denied")

numba.core.caching._CacheLocator.ensure_cache_path = refuse
"""


def test_no_place_can_be_written_to(tmp_path: Path):
    assert run(NOTHING_CAN_BE_WRITTEN + ONE_KERNEL, tmp_path) == "4.0\n"
    assert not files(tmp_path)


DISK_FAILS = """
import errno
import os
import shutil
import numba.core.caching
from stacksweep.kernels.decode import ceil_sum
from deepstack_noc import _jit

@_jit.kernel
def twice(x):
    return 2 * x

folder = os.environ["NUMBA_CACHE_DIR"]
{failure}
print(ceil_sum(1.0, 3.0, 2.0), twice(2))
"""
FAILURES = {
    "vanishes": "shutil.rmtree(folder)",
    "becomes a file": "shutil.rmtree(folder); open(folder, 'w').close()",
    "is full": (
        "def full(self, path):\n    raise OSError(errno.ENOSPC, 'No space left on device')\n"
        "numba.core.caching.IndexDataCacheFile._open_for_write = full"
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_disk_that_fails_between_import_and_first_call(tmp_path: Path, failure: str):
    code = tmp_path / "fails.py"
    code.write_text(DISK_FAILS.format(failure=FAILURES[failure]))
    cache = tmp_path / "cache"
    cache.mkdir()
    assert run(f"import runpy; runpy.run_path({str(code)!r})", cache) == "4.0 4\n"


def test_cached_kernels_know_when_code_that_they_call_has_changed(tmp_path: Path):
    shutil.copytree(SOURCES, tmp_path / "src" / "stacksweep", ignore=shutil.ignore_patterns("__pycache__"))
    code = f"""
import numpy as np
import stacksweep
from stacksweep.kernels import experts, rows
assert stacksweep.__file__.startswith({str(tmp_path)!r}), stacksweep.__file__
model, plan, load, out = (np.ones(1, dtype) for dtype in (rows.MODEL, rows.PLAN, rows.LOAD, rows.EXPERTS))
plan["moe_dp"], plan["routing_group"], load["batch_size"] = 2, experts.BALANCED, 3
experts.expert_load(model[0], plan[0], load[0], 1.0, 1.0, out[0])
print(out["tokens"][0])
"""
    cache = tmp_path / "cache"
    assert run(code, cache, path=tmp_path / "src") == "2.0\n"
    helper = tmp_path / "src" / "stacksweep" / "kernels" / "cycles.py"
    source = helper.read_text()
    assert source.count("np.ceil(a / b)") == 1
    helper.write_text(source.replace("np.ceil(a / b)", "np.floor(a / b) + 7.0"))
    assert run(code, cache, path=tmp_path / "src") == "19.0\n"
    helper.write_text(source)
    assert run(code, cache, path=tmp_path / "src") == "2.0\n"


# --- threads ---------------------------------------------------------------------------------------------------------


def test_sweeps_in_several_threads():
    given: dict[str, Any] = {
        "memory": "fictional_stacked_dram",
        "layers": range(2, 14),
        "connected_layers": 2,
        "batch_size": range(1, 65),
        "input_seq_len": [64, 500],
        "output_seq_len": [1, 200],
        "routing": "random",
    }
    calls = [{"model": model, "dtype": dtype} for model in ("llama-3.2-1b", "gpt-oss-20b") for dtype in ("f8", "f4")]
    alone = [ss.sweep(**given, **call) for call in calls]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda call: ss.sweep(**given, **call), calls * 3))
    for number, ds in enumerate(together):
        assert bitwise_equal(ds, alone[number % len(calls)])
        assert ds.attrs == alone[number % len(calls)].attrs
    assert not np.array_equal(alone[0].ttft, alone[2].ttft)


# --- import ----------------------------------------------------------------------------------------------------------

HEAVY = ("pydantic", "typer", "rich", "dask", "distributed", "matplotlib", "netCDF4", "zarr", "scipy.optimize")


def test_import_is_light(tmp_path: Path):
    code = f"import sys, stacksweep; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert run(code, tmp_path) == "[]\n"
    # and it compiles nothing
    assert not files(tmp_path)


def test_public_names():
    assert set(ss.__all__) <= set(dir(ss))
    assert len(set(ss.__all__)) == len(ss.__all__)
