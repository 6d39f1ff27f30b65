"""Expert parallelism's exchange as DeepSeek reckons it: the node limit, and the floor it sets on decoding.

References
----------
.. [1] DeepSeek-AI, "DeepSeek-V3 Technical Report", arXiv:2412.19437, section 3.2.2.
.. [2] C. Zhao et al., "Insights into DeepSeek-V3: Scaling challenges and reflections on hardware for
   AI architectures", ISCA 2025, arXiv:2505.09343, section 2.3.2.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def experts_at_network_pace(nodes: ArrayLike, inside: ArrayLike, between: ArrayLike) -> Array:
    """Experts a token can reach while the network stays the slower link: M B / B' [1]. [1].

    A token crosses the network once for each of its M nodes and moves on inside; inside, B / B' copies
    take no longer than the one that crossed.

    Parameters
    ----------
    nodes
        M, nodes a token is sent to at most. [1]
    inside, between
        B, B', bandwidth of a GPU inside its node and between nodes. [B/s]

    Examples
    --------
    DeepSeek-V3, 4 nodes, NVLink 160 GB/s and InfiniBand 50 GB/s, "13 experts":

    >>> float(experts_at_network_pace(4, 160e9, 50e9))
    12.8
    """
    return np.asarray(np.asarray(nodes) * np.asarray(inside, dtype=np.float64) / np.asarray(between))


def exchange_seconds(
    tokens: ArrayLike,
    experts: ArrayLike,
    hidden: ArrayLike,
    bandwidth: ArrayLike,
    dispatch_bytes: float = 1.0,
    combine_bytes: float = 2.0,
) -> Array:
    """Time to send tokens to their experts and the results back: (d + r) T k h / B [2]. [s].

    Parameters
    ----------
    tokens
        T, on one GPU. [tokens]
    experts
        k, copies of a token, a shared expert's among them where it is sent. [1]
    hidden, bandwidth
        h, B. [1], [B/s]
    dispatch_bytes, combine_bytes
        d, r: FP8 out and BF16 back unless said. [B]

    Examples
    --------
    >>> round(float(exchange_seconds(32, 9, 7000, 50e9)) * 1e6, 2)
    120.96
    """
    copies = np.asarray(tokens, dtype=np.float64) * np.asarray(experts) * np.asarray(hidden)
    return np.asarray((dispatch_bytes + combine_bytes) * copies / np.asarray(bandwidth))


def decoding_seconds(exchange: ArrayLike, layers: ArrayLike) -> Array:
    """Least time of one output token when two micro-batches take turns: 2 L exchanges, nothing else [2]. [s].

    Each layer's exchange of one micro-batch hides behind the compute of the other, and the other
    way round, so that a token waits for both.

    >>> round(float(decoding_seconds(120.96e-6, 61)) * 1e3, 2)
    14.76
    """
    return np.asarray(2.0 * np.asarray(layers) * np.asarray(exchange, dtype=np.float64))
