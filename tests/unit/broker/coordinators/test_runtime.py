"""The runtime of coordinator shards, over a partition whose high watermark is moved by hand."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ottla.broker.coordinators.effects import Reply, StoredRecord, Write
from ottla.broker.coordinators.runtime import InternalPartition, Runtime
from ottla.errors import BrokerError, NotCoordinator
from ottla.protocol.messages.end_txn import EndTxnResponse
from ottla.protocol.stored.transactions import TransactionLogKey, TransactionLogValue
from ottla.records import RecordBatch
from ottla.storage.producers.check import VerificationGuard

INDEX = 3
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

    def replay(self, record: StoredRecord, *, offset: int, producer_id: int = -1, producer_epoch: int = -1) -> None:
        self.replayed += 1

    def replay_end_of_transaction(self, *, producer_id: int, producer_epoch: int, committed: bool) -> None: ...

    def loaded(self, now_ms: int) -> Sequence[Any]:
        return ["spread"] if self.replayed else []

    def timer_fired(self, key: Any, now_ms: int) -> Sequence[Any]:
        return []

    def unload(self) -> Sequence[Any]:
        return []


class Bench:
    def __init__(self) -> None:
        self.partition = HandMovedPartition()
        self.spread: list[tuple[int, Any]] = []
        self.runtime: Runtime[SpreadingShard] = Runtime(
            "__transaction_state",
            make_shard=lambda index, partition: SpreadingShard(),
            kinds={TransactionLogKey: TransactionLogValue},
            now_ms=lambda: 0,
            other_effect=lambda index, effect: self.spread.append((index, effect)),
        )
        self.runtime.load(INDEX, self._seen())

    def _seen(self) -> InternalPartition:
        return self.partition

    def write(self, *after: Any) -> list[Any]:
        """Have a record written; gives the answers as they come."""
        given: list[Any] = []

        def ask(shard: SpreadingShard, token: int, now_ms: int) -> list[Any]:
            def refused(error: BrokerError) -> tuple[Reply, ...]:
                return (Reply(token, EndTxnResponse(error_code=error.code)),)

            return [Write((RECORD,), (Reply(token, EndTxnResponse(error_code=0)),), refused), *after]

        self.runtime.call(INDEX, ask).when_given(given.append)
        return given

    def commit(self, offset: int) -> None:
        self.partition.high_watermark = offset
        self.runtime.committed(INDEX)

    def reload(self) -> None:
        self.runtime.unload(INDEX)
        self.runtime.load(INDEX, self._seen())


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_an_answer_and_what_follows_a_write_wait_for_its_commit(bench: Bench) -> None:
    given = bench.write("markers")
    assert (given, bench.spread) == ([], [])
    bench.commit(1)
    assert [each.error_code for each in given] == [0]
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
    given = bench.write("markers")
    bench.runtime.unload(INDEX)
    assert [each.error_code for each in given] != [0]
    bench.commit(1)
    assert bench.spread == []
    with pytest.raises(NotCoordinator):
        bench.write()
