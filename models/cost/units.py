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
    """The same for the layers that full recompute leaves alone, where it leaves any; the ends as they are."""

    def on(self, stages: Stages) -> Array:
        """Sum over what each stage holds, (N, S)."""
        total = self._layers(stages)
        for end, amount in ((stages.first, self.first), (stages.last, self.last)):
            if isinstance(amount, np.ndarray):
                total = total + end * amount[:, None]
        return total

    def sparing(self, spared: "PerLayer") -> "PerLayer":
        """Return this for the layers that are recomputed and `spared` for the others."""
        return replace(self, spared=spared)

    def _layers(self, stages: Stages) -> Array:
        """Sum over the layers of each stage, (N, S)."""
        dense, sparse = self.dense[:, None], self.sparse[:, None]
        if self.spared is None:
            return np.asarray(stages.dense * dense + stages.sparse * sparse)
        again = (stages.dense - stages.spared_dense) * dense + (stages.sparse - stages.spared_sparse) * sparse
        kept_dense, kept_sparse = self.spared.dense[:, None], self.spared.sparse[:, None]
        return np.asarray(again + stages.spared_dense * kept_dense + stages.spared_sparse * kept_sparse)
