"""The console's page of schemas, over HTTP: what the registry knows, bounded, and for whoever may read its topic."""

import json

import pytest
from tests.schema_registry import LISTENER, ask, url_of
from tests.unit.broker.http.http_client import HttpClient

from ottla.testing import KafkaBroker

pytest.importorskip("fastavro")
HTTP = {"ottla.admin.listener": "127.0.0.1:0"}


def record(*names):
    return json.dumps(
        {"type": "record", "name": "R", "fields": [{"name": each, "type": "int", "default": 0} for each in names]}
    )


@pytest.fixture(scope="module")
def broker():
    with KafkaBroker({**HTTP, **LISTENER}) as made:
        url = url_of(made.info.http_parts)
        for subject, text in (("orders-value", record("a")), ("orders-value", record("a", "b")), ("a/b", record("c"))):
            ask(f"{url}/subjects/{subject.replace('/', '%2F')}/versions", {"schema": text})
        ask(f"{url}/config/orders-value", {"compatibility": "FULL"}, method="PUT")
        yield made


def test_subjects_are_listed_found_and_paged(broker):
    client = HttpClient(broker)
    found = client.get("/api/schemas").value
    assert (found["total"], found["level"], found["is_served"]) == (2, "BACKWARD", True)
    assert found["subjects"] == [
        {"name": "a/b", "kind": "AVRO", "versions": 1, "version": 1, "id": 3},
        {"name": "orders-value", "kind": "AVRO", "versions": 2, "version": 2, "id": 2},
    ]
    assert [each["name"] for each in client.get("/api/schemas", contains="ORD").value["subjects"]] == ["orders-value"]
    assert [each["name"] for each in client.get("/api/schemas", first=1, limit=1).value["subjects"]] == ["orders-value"]


def test_a_subject_has_its_versions_newest_first_and_the_level_that_holds(broker):
    client = HttpClient(broker)
    found = client.get("/api/schemas/orders-value").value
    assert [(each["version"], each["id"]) for each in found["versions"]] == [(2, 2), (1, 1)]
    assert json.loads(found["versions"][1]["schema"]) == json.loads(record("a"))
    assert (found["level"], found["mode"], found["used_by"]) == ("FULL", "READWRITE", {"1": [], "2": []})
    assert client.get("/api/schemas/a/b").value["level"] == "BACKWARD"


def test_what_is_not_there_is_said(broker):
    answer = HttpClient(broker).get("/api/schemas/none")
    assert (answer.status, answer.value["error"]) == (404, "REGISTRY_40401")


def test_without_a_registry_here_the_list_is_empty_and_says_so():
    with KafkaBroker(HTTP) as made:
        found = HttpClient(made).get("/api/schemas").value
        assert (found["subjects"], found["total"], found["is_served"], found["address"]) == ([], 0, False, None)
