"""Costs of one micro-batch by what causes them: a dense layer, a sparse layer, either end.

A stage's cost is its layers times these, so a layer is priced once a layout and never once a stage.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.cost.stages import Stages

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PerLayer:
    """A quantity of one micro-batch on one rank; each (N,)."""

    dense: Array
    """For each dense layer."""
    sparse: Array
    """For each mixture-of-experts layer."""
    first: Array | float = 0.0
    """Added on the stage with the embedding."""
    last: Array | float = 0.0
    """Added on the stage with the head and the loss."""

    def on(self, stages: Stages) -> Array:
        """Sum over what each stage holds, (N, S)."""
        total = stages.dense * self.dense[:, None] + stages.sparse * self.sparse[:, None]
        for end, amount in ((stages.first, self.first), (stages.last, self.last)):
            if isinstance(amount, np.ndarray):
                total = total + end * amount[:, None]
        return total

    def __add__(self, other: "PerLayer") -> "PerLayer":
        """Sum by cause."""
        return PerLayer(
            self.dense + other.dense,
            self.sparse + other.sparse,
            self.first + other.first,
            self.last + other.last,
        )
