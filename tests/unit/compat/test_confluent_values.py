"""Partitioners, ids, errors and small values of confluent-kafka, beside the originals."""

import random

import confluent_kafka as theirs
import confluent_kafka.admin as their_admin
import pytest

import ottla.compat.confluent_kafka as ours
import ottla.compat.confluent_kafka.admin as our_admin
from ottla.compat.confluent_kafka.partitioners import PARTITIONERS

SIDES = [ours, theirs]


def keys():
    chance = random.Random(16)
    return [b"", b"a", b"\x00", b"\xff" * 9, *(chance.randbytes(chance.randrange(1, 70)) for _ in range(300))]


@pytest.mark.parametrize("name", ["murmur2", "consistent", "fnv1a"])
def test_keys_go_where_librdkafka_puts_them(name):
    for key in keys():
        for count in (1, 2, 3, 7, 12, 1000):
            assert getattr(ours, name)(key, count) == getattr(theirs, name)(key, count), (key, count)
            assert PARTITIONERS[name](key, range(count), []) == getattr(theirs, name)(key, count)
    for wrong in ((b"a", 0), (b"a", -1), ("a", 3), (None, 3)):
        with pytest.raises((TypeError, ValueError)) as expected:
            getattr(theirs, name)(*wrong)
        with pytest.raises(expected.type):
            getattr(ours, name)(*wrong)


def test_the_random_partitioners_use_keys_as_librdkafka_does():
    for name, hashed in (("murmur2_random", "murmur2"), ("fnv1a_random", "fnv1a"), ("consistent_random", "consistent")):
        assert PARTITIONERS[name](b"key", range(9), []) == getattr(theirs, hashed)(b"key", 9)
        assert PARTITIONERS[name](None, range(9), []) == -1
    assert PARTITIONERS["consistent_random"](b"", range(9), []) == -1
    assert PARTITIONERS["murmur2_random"](b"", range(9), []) == theirs.murmur2(b"", 9)


@pytest.mark.parametrize("code", [0, 3, 36, -185, -191, -195, 10, 999])
def test_errors_compare_and_print_as_theirs(code):
    found, expected = (side.KafkaError(code, "why", fatal=True, retriable=True) for side in SIDES)
    assert repr(found) == repr(expected)
    assert [found.code(), found.name(), found.str()] == [expected.code(), expected.name(), expected.str()]
    assert [found.fatal(), found.retriable(), found.txn_requires_abort()] == [True, True, False]
    assert (found == code, found != code, found < code + 1, bool(found)) == (
        expected == code,
        expected != code,
        expected < code + 1,
        bool(expected),
    )


def test_ids_partitions_and_messages_print_as_theirs():
    for most, least in ((0, 0), (1, -2), (2**62, -(2**63)), (-1, -1)):
        found, expected = (side.Uuid(most, least) for side in SIDES)
        assert str(found) == str(expected)
        assert found.get_most_significant_bits() == expected.get_most_significant_bits()
        assert found.get_least_significant_bits() == expected.get_least_significant_bits()
        assert found == ours.Uuid(most, least)
    for arguments in (("t",), ("t", 1), ("t", 1, 5, "m"), ("t", 1, -2, "m", 7)):
        found, expected = (side.TopicPartition(*arguments) for side in SIDES)
        assert (repr(found), found.leader_epoch, found.metadata) == (
            repr(expected),
            expected.leader_epoch,
            expected.metadata,
        )
    found, expected = (side.Message(topic="t", key=b"k", value=b"v", offset=3) for side in SIDES)
    names = ("topic", "key", "value", "offset", "partition", "headers", "error", "latency", "delivery_count")
    for name in names:
        assert getattr(found, name)() == getattr(expected, name)(), name
    assert len(found) == len(expected)


def test_enumerations_have_the_same_members():
    names = ("ConsumerGroupState", "ConsumerGroupType", "ElectionType", "IsolationLevel", "AcknowledgeType")
    for name in names:
        found, expected = (getattr(side, name).__members__ for side in SIDES)
        assert {key: each.value for key, each in found.items()} == {key: each.value for key, each in expected.items()}
    names = ("ResourceType", "ResourcePatternType", "AclOperation", "AclPermissionType", "ScramMechanism")
    for name in (*names, "ConfigSource", "AlterConfigOpType"):
        found, expected = (getattr(side, name).__members__ for side in (our_admin, their_admin))
        assert {key: each.value for key, each in found.items()} == {key: each.value for key, each in expected.items()}


def test_topics_and_settings_print_and_compare_as_theirs():
    for side in (our_admin, their_admin):
        assert repr(side.NewTopic("t", 3, 1)) == "NewTopic(topic=t,num_partitions=3)"
        assert side.NewTopic("t") == side.NewTopic("t")
        assert repr(side.NewPartitions("t", 4)) == "NewPartitions(topic=t,new_total_count=4)"
        assert repr(side.ConfigEntry("a", "b")) == 'ConfigEntry(a="b")'
        resource = side.ConfigResource("topic", "t", {"a": "1"})
        assert (len(resource), resource == side.ConfigResource(side.ResourceType.TOPIC, "t")) == (1, True)
        with pytest.raises(ValueError, match=r"."):
            side.ConfigResource("no such type", "t")
        assert side.OffsetSpec.earliest() < side.OffsetSpec.latest() < side.OffsetSpec.for_timestamp(5)
