"""Groups of readers: what the coordinator needs besides what one group's settings say.

The settings of classic groups are declared with their coordinator; these are the consumer groups' and those of the
topic of committed offsets.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.settings.no_effect import INTERNAL_BATCHES, INTERNAL_CODEC, INTERNAL_LOADING, REQUIRED_ACKS, THREADS
from ottla.settings import LIST, SHORT, Settings, setting

INT_MAX: Final = 2**31 - 1

_MIGRATIONS: Final = ("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL")


def _migration_problem(value: str) -> str | None:
    return None if value.upper() in _MIGRATIONS else f"it must be one of {', '.join(_MIGRATIONS).lower()}"


class GroupCoordinatorSettings(Settings):
    group_coordinator_rebalance_protocols = setting(
        "group.coordinator.rebalance.protocols",
        LIST,
        default=("classic", "consumer", "streams"),
        one_of=("consumer", "classic", "share", "streams"),
        doc="Which kinds of groups are served.",
    )
    group_coordinator_threads = setting(
        "group.coordinator.threads",
        int,
        default=4,
        at_least=1,
        importance="high",
        no_effect=THREADS,
        doc="How many threads coordinate groups in Kafka; here the loop does.",
    )
    group_coordinator_background_threads = setting(
        "group.coordinator.background.threads",
        int,
        default=2,
        at_least=1,
        importance="high",
        no_effect=THREADS,
        doc="How many threads do slow work for groups in Kafka; here it is done in slices.",
    )
    group_coordinator_append_linger_ms = setting(
        "group.coordinator.append.linger.ms",
        int,
        default=-1,
        at_least=-1,
        unit="ms",
        no_effect=INTERNAL_BATCHES,
        doc="How long changes of groups are gathered before they are written; -1 lets the coordinator choose.",
    )
    group_coordinator_cached_buffer_max_bytes = setting(
        "group.coordinator.cached.buffer.max.bytes",
        int,
        default=1_048_588,
        at_least=524_288,
        unit="bytes",
        dynamic="cluster-wide",
        no_effect=INTERNAL_BATCHES,
        doc="How large a buffer for writing group changes is kept for the next one.",
    )

    # --- consumer groups (KIP-848) ---

    group_consumer_assignors = setting(
        "group.consumer.assignors",
        LIST,
        default=("uniform", "range"),
        one_of=("uniform", "range"),
        doc="How partitions may be shared out; the first one counts when a member does not say.",
    )
    group_consumer_migration_policy = setting(
        "group.consumer.migration.policy",
        str,
        default="bidirectional",
        check=_migration_problem,
        doc="Whether groups may change between the classic and the consumer protocol: upgrade, downgrade, "
        "bidirectional or disabled.",
    )
    group_consumer_max_size = setting(
        "group.consumer.max.size", int, default=INT_MAX, at_least=1, doc="How many members a consumer group takes."
    )
    group_consumer_session_timeout_ms = setting(
        "group.consumer.session.timeout.ms",
        int,
        default=45_000,
        at_least=1,
        unit="ms",
        doc="How long a member may be silent before it is put out.",
    )
    group_consumer_min_session_timeout_ms = setting(
        "group.consumer.min.session.timeout.ms",
        int,
        default=45_000,
        at_least=1,
        unit="ms",
        doc="The shortest session a group may set.",
    )
    group_consumer_max_session_timeout_ms = setting(
        "group.consumer.max.session.timeout.ms",
        int,
        default=60_000,
        at_least=1,
        unit="ms",
        doc="The longest session a group may set.",
    )
    group_consumer_heartbeat_interval_ms = setting(
        "group.consumer.heartbeat.interval.ms",
        int,
        default=5000,
        at_least=1,
        unit="ms",
        doc="How often members show that they live.",
    )
    group_consumer_min_heartbeat_interval_ms = setting(
        "group.consumer.min.heartbeat.interval.ms",
        int,
        default=5000,
        at_least=1,
        unit="ms",
        doc="The shortest heartbeat interval a group may set.",
    )
    group_consumer_max_heartbeat_interval_ms = setting(
        "group.consumer.max.heartbeat.interval.ms",
        int,
        default=15_000,
        at_least=1,
        unit="ms",
        doc="The longest heartbeat interval a group may set.",
    )
    group_consumer_assignment_interval_ms = setting(
        "group.consumer.assignment.interval.ms",
        int,
        default=1000,
        at_least=0,
        unit="ms",
        dynamic="cluster-wide",
        doc="How long after an assignment the next one is made at the earliest.",
    )
    group_consumer_min_assignment_interval_ms = setting(
        "group.consumer.min.assignment.interval.ms",
        int,
        default=0,
        at_least=0,
        unit="ms",
        doc="The shortest assignment interval a group may set.",
    )
    group_consumer_max_assignment_interval_ms = setting(
        "group.consumer.max.assignment.interval.ms",
        int,
        default=15_000,
        at_least=0,
        unit="ms",
        doc="The longest assignment interval a group may set.",
    )
    group_consumer_regex_refresh_interval_ms = setting(
        "group.consumer.regex.refresh.interval.ms",
        int,
        default=600_000,
        at_least=10_000,
        unit="ms",
        doc="How often topics are matched again with the patterns that members subscribe to.",
    )

    # --- committed offsets ---

    offsets_topic_num_partitions = setting(
        "offsets.topic.num.partitions",
        int,
        default=50,
        at_least=1,
        importance="high",
        doc="How many partitions the topic of committed offsets gets; it must not change later.",
    )
    offsets_topic_replication_factor = setting(
        "offsets.topic.replication.factor",
        SHORT,
        default=3,
        at_least=1,
        importance="high",
        doc="How many replicas the topic of committed offsets gets; 1 on a broker of its own.",
    )
    offsets_topic_segment_bytes = setting(
        "offsets.topic.segment.bytes",
        int,
        default=104_857_600,
        at_least=1,
        unit="bytes",
        importance="high",
        doc="How large a segment of the topic of committed offsets may grow; small ones load faster.",
    )
    offsets_topic_compression_codec = setting(
        "offsets.topic.compression.codec",
        int,
        default=0,
        one_of=(0, 1, 2, 3, 4),
        importance="high",
        no_effect=INTERNAL_CODEC,
        doc="How the topic of committed offsets is compressed: 0 not, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    )
    offsets_commit_timeout_ms = setting(
        "offsets.commit.timeout.ms",
        int,
        default=5000,
        at_least=1,
        unit="ms",
        importance="high",
        doc="How long a commit waits for the replicas.",
    )
    offsets_commit_required_acks = setting(
        "offsets.commit.required.acks",
        SHORT,
        default=-1,
        one_of=(-1,),
        importance="high",
        no_effect=REQUIRED_ACKS,
        doc="How many replicas must have a commit; Kafka allows only -1, all of them.",
    )
    offsets_load_buffer_size = setting(
        "offsets.load.buffer.size",
        int,
        default=5_242_880,
        at_least=1,
        unit="bytes",
        importance="high",
        no_effect=INTERNAL_LOADING,
        doc="How many bytes are read at a time when groups are loaded.",
    )
