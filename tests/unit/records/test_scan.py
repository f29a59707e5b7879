import pytest

from ottla.errors import CorruptMessage
from ottla.records import Compression, TimestampType


def batch_of(twin, count, **arguments):
    builder = twin.BatchBuilder(**arguments)
    builder.append_many(list(range(1000, 1000 + count)), None, [b"value"] * count)
    return builder.close()


@pytest.fixture
def three(twin):
    return [
        batch_of(twin, 1),
        batch_of(twin, 4, compression=Compression.ZSTD, base_offset=7),
        batch_of(twin, 2, transactional=True, producer_id=5, producer_epoch=1, base_sequence=2**31 - 1),
    ]


def test_scan_gives_the_facts_of_every_batch(twin, three):
    found = twin.scan(b"".join(three))
    assert [info.position for info in found] == [0, len(three[0]), len(three[0]) + len(three[1])]
    assert [info.size_bytes for info in found] == [len(batch) for batch in three]
    assert [info.record_count for info in found] == [1, 4, 2]
    assert [info.compression for info in found] == [Compression.NONE, Compression.ZSTD, Compression.NONE]
    assert (found[1].base_offset, found[1].last_offset, found[1].next_offset) == (7, 10, 11)
    assert (found[2].is_transactional, found[2].producer_id, found[2].last_sequence) == (True, 5, 0)
    assert found[0] == twin.RecordBatch(three[0])
    assert found[0] != found[1]
    assert len({found[0], twin.BatchInfo(three[0])}) == 1


def test_scan_stays_between_start_and_end(twin, three):
    data = b"??" + three[0] + three[1] + b"??"
    end = len(data) - 2
    assert [info.record_count for info in twin.scan(data, 2, end)] == [1, 4]
    assert [info.position for info in twin.scan(memoryview(data), 2, end)] == [2, 2 + len(three[0])]
    assert twin.scan(data, 5, 5) == []
    assert twin.scan(b"") == []


@pytest.mark.parametrize(("start", "end"), [(-1, None), (5, 4), (0, 10**6), (10**6, None)])
def test_a_scan_outside_the_buffer_is_refused(twin, three, start, end):
    with pytest.raises(ValueError, match="cannot scan"):
        twin.scan(three[0], start, end)


@pytest.mark.parametrize("cut", [1, 11, 60, 62])
def test_a_batch_that_is_cut_off_is_corrupt(twin, three, cut):
    data = three[0] + three[1][:cut]
    with pytest.raises(CorruptMessage, match=f"position {len(three[0])}"):
        twin.scan(data)


def test_one_wrong_bit_in_the_last_of_many_is_found(twin, three):
    data = bytearray(b"".join(three))
    data[-1] ^= 0x40
    with pytest.raises(CorruptMessage, match="CRC"):
        twin.scan(data)
    assert len(twin.scan(data, check_crc=False)) == 3


def test_an_old_message_set_is_not_for_scan(twin, three):
    data = bytearray(three[0])
    data[16] = 1
    with pytest.raises(CorruptMessage, match="magic 1"):
        twin.scan(data)


def test_assigning_offsets_leaves_the_sum_alone(twin, three):
    data = bytearray(b"".join(three))
    position = len(three[0])
    crc = twin.RecordBatch(data, position).crc
    twin.assign_offsets(data, position, 123_456_789_012, 17)
    batch = twin.RecordBatch(data, position)
    batch.check()
    assert (batch.base_offset, batch.last_offset, batch.leader_epoch, batch.crc) == (
        123_456_789_012,
        123_456_789_015,
        17,
        crc,
    )
    assert data[:position] == three[0]
    assert data[position + len(three[1]) :] == three[2]


def test_setting_the_append_time_changes_every_record_and_the_sum(twin, three):
    data = bytearray(three[0] + three[1])
    position = len(three[0])
    twin.set_append_time(memoryview(data), position, 5_000_000)
    batch = twin.RecordBatch(data, position)
    batch.check()
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp_ms for record in batch} == {5_000_000}
    assert data[:position] == three[0]


def test_only_writable_buffers_can_be_edited(twin, three):
    with pytest.raises(TypeError, match="writable"):
        twin.assign_offsets(three[0], 0, 1, 1)
    with pytest.raises(TypeError, match="writable"):
        twin.set_append_time(memoryview(three[0]), 0, 1)


@pytest.mark.parametrize("cut", [0, 30, 61, 70])
def test_a_batch_that_is_not_whole_cannot_be_edited(twin, three, cut):
    data = bytearray(three[0][:cut])
    before = bytes(data)
    with pytest.raises(CorruptMessage):
        twin.assign_offsets(data, 0, 1, 1)
    with pytest.raises(CorruptMessage):
        twin.set_append_time(data, 0, 1)
    assert data == before
