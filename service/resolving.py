"""From a question to what search works on: names looked up, own runs adapted to, all faults at once."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from models.architecture import Architecture
from models.calibration import OwnRuns
from models.catalogue import Resolved, resolve
from models.catalogue.resolve import combined, resolve_architecture
from models.cost.parameters import count_parameters
from models.errors import Fault, InvalidField, LayoutError
from models.request import EvaluateRequest, SearchRequest
from search import constraint_faults
from service.measured.calibrating import calibrate
from service.measured.inline import WHERE, read_objects
from service.measured.run import MeasuredRun
from service.unmodelled import unmodelled

Question = SearchRequest | EvaluateRequest


def resolved(question: Question, stop: threading.Event | None = None) -> Resolved:
    """Look up every name of a question and adapt to its runs; warn of what of its model is not modelled.

    Where a name is unknown, or a run cannot be read, what is asked of layouts is judged all the same: all
    faults are told at once. `stop` is set by the caller to end adapting to runs early.
    """
    found = _looked_up(question)
    if runs := _runs(question):
        found = _adapted(question, runs, stop)
    if isinstance(question.model, str):
        return found
    counts = count_parameters(found.architecture)
    left_out = unmodelled(_config(question.model), counts, predicts=question.stack.mtp)
    return replace(found, warnings=tuple(dict.fromkeys((*found.warnings, *left_out))))


def asked_faults(question: Question, *, knows_model: bool = True) -> list[Fault]:
    """Return what is wrong with a search's constraints, as far as its model is known, and with own runs."""
    faults = _run_faults(question)
    if isinstance(question, EvaluateRequest):
        return faults
    return constraint_faults(question.constraints, _architecture(question) if knows_model else None) + faults


def _looked_up(question: Question) -> Resolved:
    """The question with its names looked up, or every fault of it."""
    errors: list[LayoutError] = []
    try:
        found = resolve(question)
    except LayoutError as error:
        errors.append(error)
    if errors or _run_faults(question):
        beside = asked_faults(question)
        raise combined([*errors, *([InvalidField(*beside)] if beside else [])])
    return found


def _runs(question: Question) -> tuple[MeasuredRun, ...]:
    """The runs a question states; InvalidField with every fault of them."""
    stated = question.calibration
    return read_objects(stated.runs) if isinstance(stated, OwnRuns) else ()


def _run_faults(question: Question) -> list[Fault]:
    try:
        _runs(question)
    except InvalidField as error:
        return list(error.faults)
    return []


def _adapted(question: Question, runs: tuple[MeasuredRun, ...], stop: threading.Event | None) -> Resolved:
    """The question as adapted to its runs; what is wrong of what they make is told of them."""
    found = calibrate(runs, WHERE, stop)
    try:
        return resolve(question.model_copy(update={"calibration": found}))
    except LayoutError as error:
        raise type(error)(*(replace(fault, field=WHERE) for fault in error.faults)) from error


def _architecture(question: SearchRequest) -> Architecture | None:
    try:
        return resolve_architecture(question.model)[0]
    except LayoutError:
        return None


def _config(model: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of a model that is stated inline, as a file or as its fields."""
    config: Mapping[str, Any] = model.get("hf_config", model)
    return config
