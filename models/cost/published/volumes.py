"""Traffic between nodes of data-parallel schemes that keep part of it inside: ZeRO++ and hybrid sharding.

Symbols, one meaning in this file:
    M  the weights: all of them, in the type they are sent in                [B]
    W  ranks, F of them in a sharding group inside one node                   [1]

References
----------
.. [1] G. Wang et al., "ZeRO++: Extremely efficient collective communication for giant model
   training", ICLR 2024, arXiv:2306.10209, section 3.
.. [2] Y. Zhao et al., "PyTorch FSDP: Experiences on scaling fully sharded data parallel", VLDB 2023,
   arXiv:2304.11277, section 3.2.2.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.cost.network.collectives import all_gather_sent, all_reduce_sent, reduce_scatter_sent

Array = NDArray[np.float64]

SENT_BITS = 16
"""What ZeRO-3 sends weights and gradients in. [bit]"""


@dataclass(frozen=True)
class ShardedVolume:
    """Traffic between nodes of one micro-batch under ZeRO-3, in units of M. [1]."""

    forward_gather: float
    """Weights gathered before the forward."""
    backward_gather: float
    """Weights gathered again before the backward."""
    gradient_reduce: float
    """Gradients reduced to their shards."""

    @property
    def total(self) -> float:
        """Sum of the three. [1]."""
        return self.forward_gather + self.backward_gather + self.gradient_reduce


def zero_plus_plus_volume(
    weight_bits: int = SENT_BITS, gradient_bits: int = SENT_BITS, secondary_partition: bool = False
) -> ShardedVolume:
    """Traffic between nodes of ZeRO-3 and what each part of ZeRO++ takes off it [1].

    Parameters
    ----------
    weight_bits
        What weights are gathered in: 16, or 8 under qwZ. [bit]
    gradient_bits
        What gradients are reduced in: 16, or 4 under qgZ, whose all-to-all crosses nodes once. [bit]
    secondary_partition
        hpZ: a second copy of the weights sharded inside each node serves the backward.

    Returns
    -------
    ShardedVolume
        In units of M, for many ranks. [1]

    Examples
    --------
    ZeRO-3, and all three parts of ZeRO++ together, a quarter of it:

    >>> zero_plus_plus_volume().total, zero_plus_plus_volume(8, 4, True).total
    (3.0, 0.75)
    """
    weights = weight_bits / SENT_BITS
    return ShardedVolume(
        forward_gather=weights,
        backward_gather=0.0 if secondary_partition else weights,
        gradient_reduce=gradient_bits / SENT_BITS,
    )


def replicated_sent(weight_bytes: ArrayLike, ranks: ArrayLike) -> Array:
    """Bytes a GPU sends between hosts a step when weights are replicated: 2 M (W-1)/W [2]. [B]."""
    return all_reduce_sent(weight_bytes, ranks)


def fully_sharded_sent(weight_bytes: ArrayLike, ranks: ArrayLike) -> Array:
    """Bytes a GPU sends between hosts a step when weights are sharded over all ranks: 3 M (W-1)/W [2]. [B].

    >>> float(fully_sharded_sent(16e9, 64)) / 1e9
    47.25
    """
    return 2.0 * all_gather_sent(weight_bytes, ranks) + reduce_scatter_sent(weight_bytes, ranks)


def hybrid_sharded_sent(weight_bytes: ArrayLike, ranks: ArrayLike, shard: ArrayLike) -> Array:
    """Bytes a GPU sends between hosts a step when weights are sharded inside hosts: 2 M (W-1)/(F W) [2]. [B].

    The paper's count. An all-reduce of M/F over the W/F hosts sends 2 (M/F) (1 - F/W), smaller by
    (W - F)/(W - 1); that is what the product reckons (`models.cost.traffic.data_traffic`).

    >>> float(hybrid_sharded_sent(16e9, 64, 8)) / 1e9
    3.9375
    """
    return np.asarray(all_reduce_sent(weight_bytes, ranks) / np.asarray(shard))
