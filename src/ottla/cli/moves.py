"""Moves of replicas as values: what changes, what Kafka's tool reads and writes, and which settings slow them down.

{"version": 1, "partitions": [{"topic": "clicks", "partition": 0, "replicas": [1, 2, 3]}]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Final

from ottla.cli.output import Failure
from ottla.values import TopicPartition

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
RATES: Final = (LEADER_RATE, FOLLOWER_RATE)
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"
FILE_LIMIT_BYTES: Final = 16 << 20


def moved(
    current: Mapping[TopicPartition, Sequence[int]], wanted: Mapping[TopicPartition, Sequence[int]]
) -> dict[TopicPartition, list[int]]:
    """The partitions whose replicas, or their order, are to be others."""
    return {key: list(replicas) for key, replicas in sorted(wanted.items()) if list(replicas) != list(current[key])}


def file_text(wanted: Mapping[TopicPartition, Sequence[int]]) -> dict[str, Any]:
    """As kafka-reassign-partitions reads it."""
    partitions = [
        {"topic": key.topic, "partition": key.partition, "replicas": list(replicas)}
        for key, replicas in sorted(wanted.items())
    ]
    return {"version": 1, "partitions": partitions}


def read_moves(path: Path) -> dict[TopicPartition, list[int]]:
    """The moves of a file of that form; a Failure says what is wrong with it."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(FILE_LIMIT_BYTES + 1)
        if len(text) > FILE_LIMIT_BYTES:
            raise Failure(f"{path}: the file has more than {FILE_LIMIT_BYTES:,} characters")
        return parse_moves(json.loads(text))
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise Failure(f"{path}: {error}") from None


def parse_moves(value: Any) -> dict[TopicPartition, list[int]]:
    """The moves of a decoded file; ValueError says what is wrong."""
    if not isinstance(value, dict) or not isinstance(value.get("partitions"), list):
        raise ValueError('write {"version": 1, "partitions": [{"topic": ..., "partition": ..., "replicas": [...]}]}')
    if value.get("version", 1) != 1:
        raise ValueError(f"version {value['version']!r} is not known; this is version 1")
    found: dict[TopicPartition, list[int]] = {}
    for entry in value["partitions"]:
        key, replicas = _move(entry)
        if key in found:
            raise ValueError(f"{key} stands there twice")
        found[key] = replicas
    return found


def _move(entry: Any) -> tuple[TopicPartition, list[int]]:
    topic, partition, replicas = (
        (entry.get(word) for word in ("topic", "partition", "replicas")) if isinstance(entry, dict) else (None,) * 3
    )
    if not isinstance(topic, str) or not _is_number(partition) or not isinstance(replicas, list):
        raise ValueError(f"{entry!r} has no topic, partition and replicas")
    if not replicas or not all(map(_is_number, replicas)) or len(set(replicas)) < len(replicas):
        raise ValueError(f"{topic}-{partition}: replicas is a list of different broker ids")
    return TopicPartition(topic, int(partition or 0)), replicas


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def throttled(moves: Mapping[TopicPartition, tuple[Set[int], Set[int]]]) -> dict[str, dict[str, str]]:
    """The settings of each topic that name what is slowed; `moves` says from which brokers to which new ones each
    partition is copied."""
    leaders: dict[str, set[str]] = {}
    followers: dict[str, set[str]] = {}
    for key, (sources, targets) in moves.items():
        leaders.setdefault(key.topic, set()).update(f"{key.partition}:{each}" for each in sources)
        followers.setdefault(key.topic, set()).update(f"{key.partition}:{each}" for each in targets)
    return {
        topic: {LEADERS: ",".join(sorted(leaders[topic])), FOLLOWERS: ",".join(sorted(followers[topic]))}
        for topic in leaders
    }
