"""Topics that are made because a client, or a coordinator, needs them: one request at a time for each.

1. Clients ask again every few milliseconds until the topic is there. Only the first asks the controller; the next may
   when that one was answered.
2. A refusal is said once, and again when the reason is another one. That somebody else made the topic is no refusal.
"""

from __future__ import annotations

import logging
from typing import Final

from ottla.errors import TopicAlreadyExists

log = logging.getLogger(__name__)

REMEMBERED_LIMIT: Final = 1_000


class TopicsOnDemand:
    """Which topics are on their way, and why others could not be made."""

    def __init__(self) -> None:
        self._on_their_way: set[str] = set()
        self._refused: dict[str, str] = {}

    def begin(self, topic: str) -> bool:
        """False when the topic is on its way already."""
        if topic in self._on_their_way:
            return False
        self._on_their_way.add(topic)
        return True

    def ended(self, topic: str, refusal: object) -> None:
        """The topic is there, or was refused."""
        self._on_their_way.discard(topic)
        if refusal is None or isinstance(refusal, TopicAlreadyExists):
            self._refused.pop(topic, None)
            return
        reason = str(refusal)
        if self._refused.get(topic) == reason:
            return
        if len(self._refused) >= REMEMBERED_LIMIT:
            self._refused.clear()
        self._refused[topic] = reason
        log.warning("topic %s could not be made: %s", topic, reason)
