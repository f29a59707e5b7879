"""`ottla broker status`: the processes of `ottla broker start --brokers N`, from the file that they keep up to date.

The exit code is 0 when all of them serve. What the cluster knows of them (leaders, copies), `ottla cluster describe`
shows.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

from ottla.cli.brokers.status import SERVING, ProcessStatus, read_status
from ottla.cli.output import FAILED, OK, Failure, Output

HEADINGS: Final = ("BROKER", "STATE", "PROCESS", "ADDRESS", "METRICS", "RESTARTS")


def show_status(directory: Path, form: str) -> int:
    status = read_status(directory)
    if status is None:
        raise Failure(f"no brokers that were started with --brokers have their data in {directory}")
    output = Output(sys.stdout, form="json" if form == "json" else "text")
    if form == "json":
        output.value(asdict(status))
    else:
        output.table(HEADINGS, [_row(each) for each in status.brokers])
    return OK if all(each.state == SERVING for each in status.brokers) else FAILED


def _row(each: ProcessStatus) -> tuple[str, str, str, str, str, str]:
    name = each.name if each.broker_id is None else str(each.broker_id)
    return name, each.state, str(each.pid or "-"), each.address or "-", each.metrics or "-", str(each.restarts)
