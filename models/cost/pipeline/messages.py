"""What messages between stages cost a step when they delay their receiver and occupy nobody.

Symbols: p ranks, G micro-batches, v chunks a rank, N the interleaving's group, c the mean time of a
message to the next rank, e one from the last rank to the first, f and b the time of a stage's forward and
whole backward (of a chunk's where a rank has several).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.cost.pipeline.closed_forms import Shape
from models.cost.table import DUALPIPE, DUALPIPE_V, GPIPE, INTERLEAVED, NONE, ONE_F_ONE_B, ZB_H1, ZB_V

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Hops:
    """Messages between the ranks of N pipelines, which are not all equally far apart."""

    seconds: Array
    """Time of a message between two ranks that meet on each tier, (N, K). [s]"""
    shares: Array
    """Share of the p - 1 neighbouring pairs of ranks that meet there, (N, K). [1]"""
    wrap: Array
    """Time of a message from the last rank to the first, (N,). [s]"""

    @classmethod
    def even(cls, send: ArrayLike) -> "Hops":
        """Messages that all take as long, (N,) or one for all. [s]."""
        each = np.asarray(send, dtype=np.float64)
        return cls(each[..., None], np.ones_like(each)[..., None], each)

    @property
    def mean(self) -> Array:
        """Mean time of a message to the next rank, c, (N,). [s]."""
        return np.asarray((self.seconds * self.shares).sum(axis=-1))

    def stretches(self, ranks: ArrayLike) -> tuple[Array, Array]:
        """Stretches of a pipeline that may hold it up: their messages one way, and their time, (N, 2 K).

        For each tier one message over it, and all from the first that goes as far out to the last: with n
        of those, n - 1 of the n + 1 parts they cut the pipeline into lie between.

        >>> hops = Hops(np.array([[1.0, 4.0]]), np.array([[4 / 7, 3 / 7]]), np.zeros(1))
        >>> [part.tolist() for part in hops.stretches([8])]
        [[[7.0, 5.0, 1.0, 1.0]], [[16.0, 14.0, 1.0, 4.0]]]
        """
        pairs = np.maximum(np.asarray(ranks, dtype=np.float64) - 1, 0)[..., None]
        count = np.round(self.shares * pairs, 9)
        far, longest = _from_outside(count), _from_outside(count * self.seconds)
        between = np.maximum((far - 1) / (far + 1), 0.0)
        found = np.maximum(np.round(far + between * (pairs - far), 9), 1.0)
        time = longest + between * (longest[..., :1] - longest)
        single = np.where(count > 0, self.seconds, 0.0)
        several = np.where(far >= 1, time, 0.0)
        return np.concatenate([found, np.ones_like(single)], -1), np.concatenate([several, single], -1)


def _from_outside(values: Array) -> Array:
    """Sum over each tier and those outside it, (N, K)."""
    return np.cumsum(values[..., ::-1], axis=-1)[..., ::-1]


def message_wait(shape: Shape, send: ArrayLike | Hops, forward: ArrayLike, backward: ArrayLike) -> Array:
    """Time a step of equal stages waits for messages, (N,). [s].

    gpipe         2 (p - 1) c
    1f1b          2 (p - 1) c + max over stretches (2 k s + 2 max(l - 1, 0) s / n),   G - 1 = k (n + 1) + l
    zb-h1         the same, at most 4 (p - 1) c: weight gradients fill the rest
    interleaved   2 (p - 1) c + (v - 1) (max(0, r - (N - p) f) + max(0, r - (M - p) b)),   r = (p - 1) c + e
    zb-v          (5 p - 7) c: a trip up and down the V, and the input gradients that drain
    dualpipe-v    G max over stretches 2 s / (n + 1) + (2 p - 4) c: each pair waits for its neighbours' last
    dualpipe      the half of that, and p/2 - 1 more

    A stretch of n messages that take s holds 1F1B up by a round trip every n + 1 micro-batches. Where all
    take as long it is the whole pipeline, (2 (p - 1) (k + 1) + 2 max(l - 1, 0)) c; one slow message
    among fast ones costs its own time every micro-batch. Interleaving, a micro-batch comes back to the
    first rank for its next chunk after p messages; a group of N gives N - p forwards of slack, and the
    last group, of M = G mod N or N, as many backwards.

    Parameters
    ----------
    shape
        Schedules.
    send
        c, or messages that differ. [s]
    forward, backward
        f, b. [s]

    Limits
    ------
    c at most f; f = i = w under zb-h1; c well below f - w under zb-v. The pipes are fitted, not derived:
    a step was 0.3 % shorter to 0.03 % longer than simulated at c = f / 50, 2.4 % to 0.3 % at c = f / 5.
    Where some messages take five or six times the others', at even distances, gpipe and whole groups
    interleaved are exact, waits under 1F1B 4 % short to 11 % long, under the other schedules up to 23 %
    short, and under dualpipe-v up to half too long.

    Examples
    --------
    >>> shape = Shape([GPIPE, ONE_F_ONE_B, ZB_H1, INTERLEAVED], 8, 32, [1, 1, 1, 4], 8)
    >>> message_wait(shape, 1, 1, 2).tolist()
    [14.0, 68.0, 28.0, 62.0]
    """
    code, p, g, v, n = shape.columns()
    f, b = (np.asarray(value, dtype=np.float64) for value in (forward, backward))
    hops = send if isinstance(send, Hops) else Hops.even(send)
    c = hops.mean
    ends = 2 * (p - 1) * c
    along, time = hops.stretches(p)
    trips, left = np.divmod((g - 1)[..., None], along + 1)
    one = ends + (2 * time * (trips + np.maximum(left - 1, 0) / along)).max(axis=-1)
    paced = g * (2 * time / (along + 1)).max(axis=-1)
    last = np.where(g % n == 0, n, g % n)
    around = (p - 1) * c + hops.wrap
    turns = np.maximum(0, around - (n - p) * f) + np.maximum(0, around - (last - p) * b)
    known = {
        NONE: np.zeros_like(g * c),
        GPIPE: ends,
        ONE_F_ONE_B: one,
        ZB_H1: np.minimum(one, 2 * ends),
        INTERLEAVED: ends + (v - 1) * turns,
        ZB_V: np.maximum(5 * p - 7, 0) * c,
        DUALPIPE_V: paced + np.maximum(2 * p - 4, 0) * c,
        DUALPIPE: paced / 2 + np.maximum(1.5 * p - 3, 0) * c,
    }
    return np.select([code == each for each in known], list(known.values()), np.nan)
