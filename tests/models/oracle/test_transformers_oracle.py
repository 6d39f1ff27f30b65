"""Every count, part by part and to the digit, against the classes of huggingface/transformers.

They are a test extra (`pip install layout-search[oracle]`), and absent the whole file is skipped and
says so. LAYOUT_SEARCH_ORACLE=1 makes their absence a failure.
"""

import os
import warnings
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.errors import InvalidField
from models.huggingface import read_config
from models.huggingface_families import FAMILIES
from tests.models.oracle.configurations import configuration, known_configurations, known_families
from tests.models.oracle.counts import our_parts
from tests.models.oracle.reference import ALIASES, reference_parts, saved, sliding_layers

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch  # noqa: F401
        import transformers
except ImportError as error:
    if os.environ.get("LAYOUT_SEARCH_ORACLE") == "1":
        raise
    pytest.skip(f"the oracle extra is not installed: {error}", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("default")
KNOWN = known_configurations()
NOT_COMPARED = {"internlm", "internlm2", "internlm3", "baichuan", "chatglm", "deepseek"}
"""Families whose own classes stand beside their weights, not in the package."""
ONLY_AS_PART = {"qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl_text", "qwen3_vl_moe_text", "glm4v_moe_text"}
"""Compared within a vision-language configuration."""
SAME_AS = {"qwen2_vl", "qwen2_5_vl", "exaone", "glm4v_text"}
"""Older spellings of families that are compared."""

HYBRIDS = [
    "nemotron_h", "jamba", "bamba", "falcon_h1", "zamba2", "granitemoehybrid", "mamba2", "qwen3_next",
    "qwen3_5", "qwen3_5_moe", "minimax", "kimi_linear", "olmo_hybrid", "lfm2", "gemma3n", "gemma4",
    "recurrent_gemma", "deepseek_v32", "longcat_flash",
]  # fmt: skip
"""Families of the package with layers we do not model."""


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_a_known_configuration_counts_as_its_class_does(name):
    assert our_parts(KNOWN[name]) == reference_parts(KNOWN[name])


@pytest.mark.parametrize("family", known_families())
@given(random=st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_configuration_of_a_family_counts_as_its_class_does(family, random):
    config = configuration(family, random)
    assert our_parts(config) == reference_parts(config)


@pytest.mark.parametrize("family", known_families())
def test_the_file_a_class_writes_is_read_like_the_one_it_was_made_from(family):
    for seed in range(3):
        config = configuration(family, Random(f"{family} {seed}"))
        assert our_parts(saved(config)) == reference_parts(config)


@pytest.mark.parametrize("family", known_families())
def test_as_many_layers_slide_as_the_class_lists(family):
    for seed in range(3):
        config = configuration(family, Random(f"{family} {seed}"))
        listed = sliding_layers(config)
        if listed is not None:
            assert read_config(config).architecture.sliding_layers == listed


def test_every_family_we_read_is_compared_or_named_here():
    compared = {*known_families(), *ALIASES, *NOT_COMPARED, *ONLY_AS_PART, *SAME_AS}
    assert set(FAMILIES) <= compared


@pytest.mark.parametrize("kind", HYBRIDS)
def test_the_file_of_a_hybrid_is_refused_with_what_is_missing(kind):
    config = transformers.AutoConfig.for_model(kind).to_dict()
    with pytest.raises(InvalidField, match=r"cannot be reckoned with: .* not modelled"):
        read_config(config)
