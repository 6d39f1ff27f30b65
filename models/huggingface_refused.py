"""Configurations we know and cannot reckon with yet, each with what is missing; and what changes nothing."""

from collections.abc import Mapping

STATE_SPACE = "its state-space (Mamba) layers are not modelled"
LINEAR = "its linear-attention layers are not modelled"
ENCODER = "it is no decoder-only transformer"

REFUSED: Mapping[str, str] = {
    "nemotron_h": STATE_SPACE,
    "jamba": STATE_SPACE,
    "mamba": STATE_SPACE,
    "mamba2": STATE_SPACE,
    "falcon_mamba": STATE_SPACE,
    "falcon_h1": STATE_SPACE,
    "bamba": STATE_SPACE,
    "zamba": STATE_SPACE,
    "zamba2": STATE_SPACE,
    "plamo2": STATE_SPACE,
    "granitemoehybrid": STATE_SPACE,
    "recurrent_gemma": "its recurrent layers are not modelled",
    "rwkv": "its recurrent layers are not modelled",
    "xlstm": "its recurrent layers are not modelled",
    "qwen3_next": LINEAR,
    "qwen3_5": LINEAR,
    "qwen3_5_text": LINEAR,
    "qwen3_5_moe": LINEAR,
    "qwen3_5_moe_text": LINEAR,
    "kimi_linear": LINEAR,
    "minimax": LINEAR,
    "minimax_m1": LINEAR,
    "minimax_text_01": LINEAR,
    "bailing_moe_linear": LINEAR,
    "lfm2": "its short-convolution layers are not modelled",
    "lfm2_moe": "its short-convolution layers are not modelled",
    "nemotron-nas": "layers that each have a shape of their own (block_configs) are not modelled",
    "deci": "layers that each have a shape of their own are not modelled",
    "deepseek_v32": "the indexer of its sparse attention is not modelled",
    "deepseek_v4": "its compressed sparse attention is not modelled",
    "gemma3n": "its per-layer embeddings are not modelled",
    "gemma3n_text": "its per-layer embeddings are not modelled",
    "gemma4": "its per-layer embeddings and experts are not modelled",
    "gemma4_text": "its per-layer embeddings and experts are not modelled",
    "bert": ENCODER,
    "roberta": ENCODER,
    "t5": ENCODER,
    "mt5": ENCODER,
    "bart": ENCODER,
    "whisper": ENCODER,
    "vit": ENCODER,
    "clip": ENCODER,
}
"""Family -> what is missing."""

REFUSED_FIELDS: Mapping[str, str] = {
    "block_configs": "layers that each have a shape of their own are not modelled",
    "hybrid_override_pattern": STATE_SPACE,
    "layers_block_type": STATE_SPACE,
    "ssm_cfg": STATE_SPACE,
    "mamba_d_state": STATE_SPACE,
    "mamba_num_heads": STATE_SPACE,
    "linear_num_key_heads": LINEAR,
    "linear_num_value_heads": LINEAR,
    "linear_attn_config": LINEAR,
    "attn_type_list": LINEAR,
}
"""Fields only such layers have, whatever the family says."""

ATTENTION_LAYERS = frozenset({"full_attention", "sliding_attention", "chunked_attention", "attention"})
"""Kinds of layer in `layer_types` that have the same parameters."""

HARMLESS = frozenset(
    {
        "_name_or_path",
        "architectures",
        "attention_dropout",
        "attn_implementation",
        "auto_map",
        "aux_loss_alpha",
        "bos_token_id",
        "dtype",
        "eos_token_id",
        "hidden_act",
        "hidden_activation",
        "initializer_range",
        "layer_norm_eps",
        "max_window_layers",
        "model_type",
        "norm_topk_prob",
        "original_max_position_embeddings",
        "output_router_logits",
        "pad_token_id",
        "pretraining_tp",
        "resid_pdrop",
        "rms_norm_eps",
        "rope_parameters",
        "rope_scaling",
        "rope_theta",
        "router_aux_loss_coef",
        "routed_scaling_factor",
        "scoring_func",
        "seq_aux",
        "topk_group",
        "topk_method",
        "n_group",
        "torch_dtype",
        "transformers_version",
        "use_cache",
        "use_sliding_window",
    }
)
"""Fields that change no shape, allowed anywhere."""
