"""What the jobs on Spark print at their end: tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.cli.show import shown_bytes, shown_duration, shown_size, shown_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.cli.output import Output
    from ottla.spark.jobs.compact_report import CompactReport
    from ottla.spark.jobs.group_moves import GroupMove
    from ottla.spark.jobs.profile import Sizes, TopicProfile
    from ottla.spark.jobs.tally import Totals

TOTALS: Final = ("ROWS", "BYTES", "BATCHES", "TIME", "ROWS/S", "BYTES/S", "LAG")
MOVES: Final = ("GROUP", "TOPIC", "PARTITION", "SOURCE OFFSET", "TARGET OFFSET", "RESULT")
PROFILE: Final = (
    "TOPIC", "PARTITIONS", "RECORDS", "BYTES", "NULL KEYS", "NULL VALUES", "KEYS", "KEY BYTES", "VALUE BYTES", "FIRST",
    "LAST", "RECORDS/S",
)  # fmt: skip
COMPACTION: Final = (
    "TOPIC", "RECORDS", "BYTES", "KEYS", "KEYLESS", "SUPERSEDED", "SAVED", "TOMBSTONES", "DELETED KEYS", "SHARE",
)  # fmt: skip


def print_totals(out: Output, totals: Totals) -> None:
    if out.form == "json":
        out.value(totals.as_json())
        return
    row = (
        totals.rows, _size(totals.size_bytes), totals.batches, shown_duration(totals.elapsed_s),
        round(totals.rows_per_s), _size(totals.bytes_per_s), totals.lag,
    )  # fmt: skip
    out.table(TOTALS, [row])


def _size(size_bytes: float | None) -> str | None:
    return None if size_bytes is None else shown_size(size_bytes)


def print_moves(out: Output, moves: Sequence[GroupMove]) -> None:
    if moves:
        out.line("")
        out.table(MOVES, [tuple(each.as_json().values()) for each in moves])


def print_profiles(out: Output, found: Sequence[TopicProfile]) -> None:
    if out.form == "json":
        out.value([each.as_json() for each in found])
        return
    out.table(PROFILE, [_profile_row(each) for each in found])
    for each in found:
        _print_lists(out, each)


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


def _print_lists(out: Output, found: TopicProfile) -> None:
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


def print_compaction(out: Output, found: Sequence[CompactReport]) -> None:
    if out.form == "json":
        out.value([each.as_json() for each in found])
        return
    out.table(COMPACTION, [_compaction_row(each) for each in found])
    for each in found:
        if each.keyless_records:
            out.line(
                f"{each.topic}: {each.keyless_records:,} records have no key; a compacted topic refuses such records"
            )


def _compaction_row(found: CompactReport) -> tuple[object, ...]:
    return (
        found.topic, found.records, shown_size(found.size_bytes), found.keys, found.keyless_records,
        found.superseded_records, shown_size(found.superseded_bytes), found.tombstones, found.last_tombstones,
        f"{found.saved_share:.1%}",
    )  # fmt: skip
