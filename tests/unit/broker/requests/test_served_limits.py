"""How large a frame may be, by its API."""

import pytest

from ottla.broker.requests.served import (
    ANY_FRAME_BYTES,
    BLOB_FRAME_BYTES,
    LIST_FRAME_BYTES,
    SMALL_FRAME_BYTES,
    frame_limit_bytes,
)
from ottla.errors import FrameTooLarge
from ottla.net.framing import CHUNK_BYTES, SIZE, FrameReader
from ottla.protocol.api import APIS_BY_NAME

SMALL = ["ApiVersions", "SaslHandshake", "Heartbeat", "InitProducerId", "EndTxn", "AddOffsetsToTxn", "DescribeCluster"]
WITH_LISTS = ["Metadata", "JoinGroup", "OffsetCommit", "CreateTopics", "Fetch", "ConsumerGroupHeartbeat"]


@pytest.mark.parametrize(
    ("names", "limit_bytes"),
    [
        (SMALL, SMALL_FRAME_BYTES),
        (["SaslAuthenticate"], BLOB_FRAME_BYTES),
        (WITH_LISTS, LIST_FRAME_BYTES),
        (["Produce", "PushTelemetry"], ANY_FRAME_BYTES),
    ],
)
def test_a_frame_may_be_as_large_as_its_api_can_need(names: list[str], limit_bytes: int) -> None:
    assert {frame_limit_bytes(APIS_BY_NAME[name].key) for name in names} == {limit_bytes}


def test_what_is_no_api_of_ours_may_be_small_only() -> None:
    assert frame_limit_bytes(999) == frame_limit_bytes(-1) == SMALL_FRAME_BYTES


def test_a_small_api_with_a_large_frame_is_refused_by_its_first_bytes() -> None:
    assert SMALL_FRAME_BYTES <= CHUNK_BYTES // 2, "smaller frames are not looked at before they are whole"
    reader = FrameReader(kind_limit_bytes=frame_limit_bytes)
    first_bytes = SIZE.pack(SMALL_FRAME_BYTES + 1) + APIS_BY_NAME["ApiVersions"].key.to_bytes(2, "big")
    reader.get_buffer()[: len(first_bytes)] = first_bytes
    with pytest.raises(FrameTooLarge, match="65537 bytes, the limit is 65536 for its kind"):
        reader.received(len(first_bytes))
