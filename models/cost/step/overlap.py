"""How long two things take that run at the same time and get in each other's way a little."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def together(one: ArrayLike, other: ArrayLike, norm: float) -> Array:
    """Time of two activities that overlap: (x^q + y^q)^(1/q). [s].

    Between the longer of the two (q without end: perfect overlap) and their sum (q = 1: none). Where one
    is much longer the other vanishes behind it; where they are equal neither hides wholly, because they
    share the GPU's memory, its multiprocessors, or the moment one of them starts.

    Parameters
    ----------
    one, other
        x, y: time of each alone, at least 0. [s]
    norm
        q, at least 1. [1]

    Limits
    ------
    Never less than either nor more than the sum; rises with both.

    Examples
    --------
    >>> together(3.0, 4.0, 2.0), together(3.0, 4.0, 1.0)
    (array(5.), array(7.))
    >>> together(0.0, 0.0, 2.5)
    array(0.)
    """
    x, y = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    most = np.maximum(x, y)
    scale = np.where(most > 0, most, 1.0)
    return np.asarray(most * ((x / scale) ** norm + (y / scale) ** norm) ** (1 / norm))


def exposed(hiding: ArrayLike, hidden: ArrayLike, norm: float) -> Array:
    """What is left to wait for of `hidden` when it runs behind `hiding`: together - hiding. [s].

    >>> exposed(4.0, 3.0, 2.0), exposed(4.0, 3.0, 1.0)
    (array(1.), array(3.))
    """
    return np.asarray(together(hiding, hidden, norm) - np.asarray(hiding, dtype=np.float64))
