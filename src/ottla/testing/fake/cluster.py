"""What the fake cluster consists of: nodes, topics, groups, producers. Plain state; the answers read and change it."""

from __future__ import annotations

from typing import Any

from ottla.clock import Clock
from ottla.errors import UnknownTopicOrPartition
from ottla.light_dataclasses import dataclass, field
from ottla.protocol.api import APIS
from ottla.testing.fake.log import FakeLog
from ottla.values import Node, OffsetAndMetadata, TopicPartition

CLUSTER_ID = "b3R0bGEtZmFrZS0wMDAxMg"
FIRST_PRODUCER_ID = 1000
FIRST_TOPIC_ID = 1000


@dataclass(slots=True)
class FakeGroup:
    """A group has one member: whoever joined last."""

    member_id: str = ""
    generation: int = 0
    protocol: str = ""
    assignment: bytes = b""
    must_rejoin: bool = False
    topics: list[str] = field(default_factory=list)  # what the member of the new protocol subscribed to
    target: list[TopicPartition] | None = None  # what a test wants it to have; None is everything
    announced: list[TopicPartition] | None = None  # what it knows it has
    offsets: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)


@dataclass(slots=True)
class FakeTransaction:
    """What the coordinator knows of one transactional id."""

    producer_id: int
    epoch: int
    partitions: set[TopicPartition] = field(default_factory=set)
    offsets: dict[str, dict[TopicPartition, OffsetAndMetadata]] = field(default_factory=dict)
    outcomes: list[str] = field(default_factory=list)  # "commit" and "abort", in order
    ended: tuple[int, int, bool] | None = None  # who ended the last one, and whether by a commit


@dataclass(slots=True)
class Session:
    """A fetch session: what was asked for, and which request comes next."""

    epoch: int
    wanted: dict[TopicPartition, Any]


class FakeCluster:
    """Everything there is."""

    def __init__(self, *, nodes: int, clock: Clock, auto_create: bool, transaction_version: int) -> None:
        self.clock = clock
        self.auto_create = auto_create
        self.transaction_version = transaction_version
        self.nodes: dict[int, Node] = {}
        self.node_ids = list(range(1, nodes + 1))
        self.controller_id = 1
        self.coordinator_id = 1
        self.topics: dict[str, list[FakeLog]] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.groups: dict[str, FakeGroup] = {}
        self.transactions: dict[str, FakeTransaction] = {}
        self.sessions: dict[int, Session] = {}
        self.next_producer_id = FIRST_PRODUCER_ID
        self.next_number = 0
        self.versions: dict[str, tuple[int, int]] = {}

    # --- topics ---

    def create(self, topic: str, partitions: int) -> None:
        if topic in self.topics:
            raise ValueError(f"the topic {topic} exists already")
        leaders = [self.node_ids[index % len(self.node_ids)] for index in range(partitions)]
        self.topics[topic] = [FakeLog(leader) for leader in leaders]
        self.topic_ids[topic] = (FIRST_TOPIC_ID + self.number()).to_bytes(16, "big")

    def log(self, topic: str, partition: int) -> FakeLog:
        logs = self.topics.get(topic, [])
        if not 0 <= partition < len(logs):
            raise UnknownTopicOrPartition(f"{topic}-{partition}")
        return logs[partition]

    def name_of(self, name: str, topic_id: bytes) -> str:
        """The name of a topic that a request names by name or by id; empty when nobody has that id."""
        if name:
            return name
        return next((each for each, found in self.topic_ids.items() if found == bytes(topic_id)), "")

    # --- others ---

    def number(self) -> int:
        self.next_number += 1
        return self.next_number

    def group(self, group_id: str) -> FakeGroup:
        return self.groups.setdefault(group_id, FakeGroup())

    def new_producer_id(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id

    def offered(self, api: str) -> tuple[int, int]:
        """Smallest and largest version of an API that is told to clients."""
        row = next(row for row in APIS.values() if row.name == api)
        return self.versions.get(api, (row.advertised.min, row.advertised.max))
