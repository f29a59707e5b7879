"""A whole broker under a controller that exists only in a test: the order of its start, what it says, how it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest
from tests.patience import FAR_MS, HANG_S
from tests.unit.broker.cluster.kraft.fake_controller import CLUSTER, FakeController

from ottla.broker.cluster.kraft.joining import DirectoryNotFormatted
from ottla.broker.cluster.kraft.link import BrokerStopped, KRaftLink
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import answering
from ottla.broker.server import Server
from ottla.broker.settings import BrokerSettings
from ottla.broker.world import World
from ottla.clock import SystemClock
from ottla.cluster.model import LOST_DIRECTORY, UNASSIGNED_DIRECTORY
from ottla.errors import KafkaStorageError, OttlaError
from ottla.net.transport import TcpTransport
from ottla.protocol.api import APIS_BY_NAME
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.schema import Versions
from ottla.storage.directory.checkpoints import MetaProperties, write_meta_properties
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

ME = 11
ONE, TWO = Path("/data/one"), Path("/data/two")


def formatted(*directories: Path, cluster_id: str = CLUSTER) -> MemoryFiles:
    files = MemoryFiles()
    for directory in directories:
        files.make_directory(directory)
        directory_id = directory.name.encode().ljust(16, b"!")
        write_meta_properties(files, directory, MetaProperties(1, cluster_id, ME, directory_id))
    return files


def server(controller: FakeController, files: MemoryFiles, *directories: Path, **more: str) -> Server:
    settings = BrokerSettings(
        {
            "process.roles": "broker",
            "node.id": str(ME),
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller.port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": ",".join(map(str, directories)),
            "ottla.admin.listener": "",
            "broker.heartbeat.interval.ms": "50",
            **more,
        }
    )
    return Server(settings, World(files, TcpTransport(), SystemClock(), Random(5), workers=0))


async def eventually(condition: Callable[[], bool], what: str) -> None:
    async with asyncio.timeout(HANG_S):
        while not condition():  # noqa: ASYNC110 - what a test waits for is anything
            await asyncio.sleep(0.01)


def run(work: Callable[[FakeController], Awaitable[None]]) -> None:
    async def main() -> None:
        async with FakeController() as controller:
            await work(controller)

    asyncio.run(main())


def test_a_broker_registers_catches_up_and_lets_clients_in_when_it_is_unfenced() -> None:
    async def work(controller: FakeController) -> None:
        controller.may_unfence = False
        made = server(controller, formatted(ONE), ONE)
        starting = asyncio.ensure_future(made.start())
        await eventually(lambda: any(not each.want_fence for each in beats(controller)), "it is ready")
        (registration,) = controller.asked(BrokerRegistrationRequest)
        assert registration.cluster_id == CLUSTER
        assert registration.log_dirs == [b"one".ljust(16, b"!")]
        assert registration.previous_broker_epoch == -1
        names = {each.name: (each.min_supported_version, each.max_supported_version) for each in registration.features}
        assert names["kraft.version"] == (0, 1)
        assert len(names) == 7
        port = registration.listeners[0].port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(bytes.fromhex("0000000b 0012 0000 00000001 0001 78"))  # ApiVersions version 0
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.1)
        assert not starting.done()
        controller.may_unfence = True
        info = await starting
        assert await asyncio.wait_for(reader.read(4), HANG_S), "who came early is answered now"
        writer.close()
        await writer.wait_closed()
        assert info.broker_id == ME
        assert made.broker.image.is_active(ME), "and the image shows it"
        first = beats(controller)[0]
        assert first.want_fence
        assert first.broker_epoch == controller.broker(ME).epoch == made.broker.link.epoch
        await made.stop()

    run(work)


def beats(controller: FakeController) -> list[BrokerHeartbeatRequest]:
    return controller.asked(BrokerHeartbeatRequest)


def test_a_start_ends_when_the_disk_of_the_metadata_log_fails_and_does_not_wait_for_ever() -> None:
    async def work(controller: FakeController) -> None:
        controller.may_unfence = False
        files = formatted(ONE)
        made = server(controller, files, ONE)
        starting = asyncio.ensure_future(made.start())
        await eventually(lambda: any(not each.want_fence for each in beats(controller)), "it waits to be unfenced")
        files.fail(lambda operation: operation.kind == "write", for_ever=True)
        controller.set_level(29)
        with pytest.raises(OttlaError):
            await asyncio.wait_for(starting, HANG_S)

    run(work)


def test_a_heartbeat_that_is_not_answered_is_sent_again_before_the_session_has_ended_twice() -> None:
    async def work(controller: FakeController) -> None:
        patience = {"broker.session.timeout.ms": "300", "controller.socket.timeout.ms": str(FAR_MS)}
        made = server(controller, formatted(ONE), ONE, **patience)
        await made.start()
        controller.is_silent = True
        sent = len(beats(controller))
        await eventually(lambda: len(beats(controller)) > sent + 2, "on another connection")
        controller.is_silent = False
        await made.stop()

    run(work)


def test_a_stop_in_order_is_asked_for_and_the_next_start_says_that_nothing_is_missing() -> None:
    async def work(controller: FakeController) -> None:
        files = formatted(ONE)
        made = server(controller, files, ONE)
        await made.start()
        epoch = made.broker.link.epoch
        await made.stop()
        assert beats(controller)[-1].want_shut_down
        assert json.loads(files.read_bytes(ONE / ".kafka_cleanshutdown")) == {"version": 0, "brokerEpoch": epoch}
        again = server(controller, files, ONE)
        await again.start()
        await eventually(lambda: again.broker.link.addresses.includes("127.0.0.1"), "it knows where brokers are")
        assert controller.asked(BrokerRegistrationRequest)[-1].previous_broker_epoch == epoch
        assert again.broker.link.epoch > epoch
        await again.stop()

    run(work)


def test_a_broker_that_stops_in_order_leads_nothing_any_more_before_it_goes() -> None:
    async def work(controller: FakeController) -> None:
        made = server(controller, formatted(ONE), ONE)
        await made.start()
        controller.create_topic("orders", 4, [ME], directory=b"one".ljust(16, b"!"))
        await eventually(lambda: len(made.broker.replicas) == 4, "the replicas are made")
        assert all(each.is_leader for each in made.broker.replicas)
        await made.stop()
        assert not any(each.is_leader for each in made.broker.replicas), "what was written here now would be lost"

    run(work)


@pytest.mark.parametrize(("level", "cordoned"), [(25, None), (30, [b"two".ljust(16, b"!")])])
def test_cordoned_directories_are_told_to_controllers_that_have_words_for_them(level, cordoned) -> None:
    async def work(controller: FakeController) -> None:
        controller.set_level(level)
        made = server(controller, formatted(ONE, TWO), ONE, TWO, **{"cordoned.log.dirs": str(TWO)})
        await made.start()
        await eventually(lambda: len(beats(controller)) > 3 and not beats(controller)[-1].want_fence, "it lives")
        await eventually(lambda: beats(controller)[-1].cordoned_log_dirs == cordoned, "cordoned directories")
        controller.create_topic("orders", 4, [ME], directory=UNASSIGNED_DIRECTORY)
        await eventually(lambda: len(made.broker.replicas) == 4, "the replicas are made")
        assert {made.broker.replicas.directory_of(each.name).path for each in made.broker.replicas} == {ONE}
        await made.stop()

    run(work)


def test_the_metadata_log_may_have_a_directory_of_its_own() -> None:
    async def work(controller: FakeController) -> None:
        files = formatted(ONE, TWO)
        made = server(controller, files, ONE, **{"metadata.log.dir": str(TWO)})
        await made.start()
        assert files.exists(TWO / "__cluster_metadata-0")
        assert not files.exists(ONE / "__cluster_metadata-0")
        with pytest.raises(OttlaError):
            await server(controller, files, ONE, **{"metadata.log.dir": str(TWO)}).start()  # it is locked
        await made.stop()
        again = server(controller, files, ONE, **{"metadata.log.dir": str(TWO)})
        await again.start()
        await again.stop()

    run(work)


def test_a_topic_that_a_client_creates_is_there_when_it_is_answered_and_its_directories_are_reported() -> None:
    async def work(controller: FakeController) -> None:
        made = server(controller, formatted(ONE, TWO), ONE, TWO)
        await made.start()
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name="orders", num_partitions=4, replication_factor=1, assignments=[], configs=[])],
            timeout_ms=1_000,
        )
        context = RequestContext(api_version=7, client_id="c", client_host="127.0.0.1", principal="User:alice")
        answer = await answering(made.broker, APIS_BY_NAME["CreateTopics"])(made.broker, request, context)
        assert answer.topics[0].error_code == 0
        assert made.broker.image.topic("orders") is not None
        assert controller.asked(CreateTopicsRequest) == [request]
        await eventually(lambda: len(made.broker.replicas) == 4, "the replicas are made")
        await eventually(lambda: UNASSIGNED_DIRECTORY not in directories(controller), "the directories are reported")
        assert set(directories(controller)) == {b"one".ljust(16, b"!"), b"two".ljust(16, b"!")}
        asked = len(controller.asked(AssignReplicasToDirsRequest))
        assert made.broker.replicas.get(TopicPartition("orders", 3)).is_leader
        await made.stop()
        assert len(controller.asked(AssignReplicasToDirsRequest)) == asked, "once"

    run(work)


def test_what_is_passed_on_is_advertised_as_far_as_the_active_controller_speaks_it() -> None:
    async def work(controller: FakeController) -> None:
        controller.versions = {
            "CreateTopics": Versions(2, 5),
            "AddRaftVoter": Versions(0, 99),
            "DescribeQuorum": Versions(7, 9),
            "Metadata": Versions(0, 1),
        }
        made = server(controller, formatted(ONE), ONE)
        await made.start()
        context = RequestContext(api_version=3, client_id="c", client_host="127.0.0.1")
        asked = ApiVersionsRequest(client_software_name="c", client_software_version="1")
        answer = answering(made.broker, APIS_BY_NAME["ApiVersions"])(made.broker, asked, context)
        told = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
        assert told[19] == (2, 5)
        assert told[80] == (0, APIS_BY_NAME["AddRaftVoter"].versions.max)
        assert 55 not in told, "there is no version that both speak"
        assert told[3][1] == APIS_BY_NAME["Metadata"].advertised.max, "the broker answers that by itself"
        await made.stop()

    run(work)


def test_a_topic_that_is_created_for_a_client_is_asked_for_in_a_version_of_the_controllers() -> None:
    async def work(controller: FakeController) -> None:
        controller.versions = {"CreateTopics": Versions(2, 5)}
        made = server(controller, formatted(ONE), ONE)
        await made.start()
        topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        context = RequestContext(api_version=12, client_id="c", client_host="127.0.0.1", principal="User:alice")
        await made.broker.link.create_topic(topic, context)
        assert made.broker.image.topic("orders") is not None
        assert controller.in_versions["CreateTopics"] == 5
        await made.stop()

    run(work)


def directories(controller: FakeController) -> list[bytes]:
    topic = controller.loader.image.topic("orders")
    return [directory for each in topic.partitions for directory in each.directories]


def test_a_partition_that_cannot_be_served_is_lost_alone_until_the_next_start() -> None:
    async def work(controller: FakeController) -> None:
        files, here = formatted(ONE), b"one".ljust(16, b"!")
        made = server(controller, files, ONE)
        await made.start()
        controller.create_topic("orders", 2, [ME], directory=here)
        await eventually(lambda: len(made.broker.replicas) == 2, "the replicas are made")
        rotten = made.broker.replicas.get(TopicPartition("orders", 1))
        made.broker.take_offline(rotten, KafkaStorageError("it is rotten"))
        await eventually(lambda: directories(controller) == [here, LOST_DIRECTORY], "the controllers hear of it")
        assert not any(beat.offline_log_dirs for beat in beats(controller)), "nothing else in the directory is gone"
        assert made.broker.replicas.get(TopicPartition("orders", 0)).offline is None
        await made.stop()
        again = server(controller, files, ONE)
        await again.start()
        await eventually(lambda: directories(controller) == [here, here], "it is where it was")
        await again.stop()

    run(work)


def test_a_replica_is_made_in_the_directory_that_the_image_says() -> None:
    async def work(controller: FakeController) -> None:
        made = server(controller, formatted(ONE, TWO), ONE, TWO)
        await made.start()
        controller.create_topic("orders", 4, [ME], directory=b"two".ljust(16, b"!"))
        await eventually(lambda: len(made.broker.replicas) == 4, "the replicas are made")
        assert {made.broker.replicas.directory_of(each.name).path for each in made.broker.replicas} == {TWO}
        assert not controller.asked(AssignReplicasToDirsRequest)
        await made.stop()

    run(work)


def test_a_failed_directory_is_reported_and_what_lies_there_is_offline() -> None:
    async def work(controller: FakeController) -> None:
        files = formatted(ONE, TWO)
        made = server(controller, files, ONE, TWO)
        await made.start()
        controller.create_topic("orders", 4, [ME], directory=b"two".ljust(16, b"!"))
        await eventually(lambda: len(made.broker.replicas) == 4, "the replicas are made")
        partition = made.broker.replicas.get(TopicPartition("orders", 0))
        failure = KafkaStorageError("Input/output error")
        made.broker.replicas.directory_of(partition.name).files.fail(failure)
        made.broker.take_offline(partition, failure)
        assert all(each.offline is not None for each in made.broker.replicas), "all of the directory, at once"
        await eventually(lambda: beats(controller)[-1].offline_log_dirs == [b"two".ljust(16, b"!")], "it is reported")
        assert made.failure is None, "another directory is left"
        await made.stop()

    run(work)


@pytest.mark.parametrize(
    ("code", "words"),
    [(104, "another cluster"), (35, "finalized a feature"), (119, "log directories")],
)
def test_a_registration_that_is_refused_for_good_ends_the_start_and_holds_nothing(code: int, words: str) -> None:
    async def work(controller: FakeController) -> None:
        files = formatted(ONE)
        controller.refusals["BrokerRegistration"] = code
        with pytest.raises(BrokerStopped, match=words):
            await server(controller, files, ONE).start()
        controller.refusals.clear()
        made = server(controller, files, ONE)
        await made.start()  # no lock is left
        await made.stop()

    run(work)


def test_a_record_that_is_not_known_stops_the_broker_and_shows_nothing_of_it() -> None:
    async def work(controller: FakeController) -> None:
        made = server(controller, formatted(ONE), ONE)
        await made.start()
        before = made.broker.image.change_number
        controller.append_values([bytes((1, 99, 0))], is_readable=False)
        async with asyncio.timeout(HANG_S):
            await made.failed.wait()
        assert "99" in str(made.failure)
        assert made.broker.image.change_number >= before
        assert isinstance(made.broker.link, KRaftLink)
        await made.stop()

    run(work)


def test_a_directory_that_nobody_formatted_is_refused() -> None:
    async def work(controller: FakeController) -> None:
        files = MemoryFiles()
        files.make_directory(ONE)
        with pytest.raises(DirectoryNotFormatted, match="kafka-storage format"):
            await server(controller, files, ONE).start()
        assert not files.exists(ONE / "meta.properties")

    run(work)
