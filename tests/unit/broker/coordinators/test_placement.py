import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.coordinators.placement import java_hash, partition_for_name

# Printed by Java 17's String.hashCode and by Utils.abs(hash) % 50 of Apache Kafka 4.3.1.
KNOWN = [
    ("", 0, 0),
    ("a", 97, 47),
    ("my-group", -1906497762, 12),
    ("polygenelubricants", -2147483648, 0),
    ("tx-0", 3572519, 19),
    ("\N{GRINNING FACE}-group", -1198440043, 43),
    ("äöü", 226986, 36),
    ("console-consumer-12345", 158455506, 6),
    ("\ud800", 55296, 46),
    ("transactional-id-with-a-longer-name-17", 421754537, 37),
]


@pytest.mark.parametrize(("name", "hashed", "partition"), KNOWN)
def test_a_name_has_the_partition_that_kafka_gives_it(name, hashed, partition):
    assert java_hash(name) == hashed
    assert partition_for_name(name, 50) == partition


@given(st.text(), st.integers(1, 1000))
def test_every_name_has_a_partition_that_exists(name, count):
    assert 0 <= partition_for_name(name, count) < count


def test_a_topic_without_partitions_is_refused():
    with pytest.raises(ValueError, match="at least one partition"):
        partition_for_name("a", 0)
