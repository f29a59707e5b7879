"""Apache's own programs as loads of a campaign: begun, ended, and held against what is there then."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.conformance.java_programs import JVM, QUIET
from tests.conformance.kafka_jars import JarsMissing, find_jars
from tests.conformance.test_java_kill_nine import Program
from tests.conformance.whole_topics import read_all

RATE: Final = 200
COPIED: Final = 3_000
SETTINGS: Final = (
    "enable.idempotence=true\nretries=2147483647\nreconnect.backoff.max.ms=500\ndelivery.timeout.ms=600000\n"
)


def java_missing() -> str | None:
    """Why Java's clients cannot be run here; None when they can."""
    try:
        find_jars("4.3")
    except JarsMissing as reason:
        return str(reason)
    return None


class _Load:
    """A program of Apache's between enter and exit."""

    def __init__(self, servers: str, scratch: Path) -> None:
        self._servers = servers
        self._settings = scratch / "idempotent.properties"
        self._settings.write_text(SETTINGS)
        self._programs: list[Program] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for program in self._programs:
            program.end()

    def _run(self, name: str, words: str) -> Program:
        path = f"{find_jars('4.3')}/*"
        command = ["java", *JVM, QUIET, "-cp", path, f"org.apache.kafka.tools.{name}", *words.split()]
        program = Program(command)
        self._programs.append(program)
        return program

    def _produce(self, topic: str, rate: int, count: int) -> Program:
        words = f"--bootstrap-server {self._servers} --topic {topic} --throughput {rate} --max-messages {count}"
        return self._run("VerifiableProducer", f"{words} --command-config {self._settings}")


class VerifiableLoad(_Load):
    """VerifiableProducer: every number it was told is kept is there, at the offset it was told, once."""

    def __init__(self, servers: str, topic: str, scratch: Path) -> None:
        super().__init__(servers, scratch)
        self._topic = topic

    def start(self) -> None:
        self._program = self._produce(self._topic, RATE, -1)

    def end(self) -> None:
        try:
            self._program.ask_to_end()
        except subprocess.TimeoutExpired:
            raise AssertionError(f"VerifiableProducer does not end: {self._program.printed[-3000:]}") from None

    def check(self, servers: str) -> str:
        messages = [each["message"] for each in self._program.named("producer_send_error")]
        refused = [each for each in messages if "closed" not in each]
        assert not refused, refused[0]
        told = self._program.named("producer_send_success")
        read = read_all(servers, self._topic, "read_uncommitted")
        there = {(index, record.offset): record.value for index, records in enumerate(read) for record in records}
        for each in told:
            assert there.get((each["partition"], each["offset"])) == each["value"].encode(), each
        twice = [value for value, count in Counter(there.values()).items() if count > 1]
        assert not twice, f"{len(twice)} are there twice"
        return f"{len(told)} acknowledged; each where it was told, once"


class CopierLoad(_Load):
    """TransactionalMessageCopier with random aborts: the copy is the original, once and in order."""

    def __init__(self, servers: str, source: str, copy: str, scratch: Path) -> None:
        super().__init__(servers, scratch)
        self._source, self._copy = source, copy

    def start(self) -> None:
        assert self._produce(self._source, -1, COPIED).wait() == 0
        who = "--consumer-group copier --transactional-id copier --transaction-size 10 --enable-random-aborts"
        what = f"--input-topic {self._source} --input-partition 0 --output-topic {self._copy} --use-group-metadata"
        words = f"--broker-list {self._servers} {who} {what} --max-messages {COPIED}"
        self._copier = self._run("TransactionalMessageCopier", words)

    def end(self) -> None:
        assert self._copier.wait() == 0, self._copier.printed[-2000:]

    def check(self, servers: str) -> str:
        (original,) = read_all(servers, self._source, "read_uncommitted")
        (copy,) = read_all(servers, self._copy, "read_committed")
        assert [record.value for record in copy] == [record.value for record in original], "the copy is another one"
        (everything,) = read_all(servers, self._copy, "read_uncommitted")
        return f"{len(copy)} copied once and in order; {len(everything) - len(copy)} aborted and not read"
