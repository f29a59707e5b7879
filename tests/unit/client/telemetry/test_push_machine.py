"""When a client asks and pushes, and what it pushes: decided without a socket or a clock."""

from __future__ import annotations

import math
from random import Random

import pytest

from ottla.client.telemetry.machine import SILENCE_MS, Next, PushMachine
from ottla.client.telemetry.numbers import Numbers, is_wanted, name_of
from ottla.errors import (
    InvalidRecord,
    InvalidRequest,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
)
from ottla.metrics import MetricKey
from ottla.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse
from ottla.protocol.otlp.points import Counts, Point
from ottla.values import ZERO_UUID

INTERVAL_MS = 1_000
OWN = b"i" * 16


def subscription(metrics=("*",), error=0) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(
        error_code=error,
        client_instance_id=OWN,
        subscription_id=7,
        accepted_compression_types=[4],
        push_interval_ms=INTERVAL_MS,
        telemetry_max_bytes=1_000,
        delta_temporality=True,
        requested_metrics=list(metrics),
    )


def subscribed() -> PushMachine:
    machine = PushMachine(0, Random(1))
    machine.asked(subscription(), 0)
    return machine


def test_a_client_asks_at_once_and_keeps_the_id_it_is_given() -> None:
    machine = PushMachine(10, Random(1))
    assert (machine.next, machine.due_ms, machine.instance_id) == (Next.ASK, 10, ZERO_UUID)
    machine.asked(subscription(), 20)
    assert (machine.next, machine.instance_id) == (Next.PUSH, OWN)


def test_the_first_push_comes_by_chance_around_the_interval_and_the_others_after_it() -> None:
    firsts = []
    for seed in range(200):
        machine = PushMachine(0, Random(seed))
        machine.asked(subscription(), 0)
        firsts.append(machine.due_ms)
    assert min(firsts) >= 0.5 * INTERVAL_MS
    assert max(firsts) <= 1.5 * INTERVAL_MS
    assert max(firsts) - min(firsts) > 0.8 * INTERVAL_MS
    machine.pushed(0, 5_000)
    assert (machine.next, machine.due_ms) == (Next.PUSH, 5_000 + INTERVAL_MS)


def test_who_is_asked_for_nothing_asks_again_after_the_interval() -> None:
    machine = PushMachine(0, Random(1))
    machine.asked(subscription(metrics=()), 0)
    assert (machine.next, machine.due_ms) == (Next.ASK, INTERVAL_MS)


@pytest.mark.parametrize("error", [UnknownSubscriptionId, UnsupportedCompressionType])
def test_a_changed_subscription_is_asked_for_at_once(error) -> None:
    machine = subscribed()
    machine.pushed(error.code, 100)
    assert (machine.next, machine.due_ms) == (Next.ASK, 100)


@pytest.mark.parametrize("error", [TelemetryTooLarge, ThrottlingQuotaExceeded])
def test_other_refusals_wait_for_the_interval(error) -> None:
    machine = subscribed()
    machine.pushed(error.code, 100)
    assert (machine.next, machine.due_ms) == (Next.ASK, 100 + INTERVAL_MS)


@pytest.mark.parametrize("error", [InvalidRecord, InvalidRequest])
def test_what_cannot_get_better_ends_it(error) -> None:
    machine = subscribed()
    machine.pushed(error.code, 100)
    assert machine.next is Next.STOP


def test_who_hears_nothing_asks_again_after_five_minutes() -> None:
    machine = PushMachine(0, Random(1))
    machine.failed(10)
    assert (machine.next, machine.due_ms) == (Next.ASK, 10 + SILENCE_MS)


# --- numbers ---------------------------------------------------------------------------------------------------------

TOTAL = MetricKey("producer-topic-metrics", "record-send-total", (("client-id", "c"), ("topic", "t")))
RATE = MetricKey("producer-metrics", "record-send-rate", (("client-id", "c"),))
SENT = "org.apache.kafka.producer.topic.record.send.total"


def test_names_are_javas() -> None:
    assert name_of(TOTAL) == SENT
    assert name_of(RATE) == "org.apache.kafka.producer.record.send.rate"


@pytest.mark.parametrize(
    ("prefixes", "wanted"),
    [(["*"], True), ([""], True), ([], False), (["org.apache.kafka.producer.t"], True), (["x"], False)],
)
def test_prefixes_choose(prefixes: list[str], wanted: bool) -> None:
    assert is_wanted(SENT, prefixes) is wanted


def test_totals_are_differences_since_the_last_push_that_arrived() -> None:
    numbers = Numbers(start_ns=1)

    def sent(total: float, now_ns: int) -> Point:
        (point,) = numbers.points({TOTAL: total, RATE: math.nan}, ["*"], as_deltas=True, now_ns=now_ns)
        return point

    about = (("topic", "t"),)
    assert sent(5, 10) == Point(SENT, about, 5, Counts.SINCE_LAST_PUSH, 10, 1)
    assert sent(7, 20) == Point(SENT, about, 7, Counts.SINCE_LAST_PUSH, 20, 1)  # the first one was lost
    numbers.accepted()
    assert sent(8, 30) == Point(SENT, about, 1, Counts.SINCE_LAST_PUSH, 30, 20)


def test_totals_are_totals_where_the_broker_wants_them_so() -> None:
    numbers = Numbers(start_ns=1)
    points = numbers.points({TOTAL: 5, RATE: 2.5}, ["*"], as_deltas=False, now_ns=10)
    assert [(point.value, point.counts) for point in points] == [(5, Counts.SINCE_START), (2.5, Counts.NOW)]
