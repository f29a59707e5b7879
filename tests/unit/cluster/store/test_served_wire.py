"""What goes over the metadata socket: everything reads back, nothing that is too long or makes no sense gets in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cluster.changes import AlterConfig, CreateTopic, IllegalChange, SetController, SetStoredValue
from ottla.cluster.image import ClusterImage
from ottla.cluster.json_values import MalformedValue
from ottla.cluster.model import ALL_BROKERS, Broker, ConfigResource, Endpoint, Partition, ResourceType, Topic
from ottla.cluster.store.events import (
    BrokersChanged,
    ConfigChanged,
    Controller,
    ControllerChanged,
    DeletionsAsked,
    ElectionAsked,
    LogDirFailed,
    PartitionStatesChanged,
    ReassignmentAsked,
    TopicsChanged,
    deletion_asked,
)
from ottla.cluster.store.interface import BrokerIdTaken, ControllerMoved, StaleImage
from ottla.cluster.store.member import Notice
from ottla.cluster.store.served.wire import (
    LENGTH,
    BadFrame,
    Frames,
    frame,
    read_error,
    read_image,
    read_notice,
    write_error,
    write_image,
    write_notice,
)
from ottla.cluster.store.shared import take_in
from ottla.errors import KafkaStorageError
from ottla.values import TopicPartition

BROKER = Broker(1, (Endpoint("PLAINTEXT", "host", 9092),), epoch=7, rack="r")
PARTITION = Partition((1, 2), (1,), 1, 3, 4)
TOPIC = Topic("t", b"t" * 16, (PARTITION,))
CONFIG = AlterConfig(ALL_BROKERS, (("a", "b"), ("c", None)))
NAME = TopicPartition("t", 0)
NOTICES = [
    Notice(ControllerChanged(Controller(1, 2)), (SetController(1, 2),)),
    Notice(ControllerChanged(None), (SetController(-1, 2),)),
    Notice(ConfigChanged((CONFIG,)), (CONFIG,)),
    Notice(BrokersChanged((BROKER,))),
    Notice(TopicsChanged((TOPIC,), ("gone",))),
    Notice(DeletionsAsked(("t",)), (SetStoredValue(deletion_asked("t"), ""),)),
    Notice(PartitionStatesChanged(((NAME, PARTITION),))),
    Notice(ReassignmentAsked(((NAME, (1, 2)),))),
    Notice(ElectionAsked((NAME,))),
    Notice(LogDirFailed((1, 2))),
]


@pytest.mark.parametrize("notice", NOTICES, ids=lambda notice: type(notice.event).__name__)
def test_every_notice_reads_back_as_it_was_written(notice: Notice) -> None:
    (found,) = Frames(1000).feed(frame(write_notice(notice)))
    assert read_notice(found) == notice


def test_an_image_reads_back_with_settings_of_a_topic_that_is_not_in_it() -> None:
    settings = AlterConfig(ConfigResource(ResourceType.TOPIC, "unknown"), (("a", "b"),))
    image = take_in(ClusterImage("c"), [CreateTopic(TOPIC), settings, CONFIG, SetController(3, 4)])
    assert read_image(json.loads(json.dumps(write_image(image)))) == image


def test_errors_that_a_member_treats_keep_their_class() -> None:
    for error in (StaleImage("x"), ControllerMoved("x"), BrokerIdTaken("x"), IllegalChange("x")):
        found = read_error(json.loads(json.dumps(write_error(error))))
        assert (type(found), str(found)) == (type(error), str(error))
    other = read_error(write_error(ValueError("strange")))
    assert type(other) is KafkaStorageError
    assert "strange" in str(other)


@given(st.lists(st.dictionaries(st.text(max_size=5), st.integers(), max_size=3), max_size=5), st.data())
def test_frames_come_out_whole_however_the_bytes_come(contents: list[dict[str, int]], data: st.DataObject) -> None:
    whole = b"".join(map(frame, contents))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    frames, found = Frames(1000), []
    for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        found += frames.feed(whole[begin:end])
    assert found == contents


def test_a_length_above_the_limit_is_refused_before_anything_of_it_comes() -> None:
    with pytest.raises(BadFrame, match="above the limit of 10"):
        list(Frames(10).feed(LENGTH.pack(11)))


@pytest.mark.parametrize("content", [b"", b"x", b"[1]", b"5", b"\xff", b"[" * 100_000])
def test_what_is_no_object_in_json_is_refused(content: bytes) -> None:
    with pytest.raises(BadFrame):
        list(Frames(1 << 20).feed(LENGTH.pack(len(content)) + content))


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"event": 5, "changes": []},
        {"event": {"kind": "no-such"}, "changes": []},
        {"event": {"kind": "brokers-changed"}, "changes": []},
        {"event": {"kind": "brokers-changed", "live": [{"id": "x"}]}, "changes": []},
        {"event": {"kind": "config-changed"}, "changes": [{"kind": "no-such"}]},
        {"event": {"kind": "config-changed"}, "changes": {"a": 1}},
    ],
)
def test_a_notice_that_makes_no_sense_is_refused(content: dict[str, Any]) -> None:
    with pytest.raises(MalformedValue):
        read_notice(content)
