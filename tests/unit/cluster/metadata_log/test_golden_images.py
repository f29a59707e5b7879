"""The image of a log is the image of the snapshot that Apache Kafka made of it, and ours of it has the same records."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.golden.metadata.reading import golden_files, records_of
from tests.unit.cluster.metadata_log.values import CLUSTER

from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.batches import control_batch, data_batch, read_batch, read_batches
from ottla.cluster.metadata_log.loader import MetadataLoader
from ottla.cluster.metadata_log.writing import snapshot_records
from ottla.records import RecordBatch, RecordStream

FILES = golden_files()
LOG = "__cluster_metadata-0/00000000000000000000.log"
SNAPSHOTS = [name for name in FILES if name.endswith(".checkpoint") and "/0000000000000000" in name and "/000" in name]
SNAPSHOTS = [name for name in SNAPSHOTS if "/00000000000000000000-" not in name]


def of_snapshot(name: str) -> ClusterImage:
    end_offset, epoch = map(int, name.rpartition("/")[2].partition(".")[0].split("-"))
    loader = MetadataLoader(CLUSTER)
    for _ in loader.load_snapshot(read_batches(FILES[name]), end_offset=end_offset, epoch=epoch):
        pass
    return loader.image


def of_log(node: str, end_offset: int) -> ClusterImage:
    loader = MetadataLoader(CLUSTER)
    for batch in read_batches(FILES[f"{node}/{LOG}"]):
        if batch.base_offset < end_offset:
            loader.add(batch)
    return loader.image


def test_there_are_snapshots_of_a_controller_and_of_a_broker() -> None:
    assert {name.partition("/")[0] for name in SNAPSHOTS} == {"controller", "broker"}
    last = of_snapshot(SNAPSHOTS[-1])
    assert len(last.acl_ids) == len(last.acls_by_id) == 2
    assert len(last.scram_credentials) == 2
    assert len(last.stored("delegation-token")) == 1


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_the_log_says_what_apaches_snapshot_of_it_says(name: str) -> None:
    image = of_snapshot(name)
    assert of_log(name.partition("/")[0], image.change_number + 1) == image
    assert len(image.brokers) == 2
    assert len(image.controllers) == 1


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_our_snapshot_has_the_records_of_apaches(name: str) -> None:
    theirs = [record.value for batch, record in records_of(FILES[name]) if not batch.is_control]
    ours = [record.encode() for record in snapshot_records(of_snapshot(name))]
    # Features stand in the order of a hash map of Java: another one in every process.
    assert Counter(map(sorted_bytes, ours)) == Counter(map(sorted_bytes, theirs))


def sorted_bytes(value: bytes | None) -> bytes:
    return bytes(sorted(value or b"")) if value and value[1] in (0, 27) else value or b""


@pytest.mark.parametrize("node", ["controller", "broker"])
def test_the_batches_of_a_log_are_written_back_byte_for_byte(node: str) -> None:
    written = b""
    for batch in RecordStream(FILES[f"{node}/{LOG}"]):
        assert isinstance(batch, RecordBatch)
        found = read_batch(batch)
        place = {"base_offset": found.base_offset, "epoch": found.epoch, "timestamp_ms": found.timestamp_ms}
        if batch.is_control:
            written += control_batch(found.controls, **place)
        else:
            written += data_batch([record.value or b"" for record in batch], **place)
    assert written == FILES[f"{node}/{LOG}"]
