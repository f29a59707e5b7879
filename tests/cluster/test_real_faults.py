"""kafka_cluster.real: brokers as processes behind a proxy, foreign clients, faults from a seed, and the same checker.

`make test` runs one seed with four clients together; the long mode runs SEEDS of them with every kind of fault.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from tests.histories.clients import CLIENTS
from tests.histories.loads import FollowingLoad, SendingLoad, final_read
from tests.patience import HANG_S, wait_until

import ottla
from ottla.cli.brokers.status import is_running
from ottla.simulation.fault import Fault
from ottla.simulation.real.drawing import REAL_KINDS
from ottla.values import TopicPartition

PARTITIONS = 2
SEEDS = range(1, 11)
SAMPLE = [
    Fault(0.2, "cut", 0, 2.0, (("after_bytes", 700), ("is_incoming", True), ("pick", 0.3))),
    Fault(0.3, "kill", 1, 0.5),
    Fault(0.5, "slow", 2, 1.0, (("weather", "pieces"),)),
    Fault(0.8, "one-way", 0, 1.0, (("from", "clients"), ("is_incoming", False))),
    Fault(1.0, "reset", 2, 0.0, (("pick", 0.5),)),
    Fault(1.2, "pause", 2, 1.0),
]


def run_clients(cluster: Any, clients: list[str], *, least: int) -> dict[str, int]:
    """All of them send and read while there are faults, and until each has so many records acknowledged; how many the
    last readers found."""
    numbers, history, servers = count(1), cluster.history, cluster.bootstrap_servers
    for client in clients:
        cluster.create_topic(client, PARTITIONS)
    with ExitStack() as stack:
        loads = {}
        for client in clients:
            loads[client] = stack.enter_context(SendingLoad(client, servers, client, PARTITIONS, history, numbers))
            stack.enter_context(FollowingLoad(client, servers, client, PARTITIONS, history))
        wait_until(lambda: cluster.faults_are_over, "the end of the faults", step_s=0.1)
        cluster.healed()
        for load in loads.values():
            load.wait_for(max(1, least - load.acknowledged))
    return {client: final_read(client, servers, client, PARTITIONS, history) for client in clients}


def test_no_client_loses_anything_or_finds_it_twice(kafka_cluster: Any) -> None:
    clients = list(CLIENTS)
    with kafka_cluster.real(faults=SAMPLE) as cluster:
        found = run_clients(cluster, clients, least=100)
        cluster.check()
        assert min(found.values()) >= 100
        assert cluster.timeline.count("undone") == len(SAMPLE)


def test_a_topic_is_made_though_a_broker_is_down_at_first(kafka_cluster: Any) -> None:
    with kafka_cluster.real() as cluster:
        cluster.kill(1)
        back = Timer(1.0, cluster.restart, (1,))
        back.start()
        cluster.create_topic("orders")
        back.join()


@pytest.mark.long
@pytest.mark.parametrize("number", SEEDS)
@pytest.mark.parametrize("client", CLIENTS)
def test_no_client_loses_anything_with_any_faults(kafka_cluster: Any, client: str, number: int) -> None:
    with kafka_cluster.real(faults=REAL_KINDS, seconds=20) as cluster:  # the seed is of the test's name
        run_clients(cluster, [client], least=100)
        cluster.check()


def lose_three_records(cluster: Any) -> None:
    """Planted: the first records are deleted, and the history does not say that they may be."""
    cluster.create_topic("orders")
    with SendingLoad("confluent-kafka", cluster.bootstrap_servers, "orders", 1, cluster.history, count(1)) as load:
        load.wait_for(20)
    with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition("orders", 0): 3})
    cluster.check()


def test_records_that_are_gone_are_reported_with_the_line_that_repeats_it(kafka_cluster: Any) -> None:
    cluster, pids = kafka_cluster.real(brokers=1), []

    def use() -> None:
        with cluster:
            pids.extend(child.pid for child in cluster._processes._brokers)
            lose_three_records(cluster)

    with pytest.raises(AssertionError, match=r"^3 anomalies:\nlost-write: 1 was acknowledged at orders-0:0") as caught:
        use()
    (note,) = caught.value.__notes__
    assert f"--kafka-seed={cluster.seed}" in note
    assert pids
    assert not any(is_running(pid) for pid in pids), "nothing is left running"
    assert not Path(cluster._files.name).exists()


def test_a_broker_that_ends_by_itself_is_no_fault(kafka_cluster: Any) -> None:
    with kafka_cluster.real(brokers=1) as cluster:
        cluster._processes._brokers[0].kill()
        with pytest.raises(RuntimeError, match="broker 0 ended without a fault"):
            wait_until(lambda: cluster.faults_are_over and False, "somebody notices")


def test_the_option_sets_the_seed_of_real_faults(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(
        "def test_mine(kafka_cluster):\n"
        "    with kafka_cluster.real(brokers=1, faults=['slow'], seconds=1) as cluster:\n"
        "        assert cluster.bootstrap_servers == 'somewhere else'\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_users.py", "--kafka-seed=41"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=os.environ, timeout=HANG_S)
    assert done.returncode == 1
    assert "repeat with: pytest 'test_users.py::test_mine' --kafka-seed=41" in done.stdout


def test_an_unknown_fault_is_a_sentence(kafka_cluster: Any) -> None:
    with pytest.raises(ValueError, match="there is no fault power in real time; there are kill"):
        kafka_cluster.real(faults=["power"])
