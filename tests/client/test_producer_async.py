"""The asyncio producer against a real broker: the same promises, on the caller's loop."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest
from tests.patience import HANG_S

from ottla.client.closed import ClientClosed
from ottla.client.producer.async_producer import AsyncProducer
from ottla.client.producer.transactions.states import TransactionMisuse
from ottla.client.producer.values import ProducerClosed, RecordTooLargeToSend, SendFailed
from ottla.errors import RequestTimedOut


def run(scenario):
    async def limited():
        async with asyncio.timeout(HANG_S):
            await scenario()

    asyncio.run(limited())


def test_records_are_sent_in_order_and_their_futures_awaited(kafka_broker, unique_topic):
    async def scenario():
        async with AsyncProducer(bootstrap_servers=kafka_broker.bootstrap_servers) as producer:
            futures = [await producer.send(unique_topic, b"%d" % number) for number in range(5000)]
            found = await asyncio.gather(*futures)
            assert [each.offset for each in found] == list(range(5000))
            assert (await producer.send_and_wait(unique_topic, "text", key="k")).offset == 5000
            many = await producer.send_many(unique_topic, [(b"k", b"v")] * 1000)
            assert [each.offset for each in await many] == list(range(5001, 6001))
            await producer.produce(unique_topic, b"no future")
            await producer.flush()
            assert len(producer) == 0
            assert producer.metrics()
            assert "memory" in str(producer.inspect())

    run(scenario)


def test_without_linger_a_record_finds_its_batch(kafka_broker, unique_topic):
    """A turn of the sender takes away a batch that is due and empty; without linger that was every new one."""

    async def scenario():
        async with AsyncProducer(bootstrap_servers=kafka_broker.bootstrap_servers, linger_ms=0) as producer:
            for number in range(20):
                assert (await producer.send_and_wait(unique_topic, b"%d" % number, partition=0)).offset == number

    run(scenario)


def test_a_loop_of_sends_lets_the_network_work(kafka_broker, unique_topic):
    """Memory for eight batches only: it must come back while the loop of sends runs."""

    async def scenario():
        settings = {"bootstrap.servers": kafka_broker.bootstrap_servers, "buffer.memory": 8 * 16384}
        async with AsyncProducer(settings) as producer:
            futures = [await producer.send(unique_topic, b"x" * 100) for _ in range(20_000)]
            assert (await futures[-1]).offset == 19_999

    run(scenario)


def test_errors_are_raised_where_they_are_known(kafka_broker, unique_topic):
    async def scenario():
        producer = AsyncProducer(bootstrap_servers=kafka_broker.bootstrap_servers)
        with pytest.raises(RecordTooLargeToSend):
            await producer.send(unique_topic, b"x" * 2_000_000)
        with pytest.raises(TransactionMisuse):
            await producer.begin_transaction()
        await producer.close()
        await producer.close()
        with pytest.raises(ProducerClosed):
            await producer.send(unique_topic, b"v")

    run(scenario)


def test_failures_nobody_heard_of_are_raised_at_the_end_of_the_block(kafka_broker_fresh):
    async def scenario():
        producer = AsyncProducer(
            bootstrap_servers=kafka_broker_fresh.bootstrap_servers,
            request_timeout_ms=200,
            delivery_timeout_ms=300,
            default_api_timeout_ms=200,
        )
        await producer.send_and_wait("t", b"v")
        await asyncio.to_thread(kafka_broker_fresh.stop)
        await producer.produce("t", b"lost")
        with pytest.raises(SendFailed) as failed:
            await producer.__aexit__(None, None, None)
        assert failed.value.count == 1
        assert failed.value.records[0].value == b"lost"

    run(scenario)


def test_waiting_for_a_topic_ends_after_max_block(kafka_broker_fresh):
    async def scenario():
        async with AsyncProducer(bootstrap_servers=kafka_broker_fresh.bootstrap_servers, max_block_ms=200) as producer:
            with pytest.raises(RequestTimedOut, match="partition 99"):
                await producer.send("t", b"v", partition=99)

    run(scenario)


async def send_and_fail(producer, topic):
    async with producer.transaction():
        await producer.send(topic, b"v")
        raise ZeroDivisionError


def test_transactions(kafka_broker, unique_topic):
    async def scenario():
        settings = {"bootstrap.servers": kafka_broker.bootstrap_servers, "transactional.id": unique_topic}
        async with AsyncProducer(settings) as producer:
            await producer.init_transactions()
            for _ in range(3):
                async with producer.transaction():
                    future = await producer.send(unique_topic, b"v")
                assert future.done()
            with pytest.raises(ZeroDivisionError):
                await send_and_fail(producer, unique_topic)

    run(scenario)


def test_cancelling_a_wait_leaves_the_producer_usable(kafka_broker, unique_topic):
    async def scenario():
        async with AsyncProducer(bootstrap_servers=kafka_broker.bootstrap_servers, linger_ms=50) as producer:
            future = await producer.send(unique_topic, b"v")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(_awaited(future)), 0.001)
            assert (await future).offset == 0

    run(scenario)


def test_a_cancelled_close_can_be_called_again_and_leaves_nothing_running(kafka_broker, unique_topic):
    async def scenario():
        before = asyncio.all_tasks()
        producer = AsyncProducer(bootstrap_servers=kafka_broker.bootstrap_servers)
        future = await producer.send(unique_topic, b"v")
        closing = asyncio.ensure_future(producer.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await producer.close()
        assert (await future).offset == 0
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before

    run(scenario)


def test_a_closed_producer_begins_and_commits_no_transaction(kafka_broker, unique_topic):
    async def scenario():
        producer = AsyncProducer(bootstrap_servers=kafka_broker.bootstrap_servers, transactional_id=unique_topic)
        await producer.init_transactions()
        await producer.close()
        for call in (producer.begin_transaction, producer.commit_transaction, producer.init_transactions):
            with pytest.raises(ClientClosed):
                await call()

    run(scenario)


def test_another_loop_is_told_so_by_every_call_that_waits(kafka_broker, unique_topic):
    producer = AsyncProducer(bootstrap_servers=kafka_broker.bootstrap_servers)

    async def elsewhere():
        for call in (producer.flush, producer.close, producer.start, producer.begin_transaction):
            with pytest.raises(RuntimeError, match="belongs to another event loop"):
                await call()

    async def scenario():
        await producer.send_and_wait(unique_topic, b"v")
        await asyncio.to_thread(asyncio.run, elsewhere())
        await producer.close()

    run(scenario)


def test_a_send_can_be_a_task_whether_or_not_it_has_to_wait(kafka_broker, unique_topic):
    async def scenario():
        async with AsyncProducer(bootstrap_servers=kafka_broker.bootstrap_servers) as producer:
            for offset in range(3):  # the first asks for the topic, the others find room at once
                sending = asyncio.create_task(producer.send(unique_topic, b"v"))
                assert (await (await sending)).offset == offset
                await asyncio.create_task(producer.produce(f"{unique_topic}-more", b"v"))
            cancelled = asyncio.create_task(producer.send(unique_topic, b"taken all the same"))
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled

    run(scenario)


async def _awaited(future):
    return await future


def test_the_rows_of_a_table_are_sent_through_little_memory(kafka_broker, unique_topic):
    async def scenario():
        settings = {"bootstrap.servers": kafka_broker.bootstrap_servers, "buffer.memory": 4 * 16384}
        async with AsyncProducer(settings) as producer:
            batch = pa.record_batch({"value": pa.array([b"x" * 100] * 5000)})
            future = await producer.send_arrow(unique_topic, batch, wants_future=True)
            assert [each.offset for each in await future] == list(range(5000))
            assert await producer.send_arrow(unique_topic, pa.Table.from_batches([batch])) is None
            await producer.flush()
            assert len(producer) == 0

    run(scenario)


def test_an_interceptor_sees_each_row_of_a_table(kafka_broker, unique_topic):
    class Seen:
        def __init__(self):
            self.values = []

        def on_send(self, record):
            self.values.append(record.value)
            return record

        def on_acknowledgement(self, metadata, error):
            pass

    async def scenario():
        seen = Seen()
        settings = {"bootstrap.servers": kafka_broker.bootstrap_servers, "interceptor.classes": [seen]}
        async with AsyncProducer(settings) as producer:
            table = pa.table({"value": ["a", None], "partition": [0, 0], "timestamp": [None, 5]})
            future = await producer.send_arrow(unique_topic, table, wants_future=True)
            assert [each.offset for each in await future] == [0, 1]
        assert seen.values == [b"a", None]

    run(scenario)
