"""A real server on a free port: the service is tested the way its callers meet it."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def served(**environment: str) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "service.cli", "serve", "--port", str(port)]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"LAYOUT_SEARCH_LOG_LEVEL": "warning"} | environment,
    ) as process:
        try:
            address = f"http://127.0.0.1:{port}"
            _wait(address, process)
            yield address
        finally:
            process.terminate()
            process.wait(timeout=30)


def _wait(address: str, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(600):
        try:
            httpx.get(f"{address}/readyz", trust_env=False).raise_for_status()
        except httpx.TransportError:
            assert process.poll() is None, "the server ended before it answered"
            time.sleep(0.1)
        else:
            return
    pytest.fail("the server did not answer within 60 s")


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    with served() as found:
        yield found


@pytest.fixture(scope="session")
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=120, trust_env=False) as found:
        yield found


@pytest.fixture
def server_with() -> Callable[..., "contextmanager[str]"]:
    """A server of one test's own, with the environment it asks for."""
    return served
