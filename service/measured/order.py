"""Whether predictions put layouts in their measured order, and what trusting them would have cost.

Layouts of one source, model, machine, sequence and precision are compared by the time a GPU needs for a
token, since their batches may differ. A layout that was run more than once, whatever the batch, stands for
its median.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median

from models.layout import Layout
from service.measured.answer_order import Order, OrderGroup, PairCount
from service.measured.cases import Case
from service.measured.run import MeasuredRun

LEAST_LAYOUTS = 3
"""Layouts a group needs to be told."""
APART = 0.03
"""Measured times nearer than this, of the smaller, are in no order: a rerun moves them as far. [1]"""
FAR_APART = 0.08
"""Times of pairs that are told a second time: further apart than most reruns. [1]"""


@dataclass(frozen=True)
class Point:
    """One layout of a group."""

    id: str
    """The first run of it."""
    predicted: float
    """GPU time of a token. [s]"""
    measured: float
    """The same. [s]"""


def order(cases: Sequence[Case], step_s: Iterable[float]) -> Order:
    """Compare the order of layouts group by group.

    Parameters
    ----------
    cases
        With a measured time each.
    step_s
        Predicted time of a step of each, (N,). [s]
    """
    found: dict[tuple[Hashable, ...], dict[Layout, list[tuple[Case, float]]]] = {}
    for case, seconds in zip(cases, step_s, strict=True):
        layout = case.layout.model_copy(update={"micro_batches": 1})
        found.setdefault(_key(case.run), {}).setdefault(layout, []).append((case, seconds))
    groups = [_group(key, layouts) for key, layouts in found.items() if len(layouts) >= LEAST_LAYOUTS]
    costs = [group.cost for group in groups]
    sources = sorted({group.source for group in groups})
    return Order(
        groups=tuple(groups),
        pairs=_sum(group.pairs for group in groups),
        far_pairs=_sum(group.far_pairs for group in groups),
        by_source={name: _sum(g.pairs for g in groups if g.source == name) for name in sources},
        far_by_source={name: _sum(g.far_pairs for g in groups if g.source == name) for name in sources},
        mean_cost=fmean(costs) if costs else None,
        most_cost=max(costs, default=None),
    )


def _key(run: MeasuredRun) -> tuple[Hashable, ...]:
    """What runs share whose order is compared; a model's name alone is no key, its width and heads count."""
    shape = (run.hidden, run.layers, run.heads)
    return (run.family, run.model_name, *shape, run.gpu, run.gpus, run.seq_len, run.precision)


def _group(key: tuple[Hashable, ...], layouts: dict[Layout, list[tuple[Case, float]]]) -> OrderGroup:
    points = [_point(runs) for runs in layouts.values()]
    run = next(iter(layouts.values()))[0][0].run
    chosen, best = min(points, key=lambda p: p.predicted), min(points, key=lambda p: p.measured)
    return OrderGroup(
        source=run.family,
        model=run.model_name,
        heads=run.heads,
        gpu=run.gpu,
        gpus=run.gpus,
        sequence_length=run.seq_len,
        precision=run.precision,
        layouts=len(points),
        pairs=count_pairs(points, APART),
        far_pairs=count_pairs(points, FAR_APART),
        predicted_best=chosen.id,
        measured_best=best.id,
        cost=chosen.measured / best.measured - 1,
    )


def _point(runs: list[tuple[Case, float]]) -> Point:
    rates = [case.setting.gpus / case.setting.workload.tokens_per_step for case, _ in runs]
    measured = [rate * (case.measured_step_s or 0.0) for rate, (case, _) in zip(rates, runs, strict=True)]
    predicted = [rate * seconds for rate, (_, seconds) in zip(rates, runs, strict=True)]
    return Point(runs[0][0].id, median(predicted), median(measured))


def count_pairs(points: Sequence[Point], apart: float) -> PairCount:
    """Pairs whose measured times are further apart than `apart`, and how many are predicted in their order.

    Equal predictions are in no order, so they are wrong.

    >>> points = [Point("a", 2.0, 1.0), Point("b", 3.0, 1.1), Point("c", 2.5, 1.105)]
    >>> count_pairs(points, 0.03)
    PairCount(pairs=2, right=2, share=1.0)
    """
    pairs = right = 0
    for one, other in combinations(points, 2):
        fast, slow = sorted((one, other), key=lambda point: point.measured)
        if slow.measured > fast.measured * (1 + apart):
            pairs += 1
            right += slow.predicted > fast.predicted
    return PairCount.of(pairs, right)


def _sum(counts: Iterable[PairCount]) -> PairCount:
    found = list(counts)
    return PairCount.of(sum(c.pairs for c in found), sum(c.right for c in found))


def kendall(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Rank correlation tau-b of two sequences: 1 in the same order, -1 in the opposite; null without pairs.

    (pairs in the same order - pairs in the opposite) / sqrt((pairs not tied in one) (not tied in the other))

    M. Kendall, Biometrika 33 (1945), p. 239. A sequence that is constant orders nothing and has 0.

    >>> kendall([1, 2, 3, 4], [1, 2, 4, 3]), kendall([1, 1, 1], [1, 2, 3]), kendall([1], [1])
    (0.6666666666666666, 0.0, None)
    """
    signs = [
        (_sign(first[i] - first[j]), _sign(second[i] - second[j]))
        for i, j in combinations(range(len(first)), 2)
    ]
    if not signs:
        return None
    untied = sum(bool(a) for a, _ in signs) * sum(bool(b) for _, b in signs)
    return sum(a * b for a, b in signs) / untied**0.5 if untied else 0.0


def _sign(difference: float) -> int:
    return (difference > 0) - (difference < 0)
