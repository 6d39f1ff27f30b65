"""From ranked rows to the answer callers see."""

from importlib.metadata import PackageNotFoundError, version

from models.catalogue import Resolved
from models.cost import candidate
from models.cost.setting import Setting
from models.cost.stages import balanced_split
from models.cost.table import LayoutTable
from models.estimate import Assumption, Candidate, RankedCandidate, Version
from models.layout import LAUNCHABLE_ORDERS, Layout
from models.request import SearchRequest
from search import derive
from search.best import Kept
from search.domains import Order
from search.orders import FACTS, facts_of, groups_key
from search.problem import Problem
from search.score import Score


def shortlist(problem: Problem, best: Kept | None, scored: Score) -> tuple[RankedCandidate, ...]:
    """Return the ranked rows as full reports."""
    if best is None:
        return ()
    return tuple(
        RankedCandidate(
            **dict(priced(layout_of(problem, best.table, row), problem.setting)),
            rank=row + 1,
            variants=int(scored.fit_of_shape[best.shape[row]]) - 1,
        )
        for row in range(len(best.table))
    )


def layout_of(problem: Problem, table: LayoutTable, row: int) -> Layout:
    """Return one row as a layout, its layers split evenly over the chunks."""
    setting = problem.setting
    chunks = int(table.pp[row] * table.vpp[row])
    split = balanced_split(setting.architecture.layers, chunks)
    return table.layout(row, setting.workload.global_batch, split)


def priced(layout: Layout, setting: Setting) -> Candidate:
    """Return the full report of a layout, with a warning where no stock launcher starts it."""
    report = candidate(layout, setting)
    if launchable(layout, moe=setting.architecture.moe is not None):
        return report
    order = "-".join(layout.rank_order)
    warning = f"No stock launcher starts the rank order {order}: the ranks must be placed by a hostfile."
    return report.model_copy(update={"warnings": (*report.warnings, warning)})


def launchable(layout: Layout, *, moe: bool) -> bool:
    """Whether a stock launcher makes the same groups."""
    facts = facts_of(0) | {name: getattr(layout, name) > 1 for name in FACTS if "=" not in name}

    def key(order: Order) -> tuple[Order, Order]:
        return groups_key(order, facts, moe)

    return key(layout.rank_order) in {key(order) for order in LAUNCHABLE_ORDERS}


def assumptions(request: SearchRequest, resolved: Resolved, problem: Problem) -> tuple[Assumption, ...]:
    """Return every default that moved the answer: the question's, the space's, the derived knobs."""
    return (
        *resolved.assumptions,
        *_caps(problem),
        *_tried(request, problem),
        *derive.assumptions(request.constraints),
    )


def _caps(problem: Problem) -> list[Assumption]:
    """Caps on degrees that leave something out."""
    return [
        Assumption(
            field=f"/constraints/{name}",
            value={"max": cap},
            why=f"rule {name}_cap: larger degrees are tried only when {name} is constrained",
        )
        for name, cap in problem.caps.items()
        if max(getattr(problem.domains, name), default=1) > cap
    ]


def _tried(request: SearchRequest, problem: Problem) -> list[Assumption]:
    """Values the search tries of knobs that have more."""
    constraints, domains = request.constraints, problem.domains
    found: dict[str, object] = {
        "vpp": list(domains.vpp),
        "micro_batch": list(domains.micro_batch),
        "etp": [1, "tp"],
        "rank_orders": "launchable",
    }
    silent = {
        "vpp": constraints.vpp is None,
        "micro_batch": constraints.micro_batch is None,
        "etp": constraints.etp is None and problem.setting.architecture.moe is not None,
        "rank_orders": "rank_orders" not in constraints.model_fields_set and constraints.rank_order is None,
    }
    return [
        Assumption(field=f"/constraints/{name}", value=value, why="values the search tries by itself")
        for name, value in found.items()
        if silent[name]
    ]


def versions(setting: Setting) -> Version:
    """Return what computed an answer."""
    try:
        service = version("layout-search")
    except PackageNotFoundError:
        service = "unreleased"
    return Version(service=service, cost_model=setting.profile.version)
