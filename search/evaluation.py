"""Price one layout and tell every rule it breaks."""

from models.catalogue import Resolved
from models.cost.splits import balanced_split
from models.cost.table import CODES
from models.errors import InvalidField
from models.estimate import Assumption, EvaluateAnswer
from models.layout import LAUNCHABLE_ORDERS, SCHEDULES, Layout, StatedLayout
from models.request import EvaluateRequest
from search import derive
from search.answer import node_facts, priced, versions
from search.case import Case
from search.check import broken_rules
from search.problem import pins_of, setting_of, shared_of
from search.stated import Knobs, following, layout_faults


def evaluate(request: EvaluateRequest, resolved: Resolved) -> EvaluateAnswer:
    """Return what a layout costs and every rule it breaks; what is left out takes its default, told.

    Raises
    ------
    InvalidField
        With every fault that leaves the figures without a meaning.
    """
    setting = setting_of(request, resolved)
    layout = whole_layout(request, resolved)
    return EvaluateAnswer(
        candidate=priced(layout, setting).model_copy(update=node_facts(layout, setting)),
        broken_rules=tuple(broken_rules(Case(layout, setting))),
        assumptions=(*resolved.assumptions, *knob_assumptions(request.layout, layout)),
        warnings=resolved.warnings,
        version=versions(setting),
    )


def whole_layout(request: EvaluateRequest, resolved: Resolved) -> Layout:
    """Return the layout a request states, what it leaves out at its default.

    Raises
    ------
    InvalidField
        With every fault that leaves the figures without a meaning.
    """
    knobs = completed(request.layout, resolved.gpus)
    faults = layout_faults(request, knobs, resolved)
    if faults:
        raise InvalidField(*faults)
    return finished(request.layout, knobs, resolved)


def completed(choice: StatedLayout, gpus: int) -> Knobs:
    """Return the searched knobs of a layout, those left out at their defaults."""
    knobs: Knobs = {
        name: getattr(choice, name) or 1 for name in ("tp", "cp", "pp", "ep", "etp", "vpp", "micro_batch")
    }
    knobs["dp"] = choice.dp or max(1, gpus // (knobs["tp"] * knobs["cp"] * knobs["pp"]))
    knobs["zero"] = 1 if choice.zero is None else choice.zero
    if choice.vpp is None and choice.schedule in ("interleaved", "zb-v", "dualpipe-v"):
        knobs["vpp"] = 2
    pipelined = "interleaved" if knobs["vpp"] > 1 else "1f1b"
    knobs["schedule"] = choice.schedule or ("none" if knobs["pp"] == 1 else pipelined)
    whole = choice.recompute_layers or choice.recompute_stage_layers
    named = "full" if whole else "selective" if choice.recompute_modules else "none"
    knobs["recompute"] = choice.recompute or named
    knobs["rank_order"] = choice.rank_order or LAUNCHABLE_ORDERS[0]
    return knobs


def finished(choice: StatedLayout, knobs: Knobs, resolved: Resolved) -> Layout:
    """Return the layout with its derived knobs and what follows from all of them."""
    pinned, schedule = pins_of(choice), SCHEDULES.index(knobs["schedule"])
    column = derive.one_row(pinned, knobs["tp"], knobs["pp"], knobs["zero"], schedule)
    derived = {name: CODES[name][value] if name in CODES else value for name, value in column.items()}
    derived |= {name: bool(derived[name]) for name in ("sequence_parallel", "tp_overlap", "dp_overlap")}
    layers = resolved.architecture.layers
    return Layout(
        **knobs,
        **derived,
        **shared_of(choice),
        **following(knobs, resolved.workload.global_batch),
        stage_layers=choice.stage_layers or balanced_split(layers, knobs["pp"] * knobs["vpp"]),
    )


def knob_assumptions(choice: StatedLayout, layout: Layout) -> tuple[Assumption, ...]:
    """Return every knob the caller left out, told at the value it took."""
    searched = (
        "tp",
        "cp",
        "pp",
        "vpp",
        "dp",
        "ep",
        "etp",
        "zero",
        "schedule",
        "micro_batch",
        "recompute",
        "rank_order",
    )
    told = [
        Assumption(field=f"/layout/{name}", value=getattr(layout, name), why="default")
        for name in searched
        if getattr(choice, name) is None
    ]
    derived = [
        assumption.model_copy(update={"value": getattr(layout, assumption.field.rpartition("/")[2])})
        for assumption in derive.assumptions(choice)
    ]
    return (*told, *derived)
