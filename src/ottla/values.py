"""Small frozen values that everybody passes.

1. Values never change, compare by content and can be dictionary keys.
2. TopicPartition, Node and Header are named tuples: the dictionaries on the record path are keyed by them, and a
   tuple hashes and compares in C.
3. Offsets are int64 as on the wire; a range holds its first offset and not its last.
4. Kafka's text form of a uuid is 22 characters of URL-safe base64 without padding; inside Ottla a uuid is
   its 16 bytes, as on the wire: they are compared and hashed all day and printed rarely. Ids that Kafka keeps for
   itself are named below.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from typing import Final

from ottla.errors import InvalidSetting
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple

__all__ = [
    "METADATA_TOPIC_UUID",
    "ONE_UUID",
    "ZERO_UUID",
    "Address",
    "Header",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetRange",
    "TopicPartition",
    "is_reserved_uuid",
    "parse_address",
    "parse_addresses",
    "random_uuid",
    "uuid_from_text",
    "uuid_to_text",
]


class TopicPartition(NamedTuple):
    """One partition of one topic; printed the way Kafka names its directories."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Header(NamedTuple):
    """A name and bytes that travel with a record; names may repeat and their order is kept."""

    key: str
    value: bytes | None


class Address(NamedTuple):
    """Where to connect or listen; IPv6 hosts are kept without their brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Node(NamedTuple):
    """A broker as the cluster advertises it. Brokers we know only by address have negative ids."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)

    @property
    def is_bootstrap(self) -> bool:
        return self.id < 0

    def __str__(self) -> str:
        return f"{self.address} (id {self.id}, rack {self.rack})" if self.rack else f"{self.address} (id {self.id})"


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of one partition from `start` up to but not including `end`."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"an offset range goes from 0 or more upwards, not from {self.start} to {self.end}")

    def __len__(self) -> int:
        return self.end - self.start

    def __contains__(self, offset: int) -> bool:
        return self.start <= offset < self.end

    def intersection(self, other: OffsetRange) -> OffsetRange:
        """What both have; empty and placed at the later start when they have nothing in common."""
        start = max(self.start, other.start)
        return OffsetRange(start, max(start, min(self.end, other.end)))


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed position: the next offset to read, and what the committer wanted to remember."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None

    def __post_init__(self) -> None:
        if self.offset < 0:
            raise ValueError(f"a committed offset is 0 or more, not {self.offset}")


class OffsetAndTimestamp(NamedTuple):
    """The answer to "which is the first offset at or after this time"."""

    offset: int
    timestamp_ms: int
    leader_epoch: int | None = None


# --- uuids -----------------------------------------------------------------------------------------------------------

ZERO_UUID: Final = bytes(16)
"""No id."""

ONE_UUID: Final = bytes(15) + b"\1"
METADATA_TOPIC_UUID: Final = ONE_UUID
"""The id of the cluster metadata topic; Kafka gives it to no other."""

_RESERVED_BELOW: Final = 100
_TEXT_LENGTH: Final = 22


def uuid_to_text(uuid: bytes) -> str:
    """Kafka's text form: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> bytes:
    """Read Kafka's text form; ValueError says what is wrong with it."""
    try:
        uuid = base64.urlsafe_b64decode(text[:_TEXT_LENGTH] + "==")
    except ValueError:
        uuid = ZERO_UUID
    # Decoders overlook foreign characters and spare bits; two spellings of one id would be two keys in a dictionary.
    if len(uuid) != 16 or uuid_to_text(uuid) != text:
        raise ValueError(f"{text[:40]!r} is not a Kafka uuid: it must be {_TEXT_LENGTH} characters of URL-safe base64")
    return uuid


def is_reserved_uuid(uuid: bytes) -> bool:
    """Kafka keeps the first hundred ids for itself."""
    return int.from_bytes(uuid, "big") < _RESERVED_BELOW


def random_uuid(random_bytes: Callable[[int], bytes]) -> bytes:
    """A new id from the given random source (os.urandom, Random.randbytes).

    Ids whose text begins with a dash are drawn again, as Kafka does, because command lines take them for options.
    """
    for _ in range(100):
        drawn = bytearray(random_bytes(16))
        drawn[6], drawn[8] = drawn[6] & 0x0F | 0x40, drawn[8] & 0x3F | 0x80  # what RFC 4122 says of version 4
        uuid = bytes(drawn)
        if not is_reserved_uuid(uuid) and not uuid_to_text(uuid).startswith("-"):
            return uuid
    raise ValueError("the random source gave no usable uuid in 100 draws; it is not random")


# --- addresses -------------------------------------------------------------------------------------------------------

_PORT_LIMIT: Final = 65535


def parse_address(text: str) -> Address:
    """Read "host:port" or "[ipv6]:port"; InvalidSetting says what is wrong."""
    host, colon, port_text = text.strip().rpartition(":")
    if not colon:
        raise InvalidSetting(f"address {text!r} has no port; write host:port")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif "." in host and host.count(":") == 1 and "//" not in text:
        raise InvalidSetting(f"address {text!r} has two ports; write host:port")
    elif ":" in host:
        raise InvalidSetting(f"address {text!r} has a bare IPv6 host; write [{host}]:{port_text}")
    if not host or any(character in " \t[]/@," for character in host):
        raise InvalidSetting(f"address {text!r} has no usable host; write host:port")
    return Address(host, _parse_port(text, port_text))


def _parse_port(text: str, port_text: str) -> int:
    port = int(port_text) if port_text.isascii() and port_text.isdigit() and len(port_text) <= 5 else -1
    if not 0 <= port <= _PORT_LIMIT:
        raise InvalidSetting(f"address {text!r} has port {port_text!r}; a port is a number from 0 to {_PORT_LIMIT}")
    return port


def parse_addresses(addresses: str | Iterable[str]) -> list[Address]:
    """Read a comma-separated text or a list of addresses; order is kept, repeats are dropped, none is an error."""
    parts = addresses.split(",") if isinstance(addresses, str) else addresses
    found = [parse_address(part) for part in parts if part.strip()]
    if not found:
        raise InvalidSetting("no address is given; write one or more host:port, separated by commas")
    return list(dict.fromkeys(found))
