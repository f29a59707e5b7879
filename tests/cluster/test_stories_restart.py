"""A broker is killed and started again at once, before the cluster has noticed that it was gone."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.cluster.stored_cluster import StoredCluster

import ottla
from ottla.broker.cluster import membership
from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType
from ottla.testing import KafkaCluster
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
    stored: StoredCluster, background: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    address = address_of(stored, VICTIM)
    with NumberedLoad(stored.bootstrap_servers, "clicks", 3) as load:
        load.wait_for(50)
        stored.crash(VICTIM, session_stays=True)
        starting = background.submit(stored.start_broker, VICTIM)
        stored.wait_until(lambda: STILL_REGISTERED in caplog.text or starting.done())
        assert not starting.done(), "it waits"
        assert not answers_at(address), "nobody is told anything before it is a member"
        stored.end_session(VICTIM)
        starting.result(60)
        load.wait_for(100)
    with ottla.Admin(bootstrap_servers=f"{address[0]}:{address[1]}") as admin:
        found = admin.describe_cluster(timeout=10)
        assert sorted(each.id for each in found.nodes) == [0, 1, 2]
        assert found.controller is not None
        assert "clicks" in admin.list_topics(timeout=10)
    load.check_cluster(stored)


def test_clients_wait_until_the_first_view_is_complete(
    stored: StoredCluster, background: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on, waits, wait = asyncio.Event(), asyncio.Event(), membership.wait_for_first_view

    async def wait_longer(*arguments: Any, **named: Any) -> None:
        waits.set()
        await may_go_on.wait()
        await wait(*arguments, **named)

    host, port = address_of(stored, VICTIM)
    stored.crash(VICTIM)
    monkeypatch.setattr(membership, "wait_for_first_view", wait_longer)
    starting = background.submit(stored.start_broker, VICTIM)
    stored.wait_until(waits.is_set)
    with socket.create_connection((host, port), timeout=10) as client:
        # Metadata version 0 of all topics, and before it ApiVersions, which is answered at once.
        client.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff" + b"\0\0\0\x0e\0\x03\0\0\0\0\0\2\xff\xff\0\0\0\0")
        assert received(client)[:4] == b"\0\0\0\1"
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(1)
        stored.call(may_go_on.set)
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
    stored: StoredCluster, background: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What never was a member does not ask the controller for anything."""
    from ottla.broker.cluster import earlier_session

    monkeypatch.setattr(earlier_session, "LIMIT_AT_LEAST_MS", 0)
    monkeypatch.setattr(type(stored.shared), "session_timeout_ms", 100.0)
    asked: list[Any] = []
    monkeypatch.setattr(membership.ClusterMember, "ask_controller", lambda self, request: asked.append(request))
    stored.crash(VICTIM, session_stays=True)
    with pytest.raises(ottla.errors.DuplicateBrokerRegistration, match="another broker with this id"):
        background.submit(stored.start_broker, VICTIM).result(60)
    assert asked == []
    stored.end_session(VICTIM)


def test_settings_that_were_changed_while_running_hold_after_a_restart() -> None:
    everywhere, here = ConfigResource(ConfigResourceType.BROKER, ""), ConfigResource(ConfigResourceType.BROKER, "0")
    with KafkaCluster(1) as cluster:
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
