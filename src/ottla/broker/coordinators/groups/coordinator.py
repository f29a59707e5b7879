"""The group coordinator of this broker: its topic, what is kept there, and what it hears of topics that change."""

from __future__ import annotations

import logging
from collections.abc import Collection
from types import ModuleType
from typing import TYPE_CHECKING, Final

from ottla.broker.cluster.live_view import LiveView
from ottla.broker.coordinators.coordinator import Coordinator
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.coordinators.runtime import InternalPartition, Runtime
from ottla.broker.requests.context import RequestContext
from ottla.broker.settings.group_level import consumer_times, streams_config
from ottla.broker.settings.per_group import PerGroup
from ottla.errors import BrokerError, UnknownServerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.schema import Message
from ottla.protocol.stored import classic_groups, consumer_groups, offsets, share_groups, streams_groups
from ottla.storage.log.whole_log import Rotten
from ottla.values import random_uuid, uuid_to_text

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.coordinators.groups.share.group import ShareGroup
    from ottla.broker.coordinators.groups.share.heartbeat import InitializeStates

log = logging.getLogger(__name__)

INITIALIZING: Final = "share partitions of this group are being initialized"
JOIN_PATIENCE_MS: Final = 3_000
"""So long the first member of a share group waits at most for its partitions; else for its next heartbeat."""
TOPIC: Final = "__consumer_offsets"


def _kinds(*modules: ModuleType) -> dict[type[Message], type[Message]]:
    """Key classes with their value classes: they differ in the end of their names."""
    names = [(module, name) for module in modules for name in vars(module) if name.endswith("Key")]
    return {getattr(module, name): getattr(module, name.removesuffix("Key") + "Value") for module, name in names}


# Every kind of record in the topic; what a shard cannot replay it refuses loudly, not silently.
KINDS: Final = _kinds(offsets, classic_groups, consumer_groups, share_groups, streams_groups)


class GroupCoordinator(Coordinator[GroupShard]):
    serves_remains = True

    def __init__(self, broker: Broker, runtime: Runtime[GroupShard]) -> None:
        super().__init__(TOPIC, runtime, broker)

    def without(self, rotten: Rotten) -> str:
        return (
            f"Commits at offsets {rotten.offset} to {rotten.next_offset - 1} are passed over: groups that had theirs "
            "there continue from an older committed offset and read records again, or by auto.offset.reset if they had "
            "none. Compare with `ottla group describe`, and set offsets with `ottla group reset-offsets` where needed"
        )

    def carry_out(self, index: int, effect: object) -> None:
        """Effects that only this coordinator has: the share coordinator is asked for share groups."""
        from ottla.broker.coordinators.groups.share.heartbeat import InitializeStates

        if not isinstance(effect, InitializeStates):
            raise TypeError(f"no effect of a group coordinator: {effect!r}")
        group_id, topics = effect.group_id, effect.topics
        self.runtime.notify(index, lambda shard, now_ms: shard.shares.initializing(group_id, topics))
        self._broker.background.start(self._initialize(index, effect))

    async def _initialize(self, index: int, states: InitializeStates) -> None:
        from ottla.broker.coordinators.groups.share.states import initialize_states

        error: BrokerError | None = None
        try:
            await initialize_states(self._broker.sharing.leaders.persister, states)
        except BrokerError as refusal:
            error = refusal
        except Exception as failure:
            log.exception("share partitions of group %s could not be initialized", states.group_id)
            error = UnknownServerError(str(failure))
        self.runtime.notify(
            index, lambda shard, now_ms: shard.shares.initialized(states.group_id, states.topics, error, now_ms)
        )
        self._broker.progress.fetch_purgatory.check((INITIALIZING, states.group_id))

    async def share_partitions_begun(self, group_id: str) -> bool:
        """Wait for a while until the share coordinator has begun what a group wants to read; False when it has not."""

        def has_begun() -> bool:
            return not self.share_group(group_id).being_initialized

        if has_begun():
            return False  # there is nothing to wait for
        deadline_ms = self._broker.clock.monotonic_ms() + JOIN_PATIENCE_MS
        return await self._broker.progress.fetch_purgatory.wait(has_begun, [(INITIALIZING, group_id)], deadline_ms)

    def share_group(self, group_id: str) -> ShareGroup:
        """A share group that is coordinated here, for questions that change nothing."""
        return self.runtime.shard_of(self.partition_of(group_id)).shares.find(group_id)

    def topics_changed(self, deleted: list[tuple[str, bytes]], changed: set[str] | None) -> None:
        """Groups forget the offsets of topics that are gone, and share out partitions that are new."""
        for index, _ in list(self.runtime.all_shards()):
            if deleted:
                self.runtime.notify(index, lambda shard, now_ms: shard.topics_deleted(deleted, now_ms))
            if changed is None or changed:
                self.runtime.notify(index, lambda shard, now_ms: shard.topics_changed(changed, now_ms))


def make_group_coordinator(broker: Broker) -> GroupCoordinator:
    times_of = PerGroup(broker, consumer_times)
    streams_config_of = PerGroup(broker, streams_config)

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
            streams_config_of=streams_config_of,
            share_settings_of=lambda group_id: broker.sharing.leaders.settings_of(group_id),
            leader_epoch=partition.leader_epoch,
        )

    runtime = Runtime(
        TOPIC,
        make_shard=make_shard,
        kinds=KINDS,
        now_ms=broker.clock.now_ms,
        monotonic_ms=broker.clock.monotonic_ms,
        write_timeout_ms=lambda: broker.settings.offsets_commit_timeout_ms,
        loads=broker.loads,
        unreadable=lambda index, rotten: made.unreadable(index, rotten),
        other_effect=lambda index, effect: made.carry_out(index, effect),
        wake=broker.deadlines.arm,
    )
    made = GroupCoordinator(broker, runtime)
    return made
