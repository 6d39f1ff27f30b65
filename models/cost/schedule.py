"""Pipeline schedules: micro-batches in flight, slots, bubbles.

Symbols: p pipeline stages, i the stage from 0, G micro-batches a step, v interleaved chunks,
N the interleaving's group of micro-batches. A forward takes 1 slot a micro-batch and stage, a
backward 2. Everything broadcasts; degrees may be arrays.

References
----------
.. [1] D. Narayanan et al., "Efficient large-scale language model training on GPU clusters using
   Megatron-LM", SC 2021, arXiv:2104.04473, section 2.2.
.. [2] Y. Huang et al., "GPipe", NeurIPS 2019, arXiv:1811.06965.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.cost.table import GPIPE, INTERLEAVED

Array = NDArray[np.float64]


def in_flight(
    schedule: ArrayLike,
    stage: ArrayLike,
    pp: ArrayLike,
    micro_batches: ArrayLike,
    vpp: ArrayLike,
    group: ArrayLike,
) -> Array:
    """Micro-batches whose activations a stage holds at its peak.

    1F1B          min(G, p - i)
    GPipe         G
    interleaved   min(2 (p - 1 - i) + (v - 1) N + 1, v G) / v, in whole-stage units
    no pipeline   1

    Parameters
    ----------
    schedule
        Code of `models.layout.SCHEDULES`.
    stage, pp, micro_batches, vpp, group
        i, p, G, v, N. [1]

    Returns
    -------
    array
        Micro-batches; a fraction where chunks of a stage are held. [1]

    Examples
    --------
    1F1B, stages 0 and 3 of 4, 8 micro-batches; then v=5 on p=4: 4 x 1.15 of [1]:

    >>> in_flight(2, [0, 3], 4, 8, 1, 4)
    array([4., 1.])
    >>> in_flight(3, [0], 4, 64, 5, 4)
    array([4.6])
    """
    code, i, p = np.asarray(schedule), np.asarray(stage), np.asarray(pp)
    g, v, n = np.asarray(micro_batches), np.asarray(vpp), np.asarray(group)
    one_f_one_b = np.minimum(g, p - i)
    interleaved = np.minimum(2 * (p - 1 - i) + (v - 1) * n + 1, v * g) / v
    held = np.where(code == GPIPE, g, np.where(code == INTERLEAVED, interleaved, one_f_one_b))
    return held.astype(np.float64)


def logits_in_flight(schedule: ArrayLike, micro_batches: ArrayLike) -> Array:
    """Micro-batches whose logits the last stage holds: G under GPipe, else 1.

    One forward, one backward: the loss's backward follows its forward at once.
    """
    return np.where(np.asarray(schedule) == GPIPE, micro_batches, 1).astype(np.float64)


def bubble_of_compute(pp: ArrayLike, micro_batches: ArrayLike, vpp: ArrayLike) -> Array:
    """Idle time over busy time of equal stages: (p - 1) / (v G) [1].

    >>> float(bubble_of_compute(16, 32, 1))
    0.46875
    """
    return np.asarray((np.asarray(pp) - 1) / (np.asarray(vpp) * np.asarray(micro_batches)), dtype=np.float64)


def bubble_of_total(pp: ArrayLike, micro_batches: ArrayLike, vpp: ArrayLike) -> Array:
    """Idle time over the whole step of equal stages: (p - 1) / (v G + p - 1) [1], [2].

    >>> float(bubble_of_total(8, 1, 1))
    0.875
    """
    idle = bubble_of_compute(pp, micro_batches, vpp)
    return idle / (1 + idle)


def total_slots(pp: ArrayLike, micro_batches: ArrayLike, vpp: ArrayLike) -> Array:
    """Slots of a step: 3 v G + 3 (p - 1), a chunk's forward 1 and its backward 2.

    >>> float(total_slots(4, 8, 1))
    33.0
    """
    work = 3 * np.asarray(vpp) * np.asarray(micro_batches)
    return np.asarray(work + idle_slots(pp), dtype=np.float64)


def idle_slots(pp: ArrayLike) -> Array:
    """Slots each stage waits in a step: 3 (p - 1).

    >>> float(idle_slots(4))
    9.0
    """
    return np.asarray(3 * (np.asarray(pp) - 1), dtype=np.float64)


def boundaries_crossed(pp: int, vpp: int) -> int:
    """Stage boundaries one forward pass crosses: p v - 1.

    >>> boundaries_crossed(4, 2)
    7
    """
    return pp * vpp - 1


def layers_of_stage(stage: int, layers: int, pp: int, vpp: int) -> list[list[int]]:
    """Layers (from 1) of each chunk of a stage when p v divides L: chunk j of stage i is i + j p.

    >>> layers_of_stage(0, 16, 4, 2)
    [[1, 2], [9, 10]]
    """
    size = layers // (pp * vpp)
    starts = [(stage + turn * pp) * size + 1 for turn in range(vpp)]
    return [list(range(start, start + size)) for start in starts]
