"""Layers placed on stages for the layouts of an answer, with what the cost model says they take."""

import numpy as np
import pytest

from models.catalogue.loader import architecture
from models.cost import candidate
from models.cost.pipeline.split_ways import megatron_ways
from models.cost.splits import balanced_split
from models.layout import LayoutChoice
from models.request import Constraints
from search import search
from search.placing import placed, placed_layers, stage_problem
from search.shortlist import TIE
from search.stage_problem import cost_of
from tests.builders import LLAMA_405B, layout, setting, workload
from tests.search.questions import DENSE, Question, resolved

DEEPSEEK, QWEN = architecture("deepseek-v3"), architecture("qwen3-235b-a22b")
MOST = 10**13
"""A memory limit nothing reaches. [B]"""


def asked(shape, batch=512, sequence=4096, limit=MOST, **knobs):
    chosen = layout(shape, batch, **knobs)
    known = {"gpus": chosen.gpus, "workload": workload(sequence, batch), "memory_limit_bytes": limit}
    return chosen, setting(shape, "calibrated", **known)


def split_of(shape, **knobs):
    chosen, question = asked(shape, **knobs)
    return placed_layers(chosen, question).stage_layers


def test_one_layer_less_on_the_first_and_the_last_stage_of_llama_405b():
    """Meta's split for 16 stages: it comes out of times and bytes, whatever the layout started from."""
    meta = (7, *(8,) * 14, 7)
    lopsided = (2, *(8,) * 14, 12)
    for start in (balanced_split(126, 16), lopsided):
        assert sum(start) == 126
        assert split_of(LLAMA_405B, tp=8, pp=16, stage_layers=start) == meta
    assert next(megatron_ways(meta, 16)).way == "ends_counted"


@pytest.mark.parametrize(
    ("shape", "pp", "vpp", "longest"),
    [
        (QWEN, 8, 1, 12), (QWEN, 8, 4, 3), (QWEN, 4, 12, 2), (LLAMA_405B, 8, 1, 16), (LLAMA_405B, 8, 8, 2),
        (DEEPSEEK, 16, 2, 2), (DEEPSEEK, 16, 1, 4),
    ],
)  # fmt: skip
def test_layers_that_do_not_divide_are_placed_and_not_refused(shape, pp, vpp, longest):
    """94 on 8 and 8 x 4, 126 on 8 and 8 x 8, 61 on 16 and 16 x 2: no chunk longer than it must be."""
    split = split_of(shape, pp=pp, vpp=vpp, dp=8)
    assert sum(split) == shape.layers
    assert len(split) == pp * vpp
    assert min(split[1:-1]) >= 1
    assert max(split) <= longest + any(not sparse for sparse in shape.sparse_layers())


def test_thirty_layers_on_four_stages_are_seven_eight_eight_seven():
    shape = LLAMA_405B.model_copy(update={"layers": 30})
    assert split_of(shape, tp=8, pp=4) == (7, 8, 8, 7)


def test_a_head_as_long_as_layers_takes_their_place():
    """Qwen3-235B's head is about two layers' work: one layer is left beside it where others have three."""
    split = split_of(QWEN, pp=8, vpp=4, dp=8)
    assert split[-1] == 1
    assert max(split) == 3
    assert candidate(*asked(QWEN, pp=8, vpp=4, dp=8, stage_layers=split)).pipeline.imbalance < 0.05


def test_light_layers_make_a_long_first_stage():
    """DeepSeek-V3's three dense layers take less than its sparse ones."""
    split = split_of(DEEPSEEK, pp=4, dp=64, ep=8, batch=1024)
    assert split[0] > split[1] >= split[-1]


SCHEDULES = [
    ("1f1b", 1), ("gpipe", 1), ("interleaved", 2), ("zb-h1", 1), ("zb-v", 2), ("dualpipe-v", 2),
    ("dualpipe", 1),
]  # fmt: skip


@pytest.mark.parametrize(("schedule", "vpp"), SCHEDULES)
@pytest.mark.parametrize("shape", [LLAMA_405B, DEEPSEEK], ids=["dense", "sparse"])
def test_a_split_holds_what_the_report_says_it_holds(shape, schedule, vpp):
    """Bytes of every rank are the report's to a layer's rounding; times order splits as the report does."""
    rng = np.random.default_rng(5)
    for _ in range(4):
        cuts = np.sort(rng.choice(np.arange(1, shape.layers), 4 * vpp - 1, replace=False))
        split = tuple(np.diff([0, *cuts, shape.layers]).tolist())
        chosen, question = asked(shape, tp=2, pp=4, vpp=vpp, dp=8, schedule=schedule, stage_layers=split)
        found = cost_of(stage_problem(chosen, question), split)
        told = candidate(chosen, question).memory.stages
        ranks = max(placed(chosen)) + 1
        assert found.rank_bytes.tolist() == pytest.approx([s.total_bytes for s in told[:ranks]], rel=1e-6)


def test_memory_moves_layers_off_the_stage_that_is_full():
    """With the limit a hair under what the even split takes, the first stage gives a layer away."""
    chosen, roomy = asked(LLAMA_405B, tp=8, pp=14, dp=1, stage_layers=(9,) * 14)
    full = candidate(chosen, roomy).memory
    assert full.peak_stage == 0
    _, tight = asked(LLAMA_405B, tp=8, pp=14, dp=1, limit=full.peak_bytes - 1)
    moved = placed_layers(chosen, tight)
    assert moved.stage_layers[0] < 9
    assert candidate(moved, tight).memory.headroom_bytes >= 0


def test_where_nothing_can_be_placed_the_layout_stays_as_it_is():
    alone, question = asked(LLAMA_405B, tp=8, dp=8)
    assert placed_layers(alone, question) is alone
    piped = layout(tp=8, pp=16, dp=128)
    assert placed_layers(piped, setting()) is piped
    hopeless = asked(LLAMA_405B, tp=8, pp=16, limit=1)
    assert placed_layers(*hopeless).stage_layers == hopeless[0].stage_layers


def test_the_least_memory_may_cost_time():
    chosen, question = asked(LLAMA_405B, tp=8, pp=16, dp=4)
    fast, small = (
        candidate(placed_layers(chosen, question, for_memory=each), question) for each in (False, True)
    )
    assert small.memory.peak_bytes < fast.memory.peak_bytes
    assert small.step_time_s > fast.step_time_s


def shortlisted(question, **more):
    return search(question.request(**more), resolved(question.setting()))


THIRTEEN = DENSE.model_copy(update={"layers": 13})


def test_a_place_is_never_slower_than_under_the_even_split():
    question = Question(THIRTEEN, 12, 48, constraints=Constraints(pp=(3, 4, 6)))
    for place in shortlisted(question, top_k=20).shortlist:
        chunks = place.layout.pp * place.layout.vpp
        even = place.layout.model_copy(update={"stage_layers": balanced_split(13, chunks)})
        told = candidate(even, question.setting())
        assert place.step_time_s <= told.step_time_s * (1 + TIE)
        assert place.memory.headroom_bytes >= 0


def test_a_shorter_shortlist_is_the_head_of_a_longer_one():
    question = Question(THIRTEEN, 8, 32)
    long = shortlisted(question, top_k=12).shortlist
    for count in (1, 3, 8):
        assert shortlisted(question, top_k=count).shortlist == long[:count]


def test_a_forbidden_split_is_not_offered():
    question = Question(THIRTEEN, 4, 16, constraints=Constraints(pp=4, schedule="1f1b"))
    (first, *_) = shortlisted(question, top_k=1).shortlist
    forbid = (LayoutChoice(stage_layers=first.layout.stage_layers),)
    held = Question(THIRTEEN, 4, 16, constraints=Constraints(pp=4, schedule="1f1b", forbid=forbid))
    for place in shortlisted(held, top_k=20).shortlist:
        assert place.layout.stage_layers != first.layout.stage_layers


def test_llama_8b_on_24_gpus_needs_stages_in_threes():
    """A batch of 64 and 32 heads have no factor of three, so pp takes it; 11, 11 and 10 is no faster."""
    held = Constraints(schedule=("none", "1f1b"))
    question = Question(
        architecture("llama-3.1-8b"), 24, 64, sequence=8192, limit=80_000_000_000, constraints=held
    )
    told = shortlisted(question, top_k=100).shortlist
    assert {place.layout.pp for place in told} == {3, 6, 12, 24}
    threes = [place for place in told if place.layout.pp == 3]
    assert threes[0].layout.tp == 1
    for place in threes:
        counted = candidate(
            place.layout.model_copy(update={"stage_layers": (11, 11, 10)}), question.setting()
        )
        assert place.step_time_s <= counted.step_time_s
