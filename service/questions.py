"""From parsed JSON to a question, or to every fault it has: shape and meaning told at once."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from models.catalogue import resolve
from models.errors import Fault, InvalidField, LayoutError
from models.request import EvaluateRequest, SearchRequest
from service.resolving import asked_faults
from service.sentences import explain

Question = TypeVar("Question", SearchRequest, EvaluateRequest)

FOLLOWS = {
    "cluster": {"calibration", "constraints", "memory_limit_bytes", "memory_reserve_bytes",
                "workload/precision", "stack/attention_kernel", "stack/fp8_recipe"},
    "model": {"stack"},
}  # fmt: skip
"""Parts whose meaning a part decides: where it cannot be read, a stand-in's faults in them are not told."""
STAND_INS: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": "dgx-h100",
    "gpus": 8,
    "workload": {"sequence_length": 1, "global_batch": 1},
    "layout": {},
}
"""What takes the place of a required part that cannot be read, so that the others can be judged."""


def read_question(schema: type[Question], body: Any) -> Question:
    """Validate parsed JSON, or raise InvalidField with every fault."""
    try:
        return schema.model_validate(body)
    except ValidationError as error:
        raise InvalidField(*faults_of(error.errors(), body, schema)) from error


def faults_of(errors: Sequence[Mapping[str, Any]], body: Any, schema: type[Question]) -> list[Fault]:
    """Explain pydantic's errors, and add what would be wrong with the parts that could be read."""
    faults = explain(errors, body, schema)
    if not isinstance(body, Mapping):
        return faults
    return faults + _meaning(body, {_part(fault.field) for fault in faults}, schema)


def _meaning(body: Mapping[str, Any], unread: set[str], schema: type[Question]) -> list[Fault]:
    """Faults of meaning in the parts of the request that have no fault of shape."""
    readable = {key: value for key, value in body.items() if key not in unread and key in schema.model_fields}
    stand_ins = {key: value for key, value in STAND_INS.items() if key in schema.model_fields}
    try:
        question = schema.model_validate({**stand_ins, **readable})
    except ValidationError:
        return []
    faults = asked_faults(question, knows_model="model" not in unread)
    try:
        resolve(question)
    except LayoutError as error:
        mixed = {part for name in FOLLOWS.keys() & unread for part in FOLLOWS[name]}
        left = unread | mixed
        faults = [one for one in error.faults if not {_part(one.field), one.field[1:]} & left] + faults
    return faults


def _part(field: str) -> str:
    """The top-level field a pointer stands in."""
    return field.removeprefix("/").split("/")[0]
