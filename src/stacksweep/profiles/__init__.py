"""
Profiles: chip, memory, model and network from a bundled name, a file, a mapping or an object, strictly checked.

Importing this package is cheap; the schemas (pydantic) are imported when the first profile is loaded.
"""

from stacksweep.profiles.base import ProfileError, Provenance
from stacksweep.profiles.bundled import bundled_names
from stacksweep.profiles.chip import Chip, ChipProfile, load_chip
from stacksweep.profiles.memory import MemoryProfile, load_memory
from stacksweep.profiles.model import ModelSpec, load_model
from stacksweep.profiles.noc import load_noc
from stacksweep.profiles.roofline import RooflineChip

__all__ = [
    "Chip",
    "ChipProfile",
    "MemoryProfile",
    "ModelSpec",
    "ProfileError",
    "Provenance",
    "RooflineChip",
    "bundled_names",
    "load_chip",
    "load_memory",
    "load_model",
    "load_noc",
]
