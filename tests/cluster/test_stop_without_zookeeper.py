"""SIGTERM while ZooKeeper is away: nobody can take over, so nobody is waited for.

A broker that stops gives up once, 5 s after the store has answered for the last time (broker/cluster/leaving.py), and
then ends; it used to try one thing after the other, for 36 to 150 s. So the tests count how often it gave up: how long
it took depends on the machine, too.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Final

import pytest
from tests.patience import HANG_S

import ottla
from ottla.testing.zookeeper import ZooKeeperServer, missing

if (REASON := missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)

from ottla.cli.lab_cluster import LabCluster

GAVE_UP: Final = "stops while its metadata store is out of reach"


@pytest.mark.parametrize(
    ("how", "order"),
    [
        pytest.param(signal.SIGKILL, "at once", id="gone-at_once"),
        pytest.param(signal.SIGSTOP, "controller last", id="silent-controller_last"),
        pytest.param(signal.SIGKILL, "controller last", id="gone-controller_last", marks=pytest.mark.long),
        pytest.param(signal.SIGKILL, "controller first", id="gone-controller_first", marks=pytest.mark.long),
        pytest.param(signal.SIGSTOP, "at once", id="silent-at_once", marks=pytest.mark.long),
        pytest.param(signal.SIGSTOP, "controller first", id="silent-controller_first", marks=pytest.mark.long),
    ],
)
def test_brokers_end_soon_while_zookeeper_is_away(tmp_path: Path, how: signal.Signals, order: str) -> None:
    zookeeper = ZooKeeperServer(tmp_path / "zookeeper")
    with LabCluster(tmp_path, brokers=2, zookeeper=zookeeper) as lab:
        with ottla.Admin(bootstrap_servers=lab.bootstrap_servers) as admin:
            admin.create_topics([ottla.NewTopic("clicks", 2, 2)], timeout=20)
            controller = admin.describe_cluster(timeout=20).controller
        assert controller is not None
        numbers = [controller, 1 - controller] if order == "controller first" else [1 - controller, controller]
        rounds = [numbers] if order == "at once" else [[number] for number in numbers]
        (node,) = zookeeper.nodes
        zookeeper.signal_node(node, how)
        try:
            for together in rounds:
                _end(lab, together)
        finally:
            zookeeper.signal_node(node, signal.SIGCONT)


def _end(lab: LabCluster, numbers: list[int]) -> None:
    for number in numbers:
        if (running := lab.brokers[number].process) is not None:
            running.terminate()
    for number in numbers:
        process = lab.brokers[number].process
        assert process is not None
        assert process.wait(HANG_S) == 0
        log = lab.brokers[number].log.read_text()
        assert log.count(GAVE_UP) == 1, log[-3_000:]
