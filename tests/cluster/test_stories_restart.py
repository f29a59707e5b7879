"""A broker is killed and started again at once, before the cluster has noticed that it was gone."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.cluster.zookeeper_cluster import ZooKeeperCluster

import ottla
from ottla.broker.cluster import earlier_session
from ottla.broker.server import Server
from ottla.broker.settings import BrokerSettings
from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType
from ottla.testing import KafkaCluster
from ottla.testing.broker import TEST_SETTINGS
from ottla.testing.promises import NumberedLoad

VICTIM = 1
STILL_REGISTERED = "broker id 1 is still registered"


@pytest.fixture
def background() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def address_of(cluster: KafkaCluster, broker_id: int) -> tuple[str, int]:
    host, _, port = cluster.server(broker_id).info.bootstrap_servers.partition(":")
    return host, int(port)


def answers_at(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_broker_waits_for_its_earlier_session_with_its_door_shut_and_then_serves(
    on_zookeeper: ZooKeeperCluster, background: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = on_zookeeper
    caplog.set_level(logging.INFO)
    address = address_of(cluster, VICTIM)
    with NumberedLoad(cluster.bootstrap_servers, "clicks", 3) as load:
        load.wait_for(50)
        cluster.crash(VICTIM, session_stays=True)
        starting = background.submit(cluster.start_broker, VICTIM)
        cluster.wait_until(lambda: STILL_REGISTERED in caplog.text or starting.done())
        assert not starting.done(), "it waits"
        assert not answers_at(address), "nobody is told anything before it is a member"
        cluster.end_session(VICTIM)
        starting.result(60)
        load.wait_for(100)
    with ottla.Admin(bootstrap_servers=f"{address[0]}:{address[1]}") as admin:
        found = admin.describe_cluster(timeout=10)
        assert sorted(each.id for each in found.nodes) == [0, 1, 2]
        assert found.controller is not None
        assert "clicks" in admin.list_topics(timeout=10)
    load.check_cluster(cluster)


def test_clients_wait_until_the_first_view_is_complete(
    on_zookeeper: ZooKeeperCluster, background: ThreadPoolExecutor
) -> None:
    """The controller does not hear of a broker while ZooKeeper is out of its reach, and sends it no view."""
    cluster = on_zookeeper
    controller = cluster.controller()
    victim = (controller + 1) % 3
    host, port = address_of(cluster, victim)
    cluster.crash(victim)
    known = cluster.server(controller).broker
    cluster.wait_until(lambda: victim not in known.image.brokers)
    cluster.cut_off(controller)
    starting = background.submit(cluster.start_broker, victim)
    cluster.wait_until(lambda: starting.done() or answers_at((host, port)))
    with socket.create_connection((host, port), timeout=10) as client:
        # Metadata version 0 of all topics, and before it ApiVersions, which is answered at once.
        client.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff" + b"\0\0\0\x0e\0\x03\0\0\0\0\0\2\xff\xff\0\0\0\0")
        assert received(client)[:4] == b"\0\0\0\1"
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(1)
        cluster.reconnect(controller)
        starting.result(60)
        client.settimeout(10)
        metadata = received(client)
    assert metadata[:4] == b"\0\0\0\2"
    assert int.from_bytes(metadata[4:8]) == 3, "brokers"
    assert b"clicks" in metadata


def received(client: socket.socket) -> bytes:
    size = int.from_bytes(client.recv(4, socket.MSG_WAITALL))
    return client.recv(size, socket.MSG_WAITALL)


def test_another_broker_with_the_same_id_is_an_error_and_hands_nothing_over(
    on_zookeeper: ZooKeeperCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What never was a member does not ask the controller for anything. (45 s are not waited for.)"""
    cluster = on_zookeeper
    monkeypatch.setattr(earlier_session, "LIMIT_AT_LEAST_MS", 0)
    led = [cluster.leader_of("clicks", number) for number in range(3)]
    assert VICTIM in led
    settings = {
        **TEST_SETTINGS,
        "broker.id": VICTIM,
        "log.dirs": str(tmp_path),
        "zookeeper.connect": cluster.connect(VICTIM),
        "zookeeper.session.timeout.ms": 300,
        "zookeeper.connection.timeout.ms": 10_000,
    }
    with pytest.raises(ottla.errors.DuplicateBrokerRegistration, match="another broker with this id"):
        cluster._wait(Server(BrokerSettings(settings)).start())
    assert [cluster.leader_of("clicks", number) for number in range(3)] == led
    cluster.check_replicas("clicks", 3)


def test_settings_that_were_changed_while_running_hold_after_a_restart(
    make_cluster: Callable[..., KafkaCluster],
) -> None:
    everywhere, here = ConfigResource(ConfigResourceType.BROKER, ""), ConfigResource(ConfigResourceType.BROKER, "0")
    with make_cluster(1) as cluster:
        with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.incremental_alter_configs({everywhere: [AlterConfig("message.max.bytes", "7777")]})
            admin.incremental_alter_configs({here: [AlterConfig("max.connections", "77")]})

        def in_effect() -> tuple[int, int]:
            settings = cluster.server(0).broker.settings
            return settings.topic_defaults().max_message_bytes, settings.max_connections

        assert cluster.call(in_effect) == (7777, 77)
        cluster.stop_broker(0)
        cluster.start_broker(0)
        assert cluster.call(in_effect) == (7777, 77)
