"""The model once more, slowly: plain Python, one point at a time, one loop per sum.

Written from the formulas alone so that the fast package has something to be compared with.
Units are those of the formulas: seconds, bytes, hertz, picojoules.
"""

from reference.memory import memory_of
from reference.system import evaluate

__all__ = ["evaluate", "memory_of"]
