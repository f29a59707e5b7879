"""Where logs are kept and what looks after them; what topics get that set nothing themselves.

The second half is made from the topic settings: a broker's log.segment.bytes is a topic's segment.bytes, with the same
type, bounds and sentence. Only where Kafka has one name per unit (hours, minutes, ms) they are written out here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final, TypeVar

from ottla.broker.settings.no_effect import FIXED_TIMES, THREADS
from ottla.light_dataclasses import replace
from ottla.settings import LIST, LONG, Importance, Setting, Settings, setting
from ottla.storage.settings import BROKER_KEYS, TopicSettings

LARGEST: Final = 2**63 - 1
FLOAT_MAX: Final = sys.float_info.max

# What Kafka calls important in a broker though it does not in a topic.
_IMPORTANT: Final = frozenset(
    {
        *("log.retention.bytes", "log.segment.bytes", "log.segment.delete.delay.ms", "log.flush.interval.messages"),
        *("message.max.bytes", "compression.type", "min.insync.replicas", "unclean.leader.election.enable"),
    }
)
S = TypeVar("S", bound=Settings)


def _topic_defaults() -> Iterator[Setting[object]]:
    """The topic settings that a broker has under one name of its own."""
    for each in TopicSettings.declared():
        names = [other.name for other in each.synonyms] or [each.name]
        if len(names) == 1 and names[0] in BROKER_KEYS:
            importance: Importance = "high" if names[0] in _IMPORTANT else "medium"
            yield replace(each, name=names[0], synonyms=(), importance=importance)


def _with_topic_defaults(group: type[S]) -> type[S]:
    for each in _topic_defaults():
        setattr(group, each.attribute, each)
    group.__init_subclass__()  # the group was counted before they were there
    return group


@_with_topic_defaults
class LogSettings(Settings):
    log_dir = setting(
        "log.dir",
        LIST,
        default=("~/.local/share/ottla",),
        importance="high",
        doc="Where logs are kept, when log.dirs is not given; ~ is the user's home.",
    )
    log_dirs = setting(
        "log.dirs",
        LIST,
        default=None,
        importance="high",
        doc="Where logs are kept: one or more directories, at best one per disk.",
    )
    cordoned_log_dirs = setting(
        "cordoned.log.dirs",
        LIST,
        default=(),
        dynamic="per-broker",
        doc="Directories that get no new partitions; * is all.",
    )
    num_recovery_threads_per_data_dir = setting(
        "num.recovery.threads.per.data.dir",
        int,
        default=2,
        at_least=1,
        importance="high",
        dynamic="cluster-wide",
        no_effect=THREADS,
        doc="How many logs of a directory are opened or closed at a time.",
    )
    log_flush_offset_checkpoint_interval_ms = setting(
        "log.flush.offset.checkpoint.interval.ms",
        int,
        default=60_000,
        at_least=0,
        unit="ms",
        importance="high",
        doc="How often it is written down how far logs are synced, which is where recovery starts.",
    )
    log_flush_start_offset_checkpoint_interval_ms = setting(
        "log.flush.start.offset.checkpoint.interval.ms",
        int,
        default=60_000,
        at_least=0,
        unit="ms",
        importance="high",
        doc="How often it is written down where logs begin.",
    )
    log_retention_check_interval_ms = setting(
        "log.retention.check.interval.ms",
        LONG,
        default=300_000,
        at_least=1,
        unit="ms",
        doc="How often segments that may be deleted are looked for.",
    )
    log_initial_task_delay_ms = setting(
        "log.initial.task.delay.ms",
        LONG,
        default=30_000,
        at_least=0,
        unit="ms",
        importance="low",
        no_effect=FIXED_TIMES,
        doc="How long after the start the chores of logs begin.",
    )
    log_dir_failure_timeout_ms = setting(
        "log.dir.failure.timeout.ms",
        LONG,
        default=30_000,
        at_least=1,
        unit="ms",
        importance="low",
        doc="How long a broker whose directory failed may go without telling the controller before it stops.",
    )

    # --- the cleaner of compacted topics ---

    log_cleaner_enable = setting(
        "log.cleaner.enable", bool, default=True, doc="Whether compacted topics are compacted."
    )
    log_cleaner_threads = setting(
        "log.cleaner.threads",
        int,
        default=1,
        at_least=0,
        dynamic="cluster-wide",
        doc="How many logs are compacted at a time.",
    )
    log_cleaner_backoff_ms = setting(
        "log.cleaner.backoff.ms",
        LONG,
        default=15_000,
        at_least=0,
        unit="ms",
        dynamic="cluster-wide",
        doc="How long the cleaner rests when there is nothing to compact.",
    )
    log_cleaner_dedupe_buffer_size = setting(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        default=134_217_728,
        unit="bytes",
        dynamic="cluster-wide",
        doc="How much memory the cleaner may use to remember keys.",
    )
    log_cleaner_io_buffer_size = setting(
        "log.cleaner.io.buffer.size",
        int,
        default=524_288,
        at_least=0,
        unit="bytes",
        dynamic="cluster-wide",
        doc="How much memory the cleaner may use to read and write.",
    )
    log_cleaner_io_buffer_load_factor = setting(
        "log.cleaner.io.buffer.load.factor",
        float,
        default=0.9,
        dynamic="cluster-wide",
        doc="How full the cleaner's table of keys may get; fuller holds more keys and is slower.",
    )
    log_cleaner_io_max_bytes_per_second = setting(
        "log.cleaner.io.max.bytes.per.second",
        float,
        default=FLOAT_MAX,
        unit="bytes",
        dynamic="cluster-wide",
        doc="How much the cleaner may read and write in a second.",
    )
    ottla_verify_interval_ms = setting(
        "ottla.verify.interval.ms",
        LONG,
        default=604_800_000,
        at_least=0,
        unit="ms",
        doc="How often all records are read and their CRCs checked, to find what rotted on the disk; 0 is never.",
    )
    ottla_verify_max_bytes_per_second = setting(
        "ottla.verify.max.bytes.per.second",
        LONG,
        default=8_388_608,
        at_least=1,
        unit="bytes",
        dynamic="cluster-wide",
        doc="How much of the logs may be read in a second to check CRCs.",
    )

    # --- how long topics keep records, by unit ---

    log_retention_ms = setting(
        "log.retention.ms",
        LONG,
        default=None,
        unit="ms",
        importance="high",
        dynamic="cluster-wide",
        doc="How long a topic that does not say keeps its records; -1 is for ever.",
    )
    log_retention_minutes = setting(
        "log.retention.minutes",
        int,
        default=None,
        unit="minutes",
        importance="high",
        doc="The same in minutes; counts when log.retention.ms is not given.",
    )
    log_retention_hours = setting(
        "log.retention.hours",
        int,
        default=168,
        unit="hours",
        importance="high",
        doc="The same in hours; counts when neither ms nor minutes are given.",
    )
    log_roll_ms = setting(
        "log.roll.ms",
        LONG,
        default=None,
        unit="ms",
        importance="high",
        dynamic="cluster-wide",
        doc="How long a topic that does not say adds to one segment.",
    )
    log_roll_hours = setting(
        "log.roll.hours",
        int,
        default=168,
        at_least=1,
        unit="hours",
        importance="high",
        doc="The same in hours; counts when log.roll.ms is not given.",
    )
    log_roll_jitter_ms = setting(
        "log.roll.jitter.ms",
        LONG,
        default=None,
        unit="ms",
        importance="high",
        dynamic="cluster-wide",
        doc="At most how much sooner a segment ends by chance, so that not all end at once.",
    )
    log_roll_jitter_hours = setting(
        "log.roll.jitter.hours",
        int,
        default=0,
        at_least=0,
        unit="hours",
        importance="high",
        doc="The same in hours; counts when log.roll.jitter.ms is not given.",
    )
    log_flush_interval_ms = setting(
        "log.flush.interval.ms",
        LONG,
        default=None,
        unit="ms",
        importance="high",
        dynamic="cluster-wide",
        doc="After how long a log is synced, whatever its durability.",
    )
    log_flush_scheduler_interval_ms = setting(
        "log.flush.scheduler.interval.ms",
        LONG,
        default=LARGEST,
        unit="ms",
        importance="high",
        doc="How often logs that must be synced are looked for; counts for log.flush.interval.ms when that "
        "is not given.",
    )
