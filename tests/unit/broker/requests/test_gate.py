"""What only brokers send each other is taken from addresses of brokers only; anybody else's connection ends."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.network.processor import CloseConnection, Connection
from ottla.broker.requests.dispatch import Dispatch
from ottla.broker.requests.gate import Gate
from ottla.broker.requests.running import Running, is_coroutine
from ottla.broker.requests.served import CLUSTER_APIS, SERVED_APIS
from ottla.protocol.api import APIS, api_of
from ottla.protocol.header import encode_request
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

BETWEEN_BROKERS = {
    "LeaderAndIsr",
    "StopReplica",
    "UpdateMetadata",
    "ControlledShutdown",
    "AlterPartition",
    "AllocateProducerIds",
    "WriteTxnMarkers",
}
API_OF_NAME = {api.name: api for api in APIS.values()}


class FakeLink:
    """Knows who is a broker."""

    def __init__(self, *, admits, is_alone=False):
        self.is_alone = is_alone
        self.admits = admits
        self.asked = []

    async def admits_broker(self, address):
        self.asked.append(address)
        return self.admits


class Context:
    charges = None
    client_host = "10.0.0.9"

    def __init__(self, api_version=12):
        self.api_version = api_version


def check(gate, name, request=None, version=12):
    """Whether the request may pass."""
    checking = gate.check_of(API_OF_NAME[name])(request, Context(version))
    if checking is None:
        return True
    try:
        Running(checking).result()
    except CloseConnection:
        return False
    return True


@pytest.mark.parametrize("name", sorted(BETWEEN_BROKERS))
@pytest.mark.parametrize("admits", [True, False], ids=["broker", "stranger"])
def test_only_brokers_send_what_is_between_brokers(name, admits):
    link = FakeLink(admits=admits)
    assert check(Gate(link), name) is admits
    assert link.asked == ["10.0.0.9"]


def test_nothing_else_but_fetch_is_checked():
    gate = Gate(FakeLink(admits=False))
    checked = {APIS[key].name for key in CLUSTER_APIS if gate.check_of(APIS[key]) is not None}
    assert checked == BETWEEN_BROKERS | {"Fetch"}


def test_a_broker_that_is_alone_checks_nobody():
    gate = Gate(FakeLink(admits=False, is_alone=True))
    assert [key for key in SERVED_APIS if gate.check_of(APIS[key]) is not None] == []


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
@pytest.mark.parametrize("admits", [True, False], ids=["broker", "stranger"])
def test_a_fetch_is_checked_when_it_names_a_replica(version, admits):
    link = FakeLink(admits=admits)
    assert check(Gate(link), "Fetch", fetch(-1, version), version)
    assert link.asked == [], "consumers are not looked up"
    assert check(Gate(link), "Fetch", fetch(2, version), version) is admits


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


def deliver(memory_broker, request, version, *, admits):
    """Whether it was answered, and whether its connection was closed."""
    link = Link()
    dispatch = Dispatch(memory_broker.broker, CLUSTER_APIS, Gate(FakeLink(admits=admits)))
    connection = Connection(1, "PLAINTEXT", dispatch, lambda _: None)
    connection.opened(link)
    parts = encode_request(request, version=version, correlation_id=1, client_id="someone")
    frame = memoryview(bytearray(b"".join(map(bytes, parts))))
    memory_broker.do(lambda: connection.frame_received(frame))
    return bool(link.written), link.is_closed


@pytest.mark.parametrize(("admits", "outcome"), [(True, (True, False)), (False, (False, True))])
def test_a_stranger_gets_no_answer_but_the_end_of_the_connection(broker, admits, outcome):
    broker.create_topic("orders")
    assert deliver(broker, WriteTxnMarkersRequest(markers=[]), 1, admits=admits) == outcome
    assert deliver(broker, fetch(2, 12), 12, admits=admits) == outcome
    assert deliver(broker, fetch(-1, 12), 12, admits=admits) == (True, False)


def test_nothing_is_done_before_the_check_has_passed(broker):
    """A check that waits keeps its request waiting, too."""
    asked = []

    class SlowLink(FakeLink):
        async def admits_broker(self, address):
            asked.append(asyncio.get_running_loop().create_future())
            return await asked[0]

    request = WriteTxnMarkersRequest(markers=[])
    dispatch = Dispatch(broker.broker, CLUSTER_APIS, Gate(SlowLink(admits=True)))
    lane = dispatch._new_lane(api_of(request).key, 1)
    handled = []
    lane.handler = lambda *arguments: handled.append(arguments)

    def begin():
        handling = dispatch._handle(lane, request, Context(1))
        assert is_coroutine(handling)
        return Running(handling)

    running = broker.do(begin)
    assert (len(asked), handled) == (1, [])
    broker.do(lambda: asked[0].set_result(True))
    assert running.is_done
    assert len(handled) == 1
