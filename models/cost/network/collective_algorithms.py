"""Time of each algorithm of a collective over tiers, N groups at once, by fitted constants.

Every algorithm is latency plus the time of the busiest tier, as pipelined libraries run them:

    t = start + sum over tiers of steps_k s_k + max over tiers of T_k
    T_k = c_k S / (f_k B_k) (1 + (h_k / x_k)^g)

Symbols, one meaning in this file:
    N groups, K tiers, n ranks of a group                                         [1]
    m_k ranks that share one unit of tier k, m_{-1} = 1, m_{K-1} = n              [1]
    u_k = m_k / m_{k-1}, units of the tier inside that the group joins on tier k  [1]
    S payload: the whole buffer a rank reduces, gathers or exchanges              [B]
    B_k bandwidth of a GPU on tier k, f_k the part of it that is reached          [B/s], [1]
    s_k one step over tier k                                                      [s]
    c_k copies of S each rank moves over tier k                                   [1]
    x_k block sent at once, h_k the block that takes twice its bytes' time        [B]
    l_k lanes of B_k that carry a unit's traffic, min(m_{k-1}, LANES times the oversubscription) [1]

Limits: with f = 1, h = s = start = 0 on one tier they are the ring formulas of
`models.cost.network.collectives`; each is monotone in S and in B_k, and none is faster than c_k S / B_k.

References
----------
.. [1] P. Patarasuk and X. Yuan, J. Parallel Distrib. Comput. 69(2), 2009, doi:10.1016/j.jpdc.2008.09.002.
.. [2] P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction
   and scan", Parallel Computing 35(12), 2009, doi:10.1016/j.parco.2009.09.001.
.. [3] NVIDIA/nccl src/graph/tuning.cc and connect.cc @5067397c: rings pass through every GPU of a node
   and leave it by each of its network cards; trees are chains inside a node.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.cost.network.collective_wire import Wire
from models.cost.published.nccl_model import TREE_BUS_FACTOR

Array = NDArray[np.float64]

GROWTH = 0.65
"""g: how slowly bandwidth saturates with the block; 1 would be a latency. bench/fit_collectives.py. [1]"""
SWITCH_BLOCK = 2.0**21
"""Block S/n from which libraries move long messages by another protocol. bench/fit_collectives.py. [B]"""
SWITCH_STEPS = 9.5
"""Its step in steps of the protocol for short ones. bench/fit_collectives.py. [1]"""
MULTICAST_STEPS = 14.0
"""Steps a reduction in the switch starts with, a ring's over 8 GPUs. bench/fit_collectives.py. [1]"""
MULTICAST_RANKS = 5
"""Fewest GPUs reduced in the switch; NCCL 2.27 begins above 4 on H200, above 5 on B200. [1]"""
TREE_BLOCKS = 8.0
"""Length of block a tree over units needs for a ring's pace over them. bench/fit_collectives.py. [1]"""
LANES = 9.0
"""Cards of a unit that one collective's channels reach: 72 GPUs of a rack leave it at the pace of 8 to 9
(GB200 NVL72, 144 and 1,440 GPUs). bench/fit_collectives.py. [1]"""


@dataclass(frozen=True)
class Groups:
    """N groups as placed, with what every algorithm asks of them."""

    payload: Array
    """S, (N,). [B]"""
    members: Array
    """m_k, (N, K). [1]"""
    inner: Array
    """m_{k-1}, (N, K). [1]"""
    wire: Wire
    bandwidth: Array
    """B_k of these groups, (N, K). [B/s]"""

    @classmethod
    def of(
        cls, payload: Array, members: NDArray[np.int64], wire: Wire, gain: Array | None = None
    ) -> "Groups":
        """Place N payloads; `gain` multiplies what each has of each tier, (N, K)."""
        inner = np.concatenate([np.ones((len(members), 1)), members[:, :-1]], axis=1)
        bandwidth = wire.available(members) if gain is None else wire.available(members) * gain
        return cls(payload, members.astype(np.float64), inner, wire, bandwidth)

    @property
    def ranks(self) -> Array:
        """n, (N, 1). [1]."""
        return self.members[:, -1:]

    @property
    def crossed(self) -> NDArray[np.bool_]:
        """Tiers a group crosses, (N, K)."""
        return np.asarray(self.members > self.inner)

    @property
    def lanes(self) -> Array:
        """l_k, (N, K); 1 on the innermost tier. [1].

        A ring leaves a unit by LANES cards at most, each at its full rate: what shares an oversubscribed
        uplink is all the unit's rings together, m_{k-1} lanes of the divided rate.
        """
        if self.wire.flat:
            return np.ones_like(self.inner)
        return np.minimum(self.inner, LANES * self.wire.oversubscription)


def tier_seconds(groups: Groups, copies: Array, fraction: Array, half: Array) -> Array:
    """T_k = c S / (f B) (1 + (h / S)^g), 0 on tiers not crossed, (N, K). [s].

    Parameters
    ----------
    groups
        S, B and the tiers crossed.
    copies : (N, K)
        c_k. [1]
    fraction : (K,)
        f_k. [1]
    half : (N, K)
        Payload S at which T is twice its bytes' time: h_k S / x_k. [B]
    """
    payload = groups.payload[:, None]
    stretched = payload + half**GROWTH * payload ** (1 - GROWTH)
    busy = copies * stretched / (np.maximum(fraction, 1e-12) * groups.bandwidth)
    return np.where(groups.crossed, busy, 0.0)


def ring_seconds(groups: Groups, passes: Array) -> Array:
    """Time of a ring through all ranks, node after node, (N,) [1] [3]. [s].

    c_k = (passes (n - 1) + extra_k) / n / l_k: each ring enters a unit once and leaves it once, so its
    ranks share what crosses. Blocks of S/n; of the passes (n - 1) steps, n/m_{k-1} - n/m_k cross
    tier k. Long blocks on the innermost tier pay for the switch of protocol, as two sides of a right
    angle: the dearer of steps and bytes decides.

    Parameters
    ----------
    groups
        N groups.
    passes : (N,)
        1 for a reduce-scatter or all-gather, 2 for an all-reduce. [1]
    """
    wire, n, passes = groups.wire, groups.ranks, passes[:, None]
    sent = passes * (n - 1) + np.where(groups.inner == 1, wire.extra_blocks, 0.0)
    busy = tier_seconds(groups, sent / n / groups.lanes, wire.fraction, wire.block * n)
    steps = passes * (n / groups.inner - n / groups.members)
    long = (groups.payload >= SWITCH_BLOCK * n[:, 0]) & wire.switches
    busy[:, 0] = np.hypot(busy[:, 0], np.where(long, SWITCH_STEPS * wire.step[0] * steps[:, 0], 0.0))
    return np.asarray(wire.start[0] + steps @ wire.step + busy.max(axis=1))


def tree_seconds(groups: Groups) -> Array:
    """Time of an all-reduce along chains inside and a double binary tree across, (N,) [2] [3]. [s].

    2 (m_0 - 1) steps inside and 2 ceil(lg u_k) on each tier outside. Bytes are the hierarchy's, over
    TREE_BUS_FACTOR. Inside one unit NCCL's tree is a chain, no better than the ring: infinite there.
    """
    across = np.ceil(np.log2(groups.members / groups.inner))
    busy = np.maximum(_across(groups) / TREE_BUS_FACTOR, _inside(groups)).max(axis=1)
    steps = 2 * np.concatenate([groups.members[:, :1] - 1, across[:, 1:]], axis=1)
    seconds = groups.wire.start[0] + steps @ groups.wire.step + busy
    return np.where(_outside(groups), seconds, np.inf)


def hierarchical_seconds(groups: Groups) -> Array:
    """Time of an all-reduce reduced inside by the switch, then across, then spread inside, (N,) [3]. [s].

    The switch's steps inside, 2 ceil(lg u_k) on each tier outside; what leaves a unit is already its
    sum (NCCL's NVLSTree). Infinite where there is no outside or the switch cannot: without its help
    libraries run trees, not hierarchies of rings.
    """
    units = (groups.members / groups.inner)[:, 1:]
    climb = 2 * np.ceil(np.log2(units)) @ groups.wire.step[1:]
    busy = np.maximum(_across(groups).max(axis=1), _multicast(groups))
    return np.where(_outside(groups), _multicast_start(groups.wire) + climb + busy, np.inf)


def multicast_seconds(groups: Groups) -> Array:
    """Time of an all-reduce done by the switch that joins all ranks, (N,). [s].

    c = 1 + 1/n: each rank's buffer is read once and its share of the sum written once to all.
    Infinite where the group leaves the innermost tier, is small, or the switch cannot.
    """
    seconds = _multicast_start(groups.wire) + _multicast(groups)
    return np.where(_outside(groups), np.inf, seconds)


def exchange_seconds(groups: Groups, crossing: Array) -> Array:
    """Time of an all-to-all, each rank with each: start + sum s_k lg u_k + the busiest tier, (N,). [s].

    Parameters
    ----------
    groups
        N groups.
    crossing : (N, K)
        Bytes a rank sends over each tier. [B]
    """
    wire = groups.wire
    own = np.where(groups.inner == 1, wire.exchange_blocks, 0.0) / groups.ranks
    copies = crossing / np.maximum(groups.payload[:, None], 1e-300) + own * groups.crossed
    busy = tier_seconds(groups, np.maximum(copies, 0.0), wire.exchange_fraction, _whole(groups))
    steps = np.log2(groups.members / groups.inner)
    return np.asarray(wire.start[0] + steps @ wire.step + busy.max(axis=1))


def send_seconds(groups: Groups) -> Array:
    """Time of one message over the slowest tier the group crosses, (N,). [s]."""
    wire = groups.wire
    busy = tier_seconds(groups, np.ones_like(groups.members), wire.exchange_fraction, _whole(groups))
    step = np.where(groups.crossed, wire.step, 0.0).max(axis=1)
    return np.asarray(wire.start[0] + step + busy.max(axis=1))


def _outside(groups: Groups) -> NDArray[np.bool_]:
    """Groups that leave the innermost tier's unit, (N,)."""
    return np.asarray(groups.ranks[:, 0] > groups.members[:, 0])


def _whole(groups: Groups) -> Array:
    """Half-time payloads of exchanges, (N, K). [B]."""
    return np.broadcast_to(groups.wire.exchange_bytes, groups.members.shape)


def _inside(groups: Groups) -> Array:
    """Time of a reduce-scatter and an all-gather inside the innermost unit, (N, K), other tiers 0. [s]."""
    wire = groups.wire
    copies = (2 * (groups.members - 1) + wire.extra_blocks) / groups.members
    busy = tier_seconds(groups, copies, wire.fraction, wire.block * groups.members)
    return np.concatenate([busy[:, :1], np.zeros_like(busy[:, 1:])], axis=1)


def _across(groups: Groups) -> Array:
    """Time of the outer tiers' part, c_k = 2 (1 - 1/u_k) / l_k, (N, K), the innermost tier 0. [s]."""
    wire = groups.wire
    copies = 2 * (1 - groups.inner / groups.members) / groups.lanes
    busy = tier_seconds(groups, copies, wire.fraction, TREE_BLOCKS * wire.block * groups.members)
    return np.concatenate([np.zeros_like(busy[:, :1]), busy[:, 1:]], axis=1)


def _multicast(groups: Groups) -> Array:
    """Time of the switch's bytes, (N,); infinite where it has no multicast or few ranks. [s]."""
    wire, inside = groups.wire, groups.members
    busy = tier_seconds(groups, 1 + 1 / inside, wire.multicast_fraction, wire.multicast_block * inside)
    able = (inside[:, 0] >= MULTICAST_RANKS) & (wire.multicast_fraction[0] > 0)
    return np.where(able, busy[:, 0], np.inf)


def _multicast_start(wire: Wire) -> float:
    """Start of a reduction in the switch. [s]."""
    return float(wire.start[0] + MULTICAST_STEPS * wire.step[0])
