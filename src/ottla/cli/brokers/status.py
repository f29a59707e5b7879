"""brokers.json in the data directory: which processes run, where they serve, how often they were started again.

1. The supervisor writes it whenever something changed, whole or not at all, and removes it when it ends in order.
2. A file whose supervisor is gone (it was killed) says so when it is read; nothing is concluded from it.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from ottla.light_dataclasses import dataclass, field

FILE: Final = "brokers.json"
STARTING: Final = "starting"
SERVING: Final = "serving"
ENDED: Final = "ended"
GIVEN_UP: Final = "given up"
STOPPED: Final = "stopped"
"""By `ottla broker stop`, until `ottla broker start` of the same broker."""


@dataclass
class ProcessStatus:
    """One broker's process."""

    name: str
    state: str = STARTING
    pid: int | None = None
    broker_id: int | None = None
    address: str = ""
    metrics: str = ""
    restarts: int = 0
    http: dict[str, str] = field(default_factory=dict)  # everything that is served over HTTP, and its URL


@dataclass
class Status:
    """All of them."""

    supervisor: int
    cluster_id: str = ""
    bootstrap_servers: str = ""
    brokers: list[ProcessStatus] = field(default_factory=list)
    control: str = ""  # the socket where the supervisor takes `broker stop` and `broker start` (control.py)

    def write(self, directory: Path) -> None:
        unfinished = directory / f".{FILE}.{os.getpid()}"
        unfinished.write_text(json.dumps(asdict(self), indent=2) + "\n", "utf-8")
        unfinished.replace(directory / FILE)


def read_status(directory: Path) -> Status | None:
    """What the file says; None when there is none, or its supervisor is gone."""
    try:
        found: dict[str, Any] = json.loads((directory / FILE).read_text("utf-8"))
    except FileNotFoundError:
        return None
    brokers = [ProcessStatus(**each) for each in found.pop("brokers")]
    status = Status(**found, brokers=brokers)
    return status if is_running(status.supervisor) else None


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
