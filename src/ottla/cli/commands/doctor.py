"""`ottla doctor`: walks the way of a connection step by step and explains what is wrong."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.cli.connecting import add_format, describe, output_of, sentences, settings_of
from ottla.cli.output import FAILED, OK, Output

if TYPE_CHECKING:
    from ottla.client.diagnosis import Finding

EXAMPLES: Final = """\
examples:
  ottla doctor                                  is localhost:9092 well?
  ottla doctor -b broker-1:9092 --topic clicks  can clicks be written and read from here?
  ottla doctor --group billing --format json    a group's members and lag, for programs
  ottla doctor --data /var/lib/ottla            stray logs, records that cannot be read
"""
MARKS: Final = {"ok": "ok     ", "warning": "WARNING", "failed": "FAILED ", "skipped": "-      "}
STEP_S: Final = 5.0
STRAY_SUFFIX: Final = "-stray"
SHOWN_DAMAGES: Final = 5


def add_options(parser: argparse.ArgumentParser) -> None:
    describe(parser, "walk the way of a connection and say what is wrong", run, EXAMPLES)
    parser.set_defaults(timeout=STEP_S)
    parser.add_argument("--topic", "-t", metavar="TOPIC", help="look at this topic too")
    parser.add_argument("--group", "-g", metavar="GROUP", help="look at this consumer group too")
    parser.add_argument("--data", type=Path, metavar="DIR", help="look at this data directory of this machine too")
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    out = output_of(options)
    with sentences():
        findings = asyncio.run(_examine(options, out))
    if options.format == "json":
        out.value([finding._asdict() for finding in findings])
    else:
        out.line(summary(findings))
    return FAILED if any(finding.result == "failed" for finding in findings) else OK


async def _examine(options: argparse.Namespace, out: Output) -> list[Finding]:
    from ottla.client.doctor import examine

    findings = []
    if options.data is not None:
        for found in (strays_of(options.data), records_of(options.data)):
            findings.append(found)
            _show(found, out)
    async for finding in examine(
        settings_of(options), topic=options.topic, group=options.group, timeout=options.timeout
    ):
        findings.append(finding)
        _show(finding, out)
    return findings


def _show(finding: Finding, out: Output) -> None:
    out.line(f"{MARKS[finding.result]}  {finding.step}: {finding.what}")
    if finding.remedy and finding.result in ("failed", "warning"):
        out.paragraph(finding.remedy, indent="           ")


def strays_of(directory: Path) -> Finding:
    """Whether a data directory has logs that were set aside because they belong to no topic of the cluster."""
    from ottla.client.diagnosis import Finding

    step = f"data directory {directory}"
    try:
        found = sorted(path.name for path in directory.iterdir() if path.name.endswith(STRAY_SUFFIX))
    except OSError as error:
        return Finding(step, "failed", str(error.strerror or error), "Check the path after --data")
    if not found:
        return Finding(step, "ok", "no stray logs")
    remedy = f"Look into them with: ottla log list {directory}; nobody but you removes them"
    return Finding(step, "warning", f"logs that belong to no topic of the cluster: {', '.join(found)}", remedy)


def records_of(directory: Path) -> Finding:
    """What the broker's pass over all records (ottla.verify.interval.ms) has found in a data directory."""
    from ottla.cli.show import shown_time
    from ottla.client.diagnosis import Finding
    from ottla.storage.directory.verified import POSITION_FILE, read_position
    from ottla.storage.files import DiskFiles

    step, path = f"records in {directory}", directory / POSITION_FILE
    position = read_position(DiskFiles(), path)
    remedy = f"Read every record now with: ottla log verify {directory}"
    if not position.began_ms:
        return Finding(step, "ok", "no broker has verified them yet", remedy)
    if position.damaged:
        named = "; ".join(f"{file}: {what}" for file, what in list(position.damaged.items())[:SHOWN_DAMAGES])
        more = len(position.damaged) - SHOWN_DAMAGES
        return Finding(step, "failed", named + (f"; and {more} more" if more > 0 else ""), remedy)
    if not position.is_over:
        return Finding(step, "ok", f"nothing damaged so far in the pass that began {shown_time(position.began_ms)}")
    return Finding(step, "ok", f"all sound in the pass that ended {shown_time(position.ended_ms)}")


def summary(findings: Iterable[Finding]) -> str:
    """The last line: how many of each, and the first thing to do."""
    found = list(findings)
    failed = [finding for finding in found if finding.result == "failed"]
    warnings = sum(finding.result == "warning" for finding in found)
    count = "1 warning" if warnings == 1 else f"{warnings} warnings"
    if failed:
        return f"{len(failed)} failed, {count}; begin with: {failed[0].step}"
    return f"all is well, {count}" if warnings else "all is well"
