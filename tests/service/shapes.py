"""A good question, and the one shape of a bad one's answer."""

import httpx

GOOD = {
    "model": "llama-3-8b",
    "cluster": "dgx-h100",
    "gpus": 64,
    "workload": {"sequence_length": 8192, "global_batch": 64},
}


def check_problem(answer: httpx.Response, status: int) -> dict:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert set(told) == {"type", "title", "status", "detail", "faults"}
    assert told["status"] == status
    assert told["title"]
    assert told["detail"]
    for fault in told["faults"]:
        assert set(fault) == {"field", "value", "reason", "fix"}
        assert fault["reason"]
        assert fault["fix"]
    assert "Traceback" not in answer.text
    assert "<html" not in answer.text.lower()
    return told
