"""Who sends how much to whom in a step of one layout."""

from models.catalogue import Resolved
from models.cost import matrix_report
from models.estimate import Assumption
from models.request import TrafficRequest
from models.traffic_matrix import TrafficAnswer
from search.answer import versions
from search.case import Case
from search.check import broken_rules
from search.evaluation import knob_assumptions, whole_layout
from search.problem import setting_of


def traffic(request: TrafficRequest, resolved: Resolved) -> TrafficAnswer:
    """Return a layout's traffic matrices; what is left out takes its default, told.

    Raises
    ------
    InvalidField
        With every fault that leaves the figures without a meaning, as for an evaluation.
    """
    setting, layout = setting_of(request, resolved), whole_layout(request, resolved)
    silent = "level" not in request.model_fields_set
    level = (Assumption(field="/level", value=request.level, why="default"),) if silent else ()
    return TrafficAnswer(
        **matrix_report(layout, setting, request.level),
        broken_rules=tuple(broken_rules(Case(layout, setting))),
        assumptions=(*level, *resolved.assumptions, *knob_assumptions(request.layout, layout)),
        warnings=resolved.warnings,
        version=versions(setting),
    )
