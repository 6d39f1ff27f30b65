"""What `make run` runs: the service on a free port, one real question, its answer, and the way on."""

import argparse
import sys
import threading
import time

import httpx
import uvicorn

from models.errors import LayoutError
from models.estimate import SearchAnswer
from service import tables
from service.examples import FOLDER
from service.faults import lines
from service.serving import free_port, run_quietly, server
from service.settings import read_settings

EXAMPLE = "llama-3.1-405b-16384-h100.json"
READY_S = 60.0
"""Longest wait for the server to answer. [s]"""
ANSWER_S = 300.0
"""Longest wait for the shortlist. [s]"""


def main() -> None:
    """Serve, ask, print; then keep serving unless told to stop."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--once", action="store_true", help="stop after the table")
    once = options.parse_args().once
    try:
        wanted = read_settings()
        port = free_port(wanted.host, wanted.port)
    except LayoutError as error:
        sys.exit(lines(error.faults).rstrip())
    if port != wanted.port:
        print(f"Port {wanted.port} is taken; serving on {port}.", flush=True)
    running = server(wanted.model_copy(update={"port": port, "log_level": "warning"}))
    asker = Asker(running, once)
    asker.start()
    run_quietly(running)
    sys.exit(1 if once and not asker.answered else 0)


class Asker(threading.Thread):
    """Asks the server beside it, prints the answer, and stops the server if that was all."""

    def __init__(self, running: uvicorn.Server, once: bool) -> None:
        super().__init__(daemon=True)
        self._server = running
        self._once = once
        self.answered = False

    def run(self) -> None:
        """Wait until the server answers, then ask."""
        try:
            self._ask(f"http://{self._server.config.host}:{self._server.config.port}")
            self.answered = True
        except httpx.HTTPError as error:
            print(f"The example was not answered: {error!r}", file=sys.stderr, flush=True)
        finally:
            self._server.should_exit = self._server.should_exit or self._once

    def _ask(self, address: str) -> None:
        question = (FOLDER / EXAMPLE).read_bytes()
        with httpx.Client(base_url=address, timeout=ANSWER_S, trust_env=False) as client:
            _wait(client)
            print(f"POST {address}/v1/search  <  openapi/examples/{EXAMPLE}\n", flush=True)
            answer = client.post("/v1/search", content=question, headers={"Content-Type": "application/json"})
        if answer.is_error:
            print(answer.text, file=sys.stderr, flush=True)
            answer.raise_for_status()
        tables.print_search(tables.console(), SearchAnswer.model_validate_json(answer.content))
        going_on = "" if self._once else " Ctrl-C stops."
        print(f"\nSwagger UI: {address}/docs{going_on}", flush=True)


def _wait(client: httpx.Client) -> None:
    """Return once the server is ready."""
    end = time.monotonic() + READY_S
    while True:
        try:
            client.get("/readyz").raise_for_status()
        except httpx.TransportError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return


if __name__ == "__main__":
    main()
