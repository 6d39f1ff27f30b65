"""What a schedule takes, holds and sends in all: of a timeline, or by formula where that is too long.

Symbols: p ranks, G micro-batches, S stages, f, i, w the time of a forward and of both halves of a backward.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from models.cost.pipeline.closed_forms import Shape, equal_span, in_flight_peak
from models.cost.pipeline.held import held_over_time
from models.cost.pipeline.known import KNOWN, Size
from models.cost.pipeline.simulate import Durations, Timeline
from models.layout import SCHEDULES

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Totals:
    """A schedule's figures; arrays have a value a rank, (p,)."""

    span: float
    """First start to last end."""
    busy: Array
    """Time computed."""
    held: Array
    """Most chunk activations held. [1]"""
    peak_at: Array | None
    """When that many are first held; None where only formulas were asked."""

    @property
    def idle(self) -> Array:
        """Time waited within the span, (p,)."""
        return self.span - self.busy

    @property
    def bubble_of_total(self) -> float:
        """Idle over all ranks' time. [1]."""
        return float(self.idle.sum() / (self.span * len(self.busy)))

    @property
    def bubble_of_compute(self) -> float:
        """Idle over busy time. [1]."""
        return float(self.idle.sum() / self.busy.sum())


def totals_of(timeline: Timeline) -> Totals:
    """Add up a timeline.

    >>> from models.cost.pipeline.looped import one_f_one_b
    >>> from models.cost.pipeline.simulate import simulate
    >>> found = totals_of(simulate(one_f_one_b(4, 8)))
    >>> found.span, found.held.tolist(), found.peak_at.tolist()
    (33.0, [4.0, 3.0, 2.0, 1.0], [3.0, 3.0, 3.0, 3.0])
    """
    held = held_over_time(timeline)
    first = np.array([each.moments[each.amounts.argmax()] for each in held])
    return Totals(timeline.span, timeline.busy, np.array([each.peak for each in held]), first)


def totals_by_formula(name: str, size: Size, durations: Durations) -> Totals | None:
    """Return the same from `closed_forms`, exact; None where no formula is.

    Limits
    ------
    Equal stages, no messages, pairs that hide nothing; zb-h1 with G >= p, zb-v with G >= 2 p - 1.

    Examples
    --------
    >>> found = totals_by_formula("1f1b", Size(4, 1_000_000), Durations.of(4, 1, 1, 1))
    >>> found.span, found.idle.tolist()
    (3000009.0, [9.0, 9.0, 9.0, 9.0])
    """
    least = {"zb-h1": size.pp, "zb-v": 2 * size.pp - 1}.get(name, 1)
    if name not in SCHEDULES or size.micro_batches < least or not _equal(durations):
        return None
    shape = Shape(SCHEDULES.index(name), size.pp, size.micro_batches, size.vpp, size.group)
    f, i, w = durations.forward[0], durations.input_gradient[0], durations.weight_gradient[0]
    span = float(equal_span(shape, f, i, w))
    busy = np.full(size.pp, KNOWN[name].stages(size) / size.pp * size.micro_batches * (f + i + w))
    held = np.broadcast_to(in_flight_peak(shape, np.arange(size.pp)), (size.pp,))
    return Totals(span, busy, held, None)


def _equal(durations: Durations) -> bool:
    each = (durations.forward, durations.input_gradient, durations.weight_gradient)
    return (
        all(len(set(times)) == 1 for times in each) and not any(durations.send) and durations.pair_share == 1
    )


def messages_sent(placements: Sequence[Sequence[int]], ranks: int, micro_batches: int) -> NDArray[np.int64]:
    """Messages each rank sends in a step, (p,): a forward to the next stage, a gradient back, where apart.

    >>> messages_sent([(0, 1, 0, 1)], 2, 8).tolist()
    [24, 24]
    """
    sent = np.zeros(ranks, dtype=np.int64)
    for place in placements:
        for here, there in pairwise(place):
            if here != there:
                sent[[here, there]] += micro_batches // len(placements)
    return sent
