"""Following one leader: what to ask it next, and what its answers mean for the logs that follow it.

    TRUNCATING      we do not know yet where our log and the leader's went apart: ask for the end of our last epoch
    FETCHING        ask for what comes behind our log; the answer may still say that they went apart (KIP-595)
    SEEKING_END     our offset is out of the leader's range: ask where its log ends
    SEEKING_START   and, if it ends behind ours, where it starts
    FAILED          nothing is asked until the controller says something new about the partition

1. A partition is followed in one leader epoch. An answer to a question that was asked in another epoch, or from another
   offset, is thrown away; and so is one that comes when the partition has another role already, before we
   hear of it: an order about many partitions is carried out in steps.
2. A log is only cut by the leader's word: at the end of an epoch that both have, at the end of a leader whose log is
   shorter than ours, or altogether when the leader begins behind our end.
3. An error of one partition rests that partition for the back-off time, and no other. A leader that fenced us, a disk
   that failed and records that cannot be right make it FAILED.
4. Everything the leader answers is used: records, what is committed, where its log starts.

Plain state: requests are returned as messages; responses and time come in as arguments.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from typing import Final, Protocol

from ottla.broker.fetch.frames import SimpleFetched
from ottla.broker.replication.copy_question import CopyQuestion
from ottla.broker.replication.fetch_plan import FetchSettings, FollowerSession, Position
from ottla.broker.replication.questions import EARLIEST, LATEST, About, ask_epoch_ends, ask_offsets
from ottla.broker.replication.truncation import where_to_cut
from ottla.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    OffsetOutOfRange,
    OttlaError,
    StorageExhausted,
)
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from ottla.storage.files import Buffer
from ottla.storage.log.leader_epochs import EpochEnd
from ottla.values import ZERO_UUID, TopicPartition

log = logging.getLogger(__name__)

NO_EPOCH: Final = -1


class Replica(Protocol):
    """A log that follows."""

    @property
    def name(self) -> TopicPartition: ...
    @property
    def topic_id(self) -> bytes: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def latest_epoch(self) -> int:
        """The epoch of the last record; -1 when none is known."""

    def ends(self) -> tuple[int, int]:
        """Where its log ends and where it starts: every fetch asks for both."""

    def is_following(self, leader_epoch: int) -> bool:
        """Whether its newest order is to follow in this epoch."""

    def end_of_epoch(self, epoch: int) -> EpochEnd: ...
    def append(self, records: Buffer, leader_epoch: int) -> bool:
        """Append what the leader sent; whether there was anything to append."""

    def truncate_to(self, offset: int) -> None: ...
    def restart_at(self, offset: int) -> None:
        """Forget all records and begin at that offset."""

    def update_leader_offsets(self, high_watermark: int, log_start_offset: int) -> bool:
        """Whether that moved our high watermark."""


class Phase(Enum):
    TRUNCATING = "truncating"
    FETCHING = "fetching"
    SEEKING_END = "seeking end"
    SEEKING_START = "seeking start"
    FAILED = "failed"


MOVES: Final[dict[Phase, frozenset[Phase]]] = {
    Phase.TRUNCATING: frozenset({Phase.FETCHING, Phase.FAILED}),
    Phase.FETCHING: frozenset({Phase.SEEKING_END, Phase.FAILED}),
    Phase.SEEKING_END: frozenset({Phase.SEEKING_START, Phase.FETCHING, Phase.TRUNCATING, Phase.FAILED}),
    Phase.SEEKING_START: frozenset({Phase.FETCHING, Phase.TRUNCATING, Phase.FAILED}),
    Phase.FAILED: frozenset(),
}


@dataclass(slots=True)
class Followed:
    """One partition on its way after its leader."""

    replica: Replica
    leader_epoch: int
    phase: Phase
    rests_until_ms: float = 0.0
    lag: int | None = None  # how many records the leader had more, when it was last heard; None before that
    position: Position | None = None  # as it was asked from last
    was_cut: bool = False  # since then; a cut may change the last epoch and leave the end where it was

    def move(self, phase: Phase) -> None:
        if phase not in MOVES[self.phase]:
            raise ValueError(f"{self.replica.name} cannot go from {self.phase} to {phase}")
        self.phase = phase


class Applied(NamedTuple):
    """What an answer brought."""

    appended: list[TopicPartition]
    committed: list[TopicPartition]  # their high watermarks moved
    failed: list[tuple[TopicPartition, OttlaError]]
    size_bytes: dict[TopicPartition, int]
    shortened: list[TopicPartition]  # they start later than before


Question = OffsetForLeaderEpochRequest | ListOffsetsRequest | FetchRequest | CopyQuestion
Response = OffsetForLeaderEpochResponse | ListOffsetsResponse | FetchResponse | SimpleFetched


class Follower:
    """The partitions that follow one leader over one connection."""

    def __init__(self, settings: FetchSettings, *, broker_epoch: Callable[[], int]) -> None:
        self._settings = settings
        self._broker_epoch = broker_epoch
        self._followed: dict[TopicPartition, Followed] = {}
        self._session = FollowerSession(settings)
        self._asked: dict[TopicPartition, tuple[int, int]] = {}  # leader epoch, offset
        self._asked_for = LATEST
        self._names: dict[bytes, str] = {}  # of topics that were followed here

    def __len__(self) -> int:
        return len(self._followed)

    def __contains__(self, name: object) -> bool:
        return name in self._followed

    def phase(self, name: TopicPartition) -> Phase | None:
        found = self._followed.get(name)
        return None if found is None else found.phase

    def lag(self, name: TopicPartition) -> int | None:
        """How far we are behind, as far as we know."""
        found = self._followed.get(name)
        return None if found is None else found.lag

    def lags(self) -> Iterator[tuple[TopicPartition, int | None]]:
        """All of them; -1 for those that failed."""
        for name, each in self._followed.items():
            yield name, -1 if each.phase is Phase.FAILED else each.lag

    def follow(self, replica: Replica, leader_epoch: int) -> None:
        """Follow a partition; in the same epoch that it is followed in already, nothing changes."""
        known = self._followed.get(replica.name)
        if known is not None and known.leader_epoch == leader_epoch and known.phase is not Phase.FAILED:
            return
        self._names[replica.topic_id] = replica.name.topic
        self._followed[replica.name] = Followed(replica, leader_epoch, self._first_phase(replica))

    def _first_phase(self, replica: Replica) -> Phase:
        """Who has no epoch to name can only be cut at its high watermark; so does everybody before version 12."""
        can_name = self._settings.truncates_on_fetch and replica.latest_epoch != NO_EPOCH
        return Phase.FETCHING if can_name or replica.log_end_offset == replica.log_start_offset else Phase.TRUNCATING

    def forget(self, name: TopicPartition) -> None:
        self._followed.pop(name, None)

    def forget_all(self) -> None:
        self._followed.clear()

    # -- questions ---------------------------------------------------------------------------------------------------

    def next_question(self, now_ms: float, is_throttled: Callable[[TopicPartition], bool]) -> Question | None:
        """What to ask now; None when there is nothing before `next_due_ms`.

        `is_throttled` is asked about partitions that are not in step with their leader."""
        fetching: list[Followed] = []
        asking: dict[Phase, list[Followed]] = {}
        for each in self._followed.values():
            if each.rests_until_ms > now_ms:
                continue
            if each.phase is not Phase.FETCHING:
                asking.setdefault(each.phase, []).append(each)
            elif each.lag == 0 or not is_throttled(each.replica.name):
                fetching.append(each)
        for phase in (Phase.TRUNCATING, Phase.SEEKING_END, Phase.SEEKING_START) if asking else ():
            if chosen := asking.get(phase):
                self._remember(chosen)
                return self._ask(phase, chosen)
        if not fetching:
            return None
        asked, wanted = {}, {}
        for each in fetching:
            replica, at = each.replica, each.position
            name, (end, start) = replica.name, replica.ends()
            if at is None or at[2] != end or at[4] != start or each.was_cut:
                at = self._position(each, end, start)
            asked[name], wanted[name] = (each.leader_epoch, end), at
        self._asked = asked
        return self._session.question(wanted, self._broker_epoch())

    def next_due_ms(self, now_ms: float) -> float | None:
        """When a partition has rested enough; None when nothing rests."""
        resting = [each.rests_until_ms for each in self._followed.values() if each.phase is not Phase.FAILED]
        return min((at for at in resting if at > now_ms), default=None)

    def _ask(self, phase: Phase, chosen: list[Followed]) -> Question:
        asked = [About(each.replica.name, each.leader_epoch, each.replica.latest_epoch) for each in chosen]
        if phase is Phase.TRUNCATING:
            return ask_epoch_ends(self._settings.broker_id, asked)
        self._asked_for = LATEST if phase is Phase.SEEKING_END else EARLIEST
        return ask_offsets(self._settings.broker_id, asked, self._asked_for)

    def _remember(self, chosen: list[Followed]) -> None:
        self._asked = {each.replica.name: (each.leader_epoch, each.replica.log_end_offset) for each in chosen}

    def _position(self, each: Followed, end: int, start: int) -> Position:
        epoch = each.replica.latest_epoch if self._settings.truncates_on_fetch else NO_EPOCH
        each.was_cut = False
        each.position = Position(each.replica.topic_id, each.leader_epoch, end, epoch, start)
        return each.position

    # -- answers -----------------------------------------------------------------------------------------------------

    def failed(self, now_ms: float) -> None:
        """There was no answer: all that was asked about rests."""
        self._session.failed()
        for name in self._asked:
            self._rest(self._followed.get(name), now_ms)
        self._asked = {}

    def apply(self, response: Response, now_ms: float) -> Applied:
        applied = Applied([], [], [], {}, [])
        asked, self._asked = self._asked, {}
        if isinstance(response, SimpleFetched):
            self._session.answered(response.session_id, 0)
            self._apply_simple(response, asked, applied, now_ms)
            return applied
        if isinstance(response, FetchResponse):
            self._session.answered(response.session_id, response.error_code)
            answers = self._fetched(response, applied, now_ms)
        elif isinstance(response, ListOffsetsResponse):
            answers = self._offsets(response, now_ms)
        else:
            answers = self._epoch_ends(response, now_ms)
        for name, act in answers:
            each = self._followed.get(name)
            if each is None or asked.get(name) != (each.leader_epoch, each.replica.log_end_offset):
                continue
            if not each.replica.is_following(each.leader_epoch):
                continue
            try:
                act(each)
            except OttlaError as error:
                self._stopped(each, error, applied, now_ms)
        return applied

    def _stopped(self, each: Followed, error: OttlaError, applied: Applied, now_ms: float) -> None:
        """What an answer says of a partition could not be done."""
        name = each.replica.name
        if isinstance(error, CorruptMessage):
            log.error("%s: the leader sent records that are damaged: %s", name, error)
            self._rest(each, now_ms)
        elif isinstance(error, StorageExhausted):
            log.warning("%s waits before it follows its leader on: %s", name, error)
            self._rest(each, now_ms)
        else:
            log.error("%s cannot follow its leader any more: %s", name, error)
            each.move(Phase.FAILED)
            applied.failed.append((name, error))

    def _apply_simple(
        self, fetched: SimpleFetched, asked: dict[TopicPartition, tuple[int, int]], applied: Applied, now_ms: float
    ) -> None:
        """An answer in which nothing went wrong; what is asked before each step is what `apply` asks of any answer."""
        names, followed = self._names, self._followed
        for topic_id, index, high_watermark, _, log_start_offset, records in fetched.rows:
            topic = names.get(topic_id)
            each = None if topic is None else followed.get(TopicPartition(topic, index))
            if each is None or each.replica.topic_id != topic_id or each.phase is not Phase.FETCHING:
                continue
            replica = each.replica
            if asked.get(replica.name) != (each.leader_epoch, replica.ends()[0]):
                continue
            if replica.is_following(each.leader_epoch):
                try:
                    self._copy(each, records, high_watermark, log_start_offset, applied)
                except OttlaError as error:
                    self._stopped(each, error, applied, now_ms)

    def _copy(
        self, each: Followed, records: Buffer | None, high_watermark: int, log_start_offset: int, applied: Applied
    ) -> None:
        replica = each.replica
        if records and replica.append(records, each.leader_epoch):
            applied.appended.append(replica.name)
            applied.size_bytes[replica.name] = len(records)
        end, start = replica.ends()
        each.lag = max(0, high_watermark - end)
        if replica.update_leader_offsets(high_watermark, log_start_offset):
            applied.committed.append(replica.name)
        if replica.ends()[1] != start:
            applied.shortened.append(replica.name)

    def _fetched(
        self, response: FetchResponse, applied: Applied, now_ms: float
    ) -> Iterator[tuple[TopicPartition, Callable[[Followed], None]]]:
        for topic in response.responses:
            topic_name = self._names.get(topic.topic_id) if topic.topic_id != ZERO_UUID else topic.topic
            if topic_name is None:
                continue  # not followed any more
            for data in topic.partitions:
                name = TopicPartition(topic_name, data.partition_index)
                each = self._followed.get(name)
                if each is not None and topic.topic_id not in (ZERO_UUID, each.replica.topic_id):
                    continue  # of a topic that had this name before
                yield name, partial(self._apply_data, data=data, applied=applied, now_ms=now_ms)

    def _apply_data(self, each: Followed, data: PartitionData, applied: Applied, now_ms: float) -> None:
        if each.phase is not Phase.FETCHING:
            return
        if data.error_code:
            self._refused(each, data.error_code, now_ms)
            return
        if data.diverging_epoch.epoch >= 0:
            self._cut(each, EpochEnd(data.diverging_epoch.epoch, data.diverging_epoch.end_offset))
            return
        self._copy(each, data.records, data.high_watermark, data.log_start_offset, applied)

    def _refused(self, each: Followed, error_code: int, now_ms: float) -> None:
        if error_code == OffsetOutOfRange.code and each.phase is Phase.FETCHING:
            each.move(Phase.SEEKING_END)
        elif error_code == FencedLeaderEpoch.code:
            each.move(Phase.FAILED)  # the controller is about to tell us of a newer leader
        else:
            self._rest(each, now_ms)

    def _cut(self, each: Followed, leaders: EpochEnd) -> bool:
        replica = each.replica
        cut = where_to_cut(leaders, replica, fallback=replica.high_watermark)
        if cut.offset < replica.high_watermark:
            log.warning(
                "%s is cut at %d, below its high watermark %d: its leader does not have what was committed",
                replica.name,
                cut.offset,
                replica.high_watermark,
            )
        replica.truncate_to(cut.offset)
        each.was_cut = True
        return cut.is_complete

    def _epoch_ends(
        self, response: OffsetForLeaderEpochResponse, now_ms: float
    ) -> Iterator[tuple[TopicPartition, Callable[[Followed], None]]]:
        for topic in response.topics:
            for found in topic.partitions:
                name = TopicPartition(topic.topic, found.partition)
                yield name, partial(self._apply_epoch_end, found=found, now_ms=now_ms)

    def _apply_epoch_end(self, each: Followed, found: EpochEndOffset, now_ms: float) -> None:
        if found.error_code:
            self._refused(each, found.error_code, now_ms)
        elif self._cut(each, EpochEnd(found.leader_epoch, found.end_offset)):
            each.move(Phase.FETCHING)

    def _offsets(
        self, response: ListOffsetsResponse, now_ms: float
    ) -> Iterator[tuple[TopicPartition, Callable[[Followed], None]]]:
        for topic in response.topics:
            for found in topic.partitions:
                name = TopicPartition(topic.name, found.partition_index)
                yield name, partial(self._apply_offset, found=found, now_ms=now_ms)

    def _apply_offset(self, each: Followed, found: ListOffsetsPartitionResponse, now_ms: float) -> None:
        if found.error_code:
            self._refused(each, found.error_code, now_ms)
        elif self._asked_for == LATEST:
            self._apply_leader_end(each, found.offset)
        else:
            self._apply_leader_start(each, found.offset)

    def _apply_leader_end(self, each: Followed, leader_end: int) -> None:
        """The leader has less than we: an unclean election, and its log is what counts. Or it begins behind us."""
        if leader_end < each.replica.log_end_offset:
            log.warning("%s is cut at the leader's end %d", each.replica.name, leader_end)
            each.replica.truncate_to(leader_end)
            each.move(self._first_phase(each.replica))
        else:
            each.move(Phase.SEEKING_START)

    def _apply_leader_start(self, each: Followed, leader_start: int) -> None:
        if leader_start > each.replica.log_end_offset:
            each.replica.restart_at(leader_start)
        each.move(self._first_phase(each.replica))

    def _rest(self, each: Followed | None, now_ms: float) -> None:
        if each is not None:
            each.rests_until_ms = now_ms + self._settings.backoff_ms
