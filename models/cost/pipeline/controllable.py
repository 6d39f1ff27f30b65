"""V-Half and V-Min: half and a third of 1F1B's activations in the V placement, more bubble for it.

A pattern of four passes a rank (two forwards, two backwards) repeats every six slots; weight
gradients take the free slots; then passes move forward into gaps as far as memory allows. The
product does not offer them; the simulator knows them.

Symbols: p ranks, r the rank from 0, G micro-batches.

References
----------
.. [1] P. Qi et al., "Pipeline parallelism with controllable memory", NeurIPS 2024,
   arXiv:2405.15362, section 4 and appendix.
"""

import numpy as np
from numpy.typing import NDArray

from models.cost.pipeline.actions import Action, Kind, Order, Schedule, there_and_back

EARLY_FORWARD, LATE_FORWARD, LATE_BACKWARD, EARLY_BACKWARD, WEIGHT = range(5)
PASSES = 4
PERIOD = 6
"""Slots of the pattern: two forwards, two input and two weight gradients."""

Times = list[list[list[int]]]
"""Slot of each micro-batch's pass: [rank][pass][micro-batch]."""


def v_half(ranks: int, micro_batches: int) -> Schedule:
    """About half of 1F1B's activations: (p + 2) / (2 p) of it for even p."""
    gap = 3 if ranks % 2 == 0 else 0
    pattern = [
        (2 * r, 3 * ranks - r - 2, 3 * ranks + gap + 2 * r - 1, 6 * ranks + gap - r - 2) for r in range(ranks)
    ]
    return _schedule("v-half", pattern, micro_batches)


def v_min(ranks: int, micro_batches: int) -> Schedule:
    """About a third of 1F1B's activations."""
    gap = 2 if ranks % 3 == 0 else 0
    pattern = [(r, 2 * ranks - r - 1, 2 * ranks + gap + r, 4 * ranks + gap - r - 1) for r in range(ranks)]
    return _schedule("v-min", pattern, micro_batches)


def _schedule(name: str, pattern: list[tuple[int, int, int, int]], micro_batches: int) -> Schedule:
    ranks = len(pattern)
    unrolled = [[[at + PERIOD * m for m in range(micro_batches)] for at in rank] for rank in pattern]
    with_weights = [[*passes, _weight_slots(passes)] for passes in unrolled]
    moved = _moved_forward(with_weights)
    squeezed = [passes[:PASSES] for passes in _squeezed(moved)]
    again = _moved_forward(squeezed)
    final = _squeezed([[*passes, _weight_slots(passes)] for passes in again])
    orders = tuple(_order(rank, ranks, passes[:PASSES]) for rank, passes in enumerate(final))
    return Schedule(name, 2 * ranks, micro_batches, (there_and_back(ranks),), orders)


def _free_slots(passes: list[list[int]]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Whether each slot up to the last pass is free, and the backwards that end before it."""
    last = max(times[-1] for times in passes)
    row = np.zeros(last + 1, dtype=np.int64)
    for times in passes[:PASSES]:
        row[times] = 1
    backward = np.zeros(last + 1, dtype=np.int64)
    for times in passes[LATE_BACKWARD:PASSES]:
        backward[times] = 1
    return row == 0, backward


def _weight_slots(passes: list[list[int]]) -> list[int]:
    """Return the slots weight gradients take: the first free ones after a backward, then past the end."""
    free, backward = _free_slots(passes)
    waiting, slots = 0, []
    for slot, (is_free, is_backward) in enumerate(zip(free.tolist(), backward.tolist(), strict=True)):
        waiting += is_backward
        if is_free and waiting:
            slots.append(slot)
            waiting -= 1
    return slots + list(range(len(free), len(free) + waiting))


def _most_held(passes: list[list[int]]) -> int:
    """Chunk activations a rank holds at most; freed in free slots where weights are not placed yet."""
    length = max(times[-1] for times in passes) + 1
    change = np.zeros(length, dtype=np.int64)
    for times in passes[:LATE_BACKWARD]:
        change[times] += 1
    if len(passes) > PASSES:
        change[passes[WEIGHT]] -= 1
        return int(np.cumsum(change).max())
    free, backward = _free_slots(passes)
    balance = np.cumsum(backward - free)
    waiting = balance - np.minimum(np.minimum.accumulate(balance), 0)
    return int((np.cumsum(change - backward) + waiting).max())


def _in_order(times: Times) -> list[tuple[int, int, int, int]]:
    """Every pass as (slot, rank, pass, micro-batch), by time."""
    return sorted(
        (slot, rank, kind, m)
        for rank, passes in enumerate(times)
        for kind, slots in enumerate(passes)
        for m, slot in enumerate(slots)
    )


def _earliest(times: Times, rank: int, kind: int, m: int) -> int:
    """First slot after everything a pass needs; a weight gradient needs as many backwards before it."""
    needs = [-1]
    if kind == WEIGHT:
        needs.append(sorted(times[rank][LATE_BACKWARD] + times[rank][EARLY_BACKWARD])[m])
    else:
        before = rank - 1 if kind in (EARLY_FORWARD, LATE_BACKWARD) else rank + 1
        if 0 <= before < len(times):
            needs.append(times[before][kind][m])
        if kind:
            needs.append(times[rank][kind - 1][m])
    if m:
        needs.append(times[rank][kind][m - 1])
    return max(needs) + 1


def _moved_forward(times: Times) -> Times:
    """Move passes into earlier free slots where no rank's memory grows past the most held now.

    The steady middle stays: from rank 0's first early backward to the last early forward; without
    weights placed, so does all before it.
    """
    limit = max(_most_held(passes) for passes in times)
    taken: list[set[int]] = [set() for _ in times]
    movable, last = len(times[0]) > PASSES, len(times[0][0]) - 1
    started = False
    for _, rank, kind, m in _in_order(times):
        if not started and (rank, kind) == (0, EARLY_BACKWARD):
            started, movable = True, False
        if movable:
            _move(times, (rank, kind, m), taken[rank], limit)
        elif started and kind == EARLY_FORWARD and m == last:
            movable = True
        taken[rank].add(times[rank][kind][m])
    return times


def _move(times: Times, which: tuple[int, int, int], taken: set[int], limit: int) -> None:
    """Move one pass to the first free slot that keeps its rank's memory within the limit."""
    rank, kind, m = which
    row = times[rank][kind]
    now = row[m]
    for slot in range(_earliest(times, rank, kind, m), now):
        if slot not in taken:
            row[m] = slot
            if _most_held(times[rank]) <= limit:
                return
    row[m] = now


def _squeezed(times: Times) -> Times:
    """Start every pass as early as its rank's order lets it, each taking one slot."""
    started: Times = [[[0] * len(slots) for slots in passes] for passes in times]
    free = [0] * len(times)
    for _, rank, kind, m in _in_order(times):
        at = free[rank] if kind == WEIGHT else max(free[rank], _earliest(started, rank, kind, m))
        started[rank][kind][m] = at
        free[rank] = at + 1
    return started


def _order(rank: int, ranks: int, passes: list[list[int]]) -> Order:
    """One rank's actions: its passes by time, and weights in free slots, the late stage's first."""
    early, late = rank, 2 * ranks - 1 - rank
    stage = (early, late, late, early)
    at = {slot: (kind, m) for kind, slots in enumerate(passes) for m, slot in enumerate(slots)}
    waiting: dict[int, list[int]] = {late: [], early: []}
    actions, slot = [], 0
    end = max(at)
    while slot <= end or any(waiting.values()):
        if slot in at:
            kind, m = at[slot]
            backward = kind >= LATE_BACKWARD
            actions.append(Action(Kind.INPUT if backward else Kind.FORWARD, stage[kind], m))
            if backward:
                waiting[stage[kind]].append(m)
        else:
            ready = [held for held in (late, early) if waiting[held]]
            if ready:
                actions.append(Action(Kind.WEIGHT, ready[0], waiting[ready[0]].pop(0)))
        slot += 1
    return tuple(actions)
