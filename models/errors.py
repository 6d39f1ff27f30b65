"""Every exception we raise on purpose.

* LayoutError
  - InvalidField   a value the caller can correct
  - UnknownEntry   a name no catalogue holds

Infeasible and out of time are answers, not exceptions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from models.nearest import nearest


@dataclass(frozen=True)
class Fault:
    """One thing wrong, and what to do about it."""

    field: str
    """JSON pointer into the request, e.g. "/workload/global_batch"."""
    value: Any
    """What we were given."""
    reason: str
    """The rule it breaks, numbers included."""
    fix: str
    """A value or an action that would be accepted."""


class LayoutError(Exception):
    """Base of the family; carries one or more faults."""

    def __init__(self, *faults: Fault) -> None:
        """Render every fault, so a traceback reads like an answer."""
        super().__init__("; ".join(f"{f.field} = {f.value!r}: {f.reason}. {f.fix}" for f in faults))
        self.faults = faults


class InvalidField(LayoutError):
    """A value the caller can correct."""


class UnknownEntry(LayoutError):
    """A name no catalogue holds."""

    @classmethod
    def among(cls, field: str, name: str, known: Sequence[str]) -> "UnknownEntry":
        """Build the error with the nearest known name as its fix.

        >>> raise UnknownEntry.among("/cluster/gpu", "h100-smx", ["a100-sxm", "h100-sxm"])
        Traceback (most recent call last):
        models.errors.UnknownEntry: /cluster/gpu = 'h100-smx': not one of 2 known names. Try 'h100-sxm'.
        """
        near = nearest(name, known)
        fix = f"Try {near!r}." if near else f"Known: {', '.join(sorted(known))}."
        return cls(Fault(field, name, f"not one of {len(known)} known names", fix))
