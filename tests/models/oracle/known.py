"""Published configurations beyond those of the golden totals: of each `config.json`, what matters."""

from typing import Any


def decoder(
    kind: str, h: int, f: int, layers: int, heads: int, groups: int, v: int, **more: Any
) -> dict[str, Any]:
    """The seven widths under their usual names."""
    return {
        "model_type": kind,
        "hidden_size": h,
        "intermediate_size": f,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "vocab_size": v,
    } | more


MLA = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
QWEN3 = {"head_dim": 128, "attention_bias": False}

KNOWN: dict[str, dict[str, Any]] = {
    "Qwen3-14B": decoder("qwen3", 5120, 17408, 40, 40, 8, 151936, tie_word_embeddings=False, **QWEN3),
    "Qwen3-0.6B": decoder("qwen3", 1024, 3072, 28, 16, 8, 151936, tie_word_embeddings=True, **QWEN3),
    "Qwen2.5-32B": decoder("qwen2", 5120, 27648, 64, 40, 8, 152064, tie_word_embeddings=False),
    "Qwen1.5-MoE-A2.7B": decoder(
        "qwen2_moe", 2048, 5632, 24, 16, 16, 151936, moe_intermediate_size=1408, num_experts=60,
        num_experts_per_tok=4, shared_expert_intermediate_size=5632, decoder_sparse_step=1,
    ),
    "DeepSeek-V2": decoder(
        "deepseek_v2", 5120, 12288, 60, 128, 128, 102400, q_lora_rank=1536, n_routed_experts=160,
        n_shared_experts=2, num_experts_per_tok=6, moe_intermediate_size=1536, first_k_dense_replace=1,
        moe_layer_freq=1, n_group=8, topk_group=3, **MLA,
    ),
    "Kimi-K2": decoder(
        "kimi_k2", 7168, 18432, 61, 64, 64, 163840, q_lora_rank=1536, n_routed_experts=384,
        n_shared_experts=1,
        num_experts_per_tok=8, moe_intermediate_size=2048, first_k_dense_replace=1, moe_layer_freq=1,
        n_group=1,
        topk_group=1, **MLA,
    ),
    "Moonlight-16B-A3B": decoder(
        "deepseek_v3", 2048, 11264, 27, 16, 16, 163840, q_lora_rank=None, n_routed_experts=64,
        n_shared_experts=2,
        num_experts_per_tok=6, moe_intermediate_size=1408, first_k_dense_replace=1, moe_layer_freq=1,
        n_group=1,
        topk_group=1, **MLA,
    ),
    "GLM-4-9B-0414": decoder(
        "glm4", 4096, 13696, 40, 32, 2, 151552, head_dim=128, attention_bias=False,
        tie_word_embeddings=False,
    ),
    "GLM-4.5": decoder(
        "glm4_moe", 5120, 12288, 92, 96, 8, 151552, head_dim=128, attention_bias=True, use_qk_norm=True,
        n_routed_experts=160, n_shared_experts=1, num_experts_per_tok=8, moe_intermediate_size=1536,
        first_k_dense_replace=3, tie_word_embeddings=False,
    ),
    "GLM-4.5-Air": decoder(
        "glm4_moe", 4096, 10944, 46, 96, 8, 151552, head_dim=128, attention_bias=True, use_qk_norm=False,
        n_routed_experts=128, n_shared_experts=1, num_experts_per_tok=8, moe_intermediate_size=1408,
        first_k_dense_replace=1, tie_word_embeddings=False,
    ),
    "gpt-oss-120b": decoder(
        "gpt_oss", 2880, 2880, 36, 64, 8, 201088, head_dim=64, num_local_experts=128, num_experts_per_tok=4,
        attention_bias=True, tie_word_embeddings=False,
    ),
    "Llama-4-Maverick, text decoder": decoder(
        "llama4_text", 5120, 8192, 48, 40, 8, 202048, head_dim=128, intermediate_size_mlp=16384,
        num_local_experts=128, num_experts_per_tok=1, interleave_moe_layer_step=2,
    ),
    "Gemma-2-27B": decoder("gemma2", 4608, 36864, 46, 32, 16, 256000, head_dim=128),
    "Gemma-3-27B, text decoder": decoder("gemma3_text", 5376, 21504, 62, 32, 16, 262208, head_dim=128),
    "Gemma-3-270M": decoder("gemma3_text", 640, 2048, 18, 4, 1, 262144, head_dim=256),
    "Phi-3-mini": decoder("phi3", 3072, 8192, 32, 32, 32, 32064, tie_word_embeddings=False),
    "Phi-3-medium": decoder("phi3", 5120, 17920, 40, 40, 10, 32064, tie_word_embeddings=False),
    "Phi-3.5-MoE": decoder(
        "phimoe", 4096, 6400, 32, 32, 8, 32064, num_local_experts=16, num_experts_per_tok=2,
        attention_bias=True,
        lm_head_bias=True, tie_word_embeddings=False,
    ),
    "Command-R": decoder("cohere", 8192, 22528, 40, 64, 64, 256000, use_qk_norm=False),
    "Command-R-Plus": decoder("cohere", 12288, 33792, 64, 96, 8, 256000, use_qk_norm=True),
    "Granite-3.1-8B": decoder("granite", 4096, 12800, 40, 32, 8, 49155, tie_word_embeddings=True),
    "Granite-3.1-3B-A800M": decoder(
        "granitemoe", 1536, 512, 32, 24, 8, 49155, num_local_experts=40, num_experts_per_tok=8,
        tie_word_embeddings=True,
    ),
    "OLMo-7B": decoder("olmo", 4096, 11008, 32, 32, 32, 50304, tie_word_embeddings=False),
    "OLMo-2-13B": decoder("olmo2", 5120, 13824, 40, 40, 40, 100352, tie_word_embeddings=False),
    "OLMoE-1B-7B": decoder(
        "olmoe", 2048, 1024, 16, 16, 16, 50304, num_experts=64, num_experts_per_tok=8,
        tie_word_embeddings=False,
    ),
    "Nemotron-4-340B": decoder("nemotron", 18432, 73728, 96, 96, 8, 256000, head_dim=192),
    "MiniMax-M2": decoder(
        "minimax_m2", 3072, 1536, 62, 48, 8, 200064, head_dim=128, num_local_experts=256,
        num_experts_per_tok=8,
    ),
    "dots.llm1": decoder(
        "dots1", 4096, 10944, 62, 32, 32, 152064, n_routed_experts=128, n_shared_experts=2,
        num_experts_per_tok=6,
        moe_intermediate_size=1408, first_k_dense_replace=1,
    ),
    "GPT-NeoX-20B": {
        "model_type": "gpt_neox", "hidden_size": 6144, "intermediate_size": 24576, "num_hidden_layers": 44,
        "num_attention_heads": 64, "vocab_size": 50432, "tie_word_embeddings": False,
    },
    "BLOOM-176B": {"model_type": "bloom", "hidden_size": 14336, "n_layer": 70, "n_head": 112,
    "vocab_size": 250880},
    "OPT-30B": {
        "model_type": "opt", "hidden_size": 7168, "ffn_dim": 28672, "num_hidden_layers": 48,
        "num_attention_heads": 56, "vocab_size": 50272, "max_position_embeddings": 2048,
        "word_embed_proj_dim": 7168,
    },
    "MPT-30B": {
        "model_type": "mpt", "d_model": 7168, "n_layers": 48, "n_heads": 64, "vocab_size": 50432,
        "max_seq_len": 8192,
    },
    "GPT-J-6B": {"model_type": "gptj", "n_embd": 4096, "n_layer": 28, "n_head": 16, "vocab_size": 50400},
    "GPT-3 175B, as GPT-2": {
        "model_type": "gpt2", "n_embd": 12288, "n_layer": 96, "n_head": 96, "vocab_size": 50257,
        "n_positions": 2048,
    },
    "StarCoder2-15B": decoder("starcoder2", 6144, 24576, 40, 48, 4, 49152, use_bias=True),
    "Ministral-8B": decoder("mistral", 4096, 12288, 36, 32, 8, 131072, head_dim=128,
    tie_word_embeddings=False),
}  # fmt: skip
