"""By how much results follow parameters."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from stacksweep import chips, network, space, tables
from stacksweep.analysis.points import check_dataset, shown
from stacksweep.columns import Array, Column
from stacksweep.evaluate import LOADERS, check_size, sweep
from stacksweep.kernels import rows
from stacksweep.parameters import BY_NAME, PARAMETERS, ParameterError, did_you_mean, parameter
from stacksweep.profiles import RooflineChip
from stacksweep.profiles.roofline import NUMBERS, OPERAND_BITS
from stacksweep.results import BY_NAME as RESULTS_BY_NAME
from stacksweep.results import Result
from stacksweep.space import Space

if TYPE_CHECKING:
    import pandas as pd

PARAMETER = "parameter"
"""Dimension of the parameters."""

REAL = tuple(known.name for known in PARAMETERS if known.kind == "number")
"""Parameters that take any number within their limits."""


def sensitivity(
    *,
    of: str | Sequence[str] = ("ttft", "tps"),
    by: str | Sequence[str] | None = None,
    step: float = 0.01,
    points: Any = None,
    **parameters: Any,
) -> xr.Dataset:
    r"""
    Find by how much results follow parameters: their elasticities, at every point of a sweep.

    Parameters
    ----------
    of : str or sequence of str
        Results that are real numbers.
    by : str or sequence of str, optional
        Parameters that are real numbers, given or from the profiles; by default all that every point has.
    step : float
        Natural logarithm of the factor by which a parameter is moved either way; above 0 and at most 1.
    points, **parameters
        As those of `sweep`.

    Returns
    -------
    xarray.Dataset
        A variable for each result, with the elasticities along `parameter` before the dimensions of the sweep; `valid`
        and `reason` are those of the sweep. An elasticity of 1 means that one percent more of the parameter gives one
        percent more of the result; of -1, one percent less; of 0, that they have nothing to do with each other there.

    Raises
    ------
    ParameterError
        If an argument is wrong; if a parameter in `by` is no real number (sweep whole numbers instead), or a profile
        does not have it.

    See Also
    --------
    tornado : parameters sorted by how much they matter.
    sample : uncertain parameters as distributions.

    Notes
    -----
    The elasticity of a result y by a parameter x is

    .. math:: \frac{d \ln y}{d \ln x} \approx
              \frac{\ln y(x\,e^{step}) - \ln y(x\,e^{-step})}{\ln (x\,e^{step}) - \ln (x\,e^{-step})}

    with y evaluated anew, and everything else as it was. That is exact where y is a power of x. Near the point at which
    another part takes over, such as DRAM for compute, it lies between the elasticities of both sides; where a result is
    rounded, as by whole waves of transfers, a small step may find a stair or none. A move ends at the limit of a
    parameter: a share of 1 is only lowered. The elasticity by a parameter of 0 is 0.

    It is NaN where the result is 0 or unknown, or where a point cannot be, at x or on either side.

    Examples
    --------
    >>> import stacksweep as ss
    >>> found = ss.sensitivity(
    ...     of="tps",
    ...     by=["memory_frequency_hz", "frequency_hz", "weight_bytes"],
    ...     model="llama-3.1-8b",
    ...     memory="fictional_stacked_dram",
    ...     batch_size=[1, 16],
    ... )
    >>> found.tps.round(2).values.tolist()
    [[1.0, 1.0], [0.0, 0.0], [-0.98, -0.72]]
    """
    for name in parameters:
        parameter(name)
    results = _results(of)
    _check_step(step)
    base = sweep(points=points, outputs=[result.name for result in results], **parameters)
    numbers = _numbers(chips.complete(space.build(parameters, points, LOADERS)))
    moved = _chosen(by, numbers)
    check_size({PARAMETER: len(moved), **{str(dim): size for dim, size in base.sizes.items()}}, results, "float64")
    found = {result.name: np.empty((len(moved), *base[result.name].shape)) for result in results}
    for place, name in enumerate(moved):
        below, above, width = _moved(name, numbers[name], step)
        lower, upper = (_moved_sweep(results, points, parameters, name, one) for one in (below, above))
        for result in results:
            with np.errstate(divide="ignore", invalid="ignore"):
                # of variables, since labels of a moved dimension do not agree
                rise: Any = np.log(upper[result.name].variable) - np.log(lower[result.name].variable)
            found[result.name][place] = (rise / width).transpose(*base[result.name].dims).values
    variables: dict[str, Any] = {name: base[name].variable for name in ("valid", "reason")}
    for result in results:
        values, own = found[result.name], base[result.name]
        values[:, np.isnan(own.values)] = np.nan
        attributes = {"units": "1", "long_name": f"elasticity: {result.words}"}
        variables[result.name] = ((PARAMETER, *own.dims), values, attributes)
    labels = (PARAMETER, np.array(moved, object), {"units": "1", "long_name": "parameter that is moved"})
    notes = {"title": "Elasticities of LLM inference, predicted by stacksweep", "step": float(step)}
    return xr.Dataset(variables, {PARAMETER: labels, **base.coords}, base.attrs | notes)


def tornado(elasticities: xr.Dataset, of: str) -> "pd.DataFrame":
    """
    Sort parameters by how much a result follows them.

    Parameters
    ----------
    elasticities : xarray.Dataset
        As `sensitivity` makes it, or a part of it.
    of : str
        Result in it.

    Returns
    -------
    pandas.DataFrame
        A row for each parameter, with the `median`, `lowest` and `highest` elasticity over all points where it is
        known; the largest in magnitude first, equal ones in the order of `elasticities`, unknown ones last.

    Raises
    ------
    ParameterError
        If `elasticities` has no parameters, or not that result.

    Examples
    --------
    >>> import stacksweep as ss
    >>> found = ss.sensitivity(
    ...     by=["memory_frequency_hz", "frequency_hz", "weight_bytes"],
    ...     model="llama-3.1-8b",
    ...     memory="fictional_stacked_dram",
    ...     batch_size=[1, 16],
    ... )
    >>> ss.tornado(found, "tps").round(2).rename_axis(None)
                         median  lowest  highest
    memory_frequency_hz    1.00    1.00     1.00
    weight_bytes          -0.85   -0.98    -0.72
    frequency_hz           0.00    0.00     0.00
    """
    import pandas as pd

    check_dataset(elasticities)
    if PARAMETER not in elasticities.dims:
        raise ParameterError(f"elasticities: has no dimension {PARAMETER!r}, needs what sensitivity makes")
    names = [str(name) for name, variable in elasticities.data_vars.items() if PARAMETER in variable.dims]
    if not isinstance(of, str) or of not in names:
        raise ParameterError(f"of: elasticities has no result {shown(of)}{did_you_mean(str(of), names)}")
    values = elasticities[of].transpose(PARAMETER, ...).values.reshape(elasticities.sizes[PARAMETER], -1)
    table = pd.DataFrame(values.T, columns=pd.Index(elasticities[PARAMETER].values, name=PARAMETER))
    # unlike numpy's, pandas' reductions leave NaN out without a warning where there is nothing else
    summary = pd.DataFrame({"median": table.median(), "lowest": table.min(), "highest": table.max()})
    return summary.loc[table.abs().max().sort_values(ascending=False, kind="stable").index]


def _results(of: Any) -> list[Result]:
    """Look results up, each once, in the order given."""
    if not isinstance(of, Iterable):
        raise ParameterError(f"of: got {shown(of)}, needs names of results")
    names = [of] if isinstance(of, str) else list(of)
    real = [name for name, result in RESULTS_BY_NAME.items() if result.dtype == "real"]
    for name in names:
        if not isinstance(name, str) or name not in RESULTS_BY_NAME:
            raise ParameterError(f"of: no result is called {shown(name)}{did_you_mean(str(name), real)}")
        if name not in real:
            raise ParameterError(f"of: {name!r} is no real number, and only those have elasticities")
        if names.count(name) > 1:
            raise ParameterError(f"of: got {name!r} twice")
    if not names:
        raise ParameterError("of: got no result, needs at least one")
    return [RESULTS_BY_NAME[name] for name in names]


def _check_step(step: Any) -> None:
    number = isinstance(step, int | float | np.number) and not isinstance(step, bool | np.bool_)
    if not number or not 0 < step <= 1:
        raise ParameterError(f"step: got {shown(step)}, needs a number above 0 and at most 1")


def _chosen(by: Any, numbers: Mapping[str, Column]) -> list[str]:
    """Names of the parameters to move, each of which all points have."""
    if by is None:
        return list(numbers)
    if not isinstance(by, Iterable):
        raise ParameterError(f"by: got {shown(by)}, needs names of parameters, or None for all")
    names = [by] if isinstance(by, str) else list(by)
    for name in names:
        if not isinstance(name, str) or name not in BY_NAME:
            raise ParameterError(f"by: no parameter is called {shown(name)}{did_you_mean(str(name), REAL)}")
        if name not in REAL:
            raise ParameterError(
                f"by: {name!r} takes {BY_NAME[name].allowed}, and only real numbers can be moved a bit"
            )
        if name not in numbers:
            raise ParameterError(f"by: not every profile of this call has {name!r}{_those(numbers)}")
        if names.count(name) > 1:
            raise ParameterError(f"by: got {name!r} twice")
    if not names:
        raise ParameterError("by: got no parameter, needs at least one, or None for all")
    return names


def _those(numbers: Mapping[str, Column]) -> str:
    return "; they have " + ", ".join(numbers)


def _numbers(grid: Space) -> dict[str, Column]:
    """Columns of the real parameters that all points have, given or from profiles, in the order of the registry."""
    columns = grid.columns
    chip, memory = columns["chip"], columns["memory"]
    found = tables.memory_columns(
        memory.choices, memory, {name: column for name, column in columns.items() if name in rows.MEMORY_FIELDS}
    )
    if "noc" in columns:
        found |= network.rate_columns(columns)
    for name in (*rows.STORAGE_FIELDS, *NUMBERS):
        found[name] = chip.lookup(np.array([getattr(profile, name, np.nan) for profile in chip.choices]))
    for bits in OPERAND_BITS:
        peaks = [
            profile.peak_flops.get(bits, np.nan) if isinstance(profile, RooflineChip) else np.nan
            for profile in chip.choices
        ]
        found[f"peak_flops_{bits}"] = chip.lookup(np.array(peaks))
    found |= columns
    kinds = {profile.kind for profile in chip.choices}
    return {
        name: found[name]
        for name in REAL
        if name in found and kinds <= {BY_NAME[name].chips or kind for kind in kinds} and _whole(found[name].values)
    }


def _whole(values: Array) -> bool:
    return not np.isnan(values).any()


def _moved(name: str, column: Column, step: float) -> tuple[Column, Column, xr.Variable]:
    """Move a parameter down and up, as far as its limits let it; also the logarithm of upper over lower."""
    known = BY_NAME[name]
    below, above = (np.clip(column.values * math.exp(by), known.low, known.high) for by in (-step, step))
    with np.errstate(divide="ignore", invalid="ignore"):
        width = np.where(column.values > 0, np.log(above / below), 2 * step)
    return Column(column.dims, below), Column(column.dims, above), xr.Variable(column.dims, width)


def _moved_sweep(
    results: Sequence[Result], points: Any, parameters: Mapping[str, Any], name: str, column: Column
) -> xr.Dataset:
    """Sweep anew with other values of one parameter."""
    given = dict(parameters)
    if points is not None and name in points:
        # a table of points is a pandas.DataFrame, or a Dataset
        along = column.values if not isinstance(points, xr.Dataset) else (points[name].dims, column.values)
        points = points.assign({name: along}) if isinstance(points, xr.Dataset) else points.assign(**{name: along})
    else:
        given[name] = xr.DataArray(column.values, dims=column.dims)
    return sweep(points=points, outputs=[result.name for result in results], **given)
