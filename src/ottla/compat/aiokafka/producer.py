"""AIOKafkaProducer over our asyncio producer: start(), send(), send_and_wait(), batches, transactions, stop()."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, Self

from ottla.client.group_metadata import GroupMetadata
from ottla.client.producer.async_producer import AsyncProducer
from ottla.client.producer.values import SendFailed
from ottla.compat.aiokafka import settings
from ottla.compat.aiokafka.batches import BatchBuilder
from ottla.compat.aiokafka.bootstrap import wait_for_cluster
from ottla.compat.aiokafka.errors import IllegalOperation, ProducerClosed, theirs, translates
from ottla.compat.aiokafka.offsets import committable
from ottla.compat.aiokafka.partitioner import DefaultPartitioner
from ottla.compat.aiokafka.structs import RecordMetadata
from ottla.values import TopicPartition

_missing: Final = object()
_DEFAULT_PARTITIONER: Final = DefaultPartitioner()
_made: Final = itertools.count(1)
_COMPRESSIONS: Final = ("gzip", "snappy", "lz4", "zstd", None)


@translates
class AIOKafkaProducer:
    """See the module."""

    def __init__(
        self,
        *,
        loop: Any = None,
        bootstrap_servers: Any = "localhost",
        client_id: str | None = None,
        metadata_max_age_ms: int = 300_000,
        request_timeout_ms: int = 40_000,
        api_version: Any = None,
        acks: Any = _missing,
        key_serializer: Callable[[Any], Any] | None = None,
        value_serializer: Callable[[Any], Any] | None = None,
        compression_type: str | None = None,
        max_batch_size: int = 16_384,
        partitioner: Callable[..., int] = _DEFAULT_PARTITIONER,
        max_request_size: int = 1_048_576,
        linger_ms: int = 0,
        retry_backoff_ms: int = 100,
        security_protocol: str = "PLAINTEXT",
        ssl_context: Any = None,
        connections_max_idle_ms: int = 540_000,
        enable_idempotence: bool = False,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        sasl_mechanism: str = "PLAIN",
        sasl_plain_password: str | None = None,
        sasl_plain_username: str | None = None,
        sasl_kerberos_service_name: str = "kafka",
        sasl_kerberos_domain_name: str | None = None,
        sasl_oauth_token_provider: Any = None,
    ) -> None:
        written = dict(locals())
        written["client_id"] = client_id or f"aiokafka-producer-{next(_made)}"
        self._settings = settings.common(written) | _settings(written)
        self._servers = bootstrap_servers
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._partitioner = None if isinstance(partitioner, DefaultPartitioner) else partitioner
        self._ours: AsyncProducer | None = None
        self._closed = False
        self._in_transaction = False

    async def start(self) -> None:
        """Reach the cluster, and take over the transactional id when there is one."""
        assert self._ours is None, "Did you call `start` twice?"
        if self._partitioner is not None:
            self._settings["partitioner_class"] = self._partitioner
        self._ours = await AsyncProducer(**self._settings).start()
        try:
            limit_ms = self._settings["request_timeout_ms"]
            await wait_for_cluster(self._ours._core.network, self._servers, limit_ms)
            if "transactional_id" in self._settings:
                await self._ours.init_transactions()
        except BaseException:
            await self.stop()
            raise

    @property
    def _started(self) -> AsyncProducer:
        if self._closed:
            raise ProducerClosed
        if self._ours is None:
            raise IllegalOperation("start() was not called")
        return self._ours

    async def flush(self) -> None:
        """Wait until everything sent has its result; what failed is in the futures."""
        with contextlib.suppress(SendFailed):
            await self._started.flush()

    async def stop(self) -> None:
        """Send what is queued and end; what fails is in the futures. Calling it again does nothing."""
        self._closed = True
        if self._ours is not None:
            with contextlib.suppress(SendFailed, TimeoutError):
                await self._ours.close()

    async def partitions_for(self, topic: str) -> set[int]:
        return {each.partition for each in await self._started.partitions_for(topic)}

    # --- sending ---

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes]] | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Queue a record; the future has its RecordMetadata, or raises."""
        assert not (value is None and key is None), "Need at least one: key or value"
        ours = self._started
        self._check_transaction()
        sent = await ours.send(
            topic,
            value if self._value_serializer is None else self._value_serializer(value),
            key=key if self._key_serializer is None else self._key_serializer(key),
            partition=partition,
            timestamp_ms=timestamp_ms,
            headers=list(headers or ()),
        )
        return _future(sent)

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes]] | None = None,
    ) -> RecordMetadata:
        """Send a record and wait until the broker has it."""
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers))

    def create_batch(self) -> BatchBuilder:
        """An empty batch, to be filled with append() and sent with send_batch()."""
        return BatchBuilder(self._settings["batch_size"], self._key_serializer, self._value_serializer)

    async def send_batch(self, batch: BatchBuilder, topic: str, *, partition: int) -> asyncio.Future[RecordMetadata]:
        """Send the records of a batch, in order, to one partition; the future is that of the first one."""
        ours = self._started
        self._check_transaction()
        batch.close()
        futures = [
            await ours.send(
                topic, each.value, key=each.key, partition=partition, timestamp_ms=each.timestamp, headers=each.headers
            )
            for each in batch.records
        ]
        assert futures, "a batch needs a record"
        return _future_of_all([_future(each) for each in futures])

    # --- transactions ---

    def _check_transactional(self) -> None:
        if "transactional_id" not in self._settings:
            raise IllegalOperation("You need to configure transaction_id to use transactions")

    def _check_transaction(self) -> None:
        if "transactional_id" in self._settings and not self._in_transaction:
            raise IllegalOperation("Can't send messages while not in transaction")

    async def begin_transaction(self) -> None:
        self._check_transactional()
        await self._started.begin_transaction()
        self._in_transaction = True

    async def commit_transaction(self) -> None:
        self._check_transactional()
        await self._started.commit_transaction()
        self._in_transaction = False

    async def abort_transaction(self) -> None:
        self._check_transactional()
        await self._started.abort_transaction()
        self._in_transaction = False

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Committed when the block ends, aborted when it raises."""
        await self.begin_transaction()
        try:
            yield self
        except BaseException as error:
            fatal = isinstance(theirs(error), ProducerClosed) or type(error).__name__ == "ProducerFenced"
            if not fatal:
                await self.abort_transaction()
            raise
        await self.commit_transaction()

    async def send_offsets_to_transaction(self, offsets: Mapping[TopicPartition, Any], group_id: str) -> None:
        self._check_transactional()
        if not self._in_transaction:
            raise IllegalOperation("Not in the middle of a transaction")
        if not group_id or not isinstance(group_id, str):
            raise ValueError(group_id)
        await self._started.send_offsets_to_transaction(committable(offsets), GroupMetadata(group_id))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def _settings(written: Mapping[str, Any]) -> dict[str, Any]:
    acks, transactional_id = written["acks"], written["transactional_id"]
    idempotent = written["enable_idempotence"] or transactional_id is not None
    if acks is not _missing and acks not in (0, 1, -1, "all"):
        raise ValueError("Invalid ACKS parameter")
    if written["compression_type"] not in _COMPRESSIONS:
        raise ValueError("Invalid compression type!")
    if idempotent and acks is not _missing and acks not in ("all", -1):
        raise ValueError(f"acks={acks} not supported if enable_idempotence=True")
    chosen = ("all" if idempotent else 1) if acks is _missing else acks
    found = {
        "acks": "all" if chosen in (-1, "all") else str(chosen),
        "enable_idempotence": idempotent,
        "batch_size": written["max_batch_size"],
        "linger_ms": written["linger_ms"],
        "max_request_size": written["max_request_size"],
        "delivery_timeout_ms": written["linger_ms"] + written["request_timeout_ms"],
        "max_block_ms": written["request_timeout_ms"],
    }
    if written["compression_type"] is not None:
        found["compression_type"] = written["compression_type"]
    if transactional_id is not None:
        found |= {"transactional_id": transactional_id, "transaction_timeout_ms": written["transaction_timeout_ms"]}
    return found


def _future(sent: Any) -> asyncio.Future[RecordMetadata]:
    """Our future as one of asyncio with aiokafka's metadata."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[RecordMetadata] = loop.create_future()

    def ended(done: Any) -> None:
        loop.call_soon_threadsafe(_complete, future, done)

    sent.add_done_callback(ended)
    return future


def _complete(future: asyncio.Future[RecordMetadata], done: Any) -> None:
    if future.done():
        return
    error = done.exception()
    if error is not None:
        future.set_exception(theirs(error))
        future.exception()  # one that nobody awaits is no reason for a warning
        return
    found = done.result()
    partition = TopicPartition(found.topic, found.partition)
    future.set_result(
        RecordMetadata(found.topic, found.partition, partition, found.offset, found.timestamp_ms, 0, None)
    )


def _future_of_all(futures: list[asyncio.Future[RecordMetadata]]) -> asyncio.Future[RecordMetadata]:
    async def first() -> RecordMetadata:
        return (await asyncio.gather(*futures))[0]

    return asyncio.ensure_future(first())
