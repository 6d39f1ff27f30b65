"""One search, resolved: what the rules, the solver and the expansion read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.catalogue import Resolved
from models.catalogue.collective_constants import links
from models.catalogue.framework_memory import framework
from models.cost.setting import Setting
from models.cost.table import CODES, SHARED, IntVector, LayoutTable
from models.layout import LayoutChoice
from models.request import Constraints, EvaluateRequest, SearchRequest
from models.stack import Stack
from search import derive
from search.domains import Domains, domains
from search.orders import patterns

LARGEST_DEGREE = 64
"""Cap on tp and cp where the caller says nothing: no published run goes beyond it."""


@dataclass(frozen=True)
class Problem:
    """The question in the solver's words."""

    setting: Setting
    domains: Domains
    pins: derive.Pins
    """Derived knobs the caller fixed."""
    shared: Mapping[str, Any]
    """Knobs that are one for all layouts (`models.cost.table.SHARED`), as the caller fixed them."""
    caps: dict[str, int]
    """Largest degree of the axes the caller left free."""
    forbidden: tuple[LayoutChoice, ...]
    """Partial layouts to leave out."""


@dataclass(frozen=True)
class Degrees:
    """N tuples of degrees in canonical order (tp, cp, pp, dp, ep, etp), a column a degree."""

    tp: IntVector
    cp: IntVector
    pp: IntVector
    dp: IntVector
    ep: IntVector
    etp: IntVector

    def __len__(self) -> int:
        """Return N."""
        return len(self.tp)

    @property
    def pattern(self) -> IntVector:
        """What decides which rank orders differ, shape (N,)."""
        return patterns(self.tp, self.cp, self.pp, self.dp, self.etp, self.ep)

    def take(self, rows: IntVector) -> "Degrees":
        """Return the chosen rows."""
        return Degrees(*(getattr(self, name)[rows] for name in DEGREES))


DEGREES = ("tp", "cp", "pp", "dp", "ep", "etp")


def setting_of(request: SearchRequest | EvaluateRequest, resolved: Resolved) -> Setting:
    """Return what every layout of a request is priced under."""
    return Setting(
        architecture=resolved.architecture,
        cluster=resolved.cluster,
        gpus=resolved.gpus,
        workload=resolved.workload,
        profile=resolved.profile,
        memory_limit_bytes=resolved.memory_limit_bytes,
        links=links(resolved.cluster),
        framework=framework(request.framework),
        stack=Stack.of(request.stack, resolved.cluster.gpu.generation),
    )


def problem_of(request: SearchRequest, resolved: Resolved) -> Problem:
    """Return the problem a request poses."""
    constraints = request.constraints
    free = [name for name in ("tp", "cp") if getattr(constraints, name) is None]
    return Problem(
        setting=setting_of(request, resolved),
        domains=domains(constraints, resolved),
        pins=pins_of(constraints),
        shared=shared_of(constraints) | _stated_split(constraints),
        caps=dict.fromkeys(free, LARGEST_DEGREE),
        forbidden=constraints.forbid,
    )


def cells_to_table(
    problem: Problem,
    degrees: Degrees,
    zero: IntVector,
    schedule: IntVector,
    vpp: IntVector,
    micro_batch: IntVector,
    recompute: IntVector,
) -> LayoutTable:
    """Return layouts as the cost model reads them, the derived knobs filled in; orders are added later."""
    nothing = np.zeros(len(degrees), dtype=np.int64)
    columns: dict[str, Any] = {name: getattr(degrees, name) for name in DEGREES}
    columns |= derive.columns(problem.pins, degrees.tp, degrees.pp, zero, schedule)
    return LayoutTable(
        **columns,
        zero=zero,
        schedule=schedule,
        vpp=vpp,
        micro_batch=micro_batch,
        recompute=recompute,
        order=nothing,
        orders=problem.domains.orders,
        **problem.shared,
    )


def shared_of(stated: Constraints | LayoutChoice) -> dict[str, Any]:
    """Return the knobs that are one for all layouts, where the caller fixed them; the split aside."""
    values = {name: getattr(stated, name, None) for name in SHARED if name != "stage_layers"}
    return {name: value for name, value in values.items() if value is not None}


def _stated_split(constraints: Constraints) -> dict[str, Any]:
    return {} if constraints.stage_layers is None else {"stage_layers": constraints.stage_layers}


def pins_of(constraints: Constraints | LayoutChoice) -> derive.Pins:
    """Return the derived knobs a caller fixed, names as codes."""
    values = {name: getattr(constraints, name) for name in derive.KNOBS}
    return {
        name: CODES[name].index(value) if name in CODES else int(value)
        for name, value in values.items()
        if value is not None
    }
