"""Who waits when a broker says "slow down": since which version of each API it is the client (KIP-219).

Before these versions the broker had already waited when its answer came, and the number in it is only for the record.
"""

from __future__ import annotations

from typing import Final

from ottla.net.connection import ApiVersionTable
from ottla.protocol.api import Api

_SINCE: Final = {
    "Produce": 6,
    "Fetch": 8,
    "ListOffsets": 3,
    "Metadata": 6,
    "OffsetCommit": 4,
    "OffsetFetch": 4,
    "FindCoordinator": 2,
    "JoinGroup": 3,
    "Heartbeat": 2,
    "LeaveGroup": 2,
    "SyncGroup": 2,
    "DescribeGroups": 2,
    "ListGroups": 2,
    "ApiVersions": 2,
    "CreateTopics": 3,
    "DeleteTopics": 2,
    "DeleteRecords": 1,
    "InitProducerId": 1,
    "AddPartitionsToTxn": 1,
    "AddOffsetsToTxn": 1,
    "EndTxn": 1,
    "TxnOffsetCommit": 1,
    "DescribeAcls": 1,
    "CreateAcls": 1,
    "DeleteAcls": 1,
    "DescribeConfigs": 2,
    "AlterConfigs": 1,
    "AlterReplicaLogDirs": 1,
    "DescribeLogDirs": 1,
    "CreatePartitions": 1,
    "CreateDelegationToken": 1,
    "RenewDelegationToken": 1,
    "ExpireDelegationToken": 1,
    "DescribeDelegationToken": 1,
    "DeleteGroups": 1,
}


def client_waits(api: Api, versions: ApiVersionTable | None, version: int | None, at_most: int | None) -> bool:
    """Whether the time in an answer is for us to wait; the version is the one that the request was sent in."""
    if version is None:
        version = api.versions.max if versions is None else versions.choose(api, at_most=at_most)
    return version >= _SINCE.get(api.name, 0)
