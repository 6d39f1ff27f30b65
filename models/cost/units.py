"""Costs of one micro-batch by what causes them: a dense layer, a sparse layer, either end.

A stage's cost is its layers times these, so a layer is priced once a layout and never once a stage.
"""

from dataclasses import dataclass, replace

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

    spared: "PerLayer | None" = None
    """The same for the layers that full recompute leaves alone, where it covers `layers` of a stage."""
    layers: int | None = None
    """Layers of each stage the figures above are for, where others are spared."""

    def on(self, stages: Stages) -> Array:
        """Sum over what each stage holds, (N, S)."""
        every = self._everywhere(stages)
        if self.spared is None or self.layers is None:
            return every
        share = stages.recomputed(self.layers)
        return share * every + (1 - share) * self.spared._everywhere(stages)

    def sparing(self, spared: "PerLayer", layers: int) -> "PerLayer":
        """Return this for `layers` of each stage and `spared` for its others."""
        return replace(self, spared=spared, layers=layers)

    def _everywhere(self, stages: Stages) -> Array:
        """Sum with every layer alike, (N, S)."""
        total = stages.dense * self.dense[:, None] + stages.sparse * self.sparse[:, None]
        for end, amount in ((stages.first, self.first), (stages.last, self.last)):
            if isinstance(amount, np.ndarray):
                total = total + end * amount[:, None]
        return total
