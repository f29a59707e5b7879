"""The producer in bad weather: futures are told once and the truth, order is kept, nothing is doubled or misrouted."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.client.weather import NONSENSE, SEEDS, Book, Storm
from tests.patience import FAR_MS, HANG_S, bounded, wait_until

from ottla.client.producer.async_producer import AsyncProducer
from ottla.client.producer.producer import Producer
from ottla.client.producer.values import SendFailed
from ottla.errors import (
    MessageTooLarge,
    OutOfOrderSequenceNumber,
    TopicAuthorizationFailed,
    UnknownServerError,
)
from ottla.testing import FakeBroker

TOPICS = {"a": 3, "b": 2}
PLACES = [(topic, partition) for topic, count in TOPICS.items() for partition in range(count)]
QUICK = {
    "request_timeout_ms": 300,
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 20,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 20,
    "delivery_timeout_ms": 60_000,
    "linger_ms": 1,
}


def settings(fake: FakeBroker, **more: object) -> dict[str, object]:
    return {"bootstrap_servers": fake.bootstrap_servers, **QUICK, **more}


@pytest.fixture
def fake():
    with FakeBroker(nodes=3) as fake:
        for topic, partitions in TOPICS.items():
            fake.create_topic(topic, partitions)
        yield fake


def send_through(fake: FakeBroker, storm: Storm, count: int, every: int, **more: object) -> Book:
    """Send `count` records while the weather changes with every `every` of them."""
    book = Book()
    with Producer(**settings(fake, **more)) as producer:
        for number in range(count):
            topic, partition = PLACES[number % len(PLACES)]
            value = book.value(topic, partition, number)
            book.watch(value, producer.send(topic, value, partition=partition))
            if number % every == every - 1:
                storm.blow()
                time.sleep(0.001)
        fake.slow_down()
    return book


# -- storms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_all_is_delivered_once_and_in_order_through_a_storm(fake, seed):
    book = send_through(fake, Storm(fake, seed), 10_000, 250, batch_size=2_000)
    assert book.failed() == {}
    book.check(fake, 10_000)


def test_asyncio_delivers_once_and_in_order_through_a_storm(fake):
    storm, book = Storm(fake, 11), Book()

    async def scenario() -> None:
        async with AsyncProducer(**settings(fake, batch_size=2_000)) as producer:
            for number in range(5_000):
                topic, partition = PLACES[number % len(PLACES)]
                value = book.value(topic, partition, number)
                book.watch(value, await producer.send(topic, value, partition=partition))
                if number % 250 == 249:
                    storm.blow()
                    await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(scenario(), HANG_S))
    assert book.failed() == {}
    book.check(fake, 5_000)


def test_one_request_at_a_time_keeps_order_without_idempotence(fake):
    more = {"enable_idempotence": False, "max_in_flight_requests_per_connection": 1, "batch_size": 2_000}
    book = send_through(fake, Storm(fake, 5), 5_000, 250, **more)
    assert book.failed() == {}
    book.check(fake, 5_000, no_duplicates=False)
    for place in PLACES:
        seen = dict.fromkeys(int(record.value.split(b"/")[2]) for record in fake.records(*place))
        assert list(seen) == sorted(seen), "what comes twice comes in order too"


def expire(count: int, seed: int) -> None:
    """Records that are too late in a slow world: their futures fail, the others stay true. How slow the machine is
    decides which limit some keep and some do not, so limits are tried until one is like that."""
    limit_ms = 150
    for _ in range(6):
        late = expire_within(limit_ms, count, seed)
        if 0 < late < count:
            return
        limit_ms = limit_ms * 3 if late else limit_ms // 2
    pytest.fail("all were late or none was, whatever the limit: this shows nothing")


def expire_within(limit_ms: int, count: int, seed: int) -> int:
    """How many were late."""
    with FakeBroker(nodes=3, requests_limit=100) as fake:
        for topic, partitions in TOPICS.items():
            fake.create_topic(topic, partitions)
        fake.slow_down(before_ms=2, piece_bytes=11, between_ms=0.5)
        storm = Storm(fake, seed)
        times = {"delivery_timeout_ms": limit_ms, "request_timeout_ms": limit_ms * 2 // 3}
        book = send_through(fake, storm, count, 500, batch_size=4_000, max_block_ms=60_000, **times)
        final = [error for error in book.failed().values() if not error.retriable]
        assert {type(error) for error in final} <= {OutOfOrderSequenceNumber}, (
            "too late is the only thing that is wrong"
        )
        book.check(fake, count)
        return len(book.failed())


def test_records_that_are_too_late_fail_and_the_others_are_where_they_say():
    expire(20_000, seed=3)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_a_million_records_under_expiry_and_slow_sockets(seed):
    expire(1_000_000, seed)


# -- one trouble at a time ---------------------------------------------------------------------------------------------


def test_a_batch_that_is_too_large_is_split_until_it_fits(fake):
    rule = fake.fail("Produce", "MESSAGE_TOO_LARGE", times=3, topic="a", partition=0)
    book = Book()
    with Producer(**settings(fake, linger_ms=50, batch_size=16_000)) as producer:
        for number in range(100):
            value = book.value("a", 0, number, 100)
            book.watch(value, producer.send("a", value, partition=0))
    assert rule.used == 3
    assert book.failed() == {}
    book.check(fake, 100)
    assert len(fake.log("a", 0).batches) > 1


def test_one_record_that_is_too_large_fails_and_the_next_goes_on(fake):
    fake.fail("Produce", "MESSAGE_TOO_LARGE", topic="a", partition=0)
    with Producer(**settings(fake)) as producer:
        with pytest.raises(MessageTooLarge):
            producer.send("a", b"a/0/1/", partition=0).result(HANG_S)
        assert producer.send("a", b"a/0/2/", partition=0).result(HANG_S).offset == 0


def test_a_log_that_forgot_the_producer_is_written_again_without_doubles(fake):
    book = Book()
    with Producer(**settings(fake)) as producer:
        for number in range(200):
            value = book.value("a", 0, number)
            future = producer.send("a", value, partition=0)
            book.watch(value, future)
            if number % 50 == 49:
                future.result(HANG_S)
                fake.forget_producers("a", 0)
    assert book.failed() == {}
    book.check(fake, 200)


@pytest.mark.parametrize("error", ["OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH"])
def test_trouble_with_sequence_numbers_ends_in_the_truth(fake, error):
    book = Book()
    with Producer(**settings(fake, batch_size=300)) as producer:
        for number in range(300):
            if number == 100:
                fake.fail("Produce", error, topic="a", partition=0)
            value = book.value("a", 0, number)
            book.watch(value, producer.send("a", value, partition=0))
            time.sleep(0.0001)
    book.check(fake, 300)


def test_what_may_not_be_written_fails_at_once(fake):
    fake.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", times=None, topic="a")
    with Producer(**settings(fake)) as producer:
        with bounded(), pytest.raises(TopicAuthorizationFailed):
            producer.send("a", b"a/0/1/", partition=0).result(FAR_MS / 1000)
        assert producer.send("b", b"b/0/1/", partition=0).result(HANG_S).offset == 0
    assert fake.records("a", 0) == []


@pytest.mark.parametrize("how", NONSENSE)
def test_hostile_answers_cost_a_connection_and_no_record(fake, how):
    fake.garble("Produce", how, times=2)
    book = Book()
    with Producer(**settings(fake)) as producer:
        for number in range(50):
            value = book.value("a", 0, number)
            book.watch(value, producer.send("a", value, partition=0))
            time.sleep(0.0005)
    assert book.failed() == {}
    book.check(fake, 50)


@pytest.mark.parametrize("api", ["Metadata", "ApiVersions", "InitProducerId"])
@pytest.mark.parametrize("how", NONSENSE)
def test_hostile_answers_to_other_questions_do_not_matter_either(fake, api, how):
    fake.garble(api, how, times=2)
    with Producer(**settings(fake)) as producer:
        assert producer.send("a", b"a/0/0/", partition=0).result(HANG_S).offset == 0


def _other_partition(request, response):
    for topic in response.responses:
        for part in topic.partition_responses:
            part.index += 1
    return response


def _other_topic(request, response):
    for topic in response.responses:
        topic.name, topic.topic_id = "z", bytes(15) + b"z"
    return response


def _nothing(request, response):
    response.responses = []
    return response


def _everything_twice(request, response):
    response.responses = response.responses * 2
    return response


@pytest.mark.parametrize("change", [_other_partition, _other_topic, _nothing, _everything_twice])
def test_an_answer_about_something_else_is_no_answer(fake, change):
    fake.change("Produce", change)
    book = Book()
    with Producer(**settings(fake)) as producer:
        for number in range(20):
            value = book.value("a", 0, number)
            book.watch(value, producer.send("a", value, partition=0))
            time.sleep(0.0005)
    # Nobody knows what became of those that were not mentioned; they are failed, and what is said of others is true.
    assert {type(error) for error in book.failed().values()} <= {UnknownServerError}
    book.check(fake, 20)


def test_a_throttled_producer_waits_and_delivers(fake):
    fake.throttle("Produce", ms=300, node=1)
    with Producer(**settings(fake)) as producer:
        began = time.monotonic()
        producer.send("a", b"a/0/0/", partition=0).result(HANG_S)
        producer.send("a", b"a/0/1/", partition=0).result(HANG_S)
        assert time.monotonic() - began >= 0.3


def test_a_cluster_that_is_gone_for_a_while_gets_everything(fake):
    book = Book()
    with Producer(**settings(fake)) as producer:
        for number in range(300):
            value = book.value("b", 0, number)
            book.watch(value, producer.send("b", value, partition=0))
            if number == 100:
                for node in (1, 2, 3):
                    fake.stop_node(node)
            if number == 200:
                time.sleep(0.3)
                for node in (1, 2, 3):
                    fake.start_node(node)
    assert book.failed() == {}
    book.check(fake, 300)


def test_closing_is_bounded_when_nobody_answers_and_says_what_was_lost(fake):
    fake.mute("Produce", times=None)
    producer = Producer(**settings(fake, request_timeout_ms=FAR_MS, delivery_timeout_ms=2 * FAR_MS))
    future = producer.send("a", b"a/0/0/", partition=0)
    producer.produce("a", b"a/0/1/", partition=0)
    wait_until(lambda: fake.asked("Produce"), "the request")
    with bounded(), pytest.raises(SendFailed) as raised:
        producer.close(timeout=0.3)
    assert raised.value.count >= 1
    assert future.exception(0) is not None


def test_leaders_that_keep_moving_do_not_lose_order(fake):
    book = Book()
    with Producer(**settings(fake, batch_size=500)) as producer:
        for number in range(3_000):
            value = book.value("a", 0, number)
            book.watch(value, producer.send("a", value, partition=0))
            if number % 100 == 99:
                fake.move_leader("a", 0, to=1 + number // 100 % 3)
                time.sleep(0.002)
    assert book.failed() == {}
    book.check(fake, 3_000)


def test_with_acks_0_a_slow_broker_has_heard_everything_when_close_returns(fake):
    fake.delay("Produce", ms=20, times=None)
    with Producer(**settings(fake, acks=0, request_timeout_ms=5_000, batch_size=100)) as producer:
        for number in range(30):
            producer.send("a", b"%02d" % number, partition=0)
    assert [record.value for record in fake.records("a", 0)] == [b"%02d" % number for number in range(30)]


def test_with_acks_0_closing_waits_for_a_broker_that_says_nothing_only_so_long(fake):
    producer = Producer(**settings(fake, acks=0, request_timeout_ms=FAR_MS, delivery_timeout_ms=2 * FAR_MS))
    producer.send("a", b"x", partition=0).result(HANG_S)
    fake.mute("ApiVersions", times=None)
    with bounded():
        producer.close(1)
