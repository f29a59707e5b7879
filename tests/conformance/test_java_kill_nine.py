"""Apache's own programs at work while our broker is killed with kill -9 and started again.

1. VerifiableProducer, idempotent: what it was told is kept is there, at the offset it was told, once.
2. VerifiableConsumer, with either group protocol: it misses nothing, and what it was told is committed is.
3. TransactionalMessageCopier with random aborts: the copy is the original, once and in order.
4. LogCompactionTester: the last value of each key is kept.
Kafka Streams is killed in test_streams.py. Needs Java, a compiler and Kafka's jars (kafka_jars.py) and takes minutes:
run by `make test-long`, skipped where they are missing.
"""

import json
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.conformance.java_programs import JavaPrograms, jars_or_skip
from tests.conformance.our_broker import BrokerProcess
from tests.conformance.whole_topics import create_topic, read_all

pytestmark = pytest.mark.long

KILLS = 4
BURST_S = (0.2, 1.5)
STEP_S = 0.02
LIMIT_S = 180
PARTITIONS = 3
RATE = 800  # of numbers a second: both cores have other work too
# The tool asks for no retries and so for no idempotence; here both are wanted.
IDEMPOTENT = "enable.idempotence=true\nretries=2147483647\nreconnect.backoff.max.ms=200\n"


class Program:
    """A program that tells what it does as lines of JSON, read as they come."""

    def __init__(self, command: list[str]) -> None:
        self.events: list[dict[str, Any]] = []
        self._words: list[str] = []
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.startswith("{"):
                    self.events.append(json.loads(line))
                else:
                    self._words.append(line)

    @property
    def printed(self) -> str:
        """What was no JSON."""
        return "".join(self._words)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def named(self, name: str) -> list[dict[str, Any]]:
        return [event for event in list(self.events) if event.get("name") == name]

    def wait(self) -> int:
        """Until it ends by itself."""
        code = self._process.wait(LIMIT_S)
        self._reader.join()
        return code

    def ask_to_end(self) -> None:
        self._process.terminate()
        self.wait()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def wait_for(self, happened: Callable[[], bool], what: str) -> None:
        end_s = time.monotonic() + LIMIT_S
        while not happened():
            assert time.monotonic() < end_s, f"{what} did not happen: {self.printed[-3000:]}"
            assert self._process.poll() is None or happened(), f"it ended: {self.printed[-3000:]}"
            time.sleep(STEP_S)


@contextmanager
def running(java: JavaPrograms, name: str, *arguments: str) -> Iterator[Program]:
    program = Program(java.command(f"org.apache.kafka.tools.{name}", *arguments))
    try:
        yield program
    finally:
        program.end()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    jars_or_skip("4.3")
    with BrokerProcess(tmp_path, {"log.segment.bytes": "1048576"}) as process:
        yield process
        assert process.faults() == []


@pytest.fixture
def java(broker: BrokerProcess, tmp_path: Path) -> JavaPrograms:
    return JavaPrograms(jars_or_skip("4.3"), tmp_path, broker.bootstrap_servers)


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    return create_topic(broker.bootstrap_servers, "numbers", PARTITIONS)


def kill_while_it_works(broker: BrokerProcess, program: Program, seed: int) -> None:
    """Each kill comes when the program has told of something new since the broker is back."""
    random = Random(seed)
    for _ in range(KILLS):
        wait_for_news(program)
        time.sleep(random.uniform(*BURST_S))
        broker.kill()
        broker.start()
    wait_for_news(program)


def wait_for_news(program: Program) -> None:
    begun = len(program.events)
    program.wait_for(lambda: len(program.events) > begun, "news")


def producer_words(java: JavaPrograms, tmp_path: Path, topic: str, count: int = -1) -> list[str]:
    """One that sends `count` numbers, or some hundred a second until it is told to end."""
    settings = tmp_path / "idempotent.properties"
    settings.write_text(IDEMPOTENT)
    amount = f"--max-messages {count} --throughput {RATE if count < 0 else -1} --command-config {settings}"
    return ["--bootstrap-server", java.servers, "--topic", topic, *amount.split()]


def test_what_a_producer_was_told_is_kept_once(broker, java, topic, tmp_path):
    with running(java, "VerifiableProducer", *producer_words(java, tmp_path, topic)) as producer:
        kill_while_it_works(broker, producer, seed=1)
        producer.ask_to_end()
    told = producer.named("producer_send_success")
    # The tool sends while it closes its producer, and is told so.
    messages = [each["message"] for each in producer.named("producer_send_error")]
    assert [each for each in messages if "closed" not in each] == []
    assert len(told) > KILLS
    read = read_all(broker.bootstrap_servers, topic, "read_uncommitted")
    there = {(index, record.offset): record.value for index, records in enumerate(read) for record in records}
    assert {(each["partition"], each["offset"]): each["value"].encode() for each in told} == there


@pytest.mark.parametrize("protocol", ["CLASSIC", "CONSUMER"])
def test_a_consumer_misses_nothing_and_its_commits_stay(broker, java, topic, tmp_path, protocol):
    group = f"--group-id readers --group-protocol {protocol} --reset-policy earliest --topic {topic}"
    words = ["--bootstrap-server", java.servers, *group.split()]
    with (
        running(java, "VerifiableConsumer", *words) as consumer,
        running(java, "VerifiableProducer", *producer_words(java, tmp_path, topic)) as producer,
    ):
        consumer.wait_for(lambda: bool(consumer.named("records_consumed")), "the first record")
        kill_while_it_works(broker, consumer, seed=2)
        producer.ask_to_end()
        ends = ends_told(producer)
        consumer.wait_for(lambda: positions(consumer) == ends, "the last record")
        consumer.ask_to_end()
    gaps = [each for ranges in consumed(consumer).values() for each in gaps_between(ranges)]
    assert gaps == []
    committed = committed_offsets(broker, topic, "readers")
    for partition, promised in promised_offsets(consumer).items():
        assert promised <= committed[partition] <= ends[partition]


def ends_told(producer: Program) -> dict[int, int]:
    """Where each partition ends, by what the producer was told."""
    ends: dict[int, int] = defaultdict(int)
    for told in producer.named("producer_send_success"):
        ends[told["partition"]] = max(ends[told["partition"]], told["offset"] + 1)
    return dict(ends)


def consumed(consumer: Program) -> dict[int, list[tuple[int, int]]]:
    """First and last offset of what the consumer got at a time, by partition."""
    ranges: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for event in consumer.named("records_consumed"):
        for each in event["partitions"]:
            ranges[each["partition"]].append((each["minOffset"], each["maxOffset"]))
    return ranges


def positions(consumer: Program) -> dict[int, int]:
    return {partition: max(last for _, last in ranges) + 1 for partition, ranges in consumed(consumer).items()}


def gaps_between(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Where a reader went on further than it had come; to go back is its right, after a commit that was cut off."""
    gaps, reached = [], -1
    for first, last in ranges:
        if first > reached + 1:
            gaps.append((reached, first))
        reached = max(reached, last)
    return gaps


def promised_offsets(consumer: Program) -> dict[int, int]:
    """The last commit that was confirmed, by partition."""
    promised: dict[int, int] = {}
    for event in consumer.named("offsets_committed"):
        if event["success"]:
            promised.update({each["partition"]: each["offset"] for each in event["offsets"]})
    return promised


def committed_offsets(broker: BrokerProcess, topic: str, group: str) -> dict[int, int]:
    reader = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    found = reader.committed([TopicPartition(topic, index) for index in range(PARTITIONS)], 30)
    reader.close()
    return {each.partition: each.offset for each in found}


def test_a_copier_copies_everything_once(broker, java, tmp_path):
    for name in ("original", "copy"):
        create_topic(broker.bootstrap_servers, name, 1)
    with running(java, "VerifiableProducer", *producer_words(java, tmp_path, "original", 6_000)) as producer:
        assert producer.wait() == 0
    who = "--consumer-group copier --transactional-id copier --transaction-size 20 --enable-random-aborts"
    what = "--input-topic original --input-partition 0 --output-topic copy --max-messages 6000 --use-group-metadata"
    with running(
        java, "TransactionalMessageCopier", "--broker-list", java.servers, *who.split(), *what.split()
    ) as copier:
        kill_while_it_works(broker, copier, seed=3)
        assert copier.wait() == 0
    assert copier.events[-1]["stage"] == "ShutdownComplete"
    [original] = read_all(broker.bootstrap_servers, "original", "read_uncommitted")
    [copy] = read_all(broker.bootstrap_servers, "copy", "read_committed")
    [everything] = read_all(broker.bootstrap_servers, "copy", "read_uncommitted")
    assert [record.value for record in copy] == [record.value for record in original]
    assert len(everything) > len(copy), "nothing was aborted, so nothing was shown about aborts"
    assert set(Counter(record.value for record in copy).values()) == {1}


def test_compaction_keeps_the_last_of_each_key(broker, java):
    words = ["--bootstrap-server", java.servers, "--messages", "200000", "--sleep", "20"]
    with running(java, "LogCompactionTester", *words) as tester:
        time.sleep(3)  # it tells nothing before its end
        for pause_s in (1, 4, 6):
            broker.kill()
            broker.start()
            time.sleep(pause_s)
        assert tester.wait() == 0
    assert "0 mismatches" in tester.printed
