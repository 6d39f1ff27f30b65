"""How long a training run takes, how often it breaks, and how often it should save.

References
----------
.. [1] D. Narayanan et al., SC 2021, arXiv:2104.04473, section 5.1.
.. [2] J. Kaplan et al., "Scaling laws for neural language models", arXiv:2001.08361, section 2.1.
.. [3] Llama Team, "The Llama 3 Herd of Models", arXiv:2407.21783, section 3.3.4.
.. [4] J. W. Young, "A first order approximation to the optimum checkpoint interval", Commun. ACM
   17(9), 1974, doi:10.1145/361147.361115.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

DAY = 86_400.0
"""Seconds of a day. [s]"""


def training_flops(parameters: ArrayLike, tokens: ArrayLike) -> Array:
    """FLOPs of a whole run: 6 N D [2]. [FLOP].

    N parameters (those a token meets), D tokens; attention scores are left out.

    >>> float(training_flops(405e9, 15.6e12))
    3.7908e+25
    """
    return np.asarray(6.0 * np.asarray(parameters, dtype=np.float64) * np.asarray(tokens))


def training_seconds_recomputed(
    parameters: ArrayLike, tokens: ArrayLike, gpus: ArrayLike, flops_per_s: ArrayLike
) -> Array:
    """Time of a run with full recompute: 8 T P / (n X), two FLOPs for each of four passes [1]. [s].

    Parameters
    ----------
    parameters, tokens
        P, T. [1], [tokens]
    gpus
        n. [1]
    flops_per_s
        X, what a GPU reaches with the recomputed FLOPs counted. [FLOP/s]

    Examples
    --------
    GPT-3 with 300 billion tokens on 1,024 A100 at 140 TFLOP/s, "34 days":

    >>> round(float(training_seconds_recomputed(175e9, 300e9, 1024, 140e12)) / DAY, 1)
    33.9
    """
    work = 8.0 * np.asarray(tokens, dtype=np.float64) * np.asarray(parameters)
    return np.asarray(work / (np.asarray(gpus) * np.asarray(flops_per_s)))


def seconds_between(duration: ArrayLike, interruptions: ArrayLike) -> Array:
    """Mean time between interruptions. [s].

    Llama 3's 54 days with 419 unexpected ones [3] are 3.1 hours:

    >>> round(float(seconds_between(54 * DAY, 419)) / 3600, 2)
    3.09
    """
    return np.asarray(np.asarray(duration, dtype=np.float64) / np.asarray(interruptions))


def most_lost_seconds(duration: ArrayLike, interruptions: ArrayLike, effective: ArrayLike) -> Array:
    """Most an interruption can have cost when a share of the time was effective training. [s].

    (1 - effective) duration / interruptions. Llama 3, above 90 % effective [3]: under 16.7 minutes.

    >>> round(float(most_lost_seconds(54 * DAY, 466, 0.9)) / 60, 1)
    16.7
    """
    return np.asarray((1.0 - np.asarray(effective)) * seconds_between(duration, interruptions))


def checkpoint_interval(checkpoint_seconds: ArrayLike, between_failures: ArrayLike) -> Array:
    """Best time between checkpoints: sqrt(2 C M) [4]. [s].

    Parameters
    ----------
    checkpoint_seconds
        C, what one checkpoint holds training up. [s]
    between_failures
        M, mean time between failures; holds while C is small against it. [s]

    Examples
    --------
    >>> round(float(checkpoint_interval(60, 3.0931 * 3600)))
    1156
    """
    product = 2.0 * np.asarray(checkpoint_seconds, dtype=np.float64) * np.asarray(between_failures)
    return np.asarray(np.sqrt(product))


def lost_share(interval: ArrayLike, checkpoint_seconds: ArrayLike, between_failures: ArrayLike) -> Array:
    """Share of the time lost to checkpoints and to work done again: C / T + T / (2 M) [4]. [1].

    Restarting and noticing a failure come on top.

    >>> best = checkpoint_interval(60, 11135.0)
    >>> round(float(lost_share(best, 60, 11135.0)), 4)
    0.1038
    """
    t = np.asarray(interval, dtype=np.float64)
    return np.asarray(np.asarray(checkpoint_seconds) / t + t / (2.0 * np.asarray(between_failures)))
