"""Groups as placed on the fabric: what a collective's time and its bytes by tier are reckoned from."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.cost.collective_time import ALGORITHMS, Timed, collective_time
from models.cost.collective_wire import Wire
from models.cost.collectives import hierarchical_shares, neighbour_shares, partner_shares, ring_shares
from models.cost.placement import groups, members
from models.cost.setting import Setting
from models.cost.table import LayoutTable
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

    def time(
        self, operation: ArrayLike, payload: ArrayLike, group: str, crossing: Array | None = None
    ) -> Timed:
        """Time of one collective of each layout in a group, (N,); see `collective_time`."""
        return collective_time(operation, payload, self.members[group], self.wire, crossing)

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
    placed = {name: members(group, setting.cluster) for name, group in groups(table).items()}
    return Routes(placed, wire(setting))


def wire(setting: Setting) -> Wire:
    """Return the fabric as the profile's collectives see it."""
    return _wire(setting.cluster, setting.links, setting.profile.hierarchical_collectives)


@lru_cache(maxsize=256)
def _wire(cluster: Cluster, links: tuple[LinkClass, ...], measured: bool) -> Wire:
    if measured:
        return Wire.of(cluster.tiers, links)
    return Wire.of(cluster.tiers, [LinkClass()] * len(links), flat=True)
