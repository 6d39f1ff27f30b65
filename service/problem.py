"""The one shape every error of ours has: RFC 9457 problem details with our faults."""

from http import HTTPStatus
from typing import Any

from models.base import Schema

MEDIA_TYPE = "application/problem+json"


class FaultDetail(Schema):
    """One thing wrong, and what to do about it."""

    field: str
    """JSON pointer into the request body, name of a parameter or header, or empty for the whole request."""
    value: Any
    """What was given, shortened; null when nothing was."""
    reason: str
    """The rule it breaks, numbers included."""
    fix: str
    """A value or an action that would be accepted."""


class Problem(Schema):
    """What went wrong with a request, RFC 9457."""

    type: str
    """A URI that names the kind of problem; it is not an address."""
    title: str
    """The kind of problem in words."""
    status: int
    """The HTTP status."""
    detail: str
    """This occurrence in one sentence."""
    faults: tuple[FaultDetail, ...] = ()
    """Everything wrong with the request, told at once."""


KINDS: dict[int, tuple[str, str]] = {
    400: ("unreadable-body", "The body cannot be read"),
    404: ("not-found", "Nothing of that name"),
    405: ("method-not-allowed", "The path does not take this method"),
    406: ("not-acceptable", "The answer has no form that is accepted"),
    408: ("body-too-slow", "The body did not arrive in time"),
    413: ("too-large", "The body is too large"),
    415: ("unsupported-media-type", "The body is not JSON"),
    422: ("invalid-request", "The question cannot be answered as it stands"),
    500: ("internal", "The service failed"),
    503: ("busy", "Too many searches wait"),
}
"""Status to the last part of `type`, and `title`."""

OUR_FAULT = "It is our fault, not yours: please report what was asked."


def kind(status: int) -> tuple[str, str]:
    """Name a status as `type` and `title`.

    >>> kind(404)
    ('urn:layout-search:problem:not-found', 'Nothing of that name')
    >>> kind(418)
    ('about:blank', "I'm a Teapot")
    """
    if status in KINDS:
        return f"urn:layout-search:problem:{KINDS[status][0]}", KINDS[status][1]
    known = {s.value for s in HTTPStatus}
    return "about:blank", HTTPStatus(status).phrase if status in known else "Error"
