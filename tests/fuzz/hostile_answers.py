"""Our client against a hostile broker, for all that it asks: the answers of an honest one are bent on their way.

An input is a script: what the client does (its first byte), and for one answer after the other how many pass untouched
before it and how it is bent. Whatever the broker says, every call of the client returns, or raises an error that is
declared, within its time; nobody is left waiting, nothing is logged with a trace, and the client can be closed.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from tests.fuzz.mutate import ABSURD
from tests.fuzz.targets import Target
from tests.fuzz.virtual_broker import VirtualBroker

from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.admin.configs import ConfigResource, ConfigResourceType
from ottla.client.admin.offsets import OffsetSpec
from ottla.client.admin.topics import NewTopic
from ottla.client.consumer.async_consumer import AsyncConsumer
from ottla.client.producer.async_producer import AsyncProducer
from ottla.errors import OttlaError
from ottla.simulation.cluster import SimulatedCluster
from ottla.values import TopicPartition

RENEW_AFTER = 40
SESSION_LIMIT_S = 600.0
CALL_S = 4.0
STEP_BYTES = 5
TOPIC = "orders"
PARTITION = TopicPartition(TOPIC, 0)
QUICK = {"request_timeout_ms": 1_000, "retry_backoff_ms": 50}


# -- bending -----------------------------------------------------------------------------------------------------------


class Script:
    """Which answers are bent, and how."""

    def __init__(self, data: bytes) -> None:
        self._steps = iter([data[at : at + STEP_BYTES] for at in range(0, len(data) - STEP_BYTES + 1, STEP_BYTES)])
        self._others: list[bytes] = [b"\0" * 40]
        self._next: bytes | None = next(self._steps, None)
        self._untouched = self._count()
        self.answers = 0
        self.bent = 0

    def _count(self) -> int:
        return 1 << 30 if self._next is None else self._next[0] % 16

    def bend(self, answer: bytes) -> bytes | None:
        """The answer as the client gets it; None: not at all."""
        self.answers += 1
        if self._untouched:
            self._untouched -= 1
            self._others = [*self._others[-7:], answer]
            return answer
        step = self._next
        assert step is not None, "or all the rest would pass untouched"
        self._next = next(self._steps, None)
        self._untouched = self._count()
        self.bent += 1
        keeps_id = step[1] < 224
        head, body = (answer[:4], answer[4:]) if keeps_id else (b"", answer)
        found = BENDS[step[1] % len(BENDS)](body, step[2] << 8 | step[3], step[4], self._others)
        return None if found is None else head + found


def _replace(body: bytes, at: int, value: int, others: list[bytes]) -> bytes:
    at %= max(1, len(body))
    return body[:at] + bytes([value]) + body[at + 1 :]


def _cut(body: bytes, at: int, value: int, others: list[bytes]) -> bytes:
    return body[: at % (len(body) + 1)]


def _insert(body: bytes, at: int, value: int, others: list[bytes]) -> bytes:
    at %= len(body) + 1
    return body[:at] + bytes([value]) * (1 + value % 8) + body[at:]


def _lie(body: bytes, at: int, value: int, others: list[bytes]) -> bytes:
    at %= len(body) + 1
    lie = ABSURD[value % len(ABSURD)]
    return body[:at] + lie + body[at + len(lie) :]


def _other(body: bytes, at: int, value: int, others: list[bytes]) -> bytes:
    return others[value % len(others)][4:]


def _mixed(body: bytes, at: int, value: int, others: list[bytes]) -> bytes:
    at %= len(body) + 1
    return body[:at] + others[value % len(others)][4 + at :]


def _error(body: bytes, at: int, value: int, others: list[bytes]) -> bytes:
    """Two bytes become an error code, most of which exist."""
    at %= max(1, len(body))
    return body[:at] + (value - 2).to_bytes(2, "big", signed=True) + body[at + 2 :]


def _nothing(body: bytes, at: int, value: int, others: list[bytes]) -> None:
    return None


BENDS: list[Callable[[bytes, int, int, list[bytes]], bytes | None]] = [
    *(_replace, _cut, _insert, _lie, _other, _mixed, _error, _replace, _lie, _error, _nothing),
]


class BentEvents:
    """LinkEvents between a link and the client."""

    def __init__(self, events: Any, script: Script) -> None:
        self._events = events
        self._script = script
        self.opened = events.opened
        self.writable_changed = events.writable_changed
        self.closed = events.closed

    def frame_received(self, frame: memoryview) -> None:
        found = self._script.bend(bytes(frame))
        if found is not None:
            self._events.frame_received(memoryview(bytearray(found)))


class BentTransport:
    """The client's door to the network."""

    def __init__(self, transport: Any, script: Script) -> None:
        self._transport = transport
        self._script = script

    async def connect(self, host: str, port: int, events: Any, **options: Any) -> Any:
        return await self._transport.connect(host, port, BentEvents(events, self._script), **options)


# -- what the client does ----------------------------------------------------------------------------------------------


async def ends(call: Awaitable[Any]) -> Any:
    """What it returned; None when it raised what it may."""
    try:
        return await call
    except (OttlaError, TimeoutError):
        return None


async def produce(doors: dict[str, Any]) -> None:
    producer = AsyncProducer(**doors, **QUICK, delivery_timeout_ms=3_000, max_block_ms=2_000, linger_ms=0)
    futures = [await ends(producer.send(TOPIC, b"%d" % number, partition=number % 2)) for number in range(4)]
    for future in futures:
        if future is not None:
            await ends(future)
    await ends(producer.flush(CALL_S))
    await ends(producer.close(CALL_S))


async def transact(doors: dict[str, Any]) -> None:
    settings = {**QUICK, "delivery_timeout_ms": 3_000, "max_block_ms": 2_000, "transactional_id": "fuzz"}
    producer = AsyncProducer(**doors, **settings)
    await ends(producer.init_transactions(CALL_S))
    for end in (producer.commit_transaction, producer.abort_transaction):
        await ends(producer.begin_transaction())
        await ends(producer.send(TOPIC, b"1", partition=0))
        await ends(end(CALL_S))
    await ends(producer.close(CALL_S))


async def consume(doors: dict[str, Any], **more: Any) -> None:
    consumer = AsyncConsumer(TOPIC, **doors, **QUICK, group_id="g", auto_offset_reset="earliest", **more)
    for _ in range(4):
        await ends(consumer.poll(1.0))
    await ends(consumer.commit({PARTITION: 1}, timeout=CALL_S))
    await ends(consumer.committed(PARTITION, timeout=CALL_S))
    await ends(consumer.close(CALL_S))


async def consume_by_new_protocol(doors: dict[str, Any]) -> None:
    await consume(doors, group_protocol="consumer")


async def read(doors: dict[str, Any]) -> None:
    consumer = AsyncConsumer(**doors, **QUICK, isolation_level="read_committed")
    await ends(consumer.assign([PARTITION]))
    await ends(consumer.end_offsets([PARTITION], timeout=CALL_S))
    await ends(consumer.seek_to_beginning(PARTITION))
    for _ in range(3):
        await ends(consumer.poll(1.0))
    await ends(consumer.position(PARTITION, timeout=CALL_S))
    await ends(consumer.offsets_for_times({PARTITION: 1_700_000_000_000}, timeout=CALL_S))
    await ends(consumer.close(CALL_S))


async def administrate(doors: dict[str, Any], calls: Callable[[AsyncAdmin], Iterator[Awaitable[Any]]]) -> None:
    admin = AsyncAdmin(**doors, request_timeout_ms=1_000)
    for call in calls(admin):
        await ends(call)
    await ends(admin.close(CALL_S))


async def change(doors: dict[str, Any]) -> None:
    await administrate(doors, changes)


async def describe(doors: dict[str, Any]) -> None:
    await administrate(doors, descriptions)


def descriptions(admin: AsyncAdmin) -> Iterator[Awaitable[Any]]:
    yield admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, TOPIC)], timeout=CALL_S)
    yield admin.describe_features(timeout=CALL_S)
    yield admin.list_offsets({PARTITION: OffsetSpec.LATEST}, timeout=CALL_S)
    yield admin.list_groups(timeout=CALL_S)
    yield admin.describe_log_dirs(timeout=CALL_S)
    yield admin.elect_leaders([PARTITION], timeout=CALL_S)
    yield admin.list_partition_reassignments(timeout=CALL_S)
    yield admin.list_transactions(timeout=CALL_S)
    yield admin.describe_transactions(["fuzz"], timeout=CALL_S)
    yield admin.describe_producers([PARTITION], timeout=CALL_S)
    yield admin.describe_acls(timeout=CALL_S)
    yield admin.describe_client_quotas(timeout=CALL_S)
    yield admin.describe_user_scram_credentials(timeout=CALL_S)


def changes(admin: AsyncAdmin) -> Iterator[Awaitable[Any]]:
    yield admin.describe_cluster(timeout=CALL_S)
    yield admin.list_topics(timeout=CALL_S)
    yield admin.describe_topics([TOPIC], timeout=CALL_S)
    yield admin.create_topics([NewTopic("made", 1, 1)], timeout=CALL_S)
    yield admin.create_partitions({"made": 2}, timeout=CALL_S)
    yield admin.delete_records({PARTITION: 0}, timeout=CALL_S)
    yield admin.delete_topics(["made"], timeout=CALL_S)
    yield admin.list_consumer_groups(timeout=CALL_S)
    yield admin.describe_consumer_groups(["g"], timeout=CALL_S)
    yield admin.list_consumer_group_offsets("g", timeout=CALL_S)


SESSIONS: list[Callable[[dict[str, Any]], Awaitable[None]]] = [
    *(produce, transact, consume, consume_by_new_protocol, read, change, describe),
]


# -- the target --------------------------------------------------------------------------------------------------------


class HostileAnswers:
    """See the module."""

    def __init__(self) -> None:
        self._world: VirtualBroker | None = None
        self._sessions = 0
        self.counted: Counter[str] = Counter()

    def feed(self, data: bytes) -> None:
        if self._world is None or self._sessions >= RENEW_AFTER:
            self.renew()
        world = self._world
        assert world is not None, "it was made"
        self._sessions += 1
        script = Script(data[1:])
        session = SESSIONS[data[0] % len(SESSIONS) if data else 0]
        world.machine.kill()
        world.machine.boot("client")
        try:
            world.run(session(self._doors(world, script)), SESSION_LIMIT_S)
        except BaseException:
            self.close()
            raise
        self.counted.update(sessions=1, answers=script.answers, bent=script.bent)

    def renew(self) -> None:
        self.close()
        self._world, self._sessions = VirtualBroker(SimulatedCluster), 0
        self._world.run(self._make_topic(self._world), SESSION_LIMIT_S)

    def close(self) -> None:
        if self._world is not None:
            self._world.close()
        self._world = None

    async def _make_topic(self, world: VirtualBroker) -> None:
        doors = self._doors(world, Script(b""))
        async with AsyncAdmin(**doors) as admin:
            await admin.create_topics([NewTopic(TOPIC, 2, 1)], timeout=CALL_S)
        await asyncio.sleep(1)
        producer = AsyncProducer(**doors)
        for number in range(10):
            await producer.send(TOPIC, b"%d" % number, partition=number % 2)
        await producer.close(CALL_S)

    def _doors(self, world: VirtualBroker, script: Script) -> dict[str, Any]:
        doors = world.machine.world()
        return {
            "client_id": "fuzz",
            "bootstrap_servers": world.cluster.bootstrap_servers,
            "transport": BentTransport(doors.transport, script),
            "clock": doors.clock,
            "random": doors.random,
        }


def scripts() -> list[bytes]:
    source = random.Random(5)
    untouched = [bytes([number]) for number in range(len(SESSIONS))]
    return untouched + [bytes([number]) + source.randbytes(STEP_BYTES * 3) for number in range(len(SESSIONS) * 4)]


def hostile_answers_target() -> Target:
    return Target("client against a hostile broker", HostileAnswers().feed, (), scripts)
