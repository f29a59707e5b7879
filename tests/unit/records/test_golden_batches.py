"""Record batches that real clients wrote, out of the captured Produce and Fetch frames (tests/golden/README.md)."""

import json
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.unit.records.native_codec import load_native

from ottla.protocol import compiled
from ottla.protocol.api import APIS
from ottla.protocol.header import RequestHeader, ResponseHeader, request_header_version, response_header_version
from ottla.records import batch as python_batch
from ottla.records.compression import Compression

FRAMES = Path(__file__).parents[2] / "golden" / "frames"


def captured_batches() -> list[tuple[str, bytes]]:
    """(client, records) of every captured Produce request and Fetch response."""
    found = []
    for path in sorted(FRAMES.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            frame = json.loads(line)
            if (frame["key"], frame["kind"]) in ((0, "request"), (1, "response")):
                found += [(frame["client"], records) for records in records_of(frame)]
    return found


def records_of(frame: dict[str, Any]) -> list[bytes]:
    key, version, data = frame["key"], frame["version"], bytes.fromhex(frame["hex"])
    if frame["kind"] == "request":
        _, position = compiled.decode_prefix(RequestHeader, request_header_version(key, version), data)
        topics = compiled.decode_prefix(APIS[0].request, version, data, position)[0].topic_data
        partitions = [partition for topic in topics for partition in topic.partition_data]
    else:
        _, position = compiled.decode_prefix(ResponseHeader, response_header_version(key, version), data)
        topics = compiled.decode_prefix(APIS[1].response, version, data, position)[0].responses
        partitions = [partition for topic in topics for partition in topic.partitions]
    return [bytes(partition.records) for partition in partitions if partition.records]


BATCHES = captured_batches()
TWINS = [module for module in (python_batch, load_native()) if module is not None]


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__.rpartition(".")[2])
def test_every_captured_batch_passes_its_check_and_gives_its_records(twin: ModuleType) -> None:
    for client, records in BATCHES:
        position = 0
        while position < len(records):
            batch = twin.RecordBatch(records, position)
            batch.check()
            read = batch.records()
            assert len(read) == batch.record_count, client
            assert [record.offset for record in read] == sorted(record.offset for record in read)
            position += batch.size_bytes


def test_the_twins_read_the_same_from_every_captured_batch() -> None:
    for _, records in BATCHES:
        first, *others = [[tuple(r) for r in twin.RecordBatch(records).tuples()] for twin in TWINS]
        assert all(other == first for other in others)


def test_every_codec_was_captured() -> None:
    """So that a new capture cannot silently lose one."""
    seen = Counter(python_batch.RecordBatch(records).compression for _, records in BATCHES)
    assert set(seen) == set(Compression)
    assert sum(seen.values()) > 100
