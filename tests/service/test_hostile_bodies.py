"""No body makes the service fail; each is refused with a reason."""

import json
import socket

import pytest

from tests.service.shapes import GOOD, check_problem

PATHS = ("/v1/search", "/v1/evaluate", "/v1/schedule", "/v1/models/import")


def post(client, body, path="/v1/search", content_type="application/json"):
    return client.post(path, content=body, headers={"Content-Type": content_type})


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"{", "line 1, column 2"),
        (b"{} {}", "Extra data"),
        (b"'a'", "not JSON"),
        (b"\xff\xfe{}", "UTF-8"),
        ('{"gpus": 8}'.encode("utf-16"), "UTF-8"),
        (b'{"gpus": NaN}', "NaN"),
        (b'{"time_limit_s": Infinity}', "Infinity"),
        (b'{"time_limit_s": -Infinity}', "-Infinity"),
        (b'{"time_limit_s": 1e999}', "largest number"),
        (b'{"gpus": ' + b"9" * 5000 + b"}", "5000 digits"),
        (b'{"model": "\\ud800"}', "lone surrogate"),
        (b'{"\\udfff": 1}', "lone surrogate"),
        (b"[" * 100_000, "deeper than 32"),
        (b"[" * 900 + b"]" * 900, "deeper than 32"),
        (b'{"model":' * 500 + b"1" + b"}" * 500, "deeper than 32"),
        (b"[" + b"1," * 150_000 + b"1]", "more than 100000 values"),
    ],
)
def test_what_is_not_json_of_a_sane_size_is_400(client, path, body, word):
    told = check_problem(post(client, body, path), 400)
    assert word in told["faults"][0]["reason"]


@pytest.mark.parametrize("body", [b"null", b"[]", b"1", b'"text"', b"true", b"{}", b'{"": {}}'])
@pytest.mark.parametrize("path", PATHS)
def test_json_that_is_no_question_is_422(client, path, body):
    check_problem(post(client, body, path), 422)


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""]
)
def test_another_content_type_is_415(client, content_type):
    check_problem(post(client, json.dumps(GOOD), content_type=content_type), 415)


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "application/problem+json", "APPLICATION/JSON"]
)
def test_json_under_its_other_names_is_read(client, content_type):
    told = check_problem(post(client, b"{}", content_type=content_type), 422)
    assert {"/model", "/cluster", "/gpus", "/workload"} <= {fault["field"] for fault in told["faults"]}


def test_a_body_over_the_limit_is_413(client):
    told = check_problem(post(client, b" " * 4_000_001), 413)
    assert "4000000 bytes" in told["detail"]
    assert told["faults"][0]["value"] == 4_000_001


def test_a_body_over_the_limit_is_413_when_its_length_is_not_announced(client):
    chunks = (b" " * 100_000 for _ in range(41))
    assert check_problem(post(client, chunks), 413)["faults"][0]["value"] is None


def test_an_announcement_over_the_limit_is_413_before_anything_is_read(address):
    host = address.removeprefix("http://")
    head = f"POST /v1/search HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    with socket.create_connection((host.split(":")[0], int(host.split(":")[1])), timeout=10) as wire:
        wire.sendall(f"{head}Content-Length: {10**15}\r\nConnection: close\r\n\r\n".encode())
        answer = wire.recv(65536).decode()
    assert answer.startswith("HTTP/1.1 413")
    assert "application/problem+json" in answer


@pytest.mark.parametrize("path", PATHS)
def test_a_key_said_twice_is_refused_wherever_it_stands(client, path):
    inner = b'{"a/b": 1, "a/b": {"x": 1, "x": 1}}'
    body = b'{"gpus": 8, "gpus": 9, "workload": %b, "l": [0, {"": 1, "": 2, "": 3}]}' % inner
    told = check_problem(post(client, body, path), 400)
    assert {fault["field"]: fault["value"] for fault in told["faults"]} == {
        "/gpus": 9,
        "/workload/a~1b": {"x": 1},
        "/workload/a~1b/x": 1,
        "/l/1/": 3,
    }
    assert told["faults"][0]["reason"] == "the key 'gpus' stands 2 times"


def test_a_key_said_twice_inside_what_was_said_twice_is_told_by_the_outer(client):
    told = check_problem(post(client, b'{"a": {"x": 1, "x": 2}, "a": 3}'), 400)
    assert [fault["field"] for fault in told["faults"]] == ["/a"]


def test_many_keys_said_twice_are_answered_short_and_soon(client):
    body = "{" + ",".join(f'"k{i % 40_000}": 1' for i in range(100_000)) + "}"
    answer = post(client, body)
    assert len(check_problem(answer, 400)["faults"]) == 100
    assert answer.elapsed.total_seconds() < 5


def test_equal_keys_of_different_objects_are_no_fault(client):
    told = check_problem(post(client, b'{"a": {"x": 1}, "b": [{"x": 1}, {"x": 1}], "x": {}}'), 422)
    assert {"/a", "/b", "/x"} <= {fault["field"] for fault in told["faults"]}


@pytest.mark.parametrize(
    "field", ["model", "cluster", "gpus", "workload", "constraints", "framework", "top_k"]
)
@pytest.mark.parametrize(
    "value", [None, True, -1, 1e308, 10**300, "", "\u0000", "💥", [], {}, [[[]]], {"a": {"b": []}}]
)
def test_any_value_in_any_place_is_answered_with_a_reason(client, field, value):
    answer = client.post(
        "/v1/search", json=GOOD | {field: value, "workload": GOOD["workload"], "no": 1} | {field: value}
    )
    check_problem(answer, 422)


@pytest.mark.parametrize(
    "model",
    [
        {"hidden_size": -1},
        {"hf_config": None},
        {"hf_config": {"model_type": "mamba"}},
        {"hidden_size": 1e300, "num_hidden_layers": 2.5},
        {"vocab_size": "🤖" * 1000, "num_attention_heads": []},
    ],
)
def test_an_inline_model_that_makes_no_sense_is_422(client, model):
    check_problem(client.post("/v1/search", json=GOOD | {"model": model}), 422)


def test_the_server_goes_on_after_all_of_it(client):
    assert client.get("/healthz").json()["status"] == "ok"
