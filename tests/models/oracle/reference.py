"""The other opinion: what huggingface/transformers builds from a configuration, counted by part.

The classes are built on the meta device, so nothing is downloaded and no memory is taken. The package
is imported where it is used: it is a test extra, and this file is collected without it too.
"""

import re
from typing import Any

LANGUAGE = ("text_config",)
ALIASES = {"kimi_k2": "deepseek_v3", "deepseek": "deepseek_v3"}
"""Families whose class is another's."""
LEFT_OUT = re.compile(r"(^|\.)(visual|vision\w*|audio\w*|multi_modal_projector|rotary\w*)\.")
PARTS = (
    ("buffers", r"e_score_correction_bias"),
    ("head", r"(^|\.)(lm_head|embed_out)\."),
    ("embedding_norm", r"word_embeddings_layernorm"),
    ("positions", r"(^|\.)(wpe|embed_positions)\."),
    ("embedding", r"(^|\.)(embed_tokens|wte|word_embeddings|embed_in)\."),
    ("final_norm", r"^(?!.*\.\d+\.).*(norm|ln_f)"),
    ("attention", r"\.(self_attn|attn|attention|self_attention)\."),
    ("experts", r"\.experts\."),
    ("router", r"\.(gate|router)\."),
    ("norms", r"(norm\w*|ln_\w+)\.(weight|bias)$"),
    ("mlp", r"\.(mlp|ffn|feed_forward|fc1|fc2|shared_mlp)\."),
)
"""Part -> the names it is known by; the first that fits."""


def reference_parts(config: dict[str, Any]) -> dict[str, int]:
    """Parameters of the class a configuration describes, by part, with `total` and `active`."""
    settings, model = _build(config)
    tensors = {name: tensor for name, tensor in model.named_parameters() if not LEFT_OUT.search(name)}
    tensors |= {name: b for name, b in model.named_buffers() if "e_score_correction_bias" in name}
    parts = dict.fromkeys((part for part, _ in PARTS), 0)
    routed = 0
    for name, tensor in tensors.items():
        part = next(part for part, pattern in PARTS if re.search(pattern, name))
        parts[part] += tensor.numel()
        routed = tensor.shape[0] if part == "experts" else routed
    total = sum(parts.values())
    idle = parts["experts"] * (routed - settings.num_experts_per_tok) // routed if routed else 0
    return parts | {"total": total, "active": total - idle}


def sliding_layers(config: dict[str, Any]) -> int | None:
    """Layers with a window, as the class lists them; None where it lists none."""
    settings, _ = _settings(config)
    kinds = getattr(settings, "layer_types", None)
    if kinds is None or not (getattr(settings, "sliding_window", None) or "chunked_attention" in kinds):
        return None
    return sum(kind in ("sliding_attention", "chunked_attention") for kind in kinds)


def saved(config: dict[str, Any]) -> dict[str, Any]:
    """The file the class itself writes of a configuration."""
    _, outer = _settings(config)
    return outer.to_diff_dict() | {"model_type": config["model_type"]}


def _settings(config: dict[str, Any]) -> tuple[Any, Any]:
    import transformers

    kind = ALIASES.get(config["model_type"], config["model_type"])
    outer = transformers.AutoConfig.for_model(kind, **{k: v for k, v in config.items() if k != "model_type"})
    return (outer.get_text_config() if any(key in config for key in LANGUAGE) else outer), outer


def _build(config: dict[str, Any]) -> tuple[Any, Any]:
    import torch
    import transformers

    settings, outer = _settings(config)
    nested = any(key in config for key in LANGUAGE)
    builder = transformers.AutoModelForImageTextToText if nested else transformers.AutoModelForCausalLM
    with torch.device("meta"):
        return settings, builder.from_config(outer)
