"""The families of `config.json` with a mixture of experts, as data.

Shapes and class defaults are those of huggingface/transformers, src/transformers/models/<family>/
`configuration_*.py` and `modeling_*.py`.
"""

from collections.abc import Mapping

from models import huggingface_shapes as shapes
from models.huggingface_family import Experts, Family

ATTENTION_BIAS = {"qkv_bias": "attention_bias", "attention_output_bias": "attention_bias"}
QKV_BIAS = {"qkv_bias": "attention_bias"}
TIED = {"tie_word_embeddings": True}
SLIDING = "sliding_window"
"""Field of the window in the families whose classes have one."""
WINDOW = {SLIDING: 4096}
PER_HEAD = {"qk_norm": "per_head"}
FULL = {"qk_norm": "full"}
SCORE_CORRECTION = {"router_score_correction": True}
MLP_BIAS = {"mlp_bias": "biases on shared experts alone are not modelled"}


def deepseek_experts(*, corrected: bool) -> Experts:
    """Leading dense layers, shared experts as wide as routed ones; V3 corrects the router's scores."""
    return Experts(
        required=False,
        shared_count="n_shared_experts",
        dense_first="first_k_dense_replace",
        kinds="mlp_layer_types",
        every_is_one="moe_layer_freq",
        fixed=SCORE_CORRECTION if corrected else {},
    )


LOW_RANK_QUERIES = {"q_lora_rank": 1536}
ONE_SHARED_ONE_DENSE = {"n_shared_experts": 1, "first_k_dense_replace": 1}
DEEPSEEK_V3 = Family(
    flags=ATTENTION_BIAS, latent=True, defaults=LOW_RANK_QUERIES, experts=deepseek_experts(corrected=True)
)
QWEN_EXPERTS = Experts(every="decoder_sparse_step", dense_layers="mlp_only_layers", required=False)
QWEN3_MOE = Family(
    fixed=PER_HEAD,
    flags=ATTENTION_BIAS,
    defaults={"num_key_value_heads": 4},
    window=SLIDING,
    window_flag="use_sliding_window",
    experts=QWEN_EXPERTS,
)
GLM4_MOE = Family(
    flags=QKV_BIAS,
    defaults=ONE_SHARED_ONE_DENSE,
    switches={"use_qk_norm": PER_HEAD},
    experts=deepseek_experts(corrected=True),
)
MIXTRAL_EXPERTS = Experts(ffn="intermediate_size")

SPARSE_FAMILIES: Mapping[str, Family] = {
    "mixtral": Family(window=SLIDING, defaults={"num_key_value_heads": 8}, experts=MIXTRAL_EXPERTS),
    "granitemoe": Family(flags=ATTENTION_BIAS, experts=MIXTRAL_EXPERTS),
    "granitemoeshared": Family(
        flags=ATTENTION_BIAS,
        experts=Experts(ffn="intermediate_size", shared_width="shared_intermediate_size"),
    ),
    "phimoe": Family(
        window=SLIDING,
        fixed={"norm": "layer"},
        flags=ATTENTION_BIAS | {"head_bias": "lm_head_bias"},
        defaults={"num_key_value_heads": 8},
        experts=MIXTRAL_EXPERTS,
    ),
    "qwen2_moe": Family(
        window=SLIDING,
        flags={"qkv_bias": "qkv_bias"},
        defaults={"qkv_bias": True, "shared_expert_intermediate_size": 5632, "max_window_layers": 28},
        experts=Experts(
            shared_width="shared_expert_intermediate_size",
            every="decoder_sparse_step",
            dense_layers="mlp_only_layers",
            fixed={"shared_expert_gate": True},
        ),
        window_flag="use_sliding_window",
        full_attention_first="max_window_layers",
    ),
    "qwen3_moe": QWEN3_MOE,
    "qwen3_vl_moe_text": QWEN3_MOE,
    "deepseek": Family(flags=ATTENTION_BIAS, experts=deepseek_experts(corrected=False)),
    "deepseek_v2": Family(
        flags=ATTENTION_BIAS,
        latent=True,
        not_modelled=MLP_BIAS,
        experts=deepseek_experts(corrected=False),
    ),
    "deepseek_v3": DEEPSEEK_V3,
    "kimi_k2": DEEPSEEK_V3,
    "glm4_moe_lite": Family(
        flags=ATTENTION_BIAS,
        latent=True,
        defaults=ONE_SHARED_ONE_DENSE | {"q_lora_rank": 768},
        experts=deepseek_experts(corrected=True),
    ),
    "glm4_moe": GLM4_MOE,
    "glm4v_moe_text": Family(
        flags=QKV_BIAS,
        defaults=ONE_SHARED_ONE_DENSE | {"attention_bias": True},
        experts=deepseek_experts(corrected=True),
    ),
    "dots1": Family(
        window=SLIDING,
        fixed=PER_HEAD,
        flags=ATTENTION_BIAS,
        defaults={"max_window_layers": 62},
        experts=deepseek_experts(corrected=True),
        full_attention_first="max_window_layers",
    ),
    # No layer is dense, so the file has no width for one.
    "solar_open": Family(
        keys={"ffn": "moe_intermediate_size"},
        flags=QKV_BIAS,
        defaults={"head_dim": 128, "num_key_value_heads": 8, "n_shared_experts": 1},
        experts=Experts(shared_count="n_shared_experts", fixed=SCORE_CORRECTION),
    ),
    "ernie4_5_moe": Family(
        defaults=TIED
        | {
            "num_key_value_heads": 4,
            "moe_layer_start_index": 1,
            "moe_layer_end_index": -1,
            "moe_num_shared_experts": 2,
        },
        not_modelled={"use_bias": "its biases, which experts are without, are not modelled"},
        experts=Experts(
            shared_count="moe_num_shared_experts",
            dense_first="moe_layer_start_index",
            dense_last="moe_layer_end_index",
            every="moe_layer_interval",
            fixed=SCORE_CORRECTION,
        ),
    ),
    "minimax_m2": Family(
        fixed=FULL,
        defaults={"head_dim": 128, "num_key_value_heads": 8},
        experts=Experts(ffn="intermediate_size", fixed=SCORE_CORRECTION),
    ),
    "exaone_moe": Family(
        window=SLIDING,
        fixed=PER_HEAD,
        full_attention_every=4,
        full_attention_every_key="sliding_window_pattern",
        defaults=WINDOW | {"first_k_dense_replace": 1, "num_shared_experts": 1},
        experts=Experts(
            shared_count="num_shared_experts",
            dense_first="first_k_dense_replace",
            kinds="mlp_layer_types",
            fixed=SCORE_CORRECTION,
        ),
    ),
    "gpt_oss": Family(
        window=SLIDING,
        fixed={"attention_sinks": True},
        flags=ATTENTION_BIAS,
        defaults={"attention_bias": True, "head_dim": 64, "num_key_value_heads": 8, "sliding_window": 128},
        full_attention_every=2,
        experts=Experts(ffn="intermediate_size", fixed={"router_bias": True, "expert_bias": True}),
    ),
    "llama4_text": Family(
        flags=ATTENTION_BIAS,
        defaults={
            "head_dim": 128,
            "num_key_value_heads": 8,
            "intermediate_size_mlp": 16384,
            "attention_chunk_size": 8192,
        },
        window="attention_chunk_size",
        chunked=True,
        full_attention_every=4,
        experts=Experts(
            ffn="intermediate_size",
            shared_as_routed=True,
            every="interleave_moe_layer_step",
            sparse_layers="moe_layers",
        ),
        shape=shapes.llama4,
    ),
    "olmoe": Family(fixed=FULL, flags=ATTENTION_BIAS, experts=MIXTRAL_EXPERTS),
    "flex_olmo": Family(fixed=FULL, flags=ATTENTION_BIAS, experts=MIXTRAL_EXPERTS),
}
"""Family -> how it is read."""
