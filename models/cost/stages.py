"""Layers to pipeline stages: the balanced split, and the kinds of stages it makes.

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
from models.cost.schedule import FOLDED
from models.cost.setting import Setting
from models.cost.table import DUALPIPE, INTERLEAVED, ONE_F_ONE_B, IntVector, LayoutTable

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

    def recomputed(self, layers: int) -> Array:
        """Share of each stage's layers that full recompute covers: `layers`, at most all, (N, S)."""
        return np.minimum(layers / np.maximum(self.dense + self.sparse, 1.0), 1.0)

    def take(self, rows: NDArray[np.int64]) -> "Stages":
        """Return the chosen rows."""
        return Stages(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


EMPTY_CHUNKS = 2
"""Chunks that may hold no layer: the first has the embedding, the last the head. [1]"""


def hold_layers(
    pp: IntVector | int, vpp: IntVector | int, interleaved: NDArray[np.bool_] | bool, layers: int
) -> NDArray[np.bool_]:
    """Whether every stage finds a layer, and every chunk but the first and the last of interleaved ones.

    126 layers on 16 stages of 8 chunks are one layer a chunk, the embedding and the head alone:

    >>> hold_layers(np.array([16, 16, 126, 127]), np.array([8, 9, 1, 1]), np.array(True), 126).tolist()
    [True, False, True, False]
    """
    ends = EMPTY_CHUNKS * (np.greater(vpp, 1) & interleaved)
    return np.asarray((pp <= layers) & (pp * vpp <= layers + ends))


@lru_cache(maxsize=4096)
def balanced_split(layers: int, chunks: int) -> tuple[int, ...]:
    """Return the layers of each chunk: equal within one, the ends lighter.

    With m = ceil(L / C) a chunk, the m C - L layers too many are taken one each from the last
    chunk (it has the head and the loss), the first (the embedding, the most in flight), then the
    second, third, …, since earlier stages hold more micro-batches in flight.

    >>> balanced_split(126, 16) == (7,) + (8,) * 14 + (7,)
    True
    >>> balanced_split(32, 3), balanced_split(46, 4), balanced_split(61, 16)[:3]
    ((11, 11, 10), (11, 12, 12, 11), (3, 3, 4))
    >>> balanced_split(126, 128) == (0,) + (1,) * 126 + (0,)
    True
    """
    most = -(-layers // chunks)
    split = [most] * chunks
    order = [chunks - 1, 0, *range(1, chunks - 1)]
    for chunk in order[: most * chunks - layers]:
        split[chunk] -= 1
    return tuple(split)


def weighed_split(layers: int, chunks: int, last: float) -> tuple[int, ...]:
    """Return the layers of each chunk where the last chunk's head and loss count as `last` layers.

    The split whose heaviest chunk is lightest: m layers a chunk, the last one filled up to m with what
    its own work leaves; too many are taken one each from the first chunk on.

    DeepSeek-V3's 61 layers, its MTP layer and two heads (3.6 layers together) on 16 chunks, as its
    published layout has them:

    >>> weighed_split(61, 16, 3.6)
    (4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 1)
    """
    most = -(-layers // chunks)
    while (chunks - 1) * most + max(round(most - last), 0) < layers:
        most += 1
    split = [most] * (chunks - 1) + [max(round(most - last), 0)]
    for turn in range(sum(split) - layers):
        split[turn % max(chunks - 1, 1)] -= 1
    return tuple(split)


def stage_kinds(table: LayoutTable, setting: Setting) -> Stages:
    """Return one stage of each kind for every layout.

    In real-valued stages (the textbook) a middle stage of L/p layers stands for all.
    """
    kinds = len(PLACEMENTS)
    codes = (table.pp * 100_000 + table.vpp) * kinds + placement_of(table.schedule)
    keys, inverse = np.unique(codes, return_inverse=True)
    layers = _Layers.of(setting, table.stage_layers)
    rows = [_kinds(*divmod(key // kinds, 100_000), key % kinds, layers) for key in keys.tolist()]
    width = max((len(row) for row in rows), default=1)
    padded = [row + ((*row[0][:5], 0.0),) * (width - len(row)) for row in rows]
    grid = np.array(padded, dtype=np.float64).reshape(len(rows), width, 6)[inverse.reshape(-1)]
    return Stages(*np.moveaxis(grid, 2, 0))


def every_stage(
    pp: int, vpp: int, setting: Setting, split: tuple[int, ...] | None, schedule: int = ONE_F_ONE_B
) -> Stages:
    """Return all p stages of one layout, shape (1, p)."""
    placement = int(placement_of(np.array([schedule]))[0])
    rows = _stages(pp, vpp, placement, _Layers.of(setting, split))
    return Stages(*np.array(rows, dtype=np.float64).T[:, None, :])


def every_chunk(pp: int, vpp: int, setting: Setting, split: tuple[int, ...] | None) -> Stages:
    """Return the p v chunks of one layout in execution order as stages of their own, shape (1, C)."""
    rows = _stages(pp * vpp, 1, ROUND, _Layers.of(setting, split))
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
    count = np.where(table.schedule == INTERLEAVED, table.pp * table.vpp, 1)
    sizes, which = np.unique(count, return_inverse=True)
    layers = _Layers.of(setting, table.stage_layers)
    found = [_chunks(size, layers if size > 1 else replace(layers, split=None)) for size in sizes.tolist()]
    width, most = (max(map(len, part)) for part in zip(*found, strict=True))
    kinds = np.array([rows + ((*rows[0][:5], 0.0),) * (width - len(rows)) for rows, _ in found])
    of = np.array([each + (0,) * (most - len(each)) for _, each in found])
    which = which.reshape(-1)
    return Chunks(Stages(*np.moveaxis(kinds[which], 2, 0)), of[which])


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

    @classmethod
    def of(cls, setting: Setting, split: tuple[int, ...] | None) -> "_Layers":
        return cls(setting.architecture, split, setting.profile.real_valued_stages, setting.mtp_layers)


Row = tuple[float, float, float, float, float, float]


@lru_cache(maxsize=4096)
def _kinds(pp: int, vpp: int, placement: int, layers: _Layers) -> tuple[Row, ...]:
    kinds: dict[tuple[float, ...], list[float]] = {}
    for index, *shape, count in _stages(pp, vpp, placement, layers):
        kinds.setdefault(tuple(shape), [index, 0.0])[1] += count
    return tuple((found[0], *shape, found[1]) for shape, found in kinds.items())  # type: ignore[misc]


@lru_cache(maxsize=4096)
def _chunks(chunks: int, layers: _Layers) -> tuple[tuple[Row, ...], tuple[int, ...]]:
    """One chunk of each kind, and the kind of every chunk."""
    shapes = [tuple(shape) for _, *shape, _ in _stages(chunks, 1, ROUND, layers)]
    kinds = list(dict.fromkeys(shapes))
    of = tuple(kinds.index(shape) for shape in shapes)
    rows = tuple((float(of.index(n)), *kind, float(of.count(n))) for n, kind in enumerate(kinds))
    return rows, of  # type: ignore[return-value]


def _stages(pp: int, vpp: int, placement: int, layers: _Layers) -> list[Row]:
    sparse = layers.architecture.sparse_layers()
    predicted = sparse[-1:] * layers.mtp
    if layers.real_valued:
        every, copies = (*sparse, *predicted), 2.0 if placement == MIRROR else 1.0
        moe = copies * sum(every) / pp
        return [(i, copies * len(every) / pp - moe, moe, 0.0, 0.0, 1.0) for i in range(pp)]
    held = layers.split or balanced_split(layers.architecture.layers, pp * vpp)
    bounds = np.concatenate([[0], np.cumsum(held)])
    of_chunk = [sparse[low:high] for low, high in pairwise(bounds)]
    of_chunk[-1] = (*of_chunk[-1], *predicted)
    return [_stage(i, chunks_of(i, pp, vpp, placement), of_chunk) for i in range(pp)]


def _stage(index: int, chunks: tuple[int, ...], of_chunk: Sequence[Sequence[bool]]) -> Row:
    held = [layer for chunk in chunks for layer in of_chunk[chunk]]
    moe = float(sum(held))
    first, last = float(0 in chunks), float(len(of_chunk) - 1 in chunks)
    return (float(index), len(held) - moe, moe, first, last, 1.0)
