"""From a Dataset to a decision: the best point, what can be traded for what, what limits it, and how sure that is."""

from stacksweep.analysis.draws import sample
from stacksweep.analysis.elasticity import sensitivity, tornado
from stacksweep.analysis.front import pareto, pareto_mask
from stacksweep.analysis.limits import bottleneck
from stacksweep.analysis.optimum import best

__all__ = ["best", "bottleneck", "pareto", "pareto_mask", "sample", "sensitivity", "tornado"]
