"""Read a request body strictly: JSON of RFC 8259, of a bounded size, depth and count.

Python's own reader takes more than JSON allows (NaN, lone surrogates) and recurses as deep as the
body says. Whatever passes here can be validated, echoed in a fault and answered without surprises.
"""

import json
from collections import Counter
from typing import Any, NoReturn

from models.errors import Fault
from service.pointers import Path, pointer
from service.sentences import MOST_FAULTS

MAX_DEPTH = 32
"""Deepest nesting read; a request of ours nests 7 deep, a `config.json` 3."""
MAX_VALUES = 100_000
"""Most values in one body: past it, explaining what is wrong costs more than the search."""

MAX_DIGITS = 400
"""Most digits of a whole number: no float holds more, and reading many more takes long."""

Repeated = dict[int, tuple[dict[str, Any], dict[str, int]]]
"""Objects, each by its id, with the keys they say more than once and how often."""


class BadBody(Exception):
    """The body is not what can be read; `status` is 400, 408, 413 or 415."""

    def __init__(self, status: int, *faults: Fault) -> None:
        super().__init__("; ".join(f"{fault.reason}. {fault.fix}" for fault in faults))
        self.status = status
        self.faults = faults


def refuse(value: object, reason: str, fix: str, status: int = 400) -> NoReturn:
    """Raise BadBody about the body as a whole."""
    raise BadBody(status, Fault("", value, reason, fix))


def read_json(body: bytes) -> Any:
    """Parse a JSON body, or refuse it with a reason.

    >>> read_json(b'{"gpus": 8}')
    {'gpus': 8}
    >>> read_json(b'{"gpus": NaN}')
    Traceback (most recent call last):
    service.body.BadBody: NaN is not JSON. Write a finite number, or leave the field out.
    """
    if not body.strip():
        refuse(None, "the body is empty", "Send a JSON object; /docs shows examples.")
    try:
        text = body.decode("utf-8-sig")
        value, repeated = _parsed(text)
    except UnicodeDecodeError as error:
        refuse(None, f"the body is not UTF-8: byte {error.start} is 0x{body[error.start]:02x}", "Send UTF-8.")
    except json.JSONDecodeError as error:
        refuse(
            _around(error.doc, error.pos),
            f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}",
            "Send one JSON object.",
        )
    except RecursionError:
        _too_deep()
    _bounded(value)
    if repeated:
        raise BadBody(400, *repeated_keys(value, repeated))
    return value


def _parsed(text: str) -> tuple[Any, Repeated]:
    """The value a text holds, and its objects that say a key twice: RFC 8259 leaves open which counts."""
    repeated: Repeated = {}

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        built = dict(pairs)
        if len(built) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            repeated[id(built)] = built, {key: times for key, times in counts.items() if times > 1}
        return built

    value = json.loads(
        text, object_pairs_hook=build, parse_constant=_constant, parse_float=_finite, parse_int=_whole
    )
    return value, repeated


def _constant(name: str) -> NoReturn:
    refuse(name, f"{name} is not JSON", "Write a finite number, or leave the field out.")


def _whole(text: str) -> int:
    if len(text) > MAX_DIGITS:
        refuse(f"{text[:40]}…", f"a number of {len(text)} digits", f"Write at most {MAX_DIGITS} digits.")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        refuse(text[:40], f"{text[:40]} is past the largest number, 1.8e308", "Write a finite number.")
    return number


def _around(text: str, position: int) -> str:
    """What stands where the reader stopped."""
    return text[max(0, position - 20) : position + 20].encode("utf-8", "replace").decode()


def _too_deep() -> NoReturn:
    refuse(None, f"the body nests deeper than {MAX_DEPTH} levels", "Send the request as /docs shows it.")


def repeated_keys(root: Any, repeated: Repeated) -> list[Fault]:
    """A fault for each key that an object says more than once, where it stands."""
    faults: list[Fault] = []
    todo: list[tuple[Path, Any]] = [((), root)]
    while todo and len(faults) < MOST_FAULTS:
        path, value = todo.pop()
        if not isinstance(value, (dict, list)):
            continue
        holder, keys = repeated.get(id(value), ({}, {}))
        faults += [
            Fault(pointer((*path, key)), holder[key], f"the key {key!r} stands {times} times", "Keep one.")
            for key, times in list(keys.items())[: MOST_FAULTS - len(faults)]
        ]
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        todo += [((*path, key), part) for key, part in inner][::-1]
    return faults


def _bounded(root: Any) -> None:
    """Refuse what is too deep, too many, or text that no UTF-8 can carry."""
    level, depth, seen = [root], 0, 0
    while level:
        seen += len(level)
        if depth > MAX_DEPTH:
            _too_deep()
        if seen > MAX_VALUES:
            refuse(None, f"the body holds more than {MAX_VALUES} values", "Send fewer, or several requests.")
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner.extend(value.keys())
                inner.extend(value.values())
            elif isinstance(value, list):
                inner.extend(value)
            elif isinstance(value, str):
                _encodable(value)
        level, depth = inner, depth + 1


def _encodable(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        refuse(
            text[:40].encode("utf-8", "backslashreplace").decode(),
            f"a lone surrogate, \\u{ord(text[error.start]):04x}, stands in a text",
            "Write the character itself, or both halves of its pair.",
        )
