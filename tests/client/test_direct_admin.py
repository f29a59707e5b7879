"""The admin client of commands: first tries without an event loop, and everything else as an ordinary Admin does it."""

import contextlib
import socket
from collections.abc import Iterator, Sequence

import pytest
from tests.patience import HANG_S

from ottla.client.admin.admin import Admin
from ottla.client.admin.configs import ConfigResource, ConfigResourceType
from ottla.client.admin.direct_admin import DirectAdmin, direct_admin
from ottla.client.admin.offsets import OffsetSpec
from ottla.client.admin.topics import NewTopic
from ottla.errors import GroupIdNotFound, NotConnected, UnknownTopicOrPartition, UnsupportedVersion
from ottla.testing import FakeBroker, KafkaBroker
from ottla.values import Address, TopicPartition

QUICK = {"request.timeout.ms": "500", "default.api.timeout.ms": str(int(HANG_S * 1000)), "retry.backoff.ms": "1"}


@pytest.fixture
def fake() -> Iterator[FakeBroker]:
    with FakeBroker(nodes=3) as fake:
        fake.create_topic("clicks", 6)
        yield fake


@pytest.fixture
def direct(fake: FakeBroker) -> Iterator[DirectAdmin]:
    with direct_admin({"bootstrap.servers": fake.bootstrap_servers, **QUICK}) as admin:
        assert isinstance(admin, DirectAdmin)
        yield admin


def test_it_says_what_an_ordinary_admin_says(kafka_broker, unique_topic):
    servers = {"bootstrap.servers": kafka_broker.bootstrap_servers}
    topic = ConfigResource(ConfigResourceType.TOPIC, unique_topic)
    calls = {
        "list_topics": (),
        "describe_topics": ([unique_topic],),
        "describe_configs": ([topic],),
        "list_offsets": ({TopicPartition(unique_topic, number): OffsetSpec.LATEST for number in range(3)},),
        "describe_cluster": (),
        "describe_features": (),
        "describe_api_versions": (),
        "list_groups": (),
        "list_transactions": (),
        "list_partition_reassignments": (),
        "describe_log_dirs": (),
    }
    with direct_admin(servers) as direct, Admin(servers) as ordinary:
        assert isinstance(direct, DirectAdmin)
        direct.create_topics([NewTopic(unique_topic, num_partitions=3)])
        for name, arguments in calls.items():
            assert getattr(direct, name)(*arguments) == getattr(ordinary, name)(*arguments), name
        broker = ConfigResource(ConfigResourceType.BROKER, str(direct.describe_cluster().nodes[0].id))
        assert set(direct.describe_configs([topic, broker])) == {topic, broker}, "two requests to one broker"
        assert direct.is_direct
        with pytest.raises(UnknownTopicOrPartition):
            direct.describe_topics(["nothing"])
        with pytest.raises(GroupIdNotFound):
            direct.delete_consumer_groups(["nobody"])
        direct.delete_topics([unique_topic])


def test_leaders_are_asked_at_the_first_try_each_for_its_own(fake, direct):
    wanted = {TopicPartition("clicks", number): OffsetSpec.LATEST for number in range(6)}
    found = direct.list_offsets(wanted)
    assert set(found) == set(wanted)
    assert direct.is_direct
    assert [fake.asked("ListOffsets", node) for node in (1, 2, 3)] == [1, 1, 1]


@pytest.mark.parametrize("moment", ["before", "instead", "in the middle", "after"])
def test_a_connection_that_ends_costs_a_try_and_not_the_call(fake, direct, moment):
    fake.hang_up("Metadata", when=moment)
    assert set(direct.list_topics()) == {"clicks"}
    if moment != "after":
        assert not direct.is_direct
    assert set(direct.list_topics()) == {"clicks"}


@pytest.mark.parametrize("nonsense", ["garbage", "oversized", "wrong correlation id", "cut short", "huge count"])
def test_an_answer_that_makes_no_sense_costs_a_try_and_not_the_call(fake, direct, nonsense):
    fake.garble("Metadata", nonsense)
    assert set(direct.list_topics()) == {"clicks"}
    assert not direct.is_direct


def test_a_broker_that_does_not_answer_costs_a_request_and_not_the_call(fake, direct):
    fake.mute("Metadata")
    assert set(direct.list_topics()) == {"clicks"}
    assert not direct.is_direct


def test_what_may_be_tried_again_is(fake, direct):
    fake.fail("ListOffsets", "NOT_LEADER_OR_FOLLOWER", topic="clicks", partition=3)
    wanted = {TopicPartition("clicks", number): OffsetSpec.LATEST for number in range(6)}
    assert set(direct.list_offsets(wanted)) == set(wanted)
    assert not direct.is_direct
    assert fake.asked("ListOffsets") == 4, "only the partition that failed is asked for again"


def test_an_order_whose_answer_is_lost_is_not_taken_for_refused(fake, direct):
    fake.hang_up("CreateTopics", when="before")
    assert set(direct.create_topics([NewTopic("views", num_partitions=2)])) == {"views"}
    assert not direct.is_direct


def test_a_topic_that_is_there_after_a_lost_answer_is_looked_at(fake, direct):
    """It is ours if it is what we asked for; the fake does not say, as it has no settings to compare."""
    fake.hang_up("CreateTopics", when="instead")
    with pytest.raises(UnsupportedVersion, match="DescribeConfigs"):
        direct.create_topics([NewTopic("likes", num_partitions=2)])
    assert "likes" in direct.list_topics()


def test_a_coordinator_is_looked_up_once(fake, direct):
    assert direct.list_consumer_group_offsets("readers") == {}
    assert direct.list_consumer_group_offsets("readers") == {}
    assert direct.is_direct
    assert fake.asked("FindCoordinator") == 1


def test_one_bootstrap_server_that_is_there_is_enough(fake):
    servers = f"127.0.0.1:1,{fake.bootstrap_servers}"
    with direct_admin({"bootstrap.servers": servers, **QUICK}) as admin:
        assert set(admin.list_topics()) == {"clicks"}
        assert isinstance(admin, DirectAdmin)
        assert admin.is_direct


def test_nobody_there_is_told_in_the_words_of_an_ordinary_admin():
    with direct_admin({"bootstrap.servers": "127.0.0.1:1"}) as admin, pytest.raises(NotConnected, match=r"127\.0\.0"):
        admin.list_topics(timeout=0.2)


def test_whoever_needs_more_than_plain_tcp_gets_an_ordinary_admin():
    for more in (
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "b"},
        {"client.dns.lookup": "resolve_canonical_bootstrap_servers_only"},
    ):
        with direct_admin({"bootstrap.servers": "127.0.0.1:1", **more}) as admin:
            assert not isinstance(admin, DirectAdmin)


def test_closing_twice_does_no_harm(direct):
    direct.list_topics()
    direct.close()
    direct.close()


# --- nothing listens -------------------------------------------------------------------------------------------------


def free_port() -> int:
    """A port at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_that_nothing_listens_is_said_at_once_and_a_broker_that_starts_then_is_found():
    port = free_port()
    with contextlib.ExitStack() as meanwhile:
        heard = []

        def start(places: Sequence[Address], left_ms: float) -> float:
            heard.append((list(map(str, places)), left_ms))
            meanwhile.enter_context(KafkaBroker({"listeners": f"PLAINTEXT://127.0.0.1:{port}"}))
            return left_ms

        config = {"bootstrap.servers": f"127.0.0.1:{port}", **QUICK}
        with direct_admin(config, when_refused=start) as admin:
            assert admin.list_topics() == {}
        assert heard == [([f"127.0.0.1:{port}"], HANG_S * 1000)]


def test_it_is_tried_on_for_as_long_as_is_said():
    config = {"bootstrap.servers": f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}", **QUICK}
    with (
        direct_admin(config, when_refused=lambda places, left_ms: 10.0) as admin,
        pytest.raises(NotConnected, match="refused the connection"),
    ):
        admin.list_topics()


def test_one_address_of_several_that_refuses_is_nothing_to_speak_of(fake):
    def complain(places: Sequence[Address], left_ms: float) -> float:
        raise AssertionError(f"only one of several refused: {places}")

    config = {"bootstrap.servers": f"127.0.0.1:{free_port()},{fake.bootstrap_servers}", **QUICK}
    with direct_admin(config, when_refused=complain) as admin:
        assert set(admin.list_topics()) == {"clicks"}
