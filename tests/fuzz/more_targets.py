"""Decoders above the ground floor: what peers say in logins and groups, and what stands in files and in ZooKeeper."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fuzz.targets import Target

from ottla.client.consumer.membership import subscriptions
from ottla.cluster.store.zookeeper import znodes
from ottla.errors import MalformedMessage, OttlaError
from ottla.net.sasl.oauthbearer_server import read_first
from ottla.net.sasl.plain import read_plain
from ottla.net.sasl.scram import ScramClient
from ottla.net.tls.der import DerError, children
from ottla.records.checksum import crc32c
from ottla.storage.directory.checkpoints import read_offsets
from ottla.storage.producers.snapshot import decode_snapshot
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

PATH = Path("/data/table")
HEAD = struct.Struct(">hI")  # of a snapshot: version, CRC of the rest
DECLARED: tuple[type[OttlaError], ...] = (OttlaError,)


def snapshot_with_its_sum(data: bytes) -> Any:
    """Hardly a damaged byte would get behind the sum."""
    return decode_snapshot(HEAD.pack(1, crc32c(data)) + data)


def snapshots() -> list[bytes]:
    entry = struct.pack(">qhiqiqiq", 7, 1, 5, 100, 3, 1_700_000_000_000, 0, -1)
    return [struct.pack(">i", 0), struct.pack(">i", 2) + entry * 2]


def table(data: bytes) -> Any:
    files = MemoryFiles()
    files.make_directory(PATH.parent)
    files.replace_bytes(PATH, data)
    return read_offsets(files, PATH)


def scram_client() -> ScramClient:
    return ScramClient("SCRAM-SHA-256", "alice", "pencil", random_bytes=lambda count: b"n" * count)


def scram_answers() -> list[bytes]:
    nonce = scram_client().first().rpartition(b"r=")[2]
    return [b"r=" + nonce + b"abc,s=c2FsdA==,i=4096\0v=AAAA", b"e=no\0"]


def scram_answer(data: bytes) -> Any:
    """Both answers of a server, one after the other."""
    client = scram_client()
    client.first()
    first, _, final = data.partition(b"\0")
    proof = client.answered(first)
    try:
        return client.answered(final)
    except OttlaError:
        return proof  # nobody who does not know the password comes further


def node(read: Callable[..., Any], *before: Any) -> Callable[[bytes], Any]:
    def decode(data: bytes) -> Any:
        return read(*before, znodes.Znode(data, 1, 1))

    return decode


def der(data: bytes) -> Any:
    """It raises an error of its own, which everybody who reads certificates catches."""
    try:
        return [children(content) for _, content in children(data)]
    except DerError as error:
        return str(error)


def more_targets() -> list[Target]:
    topics = {TopicPartition("orders", number) for number in range(3)}
    broker = b'{"version":5,"host":"h","port":9092,"endpoints":["PLAINTEXT://h:9092"],"rack":"r","features":{}}'
    return [
        Target("subscription", subscriptions.read_subscription, (MalformedMessage,), subscription_seeds),
        Target(
            "assignment",
            subscriptions.read_assignment,
            (MalformedMessage,),
            lambda: [subscriptions.write_assignment(topics)],
        ),
        Target("PLAIN login", read_plain, DECLARED, lambda: [b"\0alice\0secret", b"alice\0alice\0secret"]),
        Target("OAUTHBEARER login", read_first, DECLARED, lambda: [b"n,,\x01auth=Bearer abc.def.ghi\x01\x01"]),
        Target("SCRAM answer", scram_answer, DECLARED, scram_answers),
        Target("certificate", der, (), lambda: [bytes.fromhex("300c020101300702010216026869")]),
        Target("producer snapshot", snapshot_with_its_sum, DECLARED, snapshots),
        Target("checkpoint", table, DECLARED, lambda: [b"0\n2\na 1 5\nb 2 7\n", b"0\n0\n"]),
        Target("broker of ZooKeeper", node(znodes.read_broker, 3), DECLARED, lambda: [broker]),
        Target("controller of ZooKeeper", node(znodes.read_controller), DECLARED, lambda: [b'{"brokerid":1}']),
    ]


def subscription_seeds() -> list[bytes]:
    owned = frozenset({TopicPartition("orders", 1)})
    subscription = subscriptions.MemberSubscription(
        topics=frozenset({"orders", "clicks"}), owned=owned, generation=3, rack="r", user_data=b"x"
    )
    return [subscriptions.write_subscription(subscription)]
