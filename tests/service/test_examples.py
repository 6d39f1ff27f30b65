"""The examples the documentation shows are sent as they stand, and answered as their list says."""

import httpx
import pytest

from models.estimate import EvaluateAnswer, SearchAnswer
from models.timeline import ScheduleAnswer
from models.traffic_matrix import TrafficAnswer
from service.examples import Example, examples
from service.importing import ImportedModel
from tests.service.shapes import check_problem

ANSWERS = {
    "/v1/search": SearchAnswer,
    "/v1/evaluate": EvaluateAnswer,
    "/v1/schedule": ScheduleAnswer,
    "/v1/traffic": TrafficAnswer,
    "/v1/models/import": ImportedModel,
}


def send(client: httpx.Client, example: Example) -> httpx.Response:
    return client.post(example.path, json=example.request)


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.file)
def test_an_example_is_answered_as_listed(client, example):
    answer = send(client, example)
    if example.status != 200:
        check_problem(answer, example.status)
        return
    assert answer.status_code == 200, answer.text
    told = ANSWERS[example.path].model_validate_json(answer.content)
    assert getattr(told, "outcome", None) == example.outcome


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.file)
def test_the_same_question_is_answered_with_the_same_bytes(client, example):
    first, second = (send(client, example).json() for _ in range(2))
    for told in (first, second):
        told.get("space", {}).pop("wall_s", None)
    assert first == second


def test_an_answer_in_json_says_from_and_not_its_python_name(client):
    (example,) = (e for e in examples() if e.outcome == "none_fit")
    conflict = send(client, example).json()["conflict"]
    assert conflict["rules"]
    assert "from_" not in str(conflict)
    for relaxation in conflict["relaxations"]:
        assert all(set(change) == {"field", "from", "to"} for change in relaxation["change"])


def test_parts_add_up_to_their_totals(client):
    (example,) = (e for e in examples() if e.file == "llama-3.1-405b-16384-h100.json")
    told = SearchAnswer.model_validate_json(send(client, example).content)
    assert told.space.enumerated == told.space.fit + sum(told.space.rejected.values())
    for row in told.shortlist:
        assert sum(row.time.model_dump().values()) == pytest.approx(row.step_time_s, rel=1e-9)
        for stage in row.memory.stages:
            parts = stage.model_dump(exclude={"stage", "layers", "in_flight", "total_bytes", "details"})
            assert sum(parts.values()) == stage.total_bytes
        for sent in row.traffic:
            assert sum(tier.sent_bytes_per_gpu for tier in sent.tiers) == sent.sent_bytes_per_gpu
