"""What of a model a chip can price."""

from collections.abc import Iterator, Sequence

from stacksweep.parameters import ParameterError
from stacksweep.profiles import Chip, ModelSpec, RooflineChip
from stacksweep.profiles.layers import Attention


def check_priced(models: Sequence[ModelSpec], chips: Sequence[Chip]) -> None:
    """
    Refuse models with layers that cannot be priced on any chip, and calls in which no chip can price any model.

    Raises
    ------
    ParameterError
        One line that names the first such model, the chip and the layers.
    """
    for model in models:
        if len({layer.moe for layer in model.kinds if layer.moe}) > 1:
            raise ParameterError(
                f"model: got {model.name!r}, whose layers have different experts; needs the same experts in all layers "
                "that have any"
            )
    if any(not unpriced(model, chip) for model in models for chip in chips):
        return
    missing = ", ".join(unpriced(models[0], chips[0]))
    raise ParameterError(
        f"model: got {models[0].name!r}, and chip {chips[0].name!r} cannot price {missing}; give a roofline chip"
    )


def unpriced(model: ModelSpec, chip: Chip) -> list[str]:
    """Name the parts of a model that a chip has no cycles for."""
    return [] if isinstance(chip, RooflineChip) else list(dict.fromkeys(_without_cycles(model)))


def _without_cycles(model: ModelSpec) -> Iterator[str]:
    """Find what the published model of PLENA does not know."""
    for layer in model.kinds:
        if layer.mixer and not isinstance(layer.mixer, Attention):
            yield layer.mixer.words
        if layer.moe and layer.moe.latent_size:
            yield "experts of another hidden size"
