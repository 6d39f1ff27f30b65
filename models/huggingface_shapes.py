"""What no table of field names can say of a family: functions that read a few fields more.

Each takes the fields and what was read of them so far, and returns fields of `Architecture`.
"""

from typing import Any

from models.huggingface_fields import Fields


def gpt2(fields: Fields, read: dict[str, Any]) -> dict[str, Any]:
    """Learned positions, as many as n_positions."""
    return {"learned_positions": read["max_positions"] or 0, **four_times(fields, read, "n_inner")}


def four_times(fields: Fields, read: dict[str, Any], key: str) -> dict[str, Any]:
    """The feed-forward's width, four times the hidden one where it is null or missing."""
    width = fields.optional_count(key)
    return {"ffn": width or 4 * (read["hidden"] or 1)}


def four_times_always(_: Fields, read: dict[str, Any]) -> dict[str, Any]:
    """No field for the width at all: four times the hidden one."""
    return {"ffn": 4 * (read["hidden"] or 1)}


def gpt_neo(fields: Fields, read: dict[str, Any]) -> dict[str, Any]:
    """Learned positions; the width four times the hidden one where it is null."""
    return {"learned_positions": read["max_positions"] or 0, **four_times(fields, read, "intermediate_size")}


def falcon(fields: Fields, read: dict[str, Any]) -> dict[str, Any]:
    """Three generations under one name: multi-query, grouped and plain attention, one or two norms."""
    new, parallel = fields.flag("new_decoder_architecture"), fields.flag("parallel_attn", default=True)
    bias, multi_query = fields.flag("bias"), fields.flag("multi_query", default=True)
    grouped = fields.optional_count("num_kv_heads")
    norms_given = fields.optional_count("num_ln_in_parallel_attn", high=2)
    kv_heads = (grouped or read["heads"]) if new else 1 if multi_query else read["heads"]
    norms = (norms_given or 2) if new else 1 if parallel else 2
    return {
        "kv_heads": kv_heads,
        "norms_per_layer": norms,
        **_biases(bias),
        **four_times(fields, read, "ffn_hidden_size"),
    }


def opt(fields: Fields, read: dict[str, Any]) -> dict[str, Any]:
    """Learned positions with two rows more; biases by one flag; the two oddities of OPT-350m refused."""
    bias = fields.flag("enable_bias", default=True)
    projected = fields.optional_count("word_embed_proj_dim")
    if projected is not None and read["hidden"] is not None and projected != read["hidden"]:
        fields.fault("word_embed_proj_dim", "an embedding narrower than the model is not modelled",
                     f"Only {read['hidden']} is.")  # fmt: skip
    if not fields.flag("do_layer_norm_before", default=True):
        fields.fault("do_layer_norm_before", "norms after the blocks are not modelled", "Only true is.")
    # OPT keeps two rows of its position table for padding (OPTLearnedPositionalEmbedding.offset).
    return {"learned_positions": (read["max_positions"] or 0) + 2, **_biases(bias)}


def cohere(fields: Fields, _: dict[str, Any]) -> dict[str, Any]:
    """Norms on queries and keys by a flag."""
    # CohereLayerNorm of queries and keys has one weight a head and channel.
    return {"qk_norm": "full"} if fields.flag("use_qk_norm") else {}


def stablelm(fields: Fields, _: dict[str, Any]) -> dict[str, Any]:
    """One norm a layer with the parallel residual."""
    if fields.flag("qk_layernorm"):
        fields.fault("qk_layernorm", "norms of each head's own are not modelled", "Only false is.")
    return {"norms_per_layer": 1} if fields.flag("use_parallel_residual") else {}


def phi(fields: Fields, _: dict[str, Any]) -> dict[str, Any]:
    """Norms on queries and keys are refused."""
    if fields.flag("qk_layernorm"):
        fields.fault("qk_layernorm", "LayerNorms on queries and keys are not modelled", "Only false is.")
    return {}


def mpt(fields: Fields, read: dict[str, Any]) -> dict[str, Any]:
    """Attention in a configuration of its own; biases, also of the norms, by one flag."""
    ratio = fields.optional_count("expansion_ratio", high=64) or 4
    bias = not fields.flag("no_bias", default=True)
    attention = fields.stated("attn_config")
    inner = Fields(attention if isinstance(attention, dict) else {}, fields.pointer("attn_config"), {})
    kv_heads = inner.optional_count("kv_n_heads")
    alibi = inner.flag("alibi", default=True)
    fields.faults += inner.faults
    return {
        "ffn": ratio * (read["hidden"] or 1),
        "kv_heads": kv_heads or read["heads"],
        "learned_positions": 0 if alibi else read["max_positions"] or 0,
        "norm_bias": bias,
        **_biases(bias),
    }


def llama4(fields: Fields, read: dict[str, Any]) -> dict[str, Any]:
    """Dense layers are wider than an expert: `intermediate_size_mlp`."""
    sparse = fields.stated("moe_layers")
    every = fields.optional_count("interleave_moe_layer_step") or 1
    if sparse and sparse != [i for i in range(read["layers"] or 0) if (i + 1) % every == 0]:
        fields.fault("moe_layers", "says otherwise than interleave_moe_layer_step", "Leave it out.")
    return {"ffn": fields.optional_count("intermediate_size_mlp") or read["ffn"]}


def _biases(bias: bool) -> dict[str, Any]:
    return {"qkv_bias": bias, "attention_output_bias": bias, "mlp_bias": bias}
