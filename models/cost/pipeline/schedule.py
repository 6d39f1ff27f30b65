"""Pipeline schedules as the memory model and the rules read them, and the texts' slots and bubbles.

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

from models.cost.pipeline.closed_forms import Shape, in_flight_peak, stages_a_rank
from models.cost.table import DUALPIPE, DUALPIPE_V, FULL, GPIPE, INTERLEAVED, ZB_H1, ZB_V

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

FOLDED = (ZB_V, DUALPIPE_V)
"""Schedules whose chunks go down the stages and up again: stage i runs chunks i and 2 p - 1 - i."""


def splits_backward(schedule: ArrayLike, recompute: ArrayLike) -> Mask:
    """Whether a layout leaves weight halves for later: what full recompute makes again is used at once.

    >>> splits_backward([ZB_V, DUALPIPE, DUALPIPE, GPIPE], [0, 0, FULL, 0]).tolist()
    [True, True, False, False]
    """
    late = np.isin(schedule, (ZB_H1, ZB_V))
    return np.asarray(late | (np.isin(schedule, (DUALPIPE_V, DUALPIPE)) & (np.asarray(recompute) != FULL)))


def chunks_fit(schedule: ArrayLike, vpp: ArrayLike) -> Mask:
    """Whether a schedule runs v chunks a stage: 2 and more interleaved, 2 folded, 1 under the others.

    >>> chunks_fit([INTERLEAVED, ZB_V, ZB_V, DUALPIPE], [3, 2, 1, 1]).tolist()
    [True, True, False, True]
    """
    code, v = np.asarray(schedule), np.asarray(vpp)
    return np.where(code == INTERLEAVED, v > 1, v == np.where(np.isin(code, FOLDED), 2, 1))


def in_flight(
    schedule: ArrayLike,
    stage: ArrayLike,
    pp: ArrayLike,
    micro_batches: ArrayLike,
    vpp: ArrayLike,
    group: ArrayLike,
) -> Array:
    """Micro-batches whose activations a stage holds at its peak.

    What `in_flight_peak` says of the stages a rank holds, over how many those are: 1F1B min(G, p - i),
    GPipe G, interleaved min(2 (p - 1 - i) + (v - 1) N + 1, v G) / v, zb-h1 and zb-v about p, dualpipe-v
    p + 1/2, dualpipe (p + 1) / 2 of the two stages it holds. The halves of a split backward free nothing
    before the second has run.

    Parameters
    ----------
    schedule
        Code of `models.layout.SCHEDULES`.
    stage, pp, micro_batches, vpp, group
        i, p, G, v, N. [1]

    Returns
    -------
    array
        Micro-batches of all a rank's layers; a fraction where chunks of them are held. [1]

    Examples
    --------
    1F1B, stages 0 and 3 of 4, 8 micro-batches; then v=5 on p=4: 4 x 1.15 of [1]:

    >>> in_flight(2, [0, 3], 4, 8, 1, 4)
    array([4., 1.])
    >>> in_flight(3, [0], 4, 64, 5, 4)
    array([4.6])
    """
    shape = Shape(schedule, pp, micro_batches, vpp, group)
    return np.asarray(in_flight_peak(shape, stage) / stages_a_rank(schedule, vpp))


def logits_in_flight(schedule: ArrayLike, micro_batches: ArrayLike) -> Array:
    """Micro-batches whose logits the last stage holds: G under GPipe, else 1.

    One forward, one backward: the loss's backward follows its forward at once.
    """
    return np.where(np.asarray(schedule) == GPIPE, micro_batches, 1).astype(np.float64)


def logit_gradients_waiting(schedule: ArrayLike, pp: ArrayLike, micro_batches: ArrayLike) -> Array:
    """Micro-batches whose logits' gradient waits for the head's weight half on the last stage.

    ZB-H1 runs it p - 1 input halves later, min(p - 1, G - 1); where ranks hold the first and the last
    stage, both halves of the head's backward follow each other at once.

    >>> logit_gradients_waiting([ZB_H1, ZB_V], 8, 32).tolist()
    [7.0, 0.0]
    """
    late = np.minimum(np.asarray(pp), np.asarray(micro_batches)) - 1
    return np.where(np.asarray(schedule) == ZB_H1, late, 0).astype(np.float64)


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
