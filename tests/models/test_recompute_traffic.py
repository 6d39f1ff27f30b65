"""Recompute repeats the collectives of what it runs again, and of nothing else.

Llama 3 8B has 32 layers of h = 4096; at 4,096 tokens and TP 2 an all-reduce carries
2 * 4096 * 4096 = 33,554,432 bytes, and each rank sends as many.
"""

from typing import Any

import pytest

from models.architecture import Architecture
from models.catalogue.loader import architecture, cluster
from models.cost import candidate
from models.estimate import Candidate
from tests.builders import layout, setting, workload

LLAMA = architecture("llama-3-8b")
ALL_REDUCE = 2 * 4096 * 4096


def priced(
    shape: Architecture = LLAMA, batch: int = 64, profile: str = "calibrated", **knobs: Any
) -> Candidate:
    """A layout on DGX H100 nodes at 4,096 tokens."""
    chosen = layout(shape, batch, **knobs)
    asked = workload(4096, batch)
    return candidate(
        chosen, setting(shape, profile, gpus=chosen.gpus, cluster=cluster("dgx-h100"), workload=asked)
    )


def sent(told: Candidate, dimension: str) -> int:
    """Bytes a GPU sends in a step for a dimension. [B]."""
    return next(entry.sent_bytes_per_gpu for entry in told.traffic if entry.dimension == dimension)


def test_one_recomputed_layer_repeats_its_own_two_all_reduces_in_each_micro_batch():
    """16 micro-batches, one layer, two all-reduces of its forward."""
    none, one = (priced(tp=2, dp=4, **more) for more in ({}, {"recompute": "full", "recompute_layers": 1}))
    assert sent(none, "tp") == 87_242_309_632
    assert sent(one, "tp") == 87_242_309_632 + 16 * 2 * ALL_REDUCE == 88_316_051_456


@pytest.mark.parametrize(
    ("pp", "pairs"),
    [
        (1, 16 * (32 * (4 + 2 / 2) + 1 + 1.5)),
        (2, 32 * (16 * (4 + 2 / 2) + 1.5)),
    ],
)
def test_what_is_counted_in_a_step_makes_the_bytes_sent(pp, pairs):
    """Four pairs a layer and two gathers of a stored input, each half a pair; the embedding's scatter, the
    head's pair and its input gathered again. The loss sends three small all-reduces besides."""
    told = priced(batch=64 if pp == 1 else 128, tp=2, pp=pp, dp=4).traffic[0]
    assert told.dimension == "tp"
    assert told.per_step == pairs
    losses = 3 * 4 * 4096 * (16 if pp == 1 else 32)
    assert told.sent_bytes_per_gpu == pairs * told.message_bytes + losses


def test_nothing_is_gathered_again_without_sequence_parallelism():
    told = priced(tp=2, dp=4, sequence_parallel=False).traffic[0]
    assert told.per_step == 16 * (32 * 4 + 2)


def test_one_recomputed_layer_of_32_takes_a_32nd_of_the_time_of_all():
    whole, one = (
        priced(tp=2, dp=4, recompute="full", recompute_layers=layers).time.recompute_s for layers in (None, 1)
    )
    assert one == pytest.approx(whole / 32, rel=1e-12)


@pytest.mark.parametrize("layers", [8, 100])
def test_a_stage_recomputes_no_more_layers_than_it_has(layers):
    """Eight layers on each of four stages: eight or a hundred recomputed are all of them."""
    knobs = {"tp": 2, "cp": 2, "pp": 4, "recompute": "full"}
    assert priced(**knobs, recompute_layers=layers).traffic == priced(**knobs).traffic
    assert priced(**knobs, recompute_layers=layers).time == priced(**knobs).time


def test_context_and_expert_exchanges_repeat_for_the_recomputed_layers_alone():
    """Half of Mixtral's 32 layers: half of what full recompute adds."""
    for shape, dimension, knobs in (
        (LLAMA, "cp", {"cp": 2, "dp": 4}),
        (architecture("mixtral-8x7b"), "ep", {"dp": 8, "ep": 8}),
    ):
        none, half, whole = (
            sent(priced(shape, **knobs, **more), dimension)
            for more in ({}, {"recompute": "full", "recompute_layers": 16}, {"recompute": "full"})
        )
        assert none < whole
        assert 2 * half == none + whole


def selective(*modules: str) -> dict[str, Any]:
    """Selective recompute of some modules."""
    return {"recompute": "selective", "recompute_modules": modules}


def test_recomputed_experts_gather_and_reduce_their_copies_again():
    """Mixtral's 32 layers, 16 micro-batches: 2 copies of 4,096 tokens, 3/4 sent twice."""
    shape, knobs = architecture("mixtral-8x7b"), {"tp": 4, "etp": 4, "ep": 2, "dp": 4}
    kept, again = (sent(priced(shape, **knobs, **more), "tp") for more in ({}, selective("moe")))
    assert (kept, again - kept) == (169_518_170_112, 16 * 32 * 2 * 2 * 4096 * 4096 * 2 * 3 // 4)
    assert again == 221_057_777_664


def test_a_recomputed_feed_forward_repeats_its_own_all_reduce():
    """16 micro-batches of 32 layers, one all-reduce; the attention's is not repeated."""
    kept, again = (sent(priced(tp=2, dp=4, **more), "tp") for more in ({}, selective("mlp")))
    assert again - kept == 16 * 32 * ALL_REDUCE


def test_a_recomputed_attention_core_exchanges_keys_and_values_again():
    """Four exchanges a layer and micro-batch where three are needed without recompute."""
    kept, again = (sent(priced(tp=2, cp=2, dp=2, **more), "cp") for more in ({}, selective("core_attn")))
    assert (kept, again) == (12_884_901_888, 17_179_869_184)


def test_the_texts_take_selective_recompute_for_none():
    knobs = {"tp": 2, "cp": 2, "dp": 2, "profile": "textbook"}
    assert priced(**knobs, **selective("core_attn", "mlp")).traffic == priced(**knobs).traffic
