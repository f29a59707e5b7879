"""`ottla job`: ready-made jobs on Spark: archive, replay and mirror topics, and look at what is in them.

1. Spark runs in this process on all cores (local[*]) unless --master or --remote names another one.
2. While a job runs there is a line on a terminal; at the end a table, or JSON for programs.
3. A job that was stopped or killed is started again with the same words and goes on where it was.
4. Ctrl-C is how a job with --every ends: it finishes with its table.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.connecting import Verbs, add_format, add_verb, admin_of, ensure, output_of, sentences, settings_of
from ottla.cli.job_running import check_installed, frame_of, period, place, reading_of, running, target_settings, times
from ottla.cli.job_tables import print_compaction, print_moves, print_profiles, print_totals
from ottla.cli.output import OK
from ottla.light_dataclasses import replace

if TYPE_CHECKING:
    from ottla.spark.jobs.reading import ReadPlan

EXAMPLES: Final = """\
examples:
  ottla job archive clicks orders --to /data/archive           topics to Parquet; again: what is new
  ottla job archive --pattern 'web\\..*' --to s3a://bucket/web --hour --every 5m
  ottla job replay /data/archive --topic clicks --to clicks-again
  ottla job replay /data/archive --since 2026-11-01 --until 2026-11-02 -b other:9092
  ottla job mirror clicks --target other:9092 --checkpoint /data/mirror --groups billing,search
  ottla job mirror --pattern '.*' --target other:9092 --prefix eu. --checkpoint /data/mirror --every 5s
  ottla job profile clicks --top 5                             counts, sizes, keys, headers, fields of JSON
  ottla job compact-report clicks --json                       what compaction would save
"""
BATCH_RECORDS: Final = 1_000_000


def add_verbs(verbs: Verbs) -> None:
    _add_archive(verbs)
    _add_replay(verbs)
    _add_mirror(verbs)
    profile = add_verb(verbs, "profile", "what is in topics: counts, sizes, keys, JSON", run_profile, EXAMPLES)
    _add_topics(profile)
    _add_times(profile)
    profile.add_argument("--top", type=int, default=10, metavar="N", help="so many of the most frequent keys (10)")
    profile.add_argument("--no-fields", action="store_true", help="do not look into values for JSON: quicker")
    _add_spark(profile)
    report = add_verb(verbs, "compact-report", "what compaction would save", run_compact_report, EXAMPLES)
    _add_topics(report)
    _add_times(report)
    _add_spark(report)


def _add_archive(verbs: Verbs) -> None:
    archive = add_verb(
        verbs, "archive", "topics to Parquet, each record once; again: what is new", run_archive, EXAMPLES
    )
    _add_topics(archive)
    archive.add_argument("--to", required=True, metavar="DIR", help="where the archive is: a directory or an address")
    archive.add_argument("--hour", action="store_true", help="directories for hours too, not only for days")
    _add_copying(archive)
    _add_period(archive)
    _add_spark(archive)


def _add_replay(verbs: Verbs) -> None:
    replay = add_verb(verbs, "replay", "an archive back to topics, each record once", run_replay, EXAMPLES)
    replay.add_argument("archive", metavar="DIR", help="the archive")
    replay.add_argument("--topic", action="append", default=[], metavar="TOPIC", help="only this; may be repeated")
    replay.add_argument("--to", metavar="TOPIC", help="the topic to write (that which each record came from)")
    replay.add_argument(
        "--partitions",
        choices=("auto", "keep", "by-key"),
        default="auto",
        help="keep: as they were; by-key: as a producer does; auto: keep, if there are as many (auto)",
    )
    _add_times(replay)
    replay.add_argument("--checkpoint", metavar="DIR", help="where to note what is done (in the archive)")
    _add_batch(replay)
    _add_spark(replay)


def _add_mirror(verbs: Verbs) -> None:
    mirror = add_verb(verbs, "mirror", "topics of one cluster to another, with offsets mapped", run_mirror, EXAMPLES)
    _add_topics(mirror)
    mirror.add_argument("--target", required=True, metavar="HOST:PORT", help="brokers of the other cluster")
    mirror.add_argument("--target-config", type=Path, metavar="FILE", help="a file with client settings for it")
    mirror.add_argument(
        "--target-property", action="append", default=[], metavar="NAME=VALUE", help="one of them; may be repeated"
    )
    mirror.add_argument("--checkpoint", required=True, metavar="DIR", help="where to note what is done; keep it")
    mirror.add_argument("--prefix", default="", metavar="TEXT", help="the names of topics at the target begin with it")
    mirror.add_argument("--groups", default="", metavar="G1,G2", help="consumer groups to move along")
    _add_copying(mirror)
    _add_period(mirror)
    _add_spark(mirror)


def _add_topics(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topics", nargs="*", metavar="TOPIC")
    parser.add_argument("--pattern", metavar="REGEX", help="all topics whose whole name matches, instead of names")


def _add_times(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--since", metavar="TIME", help="records from this time on: 2026-11-01T00:00:00Z, -2h")
    parser.add_argument("--until", metavar="TIME", help="records before this time")


def _add_copying(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--read-uncommitted", action="store_true", help="also records of open and aborted transactions")
    parser.add_argument(
        "--allow-data-loss", action="store_true", help="go on when records were deleted before the job came"
    )
    _add_batch(parser)


def _add_batch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--batch-records", type=int, default=BATCH_RECORDS, metavar="N", help=f"of a batch at most ({BATCH_RECORDS:,})"
    )


def _add_period(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--every", metavar="TIME", help="go on with a batch each 5s, 1m ... (until caught up)")


def _add_spark(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("Spark")
    group.add_argument("--master", metavar="URL", help="where it runs: local[2], spark://host:7077, yarn (local[*])")
    group.add_argument("--remote", metavar="URL", help="a Spark Connect server: sc://host:15002")
    group.add_argument("--set", action="append", default=[], metavar="spark.x=y", help="a setting; may be repeated")
    packed = "packages for executors without ottla (ottla spark pack)"
    group.add_argument("--archive", dest="packed", metavar="FILE", help=packed)  # replay has an archive of its own
    add_format(parser)


# --- copy -----------------------------------------------------------------------------------------------------------


def run_archive(options: argparse.Namespace) -> int:
    reading = reading_of(options)
    every = period(options.every)
    with sentences():
        from ottla.spark.jobs.archive import archive
        from ottla.spark.jobs.archive_layout import ArchiveLayout

        layout = ArchiveLayout(place(options.to, options), by_hour=options.hour)
        with admin_of(options) as admin, running(options, "archive") as (spark, line):
            totals = archive(
                spark, reading, layout, every=every, count_partitions=lambda: _counts(admin, reading), watch=line.show
            )
    print_totals(output_of(options), totals)
    return OK


def run_replay(options: argparse.Namespace) -> int:
    since_ms, until_ms = times(options)
    ensure(options.batch_records > 0, "--batch-records must be above 0")
    with sentences():
        check_installed()
        from ottla.spark.jobs.archive_source import ArchiveSlice
        from ottla.spark.jobs.replay import ReplayPlan, replay

        path = place(options.archive, options)
        wanted = ArchiveSlice(path, tuple(options.topic), since_ms, until_ms, options.batch_records)
        checkpoint = None if options.checkpoint is None else place(options.checkpoint, options)
        plan = ReplayPlan(wanted, settings_of(options), options.to, options.partitions, checkpoint)
        with admin_of(options) as admin, running(options, "replay") as (spark, line):
            totals = replay(spark, plan, admin, watch=line.show)
    print_totals(output_of(options), totals)
    if not totals.rows:
        output_of(options).line("nothing was left to replay; to write it once more give another --checkpoint")
    return OK


def run_mirror(options: argparse.Namespace) -> int:
    reading = reading_of(options)
    every = period(options.every)
    target = target_settings(options)
    with sentences():
        check_installed()
        from ottla.client.admin.admin import Admin
        from ottla.spark.jobs.mirror import MirrorPlan, mirror

        groups = tuple(each.strip() for each in options.groups.split(",") if each.strip())
        checkpoint = place(options.checkpoint, options)
        plan = MirrorPlan(reading, target, checkpoint, options.prefix, groups, every=every)
        with admin_of(options) as source, Admin(target) as there, running(options, "mirror") as (spark, line):
            result = mirror(spark, plan, source, there, watch=line.show)
    out = output_of(options)
    if options.format == "json":
        out.value(result.totals.as_json() | {"groups": [each.as_json() for each in result.moves]})
        return OK
    print_totals(out, result.totals)
    print_moves(out, result.moves)
    return OK


def _counts(admin: Any, reading: ReadPlan) -> dict[str, int]:
    from ottla.spark.jobs.target_topics import partition_counts

    pattern = reading.pattern
    topics = (
        reading.topics if pattern is None else [each for each in admin.list_topics() if re.fullmatch(pattern, each)]
    )
    return partition_counts(admin, tuple(topics))


# --- look -----------------------------------------------------------------------------------------------------------


def run_profile(options: argparse.Namespace) -> int:
    ensure(options.top >= 0, "--top must be 0 or more")
    with frame_of(options, "profile") as frame:
        from ottla.spark.jobs.profile import ProfilePlan, profile

        plan = ProfilePlan(top_keys=options.top)
        found = profile(frame, replace(plan, field_limit=0) if options.no_fields else plan)
    print_profiles(output_of(options), found)
    return OK


def run_compact_report(options: argparse.Namespace) -> int:
    with frame_of(options, "compact-report") as frame:
        from ottla.spark.jobs.compact_report import compact_report

        found = compact_report(frame)
    print_compaction(output_of(options), found)
    return OK
