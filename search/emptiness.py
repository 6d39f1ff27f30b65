"""What to say when the constraints leave no layout to judge at all: which knob has no value left."""

from models.estimate import RuleStatement
from search.check import schedule_fits_stages, statement
from search.degrees import factorisations
from search.problem import Problem

NO_FACTORISATION = RuleStatement(
    name="degrees_multiply_to_gpus",
    statement="tp * cp * pp * dp equals the number of GPUs, with every knob inside the constraints.",
)
NO_SCHEDULE = RuleStatement(name=schedule_fits_stages.__name__, statement=statement(schedule_fits_stages))
TRIED = {
    "ep": "ep divides the number of experts",
    "etp": "etp is 1 or tp, unless values are listed",
    "vpp": "vpp is at most the number of layers",
    "micro_batch": "micro_batch is a power of two or a divisor of the global batch, unless values are listed",
}
"""Values tried of the knobs a constraint can leave without any."""


def no_layout(problem: Problem) -> tuple[RuleStatement, ...]:
    """Return every rule that leaves nothing, none of which rejected a layout: there was none to reject."""
    empty = tuple(
        RuleStatement(name=f"{knob}_has_a_value", statement=f"{tried}, and lies inside the constraints.")
        for knob, tried in TRIED.items()
        if not getattr(problem.domains, knob)
    )
    if not len(factorisations(problem.domains, problem.setting.gpus)[0]):
        return (NO_FACTORISATION, *empty)
    return empty or (NO_SCHEDULE,)
