"""Clients of the field, and ours, behind one small face, so that all of them can write histories.

A Sender gives every record to its client and calls back once, with the offset or with an error that leaves open what
became of it. A Reader has partitions assigned from their beginning; `poll` gives partition, offset and value. All
producers are idempotent and want acks=all. `CLIENTS` has them by name; who imports a foreign client is the class.
At a locked cluster each is given a Login, and says it in the words of its library.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from tests.patience import HANG_S

import ottla
from ottla.net.sasl.jaas import parse_jaas
from ottla.values import TopicPartition

Done = Callable[[int | None, str], None]  # the offset, or why nobody knows
Record = tuple[str, int, int]
DELIVERY_MS = 120_000
REQUEST_MS = 4_000  # who waits longer learns nothing about a broker that is cut off


def name_of(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


@dataclass(frozen=True)
class Login:
    """A user and the authority to be trusted, of a client.properties for SASL_SSL with a password."""

    mechanism: str
    user: str
    password: str
    authority: str

    @classmethod
    def read(cls, file: Path) -> Self:
        found = ottla.read_properties(file)
        options = parse_jaas(found["sasl.jaas.config"]).options
        return cls(found["sasl.mechanism"], options["username"], options["password"], found["ssl.truststore.location"])

    def for_ours(self) -> dict[str, str]:
        return {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": self.mechanism,
            "sasl_username": self.user,
            "sasl_password": self.password,
            "ssl_ca_location": self.authority,
        }

    def for_librdkafka(self) -> dict[str, str]:
        return {name.replace("_", "."): value for name, value in self.for_ours().items()}

    def for_kafka_python(self) -> dict[str, Any]:
        return {**self._for_python(), "ssl_cafile": self.authority}

    def for_aiokafka(self) -> dict[str, Any]:
        return {**self._for_python(), "ssl_context": ssl.create_default_context(cafile=self.authority)}

    def _for_python(self) -> dict[str, Any]:
        return {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
        }


class Sender(Protocol):
    def send(self, topic: str, partition: int, value: int, done: Done) -> None: ...

    def flush(self) -> None:
        """Return when every send has called back."""

    def close(self) -> None: ...

    def abandon(self) -> None:
        """Stop at once, whatever becomes of the rest: threads of a failed test would disturb those after it."""


class Reader(Protocol):
    def ends(self) -> dict[str, int]: ...

    def poll(self) -> list[Record]: ...

    def close(self) -> None: ...


# -- ours --------------------------------------------------------------------------------------------------------------


class OurSender:
    def __init__(self, servers: str, login: Login | None = None) -> None:
        settings = {"acks": "all", "linger_ms": 0, "delivery_timeout_ms": DELIVERY_MS, "request_timeout_ms": REQUEST_MS}
        in_by = login.for_ours() if login else {}
        self._producer = ottla.Producer(bootstrap_servers=servers, **settings, **in_by)

    def send(self, topic: str, partition: int, value: int, done: Done) -> None:
        def ended(future: Any) -> None:
            error = future.exception()
            done(None if error else future.result().offset, repr(error))

        self._producer.send(topic, b"%d" % value, partition=partition).add_done_callback(ended)

    def flush(self) -> None:
        self._producer.flush(HANG_S)

    def close(self) -> None:
        self._producer.close(HANG_S)

    def abandon(self) -> None:
        self._producer.close(0)


class OurReader:
    def __init__(self, servers: str, topic: str, partitions: int, login: Login | None = None) -> None:
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]
        settings = {"isolation_level": "read_committed", "request_timeout_ms": REQUEST_MS}
        in_by = login.for_ours() if login else {}
        self._consumer = ottla.Consumer(bootstrap_servers=servers, **settings, **in_by)
        self._consumer.assign(self._partitions)
        self._consumer.seek_to_beginning(*self._partitions)

    def ends(self) -> dict[str, int]:
        found = self._consumer.end_offsets(self._partitions, timeout=HANG_S)
        return {name_of(*partition): offset for partition, offset in found.items()}

    def poll(self) -> list[Record]:
        return [
            (name_of(each.topic, each.partition), each.offset, int(each.value)) for each in self._consumer.poll(0.5)
        ]

    def close(self) -> None:
        self._consumer.close(HANG_S)


# -- confluent-kafka ---------------------------------------------------------------------------------------------------


class ConfluentSender:
    def __init__(self, servers: str, login: Login | None = None) -> None:
        import confluent_kafka

        settings = {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 1,
            "message.timeout.ms": DELIVERY_MS,
            "socket.timeout.ms": REQUEST_MS,
            "log_level": 2,
            **(login.for_librdkafka() if login else {}),
        }
        self._producer = confluent_kafka.Producer(settings)

    def send(self, topic: str, partition: int, value: int, done: Done) -> None:
        def ended(error: Any, message: Any) -> None:
            done(None if error else message.offset(), str(error))

        self._producer.produce(topic, b"%d" % value, partition=partition, on_delivery=ended)
        self._producer.poll(0)

    def flush(self) -> None:
        assert self._producer.flush(HANG_S) == 0, "confluent-kafka still has records whose end it does not know"

    def close(self) -> None:
        self.flush()

    def abandon(self) -> None:
        self._producer.purge()


class ConfluentReader:
    def __init__(self, servers: str, topic: str, partitions: int, login: Login | None = None) -> None:
        import confluent_kafka

        settings = {
            "bootstrap.servers": servers,
            "group.id": "not used",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "socket.timeout.ms": REQUEST_MS,
            "log_level": 2,
            **(login.for_librdkafka() if login else {}),
        }
        self._consumer = confluent_kafka.Consumer(settings)
        self._partitions = [confluent_kafka.TopicPartition(topic, number, 0) for number in range(partitions)]
        self._consumer.assign(self._partitions)

    def ends(self) -> dict[str, int]:
        found = {}
        for each in self._partitions:
            found[name_of(each.topic, each.partition)] = self._consumer.get_watermark_offsets(each, timeout=HANG_S)[1]
        return found

    def poll(self) -> list[Record]:
        messages = [each for each in self._consumer.consume(500, timeout=0.5) if each.error() is None]
        return [(name_of(each.topic(), each.partition()), each.offset(), int(each.value())) for each in messages]

    def close(self) -> None:
        self._consumer.close()


# -- kafka-python ------------------------------------------------------------------------------------------------------


class KafkaPythonSender:
    def __init__(self, servers: str, login: Login | None = None) -> None:
        from kafka import KafkaProducer

        settings = {"acks": "all", "enable_idempotence": True, "request_timeout_ms": REQUEST_MS}
        settings |= login.for_kafka_python() if login else {}
        self._producer = KafkaProducer(
            bootstrap_servers=servers, delivery_timeout_ms=DELIVERY_MS, max_block_ms=DELIVERY_MS, **settings
        )

    def send(self, topic: str, partition: int, value: int, done: Done) -> None:
        future = self._producer.send(topic, b"%d" % value, partition=partition)
        future.add_callback(lambda metadata: done(metadata.offset, ""))
        future.add_errback(lambda error: done(None, repr(error)))

    def flush(self) -> None:
        self._producer.flush(HANG_S)

    def close(self) -> None:
        self._producer.close(timeout=10)

    def abandon(self) -> None:
        self._producer.close(timeout=0)


class KafkaPythonReader:
    def __init__(self, servers: str, topic: str, partitions: int, login: Login | None = None) -> None:
        from kafka import KafkaConsumer
        from kafka import TopicPartition as Partition

        self._partitions = [Partition(topic, number) for number in range(partitions)]
        self._consumer = KafkaConsumer(
            bootstrap_servers=servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            request_timeout_ms=REQUEST_MS,
            **(login.for_kafka_python() if login else {}),
        )
        self._consumer.assign(self._partitions)
        self._consumer.seek_to_beginning(*self._partitions)

    def ends(self) -> dict[str, int]:
        found = self._consumer.end_offsets(self._partitions)
        return {name_of(each.topic, each.partition): offset for each, offset in found.items()}

    def poll(self) -> list[Record]:
        found = self._consumer.poll(timeout_ms=500)
        return [
            (name_of(each.topic, each.partition), record.offset, int(record.value))
            for each, records in found.items()
            for record in records
        ]

    def close(self) -> None:
        self._consumer.close()


# -- aiokafka, on a loop of its own ------------------------------------------------------------------------------------


class OnLoop:
    """A thread with a loop; `call` runs a coroutine there."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def begin(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def call(self, coroutine: Any) -> Any:
        return self.begin(coroutine).result(HANG_S)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(HANG_S)
        self._loop.close()

    def abandon(self) -> None:
        """Tasks that still run there are thrown away: nothing is closed, and the thread ends."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)


class AiokafkaSender:
    def __init__(self, servers: str, login: Login | None = None) -> None:
        self._on_loop = OnLoop()
        self._sent: list[Any] = []
        self._turn = asyncio.Lock()
        self._producer: Any = self._on_loop.call(self._start(servers, login))

    async def _start(self, servers: str, login: Login | None) -> Any:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(
            bootstrap_servers=servers,
            enable_idempotence=True,
            acks="all",
            request_timeout_ms=REQUEST_MS,
            **(login.for_aiokafka() if login else {}),
        )
        await producer.start()
        return producer

    def send(self, topic: str, partition: int, value: int, done: Done) -> None:
        self._sent = [each for each in self._sent if not each.done()]
        self._sent.append(self._on_loop.begin(self._send(topic, partition, value, done)))

    async def _send(self, topic: str, partition: int, value: int, done: Done) -> None:
        try:
            async with self._turn:  # several that wait for metadata would go on in any order
                sent = await self._producer.send(topic, b"%d" % value, partition=partition)
            metadata = await sent
        except Exception as error:
            done(None, repr(error))
        else:
            done(metadata.offset, "")

    def flush(self) -> None:
        for each in self._sent:
            each.result(HANG_S)

    def close(self) -> None:
        self._on_loop.call(self._producer.stop())
        self._on_loop.close()

    def abandon(self) -> None:
        self._on_loop.abandon()


class AiokafkaReader:
    def __init__(self, servers: str, topic: str, partitions: int, login: Login | None = None) -> None:
        self._on_loop = OnLoop()
        self._consumer: Any = self._on_loop.call(self._start(servers, topic, partitions, login))

    async def _start(self, servers: str, topic: str, partitions: int, login: Login | None) -> Any:
        from aiokafka import AIOKafkaConsumer
        from aiokafka import TopicPartition as Partition

        self._partitions = [Partition(topic, number) for number in range(partitions)]
        consumer = AIOKafkaConsumer(
            bootstrap_servers=servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            request_timeout_ms=REQUEST_MS,
            **(login.for_aiokafka() if login else {}),
        )
        await consumer.start()
        consumer.assign(self._partitions)
        await consumer.seek_to_beginning(*self._partitions)
        return consumer

    def ends(self) -> dict[str, int]:
        found = self._on_loop.call(self._consumer.end_offsets(self._partitions))
        return {name_of(each.topic, each.partition): offset for each, offset in found.items()}

    def poll(self) -> list[Record]:
        found = self._on_loop.call(self._consumer.getmany(timeout_ms=500))
        return [
            (name_of(each.topic, each.partition), record.offset, int(record.value))
            for each, records in found.items()
            for record in records
        ]

    def close(self) -> None:
        try:
            self._on_loop.call(self._consumer.stop())
        finally:
            self._on_loop.close()


CLIENTS: dict[str, tuple[Callable[[str, Login | None], Sender], Callable[[str, str, int, Login | None], Reader]]] = {
    "ottla": (OurSender, OurReader),
    "confluent-kafka": (ConfluentSender, ConfluentReader),
    "kafka-python": (KafkaPythonSender, KafkaPythonReader),
    "aiokafka": (AiokafkaSender, AiokafkaReader),
}
