"""Activations that wait in the host's memory between forward and backward: what stays, what copying costs.

What an offloaded layer keeps for its backward is copied out while later layers run forward and copied back
while later layers run backward. The GPU holds two offloaded layers at a time, one at work and one on its way.

Symbols: N layouts, S kinds of stages, o share of each stage's layers offloaded, A bytes the layers of a stage
keep of one micro-batch, H micro-batches in flight.

References
----------
.. [1] NVIDIA/TransformerEngine, docs/features/other_optimizations/cpu_offloading/cpu_offloading.rst.
.. [2] NVIDIA/Megatron-LM, docs/user-guide/features/fine_grained_activation_offloading.md.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from models.cost.setting import Setting
from models.cost.step.pipeline_time import Work

Array = NDArray[np.float64]

ON_THEIR_WAY = 2
"""Offloaded layers the GPU holds at a time: with one alone copies and compute could not overlap [1]. [1]"""


def resident_bytes(held: Array, kept: Array, layer: Array, share: float) -> Array:
    """Activations that stay on the GPU: (1 - o) H A, and at most two offloaded layers, (N, S). [B].

    Parameters
    ----------
    held : (N, S)
        H. [1]
    kept : (N, S)
        A. [B]
    layer : (N, S)
        What the stage's larger kind of layer keeps of one micro-batch. [B]
    share
        o, between 0 and 1. [1]

    Limits
    ------
    All of H A with o = 0, and where the stage holds no more than two layers; never more than H A. A scheduler
    that counts the two among the layers it keeps [1] holds up to two layers less.

    Examples
    --------
    80 layers of 3 GB, one micro-batch, half of them offloaded:

    >>> resident_bytes(np.ones((1, 1)), np.full((1, 1), 240.0), np.full((1, 1), 3.0), 0.5).tolist()
    [[126.0]]
    """
    every = held * kept
    return np.asarray((1 - share) * every + np.minimum(share * every, ON_THEIR_WAY * layer))


def copy_seconds(kept: Array, setting: Setting) -> Array:
    """Time to copy a micro-batch's offloaded activations one way: o A over the link to the host, (N, S). [s].

    Every GPU copies at once: the catalogue's rate is what one reaches then.

    Examples
    --------
    PCIe 5.0 x16 carries 55 GB/s of its 63, so 110 GB take 2 s one way, and as long back.
    """
    link = setting.cluster.gpu.host_bandwidth_bytes_per_s
    assert link is not None, "a question without a link is refused"
    return np.asarray(setting.offloaded * kept / link)


def held_up(one: Work, copied: Array) -> Work:
    """A micro-batch's halves no shorter than the copies that run behind them, (N, S). [s].

    Copying out runs behind the forward, copying back behind the backward, and a stage runs one of them at a
    time. Copy engines take no multiprocessors, and of the HBM's bandwidth a fortieth or less: what is hidden
    costs nothing.

    Examples
    --------
    >>> ones = np.ones((1, 1))
    >>> slow = held_up(Work(ones, ones, ones, 0 * ones), 3 * ones)
    >>> slow.forward.item(), slow.input_gradient.item(), slow.pace.item()
    (3.0, 2.0, 6.0)
    """
    return replace(
        one,
        forward=np.maximum(one.forward, copied),
        input_gradient=np.maximum(one.input_gradient, copied - one.weight_gradient),
    )
