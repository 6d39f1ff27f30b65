"""What happens on the connection itself: HEAD, bodies that stop half-way, clients that leave."""

import socket
import subprocess
import sys
import time

import httpx
import pytest

from tests.service.conftest import ROOT
from tests.service.shapes import check_problem

HALF = (
    b"POST /v1/search HTTP/1.1\r\nHost: here\r\n"
    b'Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{"a'
)


def connect(address: str) -> socket.socket:
    host, _, port = address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=10)


def until_closed(wire: socket.socket) -> bytes:
    chunks = []
    while chunk := wire.recv(65536):
        chunks.append(chunk)
    return b"".join(chunks)


@pytest.mark.parametrize(
    "path", ["/healthz", "/readyz", "/v1/models", "/v1/gpus/h100-sxm", "/docs", "/openapi.json"]
)
def test_head_is_answered_as_get_is_without_the_body(client, path):
    head, get = client.head(path), client.get(path)
    assert head.status_code == get.status_code == 200
    assert head.content == b""
    for name in ("content-type", "content-length"):
        assert head.headers[name] == get.headers[name]


@pytest.mark.parametrize(("path", "status"), [("/v1/gpus/none", 404), ("/nowhere", 404), ("/v1/search", 405)])
def test_head_of_what_get_does_not_find_has_its_status(client, path, status):
    answer = client.head(path)
    assert (answer.status_code, answer.content) == (status, b"")


def test_a_wrong_method_is_told_that_head_is_taken_too(client):
    answer = client.post("/v1/gpus", json={})
    check_problem(answer, 405)
    assert answer.headers["allow"] == "GET, HEAD"


def test_a_body_that_never_arrives_whole_is_408_and_the_connection_ends(server_with):
    with server_with(LAYOUT_SEARCH_BODY_TIMEOUT_S="0.5") as address, connect(address) as wire:
        wire.sendall(HALF)
        start = time.monotonic()
        head, _, body = until_closed(wire).decode().partition("\r\n\r\n")
        assert time.monotonic() - start < 20
        assert head.startswith("HTTP/1.1 408")
        assert "application/problem+json" in head
        assert "0.5 s" in body


def test_a_body_that_drips_is_408_too(server_with):
    with server_with(LAYOUT_SEARCH_BODY_TIMEOUT_S="1") as address, connect(address) as wire:
        wire.sendall(HALF)
        for _ in range(4):
            wire.sendall(b" ")
            time.sleep(0.2)
        assert until_closed(wire).startswith(b"HTTP/1.1 408")


def test_a_client_that_leaves_half_way_is_no_error_in_the_log():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "service.cli", "serve", "--port", str(port)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        address = f"http://127.0.0.1:{port}"
        for _ in range(200):
            try:
                httpx.get(f"{address}/healthz", trust_env=False)
                break
            except httpx.TransportError:
                time.sleep(0.1)
        for _ in range(3):
            with connect(address) as wire:
                wire.sendall(HALF)
                time.sleep(0.1)
        assert httpx.get(f"{address}/healthz", trust_env=False).status_code == 200
        process.terminate()
        _, log = process.communicate(timeout=30)
    assert "Traceback" not in log
    assert "Exception" not in log
    assert "ERROR" not in log
