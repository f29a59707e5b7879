"""When a client may ask and push, and what it is asked for: Kafka's rules, decided without a clock."""

from __future__ import annotations

import pytest

from ottla.broker.telemetry import received
from ottla.broker.telemetry.instances import ClientInstance
from ottla.broker.telemetry.received import ReceivedMetrics
from ottla.broker.telemetry.subscriptions import ClientFacts, Subscription, Wanted, wanted_of
from ottla.errors import (
    InvalidRequest,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
)
from ottla.patterns.patterns import compile_pattern
from ottla.protocol.otlp.points import Counts, Point

FACTS = ClientFacts("id-1", "orders", "apache-kafka-java", "4.3.1", "10.0.0.1", "40000")
WANTED = Wanted(("*",), 1_000, 7)
ZSTD = 4


def instance() -> ClientInstance:
    return ClientInstance(FACTS, "User:alice", WANTED)


def push(client: ClientInstance, now_ms: float, *, of: int = 7, codec: int = ZSTD, size: int = 10, ends=False) -> None:
    client.push(of, codec, size, 100, ends, now_ms)


def test_a_client_asks_pushes_and_pushes_again_after_its_interval() -> None:
    client = instance()
    client.ask(0)
    push(client, 10)  # at once after asking, whatever jitter it has
    with pytest.raises(ThrottlingQuotaExceeded):
        push(client, 1_009)
    push(client, 1_010)
    assert client.throttled_count == 1


def test_a_client_that_asks_again_too_early_is_throttled() -> None:
    client = instance()
    client.ask(0)
    with pytest.raises(ThrottlingQuotaExceeded):
        client.ask(999)
    client.ask(1_000)


@pytest.mark.parametrize(
    ("refused", "error"), [({"of": 8}, UnknownSubscriptionId), ({"codec": 9}, UnsupportedCompressionType)]
)
def test_who_is_refused_for_what_asking_cures_may_ask_at_once(refused: dict[str, int], error: type[Exception]) -> None:
    client = instance()
    client.ask(0)
    with pytest.raises(error):
        push(client, 10, **refused)
    client.ask(20)


def test_metrics_that_are_too_large_are_refused() -> None:
    client = instance()
    client.ask(0)
    with pytest.raises(TelemetryTooLarge):
        push(client, 10, size=101)
    with pytest.raises(ThrottlingQuotaExceeded):
        client.ask(20)


def test_who_ends_pushes_at_any_time_and_then_nothing_more() -> None:
    client = instance()
    client.ask(0)
    push(client, 10)
    push(client, 11, ends=True)
    for late_ms in (5_000, 6_000):  # what was on its way when it ended does not bring it back
        with pytest.raises(InvalidRequest):
            push(client, late_ms)
        assert client.is_terminating


def test_a_changed_subscription_is_asked_for_at_once() -> None:
    client = instance()
    client.ask(0)
    client.replace_wanted(WANTED)
    with pytest.raises(ThrottlingQuotaExceeded):
        client.ask(1)
    client.replace_wanted(Wanted(("a",), 1_000, 8))
    client.ask(2)


# --- subscriptions ---------------------------------------------------------------------------------------------------


def subscription(metrics: str, interval_ms: int = 300_000, **match: str) -> Subscription:
    return Subscription(
        tuple(metrics.split(",")), interval_ms, {name: compile_pattern(pattern) for name, pattern in match.items()}
    )


def test_nobody_is_asked_for_anything_without_a_subscription() -> None:
    wanted = wanted_of(FACTS, [])
    assert (wanted.metrics, wanted.interval_ms) == ((), 300_000)


def test_what_matches_is_joined_and_the_shortest_interval_counts() -> None:
    wanted = wanted_of(
        FACTS,
        [
            subscription("b,a", 60_000, client_id="ord.*", client_software_name="apache-kafka-java"),
            subscription("c", 20_000),
            subscription("d", 100, client_id="other"),
            subscription("e", 100, client_id="order"),  # the whole of it must match
        ],
    )
    assert (wanted.metrics, wanted.interval_ms) == (("a", "b", "c"), 20_000)


def test_a_star_swallows_the_rest_and_no_interval_is_longer_than_five_minutes() -> None:
    wanted = wanted_of(FACTS, [subscription("a"), subscription("*", 3_600_000)])
    assert (wanted.metrics, wanted.interval_ms) == (("*",), 300_000)


def test_the_id_follows_the_metrics_the_interval_and_the_client() -> None:
    other = FACTS._replace(client_instance_id="id-2")
    ids = {
        wanted_of(FACTS, [subscription("a")]).id,
        wanted_of(FACTS, [subscription("b")]).id,
        wanted_of(FACTS, [subscription("a", 1_000)]).id,
        wanted_of(other, [subscription("a")]).id,
    }
    assert len(ids) == 4
    assert all(-(2**31) <= each < 2**31 for each in ids)
    assert wanted_of(FACTS, [subscription("a")]) == wanted_of(FACTS, [subscription("a")])


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_sums_count_on_and_gauges_are_replaced() -> None:
    kept = ReceivedMetrics()
    about = (("topic", "orders"),)
    for value in (2.0, 3.0):
        kept.take_in(
            [
                Point("delta", about, value, Counts.SINCE_LAST_PUSH),
                Point("total", (), value, Counts.SINCE_START),
                Point("gauge", (), value),
            ],
            10,
        )
    assert list(kept.series()) == [("delta", about, 5.0), ("gauge", (), 3.0), ("total", (), 3.0)]


def test_more_series_than_there_is_room_for_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(received, "SERIES_LIMIT", 3)
    kept = ReceivedMetrics()
    kept.take_in([Point(f"m{number}", (), 1.0) for number in range(3)], 2)
    assert (len(kept), kept.left_out_count) == (2, 1)
    kept.take_in([Point(f"m{number}", (), 2.0) for number in range(5)], 10)
    assert (len(kept), kept.left_out_count) == (3, 3)
    assert [value for _, _, value in kept.series()] == [2.0, 2.0, 2.0]
