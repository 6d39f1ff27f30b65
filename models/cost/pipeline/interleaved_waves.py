"""Interleaved 1F1B run for N layouts at once, whatever their chunks take.

Megatron's order moves through the ranks as a wave. Rank r, at q = p - 1 - r from the last one, runs its
forward j in beat j + p - 1 - q, and its backward t, after that, in beat t + p - 1 + (v - 1) N + q. What a
rank needs was made a beat before by its neighbour; a micro-batch that has been through all ranks comes back
to the first one (or the last) for its next chunk some beats later. So a beat is a few numpy operations on
(ranks, layouts), and layouts that share p run together.

Symbols: p ranks, v chunks a rank, C = p v chunks, G micro-batches, N the interleaving's group, J = v G
passes of a rank each way, n micro-batches of a pass's group (N, fewer in the last one), B beats, R layouts.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]

NEVER = -1e30
"""When what does not run has ended: before anything else. [s]"""
GROUPS = 4
"""Groups of micro-batches run at most. [1]"""
CELLS = 1 << 20
"""Durations laid out at once. [1]"""


@dataclass(frozen=True)
class Turns:
    """Interleaved schedules of R layouts."""

    pp: Index
    """p, (R,)."""
    vpp: Index
    """v, (R,)."""
    micro_batches: Index
    """G, (R,)."""
    group: Index
    """N, (R,)."""

    def take(self, rows: Index) -> "Turns":
        """Return the chosen rows."""
        return Turns(self.pp[rows], self.vpp[rows], self.micro_batches[rows], self.group[rows])

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """Whether p <= N <= G and the last group is whole or no shorter than p, (R,)."""
        left = self.micro_batches % self.group
        fits = (self.pp <= self.group) & (self.group <= self.micro_batches)
        return np.asarray(fits & ((left == 0) | (left >= self.pp)))


def interleaved_spans(
    turns: Turns, forward: Array, backward: Array, hops: Array | None = None, groups: int = GROUPS
) -> Array:
    """Time of a step, first start to last end, (R,). [s].

    Parameters
    ----------
    turns
        Schedules, all of them `allowed`.
    forward, backward
        Of a micro-batch on each chunk in execution order, padded, (R, C). [s]
    hops
        A message from each rank to the next, the last rank's to the first, padded, (R, p); none unless
        given. [s]
    groups
        Groups of micro-batches run at most. A longer step is cut to that many whole groups and what is left;
        each one left out adds what the last one did, and no rank ends before its work is done.

    Limits
    ------
    Exact up to `groups` groups. Beyond that, with four, within 0.2 % where layers are spread evenly (126, 96,
    94, 80, 61 layers, p <= 32, v <= 8), within 2 % where chunks differ by up to a fifth at random.

    Examples
    --------
    Two ranks with two chunks, 4 micro-batches; equal chunks, and one that takes twice as long:

    >>> one = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 2.0]])
    >>> two = np.full(2, 2)
    >>> interleaved_spans(Turns(two, two, 2 * two, two), one, 2 * one).tolist()
    [27.0, 39.0]
    """
    left_out = np.maximum(-(-turns.micro_batches // turns.group) - groups, 0)
    run = replace(turns, micro_batches=turns.micro_batches - left_out * turns.group)
    span = np.zeros(len(left_out))
    for part in _alike(run):
        some = run.take(part)
        ranks = int(some.pp[0])
        sent = np.zeros((len(part), ranks)) if hops is None else hops[part, :ranks]
        whole, more = _Wave.of(some, forward[part], backward[part], sent).run(some)
        span[part] = whole + left_out[part] * more
    long = np.flatnonzero(left_out)
    span[long] = np.maximum(span[long], least_spans(turns.take(long), (forward + backward)[long]))
    return span


def least_spans(turns: Turns, both: Array) -> Array:
    """Time no step falls below, (R,): every rank is reached, works, and is come back from. [s].

    max over ranks r of  G sum_c t_{c,r} + sum_{s<r} t_{0,s}

    Parameters
    ----------
    both
        t, a micro-batch on each chunk both ways, padded, (R, C). [s]

    Examples
    --------
    >>> four = np.full(1, 4)
    >>> least_spans(Turns(four, four // 2, 2 * four, four), np.full((1, 8), 3.0)).tolist()
    [57.0]
    """
    chunk = np.arange(both.shape[1])
    ranks = turns.pp[:, None]
    first = np.where(chunk < ranks, np.cumsum(both, axis=1) - both, 0.0)
    own = np.where(chunk < ranks * turns.vpp[:, None], both, 0.0)
    work = np.zeros_like(both)
    np.add.at(work, (np.arange(len(both))[:, None], chunk % ranks), own)
    ends = np.where(chunk < ranks, turns.micro_batches[:, None] * work + first, 0.0)
    return np.asarray(ends.max(axis=1, initial=0.0))


def _alike(turns: Turns) -> Iterator[Index]:
    """Rows of one p, those of about as many passes together, and no more than are laid out at once."""
    passes = turns.vpp * turns.micro_batches
    order = np.lexsort((passes, turns.pp))
    for same in np.split(order, np.flatnonzero(np.diff(turns.pp[order])) + 1):
        while len(same):
            count = max(1, CELLS // int(passes[same[-1]] * turns.pp[same[-1]]))
            yield same[-count:]
            same = same[:-count]


@dataclass(frozen=True)
class _Pass:
    """The passes of all ranks one way, laid out along the beats."""

    took: Array
    """What each rank runs in each beat, from the last rank on, (B, p, R); `NEVER` where nothing. [s]"""
    back_from: Index
    """Beat whose last output comes back for its next chunk in this beat, (B, R); B for none."""


@dataclass(frozen=True)
class _Wave:
    """Rows of one p: what they take in each beat, and how long their messages travel."""

    forward: _Pass
    backward: _Pass
    hops: Array
    """From the rank at q - 1 … 0 to the one after it, the last entry from the last to the first, (p, R)."""

    @classmethod
    def of(cls, turns: Turns, forward: Array, backward: Array, hops: Array) -> "_Wave":
        """Lay rows of one p out."""
        wait = 2 * (turns.pp - 1) + (turns.vpp - 1) * turns.group
        beats = int((turns.vpp * turns.micro_batches + wait).max())
        return cls(
            _passes(turns, forward, beats, np.zeros_like(wait), down=True),
            _passes(turns, backward, beats, wait - turns.pp + 1, down=False),
            np.ascontiguousarray(hops[:, ::-1].T),
        )

    def run(self, turns: Turns) -> tuple[Array, Array]:
        """Run the beats; return when the last rank has done its last, and what a group more adds, (R,).

        The latter is how long the first rank takes for its last group of backwards beside forwards.
        """
        beats, ranks, rows = self.forward.took.shape
        clock, now = np.zeros((2, ranks, rows))
        forth, back = np.full((2, ranks + 1, rows), NEVER)
        made_forth, made_back = np.full((2, beats + 1, rows), NEVER)
        from_forth, from_back = (
            way.back_from * rows + np.arange(rows) for way in (self.forward, self.backward)
        )
        within, around = self.hops[1:], self.hops[0]
        for beat in range(beats):
            made_forth.take(from_forth[beat], out=forth[ranks])
            made_back.take(from_back[beat], out=back[0])
            np.maximum(clock, forth[1:], out=now)
            now += self.forward.took[beat]
            np.maximum(clock, now, out=clock)
            np.add(now[1:], within, out=forth[1:ranks])
            np.add(now[0], around, out=made_forth[beat])
            np.maximum(clock, back[:-1], out=now)
            now += self.backward.took[beat]
            np.maximum(clock, now, out=clock)
            np.add(now[:-1], within, out=back[1:ranks])
            np.add(now[-1], around, out=made_back[beat])
        last = turns.vpp * turns.micro_batches - 1
        before = np.maximum(last - turns.vpp * turns.group, 0)
        more = made_back[last, np.arange(rows)] - made_back[before, np.arange(rows)]
        return np.asarray(clock.max(axis=0)), more


def _passes(turns: Turns, times: Array, beats: int, begin: Index, *, down: bool) -> _Pass:
    """Lay passes out whose first is in beat `begin` on the rank that starts, a rank a beat later on each.

    Forwards go down the ranks and take chunks from the first, backwards go up and take them from the last.
    """
    ranks, most = int(turns.pp[0]), int(turns.vpp.max())
    rows = np.arange(len(times))
    chunk = times[:, : most * ranks].reshape(len(times), most, ranks)[:, :, ::-1].transpose(1, 2, 0)
    index = np.arange(1 - ranks, beats)[:, None] - begin
    there = (index >= 0) & (index < turns.vpp * turns.micro_batches)
    whole = turns.micro_batches // turns.group * turns.vpp * turns.group
    last = index >= whole
    size = np.where(last, np.maximum(turns.micro_batches % turns.group, 1), turns.group)
    turn = (index - whole * last) // size % turns.vpp
    of = np.where(there, turn if down else turns.vpp - 1 - turn, most)
    chunk = np.concatenate([chunk, np.full((1, *chunk.shape[1:]), NEVER)])
    cell = (of * ranks * len(rows) + rows)[:, None] + (np.arange(ranks) * len(rows))[:, None]
    took = chunk.ravel().take(cell)
    again = (there & (turn > 0))[ranks - 1 :]
    made = np.arange(beats)[:, None] - size[ranks - 1 :] + ranks - 1
    return _Pass(_slanted(took, beats, down=down), np.where(again, made, beats))


def _slanted(took: Array, beats: int, *, down: bool) -> Array:
    """Return what each rank runs in each beat where each lags its neighbour by one: a view, (B, p, R).

    The rank that starts is the one farthest from the last on the way down, the last one on the way up.
    """
    ranks = took.shape[1]
    beat, rank, row = took.strides
    shape: Any = (beats, ranks, took.shape[2])
    from_ = took if down else took[ranks - 1 :]
    return as_strided(from_, shape, (beat, rank + (beat if down else -beat), row), writeable=False)
