"""A group changes its protocol while it works: classic to consumer with the first member that speaks the new protocol,
and back when the last of them is gone.

    upgrade     tombstone of the classic group, then its members as members that speak classic, all in one batch with
                the heartbeat that caused it. Who waits for a join or a sync is called again (REBALANCE_IN_PROGRESS).
    downgrade   tombstones of the consumer group, then the classic group with the members that stay, in one batch with
                what caused it; then the members are called.

group.consumer.migration.policy says which direction is allowed. A group without members needs none of this: it is
replaced.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, MutableMapping

from ottla.broker.coordinators.effects import ClusterView, Effect, Reply, SetTimer, StoredRecord
from ottla.broker.coordinators.groups.classic_group import CONSUMER, ClassicGroup
from ottla.broker.coordinators.groups.classic_member import ClassicMember
from ottla.broker.coordinators.groups.consumer.embedded import read_assignment, read_subscription, write_assignment
from ottla.broker.coordinators.groups.consumer.group import ConsumerGroup
from ottla.broker.coordinators.groups.consumer.heartbeat_steps import Environment, session_timer
from ottla.broker.coordinators.groups.consumer.member import NOTHING, ConsumerMember
from ottla.broker.coordinators.groups.consumer.records import (
    current_record,
    epoch_record,
    member_record,
    target_epoch_record,
    target_record,
)
from ottla.broker.coordinators.groups.consumer.subscriptions import metadata_hash
from ottla.broker.coordinators.groups.modern_group import Draft
from ottla.broker.coordinators.groups.rebalance import fail_pending
from ottla.broker.coordinators.groups.rebalance import session_timer as classic_session_timer
from ottla.broker.coordinators.groups.settings import GroupSettings
from ottla.broker.coordinators.groups.timers import CallTimer
from ottla.broker.settings.groups import GroupCoordinatorSettings
from ottla.errors import BrokerError, GroupIdNotFound, MalformedMessage, RebalanceInProgress
from ottla.light_dataclasses import replace
from ottla.protocol.stored.consumer_groups import ClassicMemberMetadata, ClassicProtocol

log = logging.getLogger(__name__)


class Migration:
    def __init__(
        self,
        founding: MutableMapping[str, ClassicGroup],
        settings: GroupSettings,
        cluster: ClusterView,
        epochs_before: int = 0,
    ) -> None:
        """`founding` are the shard's classic groups whose first record is being written."""
        self._epochs_before = epochs_before
        self._founding = founding
        self._settings = settings
        self._cluster = cluster

    # -- classic to consumer -----------------------------------------------------------------------------------------

    def may_upgrade(self, group: ClassicGroup, settings: GroupCoordinatorSettings) -> bool:
        allowed = settings.group_consumer_migration_policy.upper() in ("UPGRADE", "BIDIRECTIONAL")
        has_room = len(group.members) <= settings.group_consumer_max_size
        return allowed and group.protocol_type == CONSUMER and has_room

    def upgrade(self, group: ClassicGroup, environment: Environment) -> tuple[Draft[ConsumerGroup], list[Effect]]:
        """The draft of the new group, and what must happen first."""
        try:
            members = [self._as_consumer(group, member) for member in group.members.values()]
        except MalformedMessage as error:
            raise GroupIdNotFound(
                f"Cannot upgrade classic group {group.group_id} to consumer group because the embedded consumer "
                "protocol is malformed."
            ) from error
        group_id, draft = group.group_id, Draft(ConsumerGroup(group.group_id, self._epochs_before), group.tombstones())
        draft.write(*(member_record(group_id, member) for member in members))
        found = metadata_hash(self._cluster, draft.group.subscribed_topics())
        draft.write(epoch_record(group_id, group.generation, found))
        for member in members:
            target = {topic_id: frozenset(each) for topic_id, each in member.assigned.items()}
            draft.write(target_record(group_id, member.member_id, target))
        draft.write(target_epoch_record(group_id, group.generation, 0))
        draft.write(*(current_record(group_id, member) for member in members))
        effects: list[Effect] = []
        for waiting in group.members.values():
            effects += fail_pending(waiting, RebalanceInProgress(), answered_id=waiting.member_id)
        return draft, [*effects, *(session_timer(draft.group, member, environment) for member in members)]

    def _as_consumer(self, group: ClassicGroup, member: ClassicMember) -> ConsumerMember:
        names = dict(member.protocols)
        subscription = read_subscription(names.get(group.protocol_name or "", member.protocols[0][1]))
        assigned = read_assignment(member.assignment, self._cluster)
        generation = group.generation
        return ConsumerMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=subscription.rack_id or None,
            client_id=member.client_id,
            client_host=member.client_host,
            topics=frozenset(subscription.topics),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicMemberMetadata(
                session_timeout_ms=member.session_timeout_ms,
                supported_protocols=[ClassicProtocol(name=name, metadata=each) for name, each in member.protocols],
            ),
            epoch=generation,
            previous_epoch=generation,
            assigned={topic_id: dict.fromkeys(each, generation) for topic_id, each in assigned.items()},
        )

    # -- consumer to classic -----------------------------------------------------------------------------------------

    def may_downgrade(
        self, group: ConsumerGroup, leaving: Collection[ConsumerMember], settings: GroupCoordinatorSettings
    ) -> bool:
        gone = {member.member_id for member in leaving}
        staying = [member for member_id, member in group.members.items() if member_id not in gone]
        allowed = settings.group_consumer_migration_policy.upper() in ("DOWNGRADE", "BIDIRECTIONAL")
        has_room = len(staying) <= self._settings.group_max_size
        return bool(staying) and all(each.speaks_classic for each in staying) and allowed and has_room

    def downgrade(
        self, group: ConsumerGroup, leaving: Collection[ConsumerMember], environment: Environment
    ) -> tuple[list[StoredRecord], list[Effect]]:
        """The records that make the group classic, and what must happen after them."""
        gone = {member.member_id for member in leaving}
        staying = [member for member_id, member in sorted(group.members.items()) if member_id not in gone]
        classic = ClassicGroup(group.group_id, environment.now_ms)
        classic.protocol_type = CONSUMER
        classic.generation = group.epoch
        for member in staying:
            classic.add(self._as_classic(group, member))
        classic.protocol_name = classic.chosen_protocol()
        self._founding[group.group_id] = classic
        sessions = [classic_session_timer(classic, member, environment.now_ms) for member in classic.members.values()]
        log.info("group %s speaks the classic protocol again", group.group_id)
        return [*group.tombstones(), classic.record()], [
            *sessions,
            SetTimer(CallTimer(group.group_id), environment.now_ms),
        ]

    def undo(
        self, group_id: str, failure: Callable[[BrokerError], tuple[Reply, ...]]
    ) -> Callable[[BrokerError], tuple[Reply, ...]]:
        """What a downgrade that could not be written says: the group is still what it was."""

        def undone(error: BrokerError) -> tuple[Reply, ...]:
            self._founding.pop(group_id, None)
            return failure(error)

        return undone

    def _as_classic(self, group: ConsumerGroup, member: ConsumerMember) -> ClassicMember:
        metadata = member.classic
        assert metadata is not None, "only members of the classic protocol go back to it"
        protocols = tuple((each.name, each.metadata) for each in metadata.supported_protocols)
        target = group.targets.get(member.member_id, NOTHING)
        return ClassicMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            session_timeout_ms=metadata.session_timeout_ms,
            protocols=protocols,
            assignment=write_assignment(target, self._cluster, protocols[0][1]),
        )


def with_classic(member: ConsumerMember, session_timeout_ms: int, protocols: list[ClassicProtocol]) -> ConsumerMember:
    metadata = ClassicMemberMetadata(session_timeout_ms=session_timeout_ms, supported_protocols=protocols)
    return replace(member, classic=metadata)
