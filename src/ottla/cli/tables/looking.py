"""The verbs of `ottla table` for people: describe, check, drop."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ottla.cli.connecting import confirmed, ensure, output_of, pairs, sentences
from ottla.cli.output import FAILED, OK, Failure, hint
from ottla.cli.tables.common import cluster_of, ensure_library, overrides_of, storage_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.table_settings import TableSettings
    from ottla.tables.cluster import Cluster
    from ottla.tables.finding import TableSnapshot, TopicTable


def _tables(options: argparse.Namespace, cluster: Cluster, names: Sequence[str]) -> dict[str, TableSettings]:
    from ottla.table_settings import OFF

    overrides = overrides_of(options)
    found = {topic: each.replaced(overrides) for topic, each in cluster.tables(names or None).items()}
    missing = [name for name in names if found[name].ottla_table_mode == OFF]
    ensure(not missing, f"{', '.join(missing)} is not kept as a table: ottla table create {' '.join(missing)}")
    return {topic: each for topic, each in found.items() if each.ottla_table_mode != OFF}


def _where(options: argparse.Namespace, topic: str, settings: TableSettings) -> TopicTable:
    from ottla.tables.finding import table_of

    where = table_of(topic, settings, storage_of(options))
    ensure(where is not None, f"{topic} is not kept as a table")
    assert where is not None, "that was just looked at"
    return where


def run_describe(options: argparse.Namespace) -> int:
    ensure_library()
    out = output_of(options)
    with sentences(), cluster_of(options) as cluster:
        tables = _tables(options, cluster, options.names)
        seen = _last_seen(cluster, tables)
        shown = [_described(options, cluster, topic, tables[topic], seen.get(topic, {})) for topic in sorted(tables)]
    if options.format == "json":
        out.value(shown)
        return OK
    headings = ("TOPIC", "FORMAT", "MODE", "ROWS", "FILES", "BYTES", "BEHIND", "STATE", "LOCATION")
    out.table(headings, [tuple(each[name.lower()] for name in headings) for each in shown])
    for each in shown:
        for name in ("reason", "last_bad", "upkeep"):
            if each[name]:
                out.line(f"{each['topic']}: {name.replace('_', ' ')}: {each[name]}")
    if not shown:
        hint("no topic is kept as a table; ottla table create TOPIC makes one")
    return OK


def _last_seen(cluster: Cluster, topics: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What workers last said of their tables, beside the offsets of their group."""
    from ottla.errors import OttlaError
    from ottla.tables.process import GROUP, read_status

    try:
        found = cluster.admin().list_consumer_group_offsets(GROUP)
    except OttlaError:
        return {}
    seen: dict[str, dict[str, Any]] = {}
    for name, offset in found.items():
        if name.topic in topics and offset is not None and offset.metadata:
            seen[name.topic] = read_status(offset.metadata)
    return seen


def _described(
    options: argparse.Namespace, cluster: Cluster, topic: str, settings: TableSettings, seen: Mapping[str, Any]
) -> dict[str, Any]:
    from ottla.errors import OttlaError
    from ottla.tables.reach import other_topic

    found: dict[str, Any] = {
        "topic": topic,
        "format": settings.ottla_table_format,
        "mode": settings.ottla_table_mode,
        "location": settings.ottla_table_location,
        "state": seen.get("state", "no worker was seen"),
        "reason": seen.get("reason", ""),
        "last_bad": seen.get("last_bad", ""),
        "bad_records": seen.get("bad_records", 0),
        "upkeep": seen.get("upkeep", ""),
        **dict.fromkeys(("rows", "files", "bytes", "behind", "version", "epoch", "topic_id", "next_offsets")),
    }
    try:
        where = _where(options, topic, settings)
        found["location"] = where.location
        snapshot = where.snapshot()
    except OttlaError as error:
        return {**found, "reason": str(error)}
    except Exception as error:
        return {**found, "reason": f"the table cannot be read: {error}"}
    if snapshot is None:
        return found
    found |= {
        "rows": sum(file.rows for file in snapshot.files),
        "files": len(snapshot.files),
        "bytes": sum(file.size_bytes for file in snapshot.files),
        "version": snapshot.version,
        "columns": {field.name: str(field.type) for field in snapshot.schema},
    }
    if snapshot.marker is None:
        return {**found, "reason": "there is a table that no worker of ours has made"}
    described = cluster.describe(topic)
    ends = {partition: seen.last_stable for partition, seen in described.partitions.items()}
    known = snapshot.marker.next_offsets
    other = other_topic(snapshot.marker, described)
    return {
        **found,
        "epoch": snapshot.marker.epoch,
        "topic_id": snapshot.marker.topic_id,
        "next_offsets": dict(known),
        "behind": sum(max(0, end - known.get(partition, 0)) for partition, end in ends.items()),
        "reason": other.reason if other is not None else found["reason"],
    }


def run_check(options: argparse.Namespace) -> int:
    ensure_library()
    from ottla.tables.checking import check_table

    out = output_of(options)
    with sentences(), cluster_of(options) as cluster:
        settings = _tables(options, cluster, [options.name])[options.name]
        where = _where(options, options.name, settings)
        snapshot = _snapshot(where)
        found = check_table(where, snapshot, cluster)
    rows = [(each.partition, each.next_offset, each.rows, each.doubled, each.missing, each.strange) for each in found]
    out.table(("PARTITION", "NEXT OFFSET", "ROWS", "DOUBLED", "MISSING", "NOT IN THE LOG"), rows)
    bad = sum(each.doubled + each.strange for each in found)
    missing = sum(each.missing for each in found)
    if missing:
        out.line(
            f"{missing:,} records of the log have no row: bad records (dead letters, or skipped) have none, and others "
            "must have one"
        )
    return OK if not bad and not missing else FAILED


def _snapshot(where: TopicTable) -> TableSnapshot:
    try:
        snapshot = where.snapshot()
    except Exception as error:
        raise Failure(f"the table at {where.location} cannot be read: {error}") from None
    if snapshot is None or snapshot.marker is None:
        raise Failure(f"there is no table of ours at {where.location} yet; ottla table run makes it")
    return snapshot


def run_drop(options: argparse.Namespace) -> int:
    from ottla.cli.commands.config import changes_of
    from ottla.client.admin.configs import ConfigResource, ConfigResourceType

    ensure_library()
    with sentences(), cluster_of(options) as cluster:
        settings = _tables(options, cluster, [options.name])[options.name]
        where = _where(options, options.name, settings)
        what = "" if options.keep_files else f", and delete the table at {where.location}"
        if not confirmed(f"Keep {options.name} as a table no more{what}?", yes=options.yes):
            return FAILED
        if "ottla.table.mode" not in pairs(options.set, "--set"):
            resource = ConfigResource(ConfigResourceType.TOPIC, options.name)
            cluster.admin().incremental_alter_configs({resource: changes_of(["ottla.table.mode=off"], [])})
        if not options.keep_files:
            try:
                where.opened().drop()
            except Exception as error:
                raise Failure(f"the topic is kept as a table no more, and the table is still there: {error}") from None
    print(
        f"{options.name} is no table any more" + (f"; its files stay at {where.location}" if options.keep_files else "")
    )
    return OK
