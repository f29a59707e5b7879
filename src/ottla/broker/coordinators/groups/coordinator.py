"""The group coordinator of this broker: its topic, what is kept there, and what it hears of topics that change."""

from __future__ import annotations

from collections.abc import Collection
from types import ModuleType
from typing import TYPE_CHECKING, Final

from ottla.broker.cluster.live_view import LiveView
from ottla.broker.coordinators.coordinator import Coordinator
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.coordinators.runtime import InternalPartition, Runtime
from ottla.broker.requests.context import RequestContext
from ottla.broker.settings.group_level import ConsumerTimes, consumer_times
from ottla.cluster.model import ConfigResource, ResourceType
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.schema import Message
from ottla.protocol.stored import classic_groups, consumer_groups, offsets, share_groups, streams_groups
from ottla.values import random_uuid, uuid_to_text

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

TOPIC: Final = "__consumer_offsets"


def _kinds(*modules: ModuleType) -> dict[type[Message], type[Message]]:
    """Key classes with their value classes: they differ in the end of their names."""
    names = [(module, name) for module in modules for name in vars(module) if name.endswith("Key")]
    return {getattr(module, name): getattr(module, name.removesuffix("Key") + "Value") for module, name in names}


# Every kind of record in the topic; what a shard cannot replay it refuses loudly, not silently.
KINDS: Final = _kinds(offsets, classic_groups, consumer_groups, share_groups, streams_groups)


class GroupCoordinator(Coordinator[GroupShard]):
    def topics_changed(self, deleted: list[tuple[str, bytes]], changed: set[str] | None) -> None:
        """Groups forget the offsets of topics that are gone, and share out partitions that are new."""
        for index, _ in list(self.runtime.shards()):
            if deleted:
                self.runtime.notify(index, lambda shard, now_ms: shard.topics_deleted(deleted, now_ms))
            if changed is None or changed:
                self.runtime.notify(index, lambda shard, now_ms: shard.topics_changed(changed, now_ms))


def make_group_coordinator(broker: Broker) -> GroupCoordinator:
    def times_of(group_id: str) -> ConsumerTimes:
        return consumer_times(broker.image.config(ConfigResource(ResourceType.GROUP, group_id)), broker.settings)

    def new_uuid_text() -> str:
        return uuid_to_text(random_uuid(broker.random.randbytes))

    def may_describe(asked_by: RequestContext | None, names: Collection[str]) -> Collection[str]:
        if asked_by is None or not broker.access.is_on:
            return names
        return broker.access.allowed(asked_by, AclOperation.DESCRIBE, AclResource.TOPIC, names, is_filter=True)

    def make_shard(index: int, partition: InternalPartition) -> GroupShard:
        return GroupShard(
            broker.settings,
            LiveView(lambda: broker.image),
            new_uuid_text,
            times_of=times_of,
            may_describe=may_describe,
        )

    runtime = Runtime(
        TOPIC,
        make_shard=make_shard,
        kinds=KINDS,
        now_ms=broker.clock.now_ms,
        write_timeout_ms=lambda: broker.settings.offsets_commit_timeout_ms,
        wake=broker.deadlines.arm,
    )
    return GroupCoordinator(TOPIC, runtime, lambda: broker.image)
