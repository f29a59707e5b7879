"""Directories that we format and that Apache Kafka formats are the same, and Apache's broker starts on ours.

Needs Java and Kafka's jars (kafka_jars.py): run by `make test-long`, skipped where they are missing.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.kafka_broker import CLUSTER_ID, KafkaBroker
from tests.conformance.kafka_jars import JarsMissing, find_jars
from tests.golden.metadata.reading import records_of

from ottla.cli.kafka.storage import run
from ottla.client.admin.admin import Admin
from ottla.protocol.metadata_log.control import SnapshotHeaderRecord, VotersRecord, decode_control, encode_control
from ottla.records.control import read_control_type

pytestmark = pytest.mark.long

USER = 'SCRAM-SHA-256=[name=alice,iterations=4096,salt="MTIzNDU2Nzg5MA==",saltedpassword="NDU2"]'
OPTIONS = (
    ("--standalone", "-S", USER),
    ("--standalone", "--release-version", "4.0"),
    ("--standalone", "--feature", "share.version=0"),
    ("--no-initial-controllers",),
    ("--initial-controllers", "1@localhost:9093:JEXY6aqzQY-32P5TStzaFg,2@localhost:9094:MvDxzVmcRsaTz33bUuRU6A"),
)


@pytest.fixture
def broker(tmp_path: Path) -> KafkaBroker:
    """A node whose quorum is told by its log, not by its settings; nothing is formatted."""
    try:
        jars = find_jars("4.3")
    except JarsMissing as reason:
        pytest.skip(str(reason))
    made = KafkaBroker(jars, tmp_path, tmp_path / "data")
    text = made.properties.read_text().replace("quorum.voters=1@", "quorum.bootstrap.servers=")
    made.properties.write_text(text)
    return made


def format_words(broker: KafkaBroker, *options: str) -> list[str]:
    return ["format", "-t", CLUSTER_ID, "-c", str(broker.properties), *options]


def content(directory: Path) -> Iterator[tuple[str, bytes]]:
    """The records of every snapshot, without what is drawn at random or is a time."""
    for path in sorted(directory.rglob("*.checkpoint")):
        for batch, record in records_of(path.read_bytes()):
            value = record.value or b""
            if batch.is_control:
                message = decode_control(read_control_type(record.key), value)
                for voter in message.voters if isinstance(message, VotersRecord) else ():
                    voter.voter_directory_id = bytes(16)
                value = b"" if isinstance(message, SnapshotHeaderRecord) else encode_control(message)
            yield f"{path.relative_to(directory)} {batch.is_control} {record.offset}", value


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: " ".join(options)[:40])
def test_both_tools_write_the_same(
    broker: KafkaBroker, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    theirs_said = broker.run("kafka.tools.StorageTool", *format_words(broker, *options)).splitlines()
    theirs = dict(content(broker.data))
    broker.data.rename(broker.data.with_name("theirs"))
    capsys.readouterr()
    assert run(format_words(broker, *options)) == 0
    assert dict(content(broker.data)) == theirs
    assert set(capsys.readouterr().out.splitlines()) == {line for line in theirs_said if line.startswith("Formatting")}


def test_apache_starts_on_what_we_formatted(broker: KafkaBroker) -> None:
    assert run(format_words(broker, "--standalone", "--feature", "share.version=0", "-S", USER)) == 0
    with broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert admin.describe_cluster().cluster_id == CLUSTER_ID
        assert list(admin.describe_user_scram_credentials()) == ["alice"]
        levels = {name: found.max for name, found in admin.describe_features().finalized.items()}
        assert (levels["metadata.version"], levels["kraft.version"]) == (30, 1)
        assert "share.version" not in levels
