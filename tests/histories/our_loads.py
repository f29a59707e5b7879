"""Transactions and groups of our client, written down as the simulation's workloads do it.

1. `TransferLoad`: transactions with a number for every partition; every third is aborted. A producer that met an error
   is closed and made anew, as its documentation says.
2. `MemberLoad`: a member of a group that reads, commits, and asks what is committed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from tests.histories.clients import REQUEST_MS, name_of
from tests.patience import HANG_S

import ottla
from ottla.errors import OttlaError
from ottla.simulation.history import History, Operation
from ottla.testing.promises import Background
from ottla.values import TopicPartition

CALL_S = 120.0


class TransferLoad(Background):
    """See above; one producer after the other under one transactional.id."""

    def __init__(self, servers: str, topic: str, partitions: int, history: History, numbers: Iterator[int]) -> None:
        super().__init__()
        self._servers = servers
        self._topic = topic
        self._partitions = partitions
        self._name = f"transactions of {topic}"
        self._history = history
        self._numbers = numbers
        self.ended = {"commit": 0, "abort": 0}

    def _run(self) -> None:
        while not self._ending.is_set():
            settings = {"transactional_id": self._topic, "request_timeout_ms": REQUEST_MS}
            try:
                with ottla.Producer(bootstrap_servers=self._servers, **settings) as producer:
                    producer.init_transactions(CALL_S)
                    while not self._ending.is_set():
                        self._transfer(producer)
            except OttlaError:
                time.sleep(0.2)

    def _transfer(self, producer: Any) -> None:
        producer.begin_transaction()
        txn = self._history.note(self._name, "begin")
        for partition in range(self._partitions):
            self._send(producer, txn, partition)
        wants = "abort" if txn % 3 == 2 else "commit"
        ending = self._history.invoke(self._name, "end", txn=txn, wants=wants)
        try:
            (producer.commit_transaction if wants == "commit" else producer.abort_transaction)(CALL_S)
        except OttlaError as error:
            ending.info(repr(error)[:200])
            raise
        ending.ok()
        self.ended[wants] += 1

    def _send(self, producer: Any, txn: int, partition: int) -> None:
        value = next(self._numbers)
        where = name_of(self._topic, partition)
        sending = self._history.invoke(self._name, "send", partition=where, value=value, txn=txn)

        def done(future: Any) -> None:
            error = future.exception()
            if error is None:
                sending.ok(offset=future.result().offset)
            else:
                sending.info(repr(error)[:200])

        producer.send(self._topic, b"%d" % value, partition=partition).add_done_callback(done)


class MemberLoad(Background):
    """See above; the only member of its group."""

    def __init__(self, servers: str, topic: str, group: str, history: History) -> None:
        super().__init__()
        self._settings = {
            "bootstrap_servers": servers,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "request_timeout_ms": REQUEST_MS,
        }
        self._topic = topic
        self._group = group
        self._name = f"member of {group}"
        self._history = history
        self.read: set[tuple[int, int]] = set()

    def wait_for(self, count: int) -> None:
        """Until so many different records were read."""
        give_up_s = time.monotonic() + HANG_S
        while len(self.read) < count:
            assert time.monotonic() < give_up_s, f"{len(self.read)} of {count} were read; it is in {self._where()}"
            if self._failure is not None:
                raise self._failure
            time.sleep(0.05)

    def _run(self) -> None:
        with ottla.Consumer(self._topic, **self._settings) as consumer:
            while not self._ending.is_set():
                if records := consumer.poll(0.2):
                    self._write_down(records)
                    self._commit(consumer, records)

    def _write_down(self, records: list[Any]) -> None:
        # Offsets may come again after a rebalance, so its polls are not held against their order.
        self._history.note(self._name, "assign")
        plain = [[name_of(each.topic, each.partition), each.offset, int(each.value)] for each in records]
        self._history.invoke(self._name, "poll").ok(records=plain, group=self._group)
        self.read.update((each.partition, each.offset) for each in records)

    def _commit(self, consumer: Any, records: list[Any]) -> None:
        offsets = {TopicPartition(each.topic, each.partition): each.offset + 1 for each in records}
        for partition, offset in offsets.items():
            facts = {"group": self._group, "partition": name_of(*partition)}
            committing = self._history.invoke(self._name, "commit", **facts, offset=offset)
            if self._asked(committing, lambda: consumer.commit({partition: offset}, timeout=CALL_S)) is None:  # noqa: B023
                continue
            committing.ok()
            asking = self._history.invoke(self._name, "committed", **facts)
            found = self._asked(asking, lambda: consumer.committed(partition, timeout=CALL_S))  # noqa: B023
            if found is not None:
                asking.ok(offset=-1 if found[partition] is None else found[partition].offset)

    def _asked(self, operation: Operation, ask: Any) -> Any:
        """What it returned (True for nothing); None when nobody knows."""
        try:
            found = ask()
        except OttlaError as error:
            operation.info(repr(error)[:200])
            return None
        return True if found is None else found
