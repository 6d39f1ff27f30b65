"""The best layouts priced so far, and what a layout must be worth to come among them.

Worth is compared in 40 bits: the same arithmetic may round its last bits otherwise in another block of
rows, and that must not decide between layouts that tie. Ties go to the lower peak, then to the first in
canonical order (tp, cp, pp, dp, ep, etp, zero, schedule, vpp, micro_batch, recompute, rank order).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.cost.table import IntVector, LayoutTable
from models.request import Distinct, Objective

Vector = NDArray[np.float64]

BITS = 40
"""Bits of a worth that are compared."""
ROOM = 1e-9
"""Relative difference that rounding may make between a floor and a price. [1]"""


@dataclass(frozen=True)
class Wanted:
    """What the shortlist is to hold."""

    objective: Objective
    distinct: Distinct
    top_k: int


@dataclass(frozen=True)
class Kept:
    """Priced layouts, with what ranks them."""

    table: LayoutTable
    objective: Vector
    peak: IntVector
    shape: IntVector
    """Number of the layout's (tp, cp, pp, dp, ep)."""
    cell: IntVector
    place: IntVector
    """Place in the cell: cells, places and rank orders make the canonical order."""

    def take(self, rows: IntVector) -> "Kept":
        """Return the chosen rows."""
        return Kept(self.table.take(rows), *(column[rows] for column in self._columns()))

    def joined(self, other: "Kept") -> "Kept":
        """Return the rows of both."""
        both = zip(self._columns(), other._columns(), strict=True)
        table = LayoutTable.joined([self.table, other.table])
        return Kept(table, *(np.concatenate(pair) for pair in both))

    def ranking(self) -> IntVector:
        """Return the rows best first."""
        return np.lexsort((self.table.order, self.place, self.cell, self.peak, self.objective))

    def _columns(self) -> tuple[NDArray[Any], ...]:
        return self.objective, self.peak, self.shape, self.cell, self.place


class Best:
    """Keeps what may reach the shortlist of the layouts it is shown."""

    def __init__(self, wanted: Wanted, shapes: int) -> None:
        """Start with nothing.

        Parameters
        ----------
        wanted
            What the shortlist is to hold.
        shapes
            Shapes there are, whether or not a layout of theirs fits.
        """
        self.kept: Kept | None = None
        self._wanted = wanted
        self._least = np.full(shapes, np.inf)

    def add(self, priced: Kept) -> None:
        """Take priced layouts in, and let go of what cannot reach the shortlist."""
        kept = priced if self.kept is None else self.kept.joined(priced)
        order = kept.ranking()
        if self._wanted.distinct == "shape":
            _, first = np.unique(kept.shape[order], return_index=True)
            order = order[np.sort(first)]
            np.minimum.at(self._least, priced.shape, priced.objective)
        self.kept = kept.take(order[: self._wanted.top_k])

    def may_enter(self, floor: Vector, shape: IntVector) -> NDArray[np.bool_]:
        """Whether layouts that are worth their floor at best may still reach the shortlist, ties included."""
        bar = np.full(len(floor), np.inf)
        if self.kept is not None and len(self.kept.shape) == self._wanted.top_k:
            bar = np.minimum(bar, self.kept.objective[-1])
        if self._wanted.distinct == "shape":
            bar = np.minimum(bar, self._least[shape])
        return np.asarray(floor <= bar * (1 + ROOM))


def comparable(worth: Vector) -> Vector:
    """Round to 40 bits.

    >>> comparable(np.array([1.0, 1 + 2**-50, 1 + 2**-30])).tolist() == [1.0, 1.0, 1 + 2**-30]
    True
    """
    fraction, exponent = np.frexp(worth)
    return np.asarray(np.ldexp(np.round(fraction * 2.0**BITS), exponent - BITS))
