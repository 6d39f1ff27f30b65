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
