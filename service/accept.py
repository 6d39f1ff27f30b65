"""Which form of an answer a caller's `Accept` wants: JSON, or a picture."""

import re
from enum import StrEnum

from models.errors import Fault


class Form(StrEnum):
    """A media type an answer comes in, the plainest first."""

    JSON = "application/json"
    SVG = "image/svg+xml"
    PNG = "image/png"


PICTURES = {form: {"schema": {"type": "string", "format": "binary"}} for form in (Form.SVG, Form.PNG)}
"""The pictures among an answer's forms, for OpenAPI."""
VARIES = {"Vary": "Accept"}
"""Headers of an answer whose form the caller chooses, JSON included."""
RANGE = re.compile(r"(?P<type>[^\s;]+)\s*(?P<parameters>(;[^;]*)*)")
QUALITY = re.compile(r"\s*q\s*=\s*(?P<q>0(\.\d{0,3})?|1(\.0{0,3})?)\s*", re.IGNORECASE)


class NotAcceptable(Exception):
    """The caller takes no form the answer can have."""

    def __init__(self, accept: str) -> None:
        super().__init__(f"Accept: {accept}")
        reason = f"the answer comes as {', '.join(Form)}, and none of them is accepted"
        self.fault = Fault("Accept", accept, reason, f"Accept {' or '.join(Form)}, or leave the header out.")


def wanted(accept: str | None) -> Form:
    """Return the form that is wanted most; the plainest where several are, JSON where nothing is said.

    RFC 9110, section 12.5.1: of the ranges that cover a type the most specific gives its quality.

    Parameters
    ----------
    accept
        Value of the header, several of them joined by commas; None where there was none.

    Raises
    ------
    NotAcceptable
        No form has a quality above 0.

    Examples
    --------
    >>> wanted(None), wanted("image/*"), wanted("image/png, */*;q=0.1")
    (<Form.JSON: 'application/json'>, <Form.SVG: 'image/svg+xml'>, <Form.PNG: 'image/png'>)
    """
    if accept is None or not accept.strip():
        return Form.JSON
    ranges = _ranges(accept)
    best = max(Form, key=lambda form: _quality(form, ranges))
    if _quality(best, ranges) == 0:
        raise NotAcceptable(accept)
    return best


def _ranges(accept: str) -> dict[str, float]:
    """Quality of each media range; one whose quality cannot be read asks for nothing."""
    found = {}
    for each in accept.lower().split(","):
        said = RANGE.fullmatch(each.strip())
        if said:
            found[said["type"]] = _stated(said["parameters"])
    return found


def _stated(parameters: str) -> float:
    """The quality among a range's parameters, 1 where there is none."""
    for parameter in parameters.split(";"):
        if parameter.strip().startswith("q"):
            said = QUALITY.fullmatch(parameter)
            return float(said["q"]) if said else 0.0
    return 1.0


def _quality(form: Form, ranges: dict[str, float]) -> float:
    family = form.split("/")[0]
    return next((ranges[name] for name in (form, f"{family}/*", "*/*") if name in ranges), 0.0)
