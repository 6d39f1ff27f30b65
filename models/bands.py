"""How far off a predicted step time may be, by what kind of run it is."""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from models.base import Schema

Kind = Literal["dense", "moe", "context_parallel", "unmeasured"]
"""`unmeasured`: a generation of GPUs, a precision on it or an attention kernel without measured runs."""
HalfWidth = Annotated[float, Field(gt=0, le=3, allow_inf_nan=False)]


class Bands(Schema):
    """Half-width of the band that holds nine in ten unseen runs, of the logarithm of the time. [1]."""

    dense: HalfWidth
    moe: HalfWidth
    context_parallel: HalfWidth
    unmeasured: HalfWidth
    own: tuple[Kind, ...] = ()
    """Kinds whose half-width runs of the caller's own have told."""

    def widest(self, kinds: Iterable[Kind]) -> float:
        """Return the half-width of a run that is of several kinds.

        >>> known = Bands(dense=0.1, moe=0.3, context_parallel=0.2, unmeasured=0.5)
        >>> known.widest(["moe", "context_parallel"])
        0.3
        """
        width: float = max(getattr(self, kind) for kind in kinds)
        return width
