"""Makes the golden logs: data directories as Apache Kafka leaves them, with what its own tools and consumers say.

    python -m tests.golden.logs.make_logs [3.9] [4.3]

Per release two archives beside this file: kafka-<release>-unclean.tar.xz (the broker was killed) and
kafka-<release>-clean.tar.xz (started again on that, and stopped in order). Each has

    data/           the log directory, byte for byte
    expected.json   what is in it, see `Expected` in reading.py

Needs Java and the jars, which kafka_jars.py finds; takes about two minutes per release.
"""

import base64
import datetime
import json
import shutil
import sys
import tarfile
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conformance.dump_log_segments import dump_files
from tests.conformance.kafka_broker import KafkaBroker
from tests.conformance.kafka_jars import RELEASES, find_jars

HERE = Path(__file__).parent
DRIVER = str(HERE / "Logs.java")
SEGMENT_KEYS = {"3.9": "segment.bytes", "4.3": "internal.segment.bytes"}
QUIET_S = 4
QUIET_LIMIT_S = 60
# Checkpoints are written often, so that a kill finds them in the middle of something; the cleaner waits for nothing.
SETTINGS = """
log.index.interval.bytes=300
log.index.size.max.bytes=1200
log.initial.task.delay.ms=500
log.retention.check.interval.ms=1000
log.flush.offset.checkpoint.interval.ms=1000
log.flush.start.offset.checkpoint.interval.ms=1000
replica.high.watermark.checkpoint.interval.ms=1000
"""


def make(line: str, directory: Path = HERE) -> None:
    """Both archives of one release."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        broker = KafkaBroker(find_jars(line), scratch, scratch / "data", SETTINGS)
        broker.format()
        try:
            write_all(broker, line)
            keep(broker, line, "unclean", broker.kill, directory)
            broker.start()
            drive(broker, "epochs", "3")
            keep(broker, line, "clean", broker.stop, directory)
        finally:
            broker.kill()


def write_all(broker: KafkaBroker, line: str) -> None:
    """Fill the topics over three lives of the broker; one of them ends badly."""
    broker.start()
    drive(broker, "create", SEGMENT_KEYS[line])
    drive(broker, "write")
    drive(broker, "epochs", "0")
    broker.stop()
    broker.start()
    drive(broker, "epochs", "1")
    broker.kill()
    broker.start()
    wait_until_quiet(broker.data)
    drive(broker, "epochs", "2")


def drive(broker: KafkaBroker, *arguments: str) -> str:
    return broker.run(DRIVER, broker.bootstrap, *arguments)


def wait_until_quiet(data: Path) -> None:
    """Until neither the cleaner nor retention has moved anything for a while."""
    deadline = time.monotonic() + QUIET_LIMIT_S
    before, since = None, time.monotonic()
    while time.monotonic() < deadline:
        seen = (
            (data / "cleaner-offset-checkpoint").read_bytes(),
            sorted(str(path) for path in data.rglob("*.log")),
        )
        if seen != before:
            before, since = seen, time.monotonic()
        elif time.monotonic() - since > QUIET_S:
            return
        time.sleep(0.5)
    raise SystemExit("the broker does not come to rest")


def keep(broker: KafkaBroker, line: str, name: str, stop: Callable[[], None], directory: Path) -> None:
    """Ask consumers what is there, end the broker and put the directory away."""
    wait_until_quiet(broker.data)
    partitions = heard(drive(broker, "dump"))
    stop()
    copy = broker.data.with_name("copy") / "data"
    shutil.rmtree(copy.parent, ignore_errors=True)
    shutil.copytree(broker.data, copy, ignore=shutil.ignore_patterns(".lock"))
    leave_out_empty_internal(copy)
    for partition in sorted(path for path in copy.iterdir() if path.is_dir()):
        partitions[partition.name]["files"] = dump_files(broker.jars, sorted(partition.iterdir()))
    facts = {"kafka": RELEASES[line], "made": datetime.date.today().isoformat(), "stop": name}
    kept = {each.name: partitions[each.name] for each in sorted(copy.iterdir()) if each.is_dir()}
    archive(copy, {**facts, "partitions": kept}, directory / f"kafka-{RELEASES[line]}-{name}.tar.xz")


def heard(lines: str) -> dict[str, dict[str, Any]]:
    """What the consumers said, by partition. Of readers of committed records the offsets are enough."""
    partitions: dict[str, dict[str, Any]] = defaultdict(dict)
    for line in lines.splitlines():
        name, isolation, kind, *facts = json.loads(line)
        partition = partitions[name]
        if kind == "record":
            facts = [
                *facts[:2],
                text(facts[2]),
                text(facts[3]),
                [[key, text(value)] for key, value in facts[4]],
                facts[5],
            ]
            partition.setdefault(isolation, []).append(facts)
        elif kind == "time":
            partition.setdefault("times", []).append(facts)
        elif kind == "bounds":
            partition.setdefault("bounds", {})[isolation] = facts
        else:
            partition[kind] = facts
    return defaultdict(dict, {name: only_once(partition) for name, partition in partitions.items()})


def only_once(partition: dict[str, Any]) -> dict[str, Any]:
    """The records once, and which of them a reader of committed records gets."""
    records = partition.pop("read_uncommitted", [])
    committed = partition.pop("read_committed", [])
    assert all(record in records for record in committed)
    return {**partition, "records": records, "committed": [record[0] for record in committed]}


def text(content: str | None) -> str | None:
    """Bytes as JSON can carry them: one character per byte."""
    return None if content is None else base64.b64decode(content).decode("latin-1")


def leave_out_empty_internal(data: Path) -> None:
    """Partitions of the internal topics that nobody used say nothing."""
    for directory in data.glob("__*-*"):
        if not any(path.stat().st_size for path in directory.glob("*.log")):
            shutil.rmtree(directory)


def archive(data: Path, expected: dict[str, Any], path: Path) -> None:
    (data.parent / "expected.json").write_text(json.dumps(expected, separators=(",", ":")))
    with tarfile.open(path, "w:xz", preset=9) as tar:
        tar.add(data, "data", filter=anonymous)
        tar.add(data.parent / "expected.json", "expected.json", filter=anonymous)
    print(f"{path.name}: {path.stat().st_size} bytes")


def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    for each in sys.argv[1:] or RELEASES:
        make(each)
