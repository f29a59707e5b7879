"""Metadata logs that Apache Kafka writes now: every record of them is read and written back byte for byte.

The kept ones (tests/golden/metadata) are the same for ever; this makes them anew. Needs Java and Kafka's jars
(kafka_jars.py) and takes a minute: run by `make test-long`, skipped where they are missing.
"""

import pytest
from tests.conformance.kafka_jars import JarsMissing, find_jars
from tests.golden.metadata.make_log import LINE, make
from tests.golden.metadata.reading import golden_files, records_of

from ottla.protocol.metadata_log import decode_record, encode_record
from ottla.protocol.metadata_log.control import decode_control, encode_control
from ottla.records.control import read_control_type

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a session leaves in the directories of an Apache controller and an Apache broker."""
    try:
        find_jars(LINE)
    except JarsMissing as reason:
        pytest.skip(str(reason))
    return golden_files(make(tmp_path_factory.mktemp("metadata")))


def test_every_record_that_apache_writes_now_is_written_back(files: dict[str, bytes]) -> None:
    kinds = set()
    for name, data in files.items():
        if name.endswith((".log", ".checkpoint")):
            for batch, record in records_of(data):
                assert record.value is not None
                if batch.is_control:
                    message = decode_control(read_control_type(record.key), record.value)
                    assert encode_control(message) == record.value
                    kinds.add(type(message))
                else:
                    entry, version = decode_record(record.value)
                    assert encode_record(entry, version) == record.value
                    kinds.add(type(entry))
    assert len(kinds) >= 22
