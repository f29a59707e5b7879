"""Members of groups, of our client and of clients of the field: each reads, commits, and asks what is committed.

    with MemberLoad("aiokafka", servers, "clicks", "readers", history) as member:
        member.wait_for(100)

1. A member is the only one of its group. What it read and what it heard of its commits is in the history, and the
   simulation's checker knows both.
2. Offsets may come again after a rebalance, so its polls are not held against their order.
3. An answer to a commit that does not come leaves open what is committed; the next round commits more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, Final, Protocol

from tests.histories.clients import REQUEST_MS, Login, OnLoop, Record, name_of
from tests.patience import HANG_S

import ottla
from ottla.errors import OttlaError
from ottla.simulation.history import History, Operation
from ottla.testing.promises import Background
from ottla.values import TopicPartition

CALL_S: Final = 120.0
POLL_S: Final = 0.2


class Member(Protocol):
    """One that is subscribed to one topic."""

    failures: tuple[type[BaseException], ...]
    """What it raises when it does not know what became of a commit."""

    def poll(self) -> list[Record]: ...

    def commit(self, partition: int, offset: int) -> None: ...

    def committed(self, partition: int) -> int:
        """-1 where nothing is."""

    def close(self) -> None: ...


class OurMember:
    failures = (OttlaError,)

    def __init__(self, servers: str, topic: str, group: str, login: Login | None = None) -> None:
        settings = {
            "group_id": group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "request_timeout_ms": REQUEST_MS,
        }
        in_by = login.for_ours() if login else {}
        self._topic = topic
        self._consumer = ottla.Consumer(topic, bootstrap_servers=servers, **settings, **in_by)

    def poll(self) -> list[Record]:
        found = self._consumer.poll(POLL_S)
        return [(name_of(each.topic, each.partition), each.offset, int(each.value)) for each in found]

    def commit(self, partition: int, offset: int) -> None:
        self._consumer.commit({TopicPartition(self._topic, partition): offset}, timeout=CALL_S)

    def committed(self, partition: int) -> int:
        where = TopicPartition(self._topic, partition)
        found = self._consumer.committed(where, timeout=CALL_S)[where]
        return -1 if found is None else found.offset

    def close(self) -> None:
        self._consumer.close(HANG_S)


class ConfluentMember:
    def __init__(self, servers: str, topic: str, group: str, login: Login | None = None) -> None:
        import confluent_kafka

        settings = {
            "bootstrap.servers": servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "socket.timeout.ms": REQUEST_MS,
            "log_level": 2,
            **(login.for_librdkafka() if login else {}),
        }
        self.failures = (confluent_kafka.KafkaException,)
        self._partition = lambda *which: confluent_kafka.TopicPartition(topic, *which)
        self._consumer = confluent_kafka.Consumer(settings)
        self._consumer.subscribe([topic])

    def poll(self) -> list[Record]:
        messages = [each for each in self._consumer.consume(500, timeout=POLL_S) if each.error() is None]
        return [(name_of(each.topic(), each.partition()), each.offset(), int(each.value())) for each in messages]

    def commit(self, partition: int, offset: int) -> None:
        self._consumer.commit(offsets=[self._partition(partition, offset)], asynchronous=False)

    def committed(self, partition: int) -> int:
        (found,) = self._consumer.committed([self._partition(partition)], timeout=CALL_S)
        return max(int(found.offset), -1)

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonMember:
    def __init__(self, servers: str, topic: str, group: str, login: Login | None = None) -> None:
        from kafka import KafkaConsumer, OffsetAndMetadata
        from kafka import TopicPartition as Partition
        from kafka.errors import KafkaError

        self.failures = (KafkaError,)
        self._partition = lambda number: Partition(topic, number)
        self._offset = lambda offset: OffsetAndMetadata(offset, "", -1)
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            request_timeout_ms=REQUEST_MS,
            **(login.for_kafka_python() if login else {}),
        )

    def poll(self) -> list[Record]:
        return plain(self._consumer.poll(timeout_ms=int(POLL_S * 1000)))

    def commit(self, partition: int, offset: int) -> None:
        self._consumer.commit({self._partition(partition): self._offset(offset)}, timeout_ms=int(CALL_S * 1000))

    def committed(self, partition: int) -> int:
        found = self._consumer.committed(self._partition(partition), timeout_ms=int(CALL_S * 1000))
        return -1 if found is None else int(found)

    def close(self) -> None:
        self._consumer.close()


class AiokafkaMember:
    def __init__(self, servers: str, topic: str, group: str, login: Login | None = None) -> None:
        from aiokafka import TopicPartition as Partition
        from aiokafka.errors import KafkaError

        self.failures = (KafkaError, asyncio.TimeoutError)
        self._partition = lambda number: Partition(topic, number)
        self._on_loop = OnLoop()
        self._consumer: Any = self._on_loop.call(self._start(servers, topic, group, login))

    async def _start(self, servers: str, topic: str, group: str, login: Login | None) -> Any:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            request_timeout_ms=REQUEST_MS,
            **(login.for_aiokafka() if login else {}),
        )
        await consumer.start()
        return consumer

    def poll(self) -> list[Record]:
        return plain(self._on_loop.call(self._consumer.getmany(timeout_ms=int(POLL_S * 1000))))

    def commit(self, partition: int, offset: int) -> None:
        self._on_loop.call(self._consumer.commit({self._partition(partition): offset}))

    def committed(self, partition: int) -> int:
        found = self._on_loop.call(self._consumer.committed(self._partition(partition)))
        return -1 if found is None else int(found)

    def close(self) -> None:
        try:
            self._on_loop.call(self._consumer.stop())
        finally:
            self._on_loop.close()


def plain(found: Mapping[Any, Any]) -> list[Record]:
    """What kafka-python and aiokafka have in common."""
    return [
        (name_of(each.topic, each.partition), record.offset, int(record.value))
        for each, records in found.items()
        for record in records
    ]


MEMBERS: Final[Mapping[str, Callable[[str, str, str, Login | None], Member]]] = {
    "ottla": OurMember,
    "confluent-kafka": ConfluentMember,
    "kafka-python": KafkaPythonMember,
    "aiokafka": AiokafkaMember,
}


class MemberLoad(Background):
    """See the module."""

    def __init__(
        self, client: str, servers: str, topic: str, group: str, history: History, login: Login | None = None
    ) -> None:
        super().__init__()
        self._make_member = lambda: MEMBERS[client](servers, topic, group, login)
        self._group = group
        self._name = f"{client} member of {group}"
        self._history = history
        self.read: set[tuple[str, int]] = set()

    def wait_for(self, count: int) -> None:
        """Until so many different records were read."""
        give_up_s = time.monotonic() + HANG_S
        while len(self.read) < count:
            assert time.monotonic() < give_up_s, f"{len(self.read)} of {count} were read; it is in {self._where()}"
            if self._failure is not None:
                raise self._failure
            time.sleep(0.05)

    def _run(self) -> None:
        with closing(self._make_member()) as member:
            while not self._ending.is_set():
                if records := member.poll():
                    self._write_down(records)
                    self._commit(member, records)

    def _write_down(self, records: list[Record]) -> None:
        self._history.note(self._name, "assign")
        self._history.invoke(self._name, "poll").ok(records=[list(each) for each in records], group=self._group)
        self.read.update((partition, offset) for partition, offset, _ in records)

    def _commit(self, member: Member, records: list[Record]) -> None:
        for partition, offset in {partition: offset + 1 for partition, offset, _ in records}.items():
            number = int(partition.rpartition("-")[2])
            facts = {"group": self._group, "partition": partition}
            committing = self._history.invoke(self._name, "commit", **facts, offset=offset)
            if self._heard(member, committing, lambda: member.commit(number, offset)) is None:  # noqa: B023
                continue
            committing.ok()
            asking = self._history.invoke(self._name, "committed", **facts)
            if (found := self._heard(member, asking, lambda: member.committed(number))) is not None:  # noqa: B023
                asking.ok(offset=found)

    def _heard(self, member: Member, operation: Operation, ask: Callable[[], Any]) -> Any:
        """What it returned (True for nothing); None when nobody knows."""
        try:
            found = ask()
        except member.failures as error:
            operation.info(repr(error)[:200])
            return None
        return True if found is None else found
