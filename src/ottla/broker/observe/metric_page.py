"""docs/metrics.md, written from the table: `python -m ottla.broker.observe.metric_page > docs/metrics.md`.

ABSENT says of metrics that Apache Kafka 4.3 has, and of names that dashboards ask for, why they are not here; a test
compares both with what Kafka itself shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ottla.broker.observe.metric_table import TABLE, TITLES, Metric

HEAD: Final = """\
# Metrics

<!-- Written by python -m ottla.broker.observe.metric_page from metric_table.py; a test compares them. -->

`/metrics` on the admin listener (`ottla.admin.listener`, 127.0.0.1:9644) has them in Prometheus' text. The names and
labels are those that the JMX exporter's standard rules (`kafka-2_0_0.yml`) give Apache Kafka's, so dashboards for Kafka
show them; where newer rules have another name for the same, both are there. Lag has KMinion's names. What nobody else
has begins with `ottla_`.

- [deploy/prometheus/prometheus.yml](../deploy/prometheus/prometheus.yml) is an example of who reads them,
  [deploy/prometheus/rules.yml](../deploy/prometheus/rules.yml) are alerts,
  [deploy/grafana/ottla.json](../deploy/grafana/ottla.json) is a dashboard to import.
- State (partitions, groups, sizes) is looked up when it is asked for, in short steps between requests; nothing is kept
  for it while records are served. The code for it is loaded when somebody asks for the first time.
- Labels are bounded. Of topics 2,000 have counters of their own, the rest is counted as `__other__`; 1,000 partitions
  are shown one by one, those that want attention first and then the largest; 1,000 groups and 5,000 of their offsets.
- A summary has the quantiles 0.50, 0.75, 0.95, 0.98, 0.99 and 0.999 of the last five to ten minutes, and `_count` and
  `_sum` of its whole life. Times of requests are within 1/16 of the truth.
- A label in brackets is missing in one more series, which is the sum over all of its values. A label without a value is
  left out.
"""

TAIL: Final = """\
## What Apache Kafka has and is not here

| names | why |
|---|---|
"""

TRACES: Final = """\
## Traces

With `pip install ottla[otel]` and `ottla.tracing.enable=true` a record is followed by OpenTelemetry: each side makes
spans where it is switched on, and costs nothing where it is not.

| where | span | parent |
|---|---|---|
| producer | `send <topic>`, from `send()` to the delivery | the span that is current in the program |
| broker | `append <topic>`, for each batch with a sampled record | that record's `send`; the others' are links |
| consumer | `poll <topic>`, for each poll that has records | none; the `send` of each record is a link |

The context is in the header `traceparent` of the record (W3C). `ottla.client.consumer.tracing.context_of(record)`
is the parent for a span of one's own about a record. Spans go to the provider that the program sets up; for a broker
`opentelemetry-instrument ottla broker start` does that. While it is on, a broker handles produce requests one by one.
"""

# Patterns of whole names.
ABSENT: Final[dict[str, str]] = {
    "jvm_.*|java_.*|kafka_server_.*_yammer_metrics_count|kafka_server_kafka_metrics_.*|kafka_server_app_info_.*": (
        "There is no Java machine; process_* has memory, files and processor time."
    ),
    "kafka_server_raft_.*|kafka_server_metadataloader_.*|kafka_server_broker_metadata_metrics_.*|"
    "kafka_server_brokermetadatalistener_.*|kafka_server_controllerserver_.*|"
    "kafka_server_assignmentsmanager_.*|kafka_controller_kafkacontroller_(last|ignored|metadata|eventqueue).*|"
    "kafka_controller_kafkacontroller_(brokerregistrationstate|newactive|timedout|timesince).*|"
    "kafka_controller_controllereventmanager_avgidleratio|kafka_controller_controllerstats_electionfromeligible.*|"
    "kafka_server_kafkarequesthandlerpool_(broker|controller)requesthandler.*": (
        "Of the metadata log only its state is shown; a node on its own elects nobody and loses no record of it."
    ),
    "kafka_server_(alter_partition|directory_assignments|forwarding|heartbeat|registration)_metrics_.*|"
    "kafka_server_txn_marker_channel_metrics_.*": ("Connections between brokers are not counted one by one."),
    "kafka_server_socket_server_metrics_.*_(rate|ratio)|kafka_server_socket_server_metrics_.*_(avg|max)": (
        "Rates are Prometheus' business: rate() of the counters; connection_accept_rate is of addresses with a quota."
    ),
    "kafka_server_socket_server_metrics_(incoming|outgoing|io|network|request|response|select)_.*|"
    "kafka_server_socket_server_metrics_successful_authentication_no_reauth_total|kafka_network_acceptor_.*|"
    "kafka_network_requestmetrics_requestbytes": (
        "Bytes and system calls of connections are not counted; those of topics are."
    ),
    "kafka_network_requestmetrics_(messageconversionstimems|temporarymemorybytes)|"
    "kafka_server_brokertopicmetrics_(fetch|produce)messageconversions_total": "Records are never converted.",
    "kafka_server_brokertopicmetrics_(invalid|nokey).*": "requestmetrics_errors_total has refusals by error.",
    "kafka_server_brokertopicmetrics_reassignmentbytes.*": "They are part of replicationbytesin_total and ..out_total.",
    "kafka_server_share_coordinator_metrics_(batch|event|thread)_.*|"
    "kafka_server_share_coordinator_metrics_write_(latency|rate).*|kafka_server_sharegroupmetrics_partitionloadtimems|"
    "kafka_server_sharesessioncache_sharesessionevictions_total|"
    "kafka_server_group_coordinator_metrics_share_group_rebalance_.*|"
    "kafka_server_brokertopicmetrics_(failed|total)share.*": (
        "The share coordinator is part of the loop, too; share sessions are refused, not evicted; requestmetrics_ has "
        "the requests of share groups and their errors, brokertopicmetrics_bytesout_total what they fetched."
    ),
    "kafka_server_group_coordinator_metrics_(background|batch|event)_.*": (
        "The coordinator is part of the loop: it has no queue, thread or batches of its own."
    ),
    "kafka_server_group_coordinator_metrics_.*_rate|kafka_server_group_coordinator_metrics_offset_deletion_count|"
    "kafka_server_group_coordinator_metrics_(consumer_group|streams_group|group_completed)_rebalance_.*": (
        "Rebalances are not counted; deleted offsets are part of offset_expiration_count."
    ),
    "kafka_server_client_metrics_.*_rate|kafka_server_client_metrics_.*_time_(avg|max)": (
        "Rates are Prometheus' business; there is no plug-in whose time could be measured."
    ),
    "kafka_log_logmanager_(cordoned|logdirectorycordoned).*": "No directory of a broker is cordoned.",
    "kafka_server_(replicafetcher|replicaalterlogdirs)manager_(deadthreadcount|minfetchrate)|"
    "kafka_log_logcleaner_deadthreadcount": ("There are no such threads."),
    "kafka_log_logcleaner_max_.*|kafka_log_log_retentionsizeinpercent|kafka_utils_throttler_.*|"
    "kafka_server_delayed(produce|fetch)metrics_.*|kafka_server_replicamanager_partitionswithlate.*|"
    "kafka_server_addpartitionstotxnmanager_.*|kafka_coordinator_transaction_.*|"
    "kafka_controller_controllereventmanager_eventqueuetimems": "Not counted.",
}


def page() -> str:
    return "\n".join([HEAD, *_tables(), TAIL.rstrip(), *_absent(), "", TRACES])


def _tables() -> Iterator[str]:
    title = ""
    for name, row in TABLE.items():
        if TITLES[name] != title:
            title = TITLES[name]
            yield from (f"## {title}\n", "| name | kind | labels | what | since |", "|---|---|---|---|---|")
        yield _line(row)
        if name == _last_of(title):
            yield ""


def _last_of(title: str) -> str:
    return [name for name, each in TITLES.items() if each == title][-1]


def _line(row: Metric) -> str:
    labels = ", ".join(label.replace("-", "_") for label in row.labels)
    return f"| `{row.name}` | {row.kind} | {labels} | {row.meaning} | {row.since} |"


def _absent() -> Iterator[str]:
    for pattern, reason in ABSENT.items():
        names = ", ".join(f"`{each}`" for each in _readable(pattern))
        yield f"| {names} | {reason} |"


def _readable(pattern: str) -> Iterator[str]:
    """The alternatives of a pattern, with stars and braces as a shell has them."""
    braces = re.sub(r"\(([^()]*)\)", lambda match: "{" + match[1].replace("|", ",") + "}", pattern)
    yield from braces.replace(".*", "*").split("|")


def why_absent(name: str) -> str | None:
    """The reason; None for what is here, and for what nobody gave a reason."""
    if name in TABLE:
        return None
    return next((reason for pattern, reason in ABSENT.items() if re.fullmatch(pattern, name)), None)


if __name__ == "__main__":
    print(page(), end="")
