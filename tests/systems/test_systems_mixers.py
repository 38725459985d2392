"""Layers of all mixers and MLPs against the plain reference."""

from typing import Any

from hypothesis import given, settings
from system_cases import System, arguments_of, reference_of, system_differences, systems

import stacksweep as ss
from layer_cases import WITH_HEADS, described_models, spec_of
from strategies import chips, point_values, roofline_chips

OVERLAPS = ("op-roofline", "stage-roofline", "serial")
CHIP = {
    "kind": "roofline",
    "name": "test",
    "peak_flops": {"16": 1.2345e12},
    "layer_overhead": 1e-6,
    "pass_overhead": 3e-6,
}


def arguments(system: System) -> dict[str, Any]:
    return arguments_of(system) | {"model": spec_of(system["model"])}


def check(system: System) -> dict[str, Any]:
    """Compare all results of a point; returns what they must be."""
    expected = reference_of(system)
    given_arguments = arguments(system)
    got = point_values(ss.sweep(**given_arguments, outputs="all"))
    assert system_differences(got, expected) == {}
    return expected


@given(systems(model=described_models(), chip=roofline_chips(), overlaps=OVERLAPS))
@settings(max_examples=80)
def test_random_layers_on_roofline_chips(system: System):
    check(system)


@given(systems(output=1500, prompt=700, most=8, model=described_models(), chip=roofline_chips(), overlaps=OVERLAPS))
@settings(max_examples=15)
def test_random_layers_with_long_answers(system: System):
    check(system)


@given(systems(output=300, model=described_models(WITH_HEADS), chip=chips()))
@settings(max_examples=60)
def test_random_layers_on_chips_with_instructions(system: System):
    check(system)
