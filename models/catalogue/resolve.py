"""From a request, with its names and defaults, to the objects search and cost work on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from models.architecture import Architecture
from models.catalogue import loader
from models.catalogue.adapted import resolve_profile
from models.catalogue.fabric import partly_filled, resolve_cluster, stretched
from models.catalogue.software import (
    machine_faults,
    recipe_faults,
    share_faults,
    stack_defaults,
    stack_faults,
)
from models.catalogue.training import precision_faults, resolve_workload
from models.errors import Fault, InvalidField, LayoutError, UnknownEntry
from models.estimate import Assumption
from models.hardware import Cluster
from models.huggingface import read_config
from models.profile import Profile
from models.request import EvaluateRequest, SearchRequest
from models.workload import Workload

Part = TypeVar("Part")


@dataclass(frozen=True)
class Resolved:
    """A request with every name looked up and every default filled in."""

    architecture: Architecture
    cluster: Cluster
    gpus: int
    workload: Workload
    profile: Profile
    """Coefficients of the cost model, adapted to the caller's own runs where there are any."""
    memory_limit_bytes: int
    """What a GPU may use: the limit less the reserve. [B]"""
    assumptions: tuple[Assumption, ...]
    """Every default that moved the answer."""
    warnings: tuple[str, ...]
    """What is not modelled, or looks unlike what was meant."""


def resolve(request: SearchRequest | EvaluateRequest) -> Resolved:
    """Look up every name, fill in every default, and tell all faults at once.

    Raises
    ------
    UnknownEntry
        When unknown names are all that is wrong.
    InvalidField
        Otherwise.
    """
    errors: list[LayoutError] = []
    model = _attempt(errors, lambda: resolve_architecture(request.model))
    cluster = _attempt(errors, lambda: resolve_cluster(request.cluster, request.gpus))
    hidden = model[0].hidden if model else 1
    workload = _attempt(errors, lambda: resolve_workload(request.workload, request.profile, hidden))
    profile = _attempt(errors, lambda: resolve_profile(request, cluster[0].gpu if cluster else None))
    if cluster is not None:
        inline = not isinstance(request.cluster, str) and not isinstance(request.cluster.gpu, str)
        faults = precision_faults(request.workload.precision, cluster[0].gpu, inline=inline)
        faults += memory_faults(request, cluster[0])
        errors += [InvalidField(*faults)] if faults else []
    card = cluster[0].gpu if cluster is not None else None
    found = recipe_faults(request.stack, request.workload.precision, card) + share_faults(request.stack)
    found += stack_faults(request.stack, model[0]) if model is not None else []
    found += machine_faults(request.stack, cluster[0].gpu) if cluster is not None else []
    errors += [InvalidField(*found)] if found else []
    if errors or model is None or cluster is None or workload is None or profile is None:
        raise combined(errors)
    return _resolved(request, model, cluster, workload, profile)


def combined(errors: list[LayoutError]) -> LayoutError:
    """One error with the faults of all; of unknown names only where nothing else is wrong."""
    faults = [fault for error in errors for fault in error.faults]
    family = UnknownEntry if all(isinstance(error, UnknownEntry) for error in errors) else InvalidField
    return family(*faults)


def resolve_architecture(
    stated: str | dict[str, Any], field: str = "/model"
) -> tuple[Architecture, tuple[Assumption, ...], tuple[str, ...]]:
    """Return the architecture with what was assumed and what to warn of; stated by name, file or fields."""
    if isinstance(stated, str):
        return loader.architecture(stated, field), (), ()
    if "hf_config" in stated:
        beside = [key for key in stated if key != "hf_config"]
        faults = [
            Fault(f"{field}/{key}", stated[key], "nothing stands beside hf_config", "Leave it out.")
            for key in beside
        ]
        config, field = stated["hf_config"], f"{field}/hf_config"
        if not isinstance(config, dict):
            faults.append(Fault(field, config, "a config.json is an object", "Send the file's content."))
        if faults:
            raise InvalidField(*faults)
    else:
        config = stated
    reading = read_config(config, field)
    assumptions = tuple(Assumption(field=f, value=v, why=why) for f, v, why in reading.defaults)
    return reading.architecture, assumptions, tuple(reading.warnings)


def memory_faults(request: SearchRequest | EvaluateRequest, cluster: Cluster) -> list[Fault]:
    """Check that the reserve leaves something of the limit."""
    limit, reserve, prefix = _memory(request, cluster)
    if limit > reserve:
        return []
    reason = f"nothing is left of a limit of {limit} bytes"
    return [Fault(f"{prefix}/memory_reserve_bytes", reserve, reason, "Reserve less than the limit.")]


def _resolved(
    request: SearchRequest | EvaluateRequest,
    model: tuple[Architecture, tuple[Assumption, ...], tuple[str, ...]],
    cluster: tuple[Cluster, tuple[Assumption, ...]],
    workload: tuple[Workload, tuple[Assumption, ...]],
    profile: tuple[Profile, tuple[Assumption, ...], tuple[str, ...]],
) -> Resolved:
    limit, reserve, _ = _memory(request, cluster[0])
    return Resolved(
        architecture=model[0],
        cluster=cluster[0],
        gpus=request.gpus,
        workload=workload[0],
        profile=profile[0],
        memory_limit_bytes=limit - reserve,
        assumptions=(
            *model[1],
            *cluster[1],
            *workload[1],
            *_own_defaults(request, cluster[0], model[0]),
            *profile[1],
        ),
        warnings=(
            *model[2],
            *profile[2],
            *stretched(request.cluster, request.gpus),
            *partly_filled(cluster[0], request.gpus),
            *_limit_warnings(limit, cluster[0]),
            *length_warnings(model[0], workload[0].sequence_length),
        ),
    )


def _memory(request: SearchRequest | EvaluateRequest, cluster: Cluster) -> tuple[int, int, str]:
    """Limit and reserve, and the pointer both stand under. [B]."""
    holder, prefix = (
        (request.constraints, "/constraints") if isinstance(request, SearchRequest) else (request, "")
    )
    stated = holder.memory_limit_bytes
    return cluster.gpu.memory_bytes if stated is None else stated, holder.memory_reserve_bytes, prefix


def _own_defaults(
    request: SearchRequest | EvaluateRequest, cluster: Cluster, architecture: Architecture
) -> tuple[Assumption, ...]:
    limit, _, prefix = _memory(request, cluster)
    holder = request.constraints if isinstance(request, SearchRequest) else request
    assumptions = [
        Assumption(field=f"/{name}", value=getattr(request, name), why="default")
        for name in ("profile", "framework")
        if name not in request.model_fields_set
    ]
    assumptions += stack_defaults(request.stack, architecture, request.workload.precision, cluster.gpu)
    if holder.memory_limit_bytes is None:
        why = "the GPU's label in decimal bytes"
        assumptions.append(Assumption(field=f"{prefix}/memory_limit_bytes", value=limit, why=why))
    return tuple(assumptions)


def _limit_warnings(limit: int, cluster: Cluster) -> tuple[str, ...]:
    usable = cluster.gpu.usable_memory_bytes
    if limit <= usable:
        return ()
    return (f"The memory limit of {limit} bytes is above the {usable} a process can allocate.",)


def length_warnings(architecture: Architecture, length: int) -> tuple[str, ...]:
    """Warn of a sequence of more tokens than the architecture was made for, where that is known."""
    known = architecture.max_positions or architecture.learned_positions
    if not known or length <= known:
        return ()
    return (f"A sequence of {length} tokens is longer than the {known} {architecture.name} was made for.",)


def _attempt(errors: list[LayoutError], part: Callable[[], Part]) -> Part | None:
    try:
        return part()
    except LayoutError as error:
        errors.append(error)
        return None
