"""Building blocks of schedules: warm-up and alternation, and slots counted out one by one."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from models.cost.pipeline.actions import Action, Kind, Pair, Slot

Pass = tuple[int, int]
"""A stage and the micro-batch that passes it."""


def alternate(
    forwards: Sequence[Pass], backwards: Sequence[Pass], warm_up: int, weight_lag: int | None = None
) -> Iterator[Action]:
    """Warm-up forwards, then one forward one backward, then the backwards left.

    Parameters
    ----------
    forwards, backwards
        Passes in order, equally many.
    warm_up
        Forwards before the first alternation. [1]
    weight_lag
        Backwards are split when given: each weight gradient runs that many input gradients later,
        and those left run last. [1]
    """
    yield from (Action(Kind.FORWARD, *each) for each in forwards[:warm_up])
    backward = Kind.BACKWARD if weight_lag is None else Kind.INPUT
    for turn, each in enumerate(backwards):
        if warm_up + turn < len(forwards):
            yield Action(Kind.FORWARD, *forwards[warm_up + turn])
        yield Action(backward, *each)
        if weight_lag is not None and turn >= weight_lag:
            yield Action(Kind.WEIGHT, *backwards[turn - weight_lag])
    if weight_lag is not None:
        left = backwards[max(len(backwards) - weight_lag, 0) :]
        yield from (Action(Kind.WEIGHT, *each) for each in left)


class Counted:
    """Slots of one rank, each the next micro-batch of its stage."""

    def __init__(self, first_micro_batch: dict[int, int] | None = None) -> None:
        """Start every stage at micro-batch 0, or where told."""
        self.slots: list[Slot] = []
        self._first = first_micro_batch or {}
        self._runs: dict[tuple[Kind, int], int] = defaultdict(int)
        self._weights: list[Pass] = []

    def forward(self, stage: int) -> None:
        """Run the stage's next forward."""
        self.slots.append(self._next(Kind.FORWARD, stage))

    def backward(self, stage: int, *, split: bool = False) -> None:
        """Run the stage's next backward, or its input half and leave the weight half for later."""
        action = self._next(Kind.BACKWARD, stage)
        if split:
            self._weights.append((stage, action.micro_batch))
            action = action._replace(kind=Kind.INPUT)
        self.slots.append(action)

    def weight(self, stage: int | None = None) -> None:
        """Run the oldest weight half left, of a stage where given; nothing where none is left."""
        left = [each for each in self._weights if stage in (None, each[0])]
        if left:
            self._weights.remove(left[0])
            self.slots.append(Action(Kind.WEIGHT, *left[0]))

    def pair(self, forward: int, backward: int) -> None:
        """Run a stage's next forward together with a stage's next backward."""
        self.slots.append(Pair(self._next(Kind.FORWARD, forward), self._next(Kind.BACKWARD, backward)))

    def done(self, kind: Kind, stage: int) -> int:
        """Return how often a stage ran; its backwards count halves done too."""
        return self._runs[kind, stage]

    def _next(self, kind: Kind, stage: int) -> Action:
        run = self._runs[kind, stage]
        self._runs[kind, stage] = run + 1
        return Action(kind, stage, run + self._first.get(stage, 0))
