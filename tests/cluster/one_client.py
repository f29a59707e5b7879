"""One client of the field as a process of its own, on whatever host: a producer, a member of a group, their history.

    python -m tests.cluster.one_client aiokafka --servers HOST:PORT,... --login load.properties --partitions 3 \
        --first 1000000 --history aiokafka.jsonl

1. Topic and group have the client's name. Values are numbers from `--first` on.
2. Every event is in the file at once, with the machine's monotonic time, so that others can see how it goes, and files
   of several clients are one history when they are put together.
3. When its stdin is closed it sends no more, reads what was acknowledged, and ends. A failure ends it at once.
"""

from __future__ import annotations

import argparse
import logging
import select
import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from tests.histories.clients import CLIENTS, Login
from tests.histories.loads import SendingLoad
from tests.histories.members import MemberLoad

from ottla.simulation.history import Kind
from ottla.simulation.real.recording import SharedHistory

PAUSE_S = 0.1
LOOK_EVERY_S = 0.5


class WrittenHistory(SharedHistory):
    """See the module."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("w", encoding="utf-8")

    def add(self, client: str, kind: Kind, action: str, number: int, facts: Mapping[str, Any]) -> None:
        with self._lock:
            super().add(client, kind, action, number, facts)
            self._file.write(f"{self.events[-1].line()}\n")
            self._file.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.one_client")
    parser.add_argument("client", choices=list(CLIENTS))
    parser.add_argument("--servers", required=True)
    parser.add_argument("--login", type=Path, required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--first", type=int, required=True)
    parser.add_argument("--history", type=Path, required=True)
    said = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s", level=logging.INFO)
    login, history, topic = Login.read(said.login), WrittenHistory(said.history), said.client
    where = said.client, said.servers, topic
    with (
        SendingLoad(*where, said.partitions, history, count(said.first), login=login, pause_s=PAUSE_S) as load,
        MemberLoad(*where, topic, history, login) as member,
    ):
        while load.is_running and member.is_running and not select.select([sys.stdin], [], [], LOOK_EVERY_S)[0]:
            pass
        load.end()
        member.wait_for(load.acknowledged)
    return 0


if __name__ == "__main__":
    sys.exit(main())
