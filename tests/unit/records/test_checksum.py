"""CRC-32C: the wheel and the readable twin agree with each other and with published vectors."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records import checksum
from ottla.records.checksum import crc32c, crc32c_python

# RFC 3720 appendix B.4, and the check value of the CRC catalogue.
VECTORS = [
    (b"", 0),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
]


@pytest.mark.parametrize("calculate", [crc32c, crc32c_python])
@pytest.mark.parametrize(("data", "expected"), VECTORS)
def test_published_vectors(calculate, data, expected):
    assert calculate(data) == expected


@given(st.binary(max_size=300), st.integers(0, 0xFFFFFFFF))
def test_wheel_and_twin_agree_from_any_start(data, value):
    assert crc32c(data, value) == crc32c_python(data, value)


@pytest.mark.parametrize("calculate", [crc32c, crc32c_python])
@given(data=st.binary(max_size=100), cut=st.integers(0, 100))
def test_a_checksum_can_be_continued(calculate, data, cut):
    assert calculate(data[cut:], calculate(data[:cut])) == calculate(data)


@pytest.mark.parametrize("calculate", [crc32c, crc32c_python])
def test_any_buffer_will_do(calculate):
    data = bytearray(b"..123456789")
    assert calculate(memoryview(data)[2:]) == calculate(data[2:]) == 0xE3069283


def test_without_the_wheel_the_twin_answers(monkeypatch):
    monkeypatch.setitem(sys.modules, "crc32c", None)
    monkeypatch.setattr(checksum, "_chosen", checksum._first_call)
    assert crc32c(b"123456789") == 0xE3069283
    assert checksum._chosen is crc32c_python


def test_importing_it_does_not_import_the_wheel():
    code = "import sys, ottla.records.checksum; sys.exit('crc32c' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
