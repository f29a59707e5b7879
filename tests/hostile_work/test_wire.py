"""Every API of Kafka's protocol with the worst requests we know: nobody holds the loop, nobody fills the memory."""

from __future__ import annotations

import pytest
from tests.hostile_work.attack import Attacked, findings
from tests.hostile_work.crafted_requests import CRAFTED, made
from tests.hostile_work.prefill import RECORDS
from tests.hostile_work.wire import wire_attacks

from ottla.broker.requests.served import SERVED_APIS
from ottla.protocol.api import APIS, APIS_BY_NAME, Api

API_NAMES = sorted(APIS_BY_NAME)


def test_every_api_has_hostile_requests_and_none_has_more():
    assert sorted(CRAFTED) == API_NAMES, "an API was added: say in CRAFTED what its worst requests are"


def test_every_api_that_a_broker_serves_is_attacked_beyond_its_declaration_or_says_why_not():
    for key in SERVED_APIS:
        entry = CRAFTED[APIS[key].name]
        assert entry, f"{APIS[key]}: a list of requests, or a sentence"


@pytest.mark.parametrize("api", [APIS_BY_NAME[name] for name in API_NAMES], ids=lambda api: api.name)
def test_no_request_holds_the_loop_or_fills_the_memory(attacked: Attacked, api: Api):
    found = findings(attacked, wire_attacks(attacked, api, is_long=False))
    assert not found, "\n".join(found)


@pytest.mark.long
@pytest.mark.parametrize("api", [APIS_BY_NAME[name] for name in API_NAMES], ids=lambda api: api.name)
def test_no_request_at_its_limits_in_any_shape_holds_the_loop_or_fills_the_memory(attacked: Attacked, api: Api):
    found = findings(attacked, wire_attacks(attacked, api, is_long=True))
    assert not found, "\n".join(found)


def test_what_was_attacked_is_still_there_and_answers(attacked: Attacked):
    with attacked.wire("bob") as bob:
        answer = bob.ask(made("Metadata", topics=[{"name": RECORDS}], allow_auto_topic_creation=False))
    assert answer.topics[0].error_code == 0
