"""A route that reads its body strictly and explains what is wrong with it."""

import re
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from models.errors import InvalidField
from service.body import read_json, refuse
from service.questions import faults_of
from service.settings import Settings

JSON_TYPE = re.compile(r"application/([\w.+-]+\+)?json\s*(;.*)?", re.IGNORECASE)


class JsonRequest(Request):
    """A request whose body was read and parsed already."""

    raw: bytes
    value: Any

    async def body(self) -> bytes:
        """The bytes that were read."""
        return self.raw

    async def json(self) -> Any:
        """The value they hold."""
        return self.value


class JsonRoute(APIRoute):
    """Reads JSON as `service.body` does; a value that does not fit the schema becomes InvalidField."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap FastAPI's handler."""
        handle = super().get_route_handler()
        field = self.body_field
        if field is None:
            return handle
        schema: Any = field.field_info.annotation

        async def strict(request: Request) -> Response:
            read = JsonRequest(request.scope, request.receive)
            settings: Settings = request.app.state.settings
            try:
                read.raw = await _limited(request, settings)
            except ClientDisconnect:
                return Response(status_code=400)  # to nobody: the client left before its body was sent
            read.value = await anyio.to_thread.run_sync(read_json, read.raw)
            try:
                return await handle(read)
            except RequestValidationError as error:
                explaining = partial(faults_of, error.errors(), read.value, schema)
                faults = await anyio.to_thread.run_sync(explaining)
                raise InvalidField(*faults) from error

        return strict


async def _limited(request: Request, settings: Settings) -> bytes:
    """Read a body of JSON, but no more of it and no longer than is allowed."""
    stated = request.headers.get("content-type", "")
    announced = request.headers.get("content-length", "0")
    size = int(announced[:20]) if announced.isdecimal() else 0
    if size > settings.max_body_bytes:
        _too_large(settings.max_body_bytes, size)
    try:
        with anyio.fail_after(settings.body_timeout_s):
            body = await _read(request, settings.max_body_bytes)
    except TimeoutError:
        reason = f"the body did not arrive whole within {settings.body_timeout_s:g} s"
        refuse(None, reason, "Send all of what Content-Length announces.", 408)
    if body and not JSON_TYPE.fullmatch(stated):
        refuse(stated or None, "the body is not sent as JSON", "Set Content-Type: application/json.", 415)
    return body


async def _read(request: Request, most: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > most:
            _too_large(most)
        chunks.append(chunk)
    return b"".join(chunks)


def _too_large(most: int, size: int | None = None) -> None:
    """Refuse a body, telling its size in bytes where it was announced."""
    refuse(size, f"the body is larger than {most} bytes", "Send less.", 413)
