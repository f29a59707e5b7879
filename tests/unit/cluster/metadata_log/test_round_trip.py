"""Changes to records and back, and an image to a snapshot and back: nothing is lost and nothing is made up."""

from __future__ import annotations

from typing import TypeAlias

from hypothesis import given
from tests.unit.cluster.metadata_log.values import CLUSTER, histories, partition_changes, partitions

from ottla.cluster.changes import Change, apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.batches import data_batch, read_batches
from ottla.cluster.metadata_log.loader import MetadataLoader
from ottla.cluster.metadata_log.partition_records import change_record, merged
from ottla.cluster.metadata_log.reading import Replay
from ottla.cluster.metadata_log.writing import VersionedRecord, records_for, snapshot_records
from ottla.cluster.model import Partition
from ottla.light_dataclasses import replace
from ottla.protocol.metadata_log import decode_record
from ottla.protocol.metadata_log.topics import PartitionChangeRecord

History: TypeAlias = tuple[ClusterImage, tuple[Change, ...]]


def same(image: ClusterImage) -> ClusterImage:
    """The image without its number, which is an offset in one place and a count in another."""
    return replace(image, change_number=0)


def replayed(image: ClusterImage, written: list[VersionedRecord]) -> ClusterImage:
    replay = Replay(image)
    for record in written:
        replay.add(decode_record(record.encode())[0])
    return apply_all(image, replay.changes())


@given(histories())
def test_what_a_controller_writes_makes_the_image_that_it_meant(
    history: tuple[ClusterImage, tuple[Change, ...]],
) -> None:
    image, changes = history
    written = list(records_for(changes, image))
    assert same(replayed(image, written)) == same(apply_all(image, changes))


@given(histories())
def test_a_snapshot_makes_the_image_out_of_nothing(history: History) -> None:
    image = apply_all(*history)
    values = [record.encode() for record in snapshot_records(image)]
    data = data_batch(values, base_offset=0, epoch=3, timestamp_ms=5)
    loader = MetadataLoader(CLUSTER)
    steps = list(loader.load_snapshot(read_batches(data), end_offset=77, epoch=3))
    assert same(loader.image) == same(image)
    assert loader.image.change_number == 76
    assert len(steps) >= 1


@given(partitions(), partition_changes())
def test_a_partition_change_is_written_as_the_difference(before: Partition, record: PartitionChangeRecord) -> None:
    after = merged(before, record)
    written = change_record(bytes(16), 0, before, after, 30)
    assert merged(before, written) == after
    assert after.partition_epoch == before.partition_epoch + 1
    assert after.leader_epoch - before.leader_epoch == (record.leader != -2)
