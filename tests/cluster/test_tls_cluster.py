"""Three brokers that speak TLS with each other and with clients, and show each other certificates."""

from __future__ import annotations

import itertools
import ssl
from functools import partial
from pathlib import Path

import pytest
from tests.cluster.zookeeper_cluster import ZooKeeperCluster
from tests.conformance.transaction_probes import Wire
from tests.patience import HANG_S
from tests.unit.net.tls_files import HOSTS, TlsFiles

import ottla
from ottla.broker.server import Server
from ottla.client.admin.admin import Admin
from ottla.client.admin.topics import NewTopic
from ottla.errors import ClusterAuthorizationFailed
from ottla.protocol.api import api_of
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.protocol.messages.stop_replica import StopReplicaRequest
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest
from ottla.protocol.schema import Message
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


RULES = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:server"}
ONE_NAME = {"ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/"}


@pytest.mark.parametrize("rules", [{}, RULES], ids=["no authorizer", "authorizer"])
def test_another_certificate_is_no_broker_although_it_asks_from_the_address_of_one(
    files: TlsFiles, rules: dict[str, object], chroot: str
) -> None:
    settings = {**files.broker_settings(ssl_client_auth="required"), **ONE_NAME, **rules}
    with ZooKeeperCluster(chroot, 2, settings) as cluster:
        common = {"bootstrap_servers": cluster.bootstrap_servers, **files.client_settings("server")}
        with Admin(**common) as admin:
            admin.create_topics([NewTopic("clicks", num_partitions=1, replication_factor=2)], timeout=HANG_S)
        with ottla.Producer(acks="all", **common) as producer:
            assert producer.send("clicks", b"1", partition=0).result(HANG_S).offset == 0  # copied by the other broker
        server = cluster.server(0)
        assert {_code(TlsWire(server, files, "alice"), order) for order in _orders()} == {
            ClusterAuthorizationFailed.code
        }
        assert ClusterAuthorizationFailed.code not in {
            _code(TlsWire(server, files, "server"), order) for order in _orders()
        }


def _orders() -> list[Message]:
    """Harmless when they are carried out: they come from a controller of long ago."""
    controller = {"controller_id": 0, "controller_epoch": 0, "broker_epoch": -1}
    return [
        LeaderAndIsrRequest(**controller, topic_states=[], live_leaders=[]),
        StopReplicaRequest(**controller, topic_states=[]),
        UpdateMetadataRequest(**controller, topic_states=[], live_brokers=[]),
    ]


class TlsWire(Wire):
    """A connection that shows a certificate."""

    def __init__(self, server: Server, files: TlsFiles, store: str) -> None:
        super().__init__(server.info.bootstrap_servers)
        context = ssl.create_default_context(cafile=str(files.ca))
        context.load_cert_chain(files.directory / f"{store}.pem")
        self._socket = context.wrap_socket(self._socket, server_hostname="127.0.0.1")


def _code(wire: Wire, request: Message) -> int:
    with wire:
        code: int = wire.ask(request, api_of(request).versions.max).error_code
        return code


def check_files(server: Server) -> None:
    assert server.listeners.tls is not None
    server.listeners.tls._check_files()


def everybody(cluster: KafkaCluster) -> list[object]:
    servers = [cluster.server(each) for each in cluster.running]
    return [connection for server in servers for connection in server.listeners.acceptor.connections]
