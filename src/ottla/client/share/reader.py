"""Takes records out of what was fetched: what poll() does in its caller's thread, without waiting.

The promises are those of records.py. The lock of the consumer is held while records change their state, not while they
are made: deserializers are the user's, and may call the consumer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import takewhile
from threading import Lock
from typing import Any

from ottla.client.consumer.record_choice import ConsumerRecord
from ottla.client.consumer.record_errors import CorruptRecord, DeserializationFailed, undeserializable
from ottla.client.serializers import as_deserializer
from ottla.client.share.in_flight import GAP, AcknowledgeType, Held, InFlight
from ottla.client.share.records import RecordOwner, ShareRecord
from ottla.client.share.requests import SharePiece
from ottla.errors import OttlaError

DeadLetter = Callable[[ShareRecord, "BaseException | None"], None]


class ShareReader:
    """The caller's side of one consumer."""

    def __init__(self, in_flight: InFlight, lock: Lock, owner: RecordOwner, settings: Any) -> None:
        self._in_flight = in_flight
        self._lock = lock
        self._owner = owner
        self._key_deserializer = as_deserializer(settings.key_deserializer, "key")
        self._value_deserializer = as_deserializer(settings.value_deserializer)
        self._deliveries_max: int | None = None
        self._dead_letter: DeadLetter | None = None
        self._pieces: deque[SharePiece] = deque()
        self._failures: deque[OttlaError] = deque()

    def dead_letter_after(self, deliveries: int, dead_letter: DeadLetter) -> None:
        """Records that were delivered so often before go to the dead letters."""
        self._deliveries_max, self._dead_letter = deliveries, dead_letter

    @property
    def is_empty(self) -> bool:
        return not self._pieces and not self._failures

    def add(self, piece: SharePiece) -> None:
        """On the loop, with the lock."""
        self._pieces.append(piece)

    def clear(self) -> None:
        self._pieces.clear()
        self._failures.clear()

    def read(self, limit: int) -> list[ShareRecord]:
        """Up to `limit` records that are there; raises what stands before the next one."""
        found: list[ShareRecord] = []
        while len(found) < limit and not self._failures and self._pieces:
            piece = self._pieces[0]
            try:
                raw = piece.records.take(limit - len(found))
            except CorruptRecord as error:
                self._failures.append(error)
                self._give_back(piece)
                break
            self._collect(piece, raw, found)
            if not raw or not piece.acquired:
                self._finish(piece)
        if not found and self._failures:
            raise self._failures.popleft()
        return found

    def _collect(self, piece: SharePiece, raw: list[ConsumerRecord], found: list[ShareRecord]) -> None:
        for record in raw:
            held = piece.acquired.pop(record.offset, None)
            if held is None:
                continue  # another consumer has it
            try:
                made = self._made(record, held)
            except DeserializationFailed as error:
                self._unreadable(record, held, error)
                continue
            if self._deliveries_max is not None and held.delivery_count > self._deliveries_max:
                self._send_away(made, None)
            else:
                found.append(made)
        with self._lock:
            self._answer_before(piece, piece.records.next_offset if raw else piece.end_offset)

    def _made(self, record: ConsumerRecord, held: Held) -> ShareRecord:
        topic, key, value = record.topic, record.key, record.value
        try:
            if self._key_deserializer is not None:
                key = self._key_deserializer(topic, key)
            if self._value_deserializer is not None:
                value = self._value_deserializer(topic, value)
        except Exception as error:
            raise undeserializable(record, error) from error
        return ShareRecord(record, key, value, held, self._owner)

    def _unreadable(self, record: ConsumerRecord, held: Held, error: DeserializationFailed) -> None:
        if self._deliveries_max is not None and held.delivery_count >= self._deliveries_max:
            self._send_away(ShareRecord(record, record.key, record.value, held, self._owner), error)
            return
        with self._lock:
            self._in_flight.acknowledge_unread(held, AcknowledgeType.RELEASE)
        self._failures.append(error)

    def _send_away(self, record: ShareRecord, cause: BaseException | None) -> None:
        assert self._dead_letter is not None, "set together with the limit"
        self._dead_letter(record, cause)

    def _answer_before(self, piece: SharePiece, offset: int) -> None:
        """Acquired offsets that were passed are gaps."""
        for passed in list(takewhile(offset.__gt__, piece.acquired)):
            self._in_flight.acknowledge_unread(piece.acquired.pop(passed), GAP)

    def _finish(self, piece: SharePiece) -> None:
        with self._lock:
            self._answer_before(piece, piece.end_offset)
            for held in piece.acquired.values():  # their batch was cut off
                self._in_flight.acknowledge_unread(held, AcknowledgeType.RELEASE)
            if self._pieces and self._pieces[0] is piece:
                self._pieces.popleft()

    def _give_back(self, piece: SharePiece) -> None:
        """Damaged from here on; sent again it may be sound, and the group's limit of deliveries bounds the tries."""
        with self._lock:
            for held in piece.acquired.values():
                self._in_flight.acknowledge_unread(held, AcknowledgeType.RELEASE)
            if self._pieces and self._pieces[0] is piece:
                self._pieces.popleft()
