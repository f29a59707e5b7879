"""Hostile bytes against a live broker over real sockets: an error or a closed connection, and nothing else.

1. Frames that no decoder accepts (random bytes, mutated requests of every API and version, unknown keys and versions,
   sizes that lie, other protocols) leave everything as it was: topics, log end offsets, groups, the whole image.
2. Frames that still mean something may do what they say, but what they do not name stays as it was.
3. A good client works all the time: each of its records is delivered, one after the other.
4. Nothing is left behind: no connection, no waiting request; and no logger of ours says ERROR.
5. Memory of a broker process stays within a budget: against clients that claim much, that never read, that ask for
   hundreds of thousands of things in one request, and against batches that decompress to much more than they are.
6. While such a request is worked on, others are answered in between: counted, not timed, so that a busy machine does
   not matter.
7. A client that sends a request byte by byte for ever, or never reads what it asked for, is closed.

`make test` sends FRAMES of each of the two kinds; OTTLA_HOSTILE_FRAMES sets another number, and the marked test sends
LONG_FRAMES of each. The frames come from seeds, so that a run that fails can be played again.
"""

import contextlib
import logging
import os
import random
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.conformance.our_broker import BrokerProcess
from tests.fuzz.mutate import ABSURD, mutate
from tests.fuzz.targets import message_seeds, request_frames
from tests.patience import HANG_S

from ottla.broker.observe.log_limit import LINES_PER_SECOND
from ottla.broker.requests.served import SERVED_APIS
from ottla.errors import InvalidRecord, InvalidRequest, OttlaError, UnknownServerError
from ottla.net.framed_link import TURN_FRAMES
from ottla.protocol import compiled
from ottla.protocol.api import APIS
from ottla.protocol.header import decode_request, decode_response, encode_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.records.builder import BatchBuilder
from ottla.records.checksum import crc32c
from ottla.records.compression import Compression, compress
from ottla.records.layout import DECOMPRESSED_LIMIT_BYTES, HEADER_BYTES
from ottla.testing.broker import KafkaBroker

FRAMES = int(os.environ.get("OTTLA_HOSTILE_FRAMES", "3000"))
LONG_FRAMES = 250_000
PER_CONNECTION = 12
PATIENCE_S = 0.03  # a frame may be a request that waits; then its connection is left
LEDGER, GOOD = "ledger", "good-client"
MIB = 1 << 20
LEAK_FRAMES, LEAK_LIMIT_BYTES = 1500, 2 * MIB
CODECS = [each for each in Compression if each]
BOMB_LIMIT_BYTES = 8 * MIB
WIDE_LIMIT_BYTES = 200 * MIB
HEADER_LIMIT_MEMORY_BYTES = 90 * MIB  # the frame itself, in memory that doubles; millions of objects would be 800
UNFINISHED_LIMIT_BYTES = 200 * MIB  # 64 of queued.max.request.bytes, one frame of 100, and what memory grows ahead
IDLE_MS = 300
ASK_ID = 0x7EADBEEF
ASK = b"".join(encode_request(ApiVersionsRequest(), version=0, correlation_id=ASK_ID, client_id="asks"))
OPEN_FILES_SLACK = 12  # what the good client and its threads may hold
HELLOS = [
    b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
    b"POST /topics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
    b"SSH-2.0-OpenSSH_9.6\r\n",
    bytes.fromhex("16030100f8010000f40303") + bytes(240),
    bytes.fromhex("15030300020228"),
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]


# -- a client without manners ------------------------------------------------------------------------------------------


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def connect(servers: str) -> socket.socket:
    host, port = servers.split(":")
    opened = socket.create_connection((host, int(port)), timeout=HANG_S)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def is_closed_after(servers: str, data: bytes) -> bool:
    """Whether the broker ends the connection that these bytes came by."""
    with connect(servers) as link:
        return drained(send(link, data), HANG_S) == "closed"


def send(link: socket.socket, data: bytes) -> socket.socket:
    with contextlib.suppress(ConnectionError):
        link.sendall(data)
    return link


def received(link: socket.socket) -> bytes:
    try:
        return link.recv(1 << 16)
    except ConnectionError:
        return b""


def drained(link: socket.socket, patience_s: float) -> str:
    """Read until the broker answers ASK ("answered"), closes ("closed") or says nothing for a while ("waits")."""
    seen = b""
    while select.select([link], [], [], patience_s)[0]:
        more = received(link)
        if not more:
            return "closed"
        seen = seen[-8:] + more
        if struct.pack(">i", ASK_ID) in seen:
            return "answered"
    return "waits"


def answers(servers: str) -> bool:
    with connect(servers) as link:
        return drained(send(link, framed(ASK)), HANG_S) == "answered"


def asked(link: socket.socket, request: Any, version: int) -> Any:
    send(link, framed(b"".join(encode_request(request, version=version, correlation_id=5, client_id="hostile"))))
    stream = link.makefile("rb")
    (size,) = struct.unpack(">i", stream.read(4))
    api = next(api for api in APIS.values() if api.request is type(request))
    return decode_response(api, version, stream.read(size))[1]


# -- what it sends -----------------------------------------------------------------------------------------------------


def seeds() -> list[bytes]:
    """A valid request of every API and version that is served, and all that were captured from clients."""
    made = []
    for api in (APIS[key] for key in sorted(SERVED_APIS)):
        for version in range(api.versions.min, api.versions.max + 1):
            request = compiled.decode(api.request, version, message_seeds(api.request, version, 1)[0])
            made.append(b"".join(encode_request(request, version=version, correlation_id=1, client_id="fuzz")))
    return made + request_frames()


def is_request(frame: bytes) -> bool:
    try:
        header, _ = decode_request(frame)
    except OttlaError:
        return False
    return header.request_api_key in SERVED_APIS


def frames_that_mean_nothing(source: random.Random, count: int) -> Iterator[bytes]:
    known = seeds()
    for number in range(count):
        frame = known[number % len(known)]
        kind = source.randrange(8)
        if kind == 0:
            yield from _unless_request(source.randbytes(source.choice((0, 1, 7, 8, 30, 400))))
        elif kind == 1:
            unknown = (source.choice((-1, 62, 999, 32767)), source.randrange(20)), (source.randrange(80), 99)
            yield from _unless_request(struct.pack(">hh", *source.choice(unknown)) + frame[4:])
        else:
            yield _broken(frame, source)


def _broken(frame: bytes, source: random.Random) -> bytes:
    while is_request(made := mutate(frame, source)):
        pass
    return made


def _unless_request(frame: bytes) -> list[bytes]:
    # ApiVersions of an unknown version is answered by design, and changes nothing.
    return [] if is_request(frame) else [frame]


def frames_that_mean_something(source: random.Random, count: int) -> Iterator[bytes]:
    known = [frame for frame in seeds() if is_request(frame)]
    for number in range(count):
        made = mutate(known[number % len(known)], source)
        yield made if is_request(made) else known[number % len(known)]


def play(servers: str, frames: Iterator[bytes], *, alone: bool) -> Counter[str]:
    """Send the frames, each on a connection that still lives, ASK behind each; gives how they ended."""
    ended: Counter[str] = Counter()
    link: socket.socket | None = None
    for number, frame in enumerate(frames):
        if link is None or alone or number % PER_CONNECTION == 0:
            link = _again(link, servers)
        outcome = drained(send(link, framed(frame) + framed(ASK)), HANG_S if alone else PATIENCE_S)
        ended[outcome] += 1
        if outcome != "answered":
            link = _again(link, None)
    _again(link, None)
    return ended


def _again(link: socket.socket | None, servers: str | None) -> Any:
    if link is not None:
        link.close()
    return connect(servers) if servers is not None else None


# -- what must not change ----------------------------------------------------------------------------------------------


def state(broker: KafkaBroker) -> Any:
    """All that is kept, but for what the good client writes."""
    snapshot = broker.snapshot()
    ends = {name: end for name, end in snapshot.end_offsets.items() if name.topic != GOOD}
    return ends, snapshot.topics, broker.call(lambda server: id(server.broker.image))


def ledger(broker: KafkaBroker) -> Any:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": LEDGER})
    committed = consumer.committed([TopicPartition(LEDGER, 0)], HANG_S)[0].offset
    low_high = consumer.get_watermark_offsets(TopicPartition(LEDGER, 0), HANG_S)
    consumer.close()
    return committed, low_high


def eventually(condition: Callable[[], bool], wait_s: float = HANG_S) -> bool:
    end_s = time.monotonic() + wait_s
    while not condition() and time.monotonic() < end_s:
        time.sleep(0.02)
    return condition()


def open_files(process: int | str) -> int:
    return sum(1 for _ in Path(f"/proc/{process}/fd").iterdir())


def fill(servers: str, topic: str, records: int = 10, size_bytes: int = 100) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(HANG_S)
    producer = Producer({"bootstrap.servers": servers, "message.max.bytes": 2 * MIB})
    for _ in range(records):
        producer.produce(topic, os.urandom(size_bytes), partition=0)
    assert producer.flush(HANG_S) == 0


class GoodClient:
    """Produces one record after the other while the others misbehave; remembers the longest wait."""

    def __init__(self, servers: str) -> None:
        self._producer = Producer({"bootstrap.servers": servers, "acks": "all", "linger.ms": 0})
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.delivered, self.waits_s, self.problems = 0, list[float](), list[Any]()

    def _work(self) -> None:
        while not self._over.is_set():
            started_s = time.monotonic()
            self._producer.produce(GOOD, b"still here", partition=0, on_delivery=self._told)
            self._producer.flush(HANG_S)
            self.waits_s.append(time.monotonic() - started_s)
            self._over.wait(0.02)

    def _told(self, error: Any, _: Any) -> None:
        self.delivered += error is None
        self.problems += [error] * (error is not None)

    def __enter__(self) -> "GoodClient":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(HANG_S)
        assert self.problems == []
        assert self.delivered > 0
        waits_ms = sorted(each * 1000 for each in self.waits_s)
        p99_ms = waits_ms[len(waits_ms) * 99 // 100]
        print(f"{len(waits_ms)} records of the good client: p99 {p99_ms:.0f}, longest {waits_ms[-1]:.0f} ms")


class Heard(logging.Handler):
    """What loggers of ours say; caplog forgets the test when its fixtures end."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self.wrong: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said = [record.getMessage()]
        if record.levelno >= logging.ERROR:
            self.wrong.append(self.format(record))


@pytest.fixture
def heard() -> Iterator[Heard]:
    handler, loggers = Heard(), [logging.getLogger(name) for name in ("ottla", "asyncio")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        # Not INFO: pytest keeps every record that is logged, and there is one for every frame.
        logger.setLevel(logging.WARNING)
    yield handler
    for logger, level in zip(loggers, before, strict=True):
        logger.removeHandler(handler)
        logger.setLevel(level)


@pytest.fixture
def broker(heard: Heard) -> Iterator[KafkaBroker]:
    """A broker with a ledger, a group that has read it, and a good client at work; checked when the test is over."""
    with KafkaBroker({"socket.listen.backlog.size": 1024}, seed=1) as broker:
        fill(broker.bootstrap_servers, LEDGER)
        fill(broker.bootstrap_servers, GOOD, 1)
        reader = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": LEDGER})
        reader.commit(offsets=[TopicPartition(LEDGER, 0, 7)], asynchronous=False)
        reader.close()
        before, open_before = ledger(broker), open_files("self")
        with GoodClient(broker.bootstrap_servers):
            yield broker
        assert ledger(broker) == before == (7, (0, 10))
        assert eventually(lambda: open_files("self") <= open_before + OPEN_FILES_SLACK)
        logging.getLogger("ottla").setLevel(logging.INFO)
        assert is_closed_after(broker.bootstrap_servers, framed(b""))
        assert "closing the connection" in heard.said[0], "the log is not heard"
    assert heard.wrong == []


# -- frames ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(2))
def test_frames_that_mean_nothing_change_nothing(broker: KafkaBroker, part: int) -> None:
    refuse_all(broker, f"nothing {part}", FRAMES // 2)


@pytest.mark.parametrize("part", range(2))
def test_frames_that_mean_something_touch_only_what_they_name(broker: KafkaBroker, part: int) -> None:
    survive_all(broker, f"something {part}", FRAMES // 2)


@pytest.mark.long
def test_half_a_million_hostile_frames(broker: KafkaBroker) -> None:
    refuse_all(broker, "long nothing", LONG_FRAMES)
    survive_all(broker, "long something", LONG_FRAMES)


def refuse_all(broker: KafkaBroker, seed: str, count: int) -> None:
    before = state(broker)
    ended = play(broker.bootstrap_servers, frames_that_mean_nothing(random.Random(seed), count), alone=True)
    assert ended["waits"] == 0
    assert ended["closed"] > count * 0.8
    assert state(broker) == before


def survive_all(broker: KafkaBroker, seed: str, count: int) -> None:
    ended = play(broker.bootstrap_servers, frames_that_mean_something(random.Random(seed), count), alone=False)
    assert ended["answered"] > count * 0.5, ended
    assert answers(broker.bootstrap_servers)


def test_batches_that_were_changed_being_created_are_refused(broker: KafkaBroker) -> None:
    source, before, refused = random.Random("batches"), state(broker), 0
    with connect(broker.bootstrap_servers) as link:
        for number in range(500):
            batch = made_batch(Compression(number % 5), [b"value"] * 3)
            changed = mutate(batch, source)
            if changed[8:12] + changed[16:] == batch[8:12] + batch[16:]:
                continue  # base offset and leader epoch are the broker's to write and not under the checksum
            answer = asked(link, produce(LEDGER, changed), 9)
            assert answer.responses[0].partition_responses[0].error_code != 0, changed.hex()
            refused += 1
    assert refused > 400
    assert state(broker) == before


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (-(1 << 63), 0), (5, -1)])
def test_a_marker_of_a_producer_that_cannot_be_is_refused(broker: KafkaBroker, producer_id: int, epoch: int) -> None:
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name=LEDGER, partition_indexes=[0])],
        coordinator_epoch=0,
    )
    with connect(broker.bootstrap_servers) as link:
        answer = asked(link, WriteTxnMarkersRequest(markers=[marker]), 1)
    assert answer.markers[0].topics[0].partitions[0].error_code == InvalidRequest.code


def test_a_fetch_of_less_than_nothing_is_refused_for_its_partition(broker: KafkaBroker) -> None:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=-1)
    fetch = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic=LEDGER, partitions=[wanted])])
    with connect(broker.bootstrap_servers) as link:
        answer = asked(link, fetch, 11)
    assert answer.responses[0].partitions[0].error_code == UnknownServerError.code


def made_batch(compression: Compression, values: list[bytes]) -> bytes:
    builder = BatchBuilder(compression=compression, size_limit_bytes=MIB)
    for value in values:
        assert builder.append(int(time.time() * 1000), b"key", value)
    return bytes(builder.close())


def produce(topic: str, records: bytes) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=memoryview(records))
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1000, topic_data=topics)


# -- sizes, strangers, slowness ----------------------------------------------------------------------------------------


def test_sizes_that_lie_and_other_protocols_end_their_connection(broker: KafkaBroker) -> None:
    before, servers = state(broker), broker.bootstrap_servers
    sizes = [struct.pack(">i", size) for size in (-1, -(1 << 31), (1 << 31) - 1, 104_857_601)]
    absurd = [lie.ljust(4, b"\xff") for lie in ABSURD]
    for hello in [*sizes, *absurd, *HELLOS, framed(b""), framed(b"") * 1000]:
        assert is_closed_after(servers, hello), hello
        assert is_closed_after(servers, framed(ASK[:-3]) + hello), hello
    assert state(broker) == before


def test_what_stands_before_garbage_is_answered_and_the_garbage_ends_the_connection(broker: KafkaBroker) -> None:
    before, source = state(broker), random.Random("pipelined")
    for _ in range(50):
        with connect(broker.bootstrap_servers) as link:
            garbage = source.choice((struct.pack(">i", -5), framed(b"\x7f" * 9), framed(b""), HELLOS[0]))
            asks = source.choice((1, 3, TURN_FRAMES, TURN_FRAMES + 1, 500))
            send(link, framed(ASK) * asks + garbage + framed(ASK) * 3)
            seen = b"".join(iter(lambda link=link: received(link), b""))  # type: ignore[misc]
            assert seen.count(struct.pack(">i", ASK_ID)) == asks
    assert state(broker) == before


def test_a_request_that_comes_byte_by_byte_is_answered_and_holds_up_nobody(broker: KafkaBroker) -> None:
    slow = [connect(broker.bootstrap_servers) for _ in range(40)]
    for position in range(len(framed(ASK))):
        for link in slow:
            link.sendall(framed(ASK)[position : position + 1])
    assert {drained(link, HANG_S) for link in slow} == {"answered"}
    for link in slow:
        link.sendall(framed(ASK)[:9])  # and now half of one, and gone
        link.close()


def test_connections_that_come_and_go_leave_nothing(broker: KafkaBroker) -> None:
    before = state(broker)
    for number in range(600):
        link = connect(broker.bootstrap_servers)
        if number % 3 == 1:  # gone with a reset, while the answer is on its way
            send(link, framed(ASK))
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif number % 3 == 2:
            send(link, framed(ASK)[: number % 20])
        link.close()
    is_closed_after(broker.bootstrap_servers, HELLOS[0])
    assert state(broker) == before


# -- memory ------------------------------------------------------------------------------------------------------------


class MeasuredBroker(BrokerProcess):
    """A broker process whose memory and files are looked at from outside; `listeners` are those beside its first."""

    def __init__(self, scratch: Path, settings: dict[str, str] | None = None, listeners: str = "") -> None:
        super().__init__(scratch, settings)
        self._listeners = listeners

    def _command(self) -> list[str]:
        more = [f"--set=listeners=PLAINTEXT://{self.bootstrap_servers},{self._listeners}"] if self._listeners else []
        command = super()._command()
        if more:
            at = command.index("--listen")
            del command[at : at + 2]
        return command + more

    @property
    def id(self) -> int:
        assert self._process is not None
        return self._process.pid

    def resident_bytes(self) -> int:
        return self._status("VmRSS")

    def peak_bytes(self) -> int:
        return self._status("VmHWM")

    def lines_about(self, words: str) -> int:
        return self._logged(0).count(words)

    def forget_peak(self) -> None:
        Path(f"/proc/{self.id}/clear_refs").write_text("5")

    def _status(self, name: str) -> int:
        lines = Path(f"/proc/{self.id}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

    @contextlib.contextmanager
    def within(self, budget_bytes: int) -> Iterator[None]:
        """What is done inside may take this much memory, and leaves no file open and no fault in the log."""
        self.forget_peak()
        before_bytes, open_before = self.resident_bytes(), open_files(self.id)
        yield
        assert answers(self.bootstrap_servers)
        grown_bytes = self.peak_bytes() - before_bytes
        print(f"grown by {grown_bytes / MIB:.1f} MiB of {budget_bytes / MIB:.0f}")
        assert grown_bytes <= budget_bytes
        assert eventually(lambda: open_files(self.id) <= open_before + 2)
        assert self.faults() == []


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredBroker]:
    with MeasuredBroker(tmp_path_factory.mktemp("hostile")) as broker:
        fill(broker.bootstrap_servers, LEDGER, 20, MIB // 2)
        yield broker


@contextlib.contextmanager
def crowd(servers: str, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as links:
        yield [links.enter_context(connect(servers)) for _ in range(count)]


def test_hostile_frames_leave_nothing_in_memory(process: MeasuredBroker) -> None:
    servers = process.bootstrap_servers
    play(servers, frames_that_mean_nothing(random.Random("warm"), LEAK_FRAMES), alone=True)
    with process.within(LEAK_LIMIT_BYTES):
        play(servers, frames_that_mean_nothing(random.Random("leak"), LEAK_FRAMES), alone=True)


def test_memory_follows_what_was_sent_and_not_what_was_claimed(process: MeasuredBroker) -> None:
    with process.within(60 * MIB), crowd(process.bootstrap_servers, 100) as links:
        for link in links:
            send(link, struct.pack(">i", 100 * MIB) + bytes(1000))
        assert answers(process.bootstrap_servers)


def test_unfinished_frames_hold_little_more_than_the_limit_and_others_are_served(process: MeasuredBroker) -> None:
    """All but the last byte of 100 MB eight times: 800 MB without a single whole request."""
    servers = process.bootstrap_servers
    start = framed_size(100 * MIB) + b"".join(
        encode_request(produce(LEDGER, b""), version=9, correlation_id=1, client_id="")
    )
    with process.within(UNFINISHED_LIMIT_BYTES), crowd(servers, 8) as links, connect(servers) as good:
        for link in links:
            send(link, start)
        sent = send_what_is_read(links, 100 * MIB + 4 - 1 - len(start))
        print(f"{sum(sent) / MIB:.0f} MiB were taken from {len(links)} clients")
        assert max(sent) > 90 * MIB, "a frame that has begun can be finished"
        answer = asked(good, produce(LEDGER, made_batch(Compression.NONE, [os.urandom(MIB // 2)])), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert answers(servers)


def framed_size(size_bytes: int) -> bytes:
    return struct.pack(">i", size_bytes)


def send_what_is_read(links: list[socket.socket], size_bytes: int) -> list[int]:
    """Send so many bytes by each link, for as long as the broker reads by any of them; gives what was sent."""
    sent, content = [0] * len(links), memoryview(bytes(MIB))
    for link in links:
        link.setblocking(False)
    numbers = {link: number for number, link in enumerate(links)}
    while ready := select.select([], [link for link in links if sent[numbers[link]] < size_bytes], [], 2.0)[1]:
        for link in ready:
            number = numbers[link]
            with contextlib.suppress(BlockingIOError):
                sent[number] += link.send(content[: size_bytes - sent[number]])
    return sent


def test_clients_that_fetch_and_never_read_pin_little(process: MeasuredBroker) -> None:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=MIB)
    fetch = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic=LEDGER, partitions=[wanted])])
    frame = framed(b"".join(encode_request(fetch, version=11, correlation_id=3, client_id="deaf")))
    with process.within(40 * 2 * MIB), crowd(process.bootstrap_servers, 40) as links:
        pile_up(links, frame * 50)


def test_clients_that_ask_and_never_read_pin_little_and_hold_up_nobody(process: MeasuredBroker) -> None:
    with process.within(10 * 5 * MIB), crowd(process.bootstrap_servers, 10) as links:
        pile_up(links, framed(ASK) * 1000, lambda: answers(process.bootstrap_servers))


def pile_up(links: list[socket.socket], data: bytes, meanwhile: Callable[[], bool] = lambda: True) -> None:
    """Send whole requests for as long as the broker takes any, and read nothing; others are answered all the time."""
    rests = [b""] * len(links)
    for link in links:
        link.setblocking(False)
    while select.select([], links, [], 0.5)[1]:
        for number, link in enumerate(links):
            rests[number] = rests[number] or data
            with contextlib.suppress(BlockingIOError, ConnectionError):
                rests[number] = rests[number][link.send(rests[number]) :]
        assert meanwhile()


# -- requests that ask for very much -----------------------------------------------------------------------------------


def wide_groups(count: int) -> tuple[Any, int]:
    return DescribeGroupsRequest(groups=[f"g{number}" for number in range(count)]), 0


def wide_metadata(count: int) -> tuple[Any, int]:
    topics = [MetadataRequestTopic(name=f"t{number}") for number in range(count)]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False), 8


def wide_fetch(count: int) -> tuple[Any, int]:
    wanted = [FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1) for number in range(count)]
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic="no such", partitions=wanted)]), 4


def wide_produce(count: int) -> tuple[Any, int]:
    data = [PartitionProduceData(index=number, records=memoryview(b"")) for number in range(count)]
    topics = [TopicProduceData(name=LEDGER, partition_data=data)]
    return ProduceRequest(transactional_id=None, acks=1, timeout_ms=1000, topic_data=topics), 9


@pytest.mark.parametrize(
    ("make", "count", "is_answered"),
    [
        (wide_groups, 19_000, True),
        (wide_groups, 300_000, False),
        (wide_metadata, 100_000, True),
        (wide_fetch, 100_000, True),
        (wide_fetch, 300_000, False),
        (wide_produce, 10_000, True),
        (wide_produce, 300_000, False),
    ],
    ids=["groups", "too many groups", "topics", "fetch", "too wide a fetch", "produce", "too wide a produce"],
)
def test_a_request_for_very_much_is_answered_or_refused_and_holds_up_nobody(
    process: MeasuredBroker, make: Callable[[int], tuple[Any, int]], count: int, is_answered: bool
) -> None:
    request, version = make(count)
    frame = b"".join(encode_request(request, version=version, correlation_id=ASK_ID, client_id="wide"))
    servers = process.bootstrap_servers
    with process.within(WIDE_LIMIT_BYTES), connect(servers) as wide, Others(servers) as others:
        assert drained(send(wide, framed(frame)), HANG_S) == ("answered" if is_answered else "closed")
    print(f"others got {others.answered} answers and waited {others.longest_s * 1000:.0f} ms at most")


@pytest.mark.parametrize("key", [0, 18], ids=["Produce", "ApiVersions"])
def test_a_header_of_millions_of_tags_is_refused_and_holds_up_nobody(process: MeasuredBroker, key: int) -> None:
    version = APIS[key].versions.max
    header = struct.pack(">hhih", key, version, ASK_ID, 1) + b"x" + b"\x80\xda\xc4\x09" + b"\x01\x00" * 20_000_000
    servers = process.bootstrap_servers
    with process.within(HEADER_LIMIT_MEMORY_BYTES), connect(servers) as hostile, Others(servers) as others:
        assert drained(send(hostile, framed(header)), HANG_S) == "closed"
    print(f"others got {others.answered} answers and waited {others.longest_s * 1000:.0f} ms at most")


class Others:
    """Asks again and again, counts the answers, and remembers how long the longest took."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._over = threading.Event()
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.answered = 0
        self.waits_s: list[float] = []

    @property
    def longest_s(self) -> float:
        return max(self.waits_s)

    def _work(self) -> None:
        with connect(self._servers) as link:
            while not self._over.wait(0.001):
                started_s = time.monotonic()
                self.answered += drained(send(link, framed(ASK)), HANG_S) == "answered"
                self.waits_s.append(time.monotonic() - started_s)
                self._begun.set()

    def __enter__(self) -> "Others":
        self._thread.start()
        assert self._begun.wait(HANG_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(HANG_S)


SENDS_FRAMES = """
import random, sys
from tests.conformance import test_hostile as hostile
servers, count = sys.argv[1], int(sys.argv[2])
print(hostile.play(servers, hostile.frames_that_mean_nothing(random.Random("nothing"), count // 2), alone=True))
print(hostile.play(servers, hostile.frames_that_mean_something(random.Random("something"), count // 2), alone=False))
"""


def waits_under_hostile_frames(process: MeasuredBroker, count: int) -> list[float]:
    """Seconds that one good client waits for its answers while a process of its own sends hostile frames, sorted."""
    servers = process.bootstrap_servers
    with Others(servers) as others:
        subprocess.run(
            [sys.executable, "-c", SENDS_FRAMES, servers, str(count)], cwd=Path(__file__).parents[2], check=True
        )
    waits_s = sorted(others.waits_s)
    p50_s, p99_s = waits_s[len(waits_s) // 2], waits_s[len(waits_s) * 99 // 100]
    print(f"{len(waits_s)} answers: p50 {p50_s * 1000:.1f}, p99 {p99_s * 1000:.1f}, max {waits_s[-1] * 1000:.1f} ms")
    return waits_s


def test_hostile_frames_do_not_flood_the_log_and_others_are_answered(process: MeasuredBroker) -> None:
    """A short sample of the next test: how long others wait is printed here and judged there, on a quiet machine."""
    lines_before, started_s = process.lines_about("closing the connection"), time.monotonic()
    assert len(waits_under_hostile_frames(process, 2000)) > 100
    lines = process.lines_about("closing the connection")
    assert lines > 0, "maybe all of them of a test before: its lines count in the same second"
    assert lines - lines_before <= LINES_PER_SECOND * (2 + time.monotonic() - started_s)


@pytest.mark.long
def test_others_wait_little_while_sixty_thousand_hostile_frames_come(process: MeasuredBroker) -> None:
    waits_s = waits_under_hostile_frames(process, 60_000)
    assert waits_s[len(waits_s) * 99 // 100] < 0.1


# -- clients that take for ever ----------------------------------------------------------------------------------------


@pytest.fixture
def impatient(heard: Heard) -> Iterator[KafkaBroker]:
    with KafkaBroker({"connections.max.idle.ms": IDLE_MS}, seed=1) as broker:
        fill(broker.bootstrap_servers, LEDGER, 20, MIB // 2)
        yield broker
    assert heard.wrong == []


def test_a_client_that_drips_a_request_for_ever_is_closed(impatient: KafkaBroker) -> None:
    with connect(impatient.bootstrap_servers) as link:
        link.sendall(struct.pack(">i", MIB))
        ended = drained(link, 0.01)
        end_s = time.monotonic() + HANG_S
        while ended == "waits" and time.monotonic() < end_s:
            send(link, b"x")
            ended = drained(link, 0.02)
        assert ended == "closed"


def test_a_client_that_never_reads_what_it_fetched_is_closed(impatient: KafkaBroker) -> None:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=MIB)
    fetch = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic=LEDGER, partitions=[wanted])])
    frame = framed(b"".join(encode_request(fetch, version=11, correlation_id=3, client_id="deaf")))
    with connect(impatient.bootstrap_servers) as link:
        send(link, frame * 50)
        ended = select.poll()
        ended.register(link, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
        assert ended.poll(HANG_S * 1000)


# -- bombs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", CODECS, ids=lambda each: each.label)
def test_a_bomb_is_refused_and_takes_a_bounded_part_of_memory(
    process: MeasuredBroker, compression: Compression
) -> None:
    bomb = bombs(compression)
    with process.within(BOMB_LIMIT_BYTES), connect(process.bootstrap_servers) as link:
        for _ in range(3):
            answer = asked(link, produce(LEDGER, bomb), 9).responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset) == (InvalidRecord.code, -1)


@pytest.mark.parametrize("compression", CODECS, ids=lambda each: each.label)
def test_what_compresses_well_is_no_bomb(process: MeasuredBroker, compression: Compression) -> None:
    size_bytes = (12 if compression is Compression.SNAPPY else 100) * MIB
    batch = made_batch(compression, [bytes(size_bytes)])
    with process.within(BOMB_LIMIT_BYTES), connect(process.bootstrap_servers) as link:
        answer = asked(link, produce(LEDGER, batch), 9).responses[0].partition_responses[0]
        assert answer.error_code == 0, answer


def test_a_request_of_many_large_batches_holds_up_nobody(process: MeasuredBroker) -> None:
    batch = memoryview(made_batch(Compression.GZIP, [bytes(30 * MIB)]))  # a tenth of a second to look at
    data = [PartitionProduceData(index=0, records=batch) for _ in range(30)]
    topics = [TopicProduceData(name=LEDGER, partition_data=data)]
    request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=1000, topic_data=topics)
    servers = process.bootstrap_servers
    with process.within(BOMB_LIMIT_BYTES), connect(servers) as link, Others(servers) as others:
        before = others.answered
        answer = asked(link, request, 9)
        in_between = others.answered - before
    outcomes = answer.responses[0].partition_responses
    assert {one.error_code for one in outcomes} == {0}
    assert [one.base_offset for one in outcomes] == list(range(outcomes[0].base_offset, outcomes[0].base_offset + 30))
    print(f"others got {in_between} answers and waited {others.longest_s * 1000:.0f} ms at most")
    assert in_between >= len(outcomes) // 3, "others are answered between its batches"


def bombs(compression: Compression) -> bytes:
    """A batch of less than a megabyte, its checksum right, that would be more than the limit when decompressed."""
    payload = compress(compression, bytes(DECOMPRESSED_LIMIT_BYTES + MIB))
    if compression is Compression.SNAPPY:  # 22:1 is the best it can do, so it has to lie about its size
        payload = b"\xff\xff\xff\xff\x07" + compress(compression, bytes(MIB))[20:]
    batch = bytearray(made_batch(compression, [b""])[:HEADER_BYTES]) + payload
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    assert len(batch) < MIB
    return bytes(batch)
