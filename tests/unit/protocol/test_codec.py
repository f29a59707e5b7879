"""What both codecs promise beside the round trip: limits, null rules, versions, tags, sentences."""

import tracemalloc
from types import ModuleType

import pytest

from ottla.errors import MalformedMessage, Unwritable
from ottla.protocol import codec, compiled
from ottla.protocol.messages.api_versions import ApiVersionsResponse, SupportedFeatureKey
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest


@pytest.fixture(params=[codec, compiled], ids=["reference", "compiled"])
def machine(request: pytest.FixtureRequest) -> ModuleType:
    chosen: ModuleType = request.param
    return chosen


def produce(records: object = b"batch", name: str = "t") -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=records)
    return ProduceRequest(acks=-1, timeout_ms=30, topic_data=[TopicProduceData(name=name, partition_data=[partition])])


def test_records_are_handed_on_uncopied_by_the_encoder(machine: ModuleType) -> None:
    records = bytearray(b"x" * 5000)
    assert any(piece is records for piece in machine.encode(produce(records), 9))


def test_anything_with_a_length_can_stand_for_records(machine: ModuleType) -> None:
    class FileSlice:
        def __len__(self) -> int:
            return 77

    piece = FileSlice()
    assert machine.encode(produce(piece), 9)[1] is piece


def test_records_are_views_into_the_frame_when_decoded(machine: ModuleType) -> None:
    frame = bytearray(b"".join(codec.encode(produce(b"abc"), 9)))
    read = machine.decode(ProduceRequest, 9, frame)
    records = read.topic_data[0].partition_data[0].records
    assert records.obj is frame
    assert records == b"abc"


def test_an_absurd_count_is_refused_before_anything_is_allocated(machine: ModuleType) -> None:
    frame = b"\x7f\xff\xff\xff" + bytes(64)  # MetadataRequest 1: two billion topics in 64 bytes
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessage, match="2147483647 elements are announced, 64 bytes are left"):
            machine.decode(MetadataRequest, 1, frame)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (b"\xff\xff\xff\xfe", "a length of -2"),
        (b"\x00\x00\x00\x01\xff\xff", r"topics\[0\]\.name: may not be null"),
        (b"\x00\x00\x00\x01\x00\x05abc", "5 bytes are announced at position 6, 3 are left"),
        (b"\x00\x00\x00\x01\x00\x01\xff", "is not UTF-8"),
        (b"\x00\x00", "4 bytes are announced at position 0, 2 are left"),
    ],
)
def test_bad_bytes_are_refused_with_a_sentence_that_names_the_place(
    machine: ModuleType, frame: bytes, sentence: str
) -> None:
    with pytest.raises(MalformedMessage, match=sentence):
        machine.decode(MetadataRequest, 1, frame)


@pytest.mark.parametrize("lead", [b"\x80\x80\x80\x80\x80\x01", b"\xff\xff\xff\xff\x7f"])
def test_a_varint_that_does_not_fit_is_refused(machine: ModuleType, lead: bytes) -> None:
    with pytest.raises(MalformedMessage, match="does not fit into 32 bits"):
        machine.decode(MetadataRequest, 9, lead + bytes(10))


def test_a_string_longer_than_kafka_allows_is_refused_both_ways(machine: ModuleType) -> None:
    with pytest.raises(Unwritable, match="longest allowed"):
        machine.encode(produce(name="x" * 40_000), 9)
    frame = b"\x02" + bytes(16) + b"\xc1\xb8\x02" + b"x" * 40_000 + b"\0\0\0\0"
    with pytest.raises(MalformedMessage, match="longest allowed"):
        machine.decode(MetadataRequest, 12, frame)


def test_a_field_the_version_lacks_must_have_its_default_unless_it_is_ignorable(machine: ModuleType) -> None:
    with pytest.raises(Unwritable, match="require_stable: cannot be told at this version"):
        machine.encode(OffsetFetchRequest(group_id="g", topics=None, require_stable=True), 6)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[], rack_id="a")
    assert machine.decode(FetchRequest, 4, b"".join(machine.encode(request, 4))).rack_id == ""


def test_null_is_refused_where_the_version_does_not_know_it(machine: ModuleType) -> None:
    request = MetadataRequest(topics=None)
    assert b"".join(machine.encode(request, 1)) == b"\xff\xff\xff\xff"
    with pytest.raises(Unwritable, match="topics: may not be null"):
        machine.encode(request, 0)
    with pytest.raises(MalformedMessage, match="topics: may not be null"):
        machine.decode(MetadataRequest, 0, b"\xff\xff\xff\xff")


@pytest.mark.parametrize("version", [2, 14])
def test_a_version_that_does_not_exist_is_refused(machine: ModuleType, version: int) -> None:
    with pytest.raises(Unwritable, match=f"has versions 3-13, not {version}"):
        machine.encode(produce(), version)
    with pytest.raises(Unwritable, match=f"has versions 3-13, not {version}"):
        machine.decode(ProduceRequest, version, b"")


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        ({"acks": 70_000}, "acks: cannot be 70000"),
        ({"acks": "all"}, "acks: cannot be 'all'"),
        ({"topic_data": [None]}, r"topic_data\[0\]: may not be null"),
        ({"topic_data": 7}, "topic_data: cannot be 7"),
    ],
)
def test_a_value_that_does_not_fit_is_named(machine: ModuleType, broken: dict[str, object], sentence: str) -> None:
    request = produce()
    for name, value in broken.items():
        setattr(request, name, value)
    with pytest.raises(Unwritable, match=sentence):
        machine.encode(request, 9)


def test_a_uuid_of_another_length_is_refused(machine: ModuleType) -> None:
    request = produce()
    request.topic_data[0].topic_id = b"short"
    with pytest.raises(Unwritable, match="a uuid has 16 bytes, not 5"):
        machine.encode(request, 13)


def test_unknown_tags_are_kept_and_written_again(machine: ModuleType) -> None:
    request = MetadataRequest(topics=[])
    request.unknown_tags = {77: b"from the future", 5: b""}
    written = b"".join(machine.encode(request, 12))
    read = machine.decode(MetadataRequest, 12, written)
    assert read.unknown_tags == {5: b"", 77: b"from the future"}
    assert b"".join(machine.encode(read, 12)) == written


def test_unknown_tags_cannot_be_written_where_there_is_no_room(machine: ModuleType) -> None:
    request = MetadataRequest(topics=[])
    request.unknown_tags = {77: b""}
    with pytest.raises(Unwritable, match="unknown_tags"):
        machine.encode(request, 8)


def test_a_tagged_field_with_its_default_takes_no_room(machine: ModuleType) -> None:
    plain = ApiVersionsResponse(error_code=0, api_keys=[])
    told = ApiVersionsResponse(error_code=0, api_keys=[], finalized_features_epoch=3)
    assert len(b"".join(machine.encode(told, 3))) == len(b"".join(machine.encode(plain, 3))) + 10


def test_a_tag_with_bytes_left_over_is_refused(machine: ModuleType) -> None:
    epoch_tag = b"\x01" + b"\x01\x09" + bytes(9)  # tag 1 is an int64, but nine bytes came
    with pytest.raises(MalformedMessage, match="1 bytes too many in tag 1"):
        machine.decode(ApiVersionsResponse, 3, b"\0\0\x01\0\0\0\0" + epoch_tag)


def test_many_and_few_elements_are_written_alike(machine: ModuleType) -> None:
    for count in (0, 1, 63, 64, 126, 127, 128, 1000):
        topic = {"error_code": 0, "name": "t", "is_internal": False}
        partition = {"error_code": 0, "partition_index": 0, "leader_id": 0, "isr_nodes": []}
        message = MetadataResponse(
            brokers=[],
            topics=[
                MetadataResponse.fields[4].type.element(  # type: ignore[union-attr]
                    **topic,
                    partitions=[_metadata_partition()(**partition, replica_nodes=list(range(count)))],
                )
            ],
        )
        for version in (8, 12):
            written = b"".join(codec.encode(message, version))
            assert b"".join(machine.encode(message, version)) == written
            assert machine.decode(MetadataResponse, version, written) == message


def _metadata_partition() -> type:
    from ottla.protocol.messages.metadata import MetadataResponsePartition

    return MetadataResponsePartition


def test_secrets_are_never_shown() -> None:
    request = SaslAuthenticateRequest(auth_bytes=b"\0user\0password")
    assert "password" not in repr(request)
    assert "<secret>" in repr(request)


def test_records_are_shown_by_their_size() -> None:
    assert "<5 bytes>" in repr(produce())


def test_a_required_field_that_is_not_given_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="acks"):
        ProduceRequest(timeout_ms=1, topic_data=[])  # type: ignore[call-arg]


def test_defaults_are_not_shared_between_messages() -> None:
    first, second = FetchResponse(responses=[]), FetchResponse(responses=[])
    first.node_endpoints.append(None)  # type: ignore[arg-type]
    assert second.node_endpoints == []


def test_the_flat_functions_can_be_looked_at() -> None:
    assert "def decode(buf, pos, left=" in compiled.source(ProduceRequest, 9)


# -- a limit of entries ------------------------------------------------------------------------------------------------


def fetch_of(partitions: int) -> bytes:
    topic = FetchTopic(
        topic="t",
        partitions=[FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1) for n in range(partitions)],
    )
    return b"".join(compiled.encode(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic]), 12))


def test_the_entries_of_all_arrays_count_together(machine: ModuleType) -> None:
    written = fetch_of(9)
    read, _ = machine.decode_prefix(FetchRequest, 12, written, 0, 1 + 9)
    assert len(read.topics[0].partitions) == 9
    with pytest.raises(MalformedMessage, match="9 entries are 1 more than one message may have"):
        machine.decode_prefix(FetchRequest, 12, written, 0, 9)


def test_tags_and_arrays_in_tags_count_as_entries(machine: ModuleType) -> None:
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
    request.unknown_tags = dict.fromkeys(range(50, 60), b"")
    written = b"".join(codec.encode(request, 12))
    assert machine.decode_prefix(FetchRequest, 12, written, 0, 10)[0] == request
    with pytest.raises(MalformedMessage, match="more than one message may have"):
        machine.decode_prefix(FetchRequest, 12, written, 0, 9)
    answer = ApiVersionsResponse(
        error_code=0, api_keys=[], supported_features=[SupportedFeatureKey(name="f", min_version=0, max_version=1)] * 5
    )
    written = b"".join(codec.encode(answer, 3))
    assert machine.decode_prefix(ApiVersionsResponse, 3, written, 0, 1 + 5)[0] == answer
    with pytest.raises(MalformedMessage, match="5 entries are 1 more"):
        machine.decode_prefix(ApiVersionsResponse, 3, written, 0, 5)


@pytest.mark.parametrize("version", [15, 17])
@pytest.mark.parametrize("rack", ["", "a" * 200])
@pytest.mark.parametrize(
    ("state", "inner", "outer", "cluster_id"),
    [
        (ReplicaState(), None, None, None),
        (ReplicaState(replica_id=3, replica_epoch=1 << 40), None, None, None),
        (ReplicaState(replica_id=3), None, None, None),
        (ReplicaState(replica_id=3), {5: b"x"}, None, None),
        (ReplicaState(replica_id=3), None, {7: b"yy"}, None),
        (ReplicaState(replica_id=3), None, None, "a cluster"),
    ],
)
def test_a_tagged_struct_of_numbers_is_written_and_read_as_by_the_reference(
    version: int, rack: str, state: ReplicaState, inner: dict[int, bytes], outer: dict[int, bytes], cluster_id: str
) -> None:
    message = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[], replica_state=state, rack_id=rack)
    message.cluster_id, message.unknown_tags, state.unknown_tags = cluster_id, outer, inner
    frame = b"".join(codec.encode(message, version))
    assert b"".join(compiled.encode(message, version)) == frame
    assert compiled.decode(FetchRequest, version, frame) == codec.decode(FetchRequest, version, frame) == message
    for size in range(len(frame)):
        with pytest.raises(MalformedMessage):
            compiled.decode(FetchRequest, version, frame[:size])


def test_a_tagged_struct_of_numbers_counts_as_an_entry(machine: ModuleType) -> None:
    message = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[], replica_state=ReplicaState(replica_id=3))
    frame = b"".join(codec.encode(message, 17))
    assert machine.decode_prefix(FetchRequest, 17, frame, 0, 1)[0] == message
    with pytest.raises(MalformedMessage):
        machine.decode_prefix(FetchRequest, 17, frame, 0, 0)
