"""Which known name a name that none has was meant to be."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import takewhile

ALIKE = 0.5
"""Share of two names' characters in common from which one may be meant for the other. [1]"""
BEGINNING = 3
"""Characters of a shared beginning from which it alone may do, where they are half of the name. [1]"""
LONGEST = 100
"""Characters of a name that are read."""


def nearest(name: str, known: Sequence[str]) -> str | None:
    """Return the known name most like another, a shared beginning counted besides; None where none is.

    Names of hardware and models go from the family to the variant, so what they begin with says more than
    characters shared further on: h101 has more in common with h20 than with h100-sxm, and is no h20.

    >>> [nearest(name, ["h20", "h100-pcie", "h100-sxm"]) for name in ("h101", "h-20", "tpu")]
    ['h100-sxm', 'h20', None]
    """
    asked = name[:LONGEST].lower()
    scored = [(_likeness(asked, one.lower()), -place) for place, one in enumerate(known)]
    best, place = max(scored, default=(0.0, 0))
    return known[-place] if best > 0 else None


def _likeness(asked: str, one: str) -> float:
    """Share of characters in common and share of the name that both begin with; 0 where it is too little."""
    alike = SequenceMatcher(None, one, asked).ratio()
    beginning = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(asked, one, strict=False))))
    if alike < ALIKE and (beginning < BEGINNING or 2 * beginning < len(asked)):
        return 0.0
    return alike + beginning / max(len(asked), 1)
