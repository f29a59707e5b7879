"""zookeeper-server-start: a ZooKeeper for development from a zookeeper.properties file; see `ottla zookeeper start`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ottla.cli.kafka.cluster import file_settings
from ottla.cli.kafka.ends import fail
from ottla.cli.output import FAILED

USAGE: Final = "USAGE: zookeeper-server-start zookeeper.properties"


def run(words: Sequence[str]) -> int:
    waiting = [word for word in words if word != "-daemon"]
    if len(waiting) != 1 or waiting[0].startswith("--"):
        print(USAGE)
        return FAILED
    if "-daemon" in words:
        fail("-daemon is not supported; put it into the background with your shell, or use a service manager")
    settings = file_settings(waiting[0])
    from ottla.cli.commands.zookeeper import run_start

    data = settings.get("dataDir")
    if data is None:
        fail("dataDir is not set")
    return run_start(argparse.Namespace(nodes=1, data=Path(str(data)), port=int(str(settings.get("clientPort", 2181)))))
