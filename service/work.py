"""Run what takes long in a thread, a few at a time, and stop it when nobody waits any more."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread
from starlette.requests import Request

from service.settings import Settings

T = TypeVar("T")

POLL_S = 0.1
"""How often a running search looks whether its client is still there. [s]"""


class Busy(Exception):
    """As many searches wait as may wait."""

    def __init__(self, waiting: int, retry_after_s: int) -> None:
        super().__init__(f"{waiting} searches wait already")
        self.waiting = waiting
        self.retry_after_s = retry_after_s


class Workers:
    """A bounded number of threads, and a bounded queue before them."""

    def __init__(self, settings: Settings) -> None:
        self._limiter = anyio.CapacityLimiter(settings.max_concurrent_searches)
        self._most_waiting = settings.max_waiting_searches
        self._retry_after_s = settings.retry_after_s

    def check_room(self) -> None:
        """Raise Busy when one more request would wait longer than anyone should."""
        waiting = self._limiter.statistics().tasks_waiting
        if self._limiter.available_tokens < 1 and waiting >= self._most_waiting:
            raise Busy(waiting, self._retry_after_s)

    async def run(self, request: Request, work: Callable[[threading.Event], T]) -> T:
        """Do the work in a thread; its event is set once the client is gone or the server stops."""
        self.check_room()
        stop = threading.Event()
        watcher = asyncio.create_task(_watch(request, stop))
        try:
            return await anyio.to_thread.run_sync(work, stop, limiter=self._limiter)
        finally:
            stop.set()
            watcher.cancel()


async def _watch(request: Request, stop: threading.Event) -> None:
    """Set the event when the client hangs up."""
    while not await request.is_disconnected():
        await asyncio.sleep(POLL_S)
    stop.set()
