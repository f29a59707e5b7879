"""Which of our log directories has which replica: what the controllers are told (KIP-858).

1. A broker with several directories chooses where a new replica lies; until it has said so, the image has the replica
   in UNASSIGNED. The same when a replica has moved, or was found elsewhere than the image has it.
2. A replica that cannot be served, because it rotted and no other copy mends it, is LOST: the controllers take it out
   of the in-sync set, and another one leads. After a restart it is where it was, and catches up.
3. What differs is kept until the controller has taken it, or the image shows it, or the replica is gone. A request has
   at most ASSIGNMENTS_LIMIT partitions, as in Kafka, and one is on its way at a time.

Plain state: requests are returned as messages, responses come in as arguments.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from ottla.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)

ASSIGNMENTS_LIMIT: Final = 2_250


class DirectoryAssignments:
    """See the module; partitions are named by topic id and index."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self._wanted: dict[tuple[bytes, int], bytes] = {}

    def __len__(self) -> int:
        return len(self._wanted)

    def lies(self, topic_id: bytes, index: int, directory_id: bytes, known: bytes) -> None:
        """A replica lies in a directory, and the image has it in `known`."""
        if directory_id == known:
            self._wanted.pop((topic_id, index), None)
        else:
            self._wanted[topic_id, index] = directory_id

    def forget(self, topic_id: bytes, index: int) -> None:
        """The replica is not here any more."""
        self._wanted.pop((topic_id, index), None)

    def request(self, broker_epoch: int) -> AssignReplicasToDirsRequest | None:
        """What to send now; None when everything is told."""
        if not self._wanted:
            return None
        directories: dict[bytes, dict[bytes, TopicData]] = {}
        for (topic_id, index), directory_id in islice(self._wanted.items(), ASSIGNMENTS_LIMIT):
            topics = directories.setdefault(directory_id, {})
            topic = topics.setdefault(topic_id, TopicData(topic_id=topic_id, partitions=[]))
            topic.partitions.append(PartitionData(partition_index=index))
        return AssignReplicasToDirsRequest(
            broker_id=self._broker_id,
            broker_epoch=broker_epoch,
            directories=[DirectoryData(id=each, topics=list(topics.values())) for each, topics in directories.items()],
        )

    def answered(self, response: AssignReplicasToDirsResponse) -> bool:
        """Take in what the controller has taken; whether it was anything."""
        if response.error_code:
            return False
        accepted = [
            ((topic.topic_id, partition.partition_index), directory.id)
            for directory in response.directories
            for topic in directory.topics
            for partition in topic.partitions
            if not partition.error_code
        ]
        for name, directory_id in accepted:
            if self._wanted.get(name) == directory_id:
                del self._wanted[name]
        return bool(accepted)
