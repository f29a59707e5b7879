"""A broker in virtual time for fuzzers: real code on the simulation's doors, so a wait costs nothing and one thread has
everything, with its coverage. Whatever it logs with a trace, and what nobody caught, is a finding.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Mapping
from random import Random
from typing import Any

from ottla.errors import OttlaError
from ottla.simulation.cluster import PORT, Seat, SimulatedCluster
from ottla.simulation.loop import new_loop

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
ANSWER_S = 5.0


class Traces(logging.Handler):
    """What is logged with a trace."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.found.append(self.format(record))


TRACES = Traces()


def hear_traces() -> None:
    logger = logging.getLogger("ottla")
    if TRACES not in logger.handlers:
        logger.addHandler(TRACES)


class Finding(AssertionError):
    """Something that no bytes may cause."""


class LockedCluster(SimulatedCluster):
    """Its listeners want a login."""

    def _broker(self, number: int, common: Mapping[str, object]) -> Seat:
        host = f"10.0.0.{number + 1}"
        own = {
            "broker.id": number,
            "listeners": f"SASL_PLAINTEXT://{host}:{PORT}",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
        }
        return self._seat(f"broker {number}", number, host, {**common, **own})


class VirtualBroker:
    """A cluster of one, ready; to be closed."""

    def __init__(self, kind: type[SimulatedCluster], seed: int = 1) -> None:
        hear_traces()
        self.loop = new_loop(Random(f"loop {seed}"))
        self.cluster = kind(self.loop, Random(f"cluster {seed}"), brokers=1)
        self.machine = self.cluster.client_machine()
        self.machine.boot("client")
        self.cluster.start()
        self.loop.run(self.cluster.ready(), limit_s=60)

    def run(self, coroutine: Any, limit_s: float) -> Any:
        """Run it in the client's process; raises Finding when anything went wrong beside it."""
        found = self.loop.run(coroutine, limit_s=limit_s, process=self.machine.process)
        self.check()
        return found

    def check(self) -> None:
        wrong = [*TRACES.found, *self.loop.failures, *self.cluster.deaths]
        if wrong:
            TRACES.found.clear()
            self.loop.failures.clear()
            raise Finding(wrong[0])

    def close(self) -> None:
        self.loop.close()


class Caller:
    """LinkEvents of a client without manners: keeps what it hears."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self.link: Any = None
        self.heard: list[bytes] = []
        self.is_closed = False
        self._news = loop.create_future()

    def opened(self, link: Any) -> None:
        self.link = link

    def frame_received(self, content: memoryview) -> None:
        self.heard.append(bytes(content))
        self._notify()

    def writable_changed(self, writable: bool) -> None: ...

    def closed(self, error: OttlaError | None) -> None:
        self.is_closed = True
        self._notify()

    def _notify(self) -> None:
        news, self._news = self._news, self._loop.create_future()
        news.set_result(None)

    def send(self, content: bytes) -> None:
        self.link.write([struct.pack(">i", len(content)) + content])

    async def answer_to(self, correlation_id: int) -> str:
        """answered, closed, or waits: for ANSWER_S of virtual time."""
        wanted, end_s = struct.pack(">i", correlation_id), self._loop.time() + ANSWER_S
        while True:
            for each in self.heard:
                if each[:4] == wanted:
                    return "answered"
            if self.is_closed or self._loop.time() > end_s:
                return "closed" if self.is_closed else "waits"
            timer = self._loop.call_at(end_s + 0.001, self._notify)
            await self._news
            timer.cancel()
