"""What the routes share: the app's worker threads, and an answer as JSON bytes."""

from fastapi import Request, Response
from pydantic import WrapValidator

from models.base import Schema
from service.work import Workers

UNREAD = WrapValidator(lambda value, _: value)
"""Described where it stands and read by the function the route calls: shape and meaning are judged together,
and faults of a parameter stand beside those of the body."""


def workers(request: Request) -> Workers:
    """The threads of the app that serves this request."""
    found: Workers = request.app.state.workers
    return found


def as_json(answer: Schema) -> Response:
    """Serialise an answer; called in the worker thread, since a long shortlist takes a while."""
    return Response(answer.model_dump_json(by_alias=True), media_type="application/json")
