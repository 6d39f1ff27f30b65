"""A pipeline's timeline: of a bare schedule in slots, or of a priced layout in seconds."""

from dataclasses import dataclass, replace

from models.catalogue import Resolved
from models.cost.pipeline.conditions import Asked, condition_faults
from models.cost.pipeline.known import KNOWN, Known, Size
from models.cost.pipeline.simulate import Durations
from models.cost.pipeline.slot_lengths import BACKWARD, length_faults, slot_durations
from models.cost.pipeline.timeline_report import Timed, number, sent, stage_timelines, timed
from models.cost.setting import Setting
from models.cost.step.chunk_seconds import chunk_durations
from models.errors import Fault, InvalidField
from models.estimate import Assumption, Version
from models.request import EvaluateRequest
from models.timeline import BareSchedule, ScheduleAnswer
from search.answer import service_version, versions
from search.evaluation import completed, finished, knob_assumptions
from search.problem import setting_of
from search.stated import Knobs, layout_faults

SLOTS_ONLY = "slots"
"""What stands for the cost model's version where nothing was priced."""
GRID = frozenset({"tp", "cp", "pp", "dp", "vpp", "micro_batch", "micro_batches", "gpus"})
"""Knobs that decide how many stages and micro-batches there are."""


@dataclass(frozen=True)
class Told:
    """A timeline and what is said beside it."""

    timed: Timed
    in_seconds: bool
    assumptions: tuple[Assumption, ...]
    warnings: tuple[str, ...]
    version: Version


def bare_timeline(asked: BareSchedule) -> Told:
    """Run a schedule by itself.

    Raises
    ------
    InvalidField
        With every condition of the schedule that is not kept.
    """
    known = KNOWN[asked.schedule]
    faults = bare_faults(asked)
    if faults:
        raise InvalidField(*faults)
    size = _size(asked.pp, asked.micro_batches, asked.vpp, asked.micro_batch_group, known)
    found = _timed(asked.schedule, size, slot_durations(asked, size), "")
    version = Version(service=service_version(), cost_model=SLOTS_ONLY)
    return Told(found, False, tuple(_bare_defaults(asked, size)), (), version)


def bare_faults(asked: BareSchedule, unread: frozenset[str] = frozenset()) -> list[Fault]:
    """Return every fault of a bare schedule; those that follow from fields that could not be read aside."""
    known = KNOWN[asked.schedule]
    stated = {name: None if name in unread else getattr(asked, name) for name in ("pp", "micro_batches")}
    said = Asked(asked.schedule, **stated, vpp=asked.vpp, group=asked.micro_batch_group)
    faults = condition_faults(said)
    wrong = {fault.field for fault in faults} | unread
    if not wrong & {"pp", "vpp"}:
        size = _size(asked.pp, asked.micro_batches, asked.vpp, asked.micro_batch_group, known)
        faults += _too_many_stages(known, size) or length_faults(asked, size)
    return [_under("", fault) for fault in faults if fault.field not in unread]


def layout_timeline(request: EvaluateRequest, resolved: Resolved) -> Told:
    """Run a layout's schedule with the times the cost model gives its chunks.

    Raises
    ------
    InvalidField
        With every fault that leaves the timeline without a meaning.
    """
    setting = setting_of(request, resolved)
    knobs = completed(request.layout, setting.gpus)
    faults = layout_faults(request, knobs, resolved)
    if not {fault.field.rpartition("/")[2] for fault in faults} & GRID:
        faults += _schedule_faults(request, knobs, setting)
    if faults:
        raise InvalidField(*faults)
    layout = finished(request.layout, knobs, resolved)
    known = KNOWN[layout.schedule]
    size = _size(layout.pp, layout.micro_batches, layout.vpp, layout.micro_batch_group, known)
    durations = chunk_durations(layout, setting)
    found = _timed(layout.schedule, size, durations, "/layout")
    told = (*resolved.assumptions, *knob_assumptions(request.layout, layout))
    return Told(found, True, told, (*resolved.warnings, *_averaged(setting)), versions(setting))


def schedule_answer(told: Told) -> ScheduleAnswer:
    """Return a timeline as an answer."""
    found = told.timed
    size, totals = found.size, found.totals
    stages = stage_timelines(found)
    listed = stages[0].slots is not None
    detail = "slots" if listed else "totals" if stages[0].runs is None else "runs"
    span = number(totals.span, whole=found.whole)
    return ScheduleAnswer(
        schedule=found.name,
        pp=size.pp,
        vpp=size.vpp,
        micro_batches=size.micro_batches,
        micro_batch_group=size.group if found.name == "interleaved" else None,
        unit="s" if told.in_seconds else "slot",
        total_slots=None if told.in_seconds else span,
        total_s=totals.span if told.in_seconds else None,
        bubble_of_total=totals.bubble_of_total,
        bubble_of_compute=totals.bubble_of_compute,
        messages=sum(sent(found)),
        detail=detail,
        stages=stages,
        assumptions=told.assumptions,
        warnings=(*told.warnings, *_shortened(found, detail)),
        version=told.version,
    )


def _averaged(setting: Setting) -> list[str]:
    """Warn where the rate of compute is a whole run's average."""
    if setting.profile.bubble:
        return []
    return [
        f"Under {setting.profile.name} the compute rate is a run's average, its bubble included: the step of "
        "/v1/evaluate adds no bubble to it, this timeline shows one."
    ]


def _shortened(found: Timed, detail: str) -> list[str]:
    if detail == "slots":
        return []
    if found.counted:
        runs = ", ".join(map(str, found.counted))
        return [
            f"Too long to lay out: the figures are counted on from runs of {runs} micro-batches, which "
            "grow alike, and no slot is listed."
        ]
    if found.timeline is None:
        return ["Too long to lay out: the figures are exact formulas', and no slot is listed."]
    instead = "the patterns they repeat are told" if detail == "runs" else "totals are told"
    return [f"{found.slots:,} slots are too many to list: {instead} instead."]


def _size(pp: int, micro_batches: int, vpp: int | None, group: int | None, known: Known) -> Size:
    chunks = 2 if known.folded else vpp or known.usual_chunks
    return Size(pp, micro_batches, chunks, group or pp)


def _timed(name: str, size: Size, durations: Durations, prefix: str) -> Timed:
    """Run it, or refuse what is too long for that and that no formula knows."""
    found = timed(name, size, durations)
    if found is None:
        known = KNOWN[name]
        reason = (
            f"pp * vpp * micro_batches{' (at least 2 pp - 1 of them)' * known.cut_down} is "
            f"{known.passes(size):,}, and at most {known.most_passes:,} are laid out under {name}; more only "
            "where a formula is exact or shorter runs fill the pipeline and grow alike"
        )
        field, value = _count_field(prefix, size.micro_batches)
        raise InvalidField(Fault(field, value, reason, "Use fewer micro-batches, stages or chunks."))
    return found


def _count_field(prefix: str, micro_batches: int) -> tuple[str, int | None]:
    """Where micro-batches are stated: a layout states the size of one."""
    return (f"{prefix}/micro_batch", None) if prefix else ("/micro_batches", micro_batches)


def _too_many_stages(known: Known, size: Size) -> list[Fault]:
    stages, most = known.stages(size), known.most_stages
    if stages <= most:
        return []
    reason = f"pp * vpp is {stages:,}, and at most {most:,} chunks are laid out"
    name, value = ("pp", size.pp) if size.pp > size.vpp else ("vpp", size.vpp)
    return [Fault(name, value, reason, f"Use pp * vpp of at most {most:,}.")]


def _schedule_faults(request: EvaluateRequest, knobs: Knobs, setting: Setting) -> list[Fault]:
    """Conditions of the schedule on a layout whose degrees and batch hold together."""
    micro_batches = setting.workload.global_batch // (knobs["micro_batch"] * knobs["dp"])
    name = knobs["schedule"]
    group = request.layout.micro_batch_group if name == "interleaved" else None
    known = KNOWN[name]
    size = _size(knobs["pp"], micro_batches, knobs["vpp"], group, known)
    faults = condition_faults(Asked(name, knobs["pp"], micro_batches, knobs["vpp"], group))
    return [_under("/layout", fault) for fault in (*faults, *_too_many_stages(known, size))]


def _under(prefix: str, fault: Fault) -> Fault:
    """Put a fault where its knob stands; micro-batches follow from a layout's micro_batch."""
    if prefix and fault.field == "micro_batches":
        return replace(fault, field=f"{prefix}/micro_batch", value=None)
    return replace(fault, field=f"{prefix}/{fault.field}")


def _bare_defaults(asked: BareSchedule, size: Size) -> list[Assumption]:
    """Every field left out that moved the answer, at the value it took."""
    known = KNOWN[asked.schedule]
    values: dict[str, object] = {"vpp": size.vpp, "forward_slots": 1}
    if asked.schedule == "interleaved":
        values["micro_batch_group"] = size.group
    if asked.input_gradient_slots is None or asked.weight_gradient_slots is None:
        values["backward_slots"] = int(BACKWARD)
    if known.splits and asked.input_gradient_slots is None and asked.weight_gradient_slots is None:
        values["input_gradient_slots"] = "half of backward_slots"
    told = [
        Assumption(field=f"/{name}", value=value, why="default")
        for name, value in values.items()
        if name not in asked.model_fields_set or getattr(asked, name) is None
    ]
    if known.folded and asked.vpp == 1:
        why = f"{asked.schedule} lays two chunks a stage down the stages and up again"
        told.append(Assumption(field="/vpp", value=2, why=why))
    return told
