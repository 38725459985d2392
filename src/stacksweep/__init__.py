"""LLM inference on accelerators with 3D-stacked DRAM: speed, size and energy on arrays of design points."""

from importlib.metadata import version

__version__ = version("stacksweep")

from stacksweep.analysis import best, bottleneck, pareto, pareto_mask, sample, sensitivity, tornado
from stacksweep.calibrate import Calibration, calibrate
from stacksweep.documentation import document
from stacksweep.estimate import Estimate, InvalidPointError, estimate
from stacksweep.evaluate import ResultTooLargeError, sweep
from stacksweep.explorer import explore
from stacksweep.io import save
from stacksweep.parameters import ParameterError
from stacksweep.plan import plans
from stacksweep.profiles import ProfileError, bundled_names, load_chip, load_memory, load_model, load_noc

document(sweep, estimate)

__all__ = [
    "Calibration",
    "Estimate",
    "InvalidPointError",
    "ParameterError",
    "ProfileError",
    "ResultTooLargeError",
    "__version__",
    "best",
    "bottleneck",
    "bundled_names",
    "calibrate",
    "estimate",
    "explore",
    "load_chip",
    "load_memory",
    "load_model",
    "load_noc",
    "pareto",
    "pareto_mask",
    "plans",
    "sample",
    "save",
    "sensitivity",
    "sweep",
    "tornado",
]
