"""Directories of files whose list of batches is another storage's are refused: they would swallow every batch."""

import pytest

from ottla.spark.pipelines.file_logs import ForeignDirectory, refuse_foreign_directories
from ottla.spark.pipelines.operations import Flow, Target
from ottla.spark.pipelines.plan import Plan


def plan(tmp_path, **options):
    target = Target("parquet", {"path": str(tmp_path / "out"), **options})
    flows = (Flow("files", "rows", (), target), Flow("topic", "rows", (), Target("ottla", {"topic": "out"})))
    return Plan("p", str(tmp_path / "storage"), (), flows, {})


def list_batches(directory, *names):
    directory.mkdir(parents=True)
    for name in (*names, ".0.crc"):
        (directory / name).write_text("v1")


@pytest.mark.parametrize(
    ("listed", "begun"),
    [
        ([], []),
        (["0"], ["0"]),
        (["0", "1"], ["0", "1", "2"]),
        (["9.compact", "10", "8"], ["9", "10"]),
        ([], ["0"]),
    ],
)
def test_a_directory_with_batches_of_this_storage_is_right(tmp_path, listed, begun):
    list_batches(tmp_path / "out/_spark_metadata", *listed)
    list_batches(tmp_path / "storage/_checkpoints/files/files/0/offsets", *begun)
    refuse_foreign_directories(plan(tmp_path))


@pytest.mark.parametrize(("listed", "begun"), [(["0"], []), (["0", "1", "2"], ["0", "1"]), (["9.compact"], ["8"])])
def test_a_directory_that_is_ahead_of_this_storage_is_refused(tmp_path, listed, begun):
    list_batches(tmp_path / "out/_spark_metadata", *listed)
    list_batches(tmp_path / "storage/_checkpoints/files/files/0/offsets", *begun)
    with pytest.raises(ForeignDirectory, match=r"files: .*/out has batches up to \d, and its progress"):
        refuse_foreign_directories(plan(tmp_path))


def test_the_newest_version_of_the_progress_counts(tmp_path):
    list_batches(tmp_path / "out/_spark_metadata", "0", "1")
    list_batches(tmp_path / "storage/_checkpoints/files/files/0/offsets", "0", "1")
    refuse_foreign_directories(plan(tmp_path))
    list_batches(tmp_path / "storage/_checkpoints/files/files/1/offsets", "0")  # a full refresh begins anew
    with pytest.raises(ForeignDirectory):
        refuse_foreign_directories(plan(tmp_path))


def test_places_elsewhere_are_not_looked_at(tmp_path):
    refuse_foreign_directories(plan(tmp_path, path="s3://bucket/out"))
    list_batches(tmp_path / "out/_spark_metadata", "0")
    with pytest.raises(ForeignDirectory):
        refuse_foreign_directories(plan(tmp_path, path=f"file://{tmp_path}/out"))
