"""Our Raft follows the metadata log of a real Apache controller: by its log, by its snapshot, and across a restart.

Needs Java and Kafka's jars (kafka_jars.py): run by `make test-long`, skipped where they are missing.
"""

import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.conformance.kafka_broker import CLUSTER_ID, KafkaBroker
from tests.conformance.kafka_jars import JarsMissing, find_jars

from ottla.cli.kafka.storage import run
from ottla.client.admin.admin import Admin
from ottla.client.admin.topics import NewTopic
from ottla.cluster.metadata_log.loader import MetadataLoader
from ottla.cluster.raft.fetching import Identity
from ottla.cluster.raft.log import LogLimits, MetadataLog
from ottla.cluster.raft.node import RaftNode, RaftSettings, Response, Sent
from ottla.cluster.raft.quorum_state import write_quorum_state
from ottla.cluster.raft.raft import Raft
from ottla.cluster.raft.snapshots import read_snapshot
from ottla.protocol import codec
from ottla.protocol.header import RequestHeader, ResponseHeader
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.protocol.messages.fetch_snapshot import FetchSnapshotResponse
from ottla.records import RecordStream
from ottla.storage.files import DiskFiles
from ottla.values import Address

pytestmark = pytest.mark.long

LIMIT_S = 60
SETTINGS = "metadata.log.max.record.bytes.between.snapshots=2000\n"


class Driver:
    """The socket and the clock of a node without a vote: one connection for each question."""

    def __init__(self, directory: Path, controller: Address) -> None:
        self.files = DiskFiles()
        self._directory = directory
        self._controller = controller
        directory.mkdir(exist_ok=True)
        self.loader = MetadataLoader(CLUSTER_ID)
        self.kinds: set[type] = set()
        self.start()

    def start(self) -> None:
        log = MetadataLog.open(self.files, self._directory, now_ms=now_ms(), limits=LogLimits())
        node = RaftNode(Identity(CLUSTER_ID, 77, b"directory of 77!"), bootstrap=(self._controller,))
        self.raft = Raft(self.files, log, node, RaftSettings(), Random(7), now_ms())

    def follow(self, until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not until():
            assert time.monotonic() < deadline, f"{self.raft.state}, log up to {self.raft.log.end_offset}"
            questions = self._next_questions()
            if not questions:
                time.sleep(0.005)
                continue
            (question,) = questions
            self.kinds.add(type(question.request))
            try:
                response = ask(question)
            except OSError:
                self.raft.unanswered(question, now_ms())
            else:
                self.raft.answered(question, response, now_ms())
            self._show()

    def _next_questions(self) -> list[Sent]:
        raft = self.raft
        raft.tick(now_ms())
        if not raft.is_saved:
            write_quorum_state(self.files, raft.log.directory, raft.state, raft.kraft_version)
            raft.saved(raft.state)
        job = raft.log.flush_job()
        job.run()
        raft.log.flushed(job, now_ms())
        return raft.requests(now_ms())

    def _show(self) -> None:
        log = self.raft.log
        newest = log.newest_snapshot
        if newest is not None and self.loader.end_offset < log.start_offset:
            batches = read_snapshot(self.files, log.snapshot_path(newest))
            for _ in self.loader.load_snapshot(batches, end_offset=newest.end_offset, epoch=newest.epoch):
                pass
        for batch in self.raft.committed(self.loader.end_offset):
            self.loader.add(batch)


def now_ms() -> int:
    return int(time.time() * 1000)


def ask(question: Sent) -> Response:
    key, version, kind = (1, 18, FetchResponse) if isinstance(question.request, FetchRequest) else (59, 1, None)
    header = RequestHeader(
        request_api_key=key, request_api_version=version, correlation_id=1, client_id="ottla observer"
    )
    parts = [*codec.encode(header, 2), *codec.encode(question.request, version)]
    frame = b"".join(map(bytes, parts))
    with socket.create_connection(question.address, timeout=5) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", read_exactly(connection, 4))
        answer = read_exactly(connection, size)
    _, position = codec.decode_prefix(ResponseHeader, 1, answer)
    if kind is not None:
        return codec.decode(FetchResponse, version, answer[position:])
    return codec.decode(FetchSnapshotResponse, version, answer[position:])


def read_exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError("closed by the controller")
        data += piece
    return data


@pytest.fixture
def broker(tmp_path: Path) -> KafkaBroker:
    try:
        jars = find_jars("4.3")
    except JarsMissing as reason:
        pytest.skip(str(reason))
    made = KafkaBroker(jars, tmp_path, tmp_path / "data", SETTINGS)
    made.properties.write_text(made.properties.read_text().replace("quorum.voters=1@", "quorum.bootstrap.servers="))
    assert run(["format", "-t", CLUSTER_ID, "-c", str(made.properties), "--standalone"]) == 0
    return made


def controller_of(broker: KafkaBroker) -> Address:
    text = broker.properties.read_text()
    port = text.partition("CONTROLLER://127.0.0.1:")[2].split()[0]
    return Address("127.0.0.1", int(port))


def test_an_observer_has_what_an_apache_controller_committed(broker: KafkaBroker, tmp_path: Path) -> None:
    first = Driver(tmp_path / "first", controller_of(broker))
    with broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic("early", 3, 1)])
        first.follow(lambda: first.loader.image.partition_count("early") == 3)
        epoch = first.raft.state.leader_epoch
        admin.create_topics([NewTopic("later", 40, 1)])
        first.follow(lambda: first.loader.image.partition_count("later") == 40)
    first.start()  # another life of the node, with its log and its quorum-state
    assert first.raft.state.leader_epoch == epoch
    with broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.delete_topics(["early"])
        first.follow(lambda: first.loader.image.topic("early") is None)
        assert first.raft.state.leader_epoch > epoch
        second = Driver(tmp_path / "second", controller_of(broker))
        second.follow(lambda: second.loader.image.partition_count("later") == 40)
        assert second.raft.log.start_offset > 0  # it has the beginning as a snapshot
        ours = first.raft.log.high_watermark
        second.follow(lambda: second.raft.log.high_watermark >= ours)
    theirs = (broker.data / "__cluster_metadata-0" / "00000000000000000000.log").read_bytes()
    (log,) = (tmp_path / "first" / "__cluster_metadata-0").glob("*.log")
    mine, begin = log.read_bytes(), int(log.stem)  # not 0 where Apache had a snapshot before our first question
    position = next(batch.position for batch in RecordStream(theirs) if batch.next_offset > begin)
    assert theirs[position : position + len(mine)] == mine
    assert second.raft.voter_history.newest.kraft_version == 1
    assert len(second.kinds) == 2
