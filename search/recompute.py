"""Whether what a caller says of recompute agrees with itself and with the architecture."""

from models.architecture import Architecture
from models.errors import Fault
from models.layout import LayoutChoice
from models.request import Constraints

FOR_EXPERTS = frozenset({"moe", "moe_act", "shared_experts"})
FOR_LATENT_ATTENTION = frozenset({"mla_up_proj"})


def recompute_faults(constraints: Constraints, architecture: Architecture) -> list[Fault]:
    """Return every contradiction: an extent of a kind that is not tried, modules that do not exist."""
    stated = constraints.recompute
    kinds = {stated} if isinstance(stated, str) else set(stated or ("none", "selective", "full"))
    layers, modules = constraints.recompute_layers, constraints.recompute_modules
    faults = []
    if layers is not None and (modules is not None or "full" not in kinds):
        reason = "it says how far full recompute goes, and full recompute is not tried"
        faults.append(Fault("/constraints/recompute_layers", layers, reason, "Allow recompute full alone."))
    if modules is not None and "selective" not in kinds:
        reason = "it says what selective recompute covers, and selective recompute is not tried"
        faults.append(
            Fault("/constraints/recompute_modules", list(modules), reason, "Allow recompute selective.")
        )
    absent = absent_modules(modules or (), architecture)
    if absent:
        reason = f"{architecture.name} has no {', '.join(absent)}"
        faults.append(Fault("/constraints/recompute_modules", list(modules or ()), reason, "Leave them out."))
    return faults


def absent_modules(modules: tuple[str, ...], architecture: Architecture) -> list[str]:
    """Return the modules that the architecture's layers do not have."""
    missing = frozenset() if architecture.moe else FOR_EXPERTS
    missing |= frozenset() if architecture.mla else FOR_LATENT_ATTENTION
    return sorted(missing & set(modules))


def stage_recompute_faults(
    choice: LayoutChoice, split: tuple[int, ...] | None, predicted: int
) -> list[Fault]:
    """Return what is wrong with the recomputed layers of each chunk.

    Parameters
    ----------
    split
        Layers of each chunk, where they are known.
    predicted
        Layers of multi-token prediction behind the last chunk's.
    """
    stated = choice.recompute_stage_layers
    if stated is None:
        return []
    field = "/layout/recompute_stage_layers"
    faults = []
    if choice.recompute_layers is not None:
        reason = "recompute_layers says already how many layers of each stage are recomputed"
        faults.append(Fault(field, list(stated), reason, "Leave one of the two out."))
    if split is None:
        return faults
    most = [*split[:-1], split[-1] + predicted]
    fix = f"Give each of the {len(most)} chunks a number, at most {most}."
    if len(stated) != len(most):
        reason = f"{len(stated)} numbers for pp * vpp = {len(most)} chunks"
        return [*faults, Fault(field, list(stated), reason, fix)]
    over = [chunk for chunk, (again, held) in enumerate(zip(stated, most, strict=True)) if again > held]
    if over:
        first = over[0]
        reason = f"chunk {first} is to recompute {stated[first]} layers, and has {most[first]}"
        faults.append(Fault(field, list(stated), reason, fix))
    return faults
