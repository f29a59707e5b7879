"""Kafka's commands, Apache's and ours, run step by step on a cluster, and what they print made comparable.

    with ApacheTools(jars, scratch) as tools:
        tools.run("kafka-topics", ["--bootstrap-server", server, "--list"])     # Printed(code, out, err)
    our_tool("kafka-topics", ["--bootstrap-server", server, "--list"])

1. Apache's tools run in one virtual machine (ToolDriver.java), which makes a command cost milliseconds; ours run in
   this process through the same function that the commands call.
2. `comparable` takes out what differs from run to run (addresses, ids, times) and what only Java prints (stack traces);
   of the errors the first line counts, which is the sentence: what follows is usage.
"""

import contextlib
import io
import re
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, Self

from tests.conformance.kafka_jars import HEAP_MB
from tests.patience import HANG_S

from ottla.cli.kafka.tools import main

DRIVER = Path(__file__).with_name("ToolDriver.java")
TOOLS = "org.apache.kafka.tools."
CLASSES = {
    "kafka-topics": TOOLS + "TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-producer": TOOLS + "ConsoleProducer",
    "kafka-console-consumer": TOOLS + "consumer.ConsoleConsumer",
    "kafka-consumer-groups": TOOLS + "consumer.group.ConsumerGroupCommand",
    "kafka-groups": TOOLS + "GroupsCommand",
    "kafka-share-groups": TOOLS + "consumer.group.ShareGroupCommand",
    "kafka-streams-groups": TOOLS + "streams.StreamsGroupCommand",
    "kafka-console-share-consumer": TOOLS + "consumer.ConsoleShareConsumer",
    "kafka-metadata-quorum": TOOLS + "MetadataQuorumCommand",
    "kafka-acls": TOOLS + "AclCommand",
    "kafka-reassign-partitions": TOOLS + "reassign.ReassignPartitionsCommand",
    "kafka-leader-election": TOOLS + "LeaderElectionCommand",
    "kafka-log-dirs": TOOLS + "LogDirsCommand",
    "kafka-dump-log": TOOLS + "DumpLogSegments",
    "kafka-delete-records": TOOLS + "DeleteRecordsCommand",
    "kafka-get-offsets": TOOLS + "GetOffsetShell",
    "kafka-transactions": TOOLS + "TransactionsCommand",
    "kafka-delegation-tokens": TOOLS + "DelegationTokenCommand",
    "kafka-features": TOOLS + "FeatureCommand",
    "kafka-cluster": TOOLS + "ClusterTool",
    "kafka-broker-api-versions": TOOLS + "BrokerApiVersionsCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-client-metrics": TOOLS + "ClientMetricsCommand",
    "kafka-producer-perf-test": TOOLS + "ProducerPerformance",
    "kafka-consumer-perf-test": TOOLS + "ConsumerPerformance",
    "kafka-e2e-latency": TOOLS + "EndToEndLatency",
    "kafka-verifiable-producer": TOOLS + "VerifiableProducer",
    "kafka-verifiable-consumer": TOOLS + "VerifiableConsumer",
    "kafka-replica-verification": TOOLS + "ReplicaVerificationTool",
}
JVM = [f"-Xmx{HEAP_MB}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
SILENT = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
ALONE = ("kafka-verifiable-producer", "kafka-verifiable-consumer", "kafka-replica-verification")
"""Commands that end the virtual machine, whatever they are told."""


class Printed(NamedTuple):
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


class ApacheTools:
    """One virtual machine that runs commands one by one."""

    def __init__(self, jars: Path, scratch: Path) -> None:
        self._jars = jars
        self._classes = scratch / "tool-driver"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        compiler = ["javac", "-nowarn", "-d", str(self._classes), "-cp", f"{self._jars}/*", str(DRIVER)]
        done = subprocess.run(compiler, capture_output=True, text=True, timeout=HANG_S)
        assert done.returncode == 0, done.stderr
        command = ["java", *JVM, SILENT, "-Duser.timezone=UTC", "-cp", f"{self._classes}:{self._jars}/*", "ToolDriver"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        process, self._process = self._process, None
        assert process is not None
        process.kill()
        process.communicate()

    def run(self, tool: str, words: Sequence[str], stdin: str = "") -> Printed:
        assert self._process is not None
        if tool in ALONE:
            return self._run_alone(tool, words)
        to_driver, from_driver = self._process.stdin, self._process.stdout
        assert to_driver is not None
        assert from_driver is not None
        line = "\t".join(map(_escaped, (CLASSES[tool], stdin, *words)))
        to_driver.write(line.encode() + b"\n")
        to_driver.flush()
        code, out, err = struct.unpack(">iii", _exactly(from_driver, 12))
        return Printed(code, _exactly(from_driver, out).decode(), _exactly(from_driver, err).decode())

    def _run_alone(self, tool: str, words: Sequence[str]) -> Printed:
        command = ["java", *JVM, SILENT, "-Duser.timezone=UTC", "-cp", f"{self._jars}/*", CLASSES[tool], *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, stdin=subprocess.DEVNULL)
        return Printed(done.returncode, done.stdout, done.stderr)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    assert len(data) == size, "Apache's tools have ended"
    return data


def our_tool(tool: str, words: Sequence[str], stdin: str = "") -> Printed:
    """A command of ours, in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(tool, words)
    finally:
        sys.stdin = before
    return Printed(code, *(each.buffer.getvalue().decode() for each in (out, err)))  # type: ignore[attr-defined]


# --- what is compared ------------------------------------------------------------------------------------------------

CHANGING = (
    (re.compile(r"(TopicId: )\S{22}"), r"\1<id>"),
    (re.compile(r"(Cluster ID: |ClusterId: +)\S{22}"), r"\1<id>"),
    (re.compile(r"^((?:HighWatermark|LeaderEpoch|MaxFollowerLagTimeMs): +)\d+$", re.MULTILINE), r"\1<number>"),
    (re.compile(r'"directoryId": "\S{22}", |, "endpoints": \["\S+"\]'), ""),
    (re.compile(r"\t\S{22}\t\d+ *\t"), "\t<id>\t<offset>\t"),
    (re.compile(r"\b\d+ ms ago *"), "<milliseconds> ms ago"),
    (re.compile(r"\b((?:Create|LogAppend)Time:)\d+"), r"\1<time>"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}"), "<date>"),
    (re.compile(r"(?<=sent, )\d+\.\d+ records/sec \(\d+\.\d+ MB/sec\), .*"), "<figures>"),
    (re.compile(r"(?<=<date>, )(?:-?\d+(?:\.\d+)?(?:, |$))+", re.MULTILINE), "<figures>"),
    (re.compile(r"^(\d+\t|Avg latency: )\d+\.\d+.*", re.MULTILINE), r"\1<figures>"),
    (re.compile(r"^Percentiles: 50th = \d+, 99th = \d+, 99.9th = \d+$", re.MULTILINE), "Percentiles: <figures>"),
    (re.compile(r'"logDir":"[^"]*"|"log_dirs":\["/[^"]*"\]'), "<directory>"),
    (re.compile(r"\bEpoch: \d+"), "Epoch: <epoch>"),
    (re.compile(r'"size":\d+'), '"size":<bytes>'),
    (re.compile(r"(directory\.id=)\S{22}"), r"\1<id>"),
    (re.compile(r"\b1\d{12}\s*\t\d+\s*\t"), "<started>\t<milliseconds>\t"),
)
BRACKETS = re.compile(r"\[[\w-]+\](?:, \[[\w-]+\])+")
"""Options of a set, which Java gives in another order in every process."""
JAVA_ONLY = re.compile(
    r"^\tat |^Caused by: |^\t\.\.\. \d+ more|^\s+Suppressed: |^[\w.$]+(Exception|Error)(: .*)?$"
    r"|^The consumer rebalance protocol \(KIP-848\)"
)


def comparable(printed: Printed, hidden: dict[str, str]) -> dict[str, object]:
    """Code, lines of output and the sentence of an error, without what changes; `hidden` has texts and their names."""
    out, err = printed.out, printed.err
    for text, name in hidden.items():
        out, err = out.replace(text, name), err.replace(text, name)
    for pattern, name in CHANGING:
        out, err = pattern.sub(name, out), pattern.sub(name, err)
    lines = [line for line in out.split("\n") if not JAVA_ONLY.match(line)]
    while lines and not lines[-1].strip():
        lines.pop()
    told = [re.sub(r'^Exception in thread "main" joptsimple\.\w+: ', "", line) for line in err.split("\n")]
    sentence = next((line for line in told if line.strip() and not JAVA_ONLY.match(line)), "")
    sentence = BRACKETS.sub(lambda found: ", ".join(sorted(found[0].split(", "))), sentence)
    return {"code": printed.code, "out": lines, "err": sentence}
