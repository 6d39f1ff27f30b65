"""Reading configurations nobody promised to be sane."""

import math
import tomllib
from pathlib import Path

import pytest

from models.errors import InvalidField
from models.huggingface import architecture_from_config, read_config
from models.huggingface_refused import REFUSED

GOLDEN = tomllib.loads((Path(__file__).parents[1] / "golden" / "parameter_totals.toml").read_text())
CONFIGS = {row["name"]: row["config"] for row in GOLDEN["rows"]}
TINY = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}
NOT_NUMBERS = ["4096", None, 0, -1, 1.5, 4096.0, math.nan, math.inf, True, [], {}, 10**30, 1e300]


def faults(config, field="/model"):
    with pytest.raises(InvalidField) as error:
        architecture_from_config(config, field)
    return {fault.field: fault for fault in error.value.faults}


def test_a_decoder_without_a_family_is_read_like_llama():
    nameless = architecture_from_config(TINY)[0]
    named = architecture_from_config(TINY | {"model_type": "llama"})[0]
    assert nameless.model_dump(exclude={"name"}) == named.model_dump(exclude={"name"})


def test_missing_key_value_heads_are_as_many_as_heads_and_told():
    reading = read_config(TINY)
    assert reading.architecture.kv_heads == 4
    assert ("/model/num_key_value_heads", 4, "as many as num_attention_heads") in reading.defaults


@pytest.mark.parametrize("head_dim", [{}, {"head_dim": None}])
def test_a_missing_head_size_is_the_width_over_the_heads(head_dim):
    assert architecture_from_config(TINY | head_dim)[0].head_size == 16


def test_a_head_size_need_not_be_the_width_over_the_heads():
    assert architecture_from_config(TINY | {"head_dim": 128})[0].head_size == 128


def test_heads_that_do_not_divide_the_width_need_a_head_size():
    assert list(faults(TINY | {"num_attention_heads": 5})) == ["/model/num_attention_heads"]
    assert architecture_from_config(TINY | {"num_attention_heads": 5, "head_dim": 16})[0].heads == 5


def test_key_value_heads_divide_the_heads():
    fault = faults(TINY | {"num_key_value_heads": 3})["/model/num_key_value_heads"]
    assert fault.fix == "Try 2."


def test_key_value_heads_divide_the_heads_under_any_spelling():
    wrong = CONFIGS["Falcon-40B"] | {"num_kv_heads": 7}
    assert list(faults(wrong)) == ["/model/num_kv_heads"]


@pytest.mark.parametrize("key", TINY)
@pytest.mark.parametrize("value", NOT_NUMBERS, ids=repr)
def test_what_is_not_a_sane_number_is_a_fault_at_its_field(key, value):
    fault = faults(TINY | {key: value})[f"/model/{key}"]
    assert fault.reason
    assert fault.fix
    assert not isinstance(fault.value, float) or math.isfinite(fault.value)


def test_a_number_written_as_a_string_is_offered_back_as_a_number():
    assert faults(TINY | {"hidden_size": "4096"})["/model/hidden_size"].fix == "Try 4096."


def test_a_missing_field_is_told_by_name():
    assert "/model/vocab_size" in faults({k: v for k, v in TINY.items() if k != "vocab_size"})


def test_all_faults_are_told_at_once():
    wrong = {"hidden_size": "64", "num_hidden_layers": None, "vocab_size": True, "intermediate_siz": 3}
    assert set(faults(TINY | wrong)) == {
        "/model/hidden_size",
        "/model/num_hidden_layers",
        "/model/vocab_size",
        "/model/intermediate_siz",
    }


def test_an_unknown_field_is_refused_with_the_nearest_known():
    assert (
        faults(TINY | {"num_key_value_head": 2})["/model/num_key_value_head"].fix
        == "Try 'num_key_value_heads'."
    )


def test_a_known_family_may_carry_the_rest_of_its_file():
    extra = {
        "rope_theta": 5e5,
        "bos_token_id": 1,
        "transformers_version": "4.42",
        "anything": {"a": math.nan},
    }
    assert architecture_from_config(TINY | extra | {"model_type": "llama"})[1] == []


def test_a_misspelt_field_of_a_known_family_is_not_ignored():
    wrong = TINY | {"model_type": "llama", "num_key_value_head": 2}
    assert list(faults(wrong)) == ["/model/num_key_value_head"]


@pytest.mark.parametrize("value", ["yes", 1, [True]], ids=repr)
def test_a_flag_is_true_or_false(value):
    assert list(faults(TINY | {"tie_word_embeddings": value})) == ["/model/tie_word_embeddings"]


def test_the_pointer_starts_where_the_configuration_stands():
    assert list(faults(TINY | {"vocab_size": 0}, "/hf_config")) == ["/hf_config/vocab_size"]


@pytest.mark.parametrize("family", sorted(REFUSED))
def test_a_family_we_cannot_reckon_with_is_refused_by_name(family):
    fault = faults(TINY | {"model_type": family})["/model/model_type"]
    assert fault.value == family
    assert "modelled" in fault.reason or "decoder" in fault.reason


@pytest.mark.parametrize(
    "field", ["block_configs", "hybrid_override_pattern", "layers_block_type", "linear_num_key_heads"]
)
def test_a_field_only_hybrids_have_is_refused_whatever_the_family(field):
    assert list(faults(TINY | {"model_type": "llama", field: ["mamba"]})) == [f"/model/{field}"]


def test_layers_that_are_not_attention_are_refused():
    fault = faults(TINY | {"model_type": "qwen3", "layer_types": ["full_attention", "linear_attention"]})
    assert "linear_attention" in fault["/model/layer_types"].reason


@pytest.mark.parametrize("kind", ["lama", "no-such-family", 5, [], True], ids=repr)
def test_an_unknown_family_is_refused(kind):
    assert list(faults(TINY | {"model_type": kind})) == ["/model/model_type"]


def test_an_unknown_family_suggests_the_nearest():
    assert "'llama'" in faults(TINY | {"model_type": "lama"})["/model/model_type"].fix


@pytest.mark.parametrize("key", ["num_experts", "num_local_experts", "n_routed_experts"])
def test_experts_are_known_under_three_names(key):
    config = TINY | {key: 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    moe = architecture_from_config(config)[0].moe
    assert (moe.experts, moe.experts_per_token, moe.expert_ffn) == (8, 2, 32)


def test_experts_need_to_know_how_many_a_token_visits():
    config = TINY | {"num_experts": 8, "moe_intermediate_size": 32}
    assert list(faults(config)) == ["/model/num_experts_per_tok"]
    null = TINY | {
        "model_type": "qwen3_moe",
        "num_experts": 8,
        "moe_intermediate_size": 32,
        "num_experts_per_tok": None,
    }
    assert list(faults(null)) == ["/model/num_experts_per_tok"]


def test_a_token_visits_no_more_experts_than_there_are():
    config = TINY | {"num_experts": 8, "num_experts_per_tok": 9, "moe_intermediate_size": 32}
    assert list(faults(config)) == ["/model/num_experts_per_tok"]


def test_an_expert_as_wide_as_the_feed_forward_is_told():
    reading = read_config(TINY | {"num_local_experts": 8, "num_experts_per_tok": 2})
    assert reading.architecture.moe.expert_ffn == 128
    assert ("/model/moe_intermediate_size", 128, "intermediate_size") in reading.defaults


def test_two_spellings_that_disagree_are_a_fault():
    config = TINY | {"num_experts": 8, "num_local_experts": 16, "num_experts_per_tok": 2}
    assert "/model/num_local_experts" in faults(config)


def test_key_value_heads_mean_nothing_under_latent_attention():
    config = CONFIGS["DeepSeek-V2-Lite"] | {"num_key_value_heads": 7}
    assert architecture_from_config(config)[0].kv_heads == 16


def test_a_null_query_rank_means_a_direct_projection():
    config = CONFIGS["DeepSeek-V2-Lite"] | {"q_lora_rank": None}
    assert architecture_from_config(config)[0].mla.query_lora_rank is None


def test_a_vision_tower_is_left_out_and_told():
    entry, warnings = architecture_from_config(CONFIGS["Qwen3-VL-30B-A3B, text decoder"])
    assert entry.layers == 48
    assert "vision_config is not modelled" in warnings[0]


@pytest.mark.parametrize("where", ["top", "text"])
def test_the_tie_of_a_nested_decoder_may_stand_in_either_place(where):
    text = TINY | {"model_type": "llama"} | ({"tie_word_embeddings": True} if where == "text" else {})
    outer = {"model_type": "llava", "text_config": text} | (
        {"tie_word_embeddings": True} if where == "top" else {}
    )
    assert architecture_from_config(outer)[0].tied_embeddings


def test_faults_of_a_nested_decoder_point_into_it():
    outer = {"model_type": "llava", "text_config": TINY | {"model_type": "llama", "vocab_size": 0}}
    assert list(faults(outer)) == ["/model/text_config/vocab_size"]


def test_gemma_is_tied_where_its_file_is_silent():
    assert architecture_from_config(CONFIGS["Gemma-7B"])[0].tied_embeddings


def test_a_window_changes_no_parameter_and_says_how_many_layers_slide():
    mistral = architecture_from_config(CONFIGS["Mistral-7B-v0.1"])[0]
    assert (mistral.sliding_window, mistral.sliding_layers) == (4096, 32)
    alternating = architecture_from_config(CONFIGS["gpt-oss-20b"])[0]
    assert (alternating.sliding_window, alternating.sliding_layers) == (128, 12)
    unused = CONFIGS["Qwen2.5-7B"] | {"sliding_window": 131072, "use_sliding_window": False}
    assert architecture_from_config(unused)[0].sliding_window is None


def test_a_window_stated_in_a_family_whose_class_has_none_is_ignored_and_told():
    for kind, window in (("llama", None), ("olmo2", None), ("mistral", 4096), ("phi3", 4096)):
        read = read_config(TINY | {"model_type": kind, "num_key_value_heads": 4, "sliding_window": 4096})
        assert read.architecture.sliding_window == window
        assert [w for w in read.warnings if "/model/sliding_window is ignored" in w] == read.warnings
        assert bool(read.warnings) == (window is None)


def test_an_architecture_no_machine_could_hold_is_refused():
    huge = dict.fromkeys(TINY, 10**6) | {"num_hidden_layers": 10**4, "head_dim": 10**6}
    assert "beyond any plan" in faults(huge)["/model/hidden_size"].reason


def test_one_fault_in_a_published_configuration_is_one_fault():
    for config in CONFIGS.values():
        assert len(faults(config | {"text_config": {"model_type": "jamba"}})) == 1


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_a_published_configuration_has_no_warning_but_for_its_towers(name):
    assert all("vision" in warning for warning in architecture_from_config(CONFIGS[name])[1])
