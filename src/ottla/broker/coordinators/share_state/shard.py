"""ShareStateShard: the share partitions behind one partition of __share_group_state.

    initialize   the group coordinator says where a group begins; a later state epoch begins anew
    read         the leader of a partition takes it over: leaders of earlier epochs are fenced from then on
    write        what changed; a snapshot instead, after so many updates
    summary      where it begins, and how much behind that is done
    delete       forget it

1. Every request here is about one share partition, and is answered when what it says is committed.
2. State changes only in `replay`. The log is cut where nobody needs it (cutting.py).
3. Who has an older leader epoch than is known is FENCED_LEADER_EPOCH, who has an older state epoch FENCED_STATE_EPOCH;
   what was never initialized cannot be read or written (INVALID_REQUEST), as in Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, Protocol

from ottla.broker.coordinators.effects import ClusterView, Effect, Reply, SetTimer, StoredRecord, Token, Write
from ottla.broker.coordinators.groups.group_responses import after_commit, failing
from ottla.broker.coordinators.share_state import share_state_responses as answers
from ottla.broker.coordinators.share_state.cutting import INTERVAL_MS, CutLog, CutTimer, cold, first_needed
from ottla.broker.coordinators.share_state.records import read_batches, snapshot_record, tombstone, update_record
from ottla.broker.coordinators.share_state.state import NOT_SET, ShareKey, ShareState, with_update
from ottla.broker.requests.context import RequestContext
from ottla.errors import BrokerError, FencedLeaderEpoch, FencedStateEpoch, InvalidRequest, UnknownTopicOrPartition
from ottla.light_dataclasses import replace
from ottla.protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from ottla.protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from ottla.protocol.messages.read_share_group_state import ReadShareGroupStateRequest
from ottla.protocol.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from ottla.protocol.messages.write_share_group_state import PartitionData, WriteShareGroupStateRequest
from ottla.protocol.stored.share_state import ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue

log = logging.getLogger(__name__)

TOMBSTONES_PER_WRITE: Final = 500
FIRST_LEADER_EPOCH: Final = 0


class ShareStateSettings(Protocol):
    @property
    def share_coordinator_snapshot_update_records_per_snapshot(self) -> int: ...


class ShareStateShard:
    def __init__(self, settings: ShareStateSettings, cluster: ClusterView) -> None:
        self.states: dict[ShareKey, ShareState] = {}
        self._settings = settings
        self._cluster = cluster
        self._newest = NOT_SET  # the offset of the last record
        self._cut_at = NOT_SET

    # -- the log -----------------------------------------------------------------------------------------------------

    def replay(self, record: StoredRecord, *, offset: int, producer_id: int = -1, producer_epoch: int = -1) -> None:
        self._newest = max(self._newest, offset)
        key = record.key
        if isinstance(key, ShareSnapshotKey):
            self._replay_snapshot(ShareKey(key.group_id, key.topic_id, key.partition), record.value, offset)
        elif isinstance(key, ShareUpdateKey):
            self._replay_update(ShareKey(key.group_id, key.topic_id, key.partition), record.value)
        else:
            raise TypeError(f"{type(key).__name__} is no record of the share coordinator")

    def _replay_snapshot(self, key: ShareKey, value: object, offset: int) -> None:
        if not isinstance(value, ShareSnapshotValue):
            self.states.pop(key, None)
            return
        self.states[key] = ShareState(
            state_epoch=value.state_epoch,
            leader_epoch=value.leader_epoch,
            start_offset=value.start_offset,
            complete_count=value.delivery_complete_count,
            batches=read_batches(value.state_batches),
            snapshot_epoch=value.snapshot_epoch,
            create_ms=value.create_timestamp,
            write_ms=value.write_timestamp,
            snapshot_at=offset,
        )

    def _replay_update(self, key: ShareKey, value: object) -> None:
        state = self.states.get(key)
        # Its snapshot may have been cut off with a part of the log that a later snapshot replaces.
        if state is None or not isinstance(value, ShareUpdateValue) or value.snapshot_epoch != state.snapshot_epoch:
            return
        self.states[key] = with_update(
            state,
            leader_epoch=value.leader_epoch,
            start_offset=value.start_offset,
            complete_count=value.delivery_complete_count,
            batches=read_batches(value.state_batches),
        )

    def replay_end_of_transaction(self, *, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """Nobody writes here in a transaction."""

    # -- coming, going, time -----------------------------------------------------------------------------------------

    def loaded(self, now_ms: int) -> list[list[Effect]]:
        return [[SetTimer(CutTimer(), now_ms + INTERVAL_MS)]]

    def unload(self) -> list[Effect]:
        self.states.clear()
        return []

    def timer_fired(self, key: Hashable, now_ms: int) -> Sequence[object]:
        if not isinstance(key, CutTimer):
            raise TypeError(f"the share coordinator has no timer {key!r}")
        effects: list[object] = [SetTimer(CutTimer(), now_ms + INTERVAL_MS)]
        again = [
            snapshot_record(each, self._next_snapshot(state, now_ms)) for each, state in cold(self.states, self._newest)
        ]
        if again:
            effects.append(Write(tuple(again), (), _logged("cold share partitions could not be written")))
        needed = first_needed(self.states, self._newest)
        if needed > self._cut_at:
            self._cut_at = needed
            effects.append(CutLog(needed))
        return effects

    def topics_deleted(self, topics: Iterable[tuple[str, bytes]], now_ms: int) -> list[Effect]:
        """Forget the state of these topics (name and id); nobody waits for it."""
        gone = {topic_id for _, topic_id in topics}
        records = [tombstone(key) for key in self.states if key.topic_id in gone]
        failure = _logged("the state of deleted topics could not be removed")
        slices = range(0, len(records), TOMBSTONES_PER_WRITE)
        return [Write(tuple(records[at : at + TOMBSTONES_PER_WRITE]), (), failure) for at in slices]

    # -- requests ----------------------------------------------------------------------------------------------------

    def initialize(
        self, token: Token, request: InitializeShareGroupStateRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        data = request.topics[0].partitions[0]
        key = ShareKey(request.group_id, request.topics[0].topic_id, data.partition)
        known = self.states.get(key)
        try:
            self._check_key(key)
            if known is not None and data.state_epoch != NOT_SET and known.state_epoch > data.state_epoch:
                raise FencedStateEpoch(f"the state epoch is {known.state_epoch}, not {data.state_epoch}")
        except BrokerError as error:
            return [Reply(token, answers.initialized(key, error))]
        if known is not None and data.start_offset == NOT_SET:
            # Asked for once more, by a group coordinator that did not hear of it: what was done since stays.
            return [after_commit(token, answers.initialized(key), lambda error: answers.initialized(key, error))]
        begun = ShareState(
            state_epoch=data.state_epoch,
            leader_epoch=FIRST_LEADER_EPOCH if known is None else known.leader_epoch,
            start_offset=data.start_offset,
            complete_count=NOT_SET if data.start_offset == NOT_SET else 0,  # from there on nothing is done yet
            snapshot_epoch=0 if known is None else known.snapshot_epoch + 1,
            create_ms=now_ms,
            write_ms=now_ms,
        )
        reply = Reply(token, answers.initialized(key))
        failure = failing(token, lambda error: answers.initialized(key, error))
        return [Write((snapshot_record(key, begun),), (reply,), failure)]

    def read(
        self, token: Token, request: ReadShareGroupStateRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        data = request.topics[0].partitions[0]
        key = ShareKey(request.group_id, request.topics[0].topic_id, data.partition)
        try:
            state = self._known(key)
            if NOT_SET != data.leader_epoch < state.leader_epoch:
                raise FencedLeaderEpoch(f"the leader epoch is {state.leader_epoch}, not {data.leader_epoch}")
        except BrokerError as error:
            return [Reply(token, answers.read(key, error=error))]
        answer = answers.read(key, state)
        if data.leader_epoch <= state.leader_epoch:
            return [after_commit(token, answer, lambda error: answers.read(key, error=error))]
        # Whoever led it before must not write any more, from before the new leader knows the state.
        nothing_new = PartitionData(
            partition=key.partition,
            state_epoch=state.state_epoch,
            leader_epoch=data.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.complete_count,
            state_batches=[],
        )
        failure = failing(token, lambda error: answers.read(key, error=error))
        return [Write((self._record(key, state, nothing_new, now_ms),), (Reply(token, answer),), failure)]

    def write(
        self, token: Token, request: WriteShareGroupStateRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        data = request.topics[0].partitions[0]
        key = ShareKey(request.group_id, request.topics[0].topic_id, data.partition)
        try:
            state = self._known(key)
            _check_writer(state, data)
        except BrokerError as error:
            return [Reply(token, answers.written(key, error))]
        record = self._record(key, state, data, now_ms)
        failure = failing(token, lambda error: answers.written(key, error))
        return [Write((record,), (Reply(token, answers.written(key)),), failure)]

    def summary(
        self, token: Token, request: ReadShareGroupStateSummaryRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        """What was never initialized has no start offset; that is no error."""
        data = request.topics[0].partitions[0]
        key = ShareKey(request.group_id, request.topics[0].topic_id, data.partition)
        try:
            self._check_key(key)
        except BrokerError as error:
            return [Reply(token, answers.summary(key, error=error))]
        answer = answers.summary(key, self.states.get(key))
        return [after_commit(token, answer, lambda error: answers.summary(key, error=error))]

    def delete(
        self, token: Token, request: DeleteShareGroupStateRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        topic = request.topics[0]
        key = ShareKey(request.group_id, topic.topic_id, topic.partitions[0].partition)
        failure = failing(token, lambda error: answers.deleted(key, error))
        records = (tombstone(key),) if key in self.states else ()
        return [Write(records, (Reply(token, answers.deleted(key)),), failure)]

    # -- parts -------------------------------------------------------------------------------------------------------

    def _check_key(self, key: ShareKey) -> None:
        if key.partition < 0:
            raise InvalidRequest(f"{key.partition} is no partition")
        name = self._cluster.topic_name(key.topic_id)
        count = None if name is None else self._cluster.partition_count(name)
        if count is None or key.partition >= count:
            raise UnknownTopicOrPartition(f"partition {key.partition} of that topic id")

    def _known(self, key: ShareKey) -> ShareState:
        self._check_key(key)
        state = self.states.get(key)
        if state is None:
            raise InvalidRequest(f"share partition {key.name} was never initialized")
        return state

    def _record(self, key: ShareKey, state: ShareState, data: PartitionData, now_ms: int) -> StoredRecord:
        per_snapshot = self._settings.share_coordinator_snapshot_update_records_per_snapshot
        if state.update_count < per_snapshot and data.state_epoch <= state.state_epoch:
            return update_record(key, state.snapshot_epoch, data)
        after = with_update(
            state,
            leader_epoch=data.leader_epoch,
            start_offset=data.start_offset,
            complete_count=data.delivery_complete_count,
            batches=read_batches(data.state_batches),
        )
        after = replace(after, state_epoch=max(state.state_epoch, data.state_epoch))
        return snapshot_record(key, self._next_snapshot(after, now_ms))

    def _next_snapshot(self, state: ShareState, now_ms: int) -> ShareState:
        return replace(state, snapshot_epoch=state.snapshot_epoch + 1, write_ms=now_ms)


def _check_writer(state: ShareState, data: PartitionData) -> None:
    if NOT_SET != data.leader_epoch < state.leader_epoch:
        raise FencedLeaderEpoch(f"the leader epoch is {state.leader_epoch}, not {data.leader_epoch}")
    if NOT_SET != data.state_epoch < state.state_epoch:
        raise FencedStateEpoch(f"the state epoch is {state.state_epoch}, not {data.state_epoch}")
    previous = -1
    for each in sorted(read_batches(data.state_batches)):
        if each.first <= previous or each.last < each.first:
            raise InvalidRequest(f"batches of records overlap at offset {each.first}")
        previous = each.last


def _logged(what: str) -> Callable[[BrokerError], tuple[Reply, ...]]:
    def failure(error: BrokerError) -> tuple[Reply, ...]:
        log.warning("%s: %s", what, error)
        return ()

    return failure
