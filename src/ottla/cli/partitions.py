"""Partitions as people write them: `clicks` is every partition of a topic, `clicks:3` one, `clicks:0,3` two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.cli.connecting import ensure
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.topics import PartitionDescription


def named(word: str) -> tuple[str, list[int] | None]:
    """A topic and its partitions; None is all of them."""
    topic, colon, numbers = word.partition(":")
    parts = numbers.split(",") if colon else []
    ensure(topic and all(part.isdigit() for part in parts), f"{word!r}: write TOPIC, TOPIC:3 or TOPIC:0,3")
    return topic, [int(part) for part in parts] if colon else None


def partitions_of(admin: Admin, words: Sequence[str]) -> dict[TopicPartition, PartitionDescription]:
    """The partitions that the words name, as they are now; all but internal ones when there is no word."""
    wanted = dict(map(named, words)) if words else dict.fromkeys(admin.list_topics())
    topics = admin.describe_topics(list(wanted)) if wanted else {}
    found: dict[TopicPartition, PartitionDescription] = {}
    for name, topic in sorted(topics.items()):
        there = {each.partition: each for each in topic.partitions}
        numbers = wanted[name]
        missing = set(numbers or ()) - set(there)
        ensure(not missing, f"{name} has no partition {', '.join(map(str, sorted(missing)))}")
        for number in sorted(there if numbers is None else numbers):
            found[TopicPartition(name, number)] = there[number]
    return found
