"""Carries out what coordinator shards ask for: appends, replays, answers when committed, keeps timers, loads.

One Runtime per internal topic (groups, transactions). It has one shard for every partition of that topic that this
broker leads.

1. `call` names the waiting request by a token and asks the shard; the effects are carried out before anything else
   happens to the shard. So a shard always sees its newest state.
2. A Write is appended as one batch and replayed at once; its replies, and effects of other kinds that follow it in the
   same list (markers), wait until the partition's high watermark has passed it. When the append is refused nothing is
   replayed, the shard says what to reply instead, and what follows is dropped. A Write without records waits for what
   was written before it.
3. A shard that is being loaded answers COORDINATOR_LOAD_IN_PROGRESS, a shard that is not here NOT_COORDINATOR.
4. An answer that waits for nothing is returned as it is (`answer`): nearly every heartbeat, and there are thousands a
   second. Only who has to wait gets a future.
5. Replies that wait longer than the write time-out (offsets.commit.timeout.ms for groups) become what the shard says to
   RequestTimedOut: a follower that is down must not keep members waiting until they lose their place. The records stay
   where they are, and are committed when the follower is back or out of the in-sync set.
6. Loading is a replay of the log from its start, in slices (loads.py): the same `replay` as in daily work. What it
   leaves for others to do (markers) waits until all that was replayed is committed. A marker that is appended meanwhile
   is replayed once: as long as the log is being read, by that; from then on by `replay_marker`. Events that nobody
   waits for are kept until the load has ended. A load that was overtaken (unloaded, loaded again) ends without effect.
7. A partition that cannot be read in full is the coordinator's to judge (`unreadable`): go on with what is around it,
   or answer COORDINATOR_NOT_AVAILABLE for this partition. Whatever else fails in a load stays with its partition, too.
8. Shards hear the wall clock, because its time is kept in logs, and set timers by it. Here a timer becomes so many
   milliseconds from now on a clock that never jumps: a wall clock that is set right must not end every session at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from ottla.broker.coordinators.effects import (
    CancelTimer,
    Reply,
    SetTimer,
    Shard,
    StoredRecord,
    Token,
    Write,
)
from ottla.broker.coordinators.loads import Load, Loads
from ottla.broker.waiting.timer_wheel import TimerWheel
from ottla.errors import (
    BrokerError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaStorageError,
    NotCoordinator,
    NotLeaderOrFollower,
    RequestTimedOut,
)
from ottla.light_tuples import NamedTuple
from ottla.protocol.schema import Message
from ottla.protocol.stored import StoredKinds, encode_key, encode_value
from ottla.records import BatchBuilder, RecordBatch
from ottla.records.control import read_marker
from ottla.storage.log.whole_log import Rotten
from ottla.storage.producers.check import VerificationGuard

log = logging.getLogger(__name__)

S = TypeVar("S", bound=Shard)

BATCH_LIMIT_BYTES = 1 << 30  # the topic's max.message.bytes decides, not the builder
RECORDS_AT_ONCE: Final = 16  # between two places where a load can pause
LOADING_PATIENCE_MS: Final = 100  # so much later a timer fires whose shard is being loaded
WRITES: Final = "writes that wait too long"  # a timer of the runtime's own, beside those of the shard


class InternalPartition(Protocol):
    """What the runtime needs of a partition that this broker leads."""

    @property
    def leader_epoch(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    def append_internal(self, batch: bytearray, now_ms: int, guard: VerificationGuard | None) -> int:
        """Append one batch as coordinator; returns the offset after it. Raises BrokerError."""

    def read_batches(self) -> Iterator[RecordBatch | Rotten]:
        """Every batch from the start of the log to where it ends by then, and what cannot be read."""


class _Waiting(NamedTuple):
    """What waits for an offset to be committed; `refuse` is called instead when it never will be."""

    next_offset: int
    act: Callable[[], None]
    refuse: Callable[[BrokerError], None] | None = None
    deadline_ms: float | None = None  # of those that can be refused


class _Place(Generic[S]):
    """A shard with its partition and what waits on it."""

    def __init__(self, shard: S, partition: InternalPartition, number: int) -> None:
        self.shard = shard
        self.partition = partition
        self.is_replayed = False  # all that is in the log, and from then on what is appended
        self.is_loaded = False
        self.failure: CoordinatorNotAvailable | None = None  # why it never will be
        self.missed: list[Callable[[S, int], Sequence[object]]] = []  # events since its load began
        self.number = number
        self.uncommitted: deque[_Waiting] = deque()


class Runtime(Generic[S]):
    def __init__(
        self,
        name: str,
        *,
        make_shard: Callable[[int, InternalPartition], S],
        kinds: dict[type[Message], type[Message]],
        now_ms: Callable[[], int],
        monotonic_ms: Callable[[], float],
        write_timeout_ms: Callable[[], int],
        loads: Loads,
        unreadable: Callable[[int, Rotten], bool],
        other_effect: Callable[[int, object], None] | None = None,
        wake: Callable[[], None] | None = None,
    ) -> None:
        """`kinds` maps the class of every stored key to the class of its value. `unreadable` hears what of a partition
        cannot be read, and says whether the rest of it is a state to go on with. `wake` is called when a timer is set
        that comes before all others."""
        self._name = name
        self._make_shard = make_shard
        self._kinds = StoredKinds(kinds)
        self._now_ms = now_ms
        self._monotonic_ms = monotonic_ms
        self._write_timeout_ms = write_timeout_ms
        self._loading = loads
        self._unreadable = unreadable
        self._other_effect = other_effect
        self._wake = wake
        self._places: dict[int, _Place[S]] = {}
        self._waiting: dict[Token, asyncio.Future[Message] | None] = {}  # None while the shard is being asked
        self._at_once: dict[Token, Message] = {}
        self._next_token = 0
        self._loads = 0
        self.load_ms: list[float] = [0, 0.0, 0.0]  # how many loads, how long they took together, the longest
        self.written: Counter[tuple[type[Message], bool]] = Counter()  # records by key, and whether they remove it
        # With the number of the load, so that a shard never meets a timer of the one before it.
        self._timers: TimerWheel[tuple[int, int, Hashable]] = TimerWheel()

    # -- asking ------------------------------------------------------------------------------------------------------

    def call(
        self, index: int, ask: Callable[[S, Token, int], Sequence[object]], *, guard: VerificationGuard | None = None
    ) -> asyncio.Future[Message]:
        """Ask the shard of partition `index`; raises at once when it is not here or not loaded yet.

        `guard` shows that the transaction coordinator agreed to what will be written in a transaction.
        """
        answer = self.answer(index, ask, guard)
        if isinstance(answer, Message):
            answered = asyncio.get_running_loop().create_future()
            answered.set_result(answer)
            return answered
        return answer

    def answer(
        self, index: int, ask: Callable[[S, Token, int], Sequence[object]], guard: VerificationGuard | None = None
    ) -> Message | asyncio.Future[Message]:
        """The same, and the answer itself when it is there already."""
        place = self._place(index)
        token = self._next_token = self._next_token + 1
        self._waiting[token] = None
        self._carry_out(index, place, ask(place.shard, token, self._now_ms()), guard)
        at_once = self._at_once.pop(token, None)
        if at_once is not None:
            return at_once
        later = self._waiting[token] = asyncio.get_running_loop().create_future()
        return later

    def notify(self, index: int, event: Callable[[S, int], Sequence[object]]) -> None:
        """Notify the shard of something that nobody waits for; nothing happens when it is not here."""
        place = self._places.get(index)
        if place is None or place.failure is not None:
            return
        if not place.is_loaded:
            place.missed.append(event)
        else:
            self._carry_out(index, place, event(place.shard, self._now_ms()))

    def shard_of(self, index: int) -> S:
        """The shard itself, for questions that change nothing."""
        return self._place(index).shard

    def shards(self) -> Iterator[tuple[int, S]]:
        for index, place in self._places.items():
            if place.is_loaded:
                yield index, place.shard

    def all_shards(self) -> Iterator[tuple[int, S]]:
        """Those too that are being loaded."""
        for index, place in self._places.items():
            if place.failure is None:
                yield index, place.shard

    def partition_states(self) -> Counter[str]:
        """How many partitions are loading, active or failed."""
        return Counter(
            "active" if place.is_loaded else "loading" if place.failure is None else "failed"
            for place in self._places.values()
        )

    @property
    def is_loading(self) -> bool:
        return any(not place.is_loaded and place.failure is None for place in self._places.values())

    def _place(self, index: int) -> _Place[S]:
        place = self._places.get(index)
        if place is None:
            raise NotCoordinator(f"partition {index} of {self._name} is led elsewhere")
        if place.failure is not None:
            raise place.failure
        if not place.is_loaded:
            raise CoordinatorLoadInProgress(f"partition {index} of {self._name}")
        return place

    # -- effects -----------------------------------------------------------------------------------------------------

    def _carry_out(
        self,
        index: int,
        place: _Place[S],
        effects: Sequence[object],
        guard: VerificationGuard | None = None,
        waits_for: int = 0,
    ) -> None:
        """`waits_for` is the offset that must be committed before an effect of another kind."""
        is_dropped = False
        for effect in effects:
            if isinstance(effect, Reply):
                self._reply(effect)
            elif isinstance(effect, Write):
                written = self._write(index, place, effect, guard)
                is_dropped = is_dropped or written is None
                waits_for = max(waits_for, written or 0)
            elif isinstance(effect, SetTimer):
                due_ms = self._monotonic_ms() + effect.at_ms - self._now_ms()
                if self._timers.set((index, place.number, effect.key), due_ms) and self._wake is not None:
                    self._wake()
            elif isinstance(effect, CancelTimer):
                self._timers.cancel((index, place.number, effect.key))
            elif self._other_effect is None:
                raise TypeError(f"{self._name} does not know the effect {effect!r}")
            elif not is_dropped:
                place.uncommitted.append(_Waiting(waits_for, partial(self._other_effect, index, effect)))
        if place.uncommitted:
            self.committed(index)

    def _reply(self, reply: Reply) -> None:
        if reply.token not in self._waiting:
            raise RuntimeError(f"{self._name}: request {reply.token} was answered twice or never asked")
        waiter = self._waiting.pop(reply.token)
        if waiter is None:
            self._at_once[reply.token] = reply.response
        elif not waiter.done():  # the request may have been cancelled
            waiter.set_result(reply.response)

    def _write(self, index: int, place: _Place[S], write: Write, guard: VerificationGuard | None) -> int | None:
        """Append and replay; returns the offset that must be committed, None when the append was refused."""
        next_offset = place.partition.log_end_offset
        if write.records:
            now_ms = self._now_ms()
            try:
                next_offset = place.partition.append_internal(_batch_of(write, now_ms), now_ms, guard)
            except BrokerError as error:
                self._refuse(write, error)
                return None
            self._replay_written(place.shard, write, next_offset - len(write.records))
        if not write.replies:
            return next_offset
        if next_offset <= place.partition.high_watermark and not place.uncommitted:
            self._reply_all(write.replies)
        else:
            reply = partial(self._reply_all, write.replies)
            deadline_ms = self._monotonic_ms() + self._write_timeout_ms()
            place.uncommitted.append(_Waiting(next_offset, reply, partial(self._refuse, write), deadline_ms))
            self._watch_writes(index, place)
        return next_offset

    def _reply_all(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            self._reply(reply)

    def _refuse(self, write: Write, error: BrokerError) -> None:
        self._reply_all(write.failure(error))

    def _replay_written(self, shard: S, write: Write, first_offset: int) -> None:
        for delta, record in enumerate(write.records):
            self.written[type(record.key), record.value is None] += 1
            shard.replay(
                record,
                offset=first_offset + delta,
                producer_id=write.producer_id,
                producer_epoch=write.producer_epoch,
            )

    def committed(self, index: int) -> None:
        """The partition's high watermark may have moved: do what waited for it."""
        place = self._places.get(index)
        while (
            place is not None
            and place.uncommitted
            and place.uncommitted[0].next_offset <= place.partition.high_watermark
        ):
            place.uncommitted.popleft().act()

    # -- timers ------------------------------------------------------------------------------------------------------

    def _watch_writes(self, index: int, place: _Place[S]) -> None:
        """Have the timer of the oldest write set; a later one has a later deadline."""
        timer = (index, place.number, WRITES)
        oldest = next((each.deadline_ms for each in place.uncommitted if each.deadline_ms is not None), None)
        if oldest is not None and timer not in self._timers and self._timers.set(timer, oldest) and self._wake:
            self._wake()

    def _refuse_late_writes(self, index: int, place: _Place[S], monotonic_ms: float) -> None:
        late = [each for each in place.uncommitted if each.deadline_ms is not None and each.deadline_ms <= monotonic_ms]
        for each in late:
            place.uncommitted.remove(each)
        for each in late:
            assert each.refuse is not None, "only what can be refused has a deadline"
            each.refuse(RequestTimedOut(f"{self._name}-{index} did not commit in time; a replica may be down"))
        self._watch_writes(index, place)

    def next_due_ms(self) -> int | None:
        return self._timers.next_due_ms()

    def expire_due(self, monotonic_ms: float) -> None:
        for index, number, key in self._timers.pop_due(int(monotonic_ms)):
            place = self._places.get(index)
            if place is None or place.number != number or place.failure is not None:
                continue
            if not place.is_loaded:
                self._timers.set((index, number, key), monotonic_ms + LOADING_PATIENCE_MS)
            elif key == WRITES:
                self._refuse_late_writes(index, place, monotonic_ms)
            else:
                self._carry_out(index, place, place.shard.timer_fired(key, self._now_ms()))

    # -- coming and going --------------------------------------------------------------------------------------------

    def load(self, index: int, partition: InternalPartition) -> None:
        """This broker leads the partition now: replay its log, then serve. Returns at once; `Loads` does the rest."""
        self._loads += 1
        place = self._places[index] = _Place(self._make_shard(index, partition), partition, self._loads)
        self._loading.start(self._load(index, place))

    def _load(self, index: int, place: _Place[S]) -> Load:
        began_ms = self._monotonic_ms()
        try:
            yield from self._replay_log(index, place)
            if self._places.get(index) is place and place.failure is None:
                yield from self._carry_out_loaded(index, place)
        except Exception as error:
            if self._places.get(index) is place:
                self._give_up(index, place, error)
            return
        if self._places.get(index) is not place or place.failure is not None:
            return
        took_ms = self._monotonic_ms() - began_ms
        self.load_ms = [self.load_ms[0] + 1, self.load_ms[1] + took_ms, max(self.load_ms[2], took_ms)]
        self._finish_load(index, place)

    def _replay_log(self, index: int, place: _Place[S]) -> Load:
        count, rotten = 0, 0
        for batch in place.partition.read_batches():
            if isinstance(batch, Rotten):
                rotten += 1
                if not self._unreadable(index, batch):
                    self._refuse_all(index, place, batch)
                    return
            else:
                for records in self._replay_batch(index, place.shard, batch, after_rot=bool(rotten)):
                    count += records
                    yield
                    if self._places.get(index) is not place:
                        return
            yield
            if self._places.get(index) is not place:
                return
        # Nothing may come between the last look at the end of the log and this: what is appended from now on is
        # replayed by who appends it.
        place.is_replayed = True
        log.debug("%s-%d: %d records replayed", self._name, index, count)

    def _carry_out_loaded(self, index: int, place: _Place[S]) -> Load:
        # What was replayed may not be committed yet: another crash could take a decision away that is spread already.
        waits_for = place.partition.log_end_offset
        for effects in place.shard.loaded(self._now_ms()):
            self._carry_out(index, place, effects, waits_for=waits_for)
            yield
            if self._places.get(index) is not place:
                return

    def _finish_load(self, index: int, place: _Place[S]) -> None:
        place.is_loaded = True
        missed, place.missed = place.missed, []
        for event in missed:
            self.notify(index, event)

    def _refuse_all(self, index: int, place: _Place[S], rotten: Rotten) -> None:
        if self._places.get(index) is place:  # or it went to another broker just now
            place.failure = CoordinatorNotAvailable(
                f"{self._name}-{index} cannot be read from offset {rotten.offset} on ({rotten.file}: {rotten.error}); "
                "the log of the broker says what to do"
            )

    def _give_up(self, index: int, place: _Place[S], error: Exception) -> None:
        """Only this partition has no coordinator; who asks is told to come again."""
        is_known = isinstance(error, BrokerError)
        log.error(
            "%s-%d could not be loaded; what is kept there has no coordinator until this broker is restarted, or "
            "another one leads the partition: %s",
            self._name,
            index,
            error,
            exc_info=None if is_known else error,
        )
        place.failure = CoordinatorNotAvailable(f"{self._name}-{index} could not be loaded: {error}")

    def unload(self, index: int) -> None:
        place = self._places.pop(index, None)
        if place is None:
            return
        # What was appended may or may not survive with the new leader: pending requests are sent there.
        error = NotLeaderOrFollower(f"partition {index} of {self._name} is led elsewhere")
        while place.uncommitted:
            refuse = place.uncommitted.popleft().refuse
            if refuse is not None:
                refuse(error)
        if place.is_loaded:
            self._carry_out(index, place, place.shard.unload())

    def replay_marker(self, index: int, *, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """A transaction marker was written into this partition."""
        place = self._places.get(index)
        if place is not None and place.is_replayed and place.failure is None:
            place.shard.replay_end_of_transaction(
                producer_id=producer_id, producer_epoch=producer_epoch, committed=committed
            )

    def _replay_batch(self, index: int, shard: S, batch: RecordBatch, *, after_rot: bool) -> Iterator[int]:
        """Returns now and then how many records were replayed since."""
        if batch.is_control:
            for record in batch:
                marker = read_marker(record.key, record.value)
                if marker is not None:
                    shard.replay_end_of_transaction(
                        producer_id=batch.producer_id, producer_epoch=batch.producer_epoch, committed=marker.commit
                    )
            return
        producer_id = batch.producer_id if batch.is_transactional else -1
        producer_epoch, read = batch.producer_epoch, self._kinds.read
        count = 0
        for offset, _, key, value, _ in batch.tuples():
            if key is None:
                raise KafkaStorageError(f"{self._name}-{index} holds a record without key at offset {offset}")
            found = read(key, value)
            if found is None:
                continue
            try:
                shard.replay(
                    StoredRecord(*found), offset=offset, producer_id=producer_id, producer_epoch=producer_epoch
                )
            except Exception as error:
                if not after_rot:
                    raise
                # It builds on what could not be read.
                log.error("%s-%d: the record at offset %d is left out: %r", self._name, index, offset, error)
            count += 1
            if count == RECORDS_AT_ONCE:
                yield count
                count = 0
        yield count


def _batch_of(write: Write, now_ms: int) -> bytearray:
    is_transactional = write.producer_id >= 0
    builder = BatchBuilder(
        size_limit_bytes=BATCH_LIMIT_BYTES,
        producer_id=write.producer_id,
        producer_epoch=write.producer_epoch,
        # Always 0, as Kafka writes it: sequences of a coordinator are not checked.
        base_sequence=0 if is_transactional else -1,
        transactional=is_transactional,
    )
    for record in write.records:
        value = None if record.value is None else encode_value(record.value, record.value_version)
        builder.append(now_ms, encode_key(record.key), value)
    return bytearray(builder.close())
