"""kill -9 of a broker under share consumers, then a start on the same data.

Two members take turns over bare sockets, so that nothing is fetched ahead and the order of what they hear is known:

1. Every record is delivered, and in the end accepted or rejected. When the answer to that was lost, it may have been
   done all the same: such a record need not come again.
2. What was accepted or rejected, and answered, is never delivered again.
3. The delivery count of a record never goes back, and never beyond the limit.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.conformance.our_broker import BrokerProcess
from tests.conformance.test_share_groups import begin_at_the_start, produce, send
from tests.conformance.transaction_probes import Wire
from tests.patience import HANG_S

from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from ottla.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.records import RecordStream
from ottla.values import uuid_to_text

ROUNDS = int(os.environ.get("OTTLA_KILL_ROUNDS", "2"))
LONG_ROUNDS = 15
RECORDS = 20
"""For each round; every round begins with new ones, so that there is something to acknowledge when the kill comes."""
ACCEPT, RELEASE, REJECT = 1, 2, 3
PAUSE_S = 0.02


class Member:
    """One member; whatever fails, it begins again with a new connection."""

    def __init__(self, address: str, number: int, random: Random) -> None:
        self._address = address
        self._random = random
        self._id = uuid_to_text(bytes([number]) * 16)
        self._wire: Wire | None = None
        self._epoch = self._session = 0
        self._places: list[tuple[bytes, int]] = []

    def turn(self, story: Story) -> None:
        """Fetch once, and say something about most of what came."""
        try:
            self._connect()
            assert self._wire is not None
            answer = self._wire.ask(self._fetch(), 2)
            if answer.error_code:
                raise ConnectionError(f"error {answer.error_code}")
            self._session += 1
            for topic in answer.responses:
                for partition in topic.partitions:
                    self._say(topic.topic_id, partition, story)
        except (ConnectionError, OSError):
            self.close()
            time.sleep(PAUSE_S)

    def close(self) -> None:
        if self._wire is not None:
            self._wire.__exit__(None, None, None)
        self._wire, self._session, self._epoch = None, 0, 0

    def _connect(self) -> None:
        if self._wire is not None:
            return
        self._wire = Wire(self._address)
        self._wire.ask(FindCoordinatorRequest(coordinator_keys=["workers"], key_type=0), 4)
        self._places = []
        request = ShareGroupHeartbeatRequest(
            group_id="workers", member_id=self._id, member_epoch=0, subscribed_topic_names=["orders"]
        )
        answer = self._wire.ask(request, 1)
        if answer.error_code or not answer.assignment.topic_partitions:
            raise ConnectionError("no partitions yet")
        self._places = [
            (each.topic_id, index) for each in answer.assignment.topic_partitions for index in each.partitions
        ]

    def _fetch(self) -> ShareFetchRequest:
        topics = [
            FetchTopic(topic_id=topic, partitions=[FetchPartition(partition_index=each, acknowledgement_batches=[])])
            for topic, each in self._places
        ]
        return ShareFetchRequest(
            group_id="workers",
            member_id=self._id,
            share_session_epoch=self._session,
            max_wait_ms=20,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=5,
            batch_size=5,
            share_acquire_mode=1,
            topics=[] if self._session else topics,
            forgotten_topics_data=[],
        )

    def _say(self, topic_id: bytes, found: Any, story: Story) -> None:
        offsets = []
        for each in found.acquired_records:
            for offset in range(each.first_offset, each.last_offset + 1):
                story.delivered(found.partition_index, offset, each.delivery_count)
                offsets.append((offset, each.delivery_count))
        story.check_values(found.records)
        said = [(at, self._word(count)) for at, count in offsets if self._random.random() < 0.9]
        if not said:
            return
        batches = [AcknowledgementBatch(first_offset=at, last_offset=at, acknowledge_types=[word]) for at, word in said]
        partition = AcknowledgePartition(partition_index=found.partition_index, acknowledgement_batches=batches)
        request = ShareAcknowledgeRequest(
            group_id="workers",
            member_id=self._id,
            share_session_epoch=self._session,
            topics=[AcknowledgeTopic(topic_id=topic_id, partitions=[partition])],
        )
        assert self._wire is not None
        ended = [at for at, word in said if word != RELEASE]
        story.asked(found.partition_index, ended)
        answer = self._wire.ask(request, 2)
        self._session += 1
        if answer.error_code == 0 and answer.responses[0].partitions[0].error_code == 0:
            story.answered(found.partition_index, ended)

    def _word(self, count: int) -> int:
        return ACCEPT if count >= 3 else self._random.choice([ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT])


class Story:
    """What both members heard, in its order."""

    def __init__(self) -> None:
        self.counts: dict[tuple[int, int], int] = {}
        self.done: set[tuple[int, int]] = set()
        self.unanswered: set[tuple[int, int]] = set()

    @property
    def ended_count(self) -> int:
        return len(self.done | self.unanswered)

    def delivered(self, partition: int, offset: int, count: int) -> None:
        place = (partition, offset)
        assert place not in self.done, f"{place} was acknowledged, answered, and comes again"
        assert count >= self.counts.get(place, 0), (
            f"the count of {place} went back from {self.counts[place]} to {count}"
        )
        self.counts[place] = count
        self.unanswered.discard(place)

    def asked(self, partition: int, offsets: list[int]) -> None:
        self.unanswered |= {(partition, at) for at in offsets}

    def answered(self, partition: int, offsets: list[int]) -> None:
        self.done |= {(partition, at) for at in offsets}
        self.unanswered -= self.done

    def check_values(self, records: bytes) -> None:
        for batch in RecordStream(records):
            batch.check()


def play(tmp_path: Path, rounds: int, seed: int) -> None:
    random = Random(seed)
    settings = {"share.coordinator.state.topic.num.partitions": "2", "group.share.record.lock.duration.ms": "1000"}
    limits = {"group.share.min.record.lock.duration.ms": "1000", "group.share.delivery.count.limit": "10"}
    more = {"group.share.max.delivery.count.limit": "25"}
    with BrokerProcess(tmp_path, {**settings, **limits, **more}) as broker:
        produce(broker.bootstrap_servers, "orders", RECORDS, 2)
        total = RECORDS
        begin_at_the_start(broker.bootstrap_servers, "workers")
        story = Story()
        members = [Member(broker.bootstrap_servers, number, random) for number in (1, 2)]
        for _ in range(rounds):
            send(broker.bootstrap_servers, "orders", RECORDS)
            total += RECORDS
            killing = threading.Timer(random.uniform(0.0, 0.2), broker.kill)
            end_s = time.monotonic() + HANG_S
            while total - story.ended_count > RECORDS and time.monotonic() < end_s:
                random.choice(members).turn(story)
            killing.start()
            while killing.is_alive():
                random.choice(members).turn(story)
            killing.join()
            broker.start()
        end_s = time.monotonic() + HANG_S
        while story.ended_count < total and time.monotonic() < end_s:
            random.choice(members).turn(story)
        for member in members:
            with contextlib.suppress(OSError):
                member.close()
        missing = {(part, at) for part, at in story.counts if (part, at) not in story.done | story.unanswered}
        assert story.ended_count == total, f"not done: {sorted(missing)}"
        assert broker.faults() == []


def test_what_was_acknowledged_stays_so_when_the_broker_is_killed(tmp_path: Path) -> None:
    play(tmp_path, ROUNDS, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_what_was_acknowledged_stays_so_however_often_the_broker_is_killed(tmp_path: Path, seed: int) -> None:
    play(tmp_path, LONG_ROUNDS, seed)
