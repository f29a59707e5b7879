"""A client's network over memory, with a clock that moves when told and brokers that say what a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.patience import HANG_S
from tests.unit.client.fake_cluster import Answer, FakeCluster, run

from ottla.client.closed import ClientClosed
from ottla.client.connections import COORDINATOR_IDS, coordinator_node
from ottla.client.metadata import Metadata
from ottla.client.network import NetworkClient, VersionedRequest
from ottla.errors import (
    ConnectionClosed,
    CoordinatorNotAvailable,
    GroupAuthorizationFailed,
    NotConnected,
    OttlaError,
    RequestTimedOut,
    UnsupportedVersion,
)
from ottla.metrics import Registry
from ottla.net.framing import frame_prefix
from ottla.protocol import compiled
from ottla.protocol.api import APIS, APIS_BY_NAME, WrittenRequest
from ottla.protocol.header import encode_request
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.schema import Buffer, Message
from ottla.testing.network import Weather
from ottla.values import Node, TopicPartition

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


# --- finding the cluster ---------------------------------------------------------------------------------------------


def test_a_topic_is_found_from_one_bootstrap_address() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.topics["orders"] = 2
        client = cluster.client()
        client.metadata.want("orders", now_ms=0)
        leader = await client.wait_for(lambda known: known.leader_of(TopicPartition("orders", 0)), what="orders")
        assert leader.id == 2
        assert leader.host == "b2"
        assert client.features == {"transaction.version": 2}
        await client.close()

    run(scenario)


def test_who_listens_to_metadata_is_told() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        heard: list[int] = []

        def fail() -> None:
            raise ValueError("a fault of one listener is its own")

        client.on_update(lambda: heard.append(client.metadata.version))
        client.on_update(fail)
        client.on_update(lambda: heard.append(-1))
        await client.refresh_metadata()
        assert heard == [1, -1]
        await client.close()

    run(scenario)


def test_a_topic_that_does_not_come_is_named_with_its_error_when_time_is_over() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        client.metadata.want("gone", now_ms=0)
        waiting = client.wait_for(lambda known: known.partitions_of("gone"), timeout_ms=2000, what="topic gone")
        error = await cluster.asked_in_vain(waiting)
        assert isinstance(error, RequestTimedOut)
        assert "waited for topic gone for 2000 ms" in str(error)
        assert "topic gone: " in str(error)
        assert 4 <= cluster.brokers[1].asked("Metadata") + cluster.brokers[2].asked("Metadata") <= 10
        await client.close()

    run(scenario)


def test_a_partition_that_is_not_there_is_told_with_the_last_one_and_not_with_the_troubles_of_others() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.topics["orders"] = 2
        client = cluster.client()
        client.metadata.want("orders", now_ms=0)
        client.metadata.want("gone", now_ms=0)
        waiting = client.wait_for(lambda known: None, timeout_ms=2000, what="partition 9 of topic orders")
        error = await cluster.asked_in_vain(waiting)
        assert "the last partition of the topic is 0" in str(error)
        assert "gone" not in str(error)
        assert "Nothing was sent" in str(error)
        await client.close()

    run(scenario)


def test_trouble_that_lasts_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client(bootstrap_servers="nobody:1")
        waiting = client.wait_for(lambda known: known.controller, timeout_ms=4000, what="it")
        await cluster.asked_in_vain(waiting)
        assert [each for each in caplog.records if each.levelname == "WARNING"] == []
        await cluster.asked_in_vain(client.wait_for(lambda known: known.controller, timeout_ms=20_000, what="it"))
        (warning,) = [each for each in caplog.records if each.levelname == "WARNING"]
        assert "bootstrap server nobody:1 cannot be reached" in warning.getMessage()
        await client.close()

    run(scenario)


def test_a_broker_that_cannot_be_reached_for_long_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.advertised[2] = "inside-only"
        client = cluster.client()
        await client.refresh_metadata()
        as_coordinator = coordinator_node(Node(2, "inside-only", 9092))
        for _ in range(12):
            await cluster.asked_in_vain(client.send(2, HEARTBEAT))
            await cluster.asked_in_vain(client.send(as_coordinator, HEARTBEAT))
            await cluster.clock.advance(1000)
        (warning,) = [each for each in caplog.records if each.levelname == "WARNING"]
        assert "broker 2 at inside-only:9092, advertised by" in warning.getMessage()
        await client.close()

    run(scenario)


def test_an_unreachable_bootstrap_server_is_named_with_the_reason() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client(bootstrap_servers="nobody:1")
        error = await cluster.asked_in_vain(client.wait_for(lambda known: known.controller, timeout_ms=500, what="it"))
        assert isinstance(error, RequestTimedOut)
        assert "bootstrap server nobody:1 cannot be reached" in str(error)
        assert "nothing listens there" in str(error)
        await client.close()

    run(scenario)


def test_an_advertised_address_that_cannot_be_reached_is_explained() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.advertised[2] = "inside-only"
        client = cluster.client()
        await client.refresh_metadata()
        error = await cluster.asked_in_vain(client.send(2, HEARTBEAT))
        assert isinstance(error, NotConnected)
        assert "broker 2 at inside-only:9092, advertised by bootstrap server b1:9092, cannot be reached" in str(error)
        assert "advertised.listeners" in str(error)
        await client.close()

    run(scenario)


def test_a_broker_that_hangs_up_on_the_first_request_may_want_a_login() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.brokers[1].hangs_up_on.add("Metadata")
        client = cluster.client()
        error = await cluster.asked_in_vain(client.refresh_metadata())
        assert isinstance(error, ConnectionClosed)
        assert "may want a login, and security.protocol here is PLAINTEXT" in str(error)
        await client.close()

    run(scenario)


def test_a_version_nobody_has_is_raised_at_once() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.brokers[1].offered = {18: APIS[18]}
        client = cluster.client()
        waiting = client.wait_for(lambda known: known.controller, timeout_ms=60_000, what="it")
        error = await cluster.asked_in_vain(waiting, advance_ms=1000)
        assert isinstance(error, UnsupportedVersion)
        await client.close()

    run(scenario)


# --- asking ----------------------------------------------------------------------------------------------------------


def test_ask_any_goes_on_to_the_next_node() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        await client.refresh_metadata()
        cluster.brokers[1].shut()
        for _ in range(5):
            assert isinstance(await client.ask_any(ListGroupsRequest()), ListGroupsResponse)
        assert cluster.brokers[2].asked("ListGroups") == 5
        await client.close()

    run(scenario)


def test_ask_any_says_of_every_node_why_it_was_not_asked() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client(bootstrap_servers="x:1,y:2")
        error = await cluster.asked_in_vain(client.ask_any(ListGroupsRequest(), timeout_ms=3000))
        assert isinstance(error, NotConnected)
        assert "x:1" in str(error)
        assert "y:2" in str(error)
        await client.close()

    run(scenario)


def test_a_request_that_may_have_been_received_is_not_repeated() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        await client.refresh_metadata()
        for broker in cluster.brokers.values():
            broker.hangs_up_on.add("ListGroups")
        error = await cluster.asked_in_vain(client.ask_any(ListGroupsRequest()))
        assert isinstance(error, ConnectionClosed)
        assert sum(broker.asked("ListGroups") for broker in cluster.brokers.values()) == 1
        await client.close()

    run(scenario)


def test_while_a_node_is_backing_off_sending_fails_at_once_and_asks_for_news() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        await client.refresh_metadata()
        cluster.brokers[2].shut()
        asked = cluster.brokers[1].asked("Metadata")
        error = await cluster.asked_in_vain(client.send(2, HEARTBEAT), advance_ms=100)
        assert isinstance(error, NotConnected)
        assert client.is_unreachable(2) or client.in_flight(2) == 0
        await cluster.clock.advance(300)
        assert cluster.brokers[1].asked("Metadata") > asked
        await client.close()

    run(scenario)


def test_ready_waits_until_the_node_is_back() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        await client.refresh_metadata()
        cluster.brokers[2].shut()
        waiting = asyncio.ensure_future(client.ready(2, timeout_ms=10_000))
        await cluster.clock.advance(700)
        assert not waiting.done()
        await cluster.brokers[2].open()
        await cluster.clock.advance(3000)
        assert (await waiting).offers(APIS_BY_NAME["Heartbeat"])
        assert client.can_send_now(2)
        await client.close()

    run(scenario)


def test_who_could_ask_another_node_is_told_at_once_that_this_one_is_gone() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        await client.refresh_metadata()
        cluster.brokers[2].shut()
        with pytest.raises(NotConnected):
            await client.ready(2, timeout_ms=10_000, is_patient=False)
        await client.close()

    run(scenario)


def test_a_broker_that_says_slow_down_is_left_alone_for_that_time() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        await client.refresh_metadata()
        cluster.brokers[2].answers["Heartbeat"] = lambda _: HeartbeatResponse(throttle_time_ms=500, error_code=0)
        await client.send(2, HEARTBEAT)
        assert not client.can_send_now(2)
        assert client.throttled_for_ms(2) == 500
        second = asyncio.ensure_future(client.send(2, HEARTBEAT))
        await cluster.clock.advance(499)
        assert cluster.brokers[2].asked("Heartbeat") == 1
        await cluster.clock.advance(2)
        assert second.done()
        assert cluster.brokers[2].asked("Heartbeat") == 2
        await client.close()

    run(scenario)


class Heard:
    """What became of requests that were started."""

    def __init__(self) -> None:
        self.responses: list[object] = []
        self.errors: list[Exception] = []

    def answered(self, response: object) -> None:
        self.responses.append(response)

    def failed(self, error: Exception) -> None:
        self.errors.append(error)


def started(client: NetworkClient, version: int, read: Callable[[Buffer], object] | None = None) -> Heard:
    heard = Heard()
    node = client.metadata.node(2)
    assert node is not None
    request = WrittenRequest(APIS_BY_NAME["Heartbeat"], compiled.encode(HEARTBEAT, version), read)
    client.start_request(node, request, heard, version=version, timeout_ms=1000)
    return heard


def test_a_request_that_nobody_awaits_tells_its_answer_and_minds_the_throttle() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        await client.refresh_metadata()
        node = client.metadata.node(2)
        assert node is not None
        assert client.version_now(node, APIS_BY_NAME["Heartbeat"]) is None, "nobody is connected to it"
        await client.ready(2)
        version = client.version_now(node, APIS_BY_NAME["Heartbeat"])
        assert version == APIS_BY_NAME["Heartbeat"].versions.max
        cluster.brokers[2].answers["Heartbeat"] = lambda _: HeartbeatResponse(throttle_time_ms=500, error_code=27)
        heard = started(client, version)
        await cluster.clock.advance(1)
        assert heard.responses == [HeartbeatResponse(throttle_time_ms=500, error_code=27)]
        assert not heard.errors
        assert client.throttled_for_ms(2) > 400
        assert client.in_flight(2) == 0
        await client.close()

    run(scenario)


def test_a_request_may_read_its_answer_itself_and_leave_it_to_the_message() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        await client.refresh_metadata()
        await client.ready(2)
        cluster.brokers[2].answers["Heartbeat"] = lambda _: HeartbeatResponse(error_code=0)
        plain, full = started(client, 4, lambda frame: ("read", len(frame))), started(client, 4, lambda frame: None)
        await cluster.clock.advance(1)
        assert plain.responses == [("read", 12)]
        assert full.responses == [HeartbeatResponse(error_code=0)]
        await client.close()

    run(scenario)


LATE_MS = 10**9  # an earlier end than any that was announced has to be decided about


class HeartbeatExchange:
    """A request that writes its own frame, and hears of its end as a future does."""

    api = APIS_BY_NAME["Heartbeat"]
    version = 4

    def __init__(self, read: Callable[[Buffer], object | None]) -> None:
        self.read = read
        self.written_bytes = 0
        self.heard: list[object] = []

    def frame(self, correlation_id: int, client_id: str | None) -> list[Buffer]:
        request = WrittenRequest(self.api, compiled.encode(HEARTBEAT, self.version))
        parts = encode_request(request, version=4, correlation_id=correlation_id, client_id=client_id)
        self.written_bytes = 4 + sum(map(len, parts))
        return [frame_prefix(parts), *parts]

    def done(self) -> bool:
        return bool(self.heard)

    def set_result(self, response: object) -> None:
        self.heard.append(response)

    def set_exception(self, error: Exception) -> None:
        self.heard.append(error)


class BrokenExchange(HeartbeatExchange):
    def frame(self, correlation_id: int, client_id: str | None) -> list[Buffer]:
        raise ZeroDivisionError


def test_an_exchange_goes_straight_through_a_ready_connection_and_waits_for_nobody() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        await client.refresh_metadata()
        node = client.metadata.node(2)
        assert node is not None
        connection = client.connection_to(node)
        plain, full = HeartbeatExchange(lambda frame: len(frame)), HeartbeatExchange(lambda frame: None)
        now_ms = cluster.clock.monotonic_ms()
        assert client.start_exchanges(connection, [plain], now_ms, LATE_MS) == 0, "it is not connected"
        await client.ready(2)
        cluster.brokers[2].answers["Heartbeat"] = lambda _: HeartbeatResponse(error_code=0)
        bytes_out, bytes_in = connection.bytes_out, connection.bytes_in
        assert client.start_exchanges(connection, [plain, full], cluster.clock.monotonic_ms(), LATE_MS) == 2
        assert client.in_flight(2) == 2
        await cluster.clock.advance(1)
        assert (plain.heard, full.heard) == ([12], [HeartbeatResponse(error_code=0)])
        assert connection.bytes_out - bytes_out == plain.written_bytes + full.written_bytes > 0
        assert connection.bytes_in - bytes_in == 2 * 12
        await client.close()

    run(scenario)


def test_exchanges_behind_one_that_cannot_be_written_are_left_to_the_caller() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        await client.refresh_metadata()
        await client.ready(2)
        node = client.metadata.node(2)
        assert node is not None
        cluster.brokers[2].answers["Heartbeat"] = lambda _: HeartbeatResponse(error_code=0)
        connection, now_ms = client.connection_to(node), cluster.clock.monotonic_ms()
        exchanges = [HeartbeatExchange(lambda frame: len(frame)) for _ in range(3)]
        broken = BrokenExchange(lambda frame: None)
        assert client.start_exchanges(connection, [exchanges[0], broken, exchanges[1]], now_ms, LATE_MS) == 1
        assert client.start_exchanges(connection, [broken, exchanges[1]], now_ms, LATE_MS) == 0
        assert client.in_flight(2) == 1
        assert client.start_exchanges(connection, exchanges[1:], now_ms, LATE_MS) == 2
        await cluster.clock.advance(1)
        assert [each.heard for each in exchanges] == [[12]] * 3
        assert broken.heard == []
        await client.close()

    run(scenario)


def test_an_exchange_hears_once_of_a_connection_that_ends() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        await client.refresh_metadata()
        await client.ready(2)
        node = client.metadata.node(2)
        assert node is not None
        cluster.brokers[2].hangs_up_on.add("Heartbeat")
        lost = HeartbeatExchange(lambda frame: None)
        assert client.start_exchanges(client.connection_to(node), [lost], cluster.clock.monotonic_ms(), LATE_MS) == 1
        await cluster.clock.advance(1)
        assert [type(error) for error in lost.heard] == [ConnectionClosed]
        await client.close()
        assert len(lost.heard) == 1

    run(scenario)


def test_a_started_request_whose_connection_ends_is_told_why_once() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        await client.refresh_metadata()
        await client.ready(2)
        cluster.brokers[2].hangs_up_on.add("Heartbeat")
        lost = started(client, 4)
        await cluster.clock.advance(1)
        assert [type(error) for error in lost.errors] == [ConnectionClosed]
        await client.close()
        assert len(lost.errors) == 1
        assert not lost.responses

    run(scenario)


def test_old_versions_do_not_make_the_client_wait() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        await client.refresh_metadata()
        cluster.brokers[2].answers["Heartbeat"] = lambda _: HeartbeatResponse(throttle_time_ms=500, error_code=0)
        await client.send(2, HEARTBEAT, at_most=1)
        assert client.throttled_for_ms(2) == 0
        await client.close()

    run(scenario)


def test_a_request_can_be_built_for_the_version_that_is_sent() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        versions: list[int] = []

        def build(version: int) -> Message:
            versions.append(version)
            return HEARTBEAT

        await client.ask_any(VersionedRequest(APIS_BY_NAME["Heartbeat"], build), at_most=3)
        assert versions == [3]
        await client.close()

    run(scenario)


def test_a_node_that_moved_is_asked_at_its_new_address() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        await client.refresh_metadata()
        await client.send(2, HEARTBEAT)
        await cluster.add(3)
        cluster.advertised = {1: "b1", 2: "b3"}
        await client.refresh_metadata()
        await client.send(2, HEARTBEAT)
        assert cluster.brokers[3].asked("Heartbeat") == 1
        await client.close()

    run(scenario)


def test_who_waits_for_a_node_that_moved_is_told_instead_of_waiting_at_the_old_address() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        await client.refresh_metadata()
        cluster.brokers[2].shut()
        waiting = asyncio.ensure_future(client.ready(2, timeout_ms=60_000))
        await cluster.clock.advance(700)
        await cluster.add(3)
        cluster.advertised = {1: "b1", 2: "b3"}
        await client.refresh_metadata()
        await cluster.clock.advance(3000)
        with pytest.raises(NotConnected):
            await waiting
        assert await client.ready(2)
        await client.close()

    run(scenario)


# --- coordinators ----------------------------------------------------------------------------------------------------


def coordinator_answer(node_id: int, error_code: int = 0) -> Answer:
    def answer(request: Message) -> Message:
        assert isinstance(request, FindCoordinatorRequest)
        found = Coordinator(
            key=request.coordinator_keys[0], node_id=node_id, host=f"b{node_id}", port=9092, error_code=error_code
        )
        return FindCoordinatorResponse(coordinators=[found])

    return answer


def test_a_group_coordinator_has_a_connection_of_its_own() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        await client.refresh_metadata()
        for broker in cluster.brokers.values():
            broker.answers["FindCoordinator"] = coordinator_answer(2)
        node = await client.coordinator("group", "g", timeout_ms=1000)
        assert node.id == COORDINATOR_IDS - 2
        await client.send(2, HEARTBEAT)
        await client.send(node, HEARTBEAT)
        assert len(cluster.brokers[2].doors) == 2
        assert (await client.coordinator("transaction", "t", timeout_ms=1000)).id == 2
        await client.close()

    run(scenario)


def test_a_coordinator_is_looked_for_until_it_is_there_and_then_remembered() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        for broker in cluster.brokers.values():
            broker.answers["FindCoordinator"] = coordinator_answer(-1, CoordinatorNotAvailable.code)
        both = [asyncio.ensure_future(client.coordinator("group", "g", timeout_ms=9000)) for _ in range(2)]
        await cluster.clock.advance(1000)
        for broker in cluster.brokers.values():
            broker.answers["FindCoordinator"] = coordinator_answer(2)
        await cluster.clock.advance(2000)
        assert {(await each).host for each in both} == {"b2"}
        asked = cluster.brokers[1].asked("FindCoordinator")
        await client.coordinator("group", "g", timeout_ms=1000)
        assert cluster.brokers[1].asked("FindCoordinator") == asked
        client.coordinator_gone("group", "g")
        await client.coordinator("group", "g", timeout_ms=1000)
        assert cluster.brokers[1].asked("FindCoordinator") == asked + 1
        await client.close()

    run(scenario)


def test_no_right_to_a_group_is_raised_at_once() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        cluster.brokers[1].answers["FindCoordinator"] = coordinator_answer(-1, GroupAuthorizationFailed.code)
        error = await cluster.asked_in_vain(client.coordinator("group", "g", timeout_ms=9000), advance_ms=200)
        assert isinstance(error, GroupAuthorizationFailed)
        await client.close()

    run(scenario)


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_connections_requests_and_bytes_are_counted_under_javas_names() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        registry = Registry()
        client.measure(registry, "producer", "me")
        await client.refresh_metadata()
        for _ in range(3):
            await client.send(2, HEARTBEAT)
        found = snapshot(client, registry)
        assert found["producer-metrics", "connection-count", None] == 2
        assert found["producer-metrics", "connection-creation-total", None] == 2
        assert found["producer-metrics", "request-total", None] == 4
        assert found["producer-node-metrics", "request-total", "node-2"] == 3
        assert found["producer-node-metrics", "response-total", "node-2"] == 3
        assert found["producer-node-metrics", "request-latency-avg", "node-2"] >= 0
        out, into = (found["producer-node-metrics", f"{way}-byte-total", "node-2"] for way in ("outgoing", "incoming"))
        assert out > 60
        assert into > 60
        cluster.brokers[2].shut()
        await cluster.clock.advance(10)
        found = snapshot(client, registry)
        assert found["producer-metrics", "connection-close-total", None] == 1
        assert found["producer-metrics", "metadata-age", None] >= 0
        await client.close()

    run(scenario)


def snapshot(client: NetworkClient, registry: Registry) -> dict[tuple[str, str, str | None], float]:
    found = registry.snapshot(client.clock.monotonic_ms())
    return {(key.group, key.name, dict(key.tags).get("node-id")): value for key, value in found.items()}


# --- beginning again -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("strategy", "found"), [("rebootstrap", True), ("none", False)])
def test_when_all_known_brokers_are_gone_the_client_begins_again(strategy: str, found: bool) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.advertised = {2: "b2"}
        client = cluster.client(metadata_recovery_strategy=strategy, bootstrap_servers="b1:9092")
        await client.refresh_metadata()
        assert [node.id for node in client.metadata.nodes()] == [2]
        cluster.brokers[2].shut()
        await cluster.add(3)
        cluster.advertised = {3: "b3"}
        client.metadata.request_update()
        client.wake()
        await cluster.clock.advance(3000)
        assert ([node.id for node in client.metadata.nodes()] == [3]) is found
        await client.close()

    run(scenario)


def test_when_nobody_answers_for_long_the_client_begins_again() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.advertised = {2: "b2"}
        client = cluster.client(metadata_recovery_rebootstrap_trigger_ms=5000, request_timeout_ms=1000)
        await client.refresh_metadata()
        cluster.brokers[2].answers["Metadata"] = lambda _: None
        cluster.brokers[1].requests.clear()
        client.metadata.request_update()
        client.wake()
        await cluster.clock.advance(4000)
        assert not cluster.brokers[1].asked("Metadata")
        cluster.advertised = {1: "b1"}
        await cluster.clock.advance(8000)
        assert [node.id for node in client.metadata.nodes()] == [1]
        await client.close()

    run(scenario)


def never(_: Metadata) -> int | None:
    return None


# --- the end ---------------------------------------------------------------------------------------------------------


def test_close_ends_what_waits_and_refuses_what_comes() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        await client.refresh_metadata()
        cluster.brokers[2].answers["Heartbeat"] = lambda _: None
        pending = asyncio.ensure_future(client.send(2, HEARTBEAT))
        waiting = asyncio.ensure_future(client.wait_for(never, what="nothing"))
        await cluster.clock.advance(10)
        await client.close()
        await client.close()
        with pytest.raises(ConnectionClosed):
            await pending
        with pytest.raises(ClientClosed):
            await waiting
        with pytest.raises(ClientClosed):
            await client.send(2, HEARTBEAT)

    run(scenario)


def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client()
        waiting = asyncio.ensure_future(client.wait_for(never, what="nothing"))
        await cluster.clock.advance(50)
        waiting.cancel()
        await asyncio.wait((waiting,))
        await client.close()

    run(scenario)


def test_who_tries_again_stops_when_the_client_is_closed() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        client = cluster.client(bootstrap_servers="nobody:1")
        asking = asyncio.ensure_future(client.ask_any(ListGroupsRequest(), timeout_ms=60_000))
        looking = asyncio.ensure_future(client.coordinator("group", "g", timeout_ms=60_000))
        readying = asyncio.ensure_future(client.ready(-1, timeout_ms=60_000))
        await cluster.clock.advance(500)
        await client.close()
        await asyncio.wait((asking, looking, readying), timeout=HANG_S)
        for each in (asking, looking, readying):
            assert isinstance(each.exception(), ClientClosed)

    run(scenario)


@pytest.mark.parametrize("seed", range(5))
def test_whatever_the_weather_every_call_ends_once_and_nothing_is_left(seed: int) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.network.weather = Weather(delay_ms=(0, 40), piece_bytes=30, break_chance=0.02)
        cluster.network.random.seed(seed)
        cluster.topics["orders"] = 2
        client = cluster.client(request_timeout_ms=2000, socket_connection_setup_timeout_ms=500)
        client.metadata.want("orders", now_ms=0)
        calls = [asyncio.ensure_future(client.ask_any(ListGroupsRequest(), timeout_ms=5000)) for _ in range(60)]
        calls += [asyncio.ensure_future(client.send(-1, HEARTBEAT, timeout_ms=1000)) for _ in range(60)]
        for step in range(80):
            if step == 20:
                cluster.brokers[1].shut()
            if step == 40:
                await cluster.brokers[1].open()
            await cluster.clock.advance(100)
        assert all(call.done() for call in calls)
        answers = [call.result() for call in calls if call.exception() is None]
        assert {type(answer) for answer in answers} <= {ListGroupsResponse, HeartbeatResponse}
        assert all(isinstance(call.exception(), OttlaError | None) for call in calls)
        cluster.network.weather = Weather()
        waiting = asyncio.ensure_future(client.wait_for(lambda known: known.partitions_of("orders"), what="orders"))
        for _ in range(60):
            await cluster.clock.advance(100)
        assert waiting.done()
        assert len(waiting.result()) == 1
        await client.close()

    run(scenario)
