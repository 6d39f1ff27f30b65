"""From rules over columns to the solver's constraints.

A rule is evaluated once over the candidate values of the decisions it touches: a value it refuses
leaves the domain, a pair it refuses becomes an enforced domain. Knobs inside a cell (chunks,
micro-batches) are projected away: what remains is which dp a schedule can run with at each pp.
"""

from dataclasses import dataclass

import numpy as np
from ortools.sat.python import cp_model

from models.cost.pipeline.schedule import chunks_fit
from models.cost.table import NONE, IntVector
from models.layout import SCHEDULES, LayoutChoice
from search.bounds import Bounds
from search.census import Cells
from search.orders import FACTS, facts_of
from search.problem import Problem
from search.rules import DEGREE_RULES, INNER_RULES, Mask, Rule, experts_divide_stage, touches
from search.variables import Linear, Variables

CELL_DECISIONS = ("pp", "tp", "cp", "dp", "etp", "ep", "schedule", "zero")
INNER_KNOBS = frozenset({"vpp", "micro_batch", "recompute"})
DEFINED = frozenset({experts_divide_stage})
"""Rules that hold by the way the products are defined."""

Values = dict[str, tuple[int, ...]]


def candidate_values(problem: Problem) -> Values:
    """Return the values of each decision that the rules on it alone accept, and pp that can run at all."""
    values: Values = {name: getattr(problem.domains, name) for name in CELL_DECISIONS}
    for rule in (*DEGREE_RULES, *INNER_RULES):
        knobs = touches(rule)
        if len(knobs) == 1 and values[knobs[0]]:
            column = np.array(values[knobs[0]], dtype=np.int64)
            values[knobs[0]] = tuple(column[rule(problem, column)].tolist())
    rules = [rule for rule in INNER_RULES if "zero" not in touches(rule)]
    dp = np.array(values["dp"], dtype=np.int64)
    runs = (any(_runs(problem, rules, pp, dp, s).any() for s in values["schedule"]) for pp in values["pp"])
    values["pp"] = tuple(pp for pp, some in zip(values["pp"], runs, strict=True) if some)
    return values


def demand_pairs(variables: Variables, problem: Problem, decisions: tuple[str, ...]) -> set[Rule]:
    """Demand the rules on two decisions; return the rules demanded."""
    demanded = set()
    for rule in (*DEGREE_RULES, *INNER_RULES):
        knobs = touches(rule)
        if len(knobs) != 2 or not set(knobs) <= set(decisions):
            continue
        demanded.add(rule)
        one, other = (np.array(variables.values[name], dtype=np.int64) for name in knobs)
        kept = np.broadcast_to(rule(problem, one[:, None], other[None, :]), (len(one), len(other)))
        for value, row in zip(one.tolist(), kept, strict=True):
            if not row.all():
                _restrict(variables, knobs[1], other[row], [variables.is_(knobs[0], value)])
    return demanded


def demand_inner_choice(variables: Variables, problem: Problem) -> set[Rule]:
    """Demand that chunks and a micro-batch exist for pp, dp and schedule; return the rules demanded."""
    rules = [rule for rule in INNER_RULES if "zero" not in touches(rule)]
    dp = np.array(variables.values["dp"], dtype=np.int64)
    for pp in variables.values["pp"]:
        for schedule in variables.values["schedule"]:
            kept = _runs(problem, rules, pp, dp, schedule)
            if not kept.all():
                literals = [variables.is_("pp", pp), variables.is_("schedule", schedule)]
                _restrict(variables, "dp", dp[kept], literals)
    return set(rules)


def demand_memory(variables: Variables, cells: Cells, bounds: Bounds, limit: int) -> None:
    """Demand that the bound of every kind of stage stays within the limit, whatever pp, ZeRO, schedule."""
    rest_at = cells.degrees.take(cells.row[bounds.rest_cell])
    routed_at = cells.degrees.take(cells.row[bounds.routed_cell])
    products = routed_at.etp * routed_at.ep
    for pp, zero, schedule, rest_rows, routed_rows in _states(cells, bounds):
        if pp not in variables.values["pp"]:
            continue
        rest, routed = bounds.rest[rest_rows], bounds.routed[routed_rows]
        pairs = list(zip(rest_at.tp[rest_rows].tolist(), rest_at.cp[rest_rows].tolist(), strict=True))
        state = [variables.is_("pp", pp), variables.is_("zero", zero), variables.is_("schedule", schedule)]
        for kind in _undominated(rest, routed):
            if rest[:, kind].max() + routed[:, kind].max() <= limit:
                continue
            terms = [
                *_terms([variables.both("tp", t, "cp", c) for t, c in pairs], rest[:, kind], limit),
                *_terms(
                    [variables.is_("x", x) for x in products[routed_rows].tolist()], routed[:, kind], limit
                ),
            ]
            variables.program.add(cp_model.LinearExpr.sum(terms) <= limit).only_enforce_if(state)


def _terms(literals: list[cp_model.LiteralT], sizes: IntVector, limit: int) -> list[cp_model.LinearExprT]:
    """Bytes of each literal; what is over the limit by itself counts as just over it, lest sums overflow."""
    return [
        literal * min(size, limit + 1) for literal, size in zip(literals, sizes.tolist(), strict=True) if size
    ]


def demand_forbidden(variables: Variables, forbidden: tuple[LayoutChoice, ...]) -> None:
    """Leave out the partial layouts that name nothing but the decisions of a cell."""
    for choice in forbidden:
        stated = cell_part(choice)
        if stated is None or any(value not in variables.values[name] for name, value in stated.items()):
            continue
        variables.program.add_bool_or([~variables.is_(name, value) for name, value in stated.items()])


def cell_part(choice: LayoutChoice) -> dict[str, int] | None:
    """Return a partial layout's decisions, schedule as code; nothing where it names other knobs too."""
    stated = choice.model_dump(exclude_none=True)
    if not set(stated) <= set(CELL_DECISIONS):
        return None
    return {name: SCHEDULES.index(v) if name == "schedule" else v for name, v in stated.items()}


def demand_orders(variables: Variables, cells: Cells) -> None:
    """Demand degrees that have a legal rank order."""
    without = [code for code, found in cells.orders.items() if not found.legal]
    if not without:
        return
    facts = variables.facts()
    for code in without:
        literals = [~facts[name] if true else facts[name] for name, true in facts_of(code).items()]
        variables.program.add_bool_or(literals)


@dataclass(frozen=True)
class OrderProgram:
    """The program that decides rank orders: a pattern of the degrees' facts, and one of its legal orders."""

    program: cp_model.CpModel
    decisions: list[cp_model.IntVar]
    code: Linear
    """The facts as bits, and the place of the order among the pattern's above them."""


def order_program(legal: dict[int, int]) -> OrderProgram:
    """Return the program of some patterns, each with how many legal orders it has."""
    program = cp_model.CpModel()
    facts = {name: program.new_bool_var(name) for name in FACTS}
    order = program.new_int_var(0, max(legal.values(), default=1) - 1, "order")
    pattern = {code: program.new_bool_var(f"pattern={code}") for code in legal}
    program.add_exactly_one(pattern.values())
    for code, literal in pattern.items():
        same = [facts[name] if true else ~facts[name] for name, true in facts_of(code).items()]
        program.add_bool_and(same).only_enforce_if(literal)
    program.add(order <= sum((legal[code] - 1) * literal for code, literal in pattern.items()))
    scales = [1 << place for place in range(len(FACTS) + 1)]
    packed = cp_model.LinearExpr.weighted_sum([*facts.values(), order], scales)
    return OrderProgram(program, [*facts.values(), order], packed)


def _restrict(variables: Variables, name: str, values: IntVector, when: list[cp_model.LiteralT]) -> None:
    """Demand one of some values of a decision where all of some literals hold."""
    if len(values) == 0:
        variables.program.add_bool_or([~literal for literal in when])
        return
    domain = cp_model.Domain.from_values(values.tolist())
    variables.program.add_linear_expression_in_domain(variables[name], domain).only_enforce_if(when)


def _runs(problem: Problem, rules: list[Rule], pp: int, dp: IntVector, schedule: int) -> Mask:
    """Whether some chunk count and micro-batch keeps the inner rules, for each dp."""
    domains = problem.domains
    vpp = np.array(domains.vpp, dtype=np.int64)
    inner = {
        "vpp": vpp[chunks_fit(schedule, vpp)],
        "micro_batch": np.array(domains.micro_batch, dtype=np.int64),
        "recompute": np.array(domains.recompute, dtype=np.int64),
    }
    kept = np.full((len(dp), *map(len, inner.values())), (schedule == NONE) == (pp == 1))
    columns = {"dp": dp, **inner, "pp": np.array([pp]), "schedule": np.array([schedule])}
    knobs = {
        name: column.reshape([-1 if place == axis else 1 for axis in range(4)])
        for place, (name, column) in enumerate(columns.items())
    }
    for rule in rules:
        kept = kept & rule(problem, **{name: knobs[name] for name in touches(rule)})
    runs: Mask = np.any(kept, axis=(1, 2, 3))
    return runs


def _states(cells: Cells, bounds: Bounds) -> list[tuple[int, int, int, IntVector, IntVector]]:
    """Each (pp, zero, schedule) with its rows of `rest` and `routed`."""
    kinds = len(SCHEDULES)
    codes = [
        (cells.degrees.pp[cells.row[at]] * 4 + cells.zero[at]) * kinds + cells.schedule[at]
        for at in (bounds.rest_cell, bounds.routed_cell)
    ]
    return [
        (
            code // kinds // 4,
            code // kinds % 4,
            code % kinds,
            *(np.flatnonzero(column == code) for column in codes),
        )
        for code in np.unique(codes[0]).tolist()
    ]


def _undominated(rest: IntVector, routed: IntVector) -> list[int]:
    """Kinds of stage that no other kind outweighs in every term."""
    both = np.concatenate([rest, routed])
    kinds: list[int] = []
    for kind in range(both.shape[1]):
        others = [k for k in range(both.shape[1]) if k != kind]
        outweighed = (
            (both[:, other] >= both[:, kind]).all()
            and (other < kind or (both[:, other] > both[:, kind]).any())
            for other in others
        )
        if not any(outweighed):
            kinds.append(kind)
    return kinds
