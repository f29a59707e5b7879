"""Reads records out of the fetch buffer: what poll() does in its caller's thread, without waiting and without the loop.

1. Pieces are used in the order of the line. Those of an old turn are dropped, those of a paused partition step aside.
2. The lock is held while the line and the positions are looked at, not while records are made: deserializers are the
   user's, and may call the consumer. Other threads may pause, seek and assign meanwhile.
3. An error in the line is raised when nothing was found before it; otherwise what was found goes first and the next
   call meets it. An offset out of range begins again where auto.offset.reset says, if it says so.
4. The loop is woken when a piece is used up: there is room for the next one.
5. Whoever names no number of rows gets tables of about PORTION_BYTES of what was fetched: their memory is used again
   while the processor still has it at hand (docs/decisions/0136).
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Final

from ottla.client.consumer.arrow_tables import Rows, decode_span, table_shape
from ottla.client.consumer.buffer import FetchBuffer, Piece
from ottla.client.consumer.record_choice import ConsumerRecord
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.consumer.subscription import Subscription
from ottla.client.serializers import as_deserializer
from ottla.errors import CorruptMessage, OffsetOutOfRange

if TYPE_CHECKING:
    import pyarrow

PORTION_BYTES: Final = 2_097_152


class BufferReader:
    """The caller's side of the buffer."""

    def __init__(
        self,
        subscription: Subscription,
        buffer: FetchBuffer,
        lock: Lock,
        settings: ConsumerSettings,
        wake_loop: Callable[[], None],
    ) -> None:
        self._subscription = subscription
        self._buffer = buffer
        self._lock = lock
        self._wake_loop = wake_loop
        self._check_crcs = settings.check_crcs
        self._key_deserializer = as_deserializer(settings.key_deserializer, "key")
        self._value_deserializer = as_deserializer(settings.value_deserializer)

    def read(self, limit: int) -> list[ConsumerRecord]:
        """Up to `limit` records that are there. Raises what stands in the line instead of records."""
        found: list[ConsumerRecord] = []
        while len(found) < limit and (piece := self._next_piece(bool(found))) is not None:
            records = piece.records
            assert records is not None, "pieces without records were dealt with"
            before = len(found)
            try:
                records.take(limit, found, self._key_deserializer, self._value_deserializer)
            finally:
                self._took(piece)
            if len(found) == before and len(found) and not records.is_drained:
                break  # an error stands there; what was found goes first
        return found

    def read_table(self, row_target: int) -> pyarrow.Table | None:
        """The same as one Arrow table, in whole batches: a few more rows than `row_target`, or fewer."""
        rows = Rows(table_shape())
        self.read_rows(rows, row_target)
        return rows.table()

    def read_portion(self, row_target: int) -> pyarrow.Table | None:
        """A table that is small in bytes, too."""
        rows = Rows(table_shape())
        self.read_rows(rows, row_target, PORTION_BYTES)
        return rows.table()

    def read_rows(self, rows: Rows, row_target: int, byte_target: int | None = None) -> None:
        """Move whole batches into `rows` until it has about `row_target` of them, about `byte_target` bytes were read,
        or nothing is left."""
        # A piece is left for the next call rather than cut: the little that would still fit is a decoding of its own.
        enough = row_target - row_target // 4
        left_bytes = float("inf") if byte_target is None else byte_target - byte_target // 4
        while rows.count < enough and left_bytes > 0 and (piece := self._next_piece(rows.count > 0)) is not None:
            records = piece.records
            assert records is not None, "pieces without records were dealt with"
            left_bytes -= piece.size_bytes
            before = rows.count
            try:
                decode_span(records, row_target - rows.count, rows, check_crcs=self._check_crcs)
            except CorruptMessage:
                if not rows.count:
                    raise
                break
            finally:
                self._took(piece)
            if rows.count == before and rows.count and not records.is_drained:
                break

    def _next_piece(self, has_found: bool) -> Piece | None:
        """The first piece of the line that is still wanted; errors are raised when nothing was found before them."""
        while True:
            with self._lock:
                piece = self._buffer.first()
                if piece is None:
                    return None
                state = self._subscription.get(piece.name)
                if state is None or state.turn != piece.turn or state.is_read:
                    self._buffer.remove_first()
                    continue
                if state.paused:
                    self._buffer.pause([piece.name])
                    continue
                if piece.error is None:
                    self._buffer.in_use = piece
                    return piece
                if has_found:
                    return None
                self._buffer.remove_first()
                is_reset = isinstance(piece.error, OffsetOutOfRange) and self._subscription.default_reset.decides
                if is_reset:
                    self._subscription.request_reset(piece.name)
            self._wake_loop()
            if not is_reset:
                raise piece.error

    def _took(self, piece: Piece) -> None:
        records = piece.records
        assert records is not None, "pieces without records were dealt with"
        drained = records.is_drained
        with self._lock:
            self._buffer.in_use = None
            # A deserializer may have sought elsewhere meanwhile; then this piece is gone already.
            state = self._subscription.get(piece.name)
            if state is not None and state.turn == piece.turn:
                self._subscription.advance(piece.name, records.next_offset, records.leader_epoch)
            if drained and self._buffer.first() is piece:
                self._buffer.remove_first()
        if drained:
            self._wake_loop()
