"""Run the service under uvicorn."""

import signal
import socket

import uvicorn

from service import openapi
from service.app import create_app
from service.settings import Settings, read_settings

GRACE_S = 5
"""How long a stopping server waits for running answers; then their searches are stopped. [s]"""


def serve(host: str | None = None, port: int | None = None) -> None:
    """Serve until told to stop; what is not given comes from the environment."""
    given = {"host": host, "port": port}
    run_quietly(server(read_settings(**{name: value for name, value in given.items() if value is not None})))


def run_quietly(running: uvicorn.Server) -> None:
    """Run until SIGINT or SIGTERM, which are a clean end: uvicorn raises them again once it has stopped."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    running.run()


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
    """Find the first port from `first` on that nobody listens on."""
    for port in range(first, min(first + tries, 65536)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port from {first} to {first + tries - 1} on {host}")
