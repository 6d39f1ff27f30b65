"""What messages between stages cost a step when they delay their receiver and occupy nobody.

Symbols: p ranks, G micro-batches, v chunks a rank, N the interleaving's group, c the time of a
message, f and b that of a stage's forward and whole backward (of a chunk's where a rank has several).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.cost.pipeline.closed_forms import GPIPE, INTERLEAVED, NONE, ONE_F_ONE_B, ZB_H1, Shape

Array = NDArray[np.float64]


def message_wait(shape: Shape, send: ArrayLike, forward: ArrayLike, backward: ArrayLike) -> Array:
    """Time a step of equal stages waits for messages. [s].

    gpipe         2 (p - 1) c
    1f1b          (2 (p - 1) (k + 1) + 2 max(l - 1, 0)) c,   G - 1 = k p + l
    zb-h1         the same, at most 4 (p - 1) c: weight gradients fill the rest
    interleaved   2 (p - 1) c + (v - 1) (max(0, p c - (N - p) f) + max(0, p c - (M - p) b))

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
    Not a number under zb-v and the pipes: `batched` times them. c at most f; f = i = w under zb-h1.

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
    }
    return np.select([code == each for each in known], list(known.values()), np.nan)
