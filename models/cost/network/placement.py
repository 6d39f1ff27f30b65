"""From the rank order to strides, from strides to which tiers a group of ranks crosses.

Ranks are numbered innermost axis first. The dense grid has the axes tp, cp, dp, pp of the order
with ep left out; the expert grid has etp (in tp's place), ep, edp (in dp's place) and pp, with cp
left out (NVIDIA/Megatron-LM megatron/core/parallel_state.py, `RankGenerator`).

Symbols: n ranks in a group, sigma its stride in ranks, U GPUs a tier's unit joins,
N layouts, K tiers.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from models.cost.table import IntVector, LayoutTable
from models.hardware import Cluster
from models.layout import Axis

Array = NDArray[np.float64]

DENSE_AXES: tuple[Axis, ...] = ("tp", "cp", "dp", "pp")
EXPERT_AXES: tuple[Axis, ...] = ("tp", "ep", "dp", "pp")

AT_ONCE = 2**20
"""Ranks whose places are looked at together. [1]"""


@dataclass(frozen=True)
class Group:
    """The ranks of one collective: along one axis, or along two."""

    sizes: tuple[IntVector, ...]
    """n of each axis, (N,). [1]"""
    strides: tuple[IntVector, ...]
    """sigma of each axis, (N,). [ranks]"""

    @property
    def size(self) -> IntVector:
        """Ranks in the group, (N,). [1]."""
        return np.asarray(np.multiply.reduce(np.stack(self.sizes), axis=0))


def dense_strides(table: LayoutTable) -> dict[Axis, IntVector]:
    """Stride of each axis of the dense grid, (N,). [ranks].

    With the order [tp, cp, pp, dp] and degrees 8, 1, 16, 128 a rank is tp + 8 pp + 128 dp.
    """
    degrees = {"tp": table.tp, "cp": table.cp, "dp": table.dp, "pp": table.pp}
    return _strides(table, DENSE_AXES, degrees)  # type: ignore[arg-type]


def expert_strides(table: LayoutTable) -> dict[Axis, IntVector]:
    """Stride of each axis of the expert grid, (N,): "tp" is etp's, "dp" is edp's. [ranks]."""
    degrees = {"tp": table.etp, "ep": table.ep, "dp": table.edp, "pp": table.pp}
    return _strides(table, EXPERT_AXES, degrees)  # type: ignore[arg-type]


def _strides(
    table: LayoutTable, axes: tuple[Axis, ...], degrees: dict[Axis, IntVector]
) -> dict[Axis, IntVector]:
    """Product of the degrees of the axes before each one in the row's order."""
    strides: dict[Axis, IntVector] = {}
    for axis in axes:
        stride = np.ones(len(table), dtype=np.int64)
        for other in axes:
            before = np.array([order.index(other) < order.index(axis) for order in table.orders], dtype=bool)
            stride *= np.where(before[table.order], degrees[other], 1)
        strides[axis] = stride
    return strides


def groups(table: LayoutTable) -> dict[str, Group]:
    """Every group a layout communicates in: tp, cp, pp, dp (with cp), etp, ep, edp.

    With HSDP, dp and edp are cut to the group ZeRO shards over, and `replica` and `expert_replica`
    join the same shard of every group.
    """
    dense, expert = dense_strides(table), expert_strides(table)
    found = {
        "tp": Group((table.tp,), (dense["tp"],)),
        "cp": Group((table.cp,), (dense["cp"],)),
        "pp": Group((table.pp,), (dense["pp"],)),
        "dp": Group((table.cp, table.dp), (dense["cp"], dense["dp"])),
        "etp": Group((table.etp,), (expert["tp"],)),
        "ep": Group((table.ep,), (expert["ep"],)),
        "edp": Group((table.edp,), (expert["dp"],)),
    }
    if table.hsdp_shard is not None:
        for name, replica in (("dp", "replica"), ("edp", "expert_replica")):
            found[name], found[replica] = cut(found[name], table.hsdp_shard)
    return found


def cut(group: Group, ranks: int) -> tuple[Group, Group]:
    """Cut a group into its innermost `ranks` ranks and the ranks with the same place in each cut.

    Where `ranks` is no product of the axes, each cut takes the greatest common divisor axis by axis.

    >>> whole = Group((np.array([2]), np.array([16])), (np.array([1]), np.array([4])))
    >>> inner, outer = cut(whole, 8)
    >>> [size.tolist() for size in (*inner.sizes, *outer.sizes)], outer.strides[1].tolist()
    ([[2], [4], [1], [4]], [16])
    """
    left = np.full_like(group.sizes[0], ranks)
    inner_first = np.argsort(np.stack(group.strides), axis=0, kind="stable")
    sizes = np.stack(group.sizes)
    kept = np.ones_like(sizes)
    for turn in range(len(group.sizes)):
        axis = inner_first[turn][None, :]
        size = np.take_along_axis(sizes, axis, axis=0)
        part = np.gcd(size, left[None, :])
        np.put_along_axis(kept, axis, part, axis=0)
        left = left // part[0]
    rest = tuple(size // part for size, part in zip(group.sizes, kept, strict=True))
    strides = tuple(stride * part for stride, part in zip(group.strides, kept, strict=True))
    return Group(tuple(kept), group.strides), Group(rest, strides)


def distinct(
    group: Group, rows: NDArray[np.bool_]
) -> tuple[list[tuple[tuple[int, ...], tuple[int, ...]]], IntVector]:
    """Sizes and strides that occur among some rows, each once, and which of them each row has.

    >>> distinct(Group((np.array([4, 4, 2]),), (np.array([1, 1, 8]),)), np.array([True, True, False]))
    ([((4,), (1,))], array([0, 0]))
    """
    axes = len(group.sizes)
    columns, place = np.unique(np.stack([*group.sizes, *group.strides])[:, rows], axis=1, return_inverse=True)
    shapes = [(tuple(c[:axes]), tuple(c[axes:])) for c in columns.T.tolist()]
    return shapes, place.reshape(-1)


def group_ranks(size: int, stride: int, rank: int) -> list[int]:
    """Ranks of the group along one axis that holds a rank.

    >>> group_ranks(16, 8, 3)[:2], group_ranks(16, 8, 3)[-1], group_ranks(128, 128, 3)[-1]
    ([3, 11], 123, 16259)
    """
    start = rank - (rank // stride) % size * stride
    return list(range(start, start + size * stride, stride))


def members(group: Group, cluster: Cluster, gpus: int | None = None) -> NDArray[np.int64]:
    """Ranks of a group that share one unit of each tier, (N, K), told for the worst-placed rank.

    The last tier joins all.
    Of a job of `gpus` GPUs only the groups it has count, whether or not it fills its last node or rack;
    without them, those of a job without end.
    """
    columns = [_members(group, tier.gpus, gpus) for tier in cluster.tiers[:-1]]
    return np.stack([*columns, group.size], axis=1)


def _members(group: Group, unit: int | None, gpus: int | None) -> IntVector:
    assert unit is not None
    inside = [_along_axis(n, sigma, unit, gpus) for n, sigma in zip(group.sizes, group.strides, strict=True)]
    if len(inside) == 1:
        return inside[0]
    return _along_two_axes(group, inside, unit, gpus)


def _along_two_axes(group: Group, inside: list[IntVector], unit: int, gpus: int | None) -> IntVector:
    """Least ranks of a group along two axes in one unit, (N,).

    Axes that follow one another are one. Else the outer one adds whole blocks of the inner where those
    divide the unit, nothing where the unit lies within one of them, and what counting finds where neither.
    """
    (n0, n1), (s0, s1) = group.sizes, group.strides
    swapped = (s0 > s1) | ((s0 == s1) & (n0 > 1))
    inner, step = np.where(swapped, n1, n0), np.where(swapped, s1, s0)
    outer, stride = np.where(swapped, n0, n1), np.where(swapped, s0, s1)
    first, second = np.where(swapped, inside[1], inside[0]), np.where(swapped, inside[0], inside[1])
    block = inner * step
    found = np.where(unit % block == 0, first * second, first)
    found = np.where(inner == 1, second, found)
    joined = (inner > 1) & (outer > 1) & (stride == block)
    if joined.any():
        found[joined] = _along_axis((inner * outer)[joined], step[joined], unit, gpus)
    nests = (unit % block == 0) | ((block % unit == 0) & (unit % step == 0))
    odd = (inner > 1) & (outer > 1) & ~joined & ~nests & (step < unit)
    if odd.any():
        shapes, place = np.unique(np.stack([inner, step, outer, stride])[:, odd], axis=1, return_inverse=True)
        counts = [_straddled_blocks(*shape, unit, gpus) for shape in shapes.T.tolist()]
        found[odd] = np.array(counts, dtype=np.int64)[place.reshape(-1)]
    return found


def _along_axis(size: IntVector, stride: IntVector, unit: int, gpus: int | None) -> IntVector:
    """Least ranks of a group in one unit: in closed form where blocks and units nest, counted else."""
    block = size * stride
    inside = np.where(unit % block == 0, size, np.maximum(unit // stride, 1))
    odd = (unit % block != 0) & (stride < unit) & ~((block % unit == 0) & (unit % stride == 0))
    if odd.any():
        pairs, place = np.unique(np.stack([size[odd], stride[odd]]), axis=1, return_inverse=True)
        counts = [straddled_members(int(n), int(sigma), unit, gpus) for n, sigma in pairs.T]
        inside[odd] = np.array(counts, dtype=np.int64)[place.reshape(-1)]
    return inside


@lru_cache(maxsize=65536)
def straddled_members(size: int, stride: int, unit: int, gpus: int | None = None) -> int:
    """Least ranks of a group that fall into one unit with one of them, over every group of the job.

    From place a of a unit a group has floor(((k+1) U - 1 - a) / sigma) - floor((k U - 1 - a) / sigma)
    ranks in the k-th unit it meets; `first_places` gives every a there is.

    >>> straddled_members(4, 1, 6), straddled_members(3, 2, 8), straddled_members(2, 3, 8)
    (2, 1, 1)
    >>> straddled_members(3, 1, 8, gpus=6), straddled_members(3, 1, 8, gpus=9)
    (3, 1)
    """
    starts = first_places(size * stride, stride, unit, gpus)[:, None]
    last = size - 1
    units = np.arange((unit - 1 + last * stride) // unit + 1)[None, :]
    upto = np.clip(((units + 1) * unit - 1 - starts) // stride, -1, last)
    before = np.clip((units * unit - 1 - starts) // stride, -1, last)
    counts = upto - before
    return int(counts[counts > 0].min())


@lru_cache(maxsize=65536)
def _straddled_blocks(inner: int, step: int, outer: int, stride: int, unit: int, gpus: int | None) -> int:
    """Least ranks of a group along two axes that fall into one unit with one of them, over every group.

    What groups start on is looked at once for each place of a unit, over the ranks after which blocks
    and units begin together again.

    >>> _straddled_blocks(3, 1, 4, 6, 8, 24)
    3
    """
    period = math.lcm(inner * step, outer * stride, unit)
    ranks = np.arange(period if gpus is None else min(period, gpus))
    starts = ranks[(ranks // step % inner == 0) & (ranks // stride % outer == 0)]
    offsets = (np.arange(inner)[:, None] * step + np.arange(outer)[None, :] * stride).reshape(-1)
    places = np.unique(starts % unit)
    some = max(AT_ONCE // len(offsets), 1)
    blocks = (places[start : start + some] for start in range(0, len(places), some))
    return min(_least_run((block[:, None] + np.sort(offsets)) // unit) for block in blocks)


def _least_run(rows: NDArray[np.int64]) -> int:
    """Return the fewest times a value stands in any row, where every row is sorted.

    >>> _least_run(np.array([[0, 0, 1, 1], [0, 1, 1, 1]]))
    1
    """
    begins = np.ones(rows.shape, dtype=np.bool_)
    begins[:, 1:] = rows[:, 1:] != rows[:, :-1]
    return int(np.diff(np.flatnonzero(begins), append=rows.size).min())


def first_places(block: int, stride: int, unit: int, gpus: int | None) -> IntVector:
    """Places of a unit on which a group's first rank falls, in a job of so many GPUs or without end.

    Groups start on the first sigma ranks of each block of n sigma; after U / gcd(n sigma, U) blocks the
    places come again, and a job that long has every place a with a mod gcd(n sigma, U) < sigma.

    >>> first_places(4, 1, 6, None).tolist(), first_places(4, 1, 6, 8).tolist()
    ([0, 2, 4], [0, 4])
    """
    common = math.gcd(block, unit)
    if gpus is None or gpus // block >= unit // common:
        places = np.arange(unit)
        return places[places % common < stride]
    blocks = np.arange(max(gpus // block, 1))[:, None] * block
    return np.unique((blocks + np.arange(stride)) % unit)
