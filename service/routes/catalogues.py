"""What is known by name: models, GPUs and clusters, each number with its source."""

from fastapi import APIRouter

from models import catalogue
from models.architecture import Architecture
from models.base import Schema
from models.cost.parameters import ParameterCounts, count_parameters
from models.hardware import Cluster, Gpu
from service.openapi import NAME_PROBLEMS

router = APIRouter(prefix="/v1", tags=["catalogues"])


class ModelEntry(Schema):
    """An architecture the catalogue holds."""

    name: str
    architecture: Architecture
    parameters: ParameterCounts
    """Exact counts, by part."""
    sources: dict[str, str]
    """Where each number comes from; `all` speaks for the fields not named."""


class GpuEntry(Schema):
    """A GPU the catalogue holds."""

    name: str
    gpu: Gpu
    sources: dict[str, str]
    """Where each number comes from; `all` speaks for the fields not named."""


class ClusterEntry(Schema):
    """A cluster the catalogue holds."""

    name: str
    cluster: Cluster
    sources: dict[str, str]
    """Where each number comes from; `all` speaks for the fields not named."""


class Models(Schema):
    """Every architecture the catalogue holds."""

    models: tuple[ModelEntry, ...]


class Gpus(Schema):
    """Every GPU the catalogue holds."""

    gpus: tuple[GpuEntry, ...]


class Clusters(Schema):
    """Every cluster the catalogue holds."""

    clusters: tuple[ClusterEntry, ...]


def model_entry(name: str) -> ModelEntry:
    """Look up an architecture and count its parameters."""
    found = catalogue.architecture(name, "name")
    return ModelEntry(
        name=name,
        architecture=found,
        parameters=count_parameters(found),
        sources=catalogue.sources("architectures", name),
    )


def gpu_entry(name: str) -> GpuEntry:
    """Look up a GPU."""
    return GpuEntry(name=name, gpu=catalogue.gpu(name, "name"), sources=catalogue.sources("gpus", name))


def cluster_entry(name: str) -> ClusterEntry:
    """Look up a cluster."""
    found = catalogue.cluster(name, "name")
    return ClusterEntry(name=name, cluster=found, sources=catalogue.sources("clusters", name))


@router.get("/models")
def list_models() -> Models:
    """Every architecture known by name, with exact parameter counts."""
    return Models(models=tuple(map(model_entry, catalogue.architecture_names())))


@router.get("/models/{name}", responses=NAME_PROBLEMS)
def show_model(name: str) -> ModelEntry:
    """One architecture, its exact parameter counts by part, and the source of every number."""
    return model_entry(name)


@router.get("/gpus")
def list_gpus() -> Gpus:
    """Every GPU known by name."""
    return Gpus(gpus=tuple(map(gpu_entry, catalogue.gpu_names())))


@router.get("/gpus/{name}", responses=NAME_PROBLEMS)
def show_gpu(name: str) -> GpuEntry:
    """One GPU: memory, rates, and the source of every number."""
    return gpu_entry(name)


@router.get("/clusters")
def list_clusters() -> Clusters:
    """Every cluster known by name."""
    return Clusters(clusters=tuple(map(cluster_entry, catalogue.cluster_names())))


@router.get("/clusters/{name}", responses=NAME_PROBLEMS)
def show_cluster(name: str) -> ClusterEntry:
    """One cluster: its GPU, its fabric tiers from the innermost out, and the source of every number."""
    return cluster_entry(name)
