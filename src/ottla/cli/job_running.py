"""What the jobs on Spark have in common on the command line: their words, a session, and a line that tells how it goes.

1. Words are checked before Spark starts: it takes seconds, and a wrong word should not.
2. The session ends with the job, however it ends. Spark's errors leave as one sentence.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.cli.connecting import ensure, pairs, sentences, settings_of
from ottla.cli.moments import duration_ms, milliseconds
from ottla.cli.output import Failure
from ottla.cli.progress import Progress, bar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.spark.jobs.reading import ReadPlan
    from ottla.spark.jobs.tally import Totals

PARTS_PER_CORE: Final = 4


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


class JobLine:
    """The line of a job that runs."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def show(self, totals: Totals) -> None:
        if totals.lag is None:
            self._progress.reach(totals.rows)
            return
        share = totals.rows / (totals.rows + totals.lag) if totals.rows + totals.lag else 1.0
        self._progress.reach(totals.rows, f"{bar(share)} {share:4.0%}  lag {totals.lag:,}")


def _spark_settings(options: argparse.Namespace) -> dict[str, str]:
    """What the user set, and for this machine as many parts of a shuffle as suit it: Spark's 200 are a cluster's."""
    is_here = options.remote is None and (options.master or "local").startswith("local")
    ours = {"spark.sql.shuffle.partitions": str(PARTS_PER_CORE * (os.cpu_count() or 1))} if is_here else {}
    return ours | pairs(options.set, "--set")


@contextmanager
def running(options: argparse.Namespace, name: str) -> Iterator[tuple[SparkSession, JobLine]]:
    """A session for as long as the job runs, and a line that tells how it goes."""
    check_installed()
    ensure(not (options.master and options.remote), "give --master or --remote, not both")
    settings = _spark_settings(options)
    from pyspark.errors import PySparkException

    from ottla.spark import session
    from ottla.spark.jobs.following import reason_of

    with Progress(name, unit="records") as progress:
        progress.reach(0, "Spark is starting")
        try:
            spark = session(
                f"ottla job {name}",
                master=options.master,
                remote=options.remote,
                settings=settings,
                quiet=True,
                archive=options.packed,
            )
            try:
                yield spark, JobLine(progress)
            finally:
                spark.stop()
        except PySparkException as error:
            raise Failure(reason_of(error)) from None


@contextmanager
def frame_of(options: argparse.Namespace, name: str) -> Iterator[DataFrame]:
    """The records that the words ask for, as a frame, for as long as a job looks at them."""
    reading = reading_of(options)
    with sentences(), running(options, name) as (spark, _):
        yield spark.read.format("ottla").options(**reading.options()).load()


def check_installed() -> None:
    missing: Sequence[str] = [each for each in ("pyspark", "pyarrow") if find_spec(each) is None]
    ensure(not missing, f"{' and '.join(missing)} must be installed: pip install 'ottla[spark]'")


def target_settings(options: argparse.Namespace) -> dict[str, object]:
    """Client settings of the other cluster: only what is said for it; those of the source do not count there."""
    chosen = argparse.Namespace(
        command_config=options.target_config, command_property=options.target_property, bootstrap_server=options.target
    )
    return settings_of(chosen, {})
