"""Where in a request pydantic's errors stand, told the way its author sees it.

For a field that takes one of several shapes (`str | ClusterRequest`) pydantic lists what is wrong
under each shape. The author meant one of them: the one whose errors go deepest is kept.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Path = tuple[str | int, ...]

WRONG_SHAPE = frozenset({
    "int_type", "int_parsing", "int_from_float", "float_type", "float_parsing", "bool_type", "bool_parsing",
    "literal_error", "string_type", "tuple_type", "list_type", "dict_type", "model_type",
    "model_attributes_type",
})  # fmt: skip
"""Errors that say a value is of another kind, not that it is out of range."""


@dataclass(frozen=True)
class Located:
    """One error, with the path of the value in the request."""

    path: Path
    """Keys and indices of the request itself."""
    shapes: tuple[tuple[int, str], ...]
    """Names of union shapes on the way: how much of the path stands before each, and its name."""
    error: Mapping[str, Any]
    """What pydantic said."""


def locate(error: Mapping[str, Any], loc: Sequence[str | int], root: Any) -> Located:
    """Tell the request's own keys from the names of union shapes."""
    path: list[str | int] = []
    shapes: list[tuple[int, str]] = []
    value = root
    for index, part in enumerate(loc):
        last_is_key = index == len(loc) - 1 and error["type"] in ("missing", "extra_forbidden")
        if last_is_key or _holds(value, part):
            path.append(part)
            value = value[part] if _holds(value, part) else None
        else:
            shapes.append((len(path), str(part)))
    return Located(tuple(path), tuple(shapes), error)


def _holds(value: Any, part: str | int) -> bool:
    if isinstance(value, Mapping):
        return part in value
    return isinstance(value, Sequence) and not isinstance(value, str) and part in range(len(value))


def collapse(errors: Iterable[Located]) -> Iterator[Located]:
    """Keep, of each union's shapes, the one that was meant."""
    unions: dict[Path, dict[str, list[Located]]] = {}
    for error in errors:
        if not error.shapes:
            yield error
            continue
        (depth, shape), *inner = error.shapes
        rest = Located(error.path, tuple(inner), error.error)
        unions.setdefault(error.path[:depth], {}).setdefault(shape, []).append(rest)
    for at, shapes in unions.items():
        branches = [list(collapse(branch)) for branch in shapes.values()]
        best = max(_meant(at, branch) for branch in branches)
        for branch in branches:
            if _meant(at, branch) == best:
                yield from branch


def _meant(at: Path, branch: Sequence[Located]) -> tuple[bool, bool, int]:
    """How well a shape matches: its kind is right, errors lie inside it, and few of them."""
    right_kind = any(_right_kind(e.error) for e in branch)
    inside = any(len(e.path) > len(at) for e in branch)
    fewness = -len(branch) if right_kind or inside else 0
    return right_kind, inside, fewness


def _right_kind(error: Mapping[str, Any]) -> bool:
    """Whether the value is of the kind the shape asks for: a word where one of some words is."""
    if error["type"] == "literal_error":
        return isinstance(error["input"], str)
    return error["type"] not in WRONG_SHAPE


def schemas_at(root: type[BaseModel], path: Path) -> list[type[BaseModel]]:
    """Which schemas the object at a path may follow.

    >>> from models.request import SearchRequest
    >>> [schema.__name__ for schema in schemas_at(SearchRequest, ("cluster", "tiers", 0))]
    ['TierRequest']
    """
    schemas = [root]
    for part in path:
        if isinstance(part, str):
            fields = [s.model_fields[part] for s in schemas if part in s.model_fields]
            schemas = [schema for field in fields for schema in _schemas_in(field.annotation)]
    return schemas


def field_at(root: type[BaseModel], path: Path) -> FieldInfo | None:
    """The field a path names, where a schema knows it."""
    names = [index for index, part in enumerate(path) if isinstance(part, str)]
    if not names or names[-1] != len(path) - 1:
        return None
    name = str(path[-1])
    for schema in schemas_at(root, path[:-1]):
        if name in schema.model_fields:
            return schema.model_fields[name]
    return None


def _schemas_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [schema for inner in get_args(annotation) for schema in _schemas_in(inner)]


def pointer(path: Path) -> str:
    """A JSON pointer (RFC 6901).

    >>> pointer(("cluster", "tiers", 0, "a/b"))
    '/cluster/tiers/0/a~1b'
    """
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
