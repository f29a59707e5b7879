"""The batches before the newest one of a producer, read again from the log.

A snapshot has only the newest batch of each producer (its format is Kafka's), but a producer may repeat any of its last
BATCHES_KEPT. So whoever was loaded from a snapshot and is sent an older batch looks for it where it must be: in the
headers before the newest one.

1. Nothing is read before somebody sends such a batch; a start of many partitions costs nothing.
2. The walk goes backwards, window by window of the offset index, to the log start at most. It ends earlier with
   BATCHES_KEPT batches, or with a batch of another epoch of the producer.
3. One call looks at HEADERS_A_STEP headers at most, a few milliseconds. When that was not enough it is said
   (SearchGoesOn, a RequestTimedOut), and the retry that follows goes on where this one stopped.
4. Headers that cannot be read end the walk: what lies before them is as unknown as if it were deleted.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final

from ottla.errors import CorruptMessage, RequestTimedOut
from ottla.records import BatchInfo
from ottla.storage.log.log_end import LogEnd
from ottla.storage.log.log_segments import LogSegments
from ottla.storage.producers.entry import BATCHES_KEPT, BatchMetadata, ProducerBatch, ProducerEntry

HEADERS_A_STEP: Final = 500
SEARCHES_LIMIT: Final = 64

logger = logging.getLogger(__name__)


class SearchGoesOn(RequestTimedOut):
    """The log is still searched for an earlier batch of this producer.
    Send the batch again: the search goes on where it stopped."""


class BatchHistory:
    """Looks for earlier batches of producers in one log."""

    def __init__(self, end: LogEnd) -> None:
        self._end = end
        self._producers = end.producers
        self._searches: OrderedDict[int, _Search] = OrderedDict()

    def recall(self, entry: ProducerEntry, batch: ProducerBatch) -> None:
        """Let the state know the batches among which this one may be; SearchGoesOn when that takes another call.

        `entry` is that of the batch's producer (`ProducerState.lacks_batches_before`)."""
        search = self._searches.pop(batch.producer_id, None)
        if search is None or not search.is_of(entry, self._end.truncations):
            search = _Search(entry, self._end.truncations)
        if not search.step(self._end.segments, self._end.log_start_offset):
            self._searches[batch.producer_id] = search
            if len(self._searches) > SEARCHES_LIMIT:
                self._searches.popitem(last=False)
            raise SearchGoesOn(
                f"the batch of producer {batch.producer_id} with sequence {batch.first_sequence} is searched for in "
                f"the log and may be before offset {search.end_offset}; send it again"
            )
        self._producers.recalled(entry, search.found)


class _Search:
    """The walk for one producer: everything from `end_offset` on was seen."""

    def __init__(self, entry: ProducerEntry, truncations: int) -> None:
        self.end_offset = entry.batches[0].first_offset
        self.found: tuple[BatchMetadata, ...] = ()
        self._start_offset = self.end_offset
        self._producer_id = entry.producer_id
        self._epoch = entry.epoch
        self._truncations = truncations

    def is_of(self, entry: ProducerEntry, truncations: int) -> bool:
        """Whether it was begun for what is known now; a log that was cut may have other batches."""
        begun = self._epoch, self._start_offset, self._truncations
        return begun == (entry.epoch, entry.batches[0].first_offset, truncations)

    def step(self, segments: LogSegments, log_start_offset: int) -> bool:
        """Go on; True when the search is over."""
        looked_at = 0
        while looked_at < HEADERS_A_STEP:
            if self.end_offset <= log_start_offset:
                return True
            segment = segments.lower(self.end_offset)
            if segment is None:
                return True
            try:
                headers = segments.sound(segment, lambda each: each.headers_before(self.end_offset))
            except CorruptMessage as error:
                logger.warning("looking for batches of producer %d ends early: %s", self._producer_id, error)
                return True
            if not headers:
                self.end_offset = segment.base_offset
            for header in reversed(headers):
                if header.producer_id == self._producer_id and self._take(header):
                    return True
                self.end_offset = header.base_offset
            looked_at += len(headers) + 1
        return False

    def _take(self, header: BatchInfo) -> bool:
        """Take a batch of the producer; True when no earlier one is wanted."""
        if header.producer_epoch != self._epoch:
            return True
        if not header.is_control:
            last_offset = header.last_offset
            self.found = (
                BatchMetadata(
                    header.last_sequence, last_offset, last_offset - header.base_offset, header.max_timestamp_ms
                ),
                *self.found,
            )
        return len(self.found) >= BATCHES_KEPT - 1
