"""Quorums of Apache Kafka 4.3.1 and Ottla: two of theirs and one of ours, one and two, and three of ours.

Leaders of the metadata log are stopped, killed, paused and cut off under load, a hundred times. Nothing that was
acknowledged is lost, nobody is stuck, and the logs of all voters are the same bytes. Needs Java and Kafka's jars;
`make test-long` runs it.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from tests.cluster.cuttable import Cuttable
from tests.cluster.judging import KAFKA, OTTLA
from tests.cluster.kraft_cluster import CLUSTER_ID, KRaftCluster
from tests.cluster.test_kraft_broker import eventually
from tests.conformance.java_programs import JavaPrograms, jars_or_skip
from tests.conformance.transaction_probes import Wire
from tests.patience import HANG_S

import ottla
from ottla.cli.lab_cluster import free_ports
from ottla.client.admin.cluster import FeatureUpdate
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.batches import read_batches
from ottla.cluster.metadata_log.loader import MetadataLoader
from ottla.cluster.model import LOST_DIRECTORY
from ottla.errors import OttlaError
from ottla.protocol.messages import assign_replicas_to_dirs as dirs
from ottla.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, DirectoryData
from ottla.testing.promises import NumberedLoad, read_numbers
from ottla.values import ZERO_UUID, uuid_to_text

PARTITIONS: Final = 4
CHANGES: Final = 100
OURS, APACHES = 11, 12
CUT: Final = "connections are cut"
HITS: Final = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, CUT)
OF_LOST_LEADERS: Final = (
    "channel manager timed out before sending the request|Exceptionally slow controller event|NotControllerException|"
    "Graceful shutdown of RaftClient failed"
)
"""What Apache's nodes say of a leader that is cut off, paused or stopped."""
QUORUMS: Final = {
    "two of Apache's and one of ours": {1: KAFKA, 2: OTTLA, 3: KAFKA},
    "one of Apache's and two of ours": {1: OTTLA, 2: KAFKA, 3: OTTLA},
    "three of ours": {1: OTTLA, 2: OTTLA, 3: OTTLA},
}


@contextlib.contextmanager
def running(directory: Path, voters: Mapping[int, str], brokers: Mapping[int, str]) -> Iterator[KRaftCluster]:
    cluster = KRaftCluster(directory, brokers, voters=voters, jars=jars_or_skip("4.3"))
    with cluster:
        yield cluster
    assert cluster.faults() == []


@contextlib.contextmanager
def running_cuttable(
    directory: Path, voters: Mapping[int, str], brokers: Mapping[int, str]
) -> Iterator[tuple[KRaftCluster, Mapping[int, Cuttable]]]:
    """The same with a proxy before each controller."""
    cluster = KRaftCluster(directory, brokers, voters=voters, jars=jars_or_skip("4.3"))
    cluster.expected = OF_LOST_LEADERS
    proxies = {}
    with contextlib.ExitStack() as stack:
        for (number, node), port in zip(cluster.controllers.items(), free_ports(len(voters)), strict=True):
            cluster.extra[number] = {
                "listeners": f"CONTROLLER://127.0.0.1:{port}",
                "advertised.listeners": f"CONTROLLER://{node.address}",
            }
            proxies[number] = stack.enter_context(Cuttable(port, node.port))
        stack.enter_context(cluster)
        yield cluster, proxies
    assert cluster.faults() == []


def leader_and_epoch(cluster: KRaftCluster) -> tuple[int, int]:
    """Of the metadata log, as a broker tells it."""
    with contextlib.suppress(OttlaError), ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        found = admin.describe_metadata_quorum(timeout=10)
        return found.leader, found.leader_epoch
    return -1, -1


def wait_for_leader(cluster: KRaftCluster, wanted: Callable[[int, int], bool]) -> tuple[int, int]:
    end = time.monotonic() + HANG_S
    while not wanted(*(found := leader_and_epoch(cluster))):
        assert time.monotonic() < end, f"node {found[0]} leads in epoch {found[1]}, and no other"
        time.sleep(0.2)
    return found


def metadata_bytes(cluster: KRaftCluster, number: int) -> bytes:
    files = sorted((cluster.data(number)[0] / "__cluster_metadata-0").glob("*.log"))
    return b"".join(each.read_bytes() for each in files)


def have_the_same_log(cluster: KRaftCluster) -> bool:
    """Whether all voters have the same bytes, as far as each of them has any."""
    logs = [metadata_bytes(cluster, number) for number in cluster.controllers]
    shortest = min(map(len, logs))
    return shortest > 0 and len({each[:shortest] for each in logs}) == 1 and max(map(len, logs)) - shortest < 4_096


@pytest.mark.long
@pytest.mark.parametrize("voters", QUORUMS.values(), ids=QUORUMS.keys())
def test_leaders_of_the_metadata_log_are_lost_under_load(tmp_path: Path, voters: Mapping[int, str]) -> None:
    with running_cuttable(tmp_path, voters, {OURS: OTTLA, APACHES: KAFKA}) as (cluster, proxies):
        cluster.create_topic("clicks", PARTITIONS, 2)
        cluster.wait_for_copies("clicks")
        led_by: set[int] = set()
        with NumberedLoad(
            cluster.bootstrap_servers, "clicks", PARTITIONS, pause_s=0.01, request_timeout_ms=8_000
        ) as load:
            leader, epoch = wait_for_leader(cluster, lambda leader, epoch: leader > 0)
            for change, hit in zip(range(CHANGES), itertools.cycle(HITS), strict=False):
                gone, before = leader, epoch
                if isinstance(hit, signal.Signals):
                    cluster.signal(gone, hit)
                else:
                    proxies[gone].cut()
                leader, epoch = wait_for_leader(
                    cluster, lambda found, at, gone=gone, before=before: at > before and found not in (-1, gone)
                )
                led_by.add(leader)
                cluster.create_topic(f"made-{change}", 2, 2)
                load.wait_for(50, HANG_S)
                if hit is signal.SIGSTOP:
                    cluster.signal(gone, signal.SIGCONT)
                elif hit is CUT:
                    proxies[gone].heal()
                else:
                    cluster.start_node(gone)
            load.end()
        assert not load.failures
        load.check(read_numbers(cluster.bootstrap_servers, "clicks", PARTITIONS))
        eventually(lambda: have_the_same_log(cluster), "the logs of the voters differ")
        assert {cluster.sides[each] for each in led_by} == set(voters.values()), "nobody of a side has led"
        cluster.wait_for_copies("clicks")
        cluster.check_copies("clicks")


@pytest.mark.long
def test_every_admin_tool_of_apache_works_with_our_controller(tmp_path: Path) -> None:
    with running(tmp_path, {1: OTTLA}, {OURS: OTTLA, APACHES: KAFKA}) as cluster:
        cluster.create_topic("t1", 2, 2)
        tools = JavaPrograms(cluster.jars, tmp_path, cluster.brokers[APACHES].address)
        at_controller = ("--bootstrap-controller", cluster.bootstrap_controllers)
        said = cluster.tool("MetadataQuorumCommand", *at_controller, "describe", "--status")
        assert "LeaderId:               1" in said, said
        assert '"id": 1' in said
        said = cluster.tool("MetadataQuorumCommand", *at_controller, "describe", "--replication")
        assert "Leader" in said
        assert "Observer" in said
        said = cluster.tool("FeatureCommand", *at_controller, "describe")
        assert "metadata.version" in said
        configs = "kafka.admin.ConfigCommand"
        about = ("--entity-type", "brokers", "--entity-name", str(APACHES))
        tools.tool(configs, "--alter", *about, "--add-config", "max.connections=777")
        assert "max.connections=777" in tools.tool(configs, "--describe", *about)
        tools.tool("TopicCommand", "--alter", "--topic", "t1", "--partitions", "4")
        assert tools.tool("TopicCommand", "--describe", "--topic", "t1").count("Leader: ") == 4
        said = cluster.tool("ClusterTool", "list-endpoints", *at_controller)
        assert cluster.controllers[1].address.rpartition(":")[2] in said, said


@pytest.mark.long
@pytest.mark.parametrize("voters", QUORUMS.values(), ids=QUORUMS.keys())
def test_voters_of_settings_become_voters_of_the_log(tmp_path: Path, voters: Mapping[int, str]) -> None:
    """By Apache's tools, through our broker; then the voters change, as they do in any dynamic quorum."""
    cluster = KRaftCluster(tmp_path, {OURS: OTTLA}, voters=voters, jars=jars_or_skip("4.3"), by_settings=True)
    with cluster:
        at_broker = ("--bootstrap-server", cluster.brokers[OURS].address)
        upgrade = (*at_broker, "upgrade", "--feature", "kraft.version=1")
        with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:

            def level() -> int:
                found = admin.describe_features(timeout=HANG_S).finalized.get("kraft.version")
                return 0 if found is None else found.max

            def directories() -> dict[int, bytes]:
                found = admin.describe_metadata_quorum(timeout=HANG_S).voters
                return {voter.node_id: voter.directory_id for voter in found}

            assert (level(), set(directories())) == (0, set(voters))
            eventually(lambda: "can be upgraded" in said_by(cluster, *upgrade, "--dry-run"), "not all have told")
            assert level() == 0, "it was only asked"
            assert "was upgraded to 1" in cluster.tool("FeatureCommand", *upgrade)
            eventually(lambda: level() == 1, "the level is not known")
            at_controller = ("--bootstrap-controller", cluster.bootstrap_controllers)
            said = cluster.tool("FeatureCommand", *at_controller, "upgrade", "--feature", "kraft.version=1")
            assert "was upgraded to 1" in said, "what holds is confirmed, by the controllers themselves, too"
            admin.update_features({"kraft.version": FeatureUpdate(1)}, timeout=HANG_S)
            with pytest.raises(AssertionError):
                cluster.tool("FeatureCommand", *at_broker, "downgrade", "--feature", "kraft.version=0")
            before = directories()
            assert ZERO_UUID not in before.values()
            leader, _ = leader_and_epoch(cluster)
            other = next(number for number in voters if number != leader)
            change = ("MetadataQuorumCommand", "--bootstrap-controller", cluster.bootstrap_controllers)
            gone = ("-i", str(other), "-d", uuid_to_text(before[other]))
            cluster.tool(*change, "remove-controller", *gone)
            eventually(lambda: set(directories()) == {*voters} - {other}, "it votes on")
            node = cluster.controllers[other]
            cluster.tool(*change, "--command-config", str(node.properties), "add-controller")
            eventually(lambda: directories() == before, "it does not vote again")
        cluster.create_topic("t1", 2, 1)
        eventually(lambda: have_the_same_log(cluster), "the logs of the voters differ")
        for number in voters:
            cluster.signal(number, signal.SIGKILL)
        for number in voters:
            cluster.begin(number)
        wait_for_leader(cluster, lambda leader, epoch: leader > 0)
        cluster.create_topic("t2", 2, 1)


def said_by(cluster: KRaftCluster, *words: str) -> str:
    try:
        return cluster.tool("FeatureCommand", *words)
    except AssertionError as failure:
        return str(failure)


@pytest.mark.long
@pytest.mark.parametrize("side", [KAFKA, OTTLA])
def test_a_replica_that_its_broker_calls_lost_is_led_by_another_until_it_is_back(tmp_path: Path, side: str) -> None:
    """What a broker of ours says of a partition that rotted (AssignReplicasToDirs, directory LOST) is understood. Our
    broker, which has the replica all the time, says where it is as soon as it sees that it is called lost."""
    with running(tmp_path, {1: side}, {OURS: OTTLA, APACHES: KAFKA}) as cluster:
        cluster.create_topic("clicks", 2, 2)
        cluster.wait_for_copies("clicks")
        with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:

            def partitions() -> dict[int, Any]:
                found = admin.describe_topics(["clicks"], timeout=HANG_S)["clicks"]
                return {partition.partition: partition for partition in found.partitions}

            index = next(number for number, partition in partitions().items() if partition.leader == OURS)
            image = image_of(cluster, 1)
            topic = image.topic("clicks")
            assert topic is not None
            lost = DirectoryData(
                id=LOST_DIRECTORY,
                topics=[dirs.TopicData(topic_id=topic.id, partitions=[dirs.PartitionData(partition_index=index)])],
            )
            request = AssignReplicasToDirsRequest(
                broker_id=OURS, broker_epoch=image.brokers[OURS].epoch, directories=[lost]
            )
            with Wire(cluster.controllers[1].address) as wire:
                answer = wire.ask(request, 0)
            assert (answer.error_code, answer.directories[0].topics[0].partitions[0].error_code) == (0, 0)
            eventually(lambda: partitions()[index].leader == APACHES, "it is led by who is said to have lost it")
            eventually(lambda: OURS in partitions()[index].in_sync, "it does not come back")
            assert topic.partitions[index].replicas
            after = image_of(cluster, 1).partition("clicks", index)
            assert after is not None
            assert LOST_DIRECTORY not in after.directories


def image_of(cluster: KRaftCluster, controller: int) -> ClusterImage:
    """What its metadata log says, all of it."""
    loader = MetadataLoader(CLUSTER_ID)
    for batch in read_batches(metadata_bytes(cluster, controller)):
        loader.add(batch)
    return loader.image
