"""What is known by name: architectures, GPUs and clusters; and how a request becomes objects."""

from models.catalogue.loader import (
    architecture,
    architecture_names,
    cluster,
    cluster_names,
    gpu,
    gpu_names,
    sources,
)
from models.catalogue.resolve import Resolved, length_warnings, resolve

__all__ = [
    "Resolved",
    "architecture",
    "architecture_names",
    "cluster",
    "cluster_names",
    "gpu",
    "gpu_names",
    "length_warnings",
    "resolve",
    "sources",
]
