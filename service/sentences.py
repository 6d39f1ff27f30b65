"""What pydantic says of a value, in sentences: the rule with its numbers, and what would pass."""

import math
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel

from models.errors import Fault
from models.layout import LAUNCHABLE_ORDERS
from search.domains import order_fault
from service import unbuilt
from service.pointers import Located, Path, collapse, field_at, locate, pointer, schemas_at

MOST_FAULTS = 100
"""Faults told at once; a body with more of them is told how many were left out."""
LONGEST_TEXT = 200
"""Characters of a value echoed in a fault."""
MOST_ITEMS = 10
"""Items of a list or an object echoed in a fault."""

Sentence = tuple[str, str]
"""Reason and fix."""

KINDS = {
    "literal_error": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}


def explain(errors: Sequence[Mapping[str, Any]], root: Any, schema: type[BaseModel]) -> list[Fault]:
    """Turn pydantic's errors into faults, one a field, in the schema's order."""
    told = [error for error in errors if not _follows_from_items(error)]
    located = [locate(e, _inside(e["loc"]), root) for e in told[: 10 * MOST_FAULTS]]
    by_path: dict[Path, list[Located]] = {}
    for error in collapse(located):
        by_path.setdefault(error.path, []).append(error)
    faults = [_fault(path, same, root, schema) for path, same in list(by_path.items())[:MOST_FAULTS]]
    left_out = len(told) - len(located) + max(0, len(by_path) - MOST_FAULTS)
    if left_out:
        faults.append(Fault("", None, f"{left_out} more faults were left out", "Mend these first."))
    return faults


def _inside(loc: Sequence[str | int]) -> Sequence[str | int]:
    """The place in the body; FastAPI puts "body" before it."""
    return loc[1:] if loc[:1] == ("body",) else loc


def _follows_from_items(error: Mapping[str, Any]) -> bool:
    """Whether a list is only "too short" because its items were refused, each by its own error."""
    return error["type"] == "too_short" and bool(len(error["input"]) >= error["ctx"]["min_length"])


def _fault(path: Path, errors: Sequence[Located], root: Any, schema: type[BaseModel]) -> Fault:
    first = errors[0].error
    value = None if first["type"] == "missing" else first["input"]
    name = str(path[-1]) if path else ""
    if first["type"] == "missing":
        reason, fix = _missing(path, root, schema)
    elif first["type"] == "extra_forbidden":
        reason, fix = _unknown(path, schema)
    elif refused := unbuilt.value_reason(name, _scalar(value)) or unbuilt.value_reason(
        str(path[-2]) if len(path) > 1 else "", _scalar(value)
    ):
        reason, fix = refused, _offer(errors)
    elif _is_short_or_long_order(path, first):
        told = order_fault(pointer(path), value)
        reason, fix = told.reason, told.fix
    else:
        reason, fix = _wrong([e.error for e in errors], value)
    return Fault(pointer(path), echo(value), reason, fix)


def _is_short_or_long_order(path: Path, error: Mapping[str, Any]) -> bool:
    """Whether a rank order, alone or in a list of them, lacks axes or has more than there are."""
    context = error.get("ctx", {})
    bound = {"too_short": context.get("min_length"), "too_long": context.get("max_length")}.get(error["type"])
    return "rank_order" in path[-2:] and bound == len(LAUNCHABLE_ORDERS[0])


def _scalar(value: Any) -> object:
    return value if isinstance(value, str) else None


def _missing(path: Path, root: Any, schema: type[BaseModel]) -> Sentence:
    if not path:
        return "the body is empty", "Send a JSON object."
    field = field_at(schema, path)
    about = (field.description or "").split("\n")[0] if field else ""
    holder: Any = root
    for part in path[:-1]:
        holder = holder[part]
    unknown = set(holder) - set(_names(schema, path[:-1]))
    like = get_close_matches(str(path[-1]), sorted(unknown)[:MOST_FAULTS], n=1)
    hint = f" Was {like[0]!r} meant to be it?" if like else ""
    return "required, and left out", f"Add {path[-1]!r}: {about}{hint}".rstrip(": ")


def _names(schema: type[BaseModel], path: Path) -> list[str]:
    return [name for known in schemas_at(schema, path) for name in known.model_fields]


def _unknown(path: Path, schema: type[BaseModel]) -> Sentence:
    name = str(path[-1])
    known = _names(schema, path[:-1])
    near = get_close_matches(name[:100], known, n=1, cutoff=0.6)
    fix = f"Did you mean {near[0]!r}?" if near else f"Known fields: {', '.join(known)}."
    return "no field of this name", fix


def _offer(errors: Sequence[Located]) -> str:
    for error in errors:
        if expected := error.error.get("ctx", {}).get("expected"):
            return f"Use {expected}."
    return "Leave it out."


def _wrong(errors: Sequence[Mapping[str, Any]], value: Any) -> Sentence:
    """Say what kinds of value would pass; of several shapes of one kind, what the first lacks."""
    sentences = [_sentence(error, value) for error in errors]
    kinds = list(dict.fromkeys(KINDS[e["type"]] for e in errors if e["type"] in KINDS))
    if len(kinds) > 1:
        plain = next((k for k in kinds if _retyped(k, value) != f"Write {k}."), _either(kinds))
        words = [fix for e, (_, fix) in zip(errors, sentences, strict=True) if e["type"] == "literal_error"]
        return f"must be {_either(kinds)}, not {kind_of(value)}", (*words, _retyped(plain, value))[0]
    return sentences[0]


def _sentence(error: Mapping[str, Any], value: Any) -> Sentence:
    context = error.get("ctx", {})
    kind = error["type"]
    if kind in SENTENCES:
        return SENTENCES[kind](context, value)
    if kind in KINDS:
        return f"must be {KINDS[kind]}, not {kind_of(value)}", _retyped(KINDS[kind], value)
    return str(error["msg"]), "Correct the value as the reason says; /docs describes the field."


def _retyped(kind: str, value: Any) -> str:
    """The same value in the right type, where it is plain what was meant."""
    if kind == "a whole number" and isinstance(value, float) and math.isfinite(value):
        low = math.floor(value)
        return f"Write {low}." if low == value else f"Write {low} or {low + 1}."
    if kind in ("a whole number", "a number") and isinstance(value, str) and value.strip().isdecimal():
        return f"Write {value.strip()[:40]} without quotes."
    return f"Write {kind}."


def _literal(context: Mapping[str, Any], value: Any) -> Sentence:
    expected = str(context["expected"])
    names = [name for name in expected.replace(" or ", ", ").replace("'", "").split(", ") if name]
    near = get_close_matches(str(value)[:100].lower(), names, n=1)
    return f"not one of {expected}", f"Did you mean {near[0]!r}?" if near else f"Use one of {expected}."


def _items(value: Any) -> str:
    return "1 item" if len(value) == 1 else f"{len(value)} items"


SENTENCES: dict[str, Callable[[Mapping[str, Any], Any], Sentence]] = {
    "greater_than_equal": lambda c, v: (f"below the least accepted, {c['ge']}", f"Use {c['ge']} or more."),
    "greater_than": lambda c, v: (f"must be more than {c['gt']}", f"Use more than {c['gt']}."),
    "less_than_equal": lambda c, v: (f"above the most accepted, {c['le']}", f"Use {c['le']} or less."),
    "less_than": lambda c, v: (f"must be less than {c['lt']}", f"Use less than {c['lt']}."),
    "range_order": lambda c, v: (
        f"min {c['min']} is above max {c['max']}", "Swap them, or leave one of them out."),
    "finite_number": lambda c, v: ("must be a finite number", "Write a finite number."),
    "literal_error": _literal,
    "too_short": lambda c, v: (
        f"{_items(v)}, and at least {c['min_length']} are needed", f"Give at least {c['min_length']}."),
    "too_long": lambda c, v: (
        f"{_items(v)}, and at most {c['max_length']} are read", f"Give at most {c['max_length']}."),
    "string_too_short": lambda c, v: (
        f"shorter than {c['min_length']} characters", f"Write at least {c['min_length']}."),
    "string_too_long": lambda c, v: (
        f"longer than {c['max_length']} characters", f"Write at most {c['max_length']}."),
    "value_error": lambda c, v: (str(c.get("error", "not accepted")), "Correct it as the reason says."),
}  # fmt: skip
"""Pydantic's error type to reason and fix."""


def _either(kinds: Sequence[str]) -> str:
    return kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} or {kinds[-1]}"


def kind_of(value: Any) -> str:
    """What JSON calls a value.

    >>> [kind_of(value) for value in (None, True, 2.5, "x", [], {})]
    ['null', 'true', 'the number 2.5', 'text', 'a list', 'an object']
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return f"the number {echo(value)}"
    if isinstance(value, str):
        return "text"
    return "an object" if isinstance(value, Mapping) else "a list"


def echo(value: Any, depth: int = 3) -> Any:
    """A value as it may stand in an answer: JSON, finite, and short.

    >>> echo(float("inf")), echo("x" * 300)[-20:], echo([1] * 12)[-1]
    ('inf', 'xx… (300 characters)', '… (12 in all)')
    """
    if isinstance(value, str):
        clean = value[:LONGEST_TEXT].encode("utf-8", "replace").decode()
        return clean if len(value) <= LONGEST_TEXT else f"{clean}… ({len(value)} characters)"
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**63 else f"a whole number of {len(str(abs(value)))} digits"
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return _echo_object(value, depth)
    if isinstance(value, Sequence):
        short = [echo(item, depth - 1) for item in value[:MOST_ITEMS]] if depth else []
        return short if len(short) == len(value) else [*short, f"… ({len(value)} in all)"]
    return echo(str(value))


def _echo_object(value: Mapping[Any, Any], depth: int) -> Any:
    if not depth:
        return f"an object of {len(value)} fields"
    short = {str(echo(key)): echo(value[key], depth - 1) for key in list(value)[:MOST_ITEMS]}
    return short if len(short) == len(value) else {**short, "…": f"{len(value)} fields in all"}
