"""Logs that Apache Kafka writes now, opened as ours: the golden logs made anew, and read.

The kept ones are the same for ever; this shows that they are still what Kafka writes, and that they can be made again.
Needs Java and Kafka's jars (kafka_jars.py) and takes minutes: run by `make test-long`, skipped where they are missing.
"""

from pathlib import Path

import pytest
from tests.conformance.kafka_jars import RELEASES, JarsMissing, find_jars
from tests.golden.logs.consuming import consume, open_golden
from tests.golden.logs.make_logs import make
from tests.golden.logs.reading import unpack

pytestmark = pytest.mark.long


@pytest.mark.parametrize("line", RELEASES)
def test_what_kafka_writes_now_is_read_here(line: str, tmp_path: Path) -> None:
    try:
        find_jars(line)
    except JarsMissing as reason:
        pytest.skip(str(reason))
    make(line, tmp_path)
    archives = sorted(tmp_path.glob("*.tar.xz"))
    assert len(archives) == 2
    for archive in archives:
        logs = unpack(archive, tmp_path / archive.name.removesuffix(".tar.xz"))
        for partition in logs.partitions.values():
            if partition.has_consumers:
                log = open_golden(logs, partition)
                assert log.last_stable_offset == partition.last_stable_offset
                assert consume(log) == partition.records
                assert consume(log, committed=True) == partition.committed
                log.close()
