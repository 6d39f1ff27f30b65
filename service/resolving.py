"""From a question to what search works on, warned of all that an import of its model is warned of."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from models.architecture import Architecture
from models.catalogue import Resolved, resolve
from models.catalogue.resolve import combined, resolve_architecture
from models.cost.parameters import count_parameters
from models.errors import Fault, InvalidField, LayoutError
from models.request import EvaluateRequest, SearchRequest
from search import constraint_faults
from service.unmodelled import unmodelled


def resolved(question: SearchRequest | EvaluateRequest) -> Resolved:
    """Look up every name of a question, and tell what its configuration says that we do not model.

    Where a name is unknown, what is asked of layouts is judged all the same: all faults are told at once.
    """
    try:
        found = resolve(question)
    except LayoutError as error:
        beside = asked_faults(question)
        raise (combined([error, InvalidField(*beside)]) if beside else error) from None
    if isinstance(question.model, str):
        return found
    counts = count_parameters(found.architecture)
    left_out = unmodelled(_config(question.model), counts, predicts=question.stack.mtp)
    return replace(found, warnings=tuple(dict.fromkeys((*found.warnings, *left_out))))


def asked_faults(question: SearchRequest | EvaluateRequest, *, knows_model: bool = True) -> list[Fault]:
    """Return what is wrong with the constraints of a search, as far as its model is known."""
    if isinstance(question, EvaluateRequest):
        return []
    return constraint_faults(question.constraints, _architecture(question) if knows_model else None)


def _architecture(question: SearchRequest) -> Architecture | None:
    try:
        return resolve_architecture(question.model)[0]
    except LayoutError:
        return None


def _config(model: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of a model that is stated inline, as a file or as its fields."""
    config: Mapping[str, Any] = model.get("hf_config", model)
    return config
