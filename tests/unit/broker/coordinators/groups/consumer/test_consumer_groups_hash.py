"""The hash of what a group reads is Kafka's own: these numbers come from Kafka 4.3.1's jars."""

from __future__ import annotations

import struct

import pytest

from ottla.broker.coordinators.groups.consumer.subscriptions import metadata_hash, topic_hash
from ottla.broker.coordinators.groups.consumer.xxh3 import hash64

HASHES = {
    0: 3244421341483603138,
    1: 5502495245947142431,
    2: -6349423698422726873,
    3: 1582743943441612892,
    4: -2549016526957988167,
    7: 8458189580353027099,
    8: -2394039629164210130,
    9: -3754995788605292611,
    15: 6079324691992009783,
    16: 9099606716676871632,
    17: 2345212530088924167,
    31: -6253418322204177903,
    32: 278953543771952198,
    33: 1844846513307983686,
    64: -2508381663727503547,
    65: -381843323958800864,
    100: -8316154546292524762,
    128: -492175581222641016,
    129: -506823097681485574,
    130: 3475138682099581770,
    200: 1368452603177808973,
    240: -3690920546649497853,
    241: 809349449570470400,
    256: -1403514104434996620,
    300: -4995179824170898202,
    511: 1147450020860125067,
    512: -1170120971253711958,
    513: -1496964965234801531,
    1023: -1093476622474739461,
    1024: 2575082683865311686,
    1025: -4566685497618039422,
    1026: 8219717057809368084,
    2047: -4278671198590246626,
    2048: 1870957339171033971,
    2049: 5784106328234771061,
    5000: 6169931020318013678,
}


@pytest.mark.parametrize("size", HASHES)
def test_every_length_has_its_own_way(size):
    assert hash64(bytes((index * 31 + 7) & 255 for index in range(size))) == HASHES[size]


def test_text_is_utf_16_and_then_its_length():
    text = "topic-é"
    data = b"\0" + struct.pack("<qq", 1, -2) + text.encode("utf-16-le") + struct.pack("<ii", len(text), 3)
    assert hash64(data) == -7141863019847887571


class Racks:
    def __init__(self, cluster, *racks):
        self.cluster = cluster
        self.racks = racks

    def __getattr__(self, name):
        return getattr(self.cluster, name)

    def partition_racks(self, name, partition):
        return self.racks


def test_a_group_is_hashed_over_the_topics_that_exist(consumers):
    cluster = consumers.cluster
    assert metadata_hash(cluster, []) == metadata_hash(cluster, ["missing"]) == topic_hash(cluster, "missing") == 0
    both = metadata_hash(cluster, ["t", "u", "missing"])
    assert (
        both
        == metadata_hash(cluster, ["u", "t"])
        == hash64(struct.pack("<qq", topic_hash(cluster, "t"), topic_hash(cluster, "u")))
    )
    assert both != metadata_hash(cluster, ["t"])


def test_racks_are_a_part_of_it(consumers):
    plain = topic_hash(consumers.cluster, "t")
    assert plain == topic_hash(Racks(consumers.cluster), "t")
    assert plain != topic_hash(Racks(consumers.cluster, "a", "b"), "t")
    assert topic_hash(Racks(consumers.cluster, "b", "a"), "t") == topic_hash(Racks(consumers.cluster, "a", "b"), "t")


def test_a_group_is_hashed_as_kafka_does():
    """computeTopicHash and computeGroupHash of Kafka 4.3.1, called with these topics."""
    cluster = Racks(KafkaTopics(), "rack0", "rack1")
    assert topic_hash(cluster, "foo") == FOO
    assert metadata_hash(cluster, ["foo", "bar"]) == FOO_AND_BAR


class KafkaTopics:
    known = {"foo": (bytes(range(16)), 2), "bar": (bytes(range(240, 256)), 3)}

    def topic_id(self, name):
        return self.known[name][0] if name in self.known else None

    def partition_count(self, name):
        return self.known[name][1] if name in self.known else None


FOO, FOO_AND_BAR = 2196837618617241334, 3834145231727990559
