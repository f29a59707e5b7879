"""How much one request may ask for, by API.

A decoder makes an object of every entry of an array, and a handler does something for each. An entry may be a single
byte on the wire, so a frame within socket.request.max.bytes could ask for a hundred million of them. Kafka has no such
limit; we serve everybody from one loop and need one.

    ENTRIES_LIMIT       entries of all arrays together. Kafka's controller refuses changes of more than 10,000 records,
                        a commit of more offsets than fit into a megabyte is refused too, and a producer's request is
                        a megabyte in a hundred partitions. Measured: 20,000 entries take at most 0.2 s.
    WIDE_ENTRIES_LIMIT  for WIDE questions, which a client of a very large cluster asks in one request: 100,000 topics
                        with a partition each are 200,000 entries.
    SIZE_LIMIT_BYTES    of any request but those that carry records: 100,000 topic names of the longest kind, and more.
    SMALL_LIMIT_BYTES   of a request that has no list, a header and a few strings (ApiVersions, SaslHandshake, Heartbeat
                        and others), and of what is no request that we know.
    BLOB_LIMIT_BYTES    of a request without a list that carries bytes: a token of SaslAuthenticate, telemetry.

The handlers of WIDE questions, and of those IN_STINTS, work in stints (long_work.py): they do much for each entry. What
changes the cluster is among these so that it is read in stints, and planned apart (changes.py).
What is above a limit is malformed: the connection is closed, and the log says why. The size is looked at as soon as the
frame says which API it is for, so that nobody waits for the rest of it.
"""

from __future__ import annotations

from typing import Final

from ottla.protocol.api import APIS, Api
from ottla.protocol.schema import BYTES, ArrayOf

ENTRIES_LIMIT: Final = 20_000
WIDE_ENTRIES_LIMIT: Final = 250_000
SIZE_LIMIT_BYTES: Final = 32 * 1024 * 1024
SMALL_LIMIT_BYTES: Final = 64 * 1024
BLOB_LIMIT_BYTES: Final = 1024 * 1024
NO_SIZE_LIMIT: Final = 1 << 31  # but socket.request.max.bytes, which the frame has passed already
LONG_FRAME_BYTES: Final = 8 * 1024
"""A frame of an API in stints above this size is read and answered in stints: it may have thousands of entries."""
APART_FRAME_BYTES: Final = 128 * 1024
"""Above this size reading it takes more than a stint, and is done in a thread."""

WIDE: Final = frozenset(
    {
        "DescribeTopicPartitions",
        "Fetch",
        "ListOffsets",
        "Metadata",
        "OffsetForLeaderEpoch",
        # Orders of a controller, which may be an Apache Kafka broker and tells everything at once.
        "AlterPartition",
        "LeaderAndIsr",
        "StopReplica",
        "UpdateMetadata",
    }
)
IN_STINTS: Final = WIDE - {"AlterPartition", "LeaderAndIsr", "StopReplica", "UpdateMetadata"} | {
    "AddPartitionsToTxn",
    "AlterClientQuotas",
    "AlterConfigs",
    "AlterPartitionReassignments",
    "AlterUserScramCredentials",
    "ConsumerGroupDescribe",
    "CreatePartitions",
    "CreateTopics",
    "DeleteGroups",
    "DeleteTopics",
    "DescribeConfigs",
    "DescribeGroups",
    "DescribeProducers",
    "DescribeTransactions",
    "ElectLeaders",
    "FindCoordinator",
    "IncrementalAlterConfigs",
    "OffsetFetch",
}


def works_in_stints(api: Api) -> bool:
    return api.name in IN_STINTS


def entries_limit(api: Api) -> int:
    return WIDE_ENTRIES_LIMIT if api.name in WIDE else ENTRIES_LIMIT


def size_limit_bytes(api: Api) -> int:
    if api.name == "Produce":
        return NO_SIZE_LIMIT
    kinds = [field.type for field in api.request.fields]
    if any(isinstance(kind, ArrayOf) for kind in kinds):
        return SIZE_LIMIT_BYTES
    return BLOB_LIMIT_BYTES if BYTES in kinds else SMALL_LIMIT_BYTES


def frame_limit_bytes(api_key: int) -> int:
    """The same for the first bytes of a frame, of which nobody knows yet whether they are a request."""
    api = APIS.get(api_key)
    return SMALL_LIMIT_BYTES if api is None else size_limit_bytes(api)
