"""The smallest changes of a question after which some layout fits: each one tried, none guessed.

A change is one field. Where no single change helps, a change together with more GPUs is tried.
Numbers climb (or fall) a short ladder and the first rung that works is told.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from models.catalogue import Resolved
from models.cost.pipeline.looped import group_allowed
from models.estimate import Change, Relaxation
from models.layout import Layout
from models.request import Constraints, SearchRequest
from models.workload import BYTES
from search.bounds import memory_bounds
from search.census import take_census
from search.clock import Clock
from search.domains import domains
from search.problem import problem_of
from search.uneven import lightest

SHARE = 0.9
"""Part of the time limit by which trying must end."""
NODES = range(1, 9)
"""Whole nodes added one by one before the GPUs are doubled."""
DOUBLINGS = range(1, 9)
HALVINGS = range(1, 6)
GROUPS = 4
"""Other groups of micro-batches that are tried, from the smallest."""


@dataclass(frozen=True)
class Question:
    """A question and what was changed to get to it."""

    request: SearchRequest
    resolved: Resolved
    changes: tuple[Change, ...] = ()


Ladder = list[Question]


def relaxations(
    request: SearchRequest, resolved: Resolved, peak: int | None, clock: Clock
) -> tuple[Relaxation, ...]:
    """Return every smallest change that makes a layout fit, as far as the time allows.

    Parameters
    ----------
    peak
        Heaviest stage of the layout that misses by least; nothing where no layout keeps the rules. [B]
    """
    start = Question(request, resolved)
    found = [_climb(ladder, clock) for ladder in ladders(start, peak)]
    told = tuple(relaxation for relaxation in found if relaxation)
    if told:
        return told
    pairs = (more_gpus(rung) for ladder in ladders(start, peak)[:-1] for rung in ladder)
    return tuple(relaxation for ladder in pairs if (relaxation := _climb(ladder, clock)))


def ladders(start: Question, peak: int | None) -> list[Ladder]:
    """Every single change worth trying, a ladder of values each; more GPUs last."""
    usable = start.resolved.cluster.gpu.usable_memory_bytes - start.request.constraints.memory_reserve_bytes
    roomier = [with_limit(start, peak)] if peak is not None and peak <= usable else []
    return [
        *([rung] for rung in without_pins(start)),
        narrower_gradients(start),
        roomier,
        [] if peak is not None else other_groups(start),
        shorter(start) if peak is not None else other_batches(start),
        more_gpus(start),
    ]


def without_pins(start: Question) -> Iterator[Question]:
    """Each constraint the caller set, dropped."""
    stated, free = start.request.constraints, Constraints()
    apart = ("memory_limit_bytes", "rank_orders")
    for name in sorted(stated.model_fields_set - set(apart)):
        value, to = getattr(stated, name), getattr(free, name)
        if value == to:
            continue
        held = start.request.model_copy(update={"constraints": stated.model_copy(update={name: to})})
        limit = start.resolved.memory_limit_bytes + (value if name == "memory_reserve_bytes" else 0)
        yield Question(
            held,
            replace(start.resolved, memory_limit_bytes=limit),
            (_change(f"/constraints/{name}", value, to),),
        )


def narrower_gradients(start: Question) -> Ladder:
    """Gradients kept in 16 bits instead of 32."""
    workload = start.resolved.workload
    if workload.gradient_dtype != "fp32" or workload.precision == "fp32":
        return []
    to = "fp16" if workload.precision == "fp16" else "bf16"
    recipe = workload.recipe.model_copy(update={"gradient": BYTES[to]})
    return [_with_workload(start, "gradient_dtype", to, recipe=recipe)]


def with_limit(start: Question, peak: int) -> Question:
    """The limit raised to what the closest layout needs."""
    reserve = start.request.constraints.memory_reserve_bytes
    before = start.resolved.memory_limit_bytes + reserve
    change = _change("/constraints/memory_limit_bytes", before, peak + reserve)
    resolved = replace(start.resolved, memory_limit_bytes=peak)
    return Question(start.request, resolved, (*start.changes, change))


def shorter(start: Question) -> Ladder:
    """Half the sequence length, a quarter, and on."""
    length = start.resolved.workload.sequence_length
    lengths = [length >> times for times in HALVINGS if length % (1 << times) == 0]
    return [_with_workload(start, "sequence_length", to) for to in lengths]


def other_groups(start: Question) -> Ladder:
    """Interleaving's micro-batches in groups of more than pp, where pp leaves some over."""
    held = start.request.constraints
    if held.micro_batch_group is not None:
        return []
    values, batch = domains(held, start.resolved), start.resolved.workload.global_batch
    counts = {batch // (b * dp) for b in values.micro_batch for dp in values.dp if batch % (b * dp) == 0}
    short = [(p, count) for p in values.pp for count in counts if not group_allowed(p, count, p)]
    groups = {n for p, count in short for n in range(p + 1, count + 1) if group_allowed(p, count, n)}
    return [
        Question(
            start.request.model_copy(
                update={"constraints": held.model_copy(update={"micro_batch_group": n})}
            ),
            start.resolved,
            (*start.changes, _change("/constraints/micro_batch_group", None, n)),
        )
        for n in sorted(groups)[:GROUPS]
    ]


def other_batches(start: Question) -> Ladder:
    """The next batches up that more degrees divide."""
    batch = start.resolved.workload.global_batch
    rounded = (-(-batch // (1 << power)) << power for power in range(1, 12))
    return [_with_workload(start, "global_batch", to) for to in dict.fromkeys(rounded) if to != batch]


def more_gpus(start: Question) -> Ladder:
    """Whole nodes more one by one, then twice the GPUs, four times, and on."""
    gpus, node = start.resolved.gpus, start.resolved.cluster.gpus_per_node
    whole = -(-gpus // node) * node
    counts = [whole + node * more for more in (0, *NODES)] + [gpus << times for times in DOUBLINGS]
    rungs = sorted({count for count in counts if gpus < count <= 1_048_576})
    return [
        Question(
            start.request.model_copy(update={"gpus": to}),
            replace(start.resolved, gpus=to),
            (*start.changes, _change("/gpus", gpus, to)),
        )
        for to in rungs
    ]


def fitting(question: Question, clock: Clock) -> Layout | None:
    """Return the lightest layout of a question if it fits; nothing when it does not, or time is up."""
    problem = problem_of(question.request, question.resolved)
    census = take_census(problem, clock)
    bounds = memory_bounds(problem, census.cells, clock)
    if bounds is None or not census.complete:
        return None
    best = lightest(problem, census, bounds)
    if best is None or best[0] > problem.setting.memory_limit_bytes:
        return None
    return best[1]


def _climb(ladder: Ladder, clock: Clock) -> Relaxation | None:
    """Return the first rung that works."""
    for question in ladder:
        if clock.expired(SHARE):
            return None
        layout = fitting(question, clock)
        if layout is not None:
            return Relaxation(change=question.changes, then=layout)
    return None


def _with_workload(start: Question, name: str, to: Any, **more: Any) -> Question:
    workload = start.resolved.workload
    change = _change(f"/workload/{name}", getattr(workload, name), to)
    resolved = replace(start.resolved, workload=workload.model_copy(update={name: to, **more}))
    return Question(start.request, resolved, (*start.changes, change))


def _change(field: str, value: Any, to: Any) -> Change:
    plain = value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else value
    return Change(field=field, from_=plain, to=to)
