"""A long order told shortly: the patterns it repeats, and how often.

Warm-up, alternation and cool-down of a schedule are each one pattern of a few slots.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SHORT = 16
"""Every period up to this is tried. [1]"""


@dataclass(frozen=True)
class Repeat:
    """A pattern and where it stands."""

    first: int
    """Place of its first token."""
    length: int
    """Tokens of the pattern."""
    times: int
    """How often it runs, one after the other."""

    @property
    def last(self) -> int:
        """Place of its last token."""
        return self.first + self.length * self.times - 1


def repeats(tokens: Sequence[str], periods: Iterable[int] = ()) -> list[Repeat]:
    """Cut an order into patterns, first to last: each the one that covers most from where the last ended.

    Parameters
    ----------
    tokens
        What is run, in order.
    periods
        Lengths of patterns that are tried beside the short ones. [1]

    Examples
    --------
    >>> [(each.length, each.times) for each in repeats("FFFBFBFBFBB")]
    [(1, 3), (2, 3), (1, 2)]
    """
    names = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    codes = np.array([names[token] for token in tokens], dtype=np.int64)
    tried = sorted({period for period in (*range(1, SHORT + 1), *periods) if 2 * period <= len(codes)})
    alike = [(period, _alike(codes, period)) for period in tried]
    return list(_cut(len(codes), alike))


def _cut(count: int, alike: Sequence[tuple[int, NDArray[np.int64]]]) -> Iterator[Repeat]:
    at = 0
    while at < count:
        best = Repeat(at, 1, 1)
        for period, same in alike:
            times = 1 + int(same[at]) // period if at < len(same) else 1
            if times > 1 and period * times > best.length * best.times:
                best = Repeat(at, period, times)
        yield best
        at = best.last + 1


def _alike(codes: NDArray[np.int64], period: int) -> NDArray[np.int64]:
    """How many tokens from each place on equal the one a period later."""
    places = np.arange(len(codes) - period)
    differs = np.where(codes[period:] == codes[:-period], len(places), places)
    return np.asarray(np.minimum.accumulate(differs[::-1])[::-1] - places)


def pattern_text(tokens: Sequence[str]) -> str:
    """Write a pattern, its own repeats shortened.

    >>> pattern_text(["F0", "B1"] * 4 + ["F1", "B0"])
    '4 (F0 B1) F1 B0'
    """
    found = repeats(tokens)
    return " ".join(
        " ".join(once) if each.times == 1 else f"{each.times} ({' '.join(once)})"
        for each in found
        for once in [tokens[each.first : each.first + each.length]]
    )
