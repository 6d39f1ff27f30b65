"""Totals of a schedule too long to run: three short runs that grow alike, and what is left counted on.

Once a pipeline is full every further round of micro-batches takes the same time. Symbols: p ranks,
G micro-batches, S stages, N the interleaving's group.
"""

from dataclasses import dataclass, replace

import numpy as np

from models.cost.pipeline.known import KNOWN, Known, Size
from models.cost.pipeline.simulate import Durations, simulate
from models.cost.pipeline.totals import Totals, totals_of

AIMED = 32_768
"""Passes the longest of the three runs has where stages are few: a quarter of a second. [1]"""
SAME = 1e-9
"""Relative difference below which two growths are the same. [1]"""


@dataclass(frozen=True)
class Counted:
    """Totals, and the numbers of micro-batches of the runs they are counted on from."""

    totals: Totals
    runs: tuple[int, int, int]


def totals_counted_on(name: str, size: Size, durations: Durations, aimed: int = AIMED) -> Counted | None:
    """Return a schedule's totals from three runs equally far apart; None where they grow unalike.

    Parameters
    ----------
    aimed
        Passes the longest of the runs has where stages are few; a quarter of the most, at most. [1]

    Limits
    ------
    Where two stages differ by very little the slower may take over the pace only later, and the span is
    short by what they differ by, for each micro-batch: 0.07 % at most in trials with times a tenth apart.

    Examples
    --------
    >>> found = totals_counted_on("looped-bfs", Size(16, 4096, 8), Durations.of(128, 1, 1, 1))
    >>> found.totals.span, found.totals.idle.tolist()[0], found.runs
    (98349.0, 45.0, (64, 128, 192))
    """
    known = KNOWN[name]
    round_ = size.group if name == "interleaved" else size.pp
    runs = _lengths(known, size, round_, min(aimed, known.most_passes // 4))
    if runs is None:
        return None
    short, middle, long = (_run(known, replace(size, micro_batches=count), durations) for count in runs)
    if not _grows_alike(short, middle, long):
        return None
    more = (size.micro_batches - runs[2]) // (runs[2] - runs[1])
    span = long.span + more * (long.span - middle.span)
    busy = long.busy + more * (long.busy - middle.busy)
    held = long.held + more * (long.held - middle.held)
    return Counted(Totals(span, busy, held, None), runs)


def _lengths(known: Known, size: Size, unit: int, aimed: int) -> tuple[int, int, int] | None:
    """Three numbers of micro-batches that fill the pipeline, whole rounds apart and from G."""
    stages = known.stages(size)
    apart = unit * max(1, aimed // (4 * stages * unit))
    least = size.pp + unit
    first = least + (size.micro_batches - least) % apart
    last = first + 2 * apart
    most = known.most_passes * (1 if known.searched else 2)
    return None if last > size.micro_batches or last * stages > most else (first, first + apart, last)


def _run(known: Known, size: Size, durations: Durations) -> Totals:
    return totals_of(simulate(known.make(size, durations), durations))


def _grows_alike(short: Totals, middle: Totals, long: Totals) -> bool:
    first = np.array([middle.span - short.span, *(middle.held - short.held)])
    then = np.array([long.span - middle.span, *(long.held - middle.held)])
    return bool(np.allclose(first, then, rtol=SAME, atol=0.0))
