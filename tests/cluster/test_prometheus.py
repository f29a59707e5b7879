"""A real Prometheus reads a cluster of three: every expression has data or a reason, and a killed broker is noticed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from tests.client.metrics_workload import TOPIC, worked
from tests.cluster.prometheus_server import Prometheus, PrometheusMissing
from tests.cluster.watching_files import RULES, expressions, selector
from tests.patience import HANG_S

from ottla.testing import KafkaCluster

# Expressions that have no series in a cluster that is well; each with its reason.
NOTHING_TO_SHOW = {
    "alert OttlaMetricUnreadable": "every metric could be read",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(3, {"ottla.admin.listener": "127.0.0.1:0"}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def prometheus(cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    nodes = (*cluster.running, *cluster.running_controllers)
    addresses = [cluster.server(each).admin_address for each in nodes]
    targets = [f"{host}:{port}" for host, port in filter(None, addresses)]
    try:
        prometheus = Prometheus(tmp_path_factory.mktemp("prometheus"), targets, at_once(RULES.read_text()))
    except PrometheusMissing as reason:
        pytest.skip(str(reason))
    with prometheus, worked(cluster.bootstrap_servers, replicas=3):
        yield prometheus


def at_once(rules: str) -> str:
    """Alerts about what is down fire without waiting; those about what is slow keep their minutes."""
    return rules.replace("for: 1m\n", "for: 0s\n").replace("for: 5m\n", "for: 0s\n")


def wait_until(condition: Callable[[], bool], what: Callable[[], str] = str) -> None:
    end = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < end, what()
        time.sleep(0.2)


def empty(prometheus: Prometheus) -> set[str]:
    """Where the expressions stand that have no data now."""
    return {
        place
        for place, expression in expressions()
        if not prometheus.query(selector(expression) if place.startswith("alert") else expression)
    }


def test_every_expression_has_data_or_a_reason(prometheus: Prometheus) -> None:
    # Rates need two readings of the same series.
    wait_until(lambda: empty(prometheus) == set(NOTHING_TO_SHOW), lambda: str(empty(prometheus)))


def test_every_broker_is_read_and_nobody_calls_for_help(prometheus: Prometheus) -> None:
    assert sorted(value for _, value in prometheus.query("up")) == [1, 1, 1, 1]
    assert prometheus.query("sum(kafka_controller_kafkacontroller_activecontrollercount)")[0][1] == 1
    assert prometheus.firing() == set()


def test_how_far_groups_are_behind_is_the_same_whoever_leads(prometheus: Prometheus) -> None:
    sums = prometheus.query("sum by (group_id) (kminion_kafka_consumer_group_topic_lag)")
    assert {labels["group_id"] for labels, _ in sums} == {"readers", "new-readers"}
    highest = prometheus.query(f'sum(kminion_kafka_topic_partition_high_water_mark{{topic_name="{TOPIC}"}})')[0][1]
    committed = prometheus.query("sum by (group_id) (kminion_kafka_consumer_group_topic_offset_sum)")
    offsets = {labels["group_id"]: value for labels, value in committed}
    assert {labels["group_id"]: highest - value for labels, value in sums} == offsets


def test_killed_brokers_raise_the_alerts_that_they_should(prometheus: Prometheus, cluster: KafkaCluster) -> None:
    victims = [1, 2]
    cluster.crash(victims[0])
    wait_until(lambda: prometheus.firing() == {"OttlaBrokerDown", "OttlaPartitionsShortOfReplicas"})
    cluster.crash(victims[1])
    wait_until(
        lambda: prometheus.firing() == {"OttlaBrokerDown", "OttlaPartitionsShortOfReplicas", "OttlaWritesRefused"}
    )
    for each in victims:
        cluster.start_broker(each)
