"""Every request of a transactional producer in every state of its transaction, and what a broker answers.

    with Wire("127.0.0.1:9092") as wire:
        prepare_coordinators(wire)
        ...                                    # make the topics HERE and AWAY, see 2
        for number, probe in enumerate(all_probes()):
            print(probe.row(wire, f"probe-{number}"))

1. A probe makes a transactional id of its own, brings it into a state, sends one request, and writes one row: the
   error, which producer id and epoch were given (as differences from those before), and the transaction afterwards.
   Rows have no clock and no absolute number in them, so the rows of two brokers can be compared.
2. A transaction stays in PrepareCommit or PrepareAbort as long as a marker cannot be written: it has a partition of
   the topic AWAY, whose leader does not answer. Making such a topic is left to who starts the broker.
3. The producer of a probe is the current one, one with an older or a newer epoch, or a stranger with another id.
"""

from __future__ import annotations

import itertools
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self

from ottla.errors import NONE, name_of_code
from ottla.protocol.api import api_of
from ottla.protocol.header import decode_response, encode_request
from ottla.protocol.messages import add_partitions_to_txn as add
from ottla.protocol.messages import create_topics, txn_offset_commit, write_txn_markers
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.schema import Message
from ottla.records import BatchBuilder

HERE, AWAY = "here", "away"
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
PRODUCERS = ("current", "older", "newer", "stranger")
TIMEOUT_MS = 600_000
WAIT_S = 60
STRANGER_ID_OFFSET = 1_000_000
END_V1, END_V2 = 4, 5
NOT_READY = {"COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"}


class Wire:
    """One connection to a broker."""

    def __init__(self, address: str, *, source: str = "", client_id: str = "probes") -> None:
        """`source` is the address to come from; empty leaves it to the system."""
        self._client_id = client_id
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=WAIT_S, source_address=(source, 0))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ids = itertools.count(1)
        self._unanswered: deque[tuple[Message, int]] = deque()

    def ask(self, request: Message, version: int) -> Any:
        self.send(request, version)
        return self.receive()

    def send(self, request: Message, version: int) -> None:
        """Ask, and leave the answer to `receive`."""
        buffers = encode_request(request, version=version, correlation_id=next(self._ids), client_id=self._client_id)
        frame = b"".join(map(bytes, buffers))
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        self._unanswered.append((request, version))

    def receive(self) -> Any:
        """The answer to the oldest request that has none."""
        request, version = self._unanswered.popleft()
        (size,) = struct.unpack(">i", self._read(4))
        _, answer = decode_response(api_of(request), version, self._read(size))
        return answer

    def _read(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self._socket.recv(count - len(parts))
            if not part:
                raise ConnectionError("the broker closed the connection")
            parts += part
        return bytes(parts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()


def prepare_coordinators(wire: Wire) -> None:
    """Both kinds of coordinators are there, and all of their partitions are loaded, when this returns."""
    for key_type in (0, 1):
        request = FindCoordinatorRequest(coordinator_keys=["any"], key_type=key_type)
        _until(lambda request=request: not wire.ask(request, 4).coordinators[0].error_code)
    for number in range(20):  # names enough to reach every partition of both
        _until(lambda number=number: not _init(wire, f"first-{number}").error_code)
        request = DescribeGroupsRequest(groups=[f"first-{number}"])
        _until(lambda request=request: name_of(wire.ask(request, 5).groups[0].error_code) not in NOT_READY)


def create_topic(wire: Wire, name: str, assignments: list[list[int]]) -> None:
    topic = create_topics.CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            create_topics.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in enumerate(assignments)
        ],
        configs=[],
    )
    answer = wire.ask(create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7).topics[0]
    assert answer.error_code == NONE, answer


def _until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline_s, "the broker did not get there"
        time.sleep(0.01)


def name_of(code: int) -> str:
    return name_of_code(code)


# --- a transaction in a state ----------------------------------------------------------------------------------------


class Producer(NamedTuple):
    """Who sends a probe."""

    transactional_id: str
    producer_id: int
    epoch: int
    sequence: int  # the next one at HERE-0


class Known(NamedTuple):
    """What DescribeTransactions tells."""

    state: str
    producer_id: int
    epoch: int
    partitions: tuple[str, ...]


def _init(wire: Wire, name: str, producer_id: int = -1, epoch: int = -1, version: int = 5) -> Any:
    request = InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=TIMEOUT_MS, producer_id=producer_id, producer_epoch=epoch
    )
    return wire.ask(request, version)


def describe(wire: Wire, name: str) -> Known:
    found = wire.ask(DescribeTransactionsRequest(transactional_ids=[name]), 0).transaction_states[0]
    partitions = sorted(
        topic.topic if topic.topic.startswith("__") else f"{topic.topic}-{index}"
        for topic in found.topics
        for index in topic.partitions
    )
    state = name_of(found.error_code) if found.error_code else found.transaction_state
    return Known(state, found.producer_id, found.producer_epoch, tuple(partitions))


def _at_rest(wire: Wire, name: str) -> Known:
    """After markers that can be written have been written."""
    deadline_s = time.monotonic() + WAIT_S
    while True:
        known = describe(wire, name)
        if not known.state.startswith("Prepare") or known.partitions == (f"{AWAY}-0",):
            return known
        assert time.monotonic() < deadline_s, f"{name} stays {known}"
        time.sleep(0.002)


def brought_to(wire: Wire, name: str, state: str, version: int) -> Producer:
    """A transactional id in this state, by a producer of this version of transactions, and its current producer."""
    answers = [_init(wire, name), _init(wire, name)]  # twice, so that there is an older epoch
    assert not any(each.error_code for each in answers), answers
    producer = Producer(name, answers[-1].producer_id, answers[-1].producer_epoch, 0)
    if state == "Empty":
        return producer
    topic = AWAY if state.startswith("Prepare") else HERE
    _begin(wire, producer, topic, version)
    if state == "Ongoing":
        return producer._replace(sequence=1)
    ended = wire.ask(_end(producer, state.endswith("Commit")), END_V1 if version == 1 else END_V2)
    assert ended.error_code == NONE, ended
    known = _at_rest(wire, name)
    assert known.state == state, known
    sequence = 1 if version == 1 and topic == HERE else 0
    return Producer(name, known.producer_id, known.epoch, sequence)


def _begin(wire: Wire, producer: Producer, topic: str, version: int) -> None:
    if version == 1:
        assert _codes_of_add(wire.ask(_add_v3(producer, topic, 0), 3)) == [NONE]
    elif topic == AWAY:
        assert _codes_of_add(wire.ask(_add_batched(producer, topic, 0), 5)) == [NONE]
    if topic == HERE:
        answer = wire.ask(_produce(producer, 0), 11 if version == 1 else 12)
        assert _code_of_produce(answer) == NONE, answer


# --- requests --------------------------------------------------------------------------------------------------------


def _add_v3(producer: Producer, topic: str, index: int) -> Message:
    return add.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[add.AddPartitionsToTxnTopic(name=topic, partitions=[index])],
    )


def _add_batched(producer: Producer, topic: str, index: int, *, verify_only: bool = False) -> Message:
    transaction = add.AddPartitionsToTxnTransaction(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        verify_only=verify_only,
        topics=[add.AddPartitionsToTxnTopic(name=topic, partitions=[index])],
    )
    return add.AddPartitionsToTxnRequest(transactions=[transaction])


def _add_offsets(producer: Producer) -> Message:
    return AddOffsetsToTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id="g",
    )


def _txn_offset_commit(name: str, group: str, producer_id: int, epoch: int) -> Message:
    partition = txn_offset_commit.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=""
    )
    return txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id=name,
        group_id=group,
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[txn_offset_commit.TxnOffsetCommitRequestTopic(name=HERE, partitions=[partition])],
    )


def _end(producer: Producer, commit: bool) -> Message:
    return EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=commit,
    )


def _produce(producer: Producer, index: int) -> Message:
    builder = BatchBuilder(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=producer.sequence if index == 0 else 0,
        transactional=True,
    )
    builder.append(1_700_000_000_000, None, b"probe")
    return ProduceRequest(
        transactional_id=producer.transactional_id,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name=HERE, partition_data=[PartitionProduceData(index=index, records=bytes(builder.close()))]
            )
        ],
    )


def _marker(producer: Producer, commit: bool, transaction_version: int) -> Message:
    marker = write_txn_markers.WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=commit,
        topics=[write_txn_markers.WritableTxnMarkerTopic(name=HERE, partition_indexes=[0])],
        coordinator_epoch=0,
        transaction_version=transaction_version,
    )
    return write_txn_markers.WriteTxnMarkersRequest(markers=[marker])


def _codes_of_add(answer: Any) -> list[int]:
    if answer.error_code:
        return [answer.error_code]
    topics = list(answer.results_by_topic_v3_and_below)
    for result in answer.results_by_transaction:
        topics += result.topic_results
    return [one.partition_error_code for topic in topics for one in topic.results_by_partition]


def _code_of_produce(answer: Any) -> int:
    return answer.responses[0].partition_responses[0].error_code


# --- probes ----------------------------------------------------------------------------------------------------------

Send = Callable[[Wire, Producer], Any]


def _only_code(send: Callable[[Wire, Producer], int]) -> Send:
    return lambda wire, producer: name_of(send(wire, producer))


def _given(code: int, producer: Producer, producer_id: int, epoch: int, *, is_told: bool) -> str:
    """The error, and the producer that was given as a difference from the one that asked."""
    if not is_told:
        return name_of(code)
    if producer_id < 0:
        return f"{name_of(code)} id={producer_id} epoch={epoch}"
    if producer_id == producer.producer_id:
        return f"{name_of(code)} same id, epoch{epoch - producer.epoch:+d}"
    return f"{name_of(code)} another id, epoch {epoch}"


def _send_init(version: int, *, names_itself: bool) -> Send:
    def send(wire: Wire, producer: Producer) -> str:
        who = (producer.producer_id, producer.epoch) if names_itself else (-1, -1)
        answer = _init(wire, producer.transactional_id, *who, version=version)
        return _given(answer.error_code, producer, answer.producer_id, answer.producer_epoch, is_told=True)

    return send


def _send_end(version: int, *, commit: bool) -> Send:
    def send(wire: Wire, producer: Producer) -> str:
        answer = wire.ask(_end(producer, commit), version)
        is_told = version >= END_V2
        return _given(answer.error_code, producer, answer.producer_id, answer.producer_epoch, is_told=is_told)

    return send


def _send_add(version: int, index: int) -> Send:
    return _only_code(lambda wire, producer: _codes_of_add(wire.ask(_add_v3(producer, HERE, index), version))[0])


def _send_batched(version: int, index: int, *, verify_only: bool) -> Send:
    return _only_code(
        lambda wire, producer: _codes_of_add(
            wire.ask(_add_batched(producer, HERE, index, verify_only=verify_only), version)
        )[0]
    )


def _send_offsets(version: int) -> Send:
    return _only_code(lambda wire, producer: wire.ask(_add_offsets(producer), version).error_code)


def _send_offset_commit(version: int) -> Send:
    def send(wire: Wire, producer: Producer) -> int:
        request = _txn_offset_commit(producer.transactional_id, "g", producer.producer_id, producer.epoch)
        return int(wire.ask(request, version).topics[0].partitions[0].error_code)

    return _only_code(send)


def _send_produce(version: int, index: int) -> Send:
    return _only_code(lambda wire, producer: _code_of_produce(wire.ask(_produce(producer, index), version)))


def _send_marker(version: int, transaction_version: int, *, commit: bool) -> Send:
    def send(wire: Wire, producer: Producer) -> int:
        answer = wire.ask(_marker(producer, commit, transaction_version), version)
        return int(answer.markers[0].topics[0].partitions[0].error_code)

    return _only_code(send)


REQUESTS: dict[str, Send] = {
    "InitProducerId v5": _send_init(5, names_itself=False),
    "InitProducerId v3 by id and epoch": _send_init(3, names_itself=True),
    "InitProducerId v5 by id and epoch": _send_init(5, names_itself=True),
    "AddPartitionsToTxn v1 here-1": _send_add(1, 1),
    "AddPartitionsToTxn v3 here-0": _send_add(3, 0),
    "AddPartitionsToTxn v3 here-1": _send_add(3, 1),
    "AddPartitionsToTxn v4 here-1": _send_batched(4, 1, verify_only=False),
    "AddPartitionsToTxn v5 here-1": _send_batched(5, 1, verify_only=False),
    "AddPartitionsToTxn v4 verify here-1": _send_batched(4, 1, verify_only=True),
    "AddPartitionsToTxn v5 verify here-0": _send_batched(5, 0, verify_only=True),
    "AddPartitionsToTxn v5 verify here-1": _send_batched(5, 1, verify_only=True),
    "AddOffsetsToTxn v1": _send_offsets(1),
    "AddOffsetsToTxn v3": _send_offsets(3),
    "AddOffsetsToTxn v4": _send_offsets(4),
    "TxnOffsetCommit v3": _send_offset_commit(3),
    "TxnOffsetCommit v4": _send_offset_commit(4),
    "TxnOffsetCommit v5": _send_offset_commit(5),
    "EndTxn v1 commit": _send_end(1, commit=True),
    "EndTxn v4 commit": _send_end(4, commit=True),
    "EndTxn v4 abort": _send_end(4, commit=False),
    "EndTxn v5 commit": _send_end(5, commit=True),
    "EndTxn v5 abort": _send_end(5, commit=False),
    "Produce v10 here-1": _send_produce(10, 1),
    "Produce v11 here-0": _send_produce(11, 0),
    "Produce v11 here-1": _send_produce(11, 1),
    "Produce v12 here-0": _send_produce(12, 0),
    "Produce v12 here-1": _send_produce(12, 1),
    "WriteTxnMarkers v1 abort": _send_marker(1, 0, commit=False),
    "WriteTxnMarkers v2 abort TV2": _send_marker(2, 2, commit=False),
}


@dataclass(frozen=True)
class Probe:
    """One request of one producer to one transaction."""

    state: str
    version: int  # of transactions, with which the state was reached; 0 where there has been none
    producer: str
    request: str

    @property
    def key(self) -> tuple[str, ...]:
        return self.state, f"TV{self.version}", self.producer, self.request

    def row(self, wire: Wire, name: str) -> tuple[str, ...]:
        if self.state == "Unknown":
            current = Producer(name, 5, 0, 0)
        else:
            current = brought_to(wire, name, self.state, self.version)
        answer = REQUESTS[self.request](wire, _as(self.producer, current))
        return *self.key, answer, _afterwards(_at_rest(wire, name), current)


def _as(producer: str, current: Producer) -> Producer:
    if producer == "stranger":
        return current._replace(producer_id=current.producer_id + STRANGER_ID_OFFSET, sequence=0)
    difference = {"current": 0, "older": -1, "newer": 1}[producer]
    return current._replace(epoch=current.epoch + difference, sequence=0 if difference else current.sequence)


def _afterwards(known: Known, current: Producer) -> str:
    if known.state not in STATES:
        return known.state
    whose = f"epoch{known.epoch - current.epoch:+d}" if known.producer_id == current.producer_id else "another id"
    return " ".join((known.state, whose, *known.partitions))


def all_probes() -> Iterator[Probe]:
    for request in REQUESTS:
        yield Probe("Unknown", 0, "current", request)
        for state, version in [("Empty", 0), *itertools.product(STATES[1:], (1, 2))]:
            for producer in PRODUCERS:
                yield Probe(state, version, producer, request)


def end_quickly(wire: Wire, rounds: int) -> set[str]:
    """Commit, and abort with the epoch that the commit gave before its markers are written; how all of them ended."""
    answer = _init(wire, "quick")
    assert answer.error_code == NONE, answer
    producer, outcomes = Producer("quick", answer.producer_id, answer.producer_epoch, 0), set()
    for _ in range(rounds):
        assert _code_of_produce(_retried(lambda who=producer: wire.ask(_produce(who, 0), 12))) == NONE
        for commit in (True, False):
            ended = _retried(lambda who=producer, commit=commit: wire.ask(_end(who, commit), END_V2))
            outcomes.add(name_of(ended.error_code))
            if ended.error_code:
                return outcomes
            producer = Producer("quick", ended.producer_id, ended.producer_epoch, 0)
    return outcomes


def _retried(send: Callable[[], Any]) -> Any:
    """As producers do while markers are being written."""
    answers: list[Any] = []

    def is_answered() -> bool:
        answers.append(send())
        code = answers[-1].error_code if hasattr(answers[-1], "error_code") else _code_of_produce(answers[-1])
        return name_of(code) != "CONCURRENT_TRANSACTIONS"

    _until(is_answered)
    return answers[-1]
