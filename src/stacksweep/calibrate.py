"""Fit parameters of a chip and its network to measurements, and say how far the predictions are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from stacksweep.columns import Array
from stacksweep.evaluate import LOADERS, sweep
from stacksweep.fitted import Fitted, fitted_profiles, starting_value
from stacksweep.kernels.validity import REASONS
from stacksweep.parameters import BY_NAME, Parameter, ParameterError, did_you_mean, parameter
from stacksweep.results import RESULTS

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

FIT = ("memory_efficiency", "compute_efficiency", "layer_overhead", "l1_bandwidth", "l1_latency")
"""What is fitted unless other parameters are named."""

TARGETS = tuple(result.name for result in RESULTS if result.units in ("s", "s-1") and len(result.rows) == 1)
"""Results that can be measured: times and rates."""

RANGE = 1e4
"""A parameter is looked for within this factor of where it starts."""

STARTS = 4
"""Places from which a fit starts: the profiles' values, and others drawn around them."""

SPREAD = 1.5
"""Standard deviation of the logarithm of the drawn starts."""

TYPICAL_ERROR = 0.1
"""Log-ratio from which on soft-L1 counts an error linearly: outliers do not decide the fit."""

UNSETTLED = 1e-8
"""Curvature along a combination of parameters, over the largest, below which the data do not determine it."""

STEP = 1e-5
"""Step of log-parameters in difference quotients."""


@dataclass(frozen=True)
class Calibration:
    """
    A fit to measurements.

    Attributes
    ----------
    parameters : dict
        Fitted values by name, in the units of the parameters.
    standard_errors : dict
        Standard error of each; infinite where the data do not determine a parameter, NaN where it ended at a limit.
    chip, noc : loaded profiles
        With the fitted values in them; `noc` is None without a network.
    rows : pandas.DataFrame
        The data, and for each target `predicted_…` and its relative `error_…` (predicted over measured, less 1);
        `held_out_…` and `held_out_error_…` are those of a fit that has not seen the row's group.
    targets : tuple of str
    group : str or None
        Column by which rows were held out; None where there are no two groups.
    evaluations : int
        Batch calls that the fits took.
    """

    parameters: Mapping[str, float]
    standard_errors: Mapping[str, float]
    chip: Any
    noc: Any
    rows: pd.DataFrame
    targets: tuple[str, ...]
    group: str | None
    evaluations: int

    @property
    def mean_error(self) -> float:
        """Mean size of the relative errors of all rows and targets, in sample."""
        return self._mean("error")

    @property
    def held_out_error(self) -> float:
        """Mean size of the relative errors of rows whose group the fit has not seen; NaN without groups."""
        return self._mean("held_out_error") if self.group else float("nan")

    def _mean(self, kind: str) -> float:
        return float(np.mean([self.rows[f"{kind}_{target}"].abs().mean() for target in self.targets]))

    def group_errors(self) -> pd.DataFrame:
        """
        Mean size of the relative errors of each group.

        Returns
        -------
        pandas.DataFrame
            Groups by rows; `error` in sample, `held_out_error` by fits without the group.
        """
        if self.group is None:
            return pd.DataFrame({"error": [], "held_out_error": []})
        sizes = pd.DataFrame(
            {
                kind: np.mean([self.rows[f"{kind}_{target}"].abs() for target in self.targets], axis=0)
                for kind in ("error", "held_out_error")
            },
            index=self.rows.index,
        )
        return sizes.groupby(self.rows[self.group], sort=False).mean()

    def to_dict(self) -> dict[str, Any]:
        """
        Return the report as plain values.

        Returns
        -------
        dict
            Nested, JSON-able but for NaN and infinity.
        """
        return {
            "parameters": dict(self.parameters),
            "standard_errors": dict(self.standard_errors),
            "mean_error": self.mean_error,
            "held_out_error": self.held_out_error,
            "group": self.group,
            "groups": self.group_errors().to_dict("index"),
            "rows": self.rows.to_dict("records"),
        }

    def table(self) -> str:
        """
        Lay the report out as text.

        Returns
        -------
        str
        """
        lines = [f"{'fitted':<22} {'value':>12} {'std. error':>12} unit"]
        for name, value in self.parameters.items():
            error = self.standard_errors[name]
            words = "at a limit" if np.isnan(error) else "unknown" if np.isinf(error) else f"{error:.3g}"
            lines.append(f"{name:<22} {value:>12.5g} {words:>12} {BY_NAME[name].units}")
        lines += ["", f"mean error in sample {self.mean_error:.1%} of {len(self.rows)} rows"]
        if self.group:
            lines[-1] += f"; of rows whose {self.group} the fit has not seen {self.held_out_error:.1%}"
            lines += ["", f"{self.group:<22} {'in sample':>12} {'held out':>12}"]
            for label, errors in self.group_errors().iterrows():
                lines.append(f"{label!s:<22} {errors['error']:>12.1%} {errors['held_out_error']:>12.1%}")
        return "\n".join(lines)

    def __str__(self) -> str:
        """Lay the report out as text."""
        return self.table()

    def plot(self, path: Any = None) -> Any:
        """
        Draw predictions over measurements.

        Parameters
        ----------
        path : path, optional
            File to write; its ending chooses the format.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from stacksweep.parity import parity

        return parity(self, path)


def calibrate(
    data: Any,
    *,
    chip: Any,
    fit: Sequence[str] = FIT,
    target: str | Sequence[str] = "tps",
    group: str | None = "model",
    **parameters: Any,
) -> Calibration:
    """
    Fit parameters to measurements.

    Parameters
    ----------
    data : pandas.DataFrame or xarray.Dataset
        One measurement a row: columns are parameters, the measured targets under the names of results, and the group.
    chip : str, path, mapping or loaded profile
        Chip to start from.
    fit : sequence of str
        Parameters that are numbers, with a value in the profiles to start from.
    target : str or sequence of str
        Measured results: times or rates.
    group : str or None
        Column by which rows are held out, one group after the other; None for no such fits.
    **parameters
        Other parameters of `sweep`, one value each.

    Returns
    -------
    Calibration

    Raises
    ------
    ParameterError
        If a column, parameter or target cannot be used, a measurement is no number above 0, there are fewer
        measurements than parameters, or a row cannot be.
    ProfileError
        If a profile cannot be loaded.

    See Also
    --------
    sweep : predicts with the fitted profiles.

    Notes
    -----
    Minimises the soft-L1 loss of log(predicted / measured) over the logarithms of the parameters within their limits
    (`scipy.optimize.least_squares`), from several seeded starts. Standard errors come from the slopes at the best
    fit; they know nothing of what the model leaves out. A fitted chip keeps an `overlap` that is given.

    Examples
    --------
    >>> import pandas as pd, stacksweep as ss
    >>> data = pd.DataFrame({"batch_size": [1, 8, 64], "tps": [150.0, 1150.0, 7800.0]})
    >>> found = ss.calibrate(data, chip="h100_sxm", memory="h100_sxm", model="llama-3.1-8b", fit=["memory_efficiency"])
    >>> 0.5 < found.parameters["memory_efficiency"] < 1
    True
    """
    measured = _Measurements.of(data, chip, fit, target, group, parameters)
    everything = np.ones(len(measured.table), bool)
    best, error = measured.fit(everything)
    rows = measured.table.copy()
    predicted = measured.predict(best[None])[0]
    labels = measured.labels
    for place, name in enumerate(measured.targets):
        rows[f"predicted_{name}"] = predicted[place]
        rows[f"error_{name}"] = predicted[place] / measured.values[place] - 1.0
    if labels is not None:
        held_out = np.empty_like(predicted)
        for label in range(labels.max() + 1):
            out = labels == label
            if (~out).sum() * len(measured.targets) < len(fit):
                raise ParameterError(
                    f"group: without one {group} there are fewer measurements than fitted parameters; give group=None"
                )
            theta, _ = measured.fit(~out)
            held_out[:, out] = measured.predict(theta[None])[0][:, out]
        for place, name in enumerate(measured.targets):
            rows[f"held_out_{name}"] = held_out[place]
            rows[f"held_out_error_{name}"] = held_out[place] / measured.values[place] - 1.0
    values = {name: float(value) for name, value in zip(measured.names, np.exp(best), strict=True)}
    notes = Fitted(values, len(rows), measured.targets, measured.constant.get("overlap"))
    new_chip, new_noc = fitted_profiles(measured.chip, measured.noc, notes)
    return Calibration(
        values,
        {name: float(value) for name, value in zip(measured.names, error, strict=True)},
        new_chip,
        new_noc,
        rows,
        measured.targets,
        group if labels is not None else None,
        measured.evaluations,
    )


@dataclass
class _Measurements:
    """Measurements, and what predicts them."""

    table: pd.DataFrame
    points: pd.DataFrame
    values: Array
    labels: Array | None
    constant: dict[str, Any]
    names: tuple[str, ...]
    limits: tuple[Array, Array]
    start: Array
    targets: tuple[str, ...]
    evaluations: int = 0

    @property
    def chip(self) -> Any:
        return self.constant["chip"]

    @property
    def noc(self) -> Any:
        return self.constant.get("noc")

    @classmethod
    def of(
        cls,
        data: Any,
        chip: Any,
        fit: Sequence[str],
        target: str | Sequence[str],
        group: str | None,
        parameters: Mapping[str, Any],
    ) -> "_Measurements":
        """Check the arguments of `calibrate`."""
        table = _table(data)
        targets = (target,) if isinstance(target, str) else tuple(target)
        names = (fit,) if isinstance(fit, str) else tuple(fit)
        _check_names(table, names, targets, group, parameters)
        values = np.array([_measured(table, name) for name in targets])
        if values.size < len(names):
            raise ParameterError(f"data: has {values.size} measurements, too few for {len(names)} fitted parameters")
        constant = {"chip": LOADERS["chip"](chip)}
        for name, value in parameters.items():
            known = parameter(name)
            if isinstance(value, list | tuple | range) or getattr(value, "ndim", 0) > 0:
                raise ParameterError(f"{known.name}: got several values, and a calibration takes one; put it into data")
            if value is not None:
                constant[name] = LOADERS[name](value) if name in LOADERS else value
        points = pd.DataFrame(
            {name: _loaded(BY_NAME[name], table[name]) for name in table if name in BY_NAME}, index=table.index
        )
        labels = None
        if group is not None and group in table and table[group].nunique(dropna=False) > 1:
            labels = pd.factorize(table[group], use_na_sentinel=False)[0]
        starts = np.array([starting_value(BY_NAME[name], constant) for name in names])
        low = np.array([max(BY_NAME[name].low, start / RANGE) for name, start in zip(names, starts, strict=True)])
        high = np.array([min(BY_NAME[name].high, start * RANGE) for name, start in zip(names, starts, strict=True)])
        return cls(table, points, values, labels, constant, names, (np.log(low), np.log(high)), np.log(starts), targets)

    def predict(self, thetas: Array) -> Array:
        """Predict all rows for several sets of log-parameters in one call; (sets, targets, rows)."""
        self.evaluations += 1
        trials: dict[str, Any] = {
            name: xr.DataArray(np.exp(np.clip(column, *limits)), dims="trial")
            for name, column, limits in zip(self.names, thetas.T, zip(*self.limits, strict=True), strict=True)
        }
        ds = sweep(points=self.points, **self.constant, **trials, outputs=list(self.targets))
        if not ds.valid.all():
            row = int(np.argmin(ds.valid.isel(trial=0).values))
            reason = list(REASONS)[int(ds.reason.isel(trial=0).values[row])]
            raise ParameterError(f"data: row {self.table.index[row]} cannot be: {reason}: {REASONS[reason]}")
        return np.array([ds[name].transpose("trial", "point").values for name in self.targets]).transpose(1, 0, 2)

    def fit(self, rows: Array) -> tuple[Array, Array]:
        """Fit some of the rows; returns log-parameters and the standard errors of the parameters."""
        from scipy.optimize import least_squares

        low, high = self.limits
        known: dict[bytes, tuple[Array, Array]] = {}

        def ratios_of(theta: Array) -> Array:
            return evaluate(theta)[0]

        def slopes_of(theta: Array) -> Array:
            return evaluate(theta)[1]

        def evaluate(theta: Array) -> tuple[Array, Array]:
            key = theta.tobytes()
            if key not in known:
                steps = np.where(theta + STEP > high, -STEP, STEP)
                trials = np.vstack([theta, theta + np.diag(steps)])
                ratios = np.log(self.predict(trials) / self.values)[:, :, rows].reshape(len(trials), -1)
                known[key] = ratios[0], ((ratios[1:] - ratios[0]).T / steps)
            return known[key]

        random = np.random.default_rng(0)
        best: OptimizeResult | None = None
        for number in range(STARTS):
            start = self.start + (random.normal(size=len(self.start)) * SPREAD if number else 0.0)
            room = 0.01 * (high - low)
            found = least_squares(
                ratios_of,
                np.clip(start, low + room, high - room),
                slopes_of,
                bounds=self.limits,
                loss="soft_l1",
                f_scale=TYPICAL_ERROR,
            )
            if best is None or found.cost < best.cost * (1.0 - 1e-9):
                best = found
        assert best is not None
        return best.x, self._standard_errors(best.x, *evaluate(best.x))

    def _standard_errors(self, theta: Array, ratios: Array, slopes: Array) -> Array:
        """
        Estimate the standard errors of the parameters, those at a limit held fixed.

        Those of an M-estimator (Huber, Robust Statistics, 1981, chapter 7): the spread of the influence of a
        measurement stands in for that of its error.
        """
        low, high = self.limits
        free = (theta > low + 1e-3) & (theta < high - 1e-3)
        errors = np.full(theta.size, np.nan)
        degrees = ratios.size - int(free.sum())
        if degrees < 1 or not free.any():
            errors[free] = np.inf
            return errors
        curvature = slopes[:, free].T @ slopes[:, free]
        scale = np.sqrt(np.diag(curvature))
        scale[scale == 0.0] = 1.0
        sizes, directions = np.linalg.eigh(curvature / np.outer(scale, scale))
        settled = sizes > UNSETTLED * max(sizes.max(), 1.0)
        stretch = 1.0 + (ratios / TYPICAL_ERROR) ** 2
        variance = float((ratios**2 / stretch).sum() / degrees / (stretch**-1.5).mean() ** 2)
        spread = np.sqrt((directions[:, settled] ** 2 / sizes[settled]).sum(axis=1) * variance) / scale
        # a direction along which nothing changes leaves open the parameters that it moves
        spread[(np.abs(directions[:, ~settled]) > 1e-3).any(axis=1)] = np.inf
        errors[free] = spread * np.exp(theta[free])
        return errors


def _table(data: Any) -> pd.DataFrame:
    if isinstance(data, xr.Dataset):
        if len(data.dims) != 1:
            raise ParameterError(f"data: got dimensions {tuple(data.dims)}, needs exactly one")
        (dim,) = data.dims
        data = data.drop_vars([dim], errors="ignore").reset_coords().to_dataframe().reset_index(drop=True)
    if not isinstance(data, pd.DataFrame):
        raise ParameterError(f"data: got {type(data).__name__}, needs a pandas.DataFrame or an xarray.Dataset")
    if not data.columns.is_unique:
        raise ParameterError("data: a column stands more than once")
    if data.empty:
        raise ParameterError("data: has no rows")
    return data


def _check_names(
    table: pd.DataFrame,
    names: Sequence[str],
    targets: Sequence[str],
    group: str | None,
    parameters: Mapping[str, Any],
) -> None:
    if not names:
        raise ParameterError("fit: got none, needs at least one parameter")
    for name in names:
        if parameter(name).kind != "number":
            raise ParameterError(f"fit: got {name!r}, needs a parameter that is a real number")
        if name in table or name in parameters:
            raise ParameterError(f"{name}: is given, and fitted too; drop one of them")
        if names.count(name) > 1:
            raise ParameterError(f"fit: {name!r} stands twice")
    for name in targets:
        if name not in TARGETS:
            raise ParameterError(f"target: got {name!r}, needs a time or a rate{did_you_mean(str(name), TARGETS)}")
        if name not in table:
            raise ParameterError(f"data: has no column {name!r}, the target")
    for name in map(str, table):
        if name in parameters or name == "chip":
            raise ParameterError(f"{name}: given both in data and as an argument; give it once")
        if name not in BY_NAME and name not in targets and name != group:
            raise ParameterError(
                f"data: column {name!r} is no parameter, target or group{did_you_mean(name, [*BY_NAME, *TARGETS])}"
            )
    if group is not None and group not in table and group != "model":
        raise ParameterError(f"group: got {group!r}, and data has no such column")


def _measured(table: pd.DataFrame, name: str) -> Array:
    numbers = pd.to_numeric(table[name], errors="coerce").to_numpy(np.float64)
    wrong = ~(np.isfinite(numbers) & (numbers > 0.0))
    if wrong.any():
        row = int(np.argmax(wrong))
        shown = table[name].tolist()[row]
        raise ParameterError(f"data: {name} of row {table.index[row]} is {shown!r}, needs a number above 0")
    return numbers


def _loaded(known: Parameter, column: "pd.Series[Any]") -> Any:
    """Load each different profile of a column once."""
    if known.name not in LOADERS:
        return column
    codes, different = pd.factorize(column, use_na_sentinel=False)
    profiles = [LOADERS[known.name](entry) for entry in different]
    return pd.Categorical.from_codes(codes, pd.Index(profiles, dtype=object))
