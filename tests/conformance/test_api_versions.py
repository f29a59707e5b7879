"""ApiVersions of Apache Kafka 4.3.1 and of our broker, compared: APIs, ranges of versions, features and their levels.

docs/conformance.md has a table of everything that differs, with the reason; the tests read it. Kafka's answer is kept
in tests/golden/api_versions (that of a broker's listener and that of a controller's), so that `make test` compares
without Java; the long test asks Kafka itself, and writes the files anew with OTTLA_WRITE_API_VERSIONS=1.

1. Nothing may differ that the table does not explain, in words and with both ranges.
2. The long test also finds rows that explain nothing any more.
3. Kafka gets a plug-in that wants the metrics of clients, or it would hide the two APIs of telemetry.
"""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest
from tests.conformance.java_programs import CAPTURE, jars_or_skip
from tests.conformance.kafka_broker import KafkaBroker as ApacheBroker
from tests.conformance.transaction_probes import Wire

from ottla.protocol.api import APIS, ListenerType
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.testing.broker import KafkaBroker

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "api_versions" / "kafka-4.3.1.tsv"
GOLDEN_CONTROLLER = GOLDEN.with_name("kafka-4.3.1-controller.tsv")
DOCUMENT = ROOT / "docs" / "conformance.md"
TITLE = "## What a broker says it can"
ABSENT = "–"
VERSION = 4  # the first that names features whose lowest level is 0
PLUG_IN = "TelemetrySink"
COMPILE_LIMIT_S = 300


def test_what_differs_from_kafka_is_explained() -> None:
    with KafkaBroker() as broker:
        ours = _rows_of(broker.bootstrap_servers)
    unexplained = _differences(_recorded(), ours).items() - _explained().items()
    assert not unexplained, f"explain in {DOCUMENT.name}, or repair: {sorted(unexplained)}"


def test_a_member_of_a_cluster_adds_nothing_but_what_is_between_brokers() -> None:
    from ottla.broker.requests.served import BROKER_APIS, CLUSTER_APIS, SERVED_APIS

    assert CLUSTER_APIS == SERVED_APIS | BROKER_APIS
    assert {APIS[key].name for key in BROKER_APIS} == {
        *("LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown", "AlterPartition"),
        *("AllocateProducerIds", "Envelope"),
    }


@pytest.mark.parametrize(
    ("path", "listener"), [(GOLDEN, ListenerType.BROKER), (GOLDEN_CONTROLLER, ListenerType.CONTROLLER)]
)
def test_the_table_of_apis_has_the_listeners_that_kafka_has(path: Path, listener: ListenerType) -> None:
    theirs = {row for row in _recorded(path) if row.startswith("API ")}
    assert {f"API {api.key} {api.name}" for api in APIS.values() if api.listeners & listener} == theirs


def test_what_is_for_controllers_only_is_spoken_in_the_versions_of_kafka() -> None:
    theirs = _recorded(GOLDEN_CONTROLLER)
    for api in APIS.values():
        if not api.listeners & ListenerType.BROKER and api.listeners & ListenerType.CONTROLLER:
            assert _range(api.advertised.min, api.advertised.max) == theirs[f"API {api.key} {api.name}"]


@pytest.mark.long
def test_kafka_answers_what_is_recorded_and_the_table_is_exact(tmp_path: Path) -> None:
    jars = with_plug_in(jars_or_skip("4.3"), tmp_path)
    kafka = ApacheBroker(jars, tmp_path, tmp_path / "data", f"metric.reporters={PLUG_IN}\n")
    kafka.format()
    with kafka:
        theirs, controller = _rows_of(kafka.bootstrap), _rows_of(kafka.bootstrap_controller)
    if os.environ.get("OTTLA_WRITE_API_VERSIONS"):
        for path, rows in ((GOLDEN, theirs), (GOLDEN_CONTROLLER, controller)):
            path.write_text("".join(f"{name}\t{levels}\n" for name, levels in rows.items()))
    assert theirs == _recorded()
    assert controller == _recorded(GOLDEN_CONTROLLER)
    with KafkaBroker() as broker:
        ours = _rows_of(broker.bootstrap_servers)
    assert _differences(theirs, ours) == _explained()


def with_plug_in(jars: Path, scratch: Path) -> Path:
    """A directory with the jars of Kafka and one of the plug-in."""
    both, classes = scratch / "jars", scratch / "classes"
    both.mkdir()
    for jar in jars.glob("*.jar"):
        (both / jar.name).symlink_to(jar)
    command = ["javac", "-cp", f"{jars}/*", "-d", str(classes), str(CAPTURE / f"{PLUG_IN}.java")]
    subprocess.run(command, check=True, capture_output=True, timeout=COMPILE_LIMIT_S)
    with zipfile.ZipFile(both / f"{PLUG_IN}.jar", "w") as jar_file:
        for found in classes.glob("*.class"):
            jar_file.write(found, found.name)
    return both


def _rows_of(address: str) -> dict[str, str]:
    with Wire(address) as wire:
        request = ApiVersionsRequest(client_software_name="ottla-tests", client_software_version="1")
        answer: ApiVersionsResponse = wire.ask(request, VERSION)
    assert answer.error_code == 0
    rows = {}
    for api in sorted(answer.api_keys, key=lambda each: each.api_key):
        rows[f"API {api.api_key} {APIS[api.api_key].name}"] = _range(api.min_version, api.max_version)
    for feature in sorted(answer.supported_features, key=lambda each: each.name):
        rows[f"supported {feature.name}"] = _range(feature.min_version, feature.max_version)
    for level in sorted(answer.finalized_features, key=lambda each: each.name):
        rows[f"finalized {level.name}"] = _range(level.min_version_level, level.max_version_level)
    return rows


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


def _differences(theirs: dict[str, str], ours: dict[str, str]) -> dict[str, tuple[str, str]]:
    pairs = {name: (theirs.get(name, ABSENT), ours.get(name, ABSENT)) for name in theirs | ours}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _recorded(path: Path = GOLDEN) -> dict[str, str]:
    lines = path.read_text().splitlines()
    return dict(line.split("\t") for line in lines)


def _explained() -> dict[str, tuple[str, str]]:
    section = DOCUMENT.read_text().partition(TITLE)[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][2:]
    for row in rows:
        assert len(row) == 4, f"{row} has no four columns"
        assert len(row[3]) > 10, f"{row} gives no reason"
    return {name: (theirs, ours) for name, theirs, ours, _ in rows}
