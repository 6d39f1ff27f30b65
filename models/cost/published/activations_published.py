"""Activation memory as papers sum it up, where the product reckons tensor by tensor instead.

Symbols, one meaning in this file: s tokens a sequence, b sequences of a micro-batch, T = s b,
h hidden, L layers, V vocabulary, t TP degree with sequence parallelism, p pipeline stages.

References
----------
.. [1] V. Korthikanti et al., "Reducing activation recomputation in large transformer models",
   MLSys 2023, arXiv:2205.05198, section 4.3.
.. [2] S. Rajbhandari et al., "ZeRO: Memory optimizations toward training trillion parameter
   models", SC 2020, arXiv:1910.02054, section 3.2.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class OutsideLayers:
    """Activations on one rank outside the transformer layers. [B]."""

    embedding_dropout: Array
    """Its mask, one byte an element, for the p micro-batches in flight on the first stage."""
    final_norm: Array
    """Input of the last norm, 16 bits."""
    head_input: Array
    """Input of the output head, 16 bits."""
    logits: Array
    """Logits in FP32; the 16-bit logits they are made from are not counted."""

    @property
    def total(self) -> Array:
        """Sum of the four. [B]."""
        return self.embedding_dropout + self.final_norm + self.head_input + self.logits


def outside_layers(
    tokens: ArrayLike, hidden: int, vocabulary: int, tp: ArrayLike, pp: ArrayLike
) -> OutsideLayers:
    """Activations outside the layers: T h p / t, and on one stage alone 4 T h (1 + V/h) / t more [1].

    The three tensors of the head live on the last stage; the dropout's mask on the first. With p = 1
    both are the same stage and all four add up.

    Parameters
    ----------
    tokens
        T. [tokens]
    hidden, vocabulary
        h, V. [1], [tokens]
    tp, pp
        t, p. [1]

    Returns
    -------
    OutsideLayers
        [B]; the head's tensors are zero where p > 1, as the first stage has no head.

    Examples
    --------
    The 22B model, 4 sequences of 2,048 tokens over 8 GPUs:

    >>> float(outside_layers(4 * 2048, 6144, 51200, 8, 1).total)
    241172480.0
    """
    stream = np.asarray(tokens, dtype=np.float64) * hidden / np.asarray(tp)
    alone = np.asarray(pp) == 1
    return OutsideLayers(
        embedding_dropout=np.asarray(stream * np.asarray(pp)),
        final_norm=np.where(alone, 2.0 * stream, 0.0),
        head_input=np.where(alone, 2.0 * stream, 0.0),
        logits=np.where(alone, 4.0 * stream * vocabulary / hidden, 0.0),
    )


ZERO_ELEMENTS = 12.0
"""Elements a layer keeps for each of T h, as the ZeRO paper reckons [2]; norm inputs, dropout masks
and attention scores are left out. [1]"""


def zero_activation_bytes(tokens: ArrayLike, hidden: int, layers: ArrayLike, element: float = 2.0) -> Array:
    """Activations of a whole transformer: about 12 T h L elements [2]. [B].

    The 24 bytes of T h in 16 bits are what Korthikanti et al. divide by the TP degree: projections,
    attention output and the 4 h feed-forward, the last without its dropout.

    Examples
    --------
    GPT-2 with 1.5 billion parameters, 32 sequences of 1,024 tokens, "about 60 GB":

    >>> float(zero_activation_bytes(32 * 1024, 1600, 48)) / 1e9
    60.3979776
    """
    kept = ZERO_ELEMENTS * np.asarray(tokens, dtype=np.float64) * hidden * np.asarray(layers)
    return np.asarray(element * kept)
