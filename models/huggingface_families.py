"""The families of `config.json` we know, as data: what each always has, and how it spells the rest.

Shapes and class defaults are those of huggingface/transformers, src/transformers/models/<family>/
`configuration_*.py` and `modeling_*.py`. A new family is a new row.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from models import huggingface_shapes as shapes
from models.huggingface_fields import Fields

EXPERT_COUNT_KEYS = ("num_experts", "num_local_experts", "n_routed_experts")
TOP_K_KEYS = ("num_experts_per_tok", "experts_per_token")
DECIDED_BY_SHAPE = ""
"""In place of a field's name: the family's `shape` decides."""
ATTENTION_BIAS = {"qkv_bias": "attention_bias", "attention_output_bias": "attention_bias"}
LAYER_NORM_WITH_BIASES = {
    "norm": "layer",
    "gated_mlp": False,
    "qkv_bias": True,
    "attention_output_bias": True,
    "mlp_bias": True,
}


@dataclass(frozen=True)
class Experts:
    """How a family spells its mixture of experts."""

    ffn: str = "moe_intermediate_size"
    """Width of a routed expert."""
    required: bool = True
    """False where a configuration without experts is a dense one."""
    shared_width: str | None = None
    """Field with the width of the shared experts together."""
    shared_count: str | None = None
    """Field with the number of shared experts, each as wide as a routed one."""
    shared_as_routed: bool = False
    """One shared expert, as wide as a routed one, always."""
    dense_first: str | None = None
    """Field with the number of leading dense layers."""
    every: str | None = None
    """Field n: every n-th layer is sparse."""
    every_is_one: str | None = None
    """Field of a pattern we model only where it is 1."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `MixtureOfExperts` that the family decides."""


@dataclass(frozen=True)
class Family:
    """How a family spells a decoder, and what it always has."""

    keys: Mapping[str, str] = field(default_factory=dict)
    """Our field -> its field, where it is not the usual one."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `Architecture` that the family decides."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Our true-or-false field -> its field."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Its field -> the value its class takes where the file is silent."""
    experts: Experts | None = None
    latent: bool = False
    """Multi-head latent attention."""
    window: str = "sliding_window"
    """Field with the tokens a query of a sliding layer sees."""
    window_flag: str | None = None
    """Field without which the window is not used."""
    full_attention_every: int = 0
    """Every n-th layer sees all tokens; 0 where all layers slide."""
    shape: Callable[[Fields, dict[str, Any]], dict[str, Any]] | None = None
    """What no table says: reads more fields and returns fields of `Architecture`."""


USUAL_KEYS = {
    "hidden": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_size": "head_dim",
    "ffn": "intermediate_size",
    "vocabulary": "vocab_size",
    "tied_embeddings": "tie_word_embeddings",
    "max_positions": "max_position_embeddings",
}


DEEPSEEK_EXPERTS = Experts(
    required=False,
    shared_count="n_shared_experts",
    dense_first="first_k_dense_replace",
    every_is_one="moe_layer_freq",
)
DEEPSEEK_V3 = Family(
    flags=ATTENTION_BIAS,
    latent=True,
    experts=Experts(
        required=False,
        shared_count="n_shared_experts",
        dense_first="first_k_dense_replace",
        every_is_one="moe_layer_freq",
        fixed={"router_score_correction": True},
    ),
)
NO_GROUPS = {"kv_heads": DECIDED_BY_SHAPE}
GPT2_KEYS = NO_GROUPS | {
    "ffn": DECIDED_BY_SHAPE,
    "hidden": "n_embd",
    "layers": "n_layer",
    "heads": "n_head",
    "max_positions": "n_positions",
}
TIED = {"tie_word_embeddings": True}
GEMMA_DEFAULTS = TIED | {"head_dim": 256}
GEMMA = Family(flags=ATTENTION_BIAS, defaults=GEMMA_DEFAULTS)
LLAMA = Family(flags=ATTENTION_BIAS | {"mlp_bias": "mlp_bias"})
NAMELESS = Family(
    flags=LLAMA.flags,
    experts=Experts(
        shared_width="shared_expert_intermediate_size",
        shared_count="n_shared_experts",
        dense_first="first_k_dense_replace",
        every="decoder_sparse_step",
        every_is_one="moe_layer_freq",
    ),
)
"""A decoder like Llama, told by its fields alone; its experts are read where it names any."""
PLAIN = Family()
QWEN2 = Family(fixed={"qkv_bias": True}, window_flag="use_sliding_window")
QWEN3 = Family(fixed={"qk_norm": "per_head"}, flags=ATTENTION_BIAS, window_flag="use_sliding_window")
QWEN3_MOE = Family(
    fixed=QWEN3.fixed,
    flags=ATTENTION_BIAS,
    window_flag="use_sliding_window",
    experts=Experts(every="decoder_sparse_step"),
)

FAMILIES: Mapping[str, Family] = {
    "llama": LLAMA,
    "granite": LLAMA,
    "mistral": PLAIN,
    "ministral3": PLAIN,
    "phi3": PLAIN,
    "internlm2": PLAIN,
    "mixtral": Family(experts=Experts(ffn="intermediate_size")),
    "granitemoe": Family(flags=ATTENTION_BIAS, experts=Experts(ffn="intermediate_size")),
    "qwen2": QWEN2,
    "qwen2_vl_text": QWEN2,
    "qwen2_5_vl_text": QWEN2,
    "qwen2_moe": Family(
        fixed={"qkv_bias": True},
        experts=Experts(
            shared_width="shared_expert_intermediate_size",
            every="decoder_sparse_step",
            fixed={"shared_expert_gate": True},
        ),
        window_flag="use_sliding_window",
    ),
    "qwen3": QWEN3,
    "qwen3_vl_text": QWEN3,
    "qwen3_moe": QWEN3_MOE,
    "qwen3_vl_moe_text": QWEN3_MOE,
    "deepseek_v2": Family(flags=ATTENTION_BIAS, latent=True, experts=DEEPSEEK_EXPERTS),
    "deepseek_v3": DEEPSEEK_V3,
    "kimi_k2": DEEPSEEK_V3,
    "gpt_oss": Family(
        fixed={"attention_sinks": True},
        flags=ATTENTION_BIAS,
        defaults={"attention_bias": True},
        full_attention_every=2,
        experts=Experts(ffn="intermediate_size", fixed={"router_bias": True, "expert_bias": True}),
    ),
    "llama4_text": Family(
        flags=ATTENTION_BIAS,
        window="attention_chunk_size",
        full_attention_every=4,
        experts=Experts(ffn="intermediate_size", shared_as_routed=True, every="interleave_moe_layer_step"),
        shape=shapes.llama4,
    ),
    "gemma": GEMMA,
    "gemma2": Family(
        fixed={"norms_per_layer": 4}, flags=ATTENTION_BIAS, defaults=GEMMA_DEFAULTS, full_attention_every=2
    ),
    "gemma3_text": Family(
        fixed={"norms_per_layer": 4, "qk_norm": "per_head"},
        flags=ATTENTION_BIAS,
        full_attention_every=6,
        defaults=GEMMA_DEFAULTS | {"num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 262208},
    ),
    "gpt2": Family(
        keys=GPT2_KEYS, fixed=LAYER_NORM_WITH_BIASES, defaults=TIED | {"n_positions": 1024}, shape=shapes.gpt2
    ),
    "gpt_neo": Family(
        keys=NO_GROUPS | {"ffn": DECIDED_BY_SHAPE, "layers": "num_layers", "heads": "num_heads"},
        fixed=LAYER_NORM_WITH_BIASES | {"qkv_bias": False},
        defaults=TIED,
        shape=shapes.gpt_neo,
    ),
    "gpt_neox": Family(
        keys=NO_GROUPS,
        fixed={"norm": "layer", "gated_mlp": False, "mlp_bias": True},
        flags=ATTENTION_BIAS,
        defaults={"attention_bias": True},
    ),
    "gptj": Family(
        keys=GPT2_KEYS,
        fixed={
            "norm": "layer",
            "gated_mlp": False,
            "mlp_bias": True,
            "head_bias": True,
            "norms_per_layer": 1,
        },
        shape=lambda fields, read: shapes.four_times(fields, read, "n_inner"),
    ),
    "opt": Family(
        keys=NO_GROUPS | {"ffn": "ffn_dim"},
        fixed={"norm": "layer", "gated_mlp": False},
        defaults=TIED,
        shape=shapes.opt,
    ),
    "bloom": Family(
        keys=NO_GROUPS | {"ffn": DECIDED_BY_SHAPE, "layers": "n_layer", "heads": "n_head"},
        fixed=LAYER_NORM_WITH_BIASES | {"embedding_norm": True},
        defaults=TIED,
        shape=shapes.four_times_always,
    ),
    "falcon": Family(
        keys=NO_GROUPS | {"ffn": DECIDED_BY_SHAPE},
        fixed={"norm": "layer", "gated_mlp": False},
        defaults=TIED,
        shape=shapes.falcon,
    ),
    "mpt": Family(
        keys=NO_GROUPS
        | {
            "ffn": DECIDED_BY_SHAPE,
            "hidden": "d_model",
            "layers": "n_layers",
            "heads": "n_heads",
            "max_positions": "max_seq_len",
        },
        fixed={"norm": "layer", "gated_mlp": False},
        defaults=TIED,
        shape=shapes.mpt,
    ),
    "phi": Family(fixed=LAYER_NORM_WITH_BIASES | {"head_bias": True, "norms_per_layer": 1}, shape=shapes.phi),
    "nemotron": Family(
        fixed={"norm": "layer", "gated_mlp": False}, flags=ATTENTION_BIAS | {"mlp_bias": "mlp_bias"}
    ),
    "starcoder2": Family(
        fixed={"norm": "layer", "gated_mlp": False},
        flags={"qkv_bias": "use_bias", "attention_output_bias": "use_bias", "mlp_bias": "use_bias"},
        defaults=TIED | {"use_bias": True},
    ),
    "stablelm": Family(fixed={"norm": "layer"}, flags={"qkv_bias": "use_qkv_bias"}, shape=shapes.stablelm),
    "cohere": Family(
        fixed={"norm": "layer", "norm_bias": False, "norms_per_layer": 1},
        flags=ATTENTION_BIAS,
        defaults=TIED,
        shape=shapes.cohere,
    ),
    "cohere2": Family(
        fixed={"norm": "layer", "norm_bias": False, "norms_per_layer": 1},
        flags=ATTENTION_BIAS,
        defaults=TIED,
        full_attention_every=4,
    ),
    "olmo": Family(fixed={"norm": "layer", "norm_affine": False}, flags=ATTENTION_BIAS),
    "olmo2": Family(fixed={"qk_norm": "full"}, flags=ATTENTION_BIAS),
    "olmo3": Family(fixed={"qk_norm": "full"}, flags=ATTENTION_BIAS, full_attention_every=4),
    "olmoe": Family(
        fixed={"qk_norm": "full"}, flags=ATTENTION_BIAS, experts=Experts(ffn="intermediate_size")
    ),
}
