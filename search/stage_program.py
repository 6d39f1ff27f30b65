"""Layers to chunks with CP-SAT: longest chunk, then longest rank, then peak memory, then symmetry.

One program, solved once for each goal; what a goal reached is demanded of the next. Cuts are the
decisions; layers of each further kind before a cut are read from a table.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, pairwise

from ortools.sat.python import cp_model

from search.stage_problem import StageProblem, asymmetry, windows
from search.stage_symmetry import swells

Linear = cp_model.LinearExpr

Split = tuple[int, ...]

WALL = 400.0
"""Wall seconds allowed for a second of the solver's own deterministic clock: so many that the wall never
decides, and a busy machine gives the answer an idle one does. [1]"""


@dataclass(frozen=True)
class Found:
    """What the solver says."""

    split: Split | None
    """The best split it knows."""
    proven: bool
    """Whether it is the best there is (or there is none) under the cap."""


class _Program:
    """Cuts, and what they cost."""

    def __init__(self, problem: StageProblem, ranges: list[tuple[int, int]]) -> None:
        self.problem, self.model = problem, cp_model.CpModel()
        self.cuts = [self.model.new_int_var(low, high, f"cut{c}") for c, (low, high) in enumerate(ranges)]
        before = [self._kinds_before(cut, *bounds) for cut, bounds in zip(self.cuts, ranges, strict=True)]
        self.sizes: list[Linear] = [after - cut for cut, after in pairwise(self.cuts)]
        self.held = [[late - early for early, late in zip(*pair, strict=True)] for pair in pairwise(before)]
        for size, least in zip(self.sizes, problem.least_layers, strict=True):
            self.model.add(size >= least)

    def _kinds_before(self, cut: cp_model.IntVar, low: int, high: int) -> list[Linear]:
        """Layers of each kind before a cut; the first kind's are what the others leave."""
        others: list[Linear] = []
        for kind in range(1, len(self.problem.time)):
            values = self.problem.counts[low : high + 1, kind].tolist()
            known = self.model.new_int_var(values[0], values[-1], "")
            self.model.add_element(cut - low, values, known)
            others.append(known)
        return [cut - _total(others), *others]

    def start_from(self, split: Split | None) -> None:
        """Tell the solver a split to try first."""
        self.model.clear_hints()  # type: ignore[no-untyped-call]
        if split is not None:
            for cut, place in zip(self.cuts, accumulate(split, initial=0), strict=True):
                self.model.add_hint(cut, place)

    def most(self, costs: list[Linear], limit: int) -> cp_model.IntVar:
        """A number no cost exceeds."""
        top = self.model.new_int_var(0, limit, "")
        for cost in costs:
            self.model.add(cost <= top)
        return top

    def per_rank(self, chunk_costs: list[Linear]) -> list[Linear]:
        """Add up a cost over each rank's chunks."""
        ranks = range(self.problem.ranks)
        placed = list(zip(chunk_costs, self.problem.rank_of, strict=True))
        return [_total(cost for cost, at in placed if at == rank) for rank in ranks]

    def steps(self) -> list[Linear]:
        """Time of each chunk."""
        layer, extra = (values.tolist() for values in self.problem.time_steps)
        return [
            _total(t * n for t, n in zip(layer, held, strict=True)) + more
            for held, more in zip(self.held, extra, strict=True)
        ]

    def bytes(self) -> list[Linear]:
        """Bytes of each chunk."""
        each = self.problem.layer_bytes.tolist()
        return [
            _total(b * n for b, n in zip(layer, held, strict=True)) + more
            for layer, held, more in zip(each, self.held, self.problem.extra_bytes, strict=True)
        ]

    def asymmetry(self) -> Linear:
        """Layers by which chunks differ from their mirror images."""
        parts: list[Linear] = []
        for size, mirror in zip(self.sizes[: len(self.sizes) // 2], self.sizes[::-1], strict=False):
            apart = self.model.new_int_var(0, self.problem.layers, "")
            self.model.add(apart >= size - mirror)
            self.model.add(apart >= mirror - size)
            parts.append(apart)
        return _total(parts)


def solved_split(
    problem: StageProblem, cap: int, limit_s: float, known: Split | None = None, *, least: bool = False
) -> Found:
    """Return the best split whose chunks take no longer than the cap.

    Parameters
    ----------
    problem
        What to split.
    cap
        Longest a chunk may take. [steps]
    limit_s
        Longest each goal may take. [s]
    known
        A split that fits, to start from.
    least
        Whether no split has shorter chunks than the cap, so that this is no goal any more.
    """
    ranges = windows(problem, cap)
    if ranges is None:
        return Found(None, True)
    program = _Program(problem, ranges)
    program.start_from(known)
    steps = program.steps()
    longest = program.most(steps, cap)
    goals: list[Linear] = [] if least else [longest]
    if not problem.one_each:
        whole = int(problem.time_before[-1] + problem.time_steps[1].sum())
        goals.append(program.most(program.per_rank(steps), whole))
    held = program.per_rank(program.bytes())
    for cost, limit in zip(held, problem.limit_bytes, strict=True):
        program.model.add(cost <= limit)
    goals += [program.most(held, max(problem.limit_bytes)), program.asymmetry()]
    return _readable(program, _in_turn(program, goals, limit_s), limit_s)


def _readable(program: _Program, found: Found, limit_s: float) -> Found:
    """Where an equally good split swells to the middle and falls again, take it."""
    if found.split is None or swells(found.split):
        return found
    program.model.clear_objective()  # type: ignore[no-untyped-call]
    chunks = len(program.sizes)
    for place, (size, after) in enumerate(pairwise(program.sizes)):
        if place + 1 <= (chunks - 1) // 2:
            program.model.add(size <= after)
        if place >= chunks // 2:
            program.model.add(size >= after)
    solver = _solver(limit_s)
    if solver.solve(program.model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return found
    return Found(_split([solver.value(cut) for cut in program.cuts]), found.proven)


def _total(terms: Iterable[Linear]) -> Linear:
    return cp_model.LinearExpr.sum(list(terms))


def _split(cuts: list[int]) -> Split:
    return tuple(after - cut for cut, after in pairwise(cuts))


def _in_turn(program: _Program, goals: list[Linear], limit_s: float) -> Found:
    """Minimise one goal after the other."""
    split: Split | None = None
    proven = True
    for goal in goals:
        if split is not None and goal is goals[-1] and not asymmetry(split):
            program.model.add(goal <= 0)
            break
        program.model.minimize(goal)
        solver = _solver(limit_s)
        status = solver.solve(program.model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return Found(split, split is None and status == cp_model.INFEASIBLE)
        proven = proven and status == cp_model.OPTIMAL
        cuts = [solver.value(cut) for cut in program.cuts]
        split = _split(cuts)
        program.model.add(goal <= solver.value(goal))
        program.start_from(split)
    return Found(split, proven)


def _solver(limit_s: float) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.catch_sigint_signal = False
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = limit_s
    solver.parameters.max_time_in_seconds = WALL * limit_s
    return solver
