"""
Pictures of sweeps, points and networks, drawn with matplotlib (extra `plot`).

Every function draws on `ax`, or on the current Axes, and returns the Axes. Panels are xarray's and matplotlib's own:
select a part of the Dataset for each Axes.
"""

try:
    import matplotlib as _  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("stacksweep.plot needs matplotlib; install stacksweep[plot]", name=error.name) from None

from stacksweep.plot.fronts import pareto
from stacksweep.plot.grids import heatmap, lines
from stacksweep.plot.networks import topology
from stacksweep.plot.times import roofline, time_split

__all__ = ["heatmap", "lines", "pareto", "roofline", "time_split", "topology"]
