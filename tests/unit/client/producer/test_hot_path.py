"""The hot path: both twins write the same bytes, keep the same places and tell the same fates."""

import asyncio
import gc
import threading
import time
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.patience import HANG_S

from ottla.client.producer.values import RecordMetadata
from ottla.errors import CorruptMessage, MessageTooLarge
from ottla.records import BatchBuilder, Compression, RecordBatch, murmur2

maybe_bytes = st.none() | st.binary(max_size=40) | st.binary(min_size=120, max_size=140)
headers = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=12)), max_size=3)
times = st.integers(0, 2**62) | st.integers(1_700_000_000_000, 1_700_000_100_000)
records = st.lists(st.tuples(times, maybe_bytes, maybe_bytes, headers), max_size=12)


def batch_of(twin, *, capacity=4096, limit=None, **named):
    limit = capacity if limit is None else limit
    return twin.ProducerBatch(None, "t", 3, bytearray(capacity), capacity, limit_bytes=limit, created_ms=0, **named)


def state_of(twin, *, partitions=4, limit=1 << 20, ignores_keys=False, now_ms=None):
    state = twin.TopicState(
        "t",
        sticky_limit_bytes=1000,
        record_limit_bytes=limit,
        ignores_keys=ignores_keys,
        lock=threading.Lock(),
        now_ms=now_ms,
    )
    state.set_partition_count(partitions)
    return state


# --- batches ---


@given(records, st.integers(200, 2000), st.sampled_from(Compression))
def test_both_twins_write_the_bytes_that_the_builder_of_the_codec_writes(both, record_list, limit, codec):
    builder = BatchBuilder(size_limit_bytes=limit, compression=codec)
    expected = [builder.append(*record) for record in record_list]
    builder.set_producer(7, 2, 40, True)
    for twin in both:
        batch = batch_of(twin, capacity=16384, limit=limit, compression=codec)
        assert [batch.append(*record) for record in record_list] == expected
        if batch.record_count:
            assert bytes(batch.seal(7, 2, 40, True)) == builder.close()
            RecordBatch(bytes(batch.seal(7, 2, 40, True))).check()


def test_a_record_that_does_not_fit_changes_nothing(twin):
    batch = batch_of(twin, capacity=200)
    assert batch.append(1, None, b"x" * 60)
    before = batch.size_bytes, batch.record_count
    assert not batch.append(1, None, b"x" * 100)
    assert (batch.size_bytes, batch.record_count) == before
    assert batch.append(1, None, b"y")


def test_a_closed_batch_takes_no_records(twin):
    batch = batch_of(twin)
    assert batch.append(1, None, b"x")
    batch.stop()
    assert not batch.append(1, None, b"x")
    assert batch.delivery.record_count == 1


def test_bytes_that_were_handed_out_never_change(twin):
    batch = batch_of(twin)
    batch.append(1, b"k", b"v")
    lent = batch.seal(1, 0, 0, False)
    before = bytes(lent)
    again = batch.seal(1, 1, 0, False)
    assert bytes(lent) == before
    assert RecordBatch(bytes(again)).producer_epoch == 1
    RecordBatch(bytes(again)).check()


@pytest.mark.parametrize("size", [0, 1, 60, 4_000, 16_323, 262_083])
def test_a_batch_that_was_closed_before_it_is_sealed_has_the_same_checksum(twin, size):
    """The native twin takes the sum of the records when a batch is closed, and joins that of the header later."""
    sealed = []
    for closes_first in (True, False):
        batch = batch_of(twin, capacity=size + 200)
        batch.append(5, b"k", b"v" * size)
        if closes_first:
            batch.close()
        sealed.append(bytes(batch.seal(4, 1, 7, True)))
        RecordBatch(sealed[-1]).check()
        RecordBatch(bytes(batch.seal(4, 2, 9, False))).check()
    assert sealed[0] == sealed[1]


def test_a_buffer_that_a_request_refers_to_is_not_used_again(twin):
    batch = batch_of(twin)
    batch.append(1, None, b"v")
    lent = batch.seal(-1, -1, -1, False)
    assert batch.release() == (4096, None)
    assert batch.release() == (0, None)
    assert lent[:1] == b"\0"
    free = batch_of(twin)
    free.append(1, None, b"v")
    bytes(free.seal(-1, -1, -1, False))
    gc.collect()
    size, buffer = free.release()
    assert size == len(buffer) == 4096


def test_a_batch_goes_on_in_a_larger_buffer(twin):
    batch = batch_of(twin, capacity=150, limit=150, compression=Compression.GZIP, ratio=0.1)
    assert batch.append(1, None, b"x" * 60)
    assert not batch.fits(200)
    assert batch.fits_grown(100)
    batch.grow(bytearray(1000), 1000)
    assert batch.append(1, None, b"y" * 60)
    assert [record.value[:1] for record in RecordBatch(bytes(batch.seal(-1, -1, -1, False)))] == [b"x", b"y"]


# --- topics ---


def test_a_key_decides_its_partition(twin):
    state = state_of(twin)
    for key in (b"a", b"bc", b"def", b"ghij", b""):
        partition = (murmur2(key) & 0x7FFFFFFF) % 4
        assert state.partition_of(key) == partition
        batch = batch_of(twin)
        state.set_open(partition, batch)
        assert state.put(key, b"v", None, 5, None, True).partition == 3  # the delivery's own, as the batch was made
        assert batch.record_count == 1


def test_a_record_without_a_key_waits_for_a_turn(twin):
    state = state_of(twin)
    state.set_open(2, batch_of(twin))
    assert state.put(None, b"v", None, None, None, False) is None
    state.stick_to(2)
    assert state.put(None, b"v", None, None, None, False) is True
    assert state.sticky_bytes > 0


def test_a_turn_ends_after_twice_its_bytes_even_if_no_batch_fills(twin):
    state = state_of(twin)
    state.stick_to(0)
    state.set_open(0, batch_of(twin))
    puts = 0
    while state.sticky == 0:
        assert state.put(None, b"x" * 100, None, None, None, False)
        puts += 1
    assert 2000 <= puts * 110 <= 2200


@pytest.mark.parametrize("partition", [4, 100, None])
def test_what_has_no_place_is_left_to_whoever_decides(twin, partition):
    state = state_of(twin)
    assert state.put(b"k" if partition is None else None, b"v", None, None, partition, True) is None


def test_a_record_above_the_limit_is_left_to_whoever_decides(twin):
    state = state_of(twin, limit=300)
    state.set_open(0, batch_of(twin))
    assert state.put(None, b"x" * 400, None, None, 0, True) is None
    assert state.put(None, b"x" * 100, None, None, 0, True) is not None


def test_wrong_types_are_refused_with_words(twin):
    state = state_of(twin)
    state.set_open(0, batch_of(twin))
    with pytest.raises(TypeError, match="value must be bytes-like or None, not int"):
        state.put(None, 5, None, None, 0, True)
    with pytest.raises(TypeError, match="header's key must be str"):
        state.put(None, b"v", [(b"h", b"v")], None, 0, True)
    with pytest.raises(ValueError, match="out of range"):
        state.put(None, b"v", None, -5, 0, True)


@given(st.lists(st.tuples(st.none() | st.binary(max_size=6), st.binary(max_size=30)), max_size=40), st.integers(1, 5))
def test_a_list_is_written_like_its_records_one_by_one(both, pairs, partitions):
    def write(twin, many):
        state = state_of(twin, partitions=partitions)
        state.stick_to(0)
        batches = [batch_of(twin) for _ in range(partitions)]
        for partition, batch in enumerate(batches):
            state.set_open(partition, batch)
        if many:
            runs = []
            assert state.put_many(pairs, 0, True, None, 9, None, runs) == len(pairs)
            places = [(id(run[0]), run[1] + step) for run in runs for step in range(run[2])]
        else:
            futures = [state.put(key, value, None, 9, None, True) for key, value in pairs]
            places = [(id(future.as_run()[0]), future.as_run()[1]) for future in futures]
        order = {id(batch.delivery): number for number, batch in enumerate(batches)}
        contents = [bytes(batch.seal(-1, -1, -1, False)) if batch.record_count else b"" for batch in batches]
        return contents, [(order[delivery], index) for delivery, index in places]

    results = [write(twin, many) for twin in both for many in (False, True)]
    assert all(result == results[0] for result in results)


def test_a_list_stops_where_there_is_no_room_and_goes_on_from_there(twin):
    state = state_of(twin)
    state.set_open(0, batch_of(twin, capacity=400))
    runs = []
    stopped = state.put_many([b"x" * 100] * 5, 0, False, None, 1, 0, runs)
    assert 0 < stopped < 5
    state.set_open(0, batch_of(twin))
    assert state.put_many([b"x" * 100] * 5, stopped, False, None, 1, 0, runs) == 5
    assert [count for _, _, count in runs] == [stopped, 5 - stopped]


def test_a_list_with_something_odd_is_refused_before_any_of_it_is_sent(twin):
    assert twin.check_many([b"a", b"x" * 500], False, 300) == 1
    assert twin.check_many([(b"k", b"a"), (None, None)], True, 300) == -1
    with pytest.raises(TypeError, match="not int"):
        twin.check_many([b"a", 5], False, 300)


# --- what became of it ---


def future_of(twin, batch=None, index=0):
    batch = batch or batch_of(twin)
    return batch, batch.future_at(index, 77, 1, 2)


def test_a_future_gives_the_truth_once_it_is_known(twin):
    batch, future = future_of(twin, index=5)
    assert not future.done()
    assert future.metadata().offset == -1
    with pytest.raises(TimeoutError):
        future.result(0)
    assert batch.delivery.succeed(100, -1)
    assert future.result() == RecordMetadata("t", 3, 105, 77, 1, 2)
    assert future.exception() is None
    assert not batch.delivery.fail(CorruptMessage("later"))
    assert future.get().offset == 105


def test_the_brokers_time_counts_when_it_has_one(twin):
    batch, future = future_of(twin)
    batch.delivery.succeed(0, 1234)
    assert future.result().timestamp_ms == 1234


def test_without_an_answer_there_is_no_offset(twin):
    batch, future = future_of(twin, index=3)
    batch.delivery.succeed(-1)
    assert future.result().offset == -1


def test_a_failure_is_raised_and_counts_as_told(twin):
    batch, future = future_of(twin, index=1)
    batch.delivery.fail(CorruptMessage("bad"), {0: MessageTooLarge("that one")})
    with pytest.raises(CorruptMessage, match="bad"):
        future.result()
    assert batch.delivery.told == {1}
    assert isinstance(batch.delivery.error_at(0), MessageTooLarge)


def test_callbacks_are_called_once_in_order_and_their_faults_stay_their_own(twin, caplog):
    batch = batch_of(twin)
    heard = []

    def broken(future):
        raise RuntimeError("mine")

    futures = [batch.future_at(index, 0, -1, -1) for index in range(3)]
    futures[2].add_done_callback(lambda future: heard.append(("two", future is futures[2])))
    futures[0].add_done_callback(broken)
    futures[1].add_delivery_callback(lambda metadata, error: heard.append((metadata.offset, error)))
    batch.delivery.succeed(10)
    assert heard == [(11, None), ("two", True)]
    assert "mine" in caplog.text
    futures[0].add_done_callback(lambda future: heard.append("late"))
    assert heard[-1] == "late"


def test_a_silent_listener_does_not_count_as_told(twin):
    batch, future = future_of(twin)
    heard = []
    future.add_silent_callback(lambda metadata, error: heard.append(error))
    batch.delivery.fail(CorruptMessage())
    assert len(heard) == 1
    assert batch.delivery.told == set()


def test_futures_follow_a_batch_that_is_split(twin):
    batch = batch_of(twin)
    futures = [batch.future_at(index, 0, -1, -1) for index in range(4)]
    heard = []
    futures[3].add_done_callback(lambda future: heard.append(future.metadata().offset))
    first, second = batch_of(twin).delivery, batch_of(twin).delivery
    assert batch.delivery.split([(0, first), (2, second)])
    assert not futures[0].done()
    second.succeed(50)
    assert heard == [51]
    assert [future.done() for future in futures] == [False, False, True, True]
    first.fail(CorruptMessage("x"))
    with pytest.raises(CorruptMessage):
        futures[1].result()
    assert first.told == {1}
    assert not batch.delivery.succeed(1)


def test_a_thread_waits_until_another_tells(twin):
    batch, future = future_of(twin)
    teller = threading.Thread(target=lambda: batch.delivery.succeed(4))
    teller.start()
    assert future.result(HANG_S).offset == 4
    teller.join()


def test_a_task_waits_in_any_loop(twin):
    batch, future = future_of(twin)

    async def scenario():
        waiting = asyncio.ensure_future(_awaited(future))
        await asyncio.sleep(0)
        assert not waiting.done()
        teller = threading.Thread(target=lambda: batch.delivery.succeed(4))
        teller.start()
        found = await waiting
        teller.join()
        assert (await future) == found
        return found.offset

    assert asyncio.run(scenario()) == 4


async def _awaited(future):
    return await future


# --- faces ---


def face_of(twin, kind="HotPath"):
    calls = []

    class Face(getattr(twin, kind)):
        def __init__(self, config=None, **settings):
            pass

        def _send_slowly(self, *record):
            calls.append(record)
            return "slow"

    return Face(), calls


def test_a_cold_face_leaves_everything_to_the_slow_way(twin):
    face, calls = face_of(twin)
    assert face.send("t", b"v", key=b"k") == "slow"
    assert calls == [("t", b"v", b"k", None, None, None, None, True)]


def test_the_time_of_a_record_comes_from_the_clock_of_the_state(twin):
    times = iter((41, 42))
    state = state_of(twin, now_ms=lambda: next(times))
    state.stick_to(1)
    batch = batch_of(twin)
    state.set_open(1, batch)
    assert state.put(None, b"v", None, None, None, True).metadata().timestamp_ms == 41
    assert state.put_many([b"v", b"v"], 0, False, None, None, None, []) == 2
    assert batch.max_timestamp_ms == 42
    assert state.put(None, b"v", None, 7, None, True).metadata().timestamp_ms == 7


def test_without_a_clock_of_its_own_a_record_has_the_time_of_the_system(twin):
    """The native twin looks at the clock once in a millisecond, and must not be told apart by that."""
    state = state_of(twin)
    state.stick_to(1)
    seen = set()
    while len(seen) < 40:  # it begins to count on its counter after ten
        state.set_open(1, batch_of(twin, capacity=65_536))
        for _ in range(500):
            before_ms = time.time_ns() // 1_000_000
            found_ms = state.put(None, b"v", None, None, 1, True).metadata().timestamp_ms
            assert before_ms <= found_ms <= time.time_ns() // 1_000_000
            seen.add(found_ms)


def test_a_state_whose_clock_fails_writes_nothing(twin):
    state = state_of(twin, now_ms=lambda: 1 // 0)
    state.stick_to(1)
    batch = batch_of(twin)
    state.set_open(1, batch)
    with pytest.raises(ZeroDivisionError):
        state.put(None, b"v", None, None, None, True)
    assert batch.record_count == 0


def test_a_hot_face_writes_at_once(twin):
    face, calls = face_of(twin)
    state = state_of(twin, now_ms=lambda: 42)
    state.stick_to(1)
    batch = batch_of(twin)
    state.set_open(1, batch)
    face.topic_states["t"] = state
    face.is_hot = True
    future = face.send("t", b"v")
    assert future.metadata().timestamp_ms == 42
    assert face.produce("t", b"v") is None
    assert batch.record_count == 2
    assert calls == []
    face.send("t", "text")
    face.send("other", b"v")
    face.produce("t", b"v", on_delivery=print)
    face.produce("t", b"v", partition=-5)
    assert [call[7] for call in calls] == [True, True, False, False]
    assert batch.record_count == 2


def test_awaiting_a_quick_send_needs_no_turn_of_the_loop(twin):
    face, _ = face_of(twin, "AsyncHotPath")
    state = state_of(twin)
    state.stick_to(1)
    state.set_open(1, batch_of(twin))
    face.topic_states["t"] = state
    face.is_hot = True

    async def scenario():
        return await face.send("t", b"v"), await face.produce("t", b"v")

    coroutine = scenario()
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    future, nothing = ended.value.value
    assert nothing is None
    assert not future.done()


# --- headers ---


class Pairs(dict):
    """A mapping that is more than a dict."""


@pytest.mark.parametrize("has_room", [True, False])
@pytest.mark.parametrize(
    "make",
    [
        lambda: [("a", b"1"), ("b", None)],
        lambda: iter([("a", b"1"), ("b", None)]),
        lambda: (pair for pair in [["a", b"1"], ["b", None]]),
        lambda: {"a": b"1", "b": None},
        lambda: Pairs(a=b"1", b=None),
        lambda: types.MappingProxyType({"a": b"1", "b": None}),
    ],
    ids=["list", "iterator", "generator of lists", "dict", "subclass", "proxy"],
)
def test_headers_are_read_once_and_kept_also_when_there_was_no_room(twin, make, has_room):
    state, slow = state_of(twin, partitions=1), []

    class Face(twin.HotPath):
        def _send_slowly(self, *record):
            slow.append(record)

    face = Face()
    face.topic_states["t"], face.is_hot = state, True
    batch = batch_of(twin)
    if has_room:
        state.set_open(0, batch)
    face.quick_room = lambda *_: state.set_open(0, batch) is None
    face.produce("t", b"v", partition=0, headers=make())
    (record,) = RecordBatch(bytes(batch.seal(-1, -1, -1, False)))
    assert list(record.headers) == [("a", b"1"), ("b", None)]
    face.quick_room = None
    state.set_open(0, None)
    face.produce("t", b"v", partition=0, headers=make())
    kept = slow[0][5]
    assert list(map(tuple, kept.items() if isinstance(kept, dict) else kept)) == [("a", b"1"), ("b", None)]


@pytest.mark.parametrize("has_room", [True, False])
@pytest.mark.parametrize(
    "bad",
    [[("a",)], ["ab"], "ab", 7, lambda: iter([5]), [("a", b"1", 2)]],
    ids=["no value", "no pair", "text", "number", "iterator", "three"],
)
def test_what_is_no_headers_is_refused_with_the_same_words(both, bad, has_room):
    said = []
    for twin in both:
        face, state = twin.HotPath(), state_of(twin, partitions=1)
        face.topic_states["t"], face.is_hot = state, True
        if has_room:
            state.set_open(0, batch_of(twin))
        for send in (face.send, face.produce):
            with pytest.raises(TypeError, match="headers are pairs of a name and bytes") as error:
                send("t", b"v", partition=0, headers=bad() if callable(bad) else bad)
            said.append(str(error.value))
    assert len(set(said)) == 1
