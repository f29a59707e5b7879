"""RemoveRaftVoter: a node, with a directory, is not to vote any more (cluster/raft/voter_changes.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.quorum.link import controller_link
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

ALTER_CLUSTER = Need(AclOperation.ALTER, AclResource.CLUSTER)
SERVES = Served(RemoveRaftVoterRequest, needs=(ALTER_CLUSTER,))


async def handle(broker: Broker, request: RemoveRaftVoterRequest, context: RequestContext) -> RemoveRaftVoterResponse:
    ALTER_CLUSTER.check(broker, context)
    change = await controller_link(broker).raft_loop.remove_voter(request)
    return RemoveRaftVoterResponse(error_code=change.error_code or 0, error_message=change.message)
