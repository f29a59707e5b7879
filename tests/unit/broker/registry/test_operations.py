"""The REST interface without HTTP: values in, values out, with Confluent's codes for what cannot be done.

Every change goes through the records of _schemas; after each the state is made anew from all of them, so what the
registry answers is always what a replay knows.
"""

import json

import pytest

pytest.importorskip("fastavro")
pytest.importorskip("jsonschema")
from ottla.broker.registry import schemas
from ottla.broker.registry.errors import RegistryError
from ottla.broker.registry.operations import BY_NAME, Knowledge
from ottla.broker.registry.requests import Request
from ottla.broker.registry.schemas import APART_CHARACTERS, Schemas
from ottla.broker.registry.state import RegistryState


def record(*fields, name="R"):
    return json.dumps({"type": "record", "name": name, "fields": list(fields)}, separators=(",", ":"))


def field(name, kind, **more):
    return {"name": name, "type": kind, **more}


ONE = record(field("a", "int"))
TWO = record(field("a", "int"), field("b", "int", default=0))
THREE = record(field("a", "long"), field("b", "int", default=0))
OTHER = record(field("a", "string"))


class Registry:
    """Runs operations, and keeps what they would write."""

    def __init__(self):
        self.log = []
        self.state = RegistryState()
        self.schemas = Schemas(lambda: self.state)
        self.computed_apart = 0

    def __call__(self, name, body=None, **more):
        path = {key: str(more.pop(key)) for key in ("subject", "version", "id", "guid") if key in more}
        repeated = {key: value for key, value in more.items() if isinstance(value, list)}
        query = {key: str(value) for key, value in more.items() if key not in repeated}
        sent = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        steps = BY_NAME[name].run(Knowledge(self.state, self.schemas), Request(path, query, sent, repeated))
        computed, failed = None, None
        while True:
            try:
                work = steps.send(computed) if failed is None else steps.throw(failed)
            except StopIteration as end:
                self._written(end.value.records)
                return end.value.value
            computed, failed = None, None
            try:
                computed = None if work is None else work()
            except Exception as error:
                failed = error
            self.computed_apart += work is not None

    def _written(self, records):
        self.log += records
        compacted = {each.key: index for index, each in enumerate(self.log)}
        self.state = RegistryState()
        for index, each in enumerate(self.log):
            if compacted[each.key] == index:
                self.state.replay(each.key, each.value)

    def register(self, subject, text, kind="AVRO", references=(), **more):
        body = {"schema": text, "schemaType": kind, "references": list(references), **more}
        return self("POST /subjects/{subject}/versions", body, subject=subject)["id"]

    def code(self, name, body=None, **more):
        with pytest.raises(RegistryError) as refused:
            self(name, body, **more)
        return refused.value.code


@pytest.fixture
def registry():
    return Registry()


def versions(registry, subject, **more):
    return registry("GET /subjects/{subject}/versions", subject=subject, **more)


# -- registering and reading -------------------------------------------------------------------------------------------


def test_a_schema_has_one_id_in_however_many_subjects(registry):
    assert registry.register("a", ONE) == 1
    assert registry.register("b", OTHER) == 2
    assert registry.register("b-again", ONE) == 1
    assert registry("GET /schemas/ids/{id}/subjects", id=1) == ["a", "b-again"]
    assert registry("GET /schemas/ids/{id}/versions", id=1) == [
        {"subject": "a", "version": 1},
        {"subject": "b-again", "version": 1},
    ]


def test_the_same_schema_is_not_a_new_version(registry):
    registry.register("a", ONE)
    written = len(registry.log)
    assert registry.register("a", json.dumps(json.loads(ONE), indent=2)) == 1
    assert versions(registry, "a") == [1]
    assert len(registry.log) == written


def test_versions_are_read_by_number_and_as_latest(registry):
    registry.register("a", ONE)
    registry.register("a", TWO)
    path = "GET /subjects/{subject}/versions/{version}"
    first, latest = registry(path, subject="a", version=1), registry(path, subject="a", version="latest")
    assert (first["id"], first["version"], first["schema"]) == (1, 1, ONE)
    assert latest == registry(path, subject="a", version=-1) == registry(path, subject="a", version=2)
    assert registry("GET /subjects/{subject}/versions/{version}/schema", subject="a", version=1) == json.loads(ONE)
    assert registry("GET /schemas/guids/{guid}", guid=first["guid"])["schema"] == ONE
    assert registry("GET /schemas/guids/{guid}/ids", guid=first["guid"]) == [{"context": ".", "id": 1}]


def test_kinds_are_told_where_they_are_not_avro(registry):
    registry.register("a", ONE)
    registry.register("j", '{"type": "object"}', "JSON")
    registry.register("p", 'syntax = "proto3"; message M { }', "PROTOBUF")
    found = [registry("GET /schemas/ids/{id}", id=number).get("schemaType") for number in (1, 2, 3)]
    assert found == [None, "JSON", "PROTOBUF"]
    assert registry("GET /schemas/types") == ["JSON", "PROTOBUF", "AVRO"]


def test_subjects_are_listed_by_prefix_and_in_pages(registry):
    for name in ("b", "a1", "a2"):
        registry.register(name, ONE)
    assert registry("GET /subjects") == ["a1", "a2", "b"]
    assert registry("GET /subjects", subjectPrefix="a") == ["a1", "a2"]
    assert registry("GET /subjects", subjectPrefix=":*:") == ["a1", "a2", "b"]
    assert registry("GET /subjects", offset=1, limit=1) == ["a2"]
    assert [each["subject"] for each in registry("GET /schemas", latestOnly="true", subjectPrefix="a")] == ["a1", "a2"]


def test_a_schema_is_looked_up(registry):
    registry.register("a", ONE)
    registry.register("a", TWO)
    found = registry("POST /subjects/{subject}", {"schema": TWO}, subject="a")
    assert (found["subject"], found["id"], found["version"]) == ("a", 2, 2)
    assert registry.code("POST /subjects/{subject}", {"schema": OTHER}, subject="a") == 40403
    assert registry.code("POST /subjects/{subject}", {"schema": ONE}, subject="b") == 40401


@pytest.mark.parametrize(
    ("name", "more", "code"),
    [
        ("GET /subjects/{subject}/versions", {"subject": "no"}, 40401),
        ("GET /subjects/{subject}/versions/{version}", {"subject": "no", "version": 1}, 40401),
        ("GET /subjects/{subject}/versions/{version}", {"subject": "a", "version": 9}, 40402),
        ("GET /subjects/{subject}/versions/{version}", {"subject": "a", "version": 0}, 42202),
        ("GET /subjects/{subject}/versions/{version}", {"subject": "a", "version": "newest"}, 42202),
        ("GET /subjects/{subject}/versions/{version}", {"subject": "a", "version": 1 << 31}, 42202),
        ("GET /schemas/ids/{id}", {"id": 9}, 40403),
        ("GET /schemas/ids/{id}", {"id": "x"}, 40403),
        ("GET /schemas/guids/{guid}", {"guid": "x"}, 40403),
        ("GET /subjects/{subject}/metadata", {"subject": "no"}, 40401),
        ("DELETE /subjects/{subject}", {"subject": "no"}, 40401),
        ("DELETE /subjects/{subject}", {"subject": "a", "permanent": "true"}, 40405),
        ("DELETE /subjects/{subject}/versions/{version}", {"subject": "a", "version": 1, "permanent": "true"}, 40407),
        ("DELETE /subjects/{subject}/versions/{version}", {"subject": "a", "version": 5}, 40402),
        ("GET /config/{subject}", {"subject": "a"}, 40408),
        ("DELETE /config/{subject}", {"subject": "a"}, 40408),
        ("GET /mode/{subject}", {"subject": "a"}, 40409),
        ("GET /subjects/{subject}/versions", {"subject": ":.mine:a"}, 42208),
        ("GET /subjects/{subject}/versions", {"subject": "a\n"}, 42208),
    ],
)
def test_what_is_not_there_has_confluents_code(registry, name, more, code):
    registry.register("a", ONE)
    assert registry.code(name, **more) == code


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"schema": ""}, 42201),
        ({"schema": "{"}, 42201),
        ({"schemaType": "XML", "schema": "<x/>"}, 42201),
        ({"schemaType": "JSON", "schema": '{"type": "thing"}'}, 42201),
        ({"schemaType": "PROTOBUF", "schema": "message"}, 42201),
        ({"schema": ONE, "references": [{"name": "x", "subject": "no", "version": 1}]}, 42201),
        ({"schema": ONE, "references": "x"}, 42201),
        ({"schema": ONE, "version": "x"}, 422),
        (b"[]", 422),
        (b"{", 400),
    ],
)
def test_what_is_no_schema_has_confluents_code(registry, body, code):
    assert registry.code("POST /subjects/{subject}/versions", body, subject="a") == code


def test_the_default_context_may_be_named(registry):
    registry.register(":.:a", ONE)
    assert registry("GET /subjects") == ["a"]
    assert registry("GET /contexts") == ["."]


# -- compatibility -----------------------------------------------------------------------------------------------------

WIDE = record(field("a", ["null", "int", "string"]))


@pytest.mark.parametrize(
    ("level", "accepted"),
    [
        # a field with a default comes, a field without one comes, a field without a default goes
        ("NONE", [True, True, True]),
        ("BACKWARD", [True, False, True]),
        ("FORWARD", [True, True, False]),
        ("FULL", [True, False, False]),
    ],
)
def test_a_level_says_who_must_read_what(registry, level, accepted):
    registry("PUT /config", {"compatibility": level})
    changes = [TWO, record(field("a", "int"), field("c", "int")), record()]
    for index, (text, is_accepted) in enumerate(zip(changes, accepted, strict=True)):
        registry.register(f"s{index}", ONE)
        if is_accepted:
            registry.register(f"s{index}", text)
        else:
            body = {"schema": text}
            assert registry.code("POST /subjects/{subject}/versions", body, subject=f"s{index}") == 409


@pytest.mark.parametrize("direction", ["BACKWARD", "FORWARD", "FULL"])
def test_transitive_is_with_all_versions(registry, direction):
    """a: int; then without it; then a: string, which goes together with the second one and not with the first."""
    texts = [record(field("a", "int", default=0)), record(), record(field("a", "string", default=""))]
    for name, level in (("last", direction), ("all", f"{direction}_TRANSITIVE")):
        registry("PUT /config/{subject}", {"compatibility": level.lower()}, subject=name)
        for text in texts[:2]:
            registry.register(name, text)
    assert registry.register("last", texts[2]) == 3
    assert registry.code("POST /subjects/{subject}/versions", {"schema": texts[2]}, subject="all") == 409


def test_compatibility_is_tested_without_registering(registry):
    registry.register("a", ONE)
    path, bad = (
        "POST /compatibility/subjects/{subject}/versions/{version}",
        record(field("a", "int"), field("c", "int")),
    )
    assert registry(path, {"schema": TWO}, subject="a", version="latest") == {"is_compatible": True}
    answer = registry(path, {"schema": bad}, subject="a", version=1, verbose="true")
    assert answer["is_compatible"] is False
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in answer["messages"][0]
    every = "POST /compatibility/subjects/{subject}/versions"
    assert registry(every, {"schema": bad}, subject="a") == {"is_compatible": False}
    assert registry(every, {"schema": bad}, subject="new") == {"is_compatible": True}
    assert registry(path, {"schema": bad}, subject="new", version="latest") == {"is_compatible": True}
    assert registry.code(path, {"schema": bad}, subject="new", version=1) == 40402
    assert registry.code(path, {"schema": bad}, subject="a", version=2) == 40402
    assert registry.code(path, {"schema": bad}, subject="a", version=0) == 42202
    assert registry.code(path, {"schema": "{"}, subject="a", version=1) == 42201
    answer = registry(path, {"schema": "{"}, subject="a", version=1, verbose="true")
    assert (answer["is_compatible"], "Invalid schema" in answer["messages"][0]) == (False, True)
    assert versions(registry, "a") == [1]


def test_another_kind_is_not_compatible(registry):
    registry.register("a", ONE)
    body = {"schema": '{"type": "object"}', "schemaType": "JSON"}
    assert registry.code("POST /subjects/{subject}/versions", body, subject="a") == 409


def test_levels_of_a_subject_stand_before_the_one_of_all(registry):
    assert registry("GET /config") == {"compatibilityLevel": "BACKWARD"}
    assert registry("PUT /config", {"compatibility": "full"}) == {"compatibility": "FULL"}
    assert registry("PUT /config/{subject}", {"compatibility": "NONE"}, subject="a") == {"compatibility": "NONE"}
    assert registry("GET /config/{subject}", subject="a") == {"compatibilityLevel": "NONE"}
    assert registry("GET /config/{subject}", subject="b", defaultToGlobal="true") == {"compatibilityLevel": "FULL"}
    registry("DELETE /config/{subject}", subject="a")
    assert registry.code("GET /config/{subject}", subject="a") == 40408
    registry("DELETE /config")
    assert registry("GET /config") == {"compatibilityLevel": "BACKWARD"}
    assert registry.code("PUT /config", {"compatibility": "SOMETIMES"}) == 42203
    assert registry.code("PUT /config", {}) == 42203


def test_what_is_not_served_is_refused_and_not_ignored(registry):
    assert registry.code("PUT /config", {"compatibility": "FULL", "validateFields": True}) == 422
    assert registry.code("PUT /config", {"compatibility": "FULL", "defaultMetadata": "x"}) == 422
    assert registry("GET /config") == {"compatibilityLevel": "BACKWARD"}


# -- normalisation, metadata -------------------------------------------------------------------------------------------


def test_normalised_schemas_are_one(registry):
    one, other = '{"type":"object","title":"t"}', '{"title":"t","type":"object"}'
    registry("PUT /config/{subject}", {"normalize": True}, subject="n")
    path = "POST /subjects/{subject}/versions"
    first = registry(path, {"schema": one, "schemaType": "JSON"}, subject="n")
    assert registry(path, {"schema": other, "schemaType": "JSON"}, subject="n") == first
    assert registry(path, {"schema": one, "schemaType": "JSON"}, subject="m", normalize="True")["id"] == first["id"]
    plain = registry(path, {"schema": one, "schemaType": "JSON"}, subject="plain")
    assert registry(path, {"schema": other, "schemaType": "JSON"}, subject="plain")["id"] != plain["id"]


def test_metadata_and_rules_are_kept_and_part_of_the_schema(registry):
    rules = {"domainRules": [{"name": "r", "kind": "CONDITION", "type": "CEL", "expr": "true"}]}
    first = registry.register("a", ONE)
    second = registry.register("a", ONE, metadata={"properties": {"owner": "me"}, "tags": {}}, ruleSet=rules)
    assert (first, second) == (1, 2)
    found = registry("GET /subjects/{subject}/metadata", subject="a", key="owner", value="me")
    assert (found["version"], found["metadata"], found["ruleSet"]) == (2, {"properties": {"owner": "me"}}, rules)
    assert registry.code("GET /subjects/{subject}/metadata", subject="a", key="owner", value="you") == 40403


def test_all_properties_that_were_asked_for_must_be_there(registry):
    registry.register("a", ONE, metadata={"properties": {"owner": "me", "stage": "test"}})
    registry.register("a", ONE, metadata={"properties": {"owner": "me", "stage": "live"}})
    path = "GET /subjects/{subject}/metadata"
    assert registry(path, subject="a", key=["owner", "stage"], value=["me", "test"])["version"] == 1
    assert registry(path, subject="a", key="owner", value="me")["version"] == 2
    assert registry.code(path, subject="a", key=["owner", "stage"], value=["you", "live"]) == 40403


# -- data contracts ----------------------------------------------------------------------------------------------------


def rule(name, expr="true"):
    return {"name": name, "kind": "CONDITION", "type": "CEL", "expr": expr}


def test_a_subject_adds_metadata_and_rules_to_what_is_registered(registry):
    config = {
        "defaultMetadata": {"properties": {"owner": "team", "stage": "test"}},
        "overrideMetadata": {"properties": {"audit": "yes"}, "tags": {"R.a": ["PII"]}},
        "defaultRuleSet": {"domainRules": [rule("one"), rule("two")]},
    }
    registry("PUT /config/{subject}", config, subject="a")
    assert registry("GET /config/{subject}", subject="a") == {"compatibilityLevel": "BACKWARD", **config}
    mine = {"properties": {"owner": "me", "audit": "no"}, "tags": {"R.a": ["EU"]}}
    rules = {"domainRules": [rule("two", "false"), rule("three")]}
    registry.register("a", ONE, metadata=mine, ruleSet=rules)
    found = registry("GET /subjects/{subject}/versions/{version}", subject="a", version=1)
    assert found["metadata"] == {
        "properties": {"audit": "yes", "owner": "me", "stage": "test"},
        "tags": {"R.a": ["EU", "PII"]},
    }
    assert found["ruleSet"]["domainRules"] == [rule("one"), rule("two", "false"), rule("three")]
    assert registry.register("a", ONE, metadata=mine, ruleSet=rules) == 1
    assert registry("POST /subjects/{subject}", {"schema": ONE, "metadata": mine}, subject="a")["version"] == 1
    assert versions(registry, "a") == [1]


def test_a_version_without_metadata_and_rules_has_those_of_the_one_before(registry):
    rules = {"domainRules": [rule("r")]}
    registry.register("a", ONE, metadata={"properties": {"owner": "me"}}, ruleSet=rules)
    registry.register("a", TWO)
    found = registry("GET /subjects/{subject}/versions/{version}", subject="a", version=2)
    assert (found["metadata"], found["ruleSet"]) == ({"properties": {"owner": "me"}}, rules)
    assert registry("POST /subjects/{subject}", {"schema": TWO}, subject="a")["version"] == 2


def test_only_versions_of_a_group_are_compared(registry):
    registry("PUT /config/{subject}", {"compatibilityGroup": "major", "compatibility": "FULL"}, subject="a")
    registry.register("a", ONE, metadata={"properties": {"major": "1"}})
    body = {"schema": OTHER, "metadata": {"properties": {"major": "1"}}}
    assert registry.code("POST /subjects/{subject}/versions", body, subject="a") == 409
    every = "POST /compatibility/subjects/{subject}/versions"
    assert registry(every, body, subject="a") == {"is_compatible": False}
    assert registry(every, {"schema": OTHER}, subject="a") == {"is_compatible": False}, "it would have the group before"
    body["metadata"] = {"properties": {"major": "2"}}
    assert registry(every, body, subject="a") == {"is_compatible": True}
    registry.register("a", OTHER, metadata=body["metadata"])
    registry.register("a", TWO, metadata={"properties": {"major": "1"}})
    assert versions(registry, "a") == [1, 2, 3]


def test_an_alias_is_another_name_of_a_subject(registry):
    registry.register("long.name.of.it-value", ONE)
    registry("PUT /config/{subject}", {"alias": "long.name.of.it-value"}, subject="short")
    assert versions(registry, "short") == [1]
    latest = registry("GET /subjects/{subject}/versions/{version}", subject="short", version="latest")
    assert (latest["subject"], latest["id"]) == ("long.name.of.it-value", 1)
    assert registry("POST /subjects/{subject}", {"schema": ONE}, subject="short")["id"] == 1
    assert registry.register("short", TWO) == 2
    assert versions(registry, "long.name.of.it-value") == [1, 2]
    assert registry("GET /subjects") == ["long.name.of.it-value"]


# -- references --------------------------------------------------------------------------------------------------------

USER = record(field("x", "R"), name="User")


def test_references_are_followed_and_hold_what_they_use(registry):
    registry.register("r", ONE)
    registry.register("u", USER, references=[{"name": "R", "subject": "r", "version": 1}])
    assert registry("GET /subjects/{subject}/versions/{version}/referencedby", subject="r", version=1) == [2]
    assert registry.code("DELETE /subjects/{subject}", subject="r") == 42206
    assert registry.code("DELETE /subjects/{subject}/versions/{version}", subject="r", version=1) == 42206
    found = registry("GET /schemas/ids/{id}", id=2)
    assert found["references"] == [{"name": "R", "subject": "r", "version": 1}]
    whole = json.loads(registry("GET /schemas/ids/{id}", id=2, format="resolved")["schema"])
    assert whole["fields"][0]["type"]["fields"] == [field("a", "int")]
    registry("DELETE /subjects/{subject}", subject="u")
    used = "GET /subjects/{subject}/versions/{version}/referencedby"
    assert registry(used, subject="r", version=1) == []
    assert registry(used, subject="r", version=1, deleted="true") == [2]
    assert registry("DELETE /subjects/{subject}", subject="r") == [1]


def test_the_newest_version_can_be_referred_to(registry):
    registry.register("r", ONE)
    registry.register("r", TWO)
    registry.register("u", USER, references=[{"name": "R", "subject": "r", "version": -1}])
    assert registry("GET /schemas/ids/{id}", id=3)["references"][0]["version"] == 2


def test_references_of_references_are_known(registry):
    registry.register("a.proto", 'syntax = "proto3"; message A { }', "PROTOBUF")
    middle = 'syntax = "proto3"; import "a.proto"; message B { A a = 1; }'
    registry.register("b.proto", middle, "PROTOBUF", [{"name": "a.proto", "subject": "a.proto", "version": 1}])
    outer = 'syntax = "proto3"; import "b.proto"; message C { B b = 1; }'
    found = registry.register("c", outer, "PROTOBUF", [{"name": "b.proto", "subject": "b.proto", "version": 1}])
    assert registry("GET /schemas/ids/{id}", id=found, format="serialized")["schema"].isascii()


# -- deleting ----------------------------------------------------------------------------------------------------------


def test_soft_deleted_is_not_listed_and_still_read_by_its_id(registry):
    registry.register("a", ONE)
    registry.register("a", TWO)
    assert registry("DELETE /subjects/{subject}/versions/{version}", subject="a", version=1) == 1
    assert versions(registry, "a") == [2]
    assert versions(registry, "a", deleted="true") == [1, 2]
    assert versions(registry, "a", deletedOnly="true") == [1]
    assert registry("GET /schemas/ids/{id}", id=1)["schema"] == ONE
    one = "DELETE /subjects/{subject}/versions/{version}"
    assert registry.code(one, subject="a", version=1) == 40406
    assert registry(one, subject="a", version="latest") == 2
    assert registry("GET /subjects") == []
    assert registry("GET /subjects", deleted="true") == registry("GET /subjects", deletedOnly="true") == ["a"]


def test_a_subject_is_deleted_softly_and_then_for_good(registry):
    registry.register("a", ONE)
    registry.register("a", TWO)
    registry("PUT /config/{subject}", {"compatibility": "NONE"}, subject="a")
    assert registry("DELETE /subjects/{subject}", subject="a") == [1, 2]
    assert registry.code("DELETE /subjects/{subject}", subject="a") == 40404
    assert registry.code("GET /config/{subject}", subject="a") == 40408
    assert registry("DELETE /subjects/{subject}", subject="a", permanent="true") == [1, 2]
    assert registry("GET /subjects", deleted="true") == []
    assert registry.code("GET /schemas/ids/{id}", id=1) == 40403


def test_versions_go_on_after_a_soft_deletion_and_begin_again_after_a_hard_one(registry):
    registry.register("a", ONE)
    registry("DELETE /subjects/{subject}", subject="a")
    assert registry.register("a", ONE) == 1
    assert versions(registry, "a") == [2]
    registry("DELETE /subjects/{subject}", subject="a")
    registry("DELETE /subjects/{subject}", subject="a", permanent="true")
    registry.register("a", OTHER)
    assert versions(registry, "a", deleted="true") == [1]


def test_an_id_never_comes_back_with_another_schema(registry):
    """Also when compaction has taken every record of it away: the log of these tests is always compacted."""
    registry.register("a", ONE)
    registry("DELETE /subjects/{subject}", subject="a")
    registry("DELETE /subjects/{subject}", subject="a", permanent="true")
    assert registry.register("a", OTHER) == 2


# -- modes -------------------------------------------------------------------------------------------------------------


def test_nothing_is_changed_in_read_only_mode(registry):
    registry.register("a", ONE)
    assert registry("PUT /mode/{subject}", {"mode": "readonly"}, subject="a") == {"mode": "READONLY"}
    assert registry.code("POST /subjects/{subject}/versions", {"schema": TWO}, subject="a") == 42205
    assert registry.code("DELETE /subjects/{subject}", subject="a") == 42205
    registry.register("b", ONE)
    registry("PUT /mode", {"mode": "READONLY_OVERRIDE"})
    registry("PUT /mode/{subject}", {"mode": "READWRITE"}, subject="a")
    assert registry.code("POST /subjects/{subject}/versions", {"schema": TWO}, subject="a") == 42205
    assert registry("GET /mode") == {"mode": "READONLY_OVERRIDE"}
    registry("DELETE /mode")
    assert registry("GET /mode") == {"mode": "READWRITE"}
    assert registry("GET /mode/{subject}", subject="a") == {"mode": "READWRITE"}
    registry("DELETE /mode", recursive="true")
    assert registry.code("GET /mode/{subject}", subject="a") == 40409
    assert registry.code("PUT /mode", {"mode": "SLEEPING"}) == 42204


def test_ids_and_versions_are_imported(registry):
    assert registry.code("POST /subjects/{subject}/versions", {"schema": ONE, "id": 70}, subject="a") == 42205
    registry("PUT /mode", {"mode": "IMPORT"})
    assert registry.register("a", ONE, id=70, version=7) == 70
    assert versions(registry, "a") == [7]
    assert registry.code("POST /subjects/{subject}/versions", {"schema": OTHER, "id": 70}, subject="b") == 42205
    assert registry.code("POST /subjects/{subject}/versions", {"schema": OTHER}, subject="b") == 42205
    registry("PUT /mode", {"mode": "READWRITE"})
    assert registry.register("a", TWO) == 71
    assert versions(registry, "a") == [7, 8]
    assert registry.code("PUT /mode", {"mode": "IMPORT"}) == 42205
    assert registry("PUT /mode", {"mode": "IMPORT"}, force="true") == {"mode": "IMPORT"}


# -- the records -------------------------------------------------------------------------------------------------------


def test_records_are_confluents(registry):
    registry.register("a", ONE)
    registry("PUT /config", {"compatibility": "FULL"})
    registry("PUT /mode/{subject}", {"mode": "READWRITE"}, subject="a")
    registry("DELETE /subjects/{subject}", subject="a")
    registry("DELETE /subjects/{subject}", subject="a", permanent="true")
    found = [(each.key.decode(), None if each.value is None else json.loads(each.value)) for each in registry.log]
    assert found == [
        (
            '{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}',
            {"subject": "a", "version": 1, "id": 1, "schema": ONE, "deleted": False},
        ),
        ('{"keytype":"CONFIG","subject":null,"magic":0}', {"subject": None, "compatibilityLevel": "FULL"}),
        ('{"keytype":"MODE","subject":"a","magic":0}', {"subject": "a", "mode": "READWRITE"}),
        ('{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}', {"subject": "a", "version": 1}),
        ('{"keytype":"MODE","subject":"a","magic":0}', None),
        ('{"keytype":"NOOP","magic":0}', {"maxId": 1}),
        ('{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', None),
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, None), (b"x", b"y"), (b"[]", b""), (b'{"keytype":"SCHEMA","subject":"a","version":1}', b"{}"),
     (b'{"keytype":"STRANGE","subject":"a"}', b"{}"), (b'{"keytype":"SCHEMA","subject":1}', b"")],
)  # fmt: skip
def test_a_strange_record_is_passed_over(registry, key, value):
    registry.state.replay(key, value)
    assert registry.state.unreadable_count == 1
    registry.register("a", ONE)
    assert versions(registry, "a") == [1]


def test_a_large_schema_is_computed_apart_from_the_loop(registry):
    fields = [field(f"f{index}", "int", default=index) for index in range(APART_CHARACTERS // 20)]
    registry.register("a", record(*fields))
    assert registry.computed_apart
    assert registry.register("a", record(*fields, field("more", "int", default=0))) == 2
    body = {"schema": record(*fields, field("bad", "int"))}
    assert registry.code("POST /subjects/{subject}/versions", body, subject="a") == 409


# -- work that others decide about -------------------------------------------------------------------------------------


def nested_arrays(depth, inner):
    schema = inner
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return json.dumps(schema)


def test_schemas_that_are_nested_too_deeply_are_answered_422(registry):
    for kind, depth in (("AVRO", 300), ("AVRO", 600), ("JSON", 150), ("JSON", 600), ("JSON", 50_000)):
        inner = "int" if kind == "AVRO" else {"type": "string"}
        text = nested_arrays(depth, inner) if depth < 1_000 else '{"items":' * depth + "{}" + "}" * depth
        answers = []
        for other in (text, text.replace("int", "long").replace("string", "number")):
            try:
                registry.register(f"{kind}-{depth}", other, kind)
            except RegistryError as refused:
                answers.append(refused.status)
        assert set(answers) <= {409, 422}
        assert depth < 1_000 or answers == [422, 422]


def test_a_comparison_that_takes_too_long_is_answered_422(registry, monkeypatch):
    monkeypatch.setattr(schemas, "COMPARE_STEPS", 50_000)
    text = [json.dumps({"anyOf": [{"maxLength": n} for n in range(first, first + 200)]}) for first in (0, 1)]
    registry.register("s", text[0], "JSON")
    with pytest.raises(RegistryError) as refused:
        registry.register("s", text[1], "JSON")
    assert (refused.value.status, refused.value.code) == (422, 422)
    assert "cannot be compared: the comparison takes more than 50000 steps" in refused.value.message


def test_only_comparisons_that_are_short_are_made_at_once(registry):
    registry.register("s", ONE)
    registry.code("POST /subjects/{subject}/versions", {"schema": OTHER}, subject="s")
    assert registry.computed_apart == 0
    text = [json.dumps({"anyOf": [{"maxLength": n} for n in range(first, first + 60)]}) for first in (0, 1)]
    registry.register("t", text[0], "JSON")
    registry.register("t", text[1], "JSON")
    assert registry.computed_apart >= 1
