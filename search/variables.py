"""What the solver decides, and what follows from it.

Small variables and literals only for values: enumerating costs as much as all literals of the
program for every solution, so neither tables nor element constraints over tuples are used.
"""

from ortools.sat.python import cp_model

from search.orders import FACTS
from search.problem import Problem

Linear = cp_model.LinearExprT
Literal = cp_model.LiteralT


class Variables:
    """The decisions of one program, their products, and literals made on demand, once each."""

    def __init__(self, problem: Problem, values: dict[str, tuple[int, ...]]) -> None:
        """Create the degrees and the products that tie them together.

        Parameters
        ----------
        problem
            The question.
        values
            Candidate values of each decision, ascending; the rules on single knobs already applied.
        """
        self.program = cp_model.CpModel()
        self.values = dict(values)
        """Candidate values of each decision and product."""
        self._literals: dict[str, dict[int, Literal]] = {}
        self._both: dict[tuple[str, int, str, int], Literal] = {}
        self._of: dict[str, cp_model.IntVar] = {
            name: self.program.new_int_var_from_domain(cp_model.Domain.from_values(list(found)), name)
            for name, found in values.items()
        }
        self._grids(problem)

    def __getitem__(self, name: str) -> cp_model.IntVar:
        """Return a decision or a product."""
        return self._of[name]

    def __contains__(self, name: str) -> bool:
        """Whether a name is a decision or a product."""
        return name in self._of

    def is_(self, name: str, value: int) -> Literal:
        """Return the literal that says a decision has a value."""
        if name not in self._literals:
            self._literals[name] = self._one_hot(name)
        return self._literals[name][value]

    def both(self, name: str, value: int, other: str, second: int) -> Literal:
        """Return the literal that says two decisions have these values."""
        key = (name, value, other, second)
        if key not in self._both:
            literal = self.program.new_bool_var(f"{name}={value} {other}={second}")
            one, two = self.is_(name, value), self.is_(other, second)
            self.program.add_bool_and([one, two]).only_enforce_if(literal)
            self.program.add_bool_or([~one, ~two, literal])
            self._both[key] = literal
        return self._both[key]

    def place(self, name: str, among: tuple[int, ...]) -> Linear:
        """Return the place of a decision's value among some values, as a sum of literals."""
        return sum(among.index(value) * self.is_(name, value) for value in self.values[name])

    def facts(self) -> dict[str, Literal]:
        """Return the facts that rank orders depend on, as literals (see `search.orders`)."""
        found = {name: self._more_than_one(name) for name in FACTS if "=" not in name}
        for name in ("dp=edp", "tp=etp"):
            one, other = name.split("=")
            found[name] = self._same(one, other)
        return found

    def _grids(self, problem: Problem) -> None:
        """Tie the degrees: tp cp pp dp = gpus = (etp ep) pp edp, and etp to 1 or tp where it follows tp."""
        gpus, program = problem.setting.gpus, self.program
        self._product("tp cp", "tp", "cp", gpus)
        self._product("tp cp pp", "tp cp", "pp", gpus)
        program.add_multiplication_equality(gpus, [self["tp cp pp"], self["dp"]])
        self._product("x", "etp", "ep", gpus)
        self._product("x pp", "x", "pp", gpus)
        self._of["edp"] = program.new_int_var(1, gpus, "edp")
        program.add_multiplication_equality(gpus, [self["x pp"], self["edp"]])
        if problem.domains.etp_follows_tp and self.values["etp"] != (1,):
            whole = program.new_bool_var("etp=tp>1")
            program.add(self["etp"] == self["tp"]).only_enforce_if(whole)
            program.add(self["tp"] > 1).only_enforce_if(whole)
            program.add(self["etp"] == 1).only_enforce_if(~whole)

    def _product(self, name: str, one: str, other: str, gpus: int) -> None:
        first, second = (self.values[part] for part in (one, other))
        found = sorted({a * b for a in first for b in second if gpus % (a * b) == 0})
        if not found:
            self.program.add_bool_or([])  # no product divides the GPUs: nothing is feasible
            found = [1]
        self.values[name] = tuple(found)
        self._of[name] = self.program.new_int_var_from_domain(cp_model.Domain.from_values(found), name)
        self.program.add_multiplication_equality(self._of[name], [self._of[one], self._of[other]])

    def _one_hot(self, name: str) -> dict[int, Literal]:
        values, variable, program = self.values[name], self._of[name], self.program
        if len(values) == 1:
            return {values[0]: program.new_constant(1)}
        if len(values) == 2:
            second = program.new_bool_var(f"{name}={values[1]}")
            program.add(variable == values[0] + (values[1] - values[0]) * second)
            return {values[0]: ~second, values[1]: second}
        literals = {value: program.new_bool_var(f"{name}={value}") for value in values}
        program.add_exactly_one(literals.values())
        for value, literal in literals.items():
            program.add(variable == value).only_enforce_if(literal)
        return dict(literals)

    def _more_than_one(self, name: str) -> Literal:
        more = self.program.new_bool_var(f"{name}>1")
        self.program.add(self[name] > 1).only_enforce_if(more)
        self.program.add(self[name] == 1).only_enforce_if(~more)
        return more

    def _same(self, one: str, other: str) -> Literal:
        same = self.program.new_bool_var(f"{one}={other}")
        self.program.add(self[one] == self[other]).only_enforce_if(same)
        self.program.add(self[one] != self[other]).only_enforce_if(~same)
        return same
