"""From a question to what search works on, warned of all that an import of its model is warned of."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from models.catalogue import Resolved, resolve
from models.cost.parameters import count_parameters
from models.request import EvaluateRequest, SearchRequest
from service.unmodelled import unmodelled


def resolved(question: SearchRequest | EvaluateRequest) -> Resolved:
    """Look up every name of a question, and tell what its configuration says that we do not model."""
    found = resolve(question)
    if isinstance(question.model, str):
        return found
    counts = count_parameters(found.architecture)
    left_out = unmodelled(_config(question.model), counts, predicts=question.stack.mtp)
    return replace(found, warnings=tuple(dict.fromkeys((*found.warnings, *left_out))))


def _config(model: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of a model that is stated inline, as a file or as its fields."""
    config: Mapping[str, Any] = model.get("hf_config", model)
    return config
