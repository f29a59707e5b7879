"""Probes of share groups: nobody has a session or a group there, so all of them can be sent again and again.

Sessions are left out: Kafka answers one whose group has no members with an error of its own. That topics are asked for
in sessions is shown by tests/unit/broker/sharing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.conformance.access.building import Id
from tests.conformance.access.probe import Probe
from tests.conformance.access.rules import GHOST, HIDDEN, OPEN, SHUT

ABSENT = (GHOST, HIDDEN)  # of topics that are there Kafka waits for states, or makes a group
MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"


def share_groups() -> Iterator[Probe]:
    beat = {"group_id": GHOST, "member_id": "nobody", "member_epoch": 5}
    yield Probe("ShareGroupHeartbeat", "nobody", beat)
    yield Probe("ShareGroupHeartbeat", "with topics", {**beat, "subscribed_topic_names": (OPEN, GHOST)})
    named = {"group_ids": (OPEN, SHUT, GHOST, HIDDEN), "include_authorized_operations": True}
    yield Probe("ShareGroupDescribe", "names", named)
    session = {"group_id": GHOST, "member_id": MEMBER, "share_session_epoch": 5}
    yield Probe("ShareFetch", "no session", {**session, "max_wait_ms": 0})
    yield Probe("ShareAcknowledge", "no session", session)
    yield from _offsets()
    yield from _states()


def _offsets() -> Iterator[Probe]:
    asked = [{"topic_name": each, "partitions": [0]} for each in ABSENT]
    groups = [{"group_id": each, "topics": asked} for each in (GHOST, HIDDEN)]
    yield Probe("DescribeShareGroupOffsets", "names", {"groups": groups})
    moved = {"partition_index": 0, "start_offset": 0}
    altered = [{"topic_name": each, "partitions": [moved]} for each in ABSENT]
    yield Probe("AlterShareGroupOffsets", "names", {"group_id": GHOST, "topics": altered})
    deleted = [{"topic_name": each} for each in ABSENT]
    yield Probe("DeleteShareGroupOffsets", "names", {"group_id": GHOST, "topics": deleted})


def _states() -> Iterator[Probe]:
    """Between brokers. Who may is told that nobody coordinates it: the topic of the states is not there."""
    more: dict[str, dict[str, Any]] = {
        "InitializeShareGroupState": {"state_epoch": 0, "start_offset": 0},
        "ReadShareGroupState": {"leader_epoch": 0},
        "WriteShareGroupState": {"state_epoch": 0, "leader_epoch": 0, "start_offset": 0, "state_batches": []},
        "DeleteShareGroupState": {},
        "ReadShareGroupStateSummary": {"leader_epoch": 0},
    }
    for api, values in more.items():
        topics = [{"topic_id": Id(OPEN), "partitions": [{"partition": 0, **values}]}]
        yield Probe(api, "no coordinator", {"group_id": GHOST, "topics": topics})
