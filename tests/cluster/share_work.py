"""Two members of a share group over a cluster of processes: what they hear is held against Story's promises.

    with ShareWork(lab, "orders", "workers") as work:
        work.until(100)              # so many records were accepted or rejected, and nobody was told otherwise

They take turns in one thread, in the explicit mode, and wait for the answer to every acknowledgement: a record that was
accepted and answered must not come again, and no delivery count goes back.
"""

from __future__ import annotations

import time
from random import Random
from types import TracebackType
from typing import Self

from tests.conformance.test_share_kill_nine import Story
from tests.conformance.transaction_probes import Wire
from tests.patience import HANG_S, wait_until

import ottla
from ottla.cli.lab_cluster import LabCluster
from ottla.client.admin.cluster import FeatureUpdate
from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType
from ottla.client.share.in_flight import AcknowledgeType, NotHeld
from ottla.errors import OttlaError
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.values import TopicPartition

STATE = "__share_group_state"
GROUP_RESOURCE = 32
FEATURE = "share.version"
RESET = "share.auto.offset.reset"


def begin_at_the_start(lab: LabCluster, group: str) -> None:
    """Set it, and wait until every broker knows: each of them may be the one that is asked first. Clusters on ZooKeeper
    begin without features."""
    with ottla.Admin(bootstrap_servers=lab.bootstrap_servers) as admin:
        if FEATURE not in admin.describe_features(timeout=HANG_S).finalized:
            admin.update_features({FEATURE: FeatureUpdate(1)}, timeout=HANG_S)
        resource = ConfigResource(ConfigResourceType.GROUP, group)
        admin.incremental_alter_configs({resource: [AlterConfig(RESET, "earliest")]}, timeout=HANG_S)
    for address in lab.bootstrap_servers.split(","):
        with Wire(address) as wire:
            wait_until(lambda wire=wire: knows(wire, group), f"{address} knows the feature and the group's setting")


def knows(wire: Wire, group: str) -> bool:
    asked = DescribeConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configuration_keys=[RESET])
    versions = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    features = {each.name for each in wire.ask(versions, 4).finalized_features}
    configs = wire.ask(DescribeConfigsRequest(resources=[asked]), 4).results[0].configs
    return FEATURE in features and [each.value for each in configs] == ["earliest"]


class ShareWork:
    """See the module."""

    def __init__(self, lab: LabCluster, topic: str, group: str) -> None:
        self.story = Story()
        self._random = Random(group)
        self._answers: dict[tuple[TopicPartition, int], OttlaError | None] = {}
        settings = {"bootstrap_servers": lab.bootstrap_servers, "group_id": group, "max_poll_records": 10}
        self._members = [
            ottla.ShareConsumer(
                topic, **settings, share_acknowledgement_mode="explicit", share_acquire_mode="record_limit"
            )
            for _ in range(2)
        ]
        for member in self._members:
            member.set_acknowledgement_commit_callback(self._hear)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for member in self._members:
            member.close()

    def until(self, done: int) -> None:
        end_s = time.monotonic() + HANG_S
        while self.story.ended_count < done:
            assert time.monotonic() < end_s, f"{self.story.ended_count} of {done} records are done"
            self._turn(self._random.choice(self._members))

    def _turn(self, member: ottla.ShareConsumer) -> None:
        said: list[tuple[int, int]] = []
        self._answers.clear()
        for record in member.poll(0.2):
            self.story.delivered(record.partition, record.offset, record.delivery_count)
            may_release = record.delivery_count == 1 and self._random.random() < 0.2
            try:
                member.acknowledge(record, AcknowledgeType.RELEASE if may_release else AcknowledgeType.ACCEPT)
            except NotHeld:
                continue
            if not may_release:
                said.append((record.partition, record.offset))
        for partition, offset in said:
            self.story.asked(partition, [offset])
        if said:
            member.commit(timeout=HANG_S)
        kept = {(name.partition, offset) for (name, offset), error in self._answers.items() if error is None}
        for partition, offset in said:
            if (partition, offset) in kept:
                self.story.answered(partition, [offset])

    def _hear(self, offsets: dict[TopicPartition, frozenset[int]], error: OttlaError | None) -> None:
        for name, found in offsets.items():
            self._answers.update({(name, offset): error for offset in found})
