"""Partitions of this broker: who leads them, who is in sync, how large their logs are, who waits for them.

Labels are bounded: single partitions are shown for PARTITIONS_LIMIT of them, those that want attention first and then
the largest; the bytes of the others are together as __other__, so that the sum is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nlargest
from typing import TYPE_CHECKING, Final

from ottla.broker.observe.state.readings import Readings, in_steps
from ottla.broker.replication.partition import Partition
from ottla.metrics import OTHER

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

PARTITIONS_LIMIT: Final = 1_000
_MANAGER: Final = "kafka_server_replicamanager_"
_COUNTS: Final = (
    "partitioncount",
    "leadercount",
    "underreplicatedpartitions",
    "underminisrpartitioncount",
    "atminisrpartitioncount",
    "offlinereplicacount",
    "reassigningpartitions",
    "produceridcount",
)
_PARTITION: Final = "kafka_cluster_partition_"
_LOG: Final = "kafka_log_log_"
_TOPIC: Final = "kminion_kafka_topic_"


def read_partitions(broker: Broker, out: Readings) -> Iterator[None]:
    counts = dict.fromkeys(_COUNTS, 0)
    ranks: list[tuple[bool, int, Partition]] = []
    for some in in_steps(broker.replicas):
        for each in some:
            _count(each, counts)
            size_bytes = 0 if each.offline is not None else each.log.size_bytes
            ranks.append((_wants_attention(each), size_bytes, each))
            _add_topic(each, size_bytes, out)
        yield
    out.put_all(_MANAGER, counts)
    shown = nlargest(PARTITIONS_LIMIT, ranks, key=lambda rank: rank[:2])
    names = [_PARTITION + "replicascount", _LOG + "size", _LOG + "logendoffset", f"{_TOPIC}partition_high_water_mark"]
    out.none(*names, f"{_TOPIC}high_water_mark_sum", f"{_TOPIC}log_dir_size_total_bytes")
    for chosen in in_steps(shown):
        for _, size_bytes, each in chosen:
            _put(each, size_bytes, out)
        yield
    if len(ranks) > len(shown):
        rest = sum(size for _, size, _ in ranks) - sum(size for _, size, _ in shown)
        out.put(f"{_LOG}size", rest, OTHER, OTHER)


def _replica_count(each: Partition) -> int:
    return 0 if each.state is None else len(each.state.replicas)


def _wants_attention(each: Partition) -> bool:
    return each.offline is not None or (each.is_leader and each.in_sync_count < _replica_count(each))


def _count(each: Partition, counts: dict[str, int]) -> None:
    counts["partitioncount"] += 1
    counts["offlinereplicacount"] += each.offline is not None
    if each.offline is None:
        counts["produceridcount"] += len(each.log.producers.entries)
    if not each.is_leader:
        return
    counts["leadercount"] += 1
    counts["underreplicatedpartitions"] += each.in_sync_count < _replica_count(each)
    counts["underminisrpartitioncount"] += each.in_sync_count < each.min_in_sync_count
    counts["atminisrpartitioncount"] += each.in_sync_count == each.min_in_sync_count
    counts["reassigningpartitions"] += each.state is not None and each.state.is_reassigning


def _add_topic(each: Partition, size_bytes: int, out: Readings) -> None:
    topic = each.name.topic
    out.add(f"{_TOPIC}log_dir_size_total_bytes", size_bytes, topic)
    if each.is_leader and each.offline is None:
        out.add(f"{_TOPIC}high_water_mark_sum", each.high_watermark, topic)
        out.add(f"{_TOPIC}low_water_mark_sum", each.log.log_start_offset, topic)


def _put(each: Partition, size_bytes: int, out: Readings) -> None:
    topic, index = each.name.topic, str(each.name.partition)
    replicas, in_sync = (_replica_count(each), each.in_sync_count) if each.is_leader else (0, 0)
    log, is_leader = each.log, each.is_leader
    lag = each.high_watermark - log.last_stable_offset if is_leader and each.offline is None else 0
    states = {
        "replicascount": replicas,
        "insyncreplicascount": in_sync,
        "underreplicated": in_sync < replicas,
        "underminisr": is_leader and in_sync < each.min_in_sync_count,
        "atminisr": is_leader and in_sync == each.min_in_sync_count,
        "laststableoffsetlag": max(0, lag),
    }
    out.put_all(_PARTITION, {name: int(value) for name, value in states.items()}, topic, index)
    if each.offline is not None:
        return
    offsets = {"size": size_bytes, "logendoffset": log.log_end_offset, "logstartoffset": log.log_start_offset}
    out.put_all(_LOG, offsets | {"numlogsegments": len(log.segments)}, topic, index)
    if is_leader:
        out.put(f"{_TOPIC}partition_high_water_mark", each.high_watermark, topic, index)
        out.put(f"{_TOPIC}partition_low_water_mark", log.log_start_offset, topic, index)


# -- what goes with them -----------------------------------------------------------------------------------------------


def read_replication(broker: Broker, out: Readings) -> Iterator[None]:
    """In-sync sets that changed, and how far this broker is behind the leaders that it follows."""
    counts = broker.counts
    changes = {"isrshrinks_total": counts.isr_shrinks, "isrexpands_total": counts.isr_expands}
    out.put_all(_MANAGER, changes | {"failedisrupdates_total": counts.failed_isr_updates})
    lags: Iterable[tuple[int, tuple[str, int], int | None]] = broker.link.replication.lags()
    known = sorted(((lag, leader, name) for leader, name, lag in lags if lag is not None), reverse=True)
    manager = "kafka_server_replicafetchermanager_"
    out.put(f"{manager}maxlag", max(0, known[0][0]) if known else 0, "Replica")
    out.put(f"{manager}failedpartitionscount", sum(lag < 0 for lag, _, _ in known), "Replica")
    out.none("kafka_server_fetcherlagmetrics_consumerlag")
    for some in in_steps(known[:PARTITIONS_LIMIT]):
        for lag, leader, (topic, index) in some:
            client_id = f"ReplicaFetcherThread-0-{leader}"
            out.put("kafka_server_fetcherlagmetrics_consumerlag", max(0, lag), client_id, topic, str(index))
        yield


def read_waiting(broker: Broker, out: Readings) -> None:
    """Requests that wait for partitions, and fetch sessions."""
    progress, purgatory = broker.progress, "kafka_server_delayedoperationpurgatory_"
    waiting = {
        "Produce": (len(progress.commits) + len(progress.produce_purgatory),) * 2,
        "Fetch": (progress.fetch_purgatory.watched_count, len(progress.fetch_purgatory)),
    }
    for operation, (watched, count) in waiting.items():
        out.put(f"{purgatory}purgatorysize", watched, operation)
        out.put(f"{purgatory}numdelayedoperations", count, operation)
    sessions, cache = broker.fetch_sessions, "kafka_server_fetchsessioncache_"
    out.put(f"{cache}numincrementalfetchsessions", len(sessions))
    out.put(f"{cache}numincrementalfetchpartitionscached", sessions.partition_count)
    out.put(f"{cache}incrementalfetchsessionevictions_total", sessions.evictions)
    _read_shares(broker, out)


def _read_shares(broker: Broker, out: Readings) -> None:
    """Share groups; their code is loaded with the first of them."""
    said = dict.fromkeys(("Gap", "Accept", "Release", "Reject", "Renew"), 0)
    sessions = partitions = shared = in_flight = ended = 0
    if broker.is_sharing:
        sharing = broker.sharing
        sessions, partitions = len(sharing.sessions), sharing.sessions.partition_count
        shared, in_flight, ended = len(sharing.leaders), sharing.leaders.in_flight_count, sharing.leaders.ended_locks
        said |= {kind.name.capitalize(): count for kind, count in sharing.leaders.said.items()}
    out.put_all("kafka_server_sharesessioncache_", {"sharesessionscount": sessions, "sharepartitionscount": partitions})
    out.put_all("ottla_share_", {"partitions": shared, "in_flight_records": in_flight, "ended_locks_total": ended})
    for kind, count in said.items():
        out.put("kafka_server_sharegroupmetrics_recordacknowledgements_total", count, kind)
