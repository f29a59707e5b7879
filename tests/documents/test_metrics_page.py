"""docs/metrics.md is what the table says, and what Apache Kafka has is here or has a reason."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.jmx_names import Name, recorded_names

from ottla.broker.observe.metric_page import ABSENT, page, why_absent
from ottla.broker.observe.metric_table import TABLE

ROOT = Path(__file__).parent.parent.parent

# Names that Apache Kafka 4.3 did not show under the rules of the test, and who has them.
ELSEWHERE = {
    "kafka_network_socketserver_networkprocessoravgidlepercent": "rules that do not know percents",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_total": "Strimzi's metrics reporter",
    "kafka_server_fetcherlagmetrics_consumerlag": "a broker that follows others",
    "kafka_server_socket_server_metrics_expired_connections_killed_total": "ours, as a counter",
    "kafka_controller_controllerstats_leaderelectionrateandtimems": "Kafka with ZooKeeper",
    "kafka_controller_controllereventmanager_eventqueuesize": "Kafka with ZooKeeper",
    **{
        f"kafka_server_client_metrics_{each}": "Kafka while clients push"
        for each in ["throttle_count", "plugin_export_count", "plugin_error_count"]
    },
    **{
        f"kafka_server_{quota}": "Confluent's rules"
        for quota in [
            "produce_byte_rate",
            "produce_throttle_time",
            "fetch_byte_rate",
            "fetch_throttle_time",
            "request_request_time",
            "request_throttle_time",
            "controllermutation_mutation_rate",
            "controllermutation_tokens",
            "controllermutation_throttle_time",
        ]
    },
}
# Labels that differ, and why.
OTHER_LABELS = {
    "kafka_server_brokertopicmetrics_failedfetchrequests_total": "nothing failed there that Kafka counts",
    "kafka_server_brokertopicmetrics_failedproducerequests_total": "nothing failed there that Kafka counts",
    "kafka_server_socket_server_metrics_connection_accept_rate": "of addresses with a quota",
}


def test_the_page_is_what_the_table_says() -> None:
    written = (ROOT / "docs" / "metrics.md").read_text()
    assert written == page(), "python -m ottla.broker.observe.metric_page > docs/metrics.md"


def test_a_metric_of_kafka_is_here_alike_or_has_a_reason() -> None:
    assert {theirs.name: what for theirs in recorded_names() if (what := difference(theirs))} == {}


def difference(theirs: Name) -> str | None:
    """What is wrong with our metric of that name."""
    ours = TABLE.get(theirs.name)
    if ours is None:
        return None if why_absent(theirs.name) is not None else "it is not here, and nobody says why"
    if ours.kind != theirs.kind:
        return f"it is a {ours.kind}, Kafka's is a {theirs.kind}"
    if (set(ours.tags) == theirs.labels) == (theirs.name in OTHER_LABELS):
        return f"its labels are {ours.tags}, Kafka's are {theirs.labels}"
    return None


def test_names_that_begin_with_kafka_are_kafkas() -> None:
    known = {each.name for each in recorded_names()} | set(ELSEWHERE)
    assert {name for name in TABLE if name.startswith("kafka_")} <= known


def test_every_reason_is_about_something() -> None:
    assert all(reason.endswith(".") for reason in ABSENT.values())
