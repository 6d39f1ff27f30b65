"""How many layers of each chunk are recomputed: the fewest that keep every stage under the memory limit.

A stage's bytes depend on its own layers alone, and a step is never shorter for a chunk that takes longer:
so the fewest layers of each stage, found stage by stage, make the shortest step a split allows. Which
numbers fit is read off the memory model itself, every number of every stage at once.

Symbols: C chunks, p ranks, L_r layers of rank r, M = sum of L_r + 1 numbers that are tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from models.cost.memory.stage_bytes import memory_lines, peak_bytes
from models.cost.setting import Setting
from models.cost.stages import Stages, layers_of_chunks
from models.cost.table import FULL, KEEP_ALL, LayoutTable
from models.layout import Layout
from search.check import agrees
from search.placing import LayerTimes, layer_times, placed
from search.problem import Problem

Counts = tuple[int, ...]
"""Layers recomputed of each of a rank's chunks."""


def may_spare(problem: Problem) -> bool:
    """Whether full recompute may leave layers alone: where the caller leaves both none and full open."""
    open_ = {KEEP_ALL, FULL} <= set(problem.domains.recompute)
    whole = problem.shared.get("recompute_layers") is None
    return open_ and whole and not problem.setting.profile.real_valued_stages


def is_crowded(layout: Layout, problem: Problem) -> bool:
    """Whether a layout recomputes in full because it must, and may spare layers."""
    if layout.recompute != "full" or not may_spare(problem):
        return False
    none = LayoutTable.of([layout.model_copy(update={"recompute": "none"})])
    return int(peak_bytes(none, problem.setting)[0]) > problem.setting.memory_limit_bytes


def sparing(layout: Layout, problem: Problem) -> Layout | None:
    """Return a layout of full recompute with the fewest layers recomputed.

    Where none need be it is one without recompute; nothing where it does not fit however many are.
    """
    counts = fewest_layers(layout, problem.setting)
    if counts is None:
        return None
    if counts == _all_layers(layout, problem.setting):
        return layout
    told = {"recompute_stage_layers": counts} if any(counts) else {"recompute": "none"}
    spared = layout.model_copy(update=told)
    left_out = any(agrees(spared, choice, problem.setting) for choice in problem.forbidden)
    return layout if left_out else spared


def fewest_layers(layout: Layout, setting: Setting) -> tuple[int, ...] | None:
    """Return the fewest layers of each chunk that full recompute must cover to fit; nothing where none do.

    Chunks of one rank share what it recomputes so that the longest of them is shortest.
    """
    ranks = _ranks(layout, setting)
    tried = _shared_out(layout, ranks, setting)
    fits, chosen = _fits(layout, setting, ranks, tried), []
    for shares, within in zip(tried, fits, strict=True):
        if not within.any():
            return None
        chosen.append(shares[int(within.argmax())])
    told = _lowered(layout, setting, ranks, chosen)
    counts = [0] * len(layout.stage_layers)
    for rank, share in zip(ranks, told, strict=True):
        for chunk, count in zip(rank.chunks, share, strict=True):
            counts[chunk] = count
    return tuple(counts)


def _lowered(
    layout: Layout, setting: Setting, ranks: Sequence["_Rank"], chosen: Sequence[Counts]
) -> list[Counts]:
    """Return shares of which no chunk can recompute a layer less.

    Where a rank's chunks hold layers of both kinds, another share of fewer layers may fit where the one that
    is shared in turn does not.
    """
    told = list(chosen)
    mixed = [i for i, rank in enumerate(ranks) if len(rank.chunks) > 1 and len(set(sum(rank.sparse, ()))) > 1]
    while mixed:
        less = [_one_less(told[i]) for i in mixed]
        fits = _fits(layout, setting, [ranks[i] for i in mixed], less)
        for i, shares, within in zip(mixed, less, fits, strict=True):
            if within.any():
                told[i] = shares[int(within.argmax())]
        mixed = [i for i, within in zip(mixed, fits, strict=True) if within.any()]
    return told


def _one_less(share: Counts) -> list[Counts]:
    """Every share with a layer less of one chunk."""
    return [
        (*share[:chunk], count - 1, *share[chunk + 1 :]) for chunk, count in enumerate(share) if count > 0
    ]


def _all_layers(layout: Layout, setting: Setting) -> tuple[int, ...]:
    return tuple(len(chunk) for chunk in layers_of_chunks(setting, layout.stage_layers))


@dataclass(frozen=True)
class _Rank:
    """The chunks a rank runs."""

    stage: int
    chunks: tuple[int, ...]
    sparse: tuple[tuple[bool, ...], ...]
    """Whether each layer of each chunk is sparse."""
    first: bool
    last: bool


def _ranks(layout: Layout, setting: Setting) -> list[_Rank]:
    """Every rank; under dualpipe one of the two that run the same chunks."""
    sparse, rank_of = layers_of_chunks(setting, layout.stage_layers), placed(layout)
    ranks = []
    for stage in range(max(rank_of) + 1):
        chunks = tuple(chunk for chunk, rank in enumerate(rank_of) if rank == stage)
        own = tuple(sparse[chunk] for chunk in chunks)
        ranks.append(_Rank(stage, chunks, own, 0 in chunks, len(sparse) - 1 in chunks))
    return ranks


def _shared_out(layout: Layout, ranks: Sequence[_Rank], setting: Setting) -> list[list[Counts]]:
    """Every number of layers a rank may recompute, from none to all, as its chunks share it."""
    if len(ranks) == len(layout.stage_layers):
        return [[(layers,) for layers in range(len(rank.sparse[0]) + 1)] for rank in ranks]
    none = layout.model_copy(update={"recompute": "none"})
    kept, again = layer_times(LayoutTable.of([none, layout]), setting)
    return [_in_turn(rank, kept, again) for rank in ranks]


def _in_turn(rank: _Rank, kept: LayerTimes, again: LayerTimes) -> list[Counts]:
    """One layer more at a time, of the chunk that is the shortest so far."""
    chunks = range(len(rank.chunks))
    time = [sum(map(kept.layer, own)) for own in rank.sparse]
    time[0] += kept.first * rank.first
    time[-1] += kept.last * rank.last
    counts = [0] * len(time)
    found: list[Counts] = [tuple(counts)]
    while open_ := [chunk for chunk in chunks if counts[chunk] < len(rank.sparse[chunk])]:
        shortest = min(open_, key=lambda chunk: (time[chunk], chunk))
        kind = rank.sparse[shortest][counts[shortest]]
        time[shortest] += again.layer(kind) - kept.layer(kind)
        counts[shortest] += 1
        found.append(tuple(counts))
    return found


def _fits(
    layout: Layout, setting: Setting, ranks: Sequence[_Rank], tried: Sequence[Sequence[Counts]]
) -> list[NDArray[np.bool_]]:
    """Whether each rank is under the limit with each number of layers recomputed, those tried of it."""
    rows = [_row(rank, counts) for rank, shares in zip(ranks, tried, strict=True) for counts in shares]
    if not rows:
        return [np.zeros(0, dtype=np.bool_) for _ in ranks]
    stages = Stages(*np.array(rows, dtype=np.float64).T[:, None, :])
    table = replace(LayoutTable.of([layout]), sparing=True)
    held = np.add.reduce([value[0] for value in memory_lines(table, stages, setting).values()])
    ends = np.cumsum([len(shares) for shares in tried])
    return np.split(held <= setting.memory_limit_bytes, ends[:-1])


def _row(rank: _Rank, counts: Counts) -> tuple[float, ...]:
    """A rank as a column of `Stages`, so many layers of its chunks recomputed."""
    held = [kind for own in rank.sparse for kind in own]
    spared = [kind for own, count in zip(rank.sparse, counts, strict=True) for kind in own[count:]]
    dense, dense_spared = held.count(False), spared.count(False)
    ends = (float(rank.first), float(rank.last), 1.0)
    return (rank.stage, dense, len(held) - dense, *ends, dense_spared, len(spared) - dense_spared)
