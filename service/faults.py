"""The one place where exceptions become HTTP (RFC 9457 problem details)."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from models.errors import Fault, LayoutError, UnknownEntry
from service.accept import NotAcceptable
from service.body import BadBody
from service.problem import MEDIA_TYPE, OUR_FAULT, FaultDetail, Problem, kind
from service.sentences import echo
from service.unbuilt import PATHS
from service.work import Busy


def problem(status: int, faults: Iterable[Fault], detail: str = "") -> Problem:
    """Put faults in the one shape every error of ours has."""
    told = tuple(
        FaultDetail(field=f.field, value=echo(f.value), reason=f.reason.rstrip("."), fix=f.fix)
        for f in faults
    )
    name, title = kind(status)
    detail = detail or summary(told) or title
    return Problem(type=name, title=title, status=status, detail=detail, faults=told)


def summary(faults: tuple[FaultDetail, ...]) -> str:
    """Tell the first fault, and how many more there are.

    >>> one = FaultDetail(field="/gpus", value=0, reason="below the least accepted, 1", fix="Use 1 or more.")
    >>> summary((one, one))
    '/gpus: below the least accepted, 1. Use 1 or more. And 1 more.'
    """
    if not faults:
        return ""
    first = faults[0]
    more = f" And {len(faults) - 1} more." if len(faults) > 1 else ""
    return f"{first.field + ': ' if first.field else ''}{first.reason}. {first.fix}{more}"


def lines(faults: Iterable[Fault]) -> str:
    """Tell each fault in a line, for a terminal."""
    told = problem(422, faults).faults
    given = ("" if fault.value is None else f" = {fault.value!r}" for fault in told)
    return "".join(
        f"{fault.field or 'request'}{value}: {fault.reason}. {fault.fix}\n"
        for fault, value in zip(told, given, strict=True)
    )


def answer(told: Problem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Send a problem."""
    return JSONResponse(told.model_dump(mode="json"), told.status, headers=headers, media_type=MEDIA_TYPE)


def status_of(error: LayoutError, in_path: bool) -> int:
    """An unknown name is 404 where it is the resource asked for, 422 where it stands in a question."""
    return 404 if isinstance(error, UnknownEntry) and in_path else 422


def install(app: FastAPI) -> None:
    """Make our faults and the framework's own look the same."""

    @app.exception_handler(LayoutError)
    def ours(request: Request, error: LayoutError) -> JSONResponse:
        return answer(problem(status_of(error, in_path=request.method == "GET"), error.faults))

    @app.exception_handler(BadBody)
    def bodies(_: Request, error: BadBody) -> JSONResponse:
        leave = {"Connection": "close"} if error.status == 408 else None
        return answer(problem(error.status, error.faults), leave)

    @app.exception_handler(NotAcceptable)
    def forms(_: Request, error: NotAcceptable) -> JSONResponse:
        return answer(problem(406, [error.fault]))

    @app.exception_handler(Busy)
    def queue(_: Request, error: Busy) -> JSONResponse:
        wait = error.retry_after_s
        fault = Fault("", None, f"{error.waiting} searches wait already", f"Ask again in {wait} s.")
        return answer(problem(503, [fault]), {"Retry-After": str(wait)})

    @app.exception_handler(RequestValidationError)
    def parameters(_: Request, error: RequestValidationError) -> JSONResponse:
        faults = [
            Fault(".".join(map(str, e["loc"])), e.get("input"), e["msg"], "See /docs.")
            for e in error.errors()
        ]
        return answer(problem(422, faults))

    @app.exception_handler(HTTPException)
    def frameworks(request: Request, error: HTTPException) -> JSONResponse:
        status, path, headers = error.status_code, request.url.path, dict(error.headers or {})
        faults = []
        if status == 404:
            faults = [Fault("path", path, *_nowhere(app, path))]
        elif status == 405 and "Allow" in headers:
            headers["Allow"] = allowed = _with_head(headers["Allow"])
            fix = f"Use {allowed.replace(', ', ' or ')}."
            faults = [Fault("method", request.method, f"{echo(path)} does not take it", fix)]
        return answer(problem(status, faults, "" if faults else error.detail), headers)

    @app.exception_handler(Exception)
    def bugs(_: Request, error: Exception) -> JSONResponse:
        return answer(problem(500, [], OUR_FAULT))


def _with_head(allowed: str) -> str:
    """The methods of a path; `service.wire` answers HEAD wherever GET is."""
    return "GET, HEAD" if allowed == "GET" else allowed


def _nowhere(app: FastAPI, path: str) -> tuple[str, str]:
    """Why a path leads nowhere, and which one may have been meant."""
    if any(path == known or path.startswith(known + "/") for known in PATHS):
        return "known to the contract, but not built yet", "See /docs for the paths that answer."
    near = get_close_matches(path[:200], app.openapi()["paths"], n=1)
    return "no path of ours", f"Did you mean {near[0]}?" if near else "See /docs for the paths that answer."
