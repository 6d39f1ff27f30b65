"""Reading a decoder from the fields of its configuration, as its family spells them."""

from typing import Any

from models.architecture import LatentAttention
from models.huggingface_experts import read_experts, says_experts
from models.huggingface_family import (
    DECIDED_BY_SHAPE,
    EXPERT_COUNT_KEYS,
    EXPERT_KEYS,
    TOP_K_KEYS,
    USUAL_KEYS,
    Family,
)
from models.huggingface_fields import DEEPEST, LARGEST, LONGEST, Fields, shown
from models.huggingface_refused import ATTENTION_LAYERS, HARMLESS

LARGEST_ARCHITECTURE = 10**15
"""Parameters; beyond any plan, and near where products of bytes leave 64 bits."""
WIDEST_HEAD = 100_000
"""Of either part of a latent head."""
LATENT_KEYS = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
"""Fields that mean something only to multi-head latent attention."""
OWN_KEYS = ("name", "nominal_parameters", "nominal_active_parameters")
"""Ours, allowed beside the others where no family is named."""
NAMELESS_KEYS = (
    *USUAL_KEYS.values(), *HARMLESS, *OWN_KEYS, *EXPERT_COUNT_KEYS, *TOP_K_KEYS, "attention_bias", "mlp_bias",
    "sliding_window", "moe_intermediate_size", "shared_expert_intermediate_size", "n_shared_experts",
    "first_k_dense_replace", "decoder_sparse_step", "moe_layer_freq", "mlp_only_layers", "q_lora_rank",
    "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "num_nextn_predict_layers",
)  # fmt: skip
"""What a configuration without a model_type may say."""


def read_decoder(fields: Fields, family: Family, *, nameless: bool) -> dict[str, Any]:
    """Fields of `Architecture`; those that were at fault are None, and their faults are noted."""
    keys = {**USUAL_KEYS, **family.keys}
    values = _widths(fields, family, keys) | _switched(fields, family)
    values |= _window(fields, family, values["layers"])
    if family.latent or (nameless and fields.stated("kv_lora_rank") is not None):
        values |= _latent(fields, values["heads"])
    else:
        values |= _grouped(fields, values, keys)
    if family.learned_positions:
        values["learned_positions"] = values["max_positions"]
        if values["max_positions"] is None:
            reason = "is missing, and the size of the position embedding is not known without it"
            fields.fault(keys["max_positions"], reason, "State a whole number.")
    if family.shape is not None:
        values |= family.shape(fields, values)
    _check_groups(fields, values, keys["kv_heads"] or "num_kv_heads")
    experts = family.experts if not nameless or says_experts(fields) else None
    if experts is not None:
        values["moe"] = read_experts(fields, experts, values, nameless=nameless)
    mtp = fields.optional_count("num_nextn_predict_layers", "num_mtp_layers", low=0, high=DEEPEST)
    values["mtp_layers"] = mtp or 0
    if nameless:
        values |= {key: fields.optional_count(key, high=LARGEST_ARCHITECTURE) for key in OWN_KEYS[1:]}
    else:
        _refuse_unread(fields, family)
    _check_size(fields, values)
    return values


def _refuse_unread(fields: Fields, family: Family) -> None:
    """Note experts and latent attention in a family that has none, and fields its experts do not have."""
    for key in (*EXPERT_KEYS, *LATENT_KEYS):
        value = fields.config.get(key)
        one = key in EXPERT_COUNT_KEYS and value == 1
        if key not in fields.read and value and not one:
            part = "latent attention" if key in LATENT_KEYS else "experts"
            having = family.latent if key in LATENT_KEYS else family.experts is not None
            reason = f"means nothing to {fields.config.get('model_type')}"
            reason += f", whose {part} are described otherwise" if having else f", which has no {part}"
            fields.fault(key, reason, "Leave it out, or state the model_type whose layers these are.")


def _widths(fields: Fields, family: Family, keys: dict[str, str]) -> dict[str, Any]:
    """What every decoder has, under the family's spelling or the usual one."""

    def count(ours: str, high: int = LARGEST) -> int | None:
        return fields.count(*dict.fromkeys((keys[ours], USUAL_KEYS[ours])), high=high)

    positions = dict.fromkeys((keys["max_positions"], USUAL_KEYS["max_positions"]))
    return {
        "hidden": count("hidden"),
        "layers": count("layers", DEEPEST),
        "heads": count("heads"),
        "vocabulary": count("vocabulary"),
        "tied_embeddings": fields.flag(keys["tied_embeddings"]),
        "max_positions": fields.optional_count(*positions, high=LONGEST),
        "ffn": None if keys["ffn"] == DECIDED_BY_SHAPE else fields.count(keys["ffn"]),
    }


def _switched(fields: Fields, family: Family) -> dict[str, Any]:
    """What the family decides, by itself and by its true-or-false fields."""
    values: dict[str, Any] = {ours: fields.flag(theirs) for ours, theirs in family.flags.items()}
    values |= family.fixed
    for key, ours in family.switches.items():
        values |= ours if fields.flag(key) else {}
    for key, missing in family.not_modelled.items():
        if fields.flag(key):
            fields.fault(key, missing, "Only false is.")
    return values


def _grouped(fields: Fields, values: dict[str, Any], keys: dict[str, str]) -> dict[str, Any]:
    """Key-value heads and the width of a head, each with what it is where it is not stated."""
    heads, hidden = values["heads"], values["hidden"]
    kv_heads = heads
    if keys["kv_heads"] != DECIDED_BY_SHAPE:
        kv_heads = fields.optional_count(keys["kv_heads"])
        if kv_heads is None and heads is not None:
            fields.assume(keys["kv_heads"], heads, f"as many as {keys['heads']}")
            kv_heads = heads
    head_size = fields.optional_count(keys["head_size"])
    if head_size is None and heads and hidden:
        head_size = hidden // heads
        if hidden % heads and fields.config.get(keys["head_size"]) is None:
            reason = f"{keys['head_size']} is not stated, and {keys['hidden']} {hidden} does not divide by it"
            fields.fault(keys["heads"], reason, f"State {keys['head_size']}, or a divisor of {hidden}.")
        elif keys["head_size"] not in fields.family_defaults:
            fields.assume(keys["head_size"], head_size, f"{keys['hidden']} / {keys['heads']}")
    return {"kv_heads": kv_heads, "head_size": head_size}


def _check_groups(fields: Fields, values: dict[str, Any], key: str) -> None:
    """Note key-value heads that the query heads do not share evenly."""
    heads, kv_heads = values["heads"], values["kv_heads"]
    if heads and kv_heads and heads % kv_heads:
        reason = f"query heads are shared evenly, and {heads} of them do not divide by {kv_heads}"
        near = max(n for n in range(1, min(heads, kv_heads) + 1) if heads % n == 0)
        fields.fault(key, reason, f"Try {near}.")


def _latent(fields: Fields, heads: int | None) -> dict[str, Any]:
    """Multi-head latent attention; `num_key_value_heads` means nothing beside it."""
    fields.read.update(("num_key_value_heads", "head_dim"))
    if "q_lora_rank" not in fields.config and "q_lora_rank" not in fields.family_defaults:
        fields.assume("q_lora_rank", None, "not stated: queries are projected directly")
    parts: dict[str, Any] = {
        "query_lora_rank": fields.optional_count("q_lora_rank"),
        "key_value_lora_rank": fields.count("kv_lora_rank"),
        "nope_head_size": fields.count("qk_nope_head_dim", high=WIDEST_HEAD),
        "rope_head_size": fields.count("qk_rope_head_dim", high=WIDEST_HEAD),
        "value_head_size": fields.count("v_head_dim", high=WIDEST_HEAD),
    }
    if any(value is None for key, value in parts.items() if key != "query_lora_rank"):
        return {"kv_heads": None, "head_size": None}
    mla = LatentAttention(**parts)
    return {"mla": mla, "kv_heads": heads, "head_size": mla.nope_head_size + mla.rope_head_size}


def _window(fields: Fields, family: Family, layers: int | None) -> dict[str, Any]:
    """The sliding window and how many layers have one; neither changes a parameter."""
    kinds = fields.names("layer_types", layers)
    unknown = sorted(set(kinds or ()) - ATTENTION_LAYERS)
    if unknown:
        reason = f"{', '.join(unknown)[:80]} layers are not modelled"
        fields.fault("layer_types", reason, "Only attention layers are.")
    if family.window is None:
        if fields.stated("sliding_window") is not None:
            fields.warn("sliding_window", "the family's class has no window, so every layer sees all tokens")
        return {}
    if family.window_flag and not fields.flag(family.window_flag):
        fields.read.update(key for key in (family.window, family.full_attention_first) if key)
        return {}
    window = fields.optional_count(family.window, low=0, high=LONGEST)
    every = (
        fields.optional_count(family.full_attention_every_key) if family.full_attention_every_key else None
    )
    every = every or family.full_attention_every
    key = family.full_attention_first
    first = fields.optional_count(key, low=0, high=DEEPEST) if key else None
    if not window or layers is None:
        return {}
    if kinds is not None:
        sliding = sum(kind in ("sliding_attention", "chunked_attention") for kind in kinds)
    else:
        sliding = layers - layers // every if every else max(0, layers - (first or 0))
    if not sliding:
        return {}
    return {"sliding_window": window, "sliding_layers": sliding, "chunked_window": family.chunked}


def _check_size(fields: Fields, values: dict[str, Any]) -> None:
    """Note an architecture no machine could hold, before its bytes leave 64 bits."""
    for key, size in (("ffn", values["ffn"]), ("learned_positions", values.get("learned_positions"))):
        if size is not None and size > LARGEST:
            reason = f"its {key.replace('_', ' ')}, {shown(size)}, are beyond any plan"
            fields.fault("hidden_size", reason, f"State at most {LARGEST}.")
    sizes = [values[key] for key in ("hidden", "layers", "heads", "head_size", "ffn", "vocabulary")]
    if fields.faults or any(size is None for size in sizes):
        return
    hidden, layers, heads, head_size, ffn, vocabulary = sizes
    moe, mla = values.get("moe"), values.get("mla")
    positions = values.get("learned_positions") or 0
    mlp = max(ffn, moe.experts * moe.expert_ffn + moe.shared_expert_ffn if moe else 0)
    width = heads * max(head_size, mla.nope_head_size + mla.value_head_size if mla else 0)
    latent = (mla.key_value_lora_rank + (mla.query_lora_rank or 0)) * (hidden + 2 * width) if mla else 0
    about = hidden * (layers * (4 * width + 3 * mlp) + 2 * vocabulary + positions) + layers * latent
    if about > LARGEST_ARCHITECTURE:
        reason = f"its matrices would hold about {shown(float(about))} parameters, beyond any plan"
        fields.fault("hidden_size", reason, "State smaller widths.")
