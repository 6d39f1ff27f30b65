"""The largest model a memory holds: the inverse of the model state's bytes."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def largest_parameters(
    memory_bytes: ArrayLike, bytes_per_parameter: ArrayLike, model_parallel: ArrayLike = 1
) -> Array:
    """Parameters whose model state alone fills a GPU: m M / B. [1].

    Parameters
    ----------
    memory_bytes
        M, memory of one GPU. [B]
    bytes_per_parameter
        B, what each costs on its rank; `models.cost.memory.state.resident_bytes`. [B]
    model_parallel
        m, ranks the parameters themselves are divided over (t p). [1]

    References
    ----------
    .. [1] S. Rajbhandari et al., "ZeRO", SC 2020, arXiv:1910.02054, table 2.

    Examples
    --------
    32 GB hold 2 billion parameters at 16 bytes, and 8 billion over 4 ranks:

    >>> largest_parameters(32e9, 16.0, [1, 4]) / 1e9
    array([2., 8.])
    """
    held = np.asarray(memory_bytes, dtype=np.float64) / np.asarray(bytes_per_parameter)
    return np.asarray(np.asarray(model_parallel) * held)
