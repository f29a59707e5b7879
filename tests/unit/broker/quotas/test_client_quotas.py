"""What clients are charged: who shares a meter, what happens when quotas change, and that everything has a bound."""

from __future__ import annotations

import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.quotas.limits import FETCH, MUTATION, PRODUCE, REQUEST, Owner
from ottla.broker.quotas.meters import IDLE_MS, Meters, RateMeter
from ottla.broker.quotas.rate import SampledRate
from ottla.broker.settings import BrokerSettings
from ottla.metrics import Registry
from ottla.testing.clock import ManualClock

MB = 1_000_000


class Quotas:
    """Quotas with a clock and a registry of their own, that count how often who holds on to charges must ask again."""

    def __init__(self, **settings):
        self.clock, self.registry, self.changes = ManualClock(), Registry(), 0
        named = {key.replace("_", "."): str(value) for key, value in settings.items()}
        self.quotas = ClientQuotas(BrokerSettings(named), self.registry, self.clock.monotonic_ms)
        self.quotas.notify = self.changed

    def changed(self):
        self.changes += 1

    def load(self, *entries):
        """Each: the names of an entity, and its quotas."""
        self.quotas.load([(tuple(sorted(names.items())), values) for names, values in entries])

    def charges(self, key, user="anna", client_id="shop"):
        return self.quotas.charges_of(key, user, client_id)

    def metric(self, group, name, user="", client_id="shop"):
        """What both names of a metric say."""
        found = {
            (key.name, key.tags): value for key, value in self.registry.snapshot(self.clock.monotonic_ms()).items()
        }
        name = name.replace("-", "_")
        own = found.get((f"kafka_server_{group.lower()}_{name}", (("user", user), ("client-id", client_id))))
        shared = found.get(
            (f"kafka_server_quota_{name}", (("resource", group), ("user", user), ("clientId", client_id)))
        )
        assert own == shared
        return own


@pytest.fixture
def quotas():
    return Quotas()


def test_who_has_no_quota_is_charged_nothing(quotas):
    assert quotas.charges(PRODUCE) is None
    quotas.load(({"client-id": "till"}, {PRODUCE: MB}))
    assert quotas.charges(PRODUCE) is None
    assert quotas.charges(FETCH, client_id="till") is None


def test_a_client_waits_until_it_is_back_at_its_quota(quotas):
    quotas.load(({"client-id": "shop"}, {PRODUCE: MB}))
    charges = quotas.charges(PRODUCE)
    assert charges.produce.charge(10 * MB, 0) == 0
    assert charges.produce.charge(MB // 2, 0) == 500
    assert charges.handled(1000, 0) == 0
    assert quotas.metric("Produce", "throttle-time") == 500
    assert quotas.metric("Produce", "byte-rate") == pytest.approx(1.05 * MB)


def test_all_connections_of_those_who_share_a_quota_share_what_they_used(quotas):
    quotas.load(({"user": "anna"}, {PRODUCE: MB}))
    assert quotas.charges(PRODUCE, client_id="a").produce.charge(10 * MB, 0) == 0
    assert quotas.charges(PRODUCE, client_id="b").produce.charge(MB, 0) == 1000
    assert quotas.charges(PRODUCE, user="bert") is None


def test_each_of_a_default_has_the_whole_of_it(quotas):
    quotas.load(({"client-id": None}, {PRODUCE: MB}))
    assert quotas.charges(PRODUCE, client_id="a").produce.charge(11 * MB, 0) == 1000
    assert quotas.charges(PRODUCE, client_id="b").produce.charge(10 * MB, 0) == 0


def test_records_above_the_quota_are_not_counted_because_they_are_not_sent(quotas):
    quotas.load(({"client-id": "shop"}, {FETCH: MB}))
    charges = quotas.charges(FETCH)
    assert charges.fetch_max_bytes == 10 * MB
    assert charges.fetch(9 * MB, 0) == 0
    assert charges.fetch(2 * MB, 0) == 1000
    assert charges.fetch(2 * MB, 0) == 1000
    assert charges.fetch(MB, 0) == 0
    assert quotas.metric("Fetch", "throttle-time") == 1000


def test_a_follower_is_exempt(quotas):
    quotas.load(({"client-id": "shop"}, {FETCH: MB, REQUEST: 1}))
    charges = quotas.charges(FETCH)
    charges.is_exempt = True
    assert charges.fetch(100 * MB, 0) == charges.handled(60_000, 0) == 0


def test_time_is_counted_in_percent_and_waits_at_most_a_window(quotas):
    quotas.load(({"user": "anna"}, {REQUEST: 20}))
    charges = quotas.charges("none")
    assert charges.handled(2000, 0) == 0  # 20 % of ten seconds
    assert charges.handled(100, 0) == 500
    assert charges.handled(5000, 0) == 1000
    assert charges.handled(5000, 0, is_answered=False) == 0
    assert quotas.metric("Request", "request-time", "anna", "") == pytest.approx(71)


def test_requests_are_handled_together_only_far_from_the_quota(quotas):
    quotas.load(({"client-id": "shop"}, {PRODUCE: MB}), ({"user": "anna", "client-id": None}, {REQUEST: 20}))
    charges = quotas.charges(PRODUCE)
    assert not charges.admits(10 * MB + 1)
    assert charges.admits(10 * MB)
    charges.count_run(9 * MB, 0, 0)
    assert not charges.admits(MB + 1)
    assert charges.admits(MB)
    charges.count_run(MB, 0, 0)
    assert not charges.admits(1)
    assert charges.produce.rate.total == 10 * MB
    charges.produce.take_back(10 * MB, 0)
    assert charges.admits(0)
    charges.count_run(0, 0, 1001)
    assert not charges.admits(0)
    charges.count_run(1, 12_000, 12_001)  # what is old is forgotten when something is counted
    assert charges.admits(0)
    assert charges.produce.rate.total == 1


@pytest.mark.parametrize("times_ms", [(0, 1), (0, 999, 1000, 1001, 12_000), (5, 5, 5, 40_000)])
def test_a_run_counts_as_its_requests_do(times_ms):
    both = Quotas(), Quotas()
    for each in both:
        each.load(({"client-id": "shop"}, {PRODUCE: MB}), ({"user": "anna", "client-id": None}, {REQUEST: 20}))
    together, alone = (each.charges(PRODUCE) for each in both)
    for now_ms in times_ms:
        together.count_run(300, now_ms, now_ms + 2)
        alone.produce.charge(100, now_ms)
        alone.produce.charge(200, now_ms)
        alone.handled(2, now_ms + 2)
    for one, other in ((together.produce, alone.produce), (together._request, alone._request)):
        assert (one.rate.total, one.rate.last_ms, one.room) == (other.rate.total, other.rate.last_ms, other.room)
        assert (one.last_used_ms, one.half_room) == (other.last_used_ms, other.half_room)


def test_a_change_acts_at_once_and_keeps_what_was_counted(quotas):
    quotas.load(({"client-id": "shop"}, {PRODUCE: MB}))
    before = quotas.charges(PRODUCE)
    before.produce.charge(10 * MB, 0)
    quotas.load(({"client-id": "shop"}, {PRODUCE: 2 * MB}))
    assert quotas.changes == 2
    assert quotas.charges(PRODUCE).produce.charge(10 * MB, 0) == 0
    assert before.produce.charge(MB, 0) == 500  # charges that somebody still holds count for the same client
    quotas.load()
    assert quotas.charges(PRODUCE) is None
    assert quotas.metric("Produce", "byte-rate") is None


def test_a_more_specific_quota_takes_over(quotas):
    quotas.load(({"client-id": "shop"}, {PRODUCE: MB}))
    quotas.charges(PRODUCE).produce.charge(10 * MB, 0)
    quotas.load(({"client-id": "shop"}, {PRODUCE: MB}), ({"user": "anna"}, {PRODUCE: MB}))
    assert quotas.charges(PRODUCE).produce.charge(10 * MB, 0) == 0
    assert quotas.charges(PRODUCE, user="bert").produce.charge(MB, 0) == 1000


def test_who_was_idle_for_an_hour_is_forgotten(quotas):
    quotas.load(({"client-id": None}, {PRODUCE: MB}))
    quotas.charges(PRODUCE, client_id="a").produce.charge(1, 0)
    quotas.clock.move(IDLE_MS)
    quotas.charges(PRODUCE, client_id="b").produce.charge(1, quotas.clock.monotonic_ms())
    assert quotas.metric("Produce", "byte-rate", client_id="a") is None
    assert quotas.metric("Produce", "byte-rate", client_id="b") is not None
    assert quotas.changes == 2  # whoever has charges of the forgotten one asks again
    quotas.clock.move(IDLE_MS)
    quotas.quotas.sweep()
    assert quotas.metric("Produce", "byte-rate", client_id="b") is None


def test_client_ids_that_nobody_counts_do_not_fill_the_memory():
    shown = set()
    meters = Meters(
        partial(RateMeter, samples=11, window_s=1),
        shown=lambda meter: shown.add(meter.owner),
        hidden=shown.difference_update,
        limit=100,
    )
    for number in range(1_000):
        meters.sweep(number)
        meters.of(Owner("", f"c{number}"), 1.0, number)
        assert len(meters) == len(shown) <= 100
    assert Owner("", "c999") in shown


def test_windows_are_as_the_settings_say():
    quotas = Quotas(quota_window_num=3, quota_window_size_seconds=2)
    quotas.load(({"client-id": "shop"}, {PRODUCE: MB, MUTATION: 1}))
    assert quotas.charges(PRODUCE).produce.charge(4 * MB, 0) == 0
    assert quotas.charges(PRODUCE).produce.charge(MB, 0) == 1000
    mutation = quotas.charges(MUTATION).mutation
    mutation.spend(12, 0)
    assert mutation.wait_ms(0) == 1000
    assert quotas.metric("ControllerMutation", "tokens") == -1


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from([0, 1, 200, 999, 1_000, 5_000, 30_000]),
            st.integers(0, 4 * MB),
            st.sampled_from(["charge", "charge", "charge", "take back", "other limit", "read"]),
        ),
        max_size=80,
    )
)
def test_what_a_meter_says_is_what_its_rate_says(steps):
    """It works with what is left in the current sample, which other samples, limits and readers of metrics change."""
    meter = RateMeter(Owner("anna", "shop"), float(MB), 0.0, samples=4, window_s=1)
    plain, limit, now_ms = SampledRate(samples=4, window_ms=1_000), MB, 1_000.0
    for passed_ms, value, action in steps:
        now_ms += passed_ms
        if action == "read":
            assert meter.rate.per_second(now_ms) == pytest.approx(plain.per_second(now_ms))
        elif action == "other limit":
            limit = value + 1
            meter.change(limit)
        else:
            plain.record(value, now_ms)
            assert meter.charge(value, now_ms) == math.floor(plain.wait_ms(limit, now_ms) + 0.5)
            if action == "take back":
                plain.record(-value, now_ms)
                meter.take_back(value, now_ms)
