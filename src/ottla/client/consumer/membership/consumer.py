"""A member of a consumer group (KIP-848): one heartbeat does everything, as a plain machine.

    heartbeat (epoch 0: I am new)  ->  epoch, interval, assignment
    assignment differs from what we have:  Revoke what goes, Assigned what stays and comes, then a heartbeat at once
        that says what we have now; the coordinator gives what we gave up to others, and the next epoch to us
    heartbeat (epoch -1: I leave; -2: I am static and come back)

1. The machine is driven as the folder's __init__ says. It joins at the first poll after subscribing. Its member id is
   made by the client and stays for its whole life.
2. One heartbeat is on its way at a time: at the interval the coordinator chose, or at once when there is something
   to say (joined again, subscription changed, partitions changed).
3. Members change at their own pace: nobody stops reading what he keeps, and a new assignment that arrives while
   partitions are being given up is looked at when that is done.
4. FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID: everything is Lost, then we join again with epoch 0. An application that
   does not poll for max.poll.interval.ms makes us leave; we join again at the next poll.
5. A topic we are assigned but cannot name yet is asked for (LearnTopics); the others do not wait for it.
6. Every assignment that the coordinator tells is acknowledged: when we have what it says, a heartbeat tells what we
   have, even if that is what we said last. The coordinator may wait for a partition that we never had, because we did
   not know its topic, or that we gave up by ourselves, because its topic is gone; it gives us nothing new before.
"""

from __future__ import annotations

from typing import Any, Final

from ottla.client.consumer.membership.consumer_states import (
    HEARTBEATING,
    IN_GROUP,
    MOVES,
    ConsumerState,
    Reaction,
    reaction_to,
)
from ottla.client.consumer.membership.decisions import (
    NEVER_MS,
    Ask,
    Assigned,
    Change,
    Decision,
    Fail,
    ForgetCoordinator,
    LearnTopics,
    Leaving,
    MemberSettings,
    Subscription,
    WakeAt,
    Warn,
)
from ottla.client.consumer.membership.heartbeats import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    HeartbeatFields,
    by_name,
    by_topic_id,
)
from ottla.client.consumer.membership.member_life import MemberLife
from ottla.client.group_metadata import GroupMetadata
from ottla.errors import (
    NONE,
    IllegalMove,
    OttlaError,
    UnreleasedInstanceId,
    UnsupportedVersion,
    Unwritable,
    broker_error,
)
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.values import TopicPartition

NO_EPOCH: Final = -1
GHOST_LIMIT_MS: Final = 90_000
"""Twice group.consumer.session.timeout.ms as brokers have it by default; members are not told the real one."""

_S = ConsumerState


class ConsumerMembership(MemberLife):
    """One member; the interface is decisions.Membership. `member_id` is a new uuid in Kafka's text form."""

    def __init__(self, settings: MemberSettings, member_id: str) -> None:
        super().__init__(settings, member_id)
        self.state = _S.UNJOINED
        self._fields = HeartbeatFields(settings, member_id)
        self._target: list[TopicPartitions] = []
        self._topic_ids: dict[str, bytes] = {}
        self._asked_for: frozenset[bytes] = frozenset()
        self._in_flight: int | None = None
        self._is_urgent = False
        self._must_acknowledge = False
        self._interval_ms = float(settings.heartbeat_interval_ms)
        self._next_heartbeat_ms = 0.0
        self._must_leave_group = False
        self._goodbye: int | None = None
        self._join_lost_ms: float | None = None

    # --- what it is --------------------------------------------------------------------------------------------------

    @property
    def is_member(self) -> bool:
        return self.state in IN_GROUP or (self.state is _S.LEAVING and self.generation != NO_EPOCH)

    @property
    def is_rebalancing(self) -> bool:
        return self.state not in (_S.STABLE, _S.LEFT, _S.FAILED)

    @property
    def has_left(self) -> bool:
        return self.state is _S.LEFT

    # --- what it is told ---------------------------------------------------------------------------------------------

    def polled(self, now_ms: float) -> None:
        self._last_poll_ms = now_ms

    def subscription_changed(self, subscription: Subscription, now_ms: float) -> None:
        if subscription == self._subscription and self.state not in (_S.LEFT, _S.FAILED):
            return
        self._subscription = subscription
        self._is_urgent = True
        if self.state in (_S.LEFT, _S.FAILED) and not subscription.is_empty:
            self._move(_S.UNJOINED)
            self._last_poll_ms = None

    def commit_refused(self, error: OttlaError, now_ms: float, *, sent_as: GroupMetadata | None = None) -> None:
        if sent_as is not None and sent_as != self.group_metadata():
            return
        if self.is_member and reaction_to(error) is Reaction.FENCED:
            self._fenced(type(error).__name__)

    def rejoin(self, reason: str, now_ms: float) -> None:
        """The coordinator decides about rebalances in this protocol; a heartbeat now is all a member can do."""
        self._is_urgent = True

    def leave(self, now_ms: float, *, how: Leaving = Leaving.DEFAULT) -> None:
        if self.state in (_S.LEAVING, _S.LEFT):
            return
        # A heartbeat that joins may be on its way: the coordinator must hear of the end if it heard of the beginning.
        self._must_leave_group = self.state in IN_GROUP or self._in_flight is not None
        self._leaving = how
        self._subscription = Subscription()
        self._move(_S.LEAVING)
        if not self._give_up(self.assignment, self._why_lost()):
            self._send_leave()

    def carried_out(self, change: Change, now_ms: float) -> None:
        if self._waiting_for is None or change != self._waiting_for:
            return
        self._waiting_for = None
        if not isinstance(change, Assigned):
            self.assignment -= change.partitions
        if self.state is _S.LEAVING:
            if not self._give_up(self.assignment, self._why_lost()):
                self._send_leave()
        elif self.state is _S.RECONCILING:
            self._carried_out_while_reconciling(change)

    # --- planning ----------------------------------------------------------------------------------------------------

    def plan(self, now_ms: float) -> list[Decision]:
        self._check_poll_interval(now_ms)
        if self.state in (_S.FENCED, _S.STALE, _S.FAILED):
            self._give_up(self.assignment, self._why_lost())
        if self._may_join(now_ms):
            self._move(_S.JOINING)
            self._next_heartbeat_ms = max(now_ms, self._next_heartbeat_ms if self._attempts else now_ms)
        if self.state in IN_GROUP:
            self._reconcile()
        if self._may_beat(now_ms):
            self._beat(now_ms)
        decisions, self._outbox = self._outbox, []
        decisions.append(WakeAt(self._due_ms(now_ms)))
        return decisions

    def _may_join(self, now_ms: float) -> bool:
        if (
            self._last_poll_ms is None
            or self._subscription.is_empty
            or self._waiting_for is not None
            or self.assignment
        ):
            return False
        if self.state is _S.STALE and now_ms - self._last_poll_ms >= self._settings.max_poll_interval_ms:
            return False
        return self.state in (_S.UNJOINED, _S.FENCED, _S.STALE)

    def _may_beat(self, now_ms: float) -> bool:
        if not self._is_beating or self._in_flight is not None:
            return False
        wants_now = self._is_urgent or self.state is _S.ACKNOWLEDGING
        return now_ms >= self._next_heartbeat_ms or (wants_now and self._attempts == 0)

    @property
    def _is_beating(self) -> bool:
        # A member that leaves stays alive until the application has given its partitions up.
        leaves_slowly = self.state is _S.LEAVING and self._waiting_for is not None and self.generation != NO_EPOCH
        return self.state in HEARTBEATING or leaves_slowly

    def _due_ms(self, now_ms: float) -> float:
        due = NEVER_MS
        if self._is_beating and self._in_flight is None:
            due = self._next_heartbeat_ms
        if self.state in HEARTBEATING and self._last_poll_ms is not None:
            due = min(due, self._last_poll_ms + self._settings.max_poll_interval_ms)
        return max(now_ms, due)

    def _check_poll_interval(self, now_ms: float) -> None:
        silent_ms = self._overslept_ms(now_ms)
        if silent_ms is None or self.state not in HEARTBEATING:
            return
        self._warn_of_oversleeping(silent_ms)
        # An ongoing change is between the application and us; the group hears now that it need not wait.
        self._ask(self._fields.leaving(STATIC_LEAVE_EPOCH if self._is_static else LEAVE_EPOCH), best_effort=True)
        self._in_flight = None
        self._rejoin_from_scratch(_S.STALE)

    # --- reconciling -------------------------------------------------------------------------------------------------

    def _reconcile(self) -> None:
        """Take the next step from what we have to what we should have."""
        if self._waiting_for is not None or self.state is _S.ACKNOWLEDGING:
            return
        wanted, ids, unknown = by_name(self._target, self._view)
        self._topic_ids |= ids
        if unknown - self._asked_for:
            self._outbox.append(LearnTopics(ids=unknown))
        self._asked_for = unknown
        if wanted == self.assignment:
            if self._must_acknowledge:
                self._move(_S.RECONCILING)
                self._move(_S.ACKNOWLEDGING)
            else:
                self._move(_S.RECONCILING if unknown else _S.STABLE)
            return
        self._move(_S.RECONCILING)
        if not self._give_up(self.assignment - wanted, self._why_lost()):
            self._take(wanted)

    def _take(self, wanted: frozenset[TopicPartition]) -> None:
        change = Assigned(wanted, wanted - self.assignment)
        self.assignment = wanted
        self._waiting_for = change
        self._outbox.append(change)

    def _carried_out_while_reconciling(self, change: Change) -> None:
        if isinstance(change, Assigned):
            self._move(_S.ACKNOWLEDGING)
            return
        # The target may have changed while the application gave partitions up; look again.
        wanted, ids, _ = by_name(self._target, self._view)
        self._topic_ids |= ids
        if not self._give_up(self.assignment - wanted, self._why_lost()):
            self._take(wanted)

    # --- heartbeats --------------------------------------------------------------------------------------------------

    def _beat(self, now_ms: float) -> None:
        if self.state is _S.JOINING:
            request = self._fields.joining(self._subscription)
        else:
            request = self._fields.staying(self.generation, self._subscription_to_send(), self._owned_to_send())
        if self.state is _S.ACKNOWLEDGING:
            self._move(_S.STABLE)
        self._is_urgent = False
        self._next_heartbeat_ms = now_ms + self._interval_ms
        self._in_flight = self._ask(request)

    def _owned_to_send(self) -> list[TopicPartitions] | None:
        """What we have; None while that is changing."""
        if self._waiting_for is not None:
            return None
        if self._must_acknowledge:
            self._fields.repeat_owned()
            self._must_acknowledge = False
        return by_topic_id(self.assignment, self._topic_ids)

    def _subscription_to_send(self) -> Subscription | None:
        """A member that leaves does not say that it wants no topics: that would be a rebalance more."""
        return None if self.state is _S.LEAVING else self._subscription

    def _ask(self, request: ConsumerGroupHeartbeatRequest, *, best_effort: bool = False) -> int:
        ticket = self._new_ticket()
        self._outbox.append(Ask(request, ticket, best_effort=best_effort))
        return ticket

    def answered(self, ask: Ask, response: Any, now_ms: float) -> None:
        if response.error_code != NONE:
            self.failed(ask, broker_error(response.error_code, response.error_message), now_ms)
        elif ask.ticket == self._goodbye:
            self._left()
        elif ask.ticket == self._in_flight:
            self._in_flight = None
            self._apply_response(response, now_ms)

    def failed(self, ask: Ask, error: OttlaError, now_ms: float) -> None:
        if ask.ticket == self._goodbye:
            self._left()
        elif ask.ticket == self._in_flight:
            self._in_flight = None
            self._fields.forget()
            if self._is_beating:
                self._back_off(now_ms)
                if not self._is_our_own_ghost(error, now_ms):
                    self._react(_explained(error))

    def _is_our_own_ghost(self, error: OttlaError, now_ms: float) -> bool:
        """A static member whose answer to joining was lost is in the group without knowing its epoch, and is told that
        somebody has its instance id: itself. It waits until that one's session is over."""
        if self.state is not _S.JOINING:
            return False
        if isinstance(error, UnreleasedInstanceId):
            return self._join_lost_ms is not None and now_ms - self._join_lost_ms < GHOST_LIMIT_MS
        if error.retriable and self._join_lost_ms is None:
            self._join_lost_ms = now_ms
        return False

    def _apply_response(self, response: ConsumerGroupHeartbeatResponse, now_ms: float) -> None:
        if not self._is_beating:
            return
        self._attempts = 0
        self._join_lost_ms = None
        self._interval_ms = float(response.heartbeat_interval_ms or self._settings.heartbeat_interval_ms)
        self._next_heartbeat_ms = now_ms + self._interval_ms
        self.generation = response.member_epoch
        if response.assignment is not None:
            self._target = response.assignment.topic_partitions
            # A heartbeat that joins says that we have nothing; there is nothing the coordinator could wait for.
            self._must_acknowledge = self.state is not _S.JOINING
        if self.state is _S.JOINING:
            self._move(_S.STABLE)

    # --- errors ------------------------------------------------------------------------------------------------------

    def _react(self, error: OttlaError) -> None:
        reaction = reaction_to(error)
        if self.state is _S.LEAVING:
            if reaction in (Reaction.FENCED, Reaction.FAIL):
                self.generation, self._must_leave_group = NO_EPOCH, False
        elif reaction is Reaction.FENCED:
            self._fenced(type(error).__name__)
        elif reaction is Reaction.FIND_COORDINATOR:
            self._outbox.append(ForgetCoordinator(str(error)))
        elif reaction is Reaction.TELL:
            self._outbox.append(Fail(error))
        elif reaction is Reaction.FAIL:
            self._outbox.append(Fail(error))
            self._rejoin_from_scratch(_S.FAILED)

    def _fenced(self, reason: str) -> None:
        self._outbox.append(Warn(f"group {self._settings.group_id!r} does not know this member any more: {reason}"))
        self._in_flight = None
        self._attempts = 0
        self._rejoin_from_scratch(_S.FENCED)

    def _rejoin_from_scratch(self, state: ConsumerState) -> None:
        self._move(state)
        self.generation = NO_EPOCH
        self._target = []
        self._must_acknowledge = False
        self._fields.forget()
        self._give_up(self.assignment, self._why_lost())

    def _back_off(self, now_ms: float) -> None:
        self._next_heartbeat_ms = now_ms + self._next_wait_ms()

    def _why_lost(self) -> str:
        return f"the consumer is {self.state.value}"

    # --- leaving -----------------------------------------------------------------------------------------------------

    def _send_leave(self) -> None:
        if not self._must_leave_group or (self._leaving is Leaving.REMAIN and not self._is_static):
            self._left()
            return
        for_good = not self._is_static or self._leaving is Leaving.LEAVE
        self._in_flight = None
        self._goodbye = self._ask(
            self._fields.leaving(LEAVE_EPOCH if for_good else STATIC_LEAVE_EPOCH), best_effort=True
        )

    def _left(self) -> None:
        self._move(_S.LEFT)
        self.generation = NO_EPOCH
        self._target = []
        self._attempts = 0
        self._in_flight = self._goodbye = None
        self._fields.forget()
        if not self._subscription.is_empty:  # subscribed again while it was leaving
            self._move(_S.UNJOINED)
            self._last_poll_ms = None

    def _move(self, target: ConsumerState) -> None:
        if target not in MOVES[self.state]:
            raise IllegalMove(f"member of {self._settings.group_id!r}: from {self.state.value} to {target.value}")
        self.state = target


def _explained(error: OttlaError) -> OttlaError:
    """An older coordinator refuses this protocol, or a part of it, in words that do not name it."""
    if isinstance(error, UnsupportedVersion) and not error.detail:
        return UnsupportedVersion("the coordinator does not offer group.protocol=consumer; set group.protocol=classic")
    if isinstance(error, Unwritable):
        return UnsupportedVersion(f"the coordinator is too old for what this consumer asks: {error.detail}")
    return error
