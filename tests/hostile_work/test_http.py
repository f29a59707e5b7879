"""Every route of the console, the registry, metrics and health with the worst calls we know."""

from __future__ import annotations

import pytest
from tests.hostile_work.attack import Attacked, findings
from tests.hostile_work.http_calls import CALLS, STATIC, http_attacks, key_of
from tests.hostile_work.prefill import RECORDS
from tests.hostile_work.routes import served_routes

from ottla.broker.http.parts import PARTS

GROUPS = (
    "console GET",
    "console POST",
    "console DELETE",
    "registry GET",
    "registry POST",
    "registry PUT",
    "registry DELETE",
)
"""Routes by part and method: each is a test."""


def test_every_route_of_every_part_has_hostile_calls_and_none_has_more():
    routes = served_routes()
    assert len({part for part, _ in routes}) == len(PARTS)
    assert {key_of(part, route) for part, route in routes} == set(CALLS), "say in CALLS what its worst calls are"


def test_every_route_is_in_one_of_the_groups():
    assert {f"{part} {route.method}" for part, route in served_routes()} == set(GROUPS)


def _attack(attacked: Attacked, group: str, *, is_long: bool) -> None:
    found = []
    for part, route in served_routes():
        is_one_of_many = route.path.startswith(STATIC) and not route.path.endswith(("app.js", "}"))
        if f"{part} {route.method}" == group and not is_one_of_many:
            found += findings(attacked, http_attacks(attacked, part, route, is_long=is_long))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("group", GROUPS)
def test_no_call_holds_the_loop_or_fills_the_memory(attacked: Attacked, group: str):
    _attack(attacked, group, is_long=False)


@pytest.mark.long
@pytest.mark.parametrize("group", GROUPS)
def test_no_call_of_any_kind_holds_the_loop_or_fills_the_memory(attacked: Attacked, group: str):
    _attack(attacked, group, is_long=True)


def test_the_records_that_are_hard_to_look_at_are_there_and_shown(attacked: Attacked):
    bob = attacked.http(attacked.admin, "bob")
    answer = bob.call("GET", f"/api/topics/{RECORDS}/records?from=earliest&limit=500")
    assert answer is not None
    assert answer.status == 200
    assert len(answer.value["records"]) > 5
