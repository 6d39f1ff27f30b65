"""Configurations we know and cannot reckon with yet, each with what is missing; and what changes nothing."""

from collections.abc import Mapping

RECURRENT = "its recurrent layers are not modelled"
CROSS = "its cross-attention is not modelled"
SHARED_CACHE = "layers that share keys and values are not modelled"
INDEXER = "the indexer of its sparse attention is not modelled"
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
    "bailing_hybrid": LINEAR,
    "olmo_hybrid": LINEAR,
    "zaya": STATE_SPACE,
    "recurrent_gemma": RECURRENT,
    "rwkv": RECURRENT,
    "rwkv5": RECURRENT,
    "rwkv6": RECURRENT,
    "rwkv7": RECURRENT,
    "xlstm": RECURRENT,
    "samba": STATE_SPACE,
    "hymba": STATE_SPACE,
    "phi4flash": STATE_SPACE,
    "qwen": "its feed-forward of half the stated width is not modelled",
    "mimo": "its prediction heads are not modelled",
    "xglm": "its computed positions are not modelled",
    "hunyuan": SHARED_CACHE,
    "hunyuan_v1_moe": "its experts that differ from layer to layer are not modelled",
    "phi3small": "its block-sparse attention is not modelled",
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
    "longcat_flash": "two attentions in a layer, and experts that do nothing, are not modelled",
    "mimo_v2_flash": "two kinds of attention with heads of their own are not modelled",
    "glm_moe_dsa": INDEXER,
    "jetmoe": "experts of its attention are not modelled",
    "diffllama": "its differential attention is not modelled",
    "afmoe": "the gates of its attention are not modelled",
    "bitnet": "the norms inside its blocks are not modelled",
    "mllama": "its cross-attention layers are not modelled",
    "mllama_text_model": "its cross-attention layers are not modelled",
    "dbrx": "its attention and feed-forward of separate configurations are not modelled",
    "lfm2": "its short-convolution layers are not modelled",
    "lfm2_moe": "its short-convolution layers are not modelled",
    "nemotron-nas": "layers that each have a shape of their own (block_configs) are not modelled",
    "deci": "layers that each have a shape of their own are not modelled",
    "deepseek_v32": INDEXER,
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
    "attn_layer_period": STATE_SPACE,
    "full_attention_interval": LINEAR,
    "linear_num_key_heads": LINEAR,
    "linear_num_value_heads": LINEAR,
    "linear_attn_config": LINEAR,
    "linear_conv_kernel_dim": LINEAR,
    "linear_key_head_dim": LINEAR,
    "attn_type_list": LINEAR,
    "attn_layer_indices": STATE_SPACE,
    "time_step_rank": STATE_SPACE,
    "block_types": RECURRENT,
    "lru_width": RECURRENT,
    "num_key_value_heads_per_layer": "layers that each have a shape of their own are not modelled",
    "cross_attention_layers": CROSS,
    "add_cross_attention": CROSS,
    "is_encoder_decoder": ENCODER,
    "use_cla": SHARED_CACHE,
    "num_kv_shared_layers": SHARED_CACHE,
    "index_topk": INDEXER,
    "peft_type": "training an adapter (LoRA) on frozen weights is not modelled",
}
"""Fields only such layers have, whatever the family says; false, zero or empty they mean nothing."""

REFUSED_BEGINNINGS: Mapping[str, str] = {"mamba_": STATE_SPACE, "ssm_": STATE_SPACE}
"""How the names of more such fields begin."""

ATTENTION_LAYERS = frozenset({"full_attention", "sliding_attention", "chunked_attention", "attention"})
"""Kinds of layer in `layer_types` that have the same parameters."""

HARMLESS = frozenset(
    {
        "_name_or_path",
        "_sliding_window_pattern",
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
