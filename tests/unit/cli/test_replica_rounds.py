"""kafka-replica-verification's verdicts, from bytes."""

import pytest

from ottla.cli.kafka.replica_rounds import OffsetsDiffer, ReplicaRounds
from ottla.client.admin.copies import CopyPart
from ottla.records import BatchBuilder
from ottla.values import TopicPartition

PARTITION = TopicPartition("clicks", 0)
INTERVAL_MS = 1000


def batch(base_offset: int, *values: bytes) -> bytes:
    builder = BatchBuilder(base_offset=base_offset)
    for value in values:
        builder.append(1_700_000_000_000, None, value)
    return bytes(builder.close())


def rounds() -> ReplicaRounds:
    return ReplicaRounds({PARTITION: 2}, {PARTITION: 0}, INTERVAL_MS, now_ms=0)


def compared(state: ReplicaRounds, first: bytes, second: bytes, high_watermark: int = 10) -> list[str]:
    parts = {broker: CopyPart(data, high_watermark, 0) for broker, data in ((1, first), (2, second))}
    return list(state.compare({PARTITION: parts}))


def test_replicas_that_agree_are_verified_as_far_as_both_sent():
    state = rounds()
    assert compared(state, batch(0, b"a", b"b") + batch(2, b"c"), batch(0, b"a", b"b")) == []
    assert state.offsets == {PARTITION: 2}
    assert state.report(INTERVAL_MS + 1) == "max lag is 8 for partition clicks-0 at offset 2 among 1 partitions"


def test_another_checksum_is_told_and_verification_goes_on():
    state = rounds()
    (sentence,) = compared(state, batch(0, b"a") + batch(1, b"x"), batch(0, b"b") + batch(1, b"x"))
    assert sentence.startswith("partition clicks-0 has unmatched checksum at offset 0; replica 1's checksum ")
    assert state.offsets == {PARTITION: 2}


def test_another_last_offset_ends_it():
    with pytest.raises(OffsetsDiffer, match="replica 1's offset 1 doesn't match replica 2's offset 0"):
        compared(rounds(), batch(0, b"a", b"b"), batch(0, b"a"))


def test_what_is_not_committed_is_not_compared():
    state = rounds()
    assert compared(state, batch(0, b"a"), batch(0, b"b"), high_watermark=0) == []
    assert state.offsets == {PARTITION: 0}


def test_a_replica_that_sends_nothing_holds_its_partition_back():
    state = rounds()
    assert compared(state, batch(0, b"a"), b"") == []
    assert state.offsets == {PARTITION: 0}


def test_a_damaged_batch_is_a_difference():
    whole = batch(0, b"a")
    with pytest.raises(OffsetsDiffer, match="replica 2 sent a damaged batch"):
        compared(rounds(), whole, whole[:16] + b"\x09" + whole[17:])


def test_the_lag_is_told_once_in_an_interval():
    state = rounds()
    compared(state, batch(0, b"a"), batch(0, b"a"), high_watermark=1)
    assert state.report(INTERVAL_MS) is None
    assert state.report(INTERVAL_MS + 1) == "max lag is 0 for partition clicks-0 at offset 1 among 1 partitions"
    assert state.report(INTERVAL_MS + 2) is None
