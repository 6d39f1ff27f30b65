"""Which layers are sparse, which slide, which tower is left out: what families say in their own way."""

import pytest

from models.cost.parameters import count_parameters
from models.errors import InvalidField
from models.huggingface import architecture_from_config, read_config

WIDTHS = {
    "hidden_size": 64,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
}
QWEN = WIDTHS | {
    "model_type": "qwen3_moe",
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}
ERNIE = WIDTHS | {"model_type": "ernie4_5_moe", "moe_num_experts": 8, "moe_k": 2, "moe_intermediate_size": 32}
LITE = WIDTHS | {
    "model_type": "glm4_moe_lite",
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "q_lora_rank": 16,
    "kv_lora_rank": 8,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
}

V3 = LITE | {"model_type": "deepseek_v3", "n_shared_experts": 1, "first_k_dense_replace": 0}


def faults(config):
    with pytest.raises(InvalidField) as error:
        architecture_from_config(config)
    return [fault.field for fault in error.value.faults]


def sparse(config):
    return [i for i, s in enumerate(architecture_from_config(config)[0].sparse_layers()) if s]


@pytest.mark.parametrize(
    ("more", "layers"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"decoder_sparse_step": 2}, [1, 3, 5]),
        ({"decoder_sparse_step": 3, "mlp_only_layers": []}, [2, 5]),
        ({"mlp_only_layers": [0, 1]}, [2, 3, 4, 5]),
        ({"mlp_only_layers": [0, 3]}, [1, 2, 4, 5]),
        ({"decoder_sparse_step": 2, "mlp_only_layers": [3]}, [1, 5]),
    ],
)
def test_every_nth_layer_is_sparse_but_for_those_named(more, layers):
    assert sparse(QWEN | more) == layers


def test_leading_dense_layers_and_every_nth_sparse_one_keep_their_short_form():
    assert architecture_from_config(QWEN | {"mlp_only_layers": [0, 1]})[0].moe.dense_first == 2
    assert architecture_from_config(QWEN | {"decoder_sparse_step": 2})[0].moe.every == 2
    assert architecture_from_config(QWEN | {"mlp_only_layers": [3]})[0].moe.dense_layers == (3,)


@pytest.mark.parametrize(
    "named", [[6], [-1], ["0"], [True], 3, "0", [0, 1, 2, 3, 4, 5], {}, [None]], ids=repr
)
def test_dense_layers_are_a_list_of_layers_that_leaves_a_sparse_one(named):
    assert faults(QWEN | {"mlp_only_layers": named})


def test_kinds_of_layer_decide_over_counts():
    kinds = ["dense", "sparse", "dense", "sparse", "sparse", "dense"]
    assert sparse(LITE | {"mlp_layer_types": kinds}) == [1, 3, 4]
    assert sparse(LITE) == [1, 2, 3, 4, 5]
    assert faults(LITE | {"mlp_layer_types": kinds[:5]}) == ["/model/mlp_layer_types"]
    assert faults(LITE | {"mlp_layer_types": ["dense", "linear"] * 3})[0] == "/model/mlp_layer_types"


def test_sparse_layers_end_where_the_file_says():
    assert sparse(ERNIE) == [1, 2, 3, 4, 5]
    assert sparse(ERNIE | {"moe_layer_start_index": 2, "moe_layer_end_index": 4}) == [2, 3, 4]
    assert sparse(ERNIE | {"moe_layer_start_index": 1, "moe_layer_interval": 2}) == [1, 3, 5]
    assert faults(ERNIE | {"moe_layer_start_index": 5, "moe_layer_end_index": 2})


def test_a_pattern_we_do_not_know_is_refused():
    config = V3 | {"moe_layer_freq": 2}
    assert faults(config) == ["/model/moe_layer_freq"]
    assert sparse(config | {"moe_layer_freq": [1] * 6}) == [0, 1, 2, 3, 4, 5]


def test_a_family_of_experts_without_any_is_dense():
    assert (
        architecture_from_config(V3 | {"n_routed_experts": None, "num_experts_per_tok": None})[0].moe is None
    )
    assert architecture_from_config(QWEN | {"num_experts": 0, "num_experts_per_tok": 0})[0].moe is None


@pytest.mark.parametrize("silent", ["n_routed_experts", "n_shared_experts", "first_k_dense_replace"])
def test_a_family_of_experts_silent_on_them_is_not_guessed(silent):
    """transformers and the class beside DeepSeek's weights take different values for these."""
    assert faults({k: v for k, v in V3.items() if k != silent})[0] in (
        f"/model/{silent}",
        "/model/num_experts",
    )


def test_a_token_that_chooses_among_no_experts_is_a_fault():
    assert faults(QWEN | {"num_experts": None}) == ["/model/num_experts"]


def test_one_shared_expert_and_one_dense_layer_are_what_glm_has_by_itself():
    config = {k: v for k, v in V3.items() if k not in ("n_shared_experts", "first_k_dense_replace")}
    glm = {k: v for k, v in config.items() if not k.endswith(("lora_rank", "_dim"))}
    moe = architecture_from_config(glm | {"model_type": "glm4_moe"})[0].moe
    assert (moe.shared_expert_ffn, moe.dense_first) == (32, 1)


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("llama", "num_local_experts", 8),
        ("mistral", "num_experts", 8),
        ("qwen2", "shared_expert_intermediate_size", 64),
        ("llama", "kv_lora_rank", 8),
        ("mixtral", "n_shared_experts", 2),
        ("qwen3_moe", "mlp_layer_types", ["sparse"] * 6),
    ],
)
def test_experts_and_latent_attention_a_family_does_not_have_are_a_fault(kind, field, value):
    sparse_part = {"num_local_experts": 8, "num_experts_per_tok": 2}
    config = {"qwen3_moe": QWEN, "mixtral": WIDTHS | sparse_part}.get(kind, WIDTHS)
    assert f"/model/{field}" in faults(config | {"model_type": kind, field: value})


def test_more_shared_columns_than_any_plan_are_a_fault():
    config = LITE | {"n_shared_experts": 1000, "moe_intermediate_size": 10**5}
    assert faults(config) == ["/model/n_shared_experts"]


def test_counts_do_not_depend_on_where_the_sparse_layers_stand():
    first, between = QWEN | {"mlp_only_layers": [0, 1]}, QWEN | {"mlp_only_layers": [2, 4]}
    counts = [count_parameters(architecture_from_config(config)[0]) for config in (first, between)]
    assert counts[0] == counts[1]


def test_a_window_of_none_slides_nowhere():
    for window in (None, 0):
        config = WIDTHS | {"model_type": "mistral", "sliding_window": window}
        assert architecture_from_config(config)[0].sliding_layers == 0


def test_layers_before_max_window_layers_see_every_token():
    window = {"sliding_window": 32, "use_sliding_window": True}
    config = WIDTHS | {"model_type": "qwen2", "max_window_layers": 4} | window
    assert architecture_from_config(config)[0].sliding_layers == 2
    assert architecture_from_config(config | {"max_window_layers": 28})[0].sliding_window is None


def test_the_pattern_of_a_window_may_stand_in_the_file():
    config = WIDTHS | {"model_type": "gemma3_text", "head_dim": 16}
    assert architecture_from_config(config)[0].sliding_layers == 5
    assert architecture_from_config(config | {"sliding_window_pattern": 2})[0].sliding_layers == 3


def test_llama_4_sees_its_own_chunk():
    config = WIDTHS | {"model_type": "llama4_text", "num_local_experts": 4, "num_experts_per_tok": 1}
    got = architecture_from_config(config | {"intermediate_size_mlp": 256})[0]
    assert (got.chunked_window, got.sliding_window, got.sliding_layers) == (True, 8192, 5)


def test_the_note_on_a_tower_says_which_tp_its_heads_allow():
    text = WIDTHS | {"model_type": "internlm2", "num_attention_heads": 8}
    outer = {"model_type": "internvl_chat", "llm_config": text, "vision_config": {"num_attention_heads": 25}}
    (warning,) = architecture_from_config(outer)[1]
    assert warning.startswith("vision_config is not modelled")
    assert "25 heads not checked against TP (they divide by 1, 5, 25)" in warning


def test_a_tower_beside_a_flat_decoder_is_told_too():
    flat = WIDTHS | {"model_type": "qwen2_vl", "vision_config": {"depth": 32}, "quantization_config": {}}
    entry, warnings = architecture_from_config(flat)
    assert entry.qkv_bias
    assert len(warnings) == 1
    assert warnings[0].startswith("vision_config is not modelled")


def test_llama_4_ties_by_the_flag_of_its_decoder():
    text = WIDTHS | {"model_type": "llama4_text", "num_local_experts": 4, "num_experts_per_tok": 1}
    outer = {"model_type": "llama4", "text_config": text, "tie_word_embeddings": True}
    assert not architecture_from_config(outer)[0].tied_embeddings


def test_a_direct_query_projection_is_told_where_the_file_is_silent():
    silent = {k: v for k, v in LITE.items() if k != "q_lora_rank"}
    assert "/model/q_lora_rank" in [field for field, *_ in read_config(silent).defaults]
    assert "/model/q_lora_rank" not in [field for field, *_ in read_config(LITE).defaults]


def test_either_spelling_of_a_width_is_read():
    both = {"model_type": "bloom", "n_layer": 2, "vocab_size": 100}
    new = architecture_from_config(both | {"hidden_size": 64, "n_head": 4})[0]
    old = architecture_from_config(both | {"n_embed": 64, "num_attention_heads": 4})[0]
    assert new == old
    assert faults(both | {"hidden_size": 64, "n_embed": 32, "n_head": 4}) == ["/model/hidden_size"]


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"model_type": "deepseek_v2", "mlp_bias": True}, "mlp_bias"),
        ({"model_type": "phi", "qk_layernorm": True}, "qk_layernorm"),
        ({"model_type": "opt", "do_layer_norm_before": False}, "do_layer_norm_before"),
        ({"model_type": "opt", "word_embed_proj_dim": 32}, "word_embed_proj_dim"),
        ({"model_type": "chatglm", "multi_query_attention": True}, "multi_query_group_num"),
        ({"model_type": "gpt2", "n_positions": None, "max_position_embeddings": None}, "n_positions"),
        ({"model_type": "mpt", "attn_config": 3}, "attn_config"),
    ],
)
def test_what_a_family_may_have_and_we_do_not_model_is_refused_by_name(config, field):
    assert f"/model/{field}" in faults(WIDTHS | config)
