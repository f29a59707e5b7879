"""The table of errors in docs/schema-registry.md: every code in it is what the registry answers."""

import re
from pathlib import Path

import pytest

pytest.importorskip("fastavro")
from tests.unit.broker.registry.test_operations import ONE, OTHER, TWO, Registry

DOCUMENT = Path(__file__).parents[2] / "docs" / "schema-registry.md"
SUBJECT = "/subjects/{subject}"
VERSIONS = f"{SUBJECT}/versions"
VERSION = f"{VERSIONS}/{{version}}"


def provoked():
    """Every code that this registry answers to something wrong."""
    registry = Registry()
    registry.register("a", ONE)
    registry.register("soft", ONE)
    registry("DELETE " + SUBJECT, subject="soft")
    registry.register("b", ONE)
    registry.register("b", TWO)
    registry("DELETE " + VERSION, subject="b", version=1)
    used = '{"type":"record","name":"U","fields":[{"name":"r","type":"R"}]}'
    registry.register("user", used, references=[{"name": "R", "subject": "a", "version": 1}])
    wrong = [
        ("GET " + VERSIONS, None, {"subject": "no"}),
        ("GET " + VERSION, None, {"subject": "a", "version": 9}),
        ("GET /schemas/ids/{id}", None, {"id": 99}),
        ("DELETE " + SUBJECT, None, {"subject": "soft"}),
        ("DELETE " + SUBJECT, None, {"subject": "b", "permanent": "true"}),
        ("DELETE " + VERSION, None, {"subject": "b", "version": 1}),
        ("DELETE " + VERSION, None, {"subject": "b", "version": 2, "permanent": "true"}),
        ("GET /config/{subject}", None, {"subject": "a"}),
        ("GET /mode/{subject}", None, {"subject": "a"}),
        ("POST " + VERSIONS, {"schema": OTHER}, {"subject": "a"}),
        ("POST " + VERSIONS, {"schema": "{"}, {"subject": "a"}),
        ("GET " + VERSION, None, {"subject": "a", "version": 0}),
        ("PUT /config", {"compatibility": "SOMETIMES"}, {}),
        ("PUT /mode", {"mode": "SLEEPING"}, {}),
        ("PUT /mode", {"mode": "IMPORT"}, {}),
        ("DELETE " + VERSION, None, {"subject": "a", "version": 1}),
        ("GET " + VERSIONS, None, {"subject": ":.mine:a"}),
    ]
    return {registry.code(name, body, **more) for name, body, more in wrong}


def test_every_code_of_the_table_is_answered():
    lines = [line for line in DOCUMENT.read_text("utf-8").splitlines() if re.match(r"\| \d{3}", line)]
    told = {int(code) for line in lines for code in line.split("|")[1].split(",")}
    assert told == provoked()
