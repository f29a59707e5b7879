"""Which records a share consumer holds, and how each was acknowledged. Plain: no socket, no clock, no thread.

    BUFFERED --deliver--> DELIVERED --acknowledge--> ACKNOWLEDGED --take--> SENDING --answered--> GONE
                              ^                                                |
                              +------------- a RENEW was accepted -------------+

1. Every record is in exactly one state. A broker that gives an offset once more means another delivery of it: what we
   knew of the one before is over.
2. A record is acknowledged once. Until that is on its way it may be changed, afterwards never; a final acknowledgement
   that comes while a RENEW is on its way waits for the answer to that.
3. Acknowledgements go to the broker that gave the record, in its session. When the session is lost, so are its records:
   acknowledgements that were not answered fail, and whoever acknowledges such a record later gets NotHeld.
4. What a broker refused for a reason that may pass is sent again until the lock runs out.
5. A record that is kept is renewed when half of its lock is over, until it is acknowledged or its time is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum, IntEnum
from typing import Final

from ottla.errors import OttlaError
from ottla.light_tuples import NamedTuple
from ottla.values import TopicPartition


class AcknowledgeType(IntEnum):
    """What became of a record, in the words of the application."""

    ACCEPT = 1
    """It was worked on; nobody gets it again."""
    RELEASE = 2
    """It was not; somebody gets it again, until the group's limit of deliveries is reached."""
    REJECT = 3
    """It cannot be worked on; nobody gets it again."""
    RENEW = 4
    """It is still worked on; the lock starts anew."""


NEVER_MS: Final = float("inf")
GAP: Final = 0
"""There is no record at this offset: compaction took it, or it is a marker of a transaction."""


class NotHeld(OttlaError):
    """This consumer does not have the record any more: it was acknowledged before, its lock ran out, or the connection
    to its broker was lost. The record is delivered again unless it was acknowledged."""


class UnacknowledgedRecords(OttlaError):
    """Records of the last poll were not acknowledged, and share.acknowledgement.mode is explicit.
    Say accept, release, reject or renew of every record before the next poll, or use the implicit mode."""


class State(Enum):
    """Where a record is."""

    BUFFERED = "buffered"
    DELIVERED = "delivered"
    ACKNOWLEDGED = "acknowledged"
    SENDING = "sending"
    GONE = "gone"


class Held:
    """One record that a broker gave us."""

    __slots__ = (
        "ack", "delivery_count", "kept_until_ms", "lock_ms", "locked_until_ms", "name", "next_ack", "node_id", "offset",
        "renewed", "retry_at_ms", "state",
    )  # fmt: skip

    def __init__(
        self, name: TopicPartition, offset: int, delivery_count: int, node_id: int, now_ms: float, lock_ms: float
    ) -> None:
        self.name = name
        self.offset = offset
        self.delivery_count = delivery_count
        self.node_id = node_id
        self.lock_ms = lock_ms
        self.locked_until_ms = now_ms + lock_ms
        self.kept_until_ms = 0.0
        self.retry_at_ms = 0.0
        self.renewed = False  # by the application itself: it has more to say
        self.state = State.BUFFERED
        self.ack: int = -1
        self.next_ack: int | None = None

    @property
    def renew_at_ms(self) -> float:
        """When half of the lock is over."""
        return self.locked_until_ms - self.lock_ms / 2

    def __repr__(self) -> str:
        return f"<Held {self.name}@{self.offset} {self.state.value}>"


class Outcome(NamedTuple):
    """What became of an acknowledgement."""

    held: Held
    ack: int
    error: OttlaError | None


class InFlight:
    """All records of one consumer; a lock of the consumer guards it."""

    def __init__(self) -> None:
        self._held: dict[TopicPartition, dict[int, Held]] = {}
        self._delivered: dict[Held, None] = {}
        self._unsent: dict[int, dict[Held, None]] = {}
        self._first_due_ms: dict[int, float] = {}  # when the first of them must be sent
        self._kept: dict[Held, None] = {}

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def __iter__(self) -> Iterator[Held]:
        for records in self._held.values():
            yield from records.values()

    # --- records come ---

    def acquire(
        self,
        name: TopicPartition,
        node_id: int,
        ranges: Iterable[tuple[int, int, int]],
        now_ms: float,
        lock_ms: float,
    ) -> dict[int, Held]:
        """A broker gave us these: (first offset, last offset, delivery count)."""
        records = self._held.setdefault(name, {})
        found: dict[int, Held] = {}
        for first, last, count in ranges:
            for offset in range(first, last + 1):
                if (before := records.get(offset)) is not None:
                    self._forget(before)
                found[offset] = records[offset] = Held(name, offset, count, node_id, now_ms, lock_ms)
        return found

    def deliver(self, held: Held, now_ms: float) -> bool:
        """The application gets it; False when it is not ours any more."""
        if held.state is State.BUFFERED and held.locked_until_ms <= now_ms:
            self._remove(held)
        if held.state is not State.BUFFERED:
            return False
        held.state = State.DELIVERED
        self._delivered[held] = None
        return True

    # --- acknowledgements come ---

    def acknowledge(self, held: Held, ack: int) -> bool:
        """The application said what it did with a record; True when this must be sent before all that waits."""
        held.renewed = ack == AcknowledgeType.RENEW
        if held.state is State.SENDING and held.ack == AcknowledgeType.RENEW:
            held.next_ack = None if held.renewed else ack
            return False
        if held.state not in (State.DELIVERED, State.ACKNOWLEDGED):
            raise NotHeld(_why_not(held))
        waits = held.renew_at_ms < self._first_due_ms.get(held.node_id, NEVER_MS)
        self._set_ack(held, ack)
        return waits or ack == AcknowledgeType.RENEW

    def acknowledge_unread(self, held: Held, ack: int) -> None:
        """Nobody reads this one: it is a gap, it cannot be read, or its partition was taken away."""
        if held.state is State.BUFFERED:
            self._set_ack(held, ack)

    def _set_ack(self, held: Held, ack: int) -> None:
        self._delivered.pop(held, None)
        held.retry_at_ms = 0.0
        self._queue(held, ack)

    def _queue(self, held: Held, ack: int) -> None:
        held.state, held.ack = State.ACKNOWLEDGED, ack
        self._unsent.setdefault(held.node_id, {})[held] = None
        first_ms = self._first_due_ms.get(held.node_id, NEVER_MS)
        self._first_due_ms[held.node_id] = min(first_ms, held.renew_at_ms)

    def accept_delivered(self) -> None:
        """Implicit acknowledgement: whatever was delivered and not acknowledged was worked on."""
        for held in self.unacknowledged():
            self._set_ack(held, AcknowledgeType.ACCEPT)

    def unacknowledged(self) -> list[Held]:
        """Delivered, and nothing was said of it; what is kept or was renewed is still worked on."""
        return [held for held in self._delivered if not held.renewed and held not in self._kept]

    # --- locks ---

    def keep(self, held: Held, until_ms: float) -> None:
        """Renew its lock in the background, until then at the latest."""
        if held.state is not State.GONE:
            held.kept_until_ms = until_ms
            self._kept[held] = None

    def renew_due(self, now_ms: float) -> float:
        """Renew what is due; returns when the next one is."""
        next_ms = NEVER_MS
        for held in list(self._kept):
            if held.state is State.GONE or now_ms >= held.kept_until_ms:
                del self._kept[held]
            elif held.state is State.DELIVERED:
                if now_ms >= held.renew_at_ms:
                    self._set_ack(held, AcknowledgeType.RENEW)
                else:
                    next_ms = min(next_ms, held.renew_at_ms)
        return next_ms

    # --- acknowledgements go ---

    def nodes_with_acks(self) -> list[int]:
        return [node_id for node_id, acks in self._unsent.items() if acks]

    def next_ack_ms(self, node_id: int, now_ms: float) -> float:
        """When the next one for this broker must go: before its lock runs out, or when it may be tried again."""
        acks = self._unsent.get(node_id, {})
        due = (each.retry_at_ms if each.retry_at_ms > now_ms else each.renew_at_ms for each in acks)
        return min(due, default=NEVER_MS)

    def acks(self, node_id: int, now_ms: float) -> Iterator[Held]:
        """What could be sent to this broker now."""
        return (held for held in self._unsent.get(node_id, ()) if held.retry_at_ms <= now_ms)

    def take(self, node_id: int, now_ms: float, wanted: Callable[[Held], bool] | None = None) -> list[Held]:
        """These leave with the next request to the broker."""
        leaving = [held for held in self.acks(node_id, now_ms) if wanted is None or wanted(held)]
        acks = self._unsent.get(node_id, {})
        self._first_due_ms.pop(node_id, None)
        for held in leaving:
            del acks[held]
            held.state = State.SENDING
        return leaving

    def answered(
        self, sent: Sequence[Held], error: OttlaError | None, now_ms: float, *, retry_ms: float, lock_ms: float = 0.0
    ) -> list[Outcome]:
        """The broker answered about records of one partition; `lock_ms` is how long renewed records are locked."""
        outcomes: list[Outcome] = []
        for held in sent:
            if held.state is not State.SENDING:
                continue  # lost meanwhile; that was an outcome of its own
            if error is None and held.ack == AcknowledgeType.RENEW:
                outcomes.append(self._renewed(held, now_ms, lock_ms))
            elif error is not None and _may_pass(error) and now_ms + retry_ms < held.locked_until_ms:
                self._send_again(held, now_ms + retry_ms)
            else:
                outcomes.append(Outcome(held, _final_ack(held), error))
                self._remove(held)
        return outcomes

    def _renewed(self, held: Held, now_ms: float, lock_ms: float) -> Outcome:
        held.lock_ms = lock_ms or held.lock_ms
        held.locked_until_ms = now_ms + held.lock_ms
        if held.next_ack is not None:
            self._send_again(held, 0.0)
        else:
            held.state = State.DELIVERED
            self._delivered[held] = None
        return Outcome(held, AcknowledgeType.RENEW, None)

    def _send_again(self, held: Held, retry_at_ms: float) -> None:
        ack = _final_ack(held)
        held.next_ack = None
        held.retry_at_ms = retry_at_ms
        self._queue(held, ack)

    # --- records go ---

    def lose(self, node_id: int, error: OttlaError) -> list[Outcome]:
        """The session with this broker is over, and nothing of it is ours any more."""
        lost = [held for held in self if held.node_id == node_id]
        acknowledged = [held for held in lost if held.state in (State.ACKNOWLEDGED, State.SENDING)]
        outcomes = [Outcome(held, _final_ack(held), error) for held in acknowledged]
        for held in lost:
            self._remove(held)
        return outcomes

    def expire(self, now_ms: float) -> list[Outcome]:
        """What the application did not acknowledge is not ours any more when its lock is over: brokers released it."""
        over = [each for each in self._delivered if each.locked_until_ms <= now_ms]
        for held in over:
            self._remove(held)
        late = "its lock ran out before it was acknowledged"
        return [
            Outcome(held, AcknowledgeType.RELEASE, NotHeld(f"{held.name} at offset {held.offset}: {late}"))
            for held in over
        ]

    def release_buffered(self, names: Iterable[TopicPartition]) -> None:
        """These partitions are read by others now; what nobody has seen goes back."""
        for name in names:
            for held in self._held.get(name, {}).values():
                self.acknowledge_unread(held, AcknowledgeType.RELEASE)

    def _remove(self, held: Held) -> None:
        records = self._held.get(held.name)
        if records is not None and records.get(held.offset) is held:
            del records[held.offset]
            if not records:
                del self._held[held.name]
        self._forget(held)

    def _forget(self, held: Held) -> None:
        held.state = State.GONE
        self._delivered.pop(held, None)
        self._kept.pop(held, None)
        self._unsent.get(held.node_id, {}).pop(held, None)


def _final_ack(held: Held) -> int:
    return held.ack if held.next_ack is None else held.next_ack


def _may_pass(error: OttlaError) -> bool:
    """A broker that does not lead the partition any more has forgotten the lock; a coordinator that is being loaded has
    not."""
    return error.retriable and not error.refresh_metadata


def _why_not(held: Held) -> str:
    where = f"{held.name} at offset {held.offset}"
    if held.state is State.SENDING:
        return f"{where} was acknowledged already"
    return where if held.state is State.GONE else f"{where} was not delivered yet"
