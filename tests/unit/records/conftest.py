"""Every test of the record codec runs on both twins; the native one is left out only where it was not built."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import pytest
from tests.unit.records.native_codec import load_native

from ottla.records import batch, builder, checksum, columns, hashing, header, stream, varint

PYTHON = SimpleNamespace(
    name="python",
    BatchBuilder=builder.BatchBuilder,
    BatchInfo=header.BatchInfo,
    Record=batch.Record,
    RecordBatch=batch.RecordBatch,
    RecordStream=stream.RecordStream,
    assign_offsets=header.assign_offsets,
    crc32c=checksum.crc32c,
    decode_columns=columns.decode_columns,
    decode_varint=varint.decode_varint,
    decode_varlong=varint.decode_varlong,
    encode_varint=varint.encode_varint,
    encode_varlong=varint.encode_varlong,
    murmur2=hashing.murmur2,
    scan=header.scan,
    set_append_time=header.set_append_time,
)
NATIVE = load_native()


@pytest.fixture(scope="session", params=["python", "native"])
def twin(request):
    """One implementation of the record codec, as a namespace."""
    if request.param == "python":
        return PYTHON
    if NATIVE is None:
        pytest.skip("ottla.records._native is not built: that needs a C compiler")
    return NATIVE


@pytest.fixture(scope="session")
def both():
    """Both implementations, Python first."""
    if NATIVE is None:
        pytest.skip("ottla.records._native is not built: that needs a C compiler")
    return PYTHON, NATIVE


@pytest.fixture(scope="session")
def seal():
    """A function that puts any record bytes into a batch with a right CRC, so that only the records can be wrong."""

    def sealed(
        records: bytes, count: int, *, attributes: int = 0, last_offset_delta: int | None = None, **facts
    ) -> bytes:
        under_crc = (
            struct.pack(
                ">hiqqqhii",
                attributes,
                max(count - 1, 0) if last_offset_delta is None else last_offset_delta,
                facts.get("base_timestamp_ms", 1000),
                facts.get("max_timestamp_ms", 2000),
                facts.get("producer_id", -1),
                facts.get("producer_epoch", -1),
                facts.get("base_sequence", -1),
                count,
            )
            + records
        )
        length = len(under_crc) + 9
        crc = checksum.crc32c(under_crc)
        return struct.pack(">qiibI", facts.get("base_offset", 0), length, -1, facts.get("magic", 2), crc) + under_crc

    return sealed
