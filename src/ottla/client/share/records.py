"""ShareRecord, and how records come out of the bytes of an answer.

1. Handed out are records at offsets that were acquired; the bytes hold whole batches, so there may be others.
2. An acquired offset without a record is answered as a gap, unless its batch is missing: then it is released.
3. A record whose key or value cannot be deserialized is released, and the error names it; bytes that are no sound batch
   release everything from there on. The records before are handed out first.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final, Protocol, Self

from ottla.client.consumer.record_choice import ConsumerRecord
from ottla.client.share.in_flight import AcknowledgeType, Held
from ottla.records.layout import TimestampType
from ottla.values import Header

ACCEPT: Final = AcknowledgeType.ACCEPT


class RecordOwner(Protocol):
    """The consumer, as its records see it."""

    def acknowledge_record(self, record: ShareRecord, ack: AcknowledgeType, cause: BaseException | None) -> None:
        """Say what was done with it; `cause` is why it is released or rejected."""

    def keep_record(self, record: ShareRecord) -> None:
        """Renew its lock from now on."""

    def was_acknowledged(self, record: ShareRecord) -> bool:
        """Whether it was accepted, released or rejected."""


class ShareRecord:
    """One record as a share consumer gets it. It must be acknowledged:

        with record:                # accepted at the end, released when it raises; the lock is renewed meanwhile
            work(record.value)

    or accept(), release(), reject(), renew(). In the implicit mode the next poll accepts what was not acknowledged."""

    __slots__ = ("_held", "_owner", "_record", "delivery_count", "key", "offset", "partition", "topic", "value")

    def __init__(self, record: ConsumerRecord, key: Any, value: Any, held: Held, owner: RecordOwner) -> None:
        self.topic = record.topic
        self.partition = record.partition
        self.offset = record.offset
        self.key = key
        self.value = value
        self.delivery_count = held.delivery_count
        self._record = record
        self._held = held
        self._owner = owner

    # --- what it is ---

    @property
    def headers(self) -> tuple[Header, ...]:
        """Names and values in their order; a name may come twice."""
        return self._record.headers

    @property
    def timestamp_ms(self) -> int:
        return self._record.timestamp_ms

    @property
    def timestamp(self) -> int:
        """The same as timestamp_ms, under kafka-python's name."""
        return self._record.timestamp_ms

    @property
    def timestamp_type(self) -> TimestampType:
        return self._record.timestamp_type

    @property
    def leader_epoch(self) -> int | None:
        return self._record.leader_epoch

    @property
    def serialized_key_size(self) -> int:
        return self._record.serialized_key_size

    @property
    def serialized_value_size(self) -> int:
        return self._record.serialized_value_size

    def __repr__(self) -> str:
        return (
            f"ShareRecord(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, key={self.key!r}, "
            f"value={self.value!r}, delivery_count={self.delivery_count})"
        )

    # --- what is said of it ---

    def accept(self) -> None:
        """It was worked on; nobody gets it again."""
        self._owner.acknowledge_record(self, AcknowledgeType.ACCEPT, None)

    def release(self, cause: BaseException | None = None) -> None:
        """It was not worked on; somebody gets it again. With share.dead.letter.topic it goes there instead after so
        many deliveries, with `cause` in its headers."""
        self._owner.acknowledge_record(self, AcknowledgeType.RELEASE, cause)

    def reject(self) -> None:
        """It cannot be worked on; nobody gets it again."""
        self._owner.acknowledge_record(self, AcknowledgeType.REJECT, None)

    def renew(self) -> None:
        """It is still worked on: its lock starts anew, and it must be acknowledged later."""
        self._owner.acknowledge_record(self, AcknowledgeType.RENEW, None)

    def __enter__(self) -> Self:
        self._owner.keep_record(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._owner.was_acknowledged(self):
            return
        if error is None:
            self.accept()
        else:
            self.release(error)
