"""How followers follow, who counts as in sync, and how much one fetch may take."""

from __future__ import annotations

from typing import Final

from ottla.broker.settings.no_effect import PURGATORY, SOCKET_BUFFERS
from ottla.settings import LONG, Settings, setting

LARGEST: Final = 2**63 - 1


class ReplicationSettings(Settings):
    replica_lag_time_max_ms = setting(
        "replica.lag.time.max.ms",
        LONG,
        default=30_000,
        unit="ms",
        importance="high",
        doc="How long a follower may be behind before it no longer counts as in sync.",
    )
    replica_fetch_min_bytes = setting(
        "replica.fetch.min.bytes",
        int,
        default=1,
        unit="bytes",
        importance="high",
        doc="How many bytes a follower waits for.",
    )
    replica_fetch_max_bytes = setting(
        "replica.fetch.max.bytes",
        int,
        default=1_048_576,
        at_least=0,
        unit="bytes",
        doc="How many bytes of one partition a follower asks for.",
    )
    replica_fetch_response_max_bytes = setting(
        "replica.fetch.response.max.bytes",
        int,
        default=10_485_760,
        at_least=0,
        unit="bytes",
        doc="How many bytes one answer to a follower may hold.",
    )
    replica_fetch_wait_max_ms = setting(
        "replica.fetch.wait.max.ms",
        int,
        default=500,
        unit="ms",
        importance="high",
        doc="How long a follower's fetch may wait for bytes.",
    )
    replica_fetch_backoff_ms = setting(
        "replica.fetch.backoff.ms",
        int,
        default=1000,
        at_least=0,
        unit="ms",
        doc="How long a follower waits after a failed fetch.",
    )
    replica_socket_timeout_ms = setting(
        "replica.socket.timeout.ms",
        int,
        default=30_000,
        unit="ms",
        importance="high",
        doc="How long a follower waits for an answer.",
    )
    replica_socket_receive_buffer_bytes = setting(
        "replica.socket.receive.buffer.bytes",
        int,
        default=65_536,
        unit="bytes",
        importance="high",
        no_effect=SOCKET_BUFFERS,
        doc="How much the system may hold of what a follower has received.",
    )
    replica_high_watermark_checkpoint_interval_ms = setting(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        default=5000,
        unit="ms",
        importance="high",
        doc="How often high watermarks are written down.",
    )
    replica_selector_class = setting(
        "replica.selector.class", str, default=None, doc="What chooses the replica a reader is sent to."
    )
    num_replica_fetchers = setting(
        "num.replica.fetchers",
        int,
        default=1,
        at_least=1,
        importance="high",
        dynamic="cluster-wide",
        doc="How many connections a follower has to each leader.",
    )
    num_replica_alter_log_dirs_threads = setting(
        "num.replica.alter.log.dirs.threads",
        int,
        default=None,
        importance="high",
        doc="How many partitions move between directories at a time.",
    )
    leader_replication_throttled_rate = setting(
        "leader.replication.throttled.rate",
        LONG,
        default=LARGEST,
        at_least=0,
        unit="bytes",
        dynamic="cluster-wide",
        doc="How many bytes a second leaders give to throttled followers.",
    )
    follower_replication_throttled_rate = setting(
        "follower.replication.throttled.rate",
        LONG,
        default=LARGEST,
        at_least=0,
        unit="bytes",
        dynamic="cluster-wide",
        doc="How many bytes a second throttled followers fetch.",
    )
    replica_alter_log_dirs_io_max_bytes_per_second = setting(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG,
        default=LARGEST,
        at_least=0,
        unit="bytes",
        dynamic="cluster-wide",
        doc="How many bytes a second may move between directories.",
    )

    # --- fetch ---

    fetch_max_bytes = setting(
        "fetch.max.bytes",
        int,
        default=57_671_680,
        at_least=1024,
        unit="bytes",
        doc="How many bytes one answer to a fetch may hold, whatever the reader asks for.",
    )
    max_incremental_fetch_session_cache_slots = setting(
        "max.incremental.fetch.session.cache.slots",
        int,
        default=1000,
        at_least=0,
        doc="How many fetch sessions are remembered.",
    )

    # --- waiting requests ---

    fetch_purgatory_purge_interval_requests = setting(
        "fetch.purgatory.purge.interval.requests",
        int,
        default=1000,
        no_effect=PURGATORY,
        doc="After how many done fetches Kafka sweeps its waiting list; ours needs no sweep.",
    )
    producer_purgatory_purge_interval_requests = setting(
        "producer.purgatory.purge.interval.requests",
        int,
        default=1000,
        no_effect=PURGATORY,
        doc="After how many done produce requests Kafka sweeps its waiting list; ours needs no sweep.",
    )
    delete_records_purgatory_purge_interval_requests = setting(
        "delete.records.purgatory.purge.interval.requests",
        int,
        default=1,
        no_effect=PURGATORY,
        doc="After how many done deletions Kafka sweeps its waiting list; ours needs no sweep.",
    )
    share_fetch_purgatory_purge_interval_requests = setting(
        "share.fetch.purgatory.purge.interval.requests",
        int,
        default=1000,
        no_effect=PURGATORY,
        doc="After how many done share fetches Kafka sweeps its waiting list; ours needs no sweep.",
    )
