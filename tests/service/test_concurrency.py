"""A search never blocks the server, ends with its client, and finds a bounded queue."""

import threading
import time

import httpx
import pytest

from tests.service.shapes import check_problem

SLOW = {
    "model": "kimi-k2",
    "cluster": "dgx-h100",
    "gpus": 98304,
    "workload": {"sequence_length": 4096, "global_batch": 393216},
    "constraints": {"rank_orders": "all"},
    "time_limit_s": 60,
}
"""Takes about ten seconds: 384 experts, a count with many divisors, every order of ranks."""


def test_health_answers_while_a_search_runs(address):
    done = threading.Event()

    def search() -> None:
        httpx.post(f"{address}/v1/search", json=SLOW | {"time_limit_s": 10}, timeout=120, trust_env=False)
        done.set()

    asking = threading.Thread(target=search)
    asking.start()
    waits = []
    while not done.is_set() and len(waits) < 100:
        answer = httpx.get(f"{address}/healthz", timeout=10, trust_env=False)
        waits.append(answer.elapsed.total_seconds())
        time.sleep(0.02)
    asking.join()
    assert waits
    assert max(waits) < 5


def test_a_search_ends_when_its_client_hangs_up(server_with):
    with server_with(
        LAYOUT_SEARCH_MAX_CONCURRENT_SEARCHES="1", LAYOUT_SEARCH_MAX_WAITING_SEARCHES="0"
    ) as address:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{address}/v1/search", json=SLOW, timeout=0.4, trust_env=False)
        end = time.monotonic() + 8
        while httpx.get(f"{address}/readyz", trust_env=False).status_code == 503:
            assert time.monotonic() < end, "the search went on without its client"
            time.sleep(0.1)


def test_a_search_past_the_queue_is_told_when_to_come_back(server_with):
    limits = {"MAX_CONCURRENT_SEARCHES": "1", "MAX_WAITING_SEARCHES": "0", "RETRY_AFTER_S": "7"}
    with server_with(**{f"LAYOUT_SEARCH_{name}": value for name, value in limits.items()}) as address:
        first = threading.Thread(target=_ask_and_leave, args=(address,))
        first.start()
        time.sleep(0.5)
        second = httpx.post(f"{address}/v1/search", json=SLOW, timeout=60, trust_env=False)
        told = check_problem(second, 503)
        assert second.headers["retry-after"] == "7"
        assert "7 s" in told["detail"]
        check_problem(httpx.get(f"{address}/readyz", trust_env=False), 503)
        assert httpx.get(f"{address}/healthz", trust_env=False).status_code == 200
        first.join()


def _ask_and_leave(address: str) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{address}/v1/search", json=SLOW, timeout=2, trust_env=False)


def test_equal_questions_asked_at_once_are_answered_alike(address):
    answers = []

    def ask() -> None:
        body = {
            "model": "llama-3-8b",
            "cluster": "dgx-h100",
            "gpus": 64,
            "workload": {"sequence_length": 8192, "global_batch": 256},
        }
        told = (
            httpx.post(f"{address}/v1/search", json=body, timeout=120, trust_env=False)
            .raise_for_status()
            .json()
        )
        del told["space"]["wall_s"]
        answers.append(told)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4
    assert all(answer == answers[0] for answer in answers)
