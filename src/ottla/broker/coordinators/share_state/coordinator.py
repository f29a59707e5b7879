"""The share coordinator of this broker: its topic, and how requests reach the shard of their share partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.cluster.live_view import LiveView
from ottla.broker.coordinators.coordinator import Coordinator
from ottla.broker.coordinators.runtime import InternalPartition, Runtime
from ottla.broker.coordinators.share_state.cutting import CutLog
from ottla.broker.coordinators.share_state.records import KINDS
from ottla.broker.coordinators.share_state.shard import ShareStateShard
from ottla.cluster.topic_names import SHARE_GROUP_STATE
from ottla.storage.log.whole_log import Rotten
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

TOPIC: Final = SHARE_GROUP_STATE


class ShareCoordinator(Coordinator[ShareStateShard]):
    serves_remains = True

    def __init__(self, broker: Broker) -> None:
        runtime = Runtime(
            TOPIC,
            make_shard=self._make_shard,
            kinds=KINDS,
            now_ms=broker.clock.now_ms,
            monotonic_ms=broker.clock.monotonic_ms,
            write_timeout_ms=lambda: broker.settings.share_coordinator_write_timeout_ms,
            loads=broker.loads,
            unreadable=self.unreadable,
            other_effect=self.carry_out,
            wake=broker.deadlines.arm,
        )
        super().__init__(TOPIC, runtime, broker)

    def _make_shard(self, index: int, partition: InternalPartition) -> ShareStateShard:
        return ShareStateShard(self._broker.settings, LiveView(lambda: self._broker.image))

    def without(self, rotten: Rotten) -> str:
        return (
            f"States at offsets {rotten.offset} to {rotten.next_offset - 1} are passed over: share groups that had "
            "theirs there continue from an older one, and deliver records again that were acknowledged"
        )

    def topics_changed(self, deleted: list[tuple[str, bytes]], changed: set[str] | None) -> None:
        if deleted:
            for index, _ in list(self.runtime.all_shards()):
                self.runtime.notify(index, lambda shard, now_ms: shard.topics_deleted(deleted, now_ms))

    def carry_out(self, index: int, effect: object) -> None:
        """The log is cut once all that was written before is committed."""
        if not isinstance(effect, CutLog):
            raise TypeError(f"no effect of a share coordinator: {effect!r}")
        partition = self._broker.replicas.get(TopicPartition(TOPIC, index))
        if partition is not None and partition.is_leader and partition.offline is None:
            partition.log.advance_log_start(min(effect.offset, partition.high_watermark))
            self._broker.progress.advanced(partition)
