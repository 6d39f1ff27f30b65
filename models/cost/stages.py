"""Layers to pipeline stages: the kinds of stages a split makes.

A layout's stages fall into few kinds (same layers, same ends), and within a kind the first stage
holds the most micro-batches in flight, so pricing one stage of each kind prices them all exactly.

Symbols: p pipeline stages, v interleaved chunks a stage, C = p v chunks, L layers,
N layouts, S kinds (padded by repeating a kind with count 0).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from models.architecture import Architecture
from models.cost.pipeline.schedule import FOLDED
from models.cost.recomputed_layers import Recomputed, recomputed_of_chunks
from models.cost.setting import Setting
from models.cost.splits import balanced_split
from models.cost.table import DUALPIPE, INTERLEAVED, ONE_F_ONE_B, LayoutTable

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Stages:
    """Stages of N layouts, S columns each; every field has shape (N, S)."""

    index: Array
    """Pipeline stage, from 0."""
    dense: Array
    """Dense decoder layers on it (real-valued under the textbook profile)."""
    sparse: Array
    """Mixture-of-experts layers on it."""
    first: Array
    """1 where it holds the input embedding."""
    last: Array
    """1 where it holds the final norm, the head and the loss."""
    count: Array
    """Stages of this kind; 0 for padding."""
    spared_dense: Array | float = 0.0
    """Dense layers that full recompute leaves alone: means something only to layouts that recompute so."""
    spared_sparse: Array | float = 0.0
    """Mixture-of-experts layers it leaves alone."""

    def take(self, rows: NDArray[np.int64]) -> "Stages":
        """Return the chosen rows."""
        columns = (getattr(self, name) for name in self.__dataclass_fields__)
        return Stages(*(column[rows] if isinstance(column, np.ndarray) else column for column in columns))


def stage_kinds(table: LayoutTable, setting: Setting) -> Stages:
    """Return one stage of each kind for every layout.

    In real-valued stages (the textbook) a middle stage of L/p layers stands for all.
    """
    kinds = len(PLACEMENTS)
    codes = (table.pp * 100_000 + table.vpp) * kinds + placement_of(table.schedule)
    keys, inverse = np.unique(codes, return_inverse=True)
    layers = _Layers.of(setting, table.stage_layers, table.recomputed)
    rows = [_kinds(*divmod(key // kinds, 100_000), key % kinds, layers) for key in keys.tolist()]
    width = max((len(row) for row in rows), default=1)
    padded = [_padded(row, width) for row in rows]
    columns = layers.columns
    grid = np.array(padded, dtype=np.float64).reshape(len(rows), width, columns)[inverse.reshape(-1)]
    return Stages(*np.moveaxis(grid, 2, 0))


def every_stage(
    pp: int,
    vpp: int,
    setting: Setting,
    split: tuple[int, ...] | None,
    schedule: int = ONE_F_ONE_B,
    recomputed: Recomputed = None,
) -> Stages:
    """Return all p stages of one layout, shape (1, p)."""
    placement = int(placement_of(np.array([schedule]))[0])
    rows = _stages(pp, vpp, placement, _Layers.of(setting, split, recomputed))
    return Stages(*np.array(rows, dtype=np.float64).T[:, None, :])


def every_chunk(
    pp: int,
    vpp: int,
    setting: Setting,
    split: tuple[int, ...] | None,
    schedule: int = ONE_F_ONE_B,
    recomputed: Recomputed = None,
) -> Stages:
    """Return the p v chunks of one layout in execution order as stages of their own, shape (1, C)."""
    placement = int(placement_of(np.array([schedule]))[0])
    layers = _recomputed_by_chunk(pp, vpp, placement, _Layers.of(setting, split, recomputed))
    rows = _stages(pp * vpp, 1, ROUND, layers)
    return Stages(*np.array(rows, dtype=np.float64).T[:, None, :])


@dataclass(frozen=True)
class Chunks:
    """The chunks of N layouts: of which kinds there are, and which of them each one is."""

    kinds: Stages
    """A chunk of each kind, (N, S)."""
    of: NDArray[np.int64]
    """Kind of each chunk in execution order, padded, (N, C)."""


def chunk_kinds(table: LayoutTable, setting: Setting) -> Chunks:
    """Return the chunks of every layout that interleaves; of any other, the whole model as one."""
    runs = table.schedule == INTERLEAVED
    keys, which = np.unique(np.where(runs, table.pp * 100_000 + table.vpp, 100_001), return_inverse=True)
    layers = _Layers.of(setting, table.stage_layers, table.recomputed)
    cut = [divmod(key, 100_000) for key in keys.tolist()]
    found = [_chunks(pp * vpp, _chunk_by_chunk(pp, vpp, layers)) for pp, vpp in cut]
    width, most = (max(map(len, part)) for part in zip(*found, strict=True))
    kinds = np.array([_padded(rows, width) for rows, _ in found])
    of = np.array([each + (0,) * (most - len(each)) for _, each in found])
    which = which.reshape(-1)
    return Chunks(Stages(*np.moveaxis(kinds[which], 2, 0)), of[which])


def spared_alike(chunks: Stages, stages: Stages) -> Stages:
    """Return chunks of which full recompute leaves alone what it leaves of the stage it leaves least of."""
    dense = _least_share(stages.spared_dense, stages.dense, stages.count)
    sparse = _least_share(stages.spared_sparse, stages.sparse, stages.count)
    return replace(chunks, spared_dense=chunks.dense * dense, spared_sparse=chunks.sparse * sparse)


def _least_share(spared: Array | float, layers: Array, count: Array) -> Array:
    """Least share of its layers that any stage spares, (N, 1)."""
    share = np.where((layers > 0) & (count > 0), spared / np.maximum(layers, 1.0), 1.0)
    return np.asarray(share.min(axis=1, keepdims=True))


def _chunk_by_chunk(pp: int, vpp: int, layers: "_Layers") -> "_Layers":
    """What chunks are cut from one by one: a split is of no use to a model that is one chunk."""
    if pp * vpp == 1:
        return replace(layers, split=None)
    return _recomputed_by_chunk(pp, vpp, ROUND, layers)


def _recomputed_by_chunk(pp: int, vpp: int, placement: int, layers: "_Layers") -> "_Layers":
    """The same with what is recomputed told of each chunk, where it is told of a rank."""
    if not isinstance(layers.recomputed, int) or layers.real_valued:
        return layers
    return replace(layers, recomputed=_of_every_chunk(pp, vpp, placement, layers))


def layers_of_chunks(setting: Setting, split: tuple[int, ...]) -> list[tuple[bool, ...]]:
    """Return whether each layer of each chunk is sparse; predicted layers stand behind the last chunk's."""
    return _layers_of_chunks(len(split), _Layers.of(setting, split, None))


def _of_every_chunk(pp: int, vpp: int, placement: int, layers: "_Layers") -> tuple[int, ...]:
    """Layers recomputed of each chunk where so many of each rank's are."""
    held = [len(chunk) for chunk in _layers_of_chunks(pp * vpp, layers)]
    found = [0] * len(held)
    for stage in range(pp):
        own = chunks_of(stage, pp, vpp, placement)
        taken = recomputed_of_chunks(layers.recomputed, [held[chunk] for chunk in own], own)
        for chunk, count in zip(own, taken, strict=True):
            found[chunk] = count
    return tuple(found)


PLACEMENTS = ("round", "folded", "mirrored")
"""How chunks go to ranks: round and round, down and up again, or one copy from each end."""
ROUND, FOLD, MIRROR = range(3)


def placement_of(schedule: NDArray[np.int64]) -> NDArray[np.int64]:
    """Code of each schedule's placement."""
    return np.where(schedule == DUALPIPE, MIRROR, np.where(np.isin(schedule, FOLDED), FOLD, ROUND))


def chunks_of(stage: int, pp: int, vpp: int, placement: int) -> tuple[int, ...]:
    """Return the chunks a pipeline stage runs, in execution order.

    >>> chunks_of(1, 4, 2, ROUND), chunks_of(1, 4, 2, FOLD), chunks_of(1, 4, 1, MIRROR)
    ((1, 5), (1, 6), (1, 2))
    """
    if placement == MIRROR:
        return tuple(sorted((stage, pp - 1 - stage)))
    if placement == FOLD:
        return tuple(turn * pp + (pp - 1 - stage if turn % 2 else stage) for turn in range(vpp))
    return tuple(turn * pp + stage for turn in range(vpp))


@dataclass(frozen=True)
class _Layers:
    """What the stages are cut from."""

    architecture: Architecture
    split: tuple[int, ...] | None
    real_valued: bool
    mtp: int
    recomputed: Recomputed

    @classmethod
    def of(cls, setting: Setting, split: tuple[int, ...] | None, recomputed: Recomputed) -> "_Layers":
        real = setting.profile.real_valued_stages
        return cls(setting.architecture, split, real, setting.mtp_layers, recomputed)

    @property
    def columns(self) -> int:
        """Columns of a stage: what is spared is told only where full recompute spares anything."""
        return 6 if self.recomputed is None else 8


Row = tuple[float, ...]


def _padded(rows: tuple[Row, ...], width: int) -> tuple[Row, ...]:
    """So many kinds: the first again, none of it, for those that are missing."""
    first = rows[0]
    return rows + ((*first[:5], 0.0, *first[6:]),) * (width - len(rows))


@lru_cache(maxsize=4096)
def _kinds(pp: int, vpp: int, placement: int, layers: _Layers) -> tuple[Row, ...]:
    kinds: dict[tuple[float, ...], list[float]] = {}
    for index, *shape in _stages(pp, vpp, placement, layers):
        kinds.setdefault(tuple(shape), [index, 0.0])[1] += 1.0
    return tuple((found[0], *shape[:4], found[1], *shape[5:]) for shape, found in kinds.items())


@lru_cache(maxsize=4096)
def _chunks(chunks: int, layers: _Layers) -> tuple[tuple[Row, ...], tuple[int, ...]]:
    """One chunk of each kind, and the kind of every chunk."""
    shapes = [(*row[1:5], *row[6:]) for row in _stages(chunks, 1, ROUND, layers)]
    kinds = list(dict.fromkeys(shapes))
    of = tuple(kinds.index(shape) for shape in shapes)
    rows = tuple(
        (float(of.index(n)), *kind[:4], float(of.count(n)), *kind[4:]) for n, kind in enumerate(kinds)
    )
    return rows, of


def _stages(pp: int, vpp: int, placement: int, layers: _Layers) -> list[Row]:
    if layers.real_valued:
        return _real_valued(pp, vpp, placement, layers)
    of_chunk = _layers_of_chunks(pp * vpp, layers)
    rows = [_stage(i, chunks_of(i, pp, vpp, placement), of_chunk, layers.recomputed) for i in range(pp)]
    return [row[: layers.columns] for row in rows]


def _real_valued(pp: int, vpp: int, placement: int, layers: _Layers) -> list[Row]:
    """Equal stages of L / p layers; of a part that is recomputed all kinds have the same share."""
    sparse, copies = layers.architecture.sparse_layers(), 2.0 if placement == MIRROR else 1.0
    every = (*sparse, *sparse[-1:] * layers.mtp)
    moe, whole = copies * sum(every) / pp, copies * len(every) / pp
    rows = []
    for i in range(pp):
        again = layers.recomputed
        if isinstance(again, tuple):
            again = sum(again[chunk] for chunk in chunks_of(i, pp, vpp, placement))
        spared = 0.0 if again is None else 1.0 - min(again / max(whole, 1.0), 1.0)
        rows.append((i, whole - moe, moe, 0.0, 0.0, 1.0, spared * (whole - moe), spared * moe))
    return [row[: layers.columns] for row in rows]


def _layers_of_chunks(chunks: int, layers: _Layers) -> list[tuple[bool, ...]]:
    sparse = layers.architecture.sparse_layers()
    held = layers.split or balanced_split(layers.architecture.layers, chunks)
    bounds = np.concatenate([[0], np.cumsum(held)])
    of_chunk = [sparse[low:high] for low, high in pairwise(bounds)]
    of_chunk[-1] = (*of_chunk[-1], *sparse[-1:] * layers.mtp)
    return of_chunk


def _stage(
    index: int, chunks: tuple[int, ...], of_chunk: Sequence[Sequence[bool]], recomputed: Recomputed
) -> Row:
    held = [of_chunk[chunk] for chunk in chunks]
    again = recomputed_of_chunks(recomputed, [len(each) for each in held], chunks)
    spared = [layer for each, count in zip(held, again, strict=True) for layer in each[count:]]
    layers, moe, moe_spared = sum(map(len, held)), float(sum(map(sum, held))), float(sum(spared))
    first, last = float(0 in chunks), float(len(of_chunk) - 1 in chunks)
    return (float(index), layers - moe, moe, first, last, 1.0, len(spared) - moe_spared, moe_spared)
