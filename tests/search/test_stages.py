"""Layers go to the stages that make the step shortest, within memory, and ties to the symmetric split."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cost.pipeline.actions import round_robin, there_and_back
from models.cost.pipeline.split_forms import (
    counted_split,
    ends_split,
    lighter_ends_split,
    read_layout,
)
from search.stage_alike import alike_split
from search.stage_dynamic import dynamic_split
from search.stage_problem import StageProblem, cost_of
from search.stages import NoSplit, StageSplit, _decided, assign_layers

HEAD_405B = 0.66


def fitted(problem, **more):
    found = assign_layers(problem, **more)
    assert isinstance(found, StageSplit)
    return found


def split_of(problem):
    found = fitted(problem)
    assert found.proven
    return found.layers


@pytest.mark.parametrize(
    ("layers", "pp", "vpp", "head", "expected"),
    [
        (126, 16, 1, HEAD_405B, (7, *[8] * 14, 7)),  # Llama 3.1 405B
        (126, 16, 8, HEAD_405B, (0, *[1] * 126, 0)),
        (126, 8, 1, HEAD_405B, (15, *[16] * 6, 15)),
        (30, 4, 1, 0.5, (7, 8, 8, 7)),  # U6
        (32, 3, 1, 1.0, (11, 11, 10)),  # U47
        (70, 12, 1, 1.0, (5, *[6] * 10, 5)),  # U49
        (94, 8, 1, 0.5, (11, *[12] * 6, 11)),  # U57
        (94, 8, 4, 0.5, (2, *[3] * 30, 2)),
        (94, 4, 12, 0.5, (1, *[2] * 46, 1)),
        (80, 4, 5, 0.0, (4,) * 20),  # U33
        (80, 4, 10, 0.0, (2,) * 40),
        (61, 16, 2, 1.8, (1, *[2] * 30, 0)),  # 61 layers, head and one predicted token
        (61, 8, 4, 2.0, (1, *[2] * 30, 0)),  # U52
    ],
)
def test_the_split_people_publish_comes_out_by_itself(layers, pp, vpp, head, expected):
    assert split_of(StageProblem.uniform(layers, pp, vpp, last_time=head)) == expected


def test_a_long_head_asks_for_more_than_one_layer_less():
    """Llama 3.1 8B's head takes as long as 2.4 of its layers."""
    assert split_of(StageProblem.uniform(32, 3, last_time=2.4)) == (11, 12, 9)


def test_of_equally_fast_splits_the_one_with_the_lower_peak_is_taken():
    """The first stage holds the most micro-batches, so it is the one with fewer layers."""
    assert split_of(StageProblem.uniform(15, 2)) == (7, 8)
    assert split_of(StageProblem.uniform(15, 2, in_flight=(1.0, 2.0))) == (8, 7)


def test_of_equally_heavy_splits_the_symmetric_one_is_taken():
    assert split_of(StageProblem.uniform(22, 4, in_flight=(0.0,) * 4, first_time=1)) == (5, 6, 6, 5)


def test_memory_moves_layers_off_a_stage():
    free = StageProblem.uniform(32, 4)
    assert split_of(free) == (8, 8, 8, 8)
    tight = replace(free, limit_bytes=(26, 40, 40, 40))
    assert split_of(tight) == (6, 8, 9, 9)
    assert assign_layers(replace(free, limit_bytes=(3,) * 4)) == NoSplit(proven=True)


def test_a_rule_of_fewest_layers_refuses_too_few():
    assert assign_layers(StageProblem.uniform(3, 4, empty_ends=False)) == NoSplit(proven=True)
    assert split_of(StageProblem.uniform(3, 4)) == (0, 1, 1, 1)
    assert split_of(StageProblem.uniform(4, 1)) == (4,)


def deepseek(pp, vpp, rank_of):
    """Three dense layers of a third of the time, 58 with experts, one predicted token and the head."""
    chunks = pp * vpp
    plain = StageProblem.uniform(61, pp, vpp, last_time=1.7)
    return replace(
        plain,
        kinds=(0,) * 3 + (1,) * 58,
        time=(0.34, 1.0),
        state_bytes=(1, 20),
        activation_bytes=(2, 3),
        rank_of=rank_of,
        in_flight=(float(pp),) * chunks,
    )


def test_cheap_dense_layers_leave_their_stage_lighter():
    """61 on 16, three of them dense, a predicted token and the head at the end."""
    assert split_of(deepseek(16, 1, round_robin(16, 1))) == (3, *[4] * 14, 2)
    assert split_of(deepseek(16, 2, round_robin(16, 2))) == (1, *[2] * 30, 0)


def test_the_v_placement_pairs_the_first_chunk_with_the_last():
    problem = deepseek(8, 2, there_and_back(8))
    found = fitted(problem)
    assert found.rank_s[0] == pytest.approx(sum(found.layers[:1]) - 3 * 0.66 + found.layers[-1] + 1.7)


@st.composite
def problems(draw, vpp=1, alike=False):
    """Small pipelines with any times, bytes and limits; a tenth or so fit nowhere.

    Alike: the layers after the first few are, and a micro-batch in flight on one chunk of a rank is on all.
    """
    pp = draw(st.integers(1, 4 if vpp == 1 else 2))
    chunks = pp * vpp
    kinds = draw(st.lists(st.integers(0, 1), min_size=chunks, max_size=9))
    if alike:
        first = draw(st.integers(0, 4))
        kinds = [kinds[0]] * min(first, len(kinds)) + [kinds[-1]] * max(len(kinds) - first, 0)
    small, bytes_ = st.integers(0, 6), st.integers(0, 5)
    several = {"min_size": chunks, "max_size": chunks}
    rank_of = round_robin(pp, vpp)
    if vpp == 2:
        rank_of = draw(st.sampled_from((rank_of, there_and_back(pp))))
    in_flight = draw(st.lists(st.sampled_from((0.5, 1, 2, 3)), **several))
    least = draw(st.lists(st.integers(0, 1), **several))
    if alike:
        least[1:-1] = [1] * (chunks - 2)
        in_flight = [in_flight[rank] for rank in rank_of]
    return StageProblem(
        kinds=tuple(kinds),
        time=(draw(st.integers(1, 4)), draw(st.integers(1, 4))),
        state_bytes=(draw(bytes_), draw(bytes_)),
        activation_bytes=(draw(bytes_), draw(bytes_)),
        rank_of=rank_of,
        in_flight=tuple(in_flight),
        extra_time=tuple(draw(st.lists(small, **several))),
        extra_bytes=tuple(draw(st.lists(small, **several))),
        limit_bytes=tuple(draw(st.lists(st.integers(10, 90), min_size=pp, max_size=pp))),
        least_layers=tuple(least),
    )


def every_split(problem):
    sizes = product(range(problem.layers + 1), repeat=problem.chunks)
    for split in (split for split in sizes if sum(split) == problem.layers):
        cost = cost_of(problem, split)
        if cost.fits:
            yield cost


def best_key(problem):
    return min((cost.key for cost in every_split(problem)), default=None)


def found_key(problem):
    found = assign_layers(problem)
    return cost_of(problem, found.layers).key if isinstance(found, StageSplit) else None


@given(problems())
@settings(max_examples=150, deadline=None)
def test_solver_dynamic_program_and_trying_every_split_agree(problem):
    split = dynamic_split(problem)
    assert found_key(problem) == best_key(problem)
    assert (None if split is None else cost_of(problem, split).key) == best_key(problem)


@given(problems(vpp=2))
@settings(max_examples=100, deadline=None)
def test_with_two_chunks_a_rank_the_solver_finds_what_trying_every_split_does(problem):
    assert found_key(problem) == best_key(problem)


@given(st.one_of(*(problems(vpp=vpp, alike=True) for vpp in (1, 2, 3))))
@settings(max_examples=250, deadline=None)
def test_counting_layers_that_are_alike_finds_what_trying_every_split_does(problem):
    alike, split = alike_split(problem)
    assert alike
    assert (None if split is None else cost_of(problem, split).key) == best_key(problem)


@given(st.one_of(*(problems(vpp=vpp, alike=True) for vpp in (1, 2, 3))))
@settings(max_examples=150, deadline=None)
def test_with_memory_first_the_fastest_of_the_splits_with_the_least_peak_is_counted(problem):
    def worth(cost):
        chunk, rank, peak, apart = cost.key
        return peak, chunk, rank, apart

    _, split = alike_split(problem, memory_first=True)
    best = min(map(worth, every_split(problem)), default=None)
    assert (None if split is None else worth(cost_of(problem, split))) == best


@pytest.mark.parametrize("limit", [None, 60, 45])
@pytest.mark.parametrize(
    "problem",
    [
        StageProblem.uniform(126, 16, 4, last_time=HEAD_405B),
        StageProblem.uniform(94, 16, 3, last_time=2.1),
        StageProblem.uniform(80, 8, 2, first_time=0.2, last_time=1.2),
        deepseek(8, 2, there_and_back(8)),
        deepseek(16, 1, round_robin(16, 1)),
        deepseek(4, 4, round_robin(4, 4)),
    ],
)
def test_counting_finds_no_worse_a_split_than_the_solver(problem, limit):
    """With as much memory as there is, and so little that it decides."""
    if limit is not None:
        free = fitted(problem).rank_bytes
        problem = replace(problem, limit_bytes=(max(free) * limit // 61,) * problem.ranks)
    alike, split = alike_split(problem)
    assert alike
    solved = _decided(problem, 2.0)
    if isinstance(solved, NoSplit):
        assert split is None or not solved.proven
    else:
        found, other = cost_of(problem, split), cost_of(problem, solved.layers)
        assert found.fits
        assert found.key == other.key if solved.proven else found.key <= other.key


def test_equal_chunks_that_are_as_many_as_layers_are_counted_at_once():
    """405B on 16 x 8 and 32 x 4, of which the solver took a tenth of a second and more."""
    for pp, vpp in ((16, 8), (32, 4)):
        found = fitted(StageProblem.uniform(126, pp, vpp, last_time=HEAD_405B), limit_s=0.0)
        assert (found.by, found.proven) == ("counting", True)
        assert found.layers == (0, *[1] * 126, 0)


def taking_turns(problem):
    """The same with layers of two kinds that take turns, and cost the same: counting is of no use."""
    two = {name: getattr(problem, name) * 2 for name in ("time", "state_bytes", "activation_bytes")}
    return replace(problem, kinds=tuple(layer % 2 for layer in range(problem.layers)), **two)


def test_without_time_the_dynamic_program_answers():
    found = fitted(taking_turns(StageProblem.uniform(126, 16, last_time=HEAD_405B)), limit_s=0.0)
    assert (found.by, found.proven) == ("dynamic program", True)
    assert found.layers == (7, *[8] * 14, 7)
    assert not fitted(taking_turns(StageProblem.uniform(61, 16, 2, last_time=1.8)), limit_s=0.0).proven


def test_layers_that_take_turns_are_placed_as_equal_ones_are():
    for problem in (
        StageProblem.uniform(46, 8, last_time=1.0),
        StageProblem.uniform(30, 4, 2, last_time=0.5),
    ):
        assert split_of(taking_turns(problem)) == split_of(problem)


def test_running_out_of_time_is_not_the_same_as_none_fits():
    plain = replace(StageProblem.uniform(15, 2, 2), in_flight=(1.0,) * 4, limit_bytes=(5, 5))
    problem = taking_turns(plain)
    assert assign_layers(plain, limit_s=0.0) == NoSplit(proven=True)
    assert assign_layers(problem) == NoSplit(proven=True)
    assert assign_layers(problem, limit_s=0.0) == NoSplit(proven=False)


@pytest.mark.parametrize("limits", [(8, 7), (7, 8), (9, 6)])
def test_without_time_chunks_share_what_their_rank_may_hold(limits):
    plain = replace(StageProblem.uniform(15, 2, 2), in_flight=(1.0,) * 4, limit_bytes=limits)
    problem = taking_turns(plain)
    found = fitted(problem, limit_s=0.0)
    assert (found.by, found.proven) == ("dynamic program", False)
    assert found.rank_bytes == limits == fitted(problem).rank_bytes


def test_the_same_question_has_the_same_answer():
    problem = StageProblem.uniform(126, 16, 7, last_time=HEAD_405B)
    assert assign_layers(problem) == assign_layers(problem)


def test_the_stage_that_limits_is_told():
    found = fitted(StageProblem.uniform(8, 4, last_time=1.5))
    assert found.rank_s[found.limiting_rank] == max(found.rank_s)


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        (counted_split(30, 4), None),  # U6
        (counted_split(30, 4, embedding=True, loss=True), (7, 8, 8, 7)),
        (ends_split(30, 4, first=7, last=7), (7, 8, 8, 7)),
        (ends_split(61, 4, last=13), (16, 16, 16, 13)),  # U8
        (ends_split(61, 4, last=16), (15, 15, 15, 16)),
        (counted_split(80, 4, 5), (4,) * 20),  # U33
        (counted_split(80, 4, 10), (2,) * 40),
        (counted_split(32, 3, loss=True), (11, 11, 10)),  # U47
        (counted_split(70, 12, embedding=True, loss=True), (5, *[6] * 10, 5)),  # U49
        (lighter_ends_split(61, 32), (1, *[2] * 30, 0)),  # U52
        (counted_split(94, 8, 4), None),  # U57
        (counted_split(94, 8, 4, embedding=True, loss=True), (2, *[3] * 30, 2)),
        (counted_split(94, 4, 12, embedding=True, loss=True), (1, *[2] * 46, 1)),
        (counted_split(126, 8, 8, embedding=True, loss=True), (1, *[2] * 62, 1)),
        (lighter_ends_split(126, 8), (15, *[16] * 6, 15)),
        (ends_split(61, 16, first=3, last=2), (3, *[4] * 14, 2)),
        (ends_split(60, 4, 2, last=13), None),
    ],
)
def test_the_ways_frameworks_say_a_split_mean_this(split, expected):
    assert split == expected


def test_a_layout_string_it_cannot_read_is_refused():
    assert len(read_layout("Et*2|(t*2|)*34,t*3|(t*2|)*3,tL", 8).chunks) == 40
    with pytest.raises(ValueError, match="3 chunks on 2 ranks"):
        read_layout("Et|t|tL", 2)
    with pytest.raises(ValueError, match="only E, t, m, L"):
        read_layout("Ex|tL", 2)


def test_a_split_that_takes_long_to_make_symmetric_is_left_to_the_others():
    """With memory first late ranks have room for far more than their share, on either chunk."""
    deep = StageProblem.uniform(400, 16, 2)
    assert split_of(deep)
    assert alike_split(deep, memory_first=True) == (False, None)
