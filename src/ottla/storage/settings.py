"""The settings of a topic: Kafka 4.x's keys, types, defaults and bounds, and the broker's keys they fall back to.

    defaults = TopicSettings.from_broker({"log.retention.hours": "24"})     # what a topic has that sets nothing
    settings = defaults.for_topic({"cleanup.policy": "compact"})            # what this topic has

1. A topic's own value wins; then the broker's, under the broker's names in the order of `synonyms`; then the default.
2. A broker's name is not a topic's: `for_topic` refuses log.retention.ms and says which name to use.
3. Everything may change while running; the log asks its settings at each decision and keeps nothing from them.
4. -1 for retention.ms and retention.bytes means no limit, as do the largest values elsewhere.
5. `internal.segment.bytes` is Kafka's own way to have segments below 1 MiB in tests; code asks `segment_limit_bytes`.
6. `ottla.durability` and those of tables (table_settings.py) are keys that Kafka does not have.

Tiered storage is not part of Ottla. Its keys (remote.*, local.*) are known, because tools write down every default, and
only their defaults are taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Self

from ottla.errors import InvalidSetting, UnknownSetting
from ottla.settings import LIST, LONG, Alias, NoEffect, Source, setting
from ottla.table_settings import TableSettings

LARGEST: Final = 2**63 - 1
DAY_MS: Final = 24 * 3600 * 1000
COMPACT: Final = "compact"
DELETE: Final = "delete"
CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"


_NOT_TIERED: Final = NoEffect("feature", "records are not moved to remote storage")


def _in_ms(factor: int) -> Callable[[object], int]:
    def translate(value: object) -> int:
        number = LONG.parse(value)
        return number * factor if number >= 0 else -1

    return translate


def _minutes(name: str) -> Alias:
    return Alias(name, _in_ms(60_000))


def _hours(name: str) -> Alias:
    return Alias(name, _in_ms(3_600_000))


def _replicas_problem(value: Iterable[str]) -> str | None:
    listed = list(value)
    if listed == ["*"] or all(re.fullmatch(r"[0-9]+:[0-9]+", each) for each in listed):
        return None
    return "it must be *, or a list like 0:101,1:102 of partition:broker"


def _gzip_problem(value: int) -> str | None:
    return "0 is not a level; choose 1 (fast) to 9 (small), or -1 for gzip's default" if value == 0 else None


def _tiered_problem(value: object) -> str | None:
    return (
        "records are not moved to remote storage here; leave it as it is by default"
        if value not in (False, -2)
        else None
    )


class TopicSettings(TableSettings):
    """What may be set for a topic."""

    # --- how long records are kept ---

    cleanup_policy = setting(
        "cleanup.policy",
        LIST,
        default=(DELETE,),
        one_of=(COMPACT, DELETE),
        synonyms=["log.cleanup.policy"],
        dynamic="cluster-wide",
        doc="What happens to old records: delete drops whole segments by age and size, compact keeps the last record "
        "of every key; both may be given, and with neither everything is kept.",
    )
    retention_ms = setting(
        "retention.ms",
        LONG,
        default=7 * DAY_MS,
        at_least=-1,
        unit="ms",
        synonyms=["log.retention.ms", _minutes("log.retention.minutes"), _hours("log.retention.hours")],
        dynamic="cluster-wide",
        doc="How long a segment is kept after its latest record; -1 keeps it whatever its age.",
    )
    retention_bytes = setting(
        "retention.bytes",
        LONG,
        default=-1,
        unit="bytes",
        synonyms=["log.retention.bytes"],
        dynamic="cluster-wide",
        doc="How large a partition may grow before its oldest segments are deleted; below 0 there is no limit.",
    )
    file_delete_delay_ms = setting(
        "file.delete.delay.ms",
        LONG,
        default=60_000,
        at_least=0,
        unit="ms",
        synonyms=["log.segment.delete.delay.ms"],
        dynamic="cluster-wide",
        doc="How long the files of a deleted segment stay, so that answers under way can still be read from them.",
    )

    # --- remote storage, which is not there ---

    remote_storage_enable = setting(
        "remote.storage.enable",
        bool,
        default=False,
        dynamic="cluster-wide",
        check=_tiered_problem,
        no_effect=_NOT_TIERED,
        doc="Whether old segments are moved to remote storage; only false is possible.",
    )
    remote_log_copy_disable = setting(
        "remote.log.copy.disable",
        bool,
        default=False,
        dynamic="cluster-wide",
        check=_tiered_problem,
        no_effect=_NOT_TIERED,
        doc="Whether nothing more is moved to remote storage; only false is possible.",
    )
    remote_log_delete_on_disable = setting(
        "remote.log.delete.on.disable",
        bool,
        default=False,
        dynamic="cluster-wide",
        check=_tiered_problem,
        no_effect=_NOT_TIERED,
        doc="Whether records in remote storage are deleted when it is disabled; only false is possible.",
    )
    local_retention_ms = setting(
        "local.retention.ms",
        LONG,
        default=-2,
        at_least=-2,
        unit="ms",
        dynamic="cluster-wide",
        check=_tiered_problem,
        no_effect=_NOT_TIERED,
        doc="How long segments stay here that were moved to remote storage; only -2, as retention.ms, is possible.",
    )
    local_retention_bytes = setting(
        "local.retention.bytes",
        LONG,
        default=-2,
        at_least=-2,
        unit="bytes",
        dynamic="cluster-wide",
        check=_tiered_problem,
        no_effect=_NOT_TIERED,
        doc="How much stays here of what was moved to remote storage; only -2, as retention.bytes, is possible.",
    )

    # --- compaction ---

    min_cleanable_dirty_ratio = setting(
        "min.cleanable.dirty.ratio",
        float,
        default=0.5,
        at_least=0,
        at_most=1,
        synonyms=["log.cleaner.min.cleanable.ratio"],
        dynamic="cluster-wide",
        doc="Which part of a log must be uncompacted before it is compacted; small keeps it tidy, large saves work.",
    )
    min_compaction_lag_ms = setting(
        "min.compaction.lag.ms",
        LONG,
        default=0,
        at_least=0,
        unit="ms",
        synonyms=["log.cleaner.min.compaction.lag.ms"],
        dynamic="cluster-wide",
        doc="How long every record stays, so that readers that keep up see each value of a key.",
    )
    max_compaction_lag_ms = setting(
        "max.compaction.lag.ms",
        LONG,
        default=LARGEST,
        at_least=1,
        unit="ms",
        synonyms=["log.cleaner.max.compaction.lag.ms"],
        dynamic="cluster-wide",
        doc="How long a record may stay uncompacted, however small the uncompacted part of the log is.",
    )
    delete_retention_ms = setting(
        "delete.retention.ms",
        LONG,
        default=DAY_MS,
        at_least=0,
        unit="ms",
        synonyms=["log.cleaner.delete.retention.ms"],
        dynamic="cluster-wide",
        doc="How long the mark of a deleted key stays in a compacted topic, so that readers learn of the deletion.",
    )

    # --- segments and indexes ---

    segment_bytes = setting(
        "segment.bytes",
        int,
        default=1 << 30,
        at_least=1 << 20,
        unit="bytes",
        synonyms=["log.segment.bytes"],
        dynamic="cluster-wide",
        doc="How large a segment may grow; only whole segments before the last one are deleted or compacted.",
    )
    internal_segment_bytes = setting(
        "internal.segment.bytes",
        int,
        default=None,
        at_least=1,
        unit="bytes",
        importance="low",
        dynamic="cluster-wide",
        doc="For tests: counts instead of segment.bytes and may be smaller.",
    )
    segment_ms = setting(
        "segment.ms",
        LONG,
        default=7 * DAY_MS,
        at_least=1,
        unit="ms",
        synonyms=["log.roll.ms", _hours("log.roll.hours")],
        dynamic="cluster-wide",
        doc="How long records are added to a segment that is not full, so that a quiet topic can be cleaned too.",
    )
    segment_jitter_ms = setting(
        "segment.jitter.ms",
        LONG,
        default=0,
        at_least=0,
        unit="ms",
        synonyms=["log.roll.jitter.ms", _hours("log.roll.jitter.hours")],
        dynamic="cluster-wide",
        doc="At most how much sooner than segment.ms a segment ends, by chance, so that not all end at once.",
    )
    segment_index_bytes = setting(
        "segment.index.bytes",
        int,
        default=10 << 20,
        at_least=4,
        unit="bytes",
        synonyms=["log.index.size.max.bytes"],
        dynamic="cluster-wide",
        doc="How large an index of a segment may grow; a full index ends the segment.",
    )
    index_interval_bytes = setting(
        "index.interval.bytes",
        int,
        default=4096,
        at_least=0,
        unit="bytes",
        synonyms=["log.index.interval.bytes"],
        dynamic="cluster-wide",
        doc="How many bytes of records share one index entry; small finds faster, large has smaller indexes.",
    )
    preallocate = setting(
        "preallocate",
        bool,
        default=False,
        synonyms=["log.preallocate"],
        dynamic="cluster-wide",
        doc="Whether a new segment's file has its full size from the start.",
    )

    # --- what may be written ---

    max_message_bytes = setting(
        "max.message.bytes",
        int,
        default=(1 << 20) + 12,
        at_least=0,
        unit="bytes",
        synonyms=["message.max.bytes"],
        dynamic="cluster-wide",
        doc="The largest record batch that is taken, after compression.",
    )
    compression_type = setting(
        "compression.type",
        str,
        default="producer",
        one_of=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        dynamic="cluster-wide",
        doc="How batches are compressed on disk; producer keeps them as they were sent, which costs nothing.",
    )
    compression_gzip_level = setting(
        "compression.gzip.level",
        int,
        default=-1,
        at_least=-1,
        at_most=9,
        check=_gzip_problem,
        dynamic="cluster-wide",
        doc="How hard the broker tries when compression.type is gzip; -1 is gzip's own choice.",
    )
    compression_lz4_level = setting(
        "compression.lz4.level",
        int,
        default=9,
        at_least=1,
        at_most=17,
        dynamic="cluster-wide",
        doc="How hard the broker tries when compression.type is lz4.",
    )
    compression_zstd_level = setting(
        "compression.zstd.level",
        int,
        default=3,
        at_least=-131072,
        at_most=22,
        dynamic="cluster-wide",
        doc="How hard the broker tries when compression.type is zstd.",
    )
    message_timestamp_type = setting(
        "message.timestamp.type",
        str,
        default=CREATE_TIME,
        one_of=(CREATE_TIME, LOG_APPEND_TIME),
        synonyms=["log.message.timestamp.type"],
        dynamic="cluster-wide",
        doc="Whether a record keeps the producer's time or gets that of the broker when it is appended.",
    )
    message_timestamp_before_max_ms = setting(
        "message.timestamp.before.max.ms",
        LONG,
        default=LARGEST,
        at_least=0,
        unit="ms",
        synonyms=["log.message.timestamp.before.max.ms"],
        dynamic="cluster-wide",
        doc="How far the producer's time of a record may lie before the broker's.",
    )
    message_timestamp_after_max_ms = setting(
        "message.timestamp.after.max.ms",
        LONG,
        default=3_600_000,
        at_least=0,
        unit="ms",
        synonyms=["log.message.timestamp.after.max.ms"],
        dynamic="cluster-wide",
        doc="How far the producer's time of a record may lie after the broker's; one far ahead would never expire.",
    )

    # --- how safe it is ---

    ottla_durability = setting(
        "ottla.durability",
        str,
        default="auto",
        one_of=("auto", "durable", "replicated"),
        dynamic="cluster-wide",
        doc="When acks=all is answered: durable after a sync to disk, replicated when the in-sync replicas have it, "
        "auto is durable for partitions with one replica and replicated for those with more.",
    )
    min_insync_replicas = setting(
        "min.insync.replicas",
        int,
        default=1,
        at_least=1,
        dynamic="cluster-wide",
        doc="How many replicas must be in sync for a write with acks=all to be taken.",
    )
    confluent_value_schema_validation = setting(
        "confluent.value.schema.validation",
        bool,
        default=False,
        dynamic="cluster-wide",
        doc="Whether values must name a schema that the schema registry of this cluster knows.",
    )
    confluent_key_schema_validation = setting(
        "confluent.key.schema.validation",
        bool,
        default=False,
        dynamic="cluster-wide",
        doc="Whether keys must name a schema that the schema registry of this cluster knows.",
    )
    unclean_leader_election_enable = setting(
        "unclean.leader.election.enable",
        bool,
        default=False,
        dynamic="cluster-wide",
        doc="Whether a replica that lacks records may lead when no other is left; it loses them.",
    )
    flush_messages = setting(
        "flush.messages",
        LONG,
        default=LARGEST,
        at_least=1,
        synonyms=["log.flush.interval.messages"],
        dynamic="cluster-wide",
        doc="After how many records the log is synced, whatever its durability.",
    )
    flush_ms = setting(
        "flush.ms",
        LONG,
        default=LARGEST,
        at_least=0,
        unit="ms",
        synonyms=["log.flush.interval.ms", "log.flush.scheduler.interval.ms"],
        dynamic="cluster-wide",
        doc="After how long the log is synced, whatever its durability.",
    )
    leader_replication_throttled_replicas = setting(
        "leader.replication.throttled.replicas",
        LIST,
        default=(),
        check=_replicas_problem,
        dynamic="cluster-wide",
        doc="Replicas whose leaders slow down what they send to followers, as partition:broker; * is all.",
    )
    follower_replication_throttled_replicas = setting(
        "follower.replication.throttled.replicas",
        LIST,
        default=(),
        check=_replicas_problem,
        dynamic="cluster-wide",
        doc="Replicas that slow down what they fetch from leaders, as partition:broker; * is all.",
    )

    def validate(self) -> None:
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise InvalidSetting(
                f"min.compaction.lag.ms={self.min_compaction_lag_ms} is more than "
                f"max.compaction.lag.ms={self.max_compaction_lag_ms}; a record cannot stay longer than it may"
            )

    @classmethod
    def from_broker(cls, broker_values: Mapping[str, object]) -> Self:
        """What a topic has that sets nothing. Of the broker's values (by dotted name; None is not set) those that are
        about topics are taken, the others are the broker's own business."""
        return cls({key: value for key, value in broker_values.items() if key in BROKER_KEYS and value is not None})

    def for_topic(self, overrides: Mapping[str, object]) -> Self:
        """These settings with a topic's own values over them."""
        names = {each.name for each in self.declared()}
        for key in overrides:
            if key in BROKER_KEYS and key not in names:
                topic_key = next(each.name for each in self._fed_by(key))
                raise UnknownSetting(f"{key!r} is the broker's name for it; a topic has {topic_key!r}")
        return self.replaced(overrides, source=Source.DYNAMIC)

    @property
    def is_compacted(self) -> bool:
        return COMPACT in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        return DELETE in self.cleanup_policy

    @property
    def segment_limit_bytes(self) -> int:
        return self.segment_bytes if self.internal_segment_bytes is None else self.internal_segment_bytes


# Settings that a broker knows under the same name as a topic.
_SAME_NAME: Final = frozenset(
    {
        *("compression.type", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level"),
        *("min.insync.replicas", "unclean.leader.election.enable", "ottla.durability"),
        *(each.name for each in TableSettings.declared()),
    }
)
BROKER_KEYS: Final = _SAME_NAME | {other.name for each in TopicSettings.declared() for other in each.synonyms}
"""The broker's names of what it decides for topics that set nothing."""
