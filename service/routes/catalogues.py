"""What is known by name: models, GPUs and clusters, each number with its source."""

from typing import Annotated

from fastapi import APIRouter, Body, HTTPException, Query, Request

from models import catalogue
from models.base import Schema, SequenceLength
from models.hardware import Cluster, Gpu
from service.architectures import DEFAULT_LENGTH, ModelEntry, Models, model_entries, model_entry
from service.examples import shown_at
from service.importing import ImportedModel, ImportRequest, import_architecture
from service.openapi import BODY_PROBLEMS, NAME_PROBLEMS, problems
from service.route import JsonRoute
from service.routes.answers import UNREAD

router = APIRouter(prefix="/v1", tags=["catalogues"], route_class=JsonRoute)

Length = Annotated[
    SequenceLength,
    UNREAD,
    Query(description="Tokens of the sequence that the FLOPs of a token are told for."),
]


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


class Gpus(Schema):
    """Every GPU the catalogue holds."""

    gpus: tuple[GpuEntry, ...]


class Clusters(Schema):
    """Every cluster the catalogue holds."""

    clusters: tuple[ClusterEntry, ...]


def asked(request: Request) -> dict[str, str | list[str]]:
    """The parameters of a query; of one said twice every value, so that none is silently dropped."""
    query = request.query_params
    every = {name: query.getlist(name) for name in query}
    return {name: values if len(values) > 1 else values[0] for name, values in every.items()}


def gpu_entry(name: str) -> GpuEntry:
    """Look up a GPU."""
    return GpuEntry(name=name, gpu=catalogue.gpu(name, "name"), sources=catalogue.sources("gpus", name))


def cluster_entry(name: str) -> ClusterEntry:
    """Look up a cluster."""
    found = catalogue.cluster(name, "name")
    return ClusterEntry(name=name, cluster=found, sources=catalogue.sources("clusters", name))


@router.get("/models", responses=problems(422))
def list_models(request: Request, sequence_length: Length = DEFAULT_LENGTH) -> Models:
    """Every architecture known by name, with exact parameter counts and the FLOPs of a token."""
    return model_entries(asked(request))


@router.post("/models/import", responses=BODY_PROBLEMS)
def import_model(
    question: Annotated[ImportRequest, UNREAD, Body(openapi_examples=shown_at("/v1/models/import"))],
    request: Request,
    sequence_length: Length = DEFAULT_LENGTH,
) -> ImportedModel:
    """Read a Hugging Face `config.json`: the architecture it became, told as the catalogue tells one.

    `assumptions` holds every value the file left to its family, `warnings` what the file says and
    we do not model. Every fault of the file is told at once. A search takes the same object as its
    `model`.
    """
    return import_architecture(question, asked(request))


@router.get("/models/import", include_in_schema=False)
def refuse_import() -> None:
    """Keep "import" from being taken for a name."""
    raise HTTPException(405, headers={"Allow": "POST"})


@router.get("/models/{name}", responses=NAME_PROBLEMS)
def show_model(name: str, request: Request, sequence_length: Length = DEFAULT_LENGTH) -> ModelEntry:
    """One architecture: exact parameter counts by part, FLOPs of a token, the source of every number."""
    return model_entry(name, asked(request))


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
