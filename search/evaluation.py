"""Price one layout and tell every rule it breaks."""

from typing import Any

from models.architecture import Architecture
from models.catalogue import Resolved
from models.cost.stages import balanced_split
from models.cost.table import CODES
from models.errors import Fault, InvalidField
from models.estimate import Assumption, EvaluateAnswer
from models.layout import LAUNCHABLE_ORDERS, SCHEDULES, Layout, LayoutChoice
from models.request import EvaluateRequest
from search import derive
from search.answer import priced, versions
from search.case import Case
from search.check import broken_rules
from search.domains import divisors, is_order, order_fault
from search.problem import pins_of, setting_of, shared_of

Knobs = dict[str, Any]


def evaluate(request: EvaluateRequest, resolved: Resolved) -> EvaluateAnswer:
    """Return what a layout costs and every rule it breaks; what is left out takes its default, told.

    Raises
    ------
    InvalidField
        With every fault that leaves the figures without a meaning.
    """
    setting = setting_of(request, resolved)
    knobs = completed(request.layout, setting.gpus)
    faults = meaningless(request.layout, knobs, resolved)
    if faults:
        raise InvalidField(*faults)
    layout = finished(request.layout, knobs, resolved)
    return EvaluateAnswer(
        candidate=priced(layout, setting),
        broken_rules=tuple(broken_rules(Case(layout, setting))),
        assumptions=(*resolved.assumptions, *_assumptions(request.layout, layout)),
        version=versions(setting),
    )


def completed(choice: LayoutChoice, gpus: int) -> Knobs:
    """Return the searched knobs of a layout, those left out at their defaults."""
    knobs: Knobs = {
        name: getattr(choice, name) or 1 for name in ("tp", "cp", "pp", "ep", "etp", "vpp", "micro_batch")
    }
    knobs["dp"] = choice.dp or max(1, gpus // (knobs["tp"] * knobs["cp"] * knobs["pp"]))
    knobs["zero"] = 1 if choice.zero is None else choice.zero
    pipelined = "interleaved" if knobs["vpp"] > 1 else "1f1b"
    knobs["schedule"] = choice.schedule or ("none" if knobs["pp"] == 1 else pipelined)
    named = "full" if choice.recompute_layers else "selective" if choice.recompute_modules else "none"
    knobs["recompute"] = choice.recompute or named
    knobs["rank_order"] = choice.rank_order or LAUNCHABLE_ORDERS[0]
    return knobs


def finished(choice: LayoutChoice, knobs: Knobs, resolved: Resolved) -> Layout:
    """Return the layout with its derived knobs and what follows from all of them."""
    tp, cp, pp, dp = (knobs[name] for name in ("tp", "cp", "pp", "dp"))
    column = derive.one_row(pins_of(choice), tp, pp, knobs["zero"], SCHEDULES.index(knobs["schedule"]))
    derived = {name: CODES[name][value] if name in CODES else value for name, value in column.items()}
    derived |= {name: bool(derived[name]) for name in ("sequence_parallel", "tp_overlap", "dp_overlap")}
    layers = resolved.architecture.layers
    return Layout(
        **knobs,
        **derived,
        **shared_of(choice),
        edp=tp * cp * dp // (knobs["etp"] * knobs["ep"]),
        gpus=tp * cp * pp * dp,
        micro_batches=resolved.workload.global_batch // (knobs["micro_batch"] * dp),
        stage_layers=choice.stage_layers or balanced_split(layers, pp * knobs["vpp"]),
    )


def meaningless(choice: LayoutChoice, knobs: Knobs, resolved: Resolved) -> list[Fault]:
    """Return every fault that leaves the figures without a meaning."""
    faults = [] if is_order(knobs["rank_order"]) else [order_fault("/layout/rank_order", knobs["rank_order"])]
    faults += _grid_faults(knobs, resolved.gpus)
    faults += _batch_faults(knobs, resolved.workload.global_batch)
    faults += _layer_faults(choice, knobs, resolved.architecture)
    return faults + _expert_faults(knobs, resolved.architecture)


def _grid_faults(knobs: Knobs, gpus: int) -> list[Fault]:
    fixed = knobs["tp"] * knobs["cp"] * knobs["pp"]
    if fixed * knobs["dp"] == gpus:
        return []
    reason = f"tp * cp * pp * dp is {fixed * knobs['dp']}, the GPUs are {gpus}"
    fix = f"Use dp {gpus // fixed}." if gpus % fixed == 0 else f"Make tp * cp * pp divide {gpus}."
    return [Fault("/layout/dp", knobs["dp"], reason, fix)]


def _batch_faults(knobs: Knobs, batch: int) -> list[Fault]:
    each = knobs["micro_batch"] * knobs["dp"]
    if batch % each == 0:
        return []
    reason = f"micro_batch * dp = {each} does not divide the global batch of {batch}"
    fits = [d for d in divisors(batch // knobs["dp"]) if d <= 64] if batch % knobs["dp"] == 0 else []
    near = f"a global batch of {-(-batch // each) * each}"
    fix = f"Use micro_batch of {', '.join(map(str, fits))}, or {near}." if fits else f"Use {near}."
    return [Fault("/layout/micro_batch", knobs["micro_batch"], reason, fix)]


def _layer_faults(choice: LayoutChoice, knobs: Knobs, architecture: Architecture) -> list[Fault]:
    layers, chunks, stated = architecture.layers, knobs["pp"] * knobs["vpp"], choice.stage_layers
    if chunks > layers:
        reason = f"pp * vpp = {chunks} chunks have only {layers} layers to hold"
        return [Fault("/layout/pp", knobs["pp"], reason, f"Use pp * vpp of at most {layers}.")]
    if stated is None or (len(stated) == chunks and sum(stated) == layers):
        return []
    reason = f"{len(stated)} chunks that sum to {sum(stated)}, for {chunks} chunks and {layers} layers"
    return [
        Fault(
            "/layout/stage_layers",
            list(stated),
            reason,
            f"For instance {list(balanced_split(layers, chunks))}.",
        )
    ]


def _expert_faults(knobs: Knobs, architecture: Architecture) -> list[Fault]:
    experts = architecture.moe.experts if architecture.moe else 1
    ranks = knobs["tp"] * knobs["cp"] * knobs["dp"]
    fits = [d for d in divisors(experts) if ranks % (knobs["etp"] * d) == 0]
    fix = f"Use ep of {', '.join(map(str, fits))}." if fits else f"Use etp that divides {ranks}, such as 1."
    faults = []
    if experts % knobs["ep"]:
        reason = (
            f"ep does not divide the {experts} experts"
            if architecture.moe
            else "the architecture has no experts"
        )
        faults.append(Fault("/layout/ep", knobs["ep"], reason, fix))
    if ranks % (knobs["etp"] * knobs["ep"]):
        reason = f"etp * ep = {knobs['etp'] * knobs['ep']} does not divide tp * cp * dp = {ranks}"
        faults.append(
            Fault(
                "/layout/etp" if not fits else "/layout/ep", knobs["etp" if not fits else "ep"], reason, fix
            )
        )
    return faults


def _assumptions(choice: LayoutChoice, layout: Layout) -> tuple[Assumption, ...]:
    """Tell every knob the caller left out, at the value it took."""
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
