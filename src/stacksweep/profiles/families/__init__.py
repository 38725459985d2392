"""
Adapters of HuggingFace configs, one module for each family.

A family is a module that checks the keys it reads with a pydantic schema, and returns a list of layers. To add one,
write such a module and name it here.
"""

from __future__ import annotations

from stacksweep.profiles.families import gemma4, latent, llama4, mimo_v2, nemotron_h, qwen3_5, standard, step3p7
from stacksweep.profiles.families.common import Family

STANDARD = standard.FAMILY
"""Reads a config without any type, too."""

_FAMILIES = (
    STANDARD,
    gemma4.FAMILY,
    latent.FAMILY,
    llama4.FAMILY,
    mimo_v2.FAMILY,
    nemotron_h.FAMILY,
    qwen3_5.FAMILY,
    step3p7.FAMILY,
)

BY_TYPE: dict[str, Family] = {name: family for family in _FAMILIES for name in family.types}
"""Every `model_type` that is understood."""

ARCHITECTURES: dict[str, str] = {
    architecture: name for family in _FAMILIES for architecture, name in family.architectures.items()
}
"""`model_type` by the name of an architecture."""

UNDERSTOOD = ", ".join(sorted(BY_TYPE))
