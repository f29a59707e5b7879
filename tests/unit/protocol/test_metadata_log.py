"""Records of the cluster metadata log, beside bytes that Apache Kafka 4.3.1 wrote (tests/golden/metadata)."""

import pytest
from tests.golden.metadata.reading import golden_files, golden_records, records_of

from ottla.errors import MalformedMessage
from ottla.protocol import codec, compiled
from ottla.protocol.metadata_log import (
    KINDS,
    UnknownMetadataRecord,
    decode_record,
    encode_record,
)
from ottla.protocol.metadata_log.access import UserScramCredentialRecord
from ottla.protocol.metadata_log.brokers import FenceBrokerRecord
from ottla.protocol.metadata_log.control import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    Voter,
    decode_control,
    encode_control,
)
from ottla.protocol.metadata_log.settings import ConfigRecord, FeatureLevelRecord
from ottla.protocol.metadata_log.transactions import NoOpRecord
from ottla.records.control import ControlType, read_control_type

GOLDEN = golden_records()
LOGS = {name: data for name, data in golden_files().items() if name.endswith((".log", ".checkpoint"))}


def test_every_type_and_version_is_among_the_golden_records() -> None:
    of_ours = {(number, version) for number, kind in KINDS.items() for version in kind.versions}
    assert {(number, version) for number, version, _, _ in GOLDEN} == of_ours
    assert len(GOLDEN) == 74


@pytest.mark.parametrize(("number", "version", "kind", "value"), GOLDEN)
def test_what_apache_serialized_is_written_back_byte_for_byte(
    number: int, version: int, kind: str, value: bytes
) -> None:
    record, read_version = decode_record(value)
    assert (record.record_type, read_version) == (number, version)
    assert encode_record(record, version) == value
    body = b"".join(codec.encode(record, version))
    assert b"".join(compiled.encode(record, version)) == body
    assert value.endswith(body)


@pytest.mark.parametrize("name", LOGS)
def test_every_record_of_a_log_of_apache_is_written_back_byte_for_byte(name: str) -> None:
    written = 0
    for batch, record in records_of(LOGS[name]):
        assert record.value is not None
        if batch.is_control:
            assert encode_control(decode_control(read_control_type(record.key), record.value)) == record.value
        else:
            assert encode_record(*decode_record(record.value)) == record.value
        written += 1
    assert written > 3


def test_one_control_batch_holds_several_records() -> None:
    log = LOGS["controller/__cluster_metadata-0/00000000000000000000.log"]
    kinds = [read_control_type(record.key) for batch, record in records_of(log) if batch.base_offset == 0]
    assert kinds == [ControlType.LEADER_CHANGE, ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS]


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"\x01\x06\x00\x00", "type 6 version 0"),
        (b"\x01\x1d\x00\x00", "type 29 version 0"),
        (b"\x01\x03\x03\x00", "PartitionRecord of version 3; known here are 0-2"),
        (b"\x00\x14\x00\x00", "frame version 0"),
        (b"\x02\x14\x00\x00", "frame version 2"),
    ],
)
def test_what_is_not_known_stops_the_reader(value: bytes, said: str) -> None:
    with pytest.raises(UnknownMetadataRecord, match=said):
        decode_record(value)


@pytest.mark.parametrize("value", [None, b"", b"\x01", b"\x01\x14", b"\x01\x14\x00\x00\x00", b"\x01\x0c\x00\x11meta"])
def test_a_value_that_is_cut_or_too_long_is_malformed(value: bytes | None) -> None:
    with pytest.raises(MalformedMessage):
        decode_record(value)


def test_control_records_that_are_not_known_stop_the_reader() -> None:
    with pytest.raises(UnknownMetadataRecord, match="type 7"):
        decode_control(7, b"\0\0")
    with pytest.raises(UnknownMetadataRecord, match="KRaftVersionRecord of version 1; known here are 0"):
        decode_control(ControlType.KRAFT_VERSION, b"\0\1\0\1\0")
    with pytest.raises(MalformedMessage, match="no room"):
        decode_control(ControlType.KRAFT_VERSION, b"\0")
    with pytest.raises(MalformedMessage, match="no room"):
        decode_control(ControlType.SNAPSHOT_FOOTER, None)


def test_a_leader_change_has_directories_from_version_1_on() -> None:
    voter = Voter(voter_id=3, voter_directory_id=b"d" * 16)
    message = LeaderChangeMessage(version=1, leader_id=3, voters=[voter], granting_voters=[])
    assert decode_control(ControlType.LEADER_CHANGE, encode_control(message)) == message
    assert encode_control(KRaftVersionRecord(k_raft_version=1)) == b"\0\0\0\1\0"


# --- the frame -------------------------------------------------------------------------------------------------------


def test_a_record_is_led_by_frame_version_type_and_version() -> None:
    record = FeatureLevelRecord(name="metadata.version", feature_level=30)
    assert encode_record(record, 0) == b"\x01\x0c\x00" + b"\x11metadata.version" + b"\x00\x1e" + b"\x00"
    assert encode_record(NoOpRecord(), 0) == b"\x01\x14\x00\x00"
    assert decode_record(encode_record(FenceBrokerRecord(id=1, epoch=2), 0)) == (FenceBrokerRecord(id=1, epoch=2), 0)


def test_secrets_are_not_printed() -> None:
    user = UserScramCredentialRecord(
        name="u", mechanism=1, salt=b"SALTY", stored_key=b"STORED", server_key=b"SERVER", iterations=4096
    )
    setting = ConfigRecord(resource_type=4, resource_name="", name="ssl.key.password", value="PASSWORD")
    assert not any(word in f"{user} {setting}" for word in ("SALTY", "STORED", "SERVER", "PASSWORD"))
