"""Topic settings are Kafka's, and a broker's values reach the topics that set nothing."""

import pytest

from ottla.errors import InvalidSetting, UnknownSetting
from ottla.settings import Source
from ottla.storage.settings import BROKER_KEYS, TopicSettings
from ottla.table_settings import TableSettings

# Facts of Kafka 4.3's LogConfig and its table of synonyms: key, type, default, least, most, the broker's names.
FACTS = """
cleanup.policy LIST delete - - log.cleanup.policy
compression.gzip.level INT -1 -1 9 compression.gzip.level
compression.lz4.level INT 9 1 17 compression.lz4.level
compression.type STRING producer - - compression.type
compression.zstd.level INT 3 -131072 22 compression.zstd.level
delete.retention.ms LONG 86400000 0 - log.cleaner.delete.retention.ms
file.delete.delay.ms LONG 60000 0 - log.segment.delete.delay.ms
flush.messages LONG 9223372036854775807 1 - log.flush.interval.messages
flush.ms LONG 9223372036854775807 0 - log.flush.interval.ms log.flush.scheduler.interval.ms
follower.replication.throttled.replicas LIST - - -
index.interval.bytes INT 4096 0 - log.index.interval.bytes
leader.replication.throttled.replicas LIST - - -
max.compaction.lag.ms LONG 9223372036854775807 1 - log.cleaner.max.compaction.lag.ms
max.message.bytes INT 1048588 0 - message.max.bytes
local.retention.bytes LONG -2 -2 -
local.retention.ms LONG -2 -2 -
remote.log.copy.disable BOOLEAN false - -
remote.log.delete.on.disable BOOLEAN false - -
remote.storage.enable BOOLEAN false - -
message.timestamp.after.max.ms LONG 3600000 0 - log.message.timestamp.after.max.ms
message.timestamp.before.max.ms LONG 9223372036854775807 0 - log.message.timestamp.before.max.ms
message.timestamp.type STRING CreateTime - - log.message.timestamp.type
min.cleanable.dirty.ratio DOUBLE 0.5 0 1 log.cleaner.min.cleanable.ratio
min.compaction.lag.ms LONG 0 0 - log.cleaner.min.compaction.lag.ms
min.insync.replicas INT 1 1 - min.insync.replicas
preallocate BOOLEAN false - - log.preallocate
retention.bytes LONG -1 - - log.retention.bytes
retention.ms LONG 604800000 -1 - log.retention.ms log.retention.minutes log.retention.hours
segment.bytes INT 1073741824 1048576 - log.segment.bytes
segment.index.bytes INT 10485760 4 - log.index.size.max.bytes
segment.jitter.ms LONG 0 0 - log.roll.jitter.ms log.roll.jitter.hours
segment.ms LONG 604800000 1 - log.roll.ms log.roll.hours
unclean.leader.election.enable BOOLEAN false - - unclean.leader.election.enable
"""
ROWS = {line.split()[0]: line.split()[1:] for line in FACTS.strip().split("\n")}
DECLARED = {each.name: each for each in TopicSettings.declared()}


def test_the_keys_are_kafkas_and_a_few_of_ours():
    schemas = {"confluent.key.schema.validation", "confluent.value.schema.validation"}
    tables = {each.name for each in TableSettings.declared()}
    assert set(DECLARED) - set(ROWS) == {"ottla.durability", "internal.segment.bytes", *schemas, *tables}
    assert set(ROWS) <= set(DECLARED)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_setting_has_the_type_the_default_and_the_bounds_of_kafka(name):
    kind, default, least, most, *_ = ROWS[name]
    each = DECLARED[name]
    assert each.kind.name == kind
    assert (each.text(each.default) or "-") == default
    assert str(each.at_least if each.at_least is not None else "-") == least
    assert str(each.at_most if each.at_most is not None else "-") == most


@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_broker_knows_a_setting_under_kafkas_names(name):
    expected = ROWS[name][4:]
    each = DECLARED[name]
    assert ([other.name for other in each.synonyms] or [name] * len(expected)) == expected
    assert set(expected) <= BROKER_KEYS


@pytest.mark.parametrize("each", TopicSettings.declared(), ids=lambda each: each.name)
def test_every_setting_is_explained_and_may_change_while_running(each):
    assert each.doc.endswith(".")
    assert each.dynamic
    assert each.unit == {"ms": "ms", "bytes": "bytes"}.get(each.name.rpartition(".")[2], "")


def test_texts_become_values():
    settings = TopicSettings({"retention.ms": "-1", "preallocate": "true", "cleanup.policy": "compact, delete"})
    assert settings.retention_ms == -1
    assert settings.preallocate is True
    assert settings.cleanup_policy == ("compact", "delete")


@pytest.mark.parametrize(
    ("policy", "compacted", "deleted"),
    [("delete", False, True), ("compact", True, False), ("compact,delete", True, True), ("", False, False)],
)
def test_a_topic_is_compacted_deleted_both_or_neither(policy, compacted, deleted):
    settings = TopicSettings({"cleanup.policy": policy})
    assert (settings.is_compacted, settings.is_deleted) == (compacted, deleted)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cleanup.policy", "none"),
        ("compression.type", "none"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("segment.bytes", "1048575"),
        ("segment.bytes", "2147483648"),
        ("retention.ms", "-2"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("min.insync.replicas", "0"),
        ("message.timestamp.type", "createtime"),
        ("ottla.durability", "maybe"),
        ("leader.replication.throttled.replicas", "0"),
        ("leader.replication.throttled.replicas", "a:1"),
        ("follower.replication.throttled.replicas", "*,0:1"),
    ],
)
def test_what_kafka_refuses_is_refused(key, value):
    with pytest.raises(InvalidSetting, match=key):
        TopicSettings({key: value})


@pytest.mark.parametrize("value", ["", "*", "0:1", "0:101, 1:102"])
def test_throttled_replicas_are_listed_or_all(value):
    TopicSettings({"leader.replication.throttled.replicas": value})


def test_a_record_cannot_stay_longer_than_it_may():
    TopicSettings({"min.compaction.lag.ms": 5, "max.compaction.lag.ms": 5})
    with pytest.raises(InvalidSetting, match=r"min\.compaction\.lag\.ms=6 is more than max\.compaction\.lag\.ms=5"):
        TopicSettings({"min.compaction.lag.ms": 6, "max.compaction.lag.ms": 5})


TIERED = {
    "remote.storage.enable": ("false", "true"),
    "remote.log.copy.disable": ("false", "true"),
    "remote.log.delete.on.disable": ("false", "true"),
    "local.retention.ms": ("-2", "-1"),
    "local.retention.bytes": ("-2", "1000"),
}


@pytest.mark.parametrize("key", TIERED)
def test_of_remote_storage_only_the_defaults_are_taken(key):
    default, other = TIERED[key]
    TopicSettings().for_topic({key: default})
    with pytest.raises(InvalidSetting, match="not moved to remote storage here"):
        TopicSettings().for_topic({key: other})


@pytest.mark.parametrize("key", ["message.format.version", "retention.m"])
def test_what_we_do_not_have_is_unknown_and_not_ignored(key):
    with pytest.raises(UnknownSetting):
        TopicSettings().for_topic({key: "1"})


# --- broker and topic ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("broker", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "24"}, 86_400_000),
        ({"log.retention.hours": 24, "log.retention.minutes": 5}, 300_000),
        ({"log.retention.hours": 24, "log.retention.minutes": 5, "log.retention.ms": 7}, 7),
        ({"log.retention.hours": 24, "log.retention.minutes": None}, 86_400_000),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": -1, "log.retention.hours": 1}, -1),
    ],
)
def test_the_finest_unit_the_broker_gives_counts(broker, retention_ms):
    assert TopicSettings.from_broker(broker).retention_ms == retention_ms


def test_hours_roll_segments_too():
    settings = TopicSettings.from_broker({"log.roll.hours": "2", "log.roll.jitter.hours": "1"})
    assert (settings.segment_ms, settings.segment_jitter_ms) == (7_200_000, 3_600_000)


def test_what_is_the_brokers_own_business_is_left_to_it():
    settings = TopicSettings.from_broker({"num.io.threads": "8", "compression.type": "lz4", "retention.ms": "1"})
    assert settings.compression_type == "lz4"
    assert settings.retention_ms == 604_800_000


def test_a_bad_value_of_the_broker_is_named_by_the_brokers_key():
    with pytest.raises(InvalidSetting, match=r"log\.segment\.bytes"):
        TopicSettings.from_broker({"log.segment.bytes": "12"})
    with pytest.raises(InvalidSetting, match=r"log\.retention\.hours"):
        TopicSettings.from_broker({"log.retention.hours": "a day"})


def test_a_topics_value_wins_over_the_brokers_and_the_origin_is_known():
    defaults = TopicSettings.from_broker({"log.retention.ms": "100", "min.insync.replicas": "2"})
    settings = defaults.for_topic({"retention.ms": "5"})
    assert (settings.retention_ms, settings.min_insync_replicas) == (5, 2)
    assert settings.source("retention.ms") is Source.DYNAMIC
    assert settings.source("min.insync.replicas") is Source.STATIC
    assert settings.source("segment.ms") is Source.DEFAULT
    entry = next(each for each in settings.entries() if each.setting.name == "retention.ms")
    assert [level[:2] for level in entry.synonyms] == [
        *(("retention.ms", "5"), ("log.retention.ms", "100"), ("retention.ms", "604800000")),
    ]


def test_a_brokers_name_is_not_a_topics():
    with pytest.raises(UnknownSetting, match=r"'log\.retention\.hours' is the broker's name .* 'retention\.ms'"):
        TopicSettings().for_topic({"log.retention.hours": "1"})
    assert TopicSettings().for_topic({"compression.type": "zstd"}).compression_type == "zstd"


def test_small_segments_are_for_tests():
    assert TopicSettings().segment_limit_bytes == 1 << 30
    assert TopicSettings({"segment.bytes": 1 << 20}).segment_limit_bytes == 1 << 20
    assert TopicSettings({"internal.segment.bytes": 100}).segment_limit_bytes == 100
