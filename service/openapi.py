"""The OpenAPI description: ours in full, with problem+json as the one shape of errors."""

import json
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from service.problem import KINDS, MEDIA_TYPE, Problem

DESCRIPTION = """\
Finds how to lay a large-language-model training run over its GPUs: every layout of tensor, context,
pipeline, data and expert parallelism with ZeRO, schedule, recompute and rank order that fits in
memory, priced and ranked. Errors are RFC 9457 `application/problem+json`; each fault carries the
field, the value, the reason and a fix.
"""
TAGS = [
    {"name": "layouts", "description": "Search the space of layouts, or price one."},
    {"name": "catalogues", "description": "Models, GPUs and clusters known by name, with sources."},
    {"name": "operations", "description": "Liveness and readiness."},
]


def _version() -> str:
    """Version as installed; in a tree that is not, as it would be."""
    try:
        return version("layout-search")
    except PackageNotFoundError:
        project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
        return str(project["project"]["version"])


VERSION = _version()
"""Version of the installed service."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe error answers for a route's `responses`."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": KINDS[status][1], "content": content} for status in statuses}


BODY_PROBLEMS = problems(400, 408, 413, 415, 422)
QUESTION_PROBLEMS = BODY_PROBLEMS | problems(503)
NAME_PROBLEMS = problems(404, 422)
BUSY_PROBLEM = problems(503)


def install(app: FastAPI) -> None:
    """Make `app.openapi()` describe errors as they are sent."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _description(app)
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]


def _description(app: FastAPI) -> dict[str, Any]:
    found = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes, tags=TAGS
    )
    schemas = found["components"]["schemas"]
    problem = Problem.model_json_schema(mode="serialization", ref_template="#/components/schemas/{model}")
    schemas |= problem.pop("$defs")
    schemas["Problem"] = problem
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    found["components"]["schemas"] = dict(sorted(schemas.items()))
    return found


def text(app: FastAPI) -> str:
    """The description as the file openapi/openapi.json holds it."""
    return json.dumps(app.openapi(), indent=2, ensure_ascii=False) + "\n"
