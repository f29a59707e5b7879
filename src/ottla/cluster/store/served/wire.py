"""What members and the keeper of the truth say to each other: frames of JSON.

    length      uint32, big-endian     bytes of the content
    content     JSON in ASCII          a call, an answer or a notice

    {"id": 7, "call": "commit", "changes": [...], "elected": [1, 5]}     a call of a member
    {"id": 7, "value": ...}                                              its answer
    {"id": 7, "error": ["StaleImage", "..."]}                            or why not
    {"event": {"kind": "config-changed"}, "changes": [...]}              a notice

1. `Frames` takes bytes as they come and gives whole frames. A length above the limit is BadFrame before anything of it
   is kept; so a stranger costs at most the limit.
2. Values are read by their types (json_values.py): what does not fit is MalformedValue, and nothing of it is done.
3. An error that a member knows how to treat keeps its class; every other one is a KafkaStorageError with its words.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

import ottla
from ottla.cluster.changes import Change, IllegalChange
from ottla.cluster.image import ClusterImage
from ottla.cluster.json_values import MalformedValue, from_json, to_json
from ottla.cluster.store.events import (
    BrokersChanged,
    ConfigChanged,
    ControllerChanged,
    DeletionsAsked,
    ElectionAsked,
    LogDirFailed,
    PartitionStatesChanged,
    ReassignmentAsked,
    StoreEvent,
    TopicsChanged,
)
from ottla.cluster.store.interface import BrokerIdTaken, ControllerMoved, NoSession, StaleImage, StoreFailed
from ottla.cluster.store.member import Notice
from ottla.cluster.store.shared import take_in
from ottla.cluster.written import UnknownChange, changes_for, read_change, rebuilt, write_change
from ottla.errors import KafkaStorageError, OttlaError

LENGTH: Final = struct.Struct(">I")
FRAME_LIMIT_BYTES: Final = 64 << 20
"""A decision about 300,000 partitions, or a cluster of so many."""
HELLO_LIMIT_BYTES: Final = 64 << 10
"""What may come before it is known who asks."""


class BadFrame(OttlaError):
    """The other side of the metadata socket does not speak our protocol; the connection is closed."""


class Frames:
    """Bytes come in, whole frames go out; `limit_bytes` may grow while it is used."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        self._bytes += data
        while len(self._bytes) >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._bytes)
            if length > self.limit_bytes:
                raise BadFrame(f"a frame of {length} bytes is above the limit of {self.limit_bytes}")
            end = LENGTH.size + length
            if len(self._bytes) < end:
                return
            content = bytes(self._bytes[LENGTH.size : end])
            del self._bytes[:end]
            yield _parsed(content)


def frame(content: Mapping[str, Any]) -> bytes:
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    if len(text) > FRAME_LIMIT_BYTES:
        raise KafkaStorageError(f"a change of {len(text)} bytes is above the limit of {FRAME_LIMIT_BYTES}")
    return LENGTH.pack(len(text)) + text


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise BadFrame("a frame is not JSON") from None
    if not isinstance(found, dict):
        raise BadFrame("a frame is not an object")
    return found


# --- changes and images ----------------------------------------------------------------------------------------------


def write_changes(changes: tuple[Change, ...] | list[Change]) -> list[Any]:
    return [write_change(each) for each in changes]


def read_changes(data: Any) -> tuple[Change, ...]:
    if not isinstance(data, list):
        raise MalformedValue("expected a list of changes")
    try:
        return tuple(read_change(each, written_by="another process") for each in data)
    except UnknownChange as error:
        raise MalformedValue(str(error)) from None


def write_image(image: ClusterImage) -> dict[str, Any]:
    return {
        "by": ottla.__version__,
        "cluster_id": image.cluster_id,
        "number": image.change_number,
        "changes": write_changes(list(changes_for(image))),
    }


def read_image(data: Any) -> ClusterImage:
    if not isinstance(data, dict):
        raise MalformedValue("expected an image")
    number, cluster_id = from_json(int, data.get("number")), from_json(str, data.get("cluster_id"))
    return rebuilt(cluster_id, read_changes(data.get("changes")), number, take_in)


# --- notices ---------------------------------------------------------------------------------------------------------

_EVENTS: Final[Mapping[str, type]] = {
    "controller-changed": ControllerChanged,
    "config-changed": ConfigChanged,
    "brokers-changed": BrokersChanged,
    "topics-changed": TopicsChanged,
    "deletions-asked": DeletionsAsked,
    "partition-states-changed": PartitionStatesChanged,
    "reassignment-asked": ReassignmentAsked,
    "election-asked": ElectionAsked,
    "log-dir-failed": LogDirFailed,
}
_KIND_OF: Final = {of: kind for kind, of in _EVENTS.items()}


def write_notice(notice: Notice) -> dict[str, Any]:
    event = notice.event
    fields = {} if isinstance(event, ConfigChanged) else to_json(event)  # its changes are the notice's
    return {"event": {"kind": _KIND_OF[type(event)], **fields}, "changes": write_changes(notice.changes)}


def read_notice(data: Mapping[str, Any]) -> Notice:
    changes, written = read_changes(data.get("changes")), data.get("event")
    if not isinstance(written, dict):
        raise MalformedValue("expected an event")
    of = _EVENTS.get(str(written.get("kind")))
    if of is None:
        raise MalformedValue(f"there is no event {written.get('kind')!r}")
    if of is ConfigChanged:
        return Notice(ConfigChanged(changes), changes)
    event: StoreEvent = from_json(of, {name: item for name, item in written.items() if name != "kind"})
    return Notice(event, changes)


# --- errors ----------------------------------------------------------------------------------------------------------

_ERRORS: Final[Mapping[str, type[OttlaError]]] = {
    each.__name__: each
    for each in (StaleImage, ControllerMoved, BrokerIdTaken, IllegalChange, StoreFailed, NoSession, MalformedValue)
}


def write_error(error: Exception) -> list[str]:
    return [type(error).__name__, str(getattr(error, "detail", None) or error)]


def read_error(data: Any) -> OttlaError:
    kind, text = from_json(tuple[str, str], data)
    return _ERRORS.get(kind, KafkaStorageError)(text)
