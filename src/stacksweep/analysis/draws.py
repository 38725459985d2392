"""Uncertain parameters: draws from distributions along a dimension of a sweep."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from stacksweep import space
from stacksweep.analysis.points import shown
from stacksweep.columns import Array
from stacksweep.evaluate import LOADERS, sweep
from stacksweep.parameters import PARAMETERS, ParameterError, parameter
from stacksweep.progress import Progress

SAMPLE = "sample"
"""Dimension of the draws."""

METHODS = ("latin-hypercube", "sobol")
"""Ways to spread draws evenly over all uncertain parameters."""

MOST = 2**24
"""Draws that a call may ask for: more are a slip."""


def sample(
    *,
    samples: int = 256,
    method: str = "latin-hypercube",
    seed: int = 0,
    points: Any = None,
    outputs: str | Sequence[str] = "main",
    dtype: str = "float64",
    progress: Progress | None = None,
    **parameters: Any,
) -> xr.Dataset:
    """
    Sweep with uncertain parameters: distributions are drawn from along a dimension `sample`.

    Parameters
    ----------
    samples : int
        How often each distribution is drawn from.
    method : {"latin-hypercube", "sobol"}
        How the draws are spread over all distributions together: in a Latin hypercube, which has a draw in each of
        `samples` equally likely parts of every distribution; or by scrambled Sobol points, which need a power of two.
    seed : int
        Of the draws; the same call with the same seed gives the same draws, whatever the order of its arguments.
    points, outputs, dtype, progress
        As those of `sweep`.
    **parameters
        As those of `sweep`, of which numbers may be frozen distributions of `scipy.stats`, such as `norm(400e6, 20e6)`.
        They are independent of each other. Whole numbers need discrete ones, such as `randint(1, 9)`.

    Returns
    -------
    xarray.Dataset
        That of `sweep`, with the draws as coordinates along `sample`. The attribute `sample` holds method, seed and
        distributions as JSON.

    Raises
    ------
    ParameterError
        If no parameter is a distribution, a draw is outside the limits of its parameter (nothing is cut off silently:
        give a distribution that stays inside, such as `truncnorm` or `uniform`), or an argument is wrong otherwise.

    See Also
    --------
    sensitivity : elasticities, which need no distributions.

    Notes
    -----
    Draws are the quantiles of each distribution at points that fill the unit cube evenly (`scipy.stats.qmc`), so that
    means and quantiles need fewer of them than with independent ones. Draws of which a combination cannot be are masked
    as in every sweep: xarray's `quantile` leaves their NaN out, and `valid.mean("sample")` says how many there are.

    Examples
    --------
    >>> from scipy import stats
    >>> import stacksweep as ss
    >>> ds = ss.sample(
    ...     model="llama-3.1-8b",
    ...     memory="fictional_stacked_dram",
    ...     connected_layers=[4, 8],
    ...     memory_frequency_hz=stats.uniform(350e6, 100e6),
    ...     recharge_cycles=stats.triang(0.5, 20, 40),
    ... )
    >>> dict(ds.sizes)
    {'connected_layers': 2, 'sample': 256}
    >>> ds.tps.quantile([0.05, 0.5, 0.95], "sample").round(0).values.tolist()
    [[101.0, 178.0], [113.0, 199.0], [126.0, 223.0]]
    """
    for name in parameters:
        parameter(name)
    uncertain = {known.name: parameters[known.name] for known in PARAMETERS if _uncertain(parameters, known.name)}
    if not uncertain:
        raise ParameterError("sample: got no distribution, needs at least one frozen distribution of scipy.stats")
    spread = _spread(len(uncertain), samples, method, seed)
    drawn = {name: _drawn(name, value, spread[:, place]) for place, (name, value) in enumerate(uncertain.items())}
    ds = sweep(points=points, outputs=outputs, dtype=dtype, progress=progress, **{**parameters, **drawn})
    distributions = {name: _described(value) for name, value in uncertain.items()}
    note = {"samples": int(samples), "method": method, "seed": int(seed), "distributions": distributions}
    return ds.assign_attrs(sample=json.dumps(note))


def _uncertain(parameters: Mapping[str, Any], name: str) -> bool:
    value = parameters.get(name)
    if not callable(getattr(value, "ppf", None)):
        return False
    if hasattr(value, "freeze"):
        raise ParameterError(f"{name}: the distribution is not frozen; give it its numbers, as in norm(400e6, 20e6)")
    if parameter(name).kind not in ("number", "integer"):
        raise ParameterError(f"{name}: got a distribution, needs {parameter(name).allowed}")
    return True


def _spread(distributions: int, samples: Any, method: Any, seed: Any) -> Array:
    """Fill the unit cube with points, (samples, distributions)."""
    from scipy.stats import qmc

    for name, value, most in (("samples", samples, MOST), ("seed", seed, None)):
        least = 1 if name == "samples" else 0
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or value < least or (most is not None and value > most):
            limit = f" and at most {most:,}" if most else ""
            raise ParameterError(f"{name}: got {shown(value)}, needs a whole number of at least {least}{limit}")
    if method not in METHODS:
        raise ParameterError(f"method: got {shown(method)}, needs one of {', '.join(METHODS)}")
    generator = np.random.default_rng(seed)
    points: Array
    if method == "sobol":
        if samples & (samples - 1):
            raise ParameterError(f"samples: got {samples}, and Sobol points need a power of two")
        points = qmc.Sobol(distributions, seed=generator).random(samples)
    else:
        points = qmc.LatinHypercube(distributions, seed=generator).random(samples)
    return points


def _drawn(name: str, distribution: Any, spread: Array) -> xr.DataArray:
    """Take the quantiles of a distribution, and check that the parameter can have them."""
    if np.shape(distribution.ppf(0.5)) != ():
        raise ParameterError(f"{name}: the distribution has arrays of numbers, and describes several; give it one each")
    draws = xr.DataArray(distribution.ppf(spread), dims=SAMPLE)
    try:
        space.build({name: draws}, None, LOADERS)
    except ParameterError as error:
        raise ParameterError(f"{error}, in every draw of its distribution {_described(distribution)}") from None
    return draws


def _described(distribution: Any) -> str:
    """Write a frozen distribution as the call that makes it."""
    given = [("", value) for value in distribution.args] + [
        (f"{name}=", kwd) for name, kwd in distribution.kwds.items()
    ]
    return f"{distribution.dist.name}({', '.join(f'{name}{np.asarray(value).tolist()!r}' for name, value in given)})"
