"""Thousands of schemas: no answer computes for long without a pause. Counted in schemas between pauses, not in time.

A pause is a yield of an operation (operations.py): there the broker's loop may serve somebody else. What happens
between two of them is counted by those who do the work: schemas that are written out, parsed or compared.
"""

import json

import pytest

pytest.importorskip("fastavro")
from ottla.broker.registry import reading, records, schemas
from ottla.broker.registry.operations import BY_NAME, Knowledge
from ottla.broker.registry.records import StoredSchema
from ottla.broker.registry.requests import Request
from ottla.broker.registry.schemas import Schemas
from ottla.broker.registry.state import RegistryState
from ottla.schemas.model import SchemaText

MANY = 1_000
WIDE = 100  # versions that are compared: each costs a parse and a comparison


def text(number):
    made = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}], "own": number}
    return json.dumps(made, separators=(",", ":"))


def replayed(stored):
    state = RegistryState()
    for each in stored:
        record = records.schema_record(each)
        state.replay(record.key, record.value)
    return state


@pytest.fixture(scope="module")
def many_subjects():
    return replayed(
        StoredSchema(f"s{number}", 1, number + 1, SchemaText("AVRO", text(number))) for number in range(MANY)
    )


@pytest.fixture(scope="module")
def many_versions():
    return replayed(
        StoredSchema("s", number + 1, number + 1, SchemaText("AVRO", text(number))) for number in range(MANY)
    )


class Work:
    """Counts calls between two pauses."""

    def __init__(self, monkeypatch):
        self.now = self.most = 0
        self._monkeypatch = monkeypatch

    def count(self, module, name):
        original = getattr(module, name)

        def counted(*arguments, **more):
            self.now += 1
            self.most = max(self.most, self.now)
            return original(*arguments, **more)

        self._monkeypatch.setattr(module, name, counted)

    def pause(self):
        self.now = 0


@pytest.fixture
def work(monkeypatch):
    made = Work(monkeypatch)
    made.count(reading, "stored_value")
    made.count(schemas, "_format")
    return made


def run(state, work, name, body=None, **path):
    known = Knowledge(state, Schemas(lambda: state))
    steps = BY_NAME[name].run(known, Request(path, {}, b"" if body is None else json.dumps(body).encode()))
    pauses, computed = 0, None
    while True:
        try:
            wanted = steps.send(computed)
        except StopIteration as end:
            return end.value.value, pauses
        pauses += 1
        work.pause()
        computed = None if wanted is None else wanted()


def test_lists_pause_with_every_subject_and_version(many_subjects, many_versions, work):
    names, pauses = run(many_subjects, work, "GET /subjects")
    assert len(names) == MANY
    assert pauses >= MANY
    for state in (many_subjects, many_versions):
        found, pauses = run(state, work, "GET /schemas")
        assert len(found) == MANY
        assert pauses >= MANY
    assert work.most == 1


def test_one_of_many_is_found_without_going_through_the_others(many_subjects, work):
    found, _ = run(many_subjects, work, "GET /schemas/ids/{id}", id=str(MANY))
    assert json.loads(found["schema"])["own"] == MANY - 1
    found, _ = run(many_subjects, work, "POST /subjects/{subject}", {"schema": text(7)}, subject="s7")
    assert found["id"] == 8
    assert work.most <= 5


def test_a_schema_is_compared_with_one_version_between_two_pauses(work):
    state = replayed(
        StoredSchema("s", number + 1, number + 1, SchemaText("AVRO", text(number))) for number in range(WIDE)
    )
    record = records.config_record("s", records.Config("FULL_TRANSITIVE"))
    state.replay(record.key, record.value)
    found, pauses = run(state, work, "POST /subjects/{subject}/versions", {"schema": text(-1)}, subject="s")
    assert found["version"] == WIDE + 1
    assert pauses >= WIDE
    assert work.most <= 8  # the new schema and one old one, parsed and compared in both directions
