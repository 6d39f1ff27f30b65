"""How long a search may go on."""

import threading
import time


class Clock:
    """Wall time since the start of a search, its limit, and a caller's wish to stop."""

    def __init__(self, limit_s: float, stop: threading.Event | None = None) -> None:
        """Start now."""
        self._start = time.monotonic()
        self._limit_s = limit_s
        self._stop = stop

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    def left_s(self, share: float = 1.0) -> float:
        """Seconds left of a share of the limit; none once the caller asked to stop."""
        if self._stop is not None and self._stop.is_set():
            return 0.0
        return max(0.0, self._limit_s * share - self.elapsed_s)

    def expired(self, share: float = 1.0) -> bool:
        """Whether a share of the limit is used up, or the caller asked to stop."""
        return self.left_s(share) <= 0.0
