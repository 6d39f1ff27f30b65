"""Questions answered in process: in a thread, so that Ctrl-C stops the search and not only the wait."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

from rich.console import Console

import search as searching
from models.estimate import EvaluateAnswer, SearchAnswer
from models.request import EvaluateRequest, SearchRequest
from service.resolving import resolved


def search(question: SearchRequest, progress: Console | None = None) -> SearchAnswer:
    """Search, showing that it goes on where there is a terminal to show it on."""
    named = resolved(question)
    stop = threading.Event()
    with progress.status("searching …") if progress else nullcontext(), ThreadPoolExecutor(1) as pool:
        running = pool.submit(searching.search, question, named, stop)
        try:
            return running.result()
        except KeyboardInterrupt:
            stop.set()
            raise


def evaluate(question: EvaluateRequest) -> EvaluateAnswer:
    """Price one layout."""
    return searching.evaluate(question, resolved(question))
