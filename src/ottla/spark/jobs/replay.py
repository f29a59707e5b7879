"""An archive back to topics: the same records, in the same order, with the times, keys and headers they had.

    totals = replay(spark, ReplayPlan(ArchiveSlice("clicks-archive"), {"bootstrap.servers": "localhost:9092"}))

1. Every record of the archive is in the target exactly once, also when the job was killed and started again: the sink
   writes each batch in transactions and knows by a marker which of them are done. The checkpoint says which batch it
   is; a replay that is done writes nothing when it is started again.
2. The checkpoint is named for what is replayed and where to; a plan that differs in either begins again. It lies in the
   archive unless the plan names another place.
3. Within a partition records are in their old order. They keep the number of their partition when source and target
   have as many, or when it is asked for (target_topics.py).
4. Only batches that the archive has committed are read (archive_commits.py): one that is being written, or was cut
   short by a kill, waits for the next replay, and a warning says so.
5. A topic that stamps records itself (message.timestamp.type=LogAppendTime) gives them new times; nobody can help it.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass, field
from ottla.spark.jobs.archive_commits import ArchiveUnfinished, NotAnArchive
from ottla.spark.jobs.archive_layout import ArchiveLayout, read_topics
from ottla.spark.jobs.archive_source import NAME, ArchiveSlice, ArchiveSource
from ottla.spark.jobs.following import Watch, observed, run_stream, unwatched
from ottla.spark.jobs.reading import client_options
from ottla.spark.jobs.state_files import read_state
from ottla.spark.jobs.tally import Totals
from ottla.spark.jobs.target_topics import Placement, make, partition_counts, replay_target
from ottla.spark.running.interpreters import register_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.client.admin.admin import Admin

log = logging.getLogger(__name__)


class TopicNotArchived(OttlaError):
    """The archive does not have that topic. What it has is in its directories topic=…"""


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What to replay, and where to."""

    archive: ArchiveSlice
    settings: Mapping[str, object] = field(repr=False)
    """Of the client of the target cluster."""
    to: str | None = None
    """One topic for all records; without it each goes to the topic it came from."""
    placement: Placement = "auto"
    checkpoint: str | None = None

    def checkpoint_for(self, cluster_id: str | None) -> str:
        """Where this replay keeps its place."""
        if self.checkpoint is not None:
            return self.checkpoint
        one = self.archive
        said = [cluster_id, sorted(one.topics), one.since_ms, one.until_ms, self.to, self.placement]
        name = hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]
        return ArchiveLayout(one.path).state(f"replays/{name}")


def replay(spark: SparkSession, plan: ReplayPlan, admin: Admin, *, watch: Watch = unwatched) -> Totals:
    """Write what is not written yet; `admin` is one of the target cluster."""
    source = counts_of(spark, plan.archive)
    needed = {plan.to: max(source.values())} if plan.to is not None else source
    target = replay_target(needed, partition_counts(admin, needed), plan.placement)
    make(admin, target)
    register_source(spark, ArchiveSource)
    rows = spark.readStream.format(NAME).options(**plan.archive.options()).load()
    records = as_records(observed(rows), plan.to, keeps_partitions=target.keeps_partitions)
    options = client_options(plan.settings) | {"includeTimestamp": "true", "deliveryGuarantee": "exactly-once"}
    writer = records.writeStream.format("ottla").options(**options)
    checkpoint = plan.checkpoint_for(admin.describe_cluster().cluster_id)
    return run_stream(writer.option("checkpointLocation", checkpoint), None, watch)


def counts_of(spark: SparkSession, wanted: ArchiveSlice) -> dict[str, int]:
    """How many partitions the topics of the archive had: as the archive noted it, else as far as there are records."""
    index = wanted.index()
    seen = index.partition_counts
    if index.unfinished is not None:
        if not seen:
            raise ArchiveUnfinished(f"batch {index.unfinished} in {wanted.path}")
        log.warning("batch %d of the archive is not finished: replay again when it is", index.unfinished)
    if missing := sorted(set(wanted.topics) - seen.keys()):
        raise TopicNotArchived(f"topic {missing[0]!r} in {wanted.path}, or nothing of it in these times")
    if not seen:
        raise NotAnArchive(f"there is nothing of these times in {wanted.path}")
    noted = read_state(spark, ArchiveLayout(wanted.path).state("topics"))
    known = read_topics(noted) if noted is not None else {}
    return {topic: max(count, known.get(topic, 0)) for topic, count in seen.items()}


def as_records(rows: DataFrame, to: str | None, *, keeps_partitions: bool) -> DataFrame:
    """The columns that the sink takes."""
    from pyspark.sql import functions as f

    topic = f.col("topic") if to is None else f.lit(to)
    partition = ("partition",) if keeps_partitions else ()
    return rows.select("key", "value", "headers", topic.alias("topic"), *partition, "timestamp")
