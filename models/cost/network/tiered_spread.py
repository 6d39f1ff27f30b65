"""Bytes of an exchange that sends less to a far rank than to a near one, spread as a sum of even ones.

A deduplicating dispatcher sends a token once to each node that holds some of its experts, so a partner
in another node gets fewer of a rank's bytes than one in its own. With b_k bytes for each partner that
tier k reaches first, b_1 >= b_2 >= … , the exchange is an even one of b_K bytes a partner over the whole
group, one of b_{K-1} - b_K over the ranks that tier K - 1 joins, and so on inward.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from models.cost.apportion import apportion
from models.cost.network.spread import Ranks, Spread, Whole, grouped

Array = NDArray[np.float64]


def steps_inward(copies: Array, members: NDArray[np.int64]) -> Array:
    """Bytes each partner within reach of a tier gets beyond what the next tier out gives it, (K,). [1].

    Of c_k copies over tier k, c_k / (m_k - m_{k-1}) go to each partner it reaches first.

    Parameters
    ----------
    copies : (K,)
        c_k, copies that cross each tier, innermost first. [1]
    members : (K,)
        m_k, ranks of the group that share one unit of the tier. [1]

    Examples
    --------
    Four ranks to a node of a group of 16, 6 copies inside and 4 across:

    >>> steps_inward(np.array([6.0, 4.0]), np.array([4, 16])).round(4).tolist()
    [1.6667, 0.3333]
    """
    reached = np.diff(members, prepend=1)
    steps, further = np.zeros(len(copies)), 0.0
    for tier in range(len(copies) - 1, -1, -1):
        each = copies[tier] / reached[tier] if reached[tier] > 0 else further
        steps[tier] = max(each - further, 0.0)
        further = max(each, further)
    return steps


def tiered_spreads(
    groups: Ranks, sent: Whole, units: Sequence[int], copies: Array, members: NDArray[np.int64]
) -> list[Spread]:
    """Return the even spreads a tiered exchange is the sum of.

    Each rank's bytes are split over them by what its partners within reach of each tier get in all, so
    that it sends what it sends to the byte however unevenly its group lies over the nodes.

    Parameters
    ----------
    groups : (g, n)
        Ranks of each group, ascending.
    sent : (ranks of the job,)
        What each rank sends. [B]
    units : (K,)
        GPUs a unit of each tier joins, innermost first; the last joins all.
    copies, members : (K,)
        As for `steps_inward`.
    """
    ranks = groups.reshape(-1)
    group = np.repeat(np.arange(len(groups)), groups.shape[1])
    nested = [grouped(group * (ranks.max() + 1) + ranks // unit, ranks) for unit in units]
    others = np.zeros((len(sent), len(units)), dtype=np.int64)
    for tier, parts in enumerate(nested):
        for part in parts:
            others[part, tier] = part.shape[1] - 1
    split = _split(sent, others, steps_inward(copies, members))
    return [Spread(part, split[part, tier]) for tier, parts in enumerate(nested) for part in parts]


def _split(sent: Whole, others: NDArray[np.int64], steps: Array) -> Whole:
    """Bytes of each rank by tier, (ranks, K): reckoned once for ranks that are alike. [B]."""
    amounts, amount = np.unique(sent, return_inverse=True)
    kinds, kind = np.unique(np.column_stack([amount, others]), axis=0, return_inverse=True)
    rows = [_by_tier(int(amounts[which]), reach, steps) for which, *reach in kinds.tolist()]
    return np.array(rows, dtype=sent.dtype)[kind.reshape(-1)]


def _by_tier(sent: int, others: Sequence[int], steps: Array) -> list[int]:
    """One rank's bytes by tier; over the whole group where no tier that gives more reaches anyone."""
    weights = [count * float(step) for count, step in zip(others, steps, strict=True)]
    if not any(weights):
        weights = [0.0] * (len(weights) - 1) + [1.0]
    return apportion(sent if others[-1] else 0, weights)
