"""What of a model a chip can price."""

from collections.abc import Iterator, Sequence

from stacksweep.parameters import ParameterError
from stacksweep.profiles import Chip, ModelSpec
from stacksweep.profiles.layers import Attention, Layer


def check_priced(models: Sequence[ModelSpec], chips: Sequence[Chip]) -> None:
    """
    Refuse models with layers that cannot be priced.

    Raises
    ------
    ParameterError
        One line that names the first such model, the chip and the layers.
    """
    for model in models:
        if mixers := list(dict.fromkeys(_other_mixers(model))):
            raise ParameterError(
                f"model: got {model.name!r}, and chip {chips[0].name!r} cannot price {', '.join(mixers)}"
            )
        if parts := list(dict.fromkeys(_not_priced(model))):
            raise ParameterError(f"model: got {model.name!r}, which has what is not priced yet: {', '.join(parts)}")


def _other_mixers(model: ModelSpec) -> Iterator[str]:
    """Find mixers other than attention with KV heads, for which no chip has a formula."""
    for layer in model.kinds:
        if layer.mixer and not isinstance(layer.mixer, Attention):
            yield layer.mixer.words


def _not_priced(model: ModelSpec) -> Iterator[str]:
    """Find what differs from one attention, one FFN and one kind of experts for all layers."""
    for layer in model.kinds:
        yield from _odd_parts(layer)
    mixers = [layer.mixer for layer in model.kinds if isinstance(layer.mixer, Attention)]
    if len({(mixer.heads, mixer.kv_heads, mixer.key_size) for mixer in mixers}) > 1:
        yield "attention layers with different heads"
    if len({mixer.window for mixer in mixers if mixer.window}) > 1:
        yield "windows of different sizes"
    if len({layer.ffn for layer in model.kinds if layer.ffn and not layer.moe}) > 1:
        yield "dense layers of different widths"
    if len({layer.moe for layer in model.kinds if layer.moe}) > 1:
        yield "different experts"


def _odd_parts(layer: Layer) -> Iterator[str]:
    mixer = layer.mixer
    if isinstance(mixer, Attention):
        if mixer.reach == "chunked":
            yield mixer.words
        if mixer.key_size != mixer.value_size:
            yield "values of another size than the keys"
        if mixer.output_gate:
            yield "an output gate of the attention"
        if mixer.values_are_keys:
            yield "keys that serve as values"
    if mixer is None or not (layer.ffn or layer.moe):
        yield "layers of one part"
    if layer.ffn and layer.moe:
        yield "an FFN or a shared expert beside routed experts"
    if any(part and not part.gated for part in (layer.ffn, layer.moe)):
        yield "an MLP without gate"
    if layer.moe and layer.moe.latent_size:
        yield "experts of another hidden size"
