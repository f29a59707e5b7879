"""Topics of one cluster to another: the same records in the same partitions, once, and groups that can follow.

    result = mirror(spark, plan, source_admin, target_admin)

1. Every committed record is at the target once, in its order, with its key, value, headers and time, in the partition
   of the same number; also when the mirror was killed at any moment and started again with its checkpoint.
2. Offsets differ, because transactions leave markers; the topic of mapped offsets (MAP_TOPIC at the target) says which
   is which (offset_map.py), and consumer groups named in the plan are moved with it (group_moves.py).
3. Topics that are missing are made with the partitions and settings of the source, topics that have grown are grown,
   when a run begins, and when a task finds no place for its records: the batch is then run again. A mirror is the only
   writer of its topics at the target.
4. A mirror without a prefix into its own cluster would read what it writes, for ever: it is refused.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass, field
from ottla.spark.jobs.following import JobFailed, Watch, observed, run_stream, unwatched
from ottla.spark.jobs.group_moves import GroupMove, GroupMover
from ottla.spark.jobs.mirror_rows import RECORD_SCHEMA, MirrorRows, TargetPartitionMissing
from ottla.spark.jobs.reading import ReadPlan, client_options
from ottla.spark.jobs.tally import Totals
from ottla.spark.jobs.target_topics import make, mirror_target, own_settings, partition_counts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.client.admin.admin import Admin

log = logging.getLogger(__name__)

MAP_TOPIC: Final = "ottla-mirror-offsets"
MAP_SETTINGS: Final[Mapping[str, str]] = {
    # A group that stood still for longer than this begins at the earliest offset that is still mapped.
    "cleanup.policy": "compact,delete",
    "retention.ms": str(90 * 86_400_000),
}
MOVE_EVERY_S: Final = 10.0


class MirrorOfItself(OttlaError):
    """Source and target are the same cluster. Give --prefix, so that the mirror does not read what it writes."""


@dataclass(frozen=True, slots=True)
class MirrorPlan:
    """What to mirror, and where to."""

    reading: ReadPlan
    target: Mapping[str, object] = field(repr=False)
    """Settings of the client of the target cluster."""
    checkpoint: str
    prefix: str = ""
    groups: tuple[str, ...] = ()
    map_topic: str = MAP_TOPIC
    every: str | None = None

    def mirrors(self, topic: str) -> bool:
        """Whether a topic of the source is mirrored. What a mirror itself wrote is not, were it found by a pattern."""
        if self.reading.pattern is None:
            return topic in self.reading.topics
        is_ours = topic == self.map_topic or bool(self.prefix and topic.startswith(self.prefix))
        return not is_ours and re.fullmatch(self.reading.pattern, topic) is not None


@dataclass(frozen=True, slots=True)
class MirrorResult:
    """What a run did."""

    totals: Totals
    moves: tuple[GroupMove, ...] = ()


def mirror(
    spark: SparkSession,
    plan: MirrorPlan,
    source: Admin,
    target: Admin,
    *,
    watch: Watch = unwatched,
    monotonic: Callable[[], float] = time.monotonic,
) -> MirrorResult:
    """Bring the target up to date, or keep it so if the plan has a period."""
    cluster_id = source.describe_cluster().cluster_id
    if cluster_id == target.describe_cluster().cluster_id and not plan.prefix:
        raise MirrorOfItself(f"cluster {cluster_id}")
    prepare_target(plan, source, target)
    rows = spark.readStream.format("ottla").options(**plan.reading.options()).load()
    records = as_mirrored(observed(rows), plan, cluster_id)
    options = client_options(plan.target) | {"includeTimestamp": "true", "deliveryGuarantee": "exactly-once"}
    writer = records.writeStream.format("ottla").options(**options).option("checkpointLocation", plan.checkpoint)
    mover = _mover(plan, source, target, cluster_id)
    try:
        watched = _moving(plan, mover, watch, monotonic)
        totals = run_growing(
            lambda: run_stream(writer, plan.every, watched), lambda: prepare_target(plan, source, target)
        )
        moves = mover.move(plan.groups, plan.mirrors) if plan.groups else []
    finally:
        mover.close()
    return MirrorResult(totals, tuple(moves))


def run_growing(run: Callable[[], Totals], grow: Callable[[], bool]) -> Totals:
    """Run; when the source has grown meanwhile, let the target grow and go on. If it does not, that is the end."""
    before = Totals()
    while True:
        try:
            return before + run()
        except JobFailed as failed:
            if failed.kind != TargetPartitionMissing.__name__ or not grow():
                raise
            before += failed.totals


def prepare_target(plan: MirrorPlan, source: Admin, target: Admin) -> bool:
    """Make and grow what the target needs, and the topic of the map; returns whether there was anything to do."""
    topics = tuple(sorted(topic for topic in source.list_topics() if plan.mirrors(topic)))
    counts = {plan.prefix + topic: count for topic, count in partition_counts(source, topics).items()}
    wanted = mirror_target({**counts, plan.map_topic: 1}, partition_counts(target, (*counts, plan.map_topic)))
    settings = {plan.prefix + topic: each for topic, each in own_settings(source, topics).items()}
    make(target, wanted, settings | {plan.map_topic: dict(MAP_SETTINGS)})
    return bool(wanted.create or wanted.grow)


def as_mirrored(rows: DataFrame, plan: MirrorPlan, cluster_id: str) -> DataFrame:
    """The columns that the sink takes, with the rows of the map behind them."""
    from pyspark.sql import functions as f

    kept = rows if plan.reading.pattern is None else rows.where(~_is_ours(plan))
    columns = kept.select("key", "value", "headers", "topic", "partition", "timestamp", f.col("offset"))
    function: Any = MirrorRows(cluster_id, plan.prefix, plan.map_topic, dict(plan.target))
    return columns.mapInArrow(function, RECORD_SCHEMA)


def _is_ours(plan: MirrorPlan) -> Any:
    from pyspark.sql import functions as f

    topic = f.col("topic")
    is_map = topic == f.lit(plan.map_topic)
    return is_map | topic.startswith(plan.prefix) if plan.prefix else is_map


def _mover(plan: MirrorPlan, source: Admin, target: Admin, cluster_id: str) -> GroupMover:
    from ottla.client.consumer.consumer import Consumer

    settings = {**plan.target, "isolation.level": "read_committed", "enable.auto.commit": "false"}
    return GroupMover(
        source,
        target,
        cluster_id=cluster_id,
        prefix=plan.prefix,
        map_topic=plan.map_topic,
        make_consumer=lambda: Consumer(settings),
    )


def _moving(plan: MirrorPlan, mover: GroupMover, watch: Watch, monotonic: Callable[[], float]) -> Watch:
    """The watch of a mirror that goes on: groups move along now and then."""
    if plan.every is None or not plan.groups:
        return watch
    next_s = monotonic() + MOVE_EVERY_S

    def watched(totals: Totals) -> None:
        nonlocal next_s
        watch(totals)
        if monotonic() >= next_s:
            try:
                mover.move(plan.groups, plan.mirrors)
            except OttlaError as error:
                # The records matter more; the groups are moved with the next try, at the latest when the run ends.
                log.warning("groups were not moved this time: %s", error)
            next_s = monotonic() + MOVE_EVERY_S

    return watched
