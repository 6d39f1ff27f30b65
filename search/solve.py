"""Enumerate every solution within the time there is, and read them back.

Two programs share what rank orders depend on, the *pattern* of the degrees (`search.orders`): one
decides degrees, ZeRO and schedule under the memory bound, the other a pattern and a rank order. No rule
ties a rank order to anything else, so their join on the pattern is the whole space. Both are compared
with what numpy counted.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from ortools.sat.python import cp_model

from search.bounds import Bounds
from search.census import Cells, Census, spread
from search.clock import Clock
from search.orders import FACTS
from search.packing import DEGREE_PARTS, Packing, degree_columns
from search.problem import Problem
from search.program import (
    CELL_DECISIONS,
    DEFINED,
    Values,
    candidate_values,
    cell_part,
    demand_forbidden,
    demand_inner_choice,
    demand_memory,
    demand_orders,
    demand_pairs,
    order_program,
)
from search.rules import DEGREE_RULES, INNER_RULES, touches
from search.variables import Linear, Variables

SHARE = 0.6
"""Part of the time limit the solver may use; the rest is for pricing."""
SLICED = 50_000
"""Cells above which each pp gets a program of its own: smaller programs enumerate faster."""

Codes = NDArray[np.int64]


class SolverDisagreement(RuntimeError):
    """The solver and the census found different layouts: a bug of ours."""


@dataclass(frozen=True)
class Solution:
    """What the solver enumerated."""

    found: NDArray[np.bool_]
    """Whether each cell keeps every rule and the memory bound, as far as was looked."""
    complete: bool
    status: str


def enumerate_cells(problem: Problem, census: Census, bounds: Bounds | None, clock: Clock) -> Solution:
    """Enumerate the cells and their rank orders.

    Raises
    ------
    SolverDisagreement
        When a finished enumeration differs from what numpy finds.
    """
    cells = census.cells
    nothing = np.zeros(len(cells), dtype=np.bool_)
    if bounds is None or not census.complete:
        return Solution(nothing, False, _name(cp_model.UNKNOWN))
    values = candidate_values(problem)
    expected = (bounds.least_bytes <= problem.setting.memory_limit_bytes) & ~_forbidden(problem, cells)
    if not all(values.values()):
        _compared([], nothing.astype(np.int64), expected, complete=True)
        return Solution(nothing, True, _name(cp_model.INFEASIBLE))
    orders, ordered = _orders(cells, clock)
    alone = [{**values, "pp": (pp,)} for pp in values["pp"]]
    parts = alone if np.count_nonzero(expected) > SLICED else [values]
    runs = [_cells(problem, cells, bounds, part, values, clock) for part in parts]
    complete = all(run.complete for run in runs)
    seen = _compared(
        [run.codes for run in runs], _cell_codes(problem, cells, values), expected, complete=complete
    )
    status = next((run.status for run in runs if not run.complete), None)
    found = cp_model.OPTIMAL if seen.any() else cp_model.INFEASIBLE
    return Solution(seen & ordered[cells.row], complete and orders, _name(status or found))


@dataclass(frozen=True)
class Run:
    """One program's enumeration."""

    codes: Codes
    status: cp_model.CpSolverStatus
    complete: bool


def _cells(problem: Problem, cells: Cells, bounds: Bounds, part: Values, values: Values, clock: Clock) -> Run:
    """Enumerate degrees, ZeRO and schedule."""
    if clock.expired(SHARE):
        return Run(np.zeros(0, dtype=np.int64), cp_model.UNKNOWN, False)
    variables = Variables(problem, {name: part[name] for name in CELL_DECISIONS})
    demanded = demand_pairs(variables, problem, CELL_DECISIONS) | demand_inner_choice(variables, problem)
    left = {rule for rule in (*DEGREE_RULES, *INNER_RULES) if len(touches(rule)) > 1} - demanded - DEFINED
    assert not left, f"no program demands {left}"
    demand_orders(variables, cells)
    demand_forbidden(variables, problem.forbidden)
    demand_memory(variables, cells, bounds, problem.setting.memory_limit_bytes)
    parts = (*DEGREE_PARTS, "schedule", "zero")
    decisions = [variables[name] for name in parts if name in variables]
    return _enumerate(
        variables.program, decisions, _packing(problem, values).expression(variables, parts), clock
    )


def _orders(cells: Cells, clock: Clock) -> tuple[bool, NDArray[np.bool_]]:
    """Enumerate each pattern's rank orders; tell whether all, and which degrees have all their orders."""
    legal = {code: len(found.legal) for code, found in cells.orders.items() if found.legal}
    decided = order_program(legal)
    run = _enumerate(decided.program, decided.decisions, decided.code, clock)
    patterns = np.array(list(legal), dtype=np.int64)
    count = np.array(list(legal.values()), dtype=np.int64)
    codes = np.repeat(patterns, count) + (spread(np.zeros_like(count), count) << len(FACTS))
    seen = _compared([run.codes], codes, codes >= 0, complete=run.complete)
    missing = np.bincount(np.repeat(patterns, count)[~seen], minlength=1 << len(FACTS))
    return run.complete, missing[cells.pattern] == 0


def _enumerate(
    program: cp_model.CpModel, decisions: Sequence[cp_model.IntVar], code: Linear, clock: Clock
) -> Run:
    """Enumerate one program's solutions as codes, in a fixed order on one worker."""
    solver = cp_model.CpSolver()
    reader = _Reader(code, clock)
    program.add_decision_strategy(decisions, cp_model.CHOOSE_FIRST, cp_model.SELECT_MIN_VALUE)
    solver.parameters.num_workers = 1
    solver.parameters.catch_sigint_signal = False
    solver.parameters.search_branching = cp_model.FIXED_SEARCH
    solver.parameters.linearization_level = 0
    solver.parameters.cp_model_presolve = False
    solver.parameters.enumerate_all_solutions = True
    solver.parameters.max_time_in_seconds = max(clock.left_s(SHARE), 1e-3)
    status = solver.solve(program, reader)
    if status == cp_model.MODEL_INVALID:
        raise SolverDisagreement(f"the program is not valid: {program.validate()}")
    codes = np.array(reader.codes, dtype=np.int64)
    if len(np.unique(codes)) != len(codes):
        raise SolverDisagreement("the solver told a solution twice")
    return Run(codes, status, status in (cp_model.OPTIMAL, cp_model.INFEASIBLE))


class _Reader(cp_model.CpSolverSolutionCallback):
    """Keeps the code of every solution; stops the solver when time is up."""

    def __init__(self, code: Linear, clock: Clock) -> None:
        """Read one expression from each solution."""
        super().__init__()
        self._code = code
        self._clock = clock
        self.codes = array("q")

    def on_solution_callback(self) -> None:
        """Take a solution's code."""
        self.codes.append(self.value(self._code))
        if self._clock.expired(SHARE):
            self.stop_search()


def _compared(
    found: list[Codes], code: Codes, expected: NDArray[np.bool_], *, complete: bool
) -> NDArray[np.bool_]:
    """Return which expected rows were found; never another, and all of them where the solver finished."""
    codes = np.concatenate([np.zeros(0, dtype=np.int64), *found])
    seen: NDArray[np.bool_] = np.isin(code, codes) & expected
    told, counted, common = len(codes), np.count_nonzero(expected), np.count_nonzero(seen)
    if common != told or (complete and common != counted):
        raise SolverDisagreement(f"the solver found {told} solutions, numpy {counted}, {common} in common")
    return seen


def _packing(problem: Problem, values: Values) -> Packing:
    gpus = problem.setting.gpus
    products = {etp * ep for etp in values["etp"] for ep in values["ep"] if gpus % (etp * ep) == 0}
    return Packing({**values, "x": tuple(sorted(products)) or (1,)})


def _cell_codes(problem: Problem, cells: Cells, values: Values) -> Codes:
    columns = degree_columns(cells.degrees.take(cells.row)) | {"schedule": cells.schedule, "zero": cells.zero}
    return _packing(problem, values).codes(columns, (*DEGREE_PARTS, "schedule", "zero"))


def _forbidden(problem: Problem, cells: Cells) -> NDArray[np.bool_]:
    """Whether a partial layout that the program leaves out matches each cell."""
    degrees = cells.degrees.take(cells.row)
    columns = vars(degrees) | {"zero": cells.zero, "schedule": cells.schedule}
    left_out = np.zeros(len(cells), dtype=np.bool_)
    for choice in problem.forbidden:
        stated = cell_part(choice)
        if stated is not None:
            left_out |= np.logical_and.reduce(
                [left_out | True, *(columns[k] == v for k, v in stated.items())]
            )
    return left_out


def _name(status: cp_model.CpSolverStatus) -> str:
    return cp_model.CpSolver().status_name(status)
