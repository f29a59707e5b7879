"""AIOKafkaConsumer over our asyncio consumer.

1. start() returns when the cluster is reached and, in a group, when partitions were assigned.
2. subscribe(), assign() and unsubscribe() return at once; what they ask for is done before the next awaited call.
3. A listener hears of an empty set before its first assignment, as in aiokafka; its methods may be coroutines.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from time import time
from typing import Any, Final, Self

from ottla.client.consumer.async_consumer import AsyncConsumer
from ottla.compat.aiokafka import settings
from ottla.compat.aiokafka.bootstrap import wait_for_cluster
from ottla.compat.aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from ottla.compat.aiokafka.errors import (
    ConsumerStoppedError,
    IllegalOperation,
    IllegalStateError,
    translates,
)
from ottla.compat.aiokafka.offsets import committable
from ottla.compat.aiokafka.structs import ConsumerRecord, OffsetAndTimestamp
from ottla.values import OffsetAndMetadata as OurOffset
from ottla.values import TopicPartition

VERSION: Final = "0.14.0"
WAIT_S: Final = 1.0


class _Listener:
    """Calls the program's listener with sets, and remembers that the group has assigned partitions."""

    def __init__(self, listener: Any) -> None:
        self._listener = listener
        self.joined = False

    def forget(self) -> None:
        """A consumer that stops says nothing to its listener, as in aiokafka."""
        self._listener = None

    async def on_assigned(self, partitions: list[TopicPartition]) -> None:
        first, self.joined = not self.joined, True
        if self._listener is not None:
            if first:
                await _awaited(self._listener.on_partitions_revoked(set()))
            await _awaited(self._listener.on_partitions_assigned(set(partitions)))

    async def on_revoked(self, partitions: list[TopicPartition]) -> None:
        if self._listener is not None:
            await _awaited(self._listener.on_partitions_revoked(set(partitions)))


async def _awaited(found: Any) -> None:
    if inspect.isawaitable(found):
        await found


@translates
class AIOKafkaConsumer:
    """See the module."""

    def __init__(
        self,
        *topics: str,
        loop: Any = None,
        bootstrap_servers: Any = "localhost",
        client_id: str = f"aiokafka-{VERSION}",
        group_id: str | None = None,
        group_instance_id: str | None = None,
        key_deserializer: Callable[[Any], Any] | None = None,
        value_deserializer: Callable[[Any], Any] | None = None,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 52_428_800,
        fetch_min_bytes: int = 1,
        max_partition_fetch_bytes: int = 1_048_576,
        request_timeout_ms: int = 40_000,
        retry_backoff_ms: int = 100,
        auto_offset_reset: str = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        check_crcs: bool = True,
        metadata_max_age_ms: int = 300_000,
        partition_assignment_strategy: Any = (RoundRobinPartitionAssignor,),
        max_poll_interval_ms: int = 300_000,
        rebalance_timeout_ms: int | None = None,
        session_timeout_ms: int = 10_000,
        heartbeat_interval_ms: int = 3_000,
        consumer_timeout_ms: int = 200,
        max_poll_records: int | None = None,
        ssl_context: Any = None,
        security_protocol: str = "PLAINTEXT",
        api_version: Any = None,
        exclude_internal_topics: bool = True,
        connections_max_idle_ms: int = 540_000,
        isolation_level: str = "read_uncommitted",
        sasl_mechanism: str = "PLAIN",
        sasl_plain_password: str | None = None,
        sasl_plain_username: str | None = None,
        sasl_kerberos_service_name: str = "kafka",
        sasl_kerberos_domain_name: str | None = None,
        sasl_oauth_token_provider: Any = None,
        client_rack: str | None = None,
    ) -> None:
        if max_poll_records is not None and (not isinstance(max_poll_records, int) or max_poll_records < 1):
            raise ValueError("`max_poll_records` should be positive Integer")
        written = dict(locals())
        self._settings = settings.common(written) | _settings(written)
        self._servers = bootstrap_servers
        self._group_id = group_id
        self._key_deserializer = key_deserializer
        self._value_deserializer = value_deserializer
        self._isolation_level = isolation_level
        self._limit = max_poll_records or settings.UNLIMITED
        self._ours: AsyncConsumer | None = None
        self._closed = False
        self._listener = _Listener(None)
        self._change: asyncio.Task[None] | None = None
        self._wanted: tuple[str, Any] | None = None
        self._topics: frozenset[str] = frozenset()
        self._polled_ms: dict[TopicPartition, int] = {}
        if topics:
            self.subscribe(topics)

    # --- life ---

    async def start(self) -> None:
        """Reach the cluster, and join the group when there is one."""
        assert self._ours is None, "Did you call `start` twice?"
        self._ours = await AsyncConsumer(**self._settings).start()
        try:
            limit_ms = self._settings["request_timeout_ms"]
            await wait_for_cluster(self._ours._core.network, self._servers, limit_ms)
            if self._wanted is not None:
                await self._carry_out()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Commit when that is set, leave the group, end. Calling it again does nothing."""
        self._closed = True
        self._listener.forget()
        if self._change is not None:
            self._change.cancel()
        if self._ours is not None:
            await self._ours.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def _started(self) -> AsyncConsumer:
        if self._closed:
            raise ConsumerStoppedError
        if self._ours is None:
            raise IllegalOperation("start() was not called")
        return self._ours

    async def _ready(self) -> AsyncConsumer:
        """Our consumer, after what subscribe() or assign() asked for was done."""
        ours = self._started
        if self._change is not None:
            change, self._change = self._change, None
            await change
        return ours

    # --- what to read ---

    def subscribe(self, topics: Iterable[str] = (), pattern: str | None = None, listener: Any = None) -> None:
        if not (topics or pattern):
            raise TypeError("You should provide either `topics` or `pattern`")
        if topics and pattern:
            raise TypeError("You can't provide both `topics` and `pattern`")
        if isinstance(topics, str) or not all(isinstance(each, str) for each in topics):
            raise TypeError("Topics should be list of strings")
        self._listener = _Listener(listener)
        if pattern is not None:
            self._want("pattern", _compiled(pattern))
        else:
            self._topics = frozenset(topics)
            self._want("topics", list(topics))

    def unsubscribe(self) -> None:
        self._topics = frozenset()
        self._want("nothing", None)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._topics = frozenset()
        self._want("partitions", [TopicPartition(*each) for each in partitions])

    def _want(self, kind: str, what: Any) -> None:
        self._wanted = (kind, what)
        if self._ours is not None:
            if self._change is not None:
                self._change.cancel()
            self._change = asyncio.get_running_loop().create_task(self._carry_out())
            if kind == "partitions":
                self._ours._core.assign(what)

    async def _carry_out(self) -> None:
        ours = self._started
        kind: str = "nothing"
        what: Any = None
        if self._wanted is not None:
            kind, what = self._wanted
        if kind == "partitions":
            await ours.assign(what)
        elif kind == "nothing":
            await ours.unsubscribe()
        elif self._group_id is not None:
            chosen = {"pattern": what} if kind == "pattern" else {"topics": what}
            await ours.subscribe(**chosen, listener=self._listener)
            while not self._listener.joined:
                await ours._poll(WAIT_S, lambda _: self._listener.joined, 1)
        else:
            await self._assign_all(kind, what)

    async def _assign_all(self, kind: str, what: Any) -> None:
        """Without a group nobody shares partitions out: all of them are ours."""
        ours = self._started
        names = what if kind == "topics" else [name for name in await ours.topics() if what.match(name)]
        self._topics = frozenset(names)
        found = [TopicPartition(name, each.partition) for name in names for each in await ours.partitions_for(name)]
        await ours.assign(found)
        await self._listener.on_assigned(found)

    def subscription(self) -> frozenset[str]:
        ours = frozenset() if self._ours is None else frozenset(self._ours.subscription())
        return ours or self._topics

    def assignment(self) -> set[TopicPartition]:
        return set() if self._ours is None else set(self._ours.assignment())

    # --- reading ---

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord[Any, Any]:
        """The next record, waiting for it."""
        ours = await self._ready()
        while True:
            found = await self._polled(ours, partitions, WAIT_S, 1)
            if found:
                return self._record(found[0])
            if self._closed:
                raise ConsumerStoppedError

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[Any, Any]]]:
        """Records by partition; waits for the first up to `timeout_ms`."""
        if max_records is not None and (not isinstance(max_records, int) or max_records < 1):
            raise ValueError("`max_records` must be a positive Integer")
        ours = await self._ready()
        found: dict[TopicPartition, list[ConsumerRecord[Any, Any]]] = {}
        for record in await self._polled(ours, partitions, timeout_ms / 1000, max_records or self._limit):
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(self._record(record))
        return found

    async def _polled(
        self, ours: AsyncConsumer, partitions: tuple[TopicPartition, ...], timeout_s: float, limit: int
    ) -> list[Any]:
        assert all(isinstance(each, TopicPartition) for each in partitions)
        others = (set(ours.assignment()) - set(partitions) - set(ours.paused())) if partitions else set()
        ours.pause(*others)
        try:
            found = await ours.poll(timeout_s, max_records=limit)
        except Exception:
            if self._closed:
                raise ConsumerStoppedError from None
            raise
        finally:
            ours.resume(*(others & set(ours.assignment())))
        now_ms = int(time() * 1000)
        self._polled_ms.update({TopicPartition(each.topic, each.partition): now_ms for each in found})
        return found

    def _record(self, record: Any) -> ConsumerRecord[Any, Any]:
        key, value = record.key, record.value
        return ConsumerRecord(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp_ms,
            int(record.timestamp_type),
            key if self._key_deserializer is None else self._key_deserializer(key),
            value if self._value_deserializer is None else self._value_deserializer(value),
            None,
            -1 if key is None else len(key),
            -1 if value is None else len(value),
            tuple((name, data) for name, data in record.headers),
        )

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[Any, Any]]:
        if self._closed:
            raise ConsumerStoppedError
        return self

    async def __anext__(self) -> ConsumerRecord[Any, Any]:
        try:
            return await self.getone()
        except ConsumerStoppedError:
            raise StopAsyncIteration from None

    # --- positions ---

    async def position(self, partition: TopicPartition) -> int:
        ours = await self._ready()
        self._check_assigned(partition)
        return await ours.position(partition)

    def _check_assigned(self, *partitions: TopicPartition) -> None:
        if missing := [each for each in partitions if each not in self.assignment()]:
            raise IllegalStateError(f"Partitions {missing} are not assigned")

    def highwater(self, partition: TopicPartition) -> int | None:
        ours = self._started
        assert partition in ours.assignment(), "Partition is not assigned"
        lag, position = ours.lag(partition), ours._core.subscription.state(partition).position
        return None if lag is None or position is None else int(position.offset) + lag

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """The end that a reader of committed records can see; -1 for others, as in aiokafka."""
        return self.highwater(partition) if self._isolation_level == "read_committed" else -1

    def last_poll_timestamp(self, partition: TopicPartition) -> int | None:
        return self._polled_ms.get(partition)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        if not isinstance(offset, int) or offset < 0:
            raise ValueError("Offset must be a positive integer")
        self._started.seek(partition, offset)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> bool:
        ours = await self._ready()
        self._check_seek(partitions)
        await ours.seek_to_beginning(*partitions)
        return True

    async def seek_to_end(self, *partitions: TopicPartition) -> bool:
        ours = await self._ready()
        self._check_seek(partitions)
        await ours.seek_to_end(*partitions)
        return True

    async def seek_to_committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int | None]:
        ours = await self._ready()
        self._check_seek(partitions)
        wanted = partitions or tuple(ours.assignment())
        found = await ours.committed(*wanted)
        for each, offset in found.items():
            if offset is not None:
                ours.seek(each, offset.offset)
        return {each: None if offset is None else offset.offset for each, offset in found.items()}

    def _check_seek(self, partitions: tuple[Any, ...]) -> None:
        if not all(isinstance(each, TopicPartition) for each in partitions):
            raise TypeError("partitions must be TopicPartition instances")
        assert partitions or self.assignment(), "No partitions are currently assigned"
        self._check_assigned(*partitions)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        if any(each < 0 for each in timestamps.values()):
            raise ValueError("The target time for a partition must not be negative")
        found = await (await self._ready()).offsets_for_times(timestamps)
        return {each: _timestamped(found.get(each)) for each in timestamps}

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await (await self._ready()).beginning_offsets(list(partitions))

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await (await self._ready()).end_offsets(list(partitions))

    def pause(self, *partitions: TopicPartition) -> None:
        self._started.pause(*partitions)

    def paused(self) -> set[TopicPartition]:
        return set(self._started.paused())

    def resume(self, *partitions: TopicPartition) -> None:
        self._started.resume(*partitions)

    # --- commits ---

    async def commit(self, offsets: Mapping[TopicPartition, Any] | None = None) -> None:
        if self._group_id is None:
            raise IllegalOperation("Requires group_id")
        ours = await self._ready()
        if not ours.assignment():
            raise IllegalStateError("No partitions assigned")
        wanted: dict[TopicPartition, OurOffset] | None = None if offsets is None else committable(offsets)
        if wanted is not None:
            self._check_assigned(*wanted)
        await ours.commit(wanted)

    async def committed(self, partition: TopicPartition) -> int | None:
        if self._group_id is None:
            raise IllegalOperation("Requires group_id")
        found = (await (await self._ready()).committed(partition)).get(partition)
        return None if found is None else found.offset

    # --- about ---

    async def topics(self) -> set[str]:
        return set(await self._started.topics())

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """As far as it is known."""
        found = self._started._core.network.metadata.partitions_of(topic)
        return {each.partition for each in found} if found else None


def _settings(written: Mapping[str, Any]) -> dict[str, Any]:
    names = (
        "group_id", "group_instance_id", "fetch_max_wait_ms", "fetch_max_bytes", "fetch_min_bytes",
        "max_partition_fetch_bytes", "auto_offset_reset", "auto_commit_interval_ms", "check_crcs",
        "max_poll_interval_ms", "session_timeout_ms", "heartbeat_interval_ms", "exclude_internal_topics",
        "isolation_level", "client_rack",
    )  # fmt: skip
    found = {name: written[name] for name in names if written[name] is not None}
    found["partition_assignment_strategy"] = settings.assignors(written["partition_assignment_strategy"])
    found["enable_auto_commit"] = written["enable_auto_commit"] and written["group_id"] is not None
    return found


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a valid pattern: {error}") from error


def _timestamped(found: Any) -> OffsetAndTimestamp | None:
    return None if found is None else OffsetAndTimestamp(found.offset, found.timestamp_ms)
