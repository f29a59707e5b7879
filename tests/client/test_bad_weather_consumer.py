"""The consumer in bad weather: every record once and in order, errors that say why, calls that end."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest
from tests.client.weather import NONSENSE, SEEDS, Storm
from tests.patience import FAR_MS, HANG_S, bounded, wait_until

from ottla.client.consumer.async_consumer import AsyncConsumer
from ottla.client.consumer.consumer import Consumer
from ottla.client.consumer.record_errors import CorruptRecord
from ottla.client.consumer.subscription import LogTruncated
from ottla.errors import GroupAuthorizationFailed, OffsetOutOfRange, TopicAuthorizationFailed, UnsupportedVersion
from ottla.testing import FakeBroker
from ottla.values import TopicPartition

TOPIC = "t"
PLACES = [TopicPartition(TOPIC, index) for index in range(3)]
QUICK = {
    "request_timeout_ms": 1_000,
    "fetch_max_wait_ms": 50,
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 20,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 20,
    "auto_offset_reset": "earliest",
    "default_api_timeout_ms": 10_000,
}
GROUP = {"group_id": "g", "heartbeat_interval_ms": 20, "session_timeout_ms": 6_000}
PROTOCOLS = ("classic", "consumer")


def settings(fake: FakeBroker, **more: object) -> dict[str, object]:
    return {"bootstrap_servers": fake.bootstrap_servers, **QUICK, **more}


def in_group(fake: FakeBroker, protocol: str, **more: object) -> dict[str, object]:
    chosen = {**GROUP, "group_protocol": protocol, **more}
    if protocol == "consumer":  # the broker decides about these two
        chosen = {
            key: value for key, value in chosen.items() if key not in ("heartbeat_interval_ms", "session_timeout_ms")
        }
    return settings(fake, **chosen)


@pytest.fixture
def fake():
    with FakeBroker(nodes=3) as fake:
        fake.create_topic(TOPIC, len(PLACES))
        yield fake


def fill(fake: FakeBroker, count: int, batch: int = 50, start: int = 0) -> None:
    """`count` records in each partition, numbered from `start`."""
    for place in PLACES:
        for first in range(start, start + count, batch):
            numbers = range(first, min(first + batch, start + count))
            fake.append(*(TOPIC, [f"{place.topic}/{place.partition}/{n}".encode() for n in numbers]), place.partition)


def expected(count: int) -> list[list[bytes]]:
    return [[f"{place.topic}/{place.partition}/{n}".encode() for n in range(count)] for place in PLACES]


def by_partition(records) -> list[list[bytes]]:
    return [[record.value for record in records if record.partition == place.partition] for place in PLACES]


def read(consumer: Consumer, count: int, limit_s: float = 20, every=lambda: None) -> list:
    found: list = []
    deadline = time.monotonic() + limit_s
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records came in {limit_s} s"
        found += consumer.poll(0.2)
        every()
    return found


# -- storms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_every_record_comes_once_and_in_order_through_a_storm(fake, seed):
    storm = Storm(fake, seed, api="Fetch")
    fill(fake, 2_000)
    limits = {"max_partition_fetch_bytes": 2_000, "max_poll_records": 100, "request_timeout_ms": 300}
    with Consumer(**settings(fake, **limits)) as consumer:
        consumer.assign(PLACES)
        found = read(consumer, 6_000, every=storm.blow, limit_s=HANG_S)
    assert by_partition(found) == expected(2_000)


def test_asyncio_reads_once_and_in_order_through_a_storm(fake):
    storm = Storm(fake, 7, api="Fetch")
    fill(fake, 1_000)

    async def scenario() -> list:
        found: list = []
        async with AsyncConsumer(
            **settings(fake, max_partition_fetch_bytes=2_000, max_poll_records=100, request_timeout_ms=300)
        ) as consumer:
            await consumer.assign(PLACES)
            while len(found) < 3_000:
                found += await consumer.poll(0.2)
                storm.blow()
        return found

    found = asyncio.run(asyncio.wait_for(scenario(), 50))
    assert by_partition(found) == expected(1_000)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_reads_everything_through_a_storm_of_rebalances(fake, protocol):
    """What was committed is not read again by the same member, what was not may be; nothing is left out."""
    fill(fake, 1_000)
    storm = Storm(fake, 3, api="Fetch", mute=False)
    errors = ["COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"]
    beat = "Heartbeat" if protocol == "classic" else "ConsumerGroupHeartbeat"
    apis = [beat, "OffsetCommit", "OffsetFetch"] + (["JoinGroup", "SyncGroup"] if protocol == "classic" else [])
    turns = iter(range(10**9))

    def trouble() -> None:
        turn = next(turns)
        if turn % 5 == 0:
            fake.rebalance("g")
        if turn % 3 == 0:
            fake.fail(apis[turn % len(apis)], errors[turn % len(errors)])
        if turn % 7 == 0:
            fake.fail(beat, "UNKNOWN_MEMBER_ID")
        if turn % 11 == 0:
            fake.hang_up(apis[turn % len(apis)], when="instead")
        storm.blow()

    seen: dict[tuple[int, int], bytes] = {}
    with Consumer(TOPIC, **in_group(fake, protocol, max_poll_records=50)) as consumer:
        deadline = time.monotonic() + HANG_S
        while len(seen) < 3_000:
            assert time.monotonic() < deadline, f"{len(seen)} of 3000 records came"
            for record in consumer.poll(0.1):
                assert record.value == f"t/{record.partition}/{record.offset}".encode()
                seen[record.partition, record.offset] = record.value
            trouble()
    assert len(seen) == 3_000


# -- one trouble at a time ---------------------------------------------------------------------------------------------


def test_a_moved_leader_is_followed(fake):
    fill(fake, 100)
    with Consumer(**settings(fake)) as consumer:
        consumer.assign(PLACES)
        found = read(consumer, 300)
        for turn in range(5):
            for place in PLACES:
                fake.move_leader(*place, to=1 + (turn + place.partition) % 3)
            fill(fake, 10, start=100 + 10 * turn)
            found += read(consumer, 30)
    assert by_partition(found) == expected(150)


def test_a_truncated_log_is_told_when_there_is_no_rule_for_it(fake):
    fill(fake, 100, batch=10)
    with Consumer(**settings(fake, auto_offset_reset="none")) as consumer:
        consumer.assign(PLACES[:1])
        consumer.seek(PLACES[0], 0)
        read(consumer, 100)
        fake.truncate(*PLACES[0], 50)
        fake.append(TOPIC, [b"other"])
        with pytest.raises((LogTruncated, OffsetOutOfRange)) as raised:
            read(consumer, 1)
        assert "t-0" in str(raised.value)


def test_after_a_truncation_reading_goes_on_where_the_logs_part(fake):
    fill(fake, 100, batch=10)
    with Consumer(**settings(fake)) as consumer:
        consumer.assign(PLACES[:1])
        read(consumer, 100)
        fake.truncate(*PLACES[0], 50)
        fake.append(TOPIC, [b"other"])
        assert [(record.offset, record.value) for record in read(consumer, 1)] == [(50, b"other")]


@pytest.mark.parametrize(("reset", "first"), [("earliest", 60), ("latest", 100)])
def test_out_of_range_follows_the_rule(fake, reset, first):
    fill(fake, 100, batch=10)
    fake.trim(*PLACES[0], 60)
    with Consumer(**settings(fake, auto_offset_reset=reset)) as consumer:
        consumer.assign(PLACES[:1])
        consumer.seek(PLACES[0], 10)
        found = consumer.poll(0.2)
        assert consumer.position(PLACES[0]) >= first
        fake.append(TOPIC, [b"new"])
        found += read(consumer, 101 - first - len(found))
        assert (found[-1].offset, found[-1].value) == (100, b"new")


def test_out_of_range_without_a_rule_is_raised_with_the_place(fake):
    fill(fake, 100, batch=10)
    fake.trim(*PLACES[0], 60)
    with Consumer(**settings(fake, auto_offset_reset="none")) as consumer:
        consumer.assign(PLACES[:1])
        consumer.seek(PLACES[0], 10)
        with pytest.raises(OffsetOutOfRange, match="t-0"):
            read(consumer, 1)


@pytest.mark.parametrize("error", ["FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE"])
def test_epochs_that_do_not_fit_are_learned_anew(fake, error):
    fill(fake, 50)
    fake.fail("Fetch", error, times=3, topic=TOPIC, partition=0)
    fake.fail("ListOffsets", error, times=2, topic=TOPIC, partition=1)
    with Consumer(**settings(fake)) as consumer:
        consumer.assign(PLACES)
        assert by_partition(read(consumer, 150)) == expected(50)


@pytest.mark.parametrize(
    "error",
    ["FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "FETCH_SESSION_TOPIC_ID_ERROR", "UNKNOWN_TOPIC_ID"],
)
def test_a_lost_session_is_begun_again(fake, error):
    with Consumer(**settings(fake)) as consumer:
        consumer.assign(PLACES)
        found: list = []
        for turn in range(4):
            fake.fail("Fetch", error)
            fill(fake, 10, start=10 * turn)
            found += read(consumer, 30)
    assert by_partition(found) == expected(40)


@pytest.mark.parametrize("how", NONSENSE)
@pytest.mark.parametrize("api", ["Fetch", "ListOffsets", "Metadata"])
def test_hostile_answers_cost_a_connection_and_no_record(fake, api, how):
    fill(fake, 50)
    fake.garble(api, how, times=2)
    with Consumer(**settings(fake)) as consumer:
        consumer.assign(PLACES)
        assert by_partition(read(consumer, 150)) == expected(50)


def _spoiled(request, response):
    for topic in response.responses:
        for part in topic.partitions:
            part.records = bytes(part.records)[:-1] + b"?" if part.records else part.records
    return response


def _foreign(request, response):
    for topic in response.responses:
        topic.topic, topic.topic_id = "z", bytes(15) + b"z"
    return response


def _shifted(request, response):
    for topic in response.responses:
        for part in topic.partitions:
            part.partition_index += 100
    return response


@pytest.mark.parametrize("change", [_foreign, _shifted])
def test_records_of_others_are_not_given_out(fake, change):
    fill(fake, 50)
    fake.change("Fetch", change, times=3)
    with Consumer(**settings(fake)) as consumer:
        consumer.assign(PLACES)
        assert by_partition(read(consumer, 150)) == expected(50)


def test_spoiled_records_are_told_with_their_place_and_not_given_out(fake):
    fill(fake, 50)
    fake.change("Fetch", _spoiled, times=3)
    found: list = []
    told = 0
    with Consumer(**settings(fake)) as consumer:
        consumer.assign(PLACES)
        deadline = time.monotonic() + HANG_S
        while len(found) < 150 and time.monotonic() < deadline:
            try:
                found += consumer.poll(0.2)
            except CorruptRecord as error:
                told += 1
                consumer.seek(error.topic_partition, error.offset)  # once more from the broker
    assert by_partition(found) == expected(50)
    assert told > 0


def test_what_may_not_be_read_is_raised(fake):
    fake.fail("Fetch", "TOPIC_AUTHORIZATION_FAILED", times=None, topic=TOPIC)
    fill(fake, 1)
    with Consumer(**settings(fake)) as consumer:
        consumer.assign(PLACES)
        with pytest.raises(TopicAuthorizationFailed):
            read(consumer, 1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_that_may_not_be_joined_is_raised(fake, protocol):
    fake.fail("FindCoordinator", "GROUP_AUTHORIZATION_FAILED", times=None)
    with Consumer(TOPIC, **in_group(fake, protocol)) as consumer, pytest.raises(GroupAuthorizationFailed):
        read(consumer, 1)


def test_a_broker_without_the_new_protocol_is_told_with_the_way_out(fake):
    fake.fail("ConsumerGroupHeartbeat", "UNSUPPORTED_VERSION", times=None)
    with (
        Consumer(TOPIC, **in_group(fake, "consumer")) as consumer,
        pytest.raises(UnsupportedVersion, match=r"group\.protocol=classic"),
    ):
        read(consumer, 1)


def test_brokers_that_are_gone_for_a_while_are_waited_for(fake):
    fill(fake, 100)
    with Consumer(**settings(fake)) as consumer:
        consumer.assign(PLACES)
        found = read(consumer, 300)
        for node in (1, 2, 3):
            fake.stop_node(node)
        assert consumer.poll(0.3) == []
        for node in (1, 2, 3):
            fake.start_node(node)
        fill(fake, 50, start=100)
        found += read(consumer, 150)
    assert by_partition(found) == expected(150)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_slow_handler_is_told_about_the_poll_interval_and_goes_on(fake, protocol, caplog):
    fill(fake, 10)
    beats = (
        {"max_poll_interval_ms": 300}
        if protocol == "consumer"
        else {"max_poll_interval_ms": 300, "session_timeout_ms": 300}
    )
    with caplog.at_level(logging.WARNING), Consumer(TOPIC, **in_group(fake, protocol, **beats)) as consumer:
        first = read(consumer, 30)
        time.sleep(0.8)
        fill(fake, 10, start=10)
        read(consumer, 30)
    assert len(first) == 30
    assert "max.poll.interval.ms" in caplog.text


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_handler_that_takes_long_keeps_its_membership(fake, protocol):
    fill(fake, 10)
    with Consumer(TOPIC, **in_group(fake, protocol)) as consumer:
        read(consumer, 30)
        generation = fake.cluster.group("g").generation
        beat = "Heartbeat" if protocol == "classic" else "ConsumerGroupHeartbeat"
        before = fake.asked(beat)
        wait_until(lambda: fake.asked(beat) > before + 2, "heartbeats without polls")
        fill(fake, 10, start=10)
        read(consumer, 30)
        assert fake.cluster.group("g").generation == generation


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_closing_is_bounded_when_nobody_answers(fake, protocol):
    fill(fake, 10)
    consumer = Consumer(TOPIC, **in_group(fake, protocol, request_timeout_ms=FAR_MS, default_api_timeout_ms=FAR_MS))
    read(consumer, 30)
    for api in ("Fetch", "OffsetCommit", "LeaveGroup", "ConsumerGroupHeartbeat", "Heartbeat", "Metadata"):
        fake.mute(api, times=None)
    with bounded():
        consumer.close(timeout=0.5)


def test_a_throttled_consumer_waits_and_goes_on(fake):
    fill(fake, 10)
    fake.throttle("Fetch", ms=300, times=1)
    with Consumer(**settings(fake)) as consumer:
        consumer.assign(PLACES)
        assert by_partition(read(consumer, 30)) == expected(10)


def test_aborted_records_do_not_come_through(fake):
    from ottla.client.producer.producer import Producer

    with Producer(bootstrap_servers=fake.bootstrap_servers, transactional_id="x") as producer:
        producer.init_transactions()
        for turn in range(6):
            producer.begin_transaction()
            producer.send(TOPIC, f"{turn}".encode(), partition=0)
            producer.commit_transaction() if turn % 2 else producer.abort_transaction()
    with Consumer(**settings(fake, isolation_level="read_committed")) as consumer:
        consumer.assign(PLACES[:1])
        assert [record.value for record in read(consumer, 3)] == [b"1", b"3", b"5"]
        assert consumer.position(PLACES[0]) == fake.log(TOPIC, 0).end_offset
