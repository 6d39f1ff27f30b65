"""The committed description is what the service says of itself, valid, and complete about errors."""

import json

import pytest
from openapi_spec_validator import validate

from service.examples import examples
from service.serving import description
from tests.service.conftest import ROOT

SNAPSHOT = ROOT / "openapi" / "openapi.json"


@pytest.fixture(scope="module")
def described():
    return json.loads(SNAPSHOT.read_text(encoding="utf-8"))


def test_the_snapshot_is_what_the_app_says():
    assert SNAPSHOT.read_text(encoding="utf-8") == description(), "run `make openapi`"


def test_the_server_sends_the_snapshot(client, described):
    assert client.get("/openapi.json").json() == described


def test_the_description_is_valid_openapi(described):
    validate(described)


def test_every_field_of_a_request_is_described(described):
    for name in (
        "SearchRequest",
        "EvaluateRequest",
        "TrafficRequest",
        "BareSchedule",
        "ImportRequest",
        "Constraints",
        "WorkloadRequest",
        "LayoutChoice",
        "StatedLayout",
        "Range",
        "ZeroRange",
        "TierRequest",
    ):
        for field, schema in described["components"]["schemas"][name]["properties"].items():
            assert schema.get("description"), f"{name}.{field} has no description"


def test_every_error_is_described_as_problem_json(described):
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            for status, answer in operation["responses"].items():
                if status != "200":
                    assert list(answer["content"]) == ["application/problem+json"], (path, method, status)


def test_a_question_documents_every_error_it_is_answered_with(described):
    for path in ("/v1/search", "/v1/evaluate", "/v1/traffic"):
        assert {"200", "400", "408", "413", "415", "422", "503"} <= set(
            described["paths"][path]["post"]["responses"]
        )


def test_a_schedule_documents_every_form_of_its_answer_and_every_error(described):
    operation = described["paths"]["/v1/schedule"]["post"]
    assert set(operation["responses"]["200"]["content"]) == {"application/json", "image/svg+xml", "image/png"}
    assert {"400", "406", "408", "413", "415", "422", "503"} < set(operation["responses"])


def test_an_import_documents_every_error_it_is_answered_with(described):
    operation = described["paths"]["/v1/models/import"]["post"]
    assert set(operation["responses"]) == {"200", "400", "408", "413", "415", "422"}


def test_every_example_file_is_listed_and_shown(described):
    files = {file.name for file in SNAPSHOT.parent.joinpath("examples").glob("*.json")} - {"index.json"}
    assert files == {example.file for example in examples()}
    for example in examples():
        body = described["paths"][example.path]["post"]["requestBody"]["content"]["application/json"]
        assert body["examples"][example.file.removesuffix(".json")]["value"] == example.request
