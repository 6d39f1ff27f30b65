"""Zero-bubble orders built greedily under a memory cap, as the paper's authors schedule ZB1P and ZB2P.

Micro-batch by micro-batch: every stage runs a forward, first to last, then an input gradient, last
to first; weight gradients run where a stage would wait or its memory is full. Three yes-or-no
choices give eight orders, the shortest wins. The search does not offer these: it prices ZB-H1.

Symbols: p stages, G micro-batches.

References
----------
.. [1] P. Qi et al., "Zero bubble pipeline parallelism", ICLR 2024, arXiv:2401.10241, section 3.1.
"""

from dataclasses import dataclass, field
from itertools import product

from models.cost.pipeline.actions import Action, Kind, Schedule, round_robin
from models.cost.pipeline.simulate import Durations

HELD = {Kind.FORWARD: 1.0, Kind.INPUT: -0.5, Kind.WEIGHT: -0.5}
"""Micro-batches of activations an action adds: each half of the backward frees half [1]."""


@dataclass(frozen=True)
class Habits:
    """The choices the eight orders differ in."""

    late_first_backward: bool
    """A warm-up forward may delay the first input gradient."""
    backward_first: bool
    """A stage two forwards ahead of the next one may skip a turn."""
    always_fill: bool
    """A weight gradient fills a gap even where it delays what comes next, whatever the stage's idle time."""


def zero_bubble_greedy(ranks: int, micro_batches: int, durations: Durations, cap: float) -> Schedule:
    """Return the shortest of the eight greedy orders.

    Parameters
    ----------
    ranks, micro_batches
        p, G. [1]
    durations
        Of each stage; `send` between them.
    cap
        Micro-batches of activations a stage may hold: p for ZB1P, 2 p for ZB2P. [1]

    Raises
    ------
    ValueError
        The cap is below one micro-batch.
    """
    if cap < 1:
        raise ValueError(f"cap = {cap}: a stage holds at least one micro-batch")
    best: _Greedy | None = None
    for choice in product((True, False), repeat=3):
        tried = _Greedy.run(ranks, micro_batches, durations, cap, Habits(*choice))
        if best is None or tried.longest < best.longest:
            best = tried
    assert best is not None
    orders = tuple(tuple(stage.done) for stage in best.stages)
    return Schedule("zero-bubble-greedy", ranks, micro_batches, (round_robin(ranks, 1),), orders)


@dataclass
class _Stage:
    """One stage's work so far."""

    index: int
    done: list[Action] = field(default_factory=list)
    count: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(HELD, 0))
    arrivals: dict[Kind, list[float]] = field(default_factory=lambda: {kind: [] for kind in HELD})
    """End of each action of a kind."""
    time: float = 0.0
    held: float = 0.0
    waited: float = 0.0
    """Idle time after its first forward."""

    @property
    def pending_weight(self) -> bool:
        return self.count[Kind.WEIGHT] < self.count[Kind.INPUT]


@dataclass
class _Greedy:
    """The pipeline while its order is made."""

    micro_batches: int
    durations: Durations
    cap: float
    habits: Habits
    stages: list[_Stage]

    @classmethod
    def run(
        cls, ranks: int, micro_batches: int, durations: Durations, cap: float, habits: Habits
    ) -> "_Greedy":
        self = cls(micro_batches, durations, cap, habits, [_Stage(index) for index in range(ranks)])
        self._first()
        for micro_batch in range(1, micro_batches):
            self._forwards()
            self._backwards(micro_batch)
        for stage in self.stages:
            while stage.pending_weight:
                self._put(stage, Kind.WEIGHT)
        return self

    @property
    def longest(self) -> float:
        """The longest time from a stage's first start to its last end."""
        return max(
            stage.time - stage.arrivals[Kind.FORWARD][0] + self.durations.forward[stage.index]
            for stage in self.stages
        )

    def _cost(self, stage: _Stage, kind: Kind) -> float:
        return self.durations.of_action(Action(kind, stage.index, 0))

    def _input_at(self, stage: _Stage, kind: Kind, micro_batch: int) -> float:
        """When what an action needs from another stage is there; 0 where it needs nothing."""
        other = stage.index + (-1 if kind is Kind.FORWARD else 1)
        if kind is Kind.WEIGHT or not 0 <= other < len(self.stages):
            return 0.0
        sent = self.stages[other].arrivals[kind][micro_batch]
        return sent + self.durations.send[min(other, stage.index)]

    def _put(self, stage: _Stage, kind: Kind) -> None:
        micro_batch = stage.count[kind]
        start = max(stage.time, self._input_at(stage, kind, micro_batch))
        if stage.count[Kind.FORWARD]:
            stage.waited += start - stage.time
        stage.time = start + self._cost(stage, kind)
        stage.arrivals[kind].append(stage.time)
        stage.held += HELD[kind]
        stage.count[kind] += 1
        stage.done.append(Action(kind, stage.index, micro_batch))

    def _first(self) -> None:
        """First forwards, the warm-up's further ones, first input gradients."""
        for stage in self.stages:
            self._put(stage, Kind.FORWARD)
        more = self._warm_up()
        for j in range(1, len(more)):
            while more[j] > 0 and more[j - 1] <= more[j] < self.micro_batches - 1:
                more[j] -= 1
        for stage, count in zip(self.stages, more, strict=True):
            for _ in range(count):
                self._put(stage, Kind.FORWARD)
        for stage in reversed(self.stages):
            self._put(stage, Kind.INPUT)

    def _warm_up(self) -> list[int]:
        """How many more forwards each stage fits in before its first gradient arrives."""
        last = self.stages[-1]
        ends = last.time + self._cost(last, Kind.INPUT)
        more = [0] * len(self.stages)
        for stage in reversed(self.stages[:-1]):
            due = ends + self.durations.send[stage.index]
            forward, time = self._cost(stage, Kind.FORWARD), stage.time
            room = int(min(self.micro_batches - 1, self.cap - stage.held))
            late = self.habits.late_first_backward
            while more[stage.index] < room and (time + forward <= due if late else time < due):
                time += forward
                more[stage.index] += 1
            ends = max(time, due) + self._cost(stage, Kind.INPUT)
        return more

    def _forwards(self) -> None:
        """One forward on every stage whose turn it is, and on none after one that skips."""
        turn = [
            stage.count[Kind.FORWARD] < self.micro_batches and not self._skips(stage) for stage in self.stages
        ]
        for j in range(len(turn) - 2, -1, -1):
            turn[j] = turn[j] and turn[j + 1]
        for stage, runs in zip(self.stages, turn, strict=True):
            if runs:
                self._make_room(stage, Kind.FORWARD)
                if stage.index:
                    self._fill(stage, self._input_at(stage, Kind.FORWARD, stage.count[Kind.FORWARD]))
                self._put(stage, Kind.FORWARD)

    def _backwards(self, micro_batch: int) -> None:
        for stage in reversed(self.stages):
            self._make_room(stage, Kind.INPUT)
            if stage.index + 1 < len(self.stages):
                self._fill(stage, self._input_at(stage, Kind.INPUT, micro_batch))
            if stage.index == 0 and stage.count[Kind.FORWARD] == self.micro_batches:
                while stage.pending_weight:
                    self._put(stage, Kind.WEIGHT)
            self._put(stage, Kind.INPUT)

    def _make_room(self, stage: _Stage, kind: Kind) -> None:
        while stage.held + HELD[kind] > self.cap:
            if not stage.pending_weight:
                raise ValueError(f"cap = {self.cap}: stage {stage.index} cannot go on")
            self._put(stage, Kind.WEIGHT)

    def _fill(self, stage: _Stage, due: float) -> None:
        """Weight gradients until the input arrives; one that ends later where it does not cost idle time."""
        weight = self._cost(stage, Kind.WEIGHT)
        while stage.pending_weight and stage.time + weight <= due:
            self._put(stage, Kind.WEIGHT)
        if stage.pending_weight and stage.time < due:
            affordable = due - stage.time <= self._most_waited() - stage.waited
            if self.habits.always_fill or not affordable:
                self._put(stage, Kind.WEIGHT)

    def _most_waited(self) -> float:
        return max(stage.waited for stage in self.stages)

    def _skips(self, stage: _Stage) -> bool:
        """Whether a stage two forwards ahead leaves the turn to backwards."""
        if not self.habits.backward_first or stage.index + 1 == len(self.stages):
            return False
        after = self.stages[stage.index + 1]
        if stage.count[Kind.FORWARD] < after.count[Kind.FORWARD] + 2:
            return False
        due = after.time + self._cost(after, Kind.FORWARD) + self._cost(after, Kind.INPUT)
        due += self.durations.send[stage.index]
        if stage.time >= due:
            return True
        excess = max(0.0, stage.held + HELD[Kind.FORWARD] - self.cap)
        ready = stage.count[Kind.INPUT] - stage.count[Kind.WEIGHT]
        weights = min(-(-excess // -HELD[Kind.WEIGHT]), ready)
        busy = self._cost(stage, Kind.FORWARD) + weights * self._cost(stage, Kind.WEIGHT)
        if stage.time + busy <= due:
            return False
        return due - stage.time <= self._most_waited() - stage.waited
