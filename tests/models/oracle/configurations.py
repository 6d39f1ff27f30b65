"""Configurations to count: small ones drawn within each family, and known ones.

A drawn one is as odd as its class allows: heads that are no power of two, heads wider than the
model, biases, ties, sparse layers in between. `random` may be the standard library's or hypothesis's.
"""

import tomllib
from pathlib import Path
from random import Random
from typing import Any

from tests.models.oracle.known import KNOWN

GOLDEN = Path(__file__).parents[2] / "golden"

Config = dict[str, Any]
TIE = ("tie_word_embeddings",)
ATTENTION_BIAS = ("attention_bias",)
LLAMA_FLAGS = ("attention_bias", "mlp_bias")
GPT2_NAMES = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "max_position_embeddings": "n_positions",
}
NAMES: dict[str, dict[str, str]] = {
    "gpt2": GPT2_NAMES,
    "gpt_bigcode": GPT2_NAMES,
    "gptj": GPT2_NAMES,
    "codegen": GPT2_NAMES,
    "gpt_neo": {"num_hidden_layers": "num_layers", "num_attention_heads": "num_heads"},
    "bloom": {"num_hidden_layers": "n_layer", "num_attention_heads": "n_head"},
    "opt": {"intermediate_size": "ffn_dim"},
    "falcon": {"intermediate_size": "ffn_hidden_size"},
    "mpt": {
        "hidden_size": "d_model",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "max_position_embeddings": "max_seq_len",
    },
}
FLAGS: dict[str, tuple[str, ...]] = {
    "llama": LLAMA_FLAGS, "granite": LLAMA_FLAGS, "helium": LLAMA_FLAGS, "arcee": LLAMA_FLAGS,
    "smollm3": LLAMA_FLAGS, "nemotron": LLAMA_FLAGS, "minicpm3": LLAMA_FLAGS,
    "seed_oss": ("attention_bias", "attention_out_bias", "mlp_bias"),
    "mistral": (), "ministral3": (), "phi3": (), "mixtral": (), "exaone4": (), "qwen2": (),
    "minimax_m2": (),
    "exaone_moe": (), "ernie4_5": ("use_bias",), "hunyuan_v1_dense": ATTENTION_BIAS, "glm": ATTENTION_BIAS,
    "glm4": ATTENTION_BIAS, "qwen3": ATTENTION_BIAS, "gemma": ATTENTION_BIAS, "gemma2": ATTENTION_BIAS,
    "gemma3_text": ATTENTION_BIAS, "gpt_neox": ATTENTION_BIAS, "cohere": ("attention_bias", "use_qk_norm"),
    "cohere2": ATTENTION_BIAS, "olmo": ATTENTION_BIAS, "olmo2": ATTENTION_BIAS, "olmo3": ATTENTION_BIAS,
    "olmoe": ATTENTION_BIAS, "flex_olmo": ATTENTION_BIAS, "starcoder2": ("use_bias",), "phi": (),
    "stablelm": ("use_qkv_bias", "use_parallel_residual"), "gpt2": (), "gpt_bigcode": ("multi_query",),
    "gptj": (), "codegen": (), "gpt_neo": (), "bloom": (), "mpt": (), "opt": ("enable_bias",),
    "falcon": ("new_decoder_architecture", "parallel_attn", "bias", "multi_query"),
    "granitemoe": ATTENTION_BIAS, "granitemoeshared": ATTENTION_BIAS,
    "phimoe": ("attention_bias", "lm_head_bias"), "qwen2_moe": ("qkv_bias",), "qwen3_moe": ATTENTION_BIAS,
    "deepseek_v2": ATTENTION_BIAS, "deepseek_v3": ATTENTION_BIAS, "kimi_k2": ATTENTION_BIAS,
    "glm4_moe_lite": ATTENTION_BIAS, "glm4_moe": ("attention_bias", "use_qk_norm"),
    "dots1": ATTENTION_BIAS, "solar_open": ATTENTION_BIAS, "ernie4_5_moe": (), "gpt_oss": ATTENTION_BIAS,
    "llama4_text": ATTENTION_BIAS,
}  # fmt: skip
"""Family -> its true-or-false fields that change a count. The keys are the families compared."""
TEXT_OF = {
    "qwen2_vl": "qwen2", "qwen2_5_vl": "qwen2", "qwen3_vl": "qwen3", "qwen3_vl_moe": "qwen3_moe",
    "glm4v_moe": "glm4_moe", "gemma3": "gemma3_text", "llama4": "llama4_text",
}  # fmt: skip
"""Vision-language family -> the family its decoder is drawn like."""
LATENT = {"deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe_lite", "minicpm3"}
NO_HEAD_SIZE = {
    "qwen2", "phi3", "phi", "stablelm", "gpt2", "gpt_bigcode", "gptj", "codegen", "gpt_neo", "bloom",
    "mpt", "opt",
    "falcon", "gpt_neox", "cohere", "olmo", "starcoder2", "granitemoe", "granitemoeshared", "granite",
    "phimoe",
    "olmoe", "flex_olmo", "helium",
}  # fmt: skip
"""Families whose head is always hidden / heads."""
EVERY_LAYER_SPARSE = {
    "mixtral", "granitemoe", "granitemoeshared", "phimoe", "solar_open", "minimax_m2", "gpt_oss",
    "olmoe", "flex_olmo",
}  # fmt: skip
EXPERT_NAMES = {
    "mixtral": "num_local_experts", "granitemoe": "num_local_experts",
    "granitemoeshared": "num_local_experts",
    "phimoe": "num_local_experts", "minimax_m2": "num_local_experts", "gpt_oss": "num_local_experts",
    "llama4_text": "num_local_experts", "ernie4_5_moe": "moe_num_experts", "qwen2_moe": "num_experts",
    "qwen3_moe": "num_experts", "olmoe": "num_experts", "flex_olmo": "num_experts",
    "exaone_moe": "num_experts",
    "deepseek_v2": "n_routed_experts", "deepseek_v3": "n_routed_experts", "kimi_k2": "n_routed_experts",
    "glm4_moe_lite": "n_routed_experts", "glm4_moe": "n_routed_experts", "dots1": "n_routed_experts",
    "solar_open": "n_routed_experts",
}  # fmt: skip
"""Family -> how it spells its number of experts; the families with any."""


USUAL_WIDTH = EVERY_LAYER_SPARSE - {"solar_open"} | {"llama4_text"}
"""Families whose experts are as wide as `intermediate_size` says."""
TEXT_KIND = {"llama4": "llama4_text", "gemma3": "gemma3_text"}
NO_WIDTH = {"bloom", "mpt", "solar_open"}
INNER = {"gpt2", "gpt_bigcode", "gptj", "codegen"}
"""Families that spell the feed-forward's width n_inner, null for four times the hidden one."""
NO_GROUPS = INNER | {"bloom", "mpt", "opt", "gpt_neox", "gpt_neo", "falcon"}


def configuration(family: str, random: Random) -> Config:
    """Draw a configuration of a family."""
    if family in TEXT_OF:
        return _nested(family, random)
    config = _dense(family, random)
    if family in LATENT:
        config |= _latent(random)
    if family in EXPERT_NAMES:
        config |= _sparse(family, config, random)
    for flag in (*FLAGS[family], *TIE):
        if random.random() < 0.7:
            config[flag] = random.random() < 0.5
    names = NAMES.get(family, {})
    return {"model_type": family} | {names.get(key, key): value for key, value in config.items()}


def known_families() -> list[str]:
    """Every family that is compared, in a fixed order."""
    return sorted({*FLAGS, *TEXT_OF})


def _dense(family: str, random: Random) -> Config:
    groups, per_group = random.choice((1, 2, 3, 5, 8)), random.choice((1, 1, 2, 3, 7))
    heads, head_size = groups * per_group, 2 * random.randint(1, 40)
    wide = family not in NO_HEAD_SIZE and random.random() < 0.6
    # Some classes insist that the width divides by the heads, also where that is not the head's size.
    hidden = heads * (random.randint(1, 60) if wide else head_size)
    layers = random.randint(1, 7)
    config: Config = {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "vocab_size": random.randint(1, 5000),
        "max_position_embeddings": random.randint(1, 300),
        "pad_token_id": 0,
    }
    if family not in NO_WIDTH and (family not in INNER or random.random() < 0.5):
        config["n_inner" if family in INNER else "intermediate_size"] = 2 * random.randint(1, 500)
    if family not in NO_HEAD_SIZE | LATENT:
        config["head_dim"] = head_size
    if family == "falcon":
        config |= {"num_kv_heads": groups, "num_ln_in_parallel_attn": random.choice((1, 2, None))}
    if family == "gpt_neo":
        config |= {"num_hidden_layers": 2 * layers, "attention_types": [[["global", "local"], layers]]}
    if family == "helium":
        config["head_dim"] = head_size
    if family == "gemma3_text" and random.random() < 0.5:
        config["sliding_window_pattern"] = random.randint(1, 4)
    if family not in NO_GROUPS:
        config["num_key_value_heads"] = groups
    return config


def _latent(random: Random) -> Config:
    return {
        "q_lora_rank": random.choice((None, random.randint(1, 64))),
        "kv_lora_rank": random.randint(1, 64),
        "qk_nope_head_dim": 2 * random.randint(1, 20),
        "qk_rope_head_dim": 2 * random.randint(1, 20),
        "v_head_dim": random.randint(1, 40),
    }


def _sparse(family: str, config: Config, random: Random) -> Config:
    experts = random.randint(1, 9)
    layers = config["num_hidden_layers"]
    top_k = "moe_k" if family == "ernie4_5_moe" else "num_experts_per_tok"
    extra: Config = {EXPERT_NAMES[family]: experts, top_k: random.randint(1, experts)}
    if family not in USUAL_WIDTH:
        extra["moe_intermediate_size"] = random.randint(1, 200)
    shared, first = random.randint(1, 3), random.randint(0, layers - 1)
    if EXPERT_NAMES[family] == "n_routed_experts":
        # One group of experts, whatever their number; the classes refuse groups that do not divide.
        extra |= {"n_shared_experts": shared, "n_group": 1, "topk_group": 1}
    if family in ("deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe", "dots1", "exaone_moe"):
        extra["first_k_dense_replace"] = first
    return extra | _places(family, layers, shared, first, random)


def _places(family: str, layers: int, shared: int, first: int, random: Random) -> Config:
    """How the families say which layers are sparse, and how wide the shared expert is."""
    step = random.randint(1, layers)
    some = sorted(random.sample(range(layers), random.randint(0, layers - 1)))
    if family in ("qwen2_moe", "qwen3_moe"):
        wide = {"shared_expert_intermediate_size": 8 * shared} if family == "qwen2_moe" else {}
        last_is_sparse = {"decoder_sparse_step": 1, "mlp_only_layers": some}
        every = {"decoder_sparse_step": step, "mlp_only_layers": None}
        return wide | random.choice((last_is_sparse, every, {}))
    if family == "granitemoeshared":
        return {"shared_intermediate_size": 8 * shared}
    if family == "exaone_moe":
        return {"num_shared_experts": shared}
    if family == "glm4_moe_lite":
        return {"mlp_layer_types": ["dense" if i in some else "sparse" for i in range(layers)]}
    if family == "llama4_text":
        return {"interleave_moe_layer_step": step, "intermediate_size_mlp": 8 * shared}
    if family == "ernie4_5_moe":
        # The class has a shared expert in every configuration published; none is counted apart.
        return {
            "moe_num_shared_experts": shared,
            "moe_layer_start_index": first,
            "moe_layer_end_index": -1,
            "moe_layer_interval": 1,
        }
    return {}


def _nested(family: str, random: Random) -> Config:
    """A vision-language configuration: the decoder inside, the tie at either level."""
    inner = configuration(TEXT_OF[family], random)
    inner["model_type"] = TEXT_KIND.get(family, f"{family}_text")
    if family == "llama4":
        return {"model_type": family, "text_config": inner, "tie_word_embeddings": random.random() < 0.5}
    tied = inner.pop("tie_word_embeddings", False)
    return {"model_type": family, "text_config": inner, "tie_word_embeddings": tied}


def known_configurations() -> dict[str, Config]:
    """Published configurations, by name: those of the golden totals and KNOWN's."""
    rows = tomllib.loads((GOLDEN / "parameter_totals.toml").read_text(encoding="utf-8"))["rows"]
    known = {row["name"]: row["config"] for row in rows} | KNOWN
    # TOML has no null; the class takes its own default where the file does not say null.
    return {
        name: {"q_lora_rank": None} | config if config["model_type"] in LATENT else config
        for name, config in known.items()
    }
