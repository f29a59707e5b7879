"""Asks a cluster, and the metrics of its brokers, for one moment.

1. What may not be asked (sizes need Describe on the cluster) or does not answer (a metrics address) is left out; what
   the cluster itself does not answer is an error.
2. Bounded: of more groups than GROUPS_LIMIT only the first are asked, and the sample says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.top.sample import BrokerState, Counters, GroupState, PartitionState, Sample
from ottla.errors import OttlaError
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.cluster import LogDirDescription
    from ottla.clock import Clock

GROUPS_LIMIT: Final = 50
METRICS_LIMIT_BYTES: Final = 16 << 20
METRICS_TIMEOUT_S: Final = 2.0
_SERIES: Final = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)", re.MULTILINE)


def sample(admin: Admin, clock: Clock, metrics: Sequence[str] = (), *, internal: bool = False) -> Sample:
    """What there is to see now."""
    from ottla.client.admin.offsets import OffsetSpec

    cluster = admin.describe_cluster()
    names = list(admin.list_topics(include_internal=internal))
    partitions = {
        TopicPartition(name, each.partition): PartitionState(each.leader, each.replicas, each.in_sync)
        for name, topic in (admin.describe_topics(names) if names else {}).items()
        for each in topic.partitions
    }
    directories = _directories(admin)
    groups, left_out = _groups(admin)
    led = [partition for partition, each in partitions.items() if each.leader is not None]
    committed = {key for group in groups.values() for key in group.committed}
    wanted = [*led, *sorted(key for key in committed if key not in partitions and key.topic in names)]
    now_ms = clock.monotonic_ms()
    ends = admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.LATEST)) if wanted else {}
    brokers = {
        node.id: BrokerState(
            str(node.address), node.id == cluster.controller, _size(directories, node.id), _failed(directories, node.id)
        )
        for node in cluster.nodes
    }
    return Sample(
        monotonic_ms=now_ms,
        cluster_id=cluster.cluster_id,
        brokers=brokers,
        partitions=partitions,
        ends={key: each.offset for key, each in ends.items()},
        sizes=_sizes(directories),
        groups=groups,
        counters={address: counters_of(text) for address in metrics if (text := fetched_metrics(address)) is not None},
        left_out=left_out,
    )


def _directories(admin: Admin) -> dict[int, dict[str, LogDirDescription]]:
    try:
        return admin.describe_log_dirs()
    except OttlaError as error:
        return getattr(error, "succeeded", {})


def _size(directories: dict[int, dict[str, LogDirDescription]], broker: int) -> int | None:
    if broker not in directories:
        return None
    return sum(copy.size_bytes for each in directories[broker].values() for copy in each.replicas.values())


def _failed(directories: dict[int, dict[str, LogDirDescription]], broker: int) -> int:
    return sum(each.error is not None for each in directories.get(broker, {}).values())


def _sizes(directories: dict[int, dict[str, LogDirDescription]]) -> dict[TopicPartition, int]:
    """Bytes of the largest copy of each partition."""
    sizes: dict[TopicPartition, int] = {}
    for paths in directories.values():
        for each in paths.values():
            for partition, copy in each.replicas.items():
                sizes[partition] = max(sizes.get(partition, 0), copy.size_bytes)
    return sizes


def _groups(admin: Admin) -> tuple[dict[str, GroupState], str | None]:
    try:
        listed = admin.list_consumer_groups()
    except OttlaError:
        return {}, "groups cannot be seen from here"
    found = {}
    for each in listed[:GROUPS_LIMIT]:
        try:
            offsets = admin.list_consumer_group_offsets(each.group_id)
        except OttlaError:  # one that was deleted meanwhile, or may not be seen
            continue
        committed = {key: value.offset for key, value in offsets.items() if value is not None}
        found[each.group_id] = GroupState(each.state or "", committed)
    more = len(listed) - GROUPS_LIMIT
    return found, f"{more} more groups are not shown" if more > 0 else None


# --- metrics ---------------------------------------------------------------------------------------------------------


def fetched_metrics(address: str) -> str | None:
    """The text of a metrics endpoint; None when it does not answer."""
    from http.client import HTTPException
    from urllib.request import urlopen

    url = address if "://" in address else f"http://{address}/metrics"
    try:
        with urlopen(url, timeout=METRICS_TIMEOUT_S) as answer:
            return str(answer.read(METRICS_LIMIT_BYTES).decode("utf-8", errors="replace"))
    except (OSError, ValueError, HTTPException):
        return None


def counters_of(text: str) -> Counters:
    """What a text of Prometheus says of requests, bytes, CPU and memory."""
    requests = bytes_in = bytes_out = cpu = memory = None
    for name, labels, number in _SERIES.findall(text):
        try:
            value = float(number)
        except ValueError:
            continue
        has_topic = 'topic="' in labels and 'topic=""' not in labels
        if name == "kafka_network_requestmetrics_requests_total":
            requests = (requests or 0.0) + value
        elif name == "kafka_server_brokertopicmetrics_bytesin_total" and has_topic:
            bytes_in = (bytes_in or 0.0) + value
        elif name == "kafka_server_brokertopicmetrics_bytesout_total" and has_topic:
            bytes_out = (bytes_out or 0.0) + value
        elif name == "process_cpu_seconds_total":
            cpu = value
        elif name == "process_resident_memory_bytes":
            memory = value
    return Counters(requests, bytes_in, bytes_out, cpu, memory)
