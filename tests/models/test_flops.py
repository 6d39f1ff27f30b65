"""FLOPs of a token: published figures, windows, and what each part must obey."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.architecture import Architecture, MixtureOfExperts
from models.catalogue import architecture, architecture_names
from models.cost.flops import attended_tokens, attention_flops, matmul_flops, token_flops
from models.cost.parameters import count_parameters

TINY = {"name": "t", "hidden": 64, "layers": 4, "heads": 4, "kv_heads": 2, "head_size": 16, "ffn": 128}
PLAIN = Architecture(vocabulary=100, **TINY)


@pytest.mark.parametrize(
    ("name", "sequence", "published", "tolerance"),
    [
        # C. Zhao et al., arXiv:2505.09343, table 2. Its figure for the 405B counts attention at a quarter.
        ("deepseek-v3", 4096, 250e9, 0.005),
        ("deepseek-v2", 4096, 155e9, 0.01),
        ("llama-3.1-405b", 4096, 2448e9, 0.011),
    ],
)
def test_a_token_trains_for_as_many_flops_as_published(name, sequence, published, tolerance):
    got = token_flops(architecture(name), sequence).training_causal
    assert got == pytest.approx(published, rel=tolerance)


@pytest.mark.parametrize("name", architecture_names())
def test_products_take_two_flops_for_each_parameter_a_token_meets_in_one(name):
    entry = architecture(name)
    counts = count_parameters(entry)
    # Norms, biases, sinks and positions multiply nothing; they are a few in a thousand of the rest.
    head = entry.vocabulary * entry.hidden if entry.tied_embeddings and counts.head == 0 else 0
    met = counts.active - counts.embedding - counts.positions + head
    assert 0.99 * 2 * met < matmul_flops(entry) <= 2 * met


@pytest.mark.parametrize("name", architecture_names())
def test_causal_attention_is_half_of_the_whole_or_more_where_it_slides(name):
    got = token_flops(architecture(name), 8192)
    half = got.attention_whole_forward / 2
    if architecture(name).sliding_layers:
        assert half <= got.attention_causal_forward <= got.attention_whole_forward
    else:
        assert got.attention_causal_forward == pytest.approx(half)
    assert got.training_causal == 3 * (got.matmul_forward + got.attention_causal_forward)
    assert got.training_whole == 3 * (got.matmul_forward + got.attention_whole_forward)


def seen(sequence, window, chunked):
    """Tokens each token sees in its layer, itself counted half, as s / 2 counts it."""
    for i in range(sequence):
        start = i // window * window if chunked else max(0, i - window + 1)
        yield i - start + (1.0 if not chunked and i >= window else 0.5)


@given(st.integers(1, 400), st.integers(1, 500), st.booleans())
def test_a_window_sees_what_a_count_of_it_sees(sequence, window, chunked):
    entry = PLAIN.model_copy(
        update={"sliding_window": window, "sliding_layers": 4, "chunked_window": chunked}
    )
    counted = sum(seen(sequence, window, chunked)) / sequence
    # The closed form lets the window start in the middle of a token; a half at most, of which little is left.
    assert attended_tokens(entry, sequence) == pytest.approx(counted, abs=0.51)


@given(st.integers(1, 5000), st.integers(0, 4), st.booleans(), st.booleans())
def test_a_window_as_long_as_the_sequence_is_none(sequence, sliding, chunked, causal):
    entry = PLAIN.model_copy(
        update={"sliding_window": sequence, "sliding_layers": sliding, "chunked_window": chunked}
    )
    longer = entry.model_copy(update={"sliding_window": sequence + 7})
    want = attention_flops(PLAIN, sequence, causal)
    assert attention_flops(entry, sequence, causal) == pytest.approx(want)
    assert attention_flops(longer, sequence, causal) == pytest.approx(want)


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_a_window_never_adds_flops_and_a_chunk_sees_no_more_than_a_window(sequence, window):
    slides = PLAIN.model_copy(update={"sliding_window": window, "sliding_layers": 3})
    chunks = slides.model_copy(update={"chunked_window": True})
    full, sliding, chunked = (attended_tokens(entry, sequence) for entry in (PLAIN, slides, chunks))
    assert 0 < chunked <= sliding * (1 + 1e-9)
    assert sliding <= full * (1 + 1e-9)


def test_windows_change_no_product():
    slides = PLAIN.model_copy(update={"sliding_window": 8, "sliding_layers": 3})
    assert token_flops(slides, 64).matmul_forward == token_flops(PLAIN, 64).matmul_forward


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 3))
def test_only_the_experts_a_token_visits_cost_flops(experts, chosen, every):
    chosen = min(experts, chosen)
    moe = MixtureOfExperts(experts=experts, experts_per_token=chosen, expert_ffn=32, every=every)
    entry = PLAIN.model_copy(update={"moe": moe})
    more = entry.model_copy(update={"moe": moe.model_copy(update={"experts": experts + 1})})
    sparse = sum(entry.sparse_layers())
    assert matmul_flops(more) - matmul_flops(entry) == sparse * 2 * 64
    visited = sparse * (6 * 64 * 32 * chosen + 2 * 64 * experts - 6 * 64 * 128)
    assert matmul_flops(entry) == matmul_flops(PLAIN) + visited


def test_latent_attention_costs_by_its_own_shapes():
    entry = architecture("deepseek-v3")
    # 128 heads of 128 + 64 for the scores and 128 for the sum.
    assert attention_flops(entry, 4096) == 2 * 128 * (192 + 128) * 4096 / 2
