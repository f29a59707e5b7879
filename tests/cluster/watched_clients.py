"""Clients of five libraries as processes on a host, watched by what they write down: what was acknowledged, and when.

    with PythonClient("aiokafka", hosts, "clients", servers, login, first=1_000_000) as client:
        client.wait_for_more(30)
        client.finish()
    longest(client.acknowledged(), since_s, until_s)     # how long nothing was acknowledged, and where
    client.history()                                     # for the simulation's checker

Each sends some thirty records a second, in turns to all partitions of the topic that has its name, idempotent and with
acks=all, and reads them in a group of the same name.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from tests.cluster.hosts import Hosts
from tests.conformance.java_programs import JVM, QUIET
from tests.conformance.test_java_kill_nine import Program
from tests.histories.clients import REQUEST_MS, name_of
from tests.patience import HANG_S, wait_until

from ottla.simulation.history import Event, read_history

ROOT: Final = Path(__file__).parents[2]
PARTITIONS: Final = 3
RATE: Final = 30
JAVA: Final = "java"


class Seen(NamedTuple):
    """A record that was acknowledged, or one that a member of a group got."""

    at_s: float
    partition: str
    offset: int
    value: int


class Silence(NamedTuple):
    """How long nothing came, and of which partition."""

    seconds: float
    partition: str


def longest(seen: Iterable[Seen], since_s: float, until_s: float) -> Silence:
    """The longest silence of any partition that ended between these moments, or lasts at the second one."""
    last: dict[str, float] = {}
    found = Silence(0.0, "")
    for each in seen:
        if each.at_s > until_s:
            break
        before = last.get(each.partition)
        last[each.partition] = each.at_s
        if before is not None and each.at_s >= since_s:
            found = max(found, Silence(each.at_s - before, each.partition))
    return max([found, *(Silence(until_s - at_s, partition) for partition, at_s in last.items())])


class Watched:
    """What all have in common."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        raise NotImplementedError

    def acknowledged(self) -> list[Seen]:
        """In the order of time."""
        raise NotImplementedError

    def read(self) -> list[Seen]:
        raise NotImplementedError

    def promised(self) -> dict[str, int]:
        """The last offset of each partition that the group was told is committed."""
        raise NotImplementedError

    def history(self) -> Iterator[Event]:
        raise NotImplementedError

    def finish(self) -> None:
        """It sends no more, reads what was acknowledged, and ends."""
        raise NotImplementedError

    def check(self) -> None:
        """Fail when it ended by itself."""
        raise NotImplementedError

    def wait_for_more(self, count: int) -> None:
        """Until so many more of every partition are acknowledged and read from now on."""
        now_s = time.monotonic()

        def done() -> bool:
            self.check()
            for seen in (self.acknowledged(), self.read()):
                for number in range(PARTITIONS):
                    name = name_of(self.name, number)
                    if sum(each.at_s > now_s and each.partition == name for each in seen) < count:
                        return False
            return True

        wait_until(done, f"{self.name}: {count} more records acknowledged and read of every partition", step_s=0.25)


class PythonClient(Watched):
    """tests/cluster/one_client.py as a process."""

    def __init__(self, name: str, hosts: Hosts, host: str, servers: str, login: Path, first: int) -> None:
        super().__init__(name)
        directory = hosts.directory(host)
        self._history = directory / f"{name}.jsonl"
        self._log = directory / f"{name}.log"
        words = [sys.executable, "-m", "tests.cluster.one_client", name, "--servers", servers, "--login", str(login)]
        words += ["--partitions", str(PARTITIONS), "--first", str(first), "--history", str(self._history)]
        with self._log.open("wb") as log:
            paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
            self._process = hosts.begin(host, words, log, log, stdin=subprocess.PIPE, environment=paths)
        self._events: list[Event] = []
        self._begun: dict[int, Event] = {}
        self._promised: dict[str, int] = {}
        self._acknowledged: list[Seen] = []
        self._read: list[Seen] = []
        self._at = 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.wait(HANG_S)
        if kind is not None:
            print(f"--- {self.name}\n{self._log.read_text('utf-8', 'replace')[-3000:]}")

    def acknowledged(self) -> list[Seen]:
        self._look()
        return self._acknowledged

    def read(self) -> list[Seen]:
        self._look()
        return self._read

    def promised(self) -> dict[str, int]:
        self._look()
        return self._promised

    def history(self) -> Iterator[Event]:
        self._look()
        return iter(self._events)

    def finish(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(HANG_S)
        assert code == 0, f"{self.name} ended with {code}: {self._log.read_text('utf-8', 'replace')[-3000:]}"

    def check(self) -> None:
        assert self._process.poll() is None, self._log.read_text("utf-8", "replace")[-3000:]

    def _look(self) -> None:
        """What it wrote since the last look."""
        if not self._history.exists():
            return
        with self._history.open("rb") as file:
            file.seek(self._at)
            whole, end, _ = file.read().rpartition(b"\n")
        self._at += len(whole) + len(end)
        for event in read_history(whole.decode().splitlines()):
            self._events.append(event)
            self._take(event)

    def _take(self, event: Event) -> None:
        if event.kind == "invoke":
            self._begun[event.number] = event
            return
        facts = self._begun.pop(event.number).facts
        if event.kind != "ok":
            return
        if event.action == "send":
            offset = event.facts["offset"]
            self._acknowledged.append(Seen(event.time_s, facts["partition"], offset, facts["value"]))
        elif event.action == "poll":
            self._read += [Seen(event.time_s, *each) for each in event.facts["records"]]
        elif event.action == "commit":
            self._promised[facts["partition"]] = facts["offset"]


class JavaClient(Watched):
    """Apache's VerifiableProducer and VerifiableConsumer, each a process."""

    def __init__(self, jars: Path, hosts: Hosts, host: str, servers: str, login: Path) -> None:
        super().__init__(JAVA)
        common = f"{login.read_text('utf-8')}\nrequest.timeout.ms={REQUEST_MS}\n"
        producing, consuming = (hosts.directory(host) / f"java-{each}.properties" for each in ("producer", "consumer"))
        # The tool asks for no retries and so for no idempotence; here both are wanted.
        producing.write_text(f"{common}enable.idempotence=true\nretries=2147483647\ndelivery.timeout.ms=120000\n")
        consuming.write_text(common)
        where = ["--bootstrap-server", servers, "--topic", JAVA, "--command-config"]
        program = [*JVM, QUIET, "-cp", f"{jars}/*"]

        def begin(name: str, *words: str) -> Program:
            tool = ["java", *program, f"org.apache.kafka.tools.{name}", *words]
            return Program(hosts.command(host, tool))

        self._producer = begin(
            "VerifiableProducer", *where, str(producing), "--throughput", str(RATE), "--repeating-keys", str(RATE)
        )
        group = ["--group-id", JAVA, "--group-protocol", "CONSUMER", "--verbose"]
        self._consumer = begin("VerifiableConsumer", *where, str(consuming), *group)
        self._ahead_s = time.time() - time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for program in (self._producer, self._consumer):
            program.end()
            if kind is not None:
                print(f"--- {self.name}\n{program.printed[-3000:]}")

    def acknowledged(self) -> list[Seen]:
        return [self._seen(each) for each in self._producer.named("producer_send_success")]

    def read(self) -> list[Seen]:
        return [self._seen(each) for each in self._consumer.named("record_data")]

    def promised(self) -> dict[str, int]:
        return {
            name_of(each["topic"], each["partition"]): each["offset"]
            for event in self._consumer.named("offsets_committed")
            if event["success"]
            for each in event["offsets"]
        }

    def _seen(self, event: dict[str, Any]) -> Seen:
        at_s = event["timestamp"] / 1000 - self._ahead_s
        return Seen(at_s, name_of(event["topic"], event["partition"]), event["offset"], int(event["value"]))

    def history(self) -> Iterator[Event]:
        """The tools say only how something ended, so it also begins then."""
        for number, each in enumerate(self.acknowledged()):
            facts = {"partition": each.partition, "value": each.value}
            yield Event(each.at_s, "java producer", "invoke", "send", number, facts)
            yield Event(each.at_s, "java producer", "ok", "send", number, {"offset": each.offset})
        who = "java member"
        for number, each in enumerate(self.read(), start=len(self._producer.events)):
            yield Event(each.at_s, who, "invoke", "assign", -number, {})
            yield Event(each.at_s, who, "invoke", "poll", number, {})
            record = [each.partition, each.offset, each.value]
            yield Event(each.at_s, who, "ok", "poll", number, {"records": [record], "group": JAVA})

    def finish(self) -> None:
        self._producer.ask_to_end()
        refused = [each["message"] for each in self._producer.named("producer_send_error")]
        assert [each for each in refused if "closed" not in each] == [], "what it sends is refused"
        wanted = {(each.partition, each.offset) for each in self.acknowledged()}
        what = "Java's member reads what was acknowledged"
        wait_until(lambda: wanted <= {(each.partition, each.offset) for each in self.read()}, what, step_s=0.5)
        self._consumer.ask_to_end()

    def check(self) -> None:
        for program in (self._producer, self._consumer):
            assert program.is_running, program.printed[-3000:]


def one_history(clients: Iterable[Watched]) -> list[Event]:
    """The events of all, in the order of time, with numbers that only one operation has."""
    found: list[Event] = []
    for at, client in enumerate(clients):
        for event in client.history():
            number = event.number * 100 + at
            found.append(Event(event.time_s, event.client, event.kind, event.action, number, event.facts))
    return sorted(found, key=lambda event: event.time_s)
