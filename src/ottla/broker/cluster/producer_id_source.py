"""Where this broker's producer ids come from: blocks that the cluster hands out, fetched before they are needed."""

from __future__ import annotations

import logging
from typing import Protocol

from ottla.broker.coordinators.transactions.producer_ids import ProducerIdBlock, ProducerIdBlocks
from ottla.broker.requests.running import Background
from ottla.errors import OttlaError

log = logging.getLogger(__name__)


class Allocates(Protocol):
    """The part of a ClusterLink that is needed here."""

    async def allocate_producer_ids(self) -> ProducerIdBlock: ...


class ProducerIdSource:
    def __init__(self, link: Allocates, background: Background) -> None:
        self._link = link
        self._background = background
        self._blocks = ProducerIdBlocks()

    def next_id(self) -> int:
        """An id that nobody had before; raises CoordinatorLoadInProgress when a block has to come first."""
        try:
            return self._blocks.next_id()
        finally:
            self.fetch_block()

    def fetch_block(self) -> None:
        """Begin to fetch a block, if one is needed."""
        if self._blocks.request_block() is not None:
            self._background.start(self._fetch())

    async def _fetch(self) -> None:
        try:
            self._blocks.block_stored(await self._link.allocate_producer_ids())
        except OttlaError as error:
            log.warning("no block of producer ids: %s", error)
            self._blocks.request_failed()
