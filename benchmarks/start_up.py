"""What a fresh process pays: the import, and the first call with and without compiled kernels on disk."""

import tempfile

from cases import MEMORY, MODEL
from measure import Figure, fresh_process

FIRST_CALL = f"""
import json, time
start = time.perf_counter()
import numba, xarray
base = time.perf_counter()
import stacksweep
imported = time.perf_counter()
stacksweep.sweep(model={MODEL!r}, memory={MEMORY!r}, layers=[8, 12], batch_size=[1, 16])
done = time.perf_counter()
print(json.dumps({{"import": imported - base, "call": done - imported}}))
"""


def run(quick: bool) -> list[Figure]:
    """Start interpreters with a compile cache of their own; the first finds it empty."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {"NUMBA_CACHE_DIR": cache}
        cold = fresh_process(FIRST_CALL, environment)
        warm = [fresh_process(FIRST_CALL, environment) for _ in range(3 if quick else 7)]
    return [
        Figure("import", "import, beyond numba and xarray", min(one["import"] for one in warm), "s", 0.3),
        Figure("warm_call", "first call of a process", min(one["call"] for one in warm), "s", 1.5),
        Figure("cold_call", "first call ever: kernels are compiled", cold["call"], "s", 25),
    ]
