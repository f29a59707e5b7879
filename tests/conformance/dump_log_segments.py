"""Kafka's own tool for looking into a partition's files, DumpLogSegments, and its answers as values.

    dump_files(jars, [directory / "00000000000000000000.log", ...])
    -> {"00000000000000000000.log": [{"baseOffset": 0, "lastOffset": 9, ...}, ...], ...}

1. Rows are dictionaries with the tool's own names; numbers, booleans and empty optionals are Python's.
2. Files it does not know are left out. The tool opens files for reading only, and fails on an index that lies.
3. `complaints` gives what it does not like: the lines of the tool that are neither a heading nor a row.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.conformance.kafka_broker import run_java

KNOWN = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
# Kafka 4 has it among its tools, Kafka 3 in the broker.
MAIN_CLASSES = {"kafka-tools-4": "org.apache.kafka.tools.DumpLogSegments", "": "kafka.tools.DumpLogSegments"}
WORDS = {"true": True, "false": False, "OptionalLong.empty": None}

Row = dict[str, Any]


def dump(jars: Path, files: Iterable[Path], *options: str) -> str:
    """What the tool prints about the files."""
    named = ",".join(str(path) for path in files if path.suffix in KNOWN)
    return run_java(jars, _main_class(jars), *options, "--files", named, with_errors=True)


def dump_files(jars: Path, files: Iterable[Path]) -> dict[str, list[Row]]:
    """The rows of each file, by its name."""
    found: dict[str, list[Row]] = {}
    for line in dump(jars, files).splitlines():
        if line.startswith("Dumping "):
            rows = found.setdefault(Path(line.removeprefix("Dumping ")).name, [])
        elif row := parse_row(line):
            rows.append(row)
    return found


def parse_row(line: str) -> Row | None:
    """`key: value key: value ...` as a dictionary; None for anything else."""
    if not re.fullmatch(r"(\w+: \S+ ?)+", line):
        return None
    return {key: _value(text) for key, text in re.findall(r"(\w+): (\S+)", line)}


def complaints(output: str) -> list[str]:
    """Lines that are neither a heading nor a row."""
    # Kafka 4 takes the beginning of every segment but the first for a gap, in its own logs too.
    output = re.sub(r"Non-consecutive offsets in \S+\n  -1 is followed by \d+\n", "", output)
    fine = re.compile(r"\[\w+\] INFO |Dumping |Log starting offset: |\| offset: |.* passed sanity check\.$")
    return [line for line in output.splitlines() if line and not fine.match(line) and parse_row(line) is None]


def _value(text: str) -> Any:
    if text in WORDS:
        return WORDS[text]
    number = re.fullmatch(r"(?:OptionalLong\[)?(-?\d+)\]?", text)
    return int(number[1]) if number else text


def _main_class(jars: Path) -> str:
    return next(main for prefix, main in MAIN_CLASSES.items() if list(jars.glob(f"{prefix}*.jar")))
