"""Every API of Kafka's protocol with the worst requests we know: nobody holds the loop, nobody fills the memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.hostile_work.attack import Attacked, findings
from tests.hostile_work.attacked_broker import MEMBER
from tests.hostile_work.crafted_requests import CRAFTED, FOR_BROKERS, made
from tests.hostile_work.prefill import RECORDS
from tests.hostile_work.wire import wire_attacks

from ottla.broker.requests.served import BROKER_APIS, SERVED_APIS
from ottla.protocol.api import APIS, APIS_BY_NAME, Api

API_NAMES = sorted(APIS_BY_NAME)
OF_BROKERS = sorted((APIS[key] for key in BROKER_APIS), key=lambda api: api.name)


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    with Attacked(tmp_path_factory.mktemp("member"), MEMBER) as broker:
        yield broker


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


def test_what_only_a_member_serves_is_asked_of_one():
    assert {name for name, entry in CRAFTED.items() if entry == FOR_BROKERS} == {api.name for api in OF_BROKERS}


@pytest.mark.parametrize("api", OF_BROKERS, ids=lambda api: api.name)
def test_no_request_that_is_for_brokers_holds_a_member_or_fills_its_memory(member: Attacked, api: Api):
    found = findings(member, wire_attacks(member, api, is_long=False))
    assert not found, "\n".join(found)


@pytest.mark.long
@pytest.mark.parametrize("api", OF_BROKERS, ids=lambda api: api.name)
def test_no_request_for_brokers_at_its_limits_holds_a_member_or_fills_its_memory(member: Attacked, api: Api):
    found = findings(member, wire_attacks(member, api, is_long=True))
    assert not found, "\n".join(found)


def test_what_was_attacked_is_still_there_and_answers(attacked: Attacked):
    with attacked.wire("bob") as bob:
        answer = bob.ask(made("Metadata", topics=[{"name": RECORDS}], allow_auto_topic_creation=False))
    assert answer.topics[0].error_code == 0
