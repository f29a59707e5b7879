"""The runtime of coordinator shards, over a partition whose high watermark is moved by hand."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from ottla.broker.coordinators.effects import Reply, SetTimer, StoredRecord, Write
from ottla.broker.coordinators.loads import Loads
from ottla.broker.coordinators.runtime import InternalPartition, Runtime
from ottla.broker.requests.running import Background
from ottla.errors import BrokerError, NotCoordinator, NotLeaderOrFollower, RequestTimedOut
from ottla.protocol.messages.end_txn import EndTxnResponse
from ottla.protocol.stored.transactions import TransactionLogKey, TransactionLogValue
from ottla.records import RecordBatch
from ottla.storage.log.whole_log import Rotten
from ottla.storage.producers.check import VerificationGuard

INDEX = 3
TIMEOUT_MS = 5_000
RECORD = StoredRecord(TransactionLogKey(transactional_id="payments"), None)


class HandMovedPartition:
    """Keeps the batches it is given; they are committed when a test says so."""

    leader_epoch = 0

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.high_watermark = 0

    @property
    def log_end_offset(self) -> int:
        return len(self.batches)

    def append_internal(self, batch: bytearray, now_ms: int, guard: VerificationGuard | None) -> int:
        self.batches.append(bytes(batch))
        return self.log_end_offset

    def read_batches(self) -> Iterator[RecordBatch]:
        return (RecordBatch(each) for each in self.batches)


class SpreadingShard:
    """Has something for others to do once it is loaded, as a coordinator has with markers."""

    def __init__(self) -> None:
        self.replayed = 0
        self.fired: list[Any] = []

    def replay(self, record: StoredRecord, *, offset: int, producer_id: int = -1, producer_epoch: int = -1) -> None:
        self.replayed += 1

    def replay_end_of_transaction(self, *, producer_id: int, producer_epoch: int, committed: bool) -> None: ...

    def loaded(self, now_ms: int) -> Sequence[Any]:
        return [["spread"]] if self.replayed else []

    def timer_fired(self, key: Any, now_ms: int) -> Sequence[Any]:
        self.fired.append(key)
        return []

    def unload(self) -> Sequence[Any]:
        return []


class Bench:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.now_ms = 0  # of a clock that never jumps
        self.wall_is_ahead_ms = 0
        self.partition = HandMovedPartition()
        self.loads = Loads(Background(), lambda: self.now_ms)
        self.rotten: list[Rotten] = []
        self.goes_on = True
        self.spread: list[tuple[int, Any]] = []
        self.wakes: list[int | None] = []
        self.runtime: Runtime[SpreadingShard] = Runtime(
            "__transaction_state",
            make_shard=lambda index, partition: SpreadingShard(),
            kinds={TransactionLogKey: TransactionLogValue},
            now_ms=lambda: self.now_ms + self.wall_is_ahead_ms,
            monotonic_ms=lambda: self.now_ms,
            write_timeout_ms=lambda: TIMEOUT_MS,
            loads=self.loads,
            unreadable=self.unreadable,
            other_effect=lambda index, effect: self.spread.append((index, effect)),
            wake=lambda: self.wakes.append(self.runtime.next_due_ms()),
        )
        self.runtime.load(INDEX, self._seen())

    def unreadable(self, index: int, rotten: Rotten) -> bool:
        self.rotten.append(rotten)
        return self.goes_on

    def _seen(self) -> InternalPartition:
        return self.partition

    def write(self, *after: Any) -> list[Any]:
        """Have a record written; returns the list that the answer comes into."""
        answers: list[Any] = []

        def ask(shard: SpreadingShard, token: int, now_ms: int) -> list[Any]:
            def refused(error: BrokerError) -> tuple[Reply, ...]:
                return (Reply(token, EndTxnResponse(error_code=error.code)),)

            return [Write((RECORD,), (Reply(token, EndTxnResponse(error_code=0)),), refused), *after]

        async def call() -> None:
            answers.append(await self.runtime.call(INDEX, ask))

        self.do(lambda: Background().start(call()))
        return answers

    def do(self, call: Callable[[], object]) -> None:
        """Call something on a loop, and let it work."""

        async def run() -> None:
            call()
            for _ in range(5):
                await asyncio.sleep(0)

        self.loop.run_until_complete(run())

    def late(self, by_ms: int) -> None:
        self.now_ms += by_ms
        self.do(lambda: self.runtime.expire_due(self.now_ms))

    def commit(self, offset: int) -> None:
        self.partition.high_watermark = offset
        self.do(lambda: self.runtime.committed(INDEX))

    def reload(self) -> None:
        self.do(lambda: self.runtime.unload(INDEX))
        self.do(lambda: self.runtime.load(INDEX, self._seen()))


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.loop.close()


def test_a_commit_that_does_not_come_is_refused_in_time_and_what_was_written_stays(bench: Bench) -> None:
    early = bench.write("markers")
    bench.late(TIMEOUT_MS - 20)
    late = bench.write()
    assert (early, late) == ([], [])
    bench.late(20)
    assert [each.error_code for each in early] == [RequestTimedOut.code]
    assert late == []
    bench.late(TIMEOUT_MS)
    assert [each.error_code for each in late] == [RequestTimedOut.code]
    assert bench.spread == []
    bench.commit(2)
    assert bench.spread == [(INDEX, "markers")]


def test_a_commit_in_time_is_answered_once(bench: Bench) -> None:
    answers = bench.write()
    bench.commit(1)
    bench.late(10 * TIMEOUT_MS)
    assert [each.error_code for each in answers] == [0]


def test_an_answer_that_waits_for_nothing_is_there_at_once(bench: Bench) -> None:
    answers: list[Any] = []

    def ask(shard: SpreadingShard, token: int, now_ms: int) -> list[Any]:
        return [Write((), (Reply(token, EndTxnResponse(error_code=0)),), lambda error: ())]

    bench.do(lambda: answers.append(bench.runtime.answer(INDEX, ask)))
    assert answers == [EndTxnResponse(error_code=0)]

    bench.write()  # and nothing is told that could be gone after a crash
    bench.do(lambda: answers.append(bench.runtime.answer(INDEX, ask)))
    assert not answers[1].done()
    bench.commit(1)
    assert answers[1].result() == EndTxnResponse(error_code=0)


def test_an_answer_and_what_follows_a_write_wait_for_its_commit(bench: Bench) -> None:
    answers = bench.write("markers")
    assert (answers, bench.spread) == ([], [])
    bench.commit(1)
    assert [each.error_code for each in answers] == [0]
    assert bench.spread == [(INDEX, "markers")]


def test_what_a_load_gives_others_to_do_waits_until_all_that_was_replayed_is_committed(bench: Bench) -> None:
    bench.write()
    bench.write()
    bench.commit(1)
    bench.reload()
    assert bench.spread == []
    bench.commit(2)
    assert bench.spread == [(INDEX, "spread")]


def test_a_load_of_what_is_committed_is_spread_at_once(bench: Bench) -> None:
    bench.write()
    bench.commit(1)
    bench.reload()
    assert bench.spread == [(INDEX, "spread")]


def test_who_waits_when_the_shard_leaves_is_refused_and_nothing_is_spread(bench: Bench) -> None:
    answers = bench.write("markers")
    bench.do(lambda: bench.runtime.unload(INDEX))
    assert [each.error_code for each in answers] == [NotLeaderOrFollower.code]
    bench.commit(1)
    assert bench.spread == []
    with pytest.raises(NotCoordinator):
        bench.runtime.shard_of(INDEX)


def test_the_first_deadline_wakes_the_alarm(bench: Bench) -> None:
    bench.write()
    bench.write()
    assert bench.wakes == [TIMEOUT_MS]
    bench.do(lambda: bench.runtime.notify(INDEX, lambda shard, now_ms: [SetTimer("early", 100), SetTimer("late", 200)]))
    assert bench.wakes == [TIMEOUT_MS, 100]


def test_a_timer_of_an_earlier_load_is_not_fired(bench: Bench) -> None:
    bench.do(lambda: bench.runtime.notify(INDEX, lambda shard, now_ms: [SetTimer("session", 100)]))
    bench.reload()
    bench.late(200)
    assert bench.runtime.shard_of(INDEX).fired == []
    bench.do(lambda: bench.runtime.notify(INDEX, lambda shard, now_ms: [SetTimer("session", 300)]))
    bench.late(200)
    assert bench.runtime.shard_of(INDEX).fired == ["session"]


@pytest.mark.parametrize("jump_ms", [-3_600_000, 3_600_000])
def test_a_wall_clock_that_jumps_moves_no_timer(bench: Bench, jump_ms: int) -> None:
    bench.do(lambda: bench.runtime.notify(INDEX, lambda shard, now_ms: [SetTimer("session", now_ms + 1_000)]))
    bench.wall_is_ahead_ms = jump_ms
    bench.late(900)
    assert bench.runtime.shard_of(INDEX).fired == []
    bench.late(100)
    assert bench.runtime.shard_of(INDEX).fired == ["session"]


def test_a_wall_clock_that_jumps_does_not_end_the_wait_for_a_commit(bench: Bench) -> None:
    answers = bench.write()
    bench.wall_is_ahead_ms = 3_600_000
    bench.late(TIMEOUT_MS - 20)
    assert answers == []
    bench.late(20)
    assert [each.error_code for each in answers] == [RequestTimedOut.code]
