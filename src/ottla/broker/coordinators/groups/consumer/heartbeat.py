"""ConsumerGroupHeartbeat: join with epoch 0, stay with the current epoch, leave with -1 (-2: static, back soon).

    the member       is found, created, or replaces the static member with the same instance id
    its report       is written when it changed
    group epoch      moves when what the group reads changed
    target           is made when the group epoch moved
    the member       goes one step towards its target; the answer says what it has

1. A member gets its partitions when it joins, when it reports all its fields (it may have lost an answer),
   and when they changed.
2. A member one epoch behind is accepted if it owns no more than was assigned: it did not get our answer. Every other
   epoch but the current one and 0 is FENCED_MEMBER_EPOCH.
3. All records of a heartbeat are one batch, and the answer goes out when they are committed.
4. A member that begins to wait for partitions of others comes back after a part of the interval, once for each target
   and each report of its own: they are about to be released. When many start together, most of them ask just before
   the first one gives its up, and would wait for a whole interval. Who joins does: by then everybody else was here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.broker.coordinators.effects import (
    Effect,
    Reply,
    Token,
    Write,
)
from ottla.broker.coordinators.groups.consumer.group import ConsumerGroup
from ottla.broker.coordinators.groups.consumer.heartbeat_steps import (
    Environment,
    check_room,
    revocation_timer,
    session_timer,
    step,
    take_over,
    update_group,
    write_member_fields,
)
from ottla.broker.coordinators.groups.consumer.member import (
    NOTHING,
    ConsumerMember,
    Owned,
    Target,
    target_of,
    wire_partitions,
)
from ottla.broker.coordinators.groups.consumer.records import (
    current_record,
)
from ottla.broker.coordinators.groups.consumer.regex import refresh_if_due
from ottla.broker.coordinators.groups.consumer.state import JOIN, LEAVE, STATIC_LEAVE, UNRELEASED
from ottla.broker.coordinators.groups.consumer.target import update_target
from ottla.broker.coordinators.groups.group_responses import failing
from ottla.broker.coordinators.groups.modern_group import Draft
from ottla.broker.requests.context import RequestContext
from ottla.broker.settings.groups import GroupCoordinatorSettings
from ottla.errors import (
    NONE,
    BrokerError,
    FencedMemberEpoch,
    InvalidRequest,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from ottla.light_dataclasses import replace
from ottla.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

CLIENT_MAKES_MEMBER_ID_SINCE = 1
PARTS_OF_INTERVAL = 5


# -- is it a request at all -------------------------------------------------------------------------------------------


def check_request(request: ConsumerGroupHeartbeatRequest, api_version: int, settings: GroupCoordinatorSettings) -> None:
    epoch = request.member_epoch
    if api_version >= CLIENT_MAKES_MEMBER_ID_SINCE or epoch > JOIN or epoch == LEAVE:
        _refuse(not request.member_id, "MemberId can't be empty.")
    _refuse(not request.group_id, "GroupId can't be empty.")
    _refuse(request.instance_id == "", "InstanceId can't be empty.")
    _refuse(request.rack_id == "", "RackId can't be empty.")
    if epoch == JOIN:
        _check_join(request)
    elif epoch == STATIC_LEAVE:
        _refuse(request.instance_id is None, "InstanceId can't be null.")
    else:
        _refuse(epoch < STATIC_LEAVE, "MemberEpoch is invalid.")
    offered = settings.group_consumer_assignors
    if request.server_assignor is not None and request.server_assignor not in offered:
        raise UnsupportedAssignor(
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(offered)}."
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    _refuse(request.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request.")
    _refuse(request.topic_partitions != [], "TopicPartitions must be empty when (re-)joining.")
    _refuse(
        request.subscribed_topic_names is None and request.subscribed_topic_regex is None,
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    )


def _refuse(is_wrong: bool, why: str) -> None:
    if is_wrong:
        raise InvalidRequest(why)


# -- joining and staying ----------------------------------------------------------------------------------------------

T = TypeVar("T")


class Heartbeat:
    """One heartbeat that is no leave. `draft` may begin with records that make the group one of this kind."""

    def __init__(
        self,
        draft: Draft[ConsumerGroup],
        request: ConsumerGroupHeartbeatRequest,
        context: RequestContext,
        environment: Environment,
        new_uuid: Callable[[], str],
    ) -> None:
        self.draft = draft
        self.request = request
        self.context = context
        self.environment = environment
        self._new_uuid = new_uuid
        self.owned: Target | None = None if request.topic_partitions is None else target_of(request.topic_partitions)

    def effects(self, token: Token, live: ConsumerGroup | None) -> list[Effect]:
        """`live` is the group in the shard, if there is one already. Raises the error for the client."""
        check_room(self.draft.group, self.request.member_id, self.environment.settings)
        before = self._find_member()
        after = self._with_request_fields(before)
        changes = write_member_fields(self.draft, before, after)
        update_group(self.draft, changes, self.environment, live)
        update_target(self.draft, self.environment)
        reconciled = step(self.draft, after, self.owned, self.environment, subscription_changed=changes.any)
        answer = self._answer(before, reconciled)
        return [
            *_written(self.draft, token, answer),
            session_timer(self.draft.group, reconciled, self.environment),
            *revocation_timer(self.draft.group, before, reconciled, self.environment),
            *refresh_if_due(self.draft.group, self.environment.settings, self.environment.now_ms, self.context),
        ]

    def _find_member(self) -> ConsumerMember:
        request, group = self.request, self.draft.group
        # Clients of version 0 let the coordinator make their id.
        member_id = request.member_id or self._new_uuid()
        if request.instance_id is not None:
            return self._find_static(request.instance_id, member_id)
        if request.member_epoch == JOIN:
            return group.members.get(member_id) or ConsumerMember(member_id)
        member = group.member(member_id)
        self._check_epoch(member)
        return member

    def _find_static(self, instance_id: str, member_id: str) -> ConsumerMember:
        group = self.draft.group
        if self.request.member_epoch != JOIN:
            member = group.static_member(instance_id, member_id)
            self._check_epoch(member)
            return member
        known_id = group.static_ids.get(instance_id)
        if known_id is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        known = group.member(known_id)
        if not known.speaks_classic and not group.is_away(known):
            raise UnreleasedInstanceId(
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
                f"instance id is owned by {known_id} member."
            )
        return take_over(self.draft, known, member_id)

    def _check_epoch(self, member: ConsumerMember) -> None:
        epoch = self.request.member_epoch
        if epoch == member.epoch:
            return
        is_behind = epoch < member.epoch
        if is_behind and epoch == member.previous_epoch and _is_part_of(self._owned_that_exist(), member.assigned):
            return
        raise FencedMemberEpoch(
            f"The consumer group member has a {'smaller' if is_behind else 'greater'} member epoch ({epoch}) than the "
            f"one known by the group coordinator ({member.epoch}). The member must abandon all its partitions and "
            "rejoin."
        )

    def _owned_that_exist(self) -> Target | None:
        """Partitions of topics that are gone are no sign of a wrong epoch; they were not waited for."""
        if self.owned is None:
            return None
        exists = self.environment.cluster.topic_name
        return {topic_id: each for topic_id, each in self.owned.items() if exists(topic_id) is not None}

    def _with_request_fields(self, member: ConsumerMember) -> ConsumerMember:
        """The member with what this request says; what it does not say stays."""
        request = self.request
        timeout_ms, topics = request.rebalance_timeout_ms, request.subscribed_topic_names
        return replace(
            member,
            classic=None,
            instance_id=_or(request.instance_id, member.instance_id),
            rack_id=_or(request.rack_id, member.rack_id),
            rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
            server_assignor=_or(request.server_assignor, member.server_assignor),
            topics=member.topics if topics is None else frozenset(topics),
            regex=_or(request.subscribed_topic_regex, member.regex),
            client_id=self.context.client_id,
            client_host=self.context.client_host,
        )

    def _answer(self, before: ConsumerMember, after: ConsumerMember) -> ConsumerGroupHeartbeatResponse:
        request = self.request
        is_full = (
            request.rebalance_timeout_ms != -1
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )
        answer = ConsumerGroupHeartbeatResponse(
            error_code=NONE,
            member_id=after.member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=self._next_ms(before, after),
        )
        if request.member_epoch == JOIN or is_full or after.assigned != before.assigned:
            answer.assignment = Assignment(topic_partitions=wire_partitions(after.assigned))
        return answer

    def _next_ms(self, before: ConsumerMember, after: ConsumerMember) -> int:
        """When the member shall come again."""
        interval_ms = self.environment.times_of(self.draft.group.group_id).heartbeat_interval_ms
        if self.request.member_epoch == JOIN or after.state is not UNRELEASED:
            return interval_ms
        has_news = self.owned is not None  # of what it was just assigned, or has just released
        if before.state is UNRELEASED and before.epoch == after.epoch and not has_news:
            return interval_ms
        return max(1, interval_ms // PARTS_OF_INTERVAL)


def _or(value: T | None, otherwise: T) -> T:
    return otherwise if value is None else value


def _is_part_of(owned: Target | None, assigned: Owned) -> bool:
    return owned is not None and all(
        partitions <= assigned.get(topic, {}).keys() for topic, partitions in owned.items()
    )


def _written(draft: Draft[ConsumerGroup], token: Token, answer: ConsumerGroupHeartbeatResponse) -> list[Effect]:
    return [Write(tuple(draft.records), (Reply(token, answer),), failing(token, heartbeat_error))]


def heartbeat_error(error: BrokerError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=error.code, error_message=error.brief, member_epoch=0, heartbeat_interval_ms=0
    )


# -- leaving ----------------------------------------------------------------------------------------------------------


def leave(
    group: ConsumerGroup, token: Token, request: ConsumerGroupHeartbeatRequest
) -> tuple[ConsumerMember | None, list[Effect]]:
    """A static member that leaves for a while is handled here; a member to be removed for good is returned."""
    if request.instance_id is None:
        return group.member(request.member_id), []
    member = group.static_member(request.instance_id, request.member_id)
    if request.member_epoch != STATIC_LEAVE:
        return member, []
    draft = Draft(group)
    draft.write(current_record(group.group_id, replace(member, epoch=STATIC_LEAVE, revoking=NOTHING)))
    return None, _written(draft, token, left_answer(request))


def left_answer(request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=NONE, member_id=request.member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=0
    )
