"""`python -m bench.commands`: how long Kafka's commands take, one process each, on a broker of ours.

    python -m bench.commands                  every command that ends by itself, 5 times in turns
    python -m bench.commands --rounds 9
    python -m bench.commands --only kafka-topics
    python -m bench.commands --apache         Apache's commands beside them, once each
    python -m bench.commands --markdown       as docs/performance.md has it

1. CPU (user and system) is that of the child alone, from wait4; the time is from fork to its end, and beside other work
   it tells more about them than about us. The bar of 150 ms is for the median of the CPU.
2. The commands take turns, so that a bad second is shared by all of them, with three that tell how fast the machine is
   at the moment: a bare interpreter, one with its site-packages, and one that imports asyncio and nothing else.
3. A round before the first is not counted: modules are compiled in it, as pip does when it installs. (A shell with
   PYTHONDONTWRITEBYTECODE would have them compiled in every process; the commands run without it.)
4. Exit code 1 when a command misses the bar or fails.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.conformance.kafka_jars import JarsMissing, find_jars
from tests.conformance.kafka_tools import CLASSES
from tests.conformance.our_broker import BrokerProcess

from ottla.cli.main import main as ottla

BAR_MS = 150.0
SERVER = "--bootstrap-server $SERVER"
COMMANDS = {
    "kafka-topics": f"{SERVER} --list",
    "kafka-topics --describe": f"{SERVER} --describe",
    "kafka-consumer-groups": f"{SERVER} --describe --group readers",
    "kafka-groups": f"{SERVER} --list",
    "kafka-share-groups": f"{SERVER} --list",
    "kafka-streams-groups": f"{SERVER} --list",
    "kafka-metadata-quorum": f"{SERVER} describe --status",
    "kafka-configs": f"{SERVER} --describe --entity-type topics --entity-name log --all",
    "kafka-console-producer": f"{SERVER} --topic log",
    "kafka-console-consumer": f"{SERVER} --topic log --from-beginning --max-messages 2",
    "kafka-get-offsets": f"{SERVER} --topic log",
    "kafka-acls": f"{SERVER} --list",
    "kafka-reassign-partitions": f"{SERVER} --list",
    "kafka-leader-election": f"{SERVER} --election-type preferred --topic log --partition 0",
    "kafka-log-dirs": f"{SERVER} --describe",
    "kafka-delete-records": f"{SERVER} --offset-json-file $DIR/delete.json",
    "kafka-dump-log": "--files $LOG --print-data-log",
    "kafka-transactions": f"{SERVER} list",
    "kafka-features": f"{SERVER} describe",
    "kafka-cluster": f"cluster-id {SERVER}",
    "kafka-broker-api-versions": SERVER,
    "kafka-storage": "random-uuid",
    "kafka-client-metrics": f"{SERVER} --list",
    "kafka-verifiable-producer": f"{SERVER} --topic numbers --max-messages 1",
    "kafka-verifiable-consumer": f"{SERVER} --topic numbers --group-id numbers --max-messages 1",
    "kafka-producer-perf-test": f"{SERVER} --topic perf --num-records 10 --record-size 10 --throughput -1",
    "kafka-consumer-perf-test": f"{SERVER} --topic log --num-records 2",
    "kafka-e2e-latency": f"{SERVER} --topic perf --num-records 2 --producer-acks 1 --record-size 10",
}
INPUT = {"kafka-console-producer": b"one\ntwo\n"}
FAILING = ("kafka-acls",)
"""The broker has no authorizer, and the command says so with code 1: that takes as long."""
FLOORS = {
    "(python -I -S -c pass)": ["-I", "-S", "-c", "pass"],
    "(python -c pass)": ["-c", "pass"],
    "(python -c 'import asyncio')": ["-c", "import asyncio"],
}
"""What any Python program pays: the interpreter, site-packages, and an event loop."""
NOT_BESIDE = ("kafka-storage", "kafka-acls")
"""Apache's have other words for it, or another broker."""


class Took(NamedTuple):
    """What one process used."""

    code: int
    cpu_ms: float
    wall_ms: float


class Row(NamedTuple):
    """What a command used: medians, and the largest CPU."""

    name: str
    cpu_ms: float
    largest_ms: float
    wall_ms: float
    apache: Took | None = None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.commands", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often the commands take turns (5)")
    parser.add_argument("--only", metavar="COMMAND", choices=COMMANDS, help="one command")
    parser.add_argument("--apache", action="store_true", help="Apache's commands beside them, once each")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    options = parser.parse_args()
    wanted = [options.only] if options.only else list(COMMANDS)
    with tempfile.TemporaryDirectory() as scratch:
        rows, failed = measure(Path(scratch), wanted, options.rounds, apache=options.apache)
    show(rows, markdown=options.markdown)
    for name in failed:
        print(f"{name} ended with an error", file=sys.stderr)
    missed = [row.name for row in rows if row.cpu_ms > BAR_MS and row.name in COMMANDS]
    return 1 if missed or failed else 0


def measure(scratch: Path, wanted: list[str], rounds: int, *, apache: bool) -> tuple[list[Row], list[str]]:
    """What each command used, and the commands that failed."""
    bin_directory = scratch / "bin"
    ottla(["install-commands", "--dir", str(bin_directory)])
    found: dict[str, list[Took]] = {name: [] for name in (*FLOORS, *wanted)}
    with BrokerProcess(scratch / "broker") as broker:
        places = prepare(broker, scratch, bin_directory)
        for number in range(rounds + 1):
            for name in found:
                program = [sys.executable, *FLOORS[name]] if name in FLOORS else [str(bin_directory / name.split()[0])]
                took = run([*program, *words(name, places)], INPUT.get(name, b""))
                found[name] += [took] if number else []
        theirs = beside(places, wanted) if apache else {}
    failed = [name for name, took in found.items() if any(each.code for each in took) and name not in FAILING]
    return [row_of(name, took, theirs.get(name)) for name, took in found.items()], failed


def row_of(name: str, took: list[Took], apache: Took | None) -> Row:
    cpus = [each.cpu_ms for each in took]
    return Row(name, statistics.median(cpus), max(cpus), statistics.median(each.wall_ms for each in took), apache)


def prepare(broker: BrokerProcess, scratch: Path, bin_directory: Path) -> dict[str, str]:
    """Topics, records and a group to ask about; returns what stands for what in the command lines."""
    (scratch / "delete.json").write_text(
        '{"partitions": [{"topic": "log", "partition": 0, "offset": 0}], "version": 1}'
    )
    log = broker.data / "log-0" / "00000000000000000000.log"
    places = {"$SERVER": broker.bootstrap_servers, "$DIR": str(scratch), "$LOG": str(log)}
    server = f"--bootstrap-server {broker.bootstrap_servers}"
    for line in (
        *(f"kafka-topics {server} --create --topic {name}" for name in ("log", "numbers", "perf")),
        f"kafka-console-producer {server} --topic log",
        f"kafka-console-consumer {server} --topic log --group readers --from-beginning --max-messages 2",
    ):
        tool, *rest = line.split()
        took = run([str(bin_directory / tool), *rest], INPUT.get(tool, b""))
        assert took.code == 0, f"{line} ended with {took.code}"
    return places


def words(name: str, places: dict[str, str]) -> list[str]:
    found = COMMANDS.get(name, "")
    for place, text in places.items():
        found = found.replace(place, text)
    return found.split()


def run(command: list[str], stdin: bytes) -> Took:
    begin = time.perf_counter()
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    assert child.stdin is not None
    try:
        child.stdin.write(stdin)
        child.stdin.close()
    except BrokenPipeError:
        pass  # it ended before it read
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    wall_ms = (time.perf_counter() - begin) * 1000
    return Took(child.returncode, (usage.ru_utime + usage.ru_stime) * 1000, wall_ms)


def beside(places: dict[str, str], wanted: list[str]) -> dict[str, Took]:
    """The same command lines with Apache's tools, one virtual machine each, as its scripts start them."""
    try:
        jars = find_jars("4.3")
    except JarsMissing as reason:
        print(f"bench.commands {reason}", file=sys.stderr)
        return {}
    machine = ["java", "-Xmx256M", "-cp", f"{jars}/*"]
    return {
        name: run([*machine, CLASSES[name.split()[0]], *words(name, places)], INPUT.get(name, b""))
        for name in wanted
        if name not in NOT_BESIDE
    }


def show(rows: list[Row], *, markdown: bool) -> None:
    if markdown:
        print("| command | CPU, median | largest | time | Apache's: CPU | time |")
        print("| --- | --- | --- | --- | --- | --- |")
    for row in rows:
        theirs = ("", "") if row.apache is None else (f"{row.apache.cpu_ms:,.0f} ms", f"{row.apache.wall_ms:,.0f} ms")
        if markdown:
            ours = (f"{each:.0f} ms" for each in (row.cpu_ms, row.largest_ms, row.wall_ms))
            print(f"| {' | '.join((row.name, *ours, *theirs))} |")
        else:
            mark = "  over the bar" if row.cpu_ms > BAR_MS else ""
            beside = f"  Apache's: {theirs[0]} CPU, {theirs[1]}" if row.apache else ""
            figures = f"{row.cpu_ms:8.0f} ms CPU{row.largest_ms:8.0f} at most{row.wall_ms:8.0f} ms"
            print(f"{row.name:34}{figures}{beside}{mark}")


if __name__ == "__main__":
    sys.exit(main())
