"""Transactions of our client, written down as the simulation's workloads do it.

`TransferLoad`: transactions with a number for every partition; every third is aborted. A producer that met an error is
closed and made anew, as its documentation says.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from tests.histories.clients import REQUEST_MS, name_of

import ottla
from ottla.errors import OttlaError
from ottla.simulation.history import History
from ottla.testing.promises import Background

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
