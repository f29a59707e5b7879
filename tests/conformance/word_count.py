"""WordCount.java as processes: an application of Kafka Streams whose every answer can be checked.

    with WordCounts(jars, tmp_path, broker.bootstrap_servers) as application:
        one = application.start()
        one.kill(); application.start()          # kill -9; the other ones go on
        application.counted(48)                  # every (word, count) of the output, committed

With no cache every record of the input becomes a record of the output. So exactly once means: the counts of a word are
1, 2, 3, and so on, in this order, and each of them once.
"""

import itertools
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.conformance.java_programs import JVM, QUIET
from tests.patience import HANG_S, wait_until

SOURCE = Path(__file__).with_name("WordCount.java")
INPUT, OUTPUT, APPLICATION = "lines", "counts", "word-count"
PARTITIONS = 3
STOP_LIMIT_S = 90
POLL_S = 1.0
PROPERTIES = """
application.id={application}
bootstrap.servers={servers}
state.dir={state}
group.protocol=streams
processing.guarantee=exactly_once_v2
num.stream.threads={threads}
replication.factor=-1
commit.interval.ms=100
statestore.cache.max.bytes=0
default.key.serde=org.apache.kafka.common.serialization.Serdes$StringSerde
default.value.serde=org.apache.kafka.common.serialization.Serdes$StringSerde
"""


class Instance:
    """One process of the application."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)

    @property
    def printed(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_until_running(self) -> None:
        wait_until(lambda: self._printed_or_fail("STATE RUNNING"), "the application runs")

    def _printed_or_fail(self, words: str) -> bool:
        assert self.process.poll() is None, self.printed[-3000:]
        return words in self.printed

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        self.process.terminate()
        try:
            return self.process.wait(STOP_LIMIT_S)
        finally:
            self.kill()


class WordCounts:
    """The application, its topics, and what it counted."""

    def __init__(self, jars: Path, scratch: Path, servers: str, *, threads: int = 2) -> None:
        self._jars, self._scratch, self._servers, self._threads = jars, scratch, servers, threads
        self._classes = scratch / "classes"
        self._numbers = itertools.count()
        self._instances: list[Instance] = []
        self._producer = Producer({"bootstrap.servers": servers})

    def __enter__(self) -> Self:
        command = ["javac", "-nowarn", "-d", str(self._classes), "-cp", f"{self._jars}/*", str(SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
        assert done.returncode == 0, done.stderr
        admin = AdminClient({"bootstrap.servers": self._servers})
        for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (INPUT, OUTPUT)]).values():
            made.result(HANG_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._instances:
            each.kill()

    def start(self) -> Instance:
        number = next(self._numbers)
        properties = self._scratch / f"instance-{number}.properties"
        state = self._scratch / f"state-{number}"
        properties.write_text(
            PROPERTIES.format(application=APPLICATION, servers=self._servers, state=state, threads=self._threads)
        )
        main = ["WordCount", str(properties), INPUT, OUTPUT]
        command = ["java", *JVM, QUIET, "-cp", f"{self._classes}:{self._jars}/*", *main]
        instance = Instance(command, self._scratch / f"instance-{number}.log")
        self._instances.append(instance)
        return instance

    def write(self, *lines: str) -> None:
        for number, line in enumerate(lines):
            self._producer.produce(INPUT, line, key=str(number))
        assert self._producer.flush(HANG_S) == 0

    def counted(self, records: int) -> dict[str, list[int]]:
        """The counts of each word in their order, once there are so many records of the output."""
        settings = {"group.id": "reader", "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        consumer = Consumer({"bootstrap.servers": self._servers, "enable.auto.commit": False, **settings})
        found: dict[str, list[int]] = {}
        total = 0

        def poll() -> bool:
            nonlocal total
            assert any(each.process.poll() is None for each in self._instances), self._instances[-1].printed[-3000:]
            message = consumer.poll(POLL_S)
            if message is not None and message.error() is None:
                found.setdefault(message.key().decode(), []).append(int(message.value()))
                total += 1
            return total >= records

        try:
            consumer.subscribe([OUTPUT])
            wait_until(poll, f"{records} counts are written")
            extra = consumer.poll(POLL_S)
            assert extra is None or extra.error() is not None, "more was counted than was written"
        finally:
            consumer.close()
        return found


def every_count_once(lines: list[str]) -> dict[str, list[int]]:
    """What must be counted of these lines."""
    words = " ".join(lines).split()
    return {word: list(range(1, words.count(word) + 1)) for word in words}
