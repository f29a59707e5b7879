"""The staging topic of a batch: how tasks put rows there, and how the driver copies them to where they belong.

    topic of a batch      <marker topic>-<prefix>-<query id>-<batch>     made by its tasks, deleted when it is copied
    record                some rows of one attempt, as an Arrow stream; its key names the attempt (`Piece`)
    progress of a copy    offsets of the group <prefix>-<query id>-copy, committed with what was copied; in the marker
                          topic the number of the next batch, when all is copied

1. Rows are neither serialized nor placed in partitions here: a copy sends the very columns that a task would have sent.
2. Nothing expires in a staging topic. One that a query leaves behind (it never came back) may be deleted by hand.
3. A part of a copy is a transaction of at most PART_BYTES and a quarter of the time-out. With singleTransaction all is
   one part: sending alone must then fit into the time-out.
4. A copy that begins at the beginning must find every piece of every attempt on the list, else StagedRowsLost; one that
   goes on must find those of which it has seen the first.
"""

from __future__ import annotations

import contextlib
import logging
import math
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.client.admin.offsets import OffsetSpec
from ottla.client.admin.plans import PartlyFailed
from ottla.client.admin.topics import NewTopic
from ottla.client.consumer.range_reader import RangeReader
from ottla.client.consumer.ranges import DataLost, TopicRange
from ottla.client.producer.producer import Producer
from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.errors import OttlaError, TopicAlreadyExists, UnknownTopicOrPartition
from ottla.light_tuples import NamedTuple
from ottla.spark.sink.markers import Decision, SinkNames
from ottla.spark.sink.step_kinds import StagedRowsLost
from ottla.values import TopicPartition

if TYPE_CHECKING:
    import pyarrow

    from ottla.spark.sink.clients import SinkClients
    from ottla.spark.sink.options import SinkOptions
    from ottla.spark.sink.rows import TaskRows

log = logging.getLogger(__name__)

STAGING_PARTITIONS: Final = 8
PIECE_BYTES: Final = 512 * 1024
PART_BYTES: Final = 64 * 1024 * 1024
ROOM_BYTES: Final = 1024 * 1024
"""What an Arrow stream may add to the largest record that the target takes."""
MAX_REQUEST_SIZE: Final = "max.request.size"
DEFAULT_REQUEST_BYTES: Final = 1024 * 1024
_KEY: Final = struct.Struct(">iqhI?")


class Piece(NamedTuple):
    """Whose rows a record of a staging topic has: a task's, under the identity of one attempt; and which of them."""

    task: int
    producer_id: int
    epoch: int
    number: int
    is_last: bool

    def key(self) -> bytes:
        return _KEY.pack(*self)

    @classmethod
    def of(cls, key: bytes) -> Piece:
        return cls(*_KEY.unpack(key))


# --- a task -----------------------------------------------------------------------------------------------------------


def stage_rows(
    clients: SinkClients, options: SinkOptions, topic: str, task: int, prepared: PreparedTransaction, rows: TaskRows
) -> None:
    """All rows of a task, acknowledged; at least one record, which says that there are no more."""
    largest = int(options.kafka.get(MAX_REQUEST_SIZE, DEFAULT_REQUEST_BYTES)) + ROOM_BYTES
    settings = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
    new = NewTopic(topic, STAGING_PARTITIONS, configs={**settings, "max.message.bytes": str(largest)})
    with contextlib.suppress(TopicAlreadyExists):  # another task was faster
        clients.run(clients.admin.create_topics([new]))
    with Producer({**options.client_settings("producer"), MAX_REQUEST_SIZE: largest}) as producer:
        for piece, content in _numbered(task, prepared, rows):
            producer.produce(topic, content, key=piece.key(), partition=task % STAGING_PARTITIONS)
        producer.flush()


def _numbered(task: int, prepared: PreparedTransaction, rows: TaskRows) -> Iterator[tuple[Piece, bytes]]:
    number = 0
    for batch in rows.batches():
        for part in _parts(batch):
            yield Piece(task, prepared.producer_id, prepared.producer_epoch, number, False), _as_stream(part)
            number += 1
    yield Piece(task, prepared.producer_id, prepared.producer_epoch, number, True), b""


def _parts(batch: pyarrow.RecordBatch) -> Iterator[pyarrow.RecordBatch]:
    """The same rows in parts that are small enough for a record, if a single row is."""
    if batch.num_rows <= 1 or batch.nbytes <= PIECE_BYTES:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _parts(batch.slice(0, half))
    yield from _parts(batch.slice(half))


def _as_stream(batch: pyarrow.RecordBatch) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


# --- the driver -------------------------------------------------------------------------------------------------------


class Copier:
    """Copies the staged rows of one batch, part by part."""

    def __init__(
        self,
        clients: SinkClients,
        options: SinkOptions,
        names: SinkNames,
        batch_id: int,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clients, self._options, self._names, self._batch_id = clients, options, names, batch_id
        self._now = monotonic
        self._topic = names.staging_topic(batch_id)
        is_whole = options.single_transaction
        self._part_bytes = math.inf if is_whole else PART_BYTES
        self._part_s = math.inf if is_whole else options.transaction_timeout_ms / 4000
        self._positions: dict[TopicPartition, int] = {}
        self._begins: dict[TopicPartition, int] = {}
        self._next: dict[int, int] = {}
        """The piece that comes next, of the tasks of which one was seen; -1 when all were."""
        self._pieces: Iterator[tuple[TopicPartition, int, Piece, bytes]] | None = None

    def begin(self) -> bool:
        """Fence other copiers, and see how far they came; whether the batch is copied."""
        self._clients.drop(self._names.copier_id)  # what a copier before has left in this process
        self._producer().init_transactions()
        done = self._names.place(0)
        partitions = [TopicPartition(self._topic, number) for number in range(STAGING_PARTITIONS)]
        asked = self._clients.admin.list_consumer_group_offsets(
            self._names.copier_id, [done, *partitions], require_stable=True
        )
        found = {name: each.offset for name, each in self._clients.run(asked).items() if each is not None}
        if found.get(done, 0) > self._batch_id:
            return True
        self._begins = {name: found.get(name, 0) for name in partitions}
        return False

    def copy_part(self, decision: Decision) -> bool:
        """One transaction; whether it was the last."""
        if self._pieces is None:
            self._pieces = self._read()
        producer = self._producer()
        producer.begin_transaction()
        is_last = self._send_part(producer, decision)
        if is_last:
            self._check_complete(decision)
            self._positions[self._names.place(0)] = self._batch_id + 1
        producer.send_offsets_to_transaction(self._positions, self._names.copier_id)
        producer.commit_transaction()
        return is_last

    def clear(self) -> None:
        """The topic has done its work; where it cannot be deleted it stays, and does no harm."""
        self._clients.drop(self._names.copier_id)
        try:
            self._clients.run(self._clients.admin.delete_topics([self._topic]))
        except UnknownTopicOrPartition:
            pass  # an earlier copier has
        except OttlaError as error:
            log.warning("the staging topic %s is copied and could not be deleted; delete it: %s", self._topic, error)

    def _producer(self) -> Producer:
        return self._clients.producer(self._names.copier_id)

    def _send_part(self, producer: Producer, decision: Decision) -> bool:
        import pyarrow as pa

        assert self._pieces is not None, "it was begun"
        size, until = 0, self._now() + self._part_s
        for partition, offset, piece, content in self._pieces:
            self._positions[partition] = offset + 1
            if decision.identities.get(piece.task) != (piece.producer_id, piece.epoch):
                continue  # of an attempt that did not count
            if self._note(piece, partition):
                producer.send_arrow(self._options.topic, pa.ipc.open_stream(content).read_next_batch())
                size += len(content)
            if size >= self._part_bytes or self._now() >= until:
                return False
        return True

    def _note(self, piece: Piece, partition: TopicPartition) -> bool:
        """Whether these rows are to be copied; raises StagedRowsLost for a gap."""
        expected = self._next.get(piece.task, 0 if self._begins[partition] == 0 else piece.number)
        if piece.number < expected or expected < 0:
            return False
        if piece.number != expected:
            raise StagedRowsLost(f"{self._topic}: part {expected} of task {piece.task} is not there")
        self._next[piece.task] = -1 if piece.is_last else piece.number + 1
        return not piece.is_last

    def _check_complete(self, decision: Decision) -> None:
        for task in decision.identities:
            begins = self._begins[TopicPartition(self._topic, task % STAGING_PARTITIONS)]
            if self._next.get(task, 0 if begins == 0 else -1) >= 0:
                raise StagedRowsLost(f"{self._topic}: not all rows of task {task} are there")

    def _read(self) -> Iterator[tuple[TopicPartition, int, Piece, bytes]]:
        """Every record behind the progress, partition by partition."""
        import pyarrow as pa

        ends = self._ends()
        ranges = [TopicRange(each.topic, each.partition, self._begins[each], end) for each, end in ends.items()]
        schema = pa.schema(
            [("partition", pa.int32()), ("offset", pa.int64()), ("key", pa.binary()), ("value", pa.binary())]
        )
        with RangeReader(self._options.client_settings("consumer")) as reader:
            try:
                for batch in reader.read([each for each in ranges if each.start < each.end], schema):
                    for row in batch.to_pylist():
                        partition = TopicPartition(self._topic, row["partition"])
                        yield partition, row["offset"], Piece.of(row["key"]), row["value"]
            except DataLost as loss:
                raise StagedRowsLost(str(loss)) from loss

    def _ends(self) -> Mapping[TopicPartition, int]:
        places: dict[TopicPartition, Any] = dict.fromkeys(self._begins, OffsetSpec.LATEST)
        try:
            found = self._clients.run(self._clients.admin.list_offsets(places))
        except (UnknownTopicOrPartition, PartlyFailed) as error:
            raise StagedRowsLost(f"{self._topic}: {error}") from error
        return {name: each.offset for name, each in found.items()}
