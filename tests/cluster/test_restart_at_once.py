"""kill -9, and a supervisor that starts the broker again at once: clients of every kind go on.

The cluster still has the registration of the killed broker until its session ends. Started that early, the broker must
keep its listener shut until it is registered: a client that it told of an empty cluster would be stuck.
"""

from __future__ import annotations

import contextlib
import signal
import time
from pathlib import Path
from typing import Final

import pytest
from tests.cluster.client_work import ALL, AtWork, wait_until_all_move_on

import ottla
from ottla.testing.zookeeper import ZooKeeperServer, missing

if (REASON := missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)

from tests.cluster.java_loads import VerifiableLoad, java_missing

from ottla.cli.lab_cluster import LabCluster

STUCK_AFTER_S: Final = 30.0
DEFAULT_SESSION_MS: Final = 18_000
SETTINGS: Final = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 5}


def start_lab(directory: Path, session_ms: int) -> LabCluster:
    settings = {**SETTINGS, "zookeeper.session.timeout.ms": session_ms}
    return LabCluster(directory, settings=settings, zookeeper=ZooKeeperServer(directory / "zookeeper"))


def kill_and_start_at_once(lab: LabCluster, number: int, session_ms: int) -> None:
    """As a supervisor does; returns when the broker serves again."""
    lab.signal(number, signal.SIGKILL)
    killed_s = time.monotonic()
    lab.begin(number)
    broker = lab.brokers[number]
    while b" is ready at " not in broker.log.read_bytes():
        assert broker.is_running, f"it ended: {broker.log.read_text()[-2_000:]}"
        assert time.monotonic() - killed_s < 3 * session_ms / 1000 + 30, broker.log.read_text()[-2_000:]
        time.sleep(0.05)
    if session_ms == DEFAULT_SESSION_MS:  # a busy machine may need longer than a short session to start it
        assert f"broker id {number} is still registered" in broker.log.read_text()


def check_restarts(directory: Path, session_ms: int, victims: tuple[str, ...]) -> None:
    with contextlib.ExitStack() as stack:
        lab = stack.enter_context(start_lab(directory, session_ms))
        topic = "clicks"
        with ottla.Admin(bootstrap_servers=lab.bootstrap_servers) as admin:
            admin.create_topics([ottla.NewTopic(topic, 3, 3)], timeout=20)
        works = [stack.enter_context(AtWork(each, lab.bootstrap_servers, topic, directory)) for each in ALL]
        wait_until_all_move_on(works, 60)
        for who in victims:
            with ottla.Admin(bootstrap_servers=lab.bootstrap_servers) as admin:
                controller = admin.describe_cluster(timeout=20).controller
            assert controller is not None
            victim = controller if who == "controller" else (controller + 1) % len(lab.brokers)
            kill_and_start_at_once(lab, victim, session_ms)
            wait_until_all_move_on(works, STUCK_AFTER_S)


def test_clients_go_on_when_a_killed_broker_is_started_at_once(tmp_path: Path) -> None:
    check_restarts(tmp_path, session_ms=8_000, victims=("broker",))


@pytest.mark.long
def test_clients_go_on_with_the_default_session_whoever_is_killed(tmp_path: Path) -> None:
    check_restarts(tmp_path, DEFAULT_SESSION_MS, ("broker", "controller", "broker", "controller"))


@pytest.mark.long
@pytest.mark.skipif(java_missing() is not None, reason=str(java_missing()))
def test_javas_producer_goes_on_with_the_default_session(tmp_path: Path) -> None:
    with start_lab(tmp_path / "lab", DEFAULT_SESSION_MS) as lab:
        with ottla.Admin(bootstrap_servers=lab.bootstrap_servers) as admin:
            admin.create_topics([ottla.NewTopic("clicks", 3, 3)], timeout=20)
        with VerifiableLoad(lab.bootstrap_servers, "clicks", tmp_path) as load:
            load.start()
            for victim in range(3):
                kill_and_start_at_once(lab, victim, DEFAULT_SESSION_MS)
                before = len(load._program.named("producer_send_success"))
                end = time.monotonic() + STUCK_AFTER_S
                while len(load._program.named("producer_send_success")) < before + 500:
                    assert time.monotonic() < end, "Java's producer is stuck"
                    time.sleep(0.1)
            load.end()
            load.check(lab.bootstrap_servers)
