"""Native leaves beside their Python twins, as functions of bytes: the same answer for every input, or both refuse.

Sums are not checked where that can be switched off, or hardly a damaged byte would reach the code behind them. A twin
that is not built is not compared with; `tests/fuzz/sanitized.py` runs the same targets with AddressSanitizer, where a
read or write of one byte too many ends the process.
"""

from __future__ import annotations

import functools
import importlib
import itertools
from array import array
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from tests.fuzz.targets import LIMIT_BYTES, RECORD_ERRORS, Target, batches, message_sets

from ottla.broker.produce import frames as broker_frames
from ottla.client.consumer import records as python_fetched
from ottla.client.producer.batches import produce_frames, producer_batch
from ottla.errors import InvalidRecord, OttlaError
from ottla.native import is_built
from ottla.protocol.compiled import encode
from ottla.protocol.header import encode_response
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.records import checks, columns, compaction
from ottla.schemas.arrow import avro_columns, json_columns, protobuf_columns
from ottla.schemas.arrow.avro_steps import AvroPlan
from ottla.schemas.arrow.avro_types import arrow_type
from ottla.schemas.arrow.protobuf_columns import ProtobufPlan
from ottla.schemas.arrow.protobuf_rows import message_of
from ottla.schemas.arrow.protobuf_types import arrow_type as protobuf_type
from ottla.schemas.avro.types import Resolver
from ottla.schemas.model import WholeSchema

VERSIONS = range(3, 14)
TOPIC, TOPIC_ID = "orders", bytes(range(16))
REFUSED = (*RECORD_ERRORS, InvalidRecord, ValueError)


def leaf_of(name: str) -> Any:
    return importlib.import_module(name) if is_built(name) else None


def same(name: str, seeds: Callable[[], list[bytes]], read: Callable[[Any, bytes], Any], *twins: Any) -> Target:
    """`read` does the same with each twin."""
    there = [twin for twin in twins if twin is not None]

    def decode(data: bytes) -> Any:
        outcomes = [read(twin, data) for twin in there]
        assert all(outcome == outcomes[0] for outcome in outcomes), outcomes
        return outcomes[0]

    return Target(name, decode, (), seeds)


def refusable(read: Callable[[Any, bytes], Any]) -> Callable[[Any, bytes], Any]:
    def checked(twin: Any, data: bytes) -> Any:
        try:
            return read(twin, data)
        except REFUSED as error:
            return type(error).__name__

    return checked


# -- reading ----------------------------------------------------------------------------------------------------------


def read_columns(twin: Any, data: bytes) -> Any:
    wanted = data[0] if data else 63
    return twin.decode_columns(data[1:], LIMIT_BYTES, check_crc=False, wanted=wanted & 63, from_offset=1)


def read_fetched(twin: Any, data: bytes) -> Any:
    """Records and spans in turns, as a caller of poll() and poll_arrow() would have them, to the end or the damage."""
    fetched = twin.FetchedRecords("t", 0, data, 1, check_crcs=False, limit_bytes=LIMIT_BYTES)
    found: list[Any] = [twin.end_offset_of(data, 1)]
    try:
        for _ in range(40):
            taken = fetched.take(2)
            found.append([(r.offset, r.key, r.value, r.headers, r.timestamp_ms, r.leader_epoch) for r in taken])
            span = fetched.span(3)
            if span is not None:
                found.append((bytes(span.data), *span[1:]))
                fetched.advance(span.position, span.next_offset, span.leader_epoch)
            elif not taken:
                break
    except OttlaError as error:
        found.append(type(error).__name__)
    return found, fetched.next_offset, fetched.is_drained


# -- writing, at the client and at the broker -------------------------------------------------------------------------


def produce_requests() -> list[bytes]:
    data = PartitionProduceData(index=3, records=batches()[0])
    nothing = PartitionProduceData(index=4, records=None)
    topic = TopicProduceData(name=TOPIC, topic_id=TOPIC_ID, partition_data=[data, nothing])
    request = ProduceRequest(transactional_id="tx", acks=-1, timeout_ms=500, topic_data=[topic, topic])
    return [bytes([version - 3]) + b"".join(encode(request, version)) for version in VERSIONS]


def scan_request(twin: Any, data: bytes) -> Any:
    version = VERSIONS[data[0] % len(VERSIONS)] if data else 3
    try:
        produce, end = twin.scan(version, 50, memoryview(bytearray(data)), 1)
    except broker_frames.UNREADABLE:
        return "refused"
    topics = [
        (topic, [(index, records and bytes(records)) for index, records in found]) for topic, found in produce.topics
    ]
    return produce._replace(topics=topics), end


def produce_answers() -> list[bytes]:
    words = [PartitionProduceResponse(index=index, error_code=0, base_offset=7) for index in (3, 4)]
    topic = TopicProduceResponse(name=TOPIC, topic_id=TOPIC_ID, partition_responses=words)
    found = []
    for version in VERSIONS:
        response = ProduceResponse(responses=[topic], throttle_time_ms=1)
        parts = encode_response(response, version=version, correlation_id=5)
        found.append(bytes([version - 3]) + b"".join(parts))
    return found


def read_answer(twin: Any, data: bytes) -> Any:
    version = VERSIONS[data[0] % len(VERSIONS)] if data else 3
    waiting = [
        twin.ProducerBatch(None, TOPIC, index, bytearray(256), 256, limit_bytes=256, created_ms=0) for index in (3, 4)
    ]
    return twin.read_accepted(waiting, {TOPIC: TOPIC_ID}, version, data[1:])


class PythonProducer:
    """The names of the native leaf, from where the twin has them."""

    ProducerBatch = producer_batch.ProducerBatch
    read_accepted = staticmethod(produce_frames.read_accepted)


# -- what a log does --------------------------------------------------------------------------------------------------


def check_batch(twin: Any, data: bytes) -> Any:
    count = data[0] if data else 0
    return twin.check_records(data[62:], count, 5, keys_required=count % 2 == 0)


def clean(twin: Any, data: bytes) -> Any:
    table = twin.KeyTable(16)
    indexed = twin.index_batches(table, 12, data, 0, 0)
    rules = compaction.KeepRules(3, 1_800_000_000_000, 1_900_000_000_000, array("q", [2]))
    return indexed, twin.filter_batches(table, rules, data, 0)


def read_json(twin: Any, data: bytes) -> Any:
    """Lines as texts of objects."""
    fields = [json_columns.JsonField(kind.name, kind) for kind in json_columns.JsonKind if kind < 10]
    inner = json_columns.JsonField("LIST", json_columns.JsonKind.LIST, (fields[7],))
    fields += [inner, json_columns.JsonField("STRUCT", json_columns.JsonKind.STRUCT, (*fields, inner))]
    lines = data.split(b"\n")
    ends = array("i", itertools.accumulate(map(len, lines), initial=0))
    return twin.JsonColumns(fields).read(len(lines), ends.tobytes(), b"".join(lines))


def json_texts() -> list[bytes]:
    return [
        b'{"INT64":1,"STRING":"a\\u00e9\\n","TIMESTAMP":"2026-11-19T08:00:00.5+02:00","BOOLEAN":true,"OTHER":null}',
        b'{"LIST":["x",null],"STRUCT":{"DOUBLE":-1.5e3,"DATE":"2024-02-29"},"x":[{"y":1}]}\nno\n{ "INT8" : 1 }',
    ]


def avro_schema(**fields: Any) -> dict[str, Any]:
    """A record of fields whose types, or type and default, these are."""
    typed = {name: kind if isinstance(kind, tuple) else (kind,) for name, kind in fields.items()}
    found = [{"name": name, **dict(zip(("type", "default"), kind, strict=False))} for name, kind in typed.items()]
    return {"type": "record", "name": "R", "fields": found}


DECIMAL: Final = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}
AVRO: Final = (
    avro_schema(
        a=["null", "string", "long"],
        b={"type": "map", "values": "bytes"},
        c={"type": "array", "items": ["null", "R"]},
        d="int",
        e={"type": "enum", "name": "E", "symbols": ["A", "B"]},
        f="double",
        g=DECIMAL,
        h={"type": "long", "logicalType": "timestamp-millis"},
    ),
    avro_schema(
        h={"type": "long", "logicalType": "timestamp-micros"},
        a=["null", "string"],
        b={"type": "map", "values": "string"},
        d="double",
        x=({"type": "array", "items": "long"}, [1, 2]),
        e={"type": "enum", "name": "E", "symbols": ["A"]},
        g=DECIMAL,
        f="double",
    ),
)
AVRO_RECORD: Final = b"\x02\x02x\x02\x02k\x02v\x00\x02\x00\x00\x0a\x00" + b"\x00" * 8 + b"\x04\x01\x00\x10"


def read_avro(twin: Any, data: bytes) -> Any:
    """One record between two good ones."""
    writer, reader = (Resolver().resolve(schema) for schema in AVRO)
    columns = twin.AvroColumns(AvroPlan(writer, reader, arrow_type(AVRO[1])))
    found = columns.read(pa.array([AVRO_RECORD, data, AVRO_RECORD], pa.binary()))
    found.validate(full=True)
    return repr(found.to_pylist())


PROTOBUF: Final = """syntax = "proto3"; import "google/protobuf/timestamp.proto"; enum E { A = 0; B = 1; }
message M { int32 a = 1; repeated sint64 b = 2; oneof c { string d = 3; bool e = 4; } M2 f = 5; repeated M2 g = 6;
fixed64 h = 7; E i = 8; google.protobuf.Timestamp j = 9; double k = 10; }
message M2 { bytes a = 1; repeated float b = 2; }"""
MESSAGES: Final = [
    bytes.fromhex("08051203010203" + "1a0161" + "2a030a0178" + "3206" + "12040000803f" + "4001"),
    bytes.fromhex("2001" + "390100000000000000" + "4a0408051005" + "51000000000000f03f" + "3200" + "1007" + "9a0600"),
]


@functools.cache
def protobuf_plan() -> ProtobufPlan:
    message = message_of(WholeSchema(PROTOBUF, {}), "M")
    return ProtobufPlan(message, protobuf_type(message))


def read_protobuf(twin: Any, data: bytes) -> Any:
    """One message between two good ones."""
    columns = twin.ProtobufColumns(protobuf_plan())
    found = columns.read(pa.array([MESSAGES[0], data, MESSAGES[1]], pa.binary()))
    found.validate(full=True)
    return repr(found.to_pylist())


def counted_batches() -> list[bytes]:
    """A first byte that says how many records there are, and a batch."""
    return [b"\x05" + each for each in batches()[:1]]


def leaf_targets() -> list[Target]:
    codec = leaf_of("ottla.records._native")
    return [
        same(
            "columns without check",
            lambda: [b"\x3f" + each for each in batches()],
            refusable(read_columns),
            columns,
            codec,
        ),
        same(
            "fetched records",
            lambda: batches() + message_sets(),
            read_fetched,
            python_fetched,
            leaf_of("ottla.client.consumer._records"),
        ),
        same("produce request", produce_requests, scan_request, broker_frames, leaf_of("ottla.broker.produce._frames")),
        same(
            "produce answer",
            produce_answers,
            read_answer,
            PythonProducer,
            leaf_of("ottla.client.producer.batches._append"),
        ),
        same("records to append", counted_batches, refusable(check_batch), checks, leaf_of("ottla.records._checks")),
        same("objects of JSON", json_texts, read_json, json_columns, leaf_of("ottla.schemas.arrow._json_columns")),
        same(
            "records of Avro",
            lambda: [AVRO_RECORD],
            read_avro,
            avro_columns,
            leaf_of("ottla.schemas.arrow._avro_columns"),
        ),
        same(
            "messages of Protobuf",
            lambda: MESSAGES,
            read_protobuf,
            protobuf_columns,
            leaf_of("ottla.schemas.arrow._protobuf_columns"),
        ),
        same("compaction", batches, refusable(clean), compaction, leaf_of("ottla.records._compaction")),
    ]
