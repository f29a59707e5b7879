"""Every decoder of the ground floor as a function of bytes, and valid inputs to start from.

A target gets any bytes and returns, or raises one of its declared errors. Anything else is a finding. Targets with two
implementations compare them: same value, or both refuse.
"""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.unit.protocol.conftest import ALL_VERSIONS
from tests.unit.records.native_codec import load_native

from ottla.errors import CorruptMessage, MalformedMessage, OttlaError, UnsupportedCompressionType, UnsupportedVersion
from ottla.net.framing import FrameReader
from ottla.protocol import codec, compiled, metadata_log, stored
from ottla.protocol.api import APIS
from ottla.protocol.header import decode_request, encode_request
from ottla.protocol.metadata_log.frame import UnknownMetadataRecord
from ottla.protocol.metadata_log.settings import FeatureLevelRecord
from ottla.protocol.metadata_log.topics import PartitionChangeRecord
from ottla.protocol.schema import Message
from ottla.protocol.stored.classic_groups import GroupMetadataKey
from ottla.protocol.stored.offsets import OffsetCommitKey, OffsetCommitValue
from ottla.records import batch as python_batch
from ottla.records import columns as python_columns
from ottla.records import control, legacy
from ottla.records import header as python_header
from ottla.records import stream as python_stream
from ottla.records.builder import BatchBuilder
from ottla.records.compression import Compression, compress, decompress

LIMIT_BYTES = 1 << 16
GOLDEN = Path(__file__).parent.parent / "golden" / "frames"
RECORD_ERRORS = (CorruptMessage, UnsupportedCompressionType)

native = load_native()


@dataclass(frozen=True)
class Target:
    """`decode` may raise only `declared`; `seeds` are inputs it accepts."""

    name: str
    decode: Callable[[bytes], Any]
    declared: tuple[type[OttlaError], ...]
    seeds: Callable[[], list[bytes]]


def outcome(decode: Callable[[bytes], Any], data: bytes, declared: tuple[type[OttlaError], ...]) -> Any:
    """What came out, in a form that two implementations can be compared by."""
    try:
        return decode(data)
    except declared as error:
        return type(error).__name__


# -- messages --------------------------------------------------------------------------------------------------------


def message_seeds(message: type[Message], version: int, count: int = 4) -> list[bytes]:
    source = random.Random(f"{message.__name__} {version}")
    return [b"".join(codec.encode(_some(message, version, source), version)) for _ in range(count)]


def decode_by_both(message: type[Message], version: int) -> Callable[[bytes], Any]:
    def decode(data: bytes) -> Any:
        slow = outcome(lambda b: codec.decode(message, version, b), data, (MalformedMessage,))
        fast = outcome(lambda b: compiled.decode(message, version, b), data, (MalformedMessage,))
        # NaN is not equal to itself; then the bytes written again must be.
        assert slow == fast or codec.encode(slow, version) == codec.encode(fast, version)
        return fast

    return decode


def request_frames() -> list[bytes]:
    """A made request of every API, and every request that was captured from a real client."""
    frames = []
    for api in APIS.values():
        request = _some(api.request, api.versions.max, random.Random(api.name))
        parts = encode_request(request, version=api.versions.max, correlation_id=1, client_id="fuzz")
        frames.append(b"".join(parts))
    for path in sorted(GOLDEN.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            frame = json.loads(line)
            if frame["kind"] == "request":
                frames.append(bytes.fromhex(frame["hex"]))
    return frames


# -- records ---------------------------------------------------------------------------------------------------------


def batches() -> list[bytes]:
    made = []
    for compression in Compression:
        builder = BatchBuilder(compression=compression, producer_id=7, producer_epoch=1, base_sequence=0)
        for number in range(5):
            builder.append(1_700_000_000_000 + number, b"key" if number % 2 else None, b"value" * number, [("h", b"x")])
        made.append(bytes(builder.close()))
    return [*made, b"".join(made)]


def plain(records: Any) -> list[tuple[Any, ...]]:
    return [(r.offset, r.timestamp_ms, r.key, r.value, tuple(r.headers)) for r in records]


def read_stream(stream_class: Any) -> Callable[[bytes], Any]:
    def read(data: bytes) -> Any:
        stream = stream_class(data)
        found = []
        for batch in stream:
            batch.check()
            found.append(plain(batch.records(LIMIT_BYTES)))
        return found, stream.partial_bytes

    return read


def scan_with(scan: Any) -> Callable[[bytes], Any]:
    return lambda data: [(info.position, info.base_offset, info.size_bytes, info.record_count) for info in scan(data)]


def both(python: Callable[[bytes], Any], fast: Callable[[bytes], Any] | None) -> Callable[[bytes], Any]:
    if fast is None:
        return python

    def decode(data: bytes) -> Any:
        slow_outcome, fast_outcome = outcome(python, data, RECORD_ERRORS), outcome(fast, data, RECORD_ERRORS)
        assert slow_outcome == fast_outcome
        return fast_outcome

    return decode


def message_sets() -> list[bytes]:
    records = [legacy.LegacyRecord(offset, 1_700_000_000_000, b"k", b"v" * offset) for offset in range(3)]
    return [
        legacy.build_message_set(magic, records, compression)
        for magic in (0, 1)
        for compression in (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)
    ]


def read_frames(data: bytes) -> list[bytes]:
    reader = FrameReader(size_limit_bytes=LIMIT_BYTES, chunk_bytes=64)
    found, rest = [], memoryview(data)
    while rest and reader.broken is None:
        room = reader.get_buffer()
        size = min(len(room), len(rest))
        room[:size] = rest[:size]
        room.release()
        found += [bytes(frame) for frame in reader.received(size)]
        rest = rest[size:]
    return found


# -- the table -------------------------------------------------------------------------------------------------------


def _codec_target(compression: Compression) -> Target:
    return Target(
        f"decompress {compression.label}",
        lambda data: decompress(compression, data, LIMIT_BYTES),
        RECORD_ERRORS,
        lambda: [compress(compression, bytes(range(256)) * n) for n in (0, 1, 3)],
    )


def metadata_records() -> list[bytes]:
    return [
        metadata_log.encode_record(FeatureLevelRecord(name="metadata.version", feature_level=30), 0),
        metadata_log.encode_record(PartitionChangeRecord(topic_id=bytes(16), isr=[1, 2], directories=[bytes(16)]), 2),
    ]


def other_targets() -> list[Target]:
    corrupt, malformed = RECORD_ERRORS, (MalformedMessage,)
    key = stored.encode_key(OffsetCommitKey(group="g", topic="t", partition=1))
    value = stored.encode_value(OffsetCommitValue(offset=1, metadata="m", commit_timestamp=2), 3)
    marker = control.EndTransactionMarker(commit=True, coordinator_epoch=3)
    marker_bytes = control.encode_marker_key(marker) + control.encode_marker_value(marker)
    streams = both(read_stream(python_stream.RecordStream), native and read_stream(native.RecordStream))
    scans = both(scan_with(python_header.scan), native and scan_with(native.scan))
    columns = both(
        lambda data: python_columns.decode_columns(data, LIMIT_BYTES),
        native and (lambda data: native.decode_columns(data, LIMIT_BYTES)),
    )
    one_batch = both(
        lambda data: plain(python_batch.RecordBatch(data).records(LIMIT_BYTES)),
        native and (lambda data: plain(native.RecordBatch(data).records(LIMIT_BYTES))),
    )
    return [
        Target("request frame", decode_request, (MalformedMessage, UnsupportedVersion), request_frames),
        Target(
            "stored key", lambda d: stored.decode_key([OffsetCommitKey, GroupMetadataKey], d), malformed, lambda: [key]
        ),
        Target("stored value", lambda d: stored.decode_value(OffsetCommitValue, d), malformed, lambda: [value]),
        Target("metadata record", metadata_log.decode_record, (*malformed, UnknownMetadataRecord), metadata_records),
        Target("record stream", streams, corrupt, lambda: batches() + message_sets()),
        Target("record batch without check", one_batch, corrupt, batches),
        Target("scan", scans, corrupt, batches),
        Target("columns", columns, corrupt, batches),
        Target("message set", lambda d: legacy.read_message_set(d, LIMIT_BYTES), corrupt, message_sets),
        Target("marker", lambda d: control.read_marker(d[:4], d[4:]), corrupt, lambda: [marker_bytes]),
        Target("frames", read_frames, malformed, lambda: [b"\0\0\0\x03abc" * 3, b"\0\0\x01\0" + bytes(256)]),
        *(_codec_target(compression) for compression in Compression if compression),
    ]


def message_targets() -> Iterator[Target]:
    for message, version in ALL_VERSIONS:
        yield Target(
            f"{message.__name__} {version}",
            decode_by_both(message, version),
            (MalformedMessage,),
            lambda message=message, version=version: message_seeds(message, version),  # type: ignore[misc]
        )


# -- messages with random content; Hypothesis would spend most of the two minutes drawing them -----------------------


def _some(message: Any, version: int, source: random.Random) -> Any:
    made = message(
        **{f.name: _some_field(f, version, source) for f in message.fields if version in f.present},
    )
    if source.random() < 0.1 and version >= getattr(message, "flexible_since", 1 << 15):
        made.unknown_tags = {9_999: source.randbytes(3)}
    return made


def _some_field(field: Any, version: int, source: random.Random) -> Any:
    if field.null_at(version) and source.random() < 0.3:
        return None
    return _some_value(field.type, version, source)


def _some_value(kind: Any, version: int, source: random.Random) -> Any:
    if hasattr(kind, "element"):
        return [_some_value(kind.element, version, source) for _ in range(source.randrange(3))]
    if hasattr(kind, "fields"):
        return _some(kind, version, source)
    if kind.name == "string":
        return "s" * source.choice((0, 1, 5, 130))
    if kind.name in ("bytes", "records"):
        return source.randbytes(source.choice((0, 1, 9)))
    if kind.name == "uuid":
        return source.randbytes(16)
    return source.choice((kind.zero, kind.zero, 1, 7))
