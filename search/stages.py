"""Layers to pipeline stages: the split with the shortest step that fits every stage's memory.

Best is the least longest chunk, then the least longest rank, then the least peak memory, then the
most symmetric split. Where a rank runs one chunk the first two are the stage that sets the pace.
Where it runs several, the ranks take turns chunk by chunk, so a long chunk makes all others wait:
simulated, splits with shorter chunks took 2.5 to 4 % less on average than those with shorter ranks.

Where all layers but the first few are alike, as in most models, how many each chunk has is counted out
exactly (`stage_alike`). Of others CP-SAT decides among splits with the shortest chunks there can be. Where
memory forbids those, a dynamic program knows the best split of one chunk a rank, and of several a split to
start from; it answers where the solver runs out of time.
"""

from dataclasses import dataclass
from typing import Literal

from search.stage_alike import alike_split
from search.stage_dynamic import dynamic_split
from search.stage_problem import StageProblem, cost_of, smallest_longest_chunk
from search.stage_program import solved_split

LIMIT_S = 2.0
"""Longest the solver may take before the dynamic program answers. [s]"""
GOALS = 10
"""Shares of the limit: three to five solves, at most twice. [1]"""


By = Literal["counting", "solver", "dynamic program"]


@dataclass(frozen=True)
class NoSplit:
    """No split was found."""

    proven: bool
    """Whether none fits; otherwise time ran out."""


@dataclass(frozen=True)
class StageSplit:
    """A split that fits."""

    layers: tuple[int, ...]
    """Decoder layers of each chunk in execution order, (C,)."""
    rank_s: tuple[float, ...]
    """A micro-batch on each rank, forward and backward, (p,). [s]"""
    rank_bytes: tuple[int, ...]
    """What each rank holds, (p,). [B]"""
    by: By
    """Who found it."""
    proven: bool
    """Whether no split is better."""

    @property
    def limiting_rank(self) -> int:
        """The rank that sets the pace, the first of them."""
        return self.rank_s.index(max(self.rank_s))


def assign_layers(problem: StageProblem, limit_s: float = LIMIT_S) -> StageSplit | NoSplit:
    """Return the best split that fits.

    Parameters
    ----------
    problem
        Layers, what they cost, where chunks run.
    limit_s
        Longest the solver may take, on its own deterministic clock. [s]

    Examples
    --------
    Llama 3.1 405B's 126 layers on 16 stages, the head as long as two thirds of a layer:

    >>> found = assign_layers(StageProblem.uniform(126, 16, last_time=0.66))
    >>> found.layers if isinstance(found, StageSplit) else found
    (7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7)
    """
    if sum(problem.least_layers) > problem.layers:
        return NoSplit(proven=True)
    alike, counted = alike_split(problem)
    if alike:
        return NoSplit(proven=True) if counted is None else _priced(problem, counted, "counting", proven=True)
    return _decided(problem, limit_s)


def _decided(problem: StageProblem, limit_s: float) -> StageSplit | NoSplit:
    """Return the best split of layers of any kinds in any order that time lets the solver find."""
    found = solved_split(problem, smallest_longest_chunk(problem), limit_s / GOALS, least=True)
    if found.split is not None:
        return _priced(problem, found.split, "solver", proven=found.proven)
    known = dynamic_split(problem)
    if known is not None and problem.one_each:
        return _priced(problem, known, "dynamic program", proven=True)
    found = solved_split(problem, _longest(problem, known), limit_s / GOALS, known)
    if found.split is not None:
        return _priced(problem, found.split, "solver", proven=found.proven)
    if known is not None:
        return _priced(problem, known, "dynamic program", proven=False)
    return NoSplit(proven=found.proven or problem.one_each)


def _longest(problem: StageProblem, known: tuple[int, ...] | None) -> int:
    """Longest chunk of a known split; any length where none is known. [steps]."""
    if known is not None:
        return int(cost_of(problem, known).chunk_steps.max())
    return int(problem.time_before[-1] + problem.time_steps[1].max())


def _priced(problem: StageProblem, split: tuple[int, ...], by: By, *, proven: bool) -> StageSplit:
    cost = cost_of(problem, split)
    assert cost.fits, f"{split} does not fit"
    seconds, cut = [0.0] * problem.ranks, 0
    for chunk, size in enumerate(split):
        own = sum(problem.time[kind] for kind in problem.kinds[cut : cut + size])
        seconds[problem.rank_of[chunk]] += own + problem.extra_time[chunk]
        cut += size
    return StageSplit(split, tuple(seconds), tuple(cost.rank_bytes.tolist()), by, proven)
