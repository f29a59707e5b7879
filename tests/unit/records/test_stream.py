import pytest

from ottla.errors import CorruptMessage
from ottla.records.legacy import LegacyRecord, build_message_set


def batch_of(twin, *values, base_offset=0):
    builder = twin.BatchBuilder(base_offset=base_offset)
    builder.append_many(1000, None, list(values))
    return builder.close()


def values_of(stream):
    return [record.value for batch in stream for record in batch.records()]


def test_batches_come_in_order(twin):
    data = batch_of(twin, b"a", b"b") + batch_of(twin, b"c", base_offset=2)
    stream = twin.RecordStream(data)
    assert values_of(stream) == [b"a", b"b", b"c"]
    assert [batch.position for batch in stream] == [0, len(batch_of(twin, b"a", b"b"))]
    assert stream.partial_bytes == 0


def test_a_stream_can_be_walked_again(twin):
    stream = twin.RecordStream(batch_of(twin, b"a"))
    assert values_of(stream) == values_of(stream) == [b"a"]


def test_an_empty_buffer_has_no_batches(twin):
    stream = twin.RecordStream(b"")
    assert list(stream) == []
    assert stream.partial_bytes == 0


def test_a_cut_off_end_is_left_out_and_counted(twin):
    first, second = batch_of(twin, b"a"), batch_of(twin, b"b" * 100)
    for cut in range(len(second)):
        stream = twin.RecordStream(memoryview(first + second)[: len(first) + cut])
        assert stream.partial_bytes == cut
        assert values_of(stream) == [b"a"]


def test_damage_comes_after_everything_before_it(twin):
    good = batch_of(twin, b"a")
    bad = bytearray(batch_of(twin, b"b"))
    bad[16] = 9
    stream = iter(twin.RecordStream(good + bad))
    assert next(stream).records()[0].value == b"a"
    with pytest.raises(CorruptMessage, match=f"position {len(good)} have magic 9"):
        next(stream)
    with pytest.raises(CorruptMessage):
        twin.RecordStream(good + bad).partial_bytes  # noqa: B018


def test_old_messages_come_before_the_damage_behind_them(twin):
    old = build_message_set(1, [LegacyRecord(offset, 5, None, b"v") for offset in range(3)])
    bad = bytearray(batch_of(twin, b"b"))
    bad[16] = 9
    stream = iter(twin.RecordStream(old + bytes(bad)))
    assert [record.offset for record in next(stream).records()] == [0, 1, 2]
    with pytest.raises(CorruptMessage, match=f"position {len(old)} have magic 9"):
        next(stream)


@pytest.mark.parametrize("length", [-1, 0, 48, -(2**31)])
def test_a_size_that_no_batch_can_have_is_corrupt(twin, length):
    data = bytearray(batch_of(twin, b"a"))
    data[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptMessage, match="too few"):
        list(twin.RecordStream(data))


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_before_the_batches_are_read_too(twin, magic):
    old = build_message_set(magic, [LegacyRecord(5, 77, b"k", b"old"), LegacyRecord(6, 78, None, b"older")])
    data = old + batch_of(twin, b"new", base_offset=7) + old
    sets = list(twin.RecordStream(data + old[:20]))
    assert [entry.magic for entry in sets] == [magic, 2, magic]
    assert (sets[0].position, sets[0].size_bytes) == (0, len(old))
    assert (sets[0].last_offset, sets[0].next_offset) == (6, 7)
    assert not sets[0].is_control
    assert sets[0].producer_id == -1
    sets[0].check()
    assert [record.value for record in sets[0]] == [b"old", b"older"]
    assert sets[0].records()[0] == (5, 77 if magic else -1, b"k", b"old", ())
    assert sets[2].position == len(data) - len(old)
    assert twin.RecordStream(data + old[:20]).partial_bytes == 20


def test_a_stream_keeps_its_buffer_from_shrinking(twin):
    data = bytearray(batch_of(twin, b"a"))
    stream = twin.RecordStream(data)
    with pytest.raises(BufferError):
        data.clear()
    assert values_of(stream) == [b"a"]
