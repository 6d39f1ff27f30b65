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
from models.huggingface import architecture_from_config
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
