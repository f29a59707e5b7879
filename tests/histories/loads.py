"""Loads of real clients that write histories, each on threads of its own.

    history, numbers = SharedHistory(), count(1)
    with SendingLoad("confluent-kafka", servers, "clicks", 3, history, numbers) as load, \
         FollowingLoad("confluent-kafka", servers, "clicks", 3, history):
        lab.signal(0, signal.SIGKILL)
        load.wait_for(100)
    final_read("confluent-kafka", servers, "clicks", 3, history)
    assert check(history.events) == []

1. Values are numbers that nobody else sends; up to IN_FLIGHT are on their way at a time.
2. What a client raises inside of a load fails the block that the load is in.
3. A client ends with its load, also with one that failed: what goes on in threads disturbs the tests after it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from types import TracebackType
from typing import Any

from tests.histories.clients import CLIENTS, Login, Record, Sender, name_of
from tests.patience import HANG_S

from ottla.simulation.history import History, Operation
from ottla.testing.promises import Background, BrokenPromise

IN_FLIGHT = 50
PAUSE_S = 0.01
TRIES_PAUSE_S = 0.2


class SendingLoad(Background):
    """One producer, in turns to every partition."""

    def __init__(
        self,
        client: str,
        servers: str,
        topic: str,
        partitions: int,
        history: History,
        numbers: Iterator[int],
        login: Login | None = None,
        pause_s: float = PAUSE_S,
    ) -> None:
        super().__init__()
        self._make_sender = CLIENTS[client][0]
        self._servers, self._login = servers, login
        self._pause_s = pause_s
        self.topic = topic
        self.partitions = partitions
        self._name = f"{client} producer of {topic}"
        self._history = history
        self._numbers = numbers
        self._room = threading.BoundedSemaphore(IN_FLIGHT)
        self._sender: Sender | None = None
        self.acknowledged = 0
        self.unknown: list[str] = []
        self.longest_wait_s = 0.0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, where)
        if error is not None and self._sender is not None:
            self._sender.abandon()

    def wait_for(self, more: int, limit_s: float = HANG_S) -> None:
        """Wait until so many more records are acknowledged."""
        wanted, end = self.acknowledged + more, time.monotonic() + limit_s
        while self.acknowledged < wanted:
            if self._failure is not None or time.monotonic() > end:
                raise self._failure or BrokenPromise(
                    f"{self._name}: {self.acknowledged} of {wanted} were acknowledged within {limit_s:g} s; "
                    f"the load is in {self._where()}; of unknown end: {self.unknown[:3]}"
                )
            time.sleep(PAUSE_S)

    def _run(self) -> None:
        sender = self._sender = self._make_sender(self._servers, self._login)
        try:
            while not self._ending.is_set():
                for partition in range(self.partitions):
                    while not self._room.acquire(timeout=0.05):
                        sender.flush()  # some clients call back only when they are called
                    self._send(sender, partition)
                time.sleep(self._pause_s)
            sender.flush()
            sender.close()
        except BaseException:
            sender.abandon()
            raise

    def _send(self, sender: Any, partition: int) -> None:
        value, began_s = next(self._numbers), time.monotonic()
        sending = self._history.invoke(self._name, "send", partition=name_of(self.topic, partition), value=value)

        def done(offset: int | None, why: str) -> None:
            self.longest_wait_s = max(self.longest_wait_s, time.monotonic() - began_s)
            self._end_send(sending, offset, why)
            self._room.release()

        sender.send(self.topic, partition, value, done)

    def _end_send(self, sending: Operation, offset: int | None, why: str) -> None:
        if offset is None:
            sending.info(why[:200])
            self.unknown.append(why[:200])
        else:
            sending.ok(offset=offset)
            self.acknowledged += 1


class FollowingLoad(Background):
    """A reader of all partitions from their beginning, until the block ends."""

    def __init__(self, client: str, servers: str, topic: str, partitions: int, history: History) -> None:
        super().__init__()
        self._arguments = servers, topic, partitions, None
        self._make_reader = CLIENTS[client][1]
        self._name = f"{client} reader of {topic}"
        self._history = history

    def _run(self) -> None:
        reader = self._make_reader(*self._arguments)
        self._history.note(self._name, "assign")
        with closing(reader):
            while not self._ending.is_set():
                write_poll(self._history, self._name, "poll", reader.poll())


def write_poll(history: History, client: str, action: str, records: list[Record]) -> None:
    if records:
        history.invoke(client, action).ok(records=[list(each) for each in records], isolation="read_committed")


def final_read(
    client: str, servers: str, topic: str, partitions: int, history: History, login: Login | None = None
) -> int:
    """A fresh reader of this client reads everything; how many records there were."""
    name = f"{client} last reader of {topic}"
    reading = history.invoke(name, "final-read", isolation="read_committed")
    reader = CLIENTS[client][1](servers, topic, partitions, login)
    history.note(name, "assign")
    with closing(reader):
        ends = reader.ends()
        position, count, give_up_s = dict.fromkeys(ends, 0), 0, time.monotonic() + HANG_S
        while any(position[each] < end for each, end in ends.items()):
            if time.monotonic() > give_up_s:
                reading.info(f"at {position}, and the ends are {ends}")
                break
            records = reader.poll()
            write_poll(history, name, "final-poll", records)
            for partition, offset, _ in records:
                position[partition] = max(position[partition], offset + 1)
            count += len(records)
        else:
            reading.ok(starts=dict.fromkeys(ends, 0), ends=ends)
    return count
