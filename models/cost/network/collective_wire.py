"""The tiers of a cluster as collectives see them: bandwidth and the constants of each tier's class."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.hardware import Tier
from models.link import LinkClass

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Wire:
    """One array of shape (K,) a constant, innermost tier first; units as in `models.link.LinkClass`."""

    bandwidth: Array
    """One GPU's share in one direction, after oversubscription. [B/s]"""
    oversubscription: Array
    """What that share is divided by when all cross the tier. [1]"""
    peers: Array
    """U - 1 on a mesh of U GPUs joined in pairs, else 0. [1]"""
    start: Array
    step: Array
    fraction: Array
    block: Array
    extra_blocks: Array
    exchange_fraction: Array
    exchange_bytes: Array
    exchange_blocks: Array
    multicast_fraction: Array
    """0 where the tier has no multicast. [1]"""
    multicast_block: Array
    switches: bool
    """Whether long blocks on the innermost tier change the protocol: it lies inside servers."""
    flat: bool
    """The texts' rule: rings only, and every byte at the pace of the slowest tier crossed."""

    @classmethod
    def of(cls, tiers: Sequence[Tier], links: Sequence[LinkClass], flat: bool = False) -> "Wire":
        """Return the tiers under the constants of their classes.

        >>> tiers = [Tier(name="nvlink", bandwidth_bytes_per_s=9e11, oversubscription=2.0)]
        >>> Wire.of(tiers, [LinkClass(fraction=0.5)]).bandwidth
        array([4.5e+11])
        """
        both = list(zip(tiers, links, strict=True))

        def column(field: str) -> Array:
            return np.array([getattr(link, field) or 0.0 for link in links])

        return cls(
            bandwidth=np.array([t.bandwidth_bytes_per_s / t.oversubscription for t in tiers]),
            oversubscription=np.array([t.oversubscription for t in tiers]),
            peers=np.array([(t.gpus - 1.0) if link.mesh and t.gpus else 0.0 for t, link in both]),
            start=column("start_s"),
            step=np.array([_step(tier, link, flat) for tier, link in both]),
            fraction=column("fraction"),
            block=column("block_bytes"),
            extra_blocks=column("extra_blocks"),
            exchange_fraction=column("exchange_fraction"),
            exchange_bytes=column("exchange_bytes"),
            exchange_blocks=column("exchange_blocks"),
            multicast_fraction=column("multicast_fraction"),
            multicast_block=column("multicast_block_bytes"),
            switches=not links[0].network,
            flat=flat,
        )

    def available(self, members: NDArray[np.int64]) -> Array:
        """Bandwidth the ranks of a group have on each tier, (N, K). [B/s].

        The tier's share, but on a mesh of U GPUs (m - 1)/(U - 1) of it: m ranks use only the links
        between themselves. Eight MI300X have 448 GB/s each, two of them one link of 64.
        """
        pairs = np.clip((members - 1) / np.maximum(self.peers, 1), None, 1.0)
        share = np.where((self.peers > 0) & (members > 1), pairs, 1.0)
        return np.asarray(self.bandwidth * share)


def _step(tier: Tier, link: LinkClass, flat: bool) -> float:
    """One step over a tier: as the cluster states it, else as its class was fitted; the texts have none."""
    return 0.0 if flat else link.step_s if tier.latency_s is None else tier.latency_s
