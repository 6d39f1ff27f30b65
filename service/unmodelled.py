"""What a `config.json` says that moves no figure of ours: told, so that nobody thinks it was reckoned with.

Towers with a configuration of their own are told by the reader itself (`models.huggingface`).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from models.cost.parameters import ParameterCounts
from models.huggingface import LANGUAGE_CONFIGS

PLAIN_ROPE = frozenset({"default", "none"})
LONGEST = 40
"""Characters of a caller's own words that a warning repeats."""
TOWERS = ("mm_vision_tower", "vision_tower", "visual", "audio_tower")
"""Fields by which older files name a tower that has no configuration of its own."""
SOFTCAPS = ("attn_logit_softcapping", "final_logit_softcapping")
DROPOUTS = (
    "attention_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop", "hidden_dropout", "residual_dropout",
    "embedding_dropout", "activation_dropout", "ffn_dropout", "dropout",
)  # fmt: skip


def unmodelled(
    config: Mapping[str, Any], counts: ParameterCounts, *, predicts: bool = False
) -> tuple[str, ...]:
    """Tell every part of a configuration that we read past, in the order of the parts.

    Parameters
    ----------
    config
        The whole file; of a nested one both levels are looked at.
    counts
        Of the architecture it became.
    predicts
        Whether its multi-token-prediction layers are reckoned with.
    """
    key = next((k for k in LANGUAGE_CONFIGS if isinstance(config.get(k), dict)), None)
    decoder = config[key] if key else {}
    both = {name: value for name, value in {**config, **decoder}.items() if value is not None}
    read_past = [
        sentence for part in (_towers, _rope, _quantisation, _softcaps, _dropouts) for sentence in part(both)
    ]
    return (*read_past, *(() if predicts else _predicted(counts)))


def _towers(config: Mapping[str, Any]) -> Iterator[str]:
    named = [name for name in TOWERS if config.get(name)]
    if named:
        yield f"{' and '.join(named)} is not modelled: its parameters are not counted."


def _rope(config: Mapping[str, Any]) -> Iterator[str]:
    """Scaling of the rotary positions, under its old name, its new one, or one a kind of layer."""
    for name in ("rope_scaling", "rope_parameters"):
        held = config.get(name)
        held = held if isinstance(held, Mapping) else {}
        kinds = {_kind(part) for part in (held, *held.values()) if isinstance(part, Mapping)}
        scaled = sorted(kinds - PLAIN_ROPE - {""})
        if scaled:
            yield (
                f"{name} ({', '.join(scaled)}) is not modelled: scaled rotary positions change no "
                "parameter, and their few operations are not counted."
            )


def _kind(rope: Mapping[str, Any]) -> str:
    kind = rope.get("rope_type", rope.get("type"))
    return kind[:LONGEST] if isinstance(kind, str) else ""


def _quantisation(config: Mapping[str, Any]) -> Iterator[str]:
    held = config.get("quantization_config")
    if held:
        method = held.get("quant_method") if isinstance(held, Mapping) else None
        named = f" ({method[:LONGEST]})" if isinstance(method, str) else ""
        yield (
            f"quantization_config{named} is not modelled: parameters are counted as if unquantised, "
            "and their bytes follow the workload's precision."
        )


def _softcaps(config: Mapping[str, Any]) -> Iterator[str]:
    named = [name for name in SOFTCAPS if config.get(name)]
    if named:
        yield f"{' and '.join(named)} is not modelled: capping a score is not counted among the FLOPs."


def _dropouts(config: Mapping[str, Any]) -> Iterator[str]:
    named = [name for name in DROPOUTS if _positive(config.get(name))]
    if named:
        yield f"{', '.join(named)} is not read: no configuration decides whether dropout masks take memory."


def _positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def _predicted(counts: ParameterCounts) -> Iterator[str]:
    if counts.mtp:
        yield (
            f"Multi-token prediction is left out: its {counts.mtp:,} parameters (parameters.mtp) are part of "
            "neither total, active nor the FLOPs."
        )
