"""Whether what a caller says of recompute agrees with itself and with the architecture."""

from models.architecture import Architecture
from models.errors import Fault
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
