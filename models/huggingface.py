"""From a `config.json`, or an object with its field names, to an architecture; or a refusal that says why.

A configuration that names its `model_type` is read as that family and may carry whatever else the
file holds. One that does not is read as a decoder like Llama, and unknown fields are refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from models.architecture import Architecture
from models.errors import Fault, InvalidField
from models.huggingface_decoder import NAMELESS_KEYS, read_decoder
from models.huggingface_families import FAMILIES, NAMELESS
from models.huggingface_fields import Fields, shown
from models.huggingface_refused import HARMLESS, REFUSED, REFUSED_FIELDS

LANGUAGE_CONFIGS = ("text_config", "llm_config")
"""Where a vision-language configuration keeps its decoder."""
NOT_TOWERS = ("quantization_config", "generation_config")
"""Parts of a file that hold no layers."""


@dataclass(frozen=True)
class Reading:
    """What a configuration says."""

    architecture: Architecture
    warnings: list[str]
    """What is not modelled."""
    defaults: list[tuple[str, Any, str]]
    """JSON pointer, value and reason of everything taken without being stated."""


def architecture_from_config(config: dict[str, Any], field: str = "/model") -> tuple[Architecture, list[str]]:
    """Return the architecture a configuration describes, and warnings.

    Raises
    ------
    InvalidField
        With every fault at once.

    Examples
    --------
    >>> tiny = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    ...         "intermediate_size": 128, "vocab_size": 100}
    >>> architecture_from_config(tiny)[0].head_size
    16
    """
    reading = read_config(config, field)
    return reading.architecture, reading.warnings


def read_config(config: Mapping[str, Any], field: str = "/model") -> Reading:
    """Return everything a configuration says, or raise InvalidField with every fault at once."""
    inner, inner_field, warnings = _language_part(config, field)
    kind = _kind(inner, inner_field)
    family = FAMILIES[kind] if kind else NAMELESS
    fields = Fields(inner, inner_field, family.defaults)
    values = read_decoder(fields, family, nameless=kind is None)
    if kind is None:
        fields.refuse_unknown(NAMELESS_KEYS)
    else:
        fields.refuse_misspelt(HARMLESS)
    if fields.faults:
        raise InvalidField(*fields.faults)
    values["name"] = str(config.get("name") or config.get("_name_or_path") or kind or "inline")[:128]
    return Reading(Architecture(**values), warnings, fields.defaults)


def _language_part(config: Mapping[str, Any], field: str) -> tuple[Mapping[str, Any], str, list[str]]:
    """The decoder's own configuration, its pointer, and a warning for each tower left out."""
    _refuse_by_name(config, field)
    key = next((k for k in LANGUAGE_CONFIGS if isinstance(config.get(k), dict)), None)
    if key is None:
        return config, field, []
    inner = dict(config[key])
    if config.get("tie_word_embeddings") is not None:
        inner["tie_word_embeddings"] = config["tie_word_embeddings"]
    pointer = f"{field}/{key}"
    if inner.get("model_type") is None:
        reason = "is missing, and the decoder's family is not known without it"
        raise InvalidField(Fault(f"{pointer}/model_type", None, reason, "State the decoder's family."))
    _refuse_by_name(inner, pointer)
    towers = [k for k, v in config.items() if k.endswith("_config") and isinstance(v, dict) and k != key]
    warnings = [
        f"{tower} is not modelled: its parameters are not counted and its heads not checked against TP."
        for tower in towers
        if tower not in NOT_TOWERS
    ]
    return inner, pointer, warnings


def _refuse_by_name(config: Mapping[str, Any], field: str) -> None:
    """Raise for a family or a field that stands for layers we cannot reckon with."""
    kind = config.get("model_type")
    faults = []
    if isinstance(kind, str) and kind in REFUSED:
        reason = f"cannot be reckoned with: {REFUSED[kind]}"
        faults.append(
            Fault(f"{field}/model_type", kind, reason, f"Families known: {', '.join(sorted(FAMILIES))}.")
        )
    faults += [
        Fault(
            f"{field}/{key}",
            shown(config[key]),
            f"cannot be reckoned with: {missing}",
            "Send a plain decoder.",
        )
        for key, missing in REFUSED_FIELDS.items()
        if config.get(key) is not None
    ]
    if faults:
        raise InvalidField(*faults)


def _kind(config: Mapping[str, Any], field: str) -> str | None:
    """The family; None where none is named."""
    kind = config.get("model_type")
    if kind is None:
        return None
    if isinstance(kind, str) and kind in FAMILIES:
        return kind
    near = get_close_matches(kind, FAMILIES, n=1, cutoff=0.6) if isinstance(kind, str) else []
    fix = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(sorted(FAMILIES))}."
    raise InvalidField(Fault(f"{field}/model_type", shown(kind), "is no family whose layers we know", fix))
