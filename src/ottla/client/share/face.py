"""What the sync and the asyncio share consumer have in common: everything that does not wait."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ottla.client.arguments import callable_of, seconds_of, topics_of, whole_number
from ottla.client.consumer.subscription import NotSubscribed
from ottla.client.consumer.tracing import ConsumerTracing
from ottla.client.loop import ClientClosed
from ottla.client.share.commits import AcknowledgementCallback, AcknowledgementsDue
from ottla.client.share.core import ShareCore
from ottla.client.share.in_flight import AcknowledgeType, State, UnacknowledgedRecords
from ottla.client.share.records import ShareRecord
from ottla.client.share.settings import ShareConsumerSettings
from ottla.metrics import MetricKey
from ottla.values import TopicPartition

CLOSE_TIMEOUT_S: Final = 30.0
ITERATION_WAIT_S: Final = 1.0
POLL_TURN_S: Final = 0.2
"""How often a poll that waits says that it is there; max.poll.interval.ms goes by it."""
BUSY_TURN_S: Final = 30.0
NAMED_LIMIT: Final = 3
LAST: Final = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)


class ShareFace(ABC):
    """The calls that never wait."""

    _core: ShareCore
    _settings: ShareConsumerSettings
    _topics: frozenset[str]
    _callback: AcknowledgementCallback | None
    _tracing: ConsumerTracing | None
    _closed: bool
    _stopping: bool
    # Records that an iterator has and has not given yet: the application has not seen them.
    _left: deque[ShareRecord]

    def _prepare(self, arguments: tuple[str | Mapping[str, object], ...], settings: Mapping[str, Any]) -> list[str]:
        """Settings from the arguments of a constructor; returns the topics among them."""
        configs = [each for each in arguments if isinstance(each, Mapping)]
        topics = [each for each in arguments if isinstance(each, str)]
        if len(configs) > 1 or len(configs) + len(topics) < len(arguments):
            raise TypeError(f"topics as text and one mapping of settings are taken, not {arguments!r}")
        self._settings = ShareConsumerSettings(configs[0] if configs else {}, **settings).named("share-consumer")
        self._tracing = None
        if self._settings.ottla_tracing_enable:
            client_id, group_id = self._settings.client_id, self._settings.group_id
            self._tracing = ConsumerTracing.enabled(client_id=client_id, group_id=group_id)
        self._topics = frozenset()
        self._callback = None
        self._closed = self._stopping = False
        self._left = deque()
        return topics

    def __repr__(self) -> str:
        closed = ", closed" if self._closed else ""
        return f"<{type(self).__name__} {self._settings.client_id}, share group {self._settings.group_id!r}{closed}>"

    def _check_usable(self) -> None:
        if self._closed:
            raise ClientClosed(f"{self._settings.client_id}")

    def _check_topics(self, topics: Iterable[str] | str) -> frozenset[str]:
        self._check_usable()
        wanted = frozenset(topics_of(topics))
        if not wanted:
            raise ValueError("subscribe() wants at least one topic; unsubscribe() reads nothing any more")
        self._topics = wanted
        return wanted

    # --- looking ---

    def subscription(self) -> frozenset[str]:
        """The topics that were subscribed to."""
        return self._topics

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this member reads; others may read them too."""
        return self._core.group.assignment

    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long records are locked, as the last answer said; None before the first."""
        return self._core.requests.lock_ms

    def metrics(self) -> dict[MetricKey, float]:
        """Every number under its Java name."""
        return self._core.metrics.snapshot(self._core.clock.monotonic_ms())

    # --- acknowledging ---

    def acknowledge(self, record: ShareRecord, how: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Say what was done with a record; it is sent with the next poll or commit."""
        if not isinstance(record, ShareRecord):
            raise TypeError(f"a record that this consumer gave is wanted, not {record!r}")
        self.acknowledge_record(record, AcknowledgeType(how), None)

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCallback | None) -> None:
        """`callback(offsets, error)` is called by later polls and commits with what became of acknowledgements: offsets
        by partition, and None or the error that they have in common."""
        self._callback = None if callback is None else callable_of(callback, "the callback of acknowledgements")
        self._core.wants_notices = callback is not None

    def acknowledge_record(self, record: ShareRecord, ack: AcknowledgeType, cause: BaseException | None) -> None:
        """What records call; an error as the cause counts for dead letters, Ctrl-C and its like do not."""
        self._check_usable()
        counts = cause is None or isinstance(cause, Exception)
        if ack is AcknowledgeType.RELEASE and counts and self._core.is_dead(record):
            self._core.dead_letter(record, cause)
        else:
            self._core.acknowledge(record._held, ack)

    def keep_record(self, record: ShareRecord) -> None:
        """Renew its lock from now on, at most for share.renew.max.ms."""
        self._check_usable()
        self._core.keep(record._held)

    def was_acknowledged(self, record: ShareRecord) -> bool:
        held = record._held
        ack = held.ack if held.next_ack is None else held.next_ack
        return held.state is not State.DELIVERED and ack in LAST

    # --- parts of poll ---

    def _begin_poll(self) -> None:
        """The records of earlier polls were worked on, or something was said of each of them."""
        if not self._settings.is_explicit:
            self._core.accept_delivered()
            return
        unacknowledged = self._core.unacknowledged()
        if unacknowledged:
            named = ", ".join(f"{held.name}@{held.offset}" for held in unacknowledged[:NAMED_LIMIT])
            raise UnacknowledgedRecords(f"{len(unacknowledged)} records, the first of them {named}")

    def _accept_implicitly(self) -> None:
        if not self._settings.is_explicit:
            self._core.accept_delivered()

    def _check_subscribed(self) -> None:
        self._check_usable()
        if not self._topics:
            raise NotSubscribed()

    def _read(self, limit: int) -> list[ShareRecord]:
        """What is there and still ours."""
        found: list[ShareRecord] = []
        while self._left and len(found) < limit:
            found.append(self._left.popleft())
        return found or self._core.reader.read(limit)

    def _delivered(self, records: list[ShareRecord]) -> list[ShareRecord]:
        delivered = self._core.delivered(records)
        if delivered:
            self._core.metrics.records_returned(len(delivered), self._core.clock.monotonic_ms())
            if self._tracing is not None:
                self._tracing.received(delivered)  # type: ignore[arg-type]  # it reads what both have
        return delivered

    def _timeout_ms(self, timeout: float | None) -> float:
        return self._settings.call_timeout_ms if timeout is None else seconds_of(timeout) * 1000

    def _pace_s(self) -> float:
        """How long whoever only waits for workers may be silent and stay a member; news end it earlier."""
        return min(BUSY_TURN_S, self._settings.max_poll_interval_ms / 3000)

    def _raise_failure(self) -> None:
        """What went wrong in the background, once."""
        for item in list(self._core.attention):
            if isinstance(item, Exception):
                self._core.attention.remove(item)
                raise item

    def _next_notice(self) -> AcknowledgementsDue | None:
        """What a callback hears next."""
        for item in list(self._core.attention):
            if isinstance(item, AcknowledgementsDue):
                self._core.attention.remove(item)
                if self._callback is not None:
                    return item
        return None

    def stop(self) -> None:
        """Let work() end when the handlers that run are done. From any thread, and from handlers."""
        self._stopping = True
        self._wake_face()

    @abstractmethod
    def _wake_face(self) -> None:
        """Have a poll or a work() that waits look again."""


def checked_workers(workers: int) -> int:
    if whole_number(workers, "workers") < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    return workers
