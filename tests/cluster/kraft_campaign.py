"""`python -m tests.cluster.kraft_campaign`: the campaign (campaign.py) under Apache Kafka's controllers.

    python -m tests.cluster.kraft_campaign --minutes 10 --seed 7 --report campaign.md

1. Three controllers of Apache Kafka 4.3, two brokers of Ottla and one of Apache's; replication 3, min.insync.replicas
   2, acks=all. The loads, the history and its checker are those of campaign.py.
2. The faults: kill -9, SIGSTOP and a stop in order, of a leader and of the active controller. The next one comes when
   all copies are in sync again.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final

from tests.cluster import campaign
from tests.cluster.campaign import HEAL_LIMIT_S, PARTITIONS, SESSION_S, TOPICS, Campaign, report, under_load
from tests.cluster.judging import KAFKA, OTTLA
from tests.cluster.kraft_cluster import KRaftCluster
from tests.conformance.kafka_jars import find_jars

import ottla
from ottla.simulation.real.recording import SharedHistory

SIDES: Final = {11: OTTLA, 12: KAFKA, 13: OTTLA}
SETTINGS: Final = {
    **{name: value for name, value in campaign.SETTINGS.items() if not name.startswith("zookeeper.")},
    "broker.session.timeout.ms": int(SESSION_S * 1_000),
    "broker.heartbeat.interval.ms": 500,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
}


class KRaftCampaign(Campaign):
    """Faults of a cluster under controllers."""

    cluster: KRaftCluster

    def faults(self) -> dict[str, Callable[[], tuple[str, Callable[[], None]]]]:
        return {
            "kill -9 of a leader": lambda: self._hit(self._leader(), signal.SIGKILL),
            "stop in order of a leader": lambda: self._hit(self._leader(), signal.SIGTERM),
            "pause of a leader": lambda: self._hit(self._leader(), signal.SIGSTOP),
            "kill -9 of the active controller": lambda: self._hit(self.cluster.active_controller, signal.SIGKILL),
            "stop in order of the active controller": lambda: self._hit(self.cluster.active_controller, signal.SIGTERM),
            "pause of the active controller": lambda: self._hit(self.cluster.active_controller, signal.SIGSTOP),
        }

    def _leader(self) -> int:
        found = campaign.partitions_of(self.lab, ["ottla"])["ottla"][0].leader
        return min(self.cluster.brokers) if found is None else found

    def _hit(self, victim: int, how: signal.Signals) -> tuple[str, Callable[[], None]]:
        self.cluster.signal(victim, how)
        side = self.cluster.sides.get(victim, KAFKA)
        if how is signal.SIGSTOP:
            return f"{victim} ({side})", lambda: self.cluster.signal(victim, signal.SIGCONT)
        return f"{victim} ({side})", lambda: self.cluster.start_node(victim)


def run(directory: Path, seconds: float, seed: int) -> str:
    """The report; raises what was broken."""
    history = SharedHistory()
    cluster = KRaftCluster(directory, SIDES, jars=find_jars("4.3"), controllers=3, settings=SETTINGS)
    with cluster, ExitStack() as stack:
        with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            parts = {"copy-in": 1, "copy-out": 1}
            new = [ottla.NewTopic(name, parts.get(name, PARTITIONS), 3) for name in TOPICS]
            admin.create_topics(new, timeout=HEAL_LIMIT_S)
        faults = KRaftCampaign(cluster, Random(seed))  # type: ignore[arg-type]  # it has what loads and copies need
        faults.cluster = cluster
        checked = under_load(cluster, faults, seconds, directory, stack, history)
    about = (
        "Three controllers of Apache Kafka 4.3.1, two brokers of Ottla and one of Apache's, session time-out "
        f"{SESSION_S:g} s. All checks passed."
    )
    return report(about, faults.happened, checked, seed)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.kraft_campaign", description="see the module")
    parser.add_argument("--minutes", type=float, default=10, help="how long faults are made (default 10)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="decides the order of the faults")
    parser.add_argument("--report", type=Path, default=Path("campaign.md"), help="where the report goes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ottla-campaign-") as directory:
        said = run(Path(directory), arguments.minutes * 60, arguments.seed)
    arguments.report.write_text(said)
    print(said)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
