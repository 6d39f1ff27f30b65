"""Parameter counts, to the digit."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.architecture import Architecture, MixtureOfExperts
from models.catalogue import architecture, architecture_names
from models.cost.parameters import LayerParameters, count_parameters, padded_vocabulary
from models.huggingface import architecture_from_config

GOLDEN = tomllib.loads((Path(__file__).parents[1] / "golden" / "parameter_totals.toml").read_text())
ROWS = [pytest.param(row, id=f"{row['id']} {row['name']}") for row in GOLDEN["rows"]]
NAMED = [pytest.param(row, id=row["name"]) for row in GOLDEN["rows"] if "catalogue" in row]
SMALL = {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
}
TINY = {"name": "t", "hidden": 64, "layers": 4, "heads": 4, "kv_heads": 2, "head_size": 16, "ffn": 128}


def parts(layer: LayerParameters) -> int:
    return layer.attention + layer.mlp + layer.router + layer.norms + layer.experts


@pytest.mark.parametrize("row", ROWS)
def test_a_published_configuration_has_its_published_total(row):
    counts = count_parameters(architecture_from_config(row["config"])[0])
    assert counts.total == row["total"]
    assert counts.active == row.get("active", row["total"])
    if "active_without_embedding" in row:
        assert counts.active_without_embedding == row["active_without_embedding"]
    assert counts.buffers == row.get("buffers", 0)
    assert counts.mtp == row.get("mtp", 0)


@pytest.mark.parametrize("row", NAMED)
def test_the_catalogue_entry_has_the_same_total(row):
    assert count_parameters(architecture(row["catalogue"])).total == row["total"]


@pytest.mark.parametrize("row", GOLDEN["padded_vocabulary"], ids=lambda row: str(row["vocabulary"]))
def test_the_embedding_is_padded_as_megatron_pads_it(row):
    assert padded_vocabulary(row["vocabulary"], np.array([1, 2, 4, 8])).tolist() == row["padded"]


@given(st.integers(1, 1_000_000), st.integers(1, 64), st.sampled_from([1, 64, 128]))
def test_padding_is_least_and_divides_evenly(vocabulary, tp, multiple):
    padded = int(padded_vocabulary(vocabulary, np.array([tp]), multiple)[0])
    assert padded % (tp * multiple) == 0
    assert vocabulary <= padded < vocabulary + tp * multiple


@pytest.mark.parametrize(
    ("config", "total"),
    [
        # Families whose classes stand beside their weights: the totals their authors give.
        (SMALL | {"model_type": "baichuan", "vocab_size": 64000}, 7_000_559_616),
        (
            SMALL
            | {"model_type": "internlm2", "intermediate_size": 14336, "num_key_value_heads": 8}
            | {"vocab_size": 92544, "bias": False},
            7_737_708_544,
        ),
        (
            {"model_type": "chatglm", "hidden_size": 4096, "num_layers": 40, "num_attention_heads": 32}
            | {
                "ffn_hidden_size": 13696,
                "kv_channels": 128,
                "padded_vocab_size": 151552,
                "add_qkv_bias": True,
            }
            | {"multi_query_attention": True, "multi_query_group_num": 2, "add_bias_linear": False},
            9_399_951_360,
        ),
    ],
    ids=["Baichuan-7B", "InternLM2-7B", "GLM-4-9B"],
)
def test_a_family_known_by_its_own_code_has_its_published_total(config, total):
    assert count_parameters(architecture_from_config(config)[0]).total == total


@pytest.mark.parametrize("name", architecture_names())
def test_the_parts_of_every_catalogue_entry_add_up(name):
    counts = count_parameters(architecture(name))
    layers = [counts.dense_layer] + ([counts.sparse_layer] if counts.sparse_layer else [])
    for layer in layers:
        assert parts(layer) == layer.sharded + layer.replicated + layer.experts == layer.total
    sparse = counts.sparse_layers * counts.sparse_layer.total if counts.sparse_layer else 0
    ends = (counts.embedding, counts.embedding_norm, counts.positions, counts.head, counts.final_norm)
    assert (
        counts.total == counts.dense_layers * counts.dense_layer.total + sparse + sum(ends) + counts.buffers
    )
    assert 0 < counts.active_without_embedding <= counts.active <= counts.total
    assert counts.dense_layers + counts.sparse_layers == architecture(name).layers


@pytest.mark.parametrize("name", architecture_names())
def test_a_nominal_figure_is_near_the_exact_one(name):
    entry = architecture(name)
    counts = count_parameters(entry)
    # Names round freely: "7b" of Gemma is 8.5 billion, "1b" of Llama 3.2 and MPT are 1.24 and 1.32.
    if entry.nominal_parameters:
        assert entry.nominal_parameters == pytest.approx(counts.total, rel=0.25)
    if entry.nominal_active_parameters:
        assert entry.nominal_active_parameters == pytest.approx(counts.active, rel=0.15)


@given(
    experts=st.integers(1, 64),
    chosen=st.integers(1, 64),
    dense_first=st.integers(0, 3),
    every=st.integers(1, 3),
)
def test_only_the_experts_left_idle_tell_active_from_total(experts, chosen, dense_first, every):
    chosen = min(experts, chosen)
    moe = MixtureOfExperts(
        experts=experts, experts_per_token=chosen, expert_ffn=32, dense_first=dense_first, every=every
    )
    counts = count_parameters(Architecture(**TINY, vocabulary=100, moe=moe))
    idle = counts.sparse_layers * (experts - chosen) * 3 * 64 * 32
    assert counts.total - counts.active == idle


def test_untying_adds_one_head_and_nothing_else():
    tied = count_parameters(Architecture(**TINY, vocabulary=100, tied_embeddings=True))
    untied = count_parameters(Architecture(**TINY, vocabulary=100))
    assert untied.total - tied.total == 100 * 64 == untied.head
    assert tied.head == 0


def test_a_tied_embedding_is_still_the_head_when_the_lookup_is_not_counted():
    tied = count_parameters(Architecture(**TINY, vocabulary=100, tied_embeddings=True))
    assert tied.active_without_embedding == tied.active


def test_norms_without_affine_weights_have_no_parameters():
    plain = count_parameters(Architecture(**TINY, vocabulary=100, norm="layer", norm_affine=False))
    assert plain.dense_layer.norms == plain.final_norm == 0


def test_row_parallel_biases_and_norms_are_whole_on_every_tensor_rank():
    layer = count_parameters(
        Architecture(
            **TINY, vocabulary=100, qkv_bias=True, attention_output_bias=True, mlp_bias=True, norm="layer"
        )
    ).dense_layer
    # Two LayerNorms of 2 h, a bias of h after the attention and one after the feed-forward.
    assert layer.replicated == 2 * 2 * 64 + 64 + 64


def test_latent_attention_splits_all_but_its_down_projections_and_norms():
    layer = count_parameters(architecture("deepseek-v3")).dense_layer
    down = 7168 * (1536 + 512 + 64) + 1536 + 512
    assert layer.replicated == down + 2 * 7168
