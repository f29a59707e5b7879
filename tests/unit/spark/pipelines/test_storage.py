"""The directory of a pipeline's progress: one process at a time, and how far flows are."""

import json
import subprocess
import sys

import pytest

from ottla import TopicPartition
from ottla.spark.pipelines.storage import Storage, StorageInUse


def test_a_second_process_is_refused_with_the_number_of_the_first(tmp_path):
    code = (
        "import sys\nfrom ottla.spark.pipelines.storage import Storage\n"
        "with Storage(sys.argv[1]).locked():\n    print('locked', flush=True)\n    sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(StorageInUse, match=f"in use by process {other.pid}"), Storage(str(tmp_path)).locked():
            pass
        assert Storage(str(tmp_path)).is_in_use()
        other.kill()
    assert not Storage(str(tmp_path)).is_in_use()


def checkpoint(root, flow, version, offsets, commits):
    path = root / "_checkpoints" / flow / flow / str(version)
    for folder, names in (("offsets", offsets), ("commits", commits)):
        (path / folder).mkdir(parents=True)
        for name, lines in names.items():
            (path / folder / name).write_text("\n".join(lines))


def offset(number):
    return json.dumps({"version": 1, "offsets": {"clicks": {"0": number}}, "topic_ids": {"clicks": "x"}, "tasks": 1})


def test_the_newest_committed_batch_counts(tmp_path):
    offsets = {str(batch): ["v1", "{}", offset(batch * 10), '{"logOffset":3}', "-"] for batch in (9, 10, 11)}
    checkpoint(tmp_path, "out", 0, {"99": ["v1", "{}", offset(990)]}, {"99": ["v1", "{}"]})
    checkpoint(tmp_path, "out", 1, offsets, {"9": [], "10": []})
    progress = Storage(f"file://{tmp_path}").progress_of("out")
    assert progress.batch == 10
    assert [dict(each.positions) for each in progress.offsets] == [{TopicPartition("clicks", 0): 100}]


def test_a_flow_without_a_batch_has_no_progress(tmp_path):
    checkpoint(tmp_path, "out", 0, {"0": ["v1", "{}", offset(0)]}, {})
    assert Storage(str(tmp_path)).progress_of("out") is None
    assert Storage(str(tmp_path)).progress_of("other") is None
    assert Storage("s3://bucket/storage").progress_of("out") is None
