"""Which brokers the active controller has heard of, and how far they are. It is in memory, and begins anew with every
controller.

1. A session begins with a heartbeat, and with the activation of a controller for every broker that is not fenced:
   nobody is fenced before he could have been silent for a whole session.
2. It ends when nothing was heard for `timeout_ms`, when the broker stops in order, and with another registration.
3. Who is fenced for silence is found one at a time, the longest silent first, so that what follows from one is seen
   before the next.
4. Who is silent for `SUSPECTED_AFTER_MS` has left out a heartbeat, and who was not heard of since the activation may
   be gone since long. The controller looks whether their processes are still there (`suspects`): one that has ended is
   fenced at once, without waiting for its session (decision 0241).
5. A broker is caught up when it has applied the log up to its registration. A controlled shutdown is over when every
   active broker has applied the log up to where its leaderships were moved.
"""

from __future__ import annotations

from typing import Final

from ottla.cluster.image import ClusterImage

NOTHING_APPLIED: Final = -1
SUSPECTED_AFTER_MS: Final = 2_250.0
"""A little more than broker.heartbeat.interval.ms by default."""


class Session:
    """What was heard of one broker."""

    __slots__ = ("applied_offset", "last_contact_ms", "registered_offset", "shutdown_offset", "suspected_ms")

    def __init__(self, registered_offset: int, last_contact_ms: float | None) -> None:
        self.registered_offset = registered_offset
        self.last_contact_ms = last_contact_ms
        self.suspected_ms = last_contact_ms  # from when on it is looked whether its process is there
        self.applied_offset = NOTHING_APPLIED
        self.shutdown_offset: int | None = None

    @property
    def is_stopping(self) -> bool:
        return self.shutdown_offset is not None


class BrokerSessions:
    """See the module."""

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms
        self._sessions: dict[int, Session] = {}

    def begin(self, image: ClusterImage, now_ms: float) -> None:
        """A controller became the active one. The offset of a registration is the broker's epoch, or a later one that
        is not known any more."""
        self._sessions = {
            broker.id: Session(broker.epoch, None if broker.fenced else now_ms) for broker in image.brokers.values()
        }

    def of(self, image: ClusterImage, broker_id: int) -> Session:
        """The session of a broker that is registered."""
        found = self._sessions.get(broker_id)
        if found is None:
            found = self._sessions[broker_id] = Session(image.brokers[broker_id].epoch, None)
        return found

    def registered(self, broker_id: int, offset: int, *, is_amended: bool) -> None:
        """A registration stands at an offset; another incarnation begins without a session."""
        before = self._sessions.get(broker_id)
        if is_amended and before is not None:
            before.registered_offset = offset
        else:
            self._sessions[broker_id] = Session(offset, None)

    def heard(self, image: ClusterImage, broker_id: int, now_ms: float) -> None:
        session = self.of(image, broker_id)
        session.last_contact_ms = now_ms
        session.suspected_ms = now_ms + SUSPECTED_AFTER_MS

    def ended(self, broker_id: int) -> None:
        """The broker is fenced for its silence, or stops."""
        if (found := self._sessions.get(broker_id)) is not None:
            found.last_contact_ms = found.suspected_ms = None
            found.shutdown_offset = None

    def forget(self, broker_id: int) -> None:
        self._sessions.pop(broker_id, None)

    def is_live(self, broker_id: int, now_ms: float) -> bool:
        found = self._sessions.get(broker_id)
        if found is None or found.last_contact_ms is None:
            return False
        return now_ms - found.last_contact_ms <= self.timeout_ms

    def stalest(self, image: ClusterImage, now_ms: float) -> int | None:
        """The broker that is silent for the longest time, and for too long; None when there is none."""
        silent: list[tuple[float, int]] = []
        for broker in image.brokers.values():
            if not broker.fenced and not self.is_live(broker.id, now_ms):
                last_ms = self.of(image, broker.id).last_contact_ms
                silent.append((float("-inf") if last_ms is None else last_ms, broker.id))
        return min(silent)[1] if silent else None

    def suspects(self, image: ClusterImage, now_ms: float) -> list[int]:
        """Brokers that may be gone, the longest silent first; those that stop in order are not meant."""
        silent: list[tuple[float, int]] = []
        for broker in image.brokers.values():
            session = self.of(image, broker.id)
            since_ms = session.suspected_ms
            if not broker.fenced and not session.is_stopping and since_ms is not None and since_ms <= now_ms:
                silent.append((since_ms, broker.id))
        return [broker_id for _, broker_id in sorted(silent)]

    def seen(self, broker_id: int, now_ms: float) -> None:
        """Its process is there, or its machine does not say: it is looked again later."""
        if (found := self._sessions.get(broker_id)) is not None and found.suspected_ms is not None:
            found.suspected_ms = now_ms + SUSPECTED_AFTER_MS

    def why_fenced(self, image: ClusterImage, broker_id: int) -> str:
        """For the log."""
        if self.of(image, broker_id).last_contact_ms is None:
            return "its process has ended, nothing listens at its port"
        return f"nothing was heard of it for {self.timeout_ms:.0f} ms"

    def next_check_ms(self, image: ClusterImage, now_ms: float) -> float:
        """When the next broker may have been silent for too long."""
        heard = [self.of(image, broker.id).last_contact_ms for broker in image.brokers.values() if not broker.fenced]
        due = [now_ms - self.timeout_ms if last_ms is None else last_ms for last_ms in heard]
        return min(due, default=now_ms) + self.timeout_ms

    def lowest_active_offset(self, image: ClusterImage) -> int | None:
        """How far every active broker is at least; None without active brokers."""
        offsets = [
            session.applied_offset
            for broker in image.brokers.values()
            if broker.is_active and not (session := self.of(image, broker.id)).is_stopping
        ]
        return min(offsets, default=None)
