"""Solutions as single whole numbers: one packed linear expression is cheaper to read than nine variables."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from ortools.sat.python import cp_model

from models.cost.table import IntVector
from search.problem import Degrees
from search.variables import Linear, Variables

DEGREE_PARTS = ("pp", "tp", "cp", "x", "etp")
"""What tells a tuple of degrees apart: dp follows, and ep is x / etp."""


LARGEST_VALUE = 1023
"""Values up to it are packed as they are; five parts of ten bits and two small ones fit one whole number."""


@dataclass(frozen=True)
class Packing:
    """Mixed-radix code of chosen decisions: of their values, or of their places among the candidates."""

    values: dict[str, tuple[int, ...]]
    """Candidates of each part, ascending."""

    def expression(self, variables: Variables, parts: Sequence[str]) -> Linear:
        """Return the code of a solution as one sum over literals."""
        sizes = [self._size(part) for part in parts]
        assert math.prod(sizes) < 2**62, "too many candidate values for one code"
        places = [
            variables.place(part, self.values[part]) if self._placed(part) else variables[part]
            for part in parts
        ]
        return cp_model.LinearExpr.weighted_sum(places, _scales(sizes))

    def codes(self, columns: dict[str, IntVector], parts: Sequence[str]) -> IntVector:
        """Return the codes of rows that numpy holds; values outside the candidates give no code, -1."""
        sizes = [self._size(part) for part in parts]
        length = len(columns[parts[0]])
        code, known = np.zeros(length, dtype=np.int64), np.ones(length, dtype=np.bool_)
        for part, scale in zip(parts, _scales(sizes), strict=True):
            column = columns[part]
            values = np.array(self.values[part], dtype=np.int64)
            place = np.minimum(np.searchsorted(values, column), len(values) - 1)
            known &= values[place] == column
            code += scale * (place if self._placed(part) else column)
        return np.where(known, code, -1)

    def _size(self, part: str) -> int:
        return len(self.values[part]) if self._placed(part) else self.values[part][-1] + 1

    def _placed(self, part: str) -> bool:
        """Whether a part is told by place: only where its values are large, since reading literals costs."""
        return self.values[part][-1] > LARGEST_VALUE


def degree_columns(degrees: Degrees) -> dict[str, IntVector]:
    """Return the columns a tuple of degrees is packed from."""
    return {
        "pp": degrees.pp,
        "tp": degrees.tp,
        "cp": degrees.cp,
        "x": degrees.etp * degrees.ep,
        "etp": degrees.etp,
    }


def _scales(sizes: list[int]) -> list[int]:
    return [math.prod(sizes[place + 1 :]) for place in range(len(sizes))]
