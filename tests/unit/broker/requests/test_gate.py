"""What only brokers send each other is taken from brokers only; the controller's orders from nobody else."""

from __future__ import annotations

import asyncio
import struct
from types import SimpleNamespace

import pytest

from ottla.broker.network.processor import CloseConnection, Connection
from ottla.broker.requests import dispatch as dispatching
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.dispatch import Dispatch
from ottla.broker.requests.gate import Gate
from ottla.broker.requests.running import Running, is_coroutine
from ottla.broker.requests.served import BROKER_APIS, CLUSTER_APIS, SERVED_APIS
from ottla.errors import ClusterAuthorizationFailed
from ottla.protocol.api import APIS, api_of
from ottla.protocol.header import encode_request, request_header_version
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

BETWEEN_BROKERS = {
    "LeaderAndIsr",
    "StopReplica",
    "UpdateMetadata",
    "ControlledShutdown",
    "AlterPartition",
    "AllocateProducerIds",
    "Envelope",
}
API_OF_NAME = {api.name: api for api in APIS.values()}


class FakePeers:
    """Knows who is a broker; `admits` is what a fresh look finds."""

    def __init__(self, *, knows=False, admits=None, refusal=None):
        self.knows = knows
        self.admits = knows if admits is None else admits
        self.why = refusal or CloseConnection("no address of a broker")
        self.asked = []

    def refusal(self, context):
        self.asked.append(context.client_host)
        return None if self.knows else self.why

    async def admit(self, context):
        if not self.admits:
            raise self.why


class FakeAccess:
    def __init__(self, is_on=False, cluster_action=False):
        self.is_on = is_on
        self.cluster_action = cluster_action

    def allows(self, *_, **__):
        return self.cluster_action


def gate(peers=None, *, is_alone=False, access=None):
    link = SimpleNamespace(is_alone=is_alone)
    return Gate(SimpleNamespace(link=link, peers=peers or FakePeers(), access=access or FakeAccess()))


def context(version=12):
    return RequestContext(version, "someone", "10.0.0.9")


def check(gate, name, request=None, version=12):
    """Whether the request may pass."""
    try:
        checking = gate.check_of(API_OF_NAME[name])(request, context(version))
        if checking is not None:
            Running(checking).result()
    except (CloseConnection, ClusterAuthorizationFailed):
        return False
    return True


def test_the_orders_of_the_controller_are_between_brokers():
    assert {APIS[key].name for key in BROKER_APIS} == BETWEEN_BROKERS


@pytest.mark.parametrize("name", sorted({*BETWEEN_BROKERS, "WriteTxnMarkers"}))
@pytest.mark.parametrize("is_broker", [True, False])
def test_only_brokers_send_what_is_between_brokers(name, is_broker):
    peers = FakePeers(knows=is_broker)
    assert check(gate(peers), name) is is_broker
    assert peers.asked == ["10.0.0.9"]


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("is_broker", [True, False])
def test_only_brokers_add_partitions_to_the_transactions_of_others(version, is_broker):
    request = AddPartitionsToTxnRequest()
    assert check(gate(FakePeers(knows=is_broker)), "AddPartitionsToTxn", request, version) is (is_broker or version < 4)


def test_a_broker_that_registered_a_moment_ago_is_found_by_a_fresh_look():
    assert check(gate(FakePeers(knows=False, admits=True)), "LeaderAndIsr")


def test_who_logged_in_as_somebody_else_is_refused_without_a_fresh_look():
    assert not check(gate(FakePeers(admits=True, refusal=ClusterAuthorizationFailed("no broker"))), "LeaderAndIsr")


def test_nothing_else_but_fetch_is_checked():
    checking = gate()
    checked = {APIS[key].name for key in CLUSTER_APIS if checking.check_of(APIS[key]) is not None}
    assert checked == BETWEEN_BROKERS | {"Fetch", "WriteTxnMarkers", "AddPartitionsToTxn"}


def test_with_an_authorizer_what_an_administrator_may_do_is_left_to_the_handlers():
    checking = gate(access=FakeAccess(is_on=True))
    checked = {APIS[key].name for key in CLUSTER_APIS if checking.check_of(APIS[key]) is not None}
    assert checked == BETWEEN_BROKERS | {"Fetch"}


def test_a_broker_that_is_alone_checks_nobody():
    checking = gate(is_alone=True)
    assert [key for key in SERVED_APIS if checking.check_of(APIS[key]) is not None] == []


def fetch(replica_id, version):
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    replica = (
        {"replica_id": replica_id}
        if version < 15
        else {"replica_state": ReplicaState(replica_id=replica_id, replica_epoch=-1)}
    )
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        session_id=0,
        session_epoch=-1,
        topics=[FetchTopic(topic="orders", topic_id=b"o" * 16, partitions=[partition])],
        forgotten_topics_data=[],
        **replica,
    )


@pytest.mark.parametrize("version", [12, 14, 15, 17])
@pytest.mark.parametrize("is_broker", [True, False])
def test_a_fetch_is_checked_when_it_names_a_replica(version, is_broker):
    peers = FakePeers(knows=is_broker)
    assert check(gate(peers), "Fetch", fetch(-1, version), version)
    assert peers.asked == [], "consumers are not looked up"
    assert check(gate(peers), "Fetch", fetch(2, version), version) is is_broker


def test_who_may_not_follow_by_the_rules_is_refused_by_the_handler_as_in_kafka():
    peers = FakePeers(knows=False)
    assert check(gate(peers, access=FakeAccess(is_on=True)), "Fetch", fetch(2, 12))
    assert not check(gate(peers, access=FakeAccess(is_on=True, cluster_action=True)), "Fetch", fetch(2, 12))


# --- on the way of a request ------------------------------------------------------------------------------------------


class Link:
    remote_address = ("10.0.0.9", 1234)
    following = ()

    def __init__(self):
        self.is_closed = False
        self.written = []
        self.writable = True

    def write(self, buffers):
        self.written.append(b"".join(map(bytes, buffers)))

    def close(self):
        self.is_closed = True

    def pause_reading(self): ...
    def resume_reading(self): ...


def in_a_cluster(memory_broker, peers):
    """The broker's own gate, as if it had company."""
    broker = memory_broker.broker
    return Gate(SimpleNamespace(link=SimpleNamespace(is_alone=False), peers=peers, access=broker.access))


def deliver(memory_broker, request, version, peers):
    """Whether it was answered, and whether its connection was closed."""
    link = Link()
    dispatch = Dispatch(memory_broker.broker, CLUSTER_APIS, in_a_cluster(memory_broker, peers))
    connection = Connection(1, "PLAINTEXT", dispatch, lambda _: None)
    connection.opened(link)
    parts = encode_request(request, version=version, correlation_id=1, client_id="someone")
    frame = memoryview(bytearray(b"".join(map(bytes, parts))))
    memory_broker.do(lambda: connection.frame_received(frame))
    return bool(link.written), link.is_closed


@pytest.mark.parametrize(("is_broker", "outcome"), [(True, (True, False)), (False, (False, True))])
def test_a_stranger_gets_no_answer_but_the_end_of_the_connection(broker, is_broker, outcome):
    broker.create_topic("orders")
    peers = FakePeers(knows=is_broker)
    assert deliver(broker, WriteTxnMarkersRequest(markers=[]), 1, peers) == outcome
    assert deliver(broker, fetch(2, 12), 12, peers) == outcome
    assert deliver(broker, fetch(-1, 12), 12, peers) == (True, False)


@pytest.mark.parametrize("name", sorted(BETWEEN_BROKERS - {"Envelope"}))
@pytest.mark.parametrize("refusal", [None, ClusterAuthorizationFailed("not whom brokers log in as")])
def test_what_only_brokers_send_is_not_read_when_somebody_else_sends_it(broker, name, refusal, monkeypatch):
    """It may be as large as the cluster: who has no rights held the loop for as long as it took to read it."""
    api = API_OF_NAME[name]
    read = []
    monkeypatch.setattr(dispatching, "_decoded", lambda lane, frame, position: read.append(len(frame)))
    peers = FakePeers(refusal=refusal)
    dispatch = Dispatch(broker.broker, CLUSTER_APIS, in_a_cluster(broker, peers))
    connection = Connection(1, "PLAINTEXT", dispatch, lambda _: None)
    link = Link()
    connection.opened(link)
    version = api.advertised.max
    flexible = b"\0" if request_header_version(api.key, version) == 2 else b""
    frame = struct.pack(">hhih", api.key, version, 1, -1) + flexible + bytes(2_000)
    broker.do(lambda: connection.frame_received(memoryview(bytearray(frame))))
    assert (read, link.is_closed, bool(link.written)) == ([], refusal is None, refusal is not None)


def test_nothing_is_done_before_the_check_has_passed(broker):
    """A check that waits keeps its request waiting, too."""
    asked = []

    class SlowPeers(FakePeers):
        async def admit(self, context):
            asked.append(asyncio.get_running_loop().create_future())
            await asked[0]

    request = WriteTxnMarkersRequest(markers=[])
    dispatch = Dispatch(broker.broker, CLUSTER_APIS, in_a_cluster(broker, SlowPeers()))
    lane = dispatch._new_lane(api_of(request).key, 1)
    handled = []
    lane.handler = lambda *arguments: handled.append(arguments)

    def begin():
        handling = dispatch._handle(lane, request, context(1))
        assert is_coroutine(handling)
        return Running(handling)

    running = broker.do(begin)
    assert (len(asked), handled) == (1, [])
    broker.do(lambda: asked[0].set_result(True))
    assert running.is_done
    assert len(handled) == 1
