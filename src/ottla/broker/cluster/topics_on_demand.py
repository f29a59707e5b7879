"""Topics that are created because a client, or a coordinator, needs them: one attempt at a time for each.

1. Clients ask again every few milliseconds until the topic is there. Only the first begins an attempt; the next may
   when that one has ended.
2. A refusal is logged once, and again when the reason is another one. That somebody else created the topic is none.
3. A topic counts against the quota of the client that asked for it first; those of coordinators are nobody's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from ottla.broker.cluster.internal_topics import internal_topic_request
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import Background
from ottla.broker.settings import BrokerSettings
from ottla.cluster.image import ClusterImage
from ottla.cluster.topic_names import INTERNAL_TOPICS, is_legal_name
from ottla.errors import BrokerError, LeaderNotAvailable, OttlaError, TopicAlreadyExists
from ottla.protocol.messages.create_topics import CreatableTopic

log = logging.getLogger(__name__)

REMEMBERED_LIMIT: Final = 1_000


class Creates(Protocol):
    """The part of a ClusterLink that is needed here."""

    is_alone: bool

    async def create_topic(self, topic: CreatableTopic, asked_by: RequestContext | None = None) -> None: ...


class TopicsOnDemand:
    """Which topics are on their way, and why others could not be created."""

    def __init__(
        self,
        link: Creates,
        background: Background,
        *,
        settings: Callable[[], BrokerSettings],
        image: Callable[[], ClusterImage],
    ) -> None:
        self._link = link
        self._background = background
        self._settings = settings
        self._image = image
        self._being_created: set[str] = set()
        self._refused: dict[str, str] = {}

    @property
    def is_busy(self) -> bool:
        """Whether some are on their way."""
        return bool(self._being_created)

    def create_missing(self, names: Sequence[str], asked_by: RequestContext | None = None) -> dict[str, BrokerError]:
        """Begin to create topics that a client asked for; says of each that is not there yet why it must ask again."""
        if not self._settings().auto_create_topics_enable:
            return {}
        wanted = [name for name in names if is_legal_name(name)]
        for name in wanted:
            if name in INTERNAL_TOPICS:
                self.create_internal(name)
            else:
                self._begin(_with_defaults(name), asked_by)
        return {name: LeaderNotAvailable() for name in wanted if self._image().topic(name) is None}

    def create_internal(self, name: str) -> None:
        """Begin to create the topic of a coordinator."""
        brokers = len(self._image().active_brokers())
        self._begin(internal_topic_request(name, self._settings(), is_alone=self._link.is_alone, brokers=brokers))

    def create_described(self, topics: Iterable[CreatableTopic], asked_by: RequestContext) -> dict[str, str]:
        """Begin to create topics that a coordinator described for a client; returns why some could not be created the
        last time."""
        wanted = list(topics)
        for topic in wanted:
            self._begin(topic, asked_by)
        return {topic.name: self._refused[topic.name] for topic in wanted if topic.name in self._refused}

    def _begin(self, topic: CreatableTopic, asked_by: RequestContext | None = None) -> None:
        if topic.name not in self._being_created:
            self._being_created.add(topic.name)
            self._background.start(self._create(topic, asked_by))

    async def _create(self, topic: CreatableTopic, asked_by: RequestContext | None) -> None:
        try:
            await self._link.create_topic(topic, asked_by)
        except TopicAlreadyExists:
            self._refused.pop(topic.name, None)
        except OttlaError as error:
            self._remember(topic.name, str(error))
        else:
            self._refused.pop(topic.name, None)
        finally:
            self._being_created.discard(topic.name)

    def _remember(self, topic: str, reason: str) -> None:
        if self._refused.get(topic) == reason:
            return
        if len(self._refused) >= REMEMBERED_LIMIT:
            self._refused.clear()
        self._refused[topic] = reason
        log.warning("topic %s could not be created: %s", topic, reason)


def _with_defaults(name: str) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=[], configs=[])
