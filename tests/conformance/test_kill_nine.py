"""kill -9 under load, then a start on the same data: nothing acknowledged is lost, nothing comes twice or back.

Each test keeps clients of confluent-kafka at work in threads, kills the broker process at moments chosen by a seeded
Random, starts it again on the same port, lets the clients find it again, and after the last round reads everything:

1. Idempotent producer, acks=all: every acknowledged record is there, none twice, in the order it was sent.
2. Transactions: what commit_transaction promised is read once by read_committed, what was aborted is never read; a
   transaction whose commit was cut off is there completely or not at all.
3. Commits of a group: the offset that is read back after a restart is the last one confirmed, or a later one that was
   on its way, and never goes back.
4. Topics: what was made is there with all partitions and its settings, what was deleted stays away; a call that was cut
   off did all of its work or nothing.

kill -9 takes the process, not the machine: what the kernel has been given is kept, so this holds for every durability
mode. `make test` plays ROUNDS; OTTLA_KILL_ROUNDS sets another number, and the marked test plays LONG_ROUNDS.
"""

import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from tests.conformance.our_broker import BrokerProcess
from tests.conformance.whole_topics import create_topic, read_all
from tests.patience import HANG_S

ROUNDS = int(os.environ.get("OTTLA_KILL_ROUNDS", "2"))
LONG_ROUNDS = 15
PARTITIONS = 2
BURST_S = (0.0, 0.5)  # how long the load runs before a kill, counted from when it is seen to work
STEP_S = 0.005
PER_TRANSACTION = 5
DIGITS = 400  # makes a number a record of a usual size
FAST = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 20}
# A client is loud about a broker that goes away; here that is the point.
QUIET = {"log_level": 0, "error_cb": lambda _: None}

Place = tuple[int, int]  # partition and offset
Places = dict[int, dict[int, list[Place]]]  # by transaction and by the number of the record in it


class Load:
    """Something that works against the broker until it is told to end; what went wrong in it fails the test."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.over = threading.Event()
        self.problem: BaseException | None = None
        self.successes = 0

    def run(self) -> None:
        try:
            while not self.over.is_set():
                self.work()
            self.finish()
        except BaseException as problem:
            self.problem = problem

    def work(self) -> None: ...

    def finish(self) -> None: ...

    def settings(self, **more: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self.servers, **FAST, **QUIET, **more}


class IdempotentLoad(Load):
    """Numbers to both partitions; `acknowledged` holds those whose delivery was confirmed."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(servers)
        self.topic = topic
        self.sent = 0
        self.acknowledged: list[int] = []
        self.refused: list[str] = []
        settings = {"enable.idempotence": True, "linger.ms": 1, "delivery.timeout.ms": HANG_S * 1000}
        self.producer = Producer(self.settings(**settings))

    def work(self) -> None:
        try:
            number = self.sent
            self.producer.produce(
                self.topic, b"%0*d" % (DIGITS, number), partition=number % PARTITIONS, on_delivery=self._told
            )
            self.sent += 1
        except BufferError:
            self.producer.poll(0.05)
        self.producer.poll(0)
        if self.sent % 50 == 0:
            self.over.wait(0.002)  # some thousand records a second are load enough for two cores

    def _told(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.append(int(message.value()))
            self.successes += 1
        else:
            self.refused.append(str(error))

    def finish(self) -> None:
        assert self.producer.flush(HANG_S) == 0, "records are still waiting for a broker that is back"


class TransactionalLoad(Load):
    """Transactions of PER_TRANSACTION numbers in both partitions, every third one aborted."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(servers)
        self.topic = topic
        self.number = 0
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        self.unknown: set[int] = set()
        self.producer = self._new_producer()

    def _new_producer(self) -> Producer:
        settings = {"transactional.id": f"{self.topic}-writer", "linger.ms": 0, "transaction.timeout.ms": 20_000}
        producer = Producer(self.settings(**settings))
        end_s = time.monotonic() + HANG_S
        while True:
            try:
                producer.init_transactions(5)
                return producer
            except KafkaException:
                if time.monotonic() > end_s:
                    raise

    def work(self) -> None:
        number, self.number = self.number, self.number + 1
        try:
            self.producer.begin_transaction()
            for index in range(PER_TRANSACTION):
                value = b"%d:%d" % (number, index)
                self.producer.produce(self.topic, value, partition=index % PARTITIONS)
            if number % 3 == 2:
                self.aborted.add(number)
                retried(lambda: self.producer.abort_transaction(5))
            else:
                self.unknown.add(number)
                retried(lambda: self.producer.commit_transaction(5))
                self.unknown.discard(number)
                self.committed.add(number)
                self.successes += 1
        except KafkaException as problem:
            self._recover(problem)

    def _recover(self, problem: KafkaException) -> None:
        """As the documentation asks: abort what can be aborted, begin anew with another producer otherwise."""
        if problem.args[0].txn_requires_abort():
            retried(lambda: self.producer.abort_transaction(5))
        else:
            self.producer = self._new_producer()

    def wait_for_markers(self) -> None:
        """Until the last transaction is over in every partition.

        commit_transaction promises that it is decided; its markers come after that, each when its partition has it on
        the disk, and a reader of committed records that is there before sees as much as the markers have let go."""
        self.producer = self._new_producer()


class CommittingLoad(Load):
    """Commits rising offsets for one partition, waiting for each; `confirmed` is the last one it was promised."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(servers)
        self.partition = topic, 0
        self.tried = 0
        self.confirmed = 0
        self.consumer = Consumer(self.settings(**{"group.id": f"{topic}-group", "enable.auto.commit": False}))
        self.consumer.assign([TopicPartition(topic, 0, 0)])

    def work(self) -> None:
        self.tried += 1
        try:
            self.consumer.commit(offsets=[TopicPartition(*self.partition, self.tried)], asynchronous=False)
        except KafkaException:
            self.over.wait(0.02)
            return
        self.confirmed = self.tried
        self.successes += 1

    def finish(self) -> None:
        self.consumer.close()


class AdministratingLoad(Load):
    """Makes topics of PARTITIONS partitions and deletes every third of them again, waiting for each answer."""

    def __init__(self, servers: str) -> None:
        super().__init__(servers)
        self.number = 0
        self.there: dict[str, str] = {}  # name to its retention.ms
        self.gone: set[str] = set()
        self.unknown: set[str] = set()
        self.admin = AdminClient(self.settings())

    def work(self) -> None:
        name, self.number = f"made-{self.number}", self.number + 1
        kept_ms = str(1_000_000 + self.number)
        self.unknown.add(name)
        made = NewTopic(name, PARTITIONS, 1, config={"retention.ms": kept_ms})
        if not self._answered(self.admin.create_topics([made], request_timeout=5)[name]):
            return
        if self.number % 3:
            self.there[name] = kept_ms
        elif self._answered(self.admin.delete_topics([name], request_timeout=5)[name]):
            self.gone.add(name)
        else:
            return
        self.unknown.discard(name)
        self.successes += 1

    def _answered(self, future: Any) -> bool:
        try:
            future.result(HANG_S)
        except KafkaException:
            return False
        return True


def retried(call: Callable[[], object]) -> None:
    """Again for as long as librdkafka says that again is right."""
    end_s = time.monotonic() + HANG_S
    while True:
        try:
            call()
            return
        except KafkaException as problem:
            if not problem.args[0].retriable() or time.monotonic() > end_s:
                raise


@contextmanager
def working(load: Load):
    thread = threading.Thread(target=load.run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        load.over.set()
        thread.join(2 * HANG_S)
    assert not thread.is_alive(), "the load did not come to an end"
    if load.problem is not None:
        raise load.problem


@pytest.fixture
def broker(tmp_path: Path):
    process = BrokerProcess(tmp_path, {"log.segment.bytes": "1048576"})  # several segments in a run
    process.start()
    yield process
    process.kill()


@pytest.fixture(params=[ROUNDS, pytest.param(LONG_ROUNDS, marks=pytest.mark.long)])
def rounds(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def kill_and_restart(
    broker: BrokerProcess, load: Load, random: Random, rounds: int, look: Callable[[], None] | None = None
) -> None:
    for _ in range(rounds):
        wait_for_work(load)
        time.sleep(random.uniform(*BURST_S))
        broker.kill()
        broker.start()
        if look is not None:
            look()
    wait_for_work(load)


def wait_for_work(load: Load) -> None:
    """Until the load was told of new successes: a kill while nothing is on its way would show nothing."""
    begun, end_s = load.successes, time.monotonic() + HANG_S
    while load.successes == begun:
        assert time.monotonic() < end_s, "the clients did not find the broker again"
        time.sleep(STEP_S)


def read_values(broker: BrokerProcess, topic: str, isolation: str) -> list[list[bytes]]:
    """Everything in a topic, by partition."""
    return [[record.value for record in records] for records in read_all(broker.bootstrap_servers, topic, isolation)]


def test_acknowledged_records_are_kept_once_and_in_order(broker, rounds):
    load = IdempotentLoad(broker.bootstrap_servers, create_topic(broker.bootstrap_servers, "numbers", PARTITIONS))
    with working(load):
        kill_and_restart(broker, load, Random(1), rounds)
    read = [[int(value) for value in values] for values in read_values(broker, "numbers", "read_uncommitted")]
    everything = Counter(number for values in read for number in values)
    assert load.refused == []
    assert len(load.acknowledged) == load.sent > rounds
    assert set(load.acknowledged) - everything.keys() == set(), "acknowledged and lost"
    assert [number for number, times in everything.items() if times > 1] == [], "there twice"
    assert all(values == sorted(values) for values in read)


def test_transactions_are_read_whole_or_not_at_all(broker, rounds):
    load = TransactionalLoad(broker.bootstrap_servers, create_topic(broker.bootstrap_servers, "pairs", PARTITIONS))
    with working(load):
        kill_and_restart(broker, load, Random(2), rounds)
    load.wait_for_markers()
    places = places_of_transactions(broker, "pairs", "read_committed")
    assert load.committed
    assert load.aborted
    wrong = {
        "committed and lost": load.committed - places.keys(),
        "aborted and read": load.aborted & places.keys(),
        "read and never written": places.keys() - load.committed - load.unknown,
        "not read once each": {number for number, found in places.items() if not is_whole(found)},
    }
    assert not any(wrong.values()), what_is_there(broker, "pairs", wrong, places)


def is_whole(found: dict[int, list[Place]]) -> bool:
    return {index: len(where) for index, where in found.items()} == dict.fromkeys(range(PER_TRANSACTION), 1)


def places_of_transactions(broker: BrokerProcess, topic: str, isolation: str) -> Places:
    places: Places = defaultdict(lambda: defaultdict(list))
    for partition, records in enumerate(read_all(broker.bootstrap_servers, topic, isolation)):
        for record in records:
            number, index = map(int, record.value.split(b":"))
            places[number][index].append((partition, record.offset))
    return places


def what_is_there(broker: BrokerProcess, topic: str, wrong: dict[str, set[int]], read: Places) -> str:
    """What is needed to tell a reader that was too early from a broker that is wrong."""
    stable = end_offsets(broker, topic, "read_committed")
    written = end_offsets(broker, topic, "read_uncommitted")
    everything = places_of_transactions(broker, topic, "read_uncommitted")
    again = places_of_transactions(broker, topic, "read_committed")
    lines = [f"last stable offsets now {stable}, ends {written}"]
    for fault, numbers in wrong.items():
        for number in sorted(numbers):
            lines.append(f"{fault}: transaction {number}, read at (partition, offset) {dict(read.get(number, {}))}")
            lines.append(f"  in the log {dict(everything.get(number, {}))}, read now {dict(again.get(number, {}))}")
    return "\n".join(lines)


def end_offsets(broker: BrokerProcess, topic: str, isolation: str) -> list[int]:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "ends", "isolation.level": isolation}
    consumer = Consumer({**settings, **QUIET})
    partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    ends = [consumer.get_watermark_offsets(each, HANG_S)[1] for each in partitions]
    consumer.close()
    return ends


def test_committed_offsets_do_not_go_back(broker, rounds):
    load = CommittingLoad(broker.bootstrap_servers, create_topic(broker.bootstrap_servers, "bookmarks", PARTITIONS))
    reader = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "bookmarks-group", **FAST, **QUIET})
    read_back: list[int] = []

    def look() -> None:
        promised = load.confirmed
        found = reader.committed([TopicPartition("bookmarks", 0)], HANG_S)[0].offset
        found = max(found, 0)  # below 0: nothing is committed yet
        assert promised <= found <= load.tried
        read_back.append(found)

    with working(load):
        kill_and_restart(broker, load, Random(3), rounds, look)
    look()
    reader.close()
    assert read_back == sorted(read_back)
    assert load.successes > rounds


def test_topics_are_made_and_deleted_whole_or_not_at_all(broker, rounds):
    load = AdministratingLoad(broker.bootstrap_servers)
    with working(load):
        kill_and_restart(broker, load, Random(4), rounds)
    listed = load.admin.list_topics(timeout=HANG_S).topics
    assert load.there.keys() - listed.keys() == set(), "made and lost"
    assert load.gone & listed.keys() == set(), "deleted and back"
    assert listed.keys() - load.there.keys() <= load.unknown
    assert {len(topic.partitions) for topic in listed.values()} == {PARTITIONS}
    resources = [ConfigResource("topic", name) for name in load.there]
    kept_ms = {
        resource.name: future.result(HANG_S)["retention.ms"].value
        for resource, future in load.admin.describe_configs(resources).items()
    }
    assert kept_ms == load.there
