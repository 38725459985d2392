"""LLM inference on accelerators with 3D-stacked DRAM: speed, size and energy on arrays of design points."""

from importlib.metadata import version

__version__ = version("stacksweep")

from stacksweep.evaluate import sweep

__all__ = ["__version__", "sweep"]
