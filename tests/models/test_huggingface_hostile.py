"""Configurations meant to break the reader: every one is an architecture or an InvalidField, at once."""

import json
import time
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.architecture import Architecture
from models.cost.flops import token_flops
from models.cost.parameters import count_parameters
from models.errors import InvalidField
from models.huggingface import architecture_from_config, read_config
from models.huggingface_families import FAMILIES
from models.huggingface_fields import MOST_FIELDS
from tests.models.oracle.configurations import configuration, known_families

TINY = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}


def deep(levels, kind=list):
    value = 1
    for _ in range(levels):
        value = [value] if kind is list else {"a": value}
    return value


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.integers(),
    st.sampled_from([10**6, 10**6 + 1, 10**9, 2**31, 2**63, 10**30, -(10**30), deep(300), deep(300, dict)]),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["1" * 5000, "full_attention", "dense", "\ud800", "~/"]),
    st.lists(st.integers(-1, 9), max_size=3),
    st.lists(st.text(max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def check_faults(error):
    assert error.faults
    assert str(error)
    for fault in error.faults:
        assert fault.reason
        assert fault.fix
        assert len(json.dumps([fault.field, fault.value])) < 1000


def answer(config):
    try:
        got, warnings = architecture_from_config(config)
    except InvalidField as error:
        check_faults(error)
        return None
    assert isinstance(got, Architecture)
    assert count_parameters(got).total > 0
    assert token_flops(got, 4096).training_causal > 0
    assert all(len(warning) < 8000 for warning in warnings)
    return got


@given(st.sampled_from(["", *known_families()]), st.randoms(use_true_random=False), st.data())
@settings(max_examples=600, deadline=None)
def test_nothing_but_invalid_field_is_ever_raised(family, random, data):
    config = configuration(family, random) if family else dict(TINY)
    if data.draw(st.booleans()):
        config["model_type"] = data.draw(st.one_of(st.sampled_from(sorted(FAMILIES)), JUNK))
    inside = config.get("text_config", config)
    for key in data.draw(st.lists(st.sampled_from(sorted(inside)), max_size=4)):
        inside[key] = data.draw(JUNK)
    for key in data.draw(st.lists(st.sampled_from(sorted(config)), max_size=1)):
        config[key] = data.draw(JUNK)
    config |= data.draw(st.dictionaries(st.text(max_size=4), JUNK, max_size=2))
    answer(config)


@pytest.mark.parametrize("family", sorted(FAMILIES))
@given(
    st.dictionaries(st.sampled_from(["attn_config", "layer_types", "mlp_layer_types", "moe_layers"]), JUNK),
    st.integers(0, 2**31),
)
@settings(max_examples=15, deadline=None)
def test_any_family_takes_any_widths_or_says_why_not(family, odd, seed):
    random = Random(seed)
    widths = {key: 2 ** random.randint(0, 22) for key in TINY}
    answer(widths | {"model_type": family} | odd)


@pytest.mark.parametrize("key", sorted(TINY))
@pytest.mark.parametrize("kind", [list, dict])
def test_a_value_deeper_than_the_stack_is_a_fault(key, kind):
    assert answer(TINY | {key: deep(100_000, kind)}) is None


def test_a_configuration_within_a_configuration_within_one_is_read_once():
    inner = TINY | {"model_type": "llama"}
    for _ in range(50):
        inner = {"model_type": "llava", "text_config": inner}
    assert answer(inner) is None


@pytest.mark.parametrize(
    "config",
    [
        TINY | {"model_type": "x" * 5_000_000},
        TINY | {"hidden_size": "9" * 5_000_000},
        TINY | {"x" * 5_000_000: 1},
        TINY | {"layer_types": ["full_attention"] * 300_000},
        TINY | {"layer_types": ["x" * 5_000_000] * 2},
        TINY | {f"field_{i}": i for i in range(300_000)},
        TINY | {f"num_hidden_layer{i}": i for i in range(MOST_FIELDS - 10)},
        TINY | {"mlp_only_layers": list(range(500_000)), "num_experts": 4, "num_experts_per_tok": 1},
    ],
    ids=["family", "number", "name", "layers", "kind", "fields", "misspelt fields", "dense"],
)
def test_five_megabytes_are_refused_in_no_time(config):
    began = time.perf_counter()
    assert answer(config) is None
    assert time.perf_counter() - began < 5


def test_five_megabytes_that_change_nothing_are_read():
    config = TINY | {"model_type": "llama", "auto_map": {"a": "x" * 5_000_000}, "id2label": [0] * 500_000}
    assert answer(config) == answer(TINY | {"model_type": "llama"})


PLAIN = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32000,
}
MPT = {"model_type": "mpt", "d_model": 64, "n_layers": 2, "n_heads": 4, "vocab_size": 100, "max_seq_len": 64}


def told(config):
    with pytest.raises(InvalidField) as error:
        read_config(config)
    return {fault.field.removeprefix("/model/"): fault for fault in error.value.faults}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("block_types", ["recurrent", "attention"]),
        ("lru_width", 4096),
        ("mamba_expand", 2),
        ("ssm_state_size", 16),
        ("linear_key_head_dim", 128),
        ("attn_layer_indices", [1, 5]),
        ("num_key_value_heads_per_layer", [4] * 32),
        ("cross_attention_layers", [3, 8]),
        ("add_cross_attention", True),
        ("is_encoder_decoder", True),
        ("use_cla", True),
        ("num_kv_shared_layers", 10),
        ("index_topk", 2048),
        ("peft_type", "LORA"),
    ],
)
def test_layers_we_do_not_model_are_refused_whatever_the_family_says(field, value):
    assert "cannot be reckoned with" in told(PLAIN | {field: value})[field].reason


@pytest.mark.parametrize("field", ["is_encoder_decoder", "add_cross_attention", "use_cla", "index_topk"])
@pytest.mark.parametrize("value", [False, None, 0])
def test_a_field_of_such_layers_that_says_no_means_nothing(field, value):
    assert read_config(PLAIN | {field: value}).architecture == read_config(PLAIN).architecture


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (MPT | {"norm_type": "rmsnorm"}, "norm_type"),
        (MPT | {"ffn_config": {"ffn_type": "mptglu"}}, "ffn_config/ffn_type"),
        (MPT | {"attn_config": {"qk_ln": True}}, "attn_config/qk_ln"),
        (MPT | {"attn_config": {"rope": True, "alibi": False}}, "attn_config/rope"),
        (MPT | {"attn_config": {"attn_type": "multiquery_attention"}}, "attn_config/attn_type"),
        (PLAIN | {"model_type": "starcoder2", "mlp_type": "gated"}, "mlp_type"),
        (
            PLAIN | {"model_type": "opt", "ffn_dim": 64, "max_position_embeddings": 64}
            | {"_remove_final_layer_norm": True},
            "_remove_final_layer_norm",
        ),
    ],
)  # fmt: skip
def test_a_switch_that_changes_the_layers_is_read_or_refused(config, field):
    assert field in told(config)


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        ("true", "Try true."),
        ("False", "Try false."),
        (1, "Try true."),
        (0, "Try false."),
        ("x", "State true or false."),
    ],
)
def test_the_fix_of_a_flag_is_what_was_meant(value, fix):
    assert told(PLAIN | {"tie_word_embeddings": value})["tie_word_embeddings"].fix == fix


@pytest.mark.parametrize(
    ("kind", "fix"),
    [
        ("gemma3", "Did you mean 'gemma3_text'?"),
        ("LLaMA", "Did you mean 'llama'?"),
        ("mixtrl", "Did you mean 'mixtral'?"),
    ],
)
def test_a_misspelt_family_is_suggested(kind, fix):
    assert told(PLAIN | {"model_type": kind})["model_type"].fix == fix


@pytest.mark.parametrize("kind", ["qwen", "samba", "mimo", "xglm", "phi3small", "qwen4", "hunyuan_v1_moe"])
def test_another_architecture_of_like_name_is_never_suggested(kind):
    assert "Did you mean" not in told(PLAIN | {"model_type": kind})["model_type"].fix


def test_what_stands_beside_a_decoder_is_told_where_it_stands():
    inner = PLAIN | {"model_type": "qwen3_vl_text"}
    outer = {"model_type": "qwen3_vl", "text_config": inner}
    assert set(told(outer | {"tie_word_embeddings": "yes"})) == {"tie_word_embeddings"}
    assert set(told(outer | {"num_local_experts": 8})) == {"num_local_experts"}
    assert set(told({"model_type": "llama4", "text_config": "x"})) == {"text_config"}


def test_a_width_that_is_no_whole_number_is_not_rounded_for_the_user():
    assert told(PLAIN | {"hidden_size": 4096.4})["hidden_size"].fix == "State a whole number."
    assert told(PLAIN | {"hidden_size": 4096.0})["hidden_size"].fix == "Try 4096."


def test_a_fault_is_told_once_and_a_default_that_is_false_is_told():
    with pytest.raises(InvalidField) as error:
        read_config(PLAIN | {"attention_bias": "yes"})
    assert len(error.value.faults) == 1
    assert ("/model/tie_word_embeddings", False, "default of the family") in read_config(PLAIN).defaults


def test_layers_without_a_window_are_counted_from_gpt_neos_pattern():
    config = PLAIN | {"model_type": "gpt_neo", "num_layers": 4, "num_heads": 4, "max_position_embeddings": 64}
    config = {k: v for k, v in config.items() if k not in ("num_hidden_layers", "num_attention_heads")}
    slides = {
        pattern: read_config(config | {"attention_types": [[kinds, times]]}).architecture.sliding_layers
        for pattern, kinds, times in (("whole", ["global"], 4), ("turns", ["global", "local"], 2))
    }
    assert slides == {"whole": 0, "turns": 2}
