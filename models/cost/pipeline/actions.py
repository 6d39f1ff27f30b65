"""What a pipeline rank does: forwards, backwards and their halves, of one stage and micro-batch.

A *stage* here is one of the S parts the model is cut into (p of them, or p v chunks); a *rank*
runs one or more stages. Which rank runs which stage is the schedule's placement.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple


class Kind(StrEnum):
    """What is computed."""

    FORWARD = "F"
    BACKWARD = "B"
    """Both halves at once: the input's gradient and the weight's."""
    INPUT = "I"
    """The input's gradient alone, which the stage before waits for."""
    WEIGHT = "W"
    """The weight's gradient alone, which nobody waits for."""


class Action(NamedTuple):
    """One computation of one micro-batch on one stage."""

    kind: Kind
    stage: int
    micro_batch: int


class Pair(NamedTuple):
    """A forward and a full backward of another micro-batch run together, each hiding the other's traffic."""

    forward: Action
    backward: Action


Slot = Action | Pair
"""What a rank runs at a time."""

Order = tuple[Slot, ...]
"""What a rank runs, first to last."""


@dataclass(frozen=True)
class Schedule:
    """Each rank's ordered work in one optimizer step."""

    name: str
    stages: int
    """Parts the model is cut into, S."""
    micro_batches: int
    """G, of all directions together."""
    placements: tuple[tuple[int, ...], ...]
    """Rank of each stage, once for each direction micro-batches flow in."""
    orders: tuple[Order, ...]
    """Each rank's work."""

    @property
    def ranks(self) -> int:
        """Ranks of the pipeline, p."""
        return len(self.orders)

    @property
    def boundaries(self) -> tuple[tuple[int, ...], ...]:
        """Boundary of the first direction between whose ranks a message crosses each of every direction's."""
        first = {frozenset(pair): stage for stage, pair in enumerate(pairwise(self.placements[0]))}
        others = (tuple(first[frozenset(pair)] for pair in pairwise(place)) for place in self.placements[1:])
        return (tuple(range(self.stages - 1)), *others)

    def rank_of(self, stage: int, micro_batch: int) -> int:
        """Return the rank that runs a stage for a micro-batch.

        The first half of the micro-batches flows in the first direction where there are two.
        """
        direction = micro_batch * len(self.placements) // self.micro_batches
        return self.placements[direction][stage]

    def stages_of(self, rank: int) -> tuple[int, ...]:
        """Return the stages whose weights a rank holds, in order."""
        held = {stage for place in self.placements for stage, at in enumerate(place) if at == rank}
        return tuple(sorted(held))


def parts(slot: Slot) -> tuple[Action, ...]:
    """Return the computations of a slot: one, or a pair's two."""
    return (slot,) if isinstance(slot, Action) else (slot.forward, slot.backward)


def actions_of(order: Sequence[Slot]) -> Iterator[Action]:
    """Every computation of a rank in order, pairs taken apart."""
    for slot in order:
        yield from parts(slot)


def round_robin(ranks: int, chunks: int) -> tuple[int, ...]:
    """Return the rank of each stage when chunks go round the ranks: stage k on rank k mod p.

    >>> round_robin(2, 2)
    (0, 1, 0, 1)
    """
    return tuple(range(ranks)) * chunks


def there_and_back(ranks: int) -> tuple[int, ...]:
    """Return the rank of each of 2 p stages laid down the ranks and up again: the V placement.

    >>> there_and_back(3)
    (0, 1, 2, 2, 1, 0)
    """
    return (*range(ranks), *reversed(range(ranks)))


def faults(schedule: Schedule) -> list[str]:
    """Return what a schedule does wrong; empty when every stage runs every micro-batch once, in place.

    Whether the orders can run at all is for `simulate` to find.
    """
    seen: dict[tuple[Kind, int, int], int] = {}
    found = []
    for rank, order in enumerate(schedule.orders):
        for action in actions_of(order):
            if schedule.rank_of(action.stage, action.micro_batch) != rank:
                found.append(f"rank {rank} runs {action}, which is not placed there")
            seen[action] = seen.get(action, 0) + 1
    for stage in range(schedule.stages):
        for micro_batch in range(schedule.micro_batches):
            counts = [seen.get((kind, stage, micro_batch), 0) for kind in Kind]
            if counts not in ([1, 1, 0, 0], [1, 0, 1, 1]):
                found.append(f"stage {stage}, micro-batch {micro_batch}: F, B, I, W run {counts} times")
    return found
