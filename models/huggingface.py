"""From a `config.json`, or an object with its field names, to an architecture; or a refusal that says why.

A configuration that names its `model_type` is read as that family and may carry whatever else the
file holds. One that does not is read as a decoder like Llama, and unknown fields are refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models.architecture import Architecture
from models.errors import Fault, InvalidField
from models.huggingface_decoder import NAMELESS_KEYS, read_decoder
from models.huggingface_families import FAMILIES, NAMELESS
from models.huggingface_family import EXPERT_COUNT_KEYS
from models.huggingface_fields import LONGEST_NAME, MOST_FIELDS, Fields, as_flag, nearest, shown
from models.huggingface_refused import HARMLESS, REFUSED, REFUSED_BEGINNINGS, REFUSED_FIELDS

LANGUAGE_CONFIGS = ("text_config", "llm_config", "language_config")
"""Where a vision-language configuration keeps its decoder."""
TIED_INSIDE = frozenset({"llama4"})
"""Families whose decoder ties its embeddings by its own flag, whatever stands beside it."""
NOT_TOWERS = frozenset(
    {
        "quantization_config",
        "generation_config",
        "attn_config",
        "ffn_config",
        "init_config",
        "compression_config",
    }
)
"""Parts of a file that hold no layers of their own."""


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
    values["name"] = _name(config) or kind or "inline"
    return Reading(Architecture(**values), [*warnings, *fields.warnings], fields.defaults)


def _name(config: Mapping[str, Any]) -> str | None:
    """What the file calls itself, for people."""
    names = (config.get("name"), config.get("_name_or_path"))
    return next((name[:128] for name in names if isinstance(name, str) and name), None)


def _language_part(config: Mapping[str, Any], field: str) -> tuple[Mapping[str, Any], str, list[str]]:
    """The decoder's own configuration, its pointer, and a warning for each tower left out."""
    _refuse_by_name(config, field)
    broken = [k for k in LANGUAGE_CONFIGS if config.get(k) and not isinstance(config[k], dict)]
    if broken:
        reason, fix = "is not an object", "State its fields, or leave it out."
        raise InvalidField(*(Fault(f"{field}/{k}", shown(config[k]), reason, fix) for k in broken))
    key = next((k for k in LANGUAGE_CONFIGS if isinstance(config.get(k), dict)), None)
    towers = {k: v for k, v in config.items() if k.endswith("_config") and isinstance(v, dict) and k != key}
    warnings = [_left_out(k, v) for k, v in towers.items() if k not in NOT_TOWERS]
    if key is None:
        return config, field, warnings
    inner = dict(config[key])
    _check_outside(config, inner, field)
    outer_decides = shown(config.get("model_type")) not in TIED_INSIDE
    if outer_decides and config.get("tie_word_embeddings") is not None:
        inner["tie_word_embeddings"] = config["tie_word_embeddings"]
    pointer = f"{field}/{key}"
    if inner.get("model_type") is None:
        reason = "is missing, and the decoder's family is not known without it"
        raise InvalidField(Fault(f"{pointer}/model_type", None, reason, "State the decoder's family."))
    _refuse_by_name(inner, pointer)
    return inner, pointer, warnings


def _check_outside(config: Mapping[str, Any], inner: Mapping[str, Any], field: str) -> None:
    """Raise for what stands beside the decoder's configuration and contradicts it."""
    faults = [
        Fault(f"{field}/{key}", shown(config[key]), "says otherwise than the decoder within", "Leave it out.")
        for key in EXPERT_COUNT_KEYS
        if config.get(key) and config[key] != inner.get(key)
    ]
    tied = config.get("tie_word_embeddings")
    if tied is not None and not isinstance(tied, bool):
        pointer = f"{field}/tie_word_embeddings"
        faults.append(Fault(pointer, shown(tied), "is neither true nor false", as_flag(tied)))
    if faults:
        raise InvalidField(*faults)


def _left_out(tower: str, config: Mapping[str, Any]) -> str:
    """What is not counted, and which TP its heads would allow."""
    warning = f"{tower[:80]} is not modelled: its parameters are not counted"
    heads = next((config[k] for k in ("num_attention_heads", "num_heads", "heads") if k in config), None)
    if isinstance(heads, bool) or not isinstance(heads, int) or not 0 < heads <= 1024:
        return f"{warning} and its heads not checked against TP."
    degrees = ", ".join(str(n) for n in range(1, heads + 1) if heads % n == 0)
    return f"{warning} and its {heads} heads not checked against TP (they divide by {degrees})."


def _refuse_by_name(config: Mapping[str, Any], field: str) -> None:
    """Raise for a family or a field that stands for layers we cannot reckon with, or too many fields."""
    if len(config) > MOST_FIELDS:
        reason = f"holds {len(config)} fields, more than any architecture needs"
        raise InvalidField(Fault(field, None, reason, f"State at most {MOST_FIELDS}."))
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
            shown(value),
            f"cannot be reckoned with: {missing}",
            "Send a plain decoder.",
        )
        for key, value in config.items()
        if (missing := _missing_of(key)) and value
    ]
    if faults:
        raise InvalidField(*faults)


def _missing_of(key: str) -> str | None:
    """What we do not model of the layers that have such a field; None of any other field."""
    begun = (missing for begin, missing in REFUSED_BEGINNINGS.items() if key.startswith(begin))
    return REFUSED_FIELDS.get(key) or next(begun, None)


def _kind(config: Mapping[str, Any], field: str) -> str | None:
    """The family; None where none is named."""
    kind = config.get("model_type")
    if kind is None:
        return None
    if isinstance(kind, str) and kind in FAMILIES:
        return kind
    near = _meant(kind) if isinstance(kind, str) else None
    fix = f"Did you mean {near!r}?" if near else f"Known: {', '.join(sorted(FAMILIES))}."
    raise InvalidField(Fault(f"{field}/model_type", shown(kind), "is no family whose layers we know", fix))


def _meant(kind: str) -> str | None:
    """The family a misspelt one means; never one of another generation, whose layers may differ.

    >>> _meant("mixtrl"), _meant("gemma3"), _meant("qwen4")
    ('mixtral', 'gemma3_text', None)
    """
    if f"{kind}_text" in FAMILIES:
        return f"{kind}_text"
    digits = [c for c in kind[:LONGEST_NAME] if c.isdigit()]
    alike = [family for family in FAMILIES if [c for c in family if c.isdigit()] == digits]
    return nearest(kind.lower(), alike, 0.8)
