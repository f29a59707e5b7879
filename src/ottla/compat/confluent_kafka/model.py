"""The small values of confluent_kafka: nodes, states, kinds, and ids of topics."""

from __future__ import annotations

import base64
import enum
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar, overload

from ottla.compat.confluent_kafka.messages import Message, TopicPartition

E = TypeVar("E", bound=enum.Enum)
_BITS: Final = (1 << 64) - 1


class Ordered(enum.Enum):
    """An enumeration whose members can be sorted."""

    def __lt__(self, other: object) -> bool:
        return bool(self.value < other.value) if isinstance(other, type(self)) else NotImplemented


def member(value: Any, kind: type[E]) -> E:
    """A member, by itself, its name or its number."""
    if value is None:
        raise ValueError(f"Expected a {kind.__name__}, not None")
    if isinstance(value, kind):
        return value
    if not isinstance(value, str | int):
        raise TypeError(f"Expected a {kind.__name__}, its name or its number, not {value!r}")
    try:
        return kind[value.upper()] if isinstance(value, str) else kind(value)
    except KeyError:
        raise ValueError(f"{value!r} is no {kind.__name__}") from None


class Node:
    """A broker."""

    def __init__(self, id: int, host: str, port: int, rack: str | None = None) -> None:
        self.id = id
        self.id_string = str(id)
        self.host = host
        self.port = port
        self.rack = rack

    def __str__(self) -> str:
        rack = f"(Rack - {self.rack})" if self.rack else ""
        return f"({self.id}) {self.host}:{self.port} {rack}"


class ConsumerGroupTopicPartitions:
    """A group and some of its partitions."""

    def __init__(self, group_id: str, topic_partitions: list[TopicPartition] | None = None) -> None:
        self.group_id = group_id
        self.topic_partitions = topic_partitions


class ConsumerGroupState(Ordered):
    """What a group does now."""

    UNKNOWN = 0
    UNKOWN = UNKNOWN
    PREPARING_REBALANCING = 1
    COMPLETING_REBALANCING = 2
    STABLE = 3
    DEAD = 4
    EMPTY = 5


class ConsumerGroupType(Ordered):
    """The protocol of a group."""

    UNKNOWN = 0
    CONSUMER = 1
    CLASSIC = 2


class IsolationLevel(Ordered):
    """Whether records of open transactions count."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class ElectionType(Ordered):
    """Which replica may become leader."""

    PREFERRED = 0
    UNCLEAN = 1


class AcknowledgeType(enum.IntEnum):
    """What a share consumer says of a message."""

    ACCEPT = 1
    RELEASE = 2
    REJECT = 3


class TopicCollection:
    """Topics by their names."""

    def __init__(self, topic_names: list[str]) -> None:
        self.topic_names = topic_names


class TopicPartitionInfo:
    """A partition: its leader and its copies."""

    def __init__(self, id: int, leader: Node | None, replicas: list[Node], isr: list[Node]) -> None:
        self.id = id
        self.leader = leader
        self.replicas = replicas
        self.isr = isr


class Messages:
    """What one poll of a share consumer gave: a sequence that cannot be changed."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._records = list(messages)

    def records(self) -> list[Message]:
        return list(self._records)

    def count(self) -> int:
        return len(self._records)

    def is_empty(self) -> bool:
        return not self._records

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._records)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Messages: ...
    def __getitem__(self, index: int | slice) -> Message | Messages:
        found = self._records[index]
        return Messages(found) if isinstance(found, list) else found

    def __repr__(self) -> str:
        return f"Messages({self._records!r})"


class Uuid:
    """The id of a topic: 128 bits, as base64 text."""

    __slots__ = ("_least", "_most")

    def __init__(self, most_significant_bits: int, least_significant_bits: int) -> None:
        self._most = _signed(most_significant_bits)
        self._least = _signed(least_significant_bits)

    @classmethod
    def from_bytes(cls, data: bytes) -> Uuid:
        return cls(int.from_bytes(data[:8]), int.from_bytes(data[8:16]))

    def get_most_significant_bits(self) -> int:
        return self._most

    def get_least_significant_bits(self) -> int:
        return self._least

    def __str__(self) -> str:
        data = (self._most & _BITS).to_bytes(8) + (self._least & _BITS).to_bytes(8)
        return base64.b64encode(data).rstrip(b"=").decode()

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Uuid):
            return NotImplemented
        return (self._most, self._least) == (other._most, other._least)

    def __hash__(self) -> int:
        return hash((self._most, self._least))


def _signed(number: int) -> int:
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
