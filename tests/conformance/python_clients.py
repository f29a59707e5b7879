"""Three Python client libraries behind the same few words, so that a test can say the same to each.

    for client in CLIENTS:
        client.produce(servers, topic, values, compression_type="gzip")
        client.consume(servers, topic, group, count)

Settings are given in the words of kafka-python and aiokafka; confluent-kafka gets them with dots.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterable, Sequence
from typing import Any

import confluent_kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from tests.patience import HANG_S

# Its own bounds are for a network; ours is a busy machine that compresses megabytes.
KAFKA_PYTHON_PATIENCE = {"request_timeout_ms": HANG_S * 1000, "delivery_timeout_ms": 2 * HANG_S * 1000}


class Confluent:
    name = "confluent-kafka"

    def produce(self, servers: str, topic: str, values: Sequence[bytes], **settings: Any) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": servers, **_dotted(settings)})
        errors: list[Any] = []
        for value in values:
            producer.produce(topic, value, on_delivery=lambda error, _: error and errors.append(error))
        assert producer.flush(HANG_S) == 0
        assert errors == []

    def consume(self, servers: str, topic: str, group: str, count: int, **settings: Any) -> list[bytes]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **_dotted(settings),
            }
        )
        consumer.subscribe([topic])
        found: list[bytes] = []
        end_s = time.monotonic() + HANG_S
        with contextlib.closing(consumer):
            while len(found) < count and time.monotonic() < end_s:
                message = consumer.poll(0.2)
                if message is not None:
                    assert message.error() is None
                    found.append(message.value())
            if found:
                consumer.commit(asynchronous=False)
        return found

    def transact(self, servers: str, topic: str, rounds: Iterable[tuple[Sequence[bytes], bool]], id_: str) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": id_})
        producer.init_transactions(HANG_S)
        for values, commits in rounds:
            producer.begin_transaction()
            for value in values:
                producer.produce(topic, value)
            producer.flush(HANG_S)
            (producer.commit_transaction if commits else producer.abort_transaction)(HANG_S)


class KafkaPython:
    name = "kafka-python"

    def produce(self, servers: str, topic: str, values: Sequence[bytes], **settings: Any) -> None:
        from kafka import KafkaProducer

        if settings.get("compression_type") == "none":
            settings["compression_type"] = None
        with contextlib.closing(
            KafkaProducer(bootstrap_servers=servers, **KAFKA_PYTHON_PATIENCE, **settings)
        ) as producer:
            futures = [producer.send(topic, value) for value in values]
            producer.flush(HANG_S)
            for future in futures:
                future.get(HANG_S)

    def consume(self, servers: str, topic: str, group: str, count: int, **settings: Any) -> list[bytes]:
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(
            bootstrap_servers=servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **settings,
        )
        found: list[bytes] = []
        end_s = time.monotonic() + HANG_S
        with contextlib.closing(consumer):
            # It must know the topic before it joins: metadata that arrives while it makes the assignment is
            # remembered as if it had been used, and then its share stays empty for ever.
            while not consumer.partitions_for_topic(topic) and time.monotonic() < end_s:
                pass
            consumer.subscribe([topic])
            while len(found) < count and time.monotonic() < end_s:
                for records in consumer.poll(timeout_ms=200).values():
                    found += [record.value for record in records]
            if found:
                consumer.commit()
        return found

    def transact(self, servers: str, topic: str, rounds: Iterable[tuple[Sequence[bytes], bool]], id_: str) -> None:
        from kafka import KafkaProducer

        with contextlib.closing(KafkaProducer(bootstrap_servers=servers, transactional_id=id_)) as producer:
            producer.init_transactions()
            for values, commits in rounds:
                producer.begin_transaction()
                for value in values:
                    producer.send(topic, value)
                producer.flush(HANG_S)
                (producer.commit_transaction if commits else producer.abort_transaction)()


class Aiokafka:
    name = "aiokafka"

    def produce(self, servers: str, topic: str, values: Sequence[bytes], **settings: Any) -> None:
        if settings.get("compression_type") == "none":
            settings["compression_type"] = None

        async def run() -> None:
            async with AIOKafkaProducer(bootstrap_servers=servers, **settings) as producer:
                for future in [await producer.send(topic, value) for value in values]:
                    await asyncio.wait_for(future, HANG_S)

        asyncio.run(run())

    def consume(self, servers: str, topic: str, group: str, count: int, **settings: Any) -> list[bytes]:
        async def run() -> list[bytes]:
            found: list[bytes] = []
            consumer = AIOKafkaConsumer(
                topic,
                bootstrap_servers=servers,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                **settings,
            )
            async with consumer:
                end_s = time.monotonic() + HANG_S
                while len(found) < count and time.monotonic() < end_s:
                    for records in (await consumer.getmany(timeout_ms=200)).values():
                        found += [record.value for record in records]
                if found:
                    await consumer.commit()
            return found

        return asyncio.run(run())

    def transact(self, servers: str, topic: str, rounds: Iterable[tuple[Sequence[bytes], bool]], id_: str) -> None:
        async def run() -> None:
            async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id=id_) as producer:
                for values, commits in rounds:
                    await producer.begin_transaction()
                    for value in values:
                        await producer.send_and_wait(topic, value)
                    await (producer.commit_transaction() if commits else producer.abort_transaction())

        asyncio.run(run())


def _dotted(settings: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in settings.items()}


CLIENTS: list[Any] = [Confluent(), KafkaPython(), Aiokafka()]
