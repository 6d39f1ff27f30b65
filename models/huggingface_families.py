"""The families of `config.json` we know, as data: what each always has, and how it spells the rest.

Shapes and class defaults are those of huggingface/transformers, src/transformers/models/<family>/
`configuration_*.py` and `modeling_*.py`, and of the modelling files beside the weights where that
package has no class (internlm, internlm2, baichuan, chatglm). A new family is a new row.
"""

from collections.abc import Mapping
from dataclasses import replace

from models import huggingface_shapes as shapes
from models.huggingface_families_sparse import (
    ATTENTION_BIAS,
    FULL,
    PER_HEAD,
    QKV_BIAS,
    SLIDING,
    SPARSE_FAMILIES,
    TIED,
    WINDOW,
)
from models.huggingface_family import DECIDED_BY_SHAPE, Experts, Family

EVERY_BIAS = {"qkv_bias": True, "attention_output_bias": True, "mlp_bias": True}
PLAIN_LAYER_NORM = {"norm": "layer", "gated_mlp": False}
PARALLEL = {"norm": "layer", "norm_bias": False, "norms_per_layer": 1}
NO_GROUPS = {"kv_heads": DECIDED_BY_SHAPE}
NO_GROUPS_NO_WIDTH = NO_GROUPS | {"ffn": DECIDED_BY_SHAPE}
GPT2_KEYS = NO_GROUPS_NO_WIDTH | {
    "hidden": "n_embd",
    "layers": "n_layer",
    "heads": "n_head",
    "max_positions": "n_positions",
}
GEMMA_DEFAULTS = TIED | {"head_dim": 256}
GPTJ = Family(
    keys=GPT2_KEYS,
    fixed=PLAIN_LAYER_NORM | {"mlp_bias": True, "head_bias": True, "norms_per_layer": 1},
    shape=shapes.four_times_inner,
)
LLAMA_FLAGS = ATTENTION_BIAS | {"mlp_bias": "mlp_bias"}
LLAMA = Family(flags=LLAMA_FLAGS)
PLAIN = Family()
GLM = Family(flags=QKV_BIAS, defaults={"attention_bias": True, "head_dim": 128, "num_key_value_heads": 2})
QWEN_WINDOW = WINDOW | {"max_window_layers": 28}
QWEN2 = Family(
    fixed={"qkv_bias": True},
    defaults=QWEN_WINDOW,
    window=SLIDING,
    window_flag="use_sliding_window",
    full_attention_first="max_window_layers",
)
QWEN2_VL_TEXT = replace(QWEN2, defaults=WINDOW | {"max_window_layers": 80, "num_key_value_heads": 8})
QWEN3 = Family(
    fixed=PER_HEAD,
    flags=ATTENTION_BIAS,
    defaults=QWEN_WINDOW | {"head_dim": 128},
    window=SLIDING,
    window_flag="use_sliding_window",
    full_attention_first="max_window_layers",
)
NAMELESS = Family(
    window=SLIDING,
    flags=LLAMA.flags,
    experts=Experts(
        shared_width="shared_expert_intermediate_size",
        shared_count="n_shared_experts",
        dense_first="first_k_dense_replace",
        every="decoder_sparse_step",
        dense_layers="mlp_only_layers",
        every_is_one="moe_layer_freq",
    ),
)
"""A decoder like Llama, told by its fields alone; its experts are read where it names any."""

FAMILIES: Mapping[str, Family] = {
    **SPARSE_FAMILIES,
    "llama": LLAMA,
    "granite": LLAMA,
    "helium": Family(flags=QKV_BIAS | {"mlp_bias": "mlp_bias"}, defaults={"head_dim": 128}),
    "arcee": Family(flags=LLAMA_FLAGS, fixed={"gated_mlp": False}),
    "smollm3": Family(
        flags=LLAMA_FLAGS,
        defaults=TIED | {"num_key_value_heads": 4},
        window=SLIDING,
        window_flag="use_sliding_window",
    ),
    "seed_oss": Family(
        flags={
            "qkv_bias": "attention_bias",
            "attention_output_bias": "attention_out_bias",
            "mlp_bias": "mlp_bias",
        },
        defaults={"attention_bias": True, "head_dim": 128, "num_key_value_heads": 8},
    ),
    "mistral": Family(window=SLIDING, defaults=WINDOW | {"num_key_value_heads": 8}),
    "ministral3": Family(window=SLIDING, defaults={"head_dim": 128, "num_key_value_heads": 8}),
    "phi3": Family(window=SLIDING),
    "baichuan": PLAIN,
    "internlm": Family(flags={"qkv_bias": "bias", "attention_output_bias": "bias"}, defaults={"bias": True}),
    "internlm2": Family(
        flags={"qkv_bias": "bias", "attention_output_bias": "bias"}, defaults={"bias": False}
    ),
    "internlm3": Family(
        flags={"qkv_bias": "qkv_bias", "attention_output_bias": "bias", "mlp_bias": "bias"},
        defaults={"head_dim": 128, "num_key_value_heads": 2},
    ),
    "exaone": Family(keys={"layers": "num_layers"}),
    "exaone4": Family(
        window=SLIDING,
        fixed=PER_HEAD,
        defaults=WINDOW,
        full_attention_every=4,
        full_attention_every_key="sliding_window_pattern",
    ),
    "ernie4_5": Family(
        flags={"qkv_bias": "use_bias", "attention_output_bias": "use_bias", "mlp_bias": "use_bias"},
        defaults=TIED | {"head_dim": 128, "num_key_value_heads": 2},
    ),
    "hunyuan_v1_dense": Family(fixed=PER_HEAD, flags=ATTENTION_BIAS),
    "minicpm3": Family(flags=LLAMA_FLAGS, latent=True, defaults=TIED | {"q_lora_rank": 768}),
    "glm": GLM,
    "glm4": Family(flags=GLM.flags, defaults=GLM.defaults, fixed={"norms_per_layer": 4}),
    "glm4v_text": Family(fixed={"qkv_bias": True, "norms_per_layer": 4}, defaults={"num_key_value_heads": 2}),
    "chatglm": Family(
        keys={
            "layers": "num_layers",
            "head_size": "kv_channels",
            "ffn": "ffn_hidden_size",
            "vocabulary": "padded_vocab_size",
            "max_positions": "seq_length",
            "kv_heads": DECIDED_BY_SHAPE,
        },
        flags={"qkv_bias": "add_qkv_bias"},
        not_modelled={"add_bias_linear": "biases on all of its matrices are not modelled"},
        shape=shapes.chatglm,
    ),
    "qwen2": QWEN2,
    "qwen2_vl": QWEN2,
    "qwen2_5_vl": QWEN2,
    "qwen2_vl_text": QWEN2_VL_TEXT,
    "qwen2_5_vl_text": QWEN2_VL_TEXT,
    "qwen3": QWEN3,
    "qwen3_vl_text": QWEN3,
    "gemma": Family(flags=ATTENTION_BIAS, defaults=GEMMA_DEFAULTS),
    "gemma2": Family(
        window=SLIDING,
        fixed={"norms_per_layer": 4},
        flags=ATTENTION_BIAS,
        defaults=GEMMA_DEFAULTS | WINDOW | {"num_key_value_heads": 4},
        full_attention_every=2,
    ),
    "gemma3_text": Family(
        window=SLIDING,
        fixed={"norms_per_layer": 4} | PER_HEAD,
        flags=ATTENTION_BIAS,
        full_attention_every=6,
        full_attention_every_key="sliding_window_pattern",
        defaults=GEMMA_DEFAULTS
        | WINDOW
        | {"num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 262208},
    ),
    "gpt2": Family(
        keys=GPT2_KEYS,
        fixed=PLAIN_LAYER_NORM | EVERY_BIAS,
        defaults=TIED | {"n_positions": 1024},
        learned_positions=True,
        shape=shapes.four_times_inner,
    ),
    "gpt_bigcode": Family(
        keys=GPT2_KEYS,
        fixed=PLAIN_LAYER_NORM | EVERY_BIAS,
        defaults=TIED | {"n_positions": 1024, "multi_query": True},
        learned_positions=True,
        shape=shapes.gpt_bigcode,
    ),
    "gpt_neo": Family(
        keys=NO_GROUPS_NO_WIDTH | {"layers": "num_layers", "heads": "num_heads"},
        fixed=PLAIN_LAYER_NORM | {"attention_output_bias": True, "mlp_bias": True},
        defaults=TIED | {"window_size": 256},
        learned_positions=True,
        shape=shapes.gpt_neo,
    ),
    "gpt_neox": Family(
        keys=NO_GROUPS,
        fixed=PLAIN_LAYER_NORM | {"mlp_bias": True},
        flags=ATTENTION_BIAS,
        defaults={"attention_bias": True},
    ),
    "gptj": GPTJ,
    "codegen": GPTJ,
    "opt": Family(
        keys=NO_GROUPS | {"ffn": "ffn_dim"}, fixed=PLAIN_LAYER_NORM, defaults=TIED, shape=shapes.opt
    ),
    "bloom": Family(
        keys=NO_GROUPS_NO_WIDTH | {"hidden": "n_embed", "layers": "n_layer", "heads": "n_head"},
        fixed=PLAIN_LAYER_NORM | EVERY_BIAS | {"embedding_norm": True},
        defaults=TIED,
        shape=shapes.four_times_always,
    ),
    "falcon": Family(
        keys=NO_GROUPS_NO_WIDTH,
        fixed=PLAIN_LAYER_NORM,
        defaults=TIED | {"parallel_attn": True, "multi_query": True},
        shape=shapes.falcon,
    ),
    "mpt": Family(
        keys=NO_GROUPS_NO_WIDTH
        | {"hidden": "d_model", "layers": "n_layers", "heads": "n_heads", "max_positions": "max_seq_len"},
        fixed=PLAIN_LAYER_NORM,
        defaults=TIED | {"no_bias": True},
        shape=shapes.mpt,
    ),
    "phi": Family(
        fixed=PLAIN_LAYER_NORM | EVERY_BIAS | {"head_bias": True, "norms_per_layer": 1},
        not_modelled={"qk_layernorm": "LayerNorms on queries and keys are not modelled"},
    ),
    "nemotron": Family(fixed=PLAIN_LAYER_NORM, flags=LLAMA_FLAGS),
    "starcoder2": Family(
        window=SLIDING,
        fixed=PLAIN_LAYER_NORM,
        flags={"qkv_bias": "use_bias", "attention_output_bias": "use_bias", "mlp_bias": "use_bias"},
        defaults=TIED | {"use_bias": True, "num_key_value_heads": 2},
        shape=shapes.starcoder2,
    ),
    "stablelm": Family(
        fixed={"norm": "layer"},
        flags={"qkv_bias": "use_qkv_bias"},
        switches={"use_parallel_residual": {"norms_per_layer": 1}},
        not_modelled={"qk_layernorm": "norms of each head's own are not modelled"},
    ),
    # CohereLayerNorm of queries and keys has one weight a head and channel.
    "cohere": Family(fixed=PARALLEL, flags=ATTENTION_BIAS, defaults=TIED, switches={"use_qk_norm": FULL}),
    "cohere2": Family(
        window=SLIDING,
        fixed=PARALLEL,
        flags=ATTENTION_BIAS,
        defaults=TIED | WINDOW | {"head_dim": 128},
        full_attention_every=4,
        full_attention_every_key="sliding_window_pattern",
    ),
    "olmo": Family(fixed={"norm": "layer", "norm_affine": False}, flags=ATTENTION_BIAS),
    "olmo2": Family(fixed=FULL, flags=ATTENTION_BIAS),
    "olmo3": Family(
        window=SLIDING, fixed=FULL, flags=ATTENTION_BIAS, defaults=WINDOW, full_attention_every=4
    ),
}
"""Family -> how it is read."""
