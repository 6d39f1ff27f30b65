"""The requests of openapi/examples/: shown in the docs, sent by the tests."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "openapi" / "examples"


@dataclass(frozen=True)
class Example:
    """One request, and how it is answered."""

    file: str
    path: str
    summary: str
    status: int
    outcome: str | None
    request: dict[str, Any]


@cache
def examples() -> tuple[Example, ...]:
    """Every example in the order of index.json; none where the folder was not installed."""
    index = FOLDER / "index.json"
    if not index.is_file():
        return ()
    entries = json.loads(index.read_text(encoding="utf-8"))
    return tuple(Example(**entry, request=_request(entry["file"])) for entry in entries)


def shown_at(path: str) -> dict[str, Any]:
    """OpenAPI's examples of one path's request body."""
    return {
        e.file.removesuffix(".json"): {"summary": e.summary, "value": e.request}
        for e in examples()
        if e.path == path
    }


def _request(file: str) -> dict[str, Any]:
    request: dict[str, Any] = json.loads((FOLDER / file).read_text(encoding="utf-8"))
    return request
