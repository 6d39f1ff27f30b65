"""Fabric classes: how each kind of link carries collectives, one file a class, every number sourced.

A class is a generation of a fabric, never one machine. A tier that names none takes the class its
bandwidth and place point to (`default_class`); tiers inside a server are never a network.
"""

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from models.errors import UnknownEntry
from models.hardware import Cluster, Tier
from models.link import LinkClass

BY_BANDWIDTH: tuple[tuple[float, str], ...] = (
    (6e11, "nvswitch-b200"),
    (3.5e11, "nvswitch-h100"),
    (1e11, "nvswitch-a100"),
    (0.0, "pcie"),
)
"""Class of an innermost tier by the least bandwidth of one GPU. [B/s]"""
SLOWEST_RACK = 1e11
"""A first tier of several servers is their network where it gives a GPU less. [B/s]"""
RACK = 16
"""An innermost tier of more GPUs is a rack's fabric. [1]"""


def links(cluster: Cluster) -> tuple[LinkClass, ...]:
    """Constants of each tier of a cluster, innermost first.

    >>> from models.catalogue import loader
    >>> links(loader.cluster("mi300x-8x400g"))[0].mesh
    True
    """
    return tuple(link_class(name) for name in class_names(cluster.tiers, cluster.gpus_per_node))


def class_names(tiers: Sequence[Tier], gpus_per_node: int) -> tuple[str, ...]:
    """Fabric class of each tier, stated or derived.

    >>> pair = Tier(name="pair", gpus=2, bandwidth_bytes_per_s=3e11)
    >>> bus = Tier(name="bus", gpus=8, bandwidth_bytes_per_s=2.5e10)
    >>> class_names([pair, bus, Tier(name="network", bandwidth_bytes_per_s=3e9)], gpus_per_node=8)
    ('nvswitch-a100', 'pcie', 'infiniband')
    """
    return tuple(
        tier.collective or default_class(tier, _is_inner(tier, place, gpus_per_node))
        for place, tier in enumerate(tiers)
    )


def link_class(name: str, field: str = "/cluster/tiers/collective") -> LinkClass:
    """Return a fabric class by its name, or raise UnknownEntry at `field`.

    >>> link_class("pcie").multicast_fraction is None
    True
    """
    if name not in link_class_names():
        raise UnknownEntry.among(field, name, link_class_names())
    return LinkClass.model_validate({k: v for k, v in _table(name).items() if k != "sources"})


@cache
def link_class_names() -> tuple[str, ...]:
    """Names of the fabric classes, sorted."""
    folder = files("models.catalogue") / "collectives"
    return tuple(sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")))


def link_sources(name: str) -> dict[str, str]:
    """Where each constant of a class comes from."""
    return dict(_table(name)["sources"])


def default_class(tier: Tier, innermost: bool) -> str:
    """Class of a tier that names none: by bandwidth inside a server or a rack, else `infiniband`.

    >>> default_class(Tier(name="nvlink", gpus=8, bandwidth_bytes_per_s=4.5e11), innermost=True)
    'nvswitch-h100'
    """
    if not innermost:
        return "infiniband"
    found = next(name for least, name in BY_BANDWIDTH if tier.bandwidth_bytes_per_s >= least)
    large = tier.gpus is not None and tier.gpus > RACK
    return "nvl72" if found == "nvswitch-b200" and large else found


def _is_inner(tier: Tier, place: int, gpus_per_node: int) -> bool:
    """Whether a tier lies inside servers, or is a first one that joins them at an NVLink's pace."""
    if tier.gpus is not None and tier.gpus <= gpus_per_node:
        return True
    return place == 0 and tier.bandwidth_bytes_per_s >= SLOWEST_RACK


@cache
def _table(name: str) -> dict[str, dict[str, str]]:
    return tomllib.loads((files("models.catalogue") / "collectives" / f"{name}.toml").read_text("utf-8"))
