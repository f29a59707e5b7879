"""Headers: which API uses which, and the two things that never changed."""

import struct

import pytest

from ottla.errors import MalformedMessage, UnsupportedVersion
from ottla.protocol.api import APIS, APIS_BY_NAME, api_of
from ottla.protocol.header import (
    HEADER_LIMIT_BYTES,
    HEADER_TAGS_LIMIT,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    read_correlation_id,
    request_header_version,
    response_header_version,
)
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.primitives import write_uvarint


def test_a_request_of_the_old_kind_has_header_1() -> None:
    frame = b"".join(encode_request(MetadataRequest(topics=[]), version=1, correlation_id=7, client_id="me"))
    assert frame == b"\0\x03\0\x01\0\0\0\x07\0\x02me" + b"\0\0\0\0"


def test_the_client_id_keeps_its_old_length_in_header_2() -> None:
    frame = b"".join(encode_request(MetadataRequest(topics=[]), version=12, correlation_id=7, client_id="me"))
    assert frame.startswith(b"\0\x03\0\x0c\0\0\0\x07\0\x02me\0")


def test_controlled_shutdown_0_has_no_client_id() -> None:
    request = ControlledShutdownRequest(broker_id=5)
    frame = b"".join(encode_request(request, version=0, correlation_id=1, client_id="dropped"))
    assert frame == b"\0\x07\0\0\0\0\0\x01" + b"\0\0\0\x05"
    header, read = decode_request(frame)
    assert (header.client_id, read) == (None, request)


def test_api_versions_always_answers_with_header_0() -> None:
    assert {response_header_version(18, version) for version in APIS[18].versions} == {0}
    response = ApiVersionsResponse(error_code=0, api_keys=[])
    frame = b"".join(encode_response(response, version=3, correlation_id=9))
    assert frame == b"\0\0\0\x09" + b"\0\0\x01\0\0\0\0\0"
    assert decode_response(APIS[18], 3, frame) == (9, response)


@pytest.mark.parametrize("api", APIS.values(), ids=str)
def test_flexible_versions_have_the_newer_headers(api: object) -> None:
    for version in api.versions:  # type: ignore[attr-defined]
        flexible = version >= api.flexible_since  # type: ignore[attr-defined]
        assert (request_header_version(api.key, version) == 2) is flexible  # type: ignore[attr-defined]
        if api.key != 18:  # type: ignore[attr-defined]
            assert (response_header_version(api.key, version) == 1) is flexible  # type: ignore[attr-defined]


def test_records_stay_uncopied_behind_the_header() -> None:
    records = bytearray(2000)
    partition = PartitionProduceData(index=0, records=records)
    request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=[partition])])
    pieces = encode_request(request, version=9, correlation_id=1, client_id=None)
    assert [piece is records for piece in pieces] == [False, True, False]
    frame = bytearray(b"".join(pieces))
    _, read = decode_request(frame)
    assert isinstance(read, ProduceRequest)
    assert read.topic_data[0].partition_data[0].records.obj is frame


@pytest.mark.parametrize("version", [0, 9, 13])
def test_what_a_client_asks_and_a_broker_answers_comes_back(version: int) -> None:
    request = MetadataRequest(topics=[])
    frame = b"".join(encode_request(request, version=version, correlation_id=1 << 30, client_id=None))
    header, read = decode_request(frame)
    assert (header.correlation_id, header.client_id, read) == (1 << 30, None, request)
    answer = MetadataResponse(brokers=[], topics=[])
    frame = b"".join(encode_response(answer, version=version, correlation_id=-1))
    assert read_correlation_id(frame) == -1
    assert decode_response(api_of(request), version, frame) == (-1, answer)


def test_an_api_or_version_we_do_not_speak_is_named() -> None:
    with pytest.raises(UnsupportedVersion, match="API key 999"):
        decode_request_header(b"\x03\xe7\0\0\0\0\0\0\xff\xff")
    with pytest.raises(UnsupportedVersion, match=r"Produce \(key 0\) is spoken here in versions 3-13, not 2"):
        decode_request_header(b"\0\0\0\x02\0\0\0\0\xff\xff")


def test_the_header_of_an_api_versions_request_from_the_future_can_be_read() -> None:
    """So that the broker can answer error 35 with its own list instead of closing the connection."""
    header, _ = decode_request_header(b"\0\x12\0\x63\0\0\0\x05\0\x01x\0" + b"whatever comes")
    assert (header.request_api_version, header.correlation_id, header.client_id) == (99, 5, "x")
    with pytest.raises(UnsupportedVersion):
        decode_request(b"\0\x12\0\x63\0\0\0\x05\0\x01x\0")


@pytest.mark.parametrize("frame", [b"", b"\0", b"\0\x03\0", b"\0\x03\0\x01\0\0", b"\0\x03\0\x01\0\0\0\0\0\x09abc"])
def test_a_frame_without_room_for_its_header_is_malformed(frame: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_request(frame)


def test_an_answer_without_room_for_its_correlation_id_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        read_correlation_id(b"\0\0")


# -- headers that ask for work -----------------------------------------------------------------------------------------


def header_frame(client_id: bytes, tags: list[bytes], *, key: int = 18, version: int = 3) -> bytes:
    fixed = struct.pack(">hhih", key, version, 7, len(client_id)) + client_id
    written = [write_uvarint(number) + write_uvarint(len(content)) + content for number, content in enumerate(tags)]
    return fixed + write_uvarint(len(tags)) + b"".join(written)


def test_the_longest_client_id_and_some_tags_of_the_future_are_read() -> None:
    frame = header_frame(b"x" * 32767, [b"t" * 64] * HEADER_TAGS_LIMIT)
    header, position = decode_request_header(memoryview(frame + bytes(1_000_000)))
    assert (len(header.client_id or ""), len(header.unknown_tags or {}), position) == (32767, 64, len(frame))


@pytest.mark.parametrize(
    ("tags", "bytes_behind"),
    [([b""] * (HEADER_TAGS_LIMIT + 1), 0), ([b"t" * HEADER_LIMIT_BYTES], 0), ([b"t" * HEADER_LIMIT_BYTES], 1_000_000)],
    ids=["too many tags", "too many bytes", "too many bytes in a large frame"],
)
def test_a_header_that_asks_for_much_work_is_refused_with_its_limits(tags: list[bytes], bytes_behind: int) -> None:
    with pytest.raises(MalformedMessage, match="40960 bytes and 64 tagged fields are allowed"):
        decode_request_header(memoryview(header_frame(b"x", tags) + bytes(bytes_behind)))


def test_a_count_of_millions_of_tags_is_refused_after_the_first_few() -> None:
    frame = header_frame(b"x", [])[:-1] + b"\x80\xda\xc4\x09" + b"\x01\x00" * 20_000_000
    with pytest.raises(MalformedMessage, match="1 entries are 1 more than one message may have"):
        decode_request_header(memoryview(frame))


def test_the_header_of_an_answer_has_the_same_limits() -> None:
    tags = header_frame(b"", [b""] * (HEADER_TAGS_LIMIT + 1))[10:]
    with pytest.raises(MalformedMessage, match="64 tagged fields are allowed"):
        decode_response(APIS[3], 13, struct.pack(">i", 7) + tags + bytes(100))


def test_every_api_asked_for_is_in_the_table() -> None:
    assert list(APIS) == list(range(93))
    assert APIS_BY_NAME["Produce"] is APIS[0]
    for api in APIS.values():
        assert api.request.versions == api.response.versions == api.versions
        assert api_of(api.request) is api_of(api.response) is api


def test_an_unstable_version_is_spoken_but_not_advertised() -> None:
    assert str(APIS[22].versions) == "0-6"
    assert str(APIS[22].advertised) == "0-5"
    assert APIS[0].advertised == APIS[0].versions


def test_api_versions_request_is_an_api_versions_request() -> None:
    assert api_of(ApiVersionsRequest) is APIS[18]
    with pytest.raises(KeyError):
        api_of(TopicProduceData)  # type: ignore[arg-type]


def test_bytes_behind_a_body_are_passed_over_as_kafka_does() -> None:
    """librdkafka 2.16 leaves three bytes behind a MetadataRequest 13 for all topics (librdkafka #5049)."""
    request = MetadataRequest(topics=None)
    frame = b"".join(encode_request(request, version=13, correlation_id=1, client_id="rdkafka")) + b"\0\0\0"
    assert decode_request(frame)[1] == request
    answer = MetadataResponse(brokers=[], topics=[])
    frame = b"".join(encode_response(answer, version=13, correlation_id=1)) + b"\0"
    assert decode_response(APIS[3], 13, frame) == (1, answer)
