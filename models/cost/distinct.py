"""Rows that are alike are reckoned once."""

import numpy as np
from numpy.typing import NDArray

from models.cost.table import IntVector

_MIX = np.uint64(0x9E3779B97F4A7C15)
_FEW = 256
"""Rows below which looking for equal ones costs more than it saves."""


def distinct(*columns: NDArray[np.float64] | IntVector) -> tuple[IntVector, IntVector]:
    """Return the first row of each kind of row, and the kind of every row.

    Rows are sorted by a hash of their columns; that equal hashes mean equal rows is verified, and where
    they do not every row is a kind of its own.

    Parameters
    ----------
    columns
        Arrays of shape (N,).

    Examples
    --------
    >>> first, kind = distinct(np.tile([3, 5, 3], 100), np.tile([1.0, 2.0, 1.0], 100))
    >>> sorted(first.tolist()), len(kind)
    ([0, 1], 300)
    """
    rows = len(columns[0])
    every = np.arange(rows)
    if rows < _FEW:
        return every, every
    code = np.zeros(rows, dtype=np.uint64)
    for column in columns:
        bits = np.ascontiguousarray(column).view(np.uint64)
        code = (code ^ (code >> np.uint64(29)) ^ bits) * _MIX
    _, first, kind = np.unique(code, return_index=True, return_inverse=True)
    alike = all(np.array_equal(column, column[first][kind]) for column in columns)
    return (first, kind) if alike else (every, every)
