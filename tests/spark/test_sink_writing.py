"""The sink with real Spark: batches and streams, columns and options, and what a user is told."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tests.patience import HANG_S

from ottla import Admin, Consumer, NewTopic, TopicPartition
from ottla.spark.option_table import InvalidOption
from ottla.testing import KafkaBroker

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")


@pytest.fixture
def admin(broker: KafkaBroker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as made:
        yield made


def read(broker: KafkaBroker, topic: str, count: int, isolation: str = "read_committed") -> list[Any]:
    """All records of a topic, at least `count` of them."""
    settings = {"isolation_level": isolation, "auto_offset_reset": "earliest", "fetch_max_wait_ms": 100}
    found: list[Any] = []
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        partitions = len(admin.describe_topics([topic])[topic].partitions)
    with Consumer(bootstrap_servers=broker.bootstrap_servers, **settings) as consumer:
        consumer.assign([TopicPartition(topic, index) for index in range(partitions)])
        deadline = time.monotonic() + HANG_S
        while len(found) < count and time.monotonic() < deadline:
            found += consumer.poll(0.2)
        found += consumer.poll(0.2)
    return found


def values(records: list[Any]) -> Counter[bytes]:
    return Counter(record.value for record in records)


def write(frame: Any, broker: KafkaBroker, **options: str) -> None:
    writer = frame.write.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap_servers).mode("append")
    for name, value in options.items():
        writer = writer.option(name.replace("__", "."), value)
    writer.save()


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_a_batch_is_written_and_read_back(spark, broker, admin, unique_topic, guarantee):
    admin.create_topics([NewTopic(unique_topic, 3)])
    frame = spark.range(1000).selectExpr("cast(id as string) as key", "concat('v', id) as value").repartition(3)
    write(frame, broker, topic=unique_topic, deliveryGuarantee=guarantee)
    found = read(broker, unique_topic, 1000)
    assert values(found) == Counter(b"v%d" % number for number in range(1000))
    assert {record.key: record.value for record in found}[b"7"] == b"v7"


def test_keys_go_where_every_producer_sends_them(spark, broker, admin, unique_topic):
    from ottla import Producer

    admin.create_topics([NewTopic(unique_topic, 5)])
    write(spark.range(50).selectExpr("cast(id as string) as key", "'spark' as value"), broker, topic=unique_topic)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_many(unique_topic, [(str(number), "client") for number in range(50)])
    places: dict[bytes, set[int]] = {}
    for record in read(broker, unique_topic, 100):
        places.setdefault(record.key, set()).add(record.partition)
    assert all(len(found) == 1 for found in places.values())
    assert len({min(found) for found in places.values()}) == 5


def test_every_column_reaches_the_record(spark, broker, admin, unique_topic):
    other = f"{unique_topic}-2"
    admin.create_topics([NewTopic(unique_topic, 3), NewTopic(other, 1)])
    frame = spark.sql(
        f"""select * from values
        (cast('k' as binary), cast('a' as binary), '{unique_topic}', 2, timestamp '2026-01-02 03:04:05Z',
         array(named_struct('key', 'h', 'value', cast('1' as binary)),
               named_struct('key', 'n', 'value', cast(null as binary)))),
        (null, null, '{other}', null, null, null)
        as rows(key, value, topic, partition, timestamp, headers)"""
    )
    write(frame, broker, includeTimestamp="true")
    (first,) = read(broker, unique_topic, 1)
    (second,) = read(broker, other, 1)
    assert (first.key, first.value, first.partition, first.timestamp_ms) == (b"k", b"a", 2, 1_767_323_045_000)
    assert list(first.headers) == [("h", b"1"), ("n", None)]
    assert (second.key, second.value, list(second.headers)) == (None, None, [])
    assert abs(second.timestamp_ms - time.time() * 1000) < 120_000


def test_headers_and_times_can_be_left_out_and_the_option_wins_over_the_column(spark, broker, admin, unique_topic):
    admin.create_topics([NewTopic(unique_topic, 1)])
    frame = spark.sql(
        """select 'v' as value, 'not-this-topic' as topic, timestamp '2020-01-01 00:00:00Z' as timestamp,
        array(named_struct('key', 'h', 'value', cast('1' as binary))) as headers, 17L as offset"""
    )
    write(frame, broker, topic=unique_topic, includeHeaders="false")
    (record,) = read(broker, unique_topic, 1)
    assert (record.value, list(record.headers)) == (b"v", [])
    assert record.timestamp_ms > 1_700_000_000_000


@pytest.mark.parametrize(
    ("select", "options", "told"),
    [
        ("1 as value", {"topic": "t"}, "column `value` is int, it must be string or binary"),
        ("'a' as text", {"topic": "t"}, "there is no column `value`; there are text"),
        ("'a' as value", {}, "neither an option `topic` nor a column `topic`"),
        ("'a' as value, 1L as partition", {"topic": "t"}, "column `partition` is bigint, it must be int"),
        ("'a' as value, array('x') as headers", {"topic": "t"}, "array<struct<key:string,value:binary>>"),
        ("'a' as value", {"topic": "t", "deliveryguarantee": "twice"}, "one of exactly-once, at-least-once"),
        ("'a' as value", {"topic": "t", "topics": "x"}, "did you mean topic?"),
        ("'a' as value", {"topic": "t", "kafka__transactional__id": "x"}, "transactionalIdPrefix"),
        ("'a' as value", {"topic": "t", "kafka__acks": "1"}, "acks"),
        ("'a' as value", {"topic": "t", "batchId": "1"}, "batchId needs jobName"),
    ],
)
def test_what_is_wrong_is_told_before_the_first_record(spark, broker, select, options, told):
    with pytest.raises(Exception) as caught:
        write(spark.sql(f"select {select}"), broker, **options)
    assert told in str(caught.value)


def test_a_topic_cannot_be_overwritten(spark, broker, unique_topic):
    frame = spark.sql("select 'a' as value").write.format("ottla")
    frame = frame.option("kafka.bootstrap.servers", broker.bootstrap_servers).option("topic", unique_topic)
    with pytest.raises(Exception, match="append"):
        frame.mode("overwrite").save()


def test_nothing_of_a_failed_job_shows(spark, broker, admin, unique_topic):
    admin.create_topics([NewTopic(unique_topic, 2)])
    quick = spark.range(0, 200, 1, 1).selectExpr("cast(id as string) as value")
    failing = spark.range(0, 50_000, 1, 1).selectExpr(
        "case when id = 49999 then raise_error('no such row') else cast(id as string) end as value"
    )
    frame = quick.union(failing)
    with pytest.raises(Exception, match="no such row"):
        write(frame, broker, topic=unique_topic)
    write(spark.sql("select 'after' as value"), broker, topic=unique_topic)
    assert values(read(broker, unique_topic, 1)) == Counter([b"after"])
    assert admin.list_transactions(states=["Ongoing"]) == []


def test_one_transaction_needs_one_partition(spark, broker, admin, unique_topic):
    admin.create_topics([NewTopic(unique_topic, 2)])
    frame = spark.range(0, 20, 1, 2).selectExpr("cast(id as string) as value")
    with pytest.raises(Exception, match=r"coalesce\(1\)"):
        write(frame, broker, topic=unique_topic, singleTransaction="true")
    write(frame.coalesce(1), broker, topic=unique_topic, singleTransaction="true")
    assert values(read(broker, unique_topic, 20)) == Counter(b"%d" % number for number in range(20))


def test_a_time_out_that_the_broker_does_not_allow_is_told_in_words(spark, broker, unique_topic):
    frame = spark.sql("select 'a' as value")
    with pytest.raises(Exception, match=r"Raise transaction\.max\.timeout\.ms on the brokers"):
        write(frame, broker, topic=unique_topic, kafka__transaction__timeout__ms="3600000")


# --- streams ----------------------------------------------------------------------------------------------------------


def stream(frame: Any, broker: KafkaBroker, topic: str, checkpoint: Any, **options: str) -> Any:
    writer = frame.writeStream.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    writer = writer.option("topic", topic).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    for name, value in options.items():
        writer = writer.option(name, value)
    query = writer.start()
    query.awaitTermination(HANG_S * 4)
    assert query.exception() is None
    return query


@pytest.fixture
def numbers(broker: KafkaBroker, admin: Admin, unique_topic: str) -> str:
    """A topic with 1,000 numbers in two partitions."""
    from ottla import Producer

    admin.create_topics([NewTopic(f"{unique_topic}-in", 2), NewTopic(unique_topic, 3)])
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for partition in range(2):
            producer.send_many(
                f"{unique_topic}-in", [b"%d" % n for n in range(partition, 1000, 2)], partition=partition
            )
    return f"{unique_topic}-in"


def reading(spark: Any, broker: KafkaBroker, topic: str, **options: str) -> Any:
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_a_stream_goes_from_topic_to_topic(spark, broker, numbers, unique_topic, tmp_path, guarantee):
    frame = reading(spark, broker, numbers, maxOffsetsPerTrigger="400").selectExpr("key", "value")
    query = stream(frame, broker, unique_topic, tmp_path, deliveryGuarantee=guarantee)
    assert values(read(broker, unique_topic, 1000)) == Counter(b"%d" % number for number in range(1000))
    assert len([each for each in query.recentProgress if each.numInputRows]) == 3


def test_a_stream_that_goes_on_writes_only_what_is_new(spark, broker, numbers, unique_topic, tmp_path):
    from ottla import Producer

    for _ in range(2):
        stream(reading(spark, broker, numbers).selectExpr("value"), broker, unique_topic, tmp_path)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_many(numbers, [b"new-%d" % number for number in range(10)])
    stream(reading(spark, broker, numbers).selectExpr("value"), broker, unique_topic, tmp_path)
    found = values(read(broker, unique_topic, 1010))
    assert found.total() == len(found) == 1010


def test_the_marker_topic_is_made_and_markers_say_which_batch_was_written(
    spark, broker, admin, numbers, unique_topic, tmp_path
):
    frame = reading(spark, broker, numbers, maxOffsetsPerTrigger="500").selectExpr("value")
    options = {"markerTopic": f"{unique_topic}-markers", "transactionalIdPrefix": unique_topic}
    query = stream(frame, broker, unique_topic, tmp_path, **options)
    offsets = admin.list_consumer_group_offsets(f"{unique_topic}-{query.id}")
    assert {place.topic for place in offsets} == {f"{unique_topic}-markers"}
    assert offsets[TopicPartition(f"{unique_topic}-markers", 0)].offset == 2


def test_a_checkpoint_that_was_set_back_is_refused(spark, broker, numbers, unique_topic, tmp_path):
    frame = reading(spark, broker, numbers, maxOffsetsPerTrigger="200").selectExpr("value")
    stream(frame, broker, unique_topic, tmp_path)
    for kind in ("commits", "offsets"):
        for path in (tmp_path / kind).iterdir():
            if path.name.lstrip(".").split(".")[0] in ("2", "3", "4"):
                path.unlink()
    with pytest.raises(Exception, match="A later batch of this query was written already"):
        stream(frame, broker, unique_topic, tmp_path)
    assert values(read(broker, unique_topic, 1000)).total() == 1000


def test_sources_of_others_are_written_too(spark, broker, admin, unique_topic, tmp_path):
    admin.create_topics([NewTopic(unique_topic, 2)])
    (tmp_path / "in").mkdir()
    for name in "ab":
        (tmp_path / "in" / f"{name}.txt").write_text("\n".join(f"{name}{number}" for number in range(50)))
    frame = spark.readStream.schema("value string").option("maxFilesPerTrigger", 1).text(str(tmp_path / "in"))
    stream(frame, broker, unique_topic, tmp_path / "checkpoint", singleTransaction="true")
    assert values(read(broker, unique_topic, 100)) == Counter(f"{name}{n}".encode() for name in "ab" for n in range(50))


def test_update_mode_is_refused_by_start_and_foreach_batch_does_it(spark, broker, admin, unique_topic, tmp_path):
    """The snippet of docs/spark.md."""
    from ottla import Producer

    source = f"{unique_topic}-in"
    admin.create_topics([NewTopic(source, 1), NewTopic(unique_topic, 1)])
    totals = reading(spark, broker, source).selectExpr("cast(value as string) as page").groupBy("page").count()
    refused = totals.selectExpr("page as value").writeStream.format("ottla").outputMode("update")
    with pytest.raises(InvalidOption, match="foreachBatch"):
        refused.option("kafka.bootstrap.servers", broker.bootstrap_servers).option("topic", unique_topic).start()

    def write_totals(rows: Any, batch_id: int) -> None:
        options = {"topic": unique_topic, "jobName": unique_topic, "batchId": batch_id}
        write(rows.selectExpr("page as key", "cast(count as string) as value"), broker, **options)

    query = totals.writeStream.outputMode("update").foreachBatch(write_totals)
    query = query.option("checkpointLocation", str(tmp_path)).start()
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for pages in (["/", "/tea", "/"], ["/tea"]):
            producer.send_many(source, pages)
            producer.flush()
            query.processAllAvailable()
    query.stop()
    found = sorted((record.key, record.value) for record in read(broker, unique_topic, 3))
    assert found == [(b"/", b"2"), (b"/tea", b"1"), (b"/tea", b"2")]
