"""A broker becomes what images of its cluster say: its parts, its partitions, and whom these lead or follow.

    await follower.begin(image)                           # at the start: everything
    unmade = await follower.apply(image, changes)         # what the changes are about; None: it may be anything

1. The image is the truth. What is on the disk and in none of its topics is set aside at the start, partitions are made
   where they are missing, and get their roles (replication/roles.py).
2. One image at a time: a change of ten thousand partitions pauses now and then, and the next one waits for its end.
3. What became true stays true, also when the disk was too full to make a topic's logs: whoever asked hears of it, and
   the logs are tried again until they are there. Without that the topic would have no leader before the next start.
4. What a broker that is alone cannot do (its disk failed) is its asker's to hear. In a cluster it is said in the log
   and stays with its partition: others may lead that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.broker.cluster.apply import apply_image, apply_moves, notify_groups
from ottla.broker.replication.roles import Moves, image_roles
from ottla.clock import Timer
from ottla.cluster.changes import AlterConfig, Change, RemoveTopic
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ALL_BROKERS
from ottla.errors import StorageExhausted

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)

TRY_AGAIN_MS: Final = 1_000.0


class ImageFollower:
    """See the module. Belongs to the broker's loop."""

    def __init__(self, broker: Broker, *, is_alone: bool = True) -> None:
        self._broker = broker
        self._is_alone = is_alone
        self._lock = asyncio.Lock()
        self._unmade: set[str] = set()  # topics whose logs are still to be made
        self._again: Timer | None = None

    @property
    def is_idle(self) -> bool:
        return not self._lock.locked()

    async def begin(self, image: ClusterImage) -> None:
        """Make the disk follow an image: with thousands of partitions that takes seconds."""
        async with self._lock:
            self._broker.take_image(image)
            await self._follow(image, None)

    async def apply(self, image: ClusterImage, changes: Sequence[Change] | None) -> Mapping[str, StorageExhausted]:
        """The image is true now, which these changes made; returns what the disk has no room for, by topic."""
        async with self._lock:
            before = self._broker.image
            if changes is None:
                changes = _anything(before, image)
            changed = apply_image(self._broker, image, changes)
            unmade = await self._follow(image, changed)
            notify_groups(self._broker, before, changes, changed)
            return unmade

    def stop(self) -> None:
        """Nothing is tried again."""
        if self._again is not None:
            self._again.cancel()
            self._again = None

    async def _follow(self, image: ClusterImage, topics: set[str] | None) -> Mapping[str, StorageExhausted]:
        broker = self._broker
        with broker.pacing.turn() as pace:
            now_ms = broker.clock.now_ms()
            if topics is None:
                await broker.replicas.set_unknown_aside(image, now_ms, pace)
            roles = image_roles(image, topics, list(broker.replicas), broker.id)
            moves = await broker.replicas.apply_roles(roles, image, now_ms, pace, are_orders=False)
            await apply_moves(broker, moves, pace)
        self._remember_unmade(moves, topics)
        for name, refused in moves.refused.items():
            if isinstance(refused, StorageExhausted):
                continue
            if self._is_alone:
                raise refused
            log.error("%s is not served from here: %s", name, refused)
        return moves.unmade

    def _remember_unmade(self, moves: Moves, topics: set[str] | None) -> None:
        for topic, error in moves.unmade.items():
            if topic not in self._unmade:
                log.warning("the logs of topic %s are not made yet, and will be tried again: %s", topic, error)
        tried = self._unmade if topics is None else topics
        self._unmade = (self._unmade - tried) | moves.unmade.keys()
        if self._unmade and self._again is None:
            self._again = self._broker.clock.call_later(TRY_AGAIN_MS, self._try_again)

    def _try_again(self) -> None:
        self._again = None
        self._broker.background.start(self._make_unmade())

    async def _make_unmade(self) -> None:
        async with self._lock:
            topics = self._unmade
            await self._follow(self._broker.image, topics)
        if made := sorted(topics - self._unmade):
            log.info("the logs of %s are made now", ", ".join(made))


def _anything(before: ClusterImage, after: ClusterImage) -> list[Change]:
    """What must be told where nobody knows how one image became the other: which topics are gone, and that the settings
    of all others may be different."""
    gone = [RemoveTopic(topic_id) for topic_id in before.names_by_id if topic_id not in after.names_by_id]
    return [*gone, AlterConfig(ALL_BROKERS, ())]
