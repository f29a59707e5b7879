"""Records of the cluster's own topics, and files of logs, the same in every run: so is what tools print of them.

`stored_records()` has, by topic, records of every kind and several versions, a deleted one, one of a kind that nobody
knows. They are written to plain topics for kafka-console-consumer's formatters (`produce_stored`), and into files for
kafka-dump-log (`write_logs`).
"""

import struct
from pathlib import Path

from ottla import Producer
from ottla.protocol.stored import classic_groups, encode_key, encode_value, offsets, share_groups, share_state
from ottla.protocol.stored import transactions as tx
from ottla.records import BatchBuilder, Compression

TIME_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
FIRST = "00000000000000000000"
Pair = tuple[bytes, bytes | None]


def stored_records() -> dict[str, list[Pair]]:
    return {
        "groups": [*_offsets(), *_classic(), *_share_groups(), (b"\x00\x63odd", b"\x00\x00")],
        "tx": _tx(),
        "share": _share(),
    }


def _offsets() -> list[Pair]:
    key = encode_key(offsets.OffsetCommitKey(group="readers", topic="log", partition=1))
    old = encode_key(offsets.LegacyOffsetCommitKey(group="readers", topic="log", partition=0))
    value = offsets.OffsetCommitValue(
        offset=5, leader_epoch=2, metadata='said "so"', commit_timestamp=TIME_MS, expire_timestamp=TIME_MS + 1
    )
    legacy = offsets.LegacyOffsetCommitValue(offset=3, metadata="", commit_timestamp=TIME_MS)
    newest = offsets.OffsetCommitValue(offset=6, metadata="", commit_timestamp=TIME_MS, topic_id=TOPIC_ID)
    pairs: list[Pair] = [(old, encode_value(legacy, 0))]
    pairs += [(key, encode_value(value, version)) for version in range(5)]
    return [*pairs, (key, encode_value(newest, 4)), (key, None)]


def _classic() -> list[Pair]:
    member = classic_groups.MemberMetadata(
        member_id="m-1",
        group_instance_id="static",
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout=300,
        session_timeout=45,
        subscription=bytes(range(16)),
        assignment=b"\x00\x01\xff",
    )
    value = classic_groups.GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="m-1",
        current_state_timestamp=TIME_MS,
        members=[member],
    )
    key = encode_key(classic_groups.GroupMetadataKey(group="readers"))
    return [*((key, encode_value(value, version)) for version in range(5)), (key, None)]


def _share_groups() -> list[Pair]:
    s = share_groups
    member = s.ShareGroupMemberMetadataValue(
        rack_id=None, client_id="c", client_host="/127.0.0.1", subscribed_topic_names=["log", "other"]
    )
    info = s.TopicPartitionsInfo(topic_id=TOPIC_ID, topic_name="log", partitions=[0, 1])
    state = s.ShareGroupStatePartitionMetadataValue(
        initializing_topics=[],
        initialized_topics=[info],
        deleting_topics=[s.TopicInfo(topic_id=TOPIC_ID, topic_name="x")],
    )
    pairs = [
        (s.ShareGroupMetadataKey(group_id="g"), s.ShareGroupMetadataValue(epoch=2, metadata_hash=-7)),
        (s.ShareGroupMemberMetadataKey(group_id="g", member_id="m"), member),
        (s.ShareGroupStatePartitionMetadataKey(group_id="g"), state),
    ]
    return [(encode_key(key), encode_value(value, 0)) for key, value in pairs]


def _tx() -> list[Pair]:
    value = tx.TransactionLogValue(
        producer_id=7,
        producer_epoch=1,
        transaction_timeout_ms=60_000,
        transaction_status=1,
        transaction_partitions=[tx.PartitionsSchema(topic="log", partition_ids=[0, 2])],
        transaction_last_update_timestamp_ms=TIME_MS,
        transaction_start_timestamp_ms=TIME_MS - 1,
    )
    ended = tx.TransactionLogValue(
        producer_id=8,
        previous_producer_id=7,
        producer_epoch=0,
        transaction_timeout_ms=60_000,
        transaction_status=4,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=TIME_MS,
        transaction_start_timestamp_ms=-1,
        client_transaction_version=2,
    )
    key = encode_key(tx.TransactionLogKey(transactional_id="copier"))
    return [(key, encode_value(value, 0)), (key, encode_value(value, 1)), (key, encode_value(ended, 1)), (key, None)]


def _share() -> list[Pair]:
    batch = share_state.StateBatch(first_offset=3, last_offset=5, delivery_state=2, delivery_count=1)
    snapshot = share_state.ShareSnapshotValue(
        snapshot_epoch=1,
        state_epoch=2,
        leader_epoch=3,
        start_offset=3,
        delivery_complete_count=2,
        create_timestamp=TIME_MS,
        write_timestamp=TIME_MS,
        state_batches=[batch],
    )
    update = share_state.ShareUpdateValue(snapshot_epoch=1, leader_epoch=3, start_offset=-1, state_batches=[batch])
    place = {"group_id": "g", "topic_id": TOPIC_ID, "partition": 1}
    return [
        (encode_key(share_state.ShareSnapshotKey(**place)), encode_value(snapshot, 0)),
        (encode_key(share_state.ShareUpdateKey(**place)), encode_value(update, 0)),
    ]


def produce_stored(server: str) -> None:
    """Every list into a topic of its name, which must be there."""
    with Producer({"bootstrap.servers": server}) as producer:
        for topic, pairs in stored_records().items():
            for key, value in pairs:
                producer.send(topic, value, key=key, partition=0)


def write_logs(directory: Path) -> None:
    """Directories of partitions with one segment each: log-0 with plain records, the others with stored ones."""
    for topic, pairs in stored_records().items():
        builder = BatchBuilder()
        for key, value in pairs:
            builder.append(TIME_MS, key, value)
        _write(directory / f"{topic}-0", builder.close())
    plain = BatchBuilder(producer_id=7, producer_epoch=1, base_sequence=0, leader_epoch=3)
    plain.append(TIME_MS, b"a", b"one", [("h", b"1"), ("i", None)])
    plain.append(TIME_MS + 5, None, b"two")
    packed = BatchBuilder(compression=Compression.GZIP, base_offset=2, transactional=False)
    packed.append(TIME_MS + 9, b"c", None)
    first = plain.close()
    _write(directory / "log-0", first + packed.close())
    (directory / "log-0" / f"{FIRST}.index").write_bytes(struct.pack(">ii", 2, len(first)))
    (directory / "log-0" / f"{FIRST}.timeindex").write_bytes(struct.pack(">qi", TIME_MS + 9, 2))
    (directory / "log-0" / "broken.index").write_bytes(struct.pack(">ii", 1, 40))


def _write(directory: Path, data: bytes) -> None:
    directory.mkdir()
    (directory / f"{FIRST}.log").write_bytes(data)
