"""What a framework is told is the split that was meant: settings read back as the frameworks read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.cost.pipeline.split_forms import counted_split, ends_split, lighter_ends_split, read_layout
from models.cost.pipeline.split_ways import (
    CHUNKS,
    FIRST_LESS,
    LAST_LESS,
    LAYOUT,
    MODULES,
    PER_STAGE,
    megatron_ways,
    torchtitan_ways,
)

EMBEDDING, LOSS = "--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split"
FIRST, LAST = "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"


def as_megatron_reads(settings, layers, pp):
    """The split Megatron-LM builds from its flags; the layout string excludes all others."""
    if LAYOUT in settings:
        assert set(settings) == {LAYOUT}
        return read_layout(settings[LAYOUT], pp).layers
    vpp = settings.get(CHUNKS, 1)
    if FIRST in settings or LAST in settings:
        assert not {EMBEDDING, LOSS} & set(settings)
        assert min(settings.get(FIRST, 1), settings.get(LAST, 1)) > 0
        return ends_split(layers, pp, vpp, first=settings.get(FIRST), last=settings.get(LAST))
    return counted_split(layers, pp, vpp, embedding=EMBEDDING in settings, loss=LOSS in settings)


def as_torchtitan_reads(settings, layers, pp, several):
    """The split torchtitan builds: ceil((L + less) / k) stages, two a rank unless k says or one runs."""
    if MODULES in settings:
        chunks = [chunk.split() for chunk in settings[MODULES].split(" | ")]
        assert (chunks[0][0], chunks[-1][-2:]) == ("tok_embeddings", ["norm", "output"])
        runs = [next((word for word in chunk if word.startswith("layers.")), "") for chunk in chunks]
        ends = [
            [int(end) for end in run.removeprefix("layers.").split("-")] if run else [0, -1] for run in runs
        ]
        return tuple(end[-1] - end[0] + 1 for end in ends)
    less = settings[FIRST_LESS], settings[LAST_LESS]
    each = settings.get(PER_STAGE)
    stages = -(-(layers + sum(less)) // each) if each else pp * (2 if several else 1)
    assert stages % pp == 0
    return lighter_ends_split(layers, stages, *less)


@st.composite
def splits(draw):
    """A split that is nearly even, as people write them, or any at all."""
    pp, vpp = draw(st.integers(2, 8)), draw(st.integers(1, 5))
    chunks, size = pp * vpp, draw(st.integers(1, 6))
    if draw(st.booleans()):
        inner = draw(st.lists(st.integers(1, 9), min_size=chunks - 2, max_size=chunks - 2))
    else:
        turn = draw(st.integers(0, chunks - 2))
        inner = [size + 1] * turn + [size] * (chunks - 2 - turn)
    first, last = draw(st.integers(0, 8)), draw(st.integers(0, 8))
    return (first, *inner, last), pp


@given(splits())
def test_every_way_says_the_split_it_was_made_from(asked):
    split, pp = asked
    layers, several = sum(split), len(split) > pp
    ways = list(megatron_ways(split, pp))
    assert [way.way for way in ways][-1] == "layout"
    assert all(as_megatron_reads(way.settings, layers, pp) == split for way in ways)
    ways = list(torchtitan_ways(split, pp))
    assert [way.way for way in ways][-1] == "modules"
    assert all(as_torchtitan_reads(way.settings, layers, pp, several) == split for way in ways)


@pytest.mark.parametrize(
    ("split", "pp", "way", "settings"),
    [
        ((8,) * 10, 10, "even", {}),
        ((2,) * 40, 4, "even", {CHUNKS: 10}),
        ((15, *[16] * 6, 15), 8, "ends_counted", {EMBEDDING: True, LOSS: True}),  # 126 on 8
        ((1, *[2] * 62, 1), 8, "ends_counted", {EMBEDDING: True, LOSS: True, CHUNKS: 8}),  # on 8 x 8
        ((0, *[1] * 126, 0), 16, "ends_counted", {EMBEDDING: True, LOSS: True, CHUNKS: 8}),  # on 16 x 8
        ((11, 11, 10), 3, "ends_counted", {LOSS: True}),  # 32 on 3
        ((11, 12, 12, 11), 4, "ends_counted", {EMBEDDING: True, LOSS: True}),  # 46 on 4
        ((15, 15, 15, 16), 4, "ends_given", {LAST: 16}),  # 61 on 4
        ((16, 16, 16, 13), 4, "ends_given", {LAST: 13}),
        ((3, *[4] * 14, 2), 16, "ends_given", {FIRST: 3, LAST: 2}),  # 61 on 16
        ((0, 16, 16, 0), 4, "layout", {LAYOUT: "E|(t*16|)*2L"}),  # ends of no layers are not given
        ((1, *[2] * 30, 0), 8, "layout", {LAYOUT: "Et|(tt|)*30L"}),  # 61 on 8 x 4
    ],
)
def test_the_plainest_words_come_first(split, pp, way, settings):
    first = next(megatron_ways(split, pp))
    assert (first.way, first.settings) == (way, settings)


@pytest.mark.parametrize("pp", [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48])
def test_94_layers_divide_with_both_ends_counted_or_by_47(pp):
    even = 94 % pp == 0
    both = counted_split(94, pp, embedding=True, loss=True)
    assert (both is not None) is (96 % pp == 0)
    if both and pp > 1:
        plain = next(megatron_ways((94 // pp,) * pp if even else both, pp))
        assert plain.way == ("even" if even else "ends_counted")


@pytest.mark.parametrize(
    ("split", "pp", "told"),
    [
        ((4, 5, 4, 4, 4, 4, 4, 3), 8, {FIRST_LESS: 1, LAST_LESS: 1}),  # 32 on 8: what it does unless told
        ((4,) * 8, 8, {FIRST_LESS: 0, LAST_LESS: 0}),
        ((10, 11, *[10] * 5, 9), 8, {FIRST_LESS: 1, LAST_LESS: 1}),  # 80 on 8
        ((15, *[16] * 6, 15), 8, {FIRST_LESS: 1, LAST_LESS: 1}),  # 126 on 8
        ((1, *[2] * 30, 0), 16, {FIRST_LESS: 1, LAST_LESS: 1}),  # 61 on 32, two a rank
        ((1, *[2] * 30, 0), 8, {FIRST_LESS: 1, LAST_LESS: 1, PER_STAGE: 2}),  # ceil(63 / 2) = 32
    ],
)
def test_torchtitan_is_told_how_much_lighter_the_ends_are(split, pp, told):
    first = next(torchtitan_ways(split, pp))
    assert (first.way, first.settings) == ("lighter_ends", told)


def test_a_predicted_token_stands_before_the_loss_in_a_layout_string():
    *_, string = megatron_ways((1, *[2] * 30, 0), 16, mtp_layers=1)
    assert string.settings == {LAYOUT: "Et|(tt|)*30mL"}
