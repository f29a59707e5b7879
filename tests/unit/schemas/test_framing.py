"""The five bytes before a record, and the indexes of Protobuf: as confluent-kafka writes and reads them."""

import pytest

from ottla.schemas.framing import UnframedRecord, frame, read_indexes, schema_id_of, write_indexes


def test_the_id_of_a_schema_stands_before_the_record():
    assert frame(258) + b"x" == b"\0\0\0\1\2x"
    assert schema_id_of(frame(258) + b"x") == 258


@pytest.mark.parametrize("record", [b"", b"\0\0\0\0", b"\1\0\0\0\1", b"{}    "])
def test_what_has_no_id_is_refused(record):
    with pytest.raises(UnframedRecord):
        schema_id_of(record)


@pytest.mark.parametrize("indexes", [(0,), (1,), (0, 0), (3, 200, 70_000)])
def test_indexes_are_written_and_read(indexes):
    written = frame(1) + write_indexes(indexes) + b"rest"
    found, position = read_indexes(written)
    assert (found, written[position:]) == (indexes, b"rest")


def test_the_first_message_is_one_byte():
    assert write_indexes((0,)) == b"\0"


@pytest.mark.parametrize("damaged", [b"", b"\x80", b"\x04\x00", b"\x01\x00", b"\xff\xff\xff\xff\xff\xff", b"\xfe\x7f"])
def test_damaged_indexes_are_refused(damaged):
    with pytest.raises(UnframedRecord):
        read_indexes(frame(1) + damaged)
