"""The cluster, as its controller knows it: on other brokers these are 0 or missing, so that sums are right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import ottla
from ottla.broker.observe.counts import ControllerCounts
from ottla.broker.observe.metric_table import TABLE
from ottla.broker.observe.state.readings import Readings, in_steps
from ottla.cluster.features import finalized_features
from ottla.cluster.model import METADATA_VERSION, NO_LEADER
from ottla.cluster.model import Broker as Member

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

TOPICS_LIMIT: Final = 2_000
_CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_STATS: Final = "kafka_controller_controllerstats_"
_EVENTS: Final = "kafka_controller_controllereventmanager_"
_RAFT: Final = "kafka_server_raft_metrics_"
_APPLIED: Final = "kafka_server_broker_metadata_metrics_"
_LOADER: Final = "kafka_server_metadataloader_"
_SNAPSHOTS: Final = "kafka_server_snapshotemitter_"
_OF_THE_LOG: Final = (_RAFT, _APPLIED, _LOADER, _SNAPSHOTS)
_COUNTS: Final = (
    "activecontrollercount",
    "activebrokercount",
    "fencedbrokercount",
    "controlledshutdownbrokercount",
    "globaltopiccount",
    "globalpartitioncount",
    "offlinepartitionscount",
    "preferredreplicaimbalancecount",
)


def read_cluster(broker: Broker, out: Readings, wall_ms: int) -> Iterator[None]:
    _read_metadata_log(broker, out, wall_ms)
    counts = dict.fromkeys(_COUNTS, 0)
    out.none("kminion_kafka_broker_info", "kminion_kafka_topic_info", "kminion_kafka_cluster_info")
    decider = broker.link.decider
    if broker.image.controller_id == broker.id if decider is None else decider.is_active:
        counts["activecontrollercount"] = 1
        _read_members(broker, out, counts)
        yield from _read_topics(broker, out, counts)
    out.put_all(_CONTROLLER, counts)
    _read_controller(broker, out)


def _read_metadata_log(broker: Broker, out: Readings, wall_ms: int) -> None:
    out.none(*(name for name in TABLE if name.startswith(_OF_THE_LOG)))
    state = broker.link.log_state()
    if state is None:
        return
    raft = {
        "current_leader": state.leader_id,
        "current_epoch": state.epoch,
        "current_vote": state.voted_id,
        "high_watermark": state.high_watermark,
        "log_end_offset": state.end_offset,
        "log_end_epoch": state.end_epoch,
        "number_of_voters": len(state.voters),
    }
    applied = {
        "last_applied_record_offset": state.applied_offset,
        "last_applied_record_timestamp": state.applied_timestamp_ms,
        "last_applied_record_lag_ms": max(wall_ms - state.applied_timestamp_ms, 0),
    }
    written_ms = state.snapshot_written_ms
    out.put_all(_RAFT, raft)
    out.put_all(_APPLIED, applied)
    out.put(f"{_LOADER}currentcontrollerid", broker.image.controller_id)
    out.put(f"{_LOADER}currentmetadataversion", broker.image.feature(METADATA_VERSION))
    for name, level in finalized_features(broker.image).items():
        out.put(f"{_LOADER}finalizedlevel", level, name)
    out.put(f"{_SNAPSHOTS}latestsnapshotgeneratedbytes", state.snapshot_bytes)
    out.put(f"{_SNAPSHOTS}latestsnapshotgeneratedagems", 0 if written_ms is None else max(wall_ms - written_ms, 0))


def _read_members(broker: Broker, out: Readings, counts: dict[str, int]) -> None:
    image = broker.image
    for member in image.brokers.values():
        counts["activebrokercount" if member.is_active else "fencedbrokercount"] += 1
        counts["controlledshutdownbrokercount"] += member.in_controlled_shutdown
        is_controller = str(member.id == image.controller_id).lower()
        out.put("kminion_kafka_broker_info", 1, *address_of(broker, member), is_controller)
    numbers = str(len(image.brokers)), str(image.controller_id)
    out.put("kminion_kafka_cluster_info", 1, image.cluster_id, f"ottla-{ottla.__version__}", *numbers)


def address_of(broker: Broker, member: Member) -> tuple[str, str, str, str]:
    """Id, host, port and rack, as KMinion labels them."""
    name = broker.settings.inter_broker_listener.name
    endpoint = member.endpoint(name) or (member.endpoints[0] if member.endpoints else None)
    host, port = ("", "") if endpoint is None else (endpoint.host, str(endpoint.port))
    return str(member.id), host, port, member.rack or ""


def _read_topics(broker: Broker, out: Readings, counts: dict[str, int]) -> Iterator[None]:
    image, shown = broker.image, 0
    for some in in_steps(image.topics()):
        for name in some:
            topic = image.topic(name)
            if topic is None:
                continue
            counts["globaltopiccount"] += 1
            counts["globalpartitioncount"] += len(topic.partitions)
            for each in topic.partitions:
                counts["offlinepartitionscount"] += each.leader == NO_LEADER
                counts["preferredreplicaimbalancecount"] += each.leader != each.replicas[0]
            if shown < TOPICS_LIMIT:
                shown += 1
                policy = ",".join(broker.topics_in_effect.of(image, name).cleanup_policy)
                numbers = str(len(topic.partitions)), str(topic.replication_factor)
                out.put("kminion_kafka_topic_info", 1, name, *numbers, policy)
        yield


def _read_controller(broker: Broker, out: Readings) -> None:
    decider = broker.link.decider
    counts = ControllerCounts() if decider is None else decider.counts
    out.put(f"{_STATS}uncleanleaderelections_total", counts.unclean_elections)
    out.times[f"{_STATS}leaderelectionrateandtimems"] = [counts.elections]
    out.times[f"{_EVENTS}eventqueueprocessingtimems"] = [counts.events]
    out.put(f"{_EVENTS}eventqueuesize", 0 if decider is None else decider.waiting_count)
