"""What was fetched and not yet given to anybody: pieces in the order of their arrival, with a bound in bytes.

1. First in, first out: since every fetch asks all partitions in turn, so do the polls.
2. A paused partition's pieces step aside and come back in front when it is resumed. They are copied out of their
   frames then, because a frame is shared by all partitions of an answer and would be kept by the smallest of them.
   Not so the piece that somebody reads just now (`in_use`): a copy would give its records a second time.
3. A failure stands in the line like records: what was fetched before it is given first, and nothing is fetched behind.
4. A piece belongs to a turn of its partition (subscription.py); whoever takes it compares.

Plain; the consumer's lock guards it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ottla.client.consumer.record_choice import FetchedRecords
from ottla.errors import OttlaError
from ottla.light_tuples import NamedTuple
from ottla.values import TopicPartition


class Piece(NamedTuple):
    """Records of one partition, or why there are none; `size_bytes` is what it counts for until it is gone."""

    name: TopicPartition
    turn: int
    records: FetchedRecords | None
    size_bytes: int = 0
    error: OttlaError | None = None
    offset: int = -1


def _owned(piece: Piece) -> Piece:
    return piece if piece.records is None else piece._replace(records=piece.records.own())


class FetchBuffer:
    """The pieces of one consumer."""

    def __init__(self) -> None:
        self._line: deque[Piece] = deque()
        self._aside: dict[TopicPartition, deque[Piece]] = {}
        self._sizes: dict[TopicPartition, int] = {}
        self._failed: set[TopicPartition] = set()
        self.in_use: Piece | None = None
        self.size_bytes = 0

    def __len__(self) -> int:
        """Pieces that could be given now."""
        return len(self._line)

    @property
    def line_bytes(self) -> int:
        """Bytes that polls will take; what is paused may stay for ever and must not stop the others."""
        return self.size_bytes - sum(piece.size_bytes for pieces in self._aside.values() for piece in pieces)

    def size_of(self, name: TopicPartition) -> int:
        """Bytes that wait for this partition."""
        return self._sizes.get(name, 0)

    def names(self) -> set[TopicPartition]:
        """The partitions that have something here."""
        return {piece.name for piece in self._line} | self._aside.keys()

    def has_failure(self, name: TopicPartition) -> bool:
        return name in self._failed

    def add(self, piece: Piece) -> None:
        self._line.append(piece)
        self._sizes[piece.name] = self._sizes.get(piece.name, 0) + piece.size_bytes
        self.size_bytes += piece.size_bytes
        if piece.error is not None:
            self._failed.add(piece.name)

    def first(self) -> Piece | None:
        return self._line[0] if self._line else None

    def remove_first(self) -> None:
        """The first piece is used up."""
        self._gone(self._line.popleft())

    def pause(self, names: Iterable[TopicPartition]) -> None:
        paused = set(names)
        staying: deque[Piece] = deque()
        for piece in self._line:
            if piece.name not in paused:
                staying.append(piece)
                continue
            kept = piece if piece is self.in_use else _owned(piece)
            self._aside.setdefault(piece.name, deque()).append(kept)
        self._line = staying

    def resume(self, names: Iterable[TopicPartition]) -> None:
        for name in names:
            if (pieces := self._aside.pop(name, None)) is not None:
                self._line.extendleft(reversed(pieces))

    def drop(self, names: Iterable[TopicPartition]) -> None:
        """Nobody wants these any more."""
        dropped = set(names)
        for name in dropped:
            for piece in self._aside.pop(name, ()):
                self._gone(piece)
        if any(piece.name in dropped for piece in self._line):
            line, self._line = self._line, deque()
            for piece in line:
                if piece.name in dropped:
                    self._gone(piece)
                else:
                    self._line.append(piece)

    def clear(self) -> None:
        self.drop(self.names())

    def _gone(self, piece: Piece) -> None:
        self.size_bytes -= piece.size_bytes
        left = self._sizes.pop(piece.name, 0) - piece.size_bytes
        if left > 0:
            self._sizes[piece.name] = left
        if piece.error is not None:
            self._failed.discard(piece.name)
