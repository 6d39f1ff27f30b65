"""What no table of field names can say of a family: functions that read a few fields more.

Each takes the fields and what was read of them so far, and returns fields of `Architecture`.
"""

from typing import Any

from models.huggingface_fields import DEEPEST, LONGEST, Fields


def four_times(fields: Fields, read: dict[str, Any], key: str) -> dict[str, Any]:
    """The feed-forward's width, four times the hidden one where it is null or missing."""
    width = fields.optional_count(key)
    if width is None and read["hidden"] is not None:
        width = 4 * read["hidden"]
        fields.assume(key, width, "four times the hidden width")
    return {"ffn": width}


def four_times_inner(fields: Fields, read: dict[str, Any]) -> dict[str, Any]:
    """The width as GPT-2 spells it."""
    return four_times(fields, read, "n_inner")


def four_times_always(_: Fields, read: dict[str, Any]) -> dict[str, Any]:
    """No field for the width at all: four times the hidden one."""
    return {"ffn": 4 * read["hidden"] if read["hidden"] else None}


def gpt_bigcode(fields: Fields, read: dict[str, Any]) -> dict[str, Any]:
    """GPT-2 with one key-value head for all by a flag."""
    kv_heads = 1 if fields.flag("multi_query") else read["heads"]
    return {"kv_heads": kv_heads, **four_times_inner(fields, read)}


def gpt_neo(fields: Fields, read: dict[str, Any]) -> dict[str, Any]:
    """Layers with a window, listed one by one or as a pattern that repeats; global and local in turn."""
    shape = four_times(fields, read, "intermediate_size")
    kinds, layers = fields.stated("attention_layers") or _repeated(fields), read["layers"]
    window = fields.optional_count("window_size", high=LONGEST)
    if layers is None or window is None:
        return shape
    if isinstance(kinds, list) and len(kinds) == layers:
        sliding = sum(kind == "local" for kind in kinds)
    else:
        sliding = layers // 2
    return shape | ({"sliding_window": window, "sliding_layers": sliding} if sliding else {})


def _repeated(fields: Fields) -> list[Any] | None:
    """The kinds GPT-Neo's pattern lists: [[["global", "local"], 12]] is 12 of each in turn."""
    pattern = fields.stated("attention_types")
    if pattern is None:
        return None
    try:
        kinds = [kind for part, times in pattern for _ in range(min(int(times), DEEPEST)) for kind in part]
    except (TypeError, ValueError):
        kinds = []
    if not kinds or not all(kind in ("global", "local") for kind in kinds):
        fields.fault("attention_types", "is no list of [kinds, times]", 'State [[["global", "local"], 12]].')
        return None
    return kinds


def falcon(fields: Fields, read: dict[str, Any]) -> dict[str, Any]:
    """Three generations under one name: multi-query, grouped and plain attention, one or two norms."""
    new, parallel = fields.flag("new_decoder_architecture"), fields.flag("parallel_attn")
    bias, multi_query = fields.flag("bias"), fields.flag("multi_query")
    grouped = fields.optional_count("num_kv_heads")
    norms_given = fields.optional_count("num_ln_in_parallel_attn", high=2)
    kv_heads = (grouped or read["heads"]) if new else 1 if multi_query else read["heads"]
    norms = norms_given or (2 if new else 1)
    return {
        "kv_heads": kv_heads,
        "norms_per_layer": norms if parallel else 2,
        **_biases(bias),
        **four_times(fields, read, "ffn_hidden_size"),
    }


def opt(fields: Fields, read: dict[str, Any]) -> dict[str, Any]:
    """Learned positions with two rows more; biases by one flag; the two oddities of OPT-350m refused."""
    bias = fields.flag("enable_bias", default=True)
    affine = fields.flag("layer_norm_elementwise_affine", default=True)
    projected = fields.optional_count("word_embed_proj_dim")
    if projected is not None and read["hidden"] is not None and projected != read["hidden"]:
        fields.fault("word_embed_proj_dim", "an embedding narrower than the model is not modelled",
                     f"Only {read['hidden']} is.")  # fmt: skip
    if not fields.flag("do_layer_norm_before", default=True):
        fields.fault("do_layer_norm_before", "norms after the blocks are not modelled", "Only true is.")
    if fields.flag("_remove_final_layer_norm"):
        fields.fault(
            "_remove_final_layer_norm", "a decoder without a last norm is not modelled", "Only false is."
        )
    positions = fields.count("max_position_embeddings")
    # OPT keeps two rows of its position table for padding (OPTLearnedPositionalEmbedding.offset).
    return {"learned_positions": (positions or 0) + 2, "norm_affine": affine, **_biases(bias)}


def mpt(fields: Fields, read: dict[str, Any]) -> dict[str, Any]:
    """Attention in a configuration of its own; biases, also of the norms, by one flag."""
    ratio = fields.optional_count("expansion_ratio", high=64) or 4
    bias = not fields.flag("no_bias")
    inner = fields.inside("attn_config")
    kv_heads = inner.optional_count("kv_n_heads")
    alibi = inner.flag("alibi", default=True)
    only(inner, "attn_type", "multihead_attention", "grouped_query_attention")
    for key in ("qk_ln", "qk_gn", "rope"):
        if inner.flag(key):
            inner.fault(key, "is not modelled", "Only false is.")
    only(fields, "norm_type", "low_precision_layernorm", "layernorm")
    if fields.stated("ffn_config"):
        only(fields.inside("ffn_config"), "ffn_type", "mptmlp")
    learned = fields.flag("learned_pos_emb", default=True) and not alibi
    positions = fields.count("max_seq_len") if learned else 0
    return {
        "ffn": ratio * read["hidden"] if read["hidden"] else None,
        "kv_heads": kv_heads or read["heads"],
        "learned_positions": positions or 0,
        "norm_bias": bias,
        **_biases(bias),
    }


def chatglm(fields: Fields, read: dict[str, Any]) -> dict[str, Any]:
    """Key-value groups where a flag says so."""
    grouped = fields.flag("multi_query_attention")
    groups = fields.optional_count("multi_query_group_num")
    if grouped and groups is None:
        fields.fault("multi_query_group_num", "is missing beside multi_query_attention", "State a number.")
    for key in ("rmsnorm", "post_layer_norm"):
        if not fields.flag(key, default=True):
            fields.fault(key, "another norm, or none at the end, is not modelled", "Only true is.")
    return {"kv_heads": groups if grouped else read["heads"]}


def starcoder2(fields: Fields, _: dict[str, Any]) -> dict[str, Any]:
    """One kind of feed-forward and of norm."""
    only(fields, "mlp_type", "default")
    only(fields, "norm_type", "layer_norm")
    return {}


def only(fields: Fields, key: str, *modelled: str) -> None:
    """Note a choice that is not among those we model."""
    value = fields.stated(key)
    if value is not None and value not in modelled:
        fields.fault(key, "is not modelled", f"Only {' and '.join(modelled)}.")


def llama4(fields: Fields, read: dict[str, Any]) -> dict[str, Any]:
    """Dense layers are wider than an expert: `intermediate_size_mlp`."""
    return {"ffn": fields.optional_count("intermediate_size_mlp") or read["ffn"]}


def _biases(bias: bool) -> dict[str, Any]:
    return {"qkv_bias": bias, "attention_output_bias": bias, "mlp_bias": bias}
