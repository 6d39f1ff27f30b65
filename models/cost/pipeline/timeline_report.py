"""A schedule's timeline in the words of the answer: every slot, or the patterns slots repeat."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.cost.pipeline.actions import Action, Kind, Pair, Slot
from models.cost.pipeline.counted import totals_counted_on
from models.cost.pipeline.known import KNOWN, Size
from models.cost.pipeline.runs import pattern_text, repeats
from models.cost.pipeline.simulate import Durations, Timeline, simulate
from models.cost.pipeline.totals import Totals, messages_sent, totals_by_formula, totals_of
from models.timeline import Amount, Run, SlotKind, StageTimeline
from models.timeline import Slot as ToldSlot

Array = NDArray[np.float64]

MOST_SLOTS = 20_000
"""Slots listed one by one: about two megabytes of JSON. [1]"""
MOST_RUNS = 5_000
"""Patterns listed; an order that repeats less than this is told in totals. [1]"""

WORDS: dict[Kind, SlotKind] = {
    Kind.FORWARD: "forward",
    Kind.BACKWARD: "backward",
    Kind.INPUT: "input_gradient",
    Kind.WEIGHT: "weight_gradient",
}


@dataclass(frozen=True)
class Timed:
    """A schedule that ran, or what formulas say of one too long to run."""

    name: str
    size: Size
    durations: Durations
    totals: Totals
    timeline: Timeline | None
    counted: tuple[int, ...] = ()
    """Micro-batches of the runs the totals are counted on from; none where they are exact."""

    @property
    def whole(self) -> bool:
        """Whether all lengths are whole numbers: then every time is exact."""
        times = self.durations
        parts = (*times.forward, *times.input_gradient, *times.weight_gradient, *times.send)
        return times.pair_share == 1 and all(part == int(part) for part in parts)

    @property
    def slots(self) -> int:
        """Slots of all ranks; 0 where they were not laid out."""
        return sum(len(order) for order in self.timeline.schedule.orders) if self.timeline else 0


def timed(name: str, size: Size, durations: Durations) -> Timed | None:
    """Run a schedule; where it is too long ask formulas, or count on from short runs; None where none can."""
    known = KNOWN[name]
    if known.passes(size) > known.most_passes:
        totals = totals_by_formula(name, size, durations)
        if totals is not None:
            return Timed(name, size, durations, totals, None)
        counted = totals_counted_on(name, size, durations)
        return Timed(name, size, durations, counted.totals, None, counted.runs) if counted else None
    timeline = simulate(known.make(size, durations), durations)
    return Timed(name, size, durations, totals_of(timeline), timeline)


def number(value: float, *, whole: bool) -> Amount:
    """Tell a time: as a whole number where all are.

    >>> number(33.0, whole=True), number(0.5, whole=False)
    (33, 0.5)
    """
    return int(value) if whole else float(value)


def sent(found: Timed) -> list[int]:
    """Messages each rank sends, (p,)."""
    size = found.size
    placed = KNOWN[found.name].placements(size)
    counts: list[int] = messages_sent(placed, size.pp, size.micro_batches).tolist()
    return counts


def stage_timelines(found: Timed) -> tuple[StageTimeline, ...]:
    """Return every stage's figures, with its slots or the patterns they repeat."""
    slots: Sequence[tuple[ToldSlot, ...] | None] = [None] * found.size.pp
    runs: Sequence[tuple[Run, ...] | None] = slots  # type: ignore[assignment]
    ranks = range(found.size.pp)
    if found.timeline and found.slots <= MOST_SLOTS:
        slots = [tuple(_slots(found, rank)) for rank in ranks]
    elif found.timeline:
        told = [tuple(_runs(found, rank)) for rank in ranks]
        runs = told if sum(map(len, told)) <= MOST_RUNS else runs
    counts = sent(found)
    return tuple(_stage(found, rank, counts[rank], slots[rank], runs[rank]) for rank in ranks)


def _stage(
    found: Timed, rank: int, messages: int, slots: tuple[ToldSlot, ...] | None, runs: tuple[Run, ...] | None
) -> StageTimeline:
    totals, whole = found.totals, found.whole
    chunks_of_a_stage = KNOWN[found.name].stages(found.size) / found.size.pp
    peak_at = None if totals.peak_at is None else number(totals.peak_at[rank], whole=whole)
    return StageTimeline(
        stage=rank,
        chunks=chunks_of(found, rank),
        busy=number(totals.busy[rank], whole=whole),
        idle=number(totals.idle[rank], whole=whole),
        in_flight=float(totals.held[rank] / chunks_of_a_stage),
        in_flight_chunks=int(totals.held[rank]),
        peak_at=peak_at,
        messages=messages,
        slots=slots,
        runs=runs,
    )


def chunks_of(found: Timed, rank: int) -> tuple[int, ...]:
    """Return which of all chunks a rank holds, of both directions."""
    placed = KNOWN[found.name].placements(found.size)
    return tuple(sorted({chunk for place in placed for chunk, at in enumerate(place) if at == rank}))


def _slots(found: Timed, rank: int) -> Iterator[ToldSlot]:
    assert found.timeline is not None
    whole, chunks = found.whole, chunks_of(found, rank)
    for slot, start, end in found.timeline.slots(rank):
        times = {"start": number(start, whole=whole), "end": number(end, whole=whole)}
        if isinstance(slot, Action):
            at = chunks.index(slot.stage)
            yield ToldSlot(kind=WORDS[slot.kind], micro_batch=slot.micro_batch, chunk=at, **times)
        else:
            yield _pair(slot, chunks, times)


def _pair(slot: Pair, chunks: tuple[int, ...], times: dict[str, Amount]) -> ToldSlot:
    return ToldSlot(
        kind="forward_and_backward",
        micro_batch=slot.forward.micro_batch,
        chunk=chunks.index(slot.forward.stage),
        backward_micro_batch=slot.backward.micro_batch,
        backward_chunk=chunks.index(slot.backward.stage),
        **times,
    )


def _runs(found: Timed, rank: int) -> Iterator[Run]:
    assert found.timeline is not None
    order, whole = found.timeline.schedule.orders[rank], found.whole
    tokens = _tokens(order, chunks_of(found, rank))
    starts, ends = found.timeline.starts[rank], found.timeline.ends[rank]
    turn = found.size.vpp * found.size.group
    for each in repeats(tokens, (2 * turn, 3 * turn)):
        yield Run(
            pattern=pattern_text(tokens[each.first : each.first + each.length]),
            repeats=each.times,
            start=number(starts[each.first], whole=whole),
            end=number(ends[each.last], whole=whole),
        )


def _tokens(order: Sequence[Slot], chunks: tuple[int, ...]) -> list[str]:
    """A letter a kind, and the chunk where there are several."""
    places = {chunk: str(at) if len(chunks) > 1 else "" for at, chunk in enumerate(chunks)}

    def token(slot: Slot) -> str:
        if isinstance(slot, Action):
            return f"{slot.kind}{places[slot.stage]}"
        return f"F{places[slot.forward.stage]}+B{places[slot.backward.stage]}"

    return [token(slot) for slot in order]
