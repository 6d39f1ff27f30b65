"""A stated cluster as an object: the GPU looked up or taken as given, the tiers checked."""

import math
from itertools import pairwise

from models.catalogue import loader
from models.catalogue.collective_constants import class_names, link_class, link_class_names
from models.catalogue.racks import spread_over_racks
from models.errors import Fault, InvalidField, UnknownEntry
from models.estimate import Assumption
from models.hardware import Cluster, Gpu, Tier
from models.request import ClusterRequest, GpuRequest, TierRequest

GPU_DEFAULTS = ("usable_memory_bytes", "peak_fp16_flops", "matmul_fraction", "generation")
"""Fields of a stated GPU whose defaults move time or memory."""
TIER_DEFAULTS = ("oversubscription",)
"""Fields of a stated tier whose defaults move time."""


def resolve_cluster(stated: str | ClusterRequest, gpus: int) -> tuple[Cluster, tuple[Assumption, ...]]:
    """Return the cluster and what was assumed about it, or raise every fault at once."""
    if isinstance(stated, str):
        return spread_over_racks(loader.cluster(stated), gpus)
    faults = tier_faults(stated.tiers)
    faults += _node_faults(stated)
    faults += _rail_faults(stated)
    unknown = _unknown_classes(stated.tiers)
    try:
        gpu, assumptions = _gpu(stated.gpu)
    except UnknownEntry as error:
        raise (InvalidField if faults else UnknownEntry)(*error.faults, *unknown, *faults) from None
    if unknown or faults:
        raise (InvalidField if faults else UnknownEntry)(*unknown, *faults)
    node = stated.gpus_per_node or stated.tiers[0].gpus or gpus
    if stated.gpus_per_node is None:
        assumptions += (Assumption(field="/cluster/gpus_per_node", value=node, why="GPUs of the first tier"),)
    tiers = _tiers(stated.tiers, node)
    cluster = Cluster(gpu=gpu, tiers=tiers, gpus_per_node=node, nics_per_node=stated.nics_per_node)
    cluster, taken = spread_over_racks(cluster, gpus)
    return cluster, assumptions + taken + _tier_assumptions(stated.tiers) + _class_assumptions(
        stated.tiers, tiers
    )


def tier_faults(tiers: tuple[TierRequest, ...]) -> list[Fault]:
    """Every tier but the last joins a multiple of the GPUs of the tier inside it, by its own name.

    >>> [fault.reason for fault in tier_faults((
    ...     TierRequest(name="nvlink", gpus=8, bandwidth_bytes_per_s=4.5e11),
    ...     TierRequest(name="leaf", gpus=20, bandwidth_bytes_per_s=5e10),
    ...     TierRequest(name="spine", bandwidth_bytes_per_s=5e10)))]
    ['a tier joins whole groups of the tier inside it, and 20 is no multiple of 8']
    """
    faults = [
        Fault(f"/cluster/tiers/{i}/gpus", None, "only the last tier may leave out the GPUs it joins",
              "State how many GPUs this tier joins.")
        for i, tier in enumerate(tiers[:-1]) if tier.gpus is None
    ]  # fmt: skip
    stated = [(i, tier.gpus) for i, tier in enumerate(tiers[:-1]) if tier.gpus is not None]
    for (_, inner), (i, outer) in pairwise(stated):
        faults += _nesting_fault(i, inner, outer)
    seen: set[str] = set()
    for i, tier in enumerate(tiers):
        if tier.name in seen:
            faults.append(Fault(f"/cluster/tiers/{i}/name", tier.name, "two tiers have this name",
                                "Give every tier a name of its own."))  # fmt: skip
        seen.add(tier.name)
    return faults


def stretched(stated: str | ClusterRequest, gpus: int) -> tuple[str, ...]:
    """Warn of a last tier said to join fewer GPUs than the job has: it is taken to join them all."""
    last = None if isinstance(stated, str) else stated.tiers[-1]
    if last is None or last.gpus is None or last.gpus >= gpus:
        return ()
    return (
        f"The last tier, {last.name}, is said to join {last.gpus} GPUs, and the job has {gpus}: the last "
        "tier joins all of them. Add the tier beyond it if there is one.",
    )


def partly_filled(cluster: Cluster, gpus: int) -> tuple[str, ...]:
    """Warn of a last server, and of a last rack whose servers share NVLink, that the job leaves part of.

    >>> partly_filled(loader.cluster("dgx-h100"), 2100)
    ('The last server has 4 of 8 GPUs; 2100 GPUs fill 262 before it.',)
    """
    rack, node = cluster.tiers[0], cluster.gpus_per_node
    units = [("server", node)]
    if rack.gpus is not None and rack.gpus > node:
        units.append((f"{rack.name} domain", rack.gpus))
    return tuple(
        f"The last {name} has {gpus % unit} of {unit} GPUs; {gpus} GPUs fill {gpus // unit} before it."
        for name, unit in units
        if gpus > unit and gpus % unit
    )


def _nesting_fault(index: int, inner: int, outer: int) -> list[Fault]:
    field = f"/cluster/tiers/{index}/gpus"
    if outer <= inner:
        reason = f"tiers go from the innermost outwards, and {outer} GPUs are no more than the {inner} inside"
        return [Fault(field, outer, reason, f"State more than {inner}, or leave the tier out.")]
    if outer % inner:
        reason = f"a tier joins whole groups of the tier inside it, and {outer} is no multiple of {inner}"
        below, above = outer // inner * inner, (outer // inner + 1) * inner
        near = above if below == inner else below
        return [Fault(field, outer, reason, f"{near} would do.")]
    return []


def _node_faults(stated: ClusterRequest) -> list[Fault]:
    node, inner = stated.gpus_per_node, stated.tiers[0].gpus
    if node is None or inner is None or not node % inner or not inner % node:
        return []
    reason = f"a server is a whole part or a whole multiple of the first tier's {inner} GPUs"
    return [Fault("/cluster/gpus_per_node", node, reason, f"{inner} would do.")]


def _rail_faults(stated: ClusterRequest) -> list[Fault]:
    """Rails join servers, and each takes the same number of a server's GPUs."""
    node = stated.gpus_per_node or stated.tiers[0].gpus
    faults = []
    for i, tier in enumerate(stated.tiers):
        field = f"/cluster/tiers/{i}/rails"
        if tier.rails is None:
            continue
        if i == 0 or node is None or (tier.gpus is not None and tier.gpus <= node):
            reason = "rails join GPUs of different servers, and this tier lies inside one"
            faults.append(Fault(field, tier.rails, reason, "Leave them out."))
        elif node % tier.rails:
            reason = f"each rail takes as many of a server's {node} GPUs, which {tier.rails} does not divide"
            faults.append(Fault(field, tier.rails, reason, f"{math.gcd(node, tier.rails)} would do."))
    return faults


def _gpu(stated: str | GpuRequest) -> tuple[Gpu, tuple[Assumption, ...]]:
    if isinstance(stated, str):
        return loader.gpu(stated), ()
    values = stated.model_dump()
    values["usable_memory_bytes"] = stated.usable_memory_bytes or stated.memory_bytes
    values["peak_fp16_flops"] = stated.peak_fp16_flops or stated.peak_bf16_flops
    given = stated.model_dump(exclude_unset=True, exclude_none=True)
    assumptions = tuple(
        Assumption(field=f"/cluster/gpu/{name}", value=values[name], why="default")
        for name in GPU_DEFAULTS
        if name not in given and values[name] is not None
    )
    return Gpu(**values), assumptions


def _tiers(stated: tuple[TierRequest, ...], node: int) -> tuple[Tier, ...]:
    tiers = tuple(Tier(**tier.model_dump()) for tier in stated)
    tiers = (*tiers[:-1], tiers[-1].model_copy(update={"gpus": None}))
    names = class_names(tiers, node)
    return tuple(
        tier.model_copy(update={"collective": name}) for tier, name in zip(tiers, names, strict=True)
    )


def _unknown_classes(tiers: tuple[TierRequest, ...]) -> list[Fault]:
    return [
        fault
        for i, tier in enumerate(tiers)
        if tier.collective is not None and tier.collective not in link_class_names()
        for fault in UnknownEntry.among(
            f"/cluster/tiers/{i}/collective", tier.collective, link_class_names()
        ).faults
    ]


def _class_assumptions(stated: tuple[TierRequest, ...], tiers: tuple[Tier, ...]) -> tuple[Assumption, ...]:
    why = "fabric class by bandwidth and place"
    told = []
    for i, (said, tier) in enumerate(zip(stated, tiers, strict=True)):
        assert tier.collective is not None
        if said.collective is None:
            told.append(Assumption(field=f"/cluster/tiers/{i}/collective", value=tier.collective, why=why))
        if said.latency_s is None:
            step = link_class(tier.collective).step_s
            of = f"fitted step of {tier.collective}"
            told.append(Assumption(field=f"/cluster/tiers/{i}/latency_s", value=step, why=of))
    return tuple(told)


def _tier_assumptions(tiers: tuple[TierRequest, ...]) -> tuple[Assumption, ...]:
    return tuple(
        Assumption(field=f"/cluster/tiers/{i}/{name}", value=getattr(tier, name), why="default")
        for i, tier in enumerate(tiers)
        for name in TIER_DEFAULTS
        if name not in tier.model_fields_set
    )
