"""One layout's pipeline run action by action: the time its schedule takes, whatever its chunks take.

Symbols: C = p v chunks (p stages under dualpipe), G micro-batches.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.cost.pipeline.actions import Schedule
from models.cost.pipeline.folded import dualpipe, dualpipe_v, zb_v
from models.cost.pipeline.interleaved_waves import GROUPS, Turns, interleaved_spans
from models.cost.pipeline.looped import gpipe, interleaved, one_f_one_b, zb_h1
from models.cost.pipeline.simulate import Durations, simulate
from models.cost.table import DUALPIPE, DUALPIPE_V, GPIPE, INTERLEAVED, ONE_F_ONE_B, ZB_H1, ZB_V

Array = NDArray[np.float64]

Key = tuple[int, int, int, int, int]
"""Code of the schedule, p, G, v, and the interleaving's group N."""

SLOTS = 16_000
"""Slots simulated at most, some 50 ms; a longer run's middle repeats, and is counted on. [1]"""

BEATS = 4096
"""Beats run at most where a schedule moves through the ranks as a wave, some 40 ms. [1]"""

MAKE: dict[int, Callable[[int, int, int, int], Schedule]] = {
    GPIPE: lambda p, g, v, n: gpipe(p, g),
    ONE_F_ONE_B: lambda p, g, v, n: one_f_one_b(p, g),
    INTERLEAVED: interleaved,
    ZB_H1: lambda p, g, v, n: zb_h1(p, g),
    ZB_V: lambda p, g, v, n: zb_v(p, g),
    DUALPIPE_V: lambda p, g, v, n: dualpipe_v(p, g),
    DUALPIPE: lambda p, g, v, n: dualpipe(p, g),
}
"""How each schedule is made."""


@dataclass(frozen=True)
class Run:
    """A step's pipeline as it ran."""

    span: float
    """First start to last end. [s]"""
    busy: Array
    """Time each stage computes, (p,). [s]"""


def simulated(
    key: Key,
    forward: Array,
    input_gradient: Array,
    weight_gradient: Array,
    message: ArrayLike,
    pair_share: float,
) -> Run | None:
    """Run a schedule; nothing where it cannot run.

    Interleaving runs as a wave. Of the others up to `SLOTS` slots are simulated one by one. Of a longer run
    two shorter ones are, whose G differs by whole rounds: what a round adds once the pipeline is full, the
    rounds left out add too.

    Parameters
    ----------
    key
        The schedule.
    forward, input_gradient, weight_gradient
        Of a micro-batch on each chunk in execution order, (C,). [s]
    message
        Over each boundary between chunks, (C - 1,), or one for all. [s]
    pair_share
        An overlapped pair's time over its parts' sum. [1]

    Examples
    --------
    Four stages, 8 micro-batches; and 80,000 of them, for which 2,000 are enough:

    >>> one = np.ones(4)
    >>> simulated((ONE_F_ONE_B, 4, 8, 1, 4), one, one, one, 0.0, 1.0).span
    33.0
    >>> round(simulated((ONE_F_ONE_B, 4, 80_000, 1, 4), one, one, one, 0.0, 1.0).span, 6)
    240009.0
    """
    times = Durations.of(len(forward), forward, input_gradient, weight_gradient, message, pair_share)
    return _run(key, times)


@lru_cache(maxsize=128)
def _run(key: Key, times: Durations) -> Run | None:
    """Layouts that only differ in what a pipeline does not see run alike."""
    code, p, runs, v, group = key
    turns = Turns(*(np.array([each]) for each in (p, v, runs, group)))
    within = times.send[:p]
    if code == INTERLEAVED and turns.allowed[0] and times.send == (within * v)[: p * v - 1]:
        return _interleaved(turns, times)
    try:
        return _slot_by_slot(key, times)
    except ValueError:
        return None


def _interleaved(turns: Turns, times: Durations) -> Run:
    p, v, runs, group = (int(each[0]) for each in vars(turns).values())
    f, i, w = (np.array([part]) for part in (times.forward, times.input_gradient, times.weight_gradient))
    hops = np.resize(np.array(times.send, dtype=np.float64), (1, p))
    span = interleaved_spans(turns, f, i + w, hops, max(BEATS // (v * group), GROUPS))
    return Run(float(span[0]), runs * (f + i + w).reshape(v, p).sum(axis=0))


def _slot_by_slot(key: Key, times: Durations) -> Run:
    code, p, runs, v, group = key
    chunks = len(times.forward)

    def run(micro_batches: int) -> Run:
        made = _made((code, p, micro_batches, v, group))
        if made.stages != chunks:
            raise ValueError(f"{made.name}: {chunks} chunks for {made.stages} stages")
        timeline = simulate(made, times)
        return Run(timeline.span, timeline.busy)

    if runs <= _most(code, p, chunks):
        return run(runs)
    step = group if code == INTERLEAVED else 2 * p
    whole = runs // step
    long = runs - step * (whole - -(-_most(code, p, chunks) * 2 // (3 * step)))
    short = long - step * max(1, (long - 3 * p) // (2 * step))
    if short < 3 * p:
        return run(runs)
    low, high = run(short), run(long)
    times_more = (runs - long) / (long - short)
    span = high.span + times_more * (high.span - low.span)
    return Run(span, high.busy + times_more * (high.busy - low.busy))


def _most(code: int, ranks: int, chunks: int) -> int:
    """Micro-batches up to which every slot is simulated; enough to fill the pipeline several times. [1]."""
    each = (2 if code in (GPIPE, ONE_F_ONE_B, INTERLEAVED) else 3) * chunks
    return max(SLOTS // each, 8 * ranks)


@lru_cache(maxsize=32)
def _made(key: Key) -> Schedule:
    code, *shape = key
    return MAKE[code](*shape)
