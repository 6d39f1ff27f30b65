"""FLOPs of a training step as papers print them, in closed form.

The product counts every matrix product of an architecture (`models.cost.flops`); these hold for a GPT
with a plain 4 h feed-forward, heads that add up to h, and attention that is not causal.

Symbols, one meaning in this file: B sequences a step, s tokens a sequence, L layers, h hidden,
V vocabulary. Everything broadcasts.

References
----------
.. [1] D. Narayanan et al., "Efficient large-scale language model training on GPU clusters using
   Megatron-LM", SC 2021, arXiv:2104.04473, equation 3.
.. [2] V. Korthikanti et al., "Reducing activation recomputation in large transformer models",
   MLSys 2023, arXiv:2205.05198, appendix A.
.. [3] A. Chowdhery et al., "PaLM: Scaling language modeling with pathways", arXiv:2204.02311,
   appendix B.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def narayanan_step_flops(
    batch: ArrayLike, sequence: ArrayLike, layers: ArrayLike, hidden: ArrayLike, vocabulary: ArrayLike
) -> Array:
    """FLOPs of a step with full recompute: 96 B s L h^2 (1 + s/(6 h) + V/(16 L h)) [1]. [FLOP].

    Four forwards of the layers (one forward, one repeated, a backward of two) and three of the head.

    Examples
    --------
    The 145.6B model at 148 TFLOP/s on 1,536 GPUs takes 24.8 s:

    >>> round(float(narayanan_step_flops(2304, 2048, 80, 12288, 51200)) / (148e12 * 1536), 2)
    24.82
    """
    h, depth = np.asarray(hidden, dtype=np.float64), np.asarray(layers)
    inside = 1 + np.asarray(sequence) / (6 * h) + np.asarray(vocabulary) / (16 * depth * h)
    return np.asarray(96.0 * np.asarray(batch) * np.asarray(sequence) * depth * h**2 * inside)


def korthikanti_model_flops(
    batch: ArrayLike, sequence: ArrayLike, layers: ArrayLike, hidden: ArrayLike, vocabulary: ArrayLike
) -> Array:
    """FLOPs a step needs, nothing recomputed: 72 B L s h^2 (1 + s/(6 h) + V/(12 h L)) [2]. [FLOP].

    >>> round(float(korthikanti_model_flops(64, 2048, 96, 12288, 51200)) / 1e15, 3)
    141.092
    """
    return _korthikanti(batch, sequence, layers, hidden, vocabulary, 1.0)


def korthikanti_hardware_flops(
    batch: ArrayLike, sequence: ArrayLike, layers: ArrayLike, hidden: ArrayLike, vocabulary: ArrayLike
) -> Array:
    """FLOPs the paper reckons with selective recompute: 72 B L s h^2 (1 + s/(3 h) + V/(12 h L)) [2]. [FLOP].

    The paper adds the attention core's forward and backward again, s/(6 h). Repeating its forward
    alone, which is what selective recompute runs, adds a third of that, s/(18 h), and is what the
    product reckons (`models.cost.kernels.compute`).

    >>> round(float(korthikanti_hardware_flops(64, 2048, 96, 12288, 51200)) / 1e15, 3)
    144.891
    """
    return _korthikanti(batch, sequence, layers, hidden, vocabulary, 2.0)


def _korthikanti(
    batch: ArrayLike,
    sequence: ArrayLike,
    layers: ArrayLike,
    hidden: ArrayLike,
    vocabulary: ArrayLike,
    attentions: float,
) -> Array:
    h, depth = np.asarray(hidden, dtype=np.float64), np.asarray(layers)
    inside = 1 + attentions * np.asarray(sequence) / (6 * h) + np.asarray(vocabulary) / (12 * h * depth)
    return np.asarray(72.0 * np.asarray(batch) * depth * np.asarray(sequence) * h**2 * inside)


def palm_token_flops(
    parameters: ArrayLike, layers: ArrayLike, heads: ArrayLike, head_size: ArrayLike, sequence: ArrayLike
) -> Array:
    """FLOPs of a token in training: 6 N + 12 L a d s, attention over the whole sequence [3]. [FLOP].

    Parameters
    ----------
    parameters
        N, of the matrices; the paper takes all. [1]
    layers, heads, head_size, sequence
        L, a, d, s. [1], [tokens]

    Examples
    --------
    PaLM 540B:

    >>> float(palm_token_flops(540.35e9, 118, 48, 256, 2048)) / 1e12
    3.277734806784
    """
    scores = np.asarray(layers, dtype=np.float64) * np.asarray(heads) * np.asarray(head_size)
    return np.asarray(6.0 * np.asarray(parameters) + 12.0 * scores * np.asarray(sequence))
