"""What a schedule takes and holds, for N layouts at once, where a formula knows it.

Every formula is tested against `simulate` over a grid. With equal stages spans and peaks are exact;
with unequal ones `unequal` and `interleaved_waves` know more, and `batched` times any schedule exactly.

Symbols: p ranks, r the rank from 0, G micro-batches, v chunks a rank, N the interleaving's group;
f, i, w the time of a forward, an input and a weight gradient of one stage (of a chunk where a rank
has several), q that of an overlapped pair. Everything broadcasts.

References
----------
.. [1] D. Narayanan et al., SC 2021, arXiv:2104.04473, section 2.2.
.. [2] P. Qi et al., "Zero bubble pipeline parallelism", ICLR 2024, arXiv:2401.10241.
.. [3] DeepSeek-AI, "DeepSeek-V3 technical report", 2024, arXiv:2412.19437.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.cost.table import DUALPIPE, DUALPIPE_V, GPIPE, INTERLEAVED, NONE, ZB_H1, ZB_V

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """Schedules of N layouts; fields broadcast to (N,)."""

    schedule: ArrayLike
    """Code of `models.layout.SCHEDULES`."""
    pp: ArrayLike
    """p."""
    micro_batches: ArrayLike
    """G."""
    vpp: ArrayLike = 1
    """v; 2 under the V schedules whatever is given."""
    group: ArrayLike = 1
    """N; read under `interleaved` only."""

    def columns(self) -> tuple[Index, Array, Array, Array, Array]:
        """Return code, p, G, v and N as arrays of one shape."""
        code, p, g, v, n = np.broadcast_arrays(
            self.schedule, self.pp, self.micro_batches, self.vpp, self.group
        )
        floats = [np.asarray(column, dtype=np.float64) for column in (p, g, v, n)]
        return np.asarray(code, dtype=np.int64), floats[0], floats[1], floats[2], floats[3]


def equal_span(
    shape: Shape,
    forward: ArrayLike,
    input_gradient: ArrayLike,
    weight_gradient: ArrayLike,
    pair: ArrayLike | None = None,
) -> Array:
    """Time of a step whose stages all take the same.

    none, gpipe, 1f1b   (G + p - 1) (f + i + w)
    interleaved         (v G + p - 1) (f + i + w)
    zb-h1               G (f + i + w) + (p - 1) max(f, i, f + i - w)
    zb-v                2 G (f + i + w) + the most of eight paths, (p - 1) f when f = i = w
    dualpipe-v          (2 G - p - 2) q + 2 p f + (p + 2) i + 3 w + max(p f, (p - 1) i) + (p - 1) max(i, w)
    dualpipe            the same with p/2 for p and G for 2 G

    Parameters
    ----------
    shape
        Schedules.
    forward, input_gradient, weight_gradient
        f, i, w. [s]
    pair
        q; f + i + w unless given. [s]

    Limits
    ------
    No messages. G >= p (interleaved: N >= p, the last group whole or at least p; zb-v: 2 p - 1;
    the pipes: 2 p, and p >= 2); below that only none, gpipe and 1f1b are exact. A pair takes
    at least its longer part.

    Examples
    --------
    >>> equal_span(Shape([GPIPE, ZB_H1, ZB_V, DUALPIPE_V], 4, 8), 1, 1, 1).tolist()
    [33.0, 27.0, 51.0, 54.0]
    """
    code, p, g, v, _ = shape.columns()
    f, i, w = (np.asarray(value, dtype=np.float64) for value in (forward, input_gradient, weight_gradient))
    whole = f + i + w
    q = whole if pair is None else np.asarray(pair, dtype=np.float64)
    idle = np.maximum(np.maximum(f, i), f + i - w)
    return np.select(
        [code == INTERLEAVED, code == ZB_H1, code == ZB_V, code == DUALPIPE_V, code == DUALPIPE],
        [
            (v * g + p - 1) * whole,
            g * whole + (p - 1) * idle,
            2 * g * whole + _zb_v_idle(p, f, i, w),
            _pipe_span(p, 2 * g, f, i, w, q),
            _pipe_span(p / 2, g, f, i, w, q),
        ],
        (g + p - 1) * whole,
    )


def estimated_span(
    shape: Shape,
    forward: ArrayLike,
    input_gradient: ArrayLike,
    weight_gradient: ArrayLike,
    longest: ArrayLike,
    pair: ArrayLike | None = None,
) -> Array:
    """Time of a step with unequal stages: their mean in every stage, and G times what one rank works more.

    Parameters
    ----------
    shape
        Schedules.
    forward, input_gradient, weight_gradient
        Mean over the stages. [s]
    longest
        A micro-batch on the rank that takes longest, all its stages both ways; under dualpipe half
        of its two stages. [s]
    pair
        Mean of an overlapped pair. [s]

    Limits
    ------
    An estimate: where stages differ by up to a fifth or the ends by half, G >= 2 p, it was off by
    0 to +11 % (1f1b), -7 to +7 % (interleaved), 0 to +4 % (zb-h1), -9 to +6 % (zb-v), -2 to +13 %
    (the pipes), by 0.3 to 2.6 % on average.

    Examples
    --------
    >>> from models.cost.table import ONE_F_ONE_B
    >>> float(estimated_span(Shape(ONE_F_ONE_B, 4, 8), 1, 1, 1, 4))
    41.0
    """
    code, _, g, v, _ = shape.columns()
    stages = np.where(code == DUALPIPE, 1.0, stages_a_rank(code, v))
    whole = np.asarray(forward) + np.asarray(input_gradient) + np.asarray(weight_gradient)
    more = g * (np.asarray(longest) - stages * whole)
    return np.asarray(equal_span(shape, forward, input_gradient, weight_gradient, pair) + more)


def _zb_v_idle(p: Array, f: Array, i: Array, w: Array) -> Array:
    """Longest of the paths of ZB-V beside a rank's own work; one pipeline rank waits for nothing."""
    paths = [
        (2 * p - 3) * f - (p - 2) * i,
        (p - 1) * i,
        i + (p - 2) * w,
        f + (p - 2) * w,
        2 * (p - 1) * (i - w),
        2 * (p - 1) * f - (p - 1) * i - w,
        (2 * p - 3) * f + i - 2 * (p - 1) * w,
        2 * (p - 1) * f - (2 * p - 1) * w,
    ]
    return np.where(p > 1, np.maximum.reduce(paths), 0.0)


def _pipe_span(p: Array, passes: Array, f: Array, i: Array, w: Array, q: Array) -> Array:
    pairs = (passes - p - 2) * q
    alone = 2 * p * f + (p + 2) * i + 3 * w
    return np.asarray(pairs + alone + np.maximum(p * f, (p - 1) * i) + (p - 1) * np.maximum(i, w))


def in_flight_peak(shape: Shape, rank: ArrayLike, freed_at_input: ArrayLike = 0.0) -> Array:
    """Most activations a rank holds, in those of one stage (a chunk where it has several).

    gpipe         G
    1f1b          min(G, p - r)
    interleaved   min(2 (p - 1 - r) + (v - 1) N + 1, v G)
    zb-h1         min(G, p - r) + (1 - u) min(r, max(G - p + r, 0))
    zb-v          min(2 p, G + r + 1, 2 G)
    dualpipe-v    2 p + 1
    dualpipe      p + 1

    Parameters
    ----------
    shape
        Schedules.
    rank
        r. [1]
    freed_at_input
        u, the part freed by the input half of a backward; the rest waits for the weight half. [1]

    Limits
    ------
    Stages of a rank weigh the same: where they do not, `held.peaks` weighs them. zb-v and the pipes
    run the halves back to back at their peaks, so u does not matter there.

    Examples
    --------
    >>> in_flight_peak(Shape(ZB_H1, 8, 16), [0, 7], 1 - 32 / 114).round(3).tolist()
    [8.0, 2.965]
    """
    code, p, g, v, n = shape.columns()
    r = np.asarray(rank, dtype=np.float64)
    one = np.minimum(g, p - r)
    late = (1 - np.asarray(freed_at_input)) * np.minimum(r, np.maximum(g - p + r, 0))
    held = {
        NONE: np.ones_like(g),
        GPIPE: g,
        INTERLEAVED: np.minimum(2 * (p - 1 - r) + (v - 1) * n + 1, v * g),
        ZB_H1: one + late,
        ZB_V: np.minimum(np.minimum(2 * p, g + r + 1), 2 * g),
        DUALPIPE_V: 2 * p + 1,
        DUALPIPE: p + 1,
    }
    return np.select([code == each for each in held], list(held.values()), one)


def stages_a_rank(schedule: ArrayLike, vpp: ArrayLike) -> Array:
    """Stages whose weights a rank holds: 1, v interleaved, and 2 under zb-v, dualpipe-v and dualpipe.

    >>> from models.cost.table import ONE_F_ONE_B
    >>> stages_a_rank([ONE_F_ONE_B, INTERLEAVED, ZB_V, DUALPIPE], [1, 4, 2, 1]).tolist()
    [1.0, 4.0, 2.0, 2.0]
    """
    code = np.asarray(schedule)
    own = np.where(code == INTERLEAVED, vpp, 1)
    return np.where(np.isin(code, (ZB_V, DUALPIPE_V, DUALPIPE)), 2, own).astype(np.float64)
