"""Reading a decoder from the fields of its configuration, as its family spells them."""

from typing import Any

from models.architecture import LatentAttention, MixtureOfExperts
from models.huggingface_families import (
    DECIDED_BY_SHAPE,
    EXPERT_COUNT_KEYS,
    TOP_K_KEYS,
    USUAL_KEYS,
    Experts,
    Family,
)
from models.huggingface_fields import DEEPEST, LONGEST, Fields, shown
from models.huggingface_refused import ATTENTION_LAYERS, HARMLESS

LARGEST_ARCHITECTURE = 10**15
"""Parameters; beyond any plan, and near where products of bytes leave 64 bits."""
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
    values: dict[str, Any] = {
        "hidden": fields.count(keys["hidden"]),
        "layers": fields.count(keys["layers"], high=DEEPEST),
        "heads": fields.count(keys["heads"]),
        "vocabulary": fields.count(keys["vocabulary"]),
        "tied_embeddings": fields.flag(keys["tied_embeddings"]),
        "max_positions": fields.optional_count(keys["max_positions"], high=LONGEST),
        "ffn": None if keys["ffn"] == DECIDED_BY_SHAPE else fields.count(keys["ffn"]),
        **{ours: fields.flag(theirs) for ours, theirs in family.flags.items()},
        **family.fixed,
    }
    values |= _window(fields, family, values["layers"])
    if family.latent or (nameless and fields.stated("kv_lora_rank") is not None):
        values |= _latent(fields, values["heads"])
    else:
        values |= _grouped(fields, values, keys)
    if family.shape is not None:
        values |= family.shape(fields, values)
    _check_groups(fields, values, keys["kv_heads"] or "num_kv_heads")
    experts = family.experts if not nameless or _says_experts(fields) else None
    if experts is not None:
        values["moe"] = _experts(fields, experts, values, nameless=nameless)
    values["mtp_layers"] = fields.optional_count("num_nextn_predict_layers", low=0, high=DEEPEST) or 0
    if nameless:
        values |= {key: fields.optional_count(key, high=LARGEST_ARCHITECTURE) for key in OWN_KEYS[1:]}
    _check_size(fields, values)
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
    heads, kv_heads = values["heads"], values["kv_heads"]
    if heads and kv_heads and heads % kv_heads:
        reason = f"query heads are shared evenly, and {heads} of them do not divide by {kv_heads}"
        near = max(n for n in range(1, min(heads, kv_heads) + 1) if heads % n == 0)
        fields.fault(key, reason, f"Try {near}.")


def _latent(fields: Fields, heads: int | None) -> dict[str, Any]:
    """Multi-head latent attention; `num_key_value_heads` means nothing beside it."""
    fields.read.update(("num_key_value_heads", "head_dim"))
    parts: dict[str, Any] = {
        "query_lora_rank": fields.optional_count("q_lora_rank"),
        "key_value_lora_rank": fields.count("kv_lora_rank"),
        "nope_head_size": fields.count("qk_nope_head_dim"),
        "rope_head_size": fields.count("qk_rope_head_dim"),
        "value_head_size": fields.count("v_head_dim"),
    }
    if any(value is None for key, value in parts.items() if key != "query_lora_rank"):
        return {"kv_heads": None, "head_size": None}
    mla = LatentAttention(**parts)
    return {"mla": mla, "kv_heads": heads, "head_size": mla.nope_head_size + mla.rope_head_size}


def _window(fields: Fields, family: Family, layers: int | None) -> dict[str, Any]:
    """The sliding window and how many layers have one; neither changes a parameter."""
    kinds = fields.stated("layer_types")
    if kinds is not None and not (isinstance(kinds, list) and all(isinstance(kind, str) for kind in kinds)):
        fields.fault("layer_types", "is not a list of names", "State one name a layer, or leave it out.")
        kinds = None
    unknown = sorted(set(kinds or ()) - ATTENTION_LAYERS)
    if unknown:
        fields.fault(
            "layer_types", f"{', '.join(unknown)[:80]} layers are not modelled", "Only attention layers are."
        )
    if kinds is not None and layers is not None and len(kinds) != layers:
        fields.fault("layer_types", f"names {len(kinds)} layers of {layers}", f"State {layers} names.")
    window = fields.optional_count(family.window, high=LONGEST)
    if window is None or layers is None or (family.window_flag and not fields.flag(family.window_flag)):
        return {}
    every = family.full_attention_every
    if kinds is not None:
        sliding = sum(kind != "full_attention" for kind in kinds)
    else:
        sliding = layers - layers // every if every else layers
    return {"sliding_window": window, "sliding_layers": sliding} if sliding else {}


def _says_experts(fields: Fields) -> bool:
    keys = (*EXPERT_COUNT_KEYS, *TOP_K_KEYS, "moe_intermediate_size")
    return any(fields.stated(key) is not None for key in keys)


def _experts(
    fields: Fields, experts: Experts, values: dict[str, Any], *, nameless: bool
) -> MixtureOfExperts | None:
    """The mixture of experts; None in a dense configuration, and after a fault."""
    if not experts.required and not nameless and all(fields.stated(key) is None for key in EXPERT_COUNT_KEYS):
        return None
    count, chosen = fields.count(*EXPERT_COUNT_KEYS), fields.count(*TOP_K_KEYS)
    width = _expert_width(fields, experts, values["ffn"], nameless=nameless)
    if count and chosen and chosen > count:
        key = fields.spelling(TOP_K_KEYS)
        fields.fault(key, f"a token cannot visit {chosen} of {count} experts", f"State at most {count}.")
    places = _places(fields, experts, values["layers"])
    if count is None or chosen is None or width is None or places is None or chosen > count:
        return None
    return MixtureOfExperts(
        experts=count,
        experts_per_token=chosen,
        expert_ffn=width,
        shared_expert_ffn=_shared_width(fields, experts, width),
        **places,
        **experts.fixed,
    )


def _expert_width(fields: Fields, experts: Experts, ffn: int | None, *, nameless: bool) -> int | None:
    if nameless and fields.stated(experts.ffn) is None and ffn is not None:
        fields.assume(experts.ffn, ffn, "intermediate_size")
        return ffn
    return fields.count(experts.ffn)


def _shared_width(fields: Fields, experts: Experts, width: int) -> int:
    if experts.shared_as_routed:
        return width
    stated = fields.optional_count(experts.shared_width, low=0) if experts.shared_width else None
    if stated is not None:
        return stated
    count = fields.optional_count(experts.shared_count, low=0, high=1000) if experts.shared_count else None
    return (count or 0) * width


def _places(fields: Fields, experts: Experts, layers: int | None) -> dict[str, int] | None:
    """Which layers are sparse: `dense_first` and `every`."""
    first = fields.optional_count(experts.dense_first, low=0, high=DEEPEST) if experts.dense_first else None
    every = fields.optional_count(experts.every, high=DEEPEST) if experts.every else None
    if experts.every_is_one:
        value = fields.stated(experts.every_is_one)
        if value is not None and (value != 1 or isinstance(value, bool)):
            fields.fault(experts.every_is_one, "a pattern of sparse layers is not modelled", "Only 1 is.")
    dense = fields.stated("mlp_only_layers")
    if dense not in (None, []):
        if not isinstance(dense, list) or dense != list(range(len(dense))) or (every or 1) > 1:
            fields.fault(
                "mlp_only_layers", "dense layers in between are not modelled", "Only leading ones are."
            )
            return None
        first = len(dense)
    if layers is not None and (first or 0) + (every or 1) > layers:
        key = experts.dense_first or experts.every or "num_hidden_layers"
        fields.fault(key, f"leaves no sparse layer among {layers}", "Let at least one layer hold experts.")
        return None
    return {"dense_first": first or 0, "every": every or 1}


def _check_size(fields: Fields, values: dict[str, Any]) -> None:
    """Note an architecture no machine could hold, before its bytes leave 64 bits."""
    sizes = [values[key] for key in ("hidden", "layers", "heads", "head_size", "ffn", "vocabulary")]
    if fields.faults or any(size is None for size in sizes):
        return
    hidden, layers, heads, head_size, ffn, vocabulary = sizes
    moe = values.get("moe")
    positions = values.get("learned_positions", 0)
    mlp = max(ffn, moe.experts * moe.expert_ffn + moe.shared_expert_ffn if moe else 0)
    about = hidden * (layers * (4 * heads * head_size + 3 * mlp) + 2 * vocabulary + positions)
    if about > LARGEST_ARCHITECTURE:
        reason = f"its matrices would hold about {shown(float(about))} parameters, beyond any plan"
        fields.fault("hidden_size", reason, "State smaller widths.")
