"""Share consumers against a real broker: acknowledging, sharing, locks, workers, dead letters."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from tests.patience import HANG_S

import ottla
from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType
from ottla.client.share.in_flight import AcknowledgeType, NotHeld, UnacknowledgedRecords
from ottla.errors import GroupIdNotFound, OttlaError
from ottla.testing.broker import KafkaBroker

LOCK_MS = 1000
SETTINGS = {
    "group.share.min.heartbeat.interval.ms": 50,
    "group.share.heartbeat.interval.ms": 50,
    "group.share.min.session.timeout.ms": 200,
    "group.share.min.record.lock.duration.ms": LOCK_MS,
}


@pytest.fixture(scope="module")
def broker():
    with KafkaBroker(SETTINGS) as made:
        yield made


@pytest.fixture
def topic(broker, unique_topic):
    with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic(unique_topic, 1)])
    return unique_topic


@pytest.fixture
def group(broker, unique_group):
    """A share group that begins at the beginning."""
    configure(broker, unique_group, "share.auto.offset.reset", "earliest")
    return unique_group


def configure(broker, group, name, value):
    with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        resource = ConfigResource(ConfigResourceType.GROUP, group)
        admin.incremental_alter_configs({resource: [AlterConfig(name, str(value))]})


def produce(broker, topic, *values, headers=()):
    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value, key=b"key", headers=list(headers)).result(HANG_S)


def member(broker, group, topic, **settings):
    return ottla.ShareConsumer(topic, bootstrap_servers=broker.bootstrap_servers, group_id=group, **settings)


def poll_until(consumer, count, **options):
    """So many records, however many polls it takes. Only for the explicit mode: every poll accepts in the other."""
    found = []
    deadline = time.monotonic() + HANG_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records"
        for record in consumer.poll(1.0, **options):
            found.append(record)
    return found


def first_poll(consumer, **options):
    deadline = time.monotonic() + HANG_S
    while not (found := consumer.poll(1.0, **options)):
        assert time.monotonic() < deadline
    return found


def values_of(records):
    return [record.value for record in records]


def test_the_next_poll_accepts_what_the_last_one_gave(broker, topic, group):
    produce(broker, topic, b"0", b"1", b"2")
    with member(broker, group, topic) as consumer:
        found = first_poll(consumer)
        assert values_of(found) == [b"0", b"1", b"2"]
        assert [(each.offset, each.delivery_count, each.key) for each in found] == [(n, 1, b"key") for n in range(3)]
        assert found[0].timestamp_ms > 0
        produce(broker, topic, b"3")
        assert values_of(first_poll(consumer)) == [b"3"]
        assert consumer.commit() == {ottla.TopicPartition(topic, 0): None}
        assert consumer.commit() == {}
    produce(broker, topic, b"4")
    with member(broker, group, topic) as consumer:
        assert values_of(first_poll(consumer)) == [b"4"]


def test_explicit_acknowledgements_decide_what_comes_again(broker, topic, group):
    produce(broker, topic, b"accept", b"release", b"reject", b"last")
    with member(broker, group, topic, share_acknowledgement_mode="explicit") as consumer:
        accept, release, reject, last = first_poll(consumer)
        with pytest.raises(UnacknowledgedRecords, match="4 records"):
            consumer.poll(0)
        accept.accept()
        consumer.acknowledge(release, AcknowledgeType.RELEASE)
        reject.reject()
        last.accept()
        (again,) = first_poll(consumer)
        assert (again.value, again.delivery_count) == (b"release", 2)
        again.accept()
        assert set(consumer.commit().values()) == {None}
        with pytest.raises(NotHeld):
            accept.accept()
        produce(broker, topic, b"new")
        (new,) = first_poll(consumer)
        assert new.value == b"new"
        new.accept()


def test_with_a_record_it_is_accepted_at_the_end_and_released_when_it_raises(broker, topic, group):
    produce(broker, topic, b"bad")
    with member(broker, group, topic, share_acknowledgement_mode="explicit") as consumer:
        (record,) = first_poll(consumer)
        with pytest.raises(ValueError, match="no"), record:
            raise ValueError("no")
        (record,) = first_poll(consumer)
        assert record.delivery_count == 2
        with record:
            pass
        produce(broker, topic, b"good")
        with first_poll(consumer)[0] as record:
            assert record.value == b"good"
            record.reject()
        assert consumer.commit() == {ottla.TopicPartition(topic, 0): None}


def test_iterating_accepts_a_record_when_the_next_one_is_asked_for(broker, topic, group):
    produce(broker, topic, b"0", b"1", b"2")
    with member(broker, group, topic) as consumer:
        records = iter(consumer)
        assert next(records).value == b"0"
        assert next(records).value == b"1"
    with member(broker, group, topic) as consumer:
        again = first_poll(consumer)
        assert [(each.value, each.delivery_count) for each in again] == [(b"1", 2), (b"2", 2)]


def test_callbacks_hear_what_became_of_acknowledgements(broker, topic, group):
    produce(broker, topic, b"0", b"1")
    heard = []
    with member(broker, group, topic) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: heard.append((offsets, error)))
        first_poll(consumer)
        consumer.commit_async()
        deadline = time.monotonic() + HANG_S
        while not heard:
            assert time.monotonic() < deadline
            consumer.poll(0.05)
    partition = ottla.TopicPartition(topic, 0)
    assert {offset for offsets, error in heard for offset in offsets[partition] if error is None} == {0, 1}


def test_two_consumers_share_one_partition_and_each_record_goes_to_one_of_them(broker, topic, group):
    produce(broker, topic, *(b"%d" % number for number in range(20)))
    settings = {"share_acknowledgement_mode": "explicit", "share_acquire_mode": "record_limit"}
    with member(broker, group, topic, **settings) as one, member(broker, group, topic, **settings) as two:
        seen = {one: [], two: []}
        deadline = time.monotonic() + HANG_S
        while sum(map(len, seen.values())) < 20:
            assert time.monotonic() < deadline
            for consumer, found in seen.items():
                records = consumer.poll(0.5, max_records=3)
                assert len(records) <= 3
                for record in records:
                    record.accept()
                    found.append(int(record.value))
        assert sorted(seen[one] + seen[two]) == list(range(20))
        assert seen[one]
        assert seen[two]


def test_what_is_not_acknowledged_is_released_when_the_consumer_is_closed(broker, topic, group):
    produce(broker, topic, b"0", b"1")
    with member(broker, group, topic, share_acknowledgement_mode="explicit") as one:
        first, _ = first_poll(one)
        first.accept()
    with member(broker, group, topic) as two:
        (again,) = first_poll(two)
        assert (again.value, again.delivery_count) == (b"1", 2)


def test_a_lock_is_renewed_while_the_record_is_worked_on_and_runs_out_otherwise(broker, topic, group):
    configure(broker, group, "share.record.lock.duration.ms", LOCK_MS)
    produce(broker, topic, b"kept", b"forgotten")
    with (
        member(broker, group, topic, share_acknowledgement_mode="explicit") as one,
        member(broker, group, topic, share_acknowledgement_mode="explicit") as two,
    ):
        kept, forgotten = first_poll(one)
        assert one.acquisition_lock_timeout_ms() == LOCK_MS
        with kept:
            for delivery in (2, 3):  # the lock of the other one runs out twice
                (again,) = first_poll(two)
                assert (again.value, again.delivery_count) == (b"forgotten", delivery)
                if delivery == 3:
                    again.accept()
                else:
                    again.renew()
                    assert two.commit() == {ottla.TopicPartition(topic, 0): None}
                    again.release()
        assert one.commit() == {ottla.TopicPartition(topic, 0): None}
        with pytest.raises(NotHeld):
            forgotten.accept()


def test_workers_handle_records_at_the_same_time_and_each_once(broker, topic, group):
    produce(broker, topic, *(b"%d" % number for number in range(9)))
    together = threading.Barrier(3)
    seen = []

    def handle(record):
        seen.append((int(record.value), record.delivery_count))
        if record.delivery_count == 1:
            together.wait(HANG_S)
        if (record.value, record.delivery_count) == (b"4", 1):
            raise ValueError("once more")

    with member(broker, group, topic) as consumer:
        assert consumer.work(handle, workers=3, max_records=10) == 10
    assert sorted(seen) == sorted([*((number, 1) for number in range(9)), (4, 2)])


def test_a_handler_may_run_for_longer_than_the_lock(broker, topic, group):
    configure(broker, group, "share.record.lock.duration.ms", LOCK_MS)
    produce(broker, topic, b"slow")
    with member(broker, group, topic) as consumer:

        def handle(record):
            held = record._held
            first = held.locked_until_ms
            deadline = time.monotonic() + HANG_S
            while held.locked_until_ms < first + 1.5 * LOCK_MS:  # it was renewed three times
                assert time.monotonic() < deadline
                time.sleep(0.01)
            consumer.stop()

        assert consumer.work(handle, workers=2) == 1
        assert consumer.commit() == {} or set(consumer.commit().values()) <= {None}
        produce(broker, topic, b"next")
        assert [(each.value, each.delivery_count) for each in first_poll(consumer)] == [(b"next", 1)]


def test_dead_letters_go_to_their_topic_with_headers_and_why(broker, topic, group):
    graves = f"{topic}-dead"
    with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic(graves, 1)])
    produce(broker, topic, b"bad", b"good", headers=[("trace", b"1")])
    deliveries = []

    def handle(record):
        if record.value == b"bad":
            deliveries.append(record.delivery_count)
            raise ValueError("cannot be parsed")

    settings = {"share_dead_letter_topic": graves, "share_dead_letter_deliveries": 2}
    with member(broker, group, topic, **settings) as consumer:
        assert consumer.work(handle, workers=2, max_records=3) == 3
        consumer.commit()
    assert deliveries == [1, 2]
    (dead,) = ottla.read_topic(graves, bootstrap_servers=broker.bootstrap_servers).to_pylist()
    assert (dead["key"], dead["value"]) == (b"key", b"bad")
    headers = {each["key"]: each["value"] for each in dead["headers"]}
    assert headers == {
        "trace": b"1",
        "ottla.dead.letter.topic": topic.encode(),
        "ottla.dead.letter.partition": b"0",
        "ottla.dead.letter.offset": b"0",
        "ottla.dead.letter.group": group.encode(),
        "ottla.dead.letter.deliveries": b"2",
        "ottla.dead.letter.error": b"ValueError",
        "ottla.dead.letter.message": b"cannot be parsed",
    }
    produce(broker, topic, b"new")
    with member(broker, group, topic) as consumer:
        assert values_of(first_poll(consumer)) == [b"new"]


def test_a_record_that_cannot_be_deserialized_is_released_and_the_others_come(broker, topic, group):
    produce(broker, topic, b"1", b"x", b"2")
    with member(broker, group, topic, value_deserializer="json", share_acknowledgement_mode="explicit") as consumer:
        found = first_poll(consumer)
        assert values_of(found) == [1, 2]
        for record in found:
            record.accept()
        with pytest.raises(OttlaError, match="offset 1"):
            consumer.poll(HANG_S)
    with member(broker, group, topic) as consumer:
        (again,) = first_poll(consumer)
        assert again.value == b"x"
        assert again.delivery_count >= 2


def test_unsubscribing_gives_everything_back_and_it_can_come_again(broker, topic, group):
    produce(broker, topic, b"0")
    with member(broker, group, topic, share_acknowledgement_mode="explicit") as consumer:
        (record,) = first_poll(consumer)
        consumer.unsubscribe()
        assert consumer.assignment() == frozenset()
        with pytest.raises(NotHeld):
            record.accept()
        consumer.subscribe([topic])
        (record,) = first_poll(consumer)
        assert record.delivery_count == 2
        record.accept()


def test_an_admin_sees_the_group_and_moves_its_start(broker, topic, group):
    produce(broker, topic, b"0", b"1", b"2")
    partition = ottla.TopicPartition(topic, 0)
    with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        with member(broker, group, topic) as consumer:
            first_poll(consumer)
            consumer.commit()
            described = admin.describe_share_groups([group])[group]
            assert described.state == "Stable"
            assert [each.assignment for each in described.members] == [{partition}]
            assert [each.group_id for each in admin.list_groups(types=["share"]) if each.group_id == group] == [group]
        # Kafka moves the start when it must; what is left is told at once.
        assert admin.list_share_group_offsets(group)[partition].lag == 0
        admin.alter_share_group_offsets(group, {partition: 1})
        with member(broker, group, topic) as consumer:
            assert values_of(first_poll(consumer)) == [b"1", b"2"]
        admin.delete_share_group_offsets(group, [topic])
        admin.delete_share_groups([group])
        with pytest.raises(GroupIdNotFound):
            admin.describe_share_groups([group])


def test_the_asyncio_face_does_the_same(broker, topic, group):
    produce(broker, topic, *(b"%d" % number for number in range(6)))

    async def scenario():
        settings = {"bootstrap_servers": broker.bootstrap_servers, "group_id": group}
        heard = asyncio.Event()

        async def hear(offsets, error):
            assert error is None
            heard.set()

        async with ottla.aio.ShareConsumer(topic, **settings) as consumer:
            consumer.set_acknowledgement_commit_callback(hear)
            async for record in consumer:
                with record:
                    assert record.value == b"0"
                break
            assert await consumer.commit() == {ottla.TopicPartition(topic, 0): None}
            assert heard.is_set()
        seen = []
        together = asyncio.Barrier(2)

        async def handle(record):
            await asyncio.wait_for(together.wait(), HANG_S)
            seen.append(int(record.value))

        async with ottla.aio.ShareConsumer(topic, **settings) as consumer:
            assert await consumer.work(handle, workers=2, max_records=4) == 4
            (last,) = await consumer.poll(HANG_S)
            assert sorted([*seen, int(last.value)]) == [1, 2, 3, 4, 5]

    asyncio.run(asyncio.wait_for(scenario(), HANG_S))
