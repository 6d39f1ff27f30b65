"""Closed forms of two pipeline papers whose schedules the product does not run.

Symbols, one meaning in this file: p pipeline stages, G micro-batches a step, B sequences of the
mini-batch, L layers.

References
----------
.. [1] Y. Huang et al., "GPipe: Efficient training of giant neural networks using pipeline
   parallelism", NeurIPS 2019, arXiv:1811.06965, section 2.3.
.. [2] S. Li and T. Hoefler, "Chimera: Efficiently training large-scale neural networks with
   bidirectional pipelines", SC 2021, arXiv:2107.06925, table 2.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def gpipe_kept_activations(
    mini_batch: ArrayLike, layers: ArrayLike, pp: ArrayLike, micro_batches: ArrayLike
) -> Array:
    """Activations a GPipe stage holds at its peak with recomputation: B + (L/p) (B/G) [1].

    The boundary of every sequence of the mini-batch, and every layer's input of the one micro-batch
    at work. The product's `full` recompute keeps every layer's input for each micro-batch instead.

    Returns
    -------
    array
        In boundary activations of one sequence, s h elements each. [1]

    Examples
    --------
    32 sequences in 16 micro-batches, 12 layers a stage:

    >>> float(gpipe_kept_activations(32, 96, 8, 16))
    56.0
    """
    sequences = np.asarray(mini_batch, dtype=np.float64)
    inside = np.asarray(layers) / np.asarray(pp) * sequences / np.asarray(micro_batches)
    return np.asarray(sequences + inside)


@dataclass(frozen=True)
class Chimera:
    """What Chimera's two opposite pipelines cost."""

    bubble: Array
    """Idle time over the whole step. [1]"""
    weight_copies: int
    """Stages of the weights each GPU holds, one of each direction. [1]"""
    least_in_flight: Array
    """Micro-batches the middle GPUs hold. [1]"""
    most_in_flight: Array
    """Micro-batches the end GPUs hold. [1]"""


def chimera(pp: ArrayLike, micro_batches: ArrayLike) -> Chimera:
    """Bubble, weights and micro-batches in flight of Chimera with two pipelines [2].

    bubble = (p - 2) / (2 G + p - 2), against (p - 1) / (G + p - 1) of 1F1B; p/2 + 1 to p in flight

    Limits
    ------
    Two stages, each running one direction on each GPU, have no bubble.

    Examples
    --------
    >>> found = chimera(4, 8)
    >>> round(float(found.bubble), 4), float(found.least_in_flight), float(found.most_in_flight)
    (0.1111, 3.0, 4.0)
    """
    p = np.asarray(pp, dtype=np.float64)
    return Chimera(
        bubble=np.asarray((p - 2) / (2 * np.asarray(micro_batches) + p - 2)),
        weight_copies=2,
        least_in_flight=p / 2 + 1,
        most_in_flight=p,
    )
