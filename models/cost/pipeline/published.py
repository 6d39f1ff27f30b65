"""What papers and public code say of pipeline schedules, as they say it, for comparison.

Symbols, one meaning in this file: p ranks, G micro-batches, v chunks a rank; TF, TB, TW the time of
a forward, the input half and the weight half of a backward; s, h, a sequence, hidden size, heads.

References
----------
.. [1] P. Qi et al., "Zero bubble pipeline parallelism", ICLR 2024, arXiv:2401.10241.
.. [2] P. Qi et al., "Pipeline parallelism with controllable memory", NeurIPS 2024, arXiv:2405.15362.
.. [3] DeepSeek-AI, DualPipe, table of its public description; arXiv:2412.19437, table 2.
.. [4] D. Narayanan et al., SC 2021, arXiv:2104.04473, equation 1.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class ZeroBubble:
    """Idle time of a rank and the most micro-batches held, of three schedules [1, table 2]."""

    one_f_one_b: float
    h1: float
    h2: float
    """From a rank's first to its last action: p - 1 forwards of skew remain."""
    peaks: tuple[int, int, int]


def zero_bubble_table(p: int, tf: float, tb: float, tw: float) -> ZeroBubble:
    """Return (p - 1) times TF + TB + TW, TF + TB - TW and TF + TB - 2 TW; TB is the input half.

    >>> zero_bubble_table(4, 1, 1, 1)
    ZeroBubble(one_f_one_b=9, h1=3, h2=0, peaks=(4, 4, 7))
    """
    plain, h1, h2 = ((p - 1) * (tf + tb + part * tw) for part in (1, -1, -2))
    return ZeroBubble(plain, h1, h2, peaks=(p, p, 2 * p - 1))


def zero_bubble_halves(s: int, h: int, a: int) -> tuple[float, float, float]:
    """Return TB / TF, TW / TF and the activations W needs over those B needs, from FLOPs [1, table 1].

    F  s h (24 h + 4 s),  B  s h (24 h + 8 s),  W  24 s h h;  B needs s (34 h + 5 a s),  W needs 32 s h

    >>> [round(part, 3) for part in zero_bubble_halves(2048, 12288, 96)]
    [1.027, 0.973, 0.281]
    """
    forward = 24 * h + 4 * s
    return (24 * h + 8 * s) / forward, 24 * h / forward, 32 * h / (34 * h + 5 * a * s)


def zero_bubble_memory(p: int, worker: int, needed_by_w: float) -> tuple[float, float]:
    """Return what worker i (from 1) holds under ZB-H1 and ZB-H2, in what B needs [1, section 2.3].

    (p - i + 1) MB + (i - 1) MW  and  (2 p - 2 i + 1) MB + (2 i - 2) MW

    >>> zero_bubble_memory(8, 1, 0.28)
    (8.0, 15.0)
    """
    waiting = worker - 1
    return p - waiting + waiting * needed_by_w, 2 * (p - waiting) - 1 + 2 * waiting * needed_by_w


@dataclass(frozen=True)
class Comparison:
    """1F1B, ZB1P, ZB2P, ZB-V, V-Half and V-Min when TF = TB = TW, in this order [2]."""

    bubble: tuple[float, float, float, float, float, float]
    """Idle over the whole step. [1]"""
    memory: tuple[float, float, float, float, float, float]
    """Activations over 1F1B's; the last two in the limit of many ranks. [1]"""
    traffic: tuple[int, int, int, int, int, int]
    """Messages over 1F1B's. [1]"""


def zero_bubble_comparison(p: int, g: int) -> Comparison:
    """Return the authors' table: B = (p - 1) / (G + p - 1), about B / 3, 0, 0, about B / 2, about 2 B / 3.

    >>> zero_bubble_comparison(4, 9).bubble[0]
    0.25
    """
    b = (p - 1) / (g + p - 1)
    return Comparison((b, b / 3, 0.0, 0.0, b / 2, 2 * b / 3), (1, 1, 2, 1, 1 / 2, 1 / 3), (1, 1, 1, 2, 2, 2))


@dataclass(frozen=True)
class Pipes:
    """1F1B, ZB1P, DualPipe and DualPipe-V on the same number of stages, in this order [3]."""

    bubble: tuple[float, float, float, float]
    """Idle time of the rank that waits most."""
    weights: tuple[int, int, int, int]
    """Copies of a stage's weights a device keeps."""
    activations: tuple[int, int, int, int]
    """Stage activations a device keeps."""
    devices: tuple[int, int, int, int]


def dualpipe_table(stages: int, forward: float, backward: float, weight: float, pair: float) -> Pipes:
    """Return the table of [3]: `backward` is the full one, `weight` its weight half.

    (p - 1)(F + B), (p - 1)(F + B - 2 W), (p / 2 - 1)(F&B + B - 3 W); the last holds where the halves
    of a backward take the same: `closed_forms.equal_span` has the general form.

    >>> dualpipe_table(8, 1, 2, 1, 3).bubble
    (21, 7, 6.0, 6.0)
    """
    both = (stages / 2 - 1) * (pair + backward - 3 * weight)
    plain = forward + backward
    bubble = ((stages - 1) * plain, (stages - 1) * (plain - 2 * weight), both, both)
    more = stages + 1
    return Pipes(bubble, (1, 1, 2, 2), (stages, stages, more, more), (stages, stages, stages, stages // 2))


def batch_seconds(p: int, g: int, forward: float, backward: float) -> float:
    """Return the time of a batch, (G + p - 1)(tf + tb) [4].

    >>> batch_seconds(8, 32, 1.0, 2.0)
    117.0
    """
    return (g + p - 1) * (forward + backward)
