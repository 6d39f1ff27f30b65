"""The catalogues over HTTP: everything listed can be asked for, with its sources."""

import pytest

KINDS = {"models": "architecture", "gpus": "gpu", "clusters": "cluster"}


@pytest.mark.parametrize("family", KINDS)
def test_everything_listed_can_be_asked_for_by_name(client, family):
    listed = client.get(f"/v1/{family}").raise_for_status().json()[family]
    assert listed
    for entry in listed:
        assert client.get(f"/v1/{family}/{entry['name']}").raise_for_status().json() == entry


@pytest.mark.parametrize("family", KINDS)
def test_every_entry_names_its_sources(client, family):
    for entry in client.get(f"/v1/{family}").json()[family]:
        assert entry["sources"], entry["name"]
        assert all(entry["sources"].values()), entry["name"]


def test_parameters_are_exact_whole_numbers(client):
    counts = client.get("/v1/models/llama-3-8b").json()["parameters"]
    assert counts["total"] == counts["active"] == 8_030_261_248


def test_a_mixture_of_experts_has_fewer_active_parameters(client):
    counts = client.get("/v1/models/mixtral-8x7b").json()["parameters"]
    assert counts["active"] < counts["total"]


def test_the_root_leads_to_the_documentation(client):
    answer = client.get("/")
    assert answer.status_code == 307
    assert client.get("/", follow_redirects=True).url.path == "/docs"


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_operations_tell_the_version(client, path):
    told = client.get(path).raise_for_status().json()
    assert told["version"] == client.get("/openapi.json").json()["info"]["version"]
