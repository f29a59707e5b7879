"""`ottla topic`: make, list, describe, change, grow, trim and delete topics."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.connecting import Verbs, add_format, add_verb, admin_of, confirmed, ensure, output_of, pairs
from ottla.cli.moments import milliseconds
from ottla.cli.output import OK, Failure, hint
from ottla.cli.show import shown_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client.admin.admin import Admin
    from ottla.client.admin.configs import ConfigEntry, ConfigResource
    from ottla.client.admin.topics import TopicDescription
    from ottla.values import TopicPartition

SIZES_TIMEOUT_S: Final = 5.0
"""So long is waited for how large partitions are: the rest is known already."""
EXAMPLES: Final = """\
examples:
  ottla topic create clicks -p 6 -c retention.ms=86400000
  ottla topic list
  ottla topic describe clicks
  ottla topic alter clicks -c retention.ms=3600000 -d segment.bytes
  ottla topic add-partitions clicks --to 12
  ottla topic trim clicks --before 2026-11-01T00:00:00Z
  ottla topic delete clicks --yes
"""


def add_verbs(verbs: Verbs) -> None:
    create = add_verb(verbs, "create", "make topics", run_create, EXAMPLES)
    create.add_argument("names", nargs="+", metavar="TOPIC")
    create.add_argument("-p", "--partitions", type=int, metavar="N", help="how many (the cluster's default)")
    create.add_argument("-r", "--replication-factor", type=int, metavar="N", help="copies (the cluster's default)")
    create.add_argument("-c", "--config", action="append", default=[], metavar="NAME=VALUE", help="a setting")
    create.add_argument("--if-not-exists", action="store_true", help="be content with one that is there already")
    create.add_argument("--validate-only", action="store_true", help="only ask whether it would work")
    add_format(create)
    listing = add_verb(verbs, "list", "the names of all topics", run_list, EXAMPLES)
    listing.add_argument("--internal", action="store_true", help="those of the cluster itself too")
    add_format(listing)
    describe = add_verb(
        verbs, "describe", "partitions, leaders, replicas, offsets and settings", run_describe, EXAMPLES
    )
    describe.add_argument("names", nargs="+", metavar="TOPIC")
    describe.add_argument("--configs", action="store_true", help="all settings, not only those that were changed")
    add_format(describe)
    alter = add_verb(verbs, "alter", "change settings of topics", run_alter, EXAMPLES)
    alter.add_argument("names", nargs="+", metavar="TOPIC")
    alter.add_argument("-c", "--config", action="append", default=[], metavar="NAME=VALUE", help="set this")
    alter.add_argument("-d", "--delete", action="append", default=[], metavar="NAME", help="back to the default")
    grow = add_verb(verbs, "add-partitions", "grow a topic", run_add_partitions, EXAMPLES)
    grow.add_argument("name", metavar="TOPIC")
    grow.add_argument("--to", type=int, required=True, metavar="N", help="so many in all; there is no way back")
    trim = add_verb(verbs, "trim", "delete the oldest records", run_trim, EXAMPLES)
    trim.add_argument("name", metavar="TOPIC")
    trim.add_argument(
        "--before", required=True, metavar="WHERE", help="an offset, a time (2026-11-01T00:00:00Z, -2h), or `end`"
    )
    trim.add_argument("--partition", type=int, action="append", metavar="N", help="only here; may be repeated")
    trim.add_argument("-y", "--yes", action="store_true", help="do not ask")
    delete = add_verb(verbs, "delete", "delete topics with their records", run_delete, EXAMPLES)
    delete.add_argument("names", nargs="+", metavar="TOPIC")
    delete.add_argument("--if-exists", action="store_true", help="be content if there is none")
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask")


# --- make and delete -------------------------------------------------------------------------------------------------


def run_create(options: argparse.Namespace) -> int:
    from ottla.client.admin.topics import NewTopic

    configs = pairs(options.config, "--config")
    out = output_of(options)
    with admin_of(options) as admin:
        there = set(admin.list_topics(include_internal=True)) if options.if_not_exists else set()
        wanted = [
            NewTopic(name, options.partitions, options.replication_factor, configs)
            for name in options.names
            if name not in there
        ]
        made = admin.create_topics(wanted, validate_only=options.validate_only) if wanted else {}
    state = "would be made" if options.validate_only else "made"
    rows = [
        (name, "was there", None, None)
        if name not in made
        else (name, state, made[name].num_partitions, made[name].replication_factor)
        for name in options.names
    ]
    out.table(("TOPIC", "STATE", "PARTITIONS", "REPLICAS"), rows)
    return OK


def run_delete(options: argparse.Namespace) -> int:
    with admin_of(options) as admin:
        there = set(admin.list_topics(include_internal=True))
        missing = [name for name in options.names if name not in there]
        ensure(options.if_exists or not missing, f"there is no topic {', '.join(missing)}; nothing was deleted")
        wanted = [name for name in options.names if name in there]
        if wanted and confirmed(f"Delete {', '.join(wanted)} and all records in it?", yes=options.yes):
            admin.delete_topics(wanted)
            print(f"deleted {', '.join(wanted)}")
    return OK


def run_add_partitions(options: argparse.Namespace) -> int:
    with admin_of(options) as admin:
        admin.create_partitions({options.name: options.to})
    print(f"{options.name} has {options.to} partitions; records with keys may go elsewhere than before")
    return OK


# --- look ------------------------------------------------------------------------------------------------------------


def run_list(options: argparse.Namespace) -> int:
    from ottla.values import uuid_to_text

    with admin_of(options) as admin:
        listings = admin.list_topics(include_internal=options.internal)
    if options.format == "json":
        rows = [
            (each.name, uuid_to_text(each.topic_id) if each.topic_id else None, each.is_internal)
            for each in sorted(listings.values(), key=lambda each: each.name)
        ]
        output_of(options).table(("TOPIC", "ID", "INTERNAL"), rows)
    else:
        for name in sorted(listings):
            print(name)
        if not listings:
            hint("there are no topics; make one with `ottla topic create NAME`")
    return OK


def run_describe(options: argparse.Namespace) -> int:
    from ottla.cli.operations.configs import resource

    out = output_of(options)
    with admin_of(options) as admin:
        described = admin.describe_topics(options.names)
        resources = {name: resource("topic", name) for name in options.names}
        configs = _readable_configs(admin, resources.values())
        places = _places(admin, described)
        sizes = _sizes(admin, described)
    shown = []
    for name, topic in described.items():
        entries = configs.get(resources[name])
        settings = None
        if entries is not None:
            settings = {
                entry.name: entry.value
                for entry in entries.values()
                if options.configs or entry.source.name == "DYNAMIC_TOPIC_CONFIG"
            }
        shown.append(_shown(topic, settings, places, sizes))
    if options.format == "json":
        out.value(shown)
        return OK
    for number, each in enumerate(shown):
        if number:
            print()
        _print_topic(out, each)
    return OK


def _readable_configs(
    admin: Admin, resources: Iterable[ConfigResource]
) -> Mapping[ConfigResource, Mapping[str, ConfigEntry]]:
    """The settings of topics; those that may be described and not read are left out."""
    from ottla.cli.operations.outcomes import permitted
    from ottla.errors import TopicAuthorizationFailed

    return permitted(lambda: admin.describe_configs(resources), TopicAuthorizationFailed)


def _places(admin: Admin, described: dict[str, TopicDescription]) -> dict[TopicPartition, tuple[int, int]]:
    """Where partitions begin and end; those without a leader are left out."""
    from ottla.cli.operations.offsets import begins_of, ends_of, led_partitions

    led = led_partitions(described.values())
    begins, ends = begins_of(admin, led), ends_of(admin, led)
    return {each: (begins[each], ends[each]) for each in led}


def _sizes(admin: Admin, described: dict[str, TopicDescription]) -> dict[TopicPartition, int]:
    """Bytes of each partition at its leader; nothing when the brokers do not tell, or not soon."""
    from ottla.cli.operations.offsets import led_partitions
    from ottla.errors import OttlaError

    led = led_partitions(described.values())
    sizes: dict[TopicPartition, int] = {}
    try:
        directories = admin.describe_log_dirs(set(led.values()), partitions=list(led), timeout=SIZES_TIMEOUT_S)
    except OttlaError:
        return {}
    for broker in directories.values():
        for directory in broker.values():
            for partition, copy in directory.replicas.items():
                sizes[partition] = max(sizes.get(partition, 0), copy.size_bytes)
    return sizes


def _shown(
    topic: TopicDescription, settings: dict[str, Any] | None, places: dict[Any, Any], sizes: dict[Any, int]
) -> Any:
    from ottla.values import TopicPartition, uuid_to_text

    partitions = []
    for each in topic.partitions:
        begin, end = places.get(TopicPartition(topic.name, each.partition), (None, None))
        partitions.append(
            {
                "partition": each.partition,
                "leader": each.leader,
                "replicas": list(each.replicas),
                "in_sync": list(each.in_sync),
                "begin": begin,
                "end": end,
                "bytes": sizes.get(TopicPartition(topic.name, each.partition)),
            }
        )
    return {
        "topic": topic.name,
        "id": uuid_to_text(topic.topic_id) if topic.topic_id else None,
        "internal": topic.is_internal,
        "configs": settings,
        "partitions": partitions,
    }


def _print_topic(out: Any, topic: Any) -> None:
    partitions = topic["partitions"]
    records = sum((each["end"] or 0) - (each["begin"] or 0) for each in partitions)
    size = sum(each["bytes"] or 0 for each in partitions)
    amount = f"{len(partitions)} partitions, about {records:,} records, {shown_size(size)}"
    out.line(f"{topic['topic']}: {amount}, id {topic['id']}")
    if topic["configs"] is None:
        out.line("  settings are not shown: that takes a rule for DescribeConfigs on the topic")
    for name, value in sorted((topic["configs"] or {}).items()):
        out.line(f"  {name} = {value}")
    rows = [
        (
            each["partition"],
            each["leader"],
            ",".join(map(str, each["replicas"])),
            ",".join(map(str, each["in_sync"])),
            each["begin"],
            each["end"],
            each["bytes"],
        )
        for each in partitions
    ]
    out.table(("PARTITION", "LEADER", "REPLICAS", "IN SYNC", "BEGIN", "END", "BYTES"), rows)


# --- change ----------------------------------------------------------------------------------------------------------


def run_alter(options: argparse.Namespace) -> int:
    from ottla.cli.commands.config import changes_of
    from ottla.cli.operations.configs import resource

    changes = changes_of(options.config, options.delete)
    with admin_of(options) as admin:
        admin.incremental_alter_configs({resource("topic", name): changes for name in options.names})
    print(f"changed {', '.join(options.names)}")
    return OK


def run_trim(options: argparse.Namespace) -> int:
    from ottla.values import TopicPartition

    with admin_of(options) as admin:
        topic = admin.describe_topics([options.name])[options.name]
        there = [each.partition for each in topic.partitions]
        chosen = options.partition or there
        unknown = set(chosen) - set(there)
        ensure(not unknown, f"{options.name} has no partition {', '.join(map(str, sorted(unknown)))}")
        before = _before(admin, [TopicPartition(options.name, each) for each in chosen], options.before)
        question = f"Delete the records of {options.name} before {options.before}?"
        if confirmed(question, yes=options.yes):
            begins = admin.delete_records(before)
            for partition, offset in sorted(begins.items()):
                print(f"{partition} begins at {offset}")
    return OK


def _before(admin: Admin, partitions: list[TopicPartition], where: str) -> dict[TopicPartition, int]:
    from ottla.cli.operations.offsets import ends_of, offsets_at

    if where == "end":
        return dict.fromkeys(partitions, -1)
    if where.isdigit():
        # A partition that is not that long loses all it has; the others must not fail for it.
        ends = ends_of(admin, partitions)
        last = max(ends.values())
        ensure(
            int(where) <= last,
            f"no partition has an offset {where}: the longest ends at {last}. --before end deletes all records",
        )
        return {partition: min(int(where), end) for partition, end in ends.items()}
    try:
        moment_ms = milliseconds(where)
    except ValueError as error:
        raise Failure(f"--before {where}: {error}") from None
    # No record is as late as that time (-1): all of them are before it.
    return offsets_at(admin, dict.fromkeys(partitions, moment_ms))
