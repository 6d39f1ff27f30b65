"""What a job takes of NVLink domains that hold several nodes: as many GPUs of each, in whole nodes."""

from models.estimate import Assumption
from models.hardware import Cluster, Tier


def taken_of_domain(gpus: int, domain: int, node: int) -> int:
    """GPUs a job takes of each NVLink domain that holds several nodes: as many of each, in whole nodes.

    A scheduler that knows the racks hands them out so (Slurm's block topology, `--segment`), and a group of
    64 stays inside a rack of 72. Where no such share of more than half a domain divides the job, domains
    are filled one by one.

    >>> [taken_of_domain(gpus, 72, 4) for gpus in (64, 256, 144, 100, 2)], taken_of_domain(12, 8, 8)
    ([64, 64, 72, 72, 72], 8)
    """
    if gpus <= domain:
        return gpus if gpus > domain // 2 and gpus % node == 0 else domain
    shares = range(domain // node * node, domain // 2, -node)
    return next((share for share in shares if gpus % share == 0), domain)


def spread_over_racks(cluster: Cluster, gpus: int) -> tuple[Cluster, tuple[Assumption, ...]]:
    """Return the cluster with what the job takes of each domain, and of the tiers that join them, told."""
    rack = cluster.tiers[0]
    if rack.gpus is None or rack.gpus <= cluster.gpus_per_node or gpus <= rack.gpus:
        return cluster, ()
    taken = taken_of_domain(gpus, rack.gpus, cluster.gpus_per_node)
    if taken == rack.gpus:
        return cluster, ()
    tiers = tuple(
        tier if tier.gpus is None else tier.model_copy(update={"gpus": tier.gpus // rack.gpus * taken})
        for tier in cluster.tiers
    )
    return cluster.model_copy(update={"tiers": tiers}), _told(cluster, tiers)


def _told(cluster: Cluster, taken: tuple[Tier, ...]) -> tuple[Assumption, ...]:
    """Every tier that joins fewer GPUs of the job than it could: the domain, and those that join domains."""
    rack = cluster.tiers[0]
    why = f"the job takes as many GPUs of each {rack.name} domain of {rack.gpus}, in whole servers"
    return tuple(
        Assumption(
            field=f"/cluster/tiers/{place}/gpus",
            value=tier.gpus,
            why=f"so many of the {whole.gpus} GPUs a {whole.name} joins: {why}" if place else why,
        )
        for place, (whole, tier) in enumerate(zip(cluster.tiers, taken, strict=True))
        if whole.gpus is not None
    )
