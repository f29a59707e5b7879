"""Share groups (KIP-932) and streams groups (KIP-1071)."""

from __future__ import annotations

from typing import Final

from ottla.broker.settings.no_effect import INTERNAL_BATCHES, INTERNAL_CODEC, INTERNAL_LOADING, THREADS
from ottla.settings import LIST, SHORT, Settings, setting

INT_MAX: Final = 2**31 - 1


class SharingSettings(Settings):
    group_share_assignors = setting(
        "group.share.assignors",
        LIST,
        default=("simple",),
        one_of=("simple",),
        doc="How partitions are shared out in share groups.",
    )
    group_share_max_size = setting(
        "group.share.max.size",
        int,
        default=200,
        at_least=1,
        at_most=1000,
        doc="How many members a share group takes.",
    )
    group_share_session_timeout_ms = setting(
        "group.share.session.timeout.ms",
        int,
        default=45_000,
        at_least=1,
        unit="ms",
        doc="How long a member of a share group may be silent.",
    )
    group_share_min_session_timeout_ms = setting(
        "group.share.min.session.timeout.ms",
        int,
        default=45_000,
        at_least=1,
        unit="ms",
        doc="The shortest session a share group may set.",
    )
    group_share_max_session_timeout_ms = setting(
        "group.share.max.session.timeout.ms",
        int,
        default=60_000,
        at_least=1,
        unit="ms",
        doc="The longest session a share group may set.",
    )
    group_share_heartbeat_interval_ms = setting(
        "group.share.heartbeat.interval.ms",
        int,
        default=5000,
        at_least=1,
        unit="ms",
        doc="How often members of a share group show that they live.",
    )
    group_share_min_heartbeat_interval_ms = setting(
        "group.share.min.heartbeat.interval.ms",
        int,
        default=5000,
        at_least=1,
        unit="ms",
        doc="The shortest heartbeat interval a share group may set.",
    )
    group_share_max_heartbeat_interval_ms = setting(
        "group.share.max.heartbeat.interval.ms",
        int,
        default=15_000,
        at_least=1,
        unit="ms",
        doc="The longest heartbeat interval a share group may set.",
    )
    group_share_assignment_interval_ms = setting(
        "group.share.assignment.interval.ms",
        int,
        default=1000,
        at_least=0,
        unit="ms",
        dynamic="cluster-wide",
        doc="How long after an assignment of a share group the next one is made at the earliest.",
    )
    group_share_min_assignment_interval_ms = setting(
        "group.share.min.assignment.interval.ms",
        int,
        default=0,
        at_least=0,
        unit="ms",
        doc="The shortest assignment interval a share group may set.",
    )
    group_share_max_assignment_interval_ms = setting(
        "group.share.max.assignment.interval.ms",
        int,
        default=15_000,
        at_least=0,
        unit="ms",
        doc="The longest assignment interval a share group may set.",
    )
    group_share_record_lock_duration_ms = setting(
        "group.share.record.lock.duration.ms",
        int,
        default=30_000,
        at_least=1000,
        at_most=3_600_000,
        unit="ms",
        doc="How long a record is locked for the reader that got it.",
    )
    group_share_min_record_lock_duration_ms = setting(
        "group.share.min.record.lock.duration.ms",
        int,
        default=15_000,
        at_least=1000,
        at_most=30_000,
        unit="ms",
        doc="The shortest lock a share group may set.",
    )
    group_share_max_record_lock_duration_ms = setting(
        "group.share.max.record.lock.duration.ms",
        int,
        default=60_000,
        at_least=30_000,
        at_most=3_600_000,
        unit="ms",
        doc="The longest lock a share group may set.",
    )
    group_share_delivery_count_limit = setting(
        "group.share.delivery.count.limit",
        int,
        default=5,
        at_least=2,
        at_most=10,
        doc="How often a record is handed out before it counts as bad.",
    )
    group_share_min_delivery_count_limit = setting(
        "group.share.min.delivery.count.limit",
        int,
        default=2,
        at_least=2,
        at_most=5,
        doc="The smallest limit of deliveries of a record that a share group may set.",
    )
    group_share_max_delivery_count_limit = setting(
        "group.share.max.delivery.count.limit",
        int,
        default=10,
        at_least=5,
        at_most=25,
        doc="The largest limit of deliveries of a record that a share group may set.",
    )
    group_share_partition_max_record_locks = setting(
        "group.share.partition.max.record.locks",
        int,
        default=2000,
        at_least=100,
        at_most=10_000,
        doc="How many records of a partition may be locked at a time.",
    )
    group_share_min_partition_max_record_locks = setting(
        "group.share.min.partition.max.record.locks",
        int,
        default=100,
        at_least=100,
        at_most=2000,
        doc="The smallest limit of locked records of a partition that a share group may set.",
    )
    group_share_max_partition_max_record_locks = setting(
        "group.share.max.partition.max.record.locks",
        int,
        default=4000,
        at_least=2000,
        at_most=10_000,
        doc="The largest limit of locked records of a partition that a share group may set.",
    )
    group_share_max_share_sessions = setting(
        "group.share.max.share.sessions",
        int,
        default=2000,
        at_least=1,
        doc="How many sessions of share fetches are remembered.",
    )
    share_coordinator_threads = setting(
        "share.coordinator.threads",
        int,
        default=1,
        at_least=1,
        no_effect=THREADS,
        doc="How many threads keep the state of share groups in Kafka.",
    )
    share_coordinator_append_linger_ms = setting(
        "share.coordinator.append.linger.ms",
        int,
        default=-1,
        at_least=-1,
        unit="ms",
        no_effect=INTERNAL_BATCHES,
        doc="How long changes of share groups are gathered before they are written; -1 lets the coordinator choose.",
    )
    share_coordinator_cached_buffer_max_bytes = setting(
        "share.coordinator.cached.buffer.max.bytes",
        int,
        default=1_048_588,
        at_least=524_288,
        unit="bytes",
        dynamic="cluster-wide",
        no_effect=INTERNAL_BATCHES,
        doc="How large a buffer for writing changes of share groups is kept for the next one.",
    )
    share_coordinator_write_timeout_ms = setting(
        "share.coordinator.write.timeout.ms",
        int,
        default=5000,
        at_least=1,
        unit="ms",
        importance="high",
        doc="How long a write of changes of share groups waits for the replicas.",
    )
    share_coordinator_load_buffer_size = setting(
        "share.coordinator.load.buffer.size",
        int,
        default=5_242_880,
        at_least=1,
        unit="bytes",
        importance="high",
        no_effect=INTERNAL_LOADING,
        doc="How many bytes are read at a time when share groups are loaded.",
    )
    share_coordinator_snapshot_update_records_per_snapshot = setting(
        "share.coordinator.snapshot.update.records.per.snapshot",
        int,
        default=500,
        at_least=0,
        at_most=500,
        doc="After how many changes the whole state of a share partition is written.",
    )
    share_coordinator_state_topic_num_partitions = setting(
        "share.coordinator.state.topic.num.partitions",
        int,
        default=50,
        at_least=1,
        importance="high",
        doc="How many partitions the topic of share state gets.",
    )
    share_coordinator_state_topic_replication_factor = setting(
        "share.coordinator.state.topic.replication.factor",
        SHORT,
        default=3,
        at_least=1,
        importance="high",
        doc="How many replicas the topic of share state gets; 1 on a broker of its own.",
    )
    share_coordinator_state_topic_min_isr = setting(
        "share.coordinator.state.topic.min.isr",
        SHORT,
        default=2,
        at_least=1,
        importance="high",
        doc="How many replicas of the topic of share state must be in sync; 1 on a broker of its own.",
    )
    share_coordinator_state_topic_segment_bytes = setting(
        "share.coordinator.state.topic.segment.bytes",
        int,
        default=104_857_600,
        at_least=1,
        unit="bytes",
        importance="high",
        doc="How large a segment of the topic of share state may grow.",
    )
    share_coordinator_state_topic_compression_codec = setting(
        "share.coordinator.state.topic.compression.codec",
        int,
        default=0,
        one_of=(0, 1, 2, 3, 4),
        importance="high",
        no_effect=INTERNAL_CODEC,
        doc="How the topic of share state is compressed: 0 not, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    )

    # --- streams groups ---

    group_streams_max_size = setting(
        "group.streams.max.size",
        int,
        default=INT_MAX,
        at_least=1,
        doc="How many members a streams group takes.",
    )
    group_streams_session_timeout_ms = setting(
        "group.streams.session.timeout.ms",
        int,
        default=45_000,
        at_least=1,
        unit="ms",
        doc="How long a member of a streams group may be silent.",
    )
    group_streams_min_session_timeout_ms = setting(
        "group.streams.min.session.timeout.ms",
        int,
        default=45_000,
        at_least=1,
        unit="ms",
        doc="The shortest session a streams group may set.",
    )
    group_streams_max_session_timeout_ms = setting(
        "group.streams.max.session.timeout.ms",
        int,
        default=60_000,
        at_least=1,
        unit="ms",
        doc="The longest session a streams group may set.",
    )
    group_streams_heartbeat_interval_ms = setting(
        "group.streams.heartbeat.interval.ms",
        int,
        default=5000,
        at_least=1,
        unit="ms",
        doc="How often members of a streams group show that they live.",
    )
    group_streams_min_heartbeat_interval_ms = setting(
        "group.streams.min.heartbeat.interval.ms",
        int,
        default=5000,
        at_least=1,
        unit="ms",
        doc="The shortest heartbeat interval a streams group may set.",
    )
    group_streams_max_heartbeat_interval_ms = setting(
        "group.streams.max.heartbeat.interval.ms",
        int,
        default=15_000,
        at_least=1,
        unit="ms",
        doc="The longest heartbeat interval a streams group may set.",
    )
    group_streams_assignment_interval_ms = setting(
        "group.streams.assignment.interval.ms",
        int,
        default=1000,
        at_least=0,
        unit="ms",
        dynamic="cluster-wide",
        doc="How long after an assignment of a streams group the next one is made at the earliest.",
    )
    group_streams_min_assignment_interval_ms = setting(
        "group.streams.min.assignment.interval.ms",
        int,
        default=0,
        at_least=0,
        unit="ms",
        doc="The shortest assignment interval a streams group may set.",
    )
    group_streams_max_assignment_interval_ms = setting(
        "group.streams.max.assignment.interval.ms",
        int,
        default=15_000,
        at_least=0,
        unit="ms",
        doc="The longest assignment interval a streams group may set.",
    )
    group_streams_initial_rebalance_delay_ms = setting(
        "group.streams.initial.rebalance.delay.ms",
        int,
        default=3000,
        at_least=0,
        unit="ms",
        doc="How long an empty streams group waits for more members.",
    )
    group_streams_num_standby_replicas = setting(
        "group.streams.num.standby.replicas",
        int,
        default=0,
        at_least=0,
        doc="How many stand-by copies each task of a streams group has.",
    )
    group_streams_max_standby_replicas = setting(
        "group.streams.max.standby.replicas",
        int,
        default=2,
        at_least=0,
        doc="The largest number of stand-by copies a streams group may set.",
    )
