"""SIGTERM while ZooKeeper is away: nobody can take over, so nobody is waited for."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Final

import pytest

import ottla
from ottla.testing.zookeeper import ZooKeeperServer, missing

if (REASON := missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)

from ottla.cli.lab_cluster import LabCluster

LIMIT_S: Final = 20.0
"""About ten seconds, and as much again for a busy machine; it used to be 36 to 150."""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["gone", "silent"])
def test_brokers_end_soon_while_zookeeper_is_away(tmp_path: Path, how: signal.Signals) -> None:
    zookeeper = ZooKeeperServer(tmp_path / "zookeeper")
    with LabCluster(tmp_path, brokers=2, zookeeper=zookeeper) as lab:
        with ottla.Admin(bootstrap_servers=lab.bootstrap_servers) as admin:
            admin.create_topics([ottla.NewTopic("clicks", 2, 2)], timeout=20)
            controller = admin.describe_cluster(timeout=20).controller
        (node,) = zookeeper.nodes
        zookeeper.signal_node(node, how)
        try:
            assert controller is not None
            for number in (1 - controller, controller):
                process = lab.brokers[number].process
                assert process is not None
                process.terminate()
                began_s = time.monotonic()
                process.wait(4 * LIMIT_S)
                assert time.monotonic() - began_s < LIMIT_S, lab.brokers[number].log.read_text()[-3_000:]
        finally:
            zookeeper.signal_node(node, signal.SIGCONT)
