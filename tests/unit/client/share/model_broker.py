"""Two brokers as far as share consumers see them: sessions that count, offsets that are locked.

Every acknowledgement is checked as a broker does: its record must be acquired by this member.
"""

from __future__ import annotations

from ottla.errors import InvalidRecordState, InvalidShareSessionEpoch, ShareSessionNotFound
from ottla.protocol.messages import share_acknowledge, share_fetch
from ottla.protocol.messages.share_fetch import AcquiredRecords, ShareFetchableTopicResponse, ShareFetchResponse
from ottla.records import BatchBuilder, assign_offsets

LOCK_MS = 1000
AVAILABLE, ACQUIRED, DONE = "available", "acquired", "done"


class ModelPartition:
    """Without a clock locks never run out."""

    def __init__(self, length, clock=None, lock_ms=LOCK_MS):
        self.states = [AVAILABLE] * length
        self.deliveries = [0] * length
        self.locked_until_ms = [0.0] * length
        self.clock = clock
        self.lock_ms = lock_ms

    def _expire(self):
        if self.clock is not None:
            for offset, state in enumerate(self.states):
                if state == ACQUIRED and self.locked_until_ms[offset] <= self.clock.monotonic_ms():
                    self.states[offset] = AVAILABLE

    def _lock(self, offset):
        if self.clock is not None:
            self.locked_until_ms[offset] = self.clock.monotonic_ms() + self.lock_ms

    def acquire(self, limit):
        self._expire()
        found = [offset for offset, state in enumerate(self.states) if state == AVAILABLE][:limit]
        for offset in found:
            self.states[offset] = ACQUIRED
            self.deliveries[offset] += 1
            self._lock(offset)
        return found

    def acknowledge(self, batches):
        """The error code; nothing is changed when one of them is wrong."""
        self._expire()
        acks = [
            (offset, batch.acknowledge_types[0])
            for batch in batches
            for offset in range(batch.first_offset, batch.last_offset + 1)
        ]
        if any(self.states[offset] != ACQUIRED for offset, _ in acks):
            return InvalidRecordState.code
        for offset, ack in acks:
            self.states[offset] = {0: DONE, 1: DONE, 2: AVAILABLE, 3: DONE, 4: ACQUIRED}[ack]
            self._lock(offset)
        return 0

    def release_all(self):
        self.states = [AVAILABLE if state == ACQUIRED else state for state in self.states]


class ModelBroker:
    """One broker: its partitions by (topic id, index), and the session of one member."""

    def __init__(self, partitions, lock_ms=LOCK_MS):
        self.partitions = partitions
        self.lock_ms = lock_ms
        self.epoch = None
        self.session = set()
        self.fetched = 0

    def drop_session(self):
        """The connection was lost."""
        self.epoch, self.session = None, set()
        for partition in self.partitions.values():
            partition.release_all()

    def answer(self, request):
        code = self._next_epoch(request.share_session_epoch)
        if isinstance(request, share_acknowledge.ShareAcknowledgeRequest):
            return self._acknowledged(request, code)
        return self._fetched(request, code)

    def _next_epoch(self, epoch):
        if epoch == 0:
            if self.epoch is not None:
                self.drop_session()
            self.epoch = 1
            return 0
        if self.epoch is None:
            return ShareSessionNotFound.code
        if epoch == -1:
            return 0
        if epoch != self.epoch:
            return InvalidShareSessionEpoch.code
        self.epoch += 1
        return 0

    def _acknowledged(self, request, code):
        response = share_acknowledge.ShareAcknowledgeResponse(
            error_code=code, acquisition_lock_timeout_ms=self.lock_ms, responses=[], node_endpoints=[]
        )
        if code:
            return response
        renews = any(
            4 in batch.acknowledge_types
            for topic in request.topics
            for each in topic.partitions
            for batch in each.acknowledgement_batches
        )
        assert renews == request.is_renew_ack
        for topic in request.topics:
            found = [
                share_acknowledge.PartitionData(
                    partition_index=each.partition_index,
                    error_code=self.partitions[topic.topic_id, each.partition_index].acknowledge(
                        each.acknowledgement_batches
                    ),
                    current_leader=share_acknowledge.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1),
                )
                for each in topic.partitions
            ]
            answered = share_acknowledge.ShareAcknowledgeTopicResponse(topic_id=topic.topic_id, partitions=found)
            response.responses.append(answered)
        if request.share_session_epoch == -1:
            self.drop_session()
        return response

    def _fetched(self, request, code):
        response = ShareFetchResponse(
            error_code=code, acquisition_lock_timeout_ms=self.lock_ms, responses=[], node_endpoints=[]
        )
        if code:
            return response
        self.fetched += 1
        acknowledged = {}
        for topic in request.topics:
            for each in topic.partitions:
                key = topic.topic_id, each.partition_index
                self.session.add(key)
                if each.acknowledgement_batches:
                    assert request.share_session_epoch, "nothing can be acknowledged with the first fetch"
                    acknowledged[key] = self.partitions[key].acknowledge(each.acknowledgement_batches)
        for topic in request.forgotten_topics_data:
            self.session -= {(topic.topic_id, index) for index in topic.partitions}
        left = request.max_records
        for key in sorted(self.session | acknowledged.keys()):
            offsets = self.partitions[key].acquire(left) if key in self.session else []
            left -= len(offsets)
            if offsets or key in acknowledged:
                response.responses.append(self._data(key, offsets, acknowledged.get(key, 0)))
        return response

    def content(self, partition):
        """What is in the log of a partition; a test may put something else there."""
        return batch(len(partition.states))

    def _data(self, key, offsets, acknowledge_code):
        partition = self.partitions[key]
        acquired = [
            AcquiredRecords(first_offset=each, last_offset=each, delivery_count=partition.deliveries[each])
            for each in offsets
        ]
        content = self.content(partition) if offsets else b""
        data = share_fetch.PartitionData(
            partition_index=key[1],
            error_code=0,
            acknowledge_error_code=acknowledge_code,
            current_leader=share_fetch.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1),
            records=content,
            acquired_records=acquired,
        )
        return ShareFetchableTopicResponse(topic_id=key[0], partitions=[data])


def batch(count, base_offset=0):
    """So many records in one batch; each value is its offset."""
    builder = BatchBuilder(base_offset=base_offset)
    for offset in range(base_offset, base_offset + count):
        builder.append(1, b"key", str(offset).encode())
    data = bytearray(builder.close())
    assign_offsets(data, 0, base_offset, 3)
    return bytes(data)
