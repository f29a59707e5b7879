"""The options of the source: Spark's names, defaults and refusals, and ours."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest

from ottla.client.admin.settings import AdminSettings
from ottla.client.consumer.settings import ConsumerSettings
from ottla.spark.option_table import InvalidOption
from ottla.spark.source.option_rows import EARLIEST, LATEST, SOURCE_OPTIONS, Bound
from ottla.spark.source.options import SourceOptions
from ottla.values import TopicPartition

LEAST = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "clicks"}


def stream(**more: str) -> SourceOptions:
    return SourceOptions.parse({**LEAST, **_dotted(more)}, streaming=True)


def batch(**more: str) -> SourceOptions:
    return SourceOptions.parse({**LEAST, **_dotted(more)}, streaming=False)


def _dotted(options: dict[str, str]) -> dict[str, str]:
    return {name.replace("__", "."): value for name, value in options.items()}


# --- defaults --------------------------------------------------------------------------------------------------------


def test_a_stream_begins_at_latest_and_a_batch_reads_from_earliest_to_latest() -> None:
    assert stream().starting == Bound(place=LATEST)
    assert batch().starting == Bound(place=EARLIEST)
    assert batch().ending == Bound(place=LATEST)


def test_defaults_are_those_of_the_connector() -> None:
    found = stream()
    assert found.fail_on_data_loss is True
    assert found.poll_timeout_ms == 120_000
    assert (found.retry_limit, found.retry_interval_ms) == (3, 10)
    assert found.partition_cache_ms == -1
    assert found.max_trigger_delay_ms == 15 * 60_000
    assert found.isolation_level == "read_uncommitted"
    assert found.include_headers is False
    assert found.timestamp_strategy == "error"
    assert (found.group_id_prefix, batch().group_id_prefix) == ("spark-kafka-source", "spark-kafka-relation")
    assert found.max_time_per_trigger_ms == 300_000, "a batch that is longer than a transaction may be is trouble"
    assert batch().max_time_per_trigger_ms is None


def test_every_option_is_declared_once_with_a_sentence() -> None:
    names = [each.name.lower() for each in SOURCE_OPTIONS]
    assert len(set(names)) == len(names) == 36
    assert all(each.doc.endswith(".") for each in SOURCE_OPTIONS)


# --- what is read ----------------------------------------------------------------------------------------------------


def test_topics_are_a_list_a_pattern_or_partitions() -> None:
    assert stream(subscribe=" a, b ,,a").topics.names == ("a", "b")
    base = {"kafka.bootstrap.servers": "localhost:9092"}
    found = SourceOptions.parse({**base, "subscribePattern": "click.*"}, streaming=True).topics
    assert found.matches("clicks")
    assert not found.matches("my-clicks")
    found = SourceOptions.parse({**base, "assign": '{"a": [1, 0], "b": [2]}'}, streaming=True).topics
    assert found.assigned == (TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 2))
    assert found.names == ("a", "b")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "none is given"),
        ({"subscribe": "a", "subscribePattern": "b"}, "subscribe and subscribePattern are given"),
        ({"subscribe": " , "}, "a list of topics"),
        ({"subscribePattern": "("}, "a regular expression"),
        ({"assign": "clicks"}, "a JSON object"),
        ({"assign": '{"t": []}'}, "a list of partitions"),
        ({"assign": '{"t": 0}'}, "a list of partitions"),
        ({"assign": '{"t": [-1]}'}, "numbers of partitions"),
    ],
)
def test_exactly_one_of_three_says_what_to_read(options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        SourceOptions.parse({"kafka.bootstrap.servers": "localhost:9092", **options}, streaming=True)


def test_brokers_must_be_named() -> None:
    with pytest.raises(InvalidOption, match=r"kafka\.bootstrap\.servers is missing"):
        SourceOptions.parse({"subscribe": "a"}, streaming=True)


# --- begin and end ---------------------------------------------------------------------------------------------------


def test_offsets_are_given_one_by_one() -> None:
    found = stream(startingOffsets='{"clicks": {"0": 23, "1": -2, "2": -1}}').starting
    expected = {0: 23, 1: EARLIEST, 2: LATEST}
    assert found.offsets == {TopicPartition("clicks", index): offset for index, offset in expected.items()}


def test_one_time_wins_over_times_and_these_over_offsets() -> None:
    by_time = '{"clicks": {"0": 5}}'
    found = stream(startingTimestamp="7", startingOffsetsByTimestamp=by_time, startingOffsets="earliest").starting
    assert found == Bound(timestamp_ms=7)
    found = stream(startingOffsetsByTimestamp=by_time, startingOffsets="earliest").starting
    assert found == Bound(timestamps_ms={TopicPartition("clicks", 0): 5})


@pytest.mark.parametrize("offsets", ["latest", '{"clicks": {"0": -1}}'])
def test_a_batch_cannot_begin_at_latest(offsets: str) -> None:
    with pytest.raises(InvalidOption, match="cannot be latest"):
        batch(startingOffsets=offsets)


@pytest.mark.parametrize("offsets", ["earliest", '{"clicks": {"0": -2}}'])
def test_a_batch_cannot_end_at_earliest(offsets: str) -> None:
    with pytest.raises(InvalidOption, match="cannot be earliest"):
        batch(endingOffsets=offsets)


@pytest.mark.parametrize("option", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(option: str) -> None:
    values = {"endingOffsets": "latest", "endingTimestamp": "5", "endingOffsetsByTimestamp": '{"clicks": {"0": 5}}'}
    with pytest.raises(InvalidOption, match=f"a stream has no end, so {option}"):
        stream(**{option: values[option]})


def test_what_is_not_known_yet_is_checked_for_both() -> None:
    SourceOptions.parse({**LEAST, "startingOffsets": "latest"}, streaming=None)
    SourceOptions.parse({**LEAST, "endingOffsets": "latest"}, streaming=None)
    with pytest.raises(InvalidOption, match="startingOffsets"):
        SourceOptions.parse({**LEAST, "startingOffsets": "first"}, streaming=None)


@pytest.mark.parametrize(
    ("begin", "end", "words"),
    [
        ({"startingOffsets": '{"t": {"0": 5}}'}, {"endingOffsets": '{"t": {"0": 4}}'}, "is 5, after its end 4"),
        ({"startingOffsets": '{"t": {"0": 5}}'}, {"endingOffsets": '{"t": {"1": 9}}'}, "the same partitions"),
        ({"startingTimestamp": "9"}, {"endingTimestamp": "8"}, "is later than"),
    ],
)
def test_an_end_before_the_beginning_is_refused(begin: dict[str, str], end: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        batch(**begin, **end)


def test_a_begin_and_an_end_that_only_the_cluster_knows_are_not_compared() -> None:
    assert batch(startingOffsets='{"t": {"0": 5}}', endingOffsets='{"t": {"0": -1}}').ending.offsets is not None


@pytest.mark.parametrize(
    "value", ['{"t": {"0": -3}}', '{"t": {"x": 1}}', '{"t": 5}', "{}", '{"t": {"0": true}}', "begin"]
)
def test_offsets_that_make_no_sense_are_refused(value: str) -> None:
    with pytest.raises(InvalidOption, match="startingOffsets="):
        stream(startingOffsets=value)


# --- limits ----------------------------------------------------------------------------------------------------------


def test_limits_are_read_with_their_units() -> None:
    found = stream(
        maxOffsetsPerTrigger="100",
        minOffsetsPerTrigger="10",
        maxTriggerDelay="1m",
        maxBytesPerTrigger="64m",
        maxTimePerTrigger="10s",
    )
    assert (found.max_offsets_per_trigger, found.min_offsets_per_trigger, found.max_trigger_delay_ms) == (
        100,
        10,
        60_000,
    )
    assert (found.max_bytes_per_trigger, found.max_time_per_trigger_ms) == (64 << 20, 10_000)


def test_a_least_above_the_most_is_refused() -> None:
    with pytest.raises(InvalidOption, match="minOffsetsPerTrigger=11 is more than maxOffsetsPerTrigger=10"):
        stream(maxOffsetsPerTrigger="10", minOffsetsPerTrigger="11")


def test_limits_are_passed_over_in_a_batch_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        batch(maxOffsetsPerTrigger="10", commitGroupId="g")
    assert [record.getMessage() for record in caplog.records] == [
        "maxOffsetsPerTrigger, commitGroupId count only in a streaming query and are passed over in this batch"
    ]


@pytest.mark.parametrize(
    "name", ["minPartitions", "maxRecordsPerPartition", "maxOffsetsPerTrigger", "kafkaConsumer.pollTimeoutMs"]
)
def test_counts_are_positive(name: str) -> None:
    with pytest.raises(InvalidOption, match=f"{name}='0'"):
        SourceOptions.parse({**LEAST, name: "0"}, streaming=True)


# --- the client ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit", "interceptor.classes"],
)
def test_settings_that_the_source_decides_are_refused_with_a_reason(name: str) -> None:
    with pytest.raises(InvalidOption, match=f"kafka.{name} cannot be set: "):
        SourceOptions.parse({**LEAST, f"kafka.{name}": "x"}, streaming=True)


def test_an_unknown_setting_of_the_client_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"fetch\.min\.bites"):
        stream(kafka__fetch__min__bites="1")


def test_each_kind_of_client_gets_what_it_knows() -> None:
    found = stream(kafka__fetch__min__bytes="7", kafka__request__timeout__ms="1000", kafka__group__id="g")
    admin, consumer = found.client_settings("admin"), found.client_settings("consumer")
    assert admin == {
        "bootstrap.servers": "localhost:9092",
        "request.timeout.ms": "1000",
        "client.id": "g-driver",
    }
    assert consumer["fetch.min.bytes"] == "7"
    assert consumer["group.id"] == "g"
    assert consumer["enable.auto.commit"] == "false"
    AdminSettings(admin)
    ConsumerSettings(consumer)


def test_the_prefix_names_our_clients() -> None:
    assert stream(groupIdPrefix="mine").client_settings("admin")["client.id"] == "mine-driver"
    assert stream(groupIdPrefix="mine", kafka__client__id="c").client_settings("admin")["client.id"] == "c"


def test_a_group_id_names_them_instead(caplog: pytest.LogCaptureFixture) -> None:
    found = stream(groupIdPrefix="mine", kafka__group__id="g")
    assert found.client_settings("admin")["client.id"] == "g-driver"
    assert "groupIdPrefix is passed over" in caplog.text


def test_the_isolation_level_is_said_in_either_way_but_not_in_two() -> None:
    assert stream(isolationLevel="read_committed").client_settings("consumer")["isolation.level"] == "read_committed"
    assert stream(kafka__isolation__level="read_committed").isolation_level == "read_committed"
    both: dict[str, Any] = {"isolationLevel": "read_committed", "kafka__isolation__level": "read_uncommitted"}
    with pytest.raises(InvalidOption, match="differ; give one of them"):
        stream(**both)


def test_secrets_are_not_shown() -> None:
    secret = "hunter2"
    found = stream(
        kafka__sasl__jaas__config=f'x required username="u" password="{secret}";',
        schemaRegistryUrl=f"http://u:{secret}@host",
    )
    assert secret not in repr(found)
    with pytest.raises(InvalidOption) as caught:
        stream(kafka__ssl__keystore__password=secret, kafka__security__protocol="NONSENSE")
    assert secret not in str(caught.value)


def test_options_travel_to_the_workers() -> None:
    found = stream(kafka__sasl__username="u", valueFormat="json", valueSchema="a int")
    assert pickle.loads(pickle.dumps(found)) == found


def test_formats_are_read_here_for_the_rows() -> None:
    found = batch(keyFormat="string", valueFormat="JSON", valueSchema="a int", badRecords="null", includeHeaders="true")
    assert (found.key_format, found.value_format, found.value_schema) == ("string", "json", "a int")
    assert (found.bad_records, found.include_headers) == ("null", True)
    with pytest.raises(InvalidOption, match="one of binary, string, json, avro"):
        batch(valueFormat="xml")
