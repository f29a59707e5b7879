"""Apache Kafka 3.9 and Ottla in one cluster: broker 1 is Kafka's, brokers 0 and 2 are ours; either commands the other.

Every test runs twice, with a controller of each side. Kafka's own tools are the judges where there is one. Needs Java
and Kafka's jars (tests/conformance/kafka_jars.py) and takes minutes: run by `make test-long`.
"""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.replica_verification import check_verified
from tests.patience import HANG_S

import ottla
from ottla.broker.coordinators.placement import partition_for_name
from ottla.net.framing import frame_prefix
from ottla.protocol.compiled import decode
from ottla.protocol.header import encode_request
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from ottla.testing.promises import GroupReading, NumberedLoad, read_numbers
from ottla.testing.zookeeper import missing

if (REASON := missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)

from tests.cluster.judging import KAFKA, OTTLA
from tests.cluster.mixed_cluster import MixedCluster
from tests.conformance.dump_log_segments import complaints, dump
from tests.conformance.java_programs import jars_or_skip

pytestmark = pytest.mark.long

OURS, KAFKAS, OURS_TOO = 0, 1, 2
ALL = (OURS, KAFKAS, OURS_TOO)
OFFSETS_PARTITIONS = 6
SPREAD = {0: (0, 1, 2), 1: (1, 2, 0), 2: (2, 0, 1)}
SETTINGS = {
    "zookeeper.session.timeout.ms": 3_000,
    "replica.lag.time.max.ms": 3_000,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
    "transaction.state.log.num.partitions": 6,
    "auto.leader.rebalance.enable": "false",  # leaders move when a test says so
    "log.segment.bytes": 1_048_576,
}
TOPICS = "TopicCommand"
GROUPS = "consumer.group.ConsumerGroupCommand"
REASSIGN = "reassign.ReassignPartitionsCommand"
ELECT = "LeaderElectionCommand"
CONFIGS = "kafka.admin.ConfigCommand"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    jars = jars_or_skip("3.9")
    mixed = MixedCluster(tmp_path_factory.mktemp("mixed"), [OTTLA, KAFKA, OTTLA], jars=jars, settings=SETTINGS)
    try:
        mixed.start(first=KAFKAS)
        yield mixed
        faults = mixed.faults()
    finally:
        mixed.stop()
    assert faults == []


@pytest.fixture(params=[KAFKA, OTTLA])
def mixed(request: pytest.FixtureRequest, cluster: MixedCluster) -> MixedCluster:
    """With a controller of the side that the parameter names."""
    for broker in cluster.brokers:
        if not broker.is_running:
            cluster.start_broker(broker.number)
    cluster.elect_controller(request.param)
    return cluster


@pytest.fixture
def topic(mixed: MixedCluster, request: pytest.FixtureRequest) -> str:
    name = request.node.name.removeprefix("test_").replace("[", "-").replace("]", "")[:100]
    return make_topic(mixed, name)


def make_topic(mixed: MixedCluster, name: str, assignment: Mapping[int, Sequence[int]] = SPREAD, **configs: str) -> str:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    with ottla.Admin(bootstrap_servers=mixed.bootstrap_servers) as admin:
        new = ottla.NewTopic(name, replica_assignments=assignment, configs=named)
        admin.create_topics([new], timeout=HANG_S)
    mixed.wait_for_leaders(name, [replicas[0] for replicas in assignment.values()])
    return name


def wait_until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen within {HANG_S:g} s"
        time.sleep(0.1)


def check(mixed: MixedCluster, load: NumberedLoad) -> None:
    """Nothing acknowledged is lost, twice or out of order, and all copies are alike."""
    mixed.wait_for_copies(load.topic)
    assert not load.failures
    load.check(read_numbers(mixed.bootstrap_servers, load.topic, len(load.acknowledged)))
    mixed.check_copies(load.topic)


# --- copies ----------------------------------------------------------------------------------------------------------


def test_each_side_copies_what_the_other_leads(mixed: MixedCluster, topic: str) -> None:
    with NumberedLoad(mixed.bootstrap_servers, topic, 3) as load:
        load.wait_for(600)
    check(mixed, load)
    described = mixed.asked(TOPICS, "--describe", "--topic", topic)
    for partition, replicas in SPREAD.items():
        assert f"Partition: {partition}\tLeader: {replicas[0]}" in described
        for number in replicas:
            logs = [each for each in mixed.files(number, topic, partition) if each.suffix == ".log"]
            assert complaints(dump(mixed.jars, logs)) == []


def test_kafkas_verification_tool_finds_no_difference(mixed: MixedCluster, topic: str) -> None:
    with NumberedLoad(mixed.bootstrap_servers, topic, 3) as load:
        load.wait_for(300)
    mixed.wait_for_copies(topic)
    check_verified(mixed.jars, mixed.bootstrap_servers, topic)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_copied_as_they_are(mixed: MixedCluster, topic: str, codec: str) -> None:
    with NumberedLoad(mixed.bootstrap_servers, topic, 3, compression_type=codec, linger_ms=20) as load:
        load.wait_for(300)
    check(mixed, load)


# --- leaders ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("victim", [KAFKAS, OURS])
def test_a_leader_that_is_killed_is_replaced_by_the_other_side(mixed: MixedCluster, topic: str, victim: int) -> None:
    with NumberedLoad(mixed.bootstrap_servers, topic, 3, request_timeout_ms=5_000) as load:
        load.wait_for(200)
        mixed.signal(victim, signal.SIGKILL)
        mixed.wait_for_leaders(topic, [next(each for each in SPREAD[part] if each != victim) for part in range(3)])
        load.wait_for(200)
        mixed.start_broker(victim)
        mixed.wait_for_copies(topic)
        mixed.asked(ELECT, "--election-type", "PREFERRED", "--all-topic-partitions")
        mixed.wait_for_leaders(topic, [0, 1, 2])
        load.wait_for(200)
    check(mixed, load)


@pytest.mark.parametrize("leaver", [KAFKAS, OURS])
def test_a_broker_that_leaves_in_order_hands_its_leaderships_over_first(
    mixed: MixedCluster, topic: str, leaver: int
) -> None:
    with NumberedLoad(mixed.bootstrap_servers, topic, 3, request_timeout_ms=5_000) as load:
        load.wait_for(200)
        mixed.signal(leaver, signal.SIGTERM)
        said = mixed.brokers[leaver].log.read_text(errors="replace")
        mixed.wait_for_leaders(topic, [next(each for each in SPREAD[part] if each != leaver) for part in range(3)])
        load.wait_for(200)
        mixed.start_broker(leaver)
        mixed.wait_for_copies(topic)
        load.wait_for(100)
    # Each side says in its own words how it left; nobody had to wait for a session to end.
    assert "stops although it may still lead" not in said
    assert mixed.sides[leaver] == OTTLA or "Controlled shutdown request returned successfully" in said
    check(mixed, load)


def test_a_paused_leader_loses_its_office_and_gives_up_what_nobody_confirmed(mixed: MixedCluster, topic: str) -> None:
    for victim in (KAFKAS, OURS):
        with NumberedLoad(mixed.bootstrap_servers, topic, 3, request_timeout_ms=3_000) as load:
            load.wait_for(100)
            mixed.signal(victim, signal.SIGSTOP)
            time.sleep(6)
            mixed.signal(victim, signal.SIGCONT)
            load.wait_for(200)
            mixed.wait_for_copies(topic)
        assert not load.failures
        mixed.check_copies(topic)


# --- topics ----------------------------------------------------------------------------------------------------------


def test_replicas_move_between_the_sides_by_kafkas_tool(mixed: MixedCluster, tmp_path: Path) -> None:
    topic = make_topic(mixed, f"moving-{tmp_path.name}", {0: (OURS,), 1: (KAFKAS,)}, min_insync_replicas="1")
    wanted = {0: [KAFKAS], 1: [OURS_TOO]}
    plan = tmp_path / "plan.json"
    parts = [{"topic": topic, "partition": part, "replicas": replicas} for part, replicas in wanted.items()]
    plan.write_text(json.dumps({"version": 1, "partitions": parts}))
    with NumberedLoad(mixed.bootstrap_servers, topic, 2) as load:
        load.wait_for(200)
        mixed.asked(REASSIGN, "--reassignment-json-file", str(plan), "--execute", "--throttle", "50000000")
        wait_until(lambda: [each.replicas for each in mixed.partitions(topic)] == [(KAFKAS,), (OURS_TOO,)], "the move")
        load.wait_for(200)
    said = mixed.asked(REASSIGN, "--reassignment-json-file", str(plan), "--verify")
    assert said.count("is completed") == 2, said
    mixed.wait_for_leaders(topic, [KAFKAS, OURS_TOO])
    assert not load.failures
    load.check(read_numbers(mixed.bootstrap_servers, topic, 2))
    wait_until(lambda: not mixed.files(OURS, topic, 0) and not mixed.files(KAFKAS, topic, 1), "the old copies go")


def test_a_deleted_topic_is_gone_from_every_broker_and_may_be_made_again(mixed: MixedCluster, topic: str) -> None:
    for _ in range(2):
        with NumberedLoad(mixed.bootstrap_servers, topic, 3) as load:
            load.wait_for(30)
        check(mixed, load)
        mixed.asked(TOPICS, "--delete", "--topic", topic)
        wait_until(lambda: not any(mixed.files(number, topic, 0) for number in ALL), "the copies go")
        wait_until(lambda: topic not in mixed.asked(TOPICS, "--list").split(), "the name goes")
        make_topic(mixed, topic)


def test_a_topic_grows_by_kafkas_tool(mixed: MixedCluster, topic: str) -> None:
    mixed.asked(TOPICS, "--alter", "--topic", topic, "--partitions", "6")
    wait_until(lambda: len(mixed.partitions(topic)) == 6, "the growth")
    mixed.wait_for_copies(topic)
    with NumberedLoad(mixed.bootstrap_servers, topic, 6) as load:
        load.wait_for(120)
    check(mixed, load)


def test_settings_reach_the_copies_on_both_sides(mixed: MixedCluster, topic: str) -> None:
    made = make_topic(mixed, f"{topic}-made", max_message_bytes="2000")
    mixed.asked(
        CONFIGS, "--alter", "--entity-type", "topics", "--entity-name", topic, "--add-config", "max.message.bytes=2000"
    )
    for name in (made, topic):
        with ottla.Producer(bootstrap_servers=mixed.bootstrap_servers, acks="all") as producer:
            for partition in range(3):
                wait_until(lambda where=(name, partition): is_too_large(producer, *where), f"{name}-{partition}")
        described = mixed.asked(CONFIGS, "--describe", "--entity-type", "topics", "--entity-name", name)
        assert "max.message.bytes=2000" in described


def is_too_large(producer: ottla.Producer, topic: str, partition: int) -> bool:
    try:
        producer.send(topic, bytes(5_000), partition=partition).result(HANG_S)
    except ottla.errors.MessageTooLarge:
        return True
    return False


# --- coordinators ----------------------------------------------------------------------------------------------------


def test_a_group_keeps_its_offsets_whoever_coordinates_it(mixed: MixedCluster, topic: str) -> None:
    """The coordinator is stopped twice: it moves to the other side and on."""
    group = f"readers-{topic}"
    with (
        NumberedLoad(mixed.bootstrap_servers, topic, 3, request_timeout_ms=5_000) as load,
        GroupReading(mixed.bootstrap_servers, topic, group) as reading,
    ):
        for _ in range(2):
            load.wait_for(200)
            reading.wait_for(load.count)
            coordinator = coordinator_of(mixed, group)
            mixed.signal(coordinator, signal.SIGTERM)
            load.wait_for(100)
            reading.wait_for(load.count)
            mixed.start_broker(coordinator)
        load.end()
        reading.wait_for(load.count)
    check(mixed, load)
    mixed.wait_for_copies("__consumer_offsets")
    mixed.check_copies("__consumer_offsets")
    described = mixed.asked(GROUPS, "--describe", "--group", group, "--timeout", "60000")
    ends = {part: len(numbers) for part, numbers in read_numbers(mixed.bootstrap_servers, topic, 3).items()}
    for line in described.splitlines():
        words = line.split()
        if len(words) > 5 and words[1] == topic:
            assert words[3] == words[4] == str(ends[int(words[2])]), described
            assert words[5] == "0"


def coordinator_of(mixed: MixedCluster, group: str) -> int:
    found = mixed.leaders("__consumer_offsets")[partition_for_name(group, OFFSETS_PARTITIONS)]
    assert found is not None
    return found


class Transfers(threading.Thread):
    """Transactions of one number to every partition; every third is aborted."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._servers = servers
        self._topic = topic
        self.committed: list[int] = []
        self.ending = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with ottla.Producer(
                bootstrap_servers=self._servers, transactional_id=self._topic, request_timeout_ms=5_000
            ) as producer:
                producer.init_transactions(HANG_S)
                number = 0
                while not self.ending.is_set():
                    self._transfer(producer, number)
                    number += 1
        except BaseException as error:
            self.failure = error

    def _transfer(self, producer: Any, number: int) -> None:
        producer.begin_transaction()
        for partition in range(3):
            producer.send(self._topic, b"%d" % number, partition=partition)
        if number % 3 == 2:
            producer.abort_transaction(HANG_S)
        else:
            producer.commit_transaction(HANG_S)
            self.committed.append(number)

    def wait_for(self, more: int) -> None:
        wanted = len(self.committed) + more
        wait_until(lambda: len(self.committed) >= wanted or self.failure is not None, f"{more} transactions")
        assert self.failure is None, self.failure


def test_transactions_are_whole_whichever_side_coordinates_and_leads(mixed: MixedCluster, topic: str) -> None:
    transfers = Transfers(mixed.bootstrap_servers, topic)
    transfers.start()
    transfers.wait_for(30)
    for leaver in (KAFKAS, OURS):
        mixed.signal(leaver, signal.SIGTERM)
        transfers.wait_for(30)
        mixed.start_broker(leaver)
        mixed.wait_for_copies(topic)
    transfers.wait_for(30)
    transfers.ending.set()
    transfers.join(HANG_S)
    assert transfers.failure is None, transfers.failure
    found = read_numbers(mixed.bootstrap_servers, topic, 3, isolation_level="read_committed")
    for partition in range(3):
        assert found[partition] == transfers.committed
    mixed.wait_for_copies(topic)
    mixed.check_copies(topic)


# --- quotas ----------------------------------------------------------------------------------------------------------


def set_quota(mixed: MixedCluster, number: int, client_id: str, value: float | None) -> None:
    """Have one broker write the quota of a client id for producing."""
    entity = [EntityData(entity_type="client-id", entity_name=client_id)]
    op = OpData(key="producer_byte_rate", value=value or 0.0, remove=value is None)
    request = AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=[op])], validate_only=False)
    parts = encode_request(request, version=1, correlation_id=1, client_id="quotas")
    with socket.create_connection(("127.0.0.1", mixed.brokers[number].port), HANG_S) as connection:
        connection.sendall(b"".join((frame_prefix(parts), *map(bytes, parts))))
        size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL))
        answer = decode(AlterClientQuotasResponse, 1, connection.recv(size, socket.MSG_WAITALL)[5:])
    assert answer.entries[0].error_code == 0, answer


def is_slowed_down(mixed: MixedCluster, topic: str, partition: int, client_id: str) -> bool:
    """Whether more than ten seconds of the quota at once make the leader of a partition ask for patience."""
    with ottla.Producer(bootstrap_servers=mixed.bootstrap_servers, client_id=client_id) as producer:
        for _ in range(6):
            producer.send(topic, bytes(50_000), partition=partition).result(HANG_S)
        found = [value for key, value in producer.metrics().items() if key.name == "produce-throttle-time-max"]
    return found[0] > 0


def test_a_quota_written_by_one_side_acts_on_the_other(mixed: MixedCluster, topic: str) -> None:
    for writer in (OURS, KAFKAS):
        client_id = f"{topic} & <{writer}>"
        set_quota(mixed, writer, client_id, 20_000)
        for partition in (OURS, KAFKAS, OURS_TOO):
            wait_until(
                lambda p=partition, c=client_id: is_slowed_down(mixed, topic, p, c), f"broker {partition} slows down"
            )
        set_quota(mixed, writer, client_id, None)
        for partition in (OURS, KAFKAS, OURS_TOO):
            wait_until(
                lambda p=partition, c=client_id: not is_slowed_down(mixed, topic, p, c), f"broker {partition} stops it"
            )
