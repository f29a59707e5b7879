"""What poll() takes: pieces in their order, errors in their turn, positions that follow, and who is woken."""

from threading import Lock

import pytest

from ottla.client.consumer.buffer import FetchBuffer, Piece
from ottla.client.consumer.buffer_reader import PORTION_BYTES, BufferReader
from ottla.client.consumer.offset_reset import LATEST, parse_reset
from ottla.client.consumer.record_choice import FetchedRecords
from ottla.client.consumer.record_errors import CorruptRecord, DeserializationFailed
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.consumer.subscription import State, Subscription
from ottla.errors import OffsetOutOfRange, TopicAuthorizationFailed
from ottla.records import BatchBuilder, assign_offsets
from ottla.values import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def batch(base_offset, values):
    builder = BatchBuilder()
    for value in values:
        builder.append(1, None, value)
    data = bytearray(builder.close())
    assign_offsets(data, 0, base_offset, 3)
    return bytes(data)


class World:
    def __init__(self, reset=LATEST, **settings):
        self.subscription = Subscription(reset)
        self.subscription.assign([A, B])
        for name in (A, B):
            self.subscription.seek(name, 0)
        self.buffer = FetchBuffer()
        self.woken = 0
        made = ConsumerSettings({"bootstrap.servers": "h:1"}, **settings)
        self.reader = BufferReader(self.subscription, self.buffer, Lock(), made, self.wake)

    def wake(self):
        self.woken += 1

    def fetched(self, name, base_offset, *values, data=None):
        content = data or batch(base_offset, values)
        records = FetchedRecords(name.topic, name.partition, content, base_offset)
        self.buffer.add(Piece(name, self.subscription.state(name).turn, records, len(content)))

    def failed(self, name, error, offset=0):
        self.buffer.add(Piece(name, self.subscription.state(name).turn, None, error=error, offset=offset))

    def values(self, limit=100):
        return [record.value for record in self.reader.read(limit)]

    def offset(self, name):
        return self.subscription.state(name).position.offset


def test_pieces_are_taken_in_turn_up_to_the_limit_and_positions_follow():
    world = World()
    world.fetched(A, 0, b"1", b"2", b"3")
    world.fetched(B, 0, b"4")
    assert world.values(2) == [b"1", b"2"]
    assert (world.offset(A), world.woken, len(world.buffer)) == (2, 0, 2)
    assert world.values() == [b"3", b"4"]
    assert (world.offset(A), world.offset(B), world.woken, len(world.buffer)) == (3, 1, 2, 0)
    assert world.subscription.consumed()[A].leader_epoch == 3
    assert world.values() == []


def test_what_was_fetched_before_a_seek_is_dropped():
    world = World()
    world.fetched(A, 0, b"old")
    world.subscription.seek(A, 5)
    world.fetched(A, 5, b"new")
    assert world.values() == [b"new"]
    assert world.offset(A) == 6


def test_a_partition_that_is_paused_keeps_its_records():
    world = World()
    world.fetched(A, 0, b"a")
    world.fetched(B, 0, b"b")
    world.subscription.pause([A])
    assert world.values() == [b"b"]
    world.subscription.resume([A])
    world.buffer.resume([A])
    assert world.values() == [b"a"]


def test_an_error_waits_until_what_stands_before_it_was_given_and_is_raised_once():
    world = World()
    world.fetched(A, 0, b"a")
    world.failed(A, TopicAuthorizationFailed("a"))
    assert world.values() == [b"a"]
    with pytest.raises(TopicAuthorizationFailed):
        world.reader.read(1)
    assert world.values() == []
    assert world.woken == 2  # so that it is asked for again


def test_an_offset_out_of_range_begins_anew_or_is_the_users():
    world = World()
    world.failed(A, OffsetOutOfRange())
    assert world.values() == []
    assert world.subscription.state(A).state is State.AWAIT_RESET
    world = World(parse_reset("none"))
    world.failed(A, OffsetOutOfRange())
    with pytest.raises(OffsetOutOfRange):
        world.reader.read(1)


def test_damage_stops_its_partition_until_a_seek():
    world = World()
    broken = bytearray(batch(1, [b"x"]))
    broken[-2] ^= 0xFF
    world.fetched(A, 0, data=batch(0, [b"good"]) + bytes(broken))
    assert world.values() == [b"good"]
    for read in (world.reader.read, world.reader.read_table):
        with pytest.raises(CorruptRecord) as caught:
            read(10)
        assert caught.value.offset == 1
    world.subscription.seek(A, 2)
    world.fetched(A, 2, b"after")
    assert world.values() == [b"after"]


def test_a_deserializer_may_call_the_consumer_and_its_failure_keeps_the_position():
    world = World(value_deserializer=lambda data: world.seek_and_fail() if data == b"bad" else data.decode())
    world.seek_and_fail = lambda: 1 / 0
    world.fetched(A, 0, b"good", b"bad")
    assert world.values() == ["good"]
    with pytest.raises(DeserializationFailed, match="ZeroDivisionError"):
        world.reader.read(1)
    assert world.offset(A) == 1
    world.seek_and_fail = lambda: world.subscription.seek(A, 77)
    world.reader.read(1)
    assert world.offset(A) == 77  # the piece that was being read does not move it


def test_a_table_takes_whole_batches_of_all_partitions():
    world = World()
    world.fetched(A, 0, b"1", b"2")
    world.fetched(B, 0, b"3")
    table = world.reader.read_table(100)
    assert table.column("topic").to_pylist() == ["a", "a", "b"]
    assert table.column("offset").to_pylist() == [0, 1, 0]
    assert table.column("value").to_pylist() == [b"1", b"2", b"3"]
    assert (world.offset(A), world.offset(B)) == (2, 1)
    assert world.reader.read_table(100) is None


def test_a_portion_ends_when_it_has_enough_bytes_and_the_next_one_goes_on_there():
    world = World()
    half = bytes(PORTION_BYTES * 3 // 8)
    for offset in range(3):
        world.fetched(A, offset, half)
    world.fetched(B, 0, b"x" * (2 * PORTION_BYTES))
    offsets = []
    while (table := world.reader.read_portion(100)) is not None:
        offsets.append(list(zip(table.column("topic").to_pylist(), table.column("offset").to_pylist(), strict=True)))
    assert offsets == [[("a", 0), ("a", 1)], [("a", 2), ("b", 0)]], "a piece is never cut for its bytes"
    assert (world.offset(A), world.offset(B)) == (3, 1)


def test_a_table_with_a_number_of_rows_has_them_however_large_they_are():
    world = World()
    for offset in range(3):
        world.fetched(A, offset, bytes(PORTION_BYTES))
    assert world.reader.read_table(100).num_rows == 3


@pytest.mark.parametrize("limit", [2, 100])
def test_a_piece_that_is_paused_while_it_is_read_gives_nothing_twice(limit):
    world = World(value_deserializer=lambda topic, value: pausing(value))

    def pausing(value):
        if value == b"2":
            world.subscription.pause([A])
            world.buffer.pause([A])
        return value

    world.fetched(A, 0, b"1", b"2", b"3")
    found = world.values(limit)
    assert world.values(limit) == [], "it is paused"
    world.subscription.resume([A])
    world.buffer.resume([A])
    while more := world.values(limit):
        found += more
    assert found == [b"1", b"2", b"3"]
    assert world.offset(A) == 3
    assert world.buffer.size_bytes == 0
