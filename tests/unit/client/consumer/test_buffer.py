"""The buffer of fetched pieces: order, bounds, pauses."""

from ottla.client.consumer.buffer import FetchBuffer, Piece
from ottla.client.consumer.record_choice import FetchedRecords
from ottla.errors import OffsetOutOfRange
from ottla.records import BatchBuilder
from ottla.values import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def piece(name, size_bytes=10):
    builder = BatchBuilder()
    builder.append(1, None, b"v")
    return Piece(name, 0, FetchedRecords(name.topic, name.partition, builder.close(), 0), size_bytes)


def filled(*pieces):
    buffer = FetchBuffer()
    for each in pieces:
        buffer.add(each)
    return buffer


def test_pieces_come_out_as_they_came_in_and_are_counted():
    buffer = filled(piece(A), piece(B, 5), piece(A, 1))
    assert (buffer.size_bytes, buffer.size_of(A), buffer.size_of(B), len(buffer)) == (16, 11, 5, 3)
    assert buffer.first().name == A
    buffer.remove_first()
    assert (buffer.first().name, buffer.size_bytes, buffer.size_of(A)) == (B, 6, 1)


def test_a_paused_partition_steps_aside_and_comes_back_in_front():
    buffer = filled(piece(A, 1), piece(B), piece(A, 2))
    buffer.pause([A])
    assert (buffer.first().name, len(buffer), buffer.size_of(A)) == (B, 1, 3)
    buffer.resume([A])
    assert [buffer.first().size_bytes, len(buffer)] == [1, 3]
    buffer.remove_first()
    assert buffer.first().size_bytes == 2


def test_a_paused_partition_does_not_keep_the_frame_of_the_others():
    builder = BatchBuilder()
    builder.append(1, None, b"v")
    frame = bytearray(builder.close())
    buffer = filled(Piece(A, 0, FetchedRecords("a", 0, memoryview(frame), 0), len(frame)))
    buffer.pause([A])
    frame.clear()  # would raise BufferError if anybody still looked at it
    buffer.resume([A])
    assert [record.value for record in buffer.first().records.take(1)] == [b"v"]


def test_dropped_pieces_are_gone_also_from_aside():
    buffer = filled(piece(A), piece(B), Piece(A, 0, None, error=OffsetOutOfRange()))
    assert buffer.has_failure(A)
    buffer.pause([B])
    buffer.drop([A, B])
    assert (len(buffer), buffer.size_bytes, buffer.names(), buffer.has_failure(A)) == (0, 0, set(), False)
    buffer.resume([B])
    assert buffer.first() is None


def test_clear_leaves_nothing():
    buffer = filled(piece(A), piece(B))
    buffer.pause([A])
    buffer.clear()
    assert (len(buffer), buffer.size_bytes, buffer.size_of(A)) == (0, 0, 0)
