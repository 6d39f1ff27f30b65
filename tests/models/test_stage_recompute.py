"""So many layers of each chunk recomputed: bytes, seconds and traffic of every stage, by hand.

Llama 3.1 405B on TP 8, PP 4 at 8,192 tokens: h = 16384, 53248 feed-forward, 8,192 tokens and 16384
numbers over eight ranks, in two bytes.
"""

from typing import Any

import numpy as np
import pytest

from models.architecture import Architecture, MixtureOfExperts
from models.cost import candidate
from models.cost.memory import activations as physics
from models.cost.memory.stage_bytes import kept_layer_bytes, layer_bytes
from models.cost.recomputed_layers import in_turn
from models.cost.stages import every_chunk, every_stage
from models.cost.step.chunk_seconds import chunk_durations
from models.cost.table import INTERLEAVED, LayoutTable
from models.estimate import Candidate
from tests.builders import LLAMA_405B, layout, setting, workload

SMALL = LLAMA_405B.model_copy(update={"layers": 24})
MOE = Architecture(
    name="moe", hidden=4096, layers=24, heads=32, kv_heads=8, head_size=128, ffn=14336, vocabulary=128_256,
    moe=MixtureOfExperts(experts=8, experts_per_token=2, expert_ffn=14336, dense_first=2),
)  # fmt: skip
CHECKPOINT = 2 * 8192 * 16384 // 8
"""A layer's input, split over the TP group by sequence parallelism. [B]"""


def priced(
    shape: Architecture = SMALL, profile: str = "calibrated", batch: int = 32, **knobs: Any
) -> Candidate:
    """A layout on 8-GPU nodes."""
    chosen = layout(shape, batch, **knobs)
    return candidate(chosen, setting(shape, profile, gpus=chosen.gpus, workload=workload(8192, batch)))


def listed(*layers: int) -> dict[str, Any]:
    """Full recompute of so many layers of each chunk."""
    return {"recompute": "full", "recompute_stage_layers": layers}


PIPED = {"tp": 8, "pp": 4}


def activations(told: Candidate) -> list[int]:
    return [stage.details["layer_activations"] for stage in told.memory.stages]


def test_a_stage_keeps_the_inputs_of_recomputed_layers_and_all_of_the_others():
    """Stage 0 holds 4 micro-batches of 6 layers; the last stage, one: it tells what a layer keeps."""
    none = activations(priced(**PIPED))
    layer = none[3] // 6  # the last stage holds one micro-batch
    assert none == [4 * 6 * layer, 3 * 6 * layer, 2 * 6 * layer, 6 * layer]
    some = priced(**PIPED, **listed(5, 3, 1, 0))
    assert activations(some) == [
        4 * (layer + 5 * CHECKPOINT),
        3 * (3 * layer + 3 * CHECKPOINT),
        2 * (5 * layer + CHECKPOINT),
        6 * layer,
    ]
    working = [stage.details.get("working_layer", 0) for stage in some.memory.stages]
    assert working == [layer, layer, layer, 0]


def test_each_stage_is_what_a_layout_with_one_number_for_all_makes_of_it():
    """Stage by stage, to the byte: the list takes stages from seven layouts that recompute alike."""
    alike = [
        priced(**PIPED) if not n else priced(**PIPED, recompute="full", recompute_layers=n) for n in range(7)
    ]
    mixed = priced(**PIPED, **listed(6, 4, 1, 0)).memory.stages
    for stage, layers in enumerate((6, 4, 1, 0)):
        assert mixed[stage] == alike[layers].memory.stages[stage]


@pytest.mark.parametrize("profile", ["calibrated", "textbook"])
@pytest.mark.parametrize(
    ("shape", "knobs"),
    [
        (SMALL, PIPED), (SMALL, {"tp": 8, "pp": 4, "vpp": 2}), (MOE, {"tp": 2, "pp": 4, "dp": 2, "ep": 2}),
        (SMALL, {"tp": 8, "pp": 4, "schedule": "dualpipe"}),
        (SMALL, {"tp": 8, "pp": 4, "vpp": 2, "schedule": "dualpipe-v"}), (SMALL, {"tp": 8, "dp": 1}),
    ],
    ids=["1f1b", "interleaved", "experts", "dualpipe", "dualpipe-v", "no pipeline"],
)  # fmt: skip
def test_no_layer_is_no_recompute_all_are_all_and_equal_numbers_are_one_number(shape, knobs, profile):
    """Byte for byte and second for second."""
    chunks = layout(shape, 32, **knobs).stage_layers
    ranks = 2 if knobs.get("vpp") == 2 or knobs.get("schedule") == "dualpipe" else 1
    pairs = (
        (listed(*(0,) * len(chunks)), {}),
        (listed(*chunks), {"recompute": "full"}),
        (listed(*(1,) * len(chunks)), {"recompute": "full", "recompute_layers": ranks}),
        (listed(*(2,) * len(chunks)), {"recompute": "full", "recompute_layers": 2 * ranks}),
    )
    for one, other in pairs:
        found, same = (priced(shape, profile, **knobs, **more) for more in (one, other))
        assert found.memory == same.memory
        assert found.time == same.time
        assert found.traffic == same.traffic
        assert found.pipeline == same.pipeline


def test_a_chunk_runs_its_recomputed_layers_forward_once_more():
    """Its backward's first half grows by that many of its layers' forwards, no other chunk's does."""
    chosen = layout(SMALL, 32, pp=4)
    under = setting(SMALL, "calibrated", gpus=chosen.gpus, workload=workload(8192, 32))
    again = layout(SMALL, 32, pp=4, **listed(4, 0, 2, 0))
    plain, some = (chunk_durations(each, under) for each in (chosen, again))
    more = np.subtract(some.input_gradient, plain.input_gradient)
    forward = plain.forward[1]  # six layers, no embedding, no head
    assert more[[0, 2]] == pytest.approx([forward * 4 / 6, forward * 2 / 6], rel=0.01)
    assert more[[1, 3]].tolist() == [0.0, 0.0]
    assert some.forward == pytest.approx(plain.forward)


def test_only_recomputed_layers_repeat_their_collectives():
    """32 micro-batches; five layers of the busiest stage repeat two all-reduces of 8,192 x 16,384."""
    none, some, whole = (priced(**PIPED, **more) for more in ({}, listed(5, 0, 0, 5), {"recompute": "full"}))
    sent = [told.traffic[0].sent_bytes_per_gpu for told in (none, some, whole)]
    assert {told.traffic[0].dimension for told in (none, some, whole)} == {"tp"}
    each = 2 * 2 * 8192 * 16384 * 2 * 7 // 8
    assert sent[1] - sent[0] == 32 * 5 * each
    assert sent[2] - sent[0] == 32 * 6 * each


def test_the_first_layers_of_a_chunk_are_the_recomputed_ones():
    """Two dense layers stand first: recomputed alone, they spare the experts, and one of them is at work."""
    chosen = layout(MOE, 32, tp=2, pp=4, dp=2, ep=2, **listed(2, 0, 1, 0))
    table = LayoutTable.of([chosen])
    under = setting(MOE, "calibrated", gpus=16, workload=workload(8192, 32))
    stages = every_stage(4, 1, under, chosen.stage_layers, recomputed=table.recomputed)
    assert np.array(stages.spared_dense).tolist() == [[0, 0, 0, 0]]
    assert np.array(stages.spared_sparse).tolist() == [[4, 6, 5, 6]]
    told = candidate(chosen, under).memory.stages
    part = physics.split(table, under)
    kept = physics.checkpoint_bytes(part.tokens, MOE.hidden, part.residual, part.element)
    whole, inputs = layer_bytes(table, under, part), kept_layer_bytes(table, under, part, kept)
    assert told[0].details["layer_activations"] == 4 * (2 * inputs.dense[0] + 4 * whole.sparse[0])
    assert told[0].details["working_layer"] == whole.dense[0] < whole.sparse[0]
    assert told[2].details["working_layer"] == whole.sparse[0]


def test_interleaved_chunks_share_what_their_stage_recomputes_in_turn():
    """Three of each rank's layers: two of its first chunk, one of its second."""
    under = setting(SMALL, "calibrated", gpus=32, workload=workload(8192, 32))
    chunks = every_chunk(4, 2, under, (3,) * 8, INTERLEAVED, 3)
    assert (chunks.dense - chunks.spared_dense).tolist() == [[2] * 4 + [1] * 4]
    assert in_turn(100, [3, 3]) == [3, 3]


def test_predicted_layers_stand_behind_the_last_chunks():
    shape = SMALL.model_copy(update={"mtp_layers": 1})
    chosen = layout(shape, 32, **PIPED, **listed(0, 0, 0, 6))
    under = setting(shape, "calibrated", gpus=32, workload=workload(8192, 32))
    under = type(under)(**(vars(under) | {"stack": under.stack.model_copy(update={"mtp": True})}))
    stages = every_stage(4, 1, under, chosen.stage_layers, recomputed=(0, 0, 0, 6))
    assert (stages.dense[0, 3], np.array(stages.spared_dense)[0, 3]) == (7, 1)
