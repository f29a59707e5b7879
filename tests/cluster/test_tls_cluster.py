"""Three brokers that speak TLS with each other and with clients, and show each other certificates."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path

import pytest
from tests.patience import HANG_S
from tests.unit.net.tls_files import HOSTS, TlsFiles

import ottla
from ottla.broker.server import Server
from ottla.client.admin.admin import Admin
from ottla.client.admin.topics import NewTopic
from ottla.testing.cluster import KafkaCluster


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    made = TlsFiles(tmp_path)
    made.issue("alice")
    return made


def test_records_are_replicated_and_survive_a_broker_and_a_new_certificate(files: TlsFiles) -> None:
    with KafkaCluster(3, files.broker_settings(ssl_client_auth="required")) as cluster:
        common = {"bootstrap_servers": cluster.bootstrap_servers, **files.client_settings("alice")}
        with Admin(**common) as admin:
            admin.create_topics([NewTopic("t", num_partitions=3, replication_factor=3)], timeout=HANG_S)
        with ottla.Producer(acks="all", **common) as producer:
            for number in range(30):
                producer.send("t", str(number).encode(), partition=number % 3).result(HANG_S)
            files.issue("server", hosts=HOSTS)  # brokers that connect from now on show and meet the new one
            for broker_id in cluster.running:
                cluster.call(partial(check_files, cluster.server(broker_id)))
            stopped = cluster.leader_of("t", 0)
            cluster.stop_broker(stopped)
            cluster.start_broker(stopped)
            cluster.wait_for_copies("t", 3)
            for number in range(30, 60):
                producer.send("t", str(number).encode(), partition=number % 3).result(HANG_S)
        with ottla.Consumer("t", group_id="g", auto_offset_reset="earliest", **common) as consumer:
            found = {int(record.value) for record in itertools.islice(consumer, 60)}
        assert found == set(range(60))
        principals = cluster.call(lambda: {each.principal for each in everybody(cluster)})
        assert "User:CN=server" in principals  # brokers come with their certificates
        assert principals <= {"User:CN=server", "User:CN=alice"}


def check_files(server: Server) -> None:
    assert server._tls is not None
    server._tls._check_files()


def everybody(cluster: KafkaCluster) -> list[object]:
    servers = [cluster.server(each) for each in cluster.running]
    return [connection for server in servers for connection in server._acceptor.connections]
