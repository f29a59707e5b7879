"""`ottla job`: ready-made jobs on Spark: archive, replay and mirror topics, and look at what is in them.

1. Spark runs in this process on all cores (local[*]) unless --master or --remote names another one.
2. While a job runs there is a line on a terminal; at the end a table, or JSON for programs.
3. A job that was stopped or killed is started again with the same words and goes on where it was.
4. Ctrl-C is how a job with --every ends: it finishes with its table.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.connecting import (
    Verbs,
    add_format,
    add_verb,
    admin_of,
    ensure,
    output_of,
    pairs,
    sentences,
    settings_of,
)
from ottla.cli.moments import duration_ms, milliseconds
from ottla.cli.output import OK, Failure
from ottla.cli.progress import Progress, bar
from ottla.cli.show import shown_bytes, shown_duration, shown_size, shown_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.spark.jobs.profile import Sizes, TopicProfile
    from ottla.spark.jobs.reading import ReadPlan
    from ottla.spark.jobs.tally import Totals

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
    add_format(parser)
    parser.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")


# --- copy ------------------------------------------------------------------------------------------------------------


def run_archive(options: argparse.Namespace) -> int:
    reading = reading_of(options)
    every = period(options.every)
    with sentences():
        from ottla.spark.jobs.archive import archive
        from ottla.spark.jobs.archive_layout import ArchiveLayout

        layout = ArchiveLayout(place(options.to, options), by_hour=options.hour)
        with admin_of(options) as admin, _running(options, "archive") as (spark, line):
            totals = archive(
                spark, reading, layout, every=every, count_partitions=lambda: _counts(admin, reading), watch=line.show
            )
    _print_totals(options, totals)
    return OK


def run_replay(options: argparse.Namespace) -> int:
    since_ms, until_ms = times(options)
    ensure(options.batch_records > 0, "--batch-records must be above 0")
    with sentences():
        _check_installed()
        from ottla.spark.jobs.archive_source import ArchiveSlice
        from ottla.spark.jobs.replay import ReplayPlan, replay

        path = place(options.archive, options)
        wanted = ArchiveSlice(path, tuple(options.topic), since_ms, until_ms, options.batch_records)
        checkpoint = None if options.checkpoint is None else place(options.checkpoint, options)
        plan = ReplayPlan(wanted, settings_of(options), options.to, options.partitions, checkpoint)
        with admin_of(options) as admin, _running(options, "replay") as (spark, line):
            totals = replay(spark, plan, admin, watch=line.show)
    _print_totals(options, totals)
    if not totals.rows:
        output_of(options).line("nothing was left to replay; to write it once more give another --checkpoint")
    return OK


def run_mirror(options: argparse.Namespace) -> int:
    reading = reading_of(options)
    every = period(options.every)
    target = target_settings(options)
    with sentences():
        _check_installed()
        from ottla.client.admin.admin import Admin
        from ottla.spark.jobs.mirror import MirrorPlan, mirror

        groups = tuple(each.strip() for each in options.groups.split(",") if each.strip())
        checkpoint = place(options.checkpoint, options)
        plan = MirrorPlan(reading, target, checkpoint, options.prefix, groups, every=every)
        with admin_of(options) as source, Admin(target) as there, _running(options, "mirror") as (spark, line):
            result = mirror(spark, plan, source, there, watch=line.show)
    if options.format == "json":
        output_of(options).value(result.totals.as_json() | {"groups": [each.as_json() for each in result.moves]})
        return OK
    _print_totals(options, result.totals)
    if result.moves:
        print()
        rows = [(*each.as_json().values(),) for each in result.moves]
        output_of(options).table(("GROUP", "TOPIC", "PARTITION", "SOURCE OFFSET", "TARGET OFFSET", "RESULT"), rows)
    return OK


def target_settings(options: argparse.Namespace) -> dict[str, object]:
    """Client settings of the other cluster: only what is said for it; those of the source do not count there."""
    chosen = argparse.Namespace(
        command_config=options.target_config, command_property=options.target_property, bootstrap_server=options.target
    )
    return settings_of(chosen, {})


def _counts(admin: Any, reading: ReadPlan) -> dict[str, int]:
    from ottla.spark.jobs.target_topics import partition_counts

    pattern = reading.pattern
    topics = (
        reading.topics if pattern is None else [each for each in admin.list_topics() if re.fullmatch(pattern, each)]
    )
    return partition_counts(admin, tuple(topics))


TOTALS: Final = ("ROWS", "BYTES", "BATCHES", "TIME", "ROWS/S", "BYTES/S", "LAG")


def _print_totals(options: argparse.Namespace, totals: Totals) -> None:
    out = output_of(options)
    if options.format == "json":
        out.value(totals.as_json())
        return
    sizes = (shown_size(totals.size_bytes), shown_size(totals.bytes_per_s))
    rates = (round(totals.rows_per_s), sizes[1])
    out.table(TOTALS, [(totals.rows, sizes[0], totals.batches, shown_duration(totals.elapsed_s), *rates, totals.lag)])


# --- look ------------------------------------------------------------------------------------------------------------


def run_profile(options: argparse.Namespace) -> int:
    ensure(options.top >= 0, "--top must be 0 or more")
    with _frame(options, "profile") as frame:
        from ottla.spark.jobs.profile import ProfilePlan, profile

        found = profile(frame, ProfilePlan(top_keys=options.top, field_limit=0 if options.no_fields else 200))
    out = output_of(options)
    if options.format == "json":
        out.value([each.as_json() for each in found])
        return OK
    out.table(PROFILE, [_profile_row(each) for each in found])
    for each in found:
        _print_lists(out, each)
    return OK


PROFILE: Final = (
    "TOPIC", "PARTITIONS", "RECORDS", "BYTES", "NULL KEYS", "NULL VALUES", "KEYS", "KEY BYTES", "VALUE BYTES", "FIRST",
    "LAST", "RECORDS/S",
)  # fmt: skip


def _profile_row(found: TopicProfile) -> tuple[object, ...]:
    rate = None if found.rate_per_s is None else round(found.rate_per_s, 1)
    return (
        found.topic, found.partitions, found.records, shown_size(found.size_bytes), found.null_keys, found.null_values,
        f"~{found.distinct_keys_about}", _sizes(found.keys), _sizes(found.values), shown_time(found.first_ms),
        shown_time(found.last_ms), rate,
    )  # fmt: skip


def _sizes(sizes: Sizes) -> str | None:
    """Least, mean, and what 99 of 100 do not pass."""
    if sizes.mean_bytes is None:
        return None
    return f"{sizes.min_bytes} / {sizes.mean_bytes:.0f} / {sizes.p99_bytes}"


def _print_lists(out: Any, found: TopicProfile) -> None:
    from ottla.spark.jobs.drift import drifts

    if found.top_keys:
        out.line("")
        out.table((f"KEY OF {found.topic}", "RECORDS"), [(shown_bytes(key), count) for key, count in found.top_keys])
    if found.headers:
        out.line("")
        out.table((f"HEADER OF {found.topic}", "RECORDS"), found.headers)
    if found.fields:
        out.line("")
        rows = [
            (each.name, each.type, each.records, shown_time(each.first_ms), shown_time(each.last_ms))
            for each in found.fields
        ]
        out.table((f"FIELD OF {found.topic}", "TYPE", "RECORDS", "FIRST", "LAST"), rows)
        for drift in drifts(found.fields):
            out.line(f"drift: {drift.name} {drift.sentence}")


def run_compact_report(options: argparse.Namespace) -> int:
    with _frame(options, "compact-report") as frame:
        from ottla.spark.jobs.compact_report import compact_report

        found = compact_report(frame)
    out = output_of(options)
    if options.format == "json":
        out.value([each.as_json() for each in found])
        return OK
    rows = [
        (
            each.topic, each.records, shown_size(each.size_bytes), each.keys, each.keyless_records,
            each.superseded_records, shown_size(each.superseded_bytes), each.tombstones, each.last_tombstones,
            f"{each.saved_share:.1%}",
        )
        for each in found
    ]  # fmt: skip
    headings = (
        "TOPIC",
        "RECORDS",
        "BYTES",
        "KEYS",
        "KEYLESS",
        "SUPERSEDED",
        "SAVED",
        "TOMBSTONES",
        "DELETED KEYS",
        "SHARE",
    )
    out.table(headings, rows)
    for each in found:
        if each.keyless_records:
            out.line(
                f"{each.topic}: {each.keyless_records:,} records have no key; a compacted topic refuses such records"
            )
    return OK


# --- what they have in common ----------------------------------------------------------------------------------------


def reading_of(options: argparse.Namespace) -> ReadPlan:
    """Which records, as the words say."""
    from ottla.spark.jobs.reading import ReadPlan

    ensure(options.topics or options.pattern, "which topics? Name them, or give --pattern")
    ensure(not (options.topics and options.pattern), "name topics or give --pattern, not both")
    batch_records = getattr(options, "batch_records", None)
    ensure(batch_records is None or batch_records > 0, "--batch-records must be above 0")
    since_ms, until_ms = times(options)
    return ReadPlan(
        settings_of(options),
        tuple(options.topics),
        options.pattern,
        isolation_level="read_uncommitted" if getattr(options, "read_uncommitted", False) else "read_committed",
        allow_data_loss=getattr(options, "allow_data_loss", False),
        since_ms=since_ms,
        until_ms=until_ms,
        batch_records=batch_records,
    )


def times(options: argparse.Namespace) -> tuple[int | None, int | None]:
    """The moments of --since and --until."""
    found = []
    for name in ("since", "until"):
        text = getattr(options, name, None)
        try:
            found.append(None if text is None else milliseconds(text))
        except ValueError as error:
            raise Failure(f"--{name} {text}: {error}") from None
    since_ms, until_ms = found
    ensure(since_ms is None or until_ms is None or since_ms < until_ms, "--since must be before --until")
    return since_ms, until_ms


def period(text: str | None) -> str | None:
    """The period of --every in Spark's words."""
    try:
        return None if text is None else f"{duration_ms(text)} milliseconds"
    except ValueError as error:
        raise Failure(f"--every {text}: {error}") from None


def place(path: str, options: argparse.Namespace) -> str:
    """A path as Spark takes it. One of this machine is made whole; a server knows better where its own are."""
    return path if "://" in path or options.remote is not None else str(Path(path).absolute())


class _Line:
    """The line of a job that runs."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def show(self, totals: Totals) -> None:
        if totals.lag is None:
            self._progress.reach(totals.rows)
            return
        share = totals.rows / (totals.rows + totals.lag) if totals.rows + totals.lag else 1.0
        self._progress.reach(totals.rows, f"{bar(share)} {share:4.0%}  lag {totals.lag:,}")


@contextmanager
def _running(options: argparse.Namespace, name: str) -> Iterator[tuple[SparkSession, _Line]]:
    """A session for as long as the job runs, and a line that tells how it goes."""
    _check_installed()
    ensure(not (options.master and options.remote), "give --master or --remote, not both")
    settings = pairs(options.set, "--set")
    from pyspark.errors import PySparkException

    from ottla.spark import session
    from ottla.spark.jobs.following import told

    with Progress(name, unit="records") as progress:
        progress.reach(0, "Spark is starting")
        try:
            spark = session(
                f"ottla job {name}", master=options.master, remote=options.remote, settings=settings, quiet=True
            )
            try:
                yield spark, _Line(progress)
            finally:
                spark.stop()
        except PySparkException as error:
            raise Failure(told(error)) from None


@contextmanager
def _frame(options: argparse.Namespace, name: str) -> Iterator[DataFrame]:
    """The records that the words ask for, as a frame, for as long as a job looks at them."""
    reading = reading_of(options)
    with sentences(), _running(options, name) as (spark, _):
        yield spark.read.format("ottla").options(**reading.options()).load()


def _check_installed() -> None:
    missing: Sequence[str] = [each for each in ("pyspark", "pyarrow") if find_spec(each) is None]
    ensure(not missing, f"{' and '.join(missing)} must be installed: pip install 'ottla[spark]'")
