"""Model state: weights, gradients and optimizer state under ZeRO.

Symbols:
    D   ranks the state is sharded over (dp * cp for dense parameters, edp for experts)   [1]
    w   bytes of a weight, g of a kept gradient, m of master weight and moments            [B]

References
----------
.. [1] S. Rajbhandari et al., "ZeRO: Memory optimizations toward training trillion parameter
   models", SC 2020, arXiv:1910.02054, figure 1 and section 3.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.cost.table import GPIPE, KEEP_FOR_STEP, KEEP_TO_BACKWARD, ONCE, PER_MICRO_BATCH, PER_PASS
from models.recipe import Recipe

Array = NDArray[np.float64]


@dataclass(frozen=True)
class StateBytes:
    """Bytes a parameter costs on one rank; each broadcastable to (N,)."""

    weights: Array
    gradients: Array
    optimizer: Array

    @property
    def total(self) -> Array:
        """Sum of the three. [B]."""
        return self.weights + self.gradients + self.optimizer


def resident_bytes(
    zero: ArrayLike,
    schedule: ArrayLike,
    gradient_reduce: ArrayLike,
    weight_gather: ArrayLike,
    shards: ArrayLike,
    bytes_of: Recipe,
) -> StateBytes:
    """Bytes a parameter costs between passes, by ZeRO stage and how its traffic is scheduled.

    ZeRO-0   w + g + m
    ZeRO-1   w + g + m/D
    ZeRO-2   w + (g + m)/D reduced after every micro-batch, or once under GPipe;
             w + g + m/D when it accumulates locally and reduces once
    ZeRO-3   (w + g + m)/D; w + (g + m)/D when gathered weights are kept for the whole step

    Parameters
    ----------
    zero
        Stage 0 to 3.
    schedule, gradient_reduce, weight_gather
        Codes of `models.cost.table`.
    shards
        D. [1]
    bytes_of
        w, g, m. [B]

    Returns
    -------
    StateBytes
        [B] a parameter.

    Examples
    --------
    The 16, 7, 5.5 and 4 bytes of [1] at D = 4:

    >>> adam = _adam()
    >>> resident_bytes([0, 1, 2, 3], 2, 1, 0, 4, adam).total
    array([16. ,  7. ,  5.5,  4. ])
    """
    z, d = np.asarray(zero), np.asarray(shards, dtype=np.float64)
    kept = (np.asarray(gradient_reduce) == ONCE) & (np.asarray(schedule) != GPIPE)
    whole_gradient = (z <= 1) | ((z == 2) & kept)
    whole_weight = (z <= 2) | (np.asarray(weight_gather) == KEEP_FOR_STEP)
    return StateBytes(
        weights=bytes_of.weight / np.where(whole_weight, 1.0, d),
        gradients=bytes_of.gradient / np.where(whole_gradient, 1.0, d),
        optimizer=bytes_of.optimizer / optimizer_divisor(z, d),
    )


def optimizer_divisor(zero: ArrayLike, shards: ArrayLike) -> Array:
    """Ranks an optimizer's state is divided over: 1 under ZeRO-0, else D. [1].

    >>> optimizer_divisor([0, 1, 3], 8)
    array([1., 8., 8.])
    """
    return np.where(np.asarray(zero) == 0, 1.0, np.asarray(shards, dtype=np.float64))


def peak_extra_bytes(
    zero: ArrayLike,
    schedule: ArrayLike,
    gradient_reduce: ArrayLike,
    weight_gather: ArrayLike,
    bytes_of: Recipe,
) -> StateBytes:
    """Bytes a parameter costs at the peak beyond what is resident.

    ZeRO-2 under GPipe with one reduction holds the whole gradient while the backward runs (+ g);
    ZeRO-3 that keeps weights from forward to backward holds them whole (+ w).

    >>> adam = _adam()
    >>> peak_extra_bytes([2, 3], [1, 2], [0, 1], [0, 1], adam).total
    array([2., 2.])
    """
    z = np.asarray(zero)
    gradient = (z == 2) & (np.asarray(gradient_reduce) == ONCE) & (np.asarray(schedule) == GPIPE)
    weight = (z == 3) & (np.asarray(weight_gather) == KEEP_TO_BACKWARD)
    return StateBytes(
        weights=np.where(weight, float(bytes_of.weight), 0.0),
        gradients=np.where(gradient, float(bytes_of.gradient), 0.0),
        optimizer=np.zeros(np.broadcast_shapes(gradient.shape, weight.shape)),
    )


def reductions(zero: ArrayLike, gradient_reduce: ArrayLike, micro_batches: ArrayLike) -> Array:
    """Gradient reductions of a step: one, or G when ZeRO-2 or 3 reduces after every micro-batch. [1]."""
    each = (np.asarray(zero) >= 2) & (np.asarray(gradient_reduce) == PER_MICRO_BATCH)
    return np.where(each, np.asarray(micro_batches, dtype=np.float64), 1.0)


def gathers(zero: ArrayLike, weight_gather: ArrayLike, micro_batches: ArrayLike) -> Array:
    """Weight gathers of a step. [1].

    0 under ZeRO-0 (its all-reduce leaves every rank the gradient to step with), 1 after the sharded
    step of ZeRO-1 and 2; under ZeRO-3 2 G (before each forward and each backward), G (kept to the
    backward) or 1 (kept for the step).
    """
    z, g = np.asarray(zero), np.asarray(micro_batches, dtype=np.float64)
    how = np.asarray(weight_gather)
    whole = np.where(how == PER_PASS, 2 * g, np.where(how == KEEP_TO_BACKWARD, g, 1.0))
    return np.where(z == 0, 0.0, np.where(z == 3, whole, 1.0))


def gradient_traffic_bytes(
    zero: ArrayLike, gradient_reduce: ArrayLike, shards: ArrayLike, micro_batches: ArrayLike, bytes_of: Recipe
) -> Array:
    """Gradient bytes a rank sends a step for each parameter it works on, f = (D-1)/D. [B].

    2 f g' under ZeRO-0 (one all-reduce), f g' for each reduce-scatter otherwise; g' the bytes sent.
    """
    d = np.asarray(shards, dtype=np.float64)
    passes = np.where(np.asarray(zero) == 0, 2.0, reductions(zero, gradient_reduce, micro_batches))
    return (d - 1) / d * passes * bytes_of.gradient_sent


def weight_traffic_bytes(
    zero: ArrayLike, weight_gather: ArrayLike, shards: ArrayLike, micro_batches: ArrayLike, bytes_of: Recipe
) -> Array:
    """Weight bytes a rank sends a step for each parameter it works on: f w a gather. [B]."""
    d = np.asarray(shards, dtype=np.float64)
    return (d - 1) / d * gathers(zero, weight_gather, micro_batches) * bytes_of.weight_sent


def traffic_bytes(
    zero: ArrayLike,
    gradient_reduce: ArrayLike,
    weight_gather: ArrayLike,
    shards: ArrayLike,
    micro_batches: ArrayLike,
    bytes_of: Recipe,
) -> Array:
    """Bytes a rank sends a step for each parameter it works on, gradients and weights. [B].

    With g' = w = 2 these are the 2, 2, 9, 24, 16 and 9 times f S of the ZeRO schedules at G = 8,
    S the bytes of the BF16 weights and f = (D-1)/D.

    Examples
    --------
    >>> adam = _adam()
    >>> traffic_bytes([0, 1, 2, 3, 3, 3], [0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 2], 2, 8, adam)
    array([ 2.,  2.,  9., 24., 16.,  9.])
    """
    gradient = gradient_traffic_bytes(zero, gradient_reduce, shards, micro_batches, bytes_of)
    return gradient + weight_traffic_bytes(zero, weight_gather, shards, micro_batches, bytes_of)


def least_gpus(total_bytes: float, memory_bytes: float) -> int:
    """GPUs whose memory together holds the model state, and nothing else.

    >>> least_gpus(16 * 405e9, 80e9)
    81
    """
    return int(-(-total_bytes // memory_bytes))


def zero_by_meta_rule(sequences_per_replica: int, pp: int) -> int:
    """ZeRO stage Meta chose for Llama 3: 1 (with 1F1B) when bs >= 2 p, else 2 (all-forward-all-backward).

    A reference to report beside an answer; the search never calls it. Llama 3, arXiv:2407.21783.

    >>> zero_by_meta_rule(32, 16), zero_by_meta_rule(16, 16)
    (1, 2)
    """
    return 1 if sequences_per_replica >= 2 * pp else 2


def _adam() -> Recipe:
    """BF16 throughout with Adam, 2 + 2 + 12 bytes: the recipe of the worked examples."""
    sizes = dict.fromkeys(
        ("weight", "gradient", "gradient_sent", "weight_sent", "activation", "product_input"), 2
    )
    return Recipe(**sizes, master=4, moments=8, end_moments=8)
