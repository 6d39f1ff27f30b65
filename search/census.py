"""Every layout of the space counted under the first rule it breaks, and the cells that are left.

A *cell* is a tuple of degrees with a ZeRO stage and a schedule. What lies beneath a rejected
tuple or cell (chunks, micro-batches, recompute, rank orders) is counted by multiplication.
"""

from dataclasses import dataclass, field

import numpy as np

from models.cost.pipeline.schedule import chunks_fit
from models.cost.table import NONE, IntVector
from models.layout import SCHEDULES
from search.clock import Clock
from search.degrees import degree_blocks, joined
from search.orders import FACTS, OrderChoices, OrderLists, order_choices, order_lists
from search.problem import Degrees, Problem
from search.rules import DEGREE_RULES, INNER_RULES, Mask, pipeline_groups_agree, touches

GRID = 1 << 21
"""Pairs of (pp, dp) times inner choices looked at together."""


@dataclass(frozen=True)
class Combos:
    """Inner choices in canonical order (zero, schedule, vpp, micro_batch, recompute), a column a knob."""

    zero: IntVector
    schedule: IntVector
    vpp: IntVector
    micro_batch: IntVector
    recompute: IntVector


@dataclass(frozen=True)
class Cells:
    """Cells that keep every structural rule, in canonical order."""

    degrees: Degrees
    """Degree tuples with a legal rank order; cells point into them."""
    orders: dict[int, OrderChoices]
    """Rank orders of each pattern that occurs."""
    lists: OrderLists
    """The legal ones among them."""
    pattern: IntVector
    """Pattern of each degree tuple."""
    legal: IntVector
    """Legal rank orders of each degree tuple."""
    combos: Combos
    row: IntVector
    """Degree tuple of each cell."""
    zero: IntVector
    schedule: IntVector
    start: IntVector
    """First of the cell's inner choices in `inner`."""
    count: IntVector
    """How many there are."""
    inner: IntVector
    """Indices into `combos`, cell by cell."""

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self.row)


@dataclass
class Census:
    """What counting found."""

    cells: Cells
    complete: bool
    """Whether time sufficed to look at everything."""
    rejected: dict[str, int] = field(default_factory=dict)
    """Layouts under the first rule each breaks."""

    def reject(self, rule: str, layouts: int) -> None:
        """Count layouts under a rule."""
        if layouts:
            self.rejected[rule] = self.rejected.get(rule, 0) + layouts


def take_census(problem: Problem, clock: Clock) -> Census:
    """Count the space down to its cells; what a stopped clock leaves is not counted."""
    rejected: dict[str, int] = {}
    combos = _combos(problem)
    beneath = [_beneath(combos, single=single) for single in (False, True)]
    orders: dict[int, OrderChoices] = {}
    blocks = []
    for block in degree_blocks(problem):
        if clock.expired():
            break
        blocks.append(_sift(problem, block, beneath, orders, rejected))
    degrees = joined(blocks)
    cells = _cells(problem, degrees, orders, combos, rejected, clock)
    census = Census(cells, complete=not clock.expired())
    for name, count in rejected.items():
        census.reject(name, count)
    return census


def _combos(problem: Problem) -> Combos:
    domains = problem.domains
    values = (domains.zero, domains.schedule, domains.vpp, domains.micro_batch, domains.recompute)
    grid = np.meshgrid(*(np.array(found, dtype=np.int64) for found in values), indexing="ij")
    kept = chunks_fit(grid[1], grid[2])
    return Combos(*(column[kept] for column in grid))


def _beneath(combos: Combos, *, single: bool) -> int:
    """Layouts beneath a tuple of degrees and a rank order, with one pipeline stage or more."""
    return int(np.count_nonzero((combos.schedule == NONE) == single))


def _lookup(values: dict[int, int]) -> IntVector:
    table = np.zeros(1 << len(FACTS), dtype=np.int64)
    table[list(values)] = list(values.values())
    return table


def _sift(
    problem: Problem,
    block: Degrees,
    beneath: list[int],
    orders: dict[int, OrderChoices],
    rejected: dict[str, int],
) -> Degrees:
    """Return the tuples that keep the rules on degrees and have a legal order; count the others."""
    pattern = block.pattern
    moe = problem.setting.architecture.moe is not None
    for code in np.unique(pattern).tolist():
        if code not in orders:
            orders[code] = order_choices(code, moe, problem.domains.orders)
    distinct = _lookup({code: found.distinct for code, found in orders.items()})[pattern]
    legal = _lookup({code: len(found.legal) for code, found in orders.items()})[pattern]
    inside = np.where(block.pp == 1, beneath[1], beneath[0])
    alive = np.ones(len(block), dtype=np.bool_)
    for rule in DEGREE_RULES:
        kept = rule(problem, **{name: getattr(block, name) for name in touches(rule)})
        _count(rejected, rule.__name__, (distinct * inside)[alive & ~kept])
        alive &= kept
    _count(rejected, pipeline_groups_agree.__name__, ((distinct - legal) * inside)[alive])
    return block.take(np.flatnonzero(alive & (legal > 0)))


def _count(rejected: dict[str, int], rule: str, layouts: IntVector) -> None:
    rejected[rule] = rejected.get(rule, 0) + int(layouts.sum())


def _cells(
    problem: Problem,
    degrees: Degrees,
    orders: dict[int, OrderChoices],
    combos: Combos,
    rejected: dict[str, int],
    clock: Clock,
) -> Cells:
    """Return the cells of some degree tuples; count what the inner rules reject."""
    pattern, lists = degrees.pattern, order_lists(orders)
    legal = lists.count[pattern]
    code = degrees.pp * (problem.setting.gpus + 1) + degrees.dp
    _, first, pair = np.unique(code, return_index=True, return_inverse=True)
    weight = np.bincount(pair, weights=legal, minlength=len(first)).astype(np.int64)
    found, inner = _inner(problem, degrees.pp[first], degrees.dp[first], weight, combos, rejected, clock)
    kinds = len(SCHEDULES)
    group = (found * 4 + combos.zero[inner]) * kinds + combos.schedule[inner]
    groups, start, count = np.unique(group, return_index=True, return_counts=True)
    low = np.searchsorted(groups, pair * 4 * kinds)
    many = np.searchsorted(groups, (pair + 1) * 4 * kinds) - low
    row = np.repeat(np.arange(len(degrees)), many)
    chosen = spread(low, many)
    return Cells(
        degrees, orders, lists, pattern, legal, combos, row,
        groups[chosen] // kinds % 4, groups[chosen] % kinds, start[chosen], count[chosen], inner,
    )  # fmt: skip


def _inner(
    problem: Problem,
    pp: IntVector,
    dp: IntVector,
    weight: IntVector,
    combos: Combos,
    rejected: dict[str, int],
    clock: Clock,
) -> tuple[IntVector, IntVector]:
    """Return which inner choice is left to which pair of (pp, dp), pair by pair."""
    step = max(1, GRID // max(1, len(combos.zero)))
    pairs, chosen = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for start in range(0, len(pp), step):
        if clock.expired():
            break
        part = slice(start, start + step)
        alive: Mask = (combos.schedule == NONE)[None, :] == (pp[part] == 1)[:, None]
        knobs = {"pp": pp[part, None], "dp": dp[part, None], **vars(combos)}
        for rule in INNER_RULES:
            kept = rule(problem, **{name: knobs[name] for name in touches(rule)})
            broken = np.count_nonzero(alive & ~kept, axis=1)
            _count(rejected, rule.__name__, broken * weight[part])
            alive = alive & kept
        pair, combo = np.nonzero(alive)
        pairs.append(pair + start)
        chosen.append(combo)
    return np.concatenate(pairs), np.concatenate(chosen)


def spread(start: IntVector, count: IntVector) -> IntVector:
    """Return start, start + 1, … of each run, one run after the other.

    >>> spread(np.array([5, 9]), np.array([2, 3])).tolist()
    [5, 6, 9, 10, 11]
    """
    ends = np.cumsum(count)
    return np.repeat(start - ends + count, count) + np.arange(int(ends[-1]) if len(ends) else 0)
