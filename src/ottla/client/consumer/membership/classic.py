"""A member of a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, as a plain machine.

One rebalance, seen from inside:

    heartbeat says REBALANCE_IN_PROGRESS (or topics changed, or the application wants it)
      -> give up partitions: eager all of them, cooperative only those of topics no longer wanted (Revoke)
      -> JoinGroup with our subscription, in every strategy we know; answered when all members came
      -> the leader assigns (LearnTopics first if the others read topics it does not know), the rest wait
      -> SyncGroup answers our share: eager Assigned; cooperative Revoke what moved away, Assigned, and if anything
         moved away join again at once, so that it can be handed out

1. The machine is driven as the folder's __init__ says. It joins at the first poll after subscribing, not before.
2. Without a valid generation partitions are Lost, not revoked: the group has gone on without us.
3. UNKNOWN_MEMBER_ID: join as somebody new. ILLEGAL_GENERATION: the same member, nothing else. FENCED_INSTANCE_ID:
   another consumer has our group.instance.id; the application must know.
4. Heartbeats go on in every state that has a generation. No answer for session.timeout.ms: the coordinator is looked
   up again. The application did not poll for max.poll.interval.ms: leave, warn, join again at the next poll.
5. A static member does not leave when it closes: it comes back within session.timeout.ms and finds its partitions.
6. A late answer to a request we no longer wait for changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ottla.client.consumer.membership import classic_requests as requests
from ottla.client.consumer.membership.assignors import RebalanceProtocol, common_protocol
from ottla.client.consumer.membership.classic_requests import PROTOCOL_TYPE
from ottla.client.consumer.membership.classic_states import HEARTBEATING, MOVES, MemberState, Reaction, reaction_to
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
    NoCommonAssignor,
    Subscription,
    WakeAt,
)
from ottla.client.consumer.membership.leading import Leadership
from ottla.client.consumer.membership.member_life import MemberLife
from ottla.client.consumer.membership.strategies import find_assignors
from ottla.client.consumer.membership.subscriptions import NO_GENERATION, read_assignment
from ottla.client.group_metadata import GroupMetadata
from ottla.errors import NONE, FencedInstanceId, IllegalMove, OttlaError, UnsupportedVersion, broker_error
from ottla.protocol.schema import Message
from ottla.values import TopicPartition

NO_MEMBER_ID: Final = ""
JOIN_GRACE_MS: Final = 5_000
"""JoinGroup waits for the slowest member; the answer needs this much more to come back."""

_S = MemberState
Handler = Callable[[Any, float], None]


class ClassicMembership(MemberLife):
    """One member; the interface is decisions.Membership."""

    def __init__(self, settings: MemberSettings) -> None:
        super().__init__(settings, NO_MEMBER_ID)
        self._assignors = find_assignors(settings.assignors, settings.custom_assignors)
        self._protocol = common_protocol(self._assignors)
        self.state = _S.UNJOINED
        self._strategy: str | None = None
        self._joined_with = Subscription()
        self._leadership: Leadership | None = None
        self._rejoin_reason: str | None = None
        self._last_share: tuple[frozenset[TopicPartition], int] = (frozenset(), NO_GENERATION)
        self._share_to_apply: frozenset[TopicPartition] | None = None
        self._asked: dict[int, tuple[Handler, Callable[[OttlaError, float], None]]] = {}
        self._heartbeat_ticket: int | None = None
        self._step_ticket: int | None = None
        self._revoked_some = False
        self._is_final = False
        self._next_heartbeat_ms = 0.0
        self._last_response_ms = 0.0
        self._overslept = False
        self._not_before_ms = 0.0

    # --- what it is --------------------------------------------------------------------------------------------------

    @property
    def is_member(self) -> bool:
        return self.generation != NO_GENERATION and (self.state in HEARTBEATING or self.state is _S.LEAVING)

    @property
    def is_rebalancing(self) -> bool:
        if self.state is _S.STABLE:
            return self._why_rejoin() is not None
        return self.state not in (_S.LEFT, _S.FAILED)

    @property
    def has_left(self) -> bool:
        return self.state is _S.LEFT

    # --- what it is told ---------------------------------------------------------------------------------------------

    def polled(self, now_ms: float) -> None:
        self._last_poll_ms = now_ms
        self._overslept = False
        if self.state is _S.FAILED and not self._is_final:
            # The application polls on after it saw the error: perhaps somebody granted the right meanwhile.
            self._back_off(now_ms)
            self._move(_S.UNJOINED)

    def subscription_changed(self, subscription: Subscription, now_ms: float) -> None:
        self._subscription = subscription
        if self.state in (_S.LEFT, _S.FAILED) and not subscription.is_empty:
            self._move(_S.UNJOINED)
            self._is_final = False
            self._last_poll_ms = None

    def commit_refused(self, error: OttlaError, now_ms: float, *, sent_as: GroupMetadata | None = None) -> None:
        if sent_as is not None and sent_as != self.group_metadata():
            return
        if self.state in HEARTBEATING:
            self._react(error, now_ms)

    def rejoin(self, reason: str, now_ms: float) -> None:
        self._rejoin_reason = self._rejoin_reason or reason

    def leave(self, now_ms: float, *, how: Leaving = Leaving.DEFAULT) -> None:
        if self.state in (_S.LEAVING, _S.LEFT):
            return
        self._leaving = how
        self._subscription = Subscription()
        self._forget_step()
        self._move(_S.LEAVING)
        if not self._give_up(self.assignment, self._why_lost()):
            self._send_leave("the consumer is being closed")

    def carried_out(self, change: Change, now_ms: float) -> None:
        if self._waiting_for is None or change != self._waiting_for:
            return
        self._waiting_for = None
        self.assignment -= change.partitions
        if self.state is _S.APPLYING:
            self._apply_share()
        elif self.state is _S.LEAVING:
            if not self._give_up(self.assignment, self._why_lost()):
                self._send_leave("the consumer is being closed")
        elif self.state is _S.PREPARING:
            self._prepare(now_ms)

    # --- planning ----------------------------------------------------------------------------------------------------

    def plan(self, now_ms: float) -> list[Decision]:
        self._check_poll_interval(now_ms)
        self._beat(now_ms)
        leadership = self._leadership
        if self.state is _S.LEARNING and leadership is not None and leadership.knows_enough(self._view, now_ms):
            self._assign_as_leader(leadership, now_ms)
        if self.state in (_S.UNJOINED, _S.STABLE) and self._may_join(now_ms):
            reason = self._why_rejoin()
            if reason is not None:
                self._rejoin_reason = reason
                self._prepare(now_ms)
        decisions, self._outbox = self._outbox, []
        decisions.append(WakeAt(self._due_ms(now_ms)))
        return decisions

    def _may_join(self, now_ms: float) -> bool:
        polls = self._last_poll_ms is not None and not self._overslept
        return polls and self._waiting_for is None and now_ms >= self._not_before_ms and not self._subscription.is_empty

    def _why_rejoin(self) -> str | None:
        if self._rejoin_reason is not None:
            return self._rejoin_reason
        if self.state is _S.UNJOINED:
            return "the consumer subscribed"
        if self._subscription != self._joined_with:
            return "the subscription changed"
        if self._leadership is not None and self._leadership.is_outdated(self._view):
            return "the topics of the group changed"
        return None

    def _due_ms(self, now_ms: float) -> float:
        due = [NEVER_MS]
        if self._is_beating:
            # Without an answer the next thing to happen is that the session is over.
            session_over = self._last_response_ms + self._settings.session_timeout_ms
            due.append(self._next_heartbeat_ms if self._heartbeat_ticket is None else session_over)
        if self._last_poll_ms is not None and self.state in HEARTBEATING and not self._overslept:
            due.append(self._last_poll_ms + self._settings.max_poll_interval_ms)
        if self.state is _S.LEARNING and self._leadership is not None:
            due.append(self._leadership.learn_until_ms)
        if self.state in (_S.UNJOINED, _S.STABLE) and self._may_join(NEVER_MS) and self._why_rejoin() is not None:
            due.append(self._not_before_ms)
        return max(now_ms, min(due))

    def _check_poll_interval(self, now_ms: float) -> None:
        silent_ms = self._overslept_ms(now_ms)
        if silent_ms is None or self._overslept or self.state not in HEARTBEATING:
            return
        self._overslept = True
        self._warn_of_oversleeping(silent_ms)
        self._send_leave("consumer poll timeout has expired", come_back=True)
        self._lose_membership("max.poll.interval.ms exceeded", forget_id=True)

    @property
    def _is_beating(self) -> bool:
        # A member that leaves stays alive until the application has given its partitions up.
        leaves_slowly = self.state is _S.LEAVING and self._waiting_for is not None
        return self.generation != NO_GENERATION and (self.state in HEARTBEATING or leaves_slowly)

    # --- heartbeats --------------------------------------------------------------------------------------------------

    def _beat(self, now_ms: float) -> None:
        if not self._is_beating:
            return
        if now_ms - self._last_response_ms >= self._settings.session_timeout_ms:
            # The request on its way is as good as lost; the coordinator may be a new one by now.
            self._outbox.append(ForgetCoordinator("no heartbeat was answered for session.timeout.ms"))
            self._last_response_ms = now_ms
            self._forget_heartbeat()
        if self._heartbeat_ticket is None and now_ms >= self._next_heartbeat_ms:
            request = requests.heartbeat(self.group_metadata())
            self._next_heartbeat_ms = now_ms + self._settings.heartbeat_interval_ms
            self._heartbeat_ticket = self._ask(request, self._heartbeat_answered, self._heartbeat_failed).ticket

    def _forget_heartbeat(self) -> None:
        if self._heartbeat_ticket is not None:
            self._asked.pop(self._heartbeat_ticket, None)
        self._heartbeat_ticket = None

    def _forget_step(self) -> None:
        if self._step_ticket is not None:
            self._asked.pop(self._step_ticket, None)
        self._step_ticket = None

    def _heartbeat_answered(self, response: Any, now_ms: float) -> None:
        self._heartbeat_ticket = None
        if response.error_code == NONE:
            self._last_response_ms = now_ms
            return
        self._heartbeat_failed(broker_error(response.error_code), now_ms)

    def _heartbeat_failed(self, error: OttlaError, now_ms: float) -> None:
        self._heartbeat_ticket = None
        reaction = reaction_to(error)
        if reaction is Reaction.REJOIN:
            # The group waits for us, and it heard us; until we are ready to join, it should go on hearing us.
            self._last_response_ms = now_ms
            if self.state is _S.STABLE:
                self.rejoin("the group is rebalancing", now_ms)
            return
        if reaction in (Reaction.RETRY, Reaction.FIND_COORDINATOR):
            self._next_heartbeat_ms = min(self._next_heartbeat_ms, now_ms + self._settings.retry_backoff_ms)
        self._react(error, now_ms)

    # --- joining -----------------------------------------------------------------------------------------------------

    def _prepare(self, now_ms: float) -> None:
        """Give up what must be given up before JoinGroup; comes back here until nothing is left to give up."""
        self._move(_S.PREPARING)
        if self.generation == NO_GENERATION or self._protocol is RebalanceProtocol.EAGER:
            unwanted = self.assignment
        else:
            unwanted = frozenset(each for each in self.assignment if each.topic not in self._subscription.topics)
        if not self._give_up(unwanted, self._why_lost()):
            self._send_join(now_ms)

    def _send_join(self, now_ms: float) -> None:
        self._move(_S.JOINING)
        self._forget_heartbeat()
        self._revoked_some = False
        self._leadership = None
        self._joined_with = self._subscription
        request = requests.join_group(
            self._settings,
            self.group_metadata(),
            self._assignors,
            self._subscription.topics,
            self.assignment,
            self._last_share,
            self._rejoin_reason,
        )
        timeout_ms = self._settings.max_poll_interval_ms + JOIN_GRACE_MS
        self._step_ticket = self._ask(request, self._joined, self._step_failed, timeout_ms=timeout_ms).ticket

    def _joined(self, response: Any, now_ms: float) -> None:
        if response.error_code != NONE:
            error = broker_error(response.error_code)
            if reaction_to(error) is Reaction.JOIN_WITH_ID:
                self.member_id = response.member_id
                self._send_join(now_ms)
            else:
                self._step_failed(error, now_ms)
            return
        if response.protocol_type not in (None, PROTOCOL_TYPE) or self._assignor(response.protocol_name) is None:
            self._fail(NoCommonAssignor(f"the group chose {response.protocol_name!r} ({response.protocol_type})"))
            return
        self.generation, self.member_id = response.generation_id, response.member_id
        self._strategy = response.protocol_name
        self._attempts = 0
        self._last_response_ms = now_ms
        self._next_heartbeat_ms = now_ms + self._settings.heartbeat_interval_ms
        if response.leader == response.member_id:
            self._lead(response, now_ms)
        else:
            self._send_sync({})

    def _assignor(self, name: str | None) -> Any:
        return next((assignor for assignor in self._assignors if assignor.name == name), None)

    def _lead(self, response: Any, now_ms: float) -> None:
        try:
            self._leadership = Leadership(response.members, now_ms)
        except OttlaError as error:
            self._step_failed(error, now_ms)
            return
        if response.skip_assignment:
            # A static leader came back: the coordinator keeps the assignment, we only watch the topics.
            self._leadership.remember(self._view)
            self._send_sync({})
            return
        self._move(_S.LEARNING)
        if self._leadership.knows_enough(self._view, now_ms):
            self._assign_as_leader(self._leadership, now_ms)
        else:
            self._outbox.append(LearnTopics(names=self._leadership.topics))

    def _assign_as_leader(self, leadership: Leadership, now_ms: float) -> None:
        try:
            shares = leadership.assign(self._assignor(self._strategy), self._view)
        except Exception as error:  # an application's own assignor may raise anything
            self._move(_S.UNJOINED)
            self._back_off(now_ms)
            self._outbox.append(Fail(NoCommonAssignor(f"{self._strategy!r} could not assign: {error!r}")))
            return
        self._send_sync(shares)

    def _send_sync(self, shares: dict[str, bytes]) -> None:
        self._move(_S.SYNCING)
        request = requests.sync_group(self.group_metadata(), self._strategy, shares)
        self._step_ticket = self._ask(request, self._synced, self._step_failed).ticket

    def _synced(self, response: Any, now_ms: float) -> None:
        if response.error_code != NONE:
            self._step_failed(broker_error(response.error_code), now_ms)
            return
        if response.protocol_name not in (None, self._strategy):
            self._fail(
                NoCommonAssignor(f"joined with {self._strategy!r}, the assignment is of {response.protocol_name!r}")
            )
            return
        try:
            share = read_assignment(response.assignment)
        except OttlaError as error:
            self._step_failed(error, now_ms)
            return
        self._rejoin_reason = None
        self._last_share = (share, self.generation)
        self._apply_assignment(share)

    def _apply_assignment(self, share: frozenset[TopicPartition]) -> None:
        if any(each.topic not in self._subscription.topics for each in share):
            # The subscription changed while the group was assigning: what came is of no use.
            self._rejoin_reason = "the assignment does not match the subscription any more"
            self._move(_S.STABLE)
            return
        self._share_to_apply = share
        self._revoked_some = bool(self.assignment - share)
        self._move(_S.APPLYING)
        if not self._give_up(self.assignment - share, self._why_lost()):
            self._apply_share()

    def _apply_share(self) -> None:
        share, self._share_to_apply = self._share_to_apply, None
        if share is None or self.generation == NO_GENERATION:
            self._move(_S.UNJOINED)
            return
        added = share - self.assignment
        self.assignment = share
        self._outbox.append(Assigned(share, added))
        self._move(_S.STABLE)
        if self._revoked_some:
            self._rejoin_reason = self._rejoin_reason or "partitions were given up and can be handed out"

    def _step_failed(self, error: OttlaError, now_ms: float) -> None:
        """JoinGroup or SyncGroup did not work: begin the rebalance again, as whoever the error leaves us to be."""
        self._rejoin_reason = f"the last attempt failed: {type(error).__name__}"
        if reaction_to(error) in (Reaction.RETRY, Reaction.FIND_COORDINATOR, Reaction.FAIL):
            self._back_off(now_ms)
        self._move(_S.UNJOINED)
        self._react(error, now_ms)

    # --- errors ------------------------------------------------------------------------------------------------------

    def _react(self, error: OttlaError, now_ms: float) -> None:
        reaction = reaction_to(error)
        if reaction is Reaction.FAIL and self.state is _S.LEAVING:
            self._lose_membership(type(error).__name__, forget_id=True)
        elif reaction is Reaction.FAIL:
            self._fail(error)
        elif reaction is Reaction.FIND_COORDINATOR:
            self._outbox.append(ForgetCoordinator(str(error)))
        elif reaction is Reaction.REJOIN:
            self.rejoin("the group is rebalancing", now_ms)
        elif reaction in (Reaction.NEW_GENERATION, Reaction.NEW_MEMBER):
            self._lose_membership(type(error).__name__, forget_id=reaction is Reaction.NEW_MEMBER)

    def _lose_membership(self, reason: str, *, forget_id: bool) -> None:
        self.generation = NO_GENERATION
        if forget_id:
            self.member_id = NO_MEMBER_ID
        self._share_to_apply = None
        self._rejoin_reason = reason
        self._leadership = None
        self._forget_heartbeat()
        self._forget_step()
        if self.state in HEARTBEATING and self.state is not _S.PREPARING:
            self._move(_S.UNJOINED)
        # What was ours may be somebody else's by now; reading on would be reading twice.
        self._give_up(self.assignment, self._why_lost())

    def _fail(self, error: OttlaError) -> None:
        self._move(_S.FAILED)
        self.generation = NO_GENERATION
        self._is_final = isinstance(error, FencedInstanceId | UnsupportedVersion | NoCommonAssignor)
        if isinstance(error, FencedInstanceId):
            self.member_id = NO_MEMBER_ID  # it belongs to the other one now
        self._forget_heartbeat()
        self._forget_step()
        self._outbox.append(Fail(error))
        self._give_up(self.assignment, self._why_lost())

    def _back_off(self, now_ms: float) -> None:
        self._not_before_ms = now_ms + self._next_wait_ms()

    def _why_lost(self) -> str:
        return self._rejoin_reason or "this consumer is no longer in the group"

    # --- leaving -----------------------------------------------------------------------------------------------------

    def _send_leave(self, reason: str, *, come_back: bool = False) -> None:
        stays = self._leaving is Leaving.REMAIN or (self._is_static and self._leaving is Leaving.DEFAULT)
        if self.member_id == NO_MEMBER_ID or stays:
            if not come_back:
                self._left(None, 0.0)
            return
        request = requests.leave_group(self.group_metadata(), reason)
        done = self._ignore if come_back else self._left
        self._ask(request, done, done, best_effort=True)

    def _ignore(self, _result: Any, _now_ms: float) -> None:
        """A consumer that overslept does not wait to be told that it has left."""

    def _left(self, _result: Any, _now_ms: float) -> None:
        self._move(_S.LEFT)
        self.member_id, self.generation = NO_MEMBER_ID, NO_GENERATION
        self._rejoin_reason = None
        self._forget_heartbeat()
        if not self._subscription.is_empty:  # subscribed again while it was leaving
            self._move(_S.UNJOINED)
            self._last_poll_ms = None

    # --- requests ----------------------------------------------------------------------------------------------------

    def _ask(
        self,
        request: Message,
        answered: Handler,
        failed: Callable[[OttlaError, float], None],
        *,
        timeout_ms: float | None = None,
        best_effort: bool = False,
    ) -> Ask:
        ask = Ask(request, self._new_ticket(), timeout_ms, best_effort)
        self._asked[ask.ticket] = (answered, failed)
        self._outbox.append(ask)
        return ask

    def answered(self, ask: Ask, response: Any, now_ms: float) -> None:
        handlers = self._asked.pop(ask.ticket, None)
        if handlers is not None:
            handlers[0](response, now_ms)

    def failed(self, ask: Ask, error: OttlaError, now_ms: float) -> None:
        handlers = self._asked.pop(ask.ticket, None)
        if handlers is not None:
            handlers[1](error, now_ms)

    def _move(self, target: MemberState) -> None:
        if target not in MOVES[self.state]:
            raise IllegalMove(f"member of {self._settings.group_id!r}: from {self.state.value} to {target.value}")
        self.state = target
