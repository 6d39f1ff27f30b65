"""Layers to stages where each stage recomputes as few of them as it must: a dynamic program.

A stage that recomputes takes longer, so it is given fewer layers, and then it need recompute fewer. Both
are found together, for schedules that run one chunk a rank: the least longest chunk, then the least sum of
all, then the split nearest to the even one. Bytes are those of `search.placing`, to a layer's rounding.

Symbols: C chunks, L layers, S sizes a chunk may have, K kinds of layer.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.cost.setting import Setting
from models.layout import Layout
from search.placing import placed, stage_problem
from search.stage_problem import TIME_STEPS, StageProblem

Integers = NDArray[np.int64]

HUGE = np.int64(2**62)
"""No cost."""
WIDER = 2
"""A chunk holds at most so many times the layers of an even one, and two more. [1]"""
TIES = 1 << 12
"""Parts a step of time is cut into, which the distance from the even split fills: fewer than layers. [1]"""


def split_sparing(layout: Layout, setting: Setting) -> tuple[int, ...] | None:
    """Return the layers of each chunk; nothing where ranks run several chunks, or where no split fits."""
    if layout.pp == 1 or len(set(placed(layout))) < layout.pp * layout.vpp:
        return None
    kept, again = (
        stage_problem(layout.model_copy(update={"recompute": kind}), setting) for kind in ("none", "full")
    )
    both = _Both.of(kept, again)
    costs = _costs(both)
    longest = _reached(costs, np.maximum)[-1, -1]
    if longest >= HUGE:
        return None
    even = np.asarray(layout.stage_layers)[:, None, None]
    apart = np.abs(np.arange(costs.shape[2])[None, None, :] - even)
    return _cut(np.where(costs <= longest, costs * TIES + apart, HUGE))


@dataclass(frozen=True)
class _Both:
    """A problem with no layer recomputed and with all of them."""

    kept: StageProblem
    again: StageProblem
    steps: Integers
    """Time of the layers before each cut, none recomputed, (L + 1,). [steps]"""
    more: Integers
    """What recomputing them adds, (L + 1,). [steps]"""
    extra: Integers
    """What a chunk runs beside its layers, (C,). [steps]"""

    @classmethod
    def of(cls, kept: StageProblem, again: StageProblem) -> "_Both":
        """Count both in the same steps."""
        kinds = list(kept.kinds)
        none, full = (np.asarray(one.time)[kinds] for one in (kept, again))
        step = float(full.sum() + sum(kept.extra_time)) / TIME_STEPS
        before = (np.concatenate([[0.0], np.cumsum(each)]) / step for each in (none, full - none))
        extra = np.asarray(kept.extra_time) / step
        return cls(kept, again, *(np.rint(each).astype(np.int64) for each in (*before, extra)))


def _costs(both: _Both) -> Integers:
    """Time of a chunk of s layers that ends before each cut, as few recomputed as fit, (C, L + 1, S)."""
    kept, again = both.kept, both.again
    sizes = np.arange(min(WIDER * -(-kept.layers // kept.chunks) + 2, kept.layers) + 1)
    end = np.arange(kept.layers + 1)[:, None]
    start = end - sizes
    counts = kept.counts[end] - kept.counts[np.maximum(start, 0)]
    limit = np.asarray(kept.limit_bytes)
    costs = np.full((kept.chunks, *start.shape), HUGE)
    for chunk in range(kept.chunks):
        none, full = (counts @ one.layer_bytes[chunk] + one.extra_bytes[chunk] for one in (kept, again))
        freed = kept.counts @ (kept.layer_bytes[chunk] - again.layer_bytes[chunk])
        room = limit[chunk] - full
        spared_from = np.searchsorted(freed, freed[end] - room)
        last = np.where(none <= limit[chunk], start, np.clip(spared_from, start + 1, end))
        first = np.maximum(start, 0)
        steps = both.steps[end] - both.steps[first] + both.more[np.maximum(last, 0)] - both.more[first]
        allowed = (start >= 0) & (sizes >= kept.least_layers[chunk]) & ((room >= 0) | (none <= limit[chunk]))
        costs[chunk] = np.where(allowed, steps + both.extra[chunk], HUGE)
    return costs


def _reached(costs: Integers, joined: np.ufunc) -> Integers:
    """Least cost of the chunks so far to end before each cut, (C, L + 1), joined by maximum or by sum."""
    found = np.full(costs.shape[:2], HUGE)
    found[0] = _first(costs[0])
    for chunk in range(1, len(costs)):
        found[chunk] = _joined(found[chunk - 1], costs[chunk], joined).min(axis=1)
    return found


def _first(cost: Integers) -> Integers:
    """Cost of a first chunk that ends before each cut: it begins at the first layer, (L + 1,)."""
    ends = np.arange(cost.shape[0])
    inside = ends < cost.shape[1]
    return np.where(inside, cost[ends, np.where(inside, ends, 0)], HUGE)


def _joined(before: Integers, cost: Integers, joined: np.ufunc) -> Integers:
    """Cost of ending before each cut with a last chunk of each size, (L + 1, S)."""
    start = np.arange(cost.shape[0])[:, None] - np.arange(cost.shape[1])
    earlier = np.where(start >= 0, before[np.maximum(start, 0)], HUGE)
    open_ = (earlier < HUGE) & (cost < HUGE)
    return np.where(open_, joined(np.where(open_, earlier, 0), np.where(open_, cost, 0)), HUGE)


def _cut(costs: Integers) -> tuple[int, ...]:
    """Read the cheapest split off the sums, the last chunk first."""
    found, cut, split = _reached(costs, np.add), costs.shape[1] - 1, []
    for chunk in range(len(costs) - 1, 0, -1):
        size = int(_joined(found[chunk - 1], costs[chunk], np.add)[cut].argmin())
        split.append(size)
        cut -= size
    return (cut, *reversed(split))
