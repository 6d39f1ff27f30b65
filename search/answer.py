"""From ranked rows to the answer callers see."""

from importlib.metadata import PackageNotFoundError, version

from models.catalogue import Resolved
from models.catalogue.schedules import offered_by, schedule_source
from models.cost import candidate
from models.cost.pipeline.split_ways import megatron_ways, torchtitan_ways
from models.cost.setting import Setting
from models.cost.splits import balanced_split
from models.cost.table import LayoutTable
from models.cost.traffic.node_out import busiest_node
from models.estimate import Assumption, Candidate, Pipeline, RankedCandidate, Version
from models.layout import Layout
from models.request import SearchRequest
from models.split import SplitReport, SplitWay
from search import derive
from search.host_order import host_order
from search.problem import Problem

PLACED = 24
"""Places whose layers are placed; those below keep the even split. [1]"""


def layout_of(problem: Problem, table: LayoutTable, row: int) -> Layout:
    """Return one row as a layout, its layers split as the request states or evenly over the chunks."""
    setting = problem.setting
    chunks = int(table.pp[row] * table.vpp[row])
    split = table.stage_layers or balanced_split(setting.architecture.layers, chunks)
    return table.layout(row, setting.workload.global_batch, split)


def priced(layout: Layout, setting: Setting, *, run: bool = True) -> Candidate:
    """Return the full report of a layout; how to start it where few or no stock launchers do as it is."""
    report = candidate(layout, setting, run=run)
    moe = setting.architecture.moe is not None
    placed, warnings = host_order(layout, setting.cluster.gpus_per_node, moe=moe), list(report.warnings)
    if placed is not None:
        order = "-".join(layout.rank_order)
        warnings.append(f"No stock launcher starts the rank order {order} by itself. {placed.note}")
    if layout.schedule in ("zb-h1", "zb-v", "dualpipe-v", "dualpipe"):
        warnings.append(_rare(layout.schedule))
    told = {"host_order": placed, "pipeline": _pipeline(report, setting), "warnings": tuple(warnings)}
    return report.model_copy(update=told)


def _pipeline(report: Candidate, setting: Setting) -> Pipeline | None:
    """The pipeline's figures with the ways to tell frameworks its split."""
    layout = report.layout
    if report.pipeline is None or layout.schedule == "none":
        return report.pipeline
    runs, split = offered_by(layout.schedule), layout.stage_layers
    how: list[SplitWay] = []
    if "megatron" in runs:
        how += megatron_ways(split, layout.pp, setting.mtp_layers)
    if "torchtitan" in runs and not setting.architecture.tied_embeddings:  # it refuses to part what is tied
        how += torchtitan_ways(split, layout.pp)
    return report.pipeline.model_copy(update={"split": SplitReport(how=tuple(how))})


def node_facts(layout: Layout, setting: Setting) -> dict[str, int | None]:
    """Return the fields of a candidate that tell of the busiest server."""
    node, out = busiest_node(layout, setting)
    return {"busiest_node": node if out else None, "busiest_node_sent_bytes": out}


def _rare(schedule: str) -> str:
    """Who runs a schedule that few frameworks do."""
    found = [f"{framework} ({name})" for framework, name in offered_by(schedule).items()]
    if not found:
        return f"No stock framework runs schedule {schedule}: {schedule_source(schedule)}."
    return f"Of the stock frameworks only {', '.join(found)} runs schedule {schedule}."


def assumptions(
    request: SearchRequest, resolved: Resolved, problem: Problem, places: tuple[RankedCandidate, ...]
) -> tuple[Assumption, ...]:
    """Return every default that moved the answer: the question's, the space's, the derived knobs."""
    return (
        *resolved.assumptions,
        *_caps(problem),
        *_tried(request, problem),
        *_tied(places),
        *_derived(request, problem),
        *_spared(places),
    )


def _derived(request: SearchRequest, problem: Problem) -> list[Assumption]:
    """Derived knobs; layers are placed anew for the places on the shortlist."""
    placed = {
        "value": "placed",
        "why": f"ranked in equal chunks, then the split of the shortest step, of the first {PLACED}",
    }
    fixed = problem.setting.profile.real_valued_stages or request.objective == "traffic"
    return [
        told.model_copy(update=placed) if told.field == "/layout/stage_layers" and not fixed else told
        for told in derive.assumptions(request.constraints)
    ]


def _spared(places: tuple[RankedCandidate, ...]) -> list[Assumption]:
    """How many layers of each chunk are recomputed, where a place leaves some alone."""
    if not any(place.layout.recompute_stage_layers for place in places):
        return []
    why = "derived: full recompute leaves alone the layers that each stage has room for"
    return [Assumption(field="/layout/recompute_stage_layers", value="fewest that fit", why=why)]


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


def _tied(places: tuple[RankedCandidate, ...]) -> list[Assumption]:
    """How rank orders that take the same time were told apart, where there are any."""
    if not any(place.ties for place in places):
        return []
    why = "tie-break: rank orders with the same step time (`ties`) stand in the order they are tried"
    order = "tp-cp-ep-dp-pp, tp-cp-ep-pp-dp, those that end in pp, the rest"
    return [Assumption(field="/layout/rank_order", value=order, why=why)]


def versions(setting: Setting) -> Version:
    """Return what computed an answer."""
    return Version(service=service_version(), cost_model=setting.profile.version)


def service_version() -> str:
    """Return the installed version of the package."""
    try:
        return version("layout-search")
    except PackageNotFoundError:
        return "unreleased"
