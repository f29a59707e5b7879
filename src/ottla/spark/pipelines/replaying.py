"""Dead letters back into the topics that they came from, after a repair; each exactly once.

    with Replay(settings, "clicks", "clicks-dead") as replay:
        letters = replay.waiting(Choice(rule="has_user"))
        replay.send(letters, to=None)

1. A letter of a source has the record's own key, value and headers: these are sent, to the partition that the record
   was in, and the pipeline reads it as a new record. Of a letter that is the row of a step, or has lost its value (what
   the connector decodes), the record itself is read again from its topic; if it is gone, the letter stays.
2. What was replayed is noted in the same transaction as the records: offsets of the group `<pipeline>-replay`, with the
   letters behind the first that waits as a bitmap in the offset's metadata. So a letter is sent once, whatever dies,
   and whichever rules are chosen in which order. A second replay at the same time fences off the first.
3. All flows read a replayed record again. That is right for a letter of a source, which reached none of them; of a
   step's letter the flows that do not come from this step have had the record before.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from types import TracebackType
from typing import Final

from ottla.client.admin.admin import Admin
from ottla.client.consumer.consumer import Consumer
from ottla.client.consumer.records import ConsumerRecord
from ottla.client.producer.producer import Producer
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass, field
from ottla.spark.pipelines.expectations import HEADERS
from ottla.values import OffsetAndMetadata, TopicPartition

AT_ONCE: Final = 500
POLL_S: Final = 0.5
SILENT_LIMIT: Final = 60
METADATA_LIMIT_BYTES: Final = 4_000
"""A little less than brokers allow by default (offset.metadata.max.bytes)."""
_PREFIX: Final = "ottla.dead."


class TooScattered(OttlaError):
    """What would be replayed and what would wait lie too mixed in the topic to be noted. Replay more of it at once:
    without --rule and --step."""


class LettersSilent(OttlaError):
    """The brokers answer, but the records of a topic do not come. Look for an open transaction: ottla txn list."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which letters; None is all."""

    rule: str | None = None
    step: str | None = None


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter: its place, the record, and what is known of it (`step`, `rule`, `topic` ...)."""

    place: TopicPartition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    known: Mapping[str, str]

    @classmethod
    def of(cls, record: ConsumerRecord) -> Letter:
        own = [(name, value) for name, value in record.headers if name not in HEADERS]
        known = {
            name.removeprefix(_PREFIX): value.decode()
            for name, value in record.headers
            if name in HEADERS and value is not None
        }
        place = TopicPartition(record.topic, record.partition)
        return cls(place, record.offset, record.key, record.value, own, known)

    @property
    def origin(self) -> tuple[TopicPartition, int] | None:
        """Where the record came from; None when a step has lost that."""
        try:
            place = TopicPartition(self.known["topic"], int(self.known["partition"]))
            return place, int(self.known["offset"])
        except (KeyError, ValueError):
            return None

    def is_chosen(self, choice: Choice) -> bool:
        return choice.rule in (None, self.known.get("rule")) and choice.step in (None, self.known.get("step"))


@dataclass(slots=True)
class Notes:
    """Which offsets of one partition were replayed: all before `first`, and those in `behind`."""

    first: int = 0
    behind: set[int] = field(default_factory=set)

    @classmethod
    def read(cls, found: OffsetAndMetadata | None) -> Notes:
        if found is None:
            return cls()
        bits = int.from_bytes(zlib.decompress(base64.b85decode(found.metadata)), "little") if found.metadata else 0
        return cls(found.offset, {found.offset + place for place in range(bits.bit_length()) if bits >> place & 1})

    def written(self) -> OffsetAndMetadata:
        if not self.behind:
            return OffsetAndMetadata(self.first)
        bits = bytearray((max(self.behind) - self.first) // 8 + 1)
        for offset in self.behind:
            bits[(offset - self.first) // 8] |= 1 << (offset - self.first) % 8
        text = base64.b85encode(zlib.compress(bytes(bits), 9)).decode()
        if len(text) > METADATA_LIMIT_BYTES:
            raise TooScattered(f"{len(self.behind)} letters behind offset {self.first}")
        return OffsetAndMetadata(self.first, metadata=text)

    def is_done(self, offset: int) -> bool:
        return offset < self.first or offset in self.behind

    def add(self, offsets: Iterable[int], waiting: Collection[int], end: int) -> None:
        """These are replayed now; `waiting` are the offsets of all letters that wait, before `end`."""
        self.behind.update(offsets)
        left = [offset for offset in waiting if not self.is_done(offset)]
        self.first = max(self.first, min(left, default=end))
        self.behind = {offset for offset in self.behind if offset >= self.first}


class Replay:
    """The letters of one pipeline in one topic. `steps` are those whose letters are rows, `decoded` the sources whose
    letters have lost their values."""

    def __init__(
        self,
        settings: Mapping[str, object],
        pipeline: str,
        topic: str,
        *,
        steps: Collection[str] = (),
        decoded: Collection[str] = (),
    ) -> None:
        self._settings = dict(settings)
        self._pipeline = pipeline
        self._topic = topic
        self._incomplete = {*steps, *decoded}
        self._group = f"{pipeline}-replay"
        self._notes: dict[TopicPartition, Notes] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._all: dict[TopicPartition, list[int]] = {}
        self._producer: Producer | None = None

    def __enter__(self) -> Replay:
        # First of all: it ends what a replay before us left open, so the notes that are read then are the last.
        self._producer = Producer({**self._settings, "transactional.id": f"ottla-{self._group}"})
        self._producer.init_transactions()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._producer is not None:
            self._producer.close()

    def waiting(self, choice: Choice) -> list[Letter]:
        """The letters that are chosen and were not replayed yet."""
        with Admin(self._settings) as admin:
            found = admin.list_consumer_group_offsets(self._group)
        letters = []
        for record in self._records():
            letter = Letter.of(record)
            notes = self._notes.setdefault(letter.place, Notes.read(found.get(letter.place)))
            if letter.known.get("pipeline") == self._pipeline and not notes.is_done(letter.offset):
                self._all.setdefault(letter.place, []).append(letter.offset)
                letters.append(letter)
        return [letter for letter in letters if letter.is_chosen(choice)]

    def _records(self) -> Iterator[ConsumerRecord]:
        """All committed records of the topic of now."""
        with self._consumer() as consumer:
            places = [TopicPartition(self._topic, part.partition) for part in consumer.partitions_for(self._topic)]
            self._ends = consumer.end_offsets(places)
            yield from _read(consumer, consumer.beginning_offsets(places), self._ends)

    def _consumer(self) -> Consumer:
        reading = {"isolation.level": "read_committed", "auto.offset.reset": "earliest", "enable.auto.commit": "false"}
        return Consumer({**self._settings, **reading})

    def send(self, letters: Sequence[Letter], to: str | None) -> tuple[int, int]:
        """Send them to where they came from, or all to one topic; returns how many were sent, and how many stay because
        their records are gone."""
        assert self._producer is not None, "it is open"
        sent = missing = 0
        for begin in range(0, len(letters), AT_ONCE):
            some = letters[begin : begin + AT_ONCE]
            whole = self._whole(some)
            with self._producer.transaction():
                for letter, record in whole:
                    self._send(letter, record, to)
                noted = {place: self._noted(place, offsets) for place, offsets in _by_place(whole)}
                if noted:
                    self._producer.send_offsets_to_transaction(noted, self._group)
            sent, missing = sent + len(whole), missing + len(some) - len(whole)
        return sent, missing

    def _send(self, letter: Letter, record: Letter, to: str | None) -> None:
        assert self._producer is not None, "it is open"
        origin = letter.origin
        topic = to or (origin[0].topic if origin is not None else None)
        assert topic is not None, "a letter without an origin was left out"
        partition = origin[0].partition if to is None and origin is not None else None
        headers = list(record.headers)
        self._producer.send(topic, value=record.value, key=record.key, headers=headers, partition=partition)

    def _noted(self, place: TopicPartition, offsets: Sequence[int]) -> OffsetAndMetadata:
        notes = self._notes[place]
        notes.add(offsets, self._all[place], self._ends[place])
        return notes.written()

    # --- letters that are not the record ------------------------------------------------------------------------------

    def _whole(self, letters: Sequence[Letter]) -> list[tuple[Letter, Letter]]:
        """Each letter with the record itself; those whose record is gone are left out."""
        wanted = {letter.origin for letter in letters if self._is_incomplete(letter) and letter.origin is not None}
        originals = self._originals(wanted)
        pairs = []
        for letter in letters:
            record = originals.get(letter.origin) if self._is_incomplete(letter) else letter
            if record is not None and letter.origin is not None:
                pairs.append((letter, record))
        return pairs

    def _is_incomplete(self, letter: Letter) -> bool:
        return letter.known.get("step") in self._incomplete

    def _originals(
        self, wanted: Collection[tuple[TopicPartition, int] | None]
    ) -> dict[tuple[TopicPartition, int] | None, Letter]:
        """The records at these places, as far as they are still there."""
        found: dict[tuple[TopicPartition, int] | None, Letter] = {}
        places = [place for place in wanted if place is not None]
        if not places:
            return found
        with self._consumer() as consumer:
            partitions = {place for place, _ in places}
            begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
            for place, offset in sorted(places):
                if begins[place] <= offset < ends[place]:
                    for record in _read(consumer, {place: offset}, {place: offset + 1}):
                        if record.offset == offset:
                            found[place, offset] = Letter.of(record)
        return found


def _read(
    consumer: Consumer, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Iterator[ConsumerRecord]:
    """The records of these partitions between these offsets."""
    left = {place for place, begin in begins.items() if begin < ends[place]}
    consumer.assign(sorted(left))
    for place in left:
        consumer.seek(place, begins[place])
    silent = 0
    while left:
        records = consumer.poll(POLL_S)
        silent = 0 if records else silent + 1
        if silent >= SILENT_LIMIT:
            raise LettersSilent(", ".join(str(place) for place in sorted(left)))
        yield from (each for each in records if each.offset < ends[TopicPartition(each.topic, each.partition)])
        for place in [each for each in left if consumer.position(each) >= ends[each]]:
            left.discard(place)
            consumer.pause(place)


def _by_place(pairs: Iterable[tuple[Letter, Letter]]) -> Iterator[tuple[TopicPartition, list[int]]]:
    ordered = sorted((letter.place, letter.offset) for letter, _ in pairs)
    for place, group in groupby(ordered, key=lambda at: at[0]):
        yield place, [offset for _, offset in group]
