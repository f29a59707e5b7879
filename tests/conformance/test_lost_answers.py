"""Two batches are written, their answers are lost, and the leader starts again: no record is in the log twice.

A broker that starts from its snapshot remembers only the newest batch of a producer. Apache Kafka calls the retry of
the other one out of order, ours finds it in its log. Our client reaches the broker through a proxy that carries
requests and keeps answers to itself when it is told to; what is written is seen in the broker's file. So the story is
the same in every run. With our broker, and with Apache Kafka 3.9 in the long run.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest
from tests.conformance.java_programs import jars_or_skip
from tests.conformance.kafka_broker import KafkaBroker as Kafka
from tests.patience import FAR_MS, HANG_S, wait_until

import ottla
from ottla.records import RecordBatch, scan
from ottla.testing.broker import KafkaBroker

NO_OFFSET = -1


class Proxy:
    """Carries bytes between clients and one address; threads, because a broker of Kafka's is another process."""

    def __init__(self, target_port: int) -> None:
        self._target = "127.0.0.1", target_port
        self._is_silent = threading.Event()
        self._pairs: list[tuple[socket.socket, socket.socket | None]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def keep_answers(self) -> None:
        """From now on no byte comes back to a client, and no connection ends."""
        self._is_silent.set()

    def hang_up(self) -> None:
        """End all connections; later ones are served in full."""
        self._is_silent.clear()
        pairs, self._pairs = self._pairs, []
        for each in [each for pair in pairs for each in pair if each is not None]:
            _end(each)

    def close(self) -> None:
        self._listener.close()
        self.hang_up()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                self._serve(client)

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._target)
        except OSError:
            self._pairs.append((client, None))
            if not self._is_silent.is_set():
                _end(client)
            return
        self._pairs.append((client, server))
        threading.Thread(target=self._carry, args=(client, server, False), daemon=True).start()
        threading.Thread(target=self._carry, args=(server, client, True), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, are_answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if not (are_answers and self._is_silent.is_set()):
                    target.sendall(data)
        if not (are_answers and self._is_silent.is_set()):
            _end(source)
            _end(target)


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


class Broker(Protocol):
    def start(self) -> object: ...
    def stop(self) -> None: ...


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def batches_in(log: Path) -> list[RecordBatch]:
    """What is in a partition's only segment now."""
    content = bytearray(log.read_bytes()) if log.exists() else bytearray()
    return [RecordBatch(content, info.position) for info in scan(content)]


def tell_the_story(broker: Broker, proxy: Proxy, log: Path, middle_offset: int) -> None:
    """The broker has no topics yet; `log` is the segment of lost-0; the answer for the middle batch is expected."""
    settings = {"linger_ms": 0, "request_timeout_ms": FAR_MS, "delivery_timeout_ms": 2 * FAR_MS}
    with ottla.Admin(bootstrap_servers=proxy.address) as admin:
        admin.create_topics([ottla.NewTopic("lost", 1, 1)], timeout=HANG_S)
    with ottla.Producer(bootstrap_servers=proxy.address, **settings) as producer:
        futures = [producer.send("lost", b"0")]
        assert futures[0].result(HANG_S).offset == 0
        proxy.keep_answers()
        for number in (1, 2):
            futures.append(producer.send("lost", b"%d" % number))
            wait_until(lambda: len(batches_in(log)) == len(futures), "the next batch is in the log")
        broker.stop()
        broker.start()
        proxy.hang_up()
        offsets = [future.result(HANG_S).offset for future in futures]
        assert producer.send("lost", b"3").result(HANG_S).offset == 3
    assert offsets == [0, middle_offset, 2]
    written = batches_in(log)
    assert [record.value for batch in written for record in batch] == [b"0", b"1", b"2", b"3"]
    assert {batch.producer_epoch for batch in written} == {0}, "there was no gap"


@pytest.fixture
def proxy_to() -> Iterator[Callable[[int], Proxy]]:
    made: list[Proxy] = []

    def make(port: int) -> Proxy:
        made.append(Proxy(port))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_our_broker_starts_again_and_nothing_is_there_twice(proxy_to: Callable[[int], Proxy], tmp_path: Path) -> None:
    port = free_port()
    proxy = proxy_to(port)
    listeners = {"listeners": f"PLAINTEXT://127.0.0.1:{port}", "advertised.listeners": f"PLAINTEXT://{proxy.address}"}
    with KafkaBroker(listeners, directory=tmp_path) as broker:
        tell_the_story(broker, proxy, tmp_path / "lost-0" / f"{0:020d}.log", middle_offset=1)


@pytest.mark.long
def test_apache_kafka_starts_again_and_nothing_is_there_twice(proxy_to: Callable[[int], Proxy], tmp_path: Path) -> None:
    data = tmp_path / "data"
    broker = Kafka(jars_or_skip("3.9"), tmp_path, data)
    proxy = proxy_to(broker.port)
    with broker.properties.open("a") as properties:
        properties.write(f"\nadvertised.listeners=PLAINTEXT://{proxy.address}\n")
    broker.format()
    with broker:
        # It does not know the middle one any more; the last one, which it knows, shows that the log has it.
        tell_the_story(broker, proxy, data / "lost-0" / f"{0:020d}.log", middle_offset=NO_OFFSET)
