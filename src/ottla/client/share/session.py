"""Our half of a share session with one broker: the requests name what changed, and count. Plain.

    epoch 0     opens a session and names all partitions; nothing can be acknowledged with it
    1, 2, ...   goes on: partitions to add, partitions to forget, acknowledgements; after 2^31 - 1 comes 1
    -1          ends it: the broker releases what is not acknowledged

ShareFetch and ShareAcknowledge count together, and only a ShareFetch opens a session. The broker knows it by group and
member; when the connection is lost, or a number is missing, it forgets the session and releases its records.

1. One request is on its way at a time: `fetch`, `acknowledge` or `close`, then `answered` or `lost`.
2. When an answer is missing or says that the session is unknown, nobody knows what the broker remembers: the session is
   lost, and the next request opens a new one.
3. A topic that was deleted and made again has another id: it is forgotten and added again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.light_tuples import NamedTuple
from ottla.values import TopicPartition

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1


class SessionStep(NamedTuple):
    """What the next request says of the session; partitions with the ids of their topics."""

    epoch: int
    added: dict[TopicPartition, bytes]
    forgotten: dict[TopicPartition, bytes]


class ShareSession:
    """The session with one broker."""

    def __init__(self) -> None:
        self.epoch = INITIAL_EPOCH
        self.partitions: dict[TopicPartition, bytes] = {}

    @property
    def is_open(self) -> bool:
        """Whether acknowledgements can be sent."""
        return self.epoch != INITIAL_EPOCH

    def fetch(self, wanted: Mapping[TopicPartition, bytes]) -> SessionStep:
        """Read exactly these partitions."""
        before = self.partitions if self.is_open else {}
        added = {name: topic_id for name, topic_id in wanted.items() if before.get(name) != topic_id}
        forgotten = {name: topic_id for name, topic_id in before.items() if wanted.get(name) != topic_id}
        self.partitions = dict(wanted)
        return SessionStep(self.epoch, added, forgotten)

    def acknowledge(self) -> SessionStep:
        """Say something of records that we have."""
        assert self.is_open, "nothing can be acknowledged before a fetch"
        return SessionStep(self.epoch, {}, {})

    def close(self) -> SessionStep:
        assert self.is_open, "there is nothing to close"
        return SessionStep(FINAL_EPOCH, {}, {})

    def answered(self) -> None:
        """The broker went on with us."""
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def lost(self) -> None:
        """The broker forgot us, or may have."""
        self.epoch = INITIAL_EPOCH
        self.partitions = {}
