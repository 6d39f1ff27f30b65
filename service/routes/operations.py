"""Whether the service lives, whether it can answer, and where to start reading."""

from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse

from models.base import Schema
from service.openapi import BUSY_PROBLEM, VERSION
from service.routes.answers import workers

router = APIRouter(tags=["operations"])


class Health(Schema):
    """The process answers."""

    status: Literal["ok"] = "ok"
    version: str = VERSION
    """Version of the service."""


class Readiness(Schema):
    """A search sent now would be taken."""

    status: Literal["ready"] = "ready"
    version: str = VERSION
    """Version of the service."""


@router.get("/healthz")
async def health() -> Health:
    """Whether the process answers, whatever it computes besides."""
    return Health()


@router.get("/readyz", responses=BUSY_PROBLEM)
async def readiness(request: Request) -> Readiness:
    """Whether a search sent now would be taken; 503 while too many wait."""
    workers(request).check_room()
    return Readiness()


@router.get("/", include_in_schema=False)
async def start() -> RedirectResponse:
    """Lead to the documentation."""
    return RedirectResponse("docs")
