"""Callers and queues: what make_room does, who is told, and what comes back to the head."""

import random

import pytest

from ottla.client.producer.batches.accumulator import RecordAccumulator
from ottla.client.producer.batches.buffer_pool import Place
from ottla.client.producer.transactions.states import TransactionMisuse
from ottla.records import Compression, RecordBatch


def accumulator_of(**settings):
    chosen = {"batch_bytes": 300, "memory_bytes": 3000, "record_limit_bytes": 10**6, "chance": random.Random(1)}
    return RecordAccumulator(**(chosen | settings))


def put(accumulator, state, value, partition=None, key=None):
    for _ in range(5):
        future = state.put(key, value, None, 1, partition, True)
        if future is not None:
            return future
        place = accumulator.make_room(state, partition, 97 + len(value), 0.0)
        if place is not None:
            return place
    raise AssertionError("there is never room")


def test_a_batch_is_opened_when_it_is_needed_and_the_sender_is_told():
    accumulator = accumulator_of()
    told = []
    accumulator.on_new_batch = told.append
    state = accumulator.new_state("t", 1)
    put(accumulator, state, b"x" * 100, 0)
    put(accumulator, state, b"x" * 100, 0)
    assert told == [False]
    put(accumulator, state, b"x" * 100, 0)
    assert told == [False, True], "the second time because the first batch is full"
    (queue,) = accumulator.busy
    assert [batch.record_count for batch in queue.batches] == [2, 1]


def test_a_full_batch_of_records_without_keys_is_told_of_too_and_the_turn_goes_on():
    accumulator = accumulator_of()
    told = []
    accumulator.on_new_batch = told.append
    state = accumulator.new_state("t", 50)
    accumulator.available["t"] = tuple(range(50))
    partitions = [put(accumulator, state, b"x" * 100).partition for _ in range(6)]
    assert len(set(partitions)) == 3, "two records fill a batch, then it is another partition's turn"
    assert told.count(True) == 2


def test_without_memory_there_is_a_place_in_line_and_the_batch_that_was_full_is_closed():
    accumulator = accumulator_of(memory_bytes=300)
    state = accumulator.new_state("t", 1)
    put(accumulator, state, b"x" * 200, 0)
    place = put(accumulator, state, b"x" * 200, 0)
    assert isinstance(place, Place)
    assert accumulator.is_hurried
    (queue,) = accumulator.busy
    batch = accumulator.take_first(queue)
    woken = []
    place.notify = lambda: woken.append(True)
    accumulator.finish(batch)
    assert woken == [True]
    assert accumulator.make_room(state, 0, 297, 0.0, place) is None
    assert state.put(None, b"x" * 200, None, 1, 0, True)


def test_a_granted_place_that_is_not_needed_goes_to_the_next_in_line():
    accumulator = accumulator_of(memory_bytes=300)
    state = accumulator.new_state("t", 2)
    put(accumulator, state, b"x", 0)
    first, second = put(accumulator, state, b"x", 1), put(accumulator, state, b"x", 1)
    accumulator.finish(accumulator.take_first(next(iter(accumulator.busy))))
    assert first.is_granted
    accumulator.leave(first)
    assert second.is_granted
    accumulator.leave(second)
    assert accumulator.pool.available_bytes == 300


def test_a_record_larger_than_a_batch_travels_alone():
    accumulator = accumulator_of()
    state = accumulator.new_state("t", 1)
    put(accumulator, state, b"x" * 1000, 0)
    put(accumulator, state, b"y" * 50, 0)
    (queue,) = accumulator.busy
    assert [batch.record_count for batch in queue.batches] == [1, 1]


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec is not Compression.NONE])
def test_what_compresses_well_gathers_more_than_a_batch(codec):
    accumulator = accumulator_of(compression=codec, memory_bytes=100_000, batch_bytes=600)
    accumulator.ratios.reset("t", codec, 0.1)
    state = accumulator.new_state("t", 1)
    for _ in range(15):
        put(accumulator, state, b"x" * 100, 0)
    (queue,) = accumulator.busy
    (batch,) = queue.batches
    assert batch.uncompressed_bytes > 1500
    with accumulator.lock:
        taken = accumulator.take_first(queue)
    assert len(list(RecordBatch(bytes(taken.seal(-1, -1, -1, False))))) == 15
    accumulator.finish(taken)
    assert accumulator.pool.available_bytes == 100_000


def test_a_full_batch_is_compressed_by_the_caller():
    accumulator = accumulator_of(compression=Compression.GZIP)
    state = accumulator.new_state("t", 1)
    for _ in range(3):
        put(accumulator, state, bytes(range(100)), 0)
    (queue,) = accumulator.busy
    first = queue.batches[0]
    assert first.compression_ratio != 1.0


def test_a_partition_that_may_not_be_written_to_is_refused_before_memory_is_taken():
    accumulator = accumulator_of()
    state = accumulator.new_state("t", 1)

    def refuse(partition):
        raise TransactionMisuse(str(partition))

    accumulator.admit = refuse
    with pytest.raises(TransactionMisuse, match="t-0"):
        put(accumulator, state, b"x", 0)
    assert accumulator.pool.available_bytes == 3000


def test_batches_without_numbers_come_back_to_the_head():
    accumulator = accumulator_of()
    state = accumulator.new_state("t", 1)
    for _ in range(5):
        put(accumulator, state, b"x" * 100, 0)
    (queue,) = accumulator.busy
    with accumulator.lock:
        first = accumulator.take_first(queue)
    accumulator.requeue(first, 7.0)
    assert queue.batches[0] is first
    assert (first.attempts, first.last_attempt_ms) == (1, 7.0)


def test_taking_all_leaves_nothing_and_closes_what_was_open():
    accumulator = accumulator_of()
    state = accumulator.new_state("t", 2)
    for partition in (0, 1, 0):
        put(accumulator, state, b"x" * 100, partition)
    taken = accumulator.take_all(lambda batch: True)
    assert sum(batch.record_count for batch in taken) == 3
    assert not accumulator.busy
    assert state.put(None, b"x", None, 1, 0, True) is None
    accumulator.finish(*taken)
    assert accumulator.pool.available_bytes == 3000


# --- batches grow as they fill ---


def filled(accumulator, state, count, partition=0):
    for _ in range(count):
        assert not isinstance(put(accumulator, state, b"x" * 1000, partition), Place)


def taken(accumulator, partition=0):
    queue = next(queue for queue in accumulator.busy if queue.name.partition == partition)
    with accumulator.lock:
        return accumulator.take_first(queue)


def test_a_large_batch_size_takes_memory_only_as_records_come():
    accumulator = accumulator_of(batch_bytes=262_144, memory_bytes=33_554_432)
    state = accumulator.new_state("t", 1000)
    for partition in range(1000):
        put(accumulator, state, b"x" * 100, partition)
    assert accumulator.pool.total_bytes - accumulator.pool.available_bytes == 1000 * 16_384


def test_a_batch_grows_to_its_size_and_no_further_and_keeps_its_records_in_order():
    accumulator = accumulator_of(batch_bytes=100_000, memory_bytes=1_000_000)
    state = accumulator.new_state("t", 1)
    sizes = set()
    for number in range(150):
        put(accumulator, state, b"%04d" % number + b"x" * 996, 0)
        sizes.add(next(iter(accumulator.busy)).batches[-1].accounted_bytes)
    assert sizes == {16_384, 65_536, 100_000}
    (queue,) = accumulator.busy
    first, second = queue.batches
    assert first.size_bytes <= 100_000 < first.size_bytes + 1_100
    values = [
        record.value[:4] for batch in (first, second) for record in RecordBatch(bytes(batch.seal(1, 2, 3, False)))
    ]
    assert values == [b"%04d" % number for number in range(150)]
    accumulator.finish(first, second)
    assert accumulator.pool.available_bytes == 1_000_000


def test_a_partition_that_fills_its_batches_begins_with_a_whole_one():
    accumulator = accumulator_of(batch_bytes=100_000, memory_bytes=1_000_000)
    state = accumulator.new_state("t", 1)
    filled(accumulator, state, 101)
    (queue,) = accumulator.busy
    assert [batch.accounted_bytes for batch in queue.batches] == [100_000, 100_000]
    accumulator.finish(taken(accumulator), taken(accumulator))
    filled(accumulator, state, 1)
    assert queue.batches[-1].accounted_bytes == 16_384, "the last one left with one record"


def test_a_batch_of_one_record_that_needs_more_than_the_first_buffer_gets_it_at_once():
    accumulator = accumulator_of(batch_bytes=100_000, memory_bytes=1_000_000)
    state = accumulator.new_state("t", 1)
    put(accumulator, state, b"x" * 50_000, 0)
    put(accumulator, state, b"y" * 10, 0)
    (queue,) = accumulator.busy
    assert [(batch.record_count, batch.accounted_bytes) for batch in queue.batches] == [(2, 65_536)]


def test_a_batch_that_may_not_grow_for_want_of_memory_leaves_as_it_is():
    accumulator = accumulator_of(batch_bytes=100_000, memory_bytes=50_000)
    state = accumulator.new_state("t", 1)
    places = [put(accumulator, state, b"x" * 1000, 0) for _ in range(60)]
    waiting = next(index for index, place in enumerate(places) if isinstance(place, Place))
    assert 40 < waiting < 50, "nearly all memory was used before somebody had to wait"
    assert accumulator.pool.available_bytes >= 0


def test_a_topic_that_refused_a_large_batch_gets_smaller_ones():
    accumulator = accumulator_of(batch_bytes=100_000, memory_bytes=1_000_000)
    state = accumulator.new_state("t", 1)
    filled(accumulator, state, 97)
    refused = taken(accumulator)
    accumulator.sizes.refused("t", refused.size_bytes)
    accumulator.finish(refused)
    filled(accumulator, state, 97)
    (queue,) = accumulator.busy
    assert all(batch.size_bytes <= 50_000 for batch in queue.batches)
    other = accumulator.new_state("other", 1)
    filled(accumulator, other, 97)
    assert max(batch.size_bytes for queue in accumulator.busy for batch in queue.batches) > 90_000
