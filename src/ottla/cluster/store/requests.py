"""Requests to the controller that wait in the truth.

Two of them are JSON that Kafka's old tools write, kept in the image as the text that was found:

    REASSIGNMENT_ASKED    {"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}
    ELECTION_ASKED        {"version":1,"partitions":[{"topic":"t","partition":0}]}

The third kind is one empty text per topic that is to be deleted. A text that cannot be read asks for nothing: its
event names no partition, and the controller takes it away, as Kafka's does.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from ottla.cluster.image import ClusterImage
from ottla.cluster.model import StoredKey
from ottla.cluster.store.events import (
    DELETION_ASKED,
    ELECTION_ASKED,
    REASSIGNMENT_ASKED,
    DeletionsAsked,
    ElectionAsked,
    ReassignmentAsked,
    StoreEvent,
)
from ottla.values import TopicPartition

log = logging.getLogger(__name__)


def is_request(key: StoredKey) -> bool:
    """Whether the value asks the controller for something."""
    return key.kind in (DELETION_ASKED, ELECTION_ASKED.kind)


def request_event(key: StoredKey, text: str) -> StoreEvent | None:
    """What the controller hears of a request."""
    if key.kind == DELETION_ASKED:
        return DeletionsAsked((key.key,))
    if key == REASSIGNMENT_ASKED:
        entries = _entries(text, "replicas")
        return ReassignmentAsked(tuple((_name(each), tuple(map(int, each["replicas"]))) for each in entries))
    if key == ELECTION_ASKED:
        return ElectionAsked(tuple(map(_name, _entries(text))))
    return None


def requests_in(image: ClusterImage) -> list[StoreEvent]:
    """All requests that wait, one event for all deletions."""
    deletions = tuple(image.stored(DELETION_ASKED))
    events: list[StoreEvent | None] = [DeletionsAsked(deletions) if deletions else None]
    for key in (REASSIGNMENT_ASKED, ELECTION_ASKED):
        if (text := image.stored_values.get(key)) is not None:
            events.append(request_event(key, text))
    return [event for event in events if event is not None]


def _entries(text: str, *needed: str) -> list[dict[str, Any]]:
    try:
        entries = json.loads(text)["partitions"]
        return [each for each in entries if all(name in each for name in ("topic", "partition", *needed))]
    except (ValueError, KeyError, TypeError) as problem:
        log.warning("a request to the controller cannot be read and is passed over (%s): %.200s", problem, text)
        return []


def _name(entry: dict[str, Any]) -> TopicPartition:
    return TopicPartition(str(entry["topic"]), int(entry["partition"]))
