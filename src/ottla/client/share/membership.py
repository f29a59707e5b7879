"""A member of a share group (KIP-932): one heartbeat does everything, as a plain machine.

    UNJOINED --poll--> JOINING --answer--> STABLE
    FENCED: the group does not know us any more; we join again at once
    STALE:  the application does not poll; we left, and join again when it does
    LEAVING --> LEFT;   FAILED: only a new subscription helps

1. The assignment is what the last answer said. Nothing has to be given up before others get it: in a share group
   several members read the same partition, and records that we have stay ours until they are acknowledged.
2. The member id is made by the client and stays for its whole life: brokers know our records by it.
3. One heartbeat is on its way at a time: at the interval the coordinator chose, or at once when there is something to
   say. It names the topics only when they changed, or when nobody knows what the coordinator remembers.
4. FENCED_MEMBER_EPOCH and UNKNOWN_MEMBER_ID make us join again with epoch 0. An application that does not poll for
   max.poll.interval.ms makes us leave.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from ottla.client.consumer.membership.consumer_states import Reaction, reaction_to
from ottla.client.consumer.membership.decisions import (
    NEVER_MS,
    Ask,
    Decision,
    Fail,
    ForgetCoordinator,
    LearnTopics,
    PollIntervalExceeded,
    WakeAt,
    Warn,
)
from ottla.errors import IllegalMove, OttlaError, UnsupportedVersion, broker_error
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.values import TopicPartition

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
DOUBLINGS_MAX: Final = 20
FIRST_INTERVAL_MS: Final = 3_000.0


class MemberState(Enum):
    UNJOINED = "unjoined"
    JOINING = "joining"
    STABLE = "stable"
    FENCED = "fenced"
    STALE = "stale"
    LEAVING = "leaving"
    LEFT = "left"
    FAILED = "failed"


_S = MemberState
_ALWAYS: Final = frozenset({_S.LEAVING, _S.FAILED, _S.FENCED, _S.STALE})
MOVES: Final[Mapping[MemberState, frozenset[MemberState]]] = {
    _S.UNJOINED: frozenset({_S.JOINING, _S.LEAVING}),
    _S.JOINING: frozenset({_S.JOINING, _S.STABLE}) | _ALWAYS,
    _S.STABLE: frozenset({_S.STABLE}) | _ALWAYS,
    _S.FENCED: frozenset({_S.JOINING, _S.LEAVING}),
    _S.STALE: frozenset({_S.JOINING, _S.LEAVING}),
    _S.LEAVING: frozenset({_S.LEFT}),
    _S.LEFT: frozenset({_S.UNJOINED}),
    _S.FAILED: frozenset({_S.UNJOINED, _S.LEAVING}),
}
BEATING: Final = frozenset({_S.JOINING, _S.STABLE})


class ShareMemberSettings(NamedTuple):
    """The settings of a member; times in milliseconds."""

    group_id: str
    max_poll_interval_ms: float = 300_000.0
    retry_backoff_ms: float = 100.0
    retry_backoff_max_ms: float = 1_000.0
    rack: str | None = None


class ShareMembership:
    """One member."""

    def __init__(self, settings: ShareMemberSettings, member_id: str) -> None:
        self._settings = settings
        self.member_id = member_id
        self.state = _S.UNJOINED
        self.epoch = JOIN_EPOCH
        self.assignment: frozenset[TopicPartition] = frozenset()
        self._target: list[TopicPartitions] = []
        self._topics: frozenset[str] = frozenset()
        self._sent_topics: frozenset[str] | None = None
        self._names: Mapping[bytes, str] = {}
        self._asked_for: frozenset[bytes] = frozenset()
        self._in_flight: Ask | None = None
        self._ticket = 0
        self._attempts = 0
        self._interval_ms = FIRST_INTERVAL_MS
        self._next_ms = 0.0
        self._polled_ms: float | None = None
        self._outbox: list[Decision] = []

    @property
    def has_left(self) -> bool:
        return self.state is _S.LEFT

    @property
    def waits_for_poll(self) -> bool:
        """Whether a poll makes a difference at once."""
        return self.state not in BEATING

    # --- what it is told ---

    def polled(self, now_ms: float) -> None:
        self._polled_ms = now_ms

    def subscribed(self, topics: frozenset[str]) -> None:
        """The application wants to read these."""
        self._topics = topics
        if self.state in (_S.LEFT, _S.FAILED) and topics:
            self._move(_S.UNJOINED)
            self._polled_ms = None

    def topics_known(self, names: Mapping[bytes, str]) -> None:
        """The ids of topics with their names."""
        self._names = names
        self._resolve()

    def leave(self) -> None:
        if self.state in (_S.LEAVING, _S.LEFT):
            return
        was_member = self.state is _S.STABLE or self._in_flight is not None
        self._topics = frozenset()
        self._assign([])
        self._move(_S.LEAVING)
        if was_member:
            self._in_flight = self._ask(LEAVE_EPOCH)
        else:
            self._move(_S.LEFT)

    # --- planning ---

    def plan(self, now_ms: float) -> list[Decision]:
        self._check_poll_interval(now_ms)
        if self._may_join(now_ms):
            self._move(_S.JOINING)
            self.epoch = JOIN_EPOCH
        if self._may_beat(now_ms):
            self._next_ms = now_ms + self._interval_ms
            self._in_flight = self._ask(self.epoch)
        decisions, self._outbox = self._outbox, []
        decisions.append(WakeAt(self._due_ms(now_ms)))
        return decisions

    def _may_join(self, now_ms: float) -> bool:
        if self._polled_ms is None or not self._topics or now_ms < self._next_ms:
            return False
        if self.state is _S.STALE and self._is_late(now_ms):
            return False
        return self.state in (_S.UNJOINED, _S.FENCED, _S.STALE)

    def _may_beat(self, now_ms: float) -> bool:
        if self.state not in BEATING or self._in_flight is not None:
            return False
        is_urgent = self.state is _S.JOINING or self._sent_topics != self._topics
        return now_ms >= self._next_ms or (is_urgent and not self._attempts)

    def _due_ms(self, now_ms: float) -> float:
        due = NEVER_MS
        if self.state in BEATING and self._in_flight is None:
            due = self._next_ms
        if self.state in BEATING and self._polled_ms is not None:
            due = min(due, self._polled_ms + self._settings.max_poll_interval_ms)
        if self.state is _S.FENCED and self._topics:
            due = min(due, self._next_ms)
        return max(now_ms, due)

    def _is_late(self, now_ms: float) -> bool:
        return self._polled_ms is not None and now_ms - self._polled_ms >= self._settings.max_poll_interval_ms

    def _check_poll_interval(self, now_ms: float) -> None:
        if self.state not in BEATING or not self._is_late(now_ms):
            return
        assert self._polled_ms is not None, "who is late has polled"
        late = f"group {self._settings.group_id!r}, {now_ms - self._polled_ms:.0f} ms since the last poll"
        self._outbox.append(Warn(str(PollIntervalExceeded(late))))
        self._ask(LEAVE_EPOCH)
        self._in_flight = None
        self._next_ms = 0.0
        self._assign([])
        self._move(_S.STALE)

    # --- heartbeats ---

    def _ask(self, epoch: int) -> Ask:
        topics = None
        if epoch != LEAVE_EPOCH and (epoch == JOIN_EPOCH or self._sent_topics != self._topics):
            topics = sorted(self._topics)
            self._sent_topics = self._topics
        request = ShareGroupHeartbeatRequest(
            group_id=self._settings.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            rack_id=self._settings.rack if epoch == JOIN_EPOCH else None,
            subscribed_topic_names=topics,
        )
        self._ticket += 1
        ask = Ask(request, self._ticket, best_effort=epoch == LEAVE_EPOCH)
        self._outbox.append(ask)
        return ask

    def answered(self, ask: Ask, response: ShareGroupHeartbeatResponse, now_ms: float) -> None:
        if response.error_code:
            self.failed(ask, broker_error(response.error_code, response.error_message), now_ms)
        elif ask is self._in_flight:
            self._in_flight = None
            if self.state is _S.LEAVING:
                self._left()
            else:
                self._apply(response, now_ms)

    def _apply(self, response: ShareGroupHeartbeatResponse, now_ms: float) -> None:
        self._attempts = 0
        self._interval_ms = float(response.heartbeat_interval_ms or FIRST_INTERVAL_MS)
        self._next_ms = now_ms + self._interval_ms
        self.epoch = response.member_epoch
        self._move(_S.STABLE)
        if response.assignment is not None:
            self._assign(response.assignment.topic_partitions)

    def _assign(self, target: list[TopicPartitions]) -> None:
        self._target = target
        self._resolve()

    def _resolve(self) -> None:
        """Names of what we are assigned; topics that nobody knows yet are asked for once."""
        self.assignment = frozenset(
            TopicPartition(self._names[each.topic_id], index)
            for each in self._target
            if each.topic_id in self._names
            for index in each.partitions
        )
        unknown = frozenset(each.topic_id for each in self._target) - self._names.keys()
        if unknown - self._asked_for:
            self._outbox.append(LearnTopics(ids=unknown))
        self._asked_for = unknown

    # --- errors ---

    def failed(self, ask: Ask, error: OttlaError, now_ms: float) -> None:
        if ask is not self._in_flight:
            return
        self._in_flight = None
        if self.state is _S.LEAVING:
            self._left()
            return
        self._sent_topics = None
        self._next_ms = now_ms + min(
            self._settings.retry_backoff_ms * (1 << self._attempts), self._settings.retry_backoff_max_ms
        )
        self._attempts = min(self._attempts + 1, DOUBLINGS_MAX)
        self._react(_explained(error))

    def _react(self, error: OttlaError) -> None:
        match reaction_to(error):
            case Reaction.FENCED:
                group = self._settings.group_id
                self._outbox.append(Warn(f"share group {group!r} does not know this member any more: {error}"))
                self._assign([])
                self._move(_S.FENCED)
            case Reaction.FIND_COORDINATOR:
                self._outbox.append(ForgetCoordinator(str(error)))
            case Reaction.TELL:
                self._outbox.append(Fail(error))
            case Reaction.FAIL:
                self._outbox.append(Fail(error))
                self._assign([])
                self._move(_S.FAILED)
            case Reaction.RETRY:
                pass

    def _left(self) -> None:
        self._move(_S.LEFT)
        self._sent_topics = None
        self._attempts = 0
        self._next_ms = 0.0
        if self._topics:  # subscribed again while it was leaving
            self._move(_S.UNJOINED)

    def _move(self, target: MemberState) -> None:
        if target not in MOVES[self.state]:
            raise IllegalMove(f"member of {self._settings.group_id!r}: from {self.state.value} to {target.value}")
        self.state = target


def _explained(error: OttlaError) -> OttlaError:
    if isinstance(error, UnsupportedVersion) and not error.detail:
        return UnsupportedVersion(
            "the brokers do not offer share groups; they come with Kafka 4.2 and the feature share.version=1"
        )
    return error
