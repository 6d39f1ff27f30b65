"""Run the service under uvicorn."""

import asyncio
import errno
import os
import signal

import uvicorn

from models.errors import Fault, InvalidField
from service import openapi
from service.app import create_app
from service.settings import Settings, read_settings

GRACE_S = 5
"""How long a stopping server waits for running answers; then their searches are stopped. [s]"""


def serve(host: str | None = None, port: int | None = None) -> None:
    """Serve until told to stop; what is not given comes from the environment."""
    given = {"host": host, "port": port}
    settings = read_settings(**{name: value for name, value in given.items() if value is not None})
    check_address(settings.host, settings.port)
    run_quietly(server(settings))


def run_quietly(running: uvicorn.Server) -> None:
    """Run until SIGINT or SIGTERM, which are a clean end: uvicorn raises them again once it has stopped.

    A server that cannot start leaves with 1; uvicorn's own status, 3, means that no layout fits.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    try:
        running.run()
    except SystemExit as left:
        raise SystemExit(1) from left


def check_address(host: str, port: int) -> None:
    """Listen for a moment, as uvicorn will; or raise InvalidField with what stands in the way."""
    try:
        asyncio.run(_listen(host, port))
    except (OSError, UnicodeError) as error:
        raise InvalidField(_unheard(host, port, error)) from error


async def _listen(host: str, port: int) -> None:
    listening = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port)
    listening.close()
    await listening.wait_closed()


def _unheard(host: str, port: int, error: OSError | UnicodeError) -> Fault:
    """Why nobody can listen there: an address taken or forbidden is the port's fault, others the host's."""
    number = getattr(error, "errno", None) or 0
    if number in (errno.EADDRINUSE, errno.EACCES):
        reason = f"cannot listen on {host}:{port}, {os.strerror(number).lower()}"
        return Fault("--port", port, reason, "Name another port, or 0 for any that is free.")
    why = os.strerror(number).lower() if number > 0 else "no address of that name"
    return Fault("--host", host, f"cannot listen there, {why}", "Name an address of this machine.")


def server(settings: Settings) -> uvicorn.Server:
    """Build a server of the application."""
    return uvicorn.Server(
        uvicorn.Config(
            create_app(settings),
            host=settings.host,
            port=settings.port,
            log_level=settings.log_level,
            timeout_graceful_shutdown=GRACE_S,
        )
    )


def description() -> str:
    """The OpenAPI description as the file openapi/openapi.json holds it."""
    return openapi.text(create_app(Settings.model_construct()))


def free_port(host: str, first: int, tries: int = 100) -> int:
    """Find the first port from `first` on that one can listen on, or raise InvalidField."""
    last = min(first + tries, 65536) - 1
    for port in range(first, last):
        if _is_free(host, port):
            return port
    check_address(host, last)
    return last


def _is_free(host: str, port: int) -> bool:
    try:
        check_address(host, port)
    except InvalidField as error:
        if error.faults[0].field == "--port":
            return False
        raise
    return True
