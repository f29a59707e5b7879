"""`group:` of a source: how far the pipeline is, for everybody who looks at consumer groups.

    of every partition the position of that flow which is furthest behind

1. Several flows read one source, each at its own pace. Whoever sees the group at an offset may rely on it: what is
   before is done in every flow. A partition is shown when all flows know it, and nothing before all flows have said
   where they are: a first batch, or what the storage knows of them from an earlier run.
2. Positions come with Spark's progress reports, which follow the commit of a batch. They are committed by the process
   that runs the pipeline, once a second when they have moved; with them goes the note by which the console knows
   queries (source/group_commits.py), with how many steps forward this run has made.
3. A group that has members is refused before a row is read: they would fight with the pipeline about its offsets. A
   commit that fails later is a warning, and the next one is made instead: the pipeline is more important than its
   display.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

from ottla.client.admin.admin import Admin
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.spark.pipelines.flow_positions import known_positions
from ottla.spark.pipelines.plan import Plan
from ottla.spark.pipelines.storage import Storage
from ottla.spark.pipelines.topics import asking
from ottla.spark.pipelines.watching import Positions
from ottla.spark.source.group_commits import NOTE, TIMEOUT_S, GroupInUse
from ottla.spark.source.options import SourceOptions
from ottla.values import OffsetAndMetadata, TopicPartition

log = logging.getLogger(__name__)

EVERY_S: Final = 1.0


class SlowestFlow:
    """What a group shows: decided from the positions of the flows."""

    def __init__(self, flows: Collection[str]) -> None:
        self._known: dict[str, Positions] = {flow: {} for flow in flows}

    def note(self, flow: str, positions: Positions) -> None:
        """A flow has come so far; flows of others are passed over."""
        if flow in self._known and positions:
            self._known[flow] = positions

    def positions(self) -> dict[TopicPartition, int]:
        """Of each partition that all flows know."""
        first, *others = self._known.values()
        return {
            partition: min(position, *(other[partition] for other in others)) if others else position
            for partition, position in first.items()
            if all(partition in other for other in others)
        }


@dataclass(slots=True)
class _Shown:
    """One group, and what was committed to it last."""

    group: str
    admin: Admin
    slowest: SlowestFlow
    committed: Mapping[TopicPartition, int]
    steps: int = 0

    def refuse_members(self) -> None:
        try:
            found = self.admin.describe_consumer_groups([self.group], timeout=TIMEOUT_S)[self.group]
        except OttlaError as error:
            log.warning("the group %s is not known: %s", self.group, error)
            return
        if found.members:
            raise GroupInUse(self.group)

    def commit(self) -> None:
        positions = self.slowest.positions()
        if not positions or positions == self.committed:
            return
        note = NOTE.format(self.steps + 1)
        offsets = {partition: OffsetAndMetadata(offset, note) for partition, offset in positions.items()}
        try:
            self.admin.alter_consumer_group_offsets(self.group, offsets, timeout=TIMEOUT_S)
        except OttlaError as error:
            log.warning("offsets were not committed to group %s, the next ones will be: %s", self.group, error)
        else:
            self.committed, self.steps = positions, self.steps + 1


@contextmanager
def groups_shown(plan: Plan, listen: Callable[[Callable[[str, Positions], None]], None]) -> Iterator[None]:
    """While this is open the groups of the plan follow its flows; `listen` is given what is to be called with every
    flow's position."""
    if not plan.groups:
        yield
        return
    storage, flows = Storage(plan.storage), {flow.name: flow for flow in plan.flows}
    over = threading.Event()
    with ExitStack() as stack:
        shown = []
        for group in plan.groups:
            settings = SourceOptions.parse(group.options, streaming=True).client_settings("admin")
            slowest = SlowestFlow(group.flows)
            for name in group.flows:
                slowest.note(name, _of_topics(known_positions(storage, flows[name]), group.has))
            made = _Shown(group.name, stack.enter_context(Admin(asking(plan, settings))), slowest, {})
            made.refuse_members()
            shown.append(made)

        def note(flow: str, positions: Positions) -> None:
            for group, each in zip(plan.groups, shown, strict=True):
                each.slowest.note(flow, _of_topics(positions, group.has))

        def follow() -> None:
            while not over.wait(EVERY_S):
                for each in shown:
                    each.commit()

        listen(note)
        thread = threading.Thread(target=follow, name="groups", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            for each in shown:
                each.commit()


def _of_topics(positions: Positions, has: Callable[[str], bool]) -> dict[TopicPartition, int]:
    return {partition: offset for partition, offset in positions.items() if has(partition.topic)}
