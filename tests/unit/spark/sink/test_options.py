"""Options of the sink: defaults, what is refused, and what clients are told."""

from __future__ import annotations

import pytest

from ottla.spark.option_table import InvalidOption
from ottla.spark.sink.options import SINK_OPTIONS, SinkOptions

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def parse(streaming: bool = True, **options: str) -> SinkOptions:
    return SinkOptions.parse(
        {**SERVERS, **{name.replace("__", "."): text for name, text in options.items()}}, streaming=streaming
    )


@pytest.mark.parametrize(("streaming", "timeout_ms"), [(True, 900_000), (False, 300_000)])
def test_the_defaults_write_exactly_once(streaming, timeout_ms):
    options = parse(streaming)
    assert (options.is_exactly_once, options.transaction_timeout_ms, options.topic) == (True, timeout_ms, None)
    assert (options.include_headers, options.include_timestamp, options.single_transaction) == (True, False, False)


def test_names_are_told_apart_without_regard_to_case_and_sparks_own_pass():
    options = parse(deliveryguarantee="At-Least-Once", TOPIC="t", checkpointlocation="/c", queryname="q")
    assert (options.is_exactly_once, options.topic) == (False, "t")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"deliveryGuarantee": "once"}, "one of exactly-once, at-least-once"),
        ({"transactionalIdPrfix": "x"}, "did you mean transactionalIdPrefix?"),
        ({"kafka__bootstrap__servers": " "}, "kafka.bootstrap.servers is missing"),
        ({"kafka__transactional__id": "x"}, "transactionalIdPrefix"),
        ({"kafka__value__serializer": "x"}, "cast the column"),
        ({"kafka__interceptor__classes": "x"}, "change them in the query"),
        ({"kafka__acks": "1"}, "write with deliveryGuarantee=at-least-once"),
        ({"kafka__enable__idempotence": "false"}, "idempotence"),
        ({"kafka__no__such__thing": "1"}, "there is no setting 'no.such.thing'"),
        ({"kafka__transaction__timeout__ms": "300000"}, "not longer than driverRecovery"),
        ({"driverRecovery": "20m"}, "not longer than driverRecovery"),
        ({"singleTransaction": "true", "deliveryGuarantee": "at-least-once"}, "exactly-once"),
    ],
)
def test_what_is_wrong_is_told(given, told):
    with pytest.raises(InvalidOption) as caught:
        parse(**given)
    assert told in str(caught.value)


def test_a_batch_with_a_number_stays_open_as_long_as_a_restart_may_take():
    options = parse(streaming=False, jobName="totals", batchId="7")
    assert (options.job_name, options.batch_id, options.transaction_timeout_ms) == ("totals", 7, 900_000)
    with pytest.raises(InvalidOption, match="driverRecovery"):
        parse(streaming=False, jobName="totals", batchId="7", kafka__transaction__timeout__ms="60000")
    assert parse(streaming=False, kafka__transaction__timeout__ms="60000").transaction_timeout_ms == 60_000


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"batchId": "1"}, "batchId needs jobName"),
        ({"jobName": "a", "batchId": "-1"}, "a whole number, at least 0"),
        ({"jobName": "a b"}, "letters, digits"),
        ({"jobName": "a", "deliveryGuarantee": "at-least-once"}, "exactly-once"),
    ],
)
def test_names_of_jobs_are_checked(options, sentence):
    with pytest.raises(InvalidOption, match=sentence):
        parse(streaming=False, **options)


def test_a_stream_has_no_name_of_a_job():
    with pytest.raises(InvalidOption, match="a stream is known by its checkpoint"):
        parse(jobName="a")


def test_without_transactions_their_rules_do_not_count():
    options = parse(
        deliveryGuarantee="at-least-once", kafka__acks="1", kafka__enable__idempotence="false", driverRecovery="1d"
    )
    assert options.client_settings("producer")["acks"] == "1"
    assert "transactional.id" not in options.client_settings("producer")


def test_clients_are_told_what_means_something_to_them():
    options = parse(kafka__linger__ms="7", kafka__transaction__timeout__ms="400000", transactionalIdPrefix="mine")
    admin, producer = options.client_settings("admin"), options.transaction_settings("mine-q-0")
    assert "linger.ms" not in admin
    assert (producer["linger.ms"], producer["transactional.id"], producer["transaction.timeout.ms"]) == (
        "7",
        "mine-q-0",
        400_000,
    )
    assert admin["bootstrap.servers"] == producer["bootstrap.servers"] == "localhost:9092"
    assert str(admin["client.id"]).startswith("mine-")


def test_secrets_do_not_show():
    options = parse(kafka__sasl__jaas__config="x required password='hush';", kafka__sasl__mechanism="PLAIN")
    assert "hush" not in repr(options)


def test_every_option_has_a_sentence():
    assert all(option.doc.endswith(".") for option in SINK_OPTIONS)
    assert len({option.name.lower() for option in SINK_OPTIONS}) == len(SINK_OPTIONS)


def test_acks_that_exactly_once_cannot_have_are_right_for_at_least_once():
    assert parse(kafka__acks="1", deliveryGuarantee="at-least-once").client_settings("producer")["acks"] == "1"
    assert parse(kafka__acks="-1").is_exactly_once
