"""Models given by their layers: at random, for the plain reference and for the package."""

from dataclasses import fields
from typing import Any

from hypothesis import strategies as st

from stacksweep.profiles import ModelSpec
from stacksweep.profiles.base import Provenance
from stacksweep.profiles.layers import Attention, Ffn, LatentAttention, Layer, LinearAttention, Mamba2, Mixer, Moe

Described = dict[str, Any]
"""What `reference.model.described` takes."""

HEADS = (4, 12)


def spec_of(model: Described, name: str = "layers") -> ModelSpec:
    """The same model as the package has it."""
    moe = None
    if model.get("experts"):
        moe = Moe(
            model["experts"],
            model["experts_per_token"],
            model["expert_width"],
            model.get("expert_matrices", 3) == 3,
            model.get("expert_hidden", 0),
        )
    layers = []
    for layer in model["layers"]:
        ffn = layer.get("ffn")
        layers.append(
            Layer(
                mixer_of(layer["mixer"]) if layer.get("mixer") else None,
                Ffn(ffn[0], ffn[1] == 3) if ffn else None,
                moe if layer.get("moe") else None,
            )
        )
    routed = moe is not None or any(layer.window for layer in layers)
    return ModelSpec(
        name=name,
        model_type=None,
        composition="moe" if routed else "llama",
        hidden_size=model["hidden"],
        vocab_size=model["vocabulary"],
        tie_word_embeddings=model.get("tied", False),
        layers=tuple(layers),
        config={},
        provenance=Provenance(None, None, {}),
    )


def mixer_of(one: dict[str, Any]) -> Mixer:
    """A mixer of the package."""
    if one["kind"] == "latent":
        sizes = [one[name] for name in ("heads", "latent", "query_latent", "nope", "rope", "value")]
        return LatentAttention(*sizes, *(one.get(f"index_{name}", 0) for name in ("heads", "size", "top_k")))
    if one["kind"] == "linear":
        return LinearAttention(*(one[name] for name in ("key_heads", "heads", "key", "value", "conv")))
    if one["kind"] == "mamba2":
        return Mamba2(*(one[name] for name in ("heads", "value", "state_size", "groups", "conv")))
    sizes = [one[name] for name in ("heads", "kv_heads", "key", "value", "kind")]
    return Attention(*sizes, one.get("window", 0), one.get("gate", False), one.get("same_kv", False))


def described_of(spec: ModelSpec) -> Described:
    """The same model as `reference.model.described` takes it: `spec_of` the other way round."""
    routed = next((layer.moe for layer in spec.layers if layer.moe), None)
    experts = {}
    if routed:
        experts = {
            "experts": routed.experts,
            "experts_per_token": routed.top_k,
            "expert_width": routed.width,
            "expert_matrices": 3 if routed.gated else 2,
            "expert_hidden": routed.latent_size,
        }
    layers = [
        {
            "mixer": description_of(layer.mixer) if layer.mixer else None,
            "ffn": (layer.ffn.width, 3 if layer.ffn.gated else 2) if layer.ffn else None,
            "moe": layer.moe is not None,
        }
        for layer in spec.layers
    ]
    sizes = {"hidden": spec.hidden_size, "vocabulary": spec.vocab_size, "tied": spec.tie_word_embeddings}
    return sizes | experts | {"layers": layers}


NAMES: dict[type[Any], tuple[str, ...]] = {
    LatentAttention: (
        *("heads", "latent", "query_latent", "nope", "rope", "value"),
        *("index_heads", "index_size", "index_top_k"),
    ),
    LinearAttention: ("key_heads", "heads", "key", "value", "conv"),
    Mamba2: ("heads", "value", "state_size", "groups", "conv"),
    Attention: ("heads", "kv_heads", "key", "value", "kind", "window", "gate", "same_kv"),
}
"""Fields of mixers of the package, in their order, as the reference calls them."""

KINDS_OF = {LatentAttention: "latent", LinearAttention: "linear", Mamba2: "mamba2"}


def description_of(mixer: Mixer) -> dict[str, Any]:
    """Describe a mixer of the package."""
    values = (getattr(mixer, field.name) for field in fields(mixer))
    one = dict(zip(NAMES[type(mixer)], values, strict=True))
    return one if isinstance(mixer, Attention) else one | {"kind": KINDS_OF[type(mixer)]}


@st.composite
def mixers(draw: st.DrawFn, kinds: tuple[str, ...]) -> dict[str, Any]:
    """A mixer of one of the kinds."""
    kind = draw(st.sampled_from(kinds))
    heads = draw(st.sampled_from(HEADS))
    size = st.sampled_from([1, 3, 16, 40])
    one: dict[str, Any] = {"kind": kind, "heads": heads}
    if kind == "latent":
        for name in ("latent", "nope", "rope", "value"):
            one[name] = draw(size)
        one["query_latent"] = draw(st.sampled_from([0, 24]))
        if draw(st.booleans()):
            one |= {"index_heads": draw(st.integers(1, 9)), "index_size": draw(size)}
            one["index_top_k"] = draw(st.one_of(st.integers(1, 50), st.integers(1, 600)))
    elif kind == "linear":
        one |= {"key_heads": draw(st.integers(1, 4)), "key": draw(size), "value": draw(size)}
        one["conv"] = draw(st.integers(1, 4))
    elif kind == "mamba2":
        one |= {"value": draw(size), "state_size": draw(size)}
        one |= {"groups": draw(st.integers(1, 4)), "conv": draw(st.integers(1, 4))}
    else:
        one |= {"kv_heads": draw(st.sampled_from([1, 2, 4])), "key": draw(size), "gate": draw(st.booleans())}
        one["same_kv"] = draw(st.booleans())
        one["value"] = one["key"] if one["same_kv"] else draw(size)
        if kind != "full":
            one["window"] = draw(st.one_of(st.integers(1, 40), st.integers(1, 500)))
    return one


WITH_HEADS = ("full", "sliding", "chunked")
ALL = (*WITH_HEADS, "latent", "latent", "linear", "mamba2")


@st.composite
def described_models(draw: st.DrawFn, kinds: tuple[str, ...] = ALL, layers: int = 7) -> Described:
    """Models with up to four kinds of layer in a random order; a layer may have one part only."""
    model: Described = {
        "hidden": draw(st.integers(1, 900)),
        "vocabulary": draw(st.integers(1, 5000)),
        "tied": draw(st.booleans()),
    }
    routed = draw(st.booleans())
    if routed:
        experts = draw(st.sampled_from([2, 4, 12]))
        model |= {"experts": experts, "experts_per_token": draw(st.integers(1, min(experts, 4)))}
        model |= {"expert_width": draw(st.integers(1, 500)), "expert_matrices": draw(st.sampled_from([2, 3]))}
        if kinds == ALL and draw(st.booleans()):
            model["expert_hidden"] = draw(st.integers(1, 100))
    some = []
    for _ in range(draw(st.integers(1, 4))):
        mlp = draw(st.sampled_from(["ffn", "none"] + ["moe", "both"] * 2 * routed))
        layer: dict[str, Any] = {"moe": mlp in ("moe", "both")}
        if mlp in ("ffn", "both"):
            layer["ffn"] = (draw(st.integers(1, 900)), draw(st.sampled_from([2, 3])))
        if mlp == "none" or draw(st.integers(0, 4)):
            layer["mixer"] = draw(mixers(kinds))
        some.append(layer)
    model["layers"] = draw(st.lists(st.sampled_from(some), min_size=1, max_size=layers))
    if routed and not any(layer["moe"] for layer in model["layers"]):
        model["layers"].append({"moe": True})
    return model
