"""The broker's hot path, native beside its twin: frames cut out of a stream, produce requests read and answered
together, fetches of followers, batches that get their places. As leaf_targets.py; these write into memory that others
lend them.
"""

from __future__ import annotations

from typing import Any

from tests.fuzz.leaf_targets import TOPIC, TOPIC_ID, VERSIONS, leaf_of, produce_requests, same
from tests.fuzz.targets import Target, batches

from ottla.broker.fetch import frames as fetch_frames
from ottla.broker.produce import frames as broker_frames
from ottla.broker.replication import fetch_plan, writes
from ottla.errors import OttlaError
from ottla.net import framing
from ottla.protocol.compiled import encode
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records import checks
from ottla.records.builder import BatchBuilder

SIZE_LIMIT_BYTES = 4_096
SCAN_LIMIT_ENTRIES = 50
PIECES_LIMIT = 400  # more pieces of a byte each take long and tell nothing new
FETCH_VERSIONS = range(13, 19)


# -- bytes to frames ---------------------------------------------------------------------------------------------------


def streams() -> list[bytes]:
    """How large a chunk is, how much arrives at a time, and some frames."""
    small, large = b"\0\0\0\x03abc" * 5, b"\0\0\x0f\xa0" + bytes(range(200)) * 20
    return [bytes([chunk, step]) + small + large + small for chunk in (0, 50, 255) for step in (0, 6, 255)]


def read_stream(twin: Any, data: bytes) -> Any:
    """Frames are held to the end, or their memory would be used again; every third is let go at once. How large the
    memory of a big frame is depends on which spare there was, and both twins take from the same ones."""
    chunk, step = 16 + (data[0] if data else 0), 1 + (data[1] if len(data) > 1 else 0)
    rest = memoryview(data)[2 : 2 + PIECES_LIMIT * step]
    reader = twin.FrameReader(
        size_limit_bytes=SIZE_LIMIT_BYTES, chunk_bytes=chunk, kind_limit_bytes=lambda kind: 2_000 + kind % 3_000
    )
    held: list[Any] = []
    found: list[Any] = []
    try:
        while rest:
            room = reader.get_buffer(-1)
            size = min(len(room), len(rest), step)
            room[:size] = rest[:size]
            room.release()
            for frame in reader.received(size):
                found.append(bytes(frame))
                if len(found) % 3:
                    held.append(frame)
            rest = rest[size:]
            found.append((reader.pending_bytes, reader.big_frame_bytes > 0, reader.big_frame_missing_bytes))
    except OttlaError as error:
        found.append(type(error).__name__)
    return found, [bytes(frame) for frame in held], type(reader.broken).__name__


# -- produce requests that came together -------------------------------------------------------------------------------


def requests_together() -> list[bytes]:
    found = []
    for version in VERSIONS:
        data = PartitionProduceData(index=3, records=batches()[0])
        topic = TopicProduceData(name=TOPIC, topic_id=TOPIC_ID, partition_data=[data])
        request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=500, topic_data=[topic])
        body = b"".join(encode(request, version))
        found.append(bytes([version - 3]) + len(body).to_bytes(2, "big") + body + body + body[: len(body) // 2])
        several = [PartitionProduceData(index=index, records=batches()[0]) for index in (3, 4)]
        topic = TopicProduceData(name=TOPIC, topic_id=TOPIC_ID, partition_data=several)
        body = b"".join(encode(ProduceRequest(acks=1, timeout_ms=500, topic_data=[topic]), version))
        found.append(bytes([version - 3]) + len(body).to_bytes(2, "big") + body + body)
    return found + produce_requests()


def read_together(twin: Any, data: bytes) -> Any:
    """The bytes behind the size, cut into requests of that size: as they would come together by one connection."""
    version = VERSIONS[data[0] % len(VERSIONS)] if data else 3
    size = 1 + int.from_bytes(data[1:3], "big")
    bodies = [data[at : at + size] for at in range(3, min(len(data), 3 + 8 * size), size)]
    requests = [memoryview(bytearray(b"\0\0\0\x09\0\0\0\x05" + each)) for each in bodies or [b""]]
    run = twin.scan_run(version, SCAN_LIMIT_ENTRIES, requests, 8)
    read = [[(topic, [(n, r and bytes(r)) for n, r in parts]) for topic, parts in each.topics] for each in run]
    results = [
        [(topic, [writes.ProduceResult(index, 7 + number, -1, 2) for number, (index, _) in enumerate(parts)])]
        for request in run
        for topic, parts in request.topics[:1]
    ]
    heads = [bytes(request[:8]) for request in requests[: len(results)]]
    return read, bytes(twin.write_run(version, heads, results))


# -- fetches of followers ----------------------------------------------------------------------------------------------


def fetches() -> list[bytes]:
    """A version, and a request or an answer behind it."""
    found = []
    for version in FETCH_VERSIONS:
        at = fetch_plan.Position(TOPIC_ID, 4, 5, 3, 1)
        terms = fetch_frames.Terms(2, 500, 1, 10_000, 1_000)
        topics = {TOPIC_ID: [(0, at), (1, at)], bytes(16): [(7, at)]}
        asked = fetch_frames.write_asked(version, 5, None, terms, 9, 8, 3, topics)
        rows = [(TOPIC_ID, 0, 9, 9, 0, batches()[0]), (TOPIC_ID, 1, 9, 8, 1, b""), (bytes(16), 0, 7, 7, 7, b"abc")]
        answer = bytes(5) + b"".join(fetch_frames.write_fetched(version, 8, rows))
        found += [bytes([version - FETCH_VERSIONS[0]]) + asked[4:], bytes([version - FETCH_VERSIONS[0]]) + answer]
    return found


def read_fetch(twin: Any, data: bytes) -> Any:
    """The bytes as a request and as an answer; what can be read is written again."""
    version = FETCH_VERSIONS[data[0] % len(FETCH_VERSIONS)] if data else FETCH_VERSIONS[0]
    frame = memoryview(data[1:])
    asked, fetched = twin.scan_asked(version, frame, 11), twin.scan_fetched(version, frame)
    if fetched is None:
        return asked, None
    again = b"".join(map(bytes, twin.write_fetched(version, *fetched)))
    return asked, fetched.session_id, [(*row[:5], bytes(row[5])) for row in fetched.rows], again


# -- batches get their places ------------------------------------------------------------------------------------------


def plain_batches() -> list[bytes]:
    """How many buffers, and batches one after the other."""
    builder = BatchBuilder(producer_id=7, producer_epoch=1, base_sequence=0)
    for number in range(3):
        builder.append(1_700_000_000_000 + number, b"key", b"value" * number, [("h", b"x")])
    batch = bytes(builder.close())
    return [bytes([count]) + len(batch).to_bytes(2, "big") + batch * count for count in (1, 3)]


def place(twin: Any, data: bytes) -> Any:
    """The twin in Python leaves every batch to the usual way, so there is nothing to compare: what is not placed keeps
    its bytes, but for offset and epoch, which are the broker's."""
    count, size = 1 + (data[0] if data else 0) % 4, 1 + int.from_bytes(data[1:3], "big")
    buffers = [bytearray(data[3 + at * size : 3 + (at + 1) * size]) for at in range(count)]
    before = [bytes(each) for each in buffers]
    terms = 1_700_000_000_000, 1 << 20, bool(size % 2), 1 << 40, 1 << 40
    placed = twin.place_plain_run(buffers, 1_000, 5, *terms)
    for each, was in zip(buffers, before, strict=True):
        assert (each[8:12], each[16:]) == (was[8:12], was[16:])
        assert placed is not None or each[:8] in (was[:8], bytes(8)), "it must not look placed"
    return placed


def frame_targets() -> list[Target]:
    produce, placing = leaf_of("ottla.broker.produce._frames"), leaf_of("ottla.records._checks")
    return [
        same("frames cut anywhere", streams, read_stream, framing, leaf_of("ottla.net._framing")),
        same("produce requests together", requests_together, read_together, broker_frames, produce),
        same("fetches of followers", fetches, read_fetch, fetch_frames, leaf_of("ottla.broker.fetch._frames")),
        same("batches get their places", plain_batches, place, placing or checks),
    ]
