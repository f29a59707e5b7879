"""A broker that has worked shows every metric of the table, with the kind and labels that stand there, and sense."""

from __future__ import annotations

import math

import pytest
from tests.client.metrics_workload import COMMITTED, GROUP, PARTITIONS, RECORDS, TOPIC, worked
from tests.client.scraped import scrape

from ottla.broker.observe.metric_table import SUMMARY, TABLE
from ottla.testing.broker import KafkaBroker

# What one broker without logins, address quotas or leaders elsewhere has no series of.
NOT_HERE = {
    "kafka_server_fetcherlagmetrics_consumerlag": "it follows nobody",
    "kafka_server_socket_server_metrics_connection_accept_rate": "no address has a quota",
    "kafka_server_socket_server_metrics_connection_accept_throttle_time": "no connection had to wait",
    "kafka_server_socket_server_metrics_ip_connection_accept_throttle_time": "none was refused",
    "kafka_server_socket_server_metrics_successful_authentication_total": "nobody logs in",
    "kafka_server_socket_server_metrics_failed_authentication_total": "nobody logs in",
    "kafka_server_socket_server_metrics_successful_reauthentication_total": "nobody logs in",
    "kafka_server_socket_server_metrics_failed_reauthentication_total": "nobody logs in",
    "kafka_server_socket_server_metrics_expired_connections_killed_total": "nobody logs in",
    "kafka_server_client_metrics_throttle_count": "no client pushes metrics",
    "kafka_server_client_metrics_plugin_export_count": "no client pushes metrics",
    "kafka_server_client_metrics_plugin_error_count": "no client pushes metrics",
    "ottla_client_info": "no client pushes metrics",
    "ottla_client_metric": "no client pushes metrics",
    "ottla_metrics_series_overflow_total": "no limit was reached",
    "ottla_metrics_read_failure_total": "all could be read",
}
NAN_WHEN_NOBODY_WAITED = ("throttle_time",)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    settings = {"ottla.admin.listener": "127.0.0.1:0", "broker.rack": "r1"}
    started = KafkaBroker(settings, directory=tmp_path_factory.mktemp("data"))
    with started as broker, worked(broker.bootstrap_servers):
        yield scrape(broker.info.admin_address)


def test_every_metric_is_there_with_its_kind_and_labels(found):
    assert {name: what for name in TABLE if name not in NOT_HERE and (what := difference(found, name))} == {}


def difference(found, name):
    """What is shown otherwise than the table says."""
    row = TABLE[name]
    if (kind := found.kinds.get(name)) != row.kind:
        return f"it is a {kind}"
    series = f"{name}_count" if row.kind == SUMMARY else name
    tags = tuple(sorted(tag.replace("-", "_") for tag in row.tags))
    required = {tag for tag in tags if f"[{tag}]" not in row.labels}
    shown = [set(labels) for labels in found.labels(series)]
    if others := [labels for labels in shown if not labels <= set(tags)]:
        return f"labels that the table does not have: {others[0]}"
    if row.tags and not any(required <= labels for labels in shown):
        return f"no series has {required}"
    values = found.series[series].values()
    if negative := [value for value in values if not (value >= 0 or is_nan_with_reason(name, value))]:
        return f"a value is {negative[0]}"
    return None


def is_nan_with_reason(name, value):
    return math.isnan(value) and name.endswith(NAN_WHEN_NOBODY_WAITED)


def test_nothing_is_shown_that_the_table_does_not_have(found):
    assert set(found.kinds) <= set(TABLE)
    assert not set(found.kinds) & {name for name in NOT_HERE if found.series[name]}


def test_numbers_are_those_of_the_work(found):
    topics = "kafka_server_brokertopicmetrics_"
    assert found.value(f"{topics}messagesin_total", topic=TOPIC) == RECORDS + 1
    assert found.value(f"{topics}messagesin_total") == 2 * RECORDS + 1
    assert found.value(f"{topics}failedproducerequests_total", topic=TOPIC) == 1
    assert found.value(f"{topics}bytesrejected_total", topic=TOPIC) > 2_000_000
    ends = [found.value("kafka_log_log_logendoffset", topic=TOPIC, partition=str(each)) for each in range(PARTITIONS)]
    assert sum(ends) == RECORDS + 2, "the records and the marker of the transaction"
    high = [
        found.value("kminion_kafka_topic_partition_high_water_mark", topic_name=TOPIC, partition_id=str(each))
        for each in range(PARTITIONS)
    ]
    assert high == ends
    lag = found.value("kminion_kafka_consumer_group_topic_lag", group_id=GROUP, topic_name=TOPIC)
    assert 0 < lag <= RECORDS + 2 - COMMITTED
    assert lag == found.sum("kminion_kafka_consumer_group_topic_partition_lag", group_id=GROUP)
    assert found.value("kafka_coordinator_group_groupmetadatamanager_numgroups") == 2
    assert found.value("ottla_transactions_count", state="CompleteCommit") == 1
    assert found.value("kafka_server_kafkaserver_brokerstate") == 3


def test_times_and_counts_of_requests_belong_together(found):
    requests = "kafka_network_requestmetrics_"
    for request in ("Produce", "Fetch", "OffsetCommit", "EndTxn"):
        count = found.sum(f"{requests}requests_total", request=request)
        assert count > 0
        for part in ("totaltimems", "localtimems", "remotetimems", "responsequeuetimems", "responsesendtimems"):
            assert found.value(f"{requests}{part}_count", request=request) == count
        total = found.value(f"{requests}totaltimems_sum", request=request)
        parts = [found.value(f"{requests}{part}_sum", request=request) for part in ("localtimems", "remotetimems")]
        assert sum(parts) == pytest.approx(total)
    assert found.sum(f"{requests}errors_total", request="Produce", error="MESSAGE_TOO_LARGE") == 1
    assert found.sum(f"{requests}errors_total", request="Produce", error="NONE") > 0
