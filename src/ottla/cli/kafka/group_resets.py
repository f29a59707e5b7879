"""Where `kafka-consumer-groups --reset-offsets` takes a group: one scenario for all partitions that are meant.

1. Only a group without members is moved; of another one the state is told, and nothing is done.
2. An offset before the beginning or behind the end becomes the beginning or the end.
3. Every partition must exist and have a leader, else nothing is moved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.kafka.ends import warn
from ottla.cli.kafka.group_commands import SCENARIOS, listed
from ottla.cli.kafka.group_tables import print_error
from ottla.cli.kafka.java_maps import partition_order
from ottla.cli.kafka.parser import Options
from ottla.cli.moments import duration_ms
from ottla.cli.operations.offsets import begins_of, brought_inside, ends_of, offsets_at
from ottla.errors import GroupIdNotFound, LeaderNotAvailable, OttlaError, UnknownTopicOrPartition
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin

INACTIVE: Final = ("Empty", "Dead")
Committed = Mapping[TopicPartition, Any]
"""What a group has committed."""


def new_offsets(admin: Admin, options: Options, group: str) -> dict[TopicPartition, int]:
    """The offsets that the options ask for; none for a group that has members."""
    try:
        state = admin.describe_consumer_groups([group])[group].state
    except GroupIdNotFound:
        state = INACTIVE[0]
    if not is_inactive(group, state):
        return {}
    partitions = _scope(admin, options, group)
    check_partitions(admin, partitions)
    return targets(admin, options, group, partitions, lambda: admin.list_consumer_group_offsets(group))


def is_inactive(group: str, state: str) -> bool:
    """Whether a group may be moved; of one that may not it is told."""
    if state in INACTIVE:
        return True
    print_error(f"Assignments can only be reset if the group '{group}' is inactive, but the current state is {state}.")
    return False


def _scope(admin: Admin, options: Options, group: str) -> list[TopicPartition]:
    if options.has("all-topics"):
        return list(admin.list_consumer_group_offsets(group))
    if options.has("topic"):
        return existing_partitions(admin, options.values("topic"))
    if not options.has("from-file"):
        options.wrong("One of the reset scopes should be defined: --all-topics, --topic.")
    return []


def existing_partitions(admin: Admin, words: Sequence[str]) -> list[TopicPartition]:
    """Partitions of TOPIC and TOPIC:0,1 words; a topic that does not exist is an error."""
    found, unknown = named_partitions(admin, words)
    for error in unknown.values():
        raise error
    return found


def named_partitions(
    admin: Admin, words: Sequence[str]
) -> tuple[list[TopicPartition], dict[TopicPartition, OttlaError]]:
    """Partitions of TOPIC and TOPIC:0,1 words; topics that do not exist with their errors, as partition -1."""
    found: list[TopicPartition] = []
    unknown: dict[TopicPartition, OttlaError] = {}
    for word in words:
        if ":" in word:
            found += _partitions_of(word)
    for word in words:
        if ":" not in word:
            try:
                topic = admin.describe_topics([word])[word]
            except UnknownTopicOrPartition as error:
                unknown[TopicPartition(word, -1)] = error
            else:
                found += [TopicPartition(word, each.partition) for each in topic.partitions]
    return list(dict.fromkeys(found)), unknown


def _partitions_of(word: str) -> list[TopicPartition]:
    topic, _, numbers = word.partition(":")
    if not topic or not numbers or ":" in numbers:
        raise ValueError(f"Invalid topic arg '{word}', expected topic name and partitions")
    found = []
    for each in numbers.split(","):
        if not each.lstrip("-").isdigit():
            raise ValueError(f"Invalid partition '{each}' specified in topic arg '{word}''")
        found.append(TopicPartition(topic, int(each)))
    return found


def check_partitions(admin: Admin, partitions: Collection[TopicPartition]) -> None:
    """Raise unless all of them exist and have leaders."""
    if not partitions:
        return
    topics = admin.describe_topics({each.topic for each in partitions})
    leaders = {
        TopicPartition(name, each.partition): each.leader for name, topic in topics.items() for each in topic.partitions
    }
    if missing := [str(each) for each in partitions if each not in leaders]:
        raise UnknownTopicOrPartition(f'The partitions "{",".join(missing)}" do not exist')
    if leaderless := [str(each) for each in partitions if leaders[each] is None]:
        raise LeaderNotAvailable(f'The partitions "{",".join(leaderless)}" have no leader')


def targets(
    admin: Admin,
    options: Options,
    group: str,
    partitions: Sequence[TopicPartition],
    committed: Callable[[], Committed],
) -> dict[TopicPartition, int]:
    """The offsets that the options ask for; what is committed is only asked for where it counts."""
    if options.has("to-offset"):
        return _in_range(admin, dict.fromkeys(partitions, options.number("to-offset") or 0))
    if options.has("to-earliest"):
        return begins_of(admin, partitions)
    if options.has("to-latest"):
        return ends_of(admin, partitions)
    if options.has("shift-by"):
        return _in_range(admin, _shifted(committed(), partitions, options.number("shift-by") or 0))
    if options.has("to-datetime"):
        return at_time(admin, partitions, java_moment_ms(options.text("to-datetime")))
    if options.has("by-duration"):
        return at_time(admin, partitions, _ago_ms(options.text("by-duration")))
    if options.has("from-file"):
        return _from_file(admin, options, group)
    if options.has("to-current"):
        return _current(admin, committed(), partitions)
    return options.wrong(f"Option '[reset-offsets]' requires one of the following scenarios: [{listed(SCENARIOS)}]")


def _in_range(admin: Admin, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    found = brought_inside(wanted, begins_of(admin, wanted), ends_of(admin, wanted))
    for each in partition_order(wanted):
        offset = found[each]
        if offset != wanted[each]:
            border = "higher than latest" if offset < wanted[each] else "lower than earliest"
            warn(
                f"New offset ({wanted[each]}) is {border} offset for topic partition {each}. "
                f"Value will be set to {offset}"
            )
    return found


def _shifted(committed: Committed, partitions: Sequence[TopicPartition], shift: int) -> dict[TopicPartition, int]:
    found = {}
    for each in partitions:
        place = committed.get(each)
        if place is None:
            raise ValueError(f"Cannot shift offset for partition {each} since there is no current committed offset")
        found[each] = place.offset + shift
    return found


def at_time(admin: Admin, partitions: Sequence[TopicPartition], moment_ms: int) -> dict[TopicPartition, int]:
    """The offsets of the first records at or after that time, or the ends."""
    found = offsets_at(admin, dict.fromkeys(partitions, moment_ms))
    late = [each for each in partition_order(found) if found[each] < 0]
    for each in late:
        print(
            f"\nWarn: Partition {each.partition} from topic {each.topic} is empty. Falling back to latest known offset."
        )
    return found | ends_of(admin, late)


def java_moment_ms(text: str) -> int:
    """yyyy-MM-ddTHH:mm:ss.SSS with a zone or none, which is UTC."""
    from datetime import datetime

    _, has_time, rest = text.partition("T")
    if not has_time:
        raise UnreadableTime(
            "java.text.ParseException: Error parsing timestamp. It does not contain a 'T' according to ISO8601 format"
        )
    zoned = text if any(mark in rest for mark in "+-Z") else text + "Z"
    try:
        if "." not in rest:
            raise ValueError("no milliseconds")
        return round(datetime.fromisoformat(zoned).timestamp() * 1000)
    except ValueError:
        raise UnreadableTime(f'java.text.ParseException: Unparseable date: "{zoned}"') from None


class UnreadableTime(OttlaError):
    """A time on the command line cannot be read."""


def _ago_ms(text: str) -> int:
    from ottla.clock import SystemClock

    try:
        return SystemClock().now_ms() - duration_ms(text)
    except ValueError:
        raise UnreadableTime("Text cannot be parsed to a Duration") from None


def _from_file(admin: Admin, options: Options, group: str) -> dict[TopicPartition, int]:
    plans = _read_plan(options.text("from-file"), options.values("group"))
    if group not in plans:
        print_error(f"No reset plan for group {group} found")
        return {}
    return _in_range(admin, plans[group])


def _read_plan(path: str, groups: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    """`topic,partition,offset` lines when one group is named, `group,topic,partition,offset` lines else."""
    import csv
    from pathlib import Path

    plans: dict[str, dict[TopicPartition, int]] = {}
    with Path(path).open(newline="") as file:
        for row in csv.reader(file):
            cells: list[Any] = [each.strip() for each in row]
            if len(cells) == 3 and len(groups) == 1:
                cells = [groups[0], *cells]
            if len(cells) != 4 or not (cells[2].isdigit() and cells[3].isdigit()):
                raise UnreadablePlan(f"{path}: {','.join(row)}")
            plans.setdefault(cells[0], {})[TopicPartition(cells[1], int(cells[2]))] = int(cells[3])
    return plans


class UnreadablePlan(OttlaError):
    """A line of the file of new offsets cannot be read."""


def _current(admin: Admin, committed: Committed, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    found = {each: place.offset for each in partitions if (place := committed.get(each)) is not None}
    return found | ends_of(admin, [each for each in partitions if each not in found])
