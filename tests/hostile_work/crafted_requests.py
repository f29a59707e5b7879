"""For every API the worst requests that somebody thought of, beside those made from its declaration (shapes.py).

CRAFTED has an entry for every API of the protocol; one that is added without a thought fails a test. An entry is a list
of requests, or the sentence that says why the generic ones are enough.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tests.hostile_work.prefill import RECORDS
from tests.hostile_work.records import batch, hostile_values, nested, tiny_records, varint, with_headers
from tests.unit.broker.security.logins import handshake, token

from ottla.protocol.api import APIS_BY_NAME
from ottla.protocol.header import encode_request
from ottla.protocol.schema import ArrayOf, Message, Primitive, StructType
from ottla.records.compression import Compression, compress

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32  # kinds of resources whose settings can be altered
PATTERNS = (
    "(?:.?.?){490}z",
    "(a+)+" * 400,
    "(" * 1_000 + "a" + ")" * 1_000,
    "[a-z]{1,1000}" * 100,
    "(?i)" + "|".join(f"bob-{number:06d}" for number in range(2_500)),
    ".*" * 10_000,
    "\\p{L}{1000}{1000}",
    "x" * 32_000,
)
"""Expressions that are short and ask for much, or long."""


FOR_BROKERS = "a broker alone does not serve it: the generic ones are sent to a member of a cluster, as a client"


class Crafted(NamedTuple):
    """Frames that one client sends, made for a turn. Those without a user come instead of a login."""

    name: str
    frames: Callable[[int], Sequence[bytes]]
    user: str | None = "bob"


def made(api_name: str, **values: Any) -> Message:
    """A request of plain values: dictionaries become structs, and what must be there and is not given is zero."""
    request: Message = _struct(APIS_BY_NAME[api_name].request, values)
    return request


def _struct(kind: StructType, values: Mapping[str, Any]) -> Any:
    found = {}
    for field in kind.fields:
        if field.name in values:
            found[field.name] = _value(field.type, values[field.name])
        elif field.required:
            found[field.name] = [] if isinstance(field.type, ArrayOf) else _zero(field.type)
    return kind(**found)


def _value(kind: Any, value: Any) -> Any:
    if isinstance(kind, ArrayOf) and value is not None:
        return [_value(kind.element, element) for element in value]
    return _struct(kind, value) if isinstance(kind, StructType) and isinstance(value, dict) else value


def _zero(kind: Any) -> Any:
    return kind.zero if isinstance(kind, Primitive) else _struct(kind, {})


def frame(request: Message, version: int | None = None) -> bytes:
    api = APIS_BY_NAME[type(request).__name__.removesuffix("Request")]
    version = api.advertised.max if version is None else version
    return b"".join(map(bytes, encode_request(request, version=version, correlation_id=1, client_id="attack")))


def one(name: str, request: Callable[[int], Message], *, version: int | None = None, user: str = "bob") -> Crafted:
    return Crafted(name, lambda turn: [frame(request(turn), version)], user)


def login(name: str, mechanism: str, said: bytes) -> Crafted:
    return Crafted(name, lambda _: [bytes(handshake(mechanism, 1)), bytes(token(said, 1))], None)


# -- logins -----------------------------------------------------------------------------------------------------------


def _jwt(header: bytes, claims: bytes, signature: bytes = b"") -> bytes:
    parts = (base64.urlsafe_b64encode(part).rstrip(b"=") for part in (header, claims, signature))
    return b"n,,\x01auth=Bearer " + b".".join(parts) + b"\x01\x01"


_NONE = b'{"alg":"none"}'
LOGINS = [
    login("a token that ends in 10**400 s", "OAUTHBEARER", _jwt(_NONE, b'{"sub":"x","exp":1' + b"0" * 400 + b"}")),
    login("a token whose end has 4,000 digits", "OAUTHBEARER", _jwt(_NONE, b'{"sub":"x","exp":' + b"9" * 4_000 + b"}")),
    login(
        "a token whose end has 40,000 digits", "OAUTHBEARER", _jwt(_NONE, b'{"sub":"x","exp":' + b"9" * 40_000 + b"}")
    ),
    login("a token that is nested", "OAUTHBEARER", _jwt(_NONE, b'{"sub":' + nested(b"[", b"]", 20_000) + b"}")),
    login(
        "a token of 30,000 names",
        "OAUTHBEARER",
        _jwt(_NONE, b"{" + b",".join(b'"%d":1' % n for n in range(5_000)) + b"}"),
    ),
    login(
        "a token with a long scope",
        "OAUTHBEARER",
        _jwt(_NONE, json.dumps({"sub": "x", "exp": 1e12, "scope": ["s"] * 9_000}).encode()),
    ),
    login("a token of a megabyte", "OAUTHBEARER", b"n,,\x01auth=Bearer " + b"A" * 900_000 + b"\x01\x01"),
    login("a token of a megabyte of dots", "OAUTHBEARER", b"n,,\x01auth=Bearer " + b"." * 900_000 + b"\x01\x01"),
    login("a message of control characters", "OAUTHBEARER", b"n,," + b"\x01k=v" * 200_000),
    login("a name of a megabyte", "PLAIN", b"\0" + b"u" * 900_000 + b"\0p"),
    login("a password of a megabyte", "PLAIN", b"\0bob\0" + b"p" * 900_000),
    login("a million zeros", "PLAIN", b"\0" * 900_000),
    login("a SCRAM name of a megabyte", "SCRAM-SHA-512", b"n,,n=" + b"u" * 900_000 + b",r=x"),
    login("a SCRAM name of =2C", "SCRAM-SHA-512", b"n,,n=" + b"=2C" * 300_000 + b",r=x"),
    login("a SCRAM nonce of a megabyte", "SCRAM-SHA-512", b"n,,n=bob,r=" + b"x" * 900_000),
    login("SCRAM attributes without end", "SCRAM-SHA-512", b"n,,n=bob,r=x" + b",a=b" * 200_000),
    login("a name to be normalized", "SCRAM-SHA-512", "n,,n={},r=x".format("\ufdfa" * 100_000).encode()),
]

# -- telemetry --------------------------------------------------------------------------------------------------------

OTLP_NESTED = b"\x0a\x80\x80\x40" * 100_000
OTLP_POINTS = (
    b"\x0a" + varint(500_000) + b"\x12" + varint(499_990) + (b"\x12\x09\x0a\x01x\x2a\x04\x0a\x02\x31\x00") * 40_000
)


def _telemetry(name: str, codec: int, metrics: bytes) -> Crafted:
    def frames(turn: int) -> Sequence[bytes]:
        instance = (turn + 2).to_bytes(16, "big")
        ask = made("GetTelemetrySubscriptions", client_instance_id=instance)
        push = made("PushTelemetry", client_instance_id=instance, compression_type=codec, metrics=metrics)
        return [frame(ask), frame(push)]

    return Crafted(name, frames)


def _bomb(size_bytes: int) -> bytes:
    return zlib.compress(bytes(size_bytes), 9, wbits=31)


TELEMETRY = [
    _telemetry("gzip of 500 MB of zeros", Compression.GZIP, _bomb(500_000_000)),
    _telemetry("zstd of 100 MB of zeros", Compression.ZSTD, compress(Compression.ZSTD, bytes(100_000_000))),
    _telemetry("snappy of 20 MB of zeros", Compression.SNAPPY, compress(Compression.SNAPPY, bytes(20_000_000))),
    _telemetry("lz4 of 100 MB of zeros", Compression.LZ4, compress(Compression.LZ4, bytes(100_000_000))),
    _telemetry("metrics within each other", Compression.NONE, OTLP_NESTED),
    _telemetry("40,000 points", Compression.NONE, OTLP_POINTS),
    _telemetry("a megabyte of empty metrics", Compression.NONE, b"\x0a\x00" * 500_000),
    _telemetry("a codec that is none", 99, b"x" * 1_000_000),
]

# -- records ----------------------------------------------------------------------------------------------------------


def _produce(name: str, records: bytes, **more: Any) -> Crafted:
    partition = {"index": 0, "records": records}
    topics = [{"name": RECORDS, "partition_data": [partition]}]
    return one(name, lambda _: made("Produce", acks=-1, timeout_ms=5_000, topic_data=topics, **more), version=12)


def _zeros_in(codec: Compression, size_bytes: int) -> bytes:
    return batch(bytes(size_bytes), codec)


PRODUCES = [
    *(_produce(f"{name}, produced", batch(value)) for name, value in hostile_values(())[:3]),
    _produce("1,200,000 tiny records in zstd", tiny_records(Compression.ZSTD)),
    _produce("60,000 headers, produced", with_headers(60_000)),
    *(
        _produce(f"80 MB of zeros in {codec.label}", _zeros_in(codec, 80_000_000))
        for codec in (Compression.GZIP, Compression.ZSTD)
    ),
    _produce("a megabyte of batches of nothing", (batch(b"") * 20_000)[: 70 * 14_000]),
    _produce("records that are zeros", bytes(1_000_000)),
    _produce("records that are ones", b"\x01" * 1_000_000),
    _produce("records of a transaction that is not", batch(b"x"), transactional_id="bob-" + "x" * 30_000),
    one(
        "9,000 partitions with a batch each",
        lambda _: made(
            "Produce",
            acks=-1,
            timeout_ms=5_000,
            topic_data=[
                {
                    "name": RECORDS,
                    "partition_data": [{"index": number, "records": batch(b"x")} for number in range(9_000)],
                }
            ],
        ),
        version=12,
    ),
]


def _fetch(name: str, offset: int, **more: Any) -> Crafted:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 2**31 - 1}
    topics = [{"topic": RECORDS, "partitions": [partition]}]
    return one(
        name,
        lambda _: made("Fetch", max_wait_ms=0, max_bytes=2**31 - 1, session_epoch=-1, topics=topics, **more),
        version=12,
    )


# -- settings, topics -------------------------------------------------------------------------------------------------

SETTINGS = (
    ("retention.ms", "9" * 30_000),
    ("cleanup.policy", "compact," * 4_000),
    ("leader.replication.throttled.replicas", ",".join(f"{n}:{n}" for n in range(3_000))),
    ("follower.replication.throttled.replicas", "*:" * 10_000),
    ("min.cleanable.dirty.ratio", "1e" + "9" * 30_000),
    ("compression.type", "gzip" * 8_000),
    ("x" * 30_000, "y"),
    ("segment.bytes", "-" * 32_000),
    ("message.timestamp.type", "\u0130" * 10_000),
)


def _altered(api_name: str, user: str) -> list[Crafted]:
    found = []
    operation = {"config_operation": 0} if api_name.startswith("Incremental") else {}
    for kind, owner in ((TOPIC, RECORDS), (GROUP, "bob-000001"), (CLIENT_METRICS, "bob-metrics"), (BROKER, "0")):
        configs = [{"name": name, "value": value, **operation} for name, value in SETTINGS]
        configs += [{"name": "match", "value": f"client_id={pattern}", **operation} for pattern in PATTERNS]
        configs += [{"name": f"setting.{number}", "value": "1", **operation} for number in range(2_000)]
        resources = [{"resource_type": kind, "resource_name": owner, "configs": configs}]
        found.append(
            one(f"{api_name} of {owner} by {user}", lambda _, sent=resources: made(api_name, resources=sent), user=user)
        )
    return found


def _created(name: str, topic: Callable[[int], dict[str, Any]], user: str = "bob") -> Crafted:
    def request(turn: int) -> Message:
        return made(
            "CreateTopics", topics=[{"num_partitions": 1, "replication_factor": 1, **topic(turn)}], validate_only=True
        )

    return one(name, request, user=user)


TOPICS = [
    _created("a topic of 2**31 partitions", lambda turn: {"name": f"bob-huge-{turn}", "num_partitions": 2**31 - 1}),
    _created("a topic of 200,000 partitions", lambda turn: {"name": f"bob-large-{turn}", "num_partitions": 200_000}),
    _created(
        "a topic of 9,000 assignments",
        lambda turn: {
            "name": f"bob-placed-{turn}",
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [{"partition_index": n, "broker_ids": [0]} for n in range(9_000)],
        },
    ),
    _created(
        "a partition of 19,000 replicas",
        lambda turn: {
            "name": f"bob-copied-{turn}",
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [{"partition_index": 0, "broker_ids": list(range(19_000))}],
        },
    ),
    _created(
        "a topic with long settings",
        lambda turn: {"name": f"bob-set-{turn}", "configs": [{"name": n, "value": v} for n, v in SETTINGS]},
    ),
    _created(
        "a topic that others may not create",
        lambda turn: {"name": f"other-{turn}", "num_partitions": 200_000},
        "mallory",
    ),
    one(
        "5,000 topics at once, checked only",
        lambda turn: made(
            "CreateTopics",
            validate_only=True,
            topics=[
                {"name": f"bob-many-{turn}-{n}", "num_partitions": 1, "replication_factor": 1} for n in range(5_000)
            ],
        ),
    ),
]

# -- groups -----------------------------------------------------------------------------------------------------------


def _beat(name: str, api_name: str, **values: Any) -> Crafted:
    def request(turn: int) -> Message:
        return made(
            api_name, group_id=f"bob-{api_name}-{zlib.crc32(name.encode())}-{turn}", member_id=f"m{turn}", **values
        )

    return one(name, request)


CONSUMER_BEATS = [
    *(
        _beat(
            f"pattern {number} subscribed",
            "ConsumerGroupHeartbeat",
            rebalance_timeout_ms=1_000,
            subscribed_topic_regex=pattern,
            topic_partitions=[],
        )
        for number, pattern in enumerate(PATTERNS)
    ),
    _beat(
        "19,000 topics subscribed",
        "ConsumerGroupHeartbeat",
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=[f"bob-{n:06d}" for n in range(19_000)],
        topic_partitions=[],
    ),
    _beat(
        "19,000 partitions owned",
        "ConsumerGroupHeartbeat",
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["bob-000001"],
        topic_partitions=[{"topic_id": n.to_bytes(16, "big"), "partitions": [0]} for n in range(9_000)],
    ),
    _beat(
        "an assignor without end",
        "ConsumerGroupHeartbeat",
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["x"],
        topic_partitions=[],
        server_assignor="u" * 32_000,
    ),
]


# Internal topics that bob may not create: what he may, he can create by CreateTopics as well, and 5,000 topics more
# would make another broker of this one.
def _topology(**values: Any) -> dict[str, Any]:
    return {"epoch": 1, "subtopologies": [{"subtopology_id": "0", "source_topics": ["bob-000001"], **values}]}


def _streams(name: str, topology: dict[str, Any], **values: Any) -> Crafted:
    return _beat(
        name,
        "StreamsGroupHeartbeat",
        rebalance_timeout_ms=1_000,
        process_id="p",
        topology=topology,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        **values,
    )


STREAMS_BEATS = [
    _streams(
        "5,000 subtopologies",
        {
            "epoch": 1,
            "subtopologies": [{"subtopology_id": str(n), "source_topics": [f"bob-{n:06d}"]} for n in range(5_000)],
        },
    ),
    _streams(
        "5,000 changelogs",
        _topology(state_changelog_topics=[{"name": f"other-c{n}", "replication_factor": 1} for n in range(5_000)]),
    ),
    _streams(
        "a chain of repartitions",
        {
            "epoch": 1,
            "subtopologies": [
                {
                    "subtopology_id": str(n),
                    "source_topics": ["bob-000001"] if n == 0 else [],
                    "repartition_source_topics": [{"name": f"other-r{n}", "replication_factor": 1}],
                    "repartition_sink_topics": [f"other-r{n + 1}"],
                }
                for n in range(2_000)
            ],
        },
    ),
    _streams(
        "3,000 groups of topics that must fit",
        _topology(
            source_topics=[f"bob-{n:06d}" for n in range(3_000)],
            copartition_groups=[{"source_topics": [n, (n + 1) % 3_000]} for n in range(3_000)],
        ),
    ),
    _streams(
        "groups of topics that are not there",
        _topology(copartition_groups=[{"source_topics": [32_000] * 100} for _ in range(100)]),
    ),
    _streams("patterns of topics", _topology(source_topic_regex=list(PATTERNS))),
    _streams("9,000 tags", _topology(), client_tags=[{"key": str(n), "value": "x"} for n in range(9_000)]),
    _streams(
        "9,000 offsets of tasks",
        _topology(),
        task_offsets=[{"subtopology_id": "0", "partition": n, "offset": n} for n in range(9_000)],
    ),
]

JOINS = [
    _beat(
        "a member of a megabyte",
        "JoinGroup",
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b"\0" * 1_000_000}],
    ),
    _beat(
        "9,000 protocols",
        "JoinGroup",
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[{"name": str(n), "metadata": b""} for n in range(9_000)],
    ),
    _beat(
        "a subscription of a million topics",
        "JoinGroup",
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b"\0\0\x7f\xff\xff\xff" + b"\0\x01x" * 300_000}],
    ),
]

# -- the rest ---------------------------------------------------------------------------------------------------------

LISTED_TRANSACTIONS = [
    one(
        f"pattern {number} of transactional ids, by {user}",
        lambda _, text=pattern: made("ListTransactions", transactional_id_pattern=text),
        user=user,
    )
    for number, pattern in enumerate(PATTERNS)
    for user in ("mallory", "bob")
] + [
    one("19,000 producer ids", lambda _: made("ListTransactions", producer_id_filters=list(range(19_000)))),
    one("19,000 states", lambda _: made("ListTransactions", state_filters=[str(n) for n in range(19_000)])),
]

CURSORS = [
    one(
        "a cursor behind all topics",
        lambda _: made(
            "DescribeTopicPartitions", topics=[], cursor={"topic_name": "\uffff" * 10_000, "partition_index": 2**31 - 1}
        ),
    ),
    one(
        "a cursor before all topics",
        lambda _: made(
            "DescribeTopicPartitions",
            topics=[],
            response_partition_limit=1,
            cursor={"topic_name": "", "partition_index": -1},
        ),
    ),
    one(
        "50,000 names and a cursor in the middle",
        lambda _: made(
            "DescribeTopicPartitions",
            topics=[{"name": f"bob-{n:06d}"} for n in range(50_000)],
            cursor={"topic_name": "bob-025000", "partition_index": 0},
        ),
    ),
]

_ALL_NULL = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
CRAFTED: Mapping[str, Sequence[Crafted] | str] = {
    "Produce": PRODUCES,
    "Fetch": [
        _fetch("everything at once", 0),
        _fetch("from a negative offset", -(2**63)),
        _fetch("from the last offset there can be", 2**63 - 1, isolation_level=1),
        one(
            "19,000 forgotten topics",
            lambda _: made(
                "Fetch",
                session_id=1,
                session_epoch=1,
                forgotten_topics_data=[{"topic": f"bob-{n}", "partitions": [0]} for n in range(9_000)],
            ),
            version=12,
        ),
    ],
    "ListOffsets": [
        one(
            f"the offset at time {time_ms} among a hundred thousand records, 1,000 times",
            lambda _, time_ms=time_ms: made(
                "ListOffsets",
                replica_id=-1,
                topics=[{"name": RECORDS, "partitions": [{"partition_index": 0, "timestamp": time_ms}] * 1_000}],
            ),
            version=9,
        )
        for time_ms in (0, 1_700_000_000_000, 2**62, -3)
    ],
    "Metadata": [
        one(
            "all topics, 20,000 times by name",
            lambda _: made("Metadata", topics=[{"name": RECORDS}] * 20_000, allow_auto_topic_creation=False),
        )
    ],
    "LeaderAndIsr": FOR_BROKERS,
    "StopReplica": FOR_BROKERS,
    "UpdateMetadata": FOR_BROKERS,
    "ControlledShutdown": FOR_BROKERS,
    "OffsetCommit": [
        one(
            "5,000 offsets with long metadata",
            lambda _: made(
                "OffsetCommit",
                group_id="bob-000001",
                topics=[
                    {
                        "name": f"bob-{n % 300:06d}",
                        "partitions": [{"partition_index": 0, "committed_metadata": "m" * 4_000}],
                    }
                    for n in range(5_000)
                ],
            ),
            version=8,
        )
    ],
    "OffsetFetch": [
        one(
            "every offset of 9,000 groups",
            lambda _: made("OffsetFetch", groups=[{"group_id": f"bob-{n:06d}", "topics": None} for n in range(9_000)]),
            version=9,
        ),
        one(
            "one group 9,000 times",
            lambda _: made("OffsetFetch", groups=[{"group_id": "bob-000001", "topics": None}] * 9_000),
            version=9,
        ),
    ],
    "FindCoordinator": [
        one(
            f"19,000 keys of kind {kind}",
            lambda _, kind=kind: made(
                "FindCoordinator", key_type=kind, coordinator_keys=[f"bob-{n}" for n in range(19_000)]
            ),
            user=user,
        )
        for kind in (0, 1, 2, 127)
        for user in ("bob", "mallory")
    ],
    "JoinGroup": JOINS,
    "Heartbeat": "a few names and a number: the generic ones have them long",
    "LeaveGroup": [
        one(
            "9,000 members leave",
            lambda _: made(
                "LeaveGroup",
                group_id="bob-000001",
                members=[{"member_id": str(n), "reason": "r"} for n in range(9_000)],
            ),
        )
    ],
    "SyncGroup": [
        _beat(
            "assignments of 30 MB",
            "SyncGroup",
            generation_id=1,
            assignments=[{"member_id": str(n), "assignment": bytes(10_000)} for n in range(3_000)],
        )
    ],
    "DescribeGroups": [
        one(
            "one group 19,000 times",
            lambda _: made("DescribeGroups", groups=["bob-000001"] * 19_000, include_authorized_operations=True),
        )
    ],
    "ListGroups": [
        one(
            "19,000 states",
            lambda _: made(
                "ListGroups", states_filter=[f"s{n}" for n in range(9_000)], types_filter=["consumer"] * 9_000
            ),
        )
    ],
    "SaslHandshake": [Crafted("a mechanism of 30,000 characters", lambda _: [bytes(handshake("x" * 30_000, 1))], None)],
    "ApiVersions": [
        one(
            "a long name of a client",
            lambda _: made("ApiVersions", client_software_name="a" * 30_000, client_software_version="-" * 30_000),
            version=3,
        )
    ],
    "CreateTopics": TOPICS,
    "DeleteTopics": [
        one("one topic 9,000 times", lambda _: made("DeleteTopics", topics=[{"name": "bob-none"}] * 9_000))
    ],
    "DeleteRecords": [
        one(
            "9,000 partitions of topics that are there",
            lambda _: made(
                "DeleteRecords",
                timeout_ms=1,
                topics=[
                    {"name": f"bob-{n % 300:06d}", "partitions": [{"partition_index": 0, "offset": -1}]}
                    for n in range(9_000)
                ],
            ),
        ),
        one(
            "19,000 partitions of one topic",
            lambda _: made(
                "DeleteRecords",
                timeout_ms=1,
                topics=[
                    {"name": "bob-000001", "partitions": [{"partition_index": n, "offset": -1} for n in range(19_000)]}
                ],
            ),
        ),
    ],
    "InitProducerId": [
        one(
            "an id of 30,000 characters",
            lambda turn: made(
                "InitProducerId", transactional_id="bob-" + "x" * 30_000 + str(turn), transaction_timeout_ms=60_000
            ),
        )
    ],
    "OffsetForLeaderEpoch": [
        one(
            "one partition 100,000 times",
            lambda _: made(
                "OffsetForLeaderEpoch",
                replica_id=-1,
                topics=[
                    {
                        "topic": RECORDS,
                        "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 2**31 - 1}]
                        * 100_000,
                    }
                ],
            ),
        )
    ],
    "AddPartitionsToTxn": [
        one(
            "9,000 partitions",
            lambda _: made(
                "AddPartitionsToTxn",
                v3_and_below_transactional_id="bob-000001",
                v3_and_below_producer_id=1,
                v3_and_below_topics=[{"name": f"bob-{n % 300:06d}", "partitions": [0]} for n in range(9_000)],
            ),
            version=3,
        )
    ],
    "AddOffsetsToTxn": "a few names and a number: the generic ones have them long",
    "EndTxn": "a name and two numbers: the generic ones have them long",
    "WriteTxnMarkers": [
        one(
            "5,000 markers by nobody",
            lambda _: made(
                "WriteTxnMarkers",
                markers=[
                    {"producer_id": n, "topics": [{"name": "bob-000001", "partition_indexes": [0]}]}
                    for n in range(5_000)
                ],
            ),
            user="mallory",
        )
    ],
    "TxnOffsetCommit": [
        one(
            "9,000 offsets of topics that are there",
            lambda _: made(
                "TxnOffsetCommit",
                transactional_id="bob-000001",
                group_id="bob-000001",
                topics=[
                    {"name": f"bob-{n % 300:06d}", "partitions": [{"partition_index": 0, "committed_metadata": "m"}]}
                    for n in range(9_000)
                ],
            ),
        )
    ],
    "DescribeAcls": [
        one(f"all rules, by {user}", lambda _: made("DescribeAcls", **_ALL_NULL), user=user)
        for user in ("bob", "mallory", "admin")
    ],
    "CreateAcls": [
        one(
            f"3,000 rules with every host, by {user}",
            lambda _: made(
                "CreateAcls",
                creations=[
                    {
                        "resource_type": 99,
                        "resource_name": "x" * 300,
                        "principal": "no-kind",
                        "host": "h" * 300,
                        "operation": 99,
                        "permission_type": 99,
                    }
                    for n in range(3_000)
                ],
            ),
            user=user,
        )
        for user in ("bob", "admin")
    ],
    "DeleteAcls": [
        one(
            f"5,000 filters, by {user}",
            lambda _: made(
                "DeleteAcls", filters=[{**_ALL_NULL, "principal_filter": f"User:{n}"} for n in range(5_000)]
            ),
            user=user,
        )
        for user in ("bob", "admin")
    ],
    "DescribeConfigs": [
        one(
            "one topic 5,000 times with everything",
            lambda _: made(
                "DescribeConfigs",
                include_synonyms=True,
                include_documentation=True,
                resources=[{"resource_type": TOPIC, "resource_name": RECORDS, "configuration_keys": None}] * 5_000,
            ),
        ),
        one(
            "19,000 keys of one topic",
            lambda _: made(
                "DescribeConfigs",
                resources=[
                    {
                        "resource_type": TOPIC,
                        "resource_name": RECORDS,
                        "configuration_keys": [f"k{n}" for n in range(19_000)],
                    }
                ],
            ),
        ),
    ],
    "AlterConfigs": [*_altered("AlterConfigs", "bob"), *_altered("AlterConfigs", "mallory")],
    "AlterReplicaLogDirs": [
        one(
            "a directory of 30,000 characters",
            lambda _: made(
                "AlterReplicaLogDirs", dirs=[{"path": "/" * 30_000, "topics": [{"name": RECORDS, "partitions": [0]}]}]
            ),
        )
    ],
    "DescribeLogDirs": [
        one(f"all of them, by {user}", lambda _: made("DescribeLogDirs", topics=None), user=user)
        for user in ("bob", "admin")
    ],
    "SaslAuthenticate": LOGINS,
    "CreatePartitions": [
        one(
            "200,000 partitions more, checked only",
            lambda _: made(
                "CreatePartitions",
                validate_only=True,
                timeout_ms=1,
                topics=[{"name": "bob-000001", "count": 200_000, "assignments": None}],
            ),
        ),
        one(
            "2**31 partitions more, checked only",
            lambda _: made(
                "CreatePartitions",
                validate_only=True,
                timeout_ms=1,
                topics=[{"name": "bob-000001", "count": 2**31 - 1, "assignments": None}],
            ),
        ),
        one(
            "9,000 assignments, checked only",
            lambda _: made(
                "CreatePartitions",
                validate_only=True,
                timeout_ms=1,
                topics=[
                    {"name": "bob-000001", "count": 9_001, "assignments": [{"broker_ids": [0]} for _ in range(9_000)]}
                ],
            ),
        ),
    ],
    "CreateDelegationToken": [
        one(
            "9,000 renewers",
            lambda _: made(
                "CreateDelegationToken",
                renewers=[{"principal_type": "User", "principal_name": str(n)} for n in range(9_000)],
                max_lifetime_ms=2**63 - 1,
            ),
        )
    ],
    "RenewDelegationToken": [
        one(
            "a code of 60,000 bytes",
            lambda _: made("RenewDelegationToken", hmac=bytes(60_000), renew_period_ms=2**63 - 1),
            user=user,
        )
        for user in ("bob", "mallory")
    ],
    "ExpireDelegationToken": [
        one(
            "a code of 60,000 bytes",
            lambda _: made("ExpireDelegationToken", hmac=bytes(60_000), expiry_time_period_ms=-(2**63)),
            user=user,
        )
        for user in ("bob", "mallory")
    ],
    "DescribeDelegationToken": [
        one(f"all of them, by {user}", lambda _: made("DescribeDelegationToken", owners=None), user=user)
        for user in ("bob", "mallory")
    ],
    "DeleteGroups": [one("one group 19,000 times", lambda _: made("DeleteGroups", groups_names=["bob-none"] * 19_000))],
    "ElectLeaders": [
        one(
            "all partitions, by nobody",
            lambda _: made("ElectLeaders", election_type=127, topic_partitions=None, timeout_ms=1),
            user="mallory",
        )
    ],
    "IncrementalAlterConfigs": [
        *_altered("IncrementalAlterConfigs", "bob"),
        *_altered("IncrementalAlterConfigs", "mallory"),
    ],
    "AlterPartitionReassignments": [
        one(
            "to 19,000 replicas",
            lambda _: made(
                "AlterPartitionReassignments",
                topics=[{"name": RECORDS, "partitions": [{"partition_index": 0, "replicas": list(range(19_000))}]}],
            ),
            user=user,
        )
        for user in ("bob", "admin")
    ],
    "ListPartitionReassignments": [
        one("all of them", lambda _: made("ListPartitionReassignments", topics=None), user=user)
        for user in ("bob", "admin")
    ],
    "OffsetDelete": [
        one(
            "one partition 9,000 times",
            lambda _: made(
                "OffsetDelete",
                group_id="bob-000001",
                topics=[{"name": "bob-000001", "partitions": [{"partition_index": 0}] * 9_000}],
            ),
        )
    ],
    "DescribeClientQuotas": [
        one(
            "5,000 components",
            lambda _: made(
                "DescribeClientQuotas",
                components=[{"entity_type": "user", "match_type": 0, "match": str(n)} for n in range(5_000)],
            ),
            user=user,
        )
        for user in ("bob", "admin")
    ],
    "AlterClientQuotas": [
        one(
            f"5,000 entities, by {user}",
            lambda _: made(
                "AlterClientQuotas",
                validate_only=True,
                entries=[
                    {
                        "entity": [{"entity_type": "user", "entity_name": str(n)}],
                        "ops": [{"key": "k" * 100, "value": float("inf")}],
                    }
                    for n in range(5_000)
                ],
            ),
            user=user,
        )
        for user in ("bob", "admin")
    ],
    "DescribeUserScramCredentials": [
        one("all of them", lambda _: made("DescribeUserScramCredentials", users=None), user=user)
        for user in ("bob", "admin")
    ],
    "AlterUserScramCredentials": [
        one(
            f"a password of 2**31 iterations, by {user}",
            lambda _: made(
                "AlterUserScramCredentials",
                upsertions=[
                    {
                        "name": f"u{n}",
                        "mechanism": 2,
                        "iterations": 2**31 - 1,
                        "salt": bytes(1_000),
                        "salted_password": bytes(1_000),
                    }
                    for n in range(1_000)
                ],
            ),
            user=user,
        )
        for user in ("bob", "admin")
    ],
    "Vote": "for controllers only: no broker serves it",
    "BeginQuorumEpoch": "for controllers only: no broker serves it",
    "EndQuorumEpoch": "for controllers only: no broker serves it",
    "DescribeQuorum": "a list of topics: the generic ones have it long",
    "AlterPartition": FOR_BROKERS,
    "UpdateFeatures": [
        one(
            f"9,000 features, by {user}",
            lambda _: made(
                "UpdateFeatures",
                validate_only=True,
                feature_updates=[
                    {"feature": f"f{n}", "max_version_level": 1, "upgrade_type": 127} for n in range(9_000)
                ],
            ),
            user=user,
        )
        for user in ("bob", "admin")
    ],
    "Envelope": FOR_BROKERS,
    "FetchSnapshot": "for controllers only: no broker serves it",
    "DescribeCluster": "a flag and a number",
    "DescribeProducers": [
        one(
            "one partition 19,000 times",
            lambda _: made("DescribeProducers", topics=[{"name": RECORDS, "partition_indexes": [0] * 19_000}]),
        )
    ],
    "BrokerRegistration": "for controllers only: no broker serves it",
    "BrokerHeartbeat": "for controllers only: no broker serves it",
    "UnregisterBroker": "a number",
    "DescribeTransactions": [
        one("one id 19,000 times", lambda _: made("DescribeTransactions", transactional_ids=["bob-000001"] * 19_000))
    ],
    "ListTransactions": LISTED_TRANSACTIONS,
    "AllocateProducerIds": FOR_BROKERS,
    "ConsumerGroupHeartbeat": CONSUMER_BEATS,
    "ConsumerGroupDescribe": [
        one(
            "one group 19,000 times",
            lambda _: made(
                "ConsumerGroupDescribe", group_ids=["bob-000001"] * 19_000, include_authorized_operations=True
            ),
        )
    ],
    "ControllerRegistration": "for controllers only: no broker serves it",
    "GetTelemetrySubscriptions": "an id: what a client calls itself stands in ApiVersions and in the header",
    "PushTelemetry": TELEMETRY,
    "AssignReplicasToDirs": "for controllers only: no broker serves it",
    "ListConfigResources": [
        one(
            "all kinds",
            lambda _: made("ListConfigResources", resource_types=[n % 128 for n in range(9_000)]),
            user=user,
        )
        for user in ("bob", "admin")
    ],
    "DescribeTopicPartitions": CURSORS,
    "ShareGroupHeartbeat": [
        _beat(
            f"{count:,} topics shared",
            "ShareGroupHeartbeat",
            subscribed_topic_names=[f"bob-{n:06d}" for n in range(count)],
        )
        for count in (10_000, 19_000)  # as many as are taken, and more
    ],
    "ShareGroupDescribe": [
        one(
            "one group 19,000 times",
            lambda _: made("ShareGroupDescribe", group_ids=["bob-000001"] * 19_000, include_authorized_operations=True),
        )
    ],
    "ShareFetch": [
        one(
            "acknowledgements of 2**62 records",
            lambda turn: made(
                "ShareFetch",
                group_id="bob-share",
                member_id=f"m{turn}",
                max_bytes=2**31 - 1,
                max_records=2**31 - 1,
                batch_size=2**31 - 1,
                topics=[
                    {
                        "topic_id": b"\x01" * 16,
                        "partitions": [
                            {
                                "partition_index": 0,
                                "acknowledgement_batches": [
                                    {"first_offset": 0, "last_offset": 2**62, "acknowledge_types": [1]}
                                ],
                            }
                        ],
                    }
                ],
            ),
        )
    ],
    "ShareAcknowledge": [
        one(
            "19,000 kinds of acknowledgement",
            lambda _: made(
                "ShareAcknowledge",
                group_id="bob-share",
                member_id="m",
                share_session_epoch=1,
                topics=[
                    {
                        "topic_id": b"\x01" * 16,
                        "partitions": [
                            {
                                "partition_index": 0,
                                "acknowledgement_batches": [
                                    {"first_offset": 0, "last_offset": 2**62, "acknowledge_types": [1] * 19_000}
                                ],
                            }
                        ],
                    }
                ],
            ),
        )
    ],
    "AddRaftVoter": "for controllers: a broker under controllers passes it on, and no other serves it",
    "RemoveRaftVoter": "for controllers: a broker under controllers passes it on, and no other serves it",
    "UpdateRaftVoter": "for controllers only: no broker serves it",
    "InitializeShareGroupState": "for brokers only, and refused by the rights: the generic ones have it long",
    "ReadShareGroupState": "for brokers only, and refused by the rights: the generic ones have it long",
    "WriteShareGroupState": "for brokers only, and refused by the rights: the generic ones have it long",
    "DeleteShareGroupState": "for brokers only, and refused by the rights: the generic ones have it long",
    "ReadShareGroupStateSummary": "for brokers only, and refused by the rights: the generic ones have it long",
    "StreamsGroupHeartbeat": STREAMS_BEATS,
    "StreamsGroupDescribe": [
        one(
            "one group 19,000 times",
            lambda _: made(
                "StreamsGroupDescribe", group_ids=["bob-000001"] * 19_000, include_authorized_operations=True
            ),
        )
    ],
    "DescribeShareGroupOffsets": [
        one(
            "one group 9,000 times",
            lambda _: made("DescribeShareGroupOffsets", groups=[{"group_id": "bob-000001", "topics": None}] * 9_000),
        )
    ],
    "AlterShareGroupOffsets": [
        one(
            "19,000 partitions of one topic",
            lambda _: made(
                "AlterShareGroupOffsets",
                group_id="bob-shared-offsets",
                topics=[
                    {
                        "topic_name": "bob-000001",
                        "partitions": [{"partition_index": n, "start_offset": 0} for n in range(19_000)],
                    }
                ],
            ),
        ),
    ],
    "DeleteShareGroupOffsets": "a list of names: the generic ones have it long",
}
