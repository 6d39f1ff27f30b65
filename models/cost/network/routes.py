"""Groups as placed on the fabric: what a collective's time and its bytes by tier are reckoned from."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.cost.distinct import distinct
from models.cost.network.collective_time import ALGORITHMS, SEND, Timed, collective_time
from models.cost.network.collective_wire import Wire
from models.cost.network.collectives import hierarchical_shares, neighbour_shares, partner_shares, ring_shares
from models.cost.network.nic_sharing import collective_gain, neighbour_gain, shared_cards
from models.cost.network.placement import Group, groups, members
from models.cost.network.rails import forwarded, server_tier, spread_part
from models.cost.setting import Setting
from models.cost.table import ULYSSES, LayoutTable
from models.hardware import Cluster
from models.link import LinkClass

Array = NDArray[np.float64]

SUMS_INSIDE = tuple(ALGORITHMS.index(name) for name in ("tree", "hierarchical", "multicast"))
"""Algorithms that add up inside a unit before anything leaves it."""


@dataclass(frozen=True)
class Routes:
    """Every group of N layouts on the tiers of a cluster."""

    members: dict[str, NDArray[np.int64]]
    """Ranks of each group that share one unit of each tier, (N, K). [1]"""
    wire: Wire
    """The tiers as the profile's collectives see them."""
    gains: dict[str, Array]
    """Factor on each tier's bandwidth for groups that leave shared network cards half idle, (N, K). [1]"""
    forwards: dict[str, Array]
    """Part of an exchange's bytes on each tier that is forwarded inside the server, (N, K). [1]"""
    server: int
    """Index of the tier that joins a server."""

    def time(
        self, operation: ArrayLike, payload: ArrayLike, group: str, crossing: Array | None = None
    ) -> Timed:
        """Time of one collective of each layout in a group, (N,); see `collective_time`."""
        return collective_time(
            operation, payload, self.members[group], self.wire, crossing, self.gains.get(group)
        )

    def met(self, payload: Array, group: str) -> Array:
        """Time of a message between two ranks of a group that meet on each tier, (N, K). [s]."""
        gain, tiers = self.gains.get(group), np.arange(len(self.wire.bandwidth))
        first, kind = distinct(payload, *([] if gain is None else gain.T))
        pairs = np.tile(np.where(tiers < tiers[:, None], 1, 2), (len(first), 1))
        size = np.repeat(payload[first], len(tiers))
        more = None if gain is None else np.repeat(gain[first], len(tiers), axis=0)
        seconds = collective_time(SEND, size, pairs, self.wire, None, more).seconds
        return np.asarray(seconds.reshape(-1, len(tiers))[kind])

    def exchanged(self, crossing: Array, group: str) -> Array:
        """Bytes an all-to-all moves over each tier, those that change rails once more inside, (N, K). [B]."""
        part = self.forwards.get(group)
        return crossing if part is None else forwarded(crossing, part, self.server)

    def ring_shares(self, group: str) -> Array:
        """Share of a ring's bytes on each tier, (N, K). [1]."""
        inside = self.members[group]
        return partner_shares(inside) if self.wire.flat else ring_shares(inside)

    def shares(self, group: str, algorithm: NDArray[np.int64]) -> Array:
        """Share of a reduction's bytes on each tier by the algorithm that runs it, (N, K). [1]."""
        summed = np.isin(algorithm, SUMS_INSIDE)[:, None]
        return np.where(summed, hierarchical_shares(self.members[group]), self.ring_shares(group))

    def neighbour_shares(self, group: str) -> Array:
        """Share of the messages between neighbours of a group on each tier, (N, K). [1]."""
        return neighbour_shares(self.members[group])


def routes(table: LayoutTable, setting: Setting) -> Routes:
    """Place every group of every layout on the cluster's tiers."""
    found, cluster, gpus = groups(table), setting.cluster, setting.gpus
    placed = {name: members(group, cluster, gpus) for name, group in found.items()}
    if not setting.profile.hierarchical_collectives:
        return Routes(placed, wire(setting), {}, {}, 0)
    return Routes(
        placed,
        wire(setting),
        gains=_gains(found, cluster, gpus),
        forwards={
            name: spread_part(found[name], cluster, gpus)
            for name in _exchanging(table, setting)
            if max(_rails(cluster)) > 1
        },
        server=server_tier(cluster),
    )


def _exchanging(table: LayoutTable, setting: Setting) -> list[str]:
    """Groups that run all-to-alls over all their ranks at once."""
    experts = setting.architecture.moe is not None and setting.stack.dispatcher == "all_to_all"
    return ["ep"] * experts + ["cp"] * (ULYSSES in table.cp_comm)


def _rails(cluster: Cluster) -> list[int]:
    return [tier.rails or 1 for tier in cluster.tiers]


def _gains(found: dict[str, Group], cluster: Cluster, gpus: int) -> dict[str, Array]:
    """What cards that GPUs share leave to those that send; nothing where each GPU has its own."""
    if shared_cards(cluster) == cluster.gpus_per_node:
        return {}
    outside = np.array([(tier.gpus or np.inf) > cluster.gpus_per_node for tier in cluster.tiers])
    gains = {}
    for name, group in found.items():
        gain = (neighbour_gain if name == "pp" else collective_gain)(group, cluster, gpus)
        gains[name] = np.where(outside, gain[:, None], 1.0)
    return gains


def wire(setting: Setting) -> Wire:
    """Return the fabric as the profile's collectives see it."""
    profile = setting.profile
    return _wire(
        setting.cluster, setting.links, profile.hierarchical_collectives, profile.network_collectives
    )


@lru_cache(maxsize=256)
def _wire(cluster: Cluster, links: tuple[LinkClass, ...], measured: bool, network: float) -> Wire:
    if measured:
        return Wire.of(cluster.tiers, [link.scaled(network) for link in links])
    return Wire.of(cluster.tiers, [LinkClass()] * len(links), flat=True)
