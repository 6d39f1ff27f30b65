"""Whether what a caller says of experts means something for the architecture."""

from models.architecture import Architecture
from models.errors import Fault
from models.request import Constraints
from search.domains import accepts

DEGREES = ("ep", "etp")
"""Degrees that only experts have; without any they are 1."""


def no_experts(field: str, value: object) -> Fault:
    """Return what is wrong with a degree of experts where there are none."""
    return Fault(field, value, "the architecture has no experts", "Leave it out, or let it be 1.")


def expert_faults(constraints: Constraints, architecture: Architecture) -> list[Fault]:
    """Return every constraint on experts that an architecture without them cannot keep."""
    if architecture.moe is not None:
        return []
    held = {name: getattr(constraints, name) for name in DEGREES}
    return [
        no_experts(f"/constraints/{name}", choice) for name, choice in held.items() if not accepts(choice, 1)
    ]
