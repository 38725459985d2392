"""What bounds a point, and by how much the next would follow."""

from typing import Any

import numpy as np
import xarray as xr

from stacksweep.analysis.points import check_dataset
from stacksweep.columns import Array
from stacksweep.kernels.rows import COLLECTIVES
from stacksweep.parameters import ParameterError
from stacksweep.results import BOTTLENECK, COLLECTIVE

BOUNDS = (
    "invalid",
    "compute",
    "thermal_clock",
    "dram_bandwidth",
    "connectivity",
    "buffering",
    *COLLECTIVES,
    "overhead",
    "pipeline_transfer",
    "pipeline_bubble",
    "capacity",
)
"""What can bound a phase; the code is the position."""

CODES = {name: code for code, name in enumerate(BOUNDS)}

NEEDED = (*BOTTLENECK, "pp", "output_seq_len")
"""Results and coordinates that `bottleneck` reads."""


def bottleneck(ds: xr.Dataset) -> xr.Dataset:
    r"""
    Name what bounds each point in prefill and in decode, and by how much the next would follow.

    Parameters
    ----------
    ds : xarray.Dataset
        Of `sweep` with `outputs="bottleneck"`, or with that name among others; its arrays may be dask's.

    Returns
    -------
    xarray.Dataset
        Over the dimensions and coordinates of the points, for prefill and for all decode steps (`decode_…`):

        * `prefill_bound` : what takes longest, as a CF flag (`flag_values`, `flag_meanings`);
        * `prefill_next_bound` : what takes second longest, in the same flags;
        * `prefill_margin` : time of the first over that of the second, at least 1.

        Where the point cannot be, both flags are `invalid` and the margin is NaN. Where weights and KV cache do not
        fit, the bound is `capacity`, the next one is what takes longest, and the margin is what they need over what
        there is.

    Raises
    ------
    ParameterError
        If `ds` lacks a variable; the message names all that it lacks.

    See Also
    --------
    sensitivity : by how much a result follows each parameter.

    Notes
    -----
    Times are those of a device of the slowest pipeline stage. Each candidate has the time that the phase would take if
    all others took none:

    ==================== ==============================================================================================
    candidate            time
    ==================== ==============================================================================================
    compute              `compute_time` of the phase
    DRAM                 `memory_time` of the phase
    each collective      its `collective_time` in the phase
    overhead             `overhead_time` of the phase
    pipeline transfer    prefill: :math:`(pp - 1)` transfers; decode: a transfer for each generated token
    pipeline bubble      prefill: what the slowest stage waits while the prompt passes through the others,
                         :math:`latency - (period - transfer) - (pp - 1)\,transfer`;
                         decode: none, since its steps fill the pipeline
    ==================== ==============================================================================================

    The longest is the bound; of equal ones the first of this table. Compute and DRAM are called after what throttles
    them: compute is `thermal_clock` where `clock_scale` is below 1. DRAM is `buffering` where `buffering_limited` is
    true, since the bandwidth is then what the buffers sustain, whatever the layers give; otherwise `connectivity` where
    `connectivity_efficiency` is below 1; otherwise `dram_bandwidth`.

    A margin near 1 means that relief of the bound alone gains little. Where compute and DRAM are about equal in sum,
    single layers may still be bound by either; `memory_bound_time` says for how long.

    Examples
    --------
    >>> import stacksweep as ss
    >>> ds = ss.sweep(
    ...     model="llama-3.1-8b",
    ...     memory="fictional_stacked_dram",
    ...     layers=[8, 16],
    ...     connected_layers=8,
    ...     batch_size=[1, 16],
    ...     outputs="bottleneck",
    ... )
    >>> limits = ss.bottleneck(ds)
    >>> names = limits.decode_bound.attrs["flag_meanings"].split()
    >>> [[names[code] for code in row] for row in limits.decode_bound.values]
    [['connectivity', 'capacity'], ['dram_bandwidth', 'dram_bandwidth']]
    >>> limits.decode_margin.round(2).values.tolist()
    [[10.6, 1.28], [8.07, 4.29]]
    """
    check_dataset(ds)
    lacking = [name for name in NEEDED if not _has(ds, name)]
    if lacking:
        raise ParameterError(f'ds: lacks {", ".join(lacking)}; a sweep with outputs="bottleneck" has them')
    transfers = {"prefill": (ds["pp"] - 1) * ds["prefill_transfer"]}
    transfers["decode"] = ds["output_seq_len"] * ds["first_decode_transfer"]
    waiting = ds["prefill_latency"] - (ds["prefill_period"] - ds["prefill_transfer"]) - transfers["prefill"]
    # what the subtraction of nearly equal numbers leaves is not a wait
    bubbles = {"prefill": waiting.where(ds["pp"] > 1, 0.0), "decode": xr.zeros_like(waiting)}
    found: dict[str, xr.DataArray] = {}
    for phase in ("prefill", "decode"):
        names = (f"{phase}_bound", f"{phase}_next_bound", f"{phase}_margin")
        found |= zip(names, _bounds(ds, phase, transfers[phase], bubbles[phase]), strict=True)
        for name, words in zip(names[:2], (f"what bounds {phase}", f"what would bound {phase} next"), strict=True):
            found[name].attrs = {
                "units": "1",
                "long_name": words,
                "flag_values": np.arange(len(BOUNDS), dtype=np.int8),
                "flag_meanings": " ".join(BOUNDS),
            }
        words = f"time of what bounds {phase} over that of the next; what is needed over what there is for capacity"
        found[names[2]].attrs = {"units": "1", "long_name": words}
    return xr.Dataset(found, attrs=ds.attrs)


def _has(ds: xr.Dataset, name: str) -> bool:
    if name.endswith("_collective_time"):
        return name in ds.variables and COLLECTIVE in ds[name].dims and set(COLLECTIVES) <= set(ds[COLLECTIVE].values)
    return name in ds.variables


def _bounds(ds: xr.Dataset, phase: str, transfer: xr.DataArray, bubble: xr.DataArray) -> tuple[xr.DataArray, ...]:
    """Bound, next bound and margin of a phase."""
    collectives = ds[f"{phase}_collective_time"]
    found: tuple[xr.DataArray, ...] = xr.apply_ufunc(
        _two_longest,
        ds["valid"],
        ds["fits"],
        (ds["weight_bytes"] + ds["kv_bytes"]) / ds["capacity"],
        ds["clock_scale"] < 1,
        ds["buffering_limited"],
        ds["connectivity_efficiency"] < 1,
        ds[f"{phase}_compute_time"],
        ds[f"{phase}_memory_time"],
        *(collectives.sel({COLLECTIVE: name}, drop=True) for name in COLLECTIVES),
        ds[f"{phase}_overhead_time"],
        transfer,
        bubble,
        output_core_dims=[[], [], []],
        dask="parallelized",
        output_dtypes=[np.int8, np.int8, np.float64],
    )
    return found


def _two_longest(
    valid: Array, fits: Array, needed: Array, hot: Array, buffering: Array, recharging: Array, *times: Array
) -> tuple[Array, ...]:
    """Codes of the longest and the second longest time, and their ratio; see `bottleneck`."""
    unbuffered = np.where(recharging, CODES["connectivity"], CODES["dram_bandwidth"])
    codes: list[Any] = [
        np.where(hot, CODES["thermal_clock"], CODES["compute"]),
        np.where(buffering, CODES["buffering"], unbuffered),
        *(CODES[name] for name in (*COLLECTIVES, "overhead", "pipeline_transfer", "pipeline_bubble")),
    ]
    longest, first = times[0], codes[0]
    second_longest, second = np.full_like(longest, -np.inf), np.full_like(first, CODES["invalid"])
    for time, code in zip(times[1:], codes[1:], strict=True):
        ahead, behind = time > longest, time > second_longest
        second = np.where(ahead, first, np.where(behind, code, second))
        second_longest = np.where(ahead, longest, np.where(behind, time, second_longest))
        longest, first = np.where(ahead, time, longest), np.where(ahead, code, first)
    with np.errstate(divide="ignore", invalid="ignore"):
        margin = np.where(fits, longest / second_longest, needed)
    second = np.where(fits, second, first)
    first = np.where(fits, first, CODES["capacity"])
    return (
        np.where(valid, first, CODES["invalid"]).astype(np.int8),
        np.where(valid, second, CODES["invalid"]).astype(np.int8),
        np.where(valid, margin, np.nan).astype(np.float64),
    )
