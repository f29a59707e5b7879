"""murmur2 gives Java's numbers, so that keys stay on the partitions other clients put them on."""

import warnings

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.hashing import murmur2, partition_for_key, to_positive

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas the old way
    from kafka.partitioner import murmur2 as kafka_python_murmur2

# From the tests of Java's Utils.
JAVA = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize(("key", "expected"), JAVA)
def test_java_vectors(key, expected):
    assert murmur2(key) == expected
    assert murmur2(memoryview(b"." + key)[1:]) == expected


@given(st.binary(max_size=70))
def test_the_other_python_clients_agree(key):
    assert murmur2(key) & 0xFFFFFFFF == kafka_python_murmur2(key) & 0xFFFFFFFF == aiokafka_murmur2(key) & 0xFFFFFFFF


@given(st.binary(max_size=20))
def test_the_number_is_a_java_int(key):
    assert -(2**31) <= murmur2(key) < 2**31


def test_to_positive_drops_the_sign_bit_and_is_not_abs():
    assert to_positive(-1) == 0x7FFFFFFF
    assert to_positive(-(2**31)) == 0
    assert to_positive(5) == 5


@given(st.binary(max_size=20), st.integers(1, 5000))
def test_a_key_lands_where_the_other_clients_put_it(key, count):
    assert partition_for_key(key, count) == (kafka_python_murmur2(key) & 0x7FFFFFFF) % count


@pytest.mark.parametrize("count", [0, -1])
def test_no_partitions_is_refused(count):
    with pytest.raises(ValueError, match="at least one"):
        partition_for_key(b"k", count)
