"""Rank orders that differ: by which axes are larger than one, and which degrees agree.

The dense grid has the axes tp, cp, dp, pp; the expert grid has etp in tp's place, ep, edp in
dp's place, and pp. An axis of degree 1 moves no rank, so two orders make the same groups exactly
when their axes larger than one come in the same sequence in both grids. What matters of a tuple
of degrees is therefore a handful of facts, its *pattern*.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from models.cost.table import IntVector
from search.domains import Order

FACTS = ("tp", "cp", "dp", "pp", "etp", "ep", "edp", "dp=edp", "tp=etp")
"""Bits of a pattern, least first: a degree is larger than one, or two degrees are equal."""
DENSE_GRID = {"tp": "tp", "cp": "cp", "dp": "dp", "pp": "pp"}
EXPERT_GRID = {"tp": "etp", "ep": "ep", "dp": "edp", "pp": "pp"}


@dataclass(frozen=True)
class OrderChoices:
    """Orders of one pattern, as indices into the candidates."""

    distinct: int
    """Orders that make different groups."""
    legal: tuple[int, ...]
    """Those among them whose pipeline groups agree."""


@dataclass(frozen=True)
class OrderLists:
    """Legal orders of every pattern, one list after the other in `flat`."""

    start: IntVector
    count: IntVector
    flat: IntVector


def order_lists(choices: dict[int, OrderChoices]) -> OrderLists:
    """Return the legal orders of the patterns that occur, ready to be looked up by arrays."""
    legal = [choices[code].legal if code in choices else () for code in range(1 << len(FACTS))]
    count = np.array([len(found) for found in legal], dtype=np.int64)
    flat = np.array([index for found in legal for index in found], dtype=np.int64)
    return OrderLists(np.cumsum(count) - count, count, flat)


def patterns(
    tp: IntVector, cp: IntVector, pp: IntVector, dp: IntVector, etp: IntVector, ep: IntVector
) -> IntVector:
    """Return the pattern of each tuple of degrees, shape (N,); edp rounds down."""
    edp = tp * cp * dp // (etp * ep)
    bits: tuple[NDArray[np.bool_], ...] = (
        tp > 1, cp > 1, dp > 1, pp > 1, etp > 1, ep > 1, edp > 1, dp == edp, tp == etp,
    )  # fmt: skip
    code = np.zeros(len(tp), dtype=np.int64)
    for place, bit in enumerate(bits):
        code |= bit.astype(np.int64) << place
    return code


@lru_cache(maxsize=4096)
def order_choices(pattern: int, moe: bool, candidates: tuple[Order, ...]) -> OrderChoices:
    """Return the distinct orders of a pattern and the legal ones among them."""
    facts = facts_of(pattern)
    first: dict[tuple[Order, Order], int] = {}
    for index, order in enumerate(candidates):
        first.setdefault(groups_key(order, facts, moe), index)
    legal = (i for i in first.values() if not moe or pipeline_groups_agree(candidates[i], facts))
    return OrderChoices(len(first), tuple(legal))


def facts_of(pattern: int) -> dict[str, bool]:
    """Return a pattern's facts by name."""
    return {name: bool(pattern >> place & 1) for place, name in enumerate(FACTS)}


def groups_key(order: Sequence[str], facts: dict[str, bool], moe: bool) -> tuple[Order, Order]:
    """Return what decides the groups: the axes larger than one in each grid, in order."""
    dense = tuple(axis for axis in order if axis in DENSE_GRID and facts[DENSE_GRID[axis]])
    expert = tuple(axis for axis in order if axis in EXPERT_GRID and facts[EXPERT_GRID[axis]])
    return dense, expert if moe else ()  # type: ignore[return-value]


def pipeline_groups_agree(order: Sequence[str], facts: dict[str, bool]) -> bool:
    """Whether a rank has the same pipeline group in both grids, as Megatron-LM demands.

    With pp outermost it always has. Otherwise Megatron-LM demands dp = edp, and the ranks inside
    a stage that come before pp must be as many in both grids.
    """
    place = list(order).index("pp")
    outside = order[place + 1 :]
    larger = (facts[grid[axis]] for grid in (DENSE_GRID, EXPERT_GRID) for axis in outside if axis in grid)
    if not facts["pp"] or not any(larger):
        return True
    return facts["dp=edp"] and _same_stride(set(order[:place]), facts)


def _same_stride(inside: set[str], facts: dict[str, bool]) -> bool:
    """Whether the axes inside pp multiply to the same in both grids, given dp = edp.

    Then tp cp = etp ep, so tp = etp exactly when cp = ep.
    """
    tp, cp, ep = (axis in inside for axis in ("tp", "cp", "ep"))
    if cp == ep:
        return tp == cp or facts["tp=etp"]
    return not facts["cp" if tp == ep else "ep"]
