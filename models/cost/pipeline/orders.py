"""Building blocks of schedules: warm-up and alternation, and slots counted out one by one."""

from collections import defaultdict, deque
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
        self._weights: dict[int, deque[tuple[int, int]]] = {}
        self._splits = 0

    def forward(self, stage: int) -> None:
        """Run the stage's next forward."""
        self.slots.append(self._next(Kind.FORWARD, stage))

    def backward(self, stage: int, *, split: bool = False) -> None:
        """Run the stage's next backward, or its input half and leave the weight half for later."""
        action = self._next(Kind.BACKWARD, stage)
        if split:
            self._weights.setdefault(stage, deque()).append((self._splits, action.micro_batch))
            self._splits += 1
            action = action._replace(kind=Kind.INPUT)
        self.slots.append(action)

    def weight(self, stage: int | None = None) -> None:
        """Run the oldest weight half left, of a stage where given; nothing where none is left."""
        left = {held: each[0] for held, each in self._weights.items() if each and stage in (None, held)}
        if left:
            oldest = min(left, key=left.__getitem__)
            _, micro_batch = self._weights[oldest].popleft()
            self.slots.append(Action(Kind.WEIGHT, oldest, micro_batch))

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
