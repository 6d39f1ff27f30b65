"""What messages between stages cost a step when they delay their receiver and occupy nobody.

Symbols: p ranks, G micro-batches, v chunks a rank, N the interleaving's group, c the time of a
message, f and b that of a stage's forward and whole backward (of a chunk's where a rank has several).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.cost.pipeline.closed_forms import Shape
from models.cost.table import DUALPIPE, DUALPIPE_V, GPIPE, INTERLEAVED, NONE, ONE_F_ONE_B, ZB_H1, ZB_V

Array = NDArray[np.float64]


def message_wait(shape: Shape, send: ArrayLike, forward: ArrayLike, backward: ArrayLike) -> Array:
    """Time a step of equal stages waits for messages, (N,). [s].

    gpipe         2 (p - 1) c
    1f1b          (2 (p - 1) (k + 1) + 2 max(l - 1, 0)) c,   G - 1 = k p + l
    zb-h1         the same, at most 4 (p - 1) c: weight gradients fill the rest
    interleaved   2 (p - 1) c + (v - 1) (max(0, p c - (N - p) f) + max(0, p c - (M - p) b))
    zb-v          (5 p - 7) c: a trip up and down the V, and the input gradients that drain
    dualpipe-v    (2 G (p - 1) / p + 2 p - 4) c: each pair waits for its neighbours' last ones
    dualpipe      the half of that, and p/2 - 1 more

    1F1B waits for a round trip every p micro-batches. Interleaving, a micro-batch comes back to the
    first rank for its next chunk after p messages; a group of N gives N - p forwards of slack, and
    the last group, of M = G mod N or N, as many backwards.

    Parameters
    ----------
    shape
        Schedules.
    send
        c. [s]
    forward, backward
        f, b. [s]

    Limits
    ------
    c at most f; f = i = w under zb-h1; c well below f - w under zb-v. The pipes are fitted, not derived:
    a step was 0.3 % shorter to 0.03 % longer than simulated at c = f / 50, 2.4 % to 0.3 % at c = f / 5.

    Examples
    --------
    >>> shape = Shape([GPIPE, ONE_F_ONE_B, ZB_H1, INTERLEAVED], 8, 32, [1, 1, 1, 4], 8)
    >>> message_wait(shape, 1, 1, 2).tolist()
    [14.0, 68.0, 28.0, 62.0]
    """
    code, p, g, v, n = shape.columns()
    c, f, b = (np.asarray(value, dtype=np.float64) for value in (send, forward, backward))
    ends = 2 * (p - 1) * c
    trips, left = np.divmod(g - 1, p)
    one = ends * (trips + 1) + 2 * c * np.maximum(left - 1, 0) * (p > 1)
    last = np.where(g % n == 0, n, g % n)
    turns = np.maximum(0, p * c - (n - p) * f) + np.maximum(0, p * c - (last - p) * b)
    known = {
        NONE: np.zeros_like(g * c),
        GPIPE: ends,
        ONE_F_ONE_B: one,
        ZB_H1: np.minimum(one, 2 * ends),
        INTERLEAVED: ends + (v - 1) * turns,
        ZB_V: np.maximum(5 * p - 7, 0) * c,
        DUALPIPE_V: (2 * g * (p - 1) / p + np.maximum(2 * p - 4, 0)) * c,
        DUALPIPE: (g * (p - 1) / p + np.maximum(1.5 * p - 3, 0)) * c,
    }
    return np.select([code == each for each in known], list(known.values()), np.nan)
