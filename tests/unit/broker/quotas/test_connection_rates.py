"""How fast connections may come, to the broker and to its listeners and from addresses."""

from __future__ import annotations

import pytest

from ottla.broker.quotas.connections import WAIT_LIMIT_MS, Arrival, ConnectionRates, plain_address
from ottla.broker.settings import BrokerSettings
from ottla.metrics import Registry
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData

RATE = "max.connection.creation.rate"
TWO = {
    "listeners": "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}
HEARD = Arrival()


def make(**settings):
    """With windows of which one connection more than the rate is already too much."""
    return ConnectionRates(settings_of(**settings), Registry(), lambda: 0.0)


def settings_of(**settings):
    return BrokerSettings({"quota.window.num": "2", **{name: str(value) for name, value in settings.items()}})


def test_without_limits_everybody_is_heard_at_once():
    rates = make()
    assert all(rates.arrived("PLAINTEXT", "10.0.0.1", 0) == HEARD for _ in range(1_000))


def test_connections_above_the_rate_are_heard_one_after_the_other():
    rates = make(**{RATE: 10})
    waits = [rates.arrived("PLAINTEXT", "10.0.0.1", 0).wait_ms for _ in range(15)]
    assert waits == pytest.approx([0] * 10 + [100, 200, 300, 400, 500])


def test_in_the_long_run_as_many_are_heard_as_the_rate_says():
    rates = make(**{RATE: 10})
    heard = sorted(now_ms + rates.arrived("PLAINTEXT", "10.0.0.1", now_ms).wait_ms for now_ms in range(0, 10_000, 50))
    assert sum(1 for each in heard if each < 10_000) == pytest.approx(100, rel=0.1)


def test_nobody_waits_for_ever():
    rates = make(**{RATE: 1})
    arrivals = [rates.arrived("PLAINTEXT", "10.0.0.1", 0) for _ in range(100)]
    assert max(each.wait_ms for each in arrivals) <= WAIT_LIMIT_MS
    assert arrivals[-1].is_refused
    assert not rates.arrived("PLAINTEXT", "10.0.0.1", WAIT_LIMIT_MS).is_refused


def test_a_listener_has_a_rate_of_its_own():
    rates = make(**TWO, **{f"listener.name.clients.{RATE}": 1})
    assert rates.arrived("CLIENTS", "10.0.0.1", 0) == HEARD
    assert rates.arrived("CLIENTS", "10.0.0.1", 0).wait_ms > 0
    assert [rates.arrived("BROKERS", "10.0.0.1", 0) for _ in range(20)] == [HEARD] * 20


def test_clients_cannot_keep_brokers_out():
    rates = make(**TWO, **{RATE: 5})
    for _ in range(10):
        rates.arrived("CLIENTS", "10.0.0.1", 0)
    assert rates.arrived("CLIENTS", "10.0.0.1", 0).wait_ms > 0
    assert rates.arrived("BROKERS", "10.0.0.2", 0) == HEARD


def test_rates_change_while_running():
    rates = make(**{RATE: 1})
    rates.arrived("PLAINTEXT", "10.0.0.1", 0)
    assert rates.arrived("PLAINTEXT", "10.0.0.1", 0).wait_ms > 0
    rates.change(settings_of(**{RATE: 1000}))
    assert rates.arrived("PLAINTEXT", "10.0.0.1", 5_000) == HEARD
    rates.change(settings_of())
    assert all(rates.arrived("PLAINTEXT", "10.0.0.1", 5_000) == HEARD for _ in range(2_000))


def test_an_address_above_its_quota_is_refused_and_the_others_are_not():
    rates = make()
    rates.load({"10.0.0.1": 2.0, None: 5.0})
    assert [rates.arrived("PLAINTEXT", "10.0.0.1", 0).is_refused for _ in range(4)] == [False, False, True, True]
    assert [rates.arrived("PLAINTEXT", "10.0.0.2", 0).is_refused for _ in range(6)] == [False] * 5 + [True]
    refused = rates.arrived("PLAINTEXT", "10.0.0.1", 100)
    assert refused.is_refused
    assert 0 < refused.wait_ms <= 1000  # a window at most
    assert rates.arrived("PLAINTEXT", "10.0.0.1", 2_000) == HEARD
    rates.load({"10.0.0.1": 100.0})
    assert all(rates.arrived("PLAINTEXT", "10.0.0.2", 2_000) == HEARD for _ in range(50))


def test_what_is_refused_does_not_count_for_others():
    rates = make(**{RATE: 5})
    rates.load({"10.0.0.1": 1.0})
    for _ in range(50):
        rates.arrived("PLAINTEXT", "10.0.0.1", 0)
    assert [rates.arrived("PLAINTEXT", "10.0.0.2", 0).wait_ms for _ in range(4)] == [0] * 4


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("unknown", "unknown"),
    ],
)
def test_an_address_has_one_spelling(text, plain):
    assert plain_address(text) == plain


def set_quota(broker, address, rate):
    entity = [EntityData(entity_type="ip", entity_name=address)]
    op = OpData(key="connection_creation_rate", value=rate, remove=False)
    answer = broker.ask(AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=[op])], validate_only=False))
    assert answer.entries[0].error_code == 0, answer


def refusals(broker, address, count=30):
    return sum(broker.broker.connection_rates.arrived("PLAINTEXT", address, 0).is_refused for _ in range(count))


def test_a_quota_of_an_address_acts_when_it_is_set(broker):
    set_quota(broker, "10.0.0.1", 1)
    assert refusals(broker, "10.0.0.1") == 20  # ten windows of one connection a second
    assert refusals(broker, "10.0.0.2") == 0
    set_quota(broker, None, 2)
    assert refusals(broker, "10.0.0.2") == 10


def test_a_quota_of_a_host_name_is_one_of_its_addresses(broker, monkeypatch):
    async def find(names, clock):
        return {name: frozenset({"10.0.0.7", "10.0.0.8"}) for name in names}

    async def look_up(names, clock):
        return frozenset(names)

    monkeypatch.setattr("ottla.broker.broker.find_addresses", find)
    monkeypatch.setattr(broker.broker, "look_up_hosts", look_up, raising=False)
    set_quota(broker, "build.example.com", 1)
    assert refusals(broker, "10.0.0.8") == 20
    set_quota(broker, "10.0.0.8", 3)
    assert refusals(broker, "10.0.0.7") == 20
    assert (
        refusals(broker, "10.0.0.8") == 10
    )  # an address that has one of its own keeps it; ten of thirty counted before
