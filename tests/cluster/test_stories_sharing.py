"""Share groups in a cluster: leaders of partitions and of the state topic crash, and members go on elsewhere.

A member speaks over bare sockets, one connection to each leader, so that nothing is fetched ahead. Every record is
delivered and in the end accepted, nothing that was answered comes again, and no delivery count goes back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random

import pytest
from tests.conformance.test_share_kill_nine import Story
from tests.conformance.transaction_probes import Wire
from tests.patience import HANG_S

import ottla
from ottla.broker.coordinators.placement import partition_for_name
from ottla.broker.coordinators.share_state.state import ShareKey
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from ottla.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.testing import KafkaCluster
from ottla.values import uuid_to_text

GROUP, TOPIC, STATE = "workers", "orders", "__share_group_state"
RECORDS = 30
ACCEPT, RELEASE = 1, 2
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": 3,
    "share.coordinator.state.topic.replication.factor": 3,
    "share.coordinator.state.topic.min.isr": 1,
}


@pytest.fixture
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(3, SETTINGS) as cluster:
        with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([ottla.NewTopic(TOPIC, 2, 3)], timeout=HANG_S)
        with ottla.Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
            for number in range(RECORDS):
                producer.send(TOPIC, b"%d" % number, partition=number % 2)
            producer.flush(HANG_S)
        config = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
        resource = AlterConfigsResource(resource_type=32, resource_name=GROUP, configs=[config])
        with Wire(cluster.bootstrap_servers.partition(",")[0]) as wire:
            answer = wire.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        assert answer.responses[0].error_code == 0
        yield cluster


class Member:
    def __init__(self, cluster: KafkaCluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self._id = uuid_to_text(bytes([7]) * 16)
        self.places: list[tuple[bytes, int]] = []
        self._leaders: dict[int, tuple[Wire, int, int]] = {}  # by partition: connection, leader and session epoch

    def turn(self, story: Story) -> None:
        """Fetch one partition from its leader, and say something about what came; join again after any trouble."""
        try:
            self._join()
            place = self._random.choice(self.places)
            self._share(place, story)
        except (ConnectionError, OSError, RuntimeError):
            self.close()
            time.sleep(0.02)

    def close(self) -> None:
        for wire, _, _ in self._leaders.values():
            wire.__exit__(None, None, None)
        self._leaders, self.places = {}, []

    def _join(self) -> None:
        if self.places:
            return
        with Wire(self._cluster.bootstrap_servers.partition(",")[0]) as wire:
            found = wire.ask(FindCoordinatorRequest(coordinator_keys=[GROUP], key_type=0), 4).coordinators[0]
        if found.error_code:
            raise ConnectionError("no coordinator yet")
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id=self._id, member_epoch=0, subscribed_topic_names=[TOPIC]
        )
        with Wire(f"{found.host}:{found.port}") as wire:
            answer = wire.ask(request, 1)
        if answer.error_code or not answer.assignment.topic_partitions:
            raise ConnectionError("no partitions yet")
        assigned = answer.assignment.topic_partitions
        self.places = [(each.topic_id, index) for each in assigned for index in each.partitions]

    def _share(self, place: tuple[bytes, int], story: Story) -> None:
        topic_id, index = place
        if index not in self._leaders:
            leader = self._cluster.leader_of(TOPIC, index)
            # One session for each broker and member: who leads both partitions gets both by one connection.
            for wire, known, _ in [each for at, each in self._leaders.items() if each[1] == leader]:
                wire.__exit__(None, None, None)
                self._leaders = {at: each for at, each in self._leaders.items() if each[1] != known}
            self._leaders[index] = Wire(self._cluster.server(leader).info.bootstrap_servers), leader, 0
        wire, leader, epoch = self._leaders[index]
        answer = wire.ask(self._fetch(place, epoch), 2)
        if answer.error_code:
            raise ConnectionError(f"error {answer.error_code}")
        epoch += 1
        self._leaders[index] = wire, leader, epoch
        for topic in answer.responses:
            for found in topic.partitions:
                if found.error_code:
                    raise ConnectionError(f"error {found.error_code}")
                self._say(topic_id, found, story)

    def _fetch(self, place: tuple[bytes, int], epoch: int) -> ShareFetchRequest:
        partition = FetchPartition(partition_index=place[1], acknowledgement_batches=[])
        return ShareFetchRequest(
            group_id=GROUP,
            member_id=self._id,
            share_session_epoch=epoch,
            max_wait_ms=50,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=3,
            batch_size=3,
            share_acquire_mode=1,
            topics=[] if epoch else [FetchTopic(topic_id=place[0], partitions=[partition])],
            forgotten_topics_data=[],
        )

    def _say(self, topic_id: bytes, found: object, story: Story) -> None:
        index = found.partition_index  # type: ignore[attr-defined]
        got = [
            (offset, each.delivery_count)
            for each in found.acquired_records  # type: ignore[attr-defined]
            for offset in range(each.first_offset, each.last_offset + 1)
        ]
        for offset, count in got:
            story.delivered(index, offset, count)
        said = [(at, RELEASE if count == 1 and self._random.random() < 0.3 else ACCEPT) for at, count in got]
        if not said:
            return
        batches = [AcknowledgementBatch(first_offset=at, last_offset=at, acknowledge_types=[word]) for at, word in said]
        partition = AcknowledgePartition(partition_index=index, acknowledgement_batches=batches)
        wire, leader, epoch = self._leaders[index]
        request = ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self._id,
            share_session_epoch=epoch,
            topics=[AcknowledgeTopic(topic_id=topic_id, partitions=[partition])],
        )
        ended = [at for at, word in said if word != RELEASE]
        story.asked(index, ended)
        answer = wire.ask(request, 2)
        self._leaders[index] = wire, leader, epoch + 1
        if answer.error_code == 0 and answer.responses[0].partitions[0].error_code == 0:
            story.answered(index, ended)


def test_members_go_on_when_leaders_of_records_and_of_the_state_crash(cluster: KafkaCluster) -> None:
    story, random = Story(), Random(5)
    member = Member(cluster, random)

    def work_until(done: int) -> None:
        end_s = time.monotonic() + HANG_S
        while story.ended_count < done and time.monotonic() < end_s:
            member.turn(story)
        assert story.ended_count >= done, "the members do not get on"

    work_until(RECORDS // 3)
    key = ShareKey(GROUP, member.places[0][0], 0)
    state = partition_for_name(key.name, 3)
    for topic, index, done in ((TOPIC, 0, 2 * RECORDS // 3), (STATE, state, RECORDS)):
        cluster.wait_for_copies(STATE, 3)
        cluster.wait_for_copies(TOPIC, 2)
        leader = cluster.leader_of(topic, index)
        cluster.crash(leader)
        work_until(done)
        cluster.start_broker(leader)
    member.close()
    assert story.ended_count == RECORDS
