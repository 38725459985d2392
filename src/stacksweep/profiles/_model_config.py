"""From a HuggingFace-style config to a model spec: find the family, refuse what it does not model, read the layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stacksweep.profiles._model_features import refuse_unmodelled
from stacksweep.profiles.families import ARCHITECTURES, BY_TYPE, STANDARD, UNDERSTOOD
from stacksweep.profiles.families.common import Family
from stacksweep.profiles.model import ModelSpec
from stacksweep.profiles.source import Document


def read_config(document: Document) -> ModelSpec:
    """Check a config and work out what each of its layers is.

    Raises
    ------
    ProfileError
        One line on what is not modelled, or on the first entry that is missing, of the wrong kind or inconsistent.
    """
    tables = _tables(document)
    model_type = _model_type(document, tables)
    family = STANDARD if model_type is None else BY_TYPE.get(model_type, STANDARD)
    refuse_unmodelled(document, tables, family, model_type)
    text = _text_config(document, tables, family)
    sizes, layers = family.read(document, text, model_type)
    # a model with experts keeps the parts of a layer that come with them, even where all its layers are dense
    moe = bool(sizes.expert_count) or any(layer.window for layer in layers) or model_type == "gpt_oss"
    return ModelSpec(
        name=document.name,
        model_type=model_type,
        composition="moe" if moe else "llama",
        hidden_size=sizes.hidden_size,
        vocab_size=sizes.vocab_size,
        tie_word_embeddings=sizes.tie_word_embeddings,
        layers=tuple(layers),
        config={key: value for key, value in text.items() if key in family.keys},
        provenance=document.provenance,
    )


def _tables(document: Document) -> list[dict[str, Any]]:
    """Find the config and, where it has one, its text config."""
    text = document.data.get("text_config")
    if text is None:
        return [document.data]
    if not isinstance(text, dict):
        document.fail("text_config", text, "a table")
    return [document.data, text]


def _model_type(document: Document, tables: Sequence[dict[str, Any]]) -> str | None:
    """Find the type of the text model: its own, else that of the whole, else that of the architecture."""
    found: str | None = None
    for table, place in zip(tables, ("", "text_config."), strict=False):
        if "model_type" in table:
            found = table["model_type"]
            if not isinstance(found, str):
                document.fail(f"{place}model_type", found, f"one of {UNDERSTOOD}, or no entry")
    if found is None:
        names = document.data.get("architectures")
        names = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
        found = next((ARCHITECTURES[name] for name in names if name in ARCHITECTURES), None)
    if found is None and len(tables) == 2:
        document.missing("text_config.model_type", f"one of {UNDERSTOOD}")
    return found


def _text_config(document: Document, tables: Sequence[dict[str, Any]], family: Family) -> dict[str, Any]:
    """Take the part of a config that describes the text model; tied embeddings may stand beside it."""
    whole, text = tables[0], tables[-1]
    if text is whole:
        return dict(whole)
    for key in sorted((family.keys - {"tie_word_embeddings"}) & whole.keys()):
        if key not in text or whole[key] != text[key]:
            document.fail(key, whole[key], "to be left out or to be the same in text_config")
    tied = [table["tie_word_embeddings"] for table in tables if "tie_word_embeddings" in table]
    if len(tied) == 2 and tied[0] != tied[1]:
        document.fail("tie_word_embeddings", tied[0], "to be the same as in text_config")
    return {**text, **({"tie_word_embeddings": tied[0]} if tied else {})}
