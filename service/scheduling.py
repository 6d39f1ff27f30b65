"""From the body of a schedule's question to its timeline: a bare schedule, or a layout as it is evaluated."""

import threading
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from models.errors import Fault, InvalidField
from models.request import EvaluateRequest
from models.timeline import BareSchedule
from search import Told, bare_timeline, layout_timeline
from search.timeline import bare_faults
from service.questions import read_question
from service.resolving import resolved
from service.sentences import explain

STAND_INS = {"pp": 1, "micro_batches": 1}
"""What takes the place of a required number that cannot be read, so that the rest can be judged."""


def read_timeline(body: Any, stop: threading.Event | None = None) -> Told:
    """Run the schedule a body asks for, or raise InvalidField with every fault."""
    if _is_layout(body):
        request = read_question(EvaluateRequest, body)
        return layout_timeline(request, resolved(request, stop))
    try:
        asked = BareSchedule.model_validate(body)
    except ValidationError as error:
        faults = explain(error.errors(), body, BareSchedule)
        raise InvalidField(*faults, *_meaning(body, faults)) from error
    return bare_timeline(asked)


def _is_layout(body: Any) -> bool:
    """Whether more of what is said belongs to a layout's question than to a bare schedule's."""
    if not isinstance(body, Mapping):
        return False
    layout, bare = (len(body.keys() & schema.model_fields) for schema in (EvaluateRequest, BareSchedule))
    return layout > bare


def _meaning(body: Any, faults: list[Fault]) -> list[Fault]:
    """Faults of meaning among the fields that could be read."""
    unread = frozenset(fault.field.split("/")[1] for fault in faults if fault.field)
    if not isinstance(body, Mapping) or "schedule" in unread:
        return []
    known = {name: body[name] for name in BareSchedule.model_fields if name in body and name not in unread}
    return bare_faults(BareSchedule.model_validate({**STAND_INS, **known}), unread)
